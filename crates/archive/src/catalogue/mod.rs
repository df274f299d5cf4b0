//! The catalogue: the index of all versions, their locations and the state of each platter.
//!
//! The catalogue is only an index: it can be rebuilt from platters and staging (I4). But it decides
//! what is acknowledged. A put is done when [`Catalogue::commit`] returns, and a staged copy may be
//! released once [`Catalogue::complete_set`] or [`Catalogue::archive_on_set`] returns (I1). So
//! every method that changes something is one transaction, on stable storage when it returns.
//!
//! ```text
//! put:    staged --------------------------------------------.
//! flush:  begin_set -> platters written and verified -> complete_set, archive_on_set -> archived
//! ```
//!
//! [`SqliteCatalogue`] is the embedded engine. `conformance` is the test suite that every engine
//! has to pass.

#[cfg(test)]
mod conformance;
mod error;
mod rows;
mod sqlite;

use std::ops::RangeInclusive;

use fulgurite_domain::{ObjectName, PlatterId, SetId, VersionId};

pub use self::error::CatalogueError;
pub use self::rows::{
    ArchivedExtent, ArchivedVersion, Change, Extent, FoundVersion, Health, ListCursor, NewVersion, PlatterPlace, PlatterRow, Repair,
    SegmentEnd, SetDescription, SetRow, SetState, StagedCheck, StagedData, StagedHealth, StagedPlace, StagedTombstone, StagedTotals,
    Totals, UNKNOWN_STORE, Unlisted, UnlistedVersion, VersionRow, VersionRowId, Versions,
};
pub use self::sqlite::SqliteCatalogue;
pub(crate) use self::sqlite::engine_error::{is_damage, is_unreadable};
pub(crate) use self::sqlite::{memory_max_kib, set_cache};

/// The attribute that marks a version as the null version of its name. S3 addresses that version as
/// `null` instead of by an identifier. It is the only attribute that the archive interprets.
pub const NULL: &str = "null";

/// A catalogue engine. Each method that changes something is one transaction, durable when it
/// returns.
pub trait Catalogue: Send {
    /// The highest version number of a name, including deletion markers and unlisted versions.
    /// `None` if the name has no versions.
    fn latest_number(&mut self, name: &ObjectName) -> Result<Option<u64>, CatalogueError>;
    /// Records staged versions, which acknowledges them, and forgets others, atomically. Forgotten
    /// names may remain in the engine's log until [`clear_log`](Self::clear_log).
    fn commit(&mut self, change: &Change) -> Result<(), CatalogueError>;
    /// Clears forgotten names from the log. Returns `false` if another connection is reading from
    /// it, so that they stay there.
    fn clear_log(&mut self) -> Result<bool, CatalogueError>;
    /// Forgets versions and their names, and records the tombstones that were staged for them.
    /// Clears the log too, unless another connection is reading from it.
    fn commit_delete(&mut self, versions: &[VersionRowId], tombstones: &[StagedTombstone]) -> Result<(), CatalogueError> {
        self.commit(&Change { forgotten: versions.to_vec(), tombstones: tombstones.to_vec(), ..Change::default() })?;
        self.clear_log().map(|_| ())
    }

