//! The catalogue: which versions there are, where their bytes lie, and what state each platter is in.
//!
//! It is an index, not a treasure: all of it can be rebuilt from platters and staging (I4). But it decides what is acknowledged: a put is
//! done when its [`Catalogue::commit_put`] is, and a staged copy may go when its [`Catalogue::complete_set`] says so (I1). So
//! every method that changes something is one transaction, on stable storage when it returns.
//!
//! ```text
//! put:    staged --------------------------------------------.
//! flush:  begin_set -> platters written and verified -> complete_set -> archived
//! ```
//!
//! [`SqliteCatalogue`] is the embedded engine. `conformance` is the suite that any engine has to pass.

#[cfg(test)]
mod conformance;
mod sqlite;

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use fulgurite_domain::{ArchiveId, Geometry, ObjectName, ObjectRecord, PlatterId, SetId, SetShape, VersionId};

pub use sqlite::SqliteCatalogue;
pub(crate) use sqlite::fault::is_damage;
pub(crate) use sqlite::{most_kib, set_cache};

/// The attribute that marks a version as the null version of its name: S3 has one that isn't found by an identifier, but by being it. The only
/// attribute that the archive knows of.
pub const NULL: &str = "null";

/// How the catalogue counts versions. Short, and meaningless outside of this catalogue.
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
    /// Where they lie.
    pub place: StagedPlace,
}

/// A version that was just staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVersion {
    /// Its identifier.
    pub id: VersionId,
    /// What is known of it. `record.version` is the number its writer gave it, see [`Catalogue::latest_number`].
    pub record: ObjectRecord,
    /// Whether its bytes are encrypted under a key of its own.
    pub sealed: bool,
    /// Length of its stored bytes.
    pub stored_bytes: u64,
    /// Where its record lies in staging.
    pub record_place: StagedPlace,
    /// Where its stored bytes lie in staging, in order, without gaps.
    pub data: Vec<StagedData>,
}

/// What one transaction changes for those who put and remove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Staged versions, acknowledged from here on.
    pub staged: Vec<NewVersion>,
    /// Versions to be forgotten. One that isn't there is passed over.
    pub forgotten: Vec<VersionKey>,
    /// The tombstones that were staged for them.
    pub tombstones: Vec<StagedTombstone>,
    /// Where what is acknowledged with this change, or before, ends in the segments that were written to.
    pub ends: Vec<SegmentEnd>,
}

/// Where what is acknowledged of a segment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEnd {
    /// Number of the segment.
    pub segment: u64,
    /// Bytes from its front on. What follows was not acknowledged when this was recorded.
    pub bytes: u64,
}

impl Change {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Versions that come or go.
    #[must_use]
    pub fn len(&self) -> usize {
        self.staged.len() + self.tombstones.len()
    }
}

/// A version as the catalogue has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRow {
    /// The catalogue's key of it.
    pub key: VersionKey,
    /// Its identifier.
    pub id: VersionId,
    /// What is known of it.
    pub record: ObjectRecord,
    /// Whether its bytes are encrypted.
    pub sealed: bool,
    /// Length of its stored bytes.
    pub stored_bytes: u64,
    /// Whether all of it is on verified platters of complete sets. Otherwise all of it is in staging.
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

/// A tombstone waiting in staging to be put on a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedTombstone {
    /// The version that was deleted.
    pub id: VersionId,
    /// The segment that its tombstone record is in.
    pub segment: u64,
}

/// What a set is, before and after it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetDescription {
    /// Its identifier.
    pub id: SetId,
    /// Information and redundancy platters.
    pub shape: SetShape,
    /// The division of its platters.
    pub geometry: Geometry,
    /// When it was begun, seconds since 1970.
    pub written: u64,
    /// Its platters in order of position.
    pub platters: Vec<PlatterPlace>,
}

/// Store of a platter that a rebuild found nowhere.
pub const NOWHERE: &str = "?";

/// Which platter, on which store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatterPlace {
    /// The platter.
    pub platter: PlatterId,
    /// Name of the store it is on.
    pub store: String,
}

/// Whether a set can be relied upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetState {
    /// Begun, and not complete: its contents are still staged.
    Writing,
    /// All platters were written and verified; staged copies may have gone.
    Complete,
}

/// A set as the catalogue has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetRow {
    /// What it is.
    pub description: SetDescription,
    /// Whether it is complete.
    pub state: SetState,
}

/// What was found when a platter was last read in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// When, seconds since 1970; `None` if never.
    pub verified: Option<u64>,
    /// Whether the platter was there at all.
    pub missing: bool,
    /// Sectors that were lost.
    pub lost_sectors: u64,
    /// Tracks that their own code could not rebuild.
    pub lost_tracks: u32,
}

