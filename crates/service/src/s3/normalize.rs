//! Normalizes requests that the framework interprets differently than S3. It runs after the
//! signature check and before the operation.
//!
//! S3 ignores malformed values of some headers, such as ranges and times. The framework rejects
//! them, as it does lists of ETags and repeated metadata. Operations that need the headers as sent
//! call [`original`].

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Uri, header, uri::PathAndQuery};
use s3s::dto::{ETagCondition, Range, Timestamp, TimestampFormat};
use s3s::{Body, S3Request, S3Result};

use crate::auth::signatures::is_of_signature;
use crate::http::addressing::Addresses;
use crate::http::query::{has_parameter, parameter};
use crate::http::url_encoding;
use crate::s3::xml_body::{Parser, XmlBody};
use crate::transfer::checksums::Claims;

/// Query parameters of PUT and POST requests with an XML (or JSON) body.
const BODIES: [&str; 14] = [
    "acl",
    "cors",
    "delete",
    "encryption",
    "legal-hold",
    "lifecycle",
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

/// Changes a request into one that the framework reads as S3 does, without its signature.
///
/// # Errors
/// An S3 error if it has invalid checksum headers.
pub(crate) fn normalize(request: &mut S3Request<Body>, addresses: &Addresses) -> S3Result<()> {
    if let Some(parser) = parser_of(request, addresses) {
        // The checksum headers of a completion refer to the object, not to its body.
        let is_completion = matches!(parser, Parser::Operation(_));
        let claims = if is_completion { Claims::default() } else { Claims::of(&request.headers)? };
        XmlBody::wrap(request, parser, claims);
    }
    // Anonymous clients may not set response headers; the gate refuses the parameter if it sees it.
    if request.credentials.is_some()
        && let Some(expires) = wanted_expires(&request.method, &request.uri)
    {
        request.extensions.insert(WantedExpires(expires));
        request.uri = without(std::mem::take(&mut request.uri), |name| name == RESPONSE_EXPIRES);
    }
    request.uri = unsigned(std::mem::take(&mut request.uri));
    normalize_headers(&mut request.headers, &mut request.extensions);
    Ok(())
}

/// The parser of a request's body; `None` for content and for requests without a body.
fn parser_of(request: &S3Request<Body>, addresses: &Addresses) -> Option<Parser> {
    let is_bucket = || addresses.find(&request.uri, &request.headers).is_some_and(|(_, key)| key.is_empty());
    match request.method {
        Method::POST if has_parameter(request.uri.query(), "uploadId") => Some(Parser::Operation("<CompleteMultipartUpload/>")),
        Method::PUT | Method::POST if has_body(&request.uri) => Some(Parser::Framework),
        Method::PUT if is_bucket() => Some(Parser::Both),
        _ => None,
    }
}

/// Whether a PUT or POST of this URL has an XML (or JSON) body.
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
pub(crate) fn normalize_headers(headers: &mut HeaderMap, extensions: &mut Extensions) {
    let changes = changes(headers);
    if changes.is_empty() {
        return;
    }
    extensions.insert(Original(headers.clone()));
    for (name, value) in changes {
        match value {
            Some(value) => drop(headers.insert(name, value)),
            None => drop(headers.remove(name)),
        }
    }
}

/// The headers that the framework would reject and S3 accepts, each with the value for the
/// framework; `None` removes it.
pub(crate) fn changes(headers: &HeaderMap) -> Vec<(HeaderName, Option<HeaderValue>)> {
    let values = |name: &HeaderName| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>();
    let is_repeated = |name: &&HeaderName| name.as_str().starts_with("x-amz-meta-") && headers.get_all(*name).iter().nth(1).is_some();
    let joined = |name: &HeaderName| (name.clone(), HeaderValue::from_bytes(&values(name).join(&b","[..])).ok());
    let mut changes: Vec<_> = headers.keys().filter(is_repeated).map(joined).collect();
    let is_etag = |value: &HeaderValue| ETagCondition::parse_http_header(value.as_bytes()).is_ok();
    let is_time = |value: &HeaderValue| value.to_str().ok().is_none_or(|text| Timestamp::parse(TimestampFormat::HttpDate, text).is_ok());
    changes.extend(CONDITIONS.into_iter().filter(|name| !is_one(headers, name, is_etag)).map(|name| (name, None)));
    changes.extend(TIMES.into_iter().filter(|name| !is_one(headers, name, is_time)).map(|name| (name, None)));
    changes.extend(normalized_range(headers).map(|range| (header::RANGE, range)));
    changes
}

/// Whether a header is absent, or has one value and that is valid.
fn is_one(headers: &HeaderMap, name: &HeaderName, is_valid: impl Fn(&HeaderValue) -> bool) -> bool {
    let mut values = headers.get_all(name).iter();
    values.next().is_none_or(|value| values.next().is_none() && is_valid(value))
}

/// The replacement for a range that the framework parses differently than S3: `Some(None)`, no
/// header, for malformed or multiple ranges.
fn normalized_range(headers: &HeaderMap) -> Option<Option<HeaderValue>> {
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
        !is_dropped(&url_encoding::decode(name).unwrap_or_default())
    };
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    if kept.len() == query.split('&').count() {
        return uri;
    }
    let path = format!("{}?{}", uri.path(), kept.join("&"));
    let mut parts = uri.clone().into_parts();
    match PathAndQuery::try_from(path) {
        Ok(path) => parts.path_and_query = Some(path),
        Err(_) => return uri,
    }
    Uri::from_parts(parts).unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(range: &str) -> Option<Option<String>> {
        let headers = HeaderMap::from_iter([(header::RANGE, range.parse().expect("a value"))]);
        normalized_range(&headers).map(|value| value.map(|value| value.to_str().expect("text").to_owned()))
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
    fn only_the_parameters_of_a_signature_are_removed() {
        let uri = "/b/k?versionId=7&X-Amz-Algorithm=a&X-Amz-Signature=s&X-Amz-Meta=m&%58-Amz-Date=d&partNumber=1";
        assert_eq!(unsigned(uri.parse().expect("a URI")).to_string(), "/b/k?versionId=7&X-Amz-Meta=m&partNumber=1");
    }
}
