//! Layout of a store: the same in folders and in network services, so that a downloaded bucket is a
//! valid folder store.
//!
//! ```text
//! fulgurite-store                  the mark: whose store this is, and which
//! platters/<identifier>.platter    a platter
//! platters/<identifier>.part       a platter being written, or left by an interrupted write
//! ```

use fulgurite_domain::{ArchiveId, PlatterId};

use super::{BadMark, PlatterStore, StoreError};

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

/// True if the mark that was found names this store of `archive`; false if no mark was found. Any
/// other mark is an error.
pub(super) fn is_marked(store: &dyn PlatterStore, archive: ArchiveId, found: Option<&str>) -> Result<bool, StoreError> {
    let Some(text) = found else { return Ok(false) };
    let (name, place) = (store.name().to_owned(), store.place());
    match Mark::parse(text) {
        Some(found) if found.archive == archive && found.name == name => Ok(true),
        Some(found) => Err(StoreError::Foreign { store: name, place, found: Box::new(found), expected: archive }),
        None => Err(StoreError::BadMark { store: name, place, mark: BadMark::of(text) }),
    }
}

/// True if the mark is missing, empty or damaged, so that it can be written again. `checked` is the
/// result of [`is_marked`].
pub(super) fn lacks_mark(checked: Result<bool, StoreError>) -> Result<bool, StoreError> {
    match checked {
        Ok(is_marked) => Ok(!is_marked),
        Err(StoreError::BadMark { mark: BadMark::Empty | BadMark::Damaged(_), .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The error for a place without a mark.
pub(super) fn unmarked(store: &dyn PlatterStore) -> StoreError {
    let platters = store.list().map_or(0, |platters| platters.len());
    StoreError::Unmarked { store: store.name().to_owned(), place: store.place(), platters }
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

    #[test]
    fn a_mark_without_a_name_is_empty_damaged_or_newer() {
        assert_eq!([BadMark::of(""), BadMark::of(" \n")], [BadMark::Empty, BadMark::Empty]);
        assert_eq!(BadMark::of("fulgurite stor\nname d1"), BadMark::Damaged("fulgurite stor, name d1".into()));
        assert_eq!(BadMark::of("fulgurite store 1\nname d1"), BadMark::Damaged("fulgurite store 1, name d1".into()));
        assert_eq!(BadMark::of("fulgurite store 2\nname d1"), BadMark::Newer("fulgurite store 2".into()));
    }
}
