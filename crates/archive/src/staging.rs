//! Staging: where objects wait until their platters are verified. Until then it holds the only copy.
//!
//! Objects are appended to segments, many to a file. Segments are closed when they are long, when the writer goes, and never appended to
//! again: so a tail that was torn in a crash stays behind, unacknowledged, and is nobody's concern but a rebuild's. A segment is
//! removed when the catalogue says that nothing in it is staged any more (I1).

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::{HEAD_BYTES, RecordHead, RecordKind, SegmentError, SegmentHead, SegmentScan, scan_segment};

use crate::catalogue::{SegmentEnd, StagedPlace};
use crate::clock::now_ms;
use crate::settings::Settings;
use crate::unread::Hindrance;
use crate::volume::{Appending, FolderVolume, Volume, VolumeFile};

/// Room that a put leaves free, for the catalogue and the keys: without it a flush could not begin
/// on a disk that is full.
const LEFT_FREE_BYTES: u64 = 8 << 20;

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
    /// There is no room left. What was acknowledged before is safe.
    #[error(
        "staging in {place} is full: {needed} more bytes are needed and {free} can be used, since {bound}. \
         `fulgurite flush` writes what is staged to platters and frees its room"
    )]
    Full {
        /// Where staging is.
        place: String,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that can be used.
        free: u64,
        /// What bounds them.
        bound: Bound,
    },
    /// Its folder has no mark.
    #[error(
        "staging ({place}) is absent: no mark of this archive is in it. Is the disk mounted? If it is gone for good, \
         `fulgurite catalogue rebuild --without-unseen` goes on with an empty folder and names what was staged"
    )]
    Absent {
        /// Where staging should be.
        place: String,
    },
    /// Its folder has another mark.
    #[error(
        "staging ({place}) is absent: its folder is marked \"{found}\", and \"{expected}\" is expected. \
         Two archives share one folder, or the settings name the wrong one"
    )]
    Foreign {
        /// Where staging should be.
        place: String,
        /// What the mark says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// Its folder can't be read.
    #[error("staging ({place}) can't be read: {source}")]
    Unreadable {
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

impl StagingError {
    /// What keeps staged bytes from being read that aren't known to be lost; `None` if they are.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Absent { .. } | Self::Foreign { .. } => Some(Hindrance::Absent),
            Self::Unreadable { .. } => Some(Hindrance::Unreadable),
            Self::Read { source, .. } if source.kind() != io::ErrorKind::NotFound => Some(Hindrance::Unreadable),
            Self::Read { .. } | Self::Damaged { .. } | Self::Write { .. } | Self::Full { .. } => None,
        }
    }
}

/// What bounds the room of staging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The limit in the settings.
    Limit {
        /// MiB that it allows.
        mib: u64,
    },
    /// The disk, or a quota on it.
    Disk,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { mib } => write!(f, "the settings limit staging to {mib} MiB (staging.limit_mib)"),
            Self::Disk => f.write_str("its disk has no more room"),
        }
    }
}

/// What bounds further segments. The smaller of the two counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Free {
    /// Free bytes of the disk, where the system tells.
    pub on_disk: Option<u64>,
    /// Bytes that the limit of the settings leaves, where there is one.
    pub within_limit: Option<u64>,
}

/// The staging folder of an archive.
pub struct Staging {
    volume: Arc<dyn Volume>,
    archive: ArchiveId,
    segment_bytes: u64,
    /// The most that segments may take together.
    limit_bytes: Option<u64>,
    /// Room that the segment being written has reserved and doesn't use yet; negative where it has bytes in memory that its file has no room for.
    /// Held while segments are counted or changed, so that both figures are of one instant.
    spare: Mutex<i64>,
    open: Mutex<HashMap<u64, Arc<dyn VolumeFile>>>,
    /// Held by whoever writes.
    writer: Mutex<()>,
    /// The first segment that the writer may have written to; `u64::MAX` if there is none.
    writing_from: AtomicU64,
    /// Numbers below this were given out. None is given out twice while a reader may have a place in the old segment of that number.
    next: AtomicU64,
    /// Held by whoever removes segments.
    releaser: Mutex<()>,
    /// Whether the folder had its mark when the archive was opened for writing.
    marked: AtomicBool,
}

