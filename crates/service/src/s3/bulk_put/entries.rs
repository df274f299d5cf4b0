//! The archive of a bulk put: a tar archive of files, each with the object's key as its name and
//! its headers in pax records.
//!
//! Two readers of tar archives may see different files in one that is malformed. So whatever is
//! unclear is an error: files without a name or with the same name, links, sparse files, records
//! that occur twice, an archive without its end or with something after it.

use std::collections::HashSet;
use std::io::Cursor;
use std::ops::Range;

use ::tar::{Archive, Entry as TarEntry, EntryType, PaxExtensions};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::s3::bulk_get::tar::{BLOCK_BYTES, END, ETAG, KEY, RANGE, VERSION_ID};
use crate::s3::new_object::is_object_header;

/// Prefix of records that state headers of the put: extended attributes `user.fulgurite.HEADER`.
const HEADER: &str = "SCHILY.xattr.user.fulgurite.";
/// Headers that a put may have besides those that say something of the object itself.
const OTHER_HEADERS: [&str; 4] = ["if-match", "if-none-match", "x-amz-acl", "x-amz-tagging"];
/// Headers of the request that hold for each of its objects.
const SHARED_HEADERS: [&str; 3] = ["if-none-match", "x-amz-acl", "x-amz-tagging"];
/// Prefixes of further such headers.
const SHARED_HEADER_PREFIXES: [&str; 4] = ["x-amz-meta-", "x-amz-object-lock-", "x-amz-server-side-encryption", "x-amz-storage-class"];

/// A file of the archive, which becomes an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Headers of its put.
    pub(crate) headers: HeaderMap,
    pub(crate) content: Bytes,
}

/// Why an archive can't be stored: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MalformedTar(String);

fn malformed<T>(why: impl Into<String>) -> Result<T, MalformedTar> {
    Err(MalformedTar(why.into()))
}

/// The files of an archive. Keys begin with `prefix`; `request` are the headers of the bulk put.
pub(crate) fn parse(archive: &Bytes, prefix: &str, request: &HeaderMap) -> Result<Vec<Entry>, MalformedTar> {
    let unreadable = |error: std::io::Error| MalformedTar(format!("The tar archive can't be read: {error}."));
    let shared = shared_headers(request);
    let (mut entries, mut keys, mut end) = (Vec::new(), HashSet::new(), 0);
    let mut reader = Archive::new(Cursor::new(archive));
    for found in reader.entries_with_seek().map_err(unreadable)? {
        let mut found = found.map_err(unreadable)?;
        let content = content_of(&mut found, archive.len())?;
        end = content.end.next_multiple_of(BLOCK_BYTES);
        let entry_type = found.header().entry_type();
        if entry_type == EntryType::XGlobalHeader {
            check_global(&archive[content])?;
            continue;
        }
        let name = String::from_utf8_lossy(&found.path_bytes()).into_owned();
        match entry_type {
            EntryType::Directory => continue,
            EntryType::Regular | EntryType::Continuous => {}
            _ => return malformed(format!("{name:?} is not a file: links, sparse files and devices can't be stored.")),
        }
        let Ok(own_name) = str::from_utf8(&found.path_bytes()).map(str::to_owned) else {
            return malformed(format!("The name {name:?} is not UTF-8."));
        };
        let records = records_of(&mut found, &name)?;
        let (key, headers) = key_and_headers(&records, &own_name, &shared)?;
        let key = format!("{prefix}{key}");
        if key.is_empty() {
            return malformed("A file has no name.");
        }
        if !keys.insert(key.clone()) {
            return malformed(format!("The key {key:?} occurs twice."));
        }
        entries.push(Entry { key, headers, content: archive.slice(content) });
    }
    let rest = archive.get(end..).unwrap_or_default();
    if rest.len() < END.len() || rest.iter().any(|byte| *byte != 0) {
        return malformed("The tar archive doesn't end with its last two blocks of zeros: it is incomplete, or something follows them.");
    }
    Ok(entries)
}

/// The bytes of an entry's content.
fn content_of<R: std::io::Read>(entry: &mut TarEntry<'_, R>, length: usize) -> Result<Range<usize>, MalformedTar> {
    let begin = usize::try_from(entry.raw_file_position()).ok();
    // Of a sparse file this is the size in the archive, and it is refused anyway.
    let size = usize::try_from(entry.size()).ok();
    let end = begin.zip(size).and_then(|(begin, size)| begin.checked_add(size));
    match begin.zip(end) {
        Some((begin, end)) if end <= length => Ok(begin..end),
        _ => malformed("The tar archive is incomplete."),
    }
}

