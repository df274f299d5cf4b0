//! Signatures that are refused before the framework looks at them: those of another kind, region or service than ours, those that leave out
//! what they have to cover, and two at once.
//!
//! Whether a signature is right is for the framework to find. It would also take Signature Version 2, which signs neither the body nor most
//! headers and never expires in a header; AWS has ended it, and so it is refused here.

use http::{HeaderMap, HeaderValue, Method, Uri, header};
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Error, s3_error};

use crate::errors::more;
use crate::failures::custom;
use crate::tags::decode;

/// The only algorithm.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The header that says when a request was signed.
const DATE: &str = "x-amz-date";
/// The longest that a presigned URL may be good for: a week.
const EXPIRES_SECONDS_MAX: i64 = 604_800;
/// What `x-amz-content-sha256` may say instead of a digest.
const PAYLOADS: [&str; 6] = [
    "UNSIGNED-PAYLOAD",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
    "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER",
];

/// Parameters of a presigned URL. They are of the signature, and not of the operation.
pub(crate) fn is_of_signature(parameter: &str) -> bool {
    ["Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature", "Security-Token"]
        .iter()
        .any(|name| parameter.strip_prefix("X-Amz-") == Some(name))
}

/// What is wrong with the signature of a request as it stands; nothing where there is none.
pub(crate) fn refuse(uri: &Uri, headers: &HeaderMap, region: &str) -> Option<S3Error> {
    check(uri, headers, region).err()
}

/// Gives a signed request `x-amz-date` where it says in `Date` when it was signed, which S3 takes too. The signature holds for the time, wherever it
/// stands, and not for this header.
pub(crate) fn date(headers: &mut HeaderMap) {
    let is_signed = headers.get(header::AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(ALGORITHM.as_bytes()));
    if !is_signed || headers.contains_key(DATE) {
        return;
    }
    let said = headers.get(header::DATE).and_then(|date| date.to_str().ok());
    let stamp = said.and_then(|date| {
        if is_stamp(date) {
            return Some(date.to_owned());
        }
        // Mail has other words for it.
        let date =
            date.strip_suffix("-0000").or_else(|| date.strip_suffix("+0000")).map_or_else(|| date.to_owned(), |rest| format!("{rest}GMT"));
        let time: time::OffsetDateTime = Timestamp::parse(TimestampFormat::HttpDate, &date).ok()?.into();
        let (day, clock) = (time.date(), time.time());
        let (hour, minute, second) = clock.as_hms();
        Some(format!("{:04}{:02}{:02}T{hour:02}{minute:02}{second:02}Z", day.year(), u8::from(day.month()), day.day()))
    });
    if let Some(stamp) = stamp.and_then(|stamp| HeaderValue::try_from(stamp).ok()) {
        headers.insert(DATE, stamp);
    }
}

