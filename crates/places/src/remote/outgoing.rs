//! Bodies of requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use opendal::Buffer;
use tokio::sync::mpsc::Receiver;

/// Largest piece handed to the socket at once, so that progress of an upload is noticed.
const PIECE_BYTES: usize = 256 << 10;

/// How often a piece of the body was taken. An upload is alive while this grows.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(super) fn pieces(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) struct Outgoing {
    source: Source,
    remaining: u64,
    progress: Progress,
}

enum Source {
    /// In memory, so that it can be sent again.
    Whole { rest: Buffer, piece: Bytes },
    /// From a reader, piece by piece.
    Stream(Receiver<Bytes>),
}

impl Outgoing {
    pub(super) fn whole(content: Buffer, progress: Progress) -> Self {
        let remaining = content.len() as u64;
        Self { source: Source::Whole { rest: content, piece: Bytes::new() }, remaining, progress }
    }

    /// A body of `bytes` bytes. If the sender drops its end early, the request fails.
    pub(super) fn stream(pieces: Receiver<Bytes>, bytes: u64, progress: Progress) -> Self {
        Self { source: Source::Stream(pieces), remaining: bytes, progress }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let piece = match &mut this.source {
            Source::Whole { rest, piece } => {
                if piece.is_empty() {
                    *piece = rest.next().unwrap_or_default();
                }
                let part = piece.split_to(piece.len().min(PIECE_BYTES));
                (!part.is_empty()).then_some(part)
            }
            Source::Stream(pieces) => match pieces.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(piece) => piece,
            },
        };
        let Some(piece) = piece else { return Poll::Ready(None) };
        this.remaining = this.remaining.saturating_sub(piece.len() as u64);
        this.progress.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}
