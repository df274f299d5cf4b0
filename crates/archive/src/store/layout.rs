//! What a store is inside, whatever it is kept in, so that a bucket that was downloaded is a folder store:
//!
//! ```text
//! fulgurite-store                  the mark: whose store this is, and which
//! platters/<identifier>.platter    a platter
//! platters/<identifier>.part       one that is being written, or that nobody went on writing
//! ```

use fulgurite_domain::{ArchiveId, PlatterId};

use super::{PlatterStore, StoreError};

pub(super) const MARK: &str = "fulgurite-store";
pub(super) const PLATTERS: &str = "platters";

pub(super) fn mark_text(archive: ArchiveId, store: &str) -> String {
    format!("fulgurite store 1\narchive {archive}\nname {store}\n")
}

/// What a mark says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The archive whose store it is.
    pub archive: ArchiveId,
    /// The store's name.
    pub name: String,
}

impl Mark {
    /// Reads a mark; `None` if that isn't one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (archive, name) = text.strip_prefix("fulgurite store 1\narchive ")?.strip_suffix('\n')?.split_once("\nname ")?;
        let mark = Self { archive: archive.parse().ok()?, name: name.to_owned() };
        (mark_text(mark.archive, &mark.name) == text).then_some(mark)
    }
}

pub(super) fn foreign(store: &dyn PlatterStore, found: &str, expected: &str) -> StoreError {
    let line = |text: &str| text.trim().replace('\n', ", ");
    StoreError::Foreign { store: store.name().to_owned(), place: store.place(), found: line(found), expected: line(expected) }
}

/// The store that a mark is of, if it is of the archive that another mark is of. Both are on one line, as errors have them.
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

/// The platter that a file among the platters is, if it is one.
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
    fn a_mark_reads_back_and_nothing_else_does() {
        let mark = Mark { archive: ArchiveId([7; 16]), name: "disk one".into() };
        let text = mark_text(mark.archive, &mark.name);
        assert_eq!(Mark::parse(&text), Some(mark));
        for (from, to) in [("store 1", "store 2"), ("0707", "07zz"), ("name ", "nom "), ("\n", "\r\n")] {
            assert_eq!(Mark::parse(&text.replacen(from, to, 1)), None, "{to}");
        }
        assert_eq!(Mark::parse(&text[..text.len() - 1]), None);
    }
}
