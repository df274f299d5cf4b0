//! The catalogue: the index of all versions, their locations and the state of each platter.
//!
//! The catalogue is only an index: it can be rebuilt from platters and staging (I4). But it decides
//! what is acknowledged. A put is done when [`Catalogue::commit_put`] returns, and a staged copy
//! may be released once [`Catalogue::complete_set`] returns (I1). So every method that changes
//! something is one transaction, on stable storage when it returns.
//!
//! ```text
//! put:    staged --------------------------------------------.
//! flush:  begin_set -> platters written and verified -> complete_set -> archived
//! ```
//!
//! [`SqliteCatalogue`] is the embedded engine. `conformance` is the test suite that every engine
//! has to pass.

#[cfg(test)]
mod conformance;
mod pages;
mod sqlite;

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use fulgurite_domain::{ArchiveId, Geometry, ObjectName, ObjectRecord, PlatterId, SetId, SetShape, VersionId};

pub use pages::{Listed, Pages};
pub use sqlite::SqliteCatalogue;
pub(crate) use sqlite::fault::is_damage;
pub(crate) use sqlite::{most_kib, set_cache};

/// The attribute that marks a version as the null version of its name. S3 addresses that version as
/// `null` instead of by an identifier. It is the only attribute that the archive interprets.
pub const NULL: &str = "null";

/// The catalogue's internal key of a version. Short, and meaningless outside this catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionKey(pub i64);

/// A payload in a staging segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedPlace {
    /// Number of the segment.
    pub segment: u64,
    /// Where the payload starts in the segment's file.
    pub offset: u64,
    /// Payload bytes.
    pub bytes: u32,
    /// CRC-64 of the payload.
    pub crc64: u64,
}

/// Stored bytes of a version in staging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedData {
    /// Where they start in the stored bytes of the object.
    pub stored_offset: u64,
    /// Location in staging.
    pub place: StagedPlace,
}

/// A version that was just staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVersion {
    /// Its identifier.
    pub id: VersionId,
    /// Its record. `record.version` is the number that the writer assigned, see
    /// [`Catalogue::latest_number`].
    pub record: ObjectRecord,
    /// Whether its bytes are encrypted under a key of its own.
    pub sealed: bool,
    /// Length of its stored bytes.
    pub stored_bytes: u64,
    /// Location of its record in staging.
    pub record_place: StagedPlace,
    /// Locations of its stored bytes in staging, in order and without gaps.
    pub data: Vec<StagedData>,
}

/// The changes of one transaction that puts and removes versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Staged versions, acknowledged from here on.
    pub staged: Vec<NewVersion>,
    /// Versions to forget. Unknown keys are ignored.
    pub forgotten: Vec<VersionKey>,
    /// The tombstones that were staged for them.
    pub tombstones: Vec<StagedTombstone>,
    /// The acknowledged length of each segment written to, this change included.
    pub ends: Vec<SegmentEnd>,
}

/// The acknowledged length of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEnd {
    /// Number of the segment.
    pub segment: u64,
    /// Length of the acknowledged part, from the start of the file. Bytes after it were not
    /// acknowledged when this was recorded.
    pub bytes: u64,
}

impl Change {
    /// True if the change is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of versions added or removed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.staged.len() + self.tombstones.len()
    }
}

/// A row of the catalogue: one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRow {
    /// The catalogue's key for it.
    pub key: VersionKey,
    /// Its identifier.
    pub id: VersionId,
    /// Its record.
    pub record: ObjectRecord,
    /// Whether its bytes are encrypted.
    pub sealed: bool,
    /// Length of its stored bytes.
    pub stored_bytes: u64,
    /// True if all of its bytes are on verified platters of complete sets. Otherwise all of them
    /// are in staging.
    pub archived: bool,
}

/// Stored bytes of a version on a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Shard index among those of the object.
    pub shard: u32,
    /// Where it starts in the stored bytes of the object.
    pub object_offset: u64,
    /// The platter.
    pub platter: PlatterId,
    /// Where it starts in the platter's content.
    pub offset: u64,
    /// Stored bytes.
    pub bytes: u64,
}

/// A tombstone in staging, waiting to be written to a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedTombstone {
    /// The version that was deleted.
    pub id: VersionId,
    /// The segment that its tombstone record is in.
    pub segment: u64,
}

