//! Versions of the specification, names of version folders, and names that the specification fixes.

use std::fmt;

/// The inventory's file name, in the object's folder and in version folders.
pub const INVENTORY: &str = "inventory.json";
/// The folder of extensions, in objects and in storage roots.
pub(crate) const EXTENSIONS: &str = "extensions";
/// The folder of logs in an object.
pub(crate) const LOGS: &str = "logs";
/// The content folder's name if the inventory names none.
pub(crate) const CONTENT: &str = "content";
/// Most bytes of a declaration, a sidecar or a layout file that are read.
pub(crate) const SMALL_FILE_BYTES: u64 = 64 << 10;

/// A version of the OCFL specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecVersion {
    /// OCFL 1.0 of July 2020.
    V1_0,
    /// OCFL 1.1 of October 2022.
    V1_1,
}

impl SpecVersion {
    /// All that this crate knows, oldest first.
    pub const ALL: [Self; 2] = [Self::V1_0, Self::V1_1];

    /// Its number, such as `1.1`.
    #[must_use]
    pub fn number(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
        }
    }

    /// The value of the key `type` of inventories.
    #[must_use]
    pub fn inventory_type(self) -> &'static str {
        match self {
            Self::V1_0 => "https://ocfl.io/1.0/spec/#inventory",
            Self::V1_1 => "https://ocfl.io/1.1/spec/#inventory",
        }
    }

    pub(crate) fn of_inventory_type(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.inventory_type() == value)
    }

    pub(crate) fn of_number(number: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.number() == number)
    }
}

impl fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

/// The name of a version and of its folder: `v3`, or `v0003` in objects with padded names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionName {
    number: u32,
    /// Digits of padded names, 0 for names without padding.
    width: u8,
}

impl VersionName {
    /// `v1`.
    pub const FIRST: Self = Self { number: 1, width: 0 };

    /// `None` unless `name` is `v` and a positive number that a `u32` holds.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_prefix('v')?;
        if digits.is_empty() || digits.len() > 32 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let number: u32 = digits.parse().ok().filter(|number| *number > 0)?;
        let width = if digits.starts_with('0') { u8::try_from(digits.len()).ok()? } else { 0 };
        Some(Self { number, width })
    }

    /// Counts from 1.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    /// True for names such as `v0003`.
    #[must_use]
    pub fn is_padded(self) -> bool {
        self.width > 0
    }

    /// True if both names can belong to one object: both without padding, or padded to one width.
    #[must_use]
    pub fn has_convention_of(self, other: Self) -> bool {
        self.width == other.width
    }

    /// The name of version `number` in the same convention. `None` if padded names of this width
    /// end before it.
    #[must_use]
    pub fn with_number(self, number: u32) -> Option<Self> {
        let name = Self { number, ..self };
        // A padded name must begin with a zero.
        (number > 0 && (self.width == 0 || number.to_string().len() < usize::from(self.width))).then_some(name)
    }
}

impl fmt::Display for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{:0width$}", self.number, width = usize::from(self.width))
    }
}

/// Extensions in the registry of the OCFL community.
const REGISTERED_EXTENSIONS: [&str; 13] = [
    "initial",
    "0001-digest-algorithms",
    "0002-flat-direct-storage-layout",
    "0003-hash-and-id-n-tuple-storage-layout",
    "0004-hashed-n-tuple-storage-layout",
    "0005-mutable-head",
    "0006-flat-omit-prefix-storage-layout",
    "0007-n-tuple-omit-prefix-storage-layout",
    "0008-schema-registry",
    "0009-digest-algorithms",
    "0010-differential-n-tuple-omit-prefix-storage-layout",
    "0011-direct-clean-path-layout",
    "0012-hash-and-no-prefix-id-n-tuple-storage-layout",
];

pub(crate) fn is_registered_extension(name: &str) -> bool {
    REGISTERED_EXTENSIONS.contains(&name)
}

/// True for text with a URI's scheme and something after it (RFC 3986, 3).
pub(crate) fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut letters = scheme.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'+' | b'-' | b'.'))
        && !rest.is_empty()
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_names_keep_their_padding() {
        for name in ["v1", "v10", "v01", "v0001", "v0999", "v4294967295"] {
            assert_eq!(VersionName::parse(name).map(|name| name.to_string()).as_deref(), Some(name));
        }
        for name in ["", "v", "1", "v0", "v00", "v-1", "v+1", "v1a", "V1", " v1", "v4294967296", "v١"] {
            assert_eq!(VersionName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_padded_number_keeps_its_leading_zero() {
        let name = VersionName::parse("v09").unwrap();
        assert_eq!(name.with_number(8).unwrap().to_string(), "v08");
        assert_eq!(name.with_number(10), None);
        assert_eq!(VersionName::FIRST.with_number(10).unwrap().to_string(), "v10");
    }

    #[test]
    fn uris_have_a_scheme() {
        assert!(["ark:/13030/x", "urn:a", "https://example.org/", "info:a/b", "mailto:a@b"].iter().all(|uri| is_uri(uri)));
        assert!(["", "a", ":a", "1a:b", "a:", "a b:c", "urn:a b", "some where"].iter().all(|uri| !is_uri(uri)));
    }
}
