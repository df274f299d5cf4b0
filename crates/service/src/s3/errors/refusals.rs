//! Errors that several operations share.

use std::borrow::Cow;

use s3s::{S3Error, S3ErrorCode, s3_error};

/// The request can't be served now; the client should retry after `seconds`.
pub(crate) fn busy(message: impl Into<Cow<'static, str>>, seconds: u32) -> S3Error {
    let mut answer = S3Error::with_message(S3ErrorCode::SlowDown, message);
    let mut headers = http::HeaderMap::new();
    headers.insert("retry-after", seconds.into());
    answer.set_headers(headers);
    answer
}

/// Staging is full; the client should wait.
pub(crate) fn slow_down() -> S3Error {
    busy("Staging is full. Try again when some of it has been archived.", 30)
}

pub(crate) fn no_such_bucket() -> S3Error {
    s3_error!(NoSuchBucket, "The specified bucket does not exist")
}

pub(crate) fn malformed_xml() -> S3Error {
    s3_error!(MalformedXML, "The XML you provided was not well-formed or did not validate against our published schema")
}

pub(crate) fn no_such_key() -> S3Error {
    s3_error!(NoSuchKey, "The specified key does not exist.")
}

/// The version is under retention or legal hold.
pub(crate) fn locked() -> S3Error {
    s3_error!(AccessDenied, "Access Denied because object protected by object lock.")
}

/// The bucket has no object lock.
pub(crate) fn without_object_lock() -> S3Error {
    s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration")
}

/// A retention would end in the past.
pub(crate) fn ends_in_the_past() -> S3Error {
    s3_error!(InvalidArgument, "The retain until date must be in the future!")
}

pub(crate) fn wrong_part_number() -> S3Error {
    s3_error!(InvalidArgument, "Part number must be an integer between 1 and 10000, inclusive")
}

/// The source of a copy has more than `most` bytes.
pub(crate) fn too_long_for_a_copy(most: u64) -> S3Error {
    s3_error!(InvalidRequest, "The specified copy source is larger than the maximum allowable size for a copy source: {most}")
}
