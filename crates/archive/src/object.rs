//! Reading objects: fetches stored bytes from staging or platters, and opens them frame by frame.
//!
//! The tag of every frame is checked before any of its bytes leaves, and a whole object against its
//! SHA-256 (I5).

mod opened;
mod shards;
mod successor;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::digest;
use fulgurite_domain::{Digest, PlatterId, SetId, VersionId};
use fulgurite_format::{FRAME_BYTES, FrameError, Frames, STORED_FRAME_BYTES, stored_bytes};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Extent, StagedData, VersionRow};
use crate::ingest::{RECORD_FRAMES, digest_of};
use crate::open_sets::KEPT;
use crate::read_order::{MediumPosition, neighbour_run};
use crate::set_reader::{OpenSet, Repairs, SetReader};
use crate::unread::Hindrance;
use crate::volume::VolumeFile;

pub use self::opened::Opened;
use self::opened::{OPEN_SEGMENTS_MAX, Places, open_frames, record_at};
pub use self::shards::ShardCheck;
pub use self::successor::SUCCESSORS_MAX;

/// Why an object can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its key is not in the key store.
    #[error("no key: it is not in the key store. `rm` destroys keys; `fulgurite keys import` brings others back from a copy")]
    NoKey,
    /// The master key does not open its key.
    #[error("its key does not open with this master key; the master key belongs to another archive, or the key store is damaged")]
    WrongKey,
    /// A frame is damaged or replaced.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The content differs from what was put.
    #[error("its SHA-256 is {found}, but {expected} was stored")]
    Digest {
        /// Digest of what was read.
        found: Digest,
        /// Digest of what was put.
        expected: Digest,
    },
    /// The catalogue's locations don't cover its bytes.
    #[error("the catalogue has no location for its bytes from {0} on; `fulgurite catalogue rebuild` recreates the catalogue")]
    Uncovered(u64),
    /// The version is no longer in the archive: it was removed after it was looked up, for example
    /// because a server replaced it. Whatever failed besides says nothing about damage.
    #[error("it was replaced or removed while it was read")]
    Removed,
    /// Its bytes are lost or can't be read now, or staging, catalogue or keys failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The sink failed.
    #[error(transparent)]
    Sink(#[from] io::Error),
}

impl ReadError {
    /// Why the object can't be read now, unless it is known to be lost or damaged.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Archive(error) => error.hindrance(),
            _ => None,
        }
    }
}

/// How staged bytes are checked.
#[derive(Clone, Copy)]
enum Check {
    /// By the tags of their frames, when these are opened. Reads no more than requested.
    ByFrames,
    /// By the checksums of whole records.
    ByRecords,
}

type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// Reads a whole version and compares its SHA-256.
fn checked(version: &VersionRow, sink: Sink<'_>, read: impl FnOnce(Sink<'_>) -> Result<(), ReadError>) -> Result<(), ReadError> {
    let mut hash = digest::Context::new(&digest::SHA256);
    read(&mut |bytes| {
        hash.update(bytes);
        sink(bytes)
    })?;
    let found = digest_of(hash.finish());
    if found != version.record.sha256 {
        return Err(ReadError::Digest { found, expected: version.record.sha256 });
    }
    Ok(())
}

/// Receives a buffer and the ranges of it that are content. It may take the buffer.
pub type BufferSink<'a> = dyn FnMut(&mut Vec<u8>, &[Range<usize>]) -> io::Result<()> + 'a;

/// Number of sets whose platters one reader keeps open. File handles are limited, and a reader may
/// go through all sets of an archive.
const OPEN_SETS_MAX: usize = 8;

/// Reads objects. Each thread needs its own.
pub struct ObjectReader<'a> {
    archive: &'a Archive,
    sets: SetReader<'a>,
    /// Open sets, the last one added last, and when this reader opened each; `None` if another did.
    open: VecDeque<(SetId, Option<Instant>)>,
    /// The platters to read from, if not all.
    only: Option<BTreeSet<PlatterId>>,
    /// Whether sets that other readers opened a moment ago may be used.
    shares_sets: bool,
    /// How far read-ahead is set.
    ahead: Option<(PlatterId, u64)>,
    buffer: Vec<u8>,
    payload: Vec<u8>,
}

