//! Streaming parser of forms (`multipart/form-data`, RFC 7578): fields are buffered, and the file
//! after them is passed on in pieces.
//!
//! ```text
//! CRLF --boundary CRLF head CRLF CRLF field CRLF --boundary CRLF head CRLF CRLF file ... CRLF --boundary-- CRLF
//! ^ not in the body; added, so that all boundaries are found the same way
//! ```
//!
//! Anything after the file is ignored, as in S3.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::StreamExt;
use hyper::body::{Body as HttpBody, Frame};
use s3s::{Body, S3Error, S3Result, StdError, s3_error};

use crate::s3::framework::stream_error;
use crate::transfer::upload::{CLIENT_TIMEOUT, incomplete};

/// Maximum bytes of a form before its file, the same as AWS.
const FIELDS_BYTES_MAX: usize = 20 << 10;
/// Maximum bytes that are read after the file, so that the connection can be reused.
const DRAINED_BYTES_MAX: usize = 64 << 10;
/// Placeholder in fields for the name of the file.
const FILE_NAME_PLACEHOLDER: &str = "${filename}";

/// A form whose file is still to be read.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) fields: Fields,
    pub(super) file: File,
}

/// Fields by name in lower case: S3 ignores case.
#[derive(Debug, Default)]
pub(super) struct Fields(pub(super) BTreeMap<String, String>);

impl Fields {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A required field.
    pub(super) fn need(&self, name: &str) -> S3Result<&str> {
        self.get(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            s3_error!(
                InvalidArgument,
                "Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the fields."
            )
        })
    }
}

/// Reads a form up to its file.
///
/// # Errors
/// An S3 error if the form is malformed, has no file, has duplicate fields, or is too long.
pub(super) async fn read(body: Body, boundary: &str) -> S3Result<Form> {
    let delimiter = format!("\r\n--{boundary}").into_bytes();
    let mut reader = FieldReader { body, buffer: BytesMut::from(&b"\r\n"[..]), consumed: 0 };
    let mut fields = Fields::default();
    reader.read_until(&delimiter).await?;
    loop {
        if reader.is_next(b"--").await? {
            return Err(s3_error!(InvalidArgument, "POST requires exactly one file upload per request."));
        }
        reader.read_until(b"\r\n").await?;
        let head = reader.read_until(b"\r\n\r\n").await?;
        let head = std::str::from_utf8(&head).map_err(|_| malformed())?;
        let part = Part::parse(head).ok_or_else(malformed)?;
        if part.name.eq_ignore_ascii_case("file") {
            let name = part.file_name.as_deref().unwrap_or_default();
            // Strips the path on the sender's machine, with slashes or backslashes.
            let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
            for value in fields.0.values_mut().filter(|value| value.contains(FILE_NAME_PLACEHOLDER)) {
                // Repeated placeholders could expand a few bytes to many.
                if value.matches(FILE_NAME_PLACEHOLDER).count() * name.len() > FIELDS_BYTES_MAX {
                    return Err(too_long());
                }
                *value = value.replace(FILE_NAME_PLACEHOLDER, name);
            }
            let file = File { body: reader.body, buffer: reader.buffer, delimiter, received: 0, min: 0, max: u64::MAX, rest: None };
            return Ok(Form { fields, file });
        }
        let value = reader.read_until(&delimiter).await?;
        let value = String::from_utf8(value.to_vec()).map_err(|_| malformed())?;
        if fields.0.insert(part.name.to_lowercase(), value).is_some() {
            return Err(s3_error!(InvalidArgument, "The form has more than one field named '{}'.", part.name));
        }
    }
}

fn too_long() -> S3Error {
    s3_error!(MaxPostPreDataLengthExceededError, "Your POST request fields preceding the upload file were too large.")
}

fn malformed() -> S3Error {
    s3_error!(MalformedPOSTRequest, "The body of your POST request is not well-formed multipart/form-data.")
}

/// The header of a part.
struct Part {
    name: String,
    file_name: Option<String>,
}

