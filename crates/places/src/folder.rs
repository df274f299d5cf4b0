//! Folders and mounts.
//!
//! ```text
//! /mnt/copies            the root, opened anew for each operation: it may be unmounted at any time
//!   collection/a.tif     location "collection/a.tif"
//!   link -> ../outside   refused: no path leads out of the root
//! ```
//!
//! A missing file is [`Cause::Missing`] only while the root is the folder that it was when the
//! connection was opened. A disk that was unmounted leaves an empty folder at the same path, and
//! all copies would seem missing; the device and inode of the root tell them apart. The option
//! `marker` names a file that only the right folder contains, which also detects a disk that was
//! never mounted.
//!
//! The page cache is dropped for each file before it is read, so that the bytes come from the
//! medium and not from memory, as far as the system does that. Calls have no deadlines: the system
//! decides how long a disk or a network mount may take.

mod listing;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fulgurite_domain::Modified;
use fulgurite_new_file::NewFile;
use rustix::fs::{Advice, AtFlags, CWD, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use self::listing::Listing;
use super::location;
use super::{Cause, Connection, LeftOut, Listed, Place, Refusal, Unchanged, changed, fill, name_at, pass, wrong_length};

/// Bytes per read.
const BUFFER_BYTES: usize = 256 << 10;

/// A folder, or a mounted file system.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
    marker: Option<String>,
}

impl Folder {
    /// The folder `root`. Nothing is opened yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), marker: None }
    }

    /// Requires that the folder contains the file `location`: without it, every operation fails
    /// and nothing is reported missing.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if `location` is invalid.
    pub fn with_marker(mut self, location: impl Into<String>) -> Result<Self, Refusal> {
        let marker = location.into();
        location::check(&marker)?;
        self.marker = Some(marker);
        Ok(self)
    }
}

impl Place for Folder {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        let (_, identity) = open_root(&self.root)?;
        let connection = FolderConnection { folder: self.clone(), identity, buffer: Vec::new(), left_out: LeftOut::default() };
        connection.root()?;
        Ok(Box::new(connection))
    }

    fn describe(&self) -> String {
        self.root.display().to_string()
    }
}

/// Device and inode.
type Identity = (u64, u64);

struct FolderConnection {
    folder: Folder,
    identity: Identity,
    buffer: Vec<u8>,
    left_out: LeftOut,
}

impl FolderConnection {
    /// Opens the root, if it is still the folder that this connection was opened for.
    fn root(&self) -> Result<OwnedFd, Refusal> {
        let (root, identity) = open_root(&self.folder.root)?;
        let absent = |problem: &str| Err(Refusal::new(Cause::Absent, format!("{}: {problem}", self.folder.root.display())));
        if identity != self.identity {
            return absent("another folder than before is at this path; was it mounted or unmounted?");
        }
        let Some(marker) = &self.folder.marker else { return Ok(root) };
        match open_beneath(root.as_fd(), &name_at(marker), OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(_) => Ok(root),
            Err(Errno::NOENT | Errno::NOTDIR) => absent(&format!("it lacks its marker {marker:?}; is the right file system mounted?")),
            Err(errno) => Err(refusal(errno, marker)),
        }
    }

