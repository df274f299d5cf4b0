//! Bodies of unsigned requests. The framework checks digests and decodes chunks only in signed
//! requests. Without this module it would store a body that doesn't match its digest, and chunks
//! with their framing.
//!
//! ```text
//! socket -> RequestBody -> UnsignedBody: chunks, trailers, digest -> the framework
//! ```

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use aws_lc_rs::digest::{self, SHA256};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use s3s::{Body, S3Error, S3Result, StdError, s3_error};

use crate::auth::signatures::{DECODED_LENGTH, PAYLOAD, UNSIGNED_CHUNKS};
use crate::s3::errors::custom;
use crate::state::hex;
use crate::transfer::trailers::Trailers;

/// An unfinished line with a chunk's size is rejected beyond this length: 16 hexadecimal digits and
/// the line end.
const SIZE_BYTES_MAX: usize = 18;
/// Maximum size of the trailers.
const TRAILERS_BYTES_MAX: usize = 4 << 10;

/// Wraps the body of an unsigned request in the checks that its headers ask for.
///
/// # Errors
/// An S3 error if chunked content lacks a valid length.
pub(crate) fn body<B>(head: &mut Parts, body: B) -> S3Result<Body>
where
    B: HttpBody<Data = Bytes, Error = StdError> + Unpin + Send + Sync + 'static,
{
    if !matches!(head.method, Method::PUT | Method::POST) {
        return Ok(Body::http_body(body));
    }
    let payload = head.headers.get(PAYLOAD).and_then(|value| value.to_str().ok());
    let digest = payload.filter(|payload| payload.len() == 64).map(|expected| (digest::Context::new(&SHA256), expected.to_owned()));
    // SDKs without credentials announce chunks only by `Content-Encoding`.
    let is_chunked = payload == Some(UNSIGNED_CHUNKS) || (head.headers.contains_key(DECODED_LENGTH) && is_encoded(&head.headers));
    if !is_chunked && digest.is_none() {
        return Ok(Body::http_body(body));
    }
    let mut chunks = None;
    if is_chunked {
        let length: Option<u64> = head.headers.get(DECODED_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let length = length.ok_or_else(|| {
            s3_error!(MissingContentLength, "Content in chunks requires its length in the header x-amz-decoded-content-length.")
        })?;
        head.headers.insert(header::CONTENT_LENGTH, length.into());
        let trailers = Trailers::default();
        head.extensions.insert(trailers.clone());
        chunks = Some(ChunkDecoder { position: Position::Size(Vec::new()), trailers });
    }
    Ok(Body::http_body(UnsignedBody { body, digest, chunks, output: VecDeque::new() }))
}

fn is_encoded(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|encoding| encoding.trim().eq_ignore_ascii_case("aws-chunked"))
}

/// A body whose digest is checked and whose chunks are decoded while it is read.
struct UnsignedBody<B> {
    body: B,
    /// The SHA-256 so far, and the expected digest.
    digest: Option<(digest::Context, String)>,
    /// The chunk decoder, if the content is in chunks.
    chunks: Option<ChunkDecoder>,
    /// Content that is returned next.
    output: VecDeque<Bytes>,
}

impl<B> UnsignedBody<B> {
    /// Processes the next piece of the body.
    fn push(&mut self, piece: Bytes) -> S3Result<()> {
        if let Some((digest, _)) = &mut self.digest {
            digest.update(&piece);
        }
        match &mut self.chunks {
            Some(chunks) => chunks.push(piece, &mut self.output),
            None => {
                self.output.push_back(piece);
                Ok(())
            }
        }
    }

    fn end(&mut self) -> S3Result<()> {
        if self.chunks.as_ref().is_some_and(|chunks| !matches!(chunks.position, Position::AfterTrailers)) {
            return Err(s3_error!(IncompleteBody, "The request body ends before its last chunk."));
        }
        let Some((digest, expected)) = self.digest.take() else { return Ok(()) };
        if hex(digest.finish().as_ref()) == expected {
            return Ok(());
        }
        Err(custom(
            "XAmzContentSHA256Mismatch",
            StatusCode::BAD_REQUEST,
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        ))
    }
}

