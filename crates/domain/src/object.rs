//! Object records: name, metadata, and the digest that the whole content is checked against when it
//! is read.

use std::fmt;

use crate::Attributes;

/// The name of an object: bytes, with components separated by `/`. Usually UTF-8, but file systems
/// don't guarantee it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(pub Vec<u8>);

impl ObjectName {
    /// The name for display: invalid UTF-8 is escaped as `\xNN`, [hidden
    /// characters](is_hidden) as `\n`, `\r`, `\t` or `\u{NN}`, so that a name can't manipulate a
    /// terminal or look like another.
    #[must_use]
    pub fn display(&self) -> String {
        let mut shown = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if is_hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
            }
            for byte in chunk.invalid() {
                shown.push_str(&format!("\\x{byte:02x}"));
            }
        }
        shown
    }
}

/// Whether a character is a control character, breaks a line, changes the direction of text, or is
/// usually invisible: Unicode's `Default_Ignorable_Code_Point` and the category `Cf`. That includes
/// the joiners and variation selectors of Persian, Indic scripts and emoji: two names that differ
/// only in one of them must not look the same.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    let is_ignorable = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}');
    let is_format = matches!(c,
        '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{fff9}'..='\u{fffb}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}');
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || is_ignorable || is_format
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.display())
    }
}

/// The type of an object in the file system, or a marker that the name has no object any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file with content.
    File,
    /// A symbolic link; its content is the target.
    SymbolicLink,
    /// A directory, without content. Kept for directories that would otherwise be lost because they
    /// are empty.
    Directory,
    /// A deletion marker, without content: from here on the name has no object. Earlier versions
    /// stay.
    DeletionMarker,
}

impl Kind {
    /// Whether objects of this kind have content, even if it is empty.
    #[must_use]
    pub fn has_content(self) -> bool {
        matches!(self, Self::File | Self::SymbolicLink)
    }
}

/// When a file was last modified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modified {
    /// Seconds since 1970; earlier ones are negative.
    pub seconds: i64,
    /// Nanoseconds after that, below 10^9.
    pub nanoseconds: u32,
}

/// SHA-256 of an object's content, computed on arrival.
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
    /// The number of this version under its name, counted from 1.
    pub version: u64,
    /// File, link, directory or deletion marker.
    pub kind: Kind,
    /// Length of the content in bytes.
    pub size: u64,
    /// SHA-256 of the content.
    pub sha256: Digest,
    /// When the file was last modified, if known.
    pub modified: Option<Modified>,
    /// Permission bits, at most `0o7777`, if known.
    pub mode: Option<u32>,
    /// When the version was put, in milliseconds since 1970.
    pub created_ms: u64,
    /// Metadata stored by the client.
    pub attributes: Attributes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_without_control_characters_and_invalid_bytes() {
        let name = ObjectName(b"caf\xc3\xa9\x1b[31m\xff/x".to_vec());
        assert_eq!(name.display(), "café\\u{1b}[31m\\xff/x");
        let misleading = ObjectName("b\u{202e}gpj.exe\u{200b}".as_bytes().to_vec());
        assert_eq!(misleading.display(), "b\\u{202e}gpj.exe\\u{200b}");
        let readable = "سلام दुनिया e\u{301}";
        assert_eq!(ObjectName(readable.as_bytes().to_vec()).display(), readable);
    }

    #[test]
    fn names_that_differ_only_in_an_invisible_character_look_different() {
        let invisible = "\u{ad}\u{34f}\u{180e}\u{200b}\u{200c}\u{200d}\u{2060}\u{2061}\u{2064}\u{2065}\u{206a}\u{3164}\u{fe0f}\u{feff}\u{fff9}\u{e0041}";
        for c in invisible.chars() {
            let name = ObjectName(format!("moon{c}.tif").into_bytes());
            assert_eq!(name.display(), format!("moon\\u{{{:x}}}.tif", c as u32));
        }
        // All of them, as Unicode 16 lists them, apart from control characters and separators.
        assert_eq!(('\0'..=char::MAX).filter(|c| is_hidden(*c) && !c.is_control()).count(), 4_206 + 2);
    }
}
