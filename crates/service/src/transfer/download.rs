//! Downloads: large objects on their way to clients of any speed.
//!
//! ```text
//! page cache --------------------------> stream --> client
//! reader thread --> channel (1 item) --> stream --> client
//! ```
//!
//! Staged content that is in the page cache is read by the stream itself, in pieces that stay in
//! the processor's cache until they are sent. From the first piece that would have to wait for a
//! disk, or for memory, a reader thread reads.
//!
//! An item is a data record, or a frame if clients already hold as many data records as the memory
//! allows. A reader that waits more than 1 s for the channel ends, and the next one resumes at
//! `left.start`. So a slow client holds no thread and no read permit, and no more memory than two
//! items: one in `pieces` and one in the channel. A waiting reader holds a third.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fulgurite_archive::Archive;
use fulgurite_archive::object::{ObjectReader, Opened, ReadError};
use futures_util::{Stream, StreamExt, stream};
use s3s::StdError;
use s3s::dto::StreamingBlob;
use s3s::stream::{ByteStream, RemainingLength};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::transfer::Transfers;
use crate::transfer::buffers::Buffers;

/// Content of a data record, which is read in one go.
const RECORD_BYTES: u64 = 1 << 20;
/// Content of a frame, the smallest unit that can be read.
const FRAME_BYTES: u64 = 64 << 10;
/// Content that is read from the page cache in one go.
const CACHED_READ_BYTES: u64 = 256 << 10;
/// Bytes read from the page cache before the task yields.
const YIELD_BYTES: u64 = 1 << 20;
/// How long a reader waits for its client before it ends and releases its permit.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);

/// What a reader thread needs to read an object.
#[derive(Clone)]
struct Source {
    archive: Arc<Archive>,
    opened: Arc<Opened>,
    buffers: Buffers,
    /// Permits for data records in memory, shared by all clients.
    record_permits: Arc<Semaphore>,
}

/// State of a download.
struct Download {
    source: Source,
    /// Permits for readers.
    reader_permits: Arc<Semaphore>,
    /// The content that was not returned yet, including pieces already read.
    left: Range<u64>,
    pieces: VecDeque<Bytes>,
    /// The running reader.
    reader: Option<Reader>,
    /// Bytes read from the page cache since other tasks could run.
    bytes_since_yield: u64,
}

/// A reader thread.
struct Reader {
    pieces_rx: mpsc::Receiver<Result<VecDeque<Bytes>, StdError>>,
    thread: JoinHandle<()>,
}

/// Streams a range of an object. A read error ends the stream.
pub(crate) fn stream(
    transfers: &Transfers,
    opened: Opened,
    range: Range<u64>,
) -> impl Stream<Item = Result<Bytes, StdError>> + Send + use<> {
    let source = Source {
        archive: transfers.archive.clone(),
        opened: Arc::new(opened),
        buffers: transfers.buffers.clone(),
        record_permits: transfers.download_records.clone(),
    };
    let download = Download {
        source,
        reader_permits: transfers.download_permits.clone(),
        left: range,
        pieces: VecDeque::new(),
        reader: None,
        bytes_since_yield: 0,
    };
    stream::unfold(Some(download), |download| async {
        let mut download = download?;
        let next = download.next().await?;
        let continues = next.is_ok();
        Some((next, continues.then_some(download)))
    })
}

