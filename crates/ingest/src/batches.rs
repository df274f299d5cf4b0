//! Small objects that wait at the same time are put together, with one request.
//!
//! ```text
//! store -> queue -> sender: takes what waits -> bulk put -> stored, compared, or put alone
//! ```
//!
//! Nothing waits for a batch to fill: while senders wait for the server, others queue up, so the
//! busier the server, the larger the batches. A batch reports which objects it stored, and which
//! keys were taken. Whatever else happens to an object, it is put alone then, which finds out why.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64_simd::STANDARD;
use bytes::Bytes;
use fulgurite_client::{BulkPut, BulkPutLine, ENTRY_BYTES_MAX, SERVER_NAME, read_bulk_put, read_refusal};
use http::{Method, StatusCode};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::alert::Object;
use crate::sink::{PUT, Sink};

/// Requests that are open at once. With more, batches are smaller.
const SENDERS: usize = 2;
/// Maximum number of objects in a batch.
const OBJECTS: usize = 256;
/// Maximum content of a batch.
const BYTES: usize = 4 << 20;
/// Maximum content of an object in a batch; a larger one gains nothing.
const OBJECT_BYTES: usize = 128 << 10;

/// What a batch did for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Batched {
    /// The server acknowledged it.
    Stored,
    /// There is an object with its key.
    Taken,
    /// Nothing is known: it is to be put alone.
    Unknown,
}

/// An object that waits, and where to say what was done for it.
struct Waiting {
    object: Object,
    batched_tx: oneshot::Sender<Batched>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    senders: usize,
}

/// The objects that wait, at a server that can put them together.
#[derive(Default)]
pub(crate) struct Batches {
    is_enabled: AtomicBool,
    state: Mutex<State>,
}

impl Batches {
    pub(crate) fn enable(&self, is_enabled: bool) {
        self.is_enabled.store(is_enabled, Ordering::Relaxed);
    }

    /// A poisoned lock is usable: no change of the state can be left half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch, without a key twice. `None` if nothing waits; then its sender no longer
    /// counts.
    fn take(&self) -> Option<Vec<Waiting>> {
        let mut state = self.lock();
        let (mut batch, mut keys, mut bytes) = (Vec::new(), HashSet::new(), 0);
        while let Some(next) = state.waiting.front() {
            bytes += next.object.content.len();
            let fits = bytes <= BYTES && batch.len() < OBJECTS && !keys.contains(&next.object.key);
            if !batch.is_empty() && !fits {
                break;
            }
            keys.insert(next.object.key.clone());
            batch.extend(state.waiting.pop_front());
        }
        if batch.is_empty() {
            state.senders -= 1;
            return None;
        }
        Some(batch)
    }
}

/// Counts a sender. If it ends in any other way than for lack of work, nothing waits for it.
struct SenderGuard<'a> {
    batches: &'a Batches,
    is_counted: bool,
}

impl Drop for SenderGuard<'_> {
    fn drop(&mut self) {
        if self.is_counted {
            let mut state = self.batches.lock();
            state.senders -= 1;
            state.waiting.clear();
        }
    }
}

impl Sink {
    /// Looks whether the server has bulk puts. Others never see one.
    pub(crate) async fn find_bulk_puts(&self, server: Option<&str>) {
        let is_found = server == Some(SERVER_NAME)
            && match self.exchange(&Method::POST, &self.server.bulk_put_path(), &[], BulkPut::default().finish()).await {
                Ok(response) if response.status() == StatusCode::OK => read_bulk_put(response.into_body(), 0).await.is_ok(),
                // Nothing is known then, and the first batch will tell.
                Ok(response) => read_refusal(response.status(), response.into_body()).await.is_transient(),
                Err(_) => true,
            };
        self.batches.enable(is_found);
    }

    /// Puts an object together with others.
    pub(crate) async fn put_in_batch(self: &Arc<Self>, object: &Object) -> Batched {
        if object.content.len() > OBJECT_BYTES || !self.batches.is_enabled.load(Ordering::Relaxed) {
            return Batched::Unknown;
        }
        let (batched_tx, batched_rx) = oneshot::channel();
        let starts = {
            let mut state = self.batches.lock();
            state.waiting.push_back(Waiting { object: object.clone(), batched_tx });
            let starts = state.senders < SENDERS;
            state.senders += usize::from(starts);
            starts
        };
        if starts {
            tokio::spawn(self.clone().send_batches());
        }
        batched_rx.await.unwrap_or(Batched::Unknown)
    }