impl Part {
    fn parse(head: &str) -> Option<Self> {
        let line = head.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
        })?;
        let (_, mut rest) = line.split_once(';')?;
        let (mut name, mut file_name) = (None, None);
        while let Some((parameter, value)) = rest.trim_start().split_once('=') {
            let (value, after) = match value.strip_prefix('"') {
                Some(quoted) => parse_quoted(quoted)?,
                None => {
                    let end = value.find(';').unwrap_or(value.len());
                    (value[..end].trim_end().to_owned(), &value[end..])
                }
            };
            match parameter.trim().to_ascii_lowercase().as_str() {
                "name" => name = Some(value),
                "filename" => file_name = Some(value),
                _ => {}
            }
            rest = after.trim_start().strip_prefix(';').unwrap_or_default();
        }
        Some(Self { name: name?, file_name })
    }
}

/// The content of a quoted string and the rest after it. Browsers don't escape backslashes, so only
/// a backslash before a quote is an escape.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\';
        ends
    })?;
    Some((text[..end].replace("\\\"", "\""), &text[end + 1..]))
}

/// The body while its fields are read.
struct FieldReader {
    body: Body,
    buffer: BytesMut,
    /// Bytes consumed so far.
    consumed: usize,
}

impl FieldReader {
    /// The bytes up to a pattern. Consumes the pattern too.
    async fn read_until(&mut self, pattern: &[u8]) -> S3Result<BytesMut> {
        loop {
            let found = find(&self.buffer, pattern);
            if self.consumed + found.unwrap_or(self.buffer.len()) > FIELDS_BYTES_MAX {
                return Err(too_long());
            }
            if let Some(at) = found {
                let before = self.buffer.split_to(at);
                self.buffer.advance(pattern.len());
                self.consumed += at + pattern.len();
                return Ok(before);
            }
            self.fill().await?;
        }
    }

    async fn is_next(&mut self, pattern: &[u8]) -> S3Result<bool> {
        while self.buffer.len() < pattern.len() {
            self.fill().await?;
        }
        Ok(self.buffer.starts_with(pattern))
    }

    async fn fill(&mut self) -> S3Result<()> {
        let piece = tokio::time::timeout(CLIENT_TIMEOUT, self.body.next()).await.map_err(|_| {
            s3_error!(RequestTimeout, "Your socket connection to the server was not read from or written to within the timeout period.")
        })?;
        match piece {
            Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
            Some(Err(error)) => return Err(stream_error(error)),
            None => return Err(incomplete()),
        }
        Ok(())
    }
}

