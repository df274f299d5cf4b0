//! The request of a bulk get: a JSON object with a list, whose entries are keys, or keys with
//! versions and ranges. The state of each requested object.
//!
//! ```json
//! {"objects": ["a", {"key": "b"}, {"key": "c", "version_id": "…", "range": "bytes=0-99"}]}
//! ```

use std::fmt;
use std::ops::Range;

use fulgurite_archive::read_order::MediumPosition;
use fulgurite_domain::VersionId;
use s3s::{S3Error, S3ErrorCode};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Maximum number of objects of one request.
pub(crate) const OBJECTS_MAX: usize = 100_000;

/// A requested object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestedObject {
    pub(crate) key: Box<str>,
    /// The version ID; `None` for the newest.
    pub(crate) version_id: Option<Box<str>>,
    /// The part of its content; `None` for all.
    pub(crate) range: Option<ByteRange>,
}

/// A part of an object's content, as in the header `Range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ByteRange {
    /// From the first byte to the last, both included.
    Between(u64, u64),
    /// From a byte to the end.
    From(u64),
    /// This many bytes at the end.
    Last(u64),
}

impl ByteRange {
    /// Parses `bytes=0-99`, `bytes=100-` or `bytes=-5`.
    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        match text.strip_prefix("bytes=")?.split_once('-')? {
            ("", last) => Some(Self::Last(number(last)?)),
            (first, "") => Some(Self::From(number(first)?)),
            (first, last) => {
                Some(Self::Between(number(first)?, number(last)?)).filter(|range| !matches!(range, Self::Between(a, b) if a > b))
            }
        }
    }

    /// The bytes of an object of this size; `None` if the range is outside the object.
    pub(super) fn of(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::Between(first, last) => first..last.saturating_add(1).min(size),
            Self::From(first) => first..size,
            Self::Last(count) => size.saturating_sub(count)..size,
        };
        (!range.is_empty()).then_some(range)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Between(first, last) => write!(f, "{first}-{last}"),
            Self::From(first) => write!(f, "{first}-"),
            Self::Last(count) => write!(f, "-{count}"),
        }
    }
}

impl<'de> Deserialize<'de> for ByteRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format_args!("expected a range such as \"bytes=0-99\", found {text:?}")))
    }
}

/// A requested object and its state.
pub(super) struct Item {
    pub(super) object: RequestedObject,
    pub(super) outcome: Outcome,
}

/// The state of a requested object.
#[derive(Clone)]
pub(super) enum Outcome {
    /// Not looked up yet.
    Pending,
    /// Found and readable by the caller.
    Found { id: VersionId, place: MediumPosition, bytes: u64 },
    /// Sent in full.
    Sent { version_id: Option<Box<str>>, size: u64, etag: Box<str>, range: Option<Range<u64>> },
    /// Not available.
    Failed { code: S3ErrorCode, message: Box<str> },
}

impl From<S3Error> for Outcome {
    fn from(error: S3Error) -> Self {
        Self::Failed { code: error.code().clone(), message: error.message().unwrap_or_default().into() }
    }
}

/// Why a list can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error(
        "The list is malformed: {0}. Expected: {{\"objects\": [\"key\", {{\"key\": \"key\", \"version_id\": \"version\", \"range\": \"bytes=0-99\"}}]}}."
    )]
    Json(#[from] serde_json::Error),
    #[error("The list has more than {OBJECTS_MAX} objects. Ask for the rest in another request.")]
    TooMany,
}

/// Parses the body of a request.
///
/// # Errors
/// [`ListError`] if the list is malformed or too long. It never holds more in memory than the
/// longest allowed list.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<RequestedObject>, ListError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        objects: List,
    }
    let body: Body = serde_json::from_slice(body)?;
    body.objects.0.ok_or(ListError::TooMany)
}

/// Objects; `None` if they are too many.
struct List(Option<Vec<RequestedObject>>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Objects;

        impl<'de> Visitor<'de> for Objects {
            type Value = List;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<List, A::Error> {
                let mut all = Vec::new();
                while let Some(wanted) = entries.next_element()? {
                    if all.len() == OBJECTS_MAX {
                        while entries.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                        return Ok(List(None));
                    }
                    all.push(wanted);
                }
                Ok(List(Some(all)))
            }
        }

        deserializer.deserialize_seq(Objects)
    }
}

