//! Normalizes requests that the framework interprets differently than S3. It runs after the
//! signature check and before the operation.
//!
//! S3 ignores malformed values of some headers, such as ranges and times. The framework rejects
//! them, as it does lists of ETags and repeated metadata. Such headers may be signed, so they can't
//! be changed before the signature check. Operations that need the headers as sent call
//! [`original`]. The module also checks digests of XML bodies, which the framework doesn't.
//!
//! ```text
//! request -> service: signature -> Between: headers, digest -> the same operations and gate, with `Signed` for a signature
//!                             \--> operations
//! ```

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fulgurite_digest::Md5;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Uri, header, uri::PathAndQuery};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use s3s::dto::{ETagCondition, Range, Timestamp, TimestampFormat};
use s3s::service::S3Service;
use s3s::xml::{DeResult, Deserialize, DeserializeContent, Deserializer};
use s3s::{Body, S3Error, S3Request, S3Response, S3Result, StdError, s3_error};

use crate::auth::caller::Signed;
use crate::auth::policy::{has_parameter, parameter};
use crate::auth::signatures::{is_form, is_of_signature};
use crate::http::addressing::Addresses;
use crate::s3::errors::answers::XML_BYTES_MAX;
use crate::transfer::checksums::{Claims, Sums, Trailing};
use crate::transfer::upload::unreadable;

/// Passes normalized requests to the operations.
pub(crate) struct Between {
    pub(crate) operations: S3Service,
    pub(crate) addresses: Arc<Addresses>,
}

/// Query parameters of PUT and POST requests with an XML (or JSON) body.
const BODIES: [&str; 13] = [
    "acl",
    "cors",
    "delete",
    "encryption",
    "legal-hold",
    "object-lock",
    "ownershipControls",
    "policy",
    "publicAccessBlock",
    "restore",
    "retention",
    "tagging",
    "versioning",
];
/// Headers with a time, ignored if malformed. The stored `Expires` is kept as sent.
const TIMES: [HeaderName; 3] = [header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE, header::EXPIRES];
/// Headers with ETags, which operations parse themselves.
const CONDITIONS: [HeaderName; 4] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    HeaderName::from_static("x-amz-copy-source-if-match"),
    HeaderName::from_static("x-amz-copy-source-if-none-match"),
];

impl Between {
    pub(crate) fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
        let writes = matches!(*method, Method::PUT | Method::POST) && !is_form(method, headers);
        (writes && (has_body(uri) || is_completion(method, uri) || self.is_of_bucket(method, uri, headers)))
            || is_misread(headers)
            || wanted_expires(method, uri).is_some()
    }

    pub(crate) async fn call(&self, mut request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let wrong = Arc::new(Mutex::new(None));
        let is_completion = is_completion(&request.method, &request.uri);
        let is_seen = is_completion || self.is_of_bucket(&request.method, &request.uri, &request.headers);
        if is_seen || (matches!(request.method, Method::PUT | Method::POST) && has_body(&request.uri)) {
            let mut checked = Checked::new(&mut request, wrong.clone(), is_completion)?;
            if is_seen {
                let seen = Seen::default();
                request.extensions.insert(seen.clone());
                checked.seen = Some(seen);
            }
            request.input = Body::http_body_unsync(checked);
        }
        // Anonymous clients may not set response headers; the gate refuses the parameter if it sees
        // it.
        if request.credentials.is_some()
            && let Some(expires) = wanted_expires(&request.method, &request.uri)
        {
            request.extensions.insert(WantedExpires(expires));
            request.uri = without(request.uri, |name| name == RESPONSE_EXPIRES);
        }
        let trailing = Trailing::of(&request);
        request.extensions.insert(trailing);
        mend(&mut request.headers, &mut request.extensions);
        request.headers.remove(header::AUTHORIZATION);
        let mut inner = http::Request::new(request.input);
        *inner.method_mut() = request.method;
        *inner.uri_mut() = unsigned(request.uri);
        *inner.headers_mut() = request.headers;
        *inner.extensions_mut() = request.extensions;
        inner.extensions_mut().insert(Signed(request.credentials.map(|credentials| credentials.access_key)));
        let answer = self.operations.call(inner).await;
        if let Some(wrong) = wrong.lock().expect("no panic holds this lock").take() {
            return Err(wrong);
        }
        let (head, body) = answer.map_err(|error| s3_error!(InternalError, "{error:?}"))?.into_parts();
        let mut response = S3Response::with_status(body, head.status);
        response.headers = head.headers;
        response.extensions = head.extensions;
        Ok(response)
    }
}

