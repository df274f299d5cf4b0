//! Reading objects: stored bytes from staging or platters, opened frame by frame.
//!
//! Every frame is checked by its tag before a byte of it leaves, and a whole object by its SHA-256 (I5).

use std::io;
use std::ops::Range;
use std::sync::Arc;

use aws_lc_rs::digest;
use fulgurite_domain::{Digest, PlatterId, VersionId};
use fulgurite_format::{FRAME_BYTES, FrameError, Frames, STORED_FRAME_BYTES, stored_bytes};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Extent, StagedData, VersionRow};
use crate::content::{ContentError, ContentReader};
use crate::ingest::RECORD_FRAMES;
use crate::place::{Place, reach};
use crate::set_reader::Repairs;
use crate::unread::{BeyondRepair, Hindrance, Unreachable};
use crate::volume::VolumeFile;

/// Why an object can't be given back.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its bytes are lost.
    #[error(transparent)]
    Lost(#[from] BeyondRepair),
    /// Its bytes can't be read now, and aren't known to be lost.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// Its key is not in the key store.
    #[error("no key: it is not in the key store. `rm` destroys keys; `fulgurite keys import` brings others back from a copy")]
    NoKey,
    /// Its key doesn't open with the master key.
    #[error("its key does not open with this master key; the master key is of another archive, or the key store is damaged")]
    WrongKey,
    /// A frame isn't what was stored.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The whole isn't what came in.
    #[error("its SHA-256 is {found}, and {expected} came in")]
    Digest {
        /// Of what was read.
        found: Digest,
        /// Of what came in.
        expected: Digest,
    },
    /// The catalogue's places don't cover it.
    #[error("the catalogue does not say where bytes {from} and following are; `fulgurite catalogue rebuild` makes it anew")]
    Uncovered {
        /// First stored byte that is nowhere.
        from: u64,
    },
    /// Staging, catalogue or keys failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// What takes the bytes failed.
    #[error(transparent)]
    Sink(#[from] io::Error),
}

impl From<ContentError> for ReadError {
    fn from(error: ContentError) -> Self {
        match error {
            ContentError::Lost(lost) => Self::Lost(lost),
            ContentError::Unreachable(unreachable) => Self::Unreachable(unreachable),
            ContentError::Archive(error) => Self::Archive(error),
        }
    }
}

impl ReadError {
    /// What keeps the object from being read now, if it isn't known to be lost or damaged.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Unreachable(unreachable) => Some(unreachable.hindrance()),
            Self::Archive(ArchiveError::Staging(error)) => error.hindrance(),
            _ => None,
        }
    }
}

/// How staged bytes are checked.
#[derive(Clone, Copy)]
enum Check {
    /// Not here: the tags of their frames tell, and no more is read than is asked for.
    ByFrames,
    /// By the checksums of whole records.
    ByRecords,
}

/// Opens frames from `first` on in place, and says where in the buffer their content is.
fn open_frames(frames: &Frames, first: u64, buffer: &mut [u8]) -> Result<Vec<Range<usize>>, FrameError> {
    let mut pieces = Vec::with_capacity(buffer.len().div_ceil(STORED_FRAME_BYTES));
    for (index, (number, frame)) in (first..).zip(buffer.chunks_mut(STORED_FRAME_BYTES)).enumerate() {
        let start = index * STORED_FRAME_BYTES;
        pieces.push(start..start + frames.open(number, frame)?.len());
    }
    Ok(pieces)
}

/// Takes what bytes are given to.
type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// Reads the whole of a version, and compares its SHA-256.
fn checked(version: &VersionRow, sink: Sink<'_>, read: impl FnOnce(Sink<'_>) -> Result<(), ReadError>) -> Result<(), ReadError> {
    let mut hash = digest::Context::new(&digest::SHA256);
    read(&mut |bytes| {
        hash.update(bytes);
        sink(bytes)
    })?;
    let mut found = Digest([0; 32]);
    found.0.copy_from_slice(hash.finish().as_ref());
    if found != version.record.sha256 {
        return Err(ReadError::Digest { found, expected: version.record.sha256 });
    }
    Ok(())
}