    fn open(&self, location: &str) -> Result<(File, u64), Refusal> {
        location::check(location)?;
        let root = self.root()?;
        // Without NONBLOCK, opening a FIFO would wait for a writer.
        let file = match open_beneath(root.as_fd(), &name_at(location), OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::NOTDIR) => {
                // Asked again after the failure: the root may have gone in between.
                self.root()?;
                return Err(Refusal::new(Cause::Missing, location));
            }
            Err(errno) => return Err(refusal(errno, location)),
        };
        let status = rustix::fs::fstat(&file).map_err(|errno| refusal(errno, location))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Ok((file, u64::try_from(status.st_size).unwrap_or(0))),
            other => Err(not_a_file(location, other)),
        }
    }

    /// Opens the folder of a location, and returns the name in it. Creates the folder if wanted.
    fn parent(&self, location: &str, create: bool) -> Result<(OwnedFd, Vec<u8>), Refusal> {
        location::check(location)?;
        let mut folder = self.root()?;
        let path = name_at(location);
        let (folders, name) = split_name(&path);
        let name = name.to_vec();
        let Some(folders) = folders else { return Ok((folder, name)) };
        if !create {
            return Ok((open_beneath(folder.as_fd(), folders, FOLDER).map_err(|errno| refusal(errno, location))?, name));
        }
        let root = folder.try_clone().map_err(|error| from_io(&error, location))?;
        let mut path = Vec::new();
        for part in folders.split(|byte| *byte == b'/') {
            path.extend(if path.is_empty() { &b""[..] } else { b"/" });
            path.extend(part);
            match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o777)) {
                // The entry is in the parent, which must be durable too.
                Ok(()) => rustix::fs::fsync(&folder).map_err(|errno| refusal(errno, location))?,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(refusal(errno, location)),
            }
            folder = open_beneath(root.as_fd(), &path, FOLDER).map_err(|errno| refusal(errno, location))?;
        }
        Ok((folder, name))
    }

    fn read_open(&mut self, file: &File, location: &str, stated: u64, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        let mut content = file;
        // Advice may fail, as on pipes and some network mounts; reading works without.
        let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        let _ = rustix::fs::fadvise(file, 0, None, Advice::Sequential);
        self.buffer.resize(BUFFER_BYTES, 0);
        let mut received = 0;
        // One byte more than stated is enough to know that the file grew.
        while received <= stated {
            match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(bytes) => {
                    received += bytes as u64;
                    pass(sink, &self.buffer[..bytes])?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(from_io(&error, location)),
            }
        }
        let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        match received == stated {
            true => Ok(received),
            false => Err(Refusal::new(Cause::Cut { received, stated }, format!("{location}: its length changed while it was read"))),
        }
    }
}

