//! A connection whose client has to take what it asked for.
//!
//! The framework waits for as long as a client leaves answers lie, and so a client that reads nothing would have its connection for good, of which
//! there are so many.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long a client may be waited for, over what it takes in that time.
const PATIENCE: Duration = Duration::from_secs(60);
/// What it has to take in that time: 1 KiB a second.
const LEAST: u64 = 64 << 10;

/// Waits for a client, for so long over so many bytes. Time in which nobody waits for it does not count.
#[derive(Debug)]
pub(crate) struct Pace {
    patience: Duration,
    least: u64,
    /// Since when it is waited for.
    waits: Option<Instant>,
    /// How long it was waited for since so many bytes were moved.
    waited: Duration,
    moved: u64,
    alarm: Pin<Box<Sleep>>,
}

impl Pace {
    pub(crate) fn new(patience: Duration, least: u64) -> Self {
        let alarm = Box::pin(tokio::time::sleep(patience));
        Self { patience, least, waits: None, waited: Duration::ZERO, moved: 0, alarm }
    }

    /// From now on so many bytes have to be moved in the time.
    pub(crate) fn demand(&mut self, patience: Duration, least: u64) {
        (self.patience, self.least) = (patience, least);
    }

    /// The client has moved some bytes.
    pub(crate) fn moved(&mut self, bytes: u64) {
        if let Some(since) = self.waits.take() {
            self.waited += since.elapsed();
        }
        self.moved += bytes;
        if self.moved >= self.least {
            (self.waited, self.moved) = (Duration::ZERO, 0);
        }
    }

    /// The client is waited for. Ready when it was for too long.
    pub(crate) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.waits.is_none() {
            let now = Instant::now();
            self.waits = Some(now);
            self.alarm.as_mut().reset(now + self.patience.saturating_sub(self.waited));
        }
        self.alarm.as_mut().poll(context)
    }
}

/// A stream that fails with [`io::ErrorKind::TimedOut`] when its other end takes too little.
pub(crate) struct Patient<S> {
    stream: S,
    pace: Pace,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, pace: Pace::new(PATIENCE, LEAST) }
    }

    /// What becomes of a write, by what the stream says.
    fn look(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(written) => {
                self.pace.moved(*written.as_ref().unwrap_or(&0) as u64);
                Poll::Ready(written)
            }
            Poll::Pending => self.pace.poll_late(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.look(context, written)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.look(context, written)
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

    use super::*;

    /// Writes until the stream takes no more, and says how many bytes it took.
    async fn fill(stream: &mut Patient<tokio::io::DuplexStream>, most: usize) -> (usize, io::Result<()>) {
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
    async fn a_client_that_takes_nothing_is_given_up_after_a_minute() {
        let (server, _client) = tokio::io::duplex(10_000);
        let begun = Instant::now();
        let (taken, ended) = fill(&mut Patient::new(server), usize::MAX).await;
        assert_eq!((taken, ended.expect_err("it takes nothing").kind()), (10_000, io::ErrorKind::TimedOut));
        assert!(begun.elapsed() >= PATIENCE && begun.elapsed() < 2 * PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_little_now_and_then_is_given_up_too_and_a_slow_one_is_not() {
        for (bytes, is_enough) in [(1_000, false), (40_000, true)] {
            let (server, mut client) = tokio::io::duplex(10_000);
            let reader = tokio::spawn(async move {
                for _ in 0..20 {
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    read(&mut client, bytes).await;
                }
            });
            let (_, ended) = fill(&mut Patient::new(server), 20 * bytes).await;
            assert_eq!(ended.is_ok(), is_enough, "{bytes} bytes each 20 s");
            reader.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nothing_is_to_be_sent_does_not_count() {
        let (server, mut client) = tokio::io::duplex(10_000);
        let mut server = Patient::new(server);
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
