//! Strict parser of signatures. Every request passes it before the framework verifies the
//! signature.
//!
//! The framework parses `Authorization` and the `X-Amz-…` parameters more loosely: it accepts any
//! algorithm word, tabs, and text beyond ASCII. Input that the two parse differently could bypass
//! the rules on signed headers, region and service. So this parser rejects any input that it
//! doesn't understand to the last byte, which leaves one form.
//!
//! Signature Version 2 is rejected, though the framework accepts it: it signs neither the body nor
//! most headers, never expires in a header, and AWS has retired it.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Error, S3Result, s3_error};
use time::{Date, Month, Time};

use crate::http::url_encoding::decode;
use crate::s3::errors::{custom, detailed};

/// The only supported algorithm.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The header with the time of signing.
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
/// The header with the SHA-256 of the body, or the way in which the body is signed.
pub(crate) const PAYLOAD: HeaderName = HeaderName::from_static("x-amz-content-sha256");
/// The length of chunked content without its framing.
pub(crate) const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
/// Maximum lifetime of a presigned URL: a week.
const EXPIRES_SECONDS_MAX: u32 = 604_800;
/// Marks content in unsigned chunks.
pub(crate) const UNSIGNED_CHUNKS: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
/// Values of `x-amz-content-sha256` other than a digest.
const PAYLOADS: [&str; 6] = [
    "UNSIGNED-PAYLOAD",
    UNSIGNED_CHUNKS,
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
    "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER",
];
/// Parameters that every presigned URL must have exactly once.
const REQUIRED: [&str; 6] =
    ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature"];
/// An optional parameter of presigned URLs.
const TOKEN: &str = "X-Amz-Security-Token";

/// Where a request has its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signing {
    /// The request is unsigned.
    Unsigned,
    /// In the header `Authorization`.
    Header,
    /// In the query of a presigned URL.
    Url,
}

/// Whether a query parameter belongs to a presigned URL's signature and not to the operation.
pub(crate) fn is_of_signature(parameter: &str) -> bool {
    REQUIRED.contains(&parameter) || parameter == TOKEN
}

/// Determines how a request is signed, and validates the form of the signature.
///
/// # Errors
/// An S3 error if the signature is incomplete or malformed. The framework verifies the signature
/// itself.
pub(crate) fn check(uri: &Uri, headers: &HeaderMap, region: &str) -> S3Result<Signing> {
    let query = Query::new(uri)?;
    let authorization = single_value(headers, &header::AUTHORIZATION).map_err(|()| several_mechanisms())?;
    let is_presigned = query.is_presigned();
    if query.has("Signature") || query.has("AWSAccessKeyId") {
        return Err(if authorization.is_some() { several_mechanisms() } else { unsupported_version_2() });
    }
    let signing = match (authorization, is_presigned) {
        (Some(_), true) => return Err(several_mechanisms()),
        (Some(value), false) => {
            check_header(value, headers, region)?;
            Signing::Header
        }
        (None, true) => {
            check_url(&query, headers, region)?;
            Signing::Url
        }
        (None, false) => Signing::Unsigned,
    };
    check_payload(signing, headers)?;
    Ok(signing)
}

/// Adds `x-amz-date` to a signed request that has its time of signing in `Date`, which S3 also
/// accepts. The signature covers the time itself, so the added header needn't be signed.
pub(crate) fn add_signing_time(headers: &mut HeaderMap) {
    if !headers.contains_key(header::AUTHORIZATION) || headers.contains_key(DATE) {
        return;
    }
    if let Some(timestamp) = signing_time(headers).and_then(|timestamp| HeaderValue::try_from(timestamp).ok()) {
        headers.insert(DATE, timestamp);
    }
}

