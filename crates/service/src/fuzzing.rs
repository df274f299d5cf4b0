//! What reads outside input here, for the fuzz targets and the tests of what they found; with the feature `fuzzing` only. Each function takes input as
//! it comes and panics where something is not as it should be.

use fulgurite_archive::catalogue::{VersionKey, VersionRow};
use fulgurite_domain::VersionId;
use fulgurite_format::{decode_record, stored_bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use s3s::dto::{CopySource, ETagCondition, Tag, Timestamp, TimestampFormat};

use crate::auth::policy::{Answer, Facts, Network, Origin, Policy, Question, like};
use crate::auth::signatures::{Signing, check, is_form, is_of_signature};
use crate::s3::bulk_get;
use crate::s3::bulk_get::tar::{self, BLOCK_BYTES, Entry};
use crate::s3::copy::parse_range;
use crate::s3::normalize::{mend_range, pass_over, unsigned};
use crate::s3::pages::{decode_token, encode_token};
use crate::s3::tags;
use crate::s3::version::{Version, http_date, ms_of};
use crate::settings::Settings;
use crate::state::Account;
use crate::transfer::checksums::{Claims, Trailing};
use crate::transfer::upload::length_of;

mod operations;
mod requests;
mod signing;

pub use requests::Requests;

/// A policy, behind a line with the action, key, query and address of a request: the same answer twice, none for who is of no statement.
pub fn policy(text: &str) {
    let (asked, policy) = text.split_once('\n').unwrap_or(("s3:GetObject a prefix=a 10.0.0.1", text));
    let mut asked = asked.split(' ');
    let mut next = || asked.next().unwrap_or_default();
    let (action, key, query, peer) = (next(), next(), next(), next().parse().ok());
    if action.len() + key.len() <= 20 {
        let characters = |text: &str| text.chars().collect::<Vec<_>>();
        assert_eq!(like(key, action), like_plainly(&characters(key), &characters(action)), "{key} {action}");
    }
    if let (Some(network), Some(peer)) = (Network::parse(key), peer) {
        let _ = network.holds(peer);
    }
    if let (Some(only), Ok(address)) = (Network::parse(key), key.parse()) {
        assert!(only.holds(address) || std::net::IpAddr::to_canonical(&address) != address, "{key} is in itself");
    }
    let Ok(policy) = Policy::parse(policy) else { return };
    let is_checked = policy.check("b").is_ok();
    let account = Account { name: "ada".to_owned(), id: "0".repeat(64), admin: false };
    let headers = HeaderMap::from_iter([
        (header::REFERER, HeaderValue::from_static("https://a.example/b")),
        (header::USER_AGENT, HeaderValue::from_static("c/1")),
    ]);
    let origin = Origin::new(peer, true, &headers);
    let tags = [Tag { key: Some("a".to_owned()), value: Some("b".to_owned()) }];
    for account in [None, Some(&account)] {
        let facts =
            Facts { query: Some(query), headers: Some(&headers), new_tags: &tags, tags: &tags, ..Facts::of(&origin, 1_700_000_000_000) };
        let question = Question { facts, account, action, bucket: "b", key: (!key.is_empty()).then_some(key) };
        let answer = policy.answer(&question);
        assert_eq!(policy.answer(&question), answer);
        // What names another bucket says nothing of this one.
        if is_checked {
            assert_eq!(policy.answer(&Question { bucket: "c", ..question }), Answer::Silent);
        }
    }
}

/// Patterns as they are defined, at the cost of trying everything.
fn like_plainly(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some(('*', rest)), None) => like_plainly(rest, text),
        (Some(('*', rest)), Some((_, text_rest))) => like_plainly(rest, text) || like_plainly(pattern, text_rest),
        (Some((p, rest)), Some((t, text_rest))) => (*p == '?' || p == t) && like_plainly(rest, text_rest),
        (Some(_), None) => false,
    }
}

/// Tags as they stand in a header. Those that are taken come back from what is kept.
pub fn tags(text: &str) {
    assert_eq!(tags::decode(&tags::encode_text(text)).as_deref(), Some(text));
    let Ok(read) = tags::parse(text) else { return };
    assert_eq!(tags::parse(&tags::encode(&read)).expect("what is kept can be read"), read);
    if tags::check(&read, tags::OBJECT_MAX).is_ok() {
        assert!(read.len() <= tags::OBJECT_MAX);
        tags::check(&read, tags::BUCKET_MAX).expect("a bucket may have more");
    }
}