impl Staging {
    /// Staging of `archive` in a volume, in segments of about `segment_bytes`.
    #[must_use]
    pub fn new(volume: Arc<dyn Volume>, archive: ArchiveId, segment_bytes: u64) -> Self {
        Self {
            volume,
            archive,
            segment_bytes,
            limit_bytes: None,
            spare: Mutex::new(0),
            open: Mutex::new(HashMap::new()),
            writer: Mutex::new(()),
            writing_from: AtomicU64::new(u64::MAX),
            next: AtomicU64::new(1),
            releaser: Mutex::new(()),
            marked: AtomicBool::new(false),
        }
    }

    /// Staging in a folder, as the settings say.
    pub(crate) fn in_folder(folder: &Path, settings: &Settings) -> Self {
        Self::new(Arc::new(FolderVolume::new(folder)), settings.archive.id, settings.staging.segment_mib << 20)
    }

    /// The same, taking `limit_bytes` at most.
    #[must_use]
    pub fn limited(self, limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes, ..self }
    }

    /// Where it is, for people.
    #[must_use]
    pub fn place(&self) -> String {
        self.volume.describe()
    }

    /// What bounds further segments: the disk, and the limit of the settings.
    #[must_use]
    pub fn free(&self) -> Free {
        Free { on_disk: self.volume.free_bytes(), within_limit: self.limit_bytes.map(|limit| self.left_of(limit)) }
    }

    /// The most that segments may take together, where the settings bound it.
    #[must_use]
    pub fn limit_bytes(&self) -> Option<u64> {
        self.limit_bytes
    }

    /// Bytes of a limit that no content has taken. Room that the segment being written has reserved is still there for content.
    fn left_of(&self, limit: u64) -> u64 {
        let spare = self.spare();
        limit.saturating_sub(self.taken_bytes()).saturating_add_signed(*spare).min(limit)
    }

    /// Bytes that a put may still stage: with the room that its segments have already, but without
    /// what has to be left free.
    pub(crate) fn room(&self) -> u64 {
        self.bounded_room().0
    }

    /// The room, and what bounds it.
    fn bounded_room(&self) -> (u64, Bound) {
        let spare = self.spare();
        let within = self.limit_bytes.map_or(u64::MAX, |limit| limit.saturating_sub(self.taken_bytes()));
        let on_disk = self.volume.free_bytes().map_or(u64::MAX, |free| free.saturating_sub(LEFT_FREE_BYTES));
        let bound = self.limit_bytes.filter(|_| within <= on_disk).map_or(Bound::Disk, |limit| Bound::Limit { mib: limit >> 20 });
        (within.min(on_disk).saturating_add_signed(*spare), bound)
    }

    fn spare(&self) -> MutexGuard<'_, i64> {
        self.spare.lock().expect("no panic holds this lock")
    }

    /// Length of all segments.
    fn taken_bytes(&self) -> u64 {
        // One that can't be opened was just released.
        let length = |segment| self.open(segment).and_then(|file| file.length().map_err(|error| self.write_error(error))).unwrap_or(0);
        self.segments().unwrap_or_default().into_iter().map(length).sum()
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
        // By the clock: a number that was used before would let an old copy of the catalogue take one segment for another.
        let first = self.segments()?.last().map_or(1, |last| last + 1).max(self.next.load(Ordering::SeqCst)).max(now_ms());
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
        let file = self.volume.open(&file_name(segment)).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if matches!(self.is_marked(), Ok(false)) => self.absent(),
            _ => self.read_error(segment, source),
        })?;
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

    /// Room to be reserved for a new segment: for all of it, which makes each sync cheaper, since
    /// the file's blocks don't change with it. Where little is left, no more than a part of that,
    /// so that it isn't the reservation that fills the disk.
    fn allocation(&self) -> u64 {
        let left = self.room() / 4;
        self.segment_bytes.min(left - left % (1 << 20))
    }

    /// Removes the segments that the catalogue has no use for (I1); `used` asks it, and gives their numbers in order. Those of a put in progress
    /// stay, since what is in them may be acknowledged any moment. `note` has the catalogue remember them first.
    ///
    /// # Errors
    /// [`StagingError::Write`], or what `used` or `note` say.
    pub fn release<E: From<StagingError>>(
        &self,
        used: impl FnOnce() -> Result<Vec<u64>, E>,
        note: impl FnOnce(&[u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let _alone = self.releaser.lock().expect("no panic holds this lock");
        // In this order. A put that begins from here on writes to segments that are not on the list; one that goes on protects its own; and one
        // that has ended is in what the catalogue says.
        let there = self.segments()?;
        let writing_from = self.writing_from.load(Ordering::SeqCst);
        let used = used()?;
        let unused: Vec<u64> =
            there.into_iter().filter(|segment| *segment < writing_from && used.binary_search(segment).is_err()).collect();
        if unused.is_empty() {
            return Ok(());
        }
        self.number_behind(unused.last().copied());
        note(&unused)?;
        for &segment in &unused {
            match self.volume.remove(&file_name(segment)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.write_error(error).into()),
                _ => {}
            }
            self.open.lock().expect("no panic holds this lock").remove(&segment);
        }
        // A segment that came back would be taken for what is staged, by a rebuild without a catalogue.
        self.volume.sync_directory("").map_err(|source| self.write_error(source).into())
    }

    /// Sees to it that no new segment has the number of one that was released, whatever the clock says.
    pub(crate) fn number_behind(&self, released: Option<u64>) {
        self.next.fetch_max(released.map_or(0, |last| last + 1), Ordering::SeqCst);
    }

    /// Reads the records of a segment, with their payloads if `checks_payloads`. The inner error is of a file that isn't a segment of this
    /// archive.
    ///
    /// # Errors
    /// [`StagingError::Read`] if the segment can't be opened.
    pub(crate) fn scan(
        &self,
        segment: u64,
        checks_payloads: bool,
        on_record: impl FnMut(RecordHead),
    ) -> Result<Result<SegmentScan, SegmentError>, StagingError> {
        let file = self.open(segment)?;
        let length = file.length().map_err(|source| self.read_error(segment, source))?;
        let read_at = |offset: u64, buffer: &mut [u8]| {
            let mut read = 0;
            while read < buffer.len() {
                match file.read_at(offset + read as u64, &mut buffer[read..])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    bytes => read += bytes,
                }
            }
            Ok(())
        };
        Ok(scan_segment(SegmentHead { archive: self.archive, number: segment }, length, read_at, checks_payloads, on_record))
    }

    /// Length of a segment's file.
    ///
    /// # Errors
    /// [`StagingError::Read`].
    pub fn length(&self, segment: u64) -> Result<u64, StagingError> {
        self.open(segment)?.length().map_err(|source| self.read_error(segment, source))
    }

    /// Cuts a segment off where what is acknowledged ends. Nobody may be writing to it.
    ///
    /// # Errors
    /// [`StagingError::Write`].
    pub fn cut(&self, end: SegmentEnd) -> Result<(), StagingError> {
        self.volume.cut(&file_name(end.segment), end.bytes).map_err(|source| self.write_error(source))
    }

    fn write_error(&self, source: io::Error) -> StagingError {
        StagingError::Write { place: self.place(), source }
    }

    /// Why `needed` bytes can't be staged beside those that are reserved.
    pub(crate) fn full(&self, needed: u64, reserved: u64) -> StagingError {
        let (room, bound) = self.bounded_room();
        StagingError::Full { place: self.place(), needed, free: room.saturating_sub(reserved), bound }
    }

    /// Why `needed` bytes could not be appended.
    fn append_error(&self, needed: u64, source: io::Error) -> StagingError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let free = self.volume.free_bytes().unwrap_or(0);
                StagingError::Full { place: self.place(), needed, free, bound: Bound::Disk }
            }
            _ => self.write_error(source),
        }
    }

    pub(crate) fn read_error(&self, segment: u64, source: io::Error) -> StagingError {
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
        let staging = self.staging;
        SegmentWriter { staging, next: self.first, current: None, tombstones: None, unsynced: Vec::new(), closed: Vec::new() }
    }
}

