//! The writer: appends pieces to staging in the order of arrival, and collects complete objects in
//! batches.

use std::collections::HashMap;

use fulgurite_domain::{ObjectName, ObjectRecord, VersionId};
use fulgurite_format::{HEAD_BYTES, RecordKind, WrappedKey, encode_record};

use super::{Buffers, Draft, Piece};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Change, NewVersion, StagedData, StagedTombstone, VersionKey, VersionRow};
use crate::staging::{SegmentWriter, Unsynced, Writing};

/// A batch with this many objects and removals is full.
pub(super) const COMMIT_OBJECTS: usize = 4_096;
/// A batch is full, too, after this many stored bytes.
const COMMIT_BYTES: u64 = 64 << 20;

#[derive(Default)]
pub(super) struct Batch {
    pub(super) change: Change,
    pub(super) unsynced: Option<Unsynced>,
    /// The first segment that has, or may yet get, content that neither this batch nor an earlier
    /// one acknowledges.
    pub(super) keep_from: u64,
}

impl Batch {
    /// Syncs the segments of the batch, and commits it to the catalogue. Then it survives any crash
    /// (I7). Its keys were stored before its records were written.
    pub(super) fn commit(&mut self, archive: &Archive, writing: &Writing<'_>) -> Result<(), ArchiveError> {
        if let Some(unsynced) = self.unsynced.take() {
            unsynced.sync()?;
        }
        archive.catalogue().commit(&self.change)?;
        archive.keys_to_destroy().extend(self.change.tombstones.iter().map(|tombstone| tombstone.id));
        writing.keep_from(self.keep_from);
        Ok(())
    }
}

pub(super) struct PieceWriter<'a> {
    archive: &'a Archive,
    writer: SegmentWriter<'a>,
    buffers: &'a Buffers,
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
    /// Space in staging reserved for the records of complete objects.
    pub(super) reserved_record_bytes: u64,
    /// True if the next batch closes its segments, so that a flush can release them while the put
    /// goes on.
    pub(super) closes: bool,
    /// Stored bytes since the last batch was taken.
    bytes: u64,
}

/// An object whose record is not in staging yet.
struct Complete {
    id: VersionId,
    record: ObjectRecord,
    payload: Vec<u8>,
    wrapped: Option<WrappedKey>,
    stored_bytes: u64,
    data: Vec<StagedData>,
    replaced: Vec<(VersionKey, VersionId)>,
}

impl Complete {
    /// Space that its record needs in staging, including the head of a segment that it may have to
    /// begin.
    fn record_bytes(&self) -> u64 {
        (self.payload.len().next_multiple_of(HEAD_BYTES) + 2 * HEAD_BYTES) as u64
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
            reserved_record_bytes: 0,
            closes: false,
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

    /// Completes an object, and removes `replaced` in the same transaction. Returns `false` and
    /// does nothing if pieces are missing.
    pub(super) fn object(&mut self, draft: Draft, replaced: &[VersionRow]) -> Result<bool, ArchiveError> {
        let Draft { id, frames, wrapped, mut record, stored_bytes } = draft;
        let data = self.open.remove(&id).unwrap_or_default();
        if StagedData::end_of(&data) != Some(stored_bytes) {
            return Ok(false);
        }
        record.version = self.numbers.next(self.archive, &record.name)?;
        let payload = frames.seal_record(&encode_record(&record));
        let replaced = replaced.iter().map(|version| (version.key, version.id)).collect();
        let complete = Complete { id, record, payload, wrapped, stored_bytes, data, replaced };
        self.reserved_record_bytes += complete.record_bytes();
        self.complete.push(complete);
        Ok(true)
    }

    pub(super) fn remove(&mut self, versions: &[VersionRow]) {
        self.batch.change.forgotten.extend(versions.iter().map(|version| version.key));
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

    pub(super) fn wants_keys(&self) -> bool {
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
            let Complete { id, record, payload, wrapped, stored_bytes, data, replaced } = object;
            let sealed = wrapped.is_some();
            let record_place = self.writer.append(RecordKind::Object, id, stored_bytes, sealed, &payload)?;
            self.batch.change.staged.push(NewVersion { id, record, sealed, stored_bytes, record_place, data });
            self.batch.change.forgotten.extend(replaced.iter().map(|(key, _)| *key));
            removed.extend(replaced.into_iter().map(|(_, id)| id));
        }
        for id in removed {
            let place = self.writer.append(RecordKind::Tombstone, id, 0, false, &[])?;
            self.batch.change.tombstones.push(StagedTombstone { id, segment: place.segment });
        }
        if std::mem::take(&mut self.closes) {
            self.writer.close_segments()?;
        }
        self.batch.change.ends = self.writer.ends();
        self.batch.unsynced = Some(self.writer.unsynced()?);
        let left = self.complete.iter().map(|object| &object.data);
        let begun = self.open.values().chain(left).filter_map(|data| data.first()).map(|data| data.place.segment).min();
        self.batch.keep_from = begun.unwrap_or(u64::MAX).min(self.writer.segment_number());
        self.numbers.batch_taken();
        self.bytes = 0;
        self.reserved_record_bytes = self.complete.iter().map(Complete::record_bytes).sum();
        Ok(std::mem::take(&mut self.batch))
    }
}

/// Highest version number per name, including uncommitted ones.
///
/// Two earlier batches can be uncommitted: one in the queue, one being committed. An object that a
/// batch left behind, because its key wasn't stored, is in the very next batch, so its number is
/// dropped only after its own commit.
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
