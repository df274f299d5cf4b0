//! Puts objects into the bucket, each once.
//!
//! A put carries `If-None-Match: *`, so it never replaces an object. If there is one already, its
//! content is compared: the same content means that an earlier delivery stored it. At Fulgurite's
//! servers, small objects are put in [`batches`](crate::batches).
//!
//! A server that refuses a put before it has read all of a large body closes the connection, and
//! its answer may be lost with it. So large objects are looked for before they are put, and all
//! objects after a put without an answer.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use base64_simd::STANDARD;
use bytes::Bytes;
use fulgurite_client::{CLOSED, Failure, Refusal, Server, failure_of, next_frame, read_refusal};
use fulgurite_digest::Md5;
use hex_simd::AsciiCase;
use http::header::{CONTENT_LENGTH, ETAG, SERVER};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::alert::Object;
use crate::batches::{Batched, Batches};
use crate::pipeline::Events;

/// Timeout of a request.
const SILENCE: Duration = Duration::from_secs(300);
/// How long a response may take before that is reported.
const SLOW: Duration = Duration::from_secs(10);
/// How long everything may take after the command was stopped.
const GRACE: Duration = Duration::from_secs(10);
/// How often to look whether it was stopped.
const GLANCE: Duration = Duration::from_millis(250);
/// Timeout of a put with its comparison, whose bodies may stall.
pub(crate) const PUT: Duration = Duration::from_secs(1000);
/// Pause before the second attempt; it doubles with each.
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Objects of more bytes are looked for before they are put.
const LOOK_FIRST: usize = 1 << 20;

/// Bytes of a path that aren't escaped.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The server acknowledged it.
    Now,
    /// It was there, with the same content.
    Earlier,
}

/// Why an object wasn't stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// This object can't be stored.
    #[error("{0}")]
    Object(String),
    /// No object can be stored.
    #[error("{0}")]
    Refused(String),
    /// The command was stopped.
    #[error("stopped")]
    Stopped,
}

