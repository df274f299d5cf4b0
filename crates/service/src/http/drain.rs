//! Drains bodies of requests that are answered early. If the server closes a connection while the
//! client still sends, the connection is reset and the response is lost. So the rest of the body is
//! read and discarded while the response is sent, up to a limit.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;

/// Maximum number of bytes that are drained of a body.
const DRAINED_BYTES_MAX: usize = 64 << 20;
/// Maximum time to drain a body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A request body. When it is dropped, the rest is read and discarded.
pub(crate) struct DrainOnDrop<B: Body<Data = Bytes> + Unpin + Send + 'static> {
    body: Option<B>,
    /// The client waits for 100 Continue, which it gets when the body is first polled. Until then
    /// it sends nothing.
    awaits_continue: bool,
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> DrainOnDrop<B> {
    pub(crate) fn new(body: B, awaits_continue: bool) -> Self {
        Self { body: Some(body), awaits_continue }
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Drop for DrainOnDrop<B> {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !self.awaits_continue && !body.is_end_stream()) else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(tokio::time::timeout(DRAIN_TIMEOUT, drain(body)));
        }
    }
}

/// Reads a body up to its end or the limit.
async fn drain<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let mut bytes = 0;
    while bytes < DRAINED_BYTES_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Body for DrainOnDrop<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.awaits_continue = false;
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
    use crate::test_gateway::soon;

    const PIECES: usize = 20;

    /// A body that counts how many of its pieces were polled.
    fn counted(polled: &Arc<AtomicUsize>) -> impl Body<Data = Bytes, Error = std::io::Error> + Unpin + Send + 'static + use<> {
        let polled = polled.clone();
        StreamBody::new(stream::iter(0..PIECES).map(move |_| {
            polled.fetch_add(1, Ordering::Relaxed);
            Ok(Frame::data(Bytes::from_static(b"piece")))
        }))
    }

    async fn settle() {
        for _ in 0..2 * PIECES {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_unread_body_is_drained() {
        let polled = Arc::new(AtomicUsize::new(0));
        let mut body = DrainOnDrop::new(counted(&polled), false);
        soon(body.frame()).await.expect("a piece").expect("no error");
        drop(body);
        settle().await;
        assert_eq!(polled.load(Ordering::Relaxed), PIECES);
    }

    #[tokio::test]
    async fn a_client_that_waits_for_100_continue_is_not_drained() {
        let polled = Arc::new(AtomicUsize::new(0));
        drop(DrainOnDrop::new(counted(&polled), true));
        settle().await;
        assert_eq!(polled.load(Ordering::Relaxed), 0);
        let mut body = DrainOnDrop::new(counted(&polled), true);
        soon(body.frame()).await.expect("a piece").expect("no error");
        drop(body);
        settle().await;
        assert_eq!(polled.load(Ordering::Relaxed), PIECES, "the body was polled");
    }
}