/// Whether a request completes a multipart upload. Its checksum headers refer to the object, not to
/// its body.
fn is_completion(method: &Method, uri: &Uri) -> bool {
    *method == Method::POST && has_parameter(uri.query(), "uploadId")
}

/// Request extension: the raw XML body, for operations that need elements which the framework
/// drops. It is complete when the operation is called.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<u8>>>);

impl Seen {
    /// Parses the XML; an empty body gives the default.
    pub(crate) fn read<T: Default + for<'xml> Deserialize<'xml>>(&self) -> S3Result<T> {
        let xml = self.0.lock().expect("no panic holds this lock");
        if xml.is_empty() {
            return Ok(T::default());
        }
        T::deserialize(&mut Deserializer::new(&xml)).map_err(|_| s3_error!(MalformedXML))
    }
}

impl Seen {
    fn push(&self, bytes: &[u8]) -> S3Result<()> {
        let mut xml = self.0.lock().expect("no panic holds this lock");
        if (xml.len() + bytes.len()) as u64 > XML_BYTES_MAX {
            return Err(s3_error!(MaxMessageLengthExceeded, "Your request was too large."));
        }
        xml.extend_from_slice(bytes);
        Ok(())
    }

    /// The XML for the framework, of the same length: checksums that it doesn't know, and would
    /// reject, are blanked.
    fn known(&self) -> Vec<u8> {
        let mut xml = self.0.lock().expect("no panic holds this lock").clone();
        for name in ["ChecksumSHA512", "ChecksumMD5", "ChecksumXXHASH64", "ChecksumXXHASH3", "ChecksumXXHASH128"] {
            blank(&mut xml, name);
        }
        xml
    }
}

/// Replaces all elements of a name with spaces.
fn blank(xml: &mut [u8], name: &str) {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let find = |xml: &[u8], from: usize, part: &str| {
        xml[from..].windows(part.len()).position(|window| window == part.as_bytes()).map(|at| from + at)
    };
    let mut from = 0;
    while let Some(first) = find(xml, from, &begin) {
        let Some(last) = find(xml, first, &end) else { return };
        from = last + end.len();
        xml[first..from].fill(b' ');
    }
}

/// An XML element whose content is ignored.
pub(crate) struct Skipped;

impl<'xml> DeserializeContent<'xml> for Skipped {
    fn deserialize_content(xml: &mut Deserializer<'xml>) -> DeResult<Self> {
        xml.for_each_element(|xml, _| xml.content::<Self>().map(drop))?;
        Ok(Self)
    }
}

impl Between {
    /// Whether a request creates a bucket: a PUT to a bucket that isn't about one of its settings.
    fn is_of_bucket(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
        let is_bucket = || self.addresses.find(uri, headers).is_some_and(|(_, key)| key.is_empty());
        *method == Method::PUT && !has_body(uri) && is_bucket()
    }
}

pub(crate) fn has_body(uri: &Uri) -> bool {
    BODIES.iter().any(|name| has_parameter(uri.query(), name))
}

/// Request extension: the headers as sent, if some were changed for the framework.
#[derive(Debug, Clone)]
struct Original(HeaderMap);

/// The headers of a request as the client sent them. Operations that parse a header themselves must
/// use these.
pub(crate) fn original<'a>(headers: &'a HeaderMap, extensions: &'a Extensions) -> &'a HeaderMap {
    extensions.get().map_or(headers, |Original(headers)| headers)
}

/// Request extension: the `Expires` of the response. The framework accepts only times, but AWS
/// returns any text.
#[derive(Debug, Clone)]
pub(crate) struct WantedExpires(pub(crate) HeaderValue);

/// The query parameter that sets it.
const RESPONSE_EXPIRES: &str = "response-expires";

/// The `Expires` that a reader asks for. It is handled here even if it is a valid time, whose
/// weekday the framework would correct.
fn wanted_expires(method: &Method, uri: &Uri) -> Option<HeaderValue> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let text = parameter(uri.query(), RESPONSE_EXPIRES).filter(|text| !text.is_empty())?;
    HeaderValue::from_str(&text).ok()
}

/// Changes headers that the framework would reject, and keeps the originals.
pub(crate) fn mend(headers: &mut HeaderMap, extensions: &mut Extensions) {
    if is_misread(headers) {
        extensions.insert(Original(headers.clone()));
        pass_over(headers);
    }
}

/// Whether the framework would reject a header that S3 accepts.
fn is_misread(headers: &HeaderMap) -> bool {
    mend_range(headers).is_some()
        || TIMES.iter().any(|name| is_no_time(headers, name))
        || CONDITIONS.iter().any(|name| is_no_etag(headers, name))
        || !repeated(headers).is_empty()
}

