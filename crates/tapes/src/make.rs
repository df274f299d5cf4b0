//! Writing files to new volumes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fulgurite_digest::{Algorithm, Digest, Digester};
use fulgurite_places::Refusal;

use crate::index::{Extent, IndexHead, Label, Partition, TapeFile, write_index, write_label};

/// Bytes of a block, LTFS's usual size.
pub const BLOCK_BYTES: u64 = 512 << 10;

/// Files could not be written to volumes.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// A file of the library can't be written.
    #[error("{}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file doesn't fit on a volume.
    #[error("{path} takes {bytes} bytes in whole blocks, and a tape has room for {capacity}")]
    TooLarge {
        /// The file.
        path: String,
        /// Bytes of its blocks.
        bytes: u64,
        /// Bytes of a volume.
        capacity: u64,
    },
    /// A file can't be read.
    #[error("{path}: {refusal}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        refusal: Refusal,
    },
    /// A file has changed its length.
    #[error("{path} has changed while it was read")]
    Changed {
        /// The file.
        path: String,
    },
}

/// Writes volumes of a library, one after another: `T00001`, `T00002` and so on.
pub struct VolumeWriter {
    folder: PathBuf,
    capacity: u64,
    volumes: u32,
    open: Option<OpenVolume>,
}

struct OpenVolume {
    name: String,
    folder: PathBuf,
    label: Label,
    blocks: BufWriter<File>,
    /// Blocks written.
    written: u64,
    files: Vec<TapeFile>,
}

impl VolumeWriter {
    /// Volumes of `capacity` bytes each, in a folder.
    #[must_use]
    pub fn new(folder: PathBuf, capacity: u64) -> Self {
        Self { folder, capacity, volumes: 0, open: None }
    }

    /// Checks that a file fits on a volume.
    ///
    /// # Errors
    /// [`MakeError::TooLarge`].
    pub fn check(&self, path: &str, bytes: u64) -> Result<(), MakeError> {
        let bytes = bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        if bytes > self.capacity {
            return Err(MakeError::TooLarge { path: path.to_owned(), bytes, capacity: self.capacity });
        }
        Ok(())
    }

    /// Writes a file. `read` passes its content on, as [`fulgurite_places::Connection::read`] does.
    ///
    /// # Errors
    /// [`MakeError`]; the volume is incomplete then.
    pub fn add(
        &mut self,
        path: &str,
        bytes: u64,
        read: impl FnOnce(&mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal>,
    ) -> Result<(), MakeError> {
        self.check(path, bytes)?;
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        if self.open.as_ref().is_some_and(|open| (open.written + blocks) * BLOCK_BYTES > self.capacity) {
            self.close()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                self.volumes += 1;
                none.insert(OpenVolume::begin(&self.folder, self.volumes)?)
            }
        };
        open.add(path, bytes, read)
    }

    /// Completes the last volume. Returns the number of volumes.
    ///
    /// # Errors
    /// [`MakeError::Io`].
    pub fn finish(mut self) -> Result<u32, MakeError> {
        self.close()?;
        Ok(self.volumes)
    }

    fn close(&mut self) -> Result<(), MakeError> {
        self.open.take().map_or(Ok(()), OpenVolume::close)
    }
}

impl OpenVolume {
    fn begin(library: &Path, number: u32) -> Result<Self, MakeError> {
        let name = format!("T{number:05}");
        let folder = library.join(&name);
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| MakeError::Io { path, source }
        };
        fs::create_dir(&folder).map_err(at(&folder))?;
        for letter in ["a", "b"] {
            File::create(folder.join(letter)).map_err(at(&folder.join(letter)))?;
        }
        let blocks = folder.join("b");
        let blocks = BufWriter::with_capacity(1 << 20, File::create(&blocks).map_err(at(&blocks))?);
        let label = Label { uuid: uuid(&folder), block_bytes: BLOCK_BYTES };
        Ok(Self { name, folder, label, blocks, written: 0, files: Vec::new() })
    }

    fn add(
        &mut self,
        path: &str,
        bytes: u64,
        read: impl FnOnce(&mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal>,
    ) -> Result<(), MakeError> {
        let failed = |source| MakeError::Io { path: self.folder.join("b"), source };
        let mut digester = Digester::new(&[Algorithm::Sha256]);
        let (mut written, mut failure) = (0, None);
        let result = read(&mut |piece| {
            digester.update(piece);
            written += piece.len() as u64;
            // Only what was reserved on the volume.
            if written > bytes {
                return false;
            }
            failure = self.blocks.write_all(piece).err();
            failure.is_none()
        });
        if let Some(error) = failure {
            return Err(failed(error));
        }
        if written != bytes {
            let changed = MakeError::Changed { path: path.to_owned() };
            return Err(result
                .err()
                .filter(|_| written < bytes)
                .map_or(changed, |refusal| MakeError::Unreadable { path: path.to_owned(), refusal }));
        }
        result.map_err(|refusal| MakeError::Unreadable { path: path.to_owned(), refusal })?;
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        io::copy(&mut io::repeat(0).take(blocks * BLOCK_BYTES - bytes), &mut self.blocks).map_err(failed)?;
        let extent = Extent { partition: Partition::B, block: self.written, offset: 0, bytes, file_offset: 0 };
        let extents = if bytes > 0 { vec![extent] } else { Vec::new() };
        self.written += blocks;
        let digest: Option<Digest> = digester.finish().pop();
        self.files.push(TapeFile { path: path.to_owned(), bytes, extents, digest });
        Ok(())
    }

    fn close(self) -> Result<(), MakeError> {
        let Self { name, folder, label, blocks, files, .. } = self;
        let path = folder.join("b");
        let flushed = blocks.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        flushed.map_err(|source| MakeError::Io { path, source })?;
        let head = IndexHead { uuid: label.uuid.clone(), generation: 1 };
        write_whole(&folder.join("label.xml"), &|out| write_label(out, &label))?;
        write_whole(&folder.join("index.xml"), &|out| write_index(out, &head, &name, &files))
    }
}

fn write_whole(path: &Path, write: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> Result<(), MakeError> {
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    });
    written.map_err(|source| MakeError::Io { path: path.to_owned(), source })
}

/// A UUID of version 8 from the folder and the time: unique enough to tell volumes of one library
/// apart.
fn uuid(folder: &Path) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut digester = Digester::new(&[Algorithm::Sha256]);
    digester.update(format!("{} {} {}", folder.display(), since.as_nanos(), std::process::id()).as_bytes());
    let hex = digester.finish()[0].hex();
    format!("{}-{}-8{}-8{}-{}", &hex[..8], &hex[8..12], &hex[12..15], &hex[15..18], &hex[18..30])
}
