//! What a catalogue takes and returns.

use fulgurite_domain::{Geometry, Medium, ObjectName, ObjectRecord, PlatterId, SetId, SetShape, VersionId};
use fulgurite_format::{Header, Member};
use serde::{Deserialize, Serialize};

use crate::scrub::PlatterState;
use crate::store::platter_bytes;

/// The number of a version's row in the catalogue. Never used again, and meaningless outside this
/// catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionRowId(pub i64);

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

impl StagedData {
    /// Where these stored bytes of an object end; `None` if they are out of order or have gaps.
    pub(crate) fn end_of(data: &[Self]) -> Option<u64> {
        data.iter().try_fold(0, |end, data| (data.stored_offset == end).then(|| end + u64::from(data.place.bytes)))
    }
}

/// A version that was just staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVersion {
    /// Its identifier.
    pub id: VersionId,
    /// Its record. `record.version` is the number that the writer assigned, see
    /// [`Catalogue::latest_number`](super::Catalogue::latest_number).
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
    /// Versions to forget. Unknown ones are ignored.
    pub forgotten: Vec<VersionRowId>,
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

/// A row of the catalogue: one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRow {
    /// The number of this row.
    pub row_id: VersionRowId,
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
    /// What its platters are made of.
    pub medium: Medium,
    /// The geometry of its platters.
    pub geometry: Geometry,
    /// When it was begun, seconds since 1970.
    pub written: u64,
    /// Its platters in order of position.
    pub platters: Vec<PlatterPlace>,
}

impl SetDescription {
    /// The set that a header describes, with platters on the stores that `store_of` names.
    pub(crate) fn of(header: &Header, store_of: impl Fn(PlatterId) -> String) -> Self {
        let place = |member: &Member| PlatterPlace { platter: member.platter, store: store_of(member.platter) };
        Self {
            id: header.set,
            shape: header.shape,
            medium: header.medium,
            geometry: header.geometry,
            written: header.written,
            platters: header.members.iter().map(place).collect(),
        }
    }

    /// Bytes that a store needs for each of its platters.
    #[must_use]
    pub fn platter_bytes(&self) -> u64 {
        platter_bytes(self.medium, self.geometry)
    }

    /// Bytes that a store holds for this many bytes of a platter.
    pub(crate) fn stored_bytes(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.platter_bytes()) / u128::from(self.geometry.file_bytes())) as u64
    }

    /// Sectors of a track that may be lost although the platter is sound. Some sectors of glass
    /// can't be read however well it was written; tracks may use half of their redundancy for them.
    pub(crate) fn bearable_losses(&self) -> usize {
        match self.medium {
            Medium::Disk => 0,
            Medium::Glass => usize::from(self.geometry.track_redundancy / 2),
        }
    }

    /// Sectors of a whole platter that may be lost although it is sound. About one sector of glass
    /// in 1,000 can't be read; with twice as many, chance exceeds this once in 10^8 platters.
    /// More are decay, even if every track can still bear its own.
    pub(crate) fn bearable_losses_of_platter(&self) -> u64 {
        let sectors = u64::from(self.geometry.physical_tracks()) * u64::from(self.geometry.track_sectors());
        let mean = sectors as f64 / 500.0;
        match self.medium {
            Medium::Disk => 0,
            Medium::Glass => (mean + 6.0 * mean.sqrt() + 4.0) as u64,
        }
    }
}

/// Store name of a platter that a rebuild did not find.
pub const UNKNOWN_STORE: &str = "?";

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

/// What reading has shown of a platter. Times are in seconds since 1970, and are recorded only
/// after the bytes were read and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// When the platter was last read in full or found missing; `None` if never.
    pub checked: Option<u64>,
    /// True if it was missing then.
    pub missing: bool,
    /// Sectors that were lost then, except for losses that are normal for the medium.
    pub lost_sectors: u64,
    /// Tracks that their own code could not rebuild then.
    pub lost_tracks: u32,
    /// Copies of the header that were damaged then.
    pub bad_headers: u32,
    /// When the platter was last read in full without damage, if `checked` is not that time.
    pub last_intact: Option<u64>,
    /// When the system refused to read some of it, if that was after `checked`. The platter may be
    /// intact.
    pub unreadable: Option<u64>,
    /// The last time it was rewritten.
    pub repaired: Option<Repair>,
}

impl Health {
    /// The health of a platter that was read in full without damage, and never before.
    #[must_use]
    pub fn intact_at(at: u64) -> Self {
        Self { checked: Some(at), ..Self::default() }
    }

