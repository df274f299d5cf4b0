//! Bodies of requests on their way from the socket to the framework.
//!
//! A request may be answered before its body was read. The connection can't be used again then, and the client has to be told, or its next
//! request fails. And content in signed chunks ends with an empty chunk, which the framework takes for granted. [`chunks`](crate::chunks) sees to their size.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use s3s::StdError;

use crate::chunks::Chunks;

/// How the empty chunk begins.
const LAST_CHUNK: &[u8] = b"\r\n0;chunk-signature=";
/// Bytes of the empty chunk with its signature and all ends of lines.
const LAST_CHUNK_BYTES: usize = LAST_CHUNK.len() + 64 + 4;

/// Whether a body was read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Ended(Arc<AtomicBool>);

impl Ended {
    pub(crate) fn is_ended(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A body that says when it ends.
pub(crate) struct Watched {
    body: Incoming,
    ended: Ended,
    /// The last bytes of content in signed chunks.
    tail: Option<Vec<u8>>,
    /// Where it comes in chunks.
    chunks: Option<Chunks>,
    /// What has come of them and goes on next.
    waiting: VecDeque<Bytes>,
}

impl Watched {
    pub(crate) fn new(body: Incoming, headers: &HeaderMap) -> (Self, Ended) {
        let ended = Ended(Arc::new(AtomicBool::new(body.is_end_stream())));
        let is_signed = |kind: &[u8]| kind == b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
        let kind = headers.get("x-amz-content-sha256").map(|value| value.as_bytes()).filter(|kind| kind.starts_with(b"STREAMING-"));
        let watched = Self {
            body,
            ended: ended.clone(),
            tail: kind.is_some_and(is_signed).then(Vec::new),
            chunks: kind.map(|_| Chunks::new()),
            waiting: VecDeque::new(),
        };
        (watched, ended)
    }
}

/// Keeps the last bytes of what comes in pieces.
fn keep(tail: &mut Vec<u8>, piece: &[u8]) {
    if piece.len() >= LAST_CHUNK_BYTES {
        tail.clear();
        tail.extend_from_slice(&piece[piece.len() - LAST_CHUNK_BYTES..]);
    } else {
        let over = (tail.len() + piece.len()).saturating_sub(LAST_CHUNK_BYTES);
        tail.drain(..over);
        tail.extend_from_slice(piece);
    }
}

/// Whether content ends with the empty chunk. Where that is all of it, no end of a line stands before.
fn has_last_chunk(tail: &[u8]) -> bool {
    tail.starts_with(&LAST_CHUNK[2..]) || tail.windows(LAST_CHUNK.len()).any(|window| window == LAST_CHUNK)
}

impl Body for Watched {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        loop {
            if let Some(bytes) = self.waiting.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            if frame.is_none() || self.body.is_end_stream() {
                self.ended.0.store(true, Ordering::Release);
            }
            match (&frame, &mut self.tail) {
                (Some(Ok(frame)), Some(tail)) => frame.data_ref().into_iter().for_each(|bytes| keep(tail, bytes)),
                (None, Some(tail)) if !has_last_chunk(tail) => return Poll::Ready(Some(Err("the last chunk is missing".into()))),
                _ => {}
            }
            let this = &mut *self;
            match (frame, &mut this.chunks) {
                (Some(Ok(frame)), Some(chunks)) => match frame.into_data() {
                    Ok(bytes) => chunks.take(bytes, &mut this.waiting).map_err(|error| -> StdError { error.into() })?,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                (None, Some(chunks)) => match chunks.end() {
                    Some(bytes) => this.waiting.push_back(bytes),
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
        // Chunks that are cut up have more heads.
        if self.chunks.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_chunk_is_found_however_content_is_cut() {
        let last = format!("0;chunk-signature={}\r\n\r\n", "a".repeat(64));
        let content = format!("5;chunk-signature={}\r\nhello\r\n{last}", "b".repeat(64));
        for length in [1, 7, 89, content.len()] {
            let mut tail = Vec::new();
            content.as_bytes().chunks(length).for_each(|piece| keep(&mut tail, piece));
            assert!(has_last_chunk(&tail), "pieces of {length}");
        }
        assert!(has_last_chunk(last.as_bytes()));
        let mut tail = Vec::new();
        keep(&mut tail, &content.as_bytes()[..content.len() - last.len()]);
        assert!(!has_last_chunk(&tail));
    }
}
