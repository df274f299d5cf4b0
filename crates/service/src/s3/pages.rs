//! Pages of listings: which names a page contains, and where the next one resumes.
//!
//! Names are bytes, keys are UTF-8. Names in a bucket that aren't UTF-8 are skipped; if a page ends
//! after such names, its token contains their bytes.

use fulgurite_archive::catalogue::{After, VersionRow, Versions};
use fulgurite_domain::VersionId;
use s3s::S3Result;

use crate::gateway::Gateway;
use crate::s3::errors::catalogue_failed;
use crate::s3::key_locks::{key_of, object_name, unreadable_start};

/// Rows per query if many of them may share a common prefix.
const ROWS: usize = 64;
/// Maximum number of names without a key that a page skips before it ends early, if it can return a
/// token.
pub(super) const PASSED_MAX: usize = 100_000;

/// An entry of a listing.
pub(super) enum Entry {
    /// A version with its key.
    Row(String, Box<VersionRow>),
    Prefix(String),
}

/// A page.
pub(super) struct Page {
    pub(super) entries: Vec<Entry>,
    pub(super) truncated: bool,
    /// Where the next page resumes if the page ended at names without keys, not after its last
    /// entry: a prefix of those names.
    pub(super) passed: Option<Vec<u8>>,
}

/// The request for a page.
pub(super) struct Wanted<'a> {
    pub(super) bucket: &'a str,
    pub(super) prefix: &'a str,
    pub(super) delimiter: Option<&'a str>,
    pub(super) versions: Versions,
    pub(super) limit: usize,
    /// Maximum number of names without a key that the page skips. Only tokens can resume after
    /// them: markers are keys.
    pub(super) passes: usize,
}

impl Gateway {
    /// A page after `after`. Its cost is proportional to its number of entries: a single seek skips
    /// all keys under a common prefix, and all names with the same prefix that no key shares.
    pub(super) fn page(&self, wanted: &Wanted<'_>, mut after: Option<After>) -> S3Result<Page> {
        let Wanted { bucket, prefix, delimiter, versions, limit, passes } = *wanted;
        let mut entries = Vec::new();
        if limit == 0 {
            return Ok(Page { entries, truncated: false, passed: None });
        }
        let full_prefix = object_name(bucket, prefix).0;
        let mut passed = 0;
        loop {
            let rows = if delimiter.is_some() { ROWS.min(limit + 1) } else { limit + 1 - entries.len() };
            // Names without keys often come in large numbers.
            let rows = if passed > 0 { rows.max(ROWS) } else { rows };
            let page = self.archive.reading().list(&full_prefix, versions, after.as_ref(), rows).map_err(catalogue_failed)?;
            let is_last = page.len() < rows;
            let mut skipped = false;
            for row in page {
                let Some(key) = key_of(bucket, &row.record.name) else {
                    let start = unreadable_start(&row.record.name.0);
                    after = After::prefix(&start);
                    passed += 1;
                    if passed > passes {
                        let start = start[bucket.len() + 1..].to_vec();
                        return Ok(Page { entries, truncated: true, passed: Some(start) });
                    }
                    continue;
                };
                let under = delimiter.and_then(|delimiter| {
                    let at = key.get(prefix.len()..)?.find(delimiter)?;
                    Some(key[..prefix.len() + at + delimiter.len()].to_owned())
                });
                if entries.len() == limit {
                    return Ok(Page { entries, truncated: true, passed: None });
                }
                match under {
                    None => {
                        after = Some(After::row(&row));
                        entries.push(Entry::Row(key.to_owned(), Box::new(row)));
                    }
                    Some(under) => {
                        after = behind_prefix(bucket, &under);
                        entries.push(Entry::Prefix(under));
                        // The remaining rows may have the same prefix.
                        skipped = true;
                        break;
                    }
                }
            }
            if is_last && !skipped {
                return Ok(Page { entries, truncated: false, passed: None });
            }
        }
    }
}

impl Entry {
    pub(super) fn key(&self) -> &str {
        let (Self::Row(key, _) | Self::Prefix(key)) = self;
        key
    }
}

