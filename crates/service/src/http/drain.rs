//! Bodies of requests that are answered before they were read. A connection that is closed while
//! the client still sends is reset, and with it the answer is lost. So what is left of the body is
//! read and dropped while the answer is on its way, up to a limit.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;

/// The most that is read and dropped.
const DROPPED_BYTES_MAX: usize = 64 << 20;
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A body whose rest is read and dropped once the request no longer needs it.
pub(crate) struct Lingering<B: Body<Data = Bytes> + Unpin + Send + 'static> {
    body: Option<B>,
    /// The client sends nothing until it is told to go on, which it is when the body is first asked for.
    waits: bool,
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Lingering<B> {
    /// A body of a client that waits for 100 Continue, or doesn't.
    pub(crate) fn new(body: B, waits: bool) -> Self {
        Self { body: Some(body), waits }
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Drop for Lingering<B> {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !self.waits && !body.is_end_stream()) else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(tokio::time::timeout(PATIENCE, dropped(body)));
        }
    }
}

/// Reads a body to its end, or as far as it is worth it.
async fn dropped<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let mut bytes = 0;
    while bytes < DROPPED_BYTES_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Body for Lingering<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.waits = false;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::{StreamExt, stream};
    use http_body_util::StreamBody;

    use super::*;
    use crate::sample::soon;

    const PIECES: usize = 20;

    /// A body that counts the pieces of it that are asked for.
    fn counted(asked: &Arc<AtomicUsize>) -> impl Body<Data = Bytes, Error = std::io::Error> + Unpin + Send + 'static + use<> {
        let asked = asked.clone();
        StreamBody::new(stream::iter(0..PIECES).map(move |_| {
            asked.fetch_add(1, Ordering::Relaxed);
            Ok(Frame::data(Bytes::from_static(b"piece")))
        }))
    }

    async fn settle() {
        for _ in 0..2 * PIECES {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_nobody_reads_is_read_and_dropped() {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut body = Lingering::new(counted(&asked), false);
        soon(body.frame()).await.expect("a piece").expect("no error");
        drop(body);
        settle().await;
        assert_eq!(asked.load(Ordering::Relaxed), PIECES);
    }

    #[tokio::test]
    async fn a_client_that_waits_is_not_told_to_send_what_nobody_reads() {
        let asked = Arc::new(AtomicUsize::new(0));
        drop(Lingering::new(counted(&asked), true));
        settle().await;
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        let mut body = Lingering::new(counted(&asked), true);
        soon(body.frame()).await.expect("a piece").expect("no error");
        drop(body);
        settle().await;
        assert_eq!(asked.load(Ordering::Relaxed), PIECES, "it was told already");
    }
}
