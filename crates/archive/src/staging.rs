//! Staging: the write-ahead area that holds the only copy of an object until its platters are
//! verified.
//!
//! Objects are appended to segment files, many objects to a segment. A segment is closed when it
//! reaches its size, when a flush needs its space, or when the writer is dropped, and is never
//! appended to again. So nothing follows a tail torn by a crash, and the next opening of the
//! archive cuts it off. A segment is removed when the catalogue no longer lists staged content in
//! it (I1).

mod error;
mod mark;
#[cfg(test)]
mod tests;
mod writing;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fulgurite_codec::checksum::crc64;
use fulgurite_domain::ArchiveId;
use fulgurite_format::{RecordHead, SegmentError, SegmentHead, SegmentScan, scan_segment};

pub use self::error::{Bound, StagingError};
pub(crate) use self::mark::{MARK as STAGING_MARK, check_staging, mark_staging};
pub use self::writing::{SegmentWriter, Unsynced, Writing};
use crate::catalogue::{SegmentEnd, StagedPlace};
use crate::clock::unix_ms;
use crate::settings::Settings;
use crate::volume::{FolderVolume, Volume, VolumeFile, read_full};

/// Space that puts leave free for the catalogue and the key store. Without it, a flush could not
/// start on a full disk.
const RESERVED_FREE_BYTES: u64 = 8 << 20;