impl Download {
    async fn next(&mut self) -> Option<Result<Bytes, StdError>> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                self.left.start += piece.len() as u64;
                return Some(Ok(piece));
            }
            if self.left.is_empty() {
                return None;
            }
            if self.reader.is_none() {
                // A fast client would keep this task running without a break. It yields before a
                // read: the one before has been sent, so it can't leave the processor's cache
                // unsent.
                self.bytes_since_yield += CACHED_READ_BYTES;
                if self.bytes_since_yield > YIELD_BYTES {
                    self.bytes_since_yield = 0;
                    tokio::task::yield_now().await;
                }
                if let Some(pieces) = self.source.read_cached(&self.left) {
                    self.pieces = pieces;
                    continue;
                }
            }
            let reader = match &mut self.reader {
                Some(reader) => reader,
                None => {
                    let reader_permit = self.reader_permits.clone().acquire_owned().await.expect("it is never closed");
                    let (pieces_tx, pieces_rx) = mpsc::channel(1);
                    let (source, range, runtime) = (self.source.clone(), self.left.clone(), Handle::current());
                    let thread = tokio::task::spawn_blocking(move || {
                        let _reader_permit = reader_permit;
                        source.read(range, &pieces_tx, &runtime);
                    });
                    self.reader.insert(Reader { pieces_rx, thread })
                }
            };
            match reader.pieces_rx.recv().await {
                Some(Ok(pieces)) => self.pieces = pieces,
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    // The next reader would panic at the same place.
                    if let Err(error) = (&mut reader.thread).await {
                        tracing::error!(%error, "the reader of a download panicked");
                        return Some(Err(error.into()));
                    }
                    // The reader gave up waiting for the client. The pieces that it couldn't
                    // deliver are read again.
                    self.reader = None;
                }
            }
        }
    }
}

impl Source {
    /// Reads until the range ends or the client falls behind.
    fn read(&self, mut range: Range<u64>, pieces_tx: &mpsc::Sender<Result<VecDeque<Bytes>, StdError>>, runtime: &Handle) {
        let mut reader = ObjectReader::new(&self.archive).sharing_platters();
        while !range.is_empty() {
            let found = self.read_some(&mut reader, &mut range).map_err(|error| {
                tracing::error!(%error, name = %self.opened.version().record.name.display(), "can't read an object");
                StdError::from(error)
            });
            let is_error = found.is_err();
            let sent = runtime.block_on(async { tokio::time::timeout(CLIENT_TIMEOUT, pieces_tx.send(found)).await });
            if is_error || !matches!(sent, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Reads the next content if that needs no disk, and if a permit for a data record is free.
    fn read_cached(&self, left: &Range<u64>) -> Option<VecDeque<Bytes>> {
        if !self.opened.is_staged() {
            return None;
        }
        let record_permit = self.record_permits.clone().try_acquire_owned().ok()?;
        let now = left.start..((left.start / CACHED_READ_BYTES + 1) * CACHED_READ_BYTES).min(left.end);
        let mut buffer = self.buffers.take();
        let found = self.opened.read_cached(&now, &mut buffer);
        let shared = self.buffers.share(buffer, record_permit);
        found.map(|pieces| pieces.into_iter().map(|piece| shared.slice(piece)).collect())
    }

    /// Reads a data record, or a frame if no permit for one is free.
    fn read_some(&self, reader: &mut ObjectReader<'_>, range: &mut Range<u64>) -> Result<VecDeque<Bytes>, ReadError> {
        let mut record_permit = self.record_permits.clone().try_acquire_owned().ok();
        let unit = if record_permit.is_some() { RECORD_BYTES } else { FRAME_BYTES };
        let now = range.start..((range.start / unit + 1) * unit).min(range.end);
        range.start = now.end;
        let mut found = VecDeque::new();
        reader.read_opened(&self.opened, now, &mut |buffer, pieces| {
            match record_permit.take() {
                Some(record_permit) => {
                    let shared = self.buffers.share(std::mem::replace(buffer, self.buffers.take()), record_permit);
                    found.extend(pieces.iter().map(|piece| shared.slice(piece.clone())));
                }
                None => found.extend(pieces.iter().map(|piece| Bytes::copy_from_slice(&buffer[piece.clone()]))),
            }
            Ok::<_, io::Error>(())
        })?;
        Ok(found)
    }
}

/// A stream of known length, so that the response has a Content-Length. A stream that ends early
/// aborts the connection.
struct SizedStream<S> {
    stream: SyncStream<S>,
    left: u64,
}

/// A stream of `length` bytes, as the body of a response.
pub(crate) fn blob(stream: impl Stream<Item = Result<Bytes, StdError>> + Send + Unpin + 'static, length: u64) -> StreamingBlob {
    StreamingBlob::new(SizedStream { stream: SyncStream(Mutex::new(stream)), left: length })
}

/// Makes a stream `Sync`, as the framework requires. Only one task ever polls it.
struct SyncStream<S>(Mutex<S>);

impl<S: Stream + Unpin> Stream for SyncStream<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.0.get_mut().expect("it is never locked").poll_next_unpin(context)
    }
}

impl<S: Stream<Item = Result<Bytes, StdError>> + Unpin> Stream for SizedStream<S> {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.stream.poll_next_unpin(context);
        if let Poll::Ready(Some(Ok(bytes))) = &next {
            self.left = self.left.saturating_sub(bytes.len() as u64);
        }
        next
    }
}