/// The properties of a set, fixed before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetDescription {
    /// Its identifier.
    pub id: SetId,
    /// Information and redundancy platters.
    pub shape: SetShape,
    /// The geometry of its platters.
    pub geometry: Geometry,
    /// When it was begun, seconds since 1970.
    pub written: u64,
    /// Its platters in order of position.
    pub platters: Vec<PlatterPlace>,
}

/// Store name of a platter that a rebuild did not find.
pub const NOWHERE: &str = "?";

/// A platter and the store that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatterPlace {
    /// The platter.
    pub platter: PlatterId,
    /// Name of the store it is on.
    pub store: String,
}

/// Whether a set is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetState {
    /// Begun but not complete: its content is still staged.
    Writing,
    /// All platters were written and verified; the staged copies may have been released.
    Complete,
}

/// A row of the catalogue: one set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetRow {
    /// Its properties.
    pub description: SetDescription,
    /// Whether it is complete.
    pub state: SetState,
}

/// Result of the last full read of a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// When, seconds since 1970; `None` if never.
    pub verified: Option<u64>,
    /// True if the platter was missing.
    pub missing: bool,
    /// Sectors that were lost.
    pub lost_sectors: u64,
    /// Tracks that their own code could not rebuild.
    pub lost_tracks: u32,
}

/// A row of the catalogue: one platter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatterRow {
    /// The platter and its store.
    pub place: PlatterPlace,
    /// Its set.
    pub set: SetId,
    /// Its position in the set.
    pub position: u16,
    /// State of its set.
    pub state: SetState,
    /// Result of the last full read.
    pub health: Health,
}

/// A part of a version that was written to a platter of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchivedExtent {
    /// The version.
    pub version: VersionKey,
    /// Where the part is now.
    pub extent: Extent,
}

/// A version found on platters or in staging by a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundVersion {
    /// All of it is on platters of complete sets.
    Archived {
        /// Its identifier.
        id: VersionId,
        /// Its record.
        record: ObjectRecord,
        /// Whether its bytes are encrypted.
        sealed: bool,
        /// Length of its stored bytes.
        stored_bytes: u64,
        /// Their locations.
        extents: Vec<Extent>,
    },
    /// It is in staging.
    Staged(NewVersion),
}

impl FoundVersion {
    /// The identifier of the version.
    #[must_use]
    pub fn id(&self) -> VersionId {
        match self {
            Self::Archived { id, .. } | Self::Staged(NewVersion { id, .. }) => *id,
        }
    }
}

/// Why a version that exists can't be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unlisted {
    /// The key store has no key for it, and no tombstone records its removal.
    NoKey,
    /// Its key exists, but its record can't be opened.
    UnreadableRecord,
    /// Only some of its bytes were found.
    Incomplete,
    /// An earlier catalogue listed it, and none of its bytes were found.
    Gone,
    /// Not a version: the file table of a platter can't be read, so the content of that platter is
    /// unknown. The identifier is the platter's.
    UnreadableTable,
    /// Not a version: a rebuild could not read a store or another place, so its content may be
    /// unknown. The name is the store's.
    UnseenStore,
    /// The parts that were found can't be read, and the rest may be in a place that was not
    /// searched.
    OutOfSight,
}

/// A version that exists but can't be listed. It is never treated as removed, and its staged bytes
/// are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlistedVersion {
    /// Its identifier.
    pub id: VersionId,
    /// Why it can't be listed.
    pub why: Unlisted,
    /// Length of its stored bytes, as far as known.
    pub stored_bytes: u64,
    /// Name and version number, if known.
    pub known_as: Option<(ObjectName, u64)>,
    /// Staging segments that hold parts of it.
    pub segments: Vec<u64>,
}

/// Totals of the staged content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StagedTotals {
    /// Versions.
    pub versions: u64,
    /// Their stored bytes.
    pub stored_bytes: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// When the oldest staged version was put, milliseconds since 1970.
    pub oldest_ms: Option<u64>,
}

/// Totals of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Names, including those whose newest version is a deletion marker.
    pub objects: u64,
    /// Versions, staged and archived.
    pub versions: u64,
    /// Content bytes of all versions.
    pub content_bytes: u64,
    /// What is staged.
    pub staged: StagedTotals,
}

/// Which versions a listing returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Versions {
    /// The newest version of each name, skipping names whose newest version is a deletion marker.
    Newest,
    /// All versions, deletion markers included, newest first within a name.
    All,
}

