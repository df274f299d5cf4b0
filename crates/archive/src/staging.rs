//! Staging: where objects wait until their platters are verified. Until then it holds the only copy.
//!
//! Objects are appended to segments, many to a file. Segments are closed when they are long, when the writer goes, and never appended to
//! again: so a tail that was torn in a crash stays behind, unacknowledged, and is nobody's concern but a rebuild's. A segment is
//! removed when the catalogue says that nothing in it is staged any more (I1).

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::{HEAD_BYTES, RecordHead, RecordKind, SegmentHead};

use crate::catalogue::StagedPlace;
use crate::volume::{Appending, Volume, VolumeFile};

/// Segments kept open for reading.
const OPEN_SEGMENTS: usize = 32;

/// What can go wrong in staging.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// Writing failed. What was acknowledged before is safe.
    #[error("staging {place} can't be written: {source}")]
    Write {
        /// Where staging is.
        place: String,
        /// What the system says.
        source: io::Error,
    },
    /// A segment can't be read.
    #[error("staging segment {segment:016x} in {place} can't be read: {source}")]
    Read {
        /// Where staging is.
        place: String,
        /// Number of the segment.
        segment: u64,
        /// What the system says.
        source: io::Error,
    },
    /// A segment holds something else than was written.
    #[error("staging segment {segment:016x} in {place} is damaged at byte {offset}")]
    Damaged {
        /// Where staging is.
        place: String,
        /// Number of the segment.
        segment: u64,
        /// Where the damaged payload starts.
        offset: u64,
    },
}

/// The staging folder of an archive.
pub struct Staging {
    volume: Arc<dyn Volume>,
    archive: ArchiveId,
    segment_bytes: u64,
    open: Mutex<HashMap<u64, Arc<dyn VolumeFile>>>,
    /// Held by whoever writes.
    writer: Mutex<()>,
    /// The first segment that the writer may have written to; `u64::MAX` if there is none.
    writing_from: AtomicU64,
    /// Numbers below this were given out. None is given out twice while a reader may have a place in the old segment of that number.
    next: AtomicU64,
    /// Held by whoever removes segments.
    releaser: Mutex<()>,
}

impl Staging {
    /// Staging of `archive` in a volume, in segments of about `segment_bytes`.
    #[must_use]
    pub fn new(volume: Arc<dyn Volume>, archive: ArchiveId, segment_bytes: u64) -> Self {
        Self {
            volume,
            archive,
            segment_bytes,
            open: Mutex::new(HashMap::new()),
            writer: Mutex::new(()),
            writing_from: AtomicU64::new(u64::MAX),
            next: AtomicU64::new(1),
            releaser: Mutex::new(()),
        }
    }

    /// Where it is, for people.
    #[must_use]
    pub fn place(&self) -> String {
        self.volume.describe()
    }

