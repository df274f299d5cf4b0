//! Entry points of the fuzz targets, and tests of their findings; only with the feature `fuzzing`.
//! Each function parses arbitrary input and panics if an invariant is violated.

use std::net::IpAddr;

use fulgurite_archive::catalogue::{VersionRow, VersionRowId};
use fulgurite_domain::VersionId;
use fulgurite_format::{decode_record, stored_bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use s3s::dto::{CopySource, ETagCondition, Tag, Timestamp, TimestampFormat};

use crate::auth::policy::{Decision, Network, Origin, Policy, PolicyRequest, RequestContext, like};
use crate::auth::signatures::{Signing, check, is_form, is_of_signature};
use crate::http::url_encoding;
use crate::s3::bulk_get::tar::{self, BLOCK_BYTES, Entry};
use crate::s3::multipart::parse_range;
use crate::s3::normalize::{changes, normalize_headers, unsigned};
use crate::s3::pages::{decode_token, encode_token};
use crate::s3::tags;
use crate::s3::version::{Version, http_date, ms_of};
use crate::s3::{bulk_get, bulk_put};
use crate::settings::Settings;
use crate::state::Account;
use crate::transfer::checksums::{BodyTrailers, Claims};
use crate::transfer::upload::length_of;

mod operations;
mod requests;
mod signing;

pub use requests::Requests;

/// Parses a bucket policy that follows a line with a request's action, key, query and address.
/// Checks the matchers of policies with the same text.
pub fn policy(text: &str) {
    let (request, policy) = text.split_once('\n').unwrap_or(("s3:GetObject a prefix=a 10.0.0.1", text));
    let mut fields = request.split(' ');
    let mut next = || fields.next().unwrap_or_default();
    let (action, key, query, peer) = (next(), next(), next(), next().parse().ok());
    check_glob(key, action);
    check_network(key, peer);
    check_decisions(policy, action, key, query, peer);
}

/// Compares `like` with its reference, for short input: the reference takes exponential time.
fn check_glob(pattern: &str, text: &str) {
    if pattern.len() + text.len() <= 20 {
        let characters = |text: &str| text.chars().collect::<Vec<_>>();
        assert_eq!(like(pattern, text), like_reference(&characters(pattern), &characters(text)), "{pattern} {text}");
    }
}

/// Parses a network, which must contain its own address.
fn check_network(text: &str, peer: Option<IpAddr>) {
    let Some(network) = Network::parse(text) else { return };
    if let Some(peer) = peer {
        let _ = network.contains(peer);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        assert!(network.contains(address), "{text} must contain itself");
    }
}

/// Checks that the decisions of a policy are deterministic, and that it doesn't apply to buckets
/// that it doesn't name.
fn check_decisions(policy: &str, action: &str, key: &str, query: &str, peer: Option<IpAddr>) {
    let Ok(policy) = Policy::parse(policy) else { return };
    let _ = policy.check("b");
    // Patterns of buckets and NotResource are valid too, and may match other buckets.
    let names_only_bucket = policy.names_only("b");
    let account = Account { name: "ada".to_owned(), id: "0".repeat(64), admin: false };
    let headers = HeaderMap::from_iter([
        (header::REFERER, HeaderValue::from_static("https://a.example/b")),
        (header::USER_AGENT, HeaderValue::from_static("c/1")),
    ]);
    let origin = Origin::new(peer, true, &headers);
    let tags = [Tag { key: Some("a".to_owned()), value: Some("b".to_owned()) }];
    for account in [None, Some(&account)] {
        let context = RequestContext {
            query: Some(query),
            headers: Some(&headers),
            new_tags: &tags,
            tags: &tags,
            ..RequestContext::of(&origin, 1_700_000_000_000)
        };
        let request = PolicyRequest { context, account, action, bucket: "b", key: (!key.is_empty()).then_some(key) };
        let decision = policy.decide(&request);
        assert_eq!(policy.decide(&request), decision);
        if names_only_bucket {
            assert_eq!(policy.decide(&PolicyRequest { bucket: "c", ..request }), Decision::NotApplicable);
        }
    }
}

/// A backtracking matcher, the reference for `like`.
fn like_reference(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some(('*', rest)), None) => like_reference(rest, text),
        (Some(('*', rest)), Some((_, text_rest))) => like_reference(rest, text) || like_reference(pattern, text_rest),
        (Some((p, rest)), Some((t, text_rest))) => (*p == '?' || p == t) && like_reference(rest, text_rest),
        (Some(_), None) => false,
    }
}

/// Parses tags from a header. Accepted tags survive encoding and parsing.
pub fn tags(text: &str) {
    assert_eq!(url_encoding::decode(&url_encoding::encode(text)).as_deref(), Some(text));
    let Ok(parsed) = tags::parse(text) else { return };
    assert_eq!(tags::parse(&tags::encode(&parsed)).expect("stored tags can be parsed"), parsed);
    if tags::check(&parsed, tags::OBJECT_TAGS_MAX).is_ok() {
        assert!(parsed.len() <= tags::OBJECT_TAGS_MAX);
        tags::check(&parsed, tags::BUCKET_TAGS_MAX).expect("a bucket may have more tags");
    }
}