/// A platter as the catalogue has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatterRow {
    /// Which, and on which store.
    pub place: PlatterPlace,
    /// Its set.
    pub set: SetId,
    /// Its position in the set.
    pub position: u16,
    /// State of its set.
    pub state: SetState,
    /// What was found when it was last read in full.
    pub health: Health,
}

/// Part of a version that went onto a platter of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchivedExtent {
    /// The version.
    pub version: VersionKey,
    /// Where the part lies now.
    pub extent: Extent,
}

/// A version found on platters or in staging by a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundVersion {
    /// All of it is on platters of complete sets.
    Archived {
        /// Its identifier.
        id: VersionId,
        /// What its record says.
        record: ObjectRecord,
        /// Whether its bytes are encrypted.
        sealed: bool,
        /// Length of its stored bytes.
        stored_bytes: u64,
        /// Where they lie.
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
    /// Its key is not in the key store, and no tombstone says that it was removed.
    NoKey,
    /// Its record can't be opened, although there is a key.
    UnreadableRecord,
    /// Only some of its bytes were found.
    Incomplete,
    /// An earlier catalogue knew it, and none of its bytes were found.
    Gone,
    /// Not one version: the file table of a platter can't be read, so what is on that platter is unknown. The identifier is the
    /// platter's.
    UnreadableTable,
    /// Not one version: a store or another place could not be looked into, so what is there may be unknown. The name is the store's.
    UnseenStore,
    /// What was found of it can't be read, and the rest may be where nobody could look.
    OutOfSight,
}

/// A version that exists but can't be listed. It is never taken for removed, and what is left of it in staging is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlistedVersion {
    /// Its identifier.
    pub id: VersionId,
    /// What is wrong with it.
    pub why: Unlisted,
    /// Length of its stored bytes, as far as it is known.
    pub stored_bytes: u64,
    /// Name and number, where they are known.
    pub known_as: Option<(ObjectName, u64)>,
    /// Staging segments that hold some of it.
    pub segments: Vec<u64>,
}

/// How much is staged.
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

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Names, those whose newest version is a deletion marker too.
    pub objects: u64,
    /// Versions, staged and archived.
    pub versions: u64,
    /// Bytes of content of all versions.
    pub content_bytes: u64,
    /// What is staged.
    pub staged: StagedTotals,
}

/// Which versions a listing wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Versions {
    /// The newest of each name, but no name whose newest is a deletion marker.
    Newest,
    /// All, deletion markers too, newest first within a name.
    All,
}

/// Where a page of a listing goes on: behind this row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    /// Name of the last row of the page before.
    pub name: ObjectName,
    /// Its version number.
    pub version: u64,
    /// Its identifier. Two versions may have one number, when a rebuild brings one back whose tombstone was lost.
    pub id: VersionId,
}

impl After {
    /// Behind this row.
    #[must_use]
    pub fn row(row: &VersionRow) -> Self {
        Self { name: row.record.name.clone(), version: row.record.version, id: row.id }
    }

    /// Behind all names that start with these bytes; none if nothing can be behind them.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Option<Self> {
        let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
        let mut end = prefix[..=last].to_vec();
        end[last] += 1;
        Some(Self::before(ObjectName(end)))
    }

    /// Before all versions of a name, and behind the names before it.
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
        /// What was to be done.
        action: &'static str,
        /// What the engine says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The catalogue's file is damaged, or isn't one.
    #[error("the catalogue is damaged ({found}); `fulgurite catalogue rebuild` makes it anew from platters and staging")]
    Damaged {
        /// What was found.
        found: String,
    },
    /// Made by a newer program.
    #[error("the catalogue has schema {found}, this program knows up to {known}; use a newer fulgurite")]
    Newer {
        /// Schema version of the file.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// The catalogue is of another archive.
    #[error("the catalogue belongs to archive {found}, the settings to archive {expected}")]
    OtherArchive {
        /// Archive in the catalogue.
        found: ArchiveId,
        /// Archive in the settings.
        expected: ArchiveId,
    },
    /// The set was completed or abandoned before, or never begun.
    #[error("set {set} is not being written")]
    SetNotWriting {
        /// The set.
        set: SetId,
    },
    /// No set of the catalogue (or not the one that was completed) has the platter.
    #[error("platter {platter} is not in the catalogue")]
    UnknownPlatter {
        /// The platter.
        platter: PlatterId,
    },
    /// The places given for a version are not all of it, or more.
    #[error("version {id} is not covered by the places given for its bytes")]
    Uncovered {
        /// The version.
        id: VersionId,
    },
}

