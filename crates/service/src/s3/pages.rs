//! Pages of listings: their parameters, which keys a page contains, and where the next one resumes.
//!
//! Names are bytes, keys are UTF-8. Names in a bucket that aren't UTF-8 are skipped; if a page ends
//! after such names, its token contains their bytes.

use s3s::dto::{CommonPrefix, EncodingType};
use s3s::{S3Result, s3_error};

use crate::http::url_encoding;

/// Maximum number of entries of a page.
const PAGE_ENTRIES_MAX: usize = 1_000;
/// Rows per query if many of them may share a common prefix.
const ROWS_PER_QUERY: usize = 64;

/// The parameters that all listings share.
#[derive(Debug)]
pub(crate) struct Parameters {
    pub(crate) prefix: String,
    pub(crate) delimiter: Option<String>,
    /// Maximum number of entries.
    pub(crate) limit: usize,
    /// The encoding of names in the response: as they are, or URL.
    pub(crate) encoding: Option<EncodingType>,
}

impl Parameters {
    pub(super) fn read(
        prefix: Option<String>,
        delimiter: Option<String>,
        limit: Option<i32>,
        encoding: Option<EncodingType>,
    ) -> S3Result<Self> {
        let limit = usize::try_from(limit.unwrap_or(PAGE_ENTRIES_MAX as i32));
        let limit = limit.map_err(|_| s3_error!(InvalidArgument, "Argument maxKeys must be an integer between 0 and 2147483647"))?;
        if encoding.as_ref().is_some_and(|encoding| encoding.as_str() != EncodingType::URL) {
            return Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request"));
        }
        let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty());
        Ok(Self { prefix: prefix.unwrap_or_default(), delimiter, limit: limit.min(PAGE_ENTRIES_MAX), encoding })
    }

    pub(super) fn encode(&self, text: &str) -> String {
        match self.encoding {
            None => text.to_owned(),
            // Slashes aren't encoded, as in AWS.
            Some(_) => text.split('/').map(url_encoding::encode).collect::<Vec<_>>().join("/"),
        }
    }

    /// The common prefix under which a key is listed, if any.
    fn common_prefix<'k>(&self, key: &'k str) -> Option<&'k str> {
        let delimiter = self.delimiter.as_deref()?;
        let at = key.strip_prefix(self.prefix.as_str())?.find(delimiter)?;
        Some(&key[..self.prefix.len() + at + delimiter.len()])
    }

    /// The position after all rows with a key, or after everything under it if it is a common
    /// prefix.
    pub(crate) fn after_key<R: Rows>(&self, rows: &R, key: &str) -> Option<R::Position> {
        let is_prefix = self.common_prefix(key) == Some(key);
        rows.after(if is_prefix { Last::Prefix(key.as_bytes()) } else { Last::Key(key) })
    }
}

/// Makes an output with the fields that all listings share.
macro_rules! listing {
    ($output:ident of $parameters:ident, $prefixes:ident, $truncated:ident; $($field:ident: $value:expr,)*) => {
        s3s::dto::$output {
            common_prefixes: Some($prefixes),
            delimiter: $parameters.delimiter.as_deref().map(|delimiter| $parameters.encode(delimiter)),
            encoding_type: $parameters.encoding.clone(),
            is_truncated: Some($truncated),
            prefix: Some($parameters.encode(&$parameters.prefix)),
            $($field: $value,)*
            ..Default::default()
        }
    };
}

pub(super) use listing;

/// Rows in order of their keys, which a listing shows by pages.
pub(crate) trait Rows {
    type Row;
    /// A position between rows.
    type Position;
    /// Maximum number of rows that are read at once.
    const ROWS_PER_QUERY_MAX: usize;

    /// Up to `limit` rows with the listing's prefix after a position, or from the first.
    fn read(&self, after: Option<&Self::Position>, limit: usize) -> S3Result<Vec<Self::Row>>;

