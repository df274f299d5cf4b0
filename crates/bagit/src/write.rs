//! Writes bags.
//!
//! ```text
//! create   parent/.NAME.bagging/       locked; leftovers of an interrupted write are removed
//! add      data/…, synced, and a line in each manifest
//! finish   tag files, tag manifests, synced ──> renamed to parent/NAME, parent synced
//! ```
//!
//! So a bag appears under its name only when it is whole, and a write that was interrupted at any
//! moment can be repeated. There is no clock: dates are the caller's.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use fulgurite_digest::{Algorithm, Digest, Digester};
use rustix::fs::{CWD, RenameFlags};

use crate::bag::{Bag, BagError, Depth, Options};
use crate::declaration::{self, Version};
use crate::finding::{Finding, PathRefusal, Verdict};
use crate::info::{BagInfo, FieldError};
use crate::manifest::{self, Scope};
use crate::path;
use crate::validate;

const BUFFER_BYTES: usize = 256 << 10;
/// NAME_MAX of Linux, and of nearly all its file systems.
const LONGEST_NAME_BYTES: usize = 255;

/// What a bag is written with.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Algorithms of the manifests. RFC 8493 recommends SHA-512.
    pub algorithms: Vec<Algorithm>,
    /// [`Version::V1_0`] or [`Version::V0_97`].
    pub version: Version,
    /// Metadata. `Payload-Oxum` is added.
    pub info: BagInfo,
    /// `Bagging-Date`, as YYYY-MM-DD.
    pub bagging_date: Option<String>,
}

impl Default for WriteOptions {
    /// Version 1.0 with SHA-512.
    fn default() -> Self {
        Self { algorithms: vec![Algorithm::Sha512], version: Version::V1_0, info: BagInfo::new(), bagging_date: None }
    }
}

/// Why a bag or a file of it can't be written. After an error of [`BagWriter::add`], the file is
/// not part of the bag, and other files can be added.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A bag is never replaced.
    #[error("{} exists: choose another folder, or remove it", path.display())]
    Exists {
        /// The bag's folder.
        path: PathBuf,
    },
    /// Another process writes this bag.
    #[error("{} is being written by another process", path.display())]
    Busy {
        /// The bag's folder.
        path: PathBuf,
    },
    /// The path has no parent or no name.
    #[error("{} can't be the folder of a bag: it has no name, or the name isn't UTF-8", path.display())]
    NoName {
        /// The bag's folder.
        path: PathBuf,
    },
    /// The bag would have no manifest.
    #[error("a bag needs at least one digest algorithm")]
    NoAlgorithm,
    /// Only these are written.
    #[error("bags of version {version} are not written: choose 1.0 or 0.97")]
    Version {
        /// The version.
        version: Version,
    },
    /// The date is not of the form that RFC 8493 requires.
    #[error("{date:?} is not a date of the form YYYY-MM-DD")]
    Date {
        /// The date.
        date: String,
    },
    /// A field of the metadata that would be read as something else.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A field that the writer adds itself.
    #[error("{label} is computed or set otherwise: remove it from the fields")]
    Reserved {
        /// Label of the field.
        label: &'static str,
    },
    /// A path that a bag can't contain.
    #[error("{path:?} can't be kept in a bag: {reason}")]
    Path {
        /// The path.
        path: String,
        /// Why.
        reason: PathRefusal,
    },
    /// Version 0.97 doesn't encode percent signs.
    #[error("{path:?} can't be kept in a bag of version 0.97, where %0A and %0D stand for line ends: write version 1.0")]
    Ambiguous {
        /// The path.
        path: String,
    },
    /// The path was added before; or the file system takes it for one that differs only in case or
    /// normalization.
    #[error("{path:?} was added before, or this file system can't distinguish it from a file that was")]
    Collision {
        /// The path.
        path: String,
    },
    /// A tag file that the writer writes itself.
    #[error("{path:?} is reserved for the bag itself")]
    ReservedFile {
        /// The path.
        path: String,
    },
    /// The content isn't what the caller expected; it was not added.
    #[error("the content of {path:?} doesn't match its known digest: {expected:?} is expected, {} was computed", found.hex())]
    OtherDigest {
        /// The path.
        path: String,
        /// The known digest.
        expected: Box<Digest>,
        /// The digest of the content.
        found: Box<Digest>,
    },
    /// The content could not be read; it was not added.
    #[error("can't read the content of {path:?}: {source}")]
    Content {
        /// The path.
        path: String,
        /// What the reader said.
        source: io::Error,
    },
    /// The bag can't be written there.
    #[error("can't write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system has changed names, as one that ignores case does with folders.
    #[error("the bag that was written isn't complete, because the file system has not kept a name: {finding}")]
    NameNotKept {
        /// What is wrong.
        finding: Box<Finding>,
    },
    /// The bag that was written can't be looked at again.
    #[error("can't check the bag that was written: {0}")]
    Check(#[from] BagError),
    /// An earlier error left a manifest incomplete.
    #[error("the bag can't be finished after an error while its manifests were written: write it again")]
    Spoiled,
}