/// The position of a pattern.
fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == pattern[0]) {
        let rest = &bytes[from + at..];
        if rest.len() < pattern.len() {
            return None;
        }
        if rest.starts_with(pattern) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// The file of a form, as the body of a put.
#[derive(Debug)]
pub(super) struct File {
    body: Body,
    buffer: BytesMut,
    delimiter: Vec<u8>,
    received: u64,
    min: u64,
    max: u64,
    /// After the end of the file: how many more bytes may be read.
    rest: Option<usize>,
}

impl File {
    /// Limits the size of the file.
    pub(super) fn limit(&mut self, min: u64, max: u64) {
        (self.min, self.max) = (min, max);
    }

    fn checked(&mut self, piece: BytesMut) -> Result<Bytes, S3Error> {
        self.received += piece.len() as u64;
        if self.received > self.max {
            return Err(s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size"));
        }
        if self.rest.is_some() && self.received < self.min {
            return Err(s3_error!(EntityTooSmall, "Your proposed upload is smaller than the minimum allowed size"));
        }
        Ok(piece.freeze())
    }
}

impl HttpBody for File {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        loop {
            if self.rest.is_none() {
                let found = find(&self.buffer, &self.delimiter);
                if found.is_some() {
                    self.rest = Some(DRAINED_BYTES_MAX);
                }
                // Keeps bytes that could be the start of the delimiter.
                let known = found.unwrap_or((self.buffer.len() + 1).saturating_sub(self.delimiter.len()));
                let piece = self.buffer.split_to(known);
                if !piece.is_empty() || found.is_some() {
                    return Poll::Ready(Some(self.checked(piece).map(Frame::data).map_err(|error| Box::new(error) as StdError)));
                }
            }
            let frame = match (ready!(Pin::new(&mut self.body).poll_frame(context)), self.rest) {
                (None, None) => return Poll::Ready(Some(Err(Box::new(incomplete()) as StdError))),
                (Some(Err(error)), None) => return Poll::Ready(Some(Err(error))),
                (None | Some(Err(_)), Some(_)) => return Poll::Ready(None),
                (Some(Ok(frame)), _) => frame,
            };
            let bytes = frame.into_data().unwrap_or_default();
            match &mut self.rest {
                None => self.buffer.extend_from_slice(&bytes),
                Some(rest) if bytes.len() > *rest => return Poll::Ready(None),
                Some(rest) => *rest -= bytes.len(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// A body in pieces of `bytes` bytes.
    fn in_pieces(text: &str, bytes: usize) -> Body {
        let pieces: Vec<_> =
            text.as_bytes().chunks(bytes).map(|piece| Ok::<_, StdError>(Frame::data(Bytes::copy_from_slice(piece)))).collect();
        Body::http_body_unsync(http_body_util::StreamBody::new(futures_util::stream::iter(pieces)))
    }

    const FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"Key\"\r\n\r\nuser/${filename}\r\n--b\r\n\
        content-type: text/plain\r\ncontent-disposition: form-data; name=file; filename=\"C:\\dir\\a \\\"b\\\".txt\"\r\n\r\n\
        content\r\n--\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"submit\"\r\n\r\nup\r\n--b--\r\n";

    #[tokio::test]
    async fn fields_and_the_file_are_found_however_the_body_is_split() {
        for bytes in 1..FORM.len() {
            let form = read(in_pieces(FORM, bytes), "b").await.expect("a form");
            assert_eq!(form.fields.get("key"), Some("user/a \"b\".txt"), "{bytes}");
            let content = form.file.collect().await.expect("a file").to_bytes();
            assert_eq!(content, "content\r\n--\r\n", "{bytes}");
        }
    }

    #[tokio::test]
    async fn a_truncated_form_is_refused() {
        let end = FORM.find("\r\n--b\r\nContent-Disposition: form-data; name=\"submit\"").expect("the file");
        for length in 0..end {
            let whole = match read(in_pieces(&FORM[..length], 7), "b").await {
                Ok(form) => form.file.collect().await.is_ok(),
                Err(_) => false,
            };
            assert!(!whole, "{length}");
        }
    }

    #[tokio::test]
    async fn files_that_are_too_short_or_too_long_are_refused() {
        for (min, max, fits) in [(0, 13, true), (13, 13, true), (14, 20, false), (0, 12, false)] {
            let mut form = read(in_pieces(FORM, 16), "b").await.expect("a form");
            form.file.limit(min, max);
            assert_eq!(form.file.collect().await.is_ok(), fits, "{min} to {max}");
        }
        let long = FORM.replace("user/", &"x".repeat(FIELDS_BYTES_MAX));
        let longer_than_sent =
            FORM.replace("user/", &FILE_NAME_PLACEHOLDER.repeat(500)).replace("dir", &"d".repeat(100)).replace("a ", &"a".repeat(5_000));
        for form in [long, longer_than_sent] {
            let error = read(in_pieces(&form, 1 << 10), "b").await.expect_err("too long");
            assert_eq!(error.code().as_str(), "MaxPostPreDataLengthExceededError");
        }
    }

    #[tokio::test]
    async fn a_form_without_a_file_or_with_a_duplicate_field_is_refused() {
        let none = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n--b--";
        let twice = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n--b\r\nContent-Disposition: form-data; name=\"KEY\"\r\n\r\nl\r\n--b--";
        for form in [none, twice] {
            assert_eq!(read(in_pieces(form, 9), "b").await.expect_err("refused").code().as_str(), "InvalidArgument");
        }
        let nameless = "--b\r\nContent-Type: text/plain\r\n\r\nk\r\n--b--";
        assert_eq!(read(in_pieces(nameless, 9), "b").await.expect_err("refused").code().as_str(), "MalformedPOSTRequest");
    }
}