impl<'a> ObjectReader<'a> {
    /// Creates a reader for an archive's objects.
    #[must_use]
    pub fn new(archive: &'a Archive) -> Self {
        let sets = SetReader::new(&archive.rebuilding, archive.threads());
        Self { archive, sets, open: VecDeque::new(), only: None, shares_sets: false, ahead: None, buffer: Vec::new(), payload: Vec::new() }
    }

    /// Shares the platters that it opens with other such readers, for a second. Until then, what
    /// happens to a store meanwhile may go unnoticed while its open files can be read. Failures are
    /// reported only after the platters were opened anew.
    #[must_use]
    pub fn sharing_platters(self) -> Self {
        Self { shares_sets: true, ..self }
    }

    /// Repairs so far.
    #[must_use]
    pub fn repairs(&self) -> Repairs {
        self.sets.repairs()
    }

    /// Announces the locations of the next versions, in reading order, beginning with the next one.
    /// Neighbours on a platter are then fetched together.
    pub fn expect(&mut self, places: impl IntoIterator<Item = MediumPosition>) {
        let mut places = places.into_iter().peekable();
        // The run that was announced last includes this place. Scanning what follows for each of
        // many small versions would take quadratic time.
        if let (Some(&MediumPosition::Archived { platter, end, .. }), Some(ahead)) = (places.peek(), self.ahead)
            && ahead.0 == platter
            && end <= ahead.1
        {
            return;
        }
        self.ahead = neighbour_run(places);
        if let Some((platter, end)) = self.ahead {
            self.sets.read_ahead(platter, end);
        }
    }

    /// Passes the content of a version to `sink` in pieces, and finally checks its SHA-256. Don't
    /// use what `sink` received before that.
    ///
    /// # Errors
    /// [`ReadError`] says why.
    pub fn read(&mut self, version: &VersionRow, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), ReadError> {
        let read = checked(version, sink, |sink| self.read_range(version, 0..version.record.size, sink));
        read.map_err(|error| self.removed_or(error, version))
    }

    /// [`read`](Self::read) for an opened version.
    ///
    /// # Errors
    /// [`ReadError`] says why.
    pub fn read_whole(&mut self, opened: &Opened, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), ReadError> {
        let version = &opened.version;
        let read = checked(version, sink, |sink| {
            self.read_opened(opened, 0..version.record.size, &mut |buffer, pieces| {
                pieces.iter().try_for_each(|piece| sink(&buffer[piece.clone()]))
            })
        });
        read.map_err(|error| self.removed_or(error, version))
    }

