//! Reads staging: versions and tombstones.

use std::collections::{BTreeMap, HashMap};

use fulgurite_domain::{ObjectName, VersionId};
use fulgurite_format::{RecordHead, RecordKind, SegmentError, SegmentScan, stored_bytes};

use super::record::open_record;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{NewVersion, StagedData, StagedPlace, Unlisted, UnlistedVersion};
use crate::staging::Staging;
use crate::watch::{Trouble, Watcher};

/// What a scan finds besides the versions that it hands on.
#[derive(Default)]
pub(crate) struct Scanned {
    /// Versions with an object record that can't be listed.
    pub(crate) unlisted: Vec<UnlistedVersion>,
    pub(crate) tombstones: HashMap<VersionId, u64>,
    /// When the newest complete version was put, in milliseconds since 1970.
    newest_ms: u64,
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
        self.newest_ms > since.saturating_add(LONGEST_COMMIT_MS)
    }
}

/// Upper bound on how long a put stays appended but unsynced.
const LONGEST_COMMIT_MS: u64 = 60_000;

/// What was found of a version so far.
#[derive(Default)]
struct StagedParts {
    record: Option<(RecordHead, u64)>,
    data: Vec<StagedData>,
}

impl StagedParts {
    fn is_complete(&self) -> bool {
        self.record.is_some_and(|(head, _)| StagedData::end_of(&self.data) == Some(head.offset))
    }

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

/// Takes the versions that a scan finds. More than one may have the same identifier, if staging has
/// copies.
type OnVersion<'a> = &'a mut dyn FnMut(NewVersion) -> Result<(), ArchiveError>;

/// Scans segments, and hands on each version when all of it was found, so that memory doesn't grow
/// with what is staged. Versions whose object record isn't wanted are skipped. A tombstone may come
/// after its version: the caller drops removed versions when the scan ends.
pub(crate) fn scan_staging(
    archive: &Archive,
    segments: &[u64],
    is_wanted: IsWanted<'_>,
    watcher: &dyn Watcher,
    on_version: OnVersion<'_>,
) -> Result<Scanned, ArchiveError> {
    let mut scan = Scan { archive, is_wanted, watcher, on_version, parts: BTreeMap::new(), scanned: Scanned::default() };
    for &segment in segments {
        // `on_record` can't fail, so the first error waits here, and the rest is skipped.
        let mut taken = Ok(());
        let damaged = scan_one(archive.staging(), segment, watcher, &mut |record| {
            if taken.is_ok() {
                taken = scan.take(segment, record);
            }
        })?;
        taken?;
        if damaged > 0 {
            scan.scanned.damaged.insert(segment, damaged);
        }
    }
    // The parts of these are not in order, or some are missing.
    for (id, parts) in std::mem::take(&mut scan.parts) {
        scan.finish(id, parts)?;
    }
    Ok(scan.scanned)
}

struct Scan<'a> {
    archive: &'a Archive,
    is_wanted: IsWanted<'a>,
    watcher: &'a dyn Watcher,
    on_version: OnVersion<'a>,
    /// Versions of which more may come. A put appends its object record last.
    parts: BTreeMap<VersionId, StagedParts>,
    scanned: Scanned,
}

impl Scan<'_> {
    fn take(&mut self, segment: u64, record: RecordHead) -> Result<(), ArchiveError> {
        let id = record.version;
        match record.kind {
            RecordKind::Data => {
                let place = StagedPlace { segment, offset: record.payload_position(), bytes: record.payload_bytes, crc64: record.crc64 };
                self.parts.entry(id).or_default().data.push(StagedData { stored_offset: record.offset, place });
            }
            RecordKind::Object => {
                let mut parts = self.parts.remove(&id).unwrap_or_default();
                parts.record = Some((record, segment));
                if !parts.is_complete() {
                    self.parts.insert(id, parts);
                } else {
                    self.finish(id, parts)?;
                }
            }
            RecordKind::Tombstone => {
                self.scanned.tombstones.insert(id, segment);
            }
        }
        Ok(())
    }

    /// Hands on a version, or records why it can't be listed.
    fn finish(&mut self, id: VersionId, mut parts: StagedParts) -> Result<(), ArchiveError> {
        // The put never finished, or its object record is damaged: nothing tells the two apart.
        // `damaged` has the segment in that case.
        let Some((head, segment)) = parts.record else { return Ok(()) };
        if !(self.is_wanted)(segment, head.position) {
            return Ok(());
        }
        parts.data.sort_by_key(|data| data.stored_offset);
        match staged_version(self.archive, id, &mut parts, self.watcher)? {
            Ok(version) => {
                self.scanned.newest_ms = self.scanned.newest_ms.max(version.record.created_ms);
                (self.on_version)(version)?;
            }
            Err(Unlistable { why, known_as, created_ms }) => {
                if why == Unlisted::Incomplete {
                    self.scanned.incomplete_since.insert(id, created_ms);
                }
                let segments = parts.segments();
                self.scanned.unlisted.push(UnlistedVersion { id, why, stored_bytes: head.offset, known_as, segments });
            }
        }
        Ok(())
    }
}

/// Builds the version from its parts, or says why it can't be listed.
fn staged_version(
    archive: &Archive,
    id: VersionId,
    parts: &mut StagedParts,
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
    if !parts.is_complete() || stored_bytes(record.size) != head.offset {
        let known_as = Some((record.name, record.version));
        return Ok(Err(Unlistable { why: Unlisted::Incomplete, known_as, created_ms: record.created_ms }));
    }
    let data = std::mem::take(&mut parts.data);
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