    /// True if the platter was neither missing nor damaged when it was last read in full.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.missing && !self.is_damaged()
    }

    /// True if the platter was damaged when it was last read in full.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.lost_sectors > 0 || self.bad_headers > 0
    }

    /// When the platter was last read in full without damage; `None` if never, or not since the
    /// catalogue was rebuilt.
    #[must_use]
    pub fn verified(&self) -> Option<u64> {
        if self.is_sound() { self.checked } else { self.last_intact }
    }
}

/// The replacement of a platter by an identical one, which was read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repair {
    /// When, seconds since 1970.
    pub at: u64,
    /// The state that the platter was found in before.
    pub found: PlatterState,
    /// The sectors that it had lost.
    pub lost_sectors: u64,
}

/// What reading has shown of a staged version. Times are in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StagedHealth {
    /// When all of its bytes in staging were last read and matched their checksums; `None` if
    /// never, or not since the catalogue was rebuilt.
    pub verified: Option<u64>,
    /// When some of them last did not match, or were missing, if that was after `verified`.
    pub damaged: Option<u64>,
}

/// The result of reading all bytes of a staged version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedCheck {
    /// The version.
    pub version: VersionRowId,
    /// When the reading ended, seconds since 1970.
    pub at: u64,
    /// True if all bytes matched their checksums.
    pub is_sound: bool,
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
    /// What reading has shown of it.
    pub health: Health,
}

/// A part of a version that was written to a platter of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchivedExtent {
    /// The version.
    pub version: VersionRowId,
    /// Where the part is now.
    pub extent: Extent,
}

/// A version on platters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedVersion {
    /// Its identifier.
    pub id: VersionId,
    /// Its record.
    pub record: ObjectRecord,
    /// Whether its bytes are encrypted.
    pub sealed: bool,
    /// Length of its stored bytes.
    pub stored_bytes: u64,
    /// Their locations.
    pub extents: Vec<Extent>,
}

/// A version found on platters or in staging by a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundVersion {
    /// All of it is on platters of complete sets.
    Archived(ArchivedVersion),
    /// It is in staging.
    Staged(NewVersion),
}

impl FoundVersion {
    /// The identifier of the version.
    #[must_use]
    pub fn id(&self) -> VersionId {
        match self {
            Self::Archived(ArchivedVersion { id, .. }) | Self::Staged(NewVersion { id, .. }) => *id,
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
    /// unknown. `known_as` names the place; the number is 0 for a store.
    UnseenStore,
    /// What was found doesn't suffice to list it; the rest, or its tombstone, may be in a place
    /// that was not searched.
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

impl UnlistedVersion {
    /// A version of which nothing else is known.
    pub(crate) fn new(id: VersionId, why: Unlisted) -> Self {
        Self { id, why, stored_bytes: 0, known_as: None, segments: Vec::new() }
    }

    /// The staging segment whose damaged places a rebuild without an earlier catalogue recorded as
    /// this version: they may have held any versions, or none.
    #[must_use]
    pub fn damaged_segment(&self) -> Option<u64> {
        // Those of versions end with random bytes.
        let is_segment = self.why == Unlisted::Incomplete && self.id.0[6..] == [0; 10];
        self.segments.first().copied().filter(|_| is_segment)
    }
}

/// Totals of the staged content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StagedTotals {
    /// Versions.
    pub versions: u64,
    /// Their stored bytes.
    pub stored_bytes: u64,
    /// Tombstones that aren't on platters yet.
    pub tombstones: u64,
    /// When the oldest staged version was put, in milliseconds since 1970; `None` if nothing is
    /// staged.
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
pub struct ListCursor {
    /// Rows are in the order of their names; the page starts within this name or after it.
    pub name: ObjectName,
    /// Within the name, rows follow from the highest number to the lowest.
    pub version: u64,
    /// And by identifier. Two versions can share a number if a rebuild brings back a version whose
    /// tombstone was lost.
    pub id: VersionId,
}

impl ListCursor {
    /// The position after this row.
    #[must_use]
    pub fn after_row(row: &VersionRow) -> Self {
        Self { name: row.record.name.clone(), version: row.record.version, id: row.id }
    }

    /// The position after all names with this prefix, or `None` if no name can follow them.
    #[must_use]
    pub fn after_prefix(prefix: &[u8]) -> Option<Self> {
        let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
        let mut end = prefix[..=last].to_vec();
        end[last] += 1;
        Some(Self::before_name(ObjectName(end)))
    }

    /// The position before all versions of a name, and after all smaller names.
    #[must_use]
    pub fn before_name(name: ObjectName) -> Self {
        // Higher than the number of any version.
        Self { name, version: u64::MAX, id: VersionId([0xff; 16]) }
    }
}