    /// Bytes that can still be staged, where that is known.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        self.volume.free_bytes()
    }

    /// Numbers of the segments that are there, ascending.
    ///
    /// # Errors
    /// [`StagingError::Write`] if the folder can't be listed.
    pub fn segments(&self) -> Result<Vec<u64>, StagingError> {
        let names = self.volume.list("").map_err(|source| self.write_error(source))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| parse_name(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Begins to write: segments from here on belong to the writer, until the guard goes. Waits for the writer before, if there is one.
    ///
    /// # Errors
    /// [`StagingError::Write`] if the folder can't be listed.
    pub fn begin(&self) -> Result<Writing<'_>, StagingError> {
        let alone = self.writer.lock().expect("no panic holds this lock");
        let first = self.segments()?.last().map_or(1, |last| last + 1).max(self.next.load(Ordering::SeqCst));
        self.writing_from.store(first, Ordering::SeqCst);
        Ok(Writing { staging: self, first, _alone: alone })
    }

    /// Opens a segment to be read.
    ///
    /// # Errors
    /// [`StagingError::Read`].
    pub fn open(&self, segment: u64) -> Result<Arc<dyn VolumeFile>, StagingError> {
        let mut open = self.open.lock().expect("no panic holds this lock");
        if let Some(file) = open.get(&segment) {
            return Ok(file.clone());
        }
        let file = self.volume.open(&file_name(segment)).map_err(|source| self.read_error(segment, source))?;
        let file: Arc<dyn VolumeFile> = Arc::from(file);
        if open.len() >= OPEN_SEGMENTS {
            open.clear();
        }
        open.insert(segment, file.clone());
        Ok(file)
    }

    /// Reads a payload in place of what `payload` holds, and checks it.
    ///
    /// # Errors
    /// [`StagingError::Damaged`] if it isn't what was written.
    pub fn read(&self, place: StagedPlace, payload: &mut Vec<u8>) -> Result<(), StagingError> {
        self.read_once(place, payload).or_else(|_| {
            // It may be the file of an old segment of that number that was kept open: another process has released it since, and begun anew.
            self.open.lock().expect("no panic holds this lock").remove(&place.segment);
            self.read_once(place, payload)
        })
    }

    fn read_once(&self, place: StagedPlace, payload: &mut Vec<u8>) -> Result<(), StagingError> {
        let file = self.open(place.segment)?;
        payload.resize(place.bytes as usize, 0);
        self.read_part(&*file, place, 0, payload)?;
        if crc64(payload) != place.crc64 {
            return Err(self.damaged(place));
        }
        Ok(())
    }

    /// Reads a part of a payload from its segment, from `start` on, unchecked: the segment may even be an old one that had the same number.
    /// [`read`](Self::read) is for what turns out to be wrong.
    ///
    /// # Errors
    /// [`StagingError::Damaged`] if the segment ends before.
    pub fn read_part(&self, segment: &dyn VolumeFile, place: StagedPlace, start: usize, mut out: &mut [u8]) -> Result<(), StagingError> {
        let mut at = place.offset + start as u64;
        while !out.is_empty() {
            match segment.read_at(at, out).map_err(|source| self.read_error(place.segment, source))? {
                0 => return Err(self.damaged(place)),
                read => (at, out) = (at + read as u64, &mut out[read..]),
            }
        }
        Ok(())
    }

    fn damaged(&self, place: StagedPlace) -> StagingError {
        StagingError::Damaged { place: self.place(), segment: place.segment, offset: place.offset }
    }

    /// Asks the system to forget what it has of the segments in memory: they were read for the last time.
    pub(crate) fn forget_cached(&self) {
        for segment in self.segments().unwrap_or_default() {
            if let Ok(file) = self.open(segment) {
                file.forget_cached();
            }
        }
    }

    /// Removes the segments that the catalogue has no use for (I1); `used` asks it, and gives their numbers in order. Those of a put in progress
    /// stay, since what is in them may be acknowledged any moment.
    ///
    /// # Errors
    /// [`StagingError::Write`], or what `used` says.
    pub fn release<E: From<StagingError>>(&self, used: impl FnOnce() -> Result<Vec<u64>, E>) -> Result<(), E> {
        let _alone = self.releaser.lock().expect("no panic holds this lock");
        // In this order. A put that begins from here on writes to segments that are not on the list; one that goes on protects its own; and one
        // that has ended is in what the catalogue says.
        let there = self.segments()?;
        let writing_from = self.writing_from.load(Ordering::SeqCst);
        let used = used()?;
        let unused: Vec<u64> =
            there.into_iter().filter(|segment| *segment < writing_from && used.binary_search(segment).is_err()).collect();
        for &segment in &unused {
            match self.volume.remove(&file_name(segment)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.write_error(error).into()),
                _ => {}
            }
            self.open.lock().expect("no panic holds this lock").remove(&segment);
        }
        if !unused.is_empty() {
            // A segment that came back would be taken for what is staged, by a rebuild of the catalogue.
            self.volume.sync_directory("").map_err(|source| self.write_error(source))?;
        }
        Ok(())
    }

    fn write_error(&self, source: io::Error) -> StagingError {
        StagingError::Write { place: self.place(), source }
    }

    fn read_error(&self, segment: u64, source: io::Error) -> StagingError {
        StagingError::Read { place: self.place(), segment, source }
    }
}

fn file_name(segment: u64) -> String {
    format!("{segment:016x}.segment")
}

fn parse_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".segment")?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// A put in progress.
pub struct Writing<'a> {
    staging: &'a Staging,
    first: u64,
    _alone: MutexGuard<'a, ()>,
}

impl<'a> Writing<'a> {
    /// The writer. Records may be acknowledged while this guard is there, even after the writer went.
    #[must_use]
    pub fn writer(&self) -> SegmentWriter<'a> {
        SegmentWriter { staging: self.staging, next: self.first, current: None, tombstones: None, unsynced: Vec::new() }
    }
}

impl Writing<'_> {
    /// From here on, only segments from `segment` on may hold something that is yet to be acknowledged.
    pub fn keep_from(&self, segment: u64) {
        self.staging.writing_from.fetch_max(segment, Ordering::AcqRel);
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.staging.writing_from.store(u64::MAX, Ordering::SeqCst);
    }
}

/// Makes staged records survive a crash, see [`SegmentWriter::unsynced`].
pub struct Unsynced {
    files: Vec<Arc<dyn VolumeFile>>,
    place: String,
}

impl Unsynced {
    /// Syncs what was appended.
    ///
    /// # Errors
    /// [`StagingError::Write`]; nothing of it may be acknowledged then.
    pub fn sync(self) -> Result<(), StagingError> {
        for file in self.files {
            file.sync().map_err(|source| StagingError::Write { place: self.place.clone(), source })?;
        }
        Ok(())
    }
}

