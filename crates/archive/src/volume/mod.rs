//! A directory tree on a disk: staging, or a store in a folder. (SQLite has its own access to
//! disks, and settings, keys and files of the user are accessed directly.)
//!
//! Staging and stores access their files only through this trait, so that tests can substitute a
//! disk that loses, tears and reorders unsynced writes, and fails on demand. The guarantees are
//! those of POSIX and no more:
//! - written bytes survive a crash after [`VolumeFile::sync`];
//! - a new, renamed or removed name survives after [`Volume::sync_directory`] of its directory;
//! - before that, any part of the change may have happened, in any order.

mod appending;
mod direct;

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, OFlags};

pub(crate) use appending::Appending;
use direct::{DirectFile, open_with_flag};
pub(crate) use direct::{PIECE_BYTES, new_piece};

/// Makes the names in a folder durable, for files outside of volumes too.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes the name of a file durable.
pub(crate) fn sync_folder_of(file: &Path) -> io::Result<()> {
    sync_folder(file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// A path at which a file was expected.
#[derive(Debug, thiserror::Error)]
#[error("{} is {what}, not a file", path.display())]
pub(crate) struct NotAFile {
    path: PathBuf,
    what: &'static str,
}

impl NotAFile {
    /// The reason for an error of [`Volume::open`], if it is this one.
    pub(crate) fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    fn of(path: &Path, found: FileType) -> io::Error {
        let what = match found {
            found if found.is_fifo() => "a named pipe",
            found if found.is_socket() => "a socket",
            _ => "a device",
        };
        io::Error::other(Self { path: path.to_owned(), what })
    }
}

/// Opens a file for reading. Fails at once with [`NotAFile`] for anything else: opening a named
/// pipe would wait for a writer. Folders can be opened, and their reads fail, as on a damaged disk.
fn open_file(path: &Path) -> io::Result<File> {
    let is_accepted = |found: FileType| found.is_file() || found.is_dir();
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => match file.metadata()?.file_type() {
            found if is_accepted(found) => Ok(file),
            found => Err(NotAFile::of(path, found)),
        },
        // Sockets can't be opened.
        Err(error) => match std::fs::metadata(path) {
            Ok(found) if !is_accepted(found.file_type()) => Err(NotAFile::of(path, found.file_type())),
            _ => Err(error),
        },
    }
}

/// A tree of files. Names are relative; components are separated by `/`.
pub trait Volume: Send + Sync {
    /// Creates a new, empty file. Fails if it exists.
    fn create(&self, name: &str) -> io::Result<Box<dyn VolumeFile>>;
    /// Opens a file for reading.
    fn open(&self, name: &str) -> io::Result<Box<dyn VolumeFile>>;
    /// Like [`create`](Self::create), for a file that is written sequentially in large pieces and
    /// not read soon. Bypasses the page cache if the volume supports it. Bytes may stay in a buffer
    /// until [`VolumeFile::sync`], so the file must be synced and opened again to be read.
    fn create_direct(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        self.create(name)
    }
    /// Like [`create`](Self::create), for a file that is appended to in pieces of all sizes. Large
    /// pieces bypass the page cache if the volume supports it.
    fn create_appended(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        self.create(name)
    }
    /// Like [`open`](Self::open), for a file whose large reads should come from the disk itself.
    /// They bypass the page cache if the volume supports it.
    fn open_direct(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        self.open(name)
    }
    /// Renames a file, replacing an existing file of the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Truncates a file to `bytes`, durably: the removed tail doesn't reappear after a crash.
    fn cut(&self, name: &str, bytes: u64) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// True if there is a folder of this name.
    fn is_folder(&self, _name: &str) -> bool {
        false
    }
    /// Names of files and folders in a directory, in no particular order.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;
    /// Makes the names in a directory durable.
    fn sync_directory(&self, directory: &str) -> io::Result<()>;
    /// Creates a directory and its parents.
    fn create_directory(&self, directory: &str) -> io::Result<()>;
    /// Fails if files can't be made in a directory, as on a disk that has become read-only. Writes
    /// nothing, so other errors may follow.
    fn check_writable(&self, _directory: &str) -> io::Result<()> {
        Ok(())
    }
    /// Bytes that can still be written, if known.
    fn free_bytes(&self) -> Option<u64>;
    /// False if the file system is known to have no room for another file, however short.
    fn has_free_files(&self) -> bool {
        true
    }
    /// Description of the volume for messages.
    fn describe(&self) -> String;
}

/// An open file of a [`Volume`].
pub trait VolumeFile: Send + Sync {
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads up to `buffer.len()` bytes from `offset` on and returns how many: fewer are allowed, 0
    /// only at the end of the file. The rest of `buffer` keeps its content.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Fills the buffer with bytes at `offset` that are in the page cache. Returns `false`, without
    /// having waited for a disk, if they are not, or if the volume can't tell.
    fn read_cached_at(&self, _offset: u64, _buffer: &mut [u8]) -> bool {
        false
    }
    /// Reserves space for a file of `bytes`, so that a full disk is detected now. Unwritten bytes
    /// read as zeros. Does nothing if the file system doesn't support it.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Truncates the file, or extends it with zeros.
    fn set_length(&self, bytes: u64) -> io::Result<()>;
    /// Length of the file.
    fn length(&self) -> io::Result<u64>;
    /// Makes written bytes durable.
    fn sync(&self) -> io::Result<()>;
    /// Drops the file from the page cache, so that the next read comes from the disk.
    fn forget_cached(&self);
}

/// A local folder.
pub struct FolderVolume {
    root: PathBuf,
}

impl FolderVolume {
    /// The tree below `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn create_file(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(self.path(name))
    }
}

