//! Names of the entries of the tar archive.

use super::request::RequestedObject;
use crate::http::url_encoding;

/// The name of an object's entry. A key that isn't a safe path would name another file when it is
/// unpacked, so it is encoded.
pub(crate) fn entry_name(object: &RequestedObject) -> String {
    let whole = name_of_whole(object);
    match object.range {
        Some(range) => format!("ranges/{range}/{whole}"),
        None => whole,
    }
}

fn name_of_whole(object: &RequestedObject) -> String {
    let key = &object.key;
    match (&object.version_id, is_path(key)) {
        (None, true) => format!("objects/{key}"),
        (None, false) => format!("encoded/objects/{}", encoded(key)),
        (Some(id), true) => format!("versions/{id}/{key}"),
        (Some(id), false) => format!("encoded/versions/{id}/{}", encoded(key)),
    }
}

/// A key as a single file name.
fn encoded(key: &str) -> String {
    match key {
        "." | ".." => key.replace('.', "%2E"),
        _ => url_encoding::encode(key),
    }
}

/// True if a key can be unpacked as a path: it stays below its folder, and no other key names the
/// same file.
pub(super) fn is_path(key: &str) -> bool {
    !key.contains(|c: char| c.is_control() || c == '\\') && key.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str, version_id: Option<&str>) -> RequestedObject {
        RequestedObject { key: key.into(), version_id: version_id.map(Into::into), range: None }
    }

    #[test]
    fn keys_that_are_not_paths_are_encoded() {
        for key in ["a", "a/b c", "é/…", "..a/b..", "a/.b", "C:", "%2F"] {
            assert_eq!(entry_name(&object(key, None)), format!("objects/{key}"));
        }
        for (key, encoded) in [
            ("", ""),
            ("/etc/passwd", "%2Fetc%2Fpasswd"),
            ("../a", "..%2Fa"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("a/../b", "a%2F..%2Fb"),
            ("a//b", "a%2F%2Fb"),
            ("a/", "a%2F"),
            ("./a", ".%2Fa"),
            ("a\n", "a%0A"),
            ("a\0b", "a%00b"),
            ("a\\b", "a%5Cb"),
        ] {
            assert_eq!(entry_name(&object(key, None)), format!("encoded/objects/{encoded}"));
        }
        assert_eq!(entry_name(&object("a", Some("null"))), "versions/null/a");
        let range = Some(crate::s3::bulk_get::request::ByteRange::Between(0, 99));
        assert_eq!(entry_name(&RequestedObject { range, ..object("a/b", None) }), "ranges/0-99/objects/a/b");
        assert_eq!(entry_name(&object("a/", Some("null"))), "encoded/versions/null/a%2F");
    }
}
