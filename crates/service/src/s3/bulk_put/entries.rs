//! The archive of a bulk put: a tar archive of files, each with the object's key as its name and
//! its headers in pax records.
//!
//! ```text
//! [ pax header: records ] [ header: name, size ][ content ] ... [ two blocks of zeros ]
//! ```
//!
//! Tar readers disagree about unusual archives. An archive that two of them could read as different
//! files is refused: a name twice or in two places, links, sparse files, folders with content,
//! records that are repeated or malformed, an archive that doesn't end properly.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Cursor;
use std::ops::Range;

use ::tar::{Archive, Entry as TarEntry, EntryType, Header};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::pax::{self, Record};
use crate::s3::bulk_get::tar::{BLOCK_BYTES, END, ETAG, KEY, RANGE, VERSION_ID};
use crate::s3::new_object::OBJECT_HEADERS;

/// Prefix of records that state headers of the put: extended attributes `user.fulgurite.HEADER`.
const HEADER: &str = "SCHILY.xattr.user.fulgurite.";
/// Prefix of records that describe sparse files.
const SPARSE: &str = "GNU.sparse.";
/// Headers that a put may have besides those that say something of the object itself.
const OTHER_HEADERS: [&str; 4] = ["if-match", "if-none-match", "x-amz-acl", "x-amz-tagging"];
/// Maximum number of records with headers, as many as a request may have headers.
const HEADERS_MAX: usize = 100;

/// A file of the archive, which becomes an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// The pax header before it. Its records are well-formed.
    records: Bytes,
    pub(crate) content: Bytes,
}

impl Entry {
    /// The headers of its put that the archive states.
    pub(crate) fn headers(&self) -> Result<HeaderMap, MalformedTar> {
        headers_of(&records_of(&self.records)?, &self.key)
    }
}

/// Why an archive can't be stored: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MalformedTar(String);

fn malformed<T>(why: impl Into<String>) -> Result<T, MalformedTar> {
    Err(MalformedTar(why.into()))
}

/// What precedes a file and belongs to it.
#[derive(Debug, Default)]
struct Preceding<'a> {
    /// Where its pax header is.
    records: Option<Range<usize>>,
    long_name: Option<&'a [u8]>,
}

impl Preceding<'_> {
    fn is_none(&self) -> bool {
        self.records.is_none() && self.long_name.is_none()
    }
}

/// The files of an archive.
pub(crate) fn parse(archive: &Bytes) -> Result<Vec<Entry>, MalformedTar> {
    let unreadable =
        |error: std::io::Error| MalformedTar(format!("The body is not a tar archive, or it is compressed or damaged: {error}."));
    let (mut entries, mut keys, mut end) = (Vec::new(), HashSet::new(), 0);
    let mut preceding = Preceding::default();
    let mut reader = Archive::new(Cursor::new(archive));
    // Raw: what precedes a file is an entry of its own.
    for found in reader.entries_with_seek().map_err(unreadable)?.raw(true) {
        let found = found.map_err(unreadable)?;
        let range = content_of(&found, archive.len())?;
        end = range.end.next_multiple_of(BLOCK_BYTES);
        let content = &archive[range.clone()];
        match found.header().entry_type() {
            EntryType::XHeader if preceding.records.is_none() => preceding.records = Some(range),
            EntryType::GNULongName if preceding.long_name.is_none() => preceding.long_name = Some(long_name(content)?),
            EntryType::XHeader | EntryType::GNULongName => return malformed("Two headers precede the same file."),
            EntryType::XGlobalHeader if preceding.is_none() => check_global(content)?,
            entry_type => {
                let Preceding { records, long_name } = std::mem::take(&mut preceding);
                let header_range = records.unwrap_or_default();
                let records = records_of(&archive[header_range.clone()])?;
                let name = name_of(found.header(), &records, long_name)?;
                let shown = String::from_utf8_lossy(&name);
                check_size(found.header(), &records, range.len(), &shown)?;
                // Readers take such a name for that of a folder.
                let is_folder = entry_type == EntryType::Directory || name.ends_with(b"/");
                if is_folder && range.is_empty() && !records.iter().any(|record| record.name == KEY) {
                    continue;
                }
                if is_folder || !matches!(entry_type, EntryType::Regular | EntryType::Continuous) {
                    return malformed(format!(
                        "{shown:?} is not a plain file: links (hard ones too), sparse files and devices can't be stored."
                    ));
                }
                let key = key_of(&records, &name, &shown)?;
                headers_of(&records, &shown)?;
                if key.is_empty() {
                    return malformed("A file has no name.");
                }
                if !keys.insert(key.clone()) {
                    return malformed(format!("The key {key:?} occurs twice."));
                }
                entries.push(Entry { key, records: archive.slice(header_range), content: archive.slice(range) });
            }
        }
    }
    if !preceding.is_none() {
        return malformed("The tar archive ends with a header that precedes no file.");
    }
    let rest = archive.get(end..).unwrap_or_default();
    if rest.len() < END.len() || rest.iter().any(|byte| *byte != 0) {
        return malformed("The tar archive doesn't end with its last two blocks of zeros: it is incomplete, or something follows them.");
    }
    Ok(entries)
}