    async fn send_batches(self: Arc<Self>) {
        let mut guard = SenderGuard { batches: &self.batches, is_counted: true };
        loop {
            // Tasks that are about to store more join the batch.
            tokio::task::yield_now().await;
            let Some(batch) = self.batches.take() else { break };
            let batched = match &batch[..] {
                [_] => Vec::new(),
                _ => timeout(PUT, self.put_batch(&batch)).await.unwrap_or_default(),
            };
            let batched = batched.into_iter().chain(std::iter::repeat(Batched::Unknown));
            for (Waiting { batched_tx, .. }, batched) in batch.into_iter().zip(batched) {
                // The store that waited for it may have been dropped.
                let _ = batched_tx.send(batched);
            }
        }
        guard.is_counted = false;
    }

    /// Puts a batch. Returns what was done for each object; nothing if that isn't known.
    async fn put_batch(&self, batch: &[Waiting]) -> Vec<Batched> {
        let archive = archive_of(batch);
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &archive) as u32;
        let sum = STANDARD.encode_to_string(sum.to_be_bytes());
        let headers = [("if-none-match", "*"), ("x-amz-checksum-crc32c", sum.as_str())];
        let response = self.exchange(&Method::POST, &self.server.bulk_put_path(), &headers, archive).await;
        let Ok(response) = response else { return Vec::new() };
        if response.status() != StatusCode::OK {
            let refusal = read_refusal(response.status(), response.into_body()).await;
            // The next ones would fare the same.
            let is_for_good = matches!(refusal.status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED)
                || refusal.code.as_deref() == Some("AccessDenied");
            if is_for_good {
                self.batches.enable(false);
            }
            return Vec::new();
        }
        let lines = read_bulk_put(response.into_body(), batch.len()).await.unwrap_or_default();
        let batched = |(line, waiting): (&BulkPutLine, &Waiting)| match &line.code {
            _ if line.key != waiting.object.key => Batched::Unknown,
            None => Batched::Stored,
            Some(code) if code == "PreconditionFailed" => Batched::Taken,
            Some(_) => Batched::Unknown,
        };
        lines.iter().zip(batch).map(batched).collect()
    }
}

fn archive_of(batch: &[Waiting]) -> Bytes {
    let bytes = batch.iter().map(|waiting| waiting.object.content.len() + ENTRY_BYTES_MAX).sum();
    let mut bulk_put = BulkPut::with_capacity(bytes);
    for Waiting { object, .. } in batch {
        let names: Vec<String> = object.metadata.iter().map(|(name, _)| format!("x-amz-meta-{name}")).collect();
        let headers: Vec<(&str, &str)> =
            names.iter().zip(&object.metadata).map(|(name, (_, value))| (name.as_str(), value.as_str())).collect();
        bulk_put.push(&object.key, &headers, &object.content);
    }
    bulk_put.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(batches: &Batches, sizes: &[usize]) {
        for (index, size) in sizes.iter().enumerate() {
            let object = Object { key: index.to_string(), content: vec![0; *size].into(), metadata: Vec::new() };
            batches.lock().waiting.push_back(Waiting { object, batched_tx: oneshot::channel().0 });
        }
    }

    #[test]
    fn a_batch_has_what_waits_up_to_its_limits() {
        let batches = Batches::default();
        batches.lock().senders = 1;
        waiting(&batches, &vec![0; OBJECTS + 3]);
        let lengths = || std::iter::from_fn(|| batches.take()).map(|batch| batch.len()).collect::<Vec<_>>();
        assert_eq!((lengths(), batches.lock().senders), (vec![OBJECTS, 3], 0));
        batches.lock().senders = 1;
        waiting(&batches, &[BYTES / 2, BYTES / 2, 1, BYTES, 1]);
        assert_eq!(lengths(), [2, 1, 1, 1]);
        batches.lock().senders = 1;
        waiting(&batches, &[1, 1]);
        waiting(&batches, &[1, 1, 1]);
        assert_eq!(lengths(), [2, 3], "a key twice");
    }

    #[test]
    fn nothing_waits_for_a_sender_that_has_ended() {
        let batches = Batches::default();
        let (batched_tx, mut batched_rx) = oneshot::channel();
        let object = Object { key: "a".to_owned(), content: Bytes::new(), metadata: Vec::new() };
        {
            let mut state = batches.lock();
            state.senders = 1;
            state.waiting.push_back(Waiting { object, batched_tx });
        }
        drop(SenderGuard { batches: &batches, is_counted: true });
        assert!(batched_rx.try_recv().is_err() && batches.lock().senders == 0);
    }
}