impl<B: HttpBody<Data = Bytes, Error = StdError> + Unpin> HttpBody for UnsignedBody<B> {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        loop {
            if let Some(bytes) = self.output.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            let checked = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data().map_or(Ok(()), |bytes| self.push(bytes)),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => match self.end() {
                    Ok(()) => return Poll::Ready(None),
                    Err(error) => Err(error),
                },
            };
            if let Err(error) = checked {
                return Poll::Ready(Some(Err(error.into())));
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.chunks.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

/// Position of the chunk decoder.
#[derive(Debug)]
enum Position {
    /// In the line with a chunk's size; holds the bytes received so far.
    Size(Vec<u8>),
    /// In a chunk's content; holds the number of bytes left.
    Content(u64),
    /// In the line end after a chunk; holds the number of bytes left.
    LineEnd(usize),
    /// In the trailers; holds the bytes received so far.
    Trailers(Vec<u8>),
    /// After the end of the trailers.
    AfterTrailers,
}

/// Decodes chunks: `SIZE\r\n CONTENT\r\n … 0\r\n NAME:VALUE\r\n … \r\n`. Any other form is
/// rejected.
#[derive(Debug)]
struct ChunkDecoder {
    position: Position,
    trailers: Trailers,
}

impl ChunkDecoder {
    /// Decodes the next piece of the body and appends its content to `out`.
    fn push(&mut self, mut piece: Bytes, out: &mut VecDeque<Bytes>) -> S3Result<()> {
        while !piece.is_empty() {
            match &mut self.position {
                Position::Size(line) => {
                    line.extend_from_slice(&piece.split_to(line_end(&piece)));
                    if line.ends_with(b"\n") || line.len() > SIZE_BYTES_MAX {
                        let size = size_of(line).ok_or_else(malformed)?;
                        self.position = if size > 0 { Position::Content(size) } else { Position::Trailers(Vec::new()) };
                    }
                }
                Position::Content(left) => {
                    let now = piece.split_to((*left).min(piece.len() as u64) as usize);
                    *left -= now.len() as u64;
                    if *left == 0 {
                        self.position = Position::LineEnd(2);
                    }
                    out.push_back(now);
                }
                Position::LineEnd(left) => {
                    let now = piece.split_to((*left).min(piece.len()));
                    if now[..] != b"\r\n"[2 - *left..][..now.len()] {
                        return Err(malformed());
                    }
                    *left -= now.len();
                    if *left == 0 {
                        self.position = Position::Size(Vec::new());
                    }
                }
                Position::Trailers(lines) => {
                    lines.extend_from_slice(&piece.split_to(line_end(&piece)));
                    if lines.len() > TRAILERS_BYTES_MAX {
                        return Err(malformed_trailer());
                    }
                    if lines == b"\r\n" || lines.ends_with(b"\r\n\r\n") {
                        self.trailers.set(parse_trailers(lines).ok_or_else(malformed_trailer)?);
                        self.position = Position::AfterTrailers;
                    }
                }
                Position::AfterTrailers => return Err(malformed()),
            }
        }
        Ok(())
    }
}

/// Number of bytes of the piece that belong to its first line.
fn line_end(piece: &[u8]) -> usize {
    piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |at| at + 1)
}

fn size_of(line: &[u8]) -> Option<u64> {
    let digits = line.strip_suffix(b"\r\n")?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    if !is_number {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Parses lines of `name:value`, without duplicates.
fn parse_trailers(lines: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in std::str::from_utf8(lines).ok()?.split("\r\n").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        if headers.insert(name, HeaderValue::from_str(value.trim()).ok()?).is_some() {
            return None;
        }
    }
    Some(headers)
}

fn malformed() -> S3Error {
    s3_error!(InvalidRequest, "The chunks of the request body are malformed.")
}

fn malformed_trailer() -> S3Error {
    custom("MalformedTrailerError", StatusCode::BAD_REQUEST, "The request contained trailing data that was not well-formed.")
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    /// Passes a body through in pieces of `step` bytes.
    async fn through(headers: &[(&'static str, &str)], content: &[u8], step: usize) -> Result<(Vec<u8>, Parts), String> {
        let mut request = http::Request::put("/b/k");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut head, ()) = request.body(()).expect("a request").into_parts();
        let pieces: Vec<Result<_, StdError>> = content.chunks(step).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
        let seen =
            body(&mut head, StreamBody::new(futures_util::stream::iter(pieces))).map_err(|error| error.code().as_str().to_owned())?;
        let content = seen.collect().await.map_err(|error| match error.downcast::<S3Error>() {
            Ok(error) => error.code().as_str().to_owned(),
            Err(error) => error.to_string(),
        })?;
        Ok((content.to_bytes().to_vec(), head))
    }

    const CHUNKED: [(&str, &str); 2] = [("x-amz-content-sha256", UNSIGNED_CHUNKS), ("x-amz-decoded-content-length", "9")];

    #[tokio::test]
    async fn chunks_are_decoded_however_the_stream_is_split() {
        let framed = b"4\r\nsome\r\n5\r\n body\r\n0\r\nX-Amz-Checksum-Crc32: AAAAAA==\r\n\r\n";
        let by_encoding = [("content-encoding", "gzip, aws-chunked"), ("x-amz-decoded-content-length", "9")];
        for headers in [CHUNKED, by_encoding] {
            for step in 1..=framed.len() {
                let (content, head) = through(&headers, framed, step).await.expect("a body");
                assert_eq!(content, b"some body");
                assert_eq!(head.headers[header::CONTENT_LENGTH], "9");
                let trailers = head.extensions.get::<Trailers>().expect("trailers");
                assert_eq!(trailers.get("x-amz-checksum-crc32").as_deref(), Some("AAAAAA=="));
            }
        }
    }

    #[tokio::test]
    async fn malformed_chunks_are_refused() {
        for (framed, code) in [
            (&b"some body"[..], "IncompleteBody"),
            (b"4\r\nsome", "IncompleteBody"),
            (b"4\r\nsome\r\n", "IncompleteBody"),
            (b"4\r\nsomeXX0\r\n\r\n", "InvalidRequest"),
            (b"4;chunk-signature=0\r\nsome\r\n0\r\n\r\n", "InvalidRequest"),
            (b"+4\r\nsome\r\n0\r\n\r\n", "InvalidRequest"),
            (b"4\nsome\r\n0\r\n\r\n", "InvalidRequest"),
            (b"11111111111111111111\r\n", "InvalidRequest"),
            (b"0\r\n", "IncompleteBody"),
            (b"0\r\n\r\nmore", "InvalidRequest"),
            (b"0\r\nno header\r\n\r\n", "MalformedTrailerError"),
            (b"0\r\na:1\r\na:2\r\n\r\n", "MalformedTrailerError"),
        ] {
            for step in [1, 1_000] {
                let error = through(&CHUNKED, framed, step).await.expect_err("refused");
                assert_eq!(error, code, "{}", String::from_utf8_lossy(framed));
            }
        }
        let error = through(&CHUNKED[..1], b"0\r\n\r\n", 9).await.expect_err("no length");
        assert_eq!(error, "MissingContentLength");
    }

    #[tokio::test]
    async fn a_body_must_match_its_digest() {
        let right = hex(digest::digest(&SHA256, b"body").as_ref());
        let with = async |digest: &str| through(&[("x-amz-content-sha256", digest)], b"body", 3).await.map(|(content, _)| content);
        assert_eq!(with(&right).await, Ok(b"body".to_vec()));
        assert_eq!(with("UNSIGNED-PAYLOAD").await, Ok(b"body".to_vec()));
        assert_eq!(with(&"0".repeat(64)).await, Err("XAmzContentSHA256Mismatch".to_owned()));
    }
}
