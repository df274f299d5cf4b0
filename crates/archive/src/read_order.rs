//! The order in which to read several versions so that neighbours share a read.
//!
//! Reading a batch of small objects in request order opens a platter and seeks for each object. In
//! place order, every platter is opened once and read from front to back, and neighbouring objects
//! share a read.

use fulgurite_domain::{PlatterId, SECTOR_BYTES_MAX};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::VersionRow;

/// Maximum gap between two objects that are fetched in one read. Seeking past a gap of this size
/// would take longer than reading it.
const GAP_BYTES_MAX: u64 = SECTOR_BYTES_MAX as u64;
/// Maximum distance to look ahead: a few reads of the medium.
const RUN_BYTES_MAX: u64 = 4 << 20;

/// Start of a version's stored bytes. Places sort in reading order: staged versions by segment,
/// then archived ones by platter, each from front to back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MediumPosition {
    /// In staging.
    Staged {
        /// Number of the segment.
        segment: u64,
        /// Offset in the segment file.
        offset: u64,
    },
    /// On a platter.
    Archived {
        /// The platter.
        platter: PlatterId,
        /// Offset in the platter's content.
        offset: u64,
        /// End of the version's first extent, which is the whole version unless it is spread over
        /// platters.
        end: u64,
    },
    /// The catalogue has no place for it.
    Unknown,
}

impl MediumPosition {
    /// Current place of a version in the catalogue of an archive.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn of(archive: &Archive, version: &VersionRow) -> Result<Self, ArchiveError> {
        let mut catalogue = archive.reading();
        if let Some((record, data)) = catalogue.staged(version.row_id)? {
            let first = data.first().map_or(record, |data| data.place);
            return Ok(Self::Staged { segment: first.segment, offset: first.offset });
        }
        let extents = catalogue.extents(version.row_id)?;
        Ok(extents.first().map_or(Self::Unknown, |first| Self::Archived {
            platter: first.platter,
            offset: first.offset,
            end: first.offset.saturating_add(first.bytes),
        }))
    }
}

/// Returns the platter of the first place, and the end of the run of neighbouring places that
/// starts with it.
pub(crate) fn neighbour_run(places: impl IntoIterator<Item = MediumPosition>) -> Option<(PlatterId, u64)> {
    let mut places = places.into_iter();
    let Some(MediumPosition::Archived { platter: on, offset: start, end: mut reached }) = places.next() else { return None };
    for place in places {
        match place {
            MediumPosition::Archived { platter, offset, end }
                if platter == on
                    && (start..=reached.saturating_add(GAP_BYTES_MAX)).contains(&offset)
                    && reached - start < RUN_BYTES_MAX =>
            {
                reached = reached.max(end);
            }
            _ => break,
        }
    }
    Some((on, reached))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archived(platter: u8, offset: u64, bytes: u64) -> MediumPosition {
        MediumPosition::Archived { platter: PlatterId([platter; 16]), offset, end: offset + bytes }
    }

    #[test]
    fn staged_versions_come_first_and_platters_one_after_another() {
        let staged = |segment, offset| MediumPosition::Staged { segment, offset };
        let in_order =
            [staged(1, 64), staged(1, 640), staged(2, 0), archived(1, 7, 1), archived(1, 9, 1), archived(2, 0, 1), MediumPosition::Unknown];
        let mut shuffled = in_order;
        shuffled.reverse();
        shuffled.sort();
        assert_eq!(shuffled, in_order);
    }

    #[test]
    fn a_run_of_neighbours_ends_at_a_wide_gap_or_at_another_platter() {
        let on = |platter: u8, end| Some((PlatterId([platter; 16]), end));
        assert_eq!(
            neighbour_run([archived(1, 100, 50), archived(1, 150, 50), archived(1, 200 + GAP_BYTES_MAX, 10)]),
            on(1, 210 + GAP_BYTES_MAX)
        );
        assert_eq!(neighbour_run([archived(1, 100, 50), archived(1, 151 + GAP_BYTES_MAX, 10)]), on(1, 150));
        assert_eq!(neighbour_run([archived(1, 100, 50), archived(2, 150, 50)]), on(1, 150));
        assert_eq!(neighbour_run([archived(1, 100, 50), archived(1, 0, 50)]), on(1, 150));
        assert_eq!(neighbour_run([archived(1, 100, 50), MediumPosition::Unknown]), on(1, 150));
        assert_eq!(neighbour_run([MediumPosition::Staged { segment: 1, offset: 0 }, archived(1, 0, 1)]), None);
        assert_eq!(neighbour_run([]), None);
        let many = (0..10_000).map(|i| archived(1, i * 1_000, 1_000));
        assert!(neighbour_run(many).is_some_and(|(_, end)| (RUN_BYTES_MAX..RUN_BYTES_MAX + 2_000).contains(&end)));
    }
}
