//! Answers that take a while in large archives, made once for all viewers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use s3s::S3Result;
use tokio::sync::Mutex;

/// How long an answer is given again.
const FRESH: Duration = Duration::from_secs(2);
/// It is given again for at least this multiple of the time that it took, so that viewers of a
/// large archive can't keep a core busy.
const IDLE_RATIO: u32 = 20;

/// The last answer, for all viewers.
#[derive(Debug)]
pub(super) struct Cached<T>(Mutex<Option<Answer<T>>>);

#[derive(Debug)]
struct Answer<T> {
    at: Instant,
    fresh_for: Duration,
    value: Arc<T>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Cached<T> {
    /// The last answer while it is fresh, else a new one.
    pub(super) async fn get(&self, make: impl FnOnce() -> S3Result<T>) -> S3Result<Arc<T>> {
        // Viewers that ask meanwhile wait for the same answer.
        let mut last = self.0.lock().await;
        if let Some(answer) = &*last
            && answer.at.elapsed() < answer.fresh_for
        {
            return Ok(answer.value.clone());
        }
        let start = Instant::now();
        let value = Arc::new(make()?);
        let at = Instant::now();
        *last = Some(Answer { at, fresh_for: FRESH.max((at - start) * IDLE_RATIO), value: value.clone() });
        Ok(value)
    }
}
