//! Bodies of answers: with a deadline between bytes, and counted against the length they state.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use hyper::body::{Body, Incoming};
use opendal::Buffer;
use tokio::time::{Instant, Sleep, sleep};

use super::super::{Cause, Refusal};
use super::connect::Socket;
use super::transport::Shared;

/// A body on its way. The socket returns to its pool after the end, unless something was wrong.
pub(super) struct Content {
    body: Incoming,
    socket: Option<Socket>,
    shared: Arc<Shared>,
    /// Ends the wait for the next byte.
    silence: Pin<Box<Sleep>>,
    received: u64,
    stated: Option<u64>,
    /// Bytes that this body may have.
    limit: u64,
    ended: bool,
}

impl Content {
    pub(super) fn new(body: Incoming, socket: Socket, shared: Arc<Shared>, stated: Option<u64>, limit: u64) -> Self {
        let silence = Box::pin(sleep(shared.deadlines.between_bytes));
        Self { body, socket: Some(socket), shared, silence, received: 0, stated, limit, ended: false }
    }

    /// The next piece; `None` after the last one, if all of the answer arrived.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        let polled = self.poll_inner(cx);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.ended = true;
            self.socket = None;
        }
        polled
    }

    fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers contain nothing that is needed.
                    let Ok(piece) = frame.into_data() else { continue };
                    if piece.is_empty() {
                        continue;
                    }
                    self.received += piece.len() as u64;
                    if self.received > self.limit {
                        let detail = format!("the answer is longer than {} bytes, which no such answer should be", self.limit);
                        return Poll::Ready(Some(Err(Refusal::new(Cause::Fault, detail))));
                    }
                    self.silence.as_mut().reset(Instant::now() + self.shared.deadlines.between_bytes);
                    return Poll::Ready(Some(Ok(piece)));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(self.broken(&error)))),
                Poll::Ready(None) => return self.poll_end(cx),
                Poll::Pending => {
                    if self.silence.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    let wait = self.shared.deadlines.between_bytes;
                    let detail = format!("no further byte within {wait:?}, after {}", self.progress());
                    return Poll::Ready(Some(Err(Refusal::new(Cause::TimedOut, detail))));
                }
            }
        }
    }

    /// After the last byte: returns the socket, unless the server goes on sending.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        if let Some(stated) = self.stated
            && stated != self.received
        {
            let cut = Cause::Cut { received: self.received, stated };
            return Poll::Ready(Some(Err(Refusal::new(cut, ""))));
        }
        let Some(socket) = &mut self.socket else { return Poll::Ready(None) };
        let reusable = match socket.sender.poll_ready(cx) {
            Poll::Ready(ready) => ready.is_ok(),
            // The end of the answer has arrived, so this takes no other byte. The deadline covers
            // a connection that never gets there.
            Poll::Pending if self.silence.as_mut().poll(cx).is_pending() => return Poll::Pending,
            Poll::Pending => false,
        };
        if socket.sent_too_much() {
            let received = self.received.saturating_add(1);
            return Poll::Ready(Some(Err(Refusal::new(
                Cause::Cut { received, stated: self.stated.unwrap_or(self.received) },
                "the server sent more than its answer stated",
            ))));
        }
        if reusable && let Some(socket) = self.socket.take() {
            self.shared.keep(socket);
        }
        Poll::Ready(None)
    }

    fn progress(&self) -> String {
        match self.stated {
            Some(stated) => format!("{} of {stated} bytes", self.received),
            None => format!("{} bytes", self.received),
        }
    }

    fn broken(&self, error: &hyper::Error) -> Refusal {
        let cut_off = matches!(io_kind(error), Some(io::ErrorKind::UnexpectedEof)) || error.is_incomplete_message();
        match (cut_off, self.stated) {
            (true, Some(stated)) => Refusal::new(Cause::Cut { received: self.received, stated }, ""),
            (true, None) => Refusal::new(Cause::Connection, format!("the answer broke off after {}", self.progress())),
            (false, _) => Refusal::new(failure(error), format!("after {}: {}", self.progress(), chain(error))),
        }
    }
}

/// As opendal wants it. The shared notes keep what really happened.
impl Stream for Content {
    type Item = opendal::Result<Buffer>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.poll_piece(cx).map(|piece| {
            piece.map(|piece| match piece {
                Ok(piece) => Ok(Buffer::from(piece)),
                Err(refusal) => Err(this.shared.failed(refusal)),
            })
        })
    }
}

/// What kind of trouble an error of the HTTP library is.
pub(super) fn failure(error: &hyper::Error) -> Cause {
    match io_kind(error) {
        Some(io::ErrorKind::TimedOut) => Cause::TimedOut,
        _ if error.is_parse() => Cause::Fault,
        _ => Cause::Connection,
    }
}

fn io_kind(error: &hyper::Error) -> Option<io::ErrorKind> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        source = error.source();
    }
    None
}

/// An error and its sources, in one sentence.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}
