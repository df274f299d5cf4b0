//! Between the signature and the operation: what the framework reads otherwise than S3.
//!
//! Headers that say nothing S3 understands are passed over: a range that is none, a time that is none. The framework refuses them, and they may
//! be signed, so they can't be taken away before the signature is checked. And digests of XML bodies are checked, which the framework doesn't.
//!
//! ```text
//! request -> service: signature -> Between: headers, digest -> the same operations behind the same gate, with `Signed` for a signature
//!                             \--> operations
//! ```

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fulgurite_digest::Md5;
use http::{HeaderMap, HeaderValue, Method, Uri, header, uri::PathAndQuery};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use s3s::dto::{Range, Timestamp, TimestampFormat};
use s3s::service::S3Service;
use s3s::{Body, S3Error, S3Request, S3Response, S3Result, StdError, TrailingHeaders, s3_error};

use crate::caller::Signed;
use crate::checksums::{Claims, Sums};
use crate::policy::has_parameter;
use crate::receive::unreadable;
use crate::signatures::{is_form, is_of_signature};

/// Hands requests to the operations in words that the framework understands.
pub(crate) struct Between(pub(crate) S3Service);

/// Parameters that make a PUT or POST one with an XML (or JSON) body.
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
/// Headers with a time, to be passed over if it is none.
const TIMES: [header::HeaderName; 2] = [header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE];

impl Between {
    pub(crate) fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let writes = matches!(*method, Method::PUT | Method::POST) && !is_form(method, headers);
        (reads && (mend_range(headers).is_some() || TIMES.iter().any(|name| is_no_time(headers, name)))) || (writes && has_body(uri))
    }

    pub(crate) async fn call(&self, mut request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let wrong = Arc::new(Mutex::new(None));
        if request.method == Method::GET || request.method == Method::HEAD {
            pass_over(&mut request.headers);
        } else {
            let checked = Checked::new(&mut request, wrong.clone())?;
            request.input = Body::http_body_unsync(checked);
        }
        request.headers.remove(header::AUTHORIZATION);
        let mut inner = http::Request::new(request.input);
        *inner.method_mut() = request.method;
        *inner.uri_mut() = unsigned(request.uri);
        *inner.headers_mut() = request.headers;
        *inner.extensions_mut() = request.extensions;
        inner.extensions_mut().insert(Signed(request.credentials.map(|credentials| credentials.access_key)));
        let answer = self.0.call(inner).await;
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

fn has_body(uri: &Uri) -> bool {
    BODIES.iter().any(|name| has_parameter(uri.query(), name))
}

pub(crate) fn pass_over(headers: &mut HeaderMap) {
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

fn is_no_time(headers: &HeaderMap, name: &header::HeaderName) -> bool {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => false,
        (Some(value), None) => value.to_str().is_ok_and(|text| Timestamp::parse(TimestampFormat::HttpDate, text).is_err()),
        (Some(_), Some(_)) => true,
    }
}

/// What to put in place of a range that the framework doesn't read as S3 does: nothing for what is none, or for several.
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
    // Numbers beyond all sizes are as good as the largest.
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

/// A URL without the parameters of a signature.
pub(crate) fn unsigned(uri: Uri) -> Uri {
    let Some(query) = uri.query() else { return uri };
    let is_kept = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        !is_of_signature(&crate::tags::decode(name).unwrap_or_default())
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

/// A body whose digest is checked when all of it has come.
struct Checked {
    body: Body,
    summing: Option<(Sums, Md5)>,
    trailers: Option<TrailingHeaders>,
    /// A digest has to be there.
    is_bare: bool,
    /// Errors of bodies lose their names on the way through the framework.
    wrong: Arc<Mutex<Option<S3Error>>>,
}

impl Checked {
    fn new(request: &mut S3Request<Body>, wrong: Arc<Mutex<Option<S3Error>>>) -> S3Result<Self> {
        let claims = Claims::of(&request.headers)?;
        Ok(Self {
            body: std::mem::take(&mut request.input),
            is_bare: request.method == Method::POST && has_parameter(request.uri.query(), "delete") && claims.are_none(),
            summing: Some((claims.begin(None), Md5::new())),
            trailers: request.trailing_headers.take(),
            wrong,
        })
    }

    fn end(&mut self) -> S3Result<()> {
        let Some((sums, md5)) = self.summing.take() else { return Ok(()) };
        if self.is_bare {
            return Err(s3_error!(InvalidRequest, "Missing required header for this request: Content-MD5"));
        }
        sums.end(md5.finish(), self.trailers.as_ref()).map(drop)
    }
}

impl HttpBody for Checked {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let error = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let (Some(bytes), Some((sums, md5))) = (frame.data_ref(), &mut self.summing) {
                    sums.update(bytes);
                    md5.update(bytes);
                }
                return Poll::Ready(Some(Ok(frame)));
            }
            Some(Err(error)) => match error.downcast::<S3Error>() {
                Ok(error) => *error,
                Err(error) => unreadable(&*error),
            },
            None => match self.end() {
                Ok(()) => return Poll::Ready(None),
                Err(error) => error,
            },
        };
        *self.wrong.lock().expect("no panic holds this lock") = Some(error);
        Poll::Ready(Some(Err("the body is not what it should be".into())))
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
    fn ranges_stay_are_clamped_or_are_passed_over() {
        for range in ["bytes=0-0", "bytes=5-", "bytes=-7", "bytes=-0"] {
            assert_eq!(mended(range), None, "{range}");
        }
        for range in ["bytes=9-5", "bytes=-", "bytes=", "bytes=0-1,3-4", "octets=0-5", "bytes=a-b", "bytes=+1-2", "bytes= 1-2"] {
            assert_eq!(mended(range), Some(None), "{range}");
        }
        assert_eq!(mended("bytes=3-99999999999999999999"), Some(Some(format!("bytes=3-{}", i64::MAX))));
    }

    #[test]
    fn what_an_operation_is_called_by_may_be_encoded_and_may_have_a_value() {
        for (query, has) in [("delete", true), ("%64elete", true), ("delete=1", true), ("a=b&dele%74e=", true), ("prefix=delete", false)] {
            assert_eq!(has_body(&format!("/b?{query}").parse().expect("a URI")), has, "{query}");
        }
        assert!(!has_body(&Uri::from_static("/delete")));
    }

    #[test]
    fn the_parameters_of_a_signature_are_taken_away_and_all_others_stay() {
        let uri = "/b/k?versionId=7&X-Amz-Algorithm=a&X-Amz-Signature=s&X-Amz-Meta=m&%58-Amz-Date=d&partNumber=1";
        assert_eq!(unsigned(uri.parse().expect("a URI")).to_string(), "/b/k?versionId=7&X-Amz-Meta=m&partNumber=1");
    }
}
