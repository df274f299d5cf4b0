//! Errors that several operations return in the same words.

use std::error::Error;

use s3s::{S3Error, s3_error};

use super::failed;

/// For `map_err`: reports an internal failure of `what`.
pub(crate) fn internal_error<E: Error>(what: &'static str) -> impl FnOnce(E) -> S3Error {
    move |error| failed(what, &error)
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