/// Segments that are kept open for reading.
const OPEN_SEGMENTS_MAX: usize = 32;

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
    limit_bytes: Option<u64>,
    /// Bytes that the open segment has reserved but not used. Negative if it buffers bytes in
    /// memory that its file has no space for. The lock is held while segments are counted or
    /// changed, so that both figures describe the same instant.
    spare: Mutex<i64>,
    open: Mutex<HashMap<u64, Arc<dyn VolumeFile>>>,
    writer: Mutex<()>,
    /// Segments from this number on may have content that the writer has yet to acknowledge;
    /// `u64::MAX` while no writer is active.
    writing_from: AtomicU64,
    /// All segment numbers below this are taken. A number is not reused while a reader may still
    /// hold a place in the old segment of that number.
    next: AtomicU64,
    releaser: Mutex<()>,
    /// True if large reads bypass the page cache.
    reads_directly: bool,
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
            reads_directly: false,
            marked: AtomicBool::new(false),
        }
    }

    pub(crate) fn in_folder(folder: &Path, settings: &Settings) -> Self {
        Self::new(Arc::new(FolderVolume::new(folder)), settings.archive.id, settings.staging.segment_mib << 20)
    }

    /// Limits the total size of segments to `limit_bytes`.
    #[must_use]
    pub fn limited(self, limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes, ..self }
    }

    /// Large reads bypass the page cache from now on.
    pub(crate) fn read_directly(&mut self) {
        self.reads_directly = true;
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
        let on_disk = self.volume.free_bytes().map_or(u64::MAX, |free| free.saturating_sub(RESERVED_FREE_BYTES));
        let bound = self.limit_bytes.filter(|_| within <= on_disk).map_or(Bound::Disk, |limit| Bound::Limit(limit >> 20));
        (within.min(on_disk).saturating_add_signed(*spare), bound)
    }

    fn spare(&self) -> MutexGuard<'_, i64> {
        self.spare.lock().expect("nothing panics while it holds this lock")
    }

    fn taken_bytes(&self) -> u64 {
        // A segment that can't be opened was most likely just released.
        let length = |segment| self.open(segment).and_then(|file| file.length().map_err(|error| self.write_error(error))).unwrap_or(0);
        // What can't be counted may be any number of bytes.
        self.segments().map_or(u64::MAX, |segments| segments.into_iter().map(length).sum())
    }

    /// Numbers of all existing segments, ascending.
    ///
    /// # Errors
    /// [`StagingError::Unreadable`] if the folder can't be listed.
    pub fn segments(&self) -> Result<Vec<u64>, StagingError> {
        let names = self.volume.list("").map_err(|source| StagingError::Unreadable { place: self.place(), source })?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| parse_name(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Starts writing. Segments created from here on belong to the writer until the guard is
    /// dropped. Waits for the current writer, if any.
    ///
    /// # Errors
    /// [`StagingError::Unreadable`] if the folder can't be listed.
    pub fn begin(&self) -> Result<Writing<'_>, StagingError> {
        let guard = self.writer.lock().expect("nothing panics while it holds this lock");
        // Numbers follow the clock. With a reused number, an old copy of the catalogue would
        // mistake one segment for another.
        let first = self.segments()?.last().map_or(1, |last| last + 1).max(self.next.load(Ordering::SeqCst)).max(unix_ms());
        self.writing_from.store(first, Ordering::SeqCst);
        Ok(Writing { staging: self, first, _guard: guard })
    }

    /// Opens a segment for reading.
    ///
    /// # Errors
    /// [`StagingError::Absent`] if neither the segment nor the folder's mark exists;
    /// [`StagingError::Read`] if the segment can't be opened for another reason.
    pub fn open(&self, segment: u64) -> Result<Arc<dyn VolumeFile>, StagingError> {
        let mut open = self.open.lock().expect("nothing panics while it holds this lock");
        if let Some(file) = open.get(&segment) {
            return Ok(file.clone());
        }
        let name = file_name(segment);
        let file = if self.reads_directly { self.volume.open_direct(&name) } else { self.volume.open(&name) };
        let file = file.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if matches!(self.is_marked(), Ok(false)) => self.absent(),
            _ => self.read_error(segment, source),
        })?;
        let file: Arc<dyn VolumeFile> = Arc::from(file);
        if open.len() >= OPEN_SEGMENTS_MAX {
            open.clear();
        }
        open.insert(segment, file.clone());
        Ok(file)
    }

    /// Reads a payload into `payload`, replacing its contents, and verifies the checksum.
    ///
    /// # Errors
    /// [`StagingError::Damaged`] if the payload differs from what was written; otherwise as
    /// [`open`](Self::open).
    pub fn read(&self, place: StagedPlace, payload: &mut Vec<u8>) -> Result<(), StagingError> {
        self.read_once(place, payload).or_else(|_| {
            // The cached handle may refer to an old segment of the same number, which another
            // process has released and created anew.
            self.forget(place.segment);
            self.read_once(place, payload)
        })
    }

    /// Forgets what is known of a segment: its open file and the pages of it in the page cache. The
    /// next read finds the file by its name, and reaches the disk.
    pub(crate) fn forget(&self, segment: u64) {
        let file = self.open.lock().expect("nothing panics while it holds this lock").remove(&segment);
        if let Some(file) = file.or_else(|| self.volume.open(&file_name(segment)).ok().map(Arc::from)) {
            file.forget_cached();
        }
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
    /// [`StagingError::Damaged`] if the segment ends early, [`StagingError::Read`] if it can't be
    /// read.
    pub fn read_part(&self, segment: &dyn VolumeFile, place: StagedPlace, start: usize, out: &mut [u8]) -> Result<(), StagingError> {
        let read = read_full(|offset, buffer| segment.read_at(offset, buffer), place.offset + start as u64, out);
        match read.map_err(|source| self.read_error(place.segment, source))? == out.len() {
            true => Ok(()),
            false => Err(self.damaged(place)),
        }
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
        let _guard = self.releaser.lock().expect("nothing panics while it holds this lock");
        // The order matters: a put that starts from here on writes to segments that are not in the
        // list; a put in progress protects its own segments; and a finished put is visible in the
        // catalogue.
        let existing = self.segments()?;
        let writing_from = self.writing_from.load(Ordering::SeqCst);
        let used = used()?;
        let unused: Vec<u64> =
            existing.into_iter().filter(|segment| *segment < writing_from && used.binary_search(segment).is_err()).collect();
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
            self.open.lock().expect("nothing panics while it holds this lock").remove(&segment);
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
    /// error means that the file can't be used as this segment: see [`scan_segment`].
    pub(crate) fn scan(
        &self,
        segment: u64,
        checks_payloads: bool,
        on_record: impl FnMut(RecordHead),
    ) -> Result<Result<SegmentScan, SegmentError>, StagingError> {
        let file = self.open(segment)?;
        let length = file.length().map_err(|source| self.read_error(segment, source))?;
        let read_at = |offset: u64, buffer: &mut [u8]| match read_full(|offset, buffer| file.read_at(offset, buffer), offset, buffer)? {
            read if read == buffer.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
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

    /// Makes segments durable as they are.
    pub(crate) fn sync(&self, segments: &[u64]) -> Result<(), StagingError> {
        for &segment in segments {
            self.cut(SegmentEnd { segment, bytes: self.length(segment)? })?;
        }
        self.volume.sync_directory("").map_err(|source| self.write_error(source))
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
