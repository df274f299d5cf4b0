//! Requests to the server, and what to do when they fail.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use fulgurite_client::{Refusal, Server, failure_of, next_frame, read_refusal};
use http::Method;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::files::FileError;
use crate::upload::FileBody;

/// Timeout for a response that makes no progress. The server looks up the whole list before it
/// sends anything.
const SILENCE: Duration = Duration::from_secs(300);
/// Maximum number of attempts for a request.
const ATTEMPTS_MAX: u32 = 8;
/// Pause before the second attempt; it doubles with each.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Called when a request is sent again, with the reason and the pause before.
pub type OnRetry<'a> = dyn Fn(&ExchangeError, Duration) + Sync + 'a;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The server refuses the request.
    #[error("{}{}", .0, .0.message.as_ref().map_or(String::new(), |message| format!(": {message}")))]
    Refused(Refusal),
    /// The connection failed, or the response ended early.
    #[error("{0}")]
    Failed(String),
    /// The response isn't that of a Fulgurite server.
    #[error("the response is malformed: {0}")]
    Malformed(String),
    /// The process can't get enough memory.
    #[error("not enough memory for an object of {0} bytes")]
    Memory(u64),
    /// The command was stopped.
    #[error("stopped")]
    Stopped,
    /// A file of the retrieval can't be read or written.
    #[error(transparent)]
    File(FileError),
}

impl ExchangeError {
    /// Whether another attempt may succeed, with the same arguments.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.is_transient(),
            Self::Failed(_) => true,
            Self::Malformed(_) | Self::Memory(_) | Self::Stopped | Self::File(_) => false,
        }
    }
}

/// A client of the server, for one thread.
pub(crate) struct Exchange<'a> {
    server: &'a Server,
    runtime: Runtime,
    on_retry: &'a OnRetry<'a>,
    stop: &'a AtomicBool,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(server: &'a Server, on_retry: &'a OnRetry<'a>, stop: &'a AtomicBool) -> io::Result<Self> {
        Ok(Self { server, runtime: Builder::new_current_thread().enable_all().build()?, on_retry, stop })
    }

    /// Sends a bulk get, or a query for its order, and passes the body of the response to
    /// `take`. If that fails for a reason that may pass, tries again from the beginning.
    pub(crate) fn post<T>(
        &self,
        query: &str,
        list: &Bytes,
        mut take: impl FnMut(&mut Response<'_>) -> Result<T, ExchangeError>,
    ) -> Result<T, ExchangeError> {
        let path = format!("/{}?{query}", self.server.bucket());
        self.retry(|| {
            let body = self.begin(self.server, &Method::POST, &path, &[], Some(list.len() as u64), Full::new(list.clone()))?;
            take(&mut Response { exchange: self, body, piece: Bytes::new(), failure: None })
        })
    }

    /// Tries something again as long as it fails for a reason that may pass.
    pub(crate) fn retry<T>(&self, mut attempt: impl FnMut() -> Result<T, ExchangeError>) -> Result<T, ExchangeError> {
        let mut pause = PAUSE;
        for number in 1.. {
            match attempt() {
                Err(error) if error.is_transient() && number < ATTEMPTS_MAX => (self.on_retry)(&error, pause),
                result => return result,
            }
            // The timer is made inside of the runtime.
            self.runtime.block_on(self.unless_stopped(SILENCE, async { tokio::time::sleep(pause).await }))?;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        unreachable!("the last attempt returns")
    }

    /// Sends a request with the content of a file, and returns the body of its response.
    pub(crate) fn send(
        &self,
        server: &Server,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        content: FileBody,
    ) -> Result<Vec<u8>, ExchangeError> {
        let length = (*method == Method::PUT).then_some(content.bytes());
        let body = self.begin(server, method, path, headers, length, content)?;
        let (mut response, mut text) = (Response { exchange: self, body, piece: Bytes::new(), failure: None }, Vec::new());
        match response.read_to_end(&mut text) {
            Ok(_) => Ok(text),
            Err(error) => Err(response.failed(|| ExchangeError::Failed(error.to_string()))),
        }
    }

    /// Fails if the command is stopped.
    pub(crate) fn check_stop(&self) -> Result<(), ExchangeError> {
        if self.stop.load(Ordering::Relaxed) { Err(ExchangeError::Stopped) } else { Ok(()) }
    }

    fn begin<B>(
        &self,
        server: &Server,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        length: Option<u64>,
        content: B,
    ) -> Result<Incoming, ExchangeError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // A second is added for each MiB that is sent.
        let limit = SILENCE + Duration::from_secs(length.unwrap_or(0) >> 20);
        self.runtime.block_on(self.unless_stopped(limit, async {
            let request = server.request(method, path, headers, length, content).await;
            let request = request.map_err(ExchangeError::Failed)?;
            let (mut sender, connection) = server.connect().await.map_err(ExchangeError::Failed)?;
            tokio::spawn(connection);
            let response = sender.send_request(request).await.map_err(|error| ExchangeError::Failed(failure_of(&error)))?;
            if !response.status().is_success() {
                return Err(ExchangeError::Refused(read_refusal(response.status(), response.into_body()).await));
            }
            Ok(response.into_body())
        }))?
    }

    /// Awaits `what`, but fails if the command is stopped or on a timeout.
    async fn unless_stopped<T>(&self, limit: Duration, what: impl Future<Output = T>) -> Result<T, ExchangeError> {
        let stopped = async {
            while !self.stop.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            biased;
            done = timeout(limit, what) => done.map_err(|_| ExchangeError::Failed("no response".to_owned())),
            () = stopped => Err(ExchangeError::Stopped),
        }
    }
}

/// The body of a response. Reading blocks.
pub(crate) struct Response<'a> {
    exchange: &'a Exchange<'a>,
    body: Incoming,
    piece: Bytes,
    /// Why reading failed, kept because intermediate readers may replace the error.
    failure: Option<ExchangeError>,
}

impl Response<'_> {
    /// The error of reading the body: the connection's, if it failed, else `error`.
    pub(crate) fn failed(&mut self, error: impl FnOnce() -> ExchangeError) -> ExchangeError {
        self.failure.take().unwrap_or_else(error)
    }
}

impl Read for Response<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let (exchange, body) = (self.exchange, &mut self.body);
            let failure = match exchange.runtime.block_on(exchange.unless_stopped(SILENCE, next_frame(body))) {
                Ok(None) => return Ok(0),
                Ok(Some(Ok(frame))) => {
                    self.piece = frame.into_data().unwrap_or_default();
                    continue;
                }
                Ok(Some(Err(error))) => ExchangeError::Failed(error),
                Err(error) => error,
            };
            let text = failure.to_string();
            self.failure = Some(failure);
            return Err(io::Error::other(text));
        }
        let count = self.piece.len().min(buffer.len());
        self.piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