/// Parses the target and the headers of a request.
pub fn request_head(text: &str) {
    let mut lines = text.split('\n');
    let Some(Ok(uri)) = lines.next().map(str::parse::<Uri>) else { return };
    let Some(mut headers) = parse_headers(lines) else { return };

    let signing = check(&uri, &headers, "us-east-1");
    if uri.query().is_none() && !headers.contains_key(header::AUTHORIZATION) {
        assert!(!matches!(signing, Ok(Signing::Header | Signing::Url)), "the request has no signature");
    }
    check_unsigned_uri(&uri);
    let _ = is_form(&Method::POST, &headers);
    let _ = length_of(None, &headers);
    if let Ok(claims) = Claims::of(&headers) {
        let mut sums = claims.begin(None);
        sums.update(b"body");
        let _ = sums.end(fulgurite_digest::Md5::of(b"body"), &BodyTrailers::default());
    }
    check_normalized_headers(&mut headers);
    headers.values().for_each(check_header_value);
}

/// Removing the signature from a URI leaves no parameter of it, and keeps the path.
fn check_unsigned_uri(uri: &Uri) {
    let bare = unsigned(uri.clone());
    let names = bare.query().unwrap_or_default().split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    for name in names {
        assert!(!is_of_signature(&url_encoding::decode(name).unwrap_or_default()));
    }
    assert_eq!(unsigned(bare.clone()), bare);
    assert_eq!(bare.path(), uri.path());
}

/// Normalizes headers. The result needs no further change, and its times are valid.
fn check_normalized_headers(headers: &mut HeaderMap) {
    normalize_headers(headers, &mut http::Extensions::new());
    assert!(changes(headers).is_empty(), "normalized headers must need no further change");
    for name in [header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE] {
        if let Some(value) = headers.get(name).and_then(|value| value.to_str().ok()) {
            let time = Timestamp::parse(TimestampFormat::HttpDate, value).expect("invalid times were removed");
            let _ = (ms_of(&time), http_date(&time));
        }
    }
}

/// Parses a header value as ETags, copy source, range and continuation token.
fn check_header_value(value: &HeaderValue) {
    let _ = ETagCondition::parse_http_header(value.as_bytes());
    let Ok(text) = value.to_str() else { return };
    let _ = CopySource::parse(text);
    if let Some(range) = parse_range(text) {
        assert!(range.start < range.end && !text.contains('+'), "the range of {text} must not be empty");
    }
    if let Some(key) = decode_token(text) {
        assert_eq!(encode_token(&key), text, "a token must have only one encoding");
    }
}

/// Parses lines of `name: value`; `None` if one is malformed.
fn parse_headers<'a>(lines: impl Iterator<Item = &'a str>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        headers.append(name.parse::<HeaderName>().ok()?, HeaderValue::from_bytes(value.trim().as_bytes()).ok()?);
    }
    Some(headers)
}

/// Parses the archive of a bulk put. Its files have different keys, and their contents don't
/// overlap.
pub fn bulk_put_archive(body: &[u8]) {
    let archive = bytes::Bytes::copy_from_slice(body);
    let Ok(entries) = bulk_put::parse(&archive) else { return };
    let keys: std::collections::BTreeSet<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    assert!(keys.len() == entries.len() && !keys.contains(""));
    let mut end = archive.as_ptr() as usize;
    for content in entries.iter().map(|entry| &entry.content).filter(|content| !content.is_empty()) {
        let begin = content.as_ptr() as usize;
        assert!(begin >= end + BLOCK_BYTES && begin + content.len() <= archive.as_ptr() as usize + archive.len());
        end = begin + content.len();
    }
}

/// Parses the list of a bulk get. Each object's entry has a safe and unique name, and its headers
/// can be parsed again.
pub fn bulk_get_list(body: &[u8]) {
    let Ok(objects) = bulk_get::parse(body) else { return };
    let mut names = std::collections::BTreeMap::new();
    for object in objects.into_iter().take(100) {
        // IDs of any other form belong to no version.
        let is_version = object.version_id.as_deref().is_none_or(|id| id == "null" || id.parse::<VersionId>().is_ok());
        if !is_version {
            continue;
        }
        let name = bulk_get::entry_name(&object);
        assert!(
            name.split('/').all(|part| !matches!(part, "." | "..")) && !name.starts_with('/') && !name.contains(['\0', '\n', '\\']),
            "{name} must be a safe name"
        );
        assert_ne!(name, "result.json");
        let mut out = Vec::new();
        Entry { name: &name, size: 3, modified: 7, records: &[(tar::KEY, &object.key)] }.begin(&mut out);
        assert_eq!(parse_tar_entry(&out), (name.clone(), object.key.to_string(), 3));
        if let Some(other) = names.insert(name.clone(), object.clone()) {
            assert_eq!(other, object, "{name} must name only one entry");
        }
    }
}

