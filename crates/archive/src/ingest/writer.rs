//! The writer: appends pieces to staging in the order of arrival, and collects complete objects in
//! batches.

use std::collections::HashMap;

use fulgurite_domain::{ObjectName, ObjectRecord, VersionId};
use fulgurite_format::{HEAD_BYTES, RecordKind, WrappedKey, encode_record};

use super::batch::Batch;
use super::{Buffers, Draft, Piece};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{NewVersion, StagedData, StagedTombstone, VersionRow, VersionRowId};
use crate::staging::{SegmentWriter, Writing};

/// A batch with this many objects and removals is full.
pub(super) const COMMIT_OBJECTS: usize = 4_096;
/// A batch is also full after this many bytes of pieces and records.
const COMMIT_BYTES: u64 = 64 << 20;

pub(super) struct PieceWriter<'a> {
    archive: &'a Archive,
    writer: SegmentWriter<'a>,
    buffers: &'a Buffers,
    /// Staged pieces of objects that are not complete yet.
    open: HashMap<VersionId, Vec<StagedData>>,
    numbers: Numbers,
    batch: Batch,
    /// Complete objects, in order. Their records are appended with their batch, after their keys
    /// are durable.
    complete: Vec<Complete>,
    /// The first `keyed` of `complete` have their keys stored.
    keyed: usize,
    /// Removed versions without a replacement.
    removed: Vec<VersionId>,
    /// True if the next batch closes its segments, so that a flush can release them while the put
    /// goes on.
    pub(super) close_segments_next: bool,
    /// Bytes of pieces and records since the last batch was taken.
    bytes: u64,
}

/// An object whose record is not in staging yet.
struct Complete {
    id: VersionId,
    record: ObjectRecord,
    sealed_record: Vec<u8>,
    wrapped: Option<WrappedKey>,
    stored_bytes: u64,
    data: Vec<StagedData>,
    replaced: Vec<(VersionRowId, VersionId)>,
}

impl Complete {
    /// Space that its record needs in staging, including the head of a segment that it may have to
    /// begin.
    fn record_bytes(&self) -> u64 {
        (self.sealed_record.len().next_multiple_of(HEAD_BYTES) + 2 * HEAD_BYTES) as u64
    }
}

impl<'a> PieceWriter<'a> {
    pub(super) fn new(archive: &'a Archive, writing: &Writing<'a>, buffers: &'a Buffers) -> Self {
        Self {
            archive,
            writer: writing.writer(),
            buffers,
            open: HashMap::new(),
            numbers: Numbers::default(),
            batch: Batch::default(),
            complete: Vec::new(),
            keyed: 0,
            removed: Vec::new(),
            close_segments_next: false,
            bytes: 0,
        }
    }

    pub(super) fn append(&mut self, piece: Piece) -> Result<(), ArchiveError> {
        match piece {
            Piece::Data { id, stored_offset, sealed, payload, crc64 } => {
                self.bytes += payload.len() as u64;
                let appended = self.writer.append_checked(RecordKind::Data, id, stored_offset, sealed, &payload, crc64);
                self.buffers.give_back(payload);
                self.open.entry(id).or_default().push(StagedData { stored_offset, place: appended? });
            }
            Piece::Abandoned(id) => {
                self.open.remove(&id);
            }
        }
        Ok(())
    }

    /// Completes an object, and removes `replaced` in the same transaction. Returns the space that
    /// its record will take in staging, or `None` if pieces are missing; the pieces that came are
    /// given up.
    pub(super) fn complete_object(&mut self, draft: Draft, replaced: &[VersionRow]) -> Result<Option<u64>, ArchiveError> {
        let Draft { id, frames, wrapped, mut record, stored_bytes } = draft;
        let data = self.open.remove(&id).unwrap_or_default();
        if StagedData::end_of(&data) != Some(stored_bytes) {
            return Ok(None);
        }
        record.version = self.numbers.next(self.archive, &record.name)?;
        let sealed_record = frames.seal_record(&encode_record(&record));
        let replaced = replaced.iter().map(|version| (version.row_id, version.id)).collect();
        let complete = Complete { id, record, sealed_record, wrapped, stored_bytes, data, replaced };
        let record_bytes = complete.record_bytes();
        self.bytes += record_bytes;
        self.complete.push(complete);
        Ok(Some(record_bytes))
    }