/// The bytes of an entry's content.
fn content_of<R: std::io::Read>(entry: &TarEntry<'_, R>, length: usize) -> Result<Range<usize>, MalformedTar> {
    let begin = usize::try_from(entry.raw_file_position()).ok();
    let size = usize::try_from(entry.size()).ok();
    let end = begin.zip(size).and_then(|(begin, size)| begin.checked_add(size));
    match begin.zip(end) {
        Some((begin, end)) if end <= length => Ok(begin..end),
        _ => malformed("The tar archive is incomplete."),
    }
}

fn records_of(content: &[u8]) -> Result<Vec<Record<'_>>, MalformedTar> {
    pax::records(content).ok_or_else(|| MalformedTar("A pax header is malformed.".to_owned()))
}

/// Refuses global records that would change names, sizes or headers.
fn check_global(content: &[u8]) -> Result<(), MalformedTar> {
    for Record { name, .. } in records_of(content)? {
        if matches!(name, "path" | "size" | "linkpath") || name.starts_with(HEADER) || name.starts_with(SPARSE) {
            return malformed(format!("The record {name:?} can't be in a global pax header."));
        }
    }
    Ok(())
}

/// A name in an entry of its own, which ends with a zero.
fn long_name(content: &[u8]) -> Result<&[u8], MalformedTar> {
    match content.split_last() {
        Some((0, name)) if !name.contains(&0) => Ok(name),
        _ => malformed("A long name is malformed."),
    }
}

/// The name of a file, wherever it is.
fn name_of<'a>(header: &'a Header, records: &[Record<'a>], long_name: Option<&'a [u8]>) -> Result<Cow<'a, [u8]>, MalformedTar> {
    let path = records.iter().find(|record| record.name == "path").map(|record| record.value);
    match (path, long_name) {
        (Some(_), Some(_)) => malformed("A file has a long name and a record with another."),
        (Some(path), None) if path.contains(&0) => malformed("A name contains a zero byte."),
        (Some(name), None) | (None, Some(name)) => Ok(name.into()),
        (None, None) => Ok(header.path_bytes()),
    }
}