/// Appends records. There is one writer at a time.
pub struct SegmentWriter<'a> {
    staging: &'a Staging,
    next: u64,
    current: Option<Segment>,
    /// Tombstones have segments of their own, numbered behind those of what they remove: so a segment is never kept for tombstones alone that
    /// still holds what was removed.
    tombstones: Option<Segment>,
    /// Segments with bytes that were written and not yet handed out to be synced.
    unsynced: Vec<Arc<dyn VolumeFile>>,
}

struct Segment {
    number: u64,
    appending: Appending,
    /// Whether something was appended since its file was last handed out to be synced.
    dirty: bool,
    allocated: u64,
}

impl SegmentWriter<'_> {
    /// Appends a record and says where its payload is. It may still be in memory.
    ///
    /// # Errors
    /// [`StagingError::Write`].
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

    /// [`append`](Self::append), where the checksum of the payload is known.
    ///
    /// # Errors
    /// [`StagingError::Write`].
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
        append(self).map_err(|source| staging.write_error(source))
    }

    /// The lowest number of a segment that is appended to, or would be next.
    #[must_use]
    pub fn segment_number(&self) -> u64 {
        self.current.iter().chain(&self.tombstones).map(|segment| segment.number).min().unwrap_or(self.next)
    }

    /// Writes out what is in memory and hands over what has to be synced before anything appended so far may be acknowledged.
    ///
    /// # Errors
    /// [`StagingError::Write`].
    pub fn unsynced(&mut self) -> Result<Unsynced, StagingError> {
        for segment in self.current.iter_mut().chain(&mut self.tombstones) {
            segment.appending.write_out().map_err(|source| self.staging.write_error(source))?;
            if std::mem::take(&mut segment.dirty) {
                self.unsynced.push(segment.appending.file().clone());
            }
        }
        Ok(Unsynced { files: std::mem::take(&mut self.unsynced), place: self.staging.place() })
    }

    /// The segment that the next record goes to.
    fn segment(&mut self, kind: RecordKind, payload: usize) -> io::Result<&mut Segment> {
        let of_tombstones = kind == RecordKind::Tombstone;
        let data_number = self.current.as_ref().map_or(0, |segment| segment.number);
        let open = if of_tombstones { &mut self.tombstones } else { &mut self.current };
        let is_full = |segment: &Segment| {
            let end = segment.appending.length();
            end + (HEAD_BYTES + payload) as u64 > self.staging.segment_bytes && end > HEAD_BYTES as u64
        };
        if let Some(segment) = open.as_mut()
            && (is_full(segment) || (of_tombstones && segment.number < data_number))
        {
            segment.appending.write_out()?;
            if segment.dirty {
                self.unsynced.push(segment.appending.file().clone());
            }
            segment.trim();
            *open = None;
        }
        if open.is_none() {
            let number = self.next;
            let file: Arc<dyn VolumeFile> = Arc::from(self.staging.volume.create_appended(&file_name(number))?);
            self.next += 1;
            self.staging.next.fetch_max(self.next, Ordering::SeqCst);
            // Room for the whole segment makes each sync cheaper, since the file's blocks don't change with it. Tombstones are few.
            let allocated = if of_tombstones { 0 } else { self.staging.segment_bytes };
            if let Err(error) = file.allocate(allocated).and_then(|()| self.staging.volume.sync_directory("")) {
                let _ = self.staging.volume.remove(&file_name(number));
                return Err(error);
            }
            let head = SegmentHead { archive: self.staging.archive, number };
            let mut appending = Appending::new(file);
            appending.append(&head.to_bytes())?;
            *open = Some(Segment { number, appending, dirty: true, allocated });
        }
        Ok(open.as_mut().expect("just made"))
    }
}

impl Segment {
    /// Gives back the room that wasn't needed.
    fn trim(&mut self) {
        let length = self.appending.length();
        if self.allocated > length {
            // Only room is lost if it fails.
            let _ = self.appending.file().set_length(length);
        }
    }
}

impl Drop for SegmentWriter<'_> {
    fn drop(&mut self) {
        for segment in self.current.iter_mut().chain(&mut self.tombstones).filter(|segment| segment.appending.is_written()) {
            segment.trim();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::FolderVolume;

    #[test]
    fn a_reader_finds_what_another_process_staged_under_a_number_that_was_released() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let open = || Staging::new(Arc::new(FolderVolume::new(folder.path())), ArchiveId([1; 16]), 1 << 20);
        let stage = |payload: &[u8]| {
            let staging = open();
            let writing = staging.begin().expect("begun");
            let mut writer = writing.writer();
            let place = writer.append(RecordKind::Data, VersionId([2; 16]), 0, false, payload).expect("appended");
            writer.unsynced().and_then(Unsynced::sync).expect("synced");
            place
        };
        let reader = open();
        let mut payload = Vec::new();
        for content in [&b"old"[..], b"new", b"newer, and longer"] {
            let place = stage(content);
            assert_eq!(place.segment, 1);
            reader.read(place, &mut payload).expect("read");
            assert_eq!(payload, content);
            open().release(|| Ok::<_, StagingError>(Vec::new())).expect("released");
        }
    }
}