impl Volume for FolderVolume {
    fn create(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        Ok(Box::new(FolderFile { file: self.create_file(name)?, direct: Direct::Unavailable }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        Ok(Box::new(FolderFile { file: open_file(&self.path(name))?, direct: Direct::Unavailable }))
    }

    fn create_direct(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        let file = self.create_file(name)?;
        let direct = open_with_flag(OpenOptions::new().write(true), &self.path(name));
        Ok(Box::new(FolderFile { file, direct: Direct::sequential(direct) }))
    }

    fn create_appended(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        let file = self.create_file(name)?;
        let direct = open_with_flag(OpenOptions::new().write(true), &self.path(name));
        Ok(Box::new(FolderFile { file, direct: direct.map_or(Direct::Unavailable, Direct::Appended) }))
    }

    fn open_direct(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        let file = open_file(&self.path(name))?;
        let direct = open_with_flag(OpenOptions::new().read(true), &self.path(name));
        Ok(Box::new(FolderFile { file, direct: Direct::sequential(direct) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn cut(&self, name: &str, bytes: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.path(name))?;
        file.set_len(bytes)?;
        file.sync_all()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(directory))? {
            let entry = entry?;
            let is_special = |found: FileType| !found.is_file() && !found.is_dir() && !found.is_symlink();
            if !entry.file_type().is_ok_and(is_special) {
                // Names that aren't UTF-8 are foreign files.
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }

    fn is_folder(&self, name: &str) -> bool {
        std::fs::symlink_metadata(self.path(name)).is_ok_and(|found| found.is_dir())
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        sync_folder(&self.path(directory))
    }

    fn create_directory(&self, directory: &str) -> io::Result<()> {
        std::fs::create_dir_all(self.path(directory))
    }

    fn check_writable(&self, directory: &str) -> io::Result<()> {
        Ok(rustix::fs::access(self.path(directory), Access::WRITE_OK | Access::EXEC_OK)?)
    }

    fn free_bytes(&self) -> Option<u64> {
        free_bytes(&self.root)
    }

    fn has_free_files(&self) -> bool {
        // A file system that makes inodes as it needs them reports a total of 0.
        rustix::fs::statvfs(&self.root).map_or(true, |stat| stat.f_files == 0 || stat.f_favail > 0)
    }

    fn describe(&self) -> String {
        self.root.display().to_string()
    }
}

/// Reads with `read_at` from `offset` on, until the buffer is full or the file ends. Returns the
/// number of bytes read.
pub(crate) fn read_full(read_at: impl Fn(u64, &mut [u8]) -> io::Result<usize>, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match read_at(offset + read as u64, &mut buffer[read..])? {
            0 => break,
            bytes => read += bytes,
        }
    }
    Ok(read)
}

/// Bytes that an ordinary user may still write to the file system of `path`.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

struct FolderFile {
    file: File,
    direct: Direct,
}

/// The path by which large pieces bypass the page cache.
enum Direct {
    Unavailable,
    Sequential(DirectFile),
    Appended(File),
}

impl Direct {
    fn sequential(direct: Option<File>) -> Self {
        direct.map_or(Self::Unavailable, |direct| Self::Sequential(DirectFile::new(direct)))
    }
}

impl FolderFile {
    fn finish_writing(&self) -> io::Result<()> {
        match &self.direct {
            Direct::Sequential(direct) => direct.finish_writing(&self.file),
            Direct::Unavailable | Direct::Appended(_) => Ok(()),
        }
    }
}

impl VolumeFile for FolderFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.direct {
            Direct::Unavailable => self.file.write_all_at(bytes, offset),
            Direct::Sequential(direct) => direct.write_at(&self.file, offset, bytes),
            Direct::Appended(direct) => appending::write_at(&self.file, direct, offset, bytes),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if let Direct::Sequential(direct) = &self.direct
            && let Some(read) = direct.read_directly(offset, buffer)
        {
            return read;
        }
        self.file.read_at(buffer, offset)
    }

    #[cfg(target_os = "linux")]
    fn read_cached_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
        use rustix::io::{ReadWriteFlags, preadv2};
        // File systems without support for this answer with an error.
        let length = buffer.len();
        preadv2(&self.file, &mut [io::IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT).is_ok_and(|read| read == length)
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        use rustix::io::Errno;
        if bytes == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            other => Ok(other?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.finish_writing()?;
        self.file.set_len(bytes)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.finish_writing()?;
        self.file.sync_data()
    }

    fn forget_cached(&self) {
        #[cfg(target_os = "linux")]
        // Only a hint. If it is refused, verification reads from the page cache, and the next scrub
        // reads the disk.
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
    }
}
