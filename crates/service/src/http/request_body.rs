//! Wraps request bodies between the socket and the framework.
//!
//! A request may be answered before its body was read. The connection can't be reused then, and the
//! client must learn that, or its next request fails. Content in signed chunks must end with an
//! empty chunk, which the framework doesn't check. [`aws_chunked`](crate::transfer::aws_chunked)
//! limits the size of chunks.
//!
//! Every client has to send its body at a minimum rate. Bodies and signed chunks that the framework
//! buffers whole take shared memory ([`memory`](crate::memory)), by the bytes received and for as
//! long as the request lasts.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use s3s::{S3Error, StdError, s3_error};
use tokio::time::Instant;

use crate::http::min_rate::MinRate;
use crate::memory::MemoryReservation;
use crate::s3::errors::{FirstError, busy};
use crate::transfer::aws_chunked::ChunkSplitter;

/// A client must send 64 KiB per minute of waiting: 1 KiB/s.
const STALL_MAX: Duration = Duration::from_secs(60);
const STALL_BYTES_MIN: u64 = 64 << 10;
/// The same for a client whose body has reserved shared memory: 17 KiB/s.
const RESERVED_STALL_MAX: Duration = Duration::from_secs(30);
const RESERVED_STALL_BYTES_MIN: u64 = 512 << 10;
/// How long a body may take from its first wait for memory until it has all it needs. It keeps what
/// it has reserved while it waits, so the limit is short.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(10);
/// Approximate maximum ratio of parsed XML to its source, in bytes.
const PARSED_XML_RATIO: usize = 8;
/// Bytes that a body may buffer without reserving shared memory.
const UNCHARGED_BYTES_MAX: usize = 128 << 10;

/// Start of the empty chunk.
const LAST_CHUNK: &[u8] = b"\r\n0;chunk-signature=";
/// Length of the empty chunk with its signature and line ends.
const LAST_CHUNK_BYTES: usize = LAST_CHUNK.len() + 64 + 4;