impl Writing<'_> {
    /// Numbers of the segments that this writer may have written to so far.
    #[must_use]
    pub fn segments(&self) -> Range<u64> {
        self.first..self.staging.next.load(Ordering::SeqCst).max(self.first)
    }

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
    /// Ends of segments that were closed and not yet handed out.
    closed: Vec<SegmentEnd>,
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
        let appended = append(self);
        self.tell_spare();
        appended.map_err(|source| staging.append_error((HEAD_BYTES + payload.len()) as u64, source))
    }

    /// The lowest number of a segment that is appended to, or would be next.
    #[must_use]
    pub fn segment_number(&self) -> u64 {
        self.current.iter().chain(&self.tombstones).map(|segment| segment.number).min().unwrap_or(self.next)
    }

    /// Closes the segments: what is appended from here on goes to new ones, so that these can be
    /// released.
    ///
    /// # Errors
    /// [`StagingError`].
    pub fn close_segments(&mut self) -> Result<(), StagingError> {
        for mut segment in self.current.take().into_iter().chain(self.tombstones.take()) {
            segment.close(&mut self.unsynced).map_err(|source| self.staging.append_error(0, source))?;
            self.closed.push(SegmentEnd { segment: segment.number, bytes: segment.appending.length() });
        }
        self.tell_spare();
        Ok(())
    }

    /// Where what was appended so far ends, in each segment that was appended to since this was asked last.
    pub fn ends(&mut self) -> Vec<SegmentEnd> {
        let open = self.current.iter().chain(&self.tombstones);
        let open = open.map(|segment| SegmentEnd { segment: segment.number, bytes: segment.appending.length() });
        std::mem::take(&mut self.closed).into_iter().chain(open).collect()
    }

    /// Writes out what is in memory and hands over what has to be synced before anything appended so far may be acknowledged.
    ///
    /// # Errors
    /// [`StagingError::Write`].
    pub fn unsynced(&mut self) -> Result<Unsynced, StagingError> {
        for segment in self.current.iter_mut().chain(&mut self.tombstones) {
            segment.appending.write_out().map_err(|source| self.staging.append_error(0, source))?;
            if std::mem::take(&mut segment.dirty) {
                self.unsynced.push(segment.appending.file().clone());
            }
        }
        Ok(Unsynced { files: std::mem::take(&mut self.unsynced), place: self.staging.place() })
    }

    /// Says how much room the open segments have left. (Those of tombstones reserve none.)
    fn tell_spare(&self) {
        *self.staging.spare() = self.current.as_ref().map_or(0, Segment::spare);
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
        let ends = |segment: &Segment| is_full(segment) || (of_tombstones && segment.number < data_number);
        if open.as_ref().is_none_or(ends) {
            let allocated = if of_tombstones { 0 } else { self.staging.allocation() };
            let mut spare = self.staging.spare();
            if let Some(segment) = open.as_mut() {
                segment.close(&mut self.unsynced)?;
                self.closed.push(SegmentEnd { segment: segment.number, bytes: segment.appending.length() });
                *open = None;
            }
            self.staging.check_still_marked()?;
            let number = self.next;
            // A file whose creation failed may be there all the same, so its number is not used again.
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

/// Reserves room for a file, and says how much it got: none where a file system can't, or where the
/// disk is too full.
fn allocate(file: &dyn VolumeFile, bytes: u64) -> io::Result<u64> {
    match file.allocate(bytes) {
        // Without it a sync costs more, and that is all.
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            file.set_length(0)?;
            Ok(0)
        }
        allocated => allocated.and_then(|()| Ok(if file.length()? >= bytes { bytes } else { 0 })),
    }
}

impl Segment {
    /// Room that it has and doesn't use yet.
    fn spare(&self) -> i64 {
        self.allocated.max(self.appending.written()) as i64 - self.appending.length() as i64
    }

    /// Writes out what is in memory, and gives back the room that wasn't needed. Nothing is
    /// appended afterwards.
    fn close(&mut self, unsynced: &mut Vec<Arc<dyn VolumeFile>>) -> io::Result<()> {
        self.appending.write_out()?;
        if std::mem::take(&mut self.dirty) {
            unsynced.push(self.appending.file().clone());
        }
        self.trim();
        Ok(())
    }

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
        let mut spare = self.staging.spare();
        for segment in self.current.iter_mut().chain(&mut self.tombstones).filter(|segment| segment.appending.is_written()) {
            segment.trim();
        }
        *spare = 0;
    }
}

mod mark;
pub(crate) use mark::MARK as STAGING_MARK;
#[cfg(test)]
mod tests;