/// Refuses a size that readers may take for another: beyond 64 bits, or different in a record.
fn check_size(header: &Header, records: &[Record<'_>], size: usize, name: &str) -> Result<(), MalformedTar> {
    let field = &header.as_old().size;
    let is_plain = field[0] & 0x80 == 0 || field[..4] == [0x80, 0, 0, 0];
    let record = records.iter().find(|record| record.name == "size");
    if is_plain && record.is_none_or(|record| record.value == size.to_string().as_bytes()) {
        return Ok(());
    }
    malformed(format!("The size of {name:?} is unclear."))
}

/// The key of an object: its record, or else the name of the file.
fn key_of(records: &[Record<'_>], name: &[u8], shown: &str) -> Result<String, MalformedTar> {
    let key = match records.iter().find(|record| record.name == KEY) {
        Some(record) => str::from_utf8(record.value),
        // `tar c .` writes names with `./`.
        None => str::from_utf8(name.strip_prefix(b"./").unwrap_or(name)),
    };
    key.map(str::to_owned).map_err(|_| MalformedTar(format!("The name {shown:?} is not UTF-8.")))
}

/// The headers of an object's put.
fn headers_of(records: &[Record<'_>], shown: &str) -> Result<HeaderMap, MalformedTar> {
    let mut headers = HeaderMap::new();
    let own = records.iter().filter(|record| record.name.starts_with(HEADER));
    if own.clone().nth(HEADERS_MAX).is_some() {
        return malformed(format!("{shown:?} has more than {HEADERS_MAX} records with headers."));
    }
    if records.iter().any(|record| record.name.starts_with(SPARSE)) {
        return malformed(format!("{shown:?} is a sparse file, which can't be stored."));
    }
    for Record { name: record, value } in own {
        let invalid = || MalformedTar(format!("The value of the record {record:?} of {shown:?} is invalid."));
        match *record {
            // Bulk gets state the ETag and the version that they read.
            KEY | ETAG | VERSION_ID => {}
            RANGE => return malformed(format!("{shown:?} is a part of an object.")),
            _ => {
                let header = &record[HEADER.len()..];
                if !OBJECT_HEADERS.has(header) && !OTHER_HEADERS.contains(&header) {
                    return malformed(format!("The record {record:?} of {shown:?} is no header that an object can have."));
                }
                let header = HeaderName::from_bytes(header.as_bytes()).map_err(|_| invalid())?;
                headers.insert(header, HeaderValue::from_bytes(value).map_err(|_| invalid())?);
            }
        }
    }
    Ok(headers)
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

    #[test]
    fn a_file_takes_no_memory_of_its_own_but_for_its_key() {
        let written = archive(&[(EntryType::Regular, "a", &[("SCHILY.xattr.user.fulgurite.content-type", b"image/fits")], b"abc")]);
        let archive = Bytes::from(written);
        // Parsed headers would take far more than their records, of which an archive has thousands.
        let [Entry { key, records, content }] = parse(&archive).expect("objects").try_into().expect("one");
        assert!(key.capacity() <= 8 && records.len() > 40);
        let within = archive.as_ptr_range();
        for piece in [&records, &content] {
            assert!(within.contains(&piece.as_ptr()));
        }
    }

    fn parsed(archive: Vec<u8>) -> Result<Vec<Entry>, String> {
        parse(&archive.into()).map_err(|error| error.to_string())
    }

    #[test]
    fn files_become_objects_with_the_headers_of_their_records() {
        let entries = parsed(archive(&[
            (EntryType::Directory, "night/", &[], b""),
            (EntryType::Regular, "old/", &[], b""),
            (EntryType::Regular, "./night/a", &[("SCHILY.xattr.user.fulgurite.content-type", b"image/fits")], b"abc"),
            (EntryType::Regular, "b", &[("SCHILY.xattr.user.fulgurite.key", b"b/"), ("mtime", b"1.5"), (ETAG, b"x")], b""),
            (EntryType::Regular, "c", &[("path", "é".as_bytes()), ("SCHILY.xattr.user.note", b"two\nlines")], &[7; 1_000]),
        ]));
        let entries = entries.expect("objects");
        let keys: Vec<_> = entries.iter().map(|entry| (entry.key.as_str(), entry.content.len())).collect();
        assert_eq!(keys, [("night/a", 3), ("b/", 0), ("é", 1_000)]);
        assert_eq!(&entries[0].content[..], b"abc");
        assert_eq!(entries.iter().map(|entry| entry.headers().expect("headers").len()).collect::<Vec<_>>(), [1, 0, 0]);
        assert!(entries[0].headers().expect("headers")["content-type"] == "image/fits");
    }

    #[test]
    fn what_is_unclear_is_refused() {
        let one = |entry_type, name, records: &[(&str, &[u8])], content: &[u8]| archive(&[(entry_type, name, records, content)]);
        let file = |name| (EntryType::Regular, name, &[][..], &b"abc"[..]);
        let many: Vec<(String, &[u8])> = (0..101).map(|number| (format!("{HEADER}x-amz-meta-{number}"), &b"a"[..])).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let long = |value: &'static [u8]| -> Written<'static> { (EntryType::GNULongName, "long", &[], value) };
        for (archive, why) in [
            (archive(&[file("a"), file("a")]), "twice"),
            (archive(&[file("a"), file("./a")]), "twice"),
            (one(EntryType::Symlink, "a", &[], b""), "not a plain file"),
            (one(EntryType::Link, "a", &[], b""), "not a plain file"),
            (one(EntryType::Fifo, "a", &[], b""), "not a plain file"),
            (one(EntryType::Directory, "a/", &[], b"abc"), "not a plain file"),
            (one(EntryType::Regular, "a/", &[], b"abc"), "not a plain file"),
            (one(EntryType::Directory, "a/", &[(KEY, b"a/")], b""), "not a plain file"),
            (one(EntryType::GNUSparse, "a", &[], b"abc"), "not a plain file"),
            (one(EntryType::Regular, "", &[], b""), "no name"),
            (one(EntryType::Regular, "a", &[("path", b"\xff")], b""), "UTF-8"),
            (one(EntryType::Regular, "a", &[("path", b"b\0")], b""), "zero"),
            (one(EntryType::Regular, "a", &[("path", b"b"), ("path", b"c")], b""), "malformed"),
            (one(EntryType::Regular, "a", &[("size", b"x")], b""), "unclear"),
            (one(EntryType::Regular, "a", &[("size", b"+3")], b"abc"), "unclear"),
            (one(EntryType::Regular, "a", &[("GNU.sparse.major", b"1")], b""), "sparse"),
            (one(EntryType::Regular, "a", &[("SCHILY.xattr.user.fulgurite.host", b"h")], b""), "no header"),
            (one(EntryType::Regular, "a", &[("SCHILY.xattr.user.fulgurite.content-type", b"\x01")], b""), "invalid"),
            (one(EntryType::Regular, "a", &[(RANGE, b"bytes 0-1/9")], b""), "part"),
            (one(EntryType::Regular, "a", &many, b""), "more than 100"),
            (one(EntryType::XGlobalHeader, "g", &[], b"13 path=abcd\n"), "global"),
            (one(EntryType::XGlobalHeader, "g", &[], b"13 path"), "malformed"),
            // A global header between a file and its records.
            (archive(&[(EntryType::XGlobalHeader, "g", &[("path", b"b")], b"15 comment=abc\n"), file("a")]), "not a plain file"),
            (archive(&[(EntryType::Regular, "a", &[("path", b"b")], b""), long(b"c\0"), file("d"), long(b"e\0")]), "no file"),
            (archive(&[long(b"b\0"), (EntryType::Regular, "a", &[("path", b"c")], b"")]), "another"),
            (archive(&[long(b"b\0"), long(b"c\0"), file("a")]), "Two headers"),
            (archive(&[long(b"b\0\0"), file("a")]), "malformed"),
            (archive(&[long(b"b"), file("a")]), "malformed"),
        ] {
            let error = parsed(archive).expect_err(why);
            assert!(error.contains(why), "{error} instead of {why}");
        }
        assert_eq!(parsed(one(EntryType::XGlobalHeader, "g", &[], b"15 comment=abc\n")).expect("a comment").len(), 0);
        let mut large = one(EntryType::Regular, "a", &[], b"abc");
        large[124..136].copy_from_slice(&[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
        let sum: u32 = large[..512].iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum();
        large[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        assert!(parsed(large).expect_err("128 bits").contains("unclear"));
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
