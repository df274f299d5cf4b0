//! The writer: pieces go to staging in the order they come, and what is complete gathers in a batch.

use std::collections::HashMap;

use fulgurite_domain::{ObjectName, VersionId};
use fulgurite_format::{RecordKind, encode_record};

use super::{Buffers, Draft, Piece};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Change, NewVersion, StagedData, StagedTombstone, VersionRow};
use crate::staging::{SegmentWriter, Unsynced, Writing};

/// Objects that share one commit at most.
const COMMIT_OBJECTS: usize = 4_096;
/// Bytes after which a commit is due.
const COMMIT_BYTES: u64 = 64 << 20;

/// What is acknowledged together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) change: Change,
    pub(super) keys: Vec<(VersionId, fulgurite_format::WrappedKey)>,
    pub(super) unsynced: Option<Unsynced>,
    /// The first segment that holds something which is not acknowledged with this batch or before.
    pub(super) keep_from: u64,
}

/// Appends pieces to staging.
pub(super) struct PieceWriter<'a> {
    archive: &'a Archive,
    writer: SegmentWriter<'a>,
    buffers: &'a Buffers,
    /// Data of objects that are not complete.
    open: HashMap<VersionId, Vec<StagedData>>,
    numbers: Numbers,
    batch: Batch,
    bytes: u64,
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
            bytes: 0,
        }
    }

    /// Appends a piece of an object.
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

    /// Completes an object, and removes versions in the same transaction. `false` if not all of its pieces are here: then nothing is done.
    pub(super) fn object(&mut self, draft: Draft, replaced: &[VersionRow]) -> Result<bool, ArchiveError> {
        let Draft { id, frames, wrapped, mut record, stored_bytes } = draft;
        let data = self.open.remove(&id).unwrap_or_default();
        let end = data.iter().try_fold(0, |end, part| (part.stored_offset == end).then_some(end + u64::from(part.place.bytes)));
        if end != Some(stored_bytes) {
            return Ok(false);
        }
        let tombstones = self.tombstones(replaced)?;
        record.version = self.numbers.next(self.archive, &record.name)?;
        let sealed = wrapped.is_some();
        let payload = frames.seal_record(&encode_record(&record));
        let record_place = self.writer.append(RecordKind::Object, id, stored_bytes, sealed, &payload)?;
        self.batch.keys.extend(wrapped.map(|key| (id, key)));
        self.batch.change.staged.push(NewVersion { id, record, sealed, stored_bytes, record_place, data });
        self.forget(replaced, tombstones);
        Ok(true)
    }

    /// Removes versions.
    pub(super) fn remove(&mut self, versions: &[VersionRow]) -> Result<(), ArchiveError> {
        let tombstones = self.tombstones(versions)?;
        self.forget(versions, tombstones);
        Ok(())
    }

    fn tombstones(&mut self, versions: &[VersionRow]) -> Result<Vec<StagedTombstone>, ArchiveError> {
        let mut append = |version: &VersionRow| {
            let place = self.writer.append(RecordKind::Tombstone, version.id, 0, false, &[])?;
            Ok(StagedTombstone { id: version.id, segment: place.segment })
        };
        versions.iter().map(&mut append).collect()
    }

    fn forget(&mut self, versions: &[VersionRow], tombstones: Vec<StagedTombstone>) {
        self.batch.change.forgotten.extend(versions.iter().map(|version| version.key));
        self.batch.change.tombstones.extend(tombstones);
    }

    /// Whether nothing waits to be committed.
    pub(super) fn is_empty(&self) -> bool {
        self.batch.change.is_empty()
    }

    /// Whether what waits is enough for a commit.
    pub(super) fn is_full(&self) -> bool {
        self.batch.change.len() >= COMMIT_OBJECTS || (self.bytes >= COMMIT_BYTES && !self.is_empty())
    }

    /// The batch that was gathered; another one begins.
    pub(super) fn take_batch(&mut self) -> Result<Batch, ArchiveError> {
        self.batch.unsynced = Some(self.writer.unsynced()?);
        let begun = self.open.values().filter_map(|data| data.first()).map(|data| data.place.segment).min();
        self.batch.keep_from = begun.unwrap_or(u64::MAX).min(self.writer.segment_number());
        self.numbers.hand_over();
        self.bytes = 0;
        Ok(std::mem::take(&mut self.batch))
    }
}

/// Version numbers, including those of batches that aren't committed yet: at most the one being gathered, the one in the queue and the one
/// being committed.
#[derive(Default)]
struct Numbers {
    gathered: HashMap<ObjectName, u64>,
    handed_over: [HashMap<ObjectName, u64>; 2],
}

impl Numbers {
    fn next(&mut self, archive: &Archive, name: &ObjectName) -> Result<u64, ArchiveError> {
        let pending = std::iter::once(&self.gathered).chain(&self.handed_over).find_map(|numbers| numbers.get(name).copied());
        let latest = match pending {
            Some(number) => number,
            None => archive.reading().latest_number(name)?.unwrap_or(0),
        };
        self.gathered.insert(name.clone(), latest + 1);
        Ok(latest + 1)
    }

    fn hand_over(&mut self) {
        self.handed_over.rotate_right(1);
        self.handed_over[0] = std::mem::take(&mut self.gathered);
    }
}
