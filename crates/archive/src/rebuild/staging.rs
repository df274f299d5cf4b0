//! Reads staging: versions, tombstones, and the records that a crash left after the last commit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use fulgurite_domain::{ObjectName, VersionId};
use fulgurite_format::{RecordHead, RecordKind, SegmentError, SegmentScan, stored_bytes};

use super::{BATCH, OpenedRecord};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{
    After, FoundVersion, NewVersion, SegmentEnd, StagedData, StagedPlace, StagedTombstone, Unlisted, UnlistedVersion, VersionKey, Versions,
};
use crate::watch::{Trouble, Unwatched, Watcher};

/// Contents of the scanned segments.
#[derive(Default)]
pub(super) struct Scanned {
    /// The complete versions.
    pub(super) versions: Vec<NewVersion>,
    /// Versions with an object record that can't be listed.
    pub(super) unlisted: Vec<UnlistedVersion>,
    /// Tombstones, with the segments that contain them.
    pub(super) tombstones: HashMap<VersionId, u64>,
    /// Number of versions whose tombstone is in the scanned segments too.
    pub(super) removed: u64,
    /// When the incomplete versions were put, in milliseconds since 1970.
    incomplete_since: HashMap<VersionId, u64>,
}

impl Scanned {
    /// True if an incomplete version must have been acknowledged: a version put at least
    /// `LONGEST_COMMIT_MS` later is complete, and a commit syncs everything appended before it.
    fn was_acknowledged(&self, incomplete: VersionId) -> bool {
        let since = self.incomplete_since.get(&incomplete).copied().unwrap_or(0);
        self.versions.iter().any(|version| version.record.created_ms > since.saturating_add(LONGEST_COMMIT_MS))
    }
}

/// Upper bound on how long a put stays appended but unsynced.
const LONGEST_COMMIT_MS: u64 = 60_000;

/// Records of one version in staging.
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

/// Why a staged version can't be listed.
struct Unlistable {
    why: Unlisted,
    /// Name and version number, if the record can be read.
    known_as: Option<(ObjectName, u64)>,
    created_ms: u64,
}

/// Selects object records by segment and by position in the segment.
type IsWanted<'a> = &'a dyn Fn(u64, u64) -> bool;

