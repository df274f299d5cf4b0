//! What the archive knows of an object: its name, what it is, and the digest that every later reading is held against.

use std::fmt;

use crate::Attributes;

/// The name of an object: bytes, components separated by `/`. Usually UTF-8, because file systems don't promise it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(pub Vec<u8>);

impl ObjectName {
    /// The name for people: bytes that are not UTF-8 are shown as `\xNN`, control characters too, so that a name can't play tricks on a
    /// terminal.
    #[must_use]
    pub fn display(&self) -> String {
        let mut shown = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
            }
            for byte in chunk.invalid() {
                shown.push_str(&format!("\\x{byte:02x}"));
            }
        }
        shown
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.display())
    }
}

/// What an object was in the file system, or that its name has none any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file with content.
    File,
    /// A symbolic link; its content is the target.
    SymbolicLink,
    /// A directory, without content. Kept for directories that would otherwise be lost for being empty.
    Directory,
    /// No object: from here on the name has none, and earlier versions stay. Without content.
    DeletionMarker,
}

impl Kind {
    /// Whether objects of this kind have content, be it of no bytes.
    #[must_use]
    pub fn has_content(self) -> bool {
        matches!(self, Self::File | Self::SymbolicLink)
    }
}

/// When a file was last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modified {
    /// Seconds since 1970; earlier ones are negative.
    pub seconds: i64,
    /// Nanoseconds after that, below 10^9.
    pub nanoseconds: u32,
}

/// SHA-256 of an object's content, taken when it came in.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// One version of one object, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRecord {
    /// The object's name.
    pub name: ObjectName,
    /// The number of this version among those of the name, from 1.
    pub version: u64,
    /// File, link, directory or deletion marker.
    pub kind: Kind,
    /// Length of the content in bytes.
    pub size: u64,
    /// SHA-256 of the content.
    pub sha256: Digest,
    /// When the file was last changed, where known.
    pub modified: Option<Modified>,
    /// Permission bits, `0o7777` at most, where known.
    pub mode: Option<u32>,
    /// When the version was put, milliseconds since 1970.
    pub created_ms: u64,
    /// What whoever put it says of it.
    pub attributes: Attributes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_without_control_characters_and_invalid_bytes() {
        let name = ObjectName(b"caf\xc3\xa9\x1b[31m\xff/x".to_vec());
        assert_eq!(name.display(), "café\\u{1b}[31m\\xff/x");
    }
}
