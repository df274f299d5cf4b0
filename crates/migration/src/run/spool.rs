//! Spool volumes: where lots wait between input and output, in memory or in a folder.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::lot::LotId;

/// Bytes that are read from a spool at a time.
const PIECE_BYTES: usize = 1 << 20;

/// How the names of lots begin and end, so that nothing else is taken for one.
const LOT: (&str, &str) = (".fulgurite-spool-", ".lot");
/// The file that tells that a run uses a folder.
const LOCK: &str = ".fulgurite-spool-lock";

/// A spool volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpoolVolume {
    /// In memory.
    Memory,
    /// In a folder, a file for each lot.
    Folder(PathBuf),
}

impl SpoolVolume {
    /// Prepares the volume, and removes what an earlier run left. The volume is in use as long as
    /// the returned file is open.
    ///
    /// # Errors
    /// If the folder can't be created or read, or another run uses it.
    pub fn prepare(&self) -> io::Result<Option<File>> {
        let Self::Folder(folder) = self else { return Ok(None) };
        fs::create_dir_all(folder)?;
        let lock = File::create(folder.join(LOCK))?;
        lock.try_lock().map_err(|_| io::Error::other(format!("another migration uses the spool folder {}", folder.display())))?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let is_lot = |name: &str| name.starts_with(LOT.0) && name.ends_with(LOT.1);
            if path.file_name().and_then(|name| name.to_str()).is_some_and(is_lot) {
                fs::remove_file(path)?;
            }
        }
        Ok(Some(lock))
    }

    /// Begins a lot of about `bytes` bytes.
    ///
    /// # Errors
    /// If its file can't be created.
    pub fn begin(&self, lot: LotId, bytes: u64) -> io::Result<SpoolWriter> {
        match self {
            Self::Memory => {
                let mut content = Vec::new();
                content.try_reserve_exact(usize::try_from(bytes).map_err(io::Error::other)?).map_err(io::Error::other)?;
                Ok(SpoolWriter::Memory(content))
            }
            Self::Folder(folder) => {
                let path = folder.join(format!("{}{}{}", LOT.0, lot.0, LOT.1));
                // Other users must not read what is spooled.
                let mut options = fs::OpenOptions::new();
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                let file = options.read(true).write(true).create(true).truncate(true).open(&path)?;
                Ok(SpoolWriter::File { file, bytes: 0, path: Removed(path) })
            }
        }
    }
}

/// A file that is removed when this is dropped.
#[derive(Debug)]
pub struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // The next run removes what is left.
        let _ = fs::remove_file(&self.0);
    }
}

/// A lot being spooled. Dropping it removes what was spooled.
#[derive(Debug)]
pub enum SpoolWriter {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file.
    File {
        /// The file.
        file: File,
        /// Bytes written.
        bytes: u64,
        /// Its path.
        path: Removed,
    },
}

impl SpoolWriter {
    /// Bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Memory(content) => content.len() as u64,
            Self::File { bytes, .. } => *bytes,
        }
    }

    /// Appends a piece.
    ///
    /// # Errors
    /// If the volume is full or fails.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory(content) => content.extend_from_slice(piece),
            Self::File { file, bytes, .. } => {
                file.write_all(piece)?;
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
            Self::Memory(content) => content.truncate(to as usize),
            Self::File { file, bytes, .. } => {
                file.set_len(to)?;
                io::Seek::seek(file, io::SeekFrom::Start(to))?;
                *bytes = to;
            }
        }
        Ok(())
    }

    /// The lot, complete.
    #[must_use]
    pub fn finish(self) -> Arc<Spooled> {
        Arc::new(match self {
            Self::Memory(content) => Spooled::Memory(content),
            Self::File { path, .. } => Spooled::File(path),
        })
    }
}

/// A spooled lot. It is removed when the last reference is dropped.
#[derive(Debug)]
pub enum Spooled {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file, which is opened for each reader: many lots may wait.
    File(Removed),
}

impl Spooled {
    /// Reads a range.
    #[must_use]
    pub fn reader(&self, offset: u64, bytes: u64) -> Box<dyn Read + Send + '_> {
        match self {
            Self::Memory(content) => Box::new(&content[offset as usize..(offset + bytes) as usize]),
            Self::File(path) => match File::open(&path.0) {
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
mod tests {
    use super::*;

    fn read(spooled: &Spooled, offset: u64, bytes: u64) -> Vec<u8> {
        let mut content = Vec::new();
        spooled.reader(offset, bytes).read_to_end(&mut content).expect("it can be read");
        content
    }

    #[test]
    fn both_kinds_give_back_what_was_spooled_and_leave_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        for volume in [SpoolVolume::Memory, SpoolVolume::Folder(folder.path().join("spool"))] {
            let _lock = volume.prepare().expect("prepared");
            let mut writer = volume.begin(LotId(3), 10).expect("begun");
            writer.write(b"first").expect("written");
            writer.write(b"half a sec").expect("written");
            writer.cut(5).expect("cut");
            writer.write(b"third").expect("written");
            assert_eq!(writer.bytes(), 10);
            let spooled = writer.finish();
            assert_eq!((read(&spooled, 0, 5), read(&spooled, 5, 5), read(&spooled, 5, 0)), (b"first".to_vec(), b"third".to_vec(), vec![]));
        }
        let volume = SpoolVolume::Folder(folder.path().join("spool"));
        let entries = || fs::read_dir(folder.path().join("spool")).expect("a folder").count();
        assert_eq!(entries(), 1, "dropped lots are removed, and the lock stays");
        // A killed run leaves its lots.
        std::mem::forget(volume.begin(LotId(4), 1).expect("begun"));
        fs::write(folder.path().join("spool/parking.lot"), "not a lot").expect("written");
        assert_eq!(entries(), 3);
        let lock = volume.prepare().expect("prepared");
        assert_eq!(entries(), 2, "only lots are removed");
        assert!(volume.prepare().is_err(), "one run at a time uses a folder");
        drop(lock);
    }
}
