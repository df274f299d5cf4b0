//! `result.json`, the last entry of an answer: what became of each object, in the order in which they were asked for. Where it is there, the answer is
//! whole.

use std::io::{self, Write};

use serde::Serialize;

use super::asked::Wanted;
use super::batch::{Item, Outcome};
use crate::s3::tags::encode_text;

/// Its name. No object's entry is called so.
pub(super) const NAME: &str = "result.json";

/// A line of it.
#[derive(Serialize)]
struct Line<'a> {
    key: &'a str,
    /// The version that was read, where the bucket keeps versions; else the one that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    version_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn new(item: &'a Item) -> Self {
        let asked = item.wanted.version_id.as_deref();
        let mut line = Line { key: &item.wanted.key, version_id: asked, entry: None, size: None, etag: None, code: None, message: None };
        match &item.outcome {
            Outcome::Given { version_id, size, etag } => {
                line.version_id = version_id.as_deref().or(asked);
                line.entry = Some(entry_name(&item.wanted));
                line.size = Some(*size);
                line.etag = Some(etag);
            }
            Outcome::Refused { code, message } => {
                line.code = Some(code.as_str());
                line.message = Some(message);
            }
            Outcome::Open | Outcome::Found { .. } => unreachable!("whatever was asked for has an end by now"),
        }
        line
    }
}

/// Writes it, a line for each object.
pub(super) fn write(bucket: &str, items: &[Item], out: &mut impl Write) -> io::Result<()> {
    let failed = items.iter().filter(|item| matches!(item.outcome, Outcome::Refused { .. })).count();
    write!(out, "{{\"bucket\": ")?;
    serde_json::to_writer(&mut *out, bucket)?;
    write!(out, ", \"retrieved\": {}, \"failed\": {failed}, \"objects\": [", items.len() - failed)?;
    for (index, item) in items.iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &Line::new(item))?;
    }
    out.write_all(b"\n]}\n")
}

/// How long it is going to be: a header comes before it, and it may be too long to be held.
pub(super) fn measure(bucket: &str, items: &[Item]) -> io::Result<u64> {
    struct Count(u64);

    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    write(bucket, items, &mut count)?;
    Ok(count.0)
}

/// The name of an object's entry. Keys that are no paths would name other files than they should when they are unpacked, so they stand encoded.
pub(crate) fn entry_name(wanted: &Wanted) -> String {
    let key = &wanted.key;
    match (&wanted.version_id, is_path(key)) {
        (None, true) => format!("objects/{key}"),
        (None, false) => format!("encoded/objects/{}", encoded(key)),
        (Some(id), true) => format!("versions/{id}/{key}"),
        (Some(id), false) => format!("encoded/versions/{id}/{}", encoded(key)),
    }
}

/// A key as a single name, and not that of a folder.
fn encoded(key: &str) -> String {
    match key {
        "." | ".." => key.replace('.', "%2E"),
        _ => encode_text(key),
    }
}

/// Whether a key is a path below the folder that it is unpacked in, and no other key's too.
pub(super) fn is_path(key: &str) -> bool {
    !key.contains(|c: char| c.is_control() || c == '\\') && key.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use s3s::s3_error;

    use super::*;

    fn wanted(key: &str, version_id: Option<&str>) -> Wanted {
        Wanted { key: key.into(), version_id: version_id.map(Into::into) }
    }

    #[test]
    fn keys_that_are_no_paths_stand_encoded() {
        for key in ["a", "a/b c", "é/…", "..a/b..", "a/.b", "C:", "%2F"] {
            assert_eq!(entry_name(&wanted(key, None)), format!("objects/{key}"));
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
            assert_eq!(entry_name(&wanted(key, None)), format!("encoded/objects/{encoded}"));
        }
        assert_eq!(entry_name(&wanted("a", Some("null"))), "versions/null/a");
        assert_eq!(entry_name(&wanted("a/", Some("null"))), "encoded/versions/null/a%2F");
    }

    #[test]
    fn each_object_has_a_line_and_the_length_is_known_before() {
        let given = Outcome::Given { version_id: Some("7".into()), size: 3, etag: "e".into() };
        let items = [
            Item { wanted: wanted("a\"", None), outcome: given },
            Item { wanted: wanted("b", Some("8")), outcome: s3_error!(NoSuchVersion, "Not there.").into() },
        ];
        let mut text = Vec::new();
        write("photos", &items, &mut text).expect("a vector takes all");
        assert_eq!(text.len() as u64, measure("photos", &items).expect("counted"));
        let expected = "{\"bucket\": \"photos\", \"retrieved\": 1, \"failed\": 1, \"objects\": [\n\
            {\"key\":\"a\\\"\",\"version_id\":\"7\",\"entry\":\"objects/a\\\"\",\"size\":3,\"etag\":\"e\"},\n\
            {\"key\":\"b\",\"version_id\":\"8\",\"code\":\"NoSuchVersion\",\"message\":\"Not there.\"}\n]}\n";
        assert_eq!(String::from_utf8(text).expect("text"), expected);
    }
}
