//! Layout of a store. It is the same on all media, so a downloaded bucket is a valid folder store:
//!
//! ```text
//! fulgurite-store                  the mark: whose store this is, and which
//! platters/<identifier>.platter    a platter
//! platters/<identifier>.part       a platter being written, or left by an interrupted write
//! ```

use fulgurite_domain::{ArchiveId, PlatterId};

use super::{PlatterStore, StoreError};

pub(crate) const MARK: &str = "fulgurite-store";
pub(super) const PLATTERS: &str = "platters";

pub(super) fn mark_text(archive: ArchiveId, store: &str) -> String {
    format!("fulgurite store 1\narchive {archive}\nname {store}\n")
}

/// Contents of a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The archive that the store belongs to.
    pub archive: ArchiveId,
    /// The store's name.
    pub name: String,
}

impl Mark {
    /// Parses a mark; `None` if `text` is not a valid mark.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (archive, name) = text.strip_prefix("fulgurite store 1\narchive ")?.strip_suffix('\n')?.split_once("\nname ")?;
        let mark = Self { archive: archive.parse().ok()?, name: name.to_owned() };
        (mark_text(mark.archive, &mark.name) == text).then_some(mark)
    }
}

/// True if the mark that was found is that of this store of `archive`; false if there is none.
pub(super) fn is_marked(store: &dyn PlatterStore, archive: ArchiveId, found: Option<&str>) -> Result<bool, StoreError> {
    let expected = mark_text(archive, store.name());
    match found {
        None => Ok(false),
        Some(found) if found == expected => Ok(true),
        Some(found) => {
            let line = |text: &str| text.trim().replace('\n', ", ");
            let (found, expected) = (line(found), line(&expected));
            Err(StoreError::Foreign { store: store.name().to_owned(), place: store.place(), found, expected })
        }
    }
}

/// Returns the store named in the mark `found` if it belongs to the same archive as the mark
/// `expected`. Both are on one line, as in errors.
pub(super) fn same_archive<'a>(found: &'a str, expected: &str) -> Option<&'a str> {
    let (theirs, ours) = (found.rsplit_once(", name ")?, expected.rsplit_once(", name ")?);
    (theirs.0 == ours.0).then_some(theirs.1)
}

pub(super) fn file_name(platter: PlatterId) -> String {
    format!("{PLATTERS}/{platter}.platter")
}

pub(super) fn part_name(platter: PlatterId) -> String {
    format!("{PLATTERS}/{platter}.part")
}

pub(super) fn platter(name: &str) -> Option<PlatterId> {
    name.strip_suffix(".platter")?.parse().ok()
}

pub(super) fn is_part(name: &str) -> bool {
    name.ends_with(".part")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_marks_parse() {
        let mark = Mark { archive: ArchiveId([7; 16]), name: "disk one".into() };
        let text = mark_text(mark.archive, &mark.name);
        assert_eq!(Mark::parse(&text), Some(mark));
        for (from, to) in [("store 1", "store 2"), ("0707", "07zz"), ("name ", "nom "), ("\n", "\r\n")] {
            assert_eq!(Mark::parse(&text.replacen(from, to, 1)), None, "{to}");
        }
        assert_eq!(Mark::parse(&text[..text.len() - 1]), None);
    }
}
