//! A key export sealed under a passphrase, with error correction.
//!
//! The frames are those of version 1; blocks around them are new, see [`super::blocks`]. The reader
//! accepts both versions. Only the frame tags prove correctness: frames from wrongly assembled or
//! wrongly restored blocks don't open.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::VERSION;
use super::blocks::MAGIC;
use super::read::{BlockReader, has_block};
use super::write::BlockWriter;
use crate::v1::sealed_export::{
    FrameReader, FrameWriter, HEAD_BYTES, SALT_BYTES, ScryptCost, SealedExportError, begins_as_sealed, head, parse_head,
};
use crate::v1::{self, u32_at};

/// Whether a file is a sealed export: it starts like one, or contains a block of one. Unreadable
/// sectors are skipped.
///
/// # Errors
/// Those of seeking.
pub fn is_sealed_export(reader: &mut (impl Read + Seek)) -> io::Result<bool> {
    reader.rewind()?;
    let mut beginning = [0; MAGIC.len()];
    // If the beginning is unreadable, a block elsewhere tells.
    let read = v1::sealed_export::read_full(reader, &mut beginning).unwrap_or(0);
    Ok(begins_as_sealed(&beginning[..read]) || has_block(reader)?)
}

/// Seals the bytes written to it. Must be [finished](Self::finish).
pub struct SealedExportWriter<W: Write>(FrameWriter<BlockWriter<W>>);

impl<W: Write> SealedExportWriter<W> {
    /// Derives the key. `salt` must be random and unique to the export.
    ///
    /// # Errors
    /// [`SealedExportError::Cost`] for a cost that no reader would accept.
    pub fn new(writer: W, passphrase: &[u8], salt: [u8; SALT_BYTES], cost: ScryptCost) -> Result<Self, SealedExportError> {
        Ok(Self(FrameWriter::new(BlockWriter::new(writer, head(VERSION, salt, cost)), passphrase, &salt, cost)?))
    }

    /// Writes the remaining bytes and returns the writer.
    ///
    /// # Errors
    /// Write errors; also [`io::ErrorKind::InvalidInput`] if nothing was written.
    pub fn finish(self) -> io::Result<W> {
        self.0.finish()?.finish()
    }
}

impl<W: Write> Write for SealedExportWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    /// Doesn't write the current frame and section: they are written when full, or on
    /// [`finish`](Self::finish).
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Opens a sealed export of any version and yields its content. Its own errors are
/// [`io::ErrorKind::InvalidData`] with a [`SealedExportError`] inside; read errors pass through.
pub struct SealedExportReader<R: Read + Seek>(Inner<R>);

enum Inner<R> {
    Frames(FrameReader<R>),
    Blocks { frames: Box<FrameReader<BlockReader<R>>>, lost: u64 },
}

impl<R: Read + Seek> SealedExportReader<R> {
    /// Searches the file for blocks and reads the first frame, so that a wrong passphrase fails
    /// here.
    ///
    /// # Errors
    /// [`SealedExportError`].
    pub fn new(reader: R, passphrase: &[u8]) -> Result<Self, SealedExportError> {
        let mut reader = match BlockReader::new(reader)? {
            Ok(blocks) => {
                let (salt, cost) = parse_head(&blocks.head());
                let lost = blocks.lost();
                return Ok(Self(Inner::Blocks { frames: Box::new(FrameReader::new(blocks, passphrase, &salt, cost)?), lost }));
            }
            Err(reader) => reader,
        };
        reader.seek(SeekFrom::Start(0))?;
        let mut head = [0; HEAD_BYTES];
        let read = v1::sealed_export::read_full(&mut reader, &mut head)?;
        if !begins_as_sealed(&head[..read]) {
            return Err(SealedExportError::NotAnExport);
        }
        if read < HEAD_BYTES {
            return Err(SealedExportError::Truncated(0));
        }
        match u32_at(&head, 8) {
            v1::VERSION => {}
            VERSION => return Err(SealedExportError::SectionLost(0)),
            0 => return Err(SealedExportError::NotAnExport),
            found => return Err(SealedExportError::Newer(found)),
        }
        let (salt, cost) = parse_head(&head);
        Ok(Self(Inner::Frames(FrameReader::new(reader, passphrase, &salt, cost)?)))
    }

    /// Damaged or missing blocks, which error correction restores; 1 if none are, but the file has
    /// extra bytes. If not 0, replace this export with a new one.
    pub fn corrected(&self) -> u64 {
        match &self.0 {
            Inner::Frames(_) => 0,
            Inner::Blocks { lost, .. } => *lost,
        }
    }
}

impl<R: Read + Seek> Read for SealedExportReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Inner::Frames(frames) => frames.read(buffer),
            Inner::Blocks { frames, .. } => frames.read(buffer),
        }
    }
}

impl<W: Write> fmt::Debug for SealedExportWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedExportWriter").finish_non_exhaustive()
    }
}

impl<R: Read + Seek> fmt::Debug for SealedExportReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedExportReader").field("corrected", &self.corrected()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "sealed_export_tests.rs"]
pub(crate) mod tests;