/// The position after all versions of a key, or after everything under it if it is a common prefix.
pub(super) fn behind_key(wanted: &Wanted<'_>, key: &str) -> Option<After> {
    let is_under = wanted.delimiter.is_some_and(|delimiter| {
        key.strip_prefix(wanted.prefix)
            .and_then(|rest| rest.find(delimiter))
            .is_some_and(|at| wanted.prefix.len() + at + delimiter.len() == key.len())
    });
    if is_under {
        behind_prefix(wanted.bucket, key)
    } else {
        Some(After { name: object_name(wanted.bucket, key), version: 0, id: VersionId([0; 16]) })
    }
}

/// The position after all keys with this prefix.
fn behind_prefix(bucket: &str, prefix: &str) -> Option<After> {
    After::prefix(&object_name(bucket, prefix).0)
}

/// Where a listing resumes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// After a key, or after everything under a common prefix.
    Key(String),
    /// After all names with this prefix, which no key shares.
    Passed(Vec<u8>),
}

/// Prefixes of tokens, so that invalid tokens are recognized.
const KEY_TOKEN: &[u8] = b"behind:";
const PASSED_TOKEN: &[u8] = b"passed:";

pub(crate) fn encode_token(token: &Token) -> String {
    let bytes = match token {
        Token::Key(key) => [KEY_TOKEN, key.as_bytes()].concat(),
        Token::Passed(start) => [PASSED_TOKEN, start].concat(),
    };
    base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes)
}

pub(crate) fn decode_token(token: &str) -> Option<Token> {
    let bytes = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(token.as_bytes()).ok()?;
    if let Some(start) = bytes.strip_prefix(PASSED_TOKEN) {
        return Some(Token::Passed(start.to_vec()));
    }
    Some(Token::Key(String::from_utf8(bytes.strip_prefix(KEY_TOKEN)?.to_vec()).ok()?))
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::{Attributes, Kind, ObjectName};

    use super::*;
    use crate::gateway::acknowledgement;
    use crate::sample::{Sample, soon};

    /// Puts an object as the command line does.
    async fn put(sample: &Sample, key: &[u8]) {
        let name = ObjectName([b"photos/".as_slice(), key].concat());
        let object = fulgurite_archive::NewObject { name, kind: Kind::File, modified: None, mode: None, attributes: Attributes::default() };
        let (acknowledge, told) = acknowledgement(());
        sample.upload(b"moon").await.finish(object, Vec::new(), acknowledge);
        soon(told).await.expect("told").expect("acknowledged");
    }

    #[tokio::test]
    async fn a_page_skips_a_limited_number_of_names_without_keys_and_can_be_resumed() {
        let sample = Sample::new();
        for key in [b"a".as_slice(), b"b\x80", b"c\x80", b"d\xff/1", b"d\xff/2", b"e\xc3", "e\u{e9}".as_bytes(), b"f"] {
            put(&sample, key).await;
        }
        for (passes, limit) in [(0, 1), (1, 1), (1, 9), (2, 2), (9, 1)] {
            let wanted = Wanted { bucket: "photos", prefix: "", delimiter: None, versions: Versions::Newest, limit, passes };
            let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
            loop {
                let page = sample.gateway.page(&wanted, after).expect("listed");
                assert!(page.entries.len() <= limit && pages < 9, "{passes} passed, {limit} a page");
                found.extend(page.entries.iter().map(|entry| entry.key().to_owned()));
                after = match (page.truncated, page.passed) {
                    (false, _) => break,
                    (true, Some(start)) => {
                        let token = encode_token(&Token::Passed(start));
                        let Some(Token::Passed(start)) = decode_token(&token) else { panic!("{token} round-trips") };
                        After::prefix(&[b"photos/".as_slice(), &start].concat())
                    }
                    (true, None) => behind_key(&wanted, found.last().expect("an entry")),
                };
                pages += 1;
            }
            assert_eq!(found, ["a", "e\u{e9}", "f"], "{passes} passed, {limit} a page");
        }
    }
}