/// The bucket.
pub struct Sink {
    pub(crate) server: Server,
    pub(crate) batches: Batches,
    connections: Semaphore,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    events: Arc<dyn Events>,
    stopped_at: OnceLock<Instant>,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Sink {
    /// A bucket at a server, reached over at most this number of connections.
    #[must_use]
    pub fn new(server: Server, connections: usize, events: Arc<dyn Events>) -> Self {
        Self {
            server,
            batches: Batches::default(),
            connections: Semaphore::new(connections),
            idle: Mutex::default(),
            events,
            stopped_at: OnceLock::new(),
        }
    }

    /// The bucket's name.
    #[must_use]
    pub fn bucket(&self) -> &str {
        self.server.bucket()
    }

    /// Ends attempts that failed so far, and after a few seconds all that aren't finished.
    pub fn stop(&self) {
        self.stopped_at.get_or_init(Instant::now);
    }

    /// Ends some time after the command was stopped.
    pub(crate) async fn given_up(&self) {
        while self.stopped_at.get().is_none_or(|at| at.elapsed() < GRACE) {
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Checks that the bucket exists, and whether small objects can be put together.
    ///
    /// # Errors
    /// Why it can't be used.
    pub async fn check(&self) -> Result<(), String> {
        let path = format!("/{}", self.server.bucket());
        match self.exchange(&Method::HEAD, &path, &[], Bytes::new()).await {
            Ok(response) if response.status().is_success() => {
                let server = response.headers().get(SERVER).and_then(|value| value.to_str().ok());
                self.find_bulk_puts(server).await;
                Ok(())
            }
            Ok(response) => Err(match response.status() {
                StatusCode::NOT_FOUND => format!("there is no bucket `{}`", self.server.bucket()),
                StatusCode::FORBIDDEN => {
                    format!("access to the bucket `{}` is denied: no permission, or wrong credentials", self.server.bucket())
                }
                status => format!("the bucket `{}`: {status}", self.server.bucket()),
            }),
            Err(error) => Err(format!("{}: {error}", self.server.endpoint())),
        }
    }

    /// Stores an object. Waits as long as the server can't be reached or can't store anything now.
    ///
    /// # Errors
    /// [`SinkError`] if trying again wouldn't help, or the command was stopped.
    pub async fn store(self: &Arc<Self>, object: &Object) -> Result<Stored, SinkError> {
        let mut looks_first = match self.put_in_batch(object).await {
            Batched::Stored => return Ok(Stored::Now),
            Batched::Taken => true,
            Batched::Unknown => object.content.len() > LOOK_FIRST,
        };
        let mut attempt = 0;
        loop {
            let attempted = async {
                if std::mem::replace(&mut looks_first, true)
                    && let Some(stored) = self.compare(object, false).await?
                {
                    return Ok(stored);
                }
                self.put(object).await
            };
            let put = timeout(PUT, attempted).await.unwrap_or_else(|_| Err(Trouble::Transient("no response".to_owned())));
            let failure = match put {
                Ok(stored) => return Ok(stored),
                Err(Trouble::Object(why)) => return Err(SinkError::Object(why)),
                Err(Trouble::Refused(why)) => return Err(SinkError::Refused(why)),
                Err(Trouble::Transient(why)) => why,
            };
            // A connection that the server closed while it was idle says nothing about the server.
            if attempt > 0 || failure != CLOSED {
                self.pause(attempt, &failure).await?;
            }
            attempt += 1;
        }
    }

    /// Waits before another attempt, the longer the more there were.
    ///
    /// # Errors
    /// [`SinkError::Stopped`] if the command was stopped.
    pub async fn pause(&self, attempts: u32, why: &str) -> Result<(), SinkError> {
        let until = Instant::now() + PAUSE.saturating_mul(1 << attempts.min(16)).min(PAUSE_MAX);
        if attempts > 0 {
            self.events.waiting(why);
        }
        while Instant::now() < until {
            if self.stopped_at.get().is_some() {
                return Err(SinkError::Stopped);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn put(&self, object: &Object) -> Result<Stored, Trouble> {
        let path = self.path_of(object);
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &object.content) as u32;
        let sum = STANDARD.encode_to_string(sum.to_be_bytes());
        let names: Vec<String> = object.metadata.iter().map(|(name, _)| format!("x-amz-meta-{name}")).collect();
        let mut headers = vec![("if-none-match", "*"), ("x-amz-checksum-crc32c", sum.as_str())];
        headers.extend(names.iter().zip(&object.metadata).map(|(name, (_, value))| (name.as_str(), value.as_str())));
        let response = self.exchange(&Method::PUT, &path, &headers, object.content.clone()).await.map_err(Trouble::Transient)?;
        match response.status() {
            StatusCode::OK => Ok(Stored::Now),
            status @ StatusCode::PRECONDITION_FAILED => {
                // Read to its end: the comparison may get the same connection.
                read_refusal(status, response.into_body()).await;
                // An object that isn't there any more was removed in between.
                self.compare(object, true).await?.ok_or_else(|| Trouble::Transient(CLOSED.to_owned()))
            }
            status => Err(Trouble::of(&object.key, read_refusal(status, response.into_body()).await)),
        }
    }

    fn path_of(&self, object: &Object) -> String {
        format!("/{}/{}", self.server.bucket(), utf8_percent_encode(&object.key, PATH))
    }

    /// Compares this object with the one that the bucket has under its key; `None` if it has none.
    /// Unless the key `is_taken`, a client without the right to look is told nothing else.
    async fn compare(&self, object: &Object, is_taken: bool) -> Result<Option<Stored>, Trouble> {
        let path = &self.path_of(object);
        let conflict = || Trouble::Object(format!("the bucket has another content as `{}`", object.key));
        let response = self.exchange(&Method::HEAD, path, &[], Bytes::new()).await.map_err(Trouble::Transient)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            // Without the right to list a bucket, S3 says this of an object that doesn't exist.
            // A put of an invalid key says why; the response to HEAD has no body.
            StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST if !is_taken => return Ok(None),
            status => return Err(Trouble::of(&object.key, Refusal { status, code: None, message: None })),
        }
        let text = |name| response.headers().get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let length = text(CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        if length.is_some_and(|length| length != object.content.len() as u64) {
            return Err(conflict());
        }
        if text(ETAG).is_some_and(|etag| etag.trim_matches('"') == hex_simd::encode_to_string(Md5::of(&object.content), AsciiCase::Lower)) {
            return Ok(Some(Stored::Earlier));
        }
        // Its ETag may be no MD5: it was uploaded in parts, or the server encrypts.
        let response = self.exchange(&Method::GET, path, &[], Bytes::new()).await.map_err(Trouble::Transient)?;
        if response.status() != StatusCode::OK {
            let refusal = read_refusal(response.status(), response.into_body()).await;
            return match (refusal.status, refusal.code.as_deref()) {
                // It was removed in between.
                (StatusCode::NOT_FOUND, _) => Ok(None),
                (_, Some("InvalidObjectState")) => {
                    Err(Trouble::Object(format!("the bucket has an object `{}` that can't be compared: {refusal}", object.key)))
                }
                _ => Err(Trouble::of(&object.key, refusal)),
            };
        }
        let mut body = response.into_body();
        let mut rest = &object.content[..];
        while let Some(frame) = next_frame(&mut body).await {
            let frame = frame.map_err(Trouble::Transient)?;
            let piece = frame.data_ref().map_or(&[][..], |data| data);
            rest = rest.strip_prefix(piece).ok_or_else(conflict)?;
        }
        if rest.is_empty() { Ok(Some(Stored::Earlier)) } else { Err(conflict()) }
    }

    /// Says again and again that a response takes long.
    async fn complain(&self) -> Failure {
        tokio::time::sleep(SLOW).await;
        loop {
            self.events.waiting("the server doesn't respond");
            tokio::time::sleep(GLANCE).await;
        }
    }

    pub(crate) async fn exchange(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        content: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let silent = || "no response".to_owned();
        let _permit = tokio::select! {
            permit = self.connections.acquire() => permit.map_err(|error| error.to_string())?,
            () = self.given_up() => return Err(silent()),
        };
        let length = matches!(*method, Method::PUT | Method::POST).then_some(content.len() as u64);
        let request = self.server.request(method, path, headers, length, Full::new(content)).await?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let exchange = async {
            let mut sender = match idle.filter(|sender| !sender.is_closed()) {
                Some(sender) => sender,
                None => {
                    let (sender, connection) = self.server.connect().await?;
                    tokio::spawn(connection);
                    sender
                }
            };
            sender.ready().await.map_err(|error| failure_of(&error))?;
            let response = sender.send_request(request).await.map_err(|error| failure_of(&error))?;
            Ok::<_, Failure>((sender, response))
        };
        let (sender, response) = tokio::select! {
            exchanged = timeout(SILENCE, exchange) => exchanged.map_err(|_| silent())??,
            failure = self.complain() => return Err(failure),
            () = self.given_up() => return Err(silent()),
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Ok(response)
    }
}

/// Why an attempt failed.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    Object(String),
    Refused(String),
    Transient(String),
}

impl Trouble {
    fn of(key: &str, refusal: Refusal) -> Self {
        let why = match &refusal.message {
            Some(message) => format!("{refusal}: {message}"),
            None => refusal.to_string(),
        };
        let code = refusal.code.as_deref().unwrap_or_default();
        let is_transient = refusal.is_transient()
            || refusal.status == StatusCode::CONFLICT
            // The content was damaged on the way.
            || matches!(code, "BadDigest" | "IncompleteBody" | "RequestTimeout" | "SlowDown");
        if is_transient {
            return Self::Transient(why);
        }
        // The request is malformed for this key alone. If all requests are, the dead letter can't
        // be stored either, and the command ends.
        let is_of_object = matches!(refusal.status, StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::URI_TOO_LONG)
            && !matches!(code, "AuthorizationHeaderMalformed" | "ExpiredToken" | "InvalidToken");
        let why = format!("the server refuses `{key}`: {why}");
        if is_of_object { Self::Object(why) } else { Self::Refused(why) }
    }
}

#[cfg(test)]
mod tests;
