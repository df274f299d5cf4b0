//! Who signed a form: Signature Version 4 over its policy. The policy says until when, so the time of the signature need not be now.

use aws_lc_rs::{constant_time, hmac};
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Error, S3Result, s3_error};

use super::reader::Fields;
use crate::failures::{custom, state_failed};
use crate::signatures::version_2;
use crate::state::{State, hex};
use crate::version::ms_of;

/// How far the clock of a client may be ahead.
const AHEAD_MS: i64 = 15 * 60_000;
/// How long a key for signatures is good.
const WEEK_MS: i64 = 7 * 86_400_000;

/// The access key that a form was signed with; none where it has neither policy nor signature.
///
/// # Errors
/// What is wrong with its signature.
pub(super) fn check(fields: &Fields, state: &State, region: &str, now_ms: i64) -> S3Result<Option<String>> {
    let has = |name: &str| fields.get(name).is_some();
    if !has("x-amz-signature") && has("signature") {
        return Err(version_2());
    }
    if !["x-amz-signature", "x-amz-credential", "x-amz-algorithm", "policy", "awsaccesskeyid"].into_iter().any(has) {
        return Ok(None);
    }
    let (policy, signature) = (fields.need("policy")?, fields.need("x-amz-signature")?);
    let (credential, date) = (fields.need("x-amz-credential")?, fields.need("x-amz-date")?);
    if fields.need("x-amz-algorithm")? != "AWS4-HMAC-SHA256" {
        return Err(malformed("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""));
    }
    // An access key may have slashes, so it is read from the end.
    let mut parts = credential.rsplitn(5, '/');
    let (Some("aws4_request"), Some(service), Some(named), Some(day), Some(id)) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed("The credential in the form is none."));
    };
    if named != region || service != "s3" {
        return Err(malformed("The credential in the form is of another region or service."));
    }
    let signed_ms = time_of(date)
        .filter(|_| date.starts_with(day))
        .ok_or_else(|| malformed("The date in the form is none, or not that of its credential."))?;
    if signed_ms > now_ms + AHEAD_MS {
        return Err(s3_error!(RequestTimeTooSkewed, "The difference between the request time and the current time is too large."));
    }
    if signed_ms < now_ms - WEEK_MS {
        return Err(s3_error!(AccessDenied, "The form was signed more than a week ago."));
    }
    let Some(key) = state.key(id).map_err(state_failed)? else {
        return Err(s3_error!(InvalidAccessKeyId, "The AWS Access Key Id you provided does not exist in our records."));
    };
    let scoped = [day, region, service, "aws4_request"]
        .into_iter()
        .fold(format!("AWS4{}", key.secret.as_str()).into_bytes(), |key, text| mac(&key, text));
    let expected = hex(&mac(&scoped, policy));
    // In constant time: whoever guesses must not learn how far the guess is right.
    if constant_time::verify_slices_are_equal(expected.as_bytes(), signature.as_bytes()).is_err() {
        return Err(s3_error!(
            SignatureDoesNotMatch,
            "The request signature we calculated does not match the signature you provided. Check your key and signing method."
        ));
    }
    Ok(Some(id.to_owned()))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// `20260101T000000Z`, in milliseconds since 1970.
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