/// Refuses global records that would change names, sizes or headers.
fn check_global(records: &[u8]) -> Result<(), MalformedTar> {
    for record in PaxExtensions::new(records) {
        let record = record.map_err(|_| MalformedTar("A global pax header is malformed.".to_owned()))?;
        let name = String::from_utf8_lossy(record.key_bytes());
        if matches!(&*name, "path" | "size" | "linkpath") || name.starts_with(HEADER) || name.starts_with("GNU.sparse.") {
            return malformed(format!("The record {name:?} can't be in a global pax header."));
        }
    }
    Ok(())
}

/// The pax records of an entry that matter here: names and values.
fn records_of<R: std::io::Read>(entry: &mut TarEntry<'_, R>, name: &str) -> Result<Vec<(String, Vec<u8>)>, MalformedTar> {
    let unreadable = || MalformedTar(format!("The pax records of {name:?} are malformed."));
    let size = entry.size();
    let Some(found) = entry.pax_extensions().map_err(|_| unreadable())? else { return Ok(Vec::new()) };
    let mut records: Vec<(String, Vec<u8>)> = Vec::new();
    for record in found {
        let record = record.map_err(|_| unreadable())?;
        let record_name = record.key().map_err(|_| unreadable())?;
        if record_name.starts_with("GNU.sparse.") {
            return malformed(format!("{name:?} is a sparse file, which can't be stored."));
        }
        if matches!(record_name, "path" | "size") || record_name.starts_with(HEADER) {
            if records.iter().any(|(other, _)| other == record_name) {
                return malformed(format!("The record {record_name:?} of {name:?} occurs twice."));
            }
            if record_name == "size" && record.value().ok().and_then(|value| value.parse().ok()) != Some(size) {
                return Err(unreadable());
            }
            records.push((record_name.to_owned(), record.value_bytes().to_vec()));
        }
    }
    Ok(records)
}

/// The key and the headers of an object.
fn key_and_headers(records: &[(String, Vec<u8>)], name: &str, shared: &HeaderMap) -> Result<(String, HeaderMap), MalformedTar> {
    // `tar c .` writes names with it.
    let mut key = name.strip_prefix("./").unwrap_or(name).to_owned();
    let mut headers = shared.clone();
    for (record, value) in records.iter().filter(|(record, _)| record.starts_with(HEADER)) {
        let invalid = || MalformedTar(format!("The value of the record {record:?} of {name:?} is invalid."));
        match record.as_str() {
            KEY => key = String::from_utf8(value.clone()).map_err(|_| invalid())?,
            // Bulk gets state these, of the version that was read.
            ETAG | VERSION_ID => {}
            RANGE => return malformed(format!("{name:?} is a part of an object.")),
            _ => {
                let header = &record[HEADER.len()..];
                if !is_object_header(header) && !OTHER_HEADERS.contains(&header) {
                    return malformed(format!("The record {record:?} of {name:?} is no header that an object can have."));
                }
                let header = HeaderName::from_bytes(header.as_bytes()).map_err(|_| invalid())?;
                headers.insert(header, HeaderValue::from_bytes(value).map_err(|_| invalid())?);
            }
        }
    }
    Ok((key, headers))
}

/// The headers of the request that hold for each object.
fn shared_headers(request: &HeaderMap) -> HeaderMap {
    let is_shared = |name: &str| SHARED_HEADERS.contains(&name) || SHARED_HEADER_PREFIXES.iter().any(|start| name.starts_with(start));
    let shared = request.iter().filter(|(name, _)| is_shared(name.as_str()));
    let mut headers = HeaderMap::new();
    for (name, value) in shared {
        headers.append(name.clone(), value.clone());
    }
    headers
}

#[cfg(test)]
mod tests {
    use ::tar::{Builder, Header};

    use super::*;