/// The time of signing that a request states, as `20260101T000000Z`.
fn signing_time(headers: &HeaderMap) -> Option<String> {
    if headers.contains_key(DATE) {
        return single_value(headers, &DATE).ok()?.filter(|timestamp| is_timestamp(timestamp)).map(str::to_owned);
    }
    let date = single_value(headers, &header::DATE).ok()??;
    if is_timestamp(date) {
        return Some(date.to_owned());
    }
    // The HTTP parser knows only GMT; mail clients write offsets of zero.
    let date =
        date.strip_suffix("-0000").or_else(|| date.strip_suffix("+0000")).map_or_else(|| date.to_owned(), |rest| format!("{rest}GMT"));
    let time: time::OffsetDateTime = Timestamp::parse(TimestampFormat::HttpDate, &date).ok()?.into();
    let (day, (hour, minute, second)) = (time.date(), time.time().as_hms());
    Some(format!("{:04}{:02}{:02}T{hour:02}{minute:02}{second:02}Z", day.year(), u8::from(day.month()), day.day()))
}

/// Whether the text is a valid time of the form `20260101T000000Z`.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' || !text.is_ascii() {
        return false;
    }
    let number = |from: usize, to: usize| digits(&text[from..to]);
    let time = || {
        let month = Month::try_from(u8::try_from(number(4, 6)?).ok()?).ok()?;
        let two = |from: usize| u8::try_from(number(from, from + 2)?).ok();
        Date::from_calendar_date(i32::try_from(number(0, 4)?).ok()?, month, two(6)?).ok()?;
        Time::from_hms(two(9)?, two(11)?, two(13)?).ok()
    };
    time().is_some()
}

/// Parses a number of digits only, without sign or blank.
fn digits(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The value of a header that may occur once. A value that isn't printable ASCII becomes empty,
/// which is invalid in every header of a signature.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str().unwrap_or_default());
    if values.next().is_some() { Err(()) } else { Ok(value) }
}

/// The fields of the header `Authorization`.
struct Authorization<'a> {
    credential: &'a str,
    signed: Vec<&'a str>,
    signature: &'a str,
}