    /// Passes a part of a version's content to `sink` in pieces. Each piece was checked by its
    /// frame's tag.
    ///
    /// # Errors
    /// [`ReadError`] says why.
    pub fn read_range(
        &mut self,
        version: &VersionRow,
        range: Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ReadError> {
        self.read_buffers(version, range, &mut |buffer, pieces| pieces.iter().try_for_each(|piece| sink(&buffer[piece.clone()])))
    }

    /// Like [`read_range`](Self::read_range), but passes whole buffers of up to 16 frames, which
    /// `sink` may keep.
    ///
    /// # Errors
    /// [`ReadError`] says why.
    pub fn read_buffers(&mut self, version: &VersionRow, range: Range<u64>, sink: &mut BufferSink<'_>) -> Result<(), ReadError> {
        if range.is_empty() {
            return Ok(());
        }
        let opened = self.open(version)?;
        self.read_opened(&opened, range, sink)
    }

    /// Locates a version and holds it: it can be read to its end even if it is removed or archived
    /// meanwhile. If it is staged in more than 16 segments (4 GiB by the default settings), the
    /// rest is not held.
    ///
    /// # Errors
    /// [`ReadError`] says why.
    pub fn open(&self, version: &VersionRow) -> Result<Opened, ReadError> {
        self.look_up(version).map_err(|error| self.removed_or(error, version))
    }

    fn look_up(&self, version: &VersionRow) -> Result<Opened, ReadError> {
        if stored_bytes(version.record.size) != version.stored_bytes {
            return Err(ReadError::Uncovered(version.stored_bytes));
        }
        // Without content, nothing needs the key.
        let frames = self.frames(version.id, version.sealed && version.record.size > 0)?;
        let mut opened = Opened { version: version.clone(), frames, places: self.places(version)?, segments: Vec::new() };
        if let Places::Staged(data) = &opened.places
            && let Some(segments) = self.hold(data)
        {
            opened.segments = segments;
        } else if matches!(opened.places, Places::Staged(_)) {
            // A flush may have archived the version since and released the segment. If it wasn't
            // that, reading reports what is wrong with the segment.
            opened.places = self.places(version)?;
        }
        match &opened.places {
            Places::Archived(extents) if extents.is_empty() && version.record.size > 0 => Err(ReadError::Uncovered(0)),
            _ => Ok(opened),
        }
    }

    /// Opens the segments of staged data, as many as may be held. `None` if one can't be opened.
    fn hold(&self, data: &[StagedData]) -> Option<Vec<(u64, Arc<dyn VolumeFile>)>> {
        let mut segments: Vec<(u64, Arc<dyn VolumeFile>)> = Vec::new();
        for record in data {
            let segment = record.place.segment;
            if segments.last().is_none_or(|(held, _)| *held != segment) && segments.len() < OPEN_SEGMENTS_MAX {
                segments.push((segment, self.archive.staging().open(segment).ok()?));
            }
        }
        Some(segments)
    }

    /// [`ReadError::Removed`] if a version that could not be read is no longer in the catalogue.
    /// Its key and its segments go soon after, which alone looks like a loss.
    fn removed_or(&self, error: ReadError, version: &VersionRow) -> ReadError {
        if matches!(error, ReadError::Sink(_) | ReadError::Removed) {
            return error;
        }
        match self.archive.reading().version(&version.record.name, version.id) {
            Ok(None) => ReadError::Removed,
            Ok(Some(_)) | Err(_) => error,
        }
    }

    /// Fetches a part of an archived version, for a [read](Self::read_opened) that follows, if it
    /// is in memory. Returns `false`, without having waited for a store, if it isn't.
    ///
    /// Only for readers that [share platters](Self::sharing_platters).
    pub fn fetch_cached(&mut self, opened: &Opened, range: &Range<u64>) -> bool {
        let Places::Archived(extents) = &opened.places else { return false };
        let (frame_bytes, stored_frame_bytes) = (FRAME_BYTES as u64, STORED_FRAME_BYTES as u64);
        let end = (range.end.div_ceil(frame_bytes) * stored_frame_bytes).min(opened.version.stored_bytes);
        let from = range.start / frame_bytes * stored_frame_bytes;
        let covers = |extent: &&Extent| extent.object_offset <= from && end <= extent.object_offset + extent.bytes;
        let Some(extent) = extents.iter().find(covers).filter(|_| from < end && self.shares_sets) else { return false };
        if self.sets.set_of(extent.platter).is_none() {
            let Some(kept) = self.archive.open_sets.find(extent.platter, Instant::now()) else { return false };
            self.add_open_set(kept, None);
        }
        self.sets.fetch_cached(extent.platter, extent.offset + (from - extent.object_offset), (end - from) as usize)
    }

    /// [`read_buffers`](Self::read_buffers) for an opened version.
    ///
    /// # Errors
    /// [`ReadError`] says why.
    pub fn read_opened(&mut self, opened: &Opened, range: Range<u64>, sink: &mut BufferSink<'_>) -> Result<(), ReadError> {
        self.read_frames(opened, range, sink).map_err(|error| self.removed_or(error, &opened.version))
    }

    fn read_frames(&mut self, opened: &Opened, range: Range<u64>, sink: &mut BufferSink<'_>) -> Result<(), ReadError> {
        let size = opened.version.record.size;
        let range = range.start.min(size)..range.end.min(size);
        let frame_bytes = FRAME_BYTES as u64;
        let (mut frame, end) = (range.start / frame_bytes, range.end.div_ceil(frame_bytes));
        let mut buffer = std::mem::take(&mut self.buffer);
        while frame < end && !range.is_empty() {
            // Up to the end of the full data record that contains the frame.
            let next = end.min((frame / RECORD_FRAMES as u64 + 1) * RECORD_FRAMES as u64);
            let stored = frame * STORED_FRAME_BYTES as u64..(next * STORED_FRAME_BYTES as u64).min(opened.version.stored_bytes);
            buffer.resize((stored.end - stored.start) as usize, 0);
            let wanted = range.start.max(frame * frame_bytes)..range.end.min(next * frame_bytes);
            let mut read = |check| {
                self.read_stored(opened, stored.start, &mut buffer, check)?;
                Ok::<_, ReadError>(open_frames(&opened.frames, &wanted, &mut buffer)?)
            };
            let pieces = match read(Check::ByFrames) {
                // The segment's number may have been reused, or the bytes are damaged; in that case
                // staging reports where.
                Err(_) if matches!(opened.places, Places::Staged(_)) => read(Check::ByRecords)?,
                pieces => pieces?,
            };
            sink(&mut buffer, &pieces)?;
            frame = next;
        }
        self.buffer = buffer;
        Ok(())
    }

    fn frames(&self, version: VersionId, sealed: bool) -> Result<Frames, ReadError> {
        if !sealed {
            return Ok(Frames::new(version, None));
        }
        let wrapped = self.archive.reading_keys().get(version).map_err(ArchiveError::from)?.ok_or(ReadError::NoKey)?;
        let key = self.archive.master_key().unwrap(&wrapped).map_err(|_| ReadError::WrongKey)?;
        Ok(Frames::new(version, Some(&key)))
    }

    fn places(&self, version: &VersionRow) -> Result<Places, ReadError> {
        let mut catalogue = self.archive.reading();
        if version.archived {
            let extents = catalogue.extents(version.row_id).map_err(ArchiveError::from)?;
            if !extents.is_empty() {
                return Ok(Places::Archived(extents));
            }
        }
        // The row may be stale: a flush may have archived the version since.
        match catalogue.staged(version.row_id).map_err(ArchiveError::from)? {
            Some((_, data)) => Ok(Places::Staged(data)),
            None => Ok(Places::Archived(catalogue.extents(version.row_id).map_err(ArchiveError::from)?)),
        }
    }

    /// Fills `out` with stored bytes of a version, beginning at `from`.
    fn read_stored(&mut self, opened: &Opened, from: u64, out: &mut [u8], check: Check) -> Result<(), ReadError> {
        match &opened.places {
            Places::Archived(extents) => self.read_extents(extents, from, out),
            Places::Staged(data) => match self.read_staged(opened, data, from, out, check) {
                // A flush may have archived the version since and released its segment.
                Err(ReadError::Archive(ArchiveError::Staging(error))) => match self.places(&opened.version)? {
                    Places::Archived(extents) => self.read_extents(&extents, from, out),
                    Places::Staged(_) => Err(ArchiveError::from(error).into()),
                },
                result => result,
            },
        }
    }

    fn read_staged(
        &mut self,
        opened: &Opened,
        data: &[StagedData],
        mut from: u64,
        mut out: &mut [u8],
        check: Check,
    ) -> Result<(), ReadError> {
        let staging = self.archive.staging();
        while !out.is_empty() {
            let StagedData { stored_offset, place } = *record_at(data, from).ok_or(ReadError::Uncovered(from))?;
            let start = (from - stored_offset) as usize;
            let (now, later) = out.split_at_mut(out.len().min(place.bytes as usize - start));
            let read = match check {
                Check::ByFrames => match opened.segments.iter().find(|(segment, _)| *segment == place.segment) {
                    Some((_, file)) => staging.read_part(&**file, place, start, now),
                    None => staging.open(place.segment).and_then(|file| staging.read_part(&*file, place, start, now)),
                },
                Check::ByRecords => {
                    staging.read(place, &mut self.payload).map(|()| now.copy_from_slice(&self.payload[start..][..now.len()]))
                }
            };
            read.map_err(ArchiveError::from)?;
            from += now.len() as u64;
            out = later;
        }
        Ok(())
    }

    fn read_extents(&mut self, extents: &[Extent], mut from: u64, mut out: &mut [u8]) -> Result<(), ReadError> {
        while !out.is_empty() {
            let extent = extents.iter().find(|extent| (extent.object_offset..extent.object_offset + extent.bytes).contains(&from));
            let extent = extent.ok_or(ReadError::Uncovered(from))?;
            let left = extent.object_offset + extent.bytes - from;
            let (now, later) = out.split_at_mut((out.len() as u64).min(left) as usize);
            let offset = extent.offset + (from - extent.object_offset);
            self.read_platter(extent.platter, offset, now)?;
            from += now.len() as u64;
            out = later;
        }
        Ok(())
    }

    fn read_platter(&mut self, platter: PlatterId, offset: u64, out: &mut [u8]) -> Result<(), ReadError> {
        let (opened, set) = self.open_set_of(platter, true)?;
        let repairs = self.sets.repairs();
        let read = self.sets.read(platter, offset, out);
        if read.is_ok() && self.sets.repairs() == repairs {
            return Ok(());
        }
        // The next reader looks again at what is there.
        if self.shares_sets {
            self.archive.open_sets.forget(set);
        }
        if read.is_err() && self.shares_sets && opened.is_none_or(|opened| opened.elapsed() >= KEPT) {
            // A store may be back since the set was opened.
            self.close(set);
            self.open_set_of(platter, false)?;
            return Ok(self.sets.read(platter, offset, out).map_err(ArchiveError::from)?);
        }
        Ok(read.map_err(ArchiveError::from)?)
    }

    /// Opens the set of a platter, unless it is open. Returns when this reader opened it, or `None`
    /// if another one did, which `accepts_kept` allows; and its identifier.
    fn open_set_of(&mut self, platter: PlatterId, accepts_kept: bool) -> Result<(Option<Instant>, SetId), ArchiveError> {
        if let Some(set) = self.sets.set_of(platter) {
            let opened = self.open.iter().find_map(|(id, opened)| (*id == set).then_some(*opened));
            return Ok((opened.flatten(), set));
        }
        let (now, is_shared) = (Instant::now(), self.shares_sets && self.only.is_none());
        let kept = (accepts_kept && is_shared).then(|| self.archive.open_sets.find(platter, now)).flatten();
        let opened = kept.is_none().then_some(now);
        let set = match kept {
            Some(set) => set,
            None => {
                let row = self.archive.reading().set_of(platter)?.ok_or(ArchiveError::UnknownPlatter(platter))?;
                let mut set = OpenSet::of(self.archive, &row.description);
                if let Some(only) = &self.only {
                    set.keep_only(|platter| only.contains(&platter));
                }
                let set = Arc::new(set);
                if is_shared {
                    self.archive.open_sets.keep(&set, now);
                }
                set
            }
        };
        Ok((opened, self.add_open_set(set, opened)))
    }

    fn add_open_set(&mut self, set: Arc<OpenSet>, opened: Option<Instant>) -> SetId {
        if self.open.len() == OPEN_SETS_MAX
            && let Some((oldest, _)) = self.open.pop_front()
        {
            self.sets.close(oldest);
        }
        let id = set.description.id;
        self.sets.open(set);
        self.open.push_back((id, opened));
        id
    }

    fn close(&mut self, set: SetId) {
        self.open.retain(|(id, _)| *id != set);
        self.sets.close(set);
        self.sets.forget_damage();
    }
}
