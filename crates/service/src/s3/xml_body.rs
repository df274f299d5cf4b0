//! Wraps XML bodies on their way to the framework: limits their size, checks their digests, refuses
//! what the framework would misread, and keeps a copy for operations that need elements which the
//! framework drops or rejects.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fulgurite_digest::Md5;
use http::{Extensions, Method, header};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use s3s::xml::{DeResult, Deserialize, DeserializeContent, Deserializer};
use s3s::{Body, S3Error, S3Request, S3Result, StdError, s3_error};

use crate::http::query::has_parameter;
use crate::s3::errors::FirstError;
use crate::s3::framework::stream_error;
use crate::s3::xml_check::check;
use crate::transfer::checksums::{BodyTrailers, Claims, SumHasher};

/// Maximum size of XML bodies: enough for 1,000 keys of 1,024 bytes, or for 10,000 parts.
pub(crate) const XML_BYTES_MAX: u64 = 4 << 20;

/// Request extension: the body as sent, for operations that need elements which the framework
/// drops. It is complete when the operation is called.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentBody(Arc<Mutex<Vec<u8>>>);

impl SentBody {
    #[cfg(test)]
    pub(crate) fn of(xml: &str) -> Self {
        Self(Arc::new(Mutex::new(xml.as_bytes().to_vec())))
    }

    /// Parses the body of a request. An empty body, or one that wasn't collected (see [`Parser`]),
    /// gives the default.
    pub(crate) fn read<T: Default + for<'xml> Deserialize<'xml>>(extensions: &Extensions) -> S3Result<T> {
        let Some(sent) = extensions.get::<Self>() else { return Ok(T::default()) };
        let xml = sent.0.lock().expect("nothing panics while it holds this lock");
        if xml.is_empty() {
            return Ok(T::default());
        }
        let mut deserializer = Deserializer::new(&xml);
        let read = T::deserialize(&mut deserializer).and_then(|read| deserializer.expect_eof().map(|()| read));
        read.map_err(|_| s3_error!(MalformedXML))
    }
}

/// An XML element whose content is ignored.
pub(crate) struct Skipped;

impl<'xml> DeserializeContent<'xml> for Skipped {
    fn deserialize_content(xml: &mut Deserializer<'xml>) -> DeResult<Self> {
        // No element has this name, so the deserializer skips all of them. It does so iteratively:
        // a client can nest enough elements in a body for a recursion to overflow the stack.
        xml.list_content::<Self>(">")?;
        Ok(Self)
    }
}

/// The parser of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parser {
    /// The framework.
    Framework,
    /// The framework, and the operation for more elements.
    Both,
    /// The operation, for elements that the framework rejects. The framework gets this XML instead.
    Operation(&'static str),
}

/// A body whose digest is checked at its end.
pub(crate) struct XmlBody {
    body: Body,
    checksums: Option<(SumHasher, Md5)>,
    /// Where XML is collected, to be checked, and for an operation.
    sent: Option<SentBody>,
    /// What the framework gets in place of the body.
    stand_in: Option<&'static str>,
    received: u64,
    trailers: BodyTrailers,
    lacks_required_digest: bool,
    first_error: FirstError,
}

impl XmlBody {
    /// Replaces the body of a request. `claims` are the digests that the client states for it.
    pub(crate) fn wrap(request: &mut S3Request<Body>, parser: Parser, claims: Claims) {
        let lacks_required_digest = request.method == Method::POST && has_parameter(request.uri.query(), "delete") && claims.are_none();
        // A policy is JSON.
        let sent = (!has_parameter(request.uri.query(), "policy")).then(SentBody::default);
        if let Some(sent) = &sent
            && !matches!(parser, Parser::Framework)
        {
            request.extensions.insert(sent.clone());
        }
        let body = Self {
            body: std::mem::take(&mut request.input),
            checksums: Some((claims.begin(None), Md5::new())),
            sent,
            stand_in: if let Parser::Operation(stand_in) = parser { Some(stand_in) } else { None },
            received: 0,
            trailers: BodyTrailers::of(request),
            lacks_required_digest,
            first_error: FirstError::of(&request.extensions),
        };
        // The framework compares the length of what it gets with the header.
        if let (Some(stand_in), Some(length)) = (body.stand_in, request.headers.get_mut(header::CONTENT_LENGTH)) {
            *length = stand_in.len().into();
        }
        request.input = Body::http_body_unsync(body);
    }

    /// Processes the next piece.
    fn take(&mut self, bytes: &Bytes) -> S3Result<()> {
        self.received += bytes.len() as u64;
        // The framework has the same limit, but reports an internal error.
        if self.received > XML_BYTES_MAX {
            return Err(s3_error!(MaxMessageLengthExceeded, "Your request was too large."));
        }
        if let Some((sums, md5)) = &mut self.checksums {
            sums.update(bytes);
            md5.update(bytes);
        }
        if let Some(SentBody(xml)) = &self.sent {
            xml.lock().expect("nothing panics while it holds this lock").extend_from_slice(bytes);
        }
        Ok(())
    }

    fn end(&mut self) -> S3Result<()> {
        let Some((sums, md5)) = self.checksums.take() else { return Ok(()) };
        if self.lacks_required_digest {
            return Err(s3_error!(InvalidRequest, "Missing required header for this request: Content-MD5"));
        }
        sums.end(md5.finish(), &self.trailers)?;
        match &self.sent {
            Some(SentBody(xml)) => check(&xml.lock().expect("nothing panics while it holds this lock")),
            None => Ok(()),
        }
    }

    fn refused(&self, error: S3Error) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        Poll::Ready(Some(Err(self.first_error.keep(error).into())))
    }
}

impl HttpBody for XmlBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Some(Err(error)) = frame.data_ref().map(|bytes| self.take(bytes)) {
                        return self.refused(error);
                    }
                    if self.stand_in.is_none() {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                Some(Err(error)) => return self.refused(stream_error(error)),
                None => {
                    let ends_now = self.checksums.is_some();
                    if let Err(error) = self.end() {
                        return self.refused(error);
                    }
                    let stand_in = self.stand_in.filter(|_| ends_now);
                    return Poll::Ready(stand_in.map(|xml| Ok(Frame::data(Bytes::from_static(xml.as_bytes())))));
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.stand_in.map_or_else(|| self.body.size_hint(), |xml| SizeHint::with_exact(xml.len() as u64))
    }
}