/// What was written of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the content.
    pub bytes: u64,
    /// Digests for the manifests and those that were compared, weakest first.
    pub digests: Vec<Digest>,
}

/// Writes a bag, file by file.
///
/// Dropped before [`BagWriter::finish`], it removes what it has written.
#[derive(Debug)]
pub struct BagWriter {
    target: PathBuf,
    building: PathBuf,
    options: WriteOptions,
    manifests: Vec<(Algorithm, PathBuf, BufWriter<File>)>,
    files: u64,
    bytes: u64,
    tag_files: Vec<String>,
    is_spoiled: bool,
    is_done: bool,
    buffer: Vec<u8>,
    /// Locks the folder until the writer is dropped.
    _lock: File,
}

/// Checks that [`BagWriter::add`] can keep a path, in a bag of this version.
///
/// # Errors
/// Why it can't.
pub fn check_payload_path(path: &str, version: Version) -> Result<(), WriteError> {
    let full = format!("{}{path}", path::PAYLOAD);
    let refuse = |reason| WriteError::Path { path: path.to_owned(), reason };
    if path.starts_with('/') {
        return Err(refuse(PathRefusal::Absolute));
    }
    path::check_payload(&full).map_err(refuse)?;
    check_writable(path, &full, version)
}

/// Checks that [`BagWriter::add_tag_file`] can keep a path, in a bag of this version.
///
/// # Errors
/// Why it can't.
pub fn check_tag_path(path: &str, version: Version) -> Result<(), WriteError> {
    path::check(path).map_err(|reason| WriteError::Path { path: path.to_owned(), reason })?;
    let lower = path.to_lowercase();
    let first = lower.split('/').next().unwrap_or_default();
    let is_reserved = ["data", "bagit.txt", "bag-info.txt", "fetch.txt"].contains(&first) || crate::Manifest::of_name(first).is_some();
    if is_reserved {
        return Err(WriteError::ReservedFile { path: path.to_owned() });
    }
    check_writable(path, path, version)
}

/// What a reader could find in a manifest, but no writer can write.
fn check_writable(path: &str, full: &str, version: Version) -> Result<(), WriteError> {
    if full.split('/').any(|name| name.len() > LONGEST_NAME_BYTES) {
        return Err(WriteError::Path { path: path.to_owned(), reason: PathRefusal::LongName });
    }
    if path::decode(&path::encode(full, version), version) != full {
        return Err(WriteError::Ambiguous { path: path.to_owned() });
    }
    Ok(())
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_owned();
    move |source| WriteError::Write { path, source }
}

