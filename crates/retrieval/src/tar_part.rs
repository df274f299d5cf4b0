//! Entries of a bulk get's tar archive, as docs/s3.md defines them.

use std::io::{self, Read};

use fulgurite_client::Requested;
use percent_encoding::percent_decode_str;

use crate::rows::{CONTENT_BYTES_MAX, Row};

/// An entry as a row.
pub(crate) fn row<R: Read>(entry: &mut tar::Entry<'_, R>, name: String) -> io::Result<Row> {
    let mut row = Row {
        key: String::new(),
        version_id: None,
        etag: None,
        range: None,
        modified_s: entry.header().mtime()? as i64,
        content: Vec::new(),
    };
    for record in entry.pax_extensions()?.into_iter().flatten() {
        // The crate splits records at newlines, which a key may have. The key's record comes last,
        // and the entry's name has the key too.
        let Ok(record) = record else { break };
        let Ok(value) = record.value() else { continue };
        match record.key() {
            Ok("SCHILY.xattr.user.fulgurite.etag") => row.etag = Some(value.to_owned()),
            Ok("SCHILY.xattr.user.fulgurite.version-id") => row.version_id = Some(value.to_owned()),
            Ok("SCHILY.xattr.user.fulgurite.range") => row.range = Some(value.to_owned()),
            Ok("mtime") => row.modified_s = value.parse().unwrap_or(row.modified_s),
            _ => {}
        }
    }
    row.key = key_of(&name).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("an entry named {name:?}")))?;
    if entry.size() > CONTENT_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{:?} has {} bytes, too many for a row", row.key, entry.size())));
    }
    // Grows as the content arrives.
    let size = entry.size();
    entry.read_to_end(&mut row.content)?;
    if row.content.len() as u64 != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(row)
}

/// The key in an entry's name.
pub(crate) fn key_of(name: &str) -> Option<String> {
    let whole = match name.strip_prefix("ranges/") {
        Some(rest) => rest.split_once('/')?.1,
        None => name,
    };
    let (is_encoded, whole) = whole.strip_prefix("encoded/").map_or((false, whole), |rest| (true, rest));
    let key = match whole.strip_prefix("objects/") {
        Some(key) => key,
        None => whole.strip_prefix("versions/")?.split_once('/')?.1,
    };
    if is_encoded { percent_decode_str(key).decode_utf8().ok().map(Into::into) } else { Some(key.to_owned()) }
}

/// Whether an entry with this name is a requested object. The server writes ranges in one form.
pub(crate) fn is_entry_of(name: &str, object: &Requested) -> bool {
    let (range, whole) = match name.strip_prefix("ranges/").and_then(|rest| rest.split_once('/')) {
        Some((range, whole)) => (Some(range), whole),
        None => (None, name),
    };
    let rest = whole.strip_prefix("encoded/").unwrap_or(whole);
    let version = rest.strip_prefix("versions/").and_then(|rest| Some(rest.split_once('/')?.0));
    let numbers = |range: &str| -> Option<[Option<u64>; 2]> {
        let (from, to) = range.trim().strip_prefix("bytes=").unwrap_or(range.trim()).split_once('-')?;
        Some([from, to].map(|number| number.trim().parse().ok()))
    };
    key_of(name).as_ref() == Some(&object.key)
        && version == object.version_id.as_deref()
        && range.map(numbers) == object.range.as_deref().map(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_of_what_was_requested() {
        let object = |version: Option<&str>, range: Option<&str>| Requested {
            key: "a/b".to_owned(),
            version_id: version.map(str::to_owned),
            range: range.map(str::to_owned),
        };
        let all = [
            ("objects/a/b", object(None, None)),
            ("versions/7/a/b", object(Some("7"), None)),
            ("ranges/0-9/objects/a/b", object(None, Some("bytes=00-9"))),
            ("ranges/5-/objects/a/b", object(None, Some("bytes=5-"))),
            ("ranges/-5/versions/7/a/b", object(Some("7"), Some("bytes=-5"))),
        ];
        for (one, (name, _)) in all.iter().enumerate() {
            for (other, (_, object)) in all.iter().enumerate() {
                assert_eq!(is_entry_of(name, object), one == other, "{name} {object:?}");
            }
        }
        assert!(is_entry_of("encoded/objects/..%2Fa", &Requested::new("../a")));
        assert!(!is_entry_of("objects/a", &Requested::new("a/b")));
    }

    #[test]
    fn names_have_keys() {
        for (name, key) in [
            ("objects/a/b", Some("a/b")),
            ("versions/7/a/b", Some("a/b")),
            ("ranges/0-9/objects/objects/a", Some("objects/a")),
            ("ranges/-9/versions/7/a", Some("a")),
            ("encoded/objects/..%2Fa", Some("../a")),
            ("encoded/versions/null/a%2F", Some("a/")),
            ("objects", None),
            ("a", None),
            ("versions/7", None),
        ] {
            assert_eq!(key_of(name).as_deref(), key, "{name}");
        }
    }
}
