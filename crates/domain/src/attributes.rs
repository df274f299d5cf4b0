//! Attributes: metadata that the client stores with an object, kept unchanged.
//!
//! The archive does not interpret them: content type, other checksums, the user's own metadata.
//! They are named bytes that accompany the object's record: sealed with it, and written to platters
//! with it.

use std::collections::BTreeMap;

/// Metadata that the client stores with an object: named bytes, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes(pub BTreeMap<String, Vec<u8>>);

impl Attributes {
    /// Most attributes per version.
    pub const COUNT_MAX: usize = 256;
    /// Longest name of an attribute, in bytes of UTF-8.
    pub const NAME_BYTES_MAX: usize = 255;
    /// Most bytes of all names and values of a version in total.
    pub const BYTES_MAX: usize = 64 << 10;

    /// The value of an attribute, if set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// The value of an attribute as text; `None` if it isn't set or isn't UTF-8.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        str::from_utf8(self.get(name)?).ok()
    }

    /// Sets an attribute, replacing any previous value.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.0.insert(name.into(), value.into());
    }

    /// Whether there are no attributes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all names and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Checks that a record can hold them.
    ///
    /// # Errors
    /// [`AttributesError`] names the limit that is exceeded.
    pub fn check(&self) -> Result<(), AttributesError> {
        if self.0.len() > Self::COUNT_MAX {
            return Err(AttributesError::TooMany { found: self.0.len() });
        }
        if let Some(name) = self.0.keys().find(|name| !(1..=Self::NAME_BYTES_MAX).contains(&name.len())) {
            return Err(AttributesError::NameLength { found: name.len() });
        }
        match self.bytes() {
            found if found > Self::BYTES_MAX => Err(AttributesError::TooLong { found }),
            _ => Ok(()),
        }
    }
}

/// Attributes that exceed a record's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum AttributesError {
    #[error("{found} attributes, but a version can have at most {}", Attributes::COUNT_MAX)]
    TooMany { found: usize },
    #[error("an attribute name has {found} bytes: it must have 1 to {}", Attributes::NAME_BYTES_MAX)]
    NameLength {
        /// Bytes of the name.
        found: usize,
    },
    #[error("attribute names and values have {found} bytes in total: the limit is {}", Attributes::BYTES_MAX)]
    TooLong {
        /// Bytes of all names and values.
        found: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_an_attribute_replaces_its_value() {
        let mut attributes = Attributes::default();
        assert!(attributes.is_empty());
        attributes.set("content-type", "text/plain");
        attributes.set("content-type", "image/tiff");
        attributes.set("raw", [0xff, 0x00]);
        assert_eq!((attributes.get("content-type"), attributes.text("content-type")), (Some(&b"image/tiff"[..]), Some("image/tiff")));
        assert_eq!((attributes.get("raw"), attributes.text("raw")), (Some(&[0xff, 0x00][..]), None));
        assert_eq!((attributes.get("other"), attributes.is_empty(), attributes.bytes()), (None, false, 12 + 10 + 3 + 2));
    }

    #[test]
    fn attributes_are_accepted_up_to_the_limits_and_rejected_beyond() {
        let of = |count: usize, name_bytes: usize, value_bytes: usize| {
            let name = |i: usize| format!("{i:0>name_bytes$}");
            Attributes((0..count).map(|i| (name(i), vec![7; value_bytes])).collect())
        };
        assert_eq!(of(256, 3, 253).check(), Ok(()));
        assert_eq!(of(257, 3, 0).check(), Err(AttributesError::TooMany { found: 257 }));
        assert_eq!(of(1, 255, 0).check(), Ok(()));
        assert_eq!(of(1, 256, 0).check(), Err(AttributesError::NameLength { found: 256 }));
        assert_eq!(Attributes([(String::new(), Vec::new())].into()).check(), Err(AttributesError::NameLength { found: 0 }));
        assert_eq!(of(1, 36, 65_500).check(), Ok(()));
        assert_eq!(of(1, 36, 65_501).check(), Err(AttributesError::TooLong { found: 65_537 }));
    }
}