impl<S: Stream<Item = Result<Bytes, StdError>> + Unpin> ByteStream for SizedStream<S> {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::new_exact(self.left as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::{TestGateway, soon};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reader_that_panics_ends_the_stream_with_an_error() {
        let test = TestGateway::new();
        test.put("moon", &vec![1; 3 << 20]).await;
        let transfers = &test.gateway.transfers;
        let version = test.gateway.namespace.find("photos", "moon", None).expect("found");
        let source = Source {
            archive: transfers.archive.clone(),
            opened: Arc::new(ObjectReader::new(&transfers.archive).open(&version.row).expect("opened")),
            buffers: transfers.buffers.clone(),
            record_permits: transfers.download_records.clone(),
        };
        let download = |end: fn()| {
            let (pieces_tx, pieces_rx) = mpsc::channel(1);
            let thread = tokio::task::spawn_blocking(move || {
                let _pieces_tx = pieces_tx;
                end();
            });
            Download {
                source: source.clone(),
                reader_permits: transfers.download_permits.clone(),
                left: 0..3 << 20,
                pieces: VecDeque::new(),
                reader: Some(Reader { pieces_rx, thread }),
                bytes_since_yield: 0,
            }
        };
        let panicked = soon(download(|| panic!("a defect")).next()).await.expect("not the end");
        assert!(panicked.is_err());
        // Without a permit, nothing is read from the page cache.
        let record_permits = transfers.download_records.clone();
        let _taken = record_permits.acquire_many(record_permits.available_permits() as u32).await.expect("permits");
        let mut given_up = download(|| {});
        let piece = soon(given_up.next()).await.expect("not the end").expect("another reader reads it");
        assert!(!piece.is_empty() && given_up.reader.is_some());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn content_from_the_page_cache_and_from_a_reader_makes_a_whole() {
        let test = TestGateway::new();
        let content: Vec<u8> = (0..3 << 20).map(|at| (at * 31 + at / 251) as u8).collect();
        test.put("moon", &content).await;
        let transfers = &test.gateway.transfers;
        let version = test.gateway.namespace.find("photos", "moon", None).expect("found");
        let mut reader = ObjectReader::new(&transfers.archive);
        // Large pieces were written past the page cache, where it can be bypassed.
        reader.read(&version.row, &mut |_| Ok(())).expect("read");
        let begin = 77_777;
        let mut download = Download {
            source: Source {
                archive: transfers.archive.clone(),
                opened: Arc::new(reader.open(&version.row).expect("opened")),
                buffers: transfers.buffers.clone(),
                record_permits: transfers.download_records.clone(),
            },
            reader_permits: transfers.download_permits.clone(),
            left: begin..content.len() as u64,
            pieces: VecDeque::new(),
            reader: None,
            bytes_since_yield: 0,
        };
        let (mut found, mut taken) = (Vec::new(), Vec::new());
        while let Some(piece) = soon(download.next()).await {
            found.extend_from_slice(&piece.expect("read"));
            // Without a permit, a reader is needed from here on. Sent pieces give theirs back.
            if found.len() > 1 << 20 {
                let records = &transfers.download_records;
                // A reader may take one at the same time.
                taken.extend(records.clone().try_acquire_many_owned(records.available_permits() as u32));
            }
        }
        assert!(found == content[begin as usize..]);
        assert!(download.reader.is_some());
    }
}
