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
/// Longer than any mark, so that a foreign file isn't read whole.
pub(super) const MARK_BYTES: usize = 4_096;
pub(super) const PLATTERS: &str = "platters";

pub(super) fn mark_text(archive: ArchiveId, store: &str) -> String {
    format!("fulgurite store 1\narchive {archive}\nname {store}\n")
}

pub(super) fn foreign(store: &dyn PlatterStore, found: &str, expected: &str) -> StoreError {
    let line = |text: &str| text.trim().replace('\n', ", ");
    StoreError::Foreign { store: store.name().to_owned(), place: store.place(), found: line(found), expected: line(expected) }
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