    /// An entry: its type, its name, its records and its content.
    type Written<'a> = (EntryType, &'a str, &'a [(&'a str, &'a [u8])], &'a [u8]);

    fn archive(entries: &[Written<'_>]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (entry_type, name, records, content) in entries {
            builder.append_pax_extensions(records.iter().copied()).expect("records");
            let mut header = Header::new_ustar();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(content.len() as u64);
            header.set_entry_type(*entry_type);
            header.set_cksum();
            builder.append(&header, *content).expect("an entry");
        }
        builder.into_inner().expect("an archive")
    }

    fn parsed(archive: Vec<u8>) -> Result<Vec<Entry>, String> {
        parse(&archive.into(), "", &HeaderMap::new()).map_err(|error| error.to_string())
    }

    #[test]
    fn files_become_objects_with_the_headers_of_their_records() {
        let mut request = HeaderMap::new();
        for (name, value) in [("if-none-match", "*"), ("x-amz-meta-survey", "s"), ("content-type", "application/x-tar"), ("host", "h")] {
            request.insert(name, HeaderValue::from_static(value));
        }
        let entries = archive(&[
            (EntryType::Directory, "night/", &[], b""),
            (EntryType::Regular, "./night/a", &[("SCHILY.xattr.user.fulgurite.content-type", b"image/fits")], b"abc"),
            (EntryType::Regular, "b", &[("SCHILY.xattr.user.fulgurite.key", b"b/"), ("mtime", b"1.5"), (ETAG, b"x")], b""),
            (EntryType::Regular, "c", &[("path", "é".as_bytes()), ("SCHILY.xattr.user.fulgurite.x-amz-meta-survey", b"t")], &[7; 1_000]),
        ]);
        let entries = parse(&entries.into(), "p/", &request).expect("objects");
        let keys: Vec<_> = entries.iter().map(|entry| (entry.key.as_str(), entry.content.len())).collect();
        assert_eq!(keys, [("p/night/a", 3), ("p/b/", 0), ("p/é", 1_000)]);
        assert_eq!(&entries[0].content[..], b"abc");
        for (entry, survey, content_type) in [(0, "s", Some("image/fits")), (1, "s", None), (2, "t", None)] {
            let headers = &entries[entry].headers;
            assert!(headers["if-none-match"] == "*" && headers["x-amz-meta-survey"] == survey);
            assert_eq!(headers.get("content-type").map(HeaderValue::as_bytes), content_type.map(str::as_bytes));
            assert!(!headers.contains_key("host"));
        }
    }

    #[test]
    fn what_is_unclear_is_refused() {
        let one = |entry_type, name, records: &[(&str, &[u8])], content: &[u8]| archive(&[(entry_type, name, records, content)]);
        let file = |name| (EntryType::Regular, name, &[][..], &b"abc"[..]);
        for (archive, why) in [
            (archive(&[file("a"), file("a")]), "twice"),
            (archive(&[file("a"), file("./a")]), "twice"),
            (one(EntryType::Symlink, "a", &[], b""), "not a file"),
            (one(EntryType::Link, "a", &[], b""), "not a file"),
            (one(EntryType::Fifo, "a", &[], b""), "not a file"),
            (one(EntryType::Regular, "", &[], b""), "no name"),
            (one(EntryType::Regular, "a", &[("path", b"\xff")], b""), "UTF-8"),
            (one(EntryType::Regular, "a", &[("path", b"b"), ("path", b"c")], b""), "twice"),
            (one(EntryType::Regular, "a", &[("size", b"x")], b""), "malformed"),
            (one(EntryType::Regular, "a", &[("GNU.sparse.major", b"1")], b""), "sparse"),
            (one(EntryType::Regular, "a", &[("SCHILY.xattr.user.fulgurite.host", b"h")], b""), "no header"),
            (one(EntryType::Regular, "a", &[("SCHILY.xattr.user.fulgurite.content-type", b"\x01")], b""), "invalid"),
            (one(EntryType::Regular, "a", &[(RANGE, b"bytes 0-1/9")], b""), "part"),
            (one(EntryType::XGlobalHeader, "g", &[], b"13 path=abcd\n"), "global"),
        ] {
            let error = parsed(archive).expect_err(why);
            assert!(error.contains(why), "{error} instead of {why}");
        }
        assert_eq!(parsed(one(EntryType::XGlobalHeader, "g", &[], b"15 comment=abc\n")).expect("a comment").len(), 0);
    }

    #[test]
    fn an_archive_is_read_whole_or_not_at_all() {
        let whole = archive(&[(EntryType::Regular, "a", &[], &[1; 700]), (EntryType::Regular, "b", &[("size", b"3")], b"abc")]);
        assert_eq!(parsed(whole.clone()).expect("whole").len(), 2);
        for length in (0..whole.len()).step_by(64) {
            assert!(parsed(whole[..length].to_vec()).is_err(), "{length} bytes");
        }
        let more = [whole.clone(), vec![0; 10_240 - whole.len() % 10_240]].concat();
        assert_eq!(parsed(more).expect("tar pads its last record").len(), 2);
        let other = [whole.clone(), whole.clone()].concat();
        assert!(parsed(other).expect_err("two archives").contains("follows"));
        for at in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x20;
            // It may be refused, or read with the damage in content, which a tar doesn't protect.
            if let Ok(entries) = parsed(damaged) {
                assert!(entries.len() == 2 && entries[0].key == "a", "{at}");
            }
        }
    }
}