/// Whether a condition differs from what the framework parses, a single quoted ETag.
fn is_no_etag(headers: &HeaderMap, name: &HeaderName) -> bool {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => false,
        (Some(value), None) => ETagCondition::parse_http_header(value.as_bytes()).is_err(),
        (Some(_), Some(_)) => true,
    }
}

/// User metadata headers that occur more than once.
fn repeated(headers: &HeaderMap) -> Vec<HeaderName> {
    let is_repeated = |name: &&HeaderName| name.as_str().starts_with("x-amz-meta-") && headers.get_all(*name).iter().nth(1).is_some();
    headers.keys().filter(is_repeated).cloned().collect()
}

pub(crate) fn pass_over(headers: &mut HeaderMap) {
    for name in repeated(headers) {
        let values: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
        if let Ok(joined) = HeaderValue::from_bytes(&values.join(&b","[..])) {
            headers.insert(name, joined);
        }
    }
    for name in CONDITIONS {
        if is_no_etag(headers, &name) {
            headers.remove(name);
        }
    }
    match mend_range(headers) {
        Some(Some(range)) => drop(headers.insert(header::RANGE, range)),
        Some(None) => drop(headers.remove(header::RANGE)),
        None => {}
    }
    for name in TIMES {
        if is_no_time(headers, &name) {
            headers.remove(name);
        }
    }
}

fn is_no_time(headers: &HeaderMap, name: &HeaderName) -> bool {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => false,
        (Some(value), None) => value.to_str().is_ok_and(|text| Timestamp::parse(TimestampFormat::HttpDate, text).is_err()),
        (Some(_), Some(_)) => true,
    }
}

/// The replacement for a range that the framework parses differently than S3: `Some(None)`, no
/// header, for malformed or multiple ranges.
pub(crate) fn mend_range(headers: &HeaderMap) -> Option<Option<HeaderValue>> {
    let mut values = headers.get_all(header::RANGE).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return Some(None);
    }
    let Some((first, last)) = value.to_str().ok().and_then(|text| text.strip_prefix("bytes=")?.split_once('-')) else { return Some(None) };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !(is_number(first) || first.is_empty()) || !(is_number(last) || last.is_empty()) || (first.is_empty() && last.is_empty()) {
        return Some(None);
    }
    // Larger numbers are equivalent to the largest possible size.
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX).min(i64::MAX as u64);
    let range = match (first.is_empty(), last.is_empty()) {
        (true, _) => Range::Suffix { length: number(last) },
        (_, true) => Range::Int { first: number(first), last: None },
        _ if number(first) > number(last) => return Some(None),
        _ => Range::Int { first: number(first), last: Some(number(last)) },
    };
    let as_read = value.to_str().ok().and_then(|text| Range::parse(text).ok());
    if as_read == Some(range) { None } else { Some(HeaderValue::try_from(range.to_header_string()).ok()) }
}

/// The URL without the query parameters of a signature.
pub(crate) fn unsigned(uri: Uri) -> Uri {
    without(uri, is_of_signature)
}

/// The URL without some of its query parameters, by decoded name.
fn without(uri: Uri, is_dropped: impl Fn(&str) -> bool) -> Uri {
    let Some(query) = uri.query() else { return uri };
    let is_kept = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        !is_dropped(&crate::s3::tags::decode(name).unwrap_or_default())
    };
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    let path = format!("{}?{}", uri.path(), kept.join("&"));
    let mut parts = uri.clone().into_parts();
    match PathAndQuery::try_from(path) {
        Ok(path) => parts.path_and_query = Some(path),
        Err(_) => return uri,
    }
    Uri::from_parts(parts).unwrap_or(uri)
}

/// A body whose digest is checked at its end.
struct Checked {
    body: Body,
    summing: Option<(Sums, Md5)>,
    /// Where the body is collected for an operation that needs it.
    seen: Option<Seen>,
    trailing: Trailing,
    /// Whether a required digest is missing.
    is_bare: bool,
    /// The error of the body. The framework loses its code.
    wrong: Arc<Mutex<Option<S3Error>>>,
}

impl Checked {
    /// Wraps the body of a request. The checksum headers of a completion refer to the object, not
    /// to the body.
    fn new(request: &mut S3Request<Body>, wrong: Arc<Mutex<Option<S3Error>>>, is_completion: bool) -> S3Result<Self> {
        let claims = if is_completion { Claims::default() } else { Claims::of(&request.headers)? };
        Ok(Self {
            body: std::mem::take(&mut request.input),
            is_bare: request.method == Method::POST && has_parameter(request.uri.query(), "delete") && claims.are_none(),
            summing: Some((claims.begin(None), Md5::new())),
            seen: None,
            trailing: Trailing::of(request),
            wrong,
        })
    }

