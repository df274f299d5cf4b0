//! Reading objects: stored bytes from staging or platters, opened frame by frame.
//!
//! Every frame is checked by its tag before a byte of it leaves, and a whole object by its SHA-256 (I5).

use std::io;
use std::ops::Range;

use aws_lc_rs::digest;
use fulgurite_domain::{Digest, PlatterId, VersionId};
use fulgurite_format::{FRAME_BYTES, FrameError, Frames, STORED_FRAME_BYTES, stored_bytes};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Extent, StagedData, VersionRow};
use crate::content::{ContentError, ContentReader};
use crate::ingest::RECORD_FRAMES;
use crate::place::{Place, reach};
use crate::set_reader::{BeyondRepair, Repairs};

/// Why an object can't be given back.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its bytes are lost.
    #[error(transparent)]
    Lost(#[from] BeyondRepair),
    /// Its key is not in the key store.
    #[error("its key is not in the key store: destroyed by `rm`, or the key store is not the right one (`fulgurite keys import`)")]
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
            ContentError::Archive(error) => Self::Archive(error),
        }
    }
}

/// Where the stored bytes of a version are.
enum Places {
    Staged(Vec<StagedData>),
    Archived(Vec<Extent>),
}

/// Reads objects. One for each thread.
pub struct ObjectReader<'a> {
    archive: &'a Archive,
    content: ContentReader<'a>,
    /// How far it was told that reading goes on.
    ahead: Option<(PlatterId, u64)>,
    stored: Vec<u8>,
    payload: Vec<u8>,
}

impl<'a> ObjectReader<'a> {
    /// A reader of an archive's objects.
    #[must_use]
    pub fn new(archive: &'a Archive) -> Self {
        Self { archive, content: ContentReader::new(archive), ahead: None, stored: Vec::new(), payload: Vec::new() }
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
        let mut hash = digest::Context::new(&digest::SHA256);
        self.read_range(version, 0..version.record.size, &mut |bytes| {
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
        if stored_bytes(version.record.size) != version.stored_bytes {
            return Err(ReadError::Uncovered { from: version.stored_bytes });
        }
        let range = range.start.min(version.record.size)..range.end.min(version.record.size);
        if range.is_empty() {
            return Ok(());
        }
        let frames = self.frames(version.id, version.sealed)?;
        let places = self.places(version)?;
        let frame_bytes = FRAME_BYTES as u64;
        let (mut frame, end) = (range.start / frame_bytes, range.end.div_ceil(frame_bytes));
        while frame < end {
            // Up to the end of the staged record that the frame is in, so that each record is read once.
            let next = end.min((frame / RECORD_FRAMES as u64 + 1) * RECORD_FRAMES as u64);
            let stored = frame * STORED_FRAME_BYTES as u64..(next * STORED_FRAME_BYTES as u64).min(version.stored_bytes);
            let mut bytes = std::mem::take(&mut self.stored);
            bytes.resize((stored.end - stored.start) as usize, 0);
            let result = self.read_stored(version, &places, stored.start, &mut bytes);
            self.stored = bytes;
            result?;
            for (index, bytes) in (frame..).zip(self.stored.chunks_mut(STORED_FRAME_BYTES)) {
                let content = frames.open(index, bytes)?;
                let from = range.start.saturating_sub(index * frame_bytes).min(content.len() as u64);
                let to = (range.end - index * frame_bytes).min(content.len() as u64);
                sink(&content[from as usize..to as usize])?;
            }
            frame = next;
        }
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
    fn read_stored(&mut self, version: &VersionRow, places: &Places, from: u64, out: &mut [u8]) -> Result<(), ReadError> {
        match places {
            Places::Archived(extents) => self.read_extents(extents, from, out),
            Places::Staged(data) => match self.read_staged(data, from, out) {
                // A flush may have archived the version since, and its segment be gone.
                Err(ReadError::Archive(ArchiveError::Staging(error))) => match self.places(version)? {
                    Places::Archived(extents) => self.read_extents(&extents, from, out),
                    Places::Staged(_) => Err(ArchiveError::from(error).into()),
                },
                result => result,
            },
        }
    }

    fn read_staged(&mut self, data: &[StagedData], mut from: u64, mut out: &mut [u8]) -> Result<(), ReadError> {
        while !out.is_empty() {
            let after = data.partition_point(|record| record.stored_offset <= from);
            let record = data[..after].last().filter(|record| from < record.stored_offset + u64::from(record.place.bytes));
            let record = record.ok_or(ReadError::Uncovered { from })?;
            let mut payload = std::mem::take(&mut self.payload);
            let read = self.archive.staging().read(record.place, &mut payload);
            self.payload = payload;
            read.map_err(ArchiveError::from)?;
            let start = (from - record.stored_offset) as usize;
            let (now, later) = out.split_at_mut(out.len().min(self.payload.len() - start));
            now.copy_from_slice(&self.payload[start..start + now.len()]);
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
