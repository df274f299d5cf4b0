//! Where listings of versions resume if the version that their marker names was removed since.
//!
//! Clients list a page, delete its versions, and request the next page. The marker then names a
//! version that is gone. Its ID doesn't give its position: IDs are in the order in which uploads
//! began, listings in that in which they ended, and `null` has no time. So the positions of recent
//! markers are kept in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use fulgurite_archive::catalogue::ListCursor;
use fulgurite_domain::ObjectName;

/// Maximum number of positions: 4 MiB with the longest names.
const POSITIONS_MAX: usize = 1_024;

/// A name, and the ID of a version in S3.
type Marker = (ObjectName, String);

/// The positions of the markers in the last responses.
#[derive(Debug, Default)]
pub(crate) struct PagePositions(Mutex<Positions>);

#[derive(Debug, Default)]
struct Positions {
    /// The number of the version that a marker names, and its position.
    of: HashMap<Marker, ListCursor>,
    /// The markers, oldest first.
    markers: VecDeque<Marker>,
}

impl PagePositions {
    /// Notes that a page ended with the version `id`, and the next one resumes at `position`.
    pub(super) fn note(&self, id: String, position: ListCursor) {
        let mut positions = self.0.lock().expect("nothing panics while it holds this lock");
        let marker = (position.name.clone(), id);
        if let Some(noted) = positions.of.get_mut(&marker) {
            // Several versions in succession may have been `null`. Resuming at the newest of them
            // skips none that a client hasn't listed.
            if noted.version < position.version {
                *noted = position;
            }
            return;
        }
        if positions.markers.len() == POSITIONS_MAX
            && let Some(oldest) = positions.markers.pop_front()
        {
            positions.of.remove(&oldest);
        }
        positions.markers.push_back(marker.clone());
        positions.of.insert(marker, position);
    }

    /// Where the listing resumes after a version that was removed. If its position isn't known, as
    /// after a restart, that is the beginning of its name: listing a version twice is better than
    /// skipping one.
    pub(super) fn after_removed(&self, name: ObjectName, id: &str) -> ListCursor {
        let marker = (name, id.to_owned());
        let noted = self.0.lock().expect("nothing panics while it holds this lock").of.get(&marker).cloned();
        noted.unwrap_or_else(|| ListCursor::before_name(marker.0))
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::VersionId;

    use super::*;

    fn position(version: u64) -> ListCursor {
        ListCursor { name: ObjectName(b"photos/sun".to_vec()), version, id: VersionId([0; 16]) }
    }

    #[test]
    fn a_marker_whose_position_was_forgotten_resumes_at_the_beginning_of_its_name() {
        let positions = PagePositions::default();
        for version in 0..=POSITIONS_MAX as u64 {
            positions.note(version.to_string(), position(version));
        }
        let after = |id: &str| positions.after_removed(position(0).name, id);
        assert_eq!(after("0"), ListCursor::before_name(position(0).name));
        assert_eq!(after("1"), position(1));
    }

    #[test]
    fn the_newest_of_several_null_versions_is_kept() {
        let positions = PagePositions::default();
        for version in [5, 9, 7] {
            positions.note("null".to_owned(), position(version));
        }
        assert_eq!(positions.after_removed(position(0).name, "null"), position(9));
    }
}
