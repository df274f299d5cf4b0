//! The library in motion, as server-sent events for pages.
//!
//! A stream begins with an event `picture`, the library's present state. Events `motions` follow,
//! with what could be seen since. Both hold what `fulgurite_viewer` makes of it. A stream whose
//! reader is too slow ends; the reader opens another, which begins with a picture.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulgurite_live::{Motions, Picture};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Library;

/// How often motions are sent.
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(200);
/// How often events are sent if nothing moves: pages see that the server is there.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Events that a slow reader may lag behind.
const LAG_MAX: usize = 50;
/// Most readers at a time.
const READERS_MAX: usize = 200;

/// An event of the stream.
#[derive(Debug, Clone)]
struct Report {
    number: u64,
    text: Bytes,
}

/// Readers of the stream.
#[derive(Debug, Clone)]
pub(super) struct Readers(broadcast::Sender<Option<Report>>);

impl Default for Readers {
    fn default() -> Self {
        Self(broadcast::Sender::new(LAG_MAX))
    }
}

impl Readers {
    /// Whether there are any.
    pub(super) fn exist(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Ends all streams.
    pub(super) fn end(&self) {
        let _ = self.0.send(None);
    }
}

/// Sends motions to the readers.
pub(super) struct Reporter {
    readers: Readers,
    sent_at: Instant,
}

impl Reporter {
    pub(super) fn new(readers: Readers) -> Self {
        Self { readers, sent_at: Instant::now() }
    }

    pub(super) fn readers(&self) -> &Readers {
        &self.readers
    }

    pub(super) fn report(&mut self, motions: &Motions) {
        if motions.entries.is_empty() && self.sent_at.elapsed() < SILENCE_MAX {
            return;
        }
        self.sent_at = Instant::now();
        let data = json!({ "now": motions.now.0 / 1_000, "entries": motions.entries.json() });
        let report = Report { number: motions.number, text: event("motions", &data) };
        // The last reader may just have gone.
        let _ = self.readers.0.send(Some(report));
    }
}

/// Why there is no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoMotions {
    /// Too many read it already.
    TooMany,
    /// The library has stopped.
    Stopped,
}

impl Library {
    /// The library in motion, as server-sent events, until the library stops. Blocks until the
    /// library has taken its picture.
    pub(crate) fn motions(&self) -> Result<impl Stream<Item = Result<Bytes, Infallible>> + use<>, NoMotions> {
        if self.readers.0.receiver_count() >= READERS_MAX {
            return Err(NoMotions::TooMany);
        }
        // Before the picture is taken, so that nothing is missed.
        let reports = self.readers.0.subscribe();
        let Picture { next, recording } = self.runner.picture().filter(|_| !self.is_stopping()).ok_or(NoMotions::Stopped)?;
        let mut picture = recording.json();
        picture["timeScale"] = self.time_scale.into();
        let following = stream::unfold(reports, move |mut reports| async move {
            loop {
                return match reports.recv().await {
                    Ok(Some(report)) if report.number < next => continue,
                    Ok(Some(report)) => Some((Ok(report.text), reports)),
                    Ok(None) | Err(RecvError::Closed | RecvError::Lagged(_)) => None,
                };
            }
        });
        let first = event("picture", &picture);
        Ok(stream::once(async { Ok(first) }).chain(following))
    }
}

fn event(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}
