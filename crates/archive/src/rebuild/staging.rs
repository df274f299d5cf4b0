//! Reads staging: versions and tombstones.

use std::collections::{BTreeMap, HashMap};

use fulgurite_domain::{ObjectName, VersionId};
use fulgurite_format::{RecordHead, RecordKind, SegmentError, SegmentScan, stored_bytes};

use super::record::open_record;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{NewVersion, StagedData, StagedPlace, Unlisted, UnlistedVersion};
use crate::staging::Staging;
use crate::watch::{Trouble, Watcher};

#[derive(Default)]
pub(crate) struct Scanned {
    pub(crate) versions: Vec<NewVersion>,
    /// Versions with an object record that can't be listed.
    pub(crate) unlisted: Vec<UnlistedVersion>,
    pub(crate) tombstones: HashMap<VersionId, u64>,
    /// Number of versions whose tombstone is in the scanned segments too.
    pub(super) removed: u64,
    /// When the incomplete versions were put, in milliseconds since 1970.
    incomplete_since: HashMap<VersionId, u64>,
    /// Segments with damaged places, and how many of their bytes are damaged.
    pub(super) damaged: BTreeMap<u64, u64>,
}

impl Scanned {
    /// True if an incomplete version must have been acknowledged: a version put at least
    /// `LONGEST_COMMIT_MS` later is complete, and a commit syncs everything appended before it.
    pub(crate) fn was_acknowledged(&self, incomplete: VersionId) -> bool {
        let since = self.incomplete_since.get(&incomplete).copied().unwrap_or(0);
        self.versions.iter().any(|version| version.record.created_ms > since.saturating_add(LONGEST_COMMIT_MS))
    }
}

/// Upper bound on how long a put stays appended but unsynced.
const LONGEST_COMMIT_MS: u64 = 60_000;

#[derive(Default)]
struct StagedParts {
    record: Option<(RecordHead, u64)>,
    data: Vec<StagedData>,
}

impl StagedParts {
    fn segments(&self) -> Vec<u64> {
        let record = self.record.iter().map(|(_, segment)| *segment);
        let mut segments: Vec<u64> = record.chain(self.data.iter().map(|data| data.place.segment)).collect();
        segments.sort_unstable();
        segments.dedup();
        segments
    }
}

struct Unlistable {
    why: Unlisted,
    /// Name and version number, if the record can be read.
    known_as: Option<(ObjectName, u64)>,
    created_ms: u64,
}

/// Selects object records by segment and by position in the segment.
type IsWanted<'a> = &'a dyn Fn(u64, u64) -> bool;

/// Scans segments. Only versions whose object record `is_wanted` are returned.
pub(crate) fn scan_staging(
    archive: &Archive,
    segments: &[u64],
    is_wanted: IsWanted<'_>,
    watcher: &dyn Watcher,
) -> Result<Scanned, ArchiveError> {
    let mut parts: BTreeMap<VersionId, StagedParts> = BTreeMap::new();
    let mut scanned = Scanned::default();
    for &segment in segments {
        let damaged = scan_one(archive.staging(), segment, watcher, &mut |record| {
            let place = StagedPlace { segment, offset: record.payload_position(), bytes: record.payload_bytes, crc64: record.crc64 };
            match record.kind {
                RecordKind::Data => {
                    parts.entry(record.version).or_default().data.push(StagedData { stored_offset: record.offset, place });
                }
                RecordKind::Object => parts.entry(record.version).or_default().record = Some((record, segment)),
                RecordKind::Tombstone => {
                    scanned.tombstones.insert(record.version, segment);
                }
            }
        })?;
        if damaged > 0 {
            scanned.damaged.insert(segment, damaged);
        }
    }
    for (id, mut parts) in parts {
        // The put never finished, or its object record is damaged: nothing tells the two apart.
        // `damaged` has the segment in that case.
        let Some((head, segment)) = parts.record else { continue };
        if !is_wanted(segment, head.position) {
            continue;
        }
        if scanned.tombstones.contains_key(&id) {
            scanned.removed += 1;
            continue;
        }
        parts.data.sort_by_key(|data| data.stored_offset);
        match staged_version(archive, id, &parts, watcher)? {
            Ok(version) => scanned.versions.push(version),
            Err(Unlistable { why, known_as, created_ms }) => {
                if why == Unlisted::Incomplete {
                    scanned.incomplete_since.insert(id, created_ms);
                }
                let segments = parts.segments();
                scanned.unlisted.push(UnlistedVersion { id, why, stored_bytes: head.offset, known_as, segments });
            }
        }
    }
    Ok(scanned)
}

/// Builds the version from its parts, or says why it can't be listed.
fn staged_version(
    archive: &Archive,
    id: VersionId,
    parts: &StagedParts,
    watcher: &dyn Watcher,
) -> Result<Result<NewVersion, Unlistable>, ArchiveError> {
    let (head, segment) = parts.record.expect("the caller has looked");
    let record_place = StagedPlace { segment, offset: head.payload_position(), bytes: head.payload_bytes, crc64: head.crc64 };
    let mut payload = Vec::new();
    archive.staging().read(record_place, &mut payload)?;
    let record = match open_record(archive, id, head.sealed, &payload, watcher)? {
        Ok(record) => record,
        Err(why) => return Ok(Err(Unlistable { why, known_as: None, created_ms: 0 })),
    };
    if StagedData::end_of(&parts.data) != Some(head.offset) || stored_bytes(record.size) != head.offset {
        let known_as = Some((record.name, record.version));
        return Ok(Err(Unlistable { why: Unlisted::Incomplete, known_as, created_ms: record.created_ms }));
    }
    let data = parts.data.clone();
    Ok(Ok(NewVersion { id, record, sealed: head.sealed, stored_bytes: head.offset, record_place, data }))
}

/// Scans a segment. Returns the number of damaged bytes, padding included.
fn scan_one(staging: &Staging, segment: u64, watcher: &dyn Watcher, on_record: &mut dyn FnMut(RecordHead)) -> Result<u64, ArchiveError> {
    let note = |what: String| watcher.trouble(Trouble::Note(&format!("staging segment {segment:016x}{what}")));
    match staging.scan(segment, true, on_record)? {
        // The unreadable part may have been acknowledged, so the segment must stay.
        Ok(SegmentScan { unreadable: Some(source), .. }) | Err(SegmentError::Read { source, .. }) => {
            Err(staging.read_error(segment, source).into())
        }
        Ok(scan) => {
            if scan.head_damaged && scan.records > 0 {
                // Dropping them would lose acknowledged objects, and nothing else is likely to have
                // the number of a segment.
                note(format!(": its head is damaged. Its {} good records are taken for this archive's", scan.records));
            }
            if !scan.damaged.is_empty() {
                note(format!(" is damaged in {} places", scan.damaged.len()));
            }
            Ok(scan.damaged.iter().map(|range| range.end - range.start).sum())
        }
        Err(SegmentError::OtherArchive { found, .. }) => Err(ArchiveError::ForeignSegment { segment, found }),
        // A crash right after the file was created leaves such a file.
        Err(error @ (SegmentError::NotASegment | SegmentError::Checksum)) => {
            note(format!(": {error}"));
            Ok(0)
        }
        Err(source) => Err(ArchiveError::UnusableSegment { segment, source }),
    }
}
