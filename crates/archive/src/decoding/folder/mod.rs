//! A folder through which archives and decode workers exchange jobs and results.
//!
//! ```text
//! FOLDER/fulgurite-decode          the mark: this is a folder for decoding
//!        alive/OWNER               leases: rewritten every second by each worker, and by each
//!                                  archive that has jobs here
//!        tmp/OWNER-N               files being written; they get their names by renaming
//!        jobs/CLASS-OWNER-N        jobs that wait, of the archive OWNER
//!        claimed/CLASS-OWNER-N.W   jobs that the worker W decodes
//!        results/CLASS-OWNER-N     results
//! ```
//!
//! OWNER and W are random numbers of 16 hexadecimal digits, one for each process; N counts. CLASS
//! is 0 for reads and 1 for the rest: workers claim jobs in the order of their names, reads first.
//! All moves are renames within the folder, which exactly one process wins. `docs/medium.md`
//! specifies the files.
//!
//! Nothing here is durable, and nothing needs to be: the archive keeps each job until its result
//! has come, and decodes it itself if none comes. No file's content is trusted.

mod client;
mod job_file;
mod lease;
mod result_file;
mod worker;

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fulgurite_decode::Class;
use rustix::fs::OFlags;

use crate::entropy::random;

pub(super) use client::Client;
pub use worker::{DecodeWorker, WorkerTotals};

/// The version of mark, jobs and results that this program writes and reads.
const VERSION: u32 = 1;
const MARK: &str = "fulgurite-decode";
const MARK_START: &str = "fulgurite decode folder, version ";
/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most names of a directory that are looked at.
const NAMES_MAX: usize = 10_000;

const ALIVE: &str = "alive";
const TMP: &str = "tmp";
const JOBS: &str = "jobs";
const CLAIMED: &str = "claimed";
const RESULTS: &str = "results";
const DIRECTORIES: [&str; 5] = [ALIVE, TMP, JOBS, CLAIMED, RESULTS];

/// Why a folder can't be used for decoding.
#[derive(Debug, thiserror::Error)]
pub enum DecodeFolderError {
    /// It can't be read or written.
    #[error("can't use the decode folder {path}: {source}")]
    Io {
        /// The folder, or a file in it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It doesn't exist.
    #[error("the decode folder {0} does not exist: create it, or mount its disk")]
    Missing(PathBuf),
    /// It has other files.
    #[error("{0} has files but is not a decode folder: give an empty folder, or one that a decode worker has used")]
    Foreign(PathBuf),
    /// Another version of the program uses it.
    #[error(
        "the decode folder {path} has version {found:?}, this program knows {VERSION}: use the same version of fulgurite on all machines"
    )]
    OtherVersion {
        /// The folder.
        path: PathBuf,
        /// What its mark says.
        found: String,
    },
}

/// Checks that a folder is one for decoding.
pub(super) fn check(root: &Path) -> Result<(), DecodeFolderError> {
    Folder::new(root).check_if_there()
}

/// Identifies an archive's process or a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Owner(u64);

impl Owner {
    fn new() -> Self {
        Self(u64::from_le_bytes(random()))
    }

    fn parse(text: &str) -> Option<Self> {
        parse_hex(text).map(Self)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Exactly 16 lower-case hexadecimal digits.
fn parse_hex(text: &str) -> Option<u64> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    (text.len() == 16 && text.as_bytes().iter().all(is_digit)).then(|| u64::from_str_radix(text, 16).ok())?
}

/// The name of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct JobName {
    class: Class,
    /// The archive.
    owner: Owner,
    number: u64,
}

impl JobName {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (class, owner, number) = (parts.next()?, parts.next()?, parts.next()?);
        let class = match class {
            "0" => Class::Read,
            "1" => Class::Deferrable,
            _ => return None,
        };
        parts.next().is_none().then_some(())?;
        Some(Self { class, owner: Owner::parse(owner)?, number: parse_hex(number)? })
    }

    /// The name of a claimed job, and the worker.
    fn parse_claimed(text: &str) -> Option<(Self, Owner)> {
        let (job, worker) = text.split_once('.')?;
        Some((Self::parse(job)?, Owner::parse(worker)?))
    }

    fn claimed_by(&self, worker: Owner) -> String {
        format!("{self}.{worker}")
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = if self.class == Class::Read { 0 } else { 1 };
        write!(f, "{class}-{}-{:016x}", self.owner, self.number)
    }
}

/// The folder, as one process uses it.
struct Folder {
    root: PathBuf,
    owner: Owner,
    written: AtomicU64,
}

