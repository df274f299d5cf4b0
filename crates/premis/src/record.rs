//! Events, objects and what they consist of.

use crate::{PremisError, text};

/// An identifier of an event, an object or an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identifier {
    /// The kind, such as `UUID`, `ARK`, `URI` or `local`.
    pub kind: String,
    /// The identifier itself.
    pub value: String,
}

impl Identifier {
    /// An identifier of a kind.
    pub fn new(kind: impl Into<String>, value: impl Into<String>) -> Self {
        Self { kind: kind.into(), value: value.into() }
    }

    /// The identifier that is a name of any bytes. If these aren't UTF-8, they are percent-encoded,
    /// and the kind ends with `(percent-encoded)`.
    #[must_use]
    pub fn of_name(kind: &str, name: &[u8]) -> Self {
        let (value, is_encoded) = text::for_name(name);
        Self::new(if is_encoded { text::marked_kind(kind) } else { kind.to_owned() }, value)
    }
}

/// The text for an original name of any bytes. If these aren't UTF-8, they are percent-encoded
/// after the prefix `percent-encoded: `.
#[must_use]
pub fn original_name(name: &[u8]) -> String {
    let (text, is_encoded) = text::for_name(name);
    if is_encoded { text::marked(&text) } else { text.into_owned() }
}

/// A point in time, in UTC without leap seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds after that, below 1,000,000,000.
    pub nanos: u32,
}

impl Timestamp {
    /// As in ISO 8601 and xs:dateTime, without trailing zeros: `2026-11-25T07:25:09.5Z`.
    ///
    /// # Errors
    /// If the year isn't in 0 to 9999, or `nanos` is too large.
    pub fn text(self) -> Result<String, PremisError> {
        let Self { seconds, nanos } = self;
        let refuse = || PremisError::Time { seconds, nanos };
        let time = time::OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| refuse())?;
        if !(0..=9999).contains(&time.year()) || nanos >= 1_000_000_000 {
            return Err(refuse());
        }
        let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
        let (hour, minute, second) = time.to_hms();
        let fraction = if nanos == 0 { String::new() } else { format!(".{nanos:09}").trim_end_matches('0').to_owned() };
        Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
    }
}

/// Types of events, from the vocabulary at <http://id.loc.gov/vocabulary/preservation/eventType>.
///
/// A repair is a [`EventType::Recovery`]: the vocabulary has no term for a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Content was verified against its digest.
    FixityCheck,
    /// A digest was computed for the first time.
    MessageDigestCalculation,
    /// A copy was made.
    Replication,
    /// Objects were added to the repository.
    Ingestion,
    /// Something was compared with a standard, such as a bag with RFC 8493.
    Validation,
    /// Content was restored from another copy or from redundancy.
    Recovery,
    /// An object was deleted.
    Deletion,
    /// An object was removed from the inventory of a repository.
    Deaccession,
    /// A copy was made for use outside of the repository.
    Dissemination,
    /// What is known of an object was changed.
    MetadataModification,
}

impl EventType {
    /// All types.
    pub const ALL: [Self; 10] = [
        Self::FixityCheck,
        Self::MessageDigestCalculation,
        Self::Replication,
        Self::Ingestion,
        Self::Validation,
        Self::Recovery,
        Self::Deletion,
        Self::Deaccession,
        Self::Dissemination,
        Self::MetadataModification,
    ];

    /// The term, in English.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::FixityCheck => "fixity check",
            Self::MessageDigestCalculation => "message digest calculation",
            Self::Replication => "replication",
            Self::Ingestion => "ingestion",
            Self::Validation => "validation",
            Self::Recovery => "recovery",
            Self::Deletion => "deletion",
            Self::Deaccession => "deaccession",
            Self::Dissemination => "dissemination",
            Self::MetadataModification => "metadata modification",
        }
    }

    /// The term's URI.
    #[must_use]
    pub fn uri(self) -> &'static str {
        match self {
            Self::FixityCheck => "http://id.loc.gov/vocabulary/preservation/eventType/fix",
            Self::MessageDigestCalculation => "http://id.loc.gov/vocabulary/preservation/eventType/mes",
            Self::Replication => "http://id.loc.gov/vocabulary/preservation/eventType/rep",
            Self::Ingestion => "http://id.loc.gov/vocabulary/preservation/eventType/ing",
            Self::Validation => "http://id.loc.gov/vocabulary/preservation/eventType/val",
            Self::Recovery => "http://id.loc.gov/vocabulary/preservation/eventType/rec",
            Self::Deletion => "http://id.loc.gov/vocabulary/preservation/eventType/del",
            Self::Deaccession => "http://id.loc.gov/vocabulary/preservation/eventType/dea",
            Self::Dissemination => "http://id.loc.gov/vocabulary/preservation/eventType/dis",
            Self::MetadataModification => "http://id.loc.gov/vocabulary/preservation/eventType/mem",
        }
    }
}

