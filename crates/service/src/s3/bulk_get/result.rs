//! `result.json`, the last entry of a response: the outcome of each object, in the order of the
//! request. If it is present, the response is complete.

use std::io::{self, Write};

use serde::Serialize;

use super::entry_names::entry_name;
use super::request::{Item, Outcome};

/// The entry's name. No object's entry has this name.
pub(super) const NAME: &str = "result.json";

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    key: &'a str,
    /// The version that was read, if the bucket keeps versions; else the requested one.
    #[serde(skip_serializing_if = "Option::is_none")]
    version_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<&'a str>,
    /// The bytes that were sent, as in the header `Content-Range`, without the size of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn new(item: &'a Item) -> Self {
        let requested_id = item.object.version_id.as_deref();
        let mut line = Line {
            key: &item.object.key,
            version_id: requested_id,
            entry: None,
            size: None,
            etag: None,
            range: None,
            code: None,
            message: None,
        };
        match &item.outcome {
            Outcome::Sent { version_id, size, etag, range } => {
                line.version_id = version_id.as_deref().or(requested_id);
                line.entry = Some(entry_name(&item.object));
                line.size = Some(*size);
                line.etag = Some(etag);
                line.range = range.as_ref().map(|range| format!("bytes {}-{}", range.start, range.end - 1));
            }
            Outcome::Failed { code, message } => {
                line.code = Some(code.as_str());
                line.message = Some(message);
            }
            Outcome::Pending | Outcome::Found { .. } => unreachable!("every object has an outcome by now"),
        }
        line
    }
}

/// Writes the file, a line for each object.
pub(super) fn write(bucket: &str, items: &[Item], out: &mut impl Write) -> io::Result<()> {
    let failed = items.iter().filter(|item| matches!(item.outcome, Outcome::Failed { .. })).count();
    write!(out, "{{\"bucket\": ")?;
    serde_json::to_writer(&mut *out, bucket)?;
    write!(out, ", \"retrieved\": {}, \"failed\": {failed}, \"objects\": [", items.len() - failed)?;
    for (index, item) in items.iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &Line::new(item))?;
    }
    out.write_all(b"\n]}\n")
}

/// The length of the file. The tar header needs it first, and the file may be too long to be
/// buffered.
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

#[cfg(test)]
mod tests {
    use s3s::s3_error;

    use super::*;
    use crate::s3::bulk_get::request::RequestedObject;

    fn object(key: &str, version_id: Option<&str>) -> RequestedObject {
        RequestedObject { key: key.into(), version_id: version_id.map(Into::into), range: None }
    }

    #[test]
    fn each_object_has_a_line_and_the_length_is_measured() {
        let sent = Outcome::Sent { version_id: Some("7".into()), size: 3, etag: "e".into(), range: None };
        let items = [
            Item { object: object("a\"", None), outcome: sent },
            Item { object: object("b", Some("8")), outcome: s3_error!(NoSuchVersion, "Not there.").into() },
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