    /// The key of a row. If its name isn't a key, the shortest prefix of the name that no key
    /// shares.
    fn key<'r>(&self, row: &'r Self::Row) -> Result<&'r str, Vec<u8>>;

    /// The position after what ends a page. It is `None`, which [`read`](Self::read) takes for the
    /// beginning, only if no row could follow; names of a bucket always leave room for one.
    fn after(&self, last: Last<'_, Self::Row>) -> Option<Self::Position>;
}

/// What ends a page.
pub(crate) enum Last<'a, Row> {
    Row(&'a Row),
    /// All rows with a key.
    Key(&'a str),
    /// All rows whose names have this prefix.
    Prefix(&'a [u8]),
}

/// An entry of a listing.
pub(crate) enum Entry<Row> {
    /// A row with its key.
    Row(String, Box<Row>),
    Prefix(String),
}

/// A page.
pub(crate) struct Page<Row> {
    pub(crate) entries: Vec<Entry<Row>>,
    pub(crate) truncated: bool,
    /// Where the next page resumes if the page ended at names without keys, not after its last
    /// entry: a prefix of those names.
    pub(crate) resume_prefix: Option<Vec<u8>>,
}

/// A page after `after`. Its cost is proportional to its number of entries and of skipped names: a
/// single seek skips all keys under a common prefix, and all names with the same prefix that no key
/// shares. It skips up to `skips_max` names without a key; only tokens can resume after them, since
/// markers are keys.
pub(crate) fn page<R: Rows>(rows: &R, parameters: &Parameters, skips_max: usize, mut after: Option<R::Position>) -> S3Result<Page<R::Row>> {
    let mut page = Page { entries: Vec::new(), truncated: false, resume_prefix: None };
    if parameters.limit == 0 {
        return Ok(page);
    }
    let mut skipped_names = 0;
    loop {
        let rows_max = if parameters.delimiter.is_some() {
            ROWS_PER_QUERY.min(parameters.limit + 1)
        } else {
            parameters.limit + 1 - page.entries.len()
        };
        // Names without keys often come in large numbers.
        let rows_max = if skipped_names > 0 { rows_max.max(ROWS_PER_QUERY) } else { rows_max }.min(R::ROWS_PER_QUERY_MAX);
        let found = rows.read(after.as_ref(), rows_max)?;
        let is_last = found.len() < rows_max;
        let mut skipped_prefix = false;
        for row in found {
            let key = match rows.key(&row) {
                Ok(key) => key,
                Err(start) => {
                    after = rows.after(Last::Prefix(&start));
                    skipped_names += 1;
                    if skipped_names > skips_max {
                        return Ok(Page { truncated: true, resume_prefix: Some(start), ..page });
                    }
                    continue;
                }
            };
            if page.entries.len() == parameters.limit {
                return Ok(Page { truncated: true, ..page });
            }
            if let Some(common_prefix) = parameters.common_prefix(key) {
                after = rows.after(Last::Prefix(common_prefix.as_bytes()));
                page.entries.push(Entry::Prefix(common_prefix.to_owned()));
                // The remaining rows may have the same prefix.
                skipped_prefix = true;
                break;
            }
            after = rows.after(Last::Row(&row));
            page.entries.push(Entry::Row(key.to_owned(), Box::new(row)));
        }
        if is_last && !skipped_prefix {
            return Ok(page);
        }
    }
}

impl<Row> Entry<Row> {
    pub(crate) fn key(&self) -> &str {
        let (Self::Row(key, _) | Self::Prefix(key)) = self;
        key
    }
}

impl<Row> Page<Row> {
    /// The last entry, if another page follows.
    pub(crate) fn last(&self) -> Option<&Entry<Row>> {
        self.entries.last().filter(|_| self.truncated)
    }

    /// Splits the entries into rows, as a response shows them, and common prefixes.
    pub(super) fn split<T>(
        self,
        parameters: &Parameters,
        mut shown: impl FnMut(String, Row) -> S3Result<T>,
    ) -> S3Result<(Vec<T>, Vec<CommonPrefix>)> {
        let (mut rows, mut prefixes) = (Vec::new(), Vec::new());
        for entry in self.entries {
            match entry {
                Entry::Row(key, row) => rows.push(shown(key, *row)?),
                Entry::Prefix(prefix) => prefixes.push(CommonPrefix { prefix: Some(parameters.encode(&prefix)) }),
            }
        }
        Ok((rows, prefixes))
    }
}

/// Where a listing resumes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// After a key, or after everything under a common prefix.
    Key(String),
    /// After all names with this prefix, which no key shares.
    Prefix(Vec<u8>),
}

/// Prefixes of tokens, so that invalid tokens are recognized.
const KEY_TOKEN: &[u8] = b"behind:";
const PREFIX_TOKEN: &[u8] = b"passed:";

pub(crate) fn encode_token(token: &Token) -> String {
    let bytes = match token {
        Token::Key(key) => [KEY_TOKEN, key.as_bytes()].concat(),
        Token::Prefix(start) => [PREFIX_TOKEN, start].concat(),
    };
    base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes)
}

