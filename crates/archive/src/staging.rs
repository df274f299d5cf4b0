//! Staging: the write-ahead area that holds the only copy of an object until its platters are
//! verified.
//!
//! Objects are appended to segment files, many objects to a segment. A segment is closed when it
//! reaches its size or when the writer is dropped, and is never appended to again. A tail torn by a
//! crash therefore stays unacknowledged at the end of its segment, and only a rebuild has to deal
//! with it. A segment is removed when the catalogue no longer lists staged content in it (I1).

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

/// Space that puts leave free for the catalogue and the key store. Without it, a flush could not
/// start on a full disk.
const LEFT_FREE_BYTES: u64 = 8 << 20;

/// Maximum number of segment files kept open for reading.
const OPEN_SEGMENTS: usize = 32;

/// Errors of staging.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// A write failed. Everything acknowledged before it is safe.
    #[error("can't write to staging ({place}): {source}")]
    Write {
        /// Path of the staging folder.
        place: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The disk or the configured limit is exhausted. Everything acknowledged before is safe.
    #[error(
        "staging in {place} is full: {needed} more bytes are needed and {free} are available, because {bound}. \
         `fulgurite flush` writes what is staged to platters and frees the space"
    )]
    Full {
        /// Path of the staging folder.
        place: String,
        /// Bytes that the operation needs.
        needed: u64,
        /// Bytes available.
        free: u64,
        /// The limit that was reached.
        bound: Bound,
    },
    /// The folder carries no mark.
    #[error(
        "staging ({place}) is absent: no mark of this archive is in it. Is the disk mounted? If it is gone for good, \
         `fulgurite catalogue rebuild --without-unseen` continues with an empty folder and lists what was staged"
    )]
    Absent {
        /// Expected path of the staging folder.
        place: String,
    },
    /// The folder carries a different mark.
    #[error(
        "staging ({place}) is absent: its folder is marked \"{found}\", expected \"{expected}\". \
         Two archives share one folder, or the settings name the wrong one"
    )]
    Foreign {
        /// Expected path of the staging folder.
        place: String,
        /// Text of the mark found.
        found: String,
        /// Text of the mark expected.
        expected: String,
    },
    /// The folder can't be read.
    #[error("can't read staging ({place}): {source}")]
    Unreadable {
        /// Path of the staging folder.
        place: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A segment can't be read.
    #[error("can't read staging segment {segment:016x} in {place}: {source}")]
    Read {
        /// Path of the staging folder.
        place: String,
        /// Number of the segment.
        segment: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The bytes of a segment differ from those written.
    #[error("staging segment {segment:016x} in {place} is damaged at byte {offset}")]
    Damaged {
        /// Path of the staging folder.
        place: String,
        /// Number of the segment.
        segment: u64,
        /// Where the damaged payload starts.
        offset: u64,
    },
}

impl StagingError {
    /// Why the staged bytes can't be read now, if they may still exist; `None` if they are known to
    /// be lost.
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

/// The limit that bounds free space in staging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The limit in the settings.
    Limit {
        /// Configured limit in MiB.
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

/// Free space for further segments; the smaller of the two applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Free {
    /// Free bytes on the disk, if the operating system reports them.
    pub on_disk: Option<u64>,
    /// Bytes left under the configured limit, if one is set.
    pub within_limit: Option<u64>,
}

/// The staging folder of an archive.
pub struct Staging {
    volume: Arc<dyn Volume>,
    archive: ArchiveId,
    segment_bytes: u64,
    /// Maximum total size of all segments.
    limit_bytes: Option<u64>,
    /// Bytes that the open segment has reserved but not used. Negative if it buffers bytes in
    /// memory that its file has no space for. The lock is held while segments are counted or
    /// changed, so that both figures describe the same instant.
    spare: Mutex<i64>,
    open: Mutex<HashMap<u64, Arc<dyn VolumeFile>>>,
    /// Held by the writer.
    writer: Mutex<()>,
    /// First segment that the writer may have written to; `u64::MAX` while no writer is active.
    writing_from: AtomicU64,
    /// All segment numbers below this are taken. A number is not reused while a reader may still
    /// hold a place in the old segment of that number.
    next: AtomicU64,
    /// Held while segments are removed.
    releaser: Mutex<()>,
    /// True if the folder carried its mark when the archive was opened for writing.
    marked: AtomicBool,
}

impl Staging {
    /// Creates the staging of `archive` in a volume, with segments of about `segment_bytes`.
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

    /// Opens staging in a folder with the configured segment size.
    pub(crate) fn in_folder(folder: &Path, settings: &Settings) -> Self {
        Self::new(Arc::new(FolderVolume::new(folder)), settings.archive.id, settings.staging.segment_mib << 20)
    }

    /// Limits the total size of segments to `limit_bytes`.
    #[must_use]
    pub fn limited(self, limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes, ..self }
    }

    /// Location for messages.
    #[must_use]
    pub fn place(&self) -> String {
        self.volume.describe()
    }

    /// Free space on the disk and under the configured limit.
    #[must_use]
    pub fn free(&self) -> Free {
        Free { on_disk: self.volume.free_bytes(), within_limit: self.limit_bytes.map(|limit| self.left_of(limit)) }
    }

    /// Maximum total size of segments, if configured.
    #[must_use]
    pub fn limit_bytes(&self) -> Option<u64> {
        self.limit_bytes
    }

    /// Bytes of the limit that content has not used. Space reserved by the open segment counts as
    /// unused.
    fn left_of(&self, limit: u64) -> u64 {
        let spare = self.spare();
        limit.saturating_sub(self.taken_bytes()).saturating_add_signed(*spare).min(limit)
    }

    /// Bytes that puts may still stage: includes space that open segments have reserved, excludes
    /// the space that must stay free.
    pub(crate) fn room(&self) -> u64 {
        self.bounded_room().0
    }

    /// Returns the available bytes and the limit that bounds them.
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

    /// Total length of all segments.
    fn taken_bytes(&self) -> u64 {
        // A segment that can't be opened was just released.
        let length = |segment| self.open(segment).and_then(|file| file.length().map_err(|error| self.write_error(error))).unwrap_or(0);
        self.segments().unwrap_or_default().into_iter().map(length).sum()
    }

    /// Numbers of all existing segments, ascending.
    ///
    /// # Errors
    /// [`StagingError::Write`] if the folder can't be listed.
    pub fn segments(&self) -> Result<Vec<u64>, StagingError> {
        let names = self.volume.list("").map_err(|source| self.write_error(source))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| parse_name(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Starts writing. Segments created from here on belong to the writer until the guard is
    /// dropped. Waits for the current writer, if any.
    ///
    /// # Errors
    /// [`StagingError::Write`] if the folder can't be listed.
    pub fn begin(&self) -> Result<Writing<'_>, StagingError> {
        let alone = self.writer.lock().expect("no panic holds this lock");
        // Numbers follow the clock. With a reused number, an old copy of the catalogue would
        // mistake one segment for another.
        let first = self.segments()?.last().map_or(1, |last| last + 1).max(self.next.load(Ordering::SeqCst)).max(now_ms());
        self.writing_from.store(first, Ordering::SeqCst);
        Ok(Writing { staging: self, first, _alone: alone })
    }

    /// Opens a segment for reading.
    ///
    /// # Errors
    /// [`StagingError::Read`] if the segment can't be opened; [`StagingError::Absent`] if the
    /// folder has no mark.
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

    /// Reads a payload into `payload`, replacing its contents, and verifies the checksum.
    ///
    /// # Errors
    /// [`StagingError::Damaged`] if the payload differs from what was written.
    pub fn read(&self, place: StagedPlace, payload: &mut Vec<u8>) -> Result<(), StagingError> {
        self.read_once(place, payload).or_else(|_| {
            // The cached handle may refer to an old segment of the same number, which another
            // process has released and created anew.
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

    /// Reads part of a payload, from `start` on, without verifying it. The segment may even be an
    /// old one of the same number. Use [`read`](Self::read) when the content turns out to be wrong.
    ///
    /// # Errors
    /// [`StagingError::Damaged`] if the segment ends early.
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

    /// Drops the segments from the page cache. They have been read for the last time.
    pub(crate) fn forget_cached(&self) {
        for segment in self.segments().unwrap_or_default() {
            if let Ok(file) = self.open(segment) {
                file.forget_cached();
            }
        }
    }

    /// Bytes to reserve for a new segment. Reserving the whole segment makes each sync cheaper,
    /// because the file's block list no longer changes. When space is short, only a quarter of it
    /// is reserved, so that the reservation itself doesn't fill the disk.
    fn allocation(&self) -> u64 {
        let left = self.room() / 4;
        self.segment_bytes.min(left - left % (1 << 20))
    }

    /// Removes the segments that the catalogue no longer needs (I1). `used` returns the numbers
    /// that the catalogue needs, ascending. Segments of a put in progress stay, because their
    /// records may be acknowledged at any moment. `note` records the numbers in the catalogue
    /// before the files are removed.
    ///
    /// # Errors
    /// [`StagingError::Write`], or the errors of `used` and `note`.
    pub fn release<E: From<StagingError>>(
        &self,
        used: impl FnOnce() -> Result<Vec<u64>, E>,
        note: impl FnOnce(&[u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let _alone = self.releaser.lock().expect("no panic holds this lock");
        // The order matters: a put that starts from here on writes to segments that are not in the
        // list; a put in progress protects its own segments; and a finished put is visible in the
        // catalogue.
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
        // If a removed segment reappeared after a crash, a rebuild without a catalogue would treat
        // its content as staged.
        self.volume.sync_directory("").map_err(|source| self.write_error(source).into())
    }

    /// Ensures that new segments get higher numbers than released ones, whatever the clock says.
    pub(crate) fn number_behind(&self, released: Option<u64>) {
        self.next.fetch_max(released.map_or(0, |last| last + 1), Ordering::SeqCst);
    }

    /// Reads the records of a segment, and verifies their payloads if `checks_payloads`. The inner
    /// error means that the file is not a segment of this archive.
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

    /// Truncates a segment to its acknowledged length. The segment must have no writer.
    ///
    /// # Errors
    /// [`StagingError::Write`].
    pub fn cut(&self, end: SegmentEnd) -> Result<(), StagingError> {
        self.volume.cut(&file_name(end.segment), end.bytes).map_err(|source| self.write_error(source))
    }

    fn write_error(&self, source: io::Error) -> StagingError {
        StagingError::Write { place: self.place(), source }
    }

    /// Error for `needed` bytes that don't fit in addition to the reserved ones.
    pub(crate) fn full(&self, needed: u64, reserved: u64) -> StagingError {
        let (room, bound) = self.bounded_room();
        StagingError::Full { place: self.place(), needed, free: room.saturating_sub(reserved), bound }
    }

    /// Maps an error of appending `needed` bytes.
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
    /// Creates the writer. Its records may be acknowledged as long as this guard lives, even after
    /// the writer is dropped.
    #[must_use]
    pub fn writer(&self) -> SegmentWriter<'a> {
        let staging = self.staging;
        SegmentWriter { staging, next: self.first, current: None, tombstones: None, unsynced: Vec::new(), closed: Vec::new() }
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
    /// Written segments that have not been handed out for syncing yet.
    unsynced: Vec<Arc<dyn VolumeFile>>,
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

    /// Like [`append`](Self::append), with a precomputed checksum of the payload.
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

    /// Lowest number among the open segments, or the next number if none is open.
    #[must_use]
    pub fn segment_number(&self) -> u64 {
        self.current.iter().chain(&self.tombstones).map(|segment| segment.number).min().unwrap_or(self.next)
    }

    /// Closes the open segments. Later records go to new segments, so that these can be released.
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

    /// Current ends of all segments that were appended to since the last call.
    pub fn ends(&mut self) -> Vec<SegmentEnd> {
        let open = self.current.iter().chain(&self.tombstones);
        let open = open.map(|segment| SegmentEnd { segment: segment.number, bytes: segment.appending.length() });
        std::mem::take(&mut self.closed).into_iter().chain(open).collect()
    }

    /// Writes buffered records to their files and returns the files to sync before any record
    /// appended so far may be acknowledged.
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

    /// Updates the spare space of the open segment. (Segments of tombstones reserve none.)
    fn tell_spare(&self) {
        *self.staging.spare() = self.current.as_ref().map_or(0, Segment::spare);
    }

    /// Returns the segment for the next record, and opens a new one if needed.
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
    /// Bytes reserved but not yet used.
    fn spare(&self) -> i64 {
        self.allocated.max(self.appending.written()) as i64 - self.appending.length() as i64
    }

    /// Writes out buffered bytes and frees the unused reservation. The segment is not appended to
    /// afterwards.
    fn close(&mut self, unsynced: &mut Vec<Arc<dyn VolumeFile>>) -> io::Result<()> {
        self.appending.write_out()?;
        if std::mem::take(&mut self.dirty) {
            unsynced.push(self.appending.file().clone());
        }
        self.trim();
        Ok(())
    }

    /// Frees the unused reservation.
    fn trim(&mut self) {
        let length = self.appending.length();
        if self.allocated > length {
            // A failure only wastes space.
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
pub(crate) use mark::{MARK as STAGING_MARK, check_staging, mark_staging};
#[cfg(test)]
mod tests;
