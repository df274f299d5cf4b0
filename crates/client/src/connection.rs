//! Connections and their errors.

use std::fmt;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1::SendRequest;

use crate::server::Server;

/// Why an exchange failed, in a few words that are the same for all failures of a kind.
pub type Failure = String;

/// The server closed the connection.
pub const CLOSED: &str = "connection closed";

/// Maximum bytes read of an error response.
const ERROR_BYTES: usize = 8 << 10;

impl Server {
    /// A signed request for a path such as `/bucket/key?versions`. `length` is the body's
    /// Content-Length; with `None`, the request has no such header.
    ///
    /// # Errors
    /// If the path or a header is malformed, or credentials can't be read.
    pub async fn request<B>(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        length: Option<u64>,
        body: B,
    ) -> Result<Request<B>, Failure> {
        let uri = format!("{}://{}{path}", self.address.scheme(), self.address.authority());
        let mut request = Request::builder().method(method.clone()).uri(uri).header("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).map_err(|error| error.to_string())?.into_parts();
        self.signer.sign(&mut parts, None).await.map_err(|error| format!("can't sign: {error}"))?;
        parts.headers.insert(HOST, HeaderValue::from_str(self.address.authority()).map_err(|error| error.to_string())?);
        if let Some(length) = length {
            parts.headers.insert(CONTENT_LENGTH, length.into());
        }
        parts.uri = parts.uri.path_and_query().map_or_else(|| Uri::from_static("/"), |path| Uri::from(path.clone()));
        Ok(Request::from_parts(parts, body))
    }

    /// Opens a connection. The returned future drives it; poll it while requests run. The sender
    /// returns errors of the connection.
    ///
    /// # Errors
    /// If the server can't be reached, or TLS fails.
    pub async fn connect<B>(&self) -> Result<(SendRequest<B>, impl Future<Output = ()> + Send + use<B>), Failure>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.address.connect().await
    }
}

/// The next frame of a body; `None` at its end.
pub async fn next_frame(body: &mut Incoming) -> Option<Result<Frame<Bytes>, Failure>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await.map(|frame| frame.map_err(|error| failure_of(&error)))
}

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// S3's code, such as `SlowDown`.
    pub code: Option<String>,
    /// S3's message.
    pub message: Option<String>,
}

impl Refusal {
    /// Whether the same request may succeed later: 5xx except 501, 408 and 429.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.status.is_server_error() && self.status != StatusCode::NOT_IMPLEMENTED
            || matches!(self.status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{} {code}", self.status.as_u16()),
            None => self.status.fmt(f),
        }
    }
}

/// Reads the body of a response that isn't a success.
pub async fn read_refusal(status: StatusCode, mut body: Incoming) -> Refusal {
    let mut text = Vec::new();
    while text.len() < ERROR_BYTES
        && let Some(Ok(frame)) = next_frame(&mut body).await
    {
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    let text = String::from_utf8_lossy(&text);
    let element = |name: &str| Some(text.split_once(&format!("<{name}>"))?.1.split_once(&format!("</{name}>"))?.0.to_owned());
    let is_code = |code: &String| code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    Refusal { status, code: element("Code").filter(is_code), message: element("Message") }
}

/// Maps an error of a connection to a [`Failure`].
#[must_use]
pub fn failure_of(error: &hyper::Error) -> Failure {
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return CLOSED.to_owned();
    }
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    match source.map(io::Error::kind) {
        None => "invalid answer".to_owned(),
        // A request that is sent to a closed connection gets one of these, depending on timing.
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe) => CLOSED.to_owned(),
        Some(kind) => format!("connection failed: {kind}"),
    }
}