    fn end(&mut self) -> S3Result<()> {
        let Some((sums, md5)) = self.summing.take() else { return Ok(()) };
        if self.is_bare {
            return Err(s3_error!(InvalidRequest, "Missing required header for this request: Content-MD5"));
        }
        sums.end(md5.finish(), &self.trailing).map(drop)
    }
}

fn s3_error_of(error: StdError) -> S3Error {
    match error.downcast::<S3Error>() {
        Ok(error) => *error,
        Err(error) => unreadable(&*error),
    }
}

impl Checked {
    fn refused(&self, error: S3Error) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        *self.wrong.lock().expect("no panic holds this lock") = Some(error);
        Poll::Ready(Some(Err("the body was refused".into())))
    }
}

impl HttpBody for Checked {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        // XML that an operation needs is passed on in one piece, at its end.
        while let Some(seen) = self.seen.clone() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    let Some(bytes) = frame.data_ref() else { continue };
                    if let Some((sums, md5)) = &mut self.summing {
                        sums.update(bytes);
                        md5.update(bytes);
                    }
                    if let Err(error) = seen.push(bytes) {
                        return self.refused(error);
                    }
                }
                Some(Err(error)) => return self.refused(s3_error_of(error)),
                None => {
                    self.seen = None;
                    if let Err(error) = self.end() {
                        return self.refused(error);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(seen.known().into()))));
                }
            }
        }
        let error = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let (Some(bytes), Some((sums, md5))) = (frame.data_ref(), &mut self.summing) {
                    sums.update(bytes);
                    md5.update(bytes);
                }
                return Poll::Ready(Some(Ok(frame)));
            }
            Some(Err(error)) => s3_error_of(error),
            None => match self.end() {
                Ok(()) => return Poll::Ready(None),
                Err(error) => error,
            },
        };
        self.refused(error)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(range: &str) -> Option<Option<String>> {
        let headers = HeaderMap::from_iter([(header::RANGE, range.parse().expect("a value"))]);
        mend_range(&headers).map(|value| value.map(|value| value.to_str().expect("text").to_owned()))
    }

    #[test]
    fn ranges_are_kept_clamped_or_ignored() {
        for range in ["bytes=0-0", "bytes=5-", "bytes=-7", "bytes=-0"] {
            assert_eq!(mended(range), None, "{range}");
        }
        for range in ["bytes=9-5", "bytes=-", "bytes=", "bytes=0-1,3-4", "octets=0-5", "bytes=a-b", "bytes=+1-2", "bytes= 1-2"] {
            assert_eq!(mended(range), Some(None), "{range}");
        }
        assert_eq!(mended("bytes=3-99999999999999999999"), Some(Some(format!("bytes=3-{}", i64::MAX))));
    }

    #[test]
    fn the_parameter_of_an_operation_may_be_encoded_and_have_a_value() {
        for (query, has) in [("delete", true), ("%64elete", true), ("delete=1", true), ("a=b&dele%74e=", true), ("prefix=delete", false)] {
            assert_eq!(has_body(&format!("/b?{query}").parse().expect("a URI")), has, "{query}");
        }
        assert!(!has_body(&Uri::from_static("/delete")));
    }

    #[test]
    fn checksums_unknown_to_the_framework_are_blanked() {
        let seen = Seen::default();
        seen.push(b"<P><ChecksumMD5>a</ChecksumMD5><N>1</N></P><P><ChecksumMD5>b</ChecksumMD5><ChecksumSHA1>c</ChecksumSHA1></P>")
            .expect("short");
        let known = String::from_utf8(seen.known()).expect("text");
        assert_eq!(known.len(), seen.0.lock().expect("no panic").len());
        assert_eq!(known.replace(' ', ""), "<P><N>1</N></P><P><ChecksumSHA1>c</ChecksumSHA1></P>");
    }

    #[test]
    fn only_the_parameters_of_a_signature_are_removed() {
        let uri = "/b/k?versionId=7&X-Amz-Algorithm=a&X-Amz-Signature=s&X-Amz-Meta=m&%58-Amz-Date=d&partNumber=1";
        assert_eq!(unsigned(uri.parse().expect("a URI")).to_string(), "/b/k?versionId=7&X-Amz-Meta=m&partNumber=1");
    }
}