/// Cursor of a listing: the next page starts after this position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    /// Name of the last row of the previous page.
    pub name: ObjectName,
    /// Its version number.
    pub version: u64,
    /// Its identifier. Two versions can share a number if a rebuild brings back a version whose
    /// tombstone was lost.
    pub id: VersionId,
}

impl After {
    /// The position after this row.
    #[must_use]
    pub fn row(row: &VersionRow) -> Self {
        Self { name: row.record.name.clone(), version: row.record.version, id: row.id }
    }

    /// The position after all names with this prefix, or `None` if no name can follow them.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Option<Self> {
        let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
        let mut end = prefix[..=last].to_vec();
        end[last] += 1;
        Some(Self::before(ObjectName(end)))
    }

    /// The position before all versions of a name, and after all smaller names.
    #[must_use]
    pub fn before(name: ObjectName) -> Self {
        // Higher than the number of any version.
        Self { name, version: u64::MAX, id: VersionId([0xff; 16]) }
    }
}

/// What can go wrong in the catalogue.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The engine failed: disk full, I/O error, locked.
    #[error("the catalogue could not {action}: {source}")]
    Engine {
        /// The operation that failed.
        action: &'static str,
        /// The engine's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is damaged, or is not a catalogue.
    #[error("the catalogue is damaged ({found}); `fulgurite catalogue rebuild` recreates it from platters and staging")]
    Damaged {
        /// What is damaged.
        found: String,
    },
    /// A newer program wrote the schema.
    #[error("the catalogue has schema {found}, but this program supports only schemas up to {known}; use a newer fulgurite")]
    Newer {
        /// Schema version of the file.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The catalogue belongs to another archive.
    #[error("the catalogue belongs to archive {found}, but the settings to archive {expected}")]
    OtherArchive {
        /// Archive in the catalogue.
        found: ArchiveId,
        /// Archive in the settings.
        expected: ArchiveId,
    },
    /// The set was already completed or abandoned, or never begun.
    #[error("set {set} is not being written")]
    SetNotWriting {
        /// The set.
        set: SetId,
    },
    /// The catalogue has no such platter, or the completed set does not contain it.
    #[error("platter {platter} is not in the catalogue")]
    UnknownPlatter {
        /// The platter.
        platter: PlatterId,
    },
    /// The locations given for a version don't add up to its stored bytes.
    #[error("the locations given for version {id} do not add up to its stored bytes")]
    Uncovered {
        /// The version.
        id: VersionId,
    },
}

/// A catalogue engine. Each method that changes something is one transaction, durable when it
/// returns.
pub trait Catalogue: Send {
    /// The highest version number of a name, including deletion markers and unlisted versions.
    /// `None` if the name has no versions.
    fn latest_number(&mut self, name: &ObjectName) -> Result<Option<u64>, CatalogueError>;
    /// Records staged versions, which acknowledges them.
    fn commit_put(&mut self, versions: &[NewVersion]) -> Result<(), CatalogueError>;
    /// Records staged versions and forgets others, atomically. Unlike after
    /// [`commit_delete`](Self::commit_delete), forgotten names may remain in the engine's log until
    /// [`clear_log`](Self::clear_log).
    fn commit(&mut self, change: &Change) -> Result<(), CatalogueError>;
    /// Clears forgotten names from the log, unless another connection is reading from it.
    fn clear_log(&mut self) -> Result<(), CatalogueError>;
    /// Forgets versions and records the tombstones that were staged for them.
    fn commit_delete(&mut self, versions: &[VersionKey], tombstones: &[StagedTombstone]) -> Result<(), CatalogueError>;

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
    fn list(&mut self, prefix: &[u8], versions: Versions, after: Option<&After>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError>;
    /// The extents of a version, in order of the object's bytes. Those of an archived version cover
    /// each byte exactly once. A staged version has only the extents that complete sets already
    /// hold, and these may overlap.
    fn extents(&mut self, version: VersionKey) -> Result<Vec<Extent>, CatalogueError>;
    /// Locations of a staged version's record and of its stored bytes, the latter in order.
    fn staged(&mut self, version: VersionKey) -> Result<Option<(StagedPlace, Vec<StagedData>)>, CatalogueError>;
    /// Versions with an extent on one of these platters, in listing order: up to `limit` after
    /// `after`. A call without `after` sorts the result; calls with it page through what was
    /// sorted.
    fn versions_on(&mut self, platters: &[PlatterId], after: Option<&After>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError>;

    /// Totals of the staged content.
    fn staged_totals(&mut self) -> Result<StagedTotals, CatalogueError>;
    /// Totals of the archive.
    fn totals(&mut self) -> Result<Totals, CatalogueError>;
    /// Staged versions in listing order, up to `limit` after `after`.
    fn staged_versions(&mut self, after: Option<&After>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError>;
    /// Tombstones that are not on a platter yet.
    fn staged_tombstones(&mut self) -> Result<Vec<StagedTombstone>, CatalogueError>;
    /// Segments that still hold staged content, ascending.
    fn segments_in_use(&mut self) -> Result<Vec<u64>, CatalogueError>;
    /// The acknowledged lengths of segments, ascending. Segments written by an older program have
    /// none.
    fn segment_ends(&mut self) -> Result<Vec<SegmentEnd>, CatalogueError>;
    /// Records the acknowledged lengths of segments.
    fn record_segment_ends(&mut self, ends: &[SegmentEnd]) -> Result<(), CatalogueError>;

    /// Records segments that are about to be released.
    fn note_released(&mut self, segments: &[RangeInclusive<u64>]) -> Result<(), CatalogueError>;
    /// Up to `limit` ranges of released segments that end at or after `from`, ascending.
    fn released(&mut self, from: u64, limit: usize) -> Result<Vec<RangeInclusive<u64>>, CatalogueError>;
    /// Those of `there` that are old copies of released segments. Segments in `used` are never
    /// among them.
    fn old_segments(&mut self, there: &[u64], used: &[u64]) -> Result<Vec<u64>, CatalogueError> {
        let mut old = Vec::new();
        for segment in there.iter().filter(|segment| used.binary_search(segment).is_err()) {
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
    /// Records that these tombstones are on platters of a complete set and no longer staged.
    ///
    /// Call this only once the segments that held their versions are gone for good. If a crash
    /// brings such a segment back, its tombstones must still be recorded here.
    fn archive_tombstones(&mut self, tombstones: &[VersionId], set: SetId) -> Result<(), CatalogueError>;
    /// True if the version was removed: its tombstone is staged or on platters.
    fn is_removed(&mut self, id: VersionId) -> Result<bool, CatalogueError>;
    /// Records tombstones that a rebuild found on platters, with the set of each.
    fn adopt_archived_tombstones(&mut self, tombstones: &[(VersionId, SetId)]) -> Result<(), CatalogueError>;
    /// Returns up to `limit` tombstones on platters with their sets, in order of identifier, after
    /// `after`.
    fn archived_tombstones(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<(VersionId, SetId)>, CatalogueError>;
    /// Returns the highest identifier of a version, listed, unlisted or removed. Identifiers begin
    /// with their time.
    fn newest_id(&mut self) -> Result<Option<VersionId>, CatalogueError>;
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
    /// Records the result of reading a platter.
    fn record_health(&mut self, platter: PlatterId, health: Health) -> Result<(), CatalogueError>;
    /// Records that a platter moved to another store.
    fn move_platter(&mut self, platter: PlatterId, store: &str) -> Result<(), CatalogueError>;

    /// For a rebuild: records a set that is complete or restorable.
    fn adopt_set(&mut self, set: &SetDescription) -> Result<(), CatalogueError>;
    /// For a rebuild: records the versions found. The sets of archived versions must be recorded
    /// first. Versions already known, staged or archived, are skipped. Extents may overlap, as they
    /// do when a part was written twice.
    fn adopt_versions(&mut self, versions: &[FoundVersion]) -> Result<(), CatalogueError>;
    /// For a rebuild: records tombstones found in staging.
    fn adopt_tombstones(&mut self, tombstones: &[StagedTombstone]) -> Result<(), CatalogueError>;

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
    /// For a rebuild: records platters of unfinished sets that no version needs.
    fn leave_out(&mut self, platters: &[PlatterId]) -> Result<(), CatalogueError>;
    /// True if the platter was left out, by a rebuild or by [`forget_set`](Self::forget_set).
    fn is_left_out(&mut self, platter: PlatterId) -> Result<bool, CatalogueError>;
    /// Records that the staging folder carries its mark. From then on, a folder without a mark is
    /// not accepted as staging.
    fn note_staging_mark(&mut self) -> Result<(), CatalogueError>;
    /// True if the staging folder was recorded as marked.
    fn is_staging_marked(&mut self) -> Result<bool, CatalogueError>;

    /// Checks the catalogue itself for damage.
    fn check(&mut self) -> Result<(), CatalogueError>;
}
