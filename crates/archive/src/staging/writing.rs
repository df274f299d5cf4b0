//! Writing to staging: one writer at a time appends records to segments.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use fulgurite_codec::checksum::crc64;
use fulgurite_domain::VersionId;
use fulgurite_format::{HEAD_BYTES, RecordHead, RecordKind, SegmentHead};

use super::{Staging, StagingError, file_name};
use crate::catalogue::{SegmentEnd, StagedPlace};
use crate::volume::{Appending, VolumeFile};

/// The right to write to staging, held by one put or removal at a time.
pub struct Writing<'a> {
    pub(super) staging: &'a Staging,
    pub(super) first: u64,
    pub(super) _guard: MutexGuard<'a, ()>,
}

impl<'a> Writing<'a> {
    /// Creates the writer. Its records may be acknowledged as long as this guard lives, even after
    /// the writer is dropped.
    #[must_use]
    pub fn writer(&self) -> SegmentWriter<'a> {
        let staging = self.staging;
        SegmentWriter {
            staging,
            next: self.first,
            current: None,
            tombstones: None,
            unsynced: Vec::new(),
            unsynced_tombstones: Vec::new(),
            closed: Vec::new(),
        }
    }
}

impl Writing<'_> {
    /// Range of segment numbers that this writer may have written to so far.
    #[must_use]
    pub fn segments(&self) -> Range<u64> {
        self.first..self.staging.next.load(Ordering::SeqCst).max(self.first)
    }

    /// Declares that segments below `segment` contain nothing that is still to be acknowledged.
    pub fn keep_from(&self, segment: u64) {
        self.staging.writing_from.fetch_max(segment, Ordering::AcqRel);
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.staging.writing_from.store(u64::MAX, Ordering::SeqCst);
    }
}

/// Files to sync before records are acknowledged, see [`SegmentWriter::unsynced`].
pub struct Unsynced {
    files: Vec<Arc<dyn VolumeFile>>,
    place: String,
}

impl Unsynced {
    /// Syncs all appended records.
    ///
    /// # Errors
    /// [`StagingError::Write`]. None of the records may be acknowledged then.
    pub fn sync(self) -> Result<(), StagingError> {
        for file in self.files {
            file.sync().map_err(|source| StagingError::Write { place: self.place.clone(), source })?;
        }
        Ok(())
    }
}

/// Appends records to segments. Only one writer exists at a time.
pub struct SegmentWriter<'a> {
    staging: &'a Staging,
    next: u64,
    current: Option<Segment>,
    /// Tombstones go to segments of their own, with higher numbers than the segments of the
    /// versions they remove. A segment that still contains removed content is therefore never kept
    /// just for its tombstones.
    tombstones: Option<Segment>,
    /// Closed segments that have not been handed out for syncing yet.
    unsynced: Vec<Arc<dyn VolumeFile>>,
    /// The same for those of tombstones, which are synced after all others.
    unsynced_tombstones: Vec<Arc<dyn VolumeFile>>,
    /// Ends of closed segments that have not been handed out yet.
    closed: Vec<SegmentEnd>,
}

struct Segment {
    number: u64,
    appending: Appending,
    /// True if bytes were appended since the file was last handed out for syncing.
    dirty: bool,
    allocated: u64,
}

