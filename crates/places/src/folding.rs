//! Places that don't distinguish all names: file systems that ignore case or Unicode normalization.
//!
//! ```text
//! vfat, exFAT, NTFS and shares of them    "Readme" is the file "README"
//! ext4 folders with casefold, APFS        and "é" is the file "e" + U+0301
//! ```
//!
//! Which characters are equal differs from one file system to the next. So keys are equal for all
//! names that may be one file somewhere, and for some that are not.

use std::io;

use unicode_normalization::UnicodeNormalization;

use super::{Cause, Connection, Refusal};

/// What a place doesn't distinguish in names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Folding {
    /// Upper and lower case.
    pub case: bool,
    /// Composed and decomposed characters.
    pub normalization: bool,
}

impl Folding {
    /// Everything that a place may not distinguish.
    pub const ALL: Self = Self { case: true, normalization: true };

    /// False if the place distinguishes all names.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.case || self.normalization
    }

    /// A text that is equal for locations that may be one file.
    #[must_use]
    pub fn key(self, location: &str) -> String {
        let mut key = location.to_owned();
        if self.normalization {
            key = key.nfd().filter(|character| !is_ignorable(*character)).collect();
        }
        if self.case {
            // Upper case first, because several lower-case letters can have the same.
            key = key.to_uppercase().to_lowercase();
            // Such places also ignore these at the end of a name, or refuse them.
            key = key.split('/').map(|name| name.trim_end_matches(['.', ' '])).collect::<Vec<_>>().join("/");
        }
        if self.normalization { key.nfc().collect() } else { key }
    }
}

/// True for characters that have no look, which comparisons by Unicode's rules ignore.
fn is_ignorable(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(character, '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// Finds out what a place doesn't distinguish: writes an empty file for a moment, and looks for it
/// under other names.
///
/// # Errors
/// If the file can't be written or looked for.
pub fn folding_of(connection: &mut dyn Connection) -> Result<Folding, Refusal> {
    // Every listing leaves such names out.
    let start = fulgurite_new_file::part_name();
    let mut name = format!("{start}-name-\u{e9}");
    if let Err(refusal) = connection.write_new(&name, 0, &mut io::empty()) {
        if refusal.cause.is_out_of_reach() {
            return Err(refusal);
        }
        // A place that can't keep this letter has no forms of it either.
        name = format!("{start}-name-");
        connection.write_new(&name, 0, &mut io::empty())?;
    }
    let found = (|| {
        let mut finds = |other: &str| match connection.length(other) {
            Ok(_) => Ok(true),
            Err(Refusal { cause: Cause::Missing, .. }) => Ok(false),
            Err(refusal) => Err(refusal),
        };
        let case = finds(&name.replace("-name-", "-NAME-"))?;
        let decomposed: String = name.nfd().collect();
        let normalization = decomposed != name && finds(&decomposed)?;
        Ok(Folding { case, normalization })
    })();
    // What was found counts all the same where nothing can be removed.
    let _ = connection.remove(&name);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Folder, Place};

    #[test]
    fn names_that_may_be_one_file_have_one_key() {
        let case = Folding { case: true, normalization: false };
        let normalization = Folding { case: false, normalization: true };
        for (a, b) in [("a/Readme", "A/README"), ("straße", "STRASSE"), ("ΑΣ", "ας"), ("a. ", "A"), ("x./y", "x/Y")] {
            assert_eq!(case.key(a), case.key(b), "{a}");
            assert_eq!(Folding::ALL.key(a), Folding::ALL.key(b), "{a}");
            assert_ne!(normalization.key(a), normalization.key(b), "{a}");
        }
        for (a, b) in [("\u{e9}", "e\u{301}"), ("a\u{200d}b", "ab")] {
            assert_eq!(normalization.key(a), normalization.key(b), "{a}");
            assert_eq!(Folding::ALL.key(a), Folding::ALL.key(b), "{a}");
            assert_ne!(case.key(a), case.key(b), "{a}");
        }
        assert_eq!(Folding::ALL.key("\u{c9}"), Folding::ALL.key("e\u{301}"));
        for other in ["a/b", "a/c", "ab"] {
            assert_ne!(Folding::ALL.key(other), Folding::ALL.key("A/d"), "{other}");
        }
        assert_eq!(Folding::default().key("A. "), "A. ");
    }

    #[test]
    fn a_folder_that_distinguishes_names_is_left_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut connection = Folder::new(folder.path()).connect().expect("connected");
        assert_eq!(folding_of(&mut *connection), Ok(Folding::default()));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