impl<'a> Authorization<'a> {
    /// Parses `Credential=…, SignedHeaders=…, Signature=…`, in this order as all SDKs write it.
    /// Blanks after the commas are optional.
    fn parse(fields: &'a str) -> Result<Self, &'static str> {
        if fields.starts_with(' ') {
            return Err("expected one blank after the algorithm");
        }
        let mut rest = fields.split(',');
        let mut field = |name: &str, missing| {
            let value = rest.next().and_then(|field| field.trim_start_matches(' ').strip_prefix(name)?.strip_prefix('='));
            value.ok_or(missing)
        };
        let credential = field("Credential", "missing Credential")?;
        let signed = field("SignedHeaders", "missing SignedHeaders")?;
        let signature = field("Signature", "missing Signature")?;
        if rest.next().is_some() {
            return Err("expected only Credential, SignedHeaders and Signature, in this order");
        }
        Ok(Self { credential, signed: signed_names(signed).ok_or("SignedHeaders is not a list of header names")?, signature })
    }
}

/// Parses the names in `SignedHeaders`: lower case, without duplicates, which the framework would
/// hash twice.
fn signed_names(text: &str) -> Option<Vec<&str>> {
    let mut names: Vec<&str> = Vec::new();
    for name in text.split(';') {
        let is_name = HeaderName::from_bytes(name.as_bytes()).is_ok_and(|header| header.as_str() == name);
        if !is_name || names.contains(&name) {
            return None;
        }
        names.push(name);
    }
    Some(names)
}

/// Validates the header `Authorization`.
fn check_header(value: &str, headers: &HeaderMap, region: &str) -> S3Result<()> {
    const CODE: &str = "AuthorizationHeaderMalformed";
    const WHAT: &str = "The authorization header is malformed";
    let (algorithm, fields) = value.split_once(' ').unwrap_or((value, ""));
    match algorithm {
        ALGORITHM => {}
        "AWS" => return Err(unsupported_version_2()),
        _ => return Err(s3_error!(InvalidArgument, "Unsupported Authorization Type")),
    }
    let given = Authorization::parse(fields).map_err(|wrong| with_region(region, CODE, format!("{WHAT}; {wrong}")))?;
    let day = check_scope(given.credential, region, CODE, WHAT)?;
    let timestamp =
        signing_time(headers).ok_or_else(|| s3_error!(AccessDenied, "AWS authentication requires a valid Date or x-amz-date header"))?;
    if !timestamp.starts_with(day) {
        let message =
            format!("{WHAT}; Invalid credential date \"{day}\". This date is not the same as X-Amz-Date: \"{}\".", &timestamp[..8]);
        return Err(with_region(region, CODE, message));
    }
    check_signed(&given.signed, headers, &[])?;
    check_signature(given.signature)
}

/// Validates the parameters of a presigned URL.
fn check_url(query: &Query, headers: &HeaderMap, region: &str) -> S3Result<()> {
    const CODE: &str = "AuthorizationQueryParametersError";
    let malformed = |message| Err(custom(CODE, http::StatusCode::BAD_REQUEST, message));
    let Some([algorithm, credential, date, expires, signed, signature]) = query.presigned() else {
        return malformed(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters, each once.",
        );
    };
    if algorithm != ALGORITHM {
        return malformed("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"");
    }
    match digits(expires) {
        Some(seconds) if seconds <= EXPIRES_SECONDS_MAX => {}
        _ if expires.strip_prefix('-').is_some_and(is_number) => return malformed("X-Amz-Expires must be non-negative"),
        _ if is_number(expires) => {
            return malformed(
                "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
            );
        }
        _ => return malformed("X-Amz-Expires should be a number"),
    }
    let day = check_scope(credential, region, CODE, "Error parsing the X-Amz-Credential parameter")?;
    if !is_timestamp(date) {
        return malformed("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"");
    }
    if !date.starts_with(day) {
        return malformed("The date of X-Amz-Credential is not the same as X-Amz-Date");
    }
    let Some(signed) = signed_names(signed) else { return malformed("X-Amz-SignedHeaders is not a list of header names") };
    // A presigned URL doesn't cover the body, so the header with its digest needs no signature
    // either.
    check_signed(&signed, headers, &[PAYLOAD.as_str()])?;
    check_signature(signature)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Validates `key/date/region/service/aws4_request` and returns its date.
fn check_scope<'a>(credential: &'a str, region: &str, code: &'static str, what: &str) -> S3Result<&'a str> {
    let wrong = |message: String| Err(with_region(region, code, message));
    let parts: Vec<&str> = credential.split('/').collect();
    let &[key, day, named, service, "aws4_request"] = parts.as_slice() else {
        return wrong(format!("{what}; the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"."));
    };
    if key.is_empty() || day.len() != 8 || !is_number(day) {
        return wrong(format!("{what}; the Credential is mal-formed; it has no access key, or \"{day}\" is not a date"));
    }
    if named != region {
        return wrong(format!("{what}; the region '{named}' is wrong; expecting '{region}'"));
    }
    if service != "s3" {
        return wrong(format!("{what}; incorrect service \"{service}\". This endpoint belongs to \"s3\"."));
    }
    Ok(day)
}

/// An error that tells the client the right region.
fn with_region(region: &str, code: &'static str, message: String) -> S3Error {
    let mut error = S3Error::with_message(s3s::S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(http::StatusCode::BAD_REQUEST);
    detailed(error, &[("Region", region)])
}

/// Requires that the host and all `x-amz-` headers are signed: otherwise anyone who relays a
/// request could add some. Headers with a value that isn't UTF-8 count as unsigned, since the
/// framework omits them from the signature.
fn check_signed(signed: &[&str], headers: &HeaderMap, exempt: &[&str]) -> S3Result<()> {
    let has_to_be = |name: &str| (name == "host" || name.starts_with("x-amz-")) && !exempt.contains(&name);
    let is_covered =
        |name: &str| signed.contains(&name) && headers.get_all(name).iter().all(|value| std::str::from_utf8(value.as_bytes()).is_ok());
    let missing: Vec<&str> = headers.keys().map(HeaderName::as_str).filter(|name| has_to_be(name) && !is_covered(name)).collect();
    if missing.is_empty() && signed.contains(&"host") {
        return Ok(());
    }
    let error = s3_error!(AccessDenied, "There were headers present in the request which were not signed");
    Err(detailed(error, &[("HeadersNotSigned", &missing.join(", "))]))
}

fn check_signature(signature: &str) -> S3Result<()> {
    if is_hex(signature, 64) {
        return Ok(());
    }
    Err(s3_error!(
        SignatureDoesNotMatch,
        "The request signature we calculated does not match the signature you provided. Check your key and signing method."
    ))
}

/// Validates `x-amz-content-sha256`.
fn check_payload(signing: Signing, headers: &HeaderMap) -> S3Result<()> {
    let payload = match single_value(headers, &PAYLOAD) {
        Ok(None) if signing == Signing::Header => {
            return Err(s3_error!(InvalidRequest, "Missing required header for this request: x-amz-content-sha256"));
        }
        Ok(None) => None,
        Ok(Some(payload)) if PAYLOADS.contains(&payload) || is_hex(payload, 64) => Some(payload),
        Ok(Some(_)) | Err(()) => {
            return Err(s3_error!(
                InvalidArgument,
                "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value."
            ));
        }
    };
    let is_chunked = payload.is_some_and(|payload| payload.starts_with("STREAMING-"));
    match signing {
        Signing::Unsigned if is_chunked && payload != Some(UNSIGNED_CHUNKS) => {
            Err(s3_error!(InvalidRequest, "x-amz-content-sha256 announces signed chunks, but the request is not signed."))
        }
        // Unannounced chunks would be stored with their framing.
        Signing::Header | Signing::Url if !is_chunked && headers.contains_key(DECODED_LENGTH) => {
            Err(s3_error!(InvalidRequest, "x-amz-decoded-content-length requires content in chunks, announced by x-amz-content-sha256."))
        }
        _ => Ok(()),
    }
}

fn several_mechanisms() -> S3Error {
    s3_error!(
        InvalidArgument,
        "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the Authorization header should be specified"
    )
}

/// The error for Signature Version 2, in a header or a URL.
fn unsupported_version_2() -> S3Error {
    s3_error!(InvalidRequest, "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.")
}

/// Whether the text is `length` lower-case hexadecimal digits.
fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Query parameters, decoded as the framework does, so that an encoded name can't bypass the
/// checks.
struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes the query. Rejects invalid percent encodings and bytes that aren't UTF-8, in the
    /// path too: the operations would decode them differently than policies and this parser do.
    fn new(uri: &Uri) -> S3Result<Self> {
        let text = |text: &str| decode(text).ok_or_else(|| s3_error!(InvalidURI, "Couldn't parse the specified URI."));
        text(uri.path())?;
        let pairs = uri.query().unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.map(|(name, value)| Ok((text(name)?, text(value)?))).collect::<S3Result<_>>().map(Self)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| own == name)
    }

    /// Whether any parameter belongs to a presigned URL, in any case of letters.
    fn is_presigned(&self) -> bool {
        let is_of_url = |name: &String| REQUIRED.iter().chain(&[TOKEN]).any(|own| own.eq_ignore_ascii_case(name));
        self.0.iter().any(|(name, _)| is_of_url(name))
    }

    /// The parameters of a presigned URL; `None` unless each occurs exactly once.
    fn presigned(&self) -> Option<[&str; 6]> {
        let mut found = [None; 6];
        for (name, value) in &self.0 {
            let Some(at) = REQUIRED.iter().position(|own| own.eq_ignore_ascii_case(name)) else { continue };
            if REQUIRED[at] != name || found[at].replace(value.as_str()).is_some() {
                return None;
            }
        }
        let found: Vec<&str> = found.into_iter().flatten().collect();
        found.try_into().ok()
    }
}

/// Whether a request is a browser form, which has its signature in its fields. It is true for
/// everything that the framework could take for a form, so that none reaches it.
pub(crate) fn is_form(method: &Method, headers: &HeaderMap) -> bool {
    const KIND: &[u8] = b"multipart/form-data";
    let is_kind = |kind: &[u8]| kind.get(..KIND.len()).is_some_and(|start| start.eq_ignore_ascii_case(KIND));
    *method == Method::POST && headers.get_all(header::CONTENT_TYPE).iter().any(|value| is_kind(value.as_bytes().trim_ascii_start()))
}

#[cfg(test)]
mod tests;