impl Folder {
    /// The folder at `root`, whether it exists or not.
    fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), owner: Owner::new(), written: AtomicU64::new(0) }
    }

    /// Makes an empty folder one for decoding; checks that a folder with files is one.
    fn prepare(&self) -> Result<(), DecodeFolderError> {
        let error = |source| DecodeFolderError::Io { path: self.root.clone(), source };
        match self.check_if_there() {
            Err(DecodeFolderError::Foreign(_)) => {}
            checked => return checked,
        }
        if !self.is_unused().map_err(error)? {
            // Another worker may have prepared it meanwhile, and used it.
            return self.check();
        }
        // The mark comes last. Another worker may do the same at the same time.
        for name in DIRECTORIES {
            match DirBuilder::new().mode(0o700).create(self.root.join(name)) {
                Err(exists) if exists.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(error)?,
            }
        }
        self.write(".", MARK, format!("{MARK_START}{VERSION}\n").as_bytes()).map_err(error)
    }

    fn check_if_there(&self) -> Result<(), DecodeFolderError> {
        match fs::metadata(&self.root) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => Err(DecodeFolderError::Missing(self.root.clone())),
            Err(source) => Err(DecodeFolderError::Io { path: self.root.clone(), source }),
            Ok(_) => self.check(),
        }
    }

    /// True if the folder is empty but for what a preparation leaves that has not ended: empty
    /// directories of a decode folder, and a mark being written.
    fn is_unused(&self) -> io::Result<bool> {
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let is_own = entry.file_type()?.is_dir() && DIRECTORIES.iter().any(|name| entry.file_name() == *name);
            if !is_own {
                return Ok(false);
            }
            for file in fs::read_dir(entry.path())? {
                let name = file?.file_name().into_string().unwrap_or_default();
                let is_temporary =
                    name.split_once('-').is_some_and(|(owner, number)| Owner::parse(owner).is_some() && parse_hex(number).is_some());
                if entry.file_name() != TMP || !is_temporary {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Checks the mark. A folder without one may be the empty mount point of a disk.
    fn check(&self) -> Result<(), DecodeFolderError> {
        let path = self.root.join(MARK);
        let text = match read_bounded(&path, 1_000) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Err(DecodeFolderError::Foreign(self.root.clone())),
            Err(source) => return Err(DecodeFolderError::Io { path, source }),
        };
        match text.trim_end().strip_prefix(MARK_START) {
            Some(version) if version == VERSION.to_string() => Ok(()),
            Some(version) => Err(DecodeFolderError::OtherVersion { path: self.root.clone(), found: version.to_owned() }),
            None => Err(DecodeFolderError::Foreign(self.root.clone())),
        }
    }

    fn path(&self, directory: &str, name: &str) -> PathBuf {
        self.root.join(directory).join(name)
    }

    /// Writes a file, which appears as a whole or not at all.
    fn write(&self, directory: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let temporary = self.path(TMP, &format!("{}-{number:016x}", self.owner));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let written = options.open(&temporary).and_then(|mut file| file.write_all(bytes));
        let written = written.and_then(|()| fs::rename(&temporary, self.path(directory, name)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn read(&self, directory: &str, name: &str) -> io::Result<Vec<u8>> {
        read_bounded(&self.path(directory, name), FILE_BYTES_MAX)
    }

    fn remove(&self, directory: &str, name: &str) {
        // A file that stays is removed with the leftovers of its owner.
        let _ = fs::remove_file(self.path(directory, name));
    }

    /// Moves a file. `false` if it isn't there: another process was faster.
    fn rename(&self, from: (&str, &str), to: (&str, &str)) -> io::Result<bool> {
        match fs::rename(self.path(from.0, from.1), self.path(to.0, to.1)) {
            Err(gone) if gone.kind() == io::ErrorKind::NotFound => Ok(false),
            moved => moved.map(|()| true),
        }
    }

    /// Names of a directory, in order.
    fn names(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(directory))?.take(NAMES_MAX) {
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// Opens a regular file of at most `bytes_max`, and returns its length. Doesn't follow links, and
/// doesn't wait for a pipe.
fn open_regular(path: &Path, bytes_max: u64) -> io::Result<(fs::File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
    }
    if metadata.len() > bytes_max { Err(too_long(bytes_max)) } else { Ok((file, metadata.len())) }
}

fn too_long(bytes_max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("longer than {bytes_max} bytes"))
}

/// Reads a regular file of at most `bytes_max`.
fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let (file, length) = open_regular(path, bytes_max)?;
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(too_long(bytes_max)) } else { Ok(bytes) }
}

/// Reads fields of a file, front to back.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (now, later) = self.0.split_at_checked(count)?;
        self.0 = later;
        Some(now)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn f64(&mut self) -> Option<f64> {
        self.u64().map(f64::from_bits)
    }
}

#[cfg(test)]
mod tests;
