//! Checks the signature of a form, which covers its policy. The policy sets the expiration, so the
//! signature may be older than in other requests.
//!
//! Forms may also be signed by Version 2, which is refused everywhere else. The objections there
//! (it omits the body and most headers, and never expires in a header) don't apply here: both
//! versions sign the policy, which covers all fields and expires. boto3 creates such forms by
//! default.

use std::sync::Arc;

use aws_lc_rs::{constant_time, hmac};
use base64_simd::STANDARD;
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Error, S3Result, s3_error};

use super::reader::Fields;
use crate::s3::errors::{custom, state_failed};
use crate::s3::version::ms_of;
use crate::state::{AccountKey, State, hex};

/// Maximum clock skew of a client that is ahead.
const AHEAD_MS: i64 = 15 * 60_000;
/// Lifetime of a signing key.
const WEEK_MS: i64 = 7 * 86_400_000;

/// The access key that signed a form; `None` if the form has neither policy nor signature.
///
/// # Errors
/// An S3 error if the signature is malformed or wrong.
pub(super) fn check(fields: &Fields, state: &State, region: &str, now_ms: i64) -> S3Result<Option<String>> {
    let has = |name: &str| fields.get(name).is_some();
    if !has("x-amz-signature") && has("signature") {
        return version_2(fields, state).map(Some);
    }
    if !["x-amz-signature", "x-amz-credential", "x-amz-algorithm", "policy", "awsaccesskeyid"].into_iter().any(has) {
        return Ok(None);
    }
    let (policy, signature) = (fields.need("policy")?, fields.need("x-amz-signature")?);
    let (credential, date) = (fields.need("x-amz-credential")?, fields.need("x-amz-date")?);
    if fields.need("x-amz-algorithm")? != "AWS4-HMAC-SHA256" {
        return Err(malformed("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""));
    }
    // An access key may contain slashes, so the credential is parsed from its end.
    let mut parts = credential.rsplitn(5, '/');
    let (Some("aws4_request"), Some(service), Some(named), Some(day), Some(id)) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed("The credential in the form is malformed."));
    };
    if named != region || service != "s3" {
        return Err(malformed("The credential in the form is for another region or service."));
    }
    let signed_ms = time_of(date)
        .filter(|_| date.starts_with(day))
        .ok_or_else(|| malformed("The date in the form is malformed, or differs from that of its credential."))?;
    if signed_ms > now_ms + AHEAD_MS {
        return Err(s3_error!(RequestTimeTooSkewed, "The difference between the request time and the current time is too large."));
    }
    if signed_ms < now_ms - WEEK_MS {
        return Err(s3_error!(AccessDenied, "The form was signed more than a week ago."));
    }
    let key = key(state, id)?;
    let scoped = [day, region, service, "aws4_request"]
        .into_iter()
        .fold(format!("AWS4{}", key.secret.as_str()).into_bytes(), |key, text| mac(&key, text));
    compare(&hex(&mac(&scoped, policy)), signature)?;
    Ok(Some(id.to_owned()))
}

/// Checks a form signed by Version 2 and returns its access key.
fn version_2(fields: &Fields, state: &State) -> S3Result<String> {
    let (policy, signature, id) = (fields.need("policy")?, fields.need("signature")?, fields.need("awsaccesskeyid")?);
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key(state, id)?.secret.as_bytes());
    compare(&STANDARD.encode_to_string(hmac::sign(&key, policy.as_bytes())), signature)?;
    Ok(id.to_owned())
}

fn key(state: &State, id: &str) -> S3Result<Arc<AccountKey>> {
    let key = state.key(id).map_err(state_failed)?;
    key.ok_or_else(|| s3_error!(InvalidAccessKeyId, "The AWS Access Key Id you provided does not exist in our records."))
}

/// Constant-time comparison, so that a guess doesn't reveal how much of it is right.
fn compare(expected: &str, given: &str) -> S3Result<()> {
    constant_time::verify_slices_are_equal(expected.as_bytes(), given.as_bytes()).map_err(|_| {
        s3_error!(
            SignatureDoesNotMatch,
            "The request signature we calculated does not match the signature you provided. Check your key and signing method."
        )
    })
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// Parses `20260101T000000Z`; returns milliseconds since 1970.
fn time_of(text: &str) -> Option<i64> {
    let (day, time) = text.split_once('T')?;
    let digits = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    let time = time.strip_suffix('Z')?;
    if !digits(day, 8) || !digits(time, 6) {
        return None;
    }
    let written = format!("{}-{}-{}T{}:{}:{}Z", &day[..4], &day[4..6], &day[6..], &time[..2], &time[2..4], &time[4..]);
    Timestamp::parse(TimestampFormat::DateTime, &written).ok().map(|time| ms_of(&time))
}

fn malformed(message: &'static str) -> S3Error {
    custom("AuthorizationQueryParametersError", http::StatusCode::BAD_REQUEST, message)
}