/// `20260101T000000Z`.
fn is_stamp(text: &str) -> bool {
    let is_place = |(index, byte): (usize, u8)| match index {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 16 && text.bytes().enumerate().all(is_place)
}

fn check(uri: &Uri, headers: &HeaderMap, region: &str) -> Result<(), S3Error> {
    let query = Query::new(uri.query().unwrap_or_default());
    let mut authorizations = headers.get_all(header::AUTHORIZATION).iter();
    let authorization = authorizations.next();
    let is_presigned = query.get("X-Amz-Signature").is_some();
    let is_presigned_v2 = query.get("Signature").is_some();
    if authorizations.next().is_some() || (authorization.is_some() && (is_presigned || is_presigned_v2)) {
        return Err(s3_error!(
            InvalidArgument,
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the Authorization header should be specified"
        ));
    }
    if is_presigned_v2 {
        return Err(version_2());
    }
    if let Some(value) = authorization {
        check_header(value.to_str().unwrap_or_default(), headers, region)?;
    }
    if is_presigned {
        check_url(&query, headers, region)?;
    }
    if let Some(payload) = headers.get("x-amz-content-sha256")
        && (is_presigned || authorization.is_some())
    {
        let payload = payload.to_str().unwrap_or_default();
        if !PAYLOADS.contains(&payload) && !is_hex(payload, 64) {
            return Err(s3_error!(
                InvalidArgument,
                "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value."
            ));
        }
    }
    Ok(())
}

/// The header `Authorization`. What isn't of the form that is looked for here, the framework refuses.
fn check_header(value: &str, headers: &HeaderMap, region: &str) -> Result<(), S3Error> {
    if value.starts_with("AWS ") {
        return Err(version_2());
    }
    let Some(fields) = value.strip_prefix(ALGORITHM) else { return Ok(()) };
    let field = |name: &str| fields.split(',').find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='));
    if let Some(credential) = field("Credential") {
        check_scope(credential, region, "AuthorizationHeaderMalformed", "The authorization header is malformed")?;
    }
    match field("SignedHeaders") {
        Some(signed) => check_signed(signed, headers, &[]),
        None => Ok(()),
    }
}

/// The parameters of a presigned URL.
fn check_url(query: &Query, headers: &HeaderMap, region: &str) -> Result<(), S3Error> {
    const CODE: &str = "AuthorizationQueryParametersError";
    let malformed = |message| Err(custom(CODE, http::StatusCode::BAD_REQUEST, message));
    if query.get("X-Amz-Algorithm").is_some_and(|algorithm| algorithm != ALGORITHM) {
        return malformed("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"");
    }
    if let Some(seconds) = query.get("X-Amz-Expires") {
        match seconds.parse::<i64>() {
            Ok(seconds) if seconds > EXPIRES_SECONDS_MAX => {
                return malformed(
                    "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
                );
            }
            Ok(seconds) if seconds < 0 => return malformed("X-Amz-Expires must be non-negative"),
            Ok(_) => {}
            Err(_) => return malformed("X-Amz-Expires should be a number"),
        }
    }
    if let Some(credential) = query.get("X-Amz-Credential") {
        check_scope(credential, region, CODE, "Error parsing the X-Amz-Credential parameter")?;
    }
    if let Some(signed) = query.get("X-Amz-SignedHeaders") {
        // The digest of the body says no more than the body, which such a signature doesn't cover.
        check_signed(signed, headers, &["x-amz-content-sha256"])?;
    }
    if query.get("X-Amz-Signature").is_some_and(|signature| !is_hex(signature, 64)) {
        return Err(s3_error!(
            SignatureDoesNotMatch,
            "The request signature we calculated does not match the signature you provided. Check your key and signing method."
        ));
    }
    Ok(())
}

/// `key/date/region/service/aws4_request`. An access key may have slashes, so it is read from the end.
fn check_scope(credential: &str, region: &str, code: &'static str, what: &str) -> Result<(), S3Error> {
    let mut parts = credential.rsplit('/');
    let (Some("aws4_request"), Some(service), Some(named)) = (parts.next(), parts.next(), parts.next()) else { return Ok(()) };
    let wrong = |message: String| {
        let mut error = S3Error::with_message(s3s::S3ErrorCode::Custom(code.into()), message);
        error.set_status_code(http::StatusCode::BAD_REQUEST);
        error.set_headers(more(&[("Region", region)]));
        Err(error)
    };
    if named != region {
        return wrong(format!("{what}; the region '{named}' is wrong; expecting '{region}'"));
    }
    if service != "s3" {
        return wrong(format!("{what}; incorrect service \"{service}\". This endpoint belongs to \"s3\"."));
    }
    Ok(())
}

/// The host and all headers of AWS have to be signed: whoever passes a request on could add to it otherwise.
fn check_signed(signed: &str, headers: &HeaderMap, but: &[&str]) -> Result<(), S3Error> {
    let signed: Vec<&str> = signed.split(';').collect();
    let has_to_be = |name: &str| (name == "host" || name.starts_with("x-amz-")) && !but.contains(&name);
    let missing: Vec<&str> =
        headers.keys().map(header::HeaderName::as_str).filter(|name| has_to_be(name) && !signed.contains(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut error = s3_error!(AccessDenied, "There were headers present in the request which were not signed");
    error.set_headers(more(&[("HeadersNotSigned", &missing.join(", "))]));
    Err(error)
}

/// Signature Version 2, in a header or a URL.
fn version_2() -> S3Error {
    s3_error!(InvalidRequest, "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.")
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Parameters, decoded as the framework decodes them: an encoded name would get past otherwise.
struct Query(Vec<(String, String)>);

impl Query {
    fn new(query: &str) -> Self {
        let text = |text: &str| decode(text).unwrap_or_else(|| text.to_owned());
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.map(|(name, value)| (text(name), text(value))).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Whether a request is a form, whose signature stands in its fields.
pub(crate) fn is_form(method: &Method, headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    *method == Method::POST && kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("multipart/form-data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: &str = "KEY/20260101/us-east-1/s3/aws4_request";

    fn refused(uri: &str, headers: &[(&'static str, &str)]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        refuse(&uri.parse().expect("a URI"), &map, "us-east-1").map(|error| error.code().as_str().to_owned())
    }

    fn header(scope: &str, signed: &str) -> String {
        format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={signed}, Signature={}", "0".repeat(64))
    }

    #[test]
    fn version_2_is_refused_in_a_header_and_in_a_url_however_its_name_is_written() {
        assert_eq!(refused("/b/k", &[("authorization", "AWS KEY:c2ln")]).as_deref(), Some("InvalidRequest"));
        assert_eq!(refused("/b/k?AWSAccessKeyId=KEY&Expires=1&Signature=c2ln", &[]).as_deref(), Some("InvalidRequest"));
        assert_eq!(refused("/b/k?AWSAccessKeyId=KEY&Expires=1&%53ignature=c2ln", &[]).as_deref(), Some("InvalidRequest"));
    }

    #[test]
    fn a_signature_is_for_our_region_and_our_service_and_covers_what_aws_reads() {
        let signed = [("host", "h"), ("x-amz-date", "20260101T000000Z")];
        let with = |scope: &str, names: &str| {
            let value = header(scope, names);
            let headers: Vec<_> = signed.iter().copied().chain([("authorization", value.as_str())]).collect();
            refused("/b/k", &headers)
        };
        assert_eq!(with(SCOPE, "host;x-amz-date"), None);
        assert_eq!(with(&SCOPE.replace("us-", "eu-"), "host;x-amz-date").as_deref(), Some("AuthorizationHeaderMalformed"));
        assert_eq!(with(&SCOPE.replace("/s3/", "/sts/"), "host;x-amz-date").as_deref(), Some("AuthorizationHeaderMalformed"));
        assert_eq!(with(SCOPE, "host").as_deref(), Some("AccessDenied"));
        assert_eq!(with(SCOPE, "x-amz-date").as_deref(), Some("AccessDenied"));
    }

    #[test]
    fn the_time_of_a_signature_may_stand_in_date() {
        let dated = |fields: &[(&'static str, &str)]| {
            let mut headers: HeaderMap =
                fields.iter().map(|(name, value)| ((*name).parse().expect("a name"), value.parse().expect("a value"))).collect();
            date(&mut headers);
            headers.get(DATE).map(|value| value.to_str().expect("text").to_owned())
        };
        let signed = ("authorization", "AWS4-HMAC-SHA256 Credential=");
        assert_eq!(dated(&[signed, ("date", "Thu, 01 Jan 2026 02:03:04 GMT")]).as_deref(), Some("20260101T020304Z"));
        assert_eq!(dated(&[signed, ("date", "Thu, 01 Jan 2026 02:03:04 -0000")]).as_deref(), Some("20260101T020304Z"));
        assert_eq!(dated(&[signed, ("date", "20260101T020304Z")]).as_deref(), Some("20260101T020304Z"));
        assert_eq!(dated(&[signed, ("date", "20260101T020304Z"), ("x-amz-date", "20270101T000000Z")]).as_deref(), Some("20270101T000000Z"));
        assert_eq!(dated(&[signed, ("date", "yesterday")]), None);
        assert_eq!(dated(&[("date", "20260101T020304Z")]), None);
    }

    #[test]
    fn a_url_is_good_for_a_week_at_most() {
        let url = |expires: &str| {
            format!(
                "/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={SCOPE}&X-Amz-Expires={expires}&X-Amz-SignedHeaders=host&X-Amz-Signature={}",
                "0".repeat(64)
            )
        };
        assert_eq!(refused(&url("604800"), &[("host", "h")]), None);
        for expires in ["604801", "-1", "soon"] {
            assert_eq!(refused(&url(expires), &[("host", "h")]).as_deref(), Some("AuthorizationQueryParametersError"), "{expires}");
        }
        assert_eq!(refused(&url("60"), &[("host", "h"), ("x-amz-meta-a", "b")]).as_deref(), Some("AccessDenied"));
        assert_eq!(refused(&url("60"), &[("host", "h"), ("authorization", "AWS KEY:c2ln")]).as_deref(), Some("InvalidArgument"));
    }
}