impl BagWriter {
    /// Begins a bag that will be at `target`. Its parent must exist.
    ///
    /// # Errors
    /// If `target` exists, another process writes it, or the options can't be used.
    pub fn create(target: impl Into<PathBuf>, mut options: WriteOptions) -> Result<Self, WriteError> {
        let target = target.into();
        check_options(&mut options)?;
        let name = target.file_name().and_then(|name| name.to_str()).ok_or_else(|| WriteError::NoName { path: target.clone() })?;
        if fs::symlink_metadata(&target).is_ok() {
            return Err(WriteError::Exists { path: target });
        }
        let building = target.with_file_name(format!(".{name}.bagging"));
        match fs::create_dir(&building) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && crate::folder::is_folder(&building) => {}
            other => other.map_err(write_error(&building))?,
        }
        let lock = File::open(&building).map_err(write_error(&building))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(WriteError::Busy { path: target }),
            Err(TryLockError::Error(source)) => return Err(WriteError::Write { path: building, source }),
        }
        // The writer before may have finished between the look and the lock.
        if fs::symlink_metadata(&target).is_ok() {
            return Err(WriteError::Exists { path: target });
        }
        clear(&building).map_err(write_error(&building))?;
        fs::create_dir(building.join("data")).map_err(write_error(&building))?;
        let mut manifests = Vec::new();
        for &algorithm in &options.algorithms {
            let path = building.join(manifest::file_name(Scope::Payload, algorithm));
            let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(write_error(&path))?;
            manifests.push((algorithm, path, BufWriter::with_capacity(64 << 10, file)));
        }
        Ok(Self {
            target,
            building,
            options,
            manifests,
            files: 0,
            bytes: 0,
            tag_files: Vec::new(),
            is_spoiled: false,
            is_done: false,
            buffer: vec![0; BUFFER_BYTES],
            _lock: lock,
        })
    }

    /// Adds a payload file. `path` is relative to `data/`, with slashes. The digests that are known
    /// are compared with the content's.
    ///
    /// # Errors
    /// If the path can't be kept, the content can't be read or written, or a digest differs.
    pub fn add(&mut self, path: &str, content: &mut dyn Read, known: &[Digest]) -> Result<Written, WriteError> {
        check_payload_path(path, self.options.version)?;
        let full = format!("{}{path}", path::PAYLOAD);
        let encoded = path::encode(&full, self.options.version);
        let written = self.write_file(&full, content, known)?;
        for index in 0..self.manifests.len() {
            let (algorithm, manifest, out) = &mut self.manifests[index];
            let digest = written.digests.iter().find(|digest| digest.algorithm() == *algorithm);
            let digest = digest.expect("`write_file` computes the digests of all manifests");
            if let Err(source) = writeln!(out, "{}  {encoded}", digest.hex()) {
                self.is_spoiled = true;
                return Err(WriteError::Write { path: manifest.clone(), source });
            }
        }
        self.files += 1;
        self.bytes += written.bytes;
        Ok(written)
    }

    /// Adds a tag file beside the payload, such as `metadata/mets.xml`.
    ///
    /// # Errors
    /// As for [`BagWriter::add`], and if the format reserves the name.
    pub fn add_tag_file(&mut self, path: &str, content: &mut dyn Read) -> Result<Written, WriteError> {
        check_tag_path(path, self.options.version)?;
        let written = self.write_file(path, content, &[])?;
        self.tag_files.push(path.to_owned());
        Ok(written)
    }

    /// Writes a file whose path has been checked.
    fn write_file(&mut self, path: &str, content: &mut dyn Read, known: &[Digest]) -> Result<Written, WriteError> {
        let place = self.building.join(path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => WriteError::Collision { path: path.to_owned() },
                _ => WriteError::Write { path: parent.to_owned(), source },
            })?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(&place).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Collision { path: path.to_owned() },
            _ => WriteError::Write { path: place.clone(), source },
        })?;
        let written = self.copy(path, &place, content, &mut file, known);
        if written.is_err() {
            // The folder is removed or cleared in the end, whether this works or not.
            let _ = fs::remove_file(&place);
        }
        written
    }

    fn copy(&mut self, path: &str, place: &Path, content: &mut dyn Read, file: &mut File, known: &[Digest]) -> Result<Written, WriteError> {
        let algorithms: Vec<Algorithm> = self.options.algorithms.iter().copied().chain(known.iter().map(Digest::algorithm)).collect();
        let mut digester = Digester::new(&algorithms);
        loop {
            let read = match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(WriteError::Content { path: path.to_owned(), source }),
            };
            digester.update(&self.buffer[..read]);
            file.write_all(&self.buffer[..read]).map_err(write_error(place))?;
        }
        let bytes = digester.bytes();
        let digests = digester.finish();
        for expected in known {
            let found = digests.iter().find(|found| found.algorithm() == expected.algorithm());
            if let Some(found) = found.filter(|found| *found != expected) {
                return Err(WriteError::OtherDigest {
                    path: path.to_owned(),
                    expected: Box::new(expected.clone()),
                    found: Box::new(found.clone()),
                });
            }
        }
        file.sync_all().map_err(write_error(place))?;
        Ok(Written { bytes, digests })
    }

    /// Completes the bag and gives it its name. Presence of all files is checked before, with the
    /// memory of [`Options::default`] and temporary files in the bag's parent.
    ///
    /// # Errors
    /// If something can't be written or synced. The bag then doesn't exist, unless only the last
    /// sync of its parent failed.
    pub fn finish(self) -> Result<PathBuf, WriteError> {
        let target = self.target.clone();
        self.finish_if(|_| true).map(|_| target)
    }

    /// Like [`BagWriter::finish`], but shows the complete bag to `accept` before it gets its name.
    /// If that returns false, nothing of the bag remains, and the result is `None`.
    ///
    /// # Errors
    /// As for [`BagWriter::finish`].
    pub fn finish_if(mut self, accept: impl FnOnce(&Bag) -> bool) -> Result<Option<PathBuf>, WriteError> {
        if self.is_spoiled {
            return Err(WriteError::Spoiled);
        }
        let declaration = format!("BagIt-Version: {}\nTag-File-Character-Encoding: UTF-8\n", self.options.version);
        self.write_tag_file(declaration::NAME, &declaration)?;
        let mut info = std::mem::take(&mut self.options.info);
        if let Some(date) = self.options.bagging_date.take() {
            info.push("Bagging-Date", date)?;
        }
        info.push("Payload-Oxum", format!("{}.{}", self.bytes, self.files))?;
        self.write_tag_file(Version::V1_0.info_name(), &info.text())?;
        for (algorithm, path, out) in std::mem::take(&mut self.manifests) {
            let file = out.into_inner().map_err(|error| write_error(&path)(error.into_error()))?;
            file.sync_all().map_err(write_error(&path))?;
            self.tag_files.push(manifest::file_name(Scope::Payload, algorithm));
        }
        self.write_tag_manifests()?;
        let bag = self.check_names()?;
        if !accept(&bag) {
            return Ok(None);
        }
        self.sync_folders()?;
        self.publish()?;
        self.is_done = true;
        Ok(Some(self.target.clone()))
    }

    fn write_tag_file(&mut self, name: &str, text: &str) -> Result<(), WriteError> {
        self.write_file(name, &mut text.as_bytes(), &[])?;
        self.tag_files.push(name.to_owned());
        Ok(())
    }

    fn write_tag_manifests(&mut self) -> Result<(), WriteError> {
        let mut texts = vec![String::new(); self.options.algorithms.len()];
        for name in &self.tag_files {
            let path = self.building.join(name);
            // Read back: what is listed is what the file system returns.
            let digests = validate::read(&path, &self.options.algorithms, &mut self.buffer).map_err(write_error(&path))?;
            for (text, algorithm) in texts.iter_mut().zip(&self.options.algorithms) {
                for digest in digests.iter().filter(|digest| digest.algorithm() == *algorithm) {
                    *text += &format!("{}  {}\n", digest.hex(), path::encode(name, self.options.version));
                }
            }
        }
        for (text, algorithm) in texts.iter().zip(self.options.algorithms.clone()) {
            self.write_file(&manifest::file_name(Scope::Tags, algorithm), &mut text.as_bytes(), &[])?;
        }
        Ok(())
    }

    /// Looks whether the folder has the names that the manifests list.
    fn check_names(&self) -> Result<Bag, WriteError> {
        let options = Options { depth: Depth::Quick, scratch: self.parent().to_owned(), kept_findings: 1, ..Options::default() };
        let bag = Bag::open(&self.building)?;
        let report = bag.validate(&options)?;
        match report.findings().first() {
            Some(finding) if report.verdict() != Verdict::Complete => Err(WriteError::NameNotKept { finding: Box::new(finding.clone()) }),
            _ => Ok(bag),
        }
    }

    fn parent(&self) -> &Path {
        self.target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Syncs all folders, so that no name is lost.
    fn sync_folders(&self) -> Result<(), WriteError> {
        for entry in walkdir::WalkDir::new(&self.building).follow_links(false) {
            let entry = entry.map_err(|error| write_error(&self.building)(error.into()))?;
            if entry.file_type().is_dir() {
                sync_folder(entry.path())?;
            }
        }
        Ok(())
    }

    fn publish(&self) -> Result<(), WriteError> {
        let renamed = rustix::fs::renameat_with(CWD, &self.building, CWD, &self.target, RenameFlags::NOREPLACE);
        match renamed {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(WriteError::Exists { path: self.target.clone() }),
            // Some file systems can't rename without replacing. There, a plain rename would replace
            // only an empty folder that has appeared just now.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
                if fs::symlink_metadata(&self.target).is_ok() {
                    return Err(WriteError::Exists { path: self.target.clone() });
                }
                fs::rename(&self.building, &self.target).map_err(write_error(&self.target))?;
            }
            Err(error) => return Err(write_error(&self.target)(error.into())),
        }
        sync_folder(self.parent())
    }
}

