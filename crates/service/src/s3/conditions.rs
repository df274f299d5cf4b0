//! Conditional requests, by ETag and by time. ETag conditions are parsed here, since the framework
//! supports only a single ETag.

use http::HeaderMap;
use s3s::dto::{ETag, Timestamp};
use s3s::{S3Error, S3Result, s3_error};

use crate::s3::errors::no_such_key;
use crate::s3::namespace::Namespace;
use crate::s3::version::{Version, http_date, ms_of};

/// The ETags of a condition.
#[derive(Debug, PartialEq, Eq)]
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
/// the client has a part of. True without the header. Never with a date: two versions can have the
/// same one, since it has whole seconds, so it isn't a strong validator (RFC 9110, sections 8.8.2.2
/// and 13.1.5).
pub(crate) fn range_holds(headers: &HeaderMap, version: &Version) -> bool {
    let mut values = headers.get_all(http::header::IF_RANGE).iter();
    let Some(value) = values.next() else { return true };
    let Some(text) = value.to_str().ok().filter(|_| values.next().is_none()) else { return false };
    etag(text.trim()).strong_cmp(&version.etag())
}

/// The four conditions of a read.
#[derive(Debug)]
pub(crate) struct ReadConditions {
    matches: Option<ETags>,
    none_match: Option<ETags>,
    modified_since: Option<Timestamp>,
    unmodified_since: Option<Timestamp>,
}

/// Prefix of conditions on the source of a copy.
pub(crate) const OF_SOURCE: &str = "x-amz-copy-source-";

impl ReadConditions {
    /// Conditions in headers whose names have a prefix: [`OF_SOURCE`], or none.
    pub(crate) fn of(headers: &HeaderMap, prefix: &str, modified_since: Option<Timestamp>, unmodified_since: Option<Timestamp>) -> Self {
        let PutConditions { matches, none_match } = PutConditions::of(headers, prefix);
        Self { matches, none_match, modified_since, unmodified_since }
    }

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

/// The conditions of a put: which version it may replace.
#[derive(Debug, Default)]
pub(crate) struct PutConditions {
    matches: Option<ETags>,
    none_match: Option<ETags>,
}

impl PutConditions {
    pub(crate) fn of(headers: &HeaderMap, prefix: &str) -> Self {
        let etags = |name| ETags::of(headers, &format!("{prefix}{name}"));
        Self { matches: etags("if-match"), none_match: etags("if-none-match") }
    }

    fn check(&self, current: Option<&Version>) -> S3Result<()> {
        if let Some(condition) = &self.matches {
            match current {
                None => return Err(no_such_key()),
                Some(version) if !condition.has(version) => return Err(failed()),
                Some(_) => {}
            }
        }
        match (&self.none_match, current) {
            (Some(condition), Some(version)) if condition.has(version) => Err(failed()),
            _ => Ok(()),
        }
    }
}

impl Namespace {
    /// Checks whether a put may replace the current version. Only a caller that holds the lock of
    /// the key can rely on it later; others call it so that no long body is read in vain.
    pub(crate) fn check_replaceable(&self, bucket: &str, key: &str, conditions: &PutConditions) -> S3Result<()> {
        if conditions.matches.is_none() && conditions.none_match.is_none() {
            return Ok(());
        }
        let current = self.newest(bucket, key)?.filter(|version| !version.is_marker());
        conditions.check(current.as_ref())
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
    let mut headers = HeaderMap::new();
    if let Some(modified) = http_date(&version.modified()) {
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
    use http::HeaderValue;
    use http::header::IF_RANGE;

    use super::*;
    use crate::test_gateway::TestGateway;

    fn read(values: &[&str]) -> Option<ETags> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("if-match", value.parse().expect("a value"));
        }
        ETags::of(&headers, "if-match")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_range_is_never_sent_on_the_condition_of_a_date() {
        let test = TestGateway::new();
        test.put("sun", b"body").await;
        let version = test.gateway.namespace.find("photos", "sun", None).expect("it is there");
        let holds = |value: HeaderValue| range_holds(&HeaderMap::from_iter([(IF_RANGE, value)]), &version);
        // Another version may have been replaced in the same second.
        assert!(!holds(http_date(&version.modified()).expect("a date")));
        assert!(holds(version.etag().to_http_header().expect("an ETag")));
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