/// The first line of a request's head without its method, and its headers.
pub fn head(text: &str) {
    let mut lines = text.split('\n');
    let Some(Ok(uri)) = lines.next().map(str::parse::<Uri>) else { return };
    let Some(mut headers) = headers_of(lines) else { return };

    let signing = check(&uri, &headers, "us-east-1");
    if uri.query().is_none() && !headers.contains_key(header::AUTHORIZATION) {
        assert!(!matches!(signing, Ok(Signing::Header | Signing::Url)), "there is no signature");
    }
    let bare = unsigned(uri.clone());
    let names = bare.query().unwrap_or_default().split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    for name in names {
        assert!(!is_of_signature(&tags::decode(name).unwrap_or_default()));
    }
    assert_eq!(unsigned(bare.clone()), bare);
    assert_eq!(bare.path(), uri.path());
    let _ = is_form(&Method::POST, &headers);
    let _ = length_of(None, &headers);
    if let Ok(claims) = Claims::of(&headers) {
        let mut sums = claims.begin(None);
        sums.update(b"body");
        let _ = sums.end(fulgurite_digest::Md5::of(b"body"), &Trailing::default());
    }
    pass_over(&mut headers);
    assert!(mend_range(&headers).is_none(), "what was mended is read as it stands");
    for name in [header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE] {
        if let Some(value) = headers.get(name).and_then(|value| value.to_str().ok()) {
            let time = Timestamp::parse(TimestampFormat::HttpDate, value).expect("what is no time was passed over");
            let _ = (ms_of(&time), http_date(&time));
        }
    }
    for value in headers.values() {
        let _ = ETagCondition::parse_http_header(value.as_bytes());
        let Ok(text) = value.to_str() else { continue };
        let _ = CopySource::parse(text);
        if let Some(range) = parse_range(text) {
            assert!(range.start < range.end && !text.contains('+'), "{text} has a byte");
        }
        if let Some(key) = decode_token(text) {
            assert_eq!(encode_token(&key), text, "a token has one form");
        }
    }
}

/// Lines `name: value`; nothing if one is none.
fn headers_of<'a>(lines: impl Iterator<Item = &'a str>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        headers.append(name.parse::<HeaderName>().ok()?, HeaderValue::from_bytes(value.trim().as_bytes()).ok()?);
    }
    Some(headers)
}

/// The list of a batch. Each object has an entry whose name is safe and its own, and whose headers read back.
pub fn list(body: &[u8]) {
    let Ok(wanted) = bulk_get::parse(body) else { return };
    let mut names = std::collections::BTreeMap::new();
    for wanted in wanted.into_iter().take(100) {
        // Others than those of versions are no versions that there are.
        let is_version = wanted.version_id.as_deref().is_none_or(|id| id == "null" || id.parse::<VersionId>().is_ok());
        if !is_version {
            continue;
        }
        let name = bulk_get::entry_name(&wanted);
        assert!(
            name.split('/').all(|part| !matches!(part, "." | "..")) && !name.starts_with('/') && !name.contains(['\0', '\n', '\\']),
            "{name}"
        );
        assert_ne!(name, "result.json");
        let mut out = Vec::new();
        Entry { name: &name, size: 3, modified: 7, records: &[(tar::KEY, &wanted.key)] }.begin(&mut out);
        assert_eq!(unpacked(&out), (name.clone(), wanted.key.to_string(), 3));
        if let Some(other) = names.insert(name.clone(), wanted.clone()) {
            assert_eq!(other, wanted, "{name} is the name of both");
        }
    }
}

/// Name, key and size as the headers of an entry say them.
fn unpacked(mut out: &[u8]) -> (String, String, u64) {
    let (mut name, mut key) = (None, None);
    loop {
        let (block, rest) = out.split_at(BLOCK_BYTES);
        let text = |from: usize, to: usize| {
            String::from_utf8(block[from..to].iter().copied().take_while(|byte| *byte != 0).collect()).expect("ASCII")
        };
        let size = u64::from_str_radix(&text(124, 135), 8).expect("a number");
        if block[156] == b'0' {
            assert!(rest.is_empty());
            return (name.unwrap_or_else(|| text(0, 100)), key.expect("a record"), size);
        }
        let mut records = &rest[..size as usize];
        while !records.is_empty() {
            let digits = records.iter().position(|byte| *byte == b' ').expect("a length");
            let length: usize = std::str::from_utf8(&records[..digits]).expect("digits").parse().expect("a number");
            let record = std::str::from_utf8(&records[digits + 1..length - 1]).expect("text");
            match record.split_once('=').expect("a name") {
                ("path", value) => name = Some(value.to_owned()),
                (tar::KEY, value) => key = Some(value.to_owned()),
                (other, _) => panic!("a record {other}"),
            }
            assert_eq!(records[length - 1], b'\n');
            records = &records[length..];
        }
        out = &rest[(size as usize).next_multiple_of(BLOCK_BYTES)..];
    }
}