/// Name, key and size in the headers of an entry.
fn parse_tar_entry(mut out: &[u8]) -> (String, String, u64) {
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
                (other, _) => panic!("unexpected record {other}"),
            }
            assert_eq!(records[length - 1], b'\n');
            records = &records[length..];
        }
        out = &rest[(size as usize).next_multiple_of(BLOCK_BYTES)..];
    }
}

/// Reads a record that could come from a foreign platter, through the S3 view of it.
pub fn version(data: &[u8]) {
    let Ok(record) = decode_record(data) else { return };
    let stored_bytes = stored_bytes(record.size);
    let row = VersionRow { row_id: VersionRowId(1), id: VersionId([1; 16]), record, sealed: true, stored_bytes, archived: true };
    let version = Version::new(row);
    let _ = (version.id(), version.etag(), version.size(), version.metadata(), version.class(), version.is_cold(), version.class_header());
    let _ = (ms_of(&version.modified()), http_date(&version.modified()), version.expires());
    let _ = (version.sums(), version.checksum_type(), version.part_sum(0), version.part_sum(1), version.part_sum(usize::MAX));
    if let Some(sizes) = version.parts() {
        let _ = count_readable_parts(&version, sizes.len());
    }
    let _ = tags::parse(&version.text(crate::s3::version::attribute::TAGS).unwrap_or_default());
}

fn count_readable_parts(version: &Version, parts: usize) -> usize {
    (0..=parts.min(3)).filter(|number| crate::s3::get::range_of(version, None, &HeaderMap::new(), Some(*number as i32)).is_ok()).count()
}

/// Parses `service.toml`.
pub fn settings(text: &str) {
    if let Ok(settings) = toml::from_str::<Settings>(text) {
        let _ = (settings.background.flush_after(), settings.restores.quota());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use fulgurite_chance::Xorshift;
    use http::StatusCode;

    use super::*;

    /// Number of mutations per seed; they are deterministic.
    const MUTATIONS_PER_SEED: u64 = 200;
    /// Number of generated requests.
    const GENERATED_REQUESTS: u32 = 4_000;

    /// The seeds of a target by name, each followed by its mutations.
    fn inputs(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
        let mut files: Vec<_> = fs::read_dir(folder).expect("seeds").map(|file| file.expect("a file").path()).collect();
        files.sort();
        let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("readable")).collect();
        assert!(!seeds.is_empty());
        let mutations = |seed: &Vec<u8>| (0..MUTATIONS_PER_SEED).map(|number| mutate(seed, number)).collect::<Vec<_>>();
        seeds.iter().flat_map(|seed| std::iter::once(seed.clone()).chain(mutations(seed))).collect()
    }

    /// Changes, removes, inserts or repeats some bytes.
    fn mutate(seed: &[u8], number: u64) -> Vec<u8> {
        const BYTES: &[u8] = b"\0\n %&=/-+:;,*?\"<>[]{}09azAZ\x7f\x80\xc3\xff";
        let mut random = Xorshift::new((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut draw = |below: usize| random.below(below);
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

    fn for_each_text(target: &str, check: impl Fn(&str)) {
        inputs(target).iter().filter_map(|input| std::str::from_utf8(input).ok()).for_each(check);
    }

    #[test]
    fn no_client_input_makes_a_parser_panic() {
        for_each_text("policy", policy);
        for_each_text("tags", tags);
        for_each_text("head", request_head);
        for_each_text("service_settings", settings);
        inputs("list").iter().for_each(|input| bulk_get_list(input));
        inputs("archive").iter().for_each(|input| bulk_put_archive(input));
    }

    #[test]
    fn a_foreign_record_has_an_s3_view() {
        inputs("version").iter().for_each(|input| version(input));
    }

    #[test]
    fn no_request_causes_an_internal_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let requests = Requests::new(folder.path());
        let succeeded =
            inputs("request").iter().step_by(5).filter_map(|input| requests.answer(input)).filter(StatusCode::is_success).count();
        assert!(succeeded > 80, "only {succeeded} succeeded");
    }

    #[test]
    fn no_headers_and_parameters_cause_an_internal_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let requests = Requests::new(folder.path());
        let (mut random, mut succeeded, mut refused) = (Xorshift::new(0x2545_f491_4f6c_dd1d), 0, 0);
        for _ in 0..GENERATED_REQUESTS {
            let data: Vec<u8> = std::iter::repeat_with(|| (random.bits() >> 32) as u8).take(120).collect();
            match requests.answer_generated(&data).0 {
                Some(status) if status.is_success() => succeeded += 1,
                Some(_) => refused += 1,
                None => {}
            }
        }
        assert!(succeeded > GENERATED_REQUESTS / 10 && refused > GENERATED_REQUESTS / 10, "{succeeded} succeeded, {refused} were refused");
    }
}