/// How an event ended, from the vocabulary at
/// <http://id.loc.gov/vocabulary/preservation/eventOutcome>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// As intended.
    Success,
    /// As intended, with something to look at.
    Warning,
    /// Not as intended.
    Fail,
}

impl Outcome {
    /// The term, in English.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Warning => "warning",
            Self::Fail => "fail",
        }
    }

    /// The term's URI.
    #[must_use]
    pub fn uri(self) -> &'static str {
        match self {
            Self::Success => "http://id.loc.gov/vocabulary/preservation/eventOutcome/suc",
            Self::Warning => "http://id.loc.gov/vocabulary/preservation/eventOutcome/war",
            Self::Fail => "http://id.loc.gov/vocabulary/preservation/eventOutcome/fai",
        }
    }
}

/// What an object was for an event, from the vocabulary at
/// <http://id.loc.gov/vocabulary/preservation/eventRelatedObjectRole>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectRole {
    /// The event used it or was about it.
    Source,
    /// The event produced it.
    Outcome,
}

impl ObjectRole {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Outcome => "outcome",
        }
    }

    pub(crate) fn uri(self) -> &'static str {
        match self {
            Self::Source => "http://id.loc.gov/vocabulary/preservation/eventRelatedObjectRole/sou",
            Self::Outcome => "http://id.loc.gov/vocabulary/preservation/eventRelatedObjectRole/out",
        }
    }
}

/// A link from an event to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The object.
    pub object: Identifier,
    /// What it was for the event.
    pub role: ObjectRole,
}

/// Something that was done to objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Identifies the event.
    pub identifier: Identifier,
    /// What was done.
    pub kind: EventType,
    /// When.
    pub time: Timestamp,
    /// How, for people: the method, the program, its settings.
    pub detail: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// More on how it ended, for people.
    pub outcome_detail: Option<String>,
    /// The programs that did it.
    pub agents: Vec<Identifier>,
    /// The objects that it was done to, and those that it produced.
    pub objects: Vec<Link>,
}

/// A digest of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixity {
    /// Name of the algorithm, such as `SHA-512`.
    pub algorithm: String,
    /// The digest, as hexadecimal digits.
    pub digest: String,
    /// The organization or program that computed it first.
    pub originator: Option<String>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileObject {
    /// Identifies the file.
    pub identifier: Identifier,
    /// Its digests.
    pub fixity: Vec<Fixity>,
    /// Its length in bytes.
    pub bytes: Option<u64>,
    /// Name of its format, such as a media type. The schema requires one; `None` writes `unknown`.
    pub format: Option<String>,
    /// Its name when it came in; see [`original_name`].
    pub original_name: Option<String>,
    /// Where it is stored.
    pub location: Option<Identifier>,
}

/// A program that does things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Identifies the program.
    pub identifier: Identifier,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What else is to be said.
    pub note: Option<String>,
}

impl Agent {
    /// The type of programs, from the vocabulary `agentType`.
    pub(crate) const TYPE_URI: &str = "http://id.loc.gov/vocabulary/preservation/agentType/sof";
}

impl Fixity {
    /// The algorithm's URI in the vocabulary `cryptographicHashFunctions`, if it has one.
    pub(crate) fn algorithm_uri(&self) -> Option<&'static str> {
        let plain: String = self.algorithm.chars().filter(char::is_ascii_alphanumeric).collect();
        Some(match plain.to_ascii_lowercase().as_str() {
            "md5" => "http://id.loc.gov/vocabulary/preservation/cryptographicHashFunctions/md5",
            "sha1" => "http://id.loc.gov/vocabulary/preservation/cryptographicHashFunctions/sha1",
            "sha256" => "http://id.loc.gov/vocabulary/preservation/cryptographicHashFunctions/sha256",
            "sha384" => "http://id.loc.gov/vocabulary/preservation/cryptographicHashFunctions/sha384",
            "sha512" => "http://id.loc.gov/vocabulary/preservation/cryptographicHashFunctions/sha512",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_without_trailing_zeros() {
        for (seconds, nanos, text) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (1_795_591_509, 500_000_000, "2026-11-25T07:25:09.5Z"),
            (951_782_400, 1, "2000-02-29T00:00:00.000000001Z"),
            (-1, 999_999_999, "1969-12-31T23:59:59.999999999Z"),
            (253_402_300_799, 0, "9999-12-31T23:59:59Z"),
            (-62_167_219_200, 0, "0000-01-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp { seconds, nanos }.text().unwrap(), text);
        }
        for (seconds, nanos) in [(253_402_300_800, 0), (-62_167_219_201, 0), (i64::MAX, 0), (i64::MIN, 0), (0, 1_000_000_000)] {
            assert!(matches!(Timestamp { seconds, nanos }.text(), Err(PremisError::Time { .. })), "{seconds} {nanos}");
        }
    }
}