/// Where the stored bytes of a version are.
enum Places {
    Staged(Vec<StagedData>),
    Archived(Vec<Extent>),
}

/// Takes a buffer, and where in it pieces of the content are. It may take the memory away.
pub type BufferSink<'a> = dyn FnMut(&mut Vec<u8>, &[Range<usize>]) -> io::Result<()> + 'a;

/// Segments that an opened version holds at most: each is an open file.
const SEGMENTS_HELD: usize = 16;

/// A version that was found, with all that it takes to read it.
pub struct Opened {
    version: VersionRow,
    frames: Frames,
    places: Places,
    /// Files of the segments that it is staged in: what was removed from a disk can be read for as long as it is open.
    segments: Vec<(u64, Arc<dyn VolumeFile>)>,
}

impl Opened {
    /// Which version it is.
    #[must_use]
    pub fn version(&self) -> &VersionRow {
        &self.version
    }
}

/// Reads objects. One for each thread.
pub struct ObjectReader<'a> {
    archive: &'a Archive,
    content: ContentReader<'a>,
    /// How far it was told that reading goes on.
    ahead: Option<(PlatterId, u64)>,
    buffer: Vec<u8>,
    payload: Vec<u8>,
}

impl<'a> ObjectReader<'a> {
    /// A reader of an archive's objects.
    #[must_use]
    pub fn new(archive: &'a Archive) -> Self {
        Self { archive, content: ContentReader::new(archive), ahead: None, buffer: Vec::new(), payload: Vec::new() }
    }

    /// What repair it took so far.
    #[must_use]
    pub fn repairs(&self) -> Repairs {
        self.content.repairs()
    }

    /// Says where the versions lie that are going to be read, in that order, beginning with the next. Neighbours on a platter are then fetched together.
    pub fn expect(&mut self, places: impl IntoIterator<Item = Place>) {
        let mut places = places.into_iter().peekable();
        // Until then it is known, and each of many small ones would look at all that follow.
        if let (Some(&Place::Archived { platter, end, .. }), Some(ahead)) = (places.peek(), self.ahead)
            && ahead.0 == platter
            && end <= ahead.1
        {
            return;
        }
        self.ahead = reach(places);
        if let Some((platter, end)) = self.ahead {
            self.content.read_ahead(platter, end);
        }
    }

    /// Gives the content of a version to `sink`, in pieces, and checks the whole against its SHA-256 in the end. What `sink` was given
    /// must not be used before that.
    ///
    /// # Errors
    /// [`ReadError`] says why.
    pub fn read(&mut self, version: &VersionRow, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), ReadError> {
        checked(version, sink, |sink| self.read_range(version, 0..version.record.size, sink))
    }

    /// [`read`](Self::read) of what was opened.
    ///
    /// # Errors
    /// [`ReadError`] says why.
    pub fn read_whole(&mut self, opened: &Opened, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), ReadError> {
        let version = &opened.version;
        checked(version, sink, |sink| {
            self.read_opened(opened, 0..version.record.size, &mut |buffer, pieces| {
                pieces.iter().try_for_each(|piece| sink(&buffer[piece.clone()]))
            })
        })
    }

    /// Gives a part of the content of a version to `sink`, in pieces. Each was checked by its frame's tag.
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

    /// [`read_range`](Self::read_range) for who wants the memory as well: `sink` is given buffers of up to 16 frames.
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

    /// Finds out where a version is, and holds it: it can be read to its end even if it is removed meanwhile, or archived. Of a version that is
    /// staged in more than 16 segments (4 GiB by the default settings) the rest isn't held.
    ///
    /// # Errors
    /// [`ReadError`] says why.
    pub fn open(&self, version: &VersionRow) -> Result<Opened, ReadError> {
        if stored_bytes(version.record.size) != version.stored_bytes {
            return Err(ReadError::Uncovered { from: version.stored_bytes });
        }
        let frames = self.frames(version.id, version.sealed)?;
        let mut opened = Opened { version: version.clone(), frames, places: self.places(version)?, segments: Vec::new() };
        if let Places::Staged(data) = &opened.places {
            for record in data {
                let segment = record.place.segment;
                if opened.segments.last().is_none_or(|(held, _)| *held != segment) && opened.segments.len() < SEGMENTS_HELD {
                    match self.archive.staging().open(segment) {
                        Ok(file) => opened.segments.push((segment, file)),
                        // A flush may have archived the version since, and its segment be gone: reading finds out.
                        Err(_) => break,
                    }
                }
            }
        }
        Ok(opened)
    }

