//! Lists of objects: a key on each line, or a JSON object on each line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use fulgurite_client::Requested;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Maximum length of a line. A key has at most 1,024 bytes, and six times that as JSON.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// Why a list can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It can't be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The list.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Its name ends in `.json`, which doesn't say whether each line is JSON.
    #[error("{}: name it .jsonl if each line is JSON, or .txt if each line is a key", .0.display())]
    Name(PathBuf),
    /// It is a pipe, for example, and can't be read twice.
    #[error("{}: not a file", .0.display())]
    NotAFile(PathBuf),
    /// It was changed while it was read.
    #[error("{}: it was changed meanwhile", .0.display())]
    Changed(PathBuf),
    /// A line is wrong.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The list.
        path: PathBuf,
        /// The line's number, from 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
}

/// Passes each object of a list to `each`, in order. Empty lines are skipped. Lists whose names end
/// in `.jsonl` or `.ndjson`, in any case, have a JSON object or a string on each line, others a
/// key.
///
/// # Errors
/// [`ListError`], or that of `each`.
pub(crate) fn read<E: From<ListError>>(path: &Path, mut each: impl FnMut(Requested) -> Result<(), E>) -> Result<(), E> {
    let io_error = |source| ListError::Io { path: path.to_owned(), source };
    let is_named =
        |endings: &[&str]| path.extension().is_some_and(|extension| endings.iter().any(|ending| extension.eq_ignore_ascii_case(ending)));
    if is_named(&["json"]) {
        return Err(ListError::Name(path.to_owned()).into());
    }
    let is_json = is_named(&["jsonl", "ndjson"]);
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(io_error)?);
    let (mut text, mut line) = (Vec::new(), 0);
    loop {
        text.clear();
        line += 1;
        if reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text).map_err(io_error)? == 0 {
            return Ok(());
        }
        let wrong = |why: String| ListError::Line { path: path.to_owned(), line, why };
        if text.last() == Some(&b'\n') {
            text.pop();
        } else if text.len() as u64 == LINE_BYTES_MAX {
            return Err(wrong(format!("longer than {LINE_BYTES_MAX} bytes")).into());
        }
        if text.last() == Some(&b'\r') {
            text.pop();
        }
        let text = str::from_utf8(&text).map_err(|error| wrong(error.to_string()))?;
        // Some editors begin files with a byte-order mark.
        let text = if line == 1 { text.trim_start_matches('\u{feff}') } else { text };
        if text.is_empty() {
            continue;
        }
        let object = match is_json {
            false => Requested::new(text),
            true => parse(text).map_err(|error| match text.trim_start().starts_with(['"', '{']) {
                true => wrong(error.to_string()),
                false => wrong("expected a JSON string or object; name the file .txt if each line is a key".to_owned()),
            })?,
        };
        if let Some(range) = object.range.as_deref().filter(|range| !is_range(range)) {
            return Err(wrong(format!("expected a range such as bytes=0-99, found {range:?}")).into());
        }
        each(object)?;
    }
}

/// A line of JSON with more than a key. Lists of failed objects also have `code` and
/// `message`, and can be used as lists again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    version_id: Option<String>,
    range: Option<String>,
    #[serde(rename = "code")]
    _code: Option<IgnoredAny>,
    #[serde(rename = "message")]
    _message: Option<IgnoredAny>,
}

/// Whether the server takes this for a range.
fn is_range(text: &str) -> bool {
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else { return false };
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    match (first, last) {
        ("", text) | (text, "") => number(text).is_some(),
        (first, last) => number(first).zip(number(last)).is_some_and(|(first, last)| first <= last),
    }
}

fn parse(text: &str) -> serde_json::Result<Requested> {
    if text.trim_start().starts_with('"') {
        return serde_json::from_str::<String>(text).map(|key| Requested::new(&key));
    }
    let Line { key, version_id, range, .. } = serde_json::from_str(text)?;
    Ok(Requested { key, version_id, range })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &[u8]) -> Result<Vec<Requested>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        let mut all = Vec::new();
        let each = |requested| {
            all.push(requested);
            Ok::<_, ListError>(())
        };
        read(&path, each)
            .map_err(|error| error.to_string().split_once(", line ").map_or(error.to_string(), |(_, rest)| format!("line {rest}")))?;
        Ok(all)
    }

    #[test]
    fn a_line_is_a_key() {
        let keys = |text: &[u8]| of("list.txt", text).expect("a list").into_iter().map(|requested| requested.key).collect::<Vec<_>>();
        assert_eq!(keys("a b\n\né/\"c\"\r\n{d}".as_bytes()), ["a b", "é/\"c\"", "{d}"]);
        assert!(keys(b"").is_empty());
        assert_eq!(keys("\u{feff}a\n\u{feff}b".as_bytes()), ["a", "\u{feff}b"]);
        assert!(of("list.txt", b"a\n\xff\n").expect_err("no text").starts_with("line 2: "));
        assert!(of("list.txt", &[b'x'; 20_000]).expect_err("too long").starts_with("line 1: longer"));
    }

    #[test]
    fn a_line_of_json_has_a_key_and_may_have_a_version_and_a_range() {
        let text = br#"{"key": "a\nb", "version_id": "7", "range": "bytes=0-9"}
"c"
 {"key": "d"}
"#;
        let all = of("list.jsonl", text).expect("a list");
        assert_eq!(all[0], Requested { key: "a\nb".into(), version_id: Some("7".into()), range: Some("bytes=0-9".into()) });
        assert_eq!(all[1..], [Requested::new("c"), Requested::new("d")]);
        let failed = br#"{"key":"e","version_id":null,"code":"NoSuchKey","message":"m"}"#;
        assert_eq!(of("list.jsonl", failed), Ok(vec![Requested::new("e")]));
        assert!(of("list.jsonl", b"night/1").expect_err("a key").contains("name the file .txt"));
        for (range, is_valid) in [
            ("bytes=0-0", true),
            ("bytes=5-", true),
            ("bytes=-5", true),
            ("bytes=5-2", false),
            ("bytes=-", false),
            ("0-5", false),
            ("bytes=0-1,3-4", false),
            ("bananas", false),
        ] {
            let line = format!(r#"{{"key": "a", "range": "{range}"}}"#);
            assert_eq!(of("list.jsonl", line.as_bytes()).is_ok(), is_valid, "{range}");
        }
        assert!(of("list.json", b"").is_err() && of("LIST.JSON", b"").is_err());
        for name in ["LIST.JSONL", "list.Ndjson"] {
            assert_eq!(of(name, br#"{"key": "a"}"#), Ok(vec![Requested::new("a")]), "{name}");
        }
        for wrong in [r#"{"key": "a", "versionId": "7"}"#, r#"{"version_id": "7"}"#, "7", "a", "{"] {
            assert!(of("list.ndjson", wrong.as_bytes()).expect_err(wrong).starts_with("line 1: "), "{wrong}");
        }
    }
}