impl Drop for BagWriter {
    fn drop(&mut self) {
        if !self.is_done && fs::symlink_metadata(&self.target).is_err() {
            // What remains is removed by the next writer of this bag.
            let _ = fs::remove_dir_all(&self.building);
        }
    }
}

fn sync_folder(path: &Path) -> Result<(), WriteError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(write_error(path))
}

/// Removes everything in a folder. Links are removed, not followed.
fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    Ok(())
}

fn check_options(options: &mut WriteOptions) -> Result<(), WriteError> {
    options.algorithms.sort();
    options.algorithms.dedup();
    if options.algorithms.is_empty() {
        return Err(WriteError::NoAlgorithm);
    }
    if !matches!(options.version, Version::V0_97 | Version::V1_0) {
        return Err(WriteError::Version { version: options.version });
    }
    for label in ["Payload-Oxum", "Bagging-Date"] {
        if options.info.values(label).next().is_some() {
            return Err(WriteError::Reserved { label });
        }
    }
    match &options.bagging_date {
        Some(date) if !is_date(date) => Err(WriteError::Date { date: date.clone() }),
        _ => Ok(()),
    }
}

fn is_date(date: &str) -> bool {
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number = |digits: &str, length| {
        (digits.len() == length && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse::<u32>().ok())?
    };
    number(year, 4).is_some()
        && number(month, 2).is_some_and(|month| (1..=12).contains(&month))
        && number(day, 2).is_some_and(|day| (1..=31).contains(&day))
}