impl Archive {
    /// Scans segments. Only versions whose object record `is_wanted` are returned.
    pub(super) fn scan_staging(&self, segments: &[u64], is_wanted: IsWanted<'_>, watcher: &dyn Watcher) -> Result<Scanned, ArchiveError> {
        let mut parts: BTreeMap<VersionId, StagedParts> = BTreeMap::new();
        let mut scanned = Scanned::default();
        for &segment in segments {
            self.scan_one(segment, watcher, &mut |record| {
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
        }
        for (id, mut parts) in parts {
            // Without its object record, the put never finished.
            let Some((head, segment)) = parts.record else { continue };
            if !is_wanted(segment, head.position) {
                continue;
            }
            if scanned.tombstones.contains_key(&id) {
                scanned.removed += 1;
                continue;
            }
            parts.data.sort_by_key(|data| data.stored_offset);
            match self.staged_version(id, &parts, watcher)? {
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
        &self,
        id: VersionId,
        parts: &StagedParts,
        watcher: &dyn Watcher,
    ) -> Result<Result<NewVersion, Unlistable>, ArchiveError> {
        let (head, segment) = parts.record.expect("the caller has looked");
        let record_place = StagedPlace { segment, offset: head.payload_position(), bytes: head.payload_bytes, crc64: head.crc64 };
        let mut payload = Vec::new();
        self.staging().read(record_place, &mut payload)?;
        let record = match self.open_record(id, head.sealed, &payload, watcher)? {
            OpenedRecord::Record(record) => record,
            OpenedRecord::NoKey => return Ok(Err(Unlistable { why: Unlisted::NoKey, known_as: None, created_ms: 0 })),
            OpenedRecord::Unreadable => {
                return Ok(Err(Unlistable { why: Unlisted::UnreadableRecord, known_as: None, created_ms: 0 }));
            }
        };
        let end = parts.data.iter().try_fold(0, |end, data| (data.stored_offset == end).then_some(end + u64::from(data.place.bytes)));
        if end != Some(head.offset) || stored_bytes(record.size) != head.offset {
            let known_as = Some((record.name, record.version));
            return Ok(Err(Unlistable { why: Unlisted::Incomplete, known_as, created_ms: record.created_ms }));
        }
        let data = parts.data.clone();
        Ok(Ok(NewVersion { id, record, sealed: head.sealed, stored_bytes: head.offset, record_place, data }))
    }

    /// Reads the records of one segment.
    fn scan_one(&self, segment: u64, watcher: &dyn Watcher, on_record: &mut dyn FnMut(RecordHead)) -> Result<(), ArchiveError> {
        match self.staging().scan(segment, true, on_record)? {
            // The unreadable part may have been acknowledged, so the segment must stay.
            Ok(SegmentScan { unreadable: Some(source), .. }) => return Err(self.staging().read_error(segment, source).into()),
            Ok(scan) if !scan.damaged.is_empty() => {
                let text = format!("staging segment {segment:016x} is damaged in {} places", scan.damaged.len());
                watcher.trouble(Trouble::Note { text: &text });
            }
            Ok(_) => {}
            Err(SegmentError::OtherArchive { found, .. }) => return Err(ArchiveError::ForeignSegment { segment, found }),
            // A crash right after the file was created leaves such a file.
            Err(error @ (SegmentError::NotASegment | SegmentError::Checksum)) => {
                watcher.trouble(Trouble::Note { text: &format!("staging segment {segment:016x}: {error}") });
            }
            Err(source) => return Err(ArchiveError::UnusableSegment { segment, source }),
        }
        Ok(())
    }

    /// Acknowledges versions that are complete in staging but unknown to the catalogue, and
    /// truncates each segment after its acknowledged records.
    ///
    /// A crash between the last sync and the catalogue's transaction leaves such versions. With an
    /// old copy of the catalogue, they are all versions put since the copy was made. They are
    /// acknowledged before anything new is put, so that each keeps its number.
    ///
    /// A version without a key is never dropped: keys are stored before records, so its key was
    /// lost. The tombstone of a removed version stays in the catalogue as long as the version's
    /// segment may exist. A tombstone that the catalogue doesn't know counts only if the key of its
    /// version is gone, because keys are destroyed after the catalogue has acknowledged the
    /// removal. Otherwise the removal was never acknowledged.
    pub(crate) fn adopt_staged(&self, there: &[u64], used: &[u64]) -> Result<(), ArchiveError> {
        let ends: HashMap<u64, u64> = self.catalogue().segment_ends()?.into_iter().map(|end| (end.segment, end.bytes)).collect();
        let mut tails = Vec::new();
        for &segment in used {
            if let Some(&end) = ends.get(&segment)
                && self.staging().length(segment)? > end
            {
                tails.push(segment);
            }
        }
        let unknown = there.iter().copied().filter(|segment| used.binary_search(segment).is_err());
        let mut new: Vec<u64> = unknown.chain(tails.iter().copied()).collect();
        new.sort_unstable();
        if new.is_empty() {
            return Ok(());
        }
        let is_new = |segment: u64, position: u64| match ends.get(&segment) {
            Some(&end) => position >= end,
            None => used.binary_search(&segment).is_err(),
        };
        let mut scanned = self.scan_staging(&new, &is_new, &Unwatched)?;
        if scanned.unlisted.iter().any(|version| version.why == Unlisted::Incomplete) {
            // The missing parts may be in other segments.
            scanned = self.scan_staging(there, &is_new, &Unwatched)?;
        }
        let known: Vec<VersionId> = self.catalogue().staged_tombstones()?.into_iter().map(|tombstone| tombstone.id).collect();
        // By a tombstone in staging or on platters: a rebuild drops such versions, and their
        // segments may still exist.
        let mut removed: HashSet<VersionId> = HashSet::new();
        for id in scanned.versions.iter().map(|version| version.id).chain(scanned.unlisted.iter().map(|version| version.id)) {
            if self.catalogue().is_removed(id)? {
                removed.insert(id);
            }
        }
        let is_removed = |id: &VersionId| removed.contains(id);
        let mut unlisted = std::mem::take(&mut scanned.unlisted);
        unlisted.retain(|version| {
            let is_torn = version.why == Unlisted::Incomplete && !scanned.was_acknowledged(version.id);
            !is_torn && !is_removed(&version.id)
        });
        scanned.unlisted = unlisted;
        scanned.versions.retain(|version| !is_removed(&version.id));
        // End of the records to keep, for each tail.
        let mut kept: HashMap<u64, u64> = tails.iter().map(|segment| (*segment, ends[segment])).collect();
        for version in &scanned.versions {
            for place in version.data.iter().map(|data| data.place).chain([version.record_place]) {
                if let Some(end) = kept.get_mut(&place.segment) {
                    let after = place.offset + u64::from(place.bytes).next_multiple_of(fulgurite_format::HEAD_BYTES as u64);
                    *end = after.max(*end);
                }
            }
        }
        for segment in scanned.unlisted.iter().flat_map(|version| &version.segments) {
            kept.remove(segment);
        }
        let completed = self.completed_removals(&scanned.tombstones, &known)?;
        for tombstone in &completed {
            kept.remove(&tombstone.segment);
        }
        if !completed.is_empty() {
            let removed = self.rows_of(&completed)?;
            self.catalogue().commit_delete(&removed, &completed)?;
        }
        let found: Vec<FoundVersion> = scanned.versions.into_iter().map(FoundVersion::Staged).collect();
        for batch in found.chunks(BATCH) {
            self.catalogue().adopt_versions(batch)?;
        }
        for batch in scanned.unlisted.chunks(BATCH) {
            self.catalogue().adopt_unlisted(batch)?;
        }
        let kept: Vec<SegmentEnd> = kept.into_iter().map(|(segment, bytes)| SegmentEnd { segment, bytes }).collect();
        kept.iter().try_for_each(|&end| self.staging().cut(end))?;
        Ok(self.catalogue().record_segment_ends(&kept)?)
    }

    /// Tombstones that the catalogue doesn't know although their removals were acknowledged.
    fn completed_removals(&self, found: &HashMap<VersionId, u64>, known: &[VersionId]) -> Result<Vec<StagedTombstone>, ArchiveError> {
        let mut completed = Vec::new();
        // In an archive without keys, an acknowledged removal can't be told from an unacknowledged
        // one.
        if self.encrypts() {
            for (&id, &segment) in found {
                if known.binary_search(&id).is_err() && matches!(self.keys().get(id), Ok(None)) {
                    completed.push(StagedTombstone { id, segment });
                }
            }
        }
        Ok(completed)
    }

    /// The sealed versions in the catalogue that these tombstones remove. Scans the whole
    /// catalogue, which is fine because old copies of a catalogue are rare.
    fn rows_of(&self, tombstones: &[StagedTombstone]) -> Result<Vec<VersionKey>, ArchiveError> {
        let ids: HashSet<VersionId> = tombstones.iter().map(|tombstone| tombstone.id).collect();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.catalogue().list(b"", Versions::All, after.as_ref(), BATCH)?;
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(After::row(last));
            found.extend(page.iter().filter(|row| row.sealed && ids.contains(&row.id)).map(|row| row.key));
        }
    }

    /// Truncates unacknowledged records from these segments after a failed commit. Otherwise a
    /// version whose put returned an error could reappear under a number that another version has
    /// taken since. The segments must have no writer.
    pub(crate) fn cut_unacknowledged(&self, segments: Range<u64>) -> Result<(), ArchiveError> {
        let ends = self.catalogue().segment_ends()?;
        for end in ends.into_iter().filter(|end| segments.contains(&end.segment)) {
            if self.staging().length(end.segment)? > end.bytes {
                self.staging().cut(end)?;
            }
        }
        Ok(())
    }
}