    /// [`read_buffers`](Self::read_buffers) of what was opened.
    ///
    /// # Errors
    /// [`ReadError`] says why.
    pub fn read_opened(&mut self, opened: &Opened, range: Range<u64>, sink: &mut BufferSink<'_>) -> Result<(), ReadError> {
        let size = opened.version.record.size;
        let range = range.start.min(size)..range.end.min(size);
        let frame_bytes = FRAME_BYTES as u64;
        let (mut frame, end) = (range.start / frame_bytes, range.end.div_ceil(frame_bytes));
        let mut buffer = std::mem::take(&mut self.buffer);
        while frame < end && !range.is_empty() {
            // Up to the end of the staged record that the frame is in.
            let next = end.min((frame / RECORD_FRAMES as u64 + 1) * RECORD_FRAMES as u64);
            let stored = frame * STORED_FRAME_BYTES as u64..(next * STORED_FRAME_BYTES as u64).min(opened.version.stored_bytes);
            buffer.resize((stored.end - stored.start) as usize, 0);
            let mut read = |check| {
                self.read_stored(opened, stored.start, &mut buffer, check)?;
                Ok::<_, ReadError>(open_frames(&opened.frames, frame, &mut buffer)?)
            };
            let mut pieces = match read(Check::ByFrames) {
                // It may be of another segment that had the same number before; or it is damaged, and staging says where.
                Err(_) if matches!(opened.places, Places::Staged(_)) => read(Check::ByRecords)?,
                pieces => pieces?,
            };
            // Cuts off what is before and behind the range.
            if let Some(first) = pieces.first_mut() {
                first.start += range.start.saturating_sub(frame * frame_bytes) as usize;
            }
            if let Some(last) = pieces.last_mut() {
                last.end -= (next * frame_bytes).min(size).saturating_sub(range.end) as usize;
            }
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
        // What the row says may be old by now: a flush can have archived the version since.
        match catalogue.staged(version.key).map_err(ArchiveError::from)? {
            Some((_, data)) => Ok(Places::Staged(data)),
            None => Ok(Places::Archived(catalogue.extents(version.key).map_err(ArchiveError::from)?)),
        }
    }

    /// Fills `out` with stored bytes of a version.
    fn read_stored(&mut self, opened: &Opened, from: u64, out: &mut [u8], check: Check) -> Result<(), ReadError> {
        match &opened.places {
            Places::Archived(extents) => self.read_extents(extents, from, out),
            Places::Staged(data) => match self.read_staged(opened, data, from, out, check) {
                // A flush may have archived the version since, and its segment be gone.
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
            let after = data.partition_point(|record| record.stored_offset <= from);
            let record = data[..after].last().filter(|record| from < record.stored_offset + u64::from(record.place.bytes));
            let StagedData { stored_offset, place } = *record.ok_or(ReadError::Uncovered { from })?;
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
            let extent = extent.ok_or(ReadError::Uncovered { from })?;
            let left = extent.object_offset + extent.bytes - from;
            let (now, later) = out.split_at_mut((out.len() as u64).min(left) as usize);
            self.content.read(extent.platter, extent.offset + (from - extent.object_offset), now)?;
            from += now.len() as u64;
            out = later;
        }
        Ok(())
    }
}

impl Archive {
    /// The platters that a version's bytes are on.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn platters_of(&self, version: &VersionRow) -> Result<Vec<PlatterId>, ArchiveError> {
        Ok(self.catalogue().extents(version.key)?.iter().map(|extent| extent.platter).collect())
    }
}
