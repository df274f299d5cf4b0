//! A client of an S3 server: one connection, one request at a time.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Operation;
use crate::content::{Checker, Content, PIECE};
use crate::objects::Task;
use crate::server::Server;

/// Maximum bytes read of an error response.
const ERROR_BYTES: usize = 8 << 10;

/// A connection to a server. It is made anew after a failure.
pub(crate) struct Connection {
    server: Arc<Server>,
    sender: Option<SendRequest<Upload>>,
}

/// Why an exchange failed, in a few words that are the same for all failures of a kind.
type Failure = String;

impl Connection {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self { server, sender: None }
    }

    pub(crate) async fn perform(&mut self, task: &Task, key: &str) -> Result<u64, Failure> {
        let content = task.content;
        let path = format!("/{}/{key}", self.server.bucket);
        match task.operation {
            Operation::Ingest | Operation::Update => {
                self.exchange(Method::PUT, &path, Some(content), None).await?;
                Ok(content.bytes)
            }
            Operation::Access => {
                let mut checker = Checker::new(content.number, content.bytes);
                self.exchange(Method::GET, &path, None, Some(&mut checker)).await?;
                if checker.is_complete() { Ok(content.bytes) } else { Err("wrong bytes".to_owned()) }
            }
            Operation::Delete => {
                self.exchange(Method::DELETE, &path, None, None).await?;
                Ok(0)
            }
        }
    }

    /// Creates the bucket, unless it exists.
    pub(crate) async fn create_bucket(&mut self) -> Result<(), Failure> {
        let path = format!("/{}", self.server.bucket);
        match self.exchange(Method::PUT, &path, None, None).await {
            Err(failure) if failure.starts_with("409 ") => Ok(()),
            created => created,
        }
    }

    /// Sends a request and reads the response. If the server closes a reused connection before it
    /// answers, sends the request once more on a new one: the server may have closed it while it
    /// was idle, which isn't a failure.
    async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        upload: Option<Content>,
        checker: Option<&mut Checker>,
    ) -> Result<(), Failure> {
        let was_used = self.sender.is_some();
        let answer = match self.send(&method, path, upload).await {
            Err(failure) if was_used && failure == CLOSED => self.send(&method, path, upload).await,
            answer => answer,
        };
        let (status, body) = answer?;
        let read = if status.is_success() { self.read(body, checker).await } else { Err(refused(status, body).await) };
        if read.is_err() {
            // Unread bytes of this response would be taken for the next one.
            self.sender = None;
        }
        read
    }

    async fn send(&mut self, method: &Method, path: &str, upload: Option<Content>) -> Result<(StatusCode, Incoming), Failure> {
        let request = self.request(method, path, upload).await?;
        let mut sender = match self.sender.take() {
            Some(sender) => sender,
            None => connect(&self.server).await?,
        };
        sender.ready().await.map_err(|error| failed(&error))?;
        let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
        self.sender = Some(sender);
        Ok((response.status(), response.into_body()))
    }

    async fn request(&self, method: &Method, path: &str, upload: Option<Content>) -> Result<Request<Upload>, Failure> {
        let scheme = if self.server.tls.is_some() { "https" } else { "http" };
        let uri = format!("{scheme}://{}{path}", self.server.authority);
        let mut request = Request::builder().method(method.clone()).uri(uri).header("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        if let (Some(_), Some(class)) = (upload, &self.server.storage_class) {
            request = request.header("x-amz-storage-class", class);
        }
        let (mut parts, ()) = request.body(()).map_err(|error| error.to_string())?.into_parts();
        self.server.signer.sign(&mut parts, None).await.map_err(|error| format!("can't sign: {error}"))?;
        parts.headers.insert(HOST, HeaderValue::from_str(&self.server.authority).map_err(|error| error.to_string())?);
        if *method == Method::PUT {
            parts.headers.insert(CONTENT_LENGTH, upload.map_or(0, |content| content.bytes).into());
        }
        parts.uri = parts.uri.path_and_query().map_or_else(|| Uri::from_static("/"), |path| Uri::from(path.clone()));
        Ok(Request::from_parts(parts, Upload { content: upload, at: 0 }))
    }

    async fn read(&mut self, mut body: Incoming, mut checker: Option<&mut Checker>) -> Result<(), Failure> {
        while let Some(frame) = next(&mut body).await {
            if let (Ok(data), Some(checker)) = (frame?.into_data(), &mut checker)
                && !checker.take(&data)
            {
                return Err("wrong bytes".to_owned());
            }
        }
        match checker {
            Some(checker) if !checker.is_complete() => Err(if checker.taken() == 0 { "no content" } else { "wrong bytes" }.to_owned()),
            _ => Ok(()),
        }
    }
}

async fn next(body: &mut Incoming) -> Option<Result<Frame<Bytes>, Failure>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await.map(|frame| frame.map_err(|error| failed(&error)))
}

/// Status and code of a refusal, such as `503 SlowDown`.
async fn refused(status: StatusCode, mut body: Incoming) -> Failure {
    let mut text = Vec::new();
    while text.len() < ERROR_BYTES
        && let Some(Ok(frame)) = next(&mut body).await
    {
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    let text = String::from_utf8_lossy(&text);
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map(|(code, _)| code);
    let is_code = |code: &&str| code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match code.filter(is_code) {
        Some(code) => format!("{} {code}", status.as_u16()),
        None => status.to_string(),
    }
}

/// The server closed the connection before it answered.
const CLOSED: &str = "connection closed";

fn failed(error: &hyper::Error) -> Failure {
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return CLOSED.to_owned();
    }
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.map_or_else(|| "invalid answer".to_owned(), |source| format!("connection failed: {}", source.kind()))
}

async fn connect(server: &Server) -> Result<SendRequest<Upload>, Failure> {
    let failed_io = |error: io::Error| format!("no connection: {}", error.kind());
    let stream = TcpStream::connect((server.host.as_str(), server.port)).await.map_err(failed_io)?;
    stream.set_nodelay(true).map_err(failed_io)?;
    match &server.tls {
        None => speak(stream).await,
        Some((config, name)) => {
            let stream = TlsConnector::from(config.clone()).connect(name.clone(), stream).await;
            speak(stream.map_err(|error| format!("TLS failed: {error}"))?).await
        }
    }
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Result<SendRequest<Upload>, Failure> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    // The sender reports this connection's errors.
    tokio::task::spawn_local(async { drop(connection.await) });
    Ok(sender)
}

/// The body of a request: content that is made while it is sent.
pub(crate) struct Upload {
    content: Option<Content>,
    at: u64,
}

impl Upload {
    fn left(&self) -> u64 {
        self.content.map_or(0, |content| content.bytes - self.at)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.left().min(PIECE);
        let Some(content) = self.content.filter(|_| length > 0) else { return Poll::Ready(None) };
        let piece = content.piece(self.at, length);
        self.at += length;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}
