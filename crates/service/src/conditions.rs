//! Conditions of requests: by ETag and by time.

use s3s::dto::{ETagCondition, Timestamp};
use s3s::{S3Error, S3Result, s3_error};

use crate::version::{Version, ms_of};

/// The four conditions of a reading request.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) matches: Option<ETagCondition>,
    pub(crate) none_match: Option<ETagCondition>,
    pub(crate) modified_since: Option<Timestamp>,
    pub(crate) unmodified_since: Option<Timestamp>,
}

impl Conditions {
    /// Whether a version may be read, in the order of RFC 9110, section 13.2.2: a condition on the ETag outweighs one on the time.
    pub(crate) fn check(&self, version: &Version) -> S3Result<()> {
        match &self.matches {
            Some(condition) if !is_one_of(condition, version) => return Err(failed()),
            // HTTP's times are of whole seconds.
            None if self.unmodified_since.as_ref().is_some_and(|since| seconds(&version.modified()) > seconds(since)) => {
                return Err(failed());
            }
            _ => {}
        }
        match &self.none_match {
            Some(condition) if is_one_of(condition, version) => Err(not_modified(version)),
            None if self.modified_since.as_ref().is_some_and(|since| seconds(&version.modified()) <= seconds(since)) => {
                Err(not_modified(version))
            }
            _ => Ok(()),
        }
    }

    /// The same for the source of a copy, where there is no answer 304.
    pub(crate) fn check_source(&self, version: &Version) -> S3Result<()> {
        self.check(version).map_err(|_| failed())
    }
}

/// Whether something may be put in place of what is there now.
pub(crate) fn may_replace(matches: Option<&ETagCondition>, none_match: Option<&ETagCondition>, current: Option<&Version>) -> S3Result<()> {
    if let Some(condition) = matches {
        match current {
            None => return Err(s3_error!(NoSuchKey, "The specified key does not exist.")),
            Some(version) if !is_one_of(condition, version) => return Err(failed()),
            Some(_) => {}
        }
    }
    match (none_match, current) {
        (Some(condition), Some(version)) if is_one_of(condition, version) => Err(failed()),
        _ => Ok(()),
    }
}

fn is_one_of(condition: &ETagCondition, version: &Version) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(etag) => etag.weak_cmp(&version.etag()),
    }
}

fn seconds(time: &Timestamp) -> i64 {
    ms_of(time) / 1_000
}

pub(crate) fn failed() -> S3Error {
    s3_error!(PreconditionFailed, "At least one of the pre-conditions you specified did not hold")
}

fn not_modified(version: &Version) -> S3Error {
    let mut error = s3_error!(NotModified, "Not Modified");
    error.set_status_code(http::StatusCode::NOT_MODIFIED);
    let mut headers = http::HeaderMap::new();
    if let Some(modified) = crate::version::http_date(&version.modified()) {
        headers.insert("last-modified", modified);
    }
    if let Ok(etag) = version.etag().to_http_header() {
        headers.insert("etag", etag);
    }
    error.set_headers(headers);
    error
}