/// State of a body that outlives it: the router needs it to answer the request.
#[derive(Debug)]
pub(crate) struct BodyProgress {
    /// Whether the body was read to its end.
    ended: AtomicBool,
    /// Shared memory for the buffered part.
    reservation: Mutex<MemoryReservation>,
    /// Why the rest of the body was rejected, for the router.
    first_error: FirstError,
    /// When the last bytes arrived.
    last_activity: Mutex<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is usable: each value is set in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BodyProgress {
    pub(crate) fn new(reservation: MemoryReservation, first_error: FirstError) -> Arc<Self> {
        Arc::new(Self {
            ended: AtomicBool::new(false),
            reservation: Mutex::new(reservation),
            first_error,
            last_activity: Mutex::new(Instant::now()),
        })
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// When the last bytes of the body arrived, or else the request.
    pub(crate) fn last_activity(&self) -> Instant {
        *lock(&self.last_activity)
    }

    fn refuse(&self, error: S3Error) -> StdError {
        self.first_error.keep(error).into()
    }
}

/// A request body that enforces the minimum rate and the memory limit, and records its end.
pub(crate) struct RequestBody<B> {
    body: B,
    progress: Arc<BodyProgress>,
    min_rate: MinRate,
    /// The timeout of the wait for memory, once the body had to wait.
    memory_timeout: Option<Pin<Box<tokio::time::Sleep>>>,
    /// Whether the framework buffers the whole body.
    is_buffered: bool,
    received: usize,
    /// The last bytes of content in signed chunks.
    tail: Option<Vec<u8>>,
    /// The chunk parser, if the content is in chunks.
    chunks: Option<ChunkSplitter>,
    /// Bytes from the parser that are returned next.
    output: VecDeque<Bytes>,
}

impl<B: Body> RequestBody<B> {
    /// Wraps a body. If `is_buffered`, the framework buffers all of it, otherwise only signed
    /// chunks.
    pub(crate) fn new(body: B, headers: &HeaderMap, is_buffered: bool, progress: Arc<BodyProgress>) -> Self {
        progress.ended.store(body.is_end_stream(), Ordering::Release);
        let is_signed = |kind: &[u8]| kind == b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
        let kind = headers.get("x-amz-content-sha256").map(|value| value.as_bytes()).filter(|kind| kind.starts_with(b"STREAMING-"));
        Self {
            body,
            progress,
            min_rate: MinRate::new(STALL_MAX, STALL_BYTES_MIN),
            memory_timeout: None,
            is_buffered,
            received: 0,
            tail: kind.is_some_and(is_signed).then(Vec::new),
            chunks: kind.map(|_| ChunkSplitter::new()),
            output: VecDeque::new(),
        }
    }

    /// Adjusts the reservation to what the framework buffers by now; waits if too little memory is
    /// free.
    fn poll_memory(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        let buffered = if self.is_buffered {
            PARSED_XML_RATIO * self.received
        } else {
            self.chunks.as_ref().map_or(0, |chunks| chunks.buffered_bytes() as usize)
        };
        let needed = buffered.saturating_sub(UNCHARGED_BYTES_MAX);
        let mut reservation = lock(&self.progress.reservation);
        if needed == reservation.bytes() || reservation.try_resize(needed) {
            if needed > 0 {
                self.min_rate.set(RESERVED_STALL_MAX, RESERVED_STALL_BYTES_MIN);
            } else {
                self.min_rate.set(STALL_MAX, STALL_BYTES_MIN);
            }
            return Poll::Ready(Ok(()));
        }
        reservation.wake_when_freed(context);
        drop(reservation);
        let timeout = self.memory_timeout.get_or_insert_with(|| Box::pin(tokio::time::sleep(MEMORY_TIMEOUT)));
        ready!(timeout.as_mut().poll(context));
        Poll::Ready(Err(self.progress.refuse(busy("Too much is being sent at once. Please reduce your request rate.", 5))))
    }
}

/// Keeps the last [`LAST_CHUNK_BYTES`] of a stream.
fn append_tail(tail: &mut Vec<u8>, piece: &[u8]) {
    if piece.len() >= LAST_CHUNK_BYTES {
        tail.clear();
        tail.extend_from_slice(&piece[piece.len() - LAST_CHUNK_BYTES..]);
    } else {
        let over = (tail.len() + piece.len()).saturating_sub(LAST_CHUNK_BYTES);
        tail.drain(..over);
        tail.extend_from_slice(piece);
    }
}

/// Whether the content ends with the empty chunk. Without other chunks, it has no line end before
/// it.
fn has_last_chunk(tail: &[u8]) -> bool {
    tail.starts_with(&LAST_CHUNK[2..]) || tail.windows(LAST_CHUNK.len()).any(|window| window == LAST_CHUNK)
}

impl<B: Body<Data = Bytes, Error: Into<StdError>> + Unpin> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        loop {
            if let Some(bytes) = self.output.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if let Err(error) = ready!(self.poll_memory(context)) {
                return Poll::Ready(Some(Err(error)));
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                ready!(self.min_rate.poll_too_slow(context));
                let late = "Your socket connection to the server was not read from or written to within the timeout period.";
                return Poll::Ready(Some(Err(self.progress.refuse(s3_error!(RequestTimeout, "{late}")))));
            };
            if let Some(Ok(frame)) = &frame {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.received += bytes;
                self.min_rate.count(bytes as u64);
                *lock(&self.progress.last_activity) = Instant::now();
            }
            if frame.is_none() || self.body.is_end_stream() {
                self.progress.ended.store(true, Ordering::Release);
            }
            match (&frame, &mut self.tail) {
                (Some(Ok(frame)), Some(tail)) => frame.data_ref().into_iter().for_each(|bytes| append_tail(tail, bytes)),
                (None, Some(tail)) if !has_last_chunk(tail) => return Poll::Ready(Some(Err("the last chunk is missing".into()))),
                _ => {}
            }
            let this = &mut *self;
            match (frame, &mut this.chunks) {
                (Some(Ok(frame)), Some(chunks)) => match frame.into_data() {
                    Ok(bytes) => chunks.push(bytes, &mut this.output).map_err(|error| -> StdError { error.into() })?,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                (None, Some(chunks)) => match chunks.end() {
                    Some(bytes) => this.output.push_back(bytes),
                    None => return Poll::Ready(None),
                },
                (frame, _) => return Poll::Ready(frame.map(|frame| frame.map_err(Into::into))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.tail.is_none() && self.chunks.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        // Chunks that are split have more headers, so the size is unknown.
        if self.chunks.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_chunk_is_found_however_the_stream_is_split() {
        let last = format!("0;chunk-signature={}\r\n\r\n", "a".repeat(64));
        let content = format!("5;chunk-signature={}\r\nhello\r\n{last}", "b".repeat(64));
        for length in [1, 7, 89, content.len()] {
            let mut tail = Vec::new();
            content.as_bytes().chunks(length).for_each(|piece| append_tail(&mut tail, piece));
            assert!(has_last_chunk(&tail), "pieces of {length}");
        }
        assert!(has_last_chunk(last.as_bytes()));
        let mut tail = Vec::new();
        append_tail(&mut tail, &content.as_bytes()[..content.len() - last.len()]);
        assert!(!has_last_chunk(&tail));
    }
}