    pub(super) fn remove(&mut self, versions: &[VersionRow]) {
        self.batch.change.forgotten.extend(versions.iter().map(|version| version.row_id));
        self.removed.extend(versions.iter().map(|version| version.id));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    fn waiting(&self) -> usize {
        self.complete.len() + self.batch.change.forgotten.len()
    }

    /// True if enough is waiting for a commit.
    pub(super) fn is_full(&self) -> bool {
        self.waiting() >= COMMIT_OBJECTS || (self.bytes >= COMMIT_BYTES && !self.is_empty())
    }

    pub(super) fn has_keys_to_store(&self) -> bool {
        self.keyed < self.complete.len()
    }

    /// Stores the keys of the complete objects. While the previous batch is being committed, this
    /// adds no latency.
    pub(super) fn store_keys(&mut self) -> Result<(), ArchiveError> {
        let fresh = &self.complete[self.keyed..];
        let keys: Vec<_> = fresh.iter().filter_map(|object| object.wrapped.map(|key| (object.id, key))).collect();
        if !keys.is_empty() {
            self.archive.keys().insert(&keys)?;
        }
        self.keyed = self.complete.len();
        Ok(())
    }

    /// Takes the next batch: the objects whose keys are stored, or all objects if none are, and all
    /// removals.
    ///
    /// Keys come first: a staged record whose key was not yet stored would look like one whose key
    /// was lost. Tombstones come last: they must not be synced before the versions that replace the
    /// removed ones.
    pub(super) fn take_batch(&mut self) -> Result<Batch, ArchiveError> {
        if self.keyed == 0 {
            self.store_keys()?;
        }
        let mut removed = std::mem::take(&mut self.removed);
        let complete: Vec<Complete> = self.complete.drain(..std::mem::take(&mut self.keyed)).collect();
        for object in complete {
            let Complete { id, record, sealed_record, wrapped, stored_bytes, data, replaced } = object;
            let sealed = wrapped.is_some();
            let record_place = self.writer.append(RecordKind::Object, id, stored_bytes, sealed, &sealed_record)?;
            self.batch.change.staged.push(NewVersion { id, record, sealed, stored_bytes, record_place, data });
            self.batch.change.forgotten.extend(replaced.iter().map(|(row_id, _)| *row_id));
            removed.extend(replaced.into_iter().map(|(_, id)| id));
        }
        for id in removed {
            let place = self.writer.append(RecordKind::Tombstone, id, 0, false, &[])?;
            self.batch.change.tombstones.push(StagedTombstone { id, segment: place.segment });
        }
        if std::mem::take(&mut self.close_segments_next) {
            self.writer.close_segments()?;
        }
        self.batch.change.ends = self.writer.ends();
        self.batch.unsynced = Some(self.writer.unsynced()?);
        let left = self.complete.iter().map(|object| &object.data);
        let begun = self.open.values().chain(left).filter_map(|data| data.first()).map(|data| data.place.segment).min();
        self.batch.keep_from = begun.unwrap_or(u64::MAX).min(self.writer.segment_number());
        self.numbers.batch_taken();
        self.bytes = 0;
        Ok(std::mem::take(&mut self.batch))
    }
}

/// Highest version number per name, including uncommitted ones.
///
/// Two generations are enough. A put of files has up to two uncommitted batches, one queued and one
/// being committed, and leaves no object behind. An intake has only one, but can leave behind
/// objects whose keys aren't stored yet; their numbers are collected with the batch that left them,
/// and they are in the next one.
#[derive(Default)]
struct Numbers {
    collecting: HashMap<ObjectName, u64>,
    in_commit: [HashMap<ObjectName, u64>; 2],
}

impl Numbers {
    fn next(&mut self, archive: &Archive, name: &ObjectName) -> Result<u64, ArchiveError> {
        let pending = std::iter::once(&self.collecting).chain(&self.in_commit).find_map(|numbers| numbers.get(name).copied());
        let latest = match pending {
            Some(number) => number,
            None => archive.reading().latest_number(name)?.unwrap_or(0),
        };
        self.collecting.insert(name.clone(), latest + 1);
        Ok(latest + 1)
    }

    fn batch_taken(&mut self) {
        self.in_commit.rotate_right(1);
        self.in_commit[0] = std::mem::take(&mut self.collecting);
    }
}