impl Connection for FolderConnection {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.open(location).map(|(_, bytes)| bytes)
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        let (file, stated) = self.open(location)?;
        self.read_open(&file, location, stated, sink)
    }

    fn read_unchanged(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<Unchanged, Refusal> {
        let (file, stated) = self.open(location)?;
        let state = |file: &File| State::of(file).map_err(|errno| refusal(errno, location));
        let before = state(&file)?;
        let bytes = self.read_open(&file, location, stated, sink)?;
        // By name: the place may have another file of this name now, and network file systems look
        // for changes when a file is opened.
        let (file, _) = self.open(location)?;
        match state(&file)? == before {
            true => Ok(Unchanged { bytes, modified: Some(before.modified), revision: Some(before.revision()) }),
            false => Err(changed()),
        }
    }

    /// Symbolic links and temporary files of writes are left out.
    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        let root = self.root()?;
        let mut listing = Listing::new(each);
        listing.folder(&root)?;
        self.left_out = listing.left_out;
        // A root that went away in between may have ended the listing early.
        self.root().map(drop)
    }

    fn left_out(&self) -> LeftOut {
        self.left_out
    }

    fn write(&mut self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        self.write_modified(location, bytes, content, None, true)
    }

    fn write_new(&mut self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        self.write_modified(location, bytes, content, None, false)
    }

    fn write_modified(
        &mut self,
        location: &str,
        bytes: u64,
        content: &mut dyn Read,
        modified: Option<Modified>,
        replaces: bool,
    ) -> Result<(), Refusal> {
        let (folder, name) = self.parent(location, true)?;
        let new = NewFile::create(folder.as_fd(), 0o666).map_err(|errno| refusal(errno, location))?;
        self.buffer.resize(BUFFER_BYTES, 0);
        copy(new.file(), location, bytes, content, &mut self.buffer)?;
        if let Some(modified) = modified {
            set_modified(new.file(), modified);
        }
        new.publish_durably(&name, replaces).map_err(|errno| match errno {
            Errno::EXIST => Refusal::new(Cause::Exists, location),
            errno => refusal(errno, location),
        })
    }

    fn modified(&mut self, location: &str) -> Result<Option<Modified>, Refusal> {
        let (file, _) = self.open(location)?;
        Ok(Some(State::of(&file).map_err(|errno| refusal(errno, location))?.modified))
    }

    fn check(&mut self) -> Result<(), Refusal> {
        self.root().map(drop)
    }

    fn revision(&mut self, location: &str) -> Result<Option<String>, Refusal> {
        let (file, _) = self.open(location)?;
        Ok(Some(State::of(&file).map_err(|errno| refusal(errno, location))?.revision()))
    }

    #[allow(clippy::unnecessary_cast, reason = "the types differ from one system to another")]
    fn identity(&mut self, location: &str) -> Result<Option<(u64, u64)>, Refusal> {
        let (file, _) = self.open(location)?;
        let status = rustix::fs::fstat(&file).map_err(|errno| refusal(errno, location))?;
        Ok(Some((status.st_dev as u64, status.st_ino as u64)))
    }

    fn remove(&mut self, location: &str) -> Result<(), Refusal> {
        let (folder, name) = match self.parent(location, false) {
            Ok(parent) => parent,
            Err(Refusal { cause: Cause::Missing, .. }) => return self.root().map(drop),
            Err(refusal) => return Err(refusal),
        };
        match rustix::fs::unlinkat(&folder, &*name, AtFlags::empty()) {
            Ok(()) => rustix::fs::fsync(&folder).map_err(|errno| refusal(errno, location)),
            Err(Errno::NOENT) => self.root().map(drop),
            // POSIX says PERM for folders, Linux says ISDIR.
            Err(Errno::ISDIR) => Err(not_a_file(location, FileType::Directory)),
            Err(errno) => Err(refusal(errno, location)),
        }
    }

    fn presigned_url(&mut self, _: &str, _: Duration) -> Result<Option<String>, Refusal> {
        Ok(None)
    }
}

/// What the file system says about a file, which changes with each write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    bytes: i64,
    inode: u64,
    modified: Modified,
    /// When its content or inode last changed.
    changed: Modified,
}

impl State {
    fn of(file: &File) -> Result<Self, Errno> {
        Ok(Self::stated(&rustix::fs::fstat(file)?))
    }

    #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the types differ from one system to another")]
    fn stated(status: &Stat) -> Self {
        let time = |seconds, nanoseconds| Modified { seconds, nanoseconds: u32::try_from(nanoseconds).unwrap_or(0) };
        Self {
            bytes: status.st_size as i64,
            inode: status.st_ino as u64,
            modified: time(i64::from(status.st_mtime), status.st_mtime_nsec as i64),
            changed: time(i64::from(status.st_ctime), status.st_ctime_nsec as i64),
        }
    }

    fn revision(&self) -> String {
        let Self { bytes, inode, modified, changed } = self;
        let text = |time: &Modified| format!("({}, {})", time.seconds, time.nanoseconds);
        format!("{bytes} {inode} {} {}", text(modified), text(changed))
    }
}

/// Sets when a file was last modified. Not all file systems keep each time exactly, and some refuse
/// it: the content matters more.
fn set_modified(file: &File, modified: Modified) {
    let last_modification = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.into() };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let _ = rustix::fs::futimens(file, &Timestamps { last_access, last_modification });
}