/// A record as it may stand on a platter from elsewhere, with the words of S3.
pub fn record(data: &[u8]) {
    let Ok(record) = decode_record(data) else { return };
    let stored_bytes = stored_bytes(record.size);
    let row = VersionRow { key: VersionKey(1), id: VersionId([1; 16]), record, sealed: true, stored_bytes, archived: true };
    let version = Version::new(row);
    let _ = (version.id(), version.etag(), version.size(), version.metadata(), version.class(), version.is_cold(), version.class_header());
    let _ = (ms_of(&version.modified()), http_date(&version.modified()), version.expires());
    let _ = (version.sums(), version.checksum_type(), version.part_sum(0), version.part_sum(1), version.part_sum(usize::MAX));
    if let Some(sizes) = version.parts() {
        let _ = retrieve_part(&version, sizes.len());
    }
    let _ = tags::parse(&version.text(crate::s3::version::attribute::TAGS).unwrap_or_default());
}

fn retrieve_part(version: &Version, parts: usize) -> usize {
    (0..=parts.min(3)).filter(|number| crate::s3::get::range_of(version, None, Some(*number as i32)).is_ok()).count()
}

/// `service.toml`.
pub fn settings(text: &str) {
    if let Ok(settings) = toml::from_str::<Settings>(text) {
        let _ = (settings.background.flush_after(), settings.restores.quota());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use http::StatusCode;

    use super::*;

    /// So many changed forms of each seed, the same each time.
    const CHANGED: u64 = 200;
    /// So many requests are drawn.
    const DRAWN: u32 = 4_000;

    /// The seeds of a target in the order of their names, each followed by changed forms of it.
    fn inputs(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
        let mut files: Vec<_> = fs::read_dir(folder).expect("seeds").map(|file| file.expect("a file").path()).collect();
        files.sort();
        let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("readable")).collect();
        assert!(!seeds.is_empty());
        let changed = |seed: &Vec<u8>| (0..CHANGED).map(|number| change(seed, number)).collect::<Vec<_>>();
        seeds.iter().flat_map(|seed| std::iter::once(seed.clone()).chain(changed(seed))).collect()
    }

    /// Some bytes changed, taken away, put in or repeated.
    fn change(seed: &[u8], number: u64) -> Vec<u8> {
        const BYTES: &[u8] = b"\0\n %&=/-+:;,*?\"<>[]{}09azAZ\x7f\x80\xc3\xff";
        let mut state = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut draw = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below.max(1) as u64) as usize
        };
        let mut bytes = seed.to_vec();
        for _ in 0..=draw(4) {
            let at = draw(bytes.len());
            let end = (at + draw(8)).min(bytes.len());
            match draw(4) {
                0 if at < bytes.len() => bytes[at] = BYTES[draw(BYTES.len())],
                1 => drop(bytes.drain(at..end)),
                2 => bytes.insert(at, BYTES[draw(BYTES.len())]),
                _ => {
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        bytes
    }

    fn texts(target: &str, check: impl Fn(&str)) {
        inputs(target).iter().filter_map(|input| std::str::from_utf8(input).ok()).for_each(check);
    }

    #[test]
    fn nothing_that_a_client_sends_makes_a_parser_panic() {
        texts("policy", policy);
        texts("tags", tags);
        texts("head", head);
        texts("service_settings", settings);
        inputs("list").iter().for_each(|input| list(input));
    }

    #[test]
    fn a_record_from_elsewhere_has_words_of_s3() {
        inputs("version").iter().for_each(|input| record(input));
    }

    #[test]
    fn requests_of_all_kinds_are_answered_without_a_failure_of_ours() {
        let folder = tempfile::tempdir().expect("a folder");
        let requests = Requests::new(folder.path());
        let answered =
            inputs("request").iter().step_by(5).filter_map(|input| requests.answer(input)).filter(StatusCode::is_success).count();
        assert!(answered > 100, "{answered} were done");
    }

    #[test]
    fn no_operation_fails_for_any_headers_and_parameters() {
        let folder = tempfile::tempdir().expect("a folder");
        let requests = Requests::new(folder.path());
        let (mut state, mut done, mut refused) = (0x2545_f491_4f6c_dd1d_u64, 0, 0);
        for _ in 0..DRAWN {
            let data: Vec<u8> = std::iter::repeat_with(|| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .take(120)
            .collect();
            match requests.answer_drawn(&data).0 {
                Some(status) if status.is_success() => done += 1,
                Some(_) => refused += 1,
                None => {}
            }
        }
        assert!(done > DRAWN / 10 && refused > DRAWN / 10, "{done} were done, {refused} refused");
    }
}
