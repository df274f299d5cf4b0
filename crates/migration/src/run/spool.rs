//! Spool volumes: where lots wait between input and output, in memory or in a folder.

mod blocks;
mod found;

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

pub use self::blocks::{Blocks, InBlocks};
pub use self::found::{FoundLot, LotFiles, SpooledFile};
use crate::lot::LotId;

/// Bytes that are read from a spool at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The file that tells that a run uses a folder.
const LOCK: &str = ".fulgurite-spool-lock";

/// A spool volume.
#[derive(Debug, Clone)]
pub enum SpoolVolume {
    /// In memory.
    Memory(Blocks),
    /// In a folder, a file for each lot, and a list of the files in it. A run that goes on after a
    /// kill doesn't read them again.
    Folder(PathBuf),
}

/// A spool volume in use.
#[derive(Debug, Default)]
pub struct Prepared {
    /// The volume is in use as long as this is open.
    pub lock: Option<File>,
    /// The lots that an earlier run of the migration left, in the order of their numbers.
    pub found: Vec<FoundLot>,
}

impl SpoolVolume {
    /// Prepares the volume for a migration, and finds what its earlier run left; what another
    /// migration left is removed.
    ///
    /// # Errors
    /// If the folder can't be created or read, or another run uses it.
    pub fn prepare(&self, migration: &str) -> io::Result<Prepared> {
        let Self::Folder(folder) = self else { return Ok(Prepared::default()) };
        fs::create_dir_all(folder)?;
        let path = folder.join(LOCK);
        if path.is_symlink() {
            return Err(io::Error::other(format!("{} is a symbolic link", path.display())));
        }
        let lock = File::options().write(true).create(true).truncate(false).open(path)?;
        lock.try_lock().map_err(|_| io::Error::other(format!("another migration uses the spool folder {}", folder.display())))?;
        Ok(Prepared { lock: Some(lock), found: found::lots(folder, migration)? })
    }

    /// Begins a lot of a migration.
    ///
    /// # Errors
    /// If its file can't be created.
    pub fn begin(&self, migration: &str, lot: LotId) -> io::Result<SpoolWriter> {
        match self {
            Self::Memory(blocks) => Ok(SpoolWriter::Memory(InBlocks::new(blocks))),
            Self::Folder(folder) => {
                let files = LotFiles::new(folder, lot);
                let (content, list) = files.create(migration)?;
                Ok(SpoolWriter::File { content, list, bytes: 0, files })
            }
        }
    }
}

/// A lot being spooled.
#[derive(Debug)]
pub enum SpoolWriter {
    /// In memory.
    Memory(InBlocks),
    /// In a file.
    File {
        /// The file.
        content: File,
        /// The list of complete files.
        list: File,
        /// Bytes written.
        bytes: u64,
        /// Where both are.
        files: LotFiles,
    },
}

impl SpoolWriter {
    /// Bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Memory(content) => content.bytes(),
            Self::File { bytes, .. } => *bytes,
        }
    }

    /// Appends a piece.
    ///
    /// # Errors
    /// If the volume is full or fails.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory(content) => content.write(piece)?,
            Self::File { content, bytes, .. } => {
                content.write_all(piece)?;
                *bytes += piece.len() as u64;
            }
        }
        Ok(())
    }

    /// Removes everything after the first `bytes` bytes: a file that could not be read.
    ///
    /// # Errors
    /// If the volume fails.
    pub fn cut(&mut self, to: u64) -> io::Result<()> {
        match self {
            Self::Memory(content) => content.cut(to),
            Self::File { content, bytes, .. } => {
                content.set_len(to)?;
                io::Seek::seek(content, io::SeekFrom::Start(to))?;
                *bytes = to;
            }
        }
        Ok(())
    }

    /// Notes that all of a file was appended, so that it isn't read again after a kill.
    ///
    /// # Errors
    /// If the volume is full or fails.
    pub fn complete(&mut self, file: &SpooledFile) -> io::Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File { list, .. } => found::note(list, file),
        }
    }

    /// The lot, complete.
    #[must_use]
    pub fn finish(self) -> Arc<Spooled> {
        Arc::new(match self {
            Self::Memory(content) => Spooled::Memory(content),
            Self::File { files, .. } => Spooled::File(files),
        })
    }
}

/// A spooled lot. One in a folder stays there for another run until it is
/// [released](Self::release).
#[derive(Debug)]
pub enum Spooled {
    /// In memory.
    Memory(InBlocks),
    /// In a file, which is opened for each reader: many lots may wait.
    File(LotFiles),
}

impl Spooled {
    /// The lot is not needed any more: it is removed when the last reference is dropped.
    pub fn release(&self) {
        if let Self::File(files) = self {
            files.release();
        }
    }

    /// Reads a range.
    #[must_use]
    pub fn reader(&self, offset: u64, bytes: u64) -> Box<dyn Read + Send + '_> {
        match self {
            Self::Memory(content) => Box::new(content.reader(offset, bytes)),
            Self::File(files) => match File::open(files.content()) {
                Ok(file) => {
                    let capacity = PIECE_BYTES.min(bytes.max(1) as usize);
                    Box::new(BufReader::with_capacity(capacity, Range { file, at: offset, end: offset + bytes }))
                }
                Err(error) => Box::new(Unreadable(Some(error))),
            },
        }
    }
}

/// A spooled file that can't be opened any more.
struct Unreadable(Option<io::Error>);

impl Read for Unreadable {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.take().unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }
}

struct Range {
    file: File,
    at: u64,
    end: u64,
}

impl Read for Range {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