    /// The newest version of a name.
    fn newest(&mut self, name: &ObjectName) -> Result<Option<VersionRow>, CatalogueError>;
    /// The version of a name with this identifier.
    fn version(&mut self, name: &ObjectName, id: VersionId) -> Result<Option<VersionRow>, CatalogueError>;
    /// True if a version with this identifier exists, listed or not, or if its tombstone is staged.
    fn knows(&mut self, id: VersionId) -> Result<bool, CatalogueError>;
    /// The null version of a name: the newest with an empty [`NULL`] attribute. The lookup takes
    /// the same time however many versions the name has.
    fn null_version(&mut self, name: &ObjectName) -> Result<Option<VersionRow>, CatalogueError>;
    /// The versions of a name, deletion markers included, newest first.
    fn versions_of(&mut self, name: &ObjectName) -> Result<Vec<VersionRow>, CatalogueError>;
    /// Up to `limit` rows whose names start with `prefix`, after the cursor `after`, in listing
    /// order: names in byte order, the newest version of a name first. Returns fewer than `limit`
    /// rows only at the end.
    fn list(
        &mut self,
        prefix: &[u8],
        versions: Versions,
        after: Option<&ListCursor>,
        limit: usize,
    ) -> Result<Vec<VersionRow>, CatalogueError>;
    /// The extents of a version, in order of the object's bytes. Those of an archived version cover
    /// each byte exactly once. A staged version has only the extents that complete sets already
    /// hold, and these may overlap.
    fn extents(&mut self, version: VersionRowId) -> Result<Vec<Extent>, CatalogueError>;
    /// Locations of a staged version's record and of its stored bytes, the latter in order.
    fn staged(&mut self, version: VersionRowId) -> Result<Option<(StagedPlace, Vec<StagedData>)>, CatalogueError>;
    /// What reading has shown of a staged version; `None` if it isn't staged.
    fn staged_health(&mut self, version: VersionRowId) -> Result<Option<StagedHealth>, CatalogueError>;
    /// Number of staged versions that were damaged when they were last read. Scans all staged
    /// versions.
    fn count_damaged_staged(&mut self) -> Result<u64, CatalogueError>;
    /// Records the results of reading staged versions. Those that are no longer staged are skipped.
    fn record_staged(&mut self, checks: &[StagedCheck]) -> Result<(), CatalogueError>;
    /// Versions with an extent on one of these platters, in listing order: up to `limit` after
    /// `after`. A call without `after` sorts the result; later calls page through that, without
    /// versions added since, as long as they name the same platters.
    fn versions_on(&mut self, platters: &[PlatterId], after: Option<&ListCursor>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError>;

    /// Totals of the staged content.
    fn staged_totals(&mut self) -> Result<StagedTotals, CatalogueError>;
    /// Totals of the archive.
    fn totals(&mut self) -> Result<Totals, CatalogueError>;
    /// Staged versions in listing order, up to `limit` after `after`.
    fn staged_versions(&mut self, after: Option<&ListCursor>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError>;
    /// Tombstones in staging. Some may be on platters as well, see
    /// [`adopt_archived_tombstones`](Self::adopt_archived_tombstones).
    fn staged_tombstones(&mut self) -> Result<Vec<StagedTombstone>, CatalogueError>;
    /// Those of them that are on no complete set.
    fn unwritten_tombstones(&mut self) -> Result<Vec<VersionId>, CatalogueError>;
    /// Segments that hold staged content, staged tombstones or parts of unlisted versions,
    /// ascending.
    fn segments_in_use(&mut self) -> Result<Vec<u64>, CatalogueError>;
    /// The acknowledged lengths of segments, ascending. Segments written by an older program have
    /// none.
    fn segment_ends(&mut self) -> Result<Vec<SegmentEnd>, CatalogueError>;

    /// Records segments that are about to be released.
    fn note_released(&mut self, segments: &[RangeInclusive<u64>]) -> Result<(), CatalogueError>;
    /// Up to `limit` ranges of released segments that end at or after `from`, ascending.
    fn released(&mut self, from: u64, limit: usize) -> Result<Vec<RangeInclusive<u64>>, CatalogueError>;
    /// Those of `existing` that are old copies of released segments. Segments in `used` are never
    /// among them.
    fn old_segments(&mut self, existing: &[u64], used: &[u64]) -> Result<Vec<u64>, CatalogueError> {
        let mut old = Vec::new();
        for segment in existing.iter().filter(|segment| used.binary_search(segment).is_err()) {
            if self.released(*segment, 1)?.iter().any(|range| range.contains(segment)) {
                old.push(*segment);
            }
        }
        Ok(old)
    }
    /// The highest number of any released segment.
    fn last_released(&mut self) -> Result<Option<u64>, CatalogueError>;

    /// Records that a set is about to be written.
    fn begin_set(&mut self, set: &SetDescription) -> Result<(), CatalogueError>;
    /// Records that all platters of a set passed verification at `verified` (seconds since 1970),
    /// and the extents on them.
    ///
    /// A version becomes archived, and leaves staging, once the extents recorded by this set and
    /// earlier ones cover all of its stored bytes. Until then all of it stays staged. A version
    /// without stored bytes needs one extent of zero bytes. Versions that were deleted in the
    /// meantime, or archived by another set, are skipped.
    fn complete_set(&mut self, set: SetId, extents: &mut dyn Iterator<Item = ArchivedExtent>, verified: u64) -> Result<(), CatalogueError>;
    /// Records further extents on the platters of a complete set, as
    /// [`complete_set`](Self::complete_set) does. A set may have so many that a single transaction
    /// would delay puts for seconds. After a crash in between, versions without extents are still
    /// staged, and go onto another set.
    fn archive_on_set(&mut self, set: SetId, extents: &mut dyn Iterator<Item = ArchivedExtent>) -> Result<(), CatalogueError>;
    /// Records that these tombstones are on platters of a complete set and no longer staged.
    ///
    /// Call this only once the segments that held their versions are gone for good. As long as a
    /// crash can bring such a segment back, the tombstones must stay staged.
    fn archive_tombstones(&mut self, tombstones: &[VersionId], set: SetId) -> Result<(), CatalogueError>;
    /// True if the version was removed: its tombstone is staged or on platters.
    fn is_removed(&mut self, id: VersionId) -> Result<bool, CatalogueError>;
    /// Records tombstones that are on platters, with the set of each: found there by a rebuild, or
    /// written there while they have to stay staged.
    fn adopt_archived_tombstones(&mut self, tombstones: &[(VersionId, SetId)]) -> Result<(), CatalogueError>;
    /// Returns up to `limit` tombstones on platters with their sets, in order of identifier, after
    /// `after`.
    fn archived_tombstones(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<(VersionId, SetId)>, CatalogueError>;
    /// Returns the highest identifier of a version, listed, unlisted or removed. Identifiers begin
    /// with their time.
    fn newest_id(&mut self) -> Result<Option<VersionId>, CatalogueError>;
    /// The row that was added last; rows added later have higher numbers. `None` if the catalogue
    /// has no versions.
    fn newest_row(&mut self) -> Result<Option<VersionRowId>, CatalogueError>;
    /// Forgets a set in state [`SetState::Writing`]. Its content is still staged.
    fn abandon_set(&mut self, set: SetId) -> Result<(), CatalogueError>;
    /// Forgets a complete set, and leaves its platters out of later rebuilds. Returns `false` and
    /// changes nothing if a version is on the set, or if there is no such set.
    fn forget_set(&mut self, set: SetId) -> Result<bool, CatalogueError>;
    /// All sets, in the order in which they were written.
    fn sets(&mut self) -> Result<Vec<SetRow>, CatalogueError>;
    /// The set of a platter.
    fn set_of(&mut self, platter: PlatterId) -> Result<Option<SetRow>, CatalogueError>;
    /// All platters, in order of set and position.
    fn platters(&mut self) -> Result<Vec<PlatterRow>, CatalogueError>;
    /// The platters of a set in order of position; empty if there is no such set.
    fn platters_of(&mut self, set: SetId) -> Result<Vec<PlatterRow>, CatalogueError>;
    /// Records what reading has shown of a platter, in place of what was recorded before.
    fn record_health(&mut self, platter: PlatterId, health: Health) -> Result<(), CatalogueError>;
    /// Records that a platter moved to another store.
    fn move_platter(&mut self, platter: PlatterId, store: &str) -> Result<(), CatalogueError>;

    /// For a rebuild: records a set that is complete or restorable.
    fn adopt_set(&mut self, set: &SetDescription) -> Result<(), CatalogueError>;
    /// For a rebuild: records the versions found. The sets of archived versions must be recorded
    /// first. Versions already known, staged or archived, are skipped. Extents may overlap, as they
    /// do when a part was written twice.
    fn adopt_versions(&mut self, versions: &[FoundVersion]) -> Result<(), CatalogueError>;

    /// For a rebuild: records versions that exist but can't be listed. Their segments count as in
    /// use.
    fn adopt_unlisted(&mut self, versions: &[UnlistedVersion]) -> Result<(), CatalogueError>;
    /// Up to `limit` unlisted versions in order of identifier, after `after`.
    fn unlisted(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<UnlistedVersion>, CatalogueError>;
    /// Number of unlisted versions.
    fn unlisted_count(&mut self) -> Result<u64, CatalogueError>;
    /// Forgets unlisted versions, because they are now listed or because they were removed. For
    /// removed ones, `tombstones` holds their staged tombstones.
    fn forget_unlisted(&mut self, versions: &[VersionId], tombstones: &[StagedTombstone]) -> Result<(), CatalogueError>;
    /// Records platters that the catalogue ignores: of unfinished sets that no version needs, and
    /// of sets given up with unseen places. Also records keys given up with them.
    fn leave_out(&mut self, platters: &[PlatterId]) -> Result<(), CatalogueError>;
    /// True if the platter was recorded by [`leave_out`](Self::leave_out) or
    /// [`forget_set`](Self::forget_set).
    fn is_left_out(&mut self, platter: PlatterId) -> Result<bool, CatalogueError>;
    /// Records that the staging folder carries its mark. From then on, a folder without a mark is
    /// not accepted as staging.
    fn note_staging_mark(&mut self) -> Result<(), CatalogueError>;
    /// True if the staging folder was recorded as marked.
    fn is_staging_marked(&mut self) -> Result<bool, CatalogueError>;

    /// Fails if the catalogue was removed or replaced while it is open. After a removal, an engine
    /// may write its content back.
    fn check_in_place(&mut self) -> Result<(), CatalogueError> {
        Ok(())
    }

    /// Checks the catalogue itself for damage.
    fn check(&mut self) -> Result<(), CatalogueError>;
}