/// What an engine does. Methods that change something are one transaction each, durable when they return.
pub trait Catalogue: Send {
    /// The highest version number of a name, deletion markers and unlisted versions included; `None` for a name without versions.
    fn latest_number(&mut self, name: &ObjectName) -> Result<Option<u64>, CatalogueError>;
    /// Records staged versions: from here on they are acknowledged.
    fn commit_put(&mut self, versions: &[NewVersion]) -> Result<(), CatalogueError>;
    /// Records staged versions and forgets others, all of it or nothing. Unlike after [`commit_delete`](Self::commit_delete), names that are forgotten
    /// may stand in the engine's log until [`clear_log`](Self::clear_log).
    fn commit(&mut self, change: &Change) -> Result<(), CatalogueError>;
    /// Clears what the log still has of names that are forgotten, unless somebody is just reading from it.
    fn clear_log(&mut self) -> Result<(), CatalogueError>;
    /// Forgets versions and records the tombstones that were staged for them.
    fn commit_delete(&mut self, versions: &[VersionKey], tombstones: &[StagedTombstone]) -> Result<(), CatalogueError>;

    /// The newest version of a name.
    fn newest(&mut self, name: &ObjectName) -> Result<Option<VersionRow>, CatalogueError>;
    /// The version of a name with this identifier.
    fn version(&mut self, name: &ObjectName, id: VersionId) -> Result<Option<VersionRow>, CatalogueError>;
    /// Whether there is a version with this identifier, listed or not, or its tombstone is staged.
    fn knows(&mut self, id: VersionId) -> Result<bool, CatalogueError>;
    /// The null version of a name: the newest whose attribute [`NULL`] is there, without bytes. It is found at once, however many versions the name has.
    fn null_version(&mut self, name: &ObjectName) -> Result<Option<VersionRow>, CatalogueError>;
    /// The versions of a name, deletion markers too, newest first.
    fn versions_of(&mut self, name: &ObjectName) -> Result<Vec<VersionRow>, CatalogueError>;
    /// Up to `limit` rows whose names start with `prefix`, after `after`, in the order of all listings: byte order of names, newest version
    /// of a name first. Fewer than `limit` only if there are no more.
    fn list(&mut self, prefix: &[u8], versions: Versions, after: Option<&After>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError>;
    /// The extents of a version, in order of the object's bytes. Those of an archived version are all of it, each byte once. A staged
    /// version has those of its parts that complete sets have already, which may overlap.
    fn extents(&mut self, version: VersionKey) -> Result<Vec<Extent>, CatalogueError>;
    /// Where a staged version's record and stored bytes are, the latter in order.
    fn staged(&mut self, version: VersionKey) -> Result<Option<(StagedPlace, Vec<StagedData>)>, CatalogueError>;
    /// Versions with an extent on one of these platters, in the order of all listings: up to `limit` after `after`. Pages without `after` sort
    /// anew, those with it go on in what was sorted.
    fn versions_on(&mut self, platters: &[PlatterId], after: Option<&After>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError>;

    /// How much is staged.
    fn staged_totals(&mut self) -> Result<StagedTotals, CatalogueError>;
    /// How much there is.
    fn totals(&mut self) -> Result<Totals, CatalogueError>;
    /// Staged versions in the order of all listings, up to `limit` after `after`.
    fn staged_versions(&mut self, after: Option<&After>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError>;
    /// Tombstones that are not on a platter yet.
    fn staged_tombstones(&mut self) -> Result<Vec<StagedTombstone>, CatalogueError>;
    /// Segments that still hold something that is staged, ascending.
    fn segments_in_use(&mut self) -> Result<Vec<u64>, CatalogueError>;
    /// Where what is acknowledged ends in segments, ascending. A segment that an older program wrote has none.
    fn segment_ends(&mut self) -> Result<Vec<SegmentEnd>, CatalogueError>;
    /// Records where what is acknowledged ends in segments.
    fn record_segment_ends(&mut self, ends: &[SegmentEnd]) -> Result<(), CatalogueError>;

    /// Records segments that are about to be released.
    fn note_released(&mut self, segments: &[RangeInclusive<u64>]) -> Result<(), CatalogueError>;
    /// Up to `limit` ranges of released segments that don't end before `from`, ascending.
    fn released(&mut self, from: u64, limit: usize) -> Result<Vec<RangeInclusive<u64>>, CatalogueError>;
    /// Which of these segments are old copies of released ones: none that is `used`.
    fn old_segments(&mut self, there: &[u64], used: &[u64]) -> Result<Vec<u64>, CatalogueError> {
        let mut old = Vec::new();
        for segment in there.iter().filter(|segment| used.binary_search(segment).is_err()) {
            if self.released(*segment, 1)?.iter().any(|range| range.contains(segment)) {
                old.push(*segment);
            }
        }
        Ok(old)
    }
    /// The highest number of a released segment.
    fn last_released(&mut self) -> Result<Option<u64>, CatalogueError>;

    /// Records that a set is about to be written.
    fn begin_set(&mut self, set: &SetDescription) -> Result<(), CatalogueError>;
    /// Records that all platters of a set were found good at `verified` (seconds since 1970), and where these extents lie on them.
    ///
    /// A version is archived, and not staged any more, when the extents recorded for it, by this set and earlier ones, are all of its
    /// stored bytes; until then all of it stays staged. One without stored bytes needs an extent of no bytes. A version that was deleted
    /// meanwhile, or archived by another set, is passed over.
    fn complete_set(&mut self, set: SetId, extents: &mut dyn Iterator<Item = ArchivedExtent>, verified: u64) -> Result<(), CatalogueError>;
    /// Records that these tombstones are on platters of complete sets, and not staged any more.
    ///
    /// Only when the segments that their versions were staged in are gone for good. Until then a segment that comes back after a crash must
    /// find its tombstones here.
    fn forget_tombstones(&mut self, tombstones: &[VersionId]) -> Result<(), CatalogueError>;
    /// Forgets a set in state [`SetState::Writing`]. What was to go on it is still staged.
    fn abandon_set(&mut self, set: SetId) -> Result<(), CatalogueError>;
    /// Forgets a complete set, and leaves its platters out from then on. `false` if a version is on it, or no such set is there: then
    /// nothing changes.
    fn forget_set(&mut self, set: SetId) -> Result<bool, CatalogueError>;
    /// All sets, in order of writing.
    fn sets(&mut self) -> Result<Vec<SetRow>, CatalogueError>;
    /// The set of a platter.
    fn set_of(&mut self, platter: PlatterId) -> Result<Option<SetRow>, CatalogueError>;
    /// All platters, in order of set and position.
    fn platters(&mut self) -> Result<Vec<PlatterRow>, CatalogueError>;
    /// Records what was found on a platter.
    fn record_health(&mut self, platter: PlatterId, health: Health) -> Result<(), CatalogueError>;
    /// Records that a platter is on another store now.
    fn move_platter(&mut self, platter: PlatterId, store: &str) -> Result<(), CatalogueError>;

    /// For a rebuild: records a set that was found complete or restorable.
    fn adopt_set(&mut self, set: &SetDescription) -> Result<(), CatalogueError>;
    /// For a rebuild: records versions that were found, the sets of archived ones being there. A version that is there already is passed over,
    /// staged or archived. Extents may overlap, as they do when a part was written again.
    fn adopt_versions(&mut self, versions: &[FoundVersion]) -> Result<(), CatalogueError>;
    /// For a rebuild: records tombstones that were found in staging.
    fn adopt_tombstones(&mut self, tombstones: &[StagedTombstone]) -> Result<(), CatalogueError>;

    /// For a rebuild: records versions that exist but can't be listed. Their segments are in use from then on.
    fn adopt_unlisted(&mut self, versions: &[UnlistedVersion]) -> Result<(), CatalogueError>;
    /// Up to `limit` unlisted versions in order of identifier, after `after`.
    fn unlisted(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<UnlistedVersion>, CatalogueError>;
    /// Number of unlisted versions.
    fn unlisted_count(&mut self) -> Result<u64, CatalogueError>;
    /// Forgets unlisted versions, because they are listed now or because they are removed; then tombstones were staged for them.
    fn forget_unlisted(&mut self, versions: &[VersionId], tombstones: &[StagedTombstone]) -> Result<(), CatalogueError>;
    /// For a rebuild: records platters of sets that were never finished and that nothing needs.
    fn leave_out(&mut self, platters: &[PlatterId]) -> Result<(), CatalogueError>;
    /// Whether a rebuild left the platter out.
    fn is_left_out(&mut self, platter: PlatterId) -> Result<bool, CatalogueError>;
    /// Notes that the folder of staging has its mark. From then on, a folder without one isn't it.
    fn note_staging_mark(&mut self) -> Result<(), CatalogueError>;
    /// Whether that was noted.
    fn is_staging_marked(&mut self) -> Result<bool, CatalogueError>;

    /// Looks for damage inside the catalogue itself.
    fn check(&mut self) -> Result<(), CatalogueError>;
}