impl SegmentWriter<'_> {
    /// Appends a record and returns the place of its payload. The record may still be buffered in
    /// memory.
    ///
    /// # Errors
    /// [`StagingError::Full`] or [`StagingError::Write`].
    pub fn append(
        &mut self,
        kind: RecordKind,
        version: VersionId,
        offset: u64,
        sealed: bool,
        payload: &[u8],
    ) -> Result<StagedPlace, StagingError> {
        self.append_checked(kind, version, offset, sealed, payload, crc64(payload))
    }

    /// Like [`append`](Self::append), with a precomputed checksum of the payload.
    ///
    /// # Errors
    /// [`StagingError::Full`] or [`StagingError::Write`].
    pub fn append_checked(
        &mut self,
        kind: RecordKind,
        version: VersionId,
        offset: u64,
        sealed: bool,
        payload: &[u8],
        crc64: u64,
    ) -> Result<StagedPlace, StagingError> {
        let staging = self.staging;
        let append = |writer: &mut Self| {
            let segment = writer.segment(kind, payload.len())?;
            let position = segment.appending.length();
            let head = RecordHead { kind, version, offset, payload_bytes: payload.len() as u32, sealed, crc64, position };
            segment.dirty = true;
            segment.appending.append(&head.to_bytes(segment.number))?;
            segment.appending.append(payload)?;
            let padding = payload.len().next_multiple_of(HEAD_BYTES) - payload.len();
            segment.appending.append(&[0; HEAD_BYTES][..padding])?;
            let place = StagedPlace { segment: segment.number, offset: position + HEAD_BYTES as u64, bytes: payload.len() as u32, crc64 };
            Ok(place)
        };
        let appended = append(self);
        self.update_spare();
        appended.map_err(|source| staging.append_error((HEAD_BYTES + payload.len()) as u64, source))
    }

    /// Lowest number among the open segments, or the next number if none is open.
    #[must_use]
    pub fn segment_number(&self) -> u64 {
        self.current.iter().chain(&self.tombstones).map(|segment| segment.number).min().unwrap_or(self.next)
    }

    /// Closes the open segments. Later records go to new segments, so that these can be released.
    ///
    /// # Errors
    /// [`StagingError::Full`] or [`StagingError::Write`].
    pub fn close_segments(&mut self) -> Result<(), StagingError> {
        let open = [(self.current.take(), &mut self.unsynced), (self.tombstones.take(), &mut self.unsynced_tombstones)];
        for (segment, unsynced) in open {
            let Some(mut segment) = segment else { continue };
            segment.close(unsynced).map_err(|source| self.staging.append_error(0, source))?;
            self.closed.push(SegmentEnd { segment: segment.number, bytes: segment.appending.length() });
        }
        self.update_spare();
        Ok(())
    }

    /// Current ends of the open segments, and of those closed since the last call.
    pub fn ends(&mut self) -> Vec<SegmentEnd> {
        let open = self.current.iter().chain(&self.tombstones);
        let open = open.map(|segment| SegmentEnd { segment: segment.number, bytes: segment.appending.length() });
        std::mem::take(&mut self.closed).into_iter().chain(open).collect()
    }

    /// Writes buffered records to their files and returns the files to sync before any record
    /// appended so far may be acknowledged, those of tombstones last.
    ///
    /// # Errors
    /// [`StagingError::Full`] or [`StagingError::Write`].
    pub fn unsynced(&mut self) -> Result<Unsynced, StagingError> {
        for (segment, unsynced) in [(&mut self.current, &mut self.unsynced), (&mut self.tombstones, &mut self.unsynced_tombstones)] {
            let Some(segment) = segment else { continue };
            segment.appending.write_out().map_err(|source| self.staging.append_error(0, source))?;
            if std::mem::take(&mut segment.dirty) {
                unsynced.push(segment.appending.file.clone());
            }
        }
        let mut files = std::mem::take(&mut self.unsynced);
        files.append(&mut self.unsynced_tombstones);
        Ok(Unsynced { files, place: self.staging.place() })
    }

    /// Updates the spare space of the open segment. (Segments of tombstones reserve none.)
    fn update_spare(&self) {
        *self.staging.spare() = self.current.as_ref().map_or(0, Segment::spare);
    }

    fn segment(&mut self, kind: RecordKind, payload: usize) -> io::Result<&mut Segment> {
        let of_tombstones = kind == RecordKind::Tombstone;
        let data_number = self.current.as_ref().map_or(0, |segment| segment.number);
        let (open, unsynced) = match of_tombstones {
            true => (&mut self.tombstones, &mut self.unsynced_tombstones),
            false => (&mut self.current, &mut self.unsynced),
        };
        let is_full = |segment: &Segment| {
            let end = segment.appending.length();
            end + (HEAD_BYTES + payload) as u64 > self.staging.segment_bytes && end > HEAD_BYTES as u64
        };
        // Versions in a newer data segment need a newer segment of tombstones.
        let ends = |segment: &Segment| is_full(segment) || (of_tombstones && segment.number < data_number);
        if open.as_ref().is_none_or(ends) {
            let allocated = if of_tombstones { 0 } else { self.staging.allocation() };
            let mut spare = self.staging.spare();
            if let Some(segment) = open.as_mut() {
                segment.close(unsynced)?;
                self.closed.push(SegmentEnd { segment: segment.number, bytes: segment.appending.length() });
                *open = None;
            }
            self.staging.check_still_marked()?;
            let number = self.next;
            // If creating the file fails, it may still exist, so the number is not reused.
            self.next += 1;
            self.staging.next.fetch_max(self.next, Ordering::SeqCst);
            let file: Arc<dyn VolumeFile> = Arc::from(self.staging.volume.create_appended(&file_name(number))?);
            let allocated = match allocate(&*file, allocated).and_then(|room| self.staging.volume.sync_directory("").map(|()| room)) {
                Ok(allocated) => allocated,
                Err(error) => {
                    let _ = self.staging.volume.remove(&file_name(number));
                    return Err(error);
                }
            };
            let head = SegmentHead { archive: self.staging.archive, number };
            let mut appending = Appending::new(file);
            appending.append(&head.to_bytes())?;
            let begun = open.insert(Segment { number, appending, dirty: true, allocated });
            if !of_tombstones {
                *spare = begun.spare();
            }
        }
        Ok(open.as_mut().expect("just made"))
    }
}

/// Reserves space for a file and returns the reserved bytes: 0 if the file system doesn't support
/// it or the disk is too full.
fn allocate(file: &dyn VolumeFile, bytes: u64) -> io::Result<u64> {
    match file.allocate(bytes) {
        // Without the reservation, syncs only cost more.
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            file.set_length(0)?;
            Ok(0)
        }
        allocated => allocated.and_then(|()| Ok(if file.length()? >= bytes { bytes } else { 0 })),
    }
}

impl Segment {
    fn spare(&self) -> i64 {
        self.allocated.max(self.appending.written) as i64 - self.appending.length() as i64
    }

    /// Writes out buffered bytes and frees the unused reservation. The segment is not appended to
    /// afterwards.
    fn close(&mut self, unsynced: &mut Vec<Arc<dyn VolumeFile>>) -> io::Result<()> {
        self.appending.write_out()?;
        if std::mem::take(&mut self.dirty) {
            unsynced.push(self.appending.file.clone());
        }
        self.trim();
        Ok(())
    }

    fn trim(&mut self) {
        let length = self.appending.length();
        if self.allocated > length {
            // A failure only wastes space.
            let _ = self.appending.file.set_length(length);
        }
    }
}

impl Drop for SegmentWriter<'_> {
    fn drop(&mut self) {
        let mut spare = self.staging.spare();
        for segment in self.current.iter_mut().chain(&mut self.tombstones).filter(|segment| segment.appending.is_written()) {
            segment.trim();
        }
        *spare = 0;
    }
}