/// Copies exactly `bytes` bytes.
fn copy(mut file: &File, location: &str, bytes: u64, content: &mut dyn Read, buffer: &mut [u8]) -> Result<(), Refusal> {
    let mut received = 0;
    loop {
        let piece = fill(content, buffer)?;
        received += piece as u64;
        if piece == 0 || received > bytes {
            break;
        }
        file.write_all(&buffer[..piece]).map_err(|error| from_io(&error, location))?;
    }
    if received == bytes { Ok(()) } else { Err(wrong_length(received, bytes)) }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn open_root(path: &Path) -> Result<(OwnedFd, Identity), Refusal> {
    let about = path.display().to_string();
    let open = || {
        let root = rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?;
        let status = rustix::fs::fstat(&root)?;
        #[allow(clippy::unnecessary_cast, reason = "the types differ from one system to another")]
        Ok((root, (status.st_dev as u64, status.st_ino as u64)))
    };
    open().map_err(|errno| match errno {
        Errno::NOENT => Refusal::new(Cause::Absent, format!("the folder {about} does not exist; is it mounted?")),
        Errno::NOTDIR => Refusal::new(Cause::Absent, format!("{about} is not a folder")),
        errno => refusal(errno, &about),
    })
}

/// Opens `path` below `root`, and fails with `XDEV` or `LOOP` if links lead out of it.
fn open_beneath(root: std::os::fd::BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            // Linux before 5.6, and some sandboxes.
            Err(Errno::NOSYS | Errno::PERM) => {}
            // Something was renamed during the look-up; the walk below needs no second try.
            Err(Errno::AGAIN) => {}
            result => return result,
        }
    }
    walk_beneath(root, path, flags)
}

/// As above, and refuses all symbolic links.
fn walk_beneath(root: std::os::fd::BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let (folders, name) = split_name(path);
    let mut folder = rustix::io::fcntl_dupfd_cloexec(root, 0)?;
    for part in folders.into_iter().flat_map(|folders| folders.split(|byte| *byte == b'/')) {
        folder = match rustix::fs::openat(&folder, part, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            // A link is "not a folder" with NOFOLLOW, and must not seem to be a missing file.
            Err(Errno::NOTDIR) if is_link(&folder, part) => return Err(Errno::LOOP),
            opened => opened?,
        };
    }
    match rustix::fs::openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
        Err(Errno::NOTDIR) if is_link(&folder, name) => Err(Errno::LOOP),
        opened => opened,
    }
}

/// The folders of a path, and the name in the last of them.
fn split_name(path: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (Some(&path[..slash]), &path[slash + 1..]),
        None => (None, path),
    }
}

fn is_link(folder: &OwnedFd, name: &[u8]) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
}

fn not_a_file(location: &str, found: FileType) -> Refusal {
    let what = match found {
        FileType::Directory => "a folder",
        FileType::Fifo | FileType::Socket => "a pipe or a socket",
        FileType::BlockDevice | FileType::CharacterDevice => "a device",
        _ => "something else",
    };
    Refusal::new(Cause::Unsupported, format!("{location} is {what}, not a file"))
}

fn from_io(error: &io::Error, about: &str) -> Refusal {
    match Errno::from_io_error(error) {
        Some(errno) => refusal(errno, about),
        None => Refusal::new(Cause::Fault, format!("{about}: {error}")),
    }
}

fn refusal(errno: Errno, about: &str) -> Refusal {
    let cause = match errno {
        Errno::NOENT | Errno::NOTDIR => Cause::Missing,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Cause::Denied,
        Errno::TIMEDOUT => Cause::TimedOut,
        Errno::NOTCONN | Errno::HOSTDOWN | Errno::HOSTUNREACH | Errno::CONNRESET | Errno::CONNREFUSED | Errno::NETUNREACH => {
            Cause::Connection
        }
        Errno::XDEV | Errno::LOOP => {
            return Refusal::new(Cause::Unsupported, format!("{about}: a symbolic link leads out of the folder"));
        }
        Errno::ISDIR | Errno::NAMETOOLONG | Errno::INVAL => Cause::Unsupported,
        // An I/O error, a stale handle of NFS, a full disk, too many open files.
        _ => Cause::Fault,
    };
    Refusal::new(cause, format!("{about}: {}", io::Error::from(errno)))
}
