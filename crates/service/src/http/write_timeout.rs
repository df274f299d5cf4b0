//! A stream with a minimum write rate. hyper waits forever for clients that don't read their
//! responses, so such a client would keep one of the limited connections for good.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::min_rate::MinRate;

/// How long the server waits for a client in total, until it has taken [`STALL_BYTES_MIN`] bytes.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Bytes that a client must take within [`STALL_MAX`]: 1 KiB/s.
const STALL_BYTES_MIN: u64 = 64 << 10;

/// A stream whose writes fail with [`io::ErrorKind::TimedOut`] if the peer reads too slowly.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    min_rate: MinRate,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, min_rate: MinRate::new(STALL_MAX, STALL_BYTES_MIN) }
    }

    /// Counts a finished write; fails a pending one that has waited too long.
    fn record_write(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(written) => {
                self.min_rate.count(*written.as_ref().unwrap_or(&0) as u64);
                Poll::Ready(written)
            }
            Poll::Pending => self.min_rate.poll_too_slow(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.record_write(context, written)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.record_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::Instant;

    use super::*;

    /// Writes until the stream takes no more, and returns how many bytes it took.
    async fn fill(stream: &mut WriteTimeout<tokio::io::DuplexStream>, most: usize) -> (usize, io::Result<()>) {
        let mut taken = 0;
        while taken < most {
            match poll_fn(|context| Pin::new(&mut *stream).poll_write(context, &[7; 1_000])).await {
                Ok(bytes) => taken += bytes,
                Err(error) => return (taken, Err(error)),
            }
        }
        (taken, Ok(()))
    }

    async fn read(client: &mut tokio::io::DuplexStream, bytes: usize) {
        let mut buffer = vec![0; bytes];
        let mut buffer = ReadBuf::new(&mut buffer);
        while buffer.remaining() > 0 {
            poll_fn(|context| Pin::new(&mut *client).poll_read(context, &mut buffer)).await.expect("read");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_times_out_after_a_minute() {
        let (server, _client) = tokio::io::duplex(10_000);
        let begun = Instant::now();
        let (taken, ended) = fill(&mut WriteTimeout::new(server), usize::MAX).await;
        assert_eq!((taken, ended.expect_err("it takes nothing").kind()), (10_000, io::ErrorKind::TimedOut));
        assert!(begun.elapsed() >= STALL_MAX && begun.elapsed() < 2 * STALL_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickling_client_times_out_and_a_slow_one_does_not() {
        for (bytes, is_enough) in [(1_000, false), (40_000, true)] {
            let (server, mut client) = tokio::io::duplex(10_000);
            let reader = tokio::spawn(async move {
                for _ in 0..20 {
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    read(&mut client, bytes).await;
                }
            });
            let (_, ended) = fill(&mut WriteTimeout::new(server), 20 * bytes).await;
            assert_eq!(ended.is_ok(), is_enough, "{bytes} bytes each 20 s");
            reader.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_does_not_count() {
        let (server, mut client) = tokio::io::duplex(10_000);
        let mut server = WriteTimeout::new(server);
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(600)).await;
            let reader = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                read(&mut client, 12_000).await;
                client
            });
            fill(&mut server, 12_000).await.1.expect("taken");
            client = reader.await.expect("read");
        }
    }
}
