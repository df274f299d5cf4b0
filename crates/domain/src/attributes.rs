//! Attributes: what whoever put an object says of it, kept as it is.
//!
//! The archive makes nothing of them: content type, checksums of other kinds, a user's own metadata. They are named bytes, and go where
//! the object's record goes: sealed with it, onto platters with it.

use std::collections::BTreeMap;

/// What whoever put the object says of it, kept as it is: by name, in the order of the names' bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes(pub BTreeMap<String, Vec<u8>>);

impl Attributes {
    /// Most attributes of a version.
    pub const COUNT_MAX: usize = 256;
    /// Longest name of an attribute, in bytes of UTF-8.
    pub const NAME_BYTES_MAX: usize = 255;
    /// Most bytes of all names and values of a version together.
    pub const BYTES_MAX: usize = 64 << 10;

    /// The value of an attribute; `None` if it isn't there.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// The value of an attribute as text; `None` if it isn't there, or isn't UTF-8.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        str::from_utf8(self.get(name)?).ok()
    }

    /// Sets an attribute, in the place of one that had the name.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.0.insert(name.into(), value.into());
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all names and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Whether a record can hold them.
    ///
    /// # Errors
    /// [`AttributesError`] says which limit they are beyond.
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

/// Attributes that no record can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttributesError {
    /// There are too many.
    #[error("there are {found} attributes, and a version has at most {}", Attributes::COUNT_MAX)]
    TooMany {
        /// How many.
        found: usize,
    },
    /// One has no name, or too long a one.
    #[error("the name of an attribute has {found} bytes, and should have 1 to {}", Attributes::NAME_BYTES_MAX)]
    NameLength {
        /// Bytes of the name.
        found: usize,
    },
    /// They are too long together.
    #[error("names and values of the attributes have {found} bytes together, and may have {}", Attributes::BYTES_MAX)]
    TooLong {
        /// Bytes of all names and values.
        found: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_what_it_was_set_to_last() {
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
    fn attributes_up_to_the_limits_are_taken_and_none_beyond() {
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
