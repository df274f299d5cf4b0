//! Puts complete parts into a bucket.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use base64_simd::STANDARD;
use bytes::Bytes;
use fulgurite_client::Server;
use fulgurite_digest::{Algorithm, Digest, Digester};
use http::{Method, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::exchange::{Exchange, ExchangeError};
use crate::files::at;
use crate::job::RetrievalError;

/// Bytes of a path that aren't escaped.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
/// Bytes of a value in a query that aren't escaped.
const QUERY: &AsciiSet = &PATH.add(b'/');
/// Bytes that are read from a file at a time.
const PIECE: usize = 256 << 10;

/// The bucket that parts are put into.
#[derive(Debug)]
pub struct Destination {
    /// The server and the bucket.
    pub server: Server,
    /// What the keys begin with: empty, or ending in a slash if it is meant as a folder.
    pub prefix: String,
}

impl Destination {
    /// The bucket and the prefix, as in an S3 URL.
    pub(crate) fn address(&self) -> String {
        format!("s3://{}/{}", self.server.bucket(), self.prefix)
    }

    /// Checks that the bucket can be reached.
    pub(crate) fn check(&self, exchange: &Exchange<'_>) -> Result<(), RetrievalError> {
        let (bucket, path) = (self.server.bucket(), format!("/{}", self.server.bucket()));
        let checked = exchange.retry(|| exchange.send(&self.server, &Method::HEAD, &path, &[], FileBody::empty()));
        checked.map(drop).map_err(|error| match &error {
            ExchangeError::Refused(refusal) if refusal.status == StatusCode::NOT_FOUND => {
                RetrievalError::Destination(format!("there is no bucket `{bucket}` for the parts"))
            }
            ExchangeError::Refused(refusal) if refusal.status == StatusCode::FORBIDDEN => RetrievalError::Destination(format!(
                "access to the bucket `{bucket}`, for the parts, is denied: no permission, or wrong credentials"
            )),
            _ => error.into(),
        })
    }

    /// Refuses a prefix with parts: puts would replace them, and readers would mix the parts of two
    /// retrievals.
    pub(crate) fn refuse_parts(&self, exchange: &Exchange<'_>) -> Result<(), RetrievalError> {
        let (bucket, prefix) = (self.server.bucket(), format!("{}part-", self.prefix));
        let prefix = utf8_percent_encode(&prefix, QUERY);
        let path = format!("/{bucket}?encoding-type=url&list-type=2&max-keys=1&prefix={prefix}");
        let list = exchange.retry(|| exchange.send(&self.server, &Method::GET, &path, &[], FileBody::empty()))?;
        let list = String::from_utf8_lossy(&list);
        let Some((key, _)) = list.split_once("<Key>").and_then(|(_, rest)| rest.split_once("</Key>")) else { return Ok(()) };
        let key = percent_decode_str(key).decode_utf8_lossy();
        Err(self.in_use(&key))
    }

    /// Puts a file, unless another retrieval has put something else under its key.
    pub(crate) fn put_new(&self, exchange: &Exchange<'_>, file: &Path, name: &str) -> Result<(), RetrievalError> {
        let put = self.put(exchange, file, name, &[("if-none-match", "*")]);
        if !is_precondition(&put) {
            return Ok(put?);
        }
        // An earlier attempt may have put it.
        let etag = format!("\"{}\"", md5_of(file, exchange)?.hex());
        let headers = [("if-match", etag.as_str())];
        let found = exchange.retry(|| exchange.send(&self.server, &Method::HEAD, &self.path_of(name), &headers, FileBody::empty()));
        if is_precondition(&found) { Err(self.in_use(&format!("{}{name}", self.prefix))) } else { Ok(found.map(drop)?) }
    }

    /// Puts a file. The server compares it with its MD5.
    pub(crate) fn put(
        &self,
        exchange: &Exchange<'_>,
        file: &Path,
        name: &str,
        conditions: &[(&'static str, &str)],
    ) -> Result<(), ExchangeError> {
        let md5 = STANDARD.encode_to_string(md5_of(file, exchange)?.value());
        let headers = [&[("content-md5", md5.as_str())], conditions].concat();
        exchange.retry(|| {
            let body = FileBody::open(file).map_err(at(file))?;
            exchange.send(&self.server, &Method::PUT, &self.path_of(name), &headers, body).map(drop)
        })
    }

    fn path_of(&self, name: &str) -> String {
        format!("/{}/{}", self.server.bucket(), utf8_percent_encode(&format!("{}{name}", self.prefix), PATH))
    }

    fn in_use(&self, key: &str) -> RetrievalError {
        let bucket = self.server.bucket();
        RetrievalError::Destination(format!(
            "s3://{bucket}/{key} exists: put the parts of this retrieval under another prefix, with another folder if it has put some"
        ))
    }
}

/// Whether the request's condition doesn't hold.
fn is_precondition<T>(result: &Result<T, ExchangeError>) -> bool {
    matches!(result, Err(ExchangeError::Refused(refusal)) if refusal.status == StatusCode::PRECONDITION_FAILED)
}

fn md5_of(path: &Path, exchange: &Exchange<'_>) -> Result<Digest, ExchangeError> {
    let mut file = File::open(path).map_err(at(path))?;
    let (mut digester, mut buffer) = (Digester::new(&[Algorithm::Md5]), vec![0; 1 << 20]);
    loop {
        exchange.check_stop()?;
        match file.read(&mut buffer).map_err(at(path))? {
            0 => return Ok(digester.finish().remove(0)),
            count => digester.update(&buffer[..count]),
        }
    }
}

/// The content of a file as the body of a request. It reads the file on the thread of the
/// connection, which has nothing else to do.
pub(crate) struct FileBody {
    file: Option<File>,
    left: u64,
}

impl FileBody {
    pub(crate) fn empty() -> Self {
        Self { file: None, left: 0 }
    }

    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self { left: file.metadata()?.len(), file: Some(file) })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.left
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let wanted = self.left.min(PIECE as u64) as usize;
        let Some(file) = self.file.as_mut().filter(|_| wanted > 0) else { return Poll::Ready(None) };
        let mut piece = vec![0; wanted];
        let read = file.read_exact(&mut piece);
        self.left -= wanted as u64;
        Poll::Ready(Some(read.map(|()| Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
