//! Conditional requests, by ETag and by time. ETag conditions are parsed here, since the framework
//! supports only a single ETag.

use http::HeaderMap;
use s3s::dto::{ETag, Timestamp, TimestampFormat};
use s3s::{S3Error, S3Result, s3_error};

use crate::s3::version::{Version, ms_of};

/// The ETags of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ETags {
    /// `*`
    Any,
    OneOf(Vec<ETag>),
}

impl ETags {
    /// Parses a header: ETags separated by commas, quoted or, as in AWS, unquoted. `None` if the
    /// header is absent.
    pub(crate) fn of(headers: &HeaderMap, name: &str) -> Option<Self> {
        let values: Vec<_> = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        let listed = values.join(",");
        match listed.trim() {
            "" => None,
            "*" => Some(Self::Any),
            text => Some(Self::OneOf(split(text).into_iter().map(etag).collect())),
        }
    }

    pub(crate) fn has(&self, version: &Version) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(etags) => etags.iter().any(|etag| etag.weak_cmp(&version.etag())),
        }
    }
}

/// Splits a list. A comma inside quotes belongs to an ETag.
fn split(text: &str) -> Vec<&str> {
    let (mut entries, mut from, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                entries.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    entries.push(&text[from..]);
    entries.into_iter().map(str::trim).filter(|entry| !entry.is_empty()).collect()
}

fn etag(entry: &str) -> ETag {
    let (weak, rest) = entry.strip_prefix("W/").map_or((false, entry), |rest| (true, rest));
    let value = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(rest).to_owned();
    if weak { ETag::Weak(value) } else { ETag::Strong(value) }
}

/// Whether `If-Range` allows a partial response: only if the object is byte for byte the one that
/// the client has a part of. True without the header.
pub(crate) fn range_holds(headers: &HeaderMap, version: &Version) -> bool {
    let mut values = headers.get_all(http::header::IF_RANGE).iter();
    let Some(value) = values.next() else { return true };
    let Some(text) = value.to_str().ok().filter(|_| values.next().is_none()) else { return false };
    if let Ok(since) = Timestamp::parse(TimestampFormat::HttpDate, text) {
        return seconds(&since) == seconds(&version.modified());
    }
    etag(text.trim()).strong_cmp(&version.etag())
}

/// The four conditions of a read.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) matches: Option<ETags>,
    pub(crate) none_match: Option<ETags>,
    pub(crate) modified_since: Option<Timestamp>,
    pub(crate) unmodified_since: Option<Timestamp>,
}

impl Conditions {
    /// Checks the conditions in the order of RFC 9110, section 13.2.2: a condition on the ETag
    /// overrides one on the time.
    pub(crate) fn check(&self, version: &Version) -> S3Result<()> {
        match &self.matches {
            Some(condition) if !condition.has(version) => return Err(failed()),
            // HTTP times have whole seconds.
            None if self.unmodified_since.as_ref().is_some_and(|since| seconds(&version.modified()) > seconds(since)) => {
                return Err(failed());
            }
            _ => {}
        }
        match &self.none_match {
            Some(condition) if condition.has(version) => Err(not_modified(version)),
            None if self.modified_since.as_ref().is_some_and(|since| seconds(&version.modified()) <= seconds(since)) => {
                Err(not_modified(version))
            }
            _ => Ok(()),
        }
    }

    /// The same for the source of a copy, where 304 isn't possible.
    pub(crate) fn check_source(&self, version: &Version) -> S3Result<()> {
        self.check(version).map_err(|_| failed())
    }
}

/// Checks whether a put may replace the current version.
pub(crate) fn may_replace(matches: Option<&ETags>, none_match: Option<&ETags>, current: Option<&Version>) -> S3Result<()> {
    if let Some(condition) = matches {
        match current {
            None => return Err(s3_error!(NoSuchKey, "The specified key does not exist.")),
            Some(version) if !condition.has(version) => return Err(failed()),
            Some(_) => {}
        }
    }
    match (none_match, current) {
        (Some(condition), Some(version)) if condition.has(version) => Err(failed()),
        _ => Ok(()),
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
    if let Some(modified) = crate::s3::version::http_date(&version.modified()) {
        headers.insert("last-modified", modified);
    }
    if let Ok(etag) = version.etag().to_http_header() {
        headers.insert("etag", etag);
    }
    error.set_headers(headers);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Option<ETags> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("if-match", value.parse().expect("a value"));
        }
        ETags::of(&headers, "if-match")
    }

    #[test]
    fn conditions_are_lists_of_etags_with_quotes_and_without() {
        let one_of = |etags: &[&str]| Some(ETags::OneOf(etags.iter().map(|text| ETag::Strong((*text).to_owned())).collect()));
        assert_eq!(read(&["\"a\""]), one_of(&["a"]));
        assert_eq!(read(&["\"a\", \"b-2\" ,\"c,d\""]), one_of(&["a", "b-2", "c,d"]));
        assert_eq!(read(&["a_b.c", "\"d\""]), one_of(&["a_b.c", "d"]));
        assert_eq!(read(&["W/\"a\""]), Some(ETags::OneOf(vec![ETag::Weak("a".to_owned())])));
        assert_eq!(read(&["*"]), Some(ETags::Any));
        assert_eq!(read(&[""]), None);
        assert_eq!(read(&[]), None);
    }
}