impl<'de> Deserialize<'de> for RequestedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = RequestedObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key, or an object with \"key\", \"version_id\" and \"range\"")
            }

            fn visit_str<E: Error>(self, key: &str) -> Result<RequestedObject, E> {
                Ok(RequestedObject { key: key.into(), version_id: None, range: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<RequestedObject, A::Error> {
                #[derive(Deserialize)]
                #[serde(rename_all = "snake_case")]
                enum Field {
                    Key,
                    VersionId,
                    Range,
                }
                let (mut key, mut version_id, mut range) = (None, None, None);
                while let Some(field) = fields.next_key()? {
                    match field {
                        Field::Key if key.is_none() => key = Some(fields.next_value()?),
                        Field::VersionId if version_id.is_none() => version_id = Some(fields.next_value::<Option<Box<str>>>()?),
                        Field::Range if range.is_none() => range = Some(fields.next_value::<Option<ByteRange>>()?),
                        Field::Key => return Err(Error::duplicate_field("key")),
                        Field::VersionId => return Err(Error::duplicate_field("version_id")),
                        Field::Range => return Err(Error::duplicate_field("range")),
                    }
                }
                let key = key.ok_or_else(|| Error::missing_field("key"))?;
                Ok(RequestedObject { key, version_id: version_id.flatten(), range: range.flatten() })
            }
        }

        deserializer.deserialize_any(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(key: &str, version_id: Option<&str>) -> RequestedObject {
        RequestedObject { key: key.into(), version_id: version_id.map(Into::into), range: None }
    }

    #[test]
    fn ranges_are_those_of_the_header() {
        let range = |text: &str| {
            let body = format!(r#"{{"objects": [{{"key": "a", "range": {text}}}]}}"#);
            parse(body.as_bytes()).map(|objects| objects[0].range)
        };
        for (text, range_of_ten, name) in [
            ("bytes=0-0", Some(0..1), "0-0"),
            ("bytes=2-4", Some(2..5), "2-4"),
            ("bytes=2-99", Some(2..10), "2-99"),
            ("bytes=9-18446744073709551615", Some(9..10), "9-18446744073709551615"),
            ("bytes=3-", Some(3..10), "3-"),
            ("bytes=10-", None, "10-"),
            ("bytes=10-20", None, "10-20"),
            ("bytes=-3", Some(7..10), "-3"),
            ("bytes=-30", Some(0..10), "-30"),
            ("bytes=-0", None, "-0"),
        ] {
            let found = range(&format!("{text:?}")).expect(text).expect("a range");
            assert_eq!((found.of(10), found.to_string().as_str()), (range_of_ten, name), "{text}");
        }
        assert_eq!(range("null").expect("none"), None);
        for wrong in
            ["", "0-1", "bytes=", "bytes=-", "bytes=a-b", "bytes=4-2", "bytes=0-1,3-4", "bytes=+1-2", "bytes=99999999999999999999-"]
        {
            assert!(range(&format!("{wrong:?}")).is_err(), "{wrong}");
        }
        assert!(range("7").is_err() && range("[0, 1]").is_err());
    }

    #[test]
    fn entries_are_keys_with_or_without_versions() {
        let body = br#"{"objects": ["a/\u00e9 \"b\"", {"key": "b"}, {"version_id": "7", "key": "c"}, {"key": "", "version_id": null}]}"#;
        let expected = [wanted("a/é \"b\"", None), wanted("b", None), wanted("c", Some("7")), wanted("", None)];
        assert_eq!(parse(body).expect("a list"), expected);
        assert_eq!(parse(br#"{"objects": []}"#).expect("a list"), []);
    }

    #[test]
    fn malformed_lists_are_refused() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"objects": "a"}"#,
            r#"{"objects": [1]}"#,
            r#"{"objects": [null]}"#,
            r#"{"objects": ["a"], "format": "zip"}"#,
            r#"{"objects": [{"version_id": "7"}]}"#,
            r#"{"objects": [{"key": "a", "key": "b"}]}"#,
            r#"{"objects": [{"key": "a", "versionId": "b"}]}"#,
            r#"{"objects": [{"key": "a", "version_id": 7}]}"#,
            r#"{"objects": ["a"]} and more"#,
            r#"{"objects": ["\ud800"]}"#,
        ] {
            assert!(matches!(parse(body.as_bytes()), Err(ListError::Json(_))), "{body}");
        }
        assert!(parse(b"{\"objects\": [\"\xff\"]}").is_err());
    }

    #[test]
    fn the_number_of_objects_is_limited() {
        let list = |count: usize| format!("{{\"objects\": [{}]}}", vec!["\"\""; count].join(","));
        assert_eq!(parse(list(OBJECTS_MAX).as_bytes()).expect("a list").len(), OBJECTS_MAX);
        assert!(matches!(parse(list(OBJECTS_MAX + 1).as_bytes()), Err(ListError::TooMany)));
    }
}