pub(crate) fn decode_token(token: &str) -> Option<Token> {
    let bytes = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(token.as_bytes()).ok()?;
    if let Some(start) = bytes.strip_prefix(PREFIX_TOKEN) {
        return Some(Token::Prefix(start.to_vec()));
    }
    Some(Token::Key(String::from_utf8(bytes.strip_prefix(KEY_TOKEN)?.to_vec()).ok()?))
}

#[cfg(test)]
mod tests {
    use fulgurite_archive::catalogue::{ListCursor, Versions};
    use fulgurite_domain::{Attributes, Kind, ObjectName};

    use super::*;
    use crate::gateway::acknowledgement;
    use crate::s3::list::VersionRows;
    use crate::test_gateway::{TestGateway, soon};

    /// Puts an object as the command line does.
    async fn put(test: &TestGateway, key: &[u8]) {
        let name = ObjectName([b"photos/".as_slice(), key].concat());
        let object = fulgurite_archive::NewObject { name, kind: Kind::File, modified: None, mode: None, attributes: Attributes::default() };
        let (acknowledge, acknowledged) = acknowledgement(());
        test.upload(b"moon").await.finish(object, Vec::new(), acknowledge);
        soon(acknowledged).await.expect("acknowledged").expect("acknowledged");
    }

    #[tokio::test]
    async fn a_page_skips_a_limited_number_of_names_without_keys_and_can_be_resumed() {
        let test = TestGateway::new();
        for key in [b"a".as_slice(), b"b\x80", b"c\x80", b"d\xff/1", b"d\xff/2", b"e\xc3", "e\u{e9}".as_bytes(), b"f"] {
            put(&test, key).await;
        }
        let rows = VersionRows::new(&test.gateway.namespace, "photos", "", Versions::Newest);
        for (skips_max, limit) in [(0, 1), (1, 1), (1, 9), (2, 2), (9, 1)] {
            let wanted = Parameters { prefix: String::new(), delimiter: None, limit, encoding: None };
            let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
            loop {
                let page = page(&rows, &wanted, skips_max, after).expect("listed");
                assert!(page.entries.len() <= limit && pages < 9, "{skips_max} passed, {limit} a page");
                found.extend(page.entries.iter().map(|entry| entry.key().to_owned()));
                after = match (page.truncated, page.resume_prefix) {
                    (false, _) => break,
                    (true, Some(start)) => {
                        let token = encode_token(&Token::Prefix(start));
                        let Some(Token::Prefix(start)) = decode_token(&token) else { panic!("{token} round-trips") };
                        ListCursor::after_prefix(&[b"photos/".as_slice(), &start].concat())
                    }
                    (true, None) => wanted.after_key(&rows, found.last().expect("an entry")),
                };
                pages += 1;
            }
            assert_eq!(found, ["a", "e\u{e9}", "f"], "{skips_max} passed, {limit} a page");
        }
    }
}
