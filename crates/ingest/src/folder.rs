//! Files from folders: alerts in Avro, tar archives of them, and FITS files.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};
use walkdir::WalkDir;

use crate::pattern::Pattern;
use crate::pipeline::{IngestError, Origin, Pipeline};

/// Maximum size of a file, or of a file in a tar archive.
const FILE_MAX: u64 = 256 << 20;
/// More than files take in memory, ever.
const BUFFER_KIB_MAX: u32 = 1 << 29;
/// Files that wait for a task.
const QUEUE: usize = 4;

/// Size of a header in a tar archive.
const TAR_BLOCK: usize = 512;
/// Where a header has its type.
const TAR_TYPE: usize = 156;
/// Where a header has the size of what follows.
const TAR_SIZE: Range<usize> = 124..136;

/// What to read.
#[derive(Debug, Clone)]
pub struct FolderSettings {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// Keys of files that are stored as they are; `{path}` is the path below the folder, or in the
    /// archive, and `{name}` its last part.
    pub file_key: Pattern,
    /// Maximum bytes of files that are being stored.
    pub buffer_bytes: usize,
}

/// Reads files.
#[derive(Debug)]
pub struct FolderSource {
    settings: FolderSettings,
}

/// A file.
struct Found {
    origin: Origin,
    content: Bytes,
    kind: Kind,
    /// Counts its memory until it is stored.
    _permit: OwnedSemaphorePermit,
}

enum Kind {
    Alerts,
    /// Stored as it is, with this key.
    File(Result<String, String>),
}

/// What a file's name says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Avro,
    Tar { is_compressed: bool },
    Fits,
    Other,
}

impl Format {
    fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        if ends(&[".avro"]) {
            Self::Avro
        } else if ends(&[".tar"]) {
            Self::Tar { is_compressed: false }
        } else if ends(&[".tar.gz", ".tgz"]) {
            Self::Tar { is_compressed: true }
        } else if ends(&[".fits", ".fit", ".fts", ".fits.gz", ".fit.gz", ".fits.fz"]) {
            Self::Fits
        } else {
            Self::Other
        }
    }
}

impl FolderSource {
    /// Reads these files.
    #[must_use]
    pub fn new(settings: FolderSettings) -> Self {
        Self { settings }
    }

    /// Stores all files, in the order of their names, until `stop`.
    ///
    /// # Errors
    /// [`IngestError`] if nothing can be stored.
    pub async fn run(self, pipeline: &Arc<Pipeline>, stop: &Notify) -> Result<(), IngestError> {
        let (sender, mut found) = mpsc::channel(QUEUE);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let buffer_kib = u32::try_from(self.settings.buffer_bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX).min(BUFFER_KIB_MAX);
        let reader = Reader {
            settings: self.settings,
            pipeline: Arc::clone(pipeline),
            sender,
            is_stopped: Arc::clone(&is_stopped),
            runtime: Handle::current(),
            buffer: Arc::new(Semaphore::new(buffer_kib as usize)),
            buffer_kib,
        };
        let reading = tokio::task::spawn_blocking(move || reader.read_all());
        let mut tasks: JoinSet<Result<(), IngestError>> = JoinSet::new();
        let mut result = loop {
            tokio::select! {
                biased;
                () = stop.notified() => break Err(IngestError::Stopped),
                Some(done) = tasks.join_next(), if !tasks.is_empty() => {
                    if let Err(error) = joined(done) {
                        break Err(error);
                    }
                }
                next = found.recv() => {
                    let Some(next) = next else { break Ok(()) };
                    let pipeline = Arc::clone(pipeline);
                    tasks.spawn(async move { next.store(&pipeline).await });
                }
            }
        };
        is_stopped.store(true, Ordering::Relaxed);
        // What waits holds memory that the reader may wait for.
        drop(found);
        if result.is_err() {
            pipeline.sink.stop();
        }
        loop {
            tokio::select! {
                biased;
                () = stop.notified() => {
                    pipeline.sink.stop();
                    result = result.and(Err(IngestError::Stopped));
                }
                done = tasks.join_next() => {
                    let Some(done) = done else { break };
                    result = result.and(joined(done));
                    if result.is_err() {
                        pipeline.sink.stop();
                    }
                }
            }
        }
        reading.await.map_err(|error| IngestError::Refused(error.to_string()))?;
        result
    }
}

/// The result of a task.
fn joined(done: Result<Result<(), IngestError>, JoinError>) -> Result<(), IngestError> {
    done.unwrap_or_else(|error| Err(IngestError::Refused(error.to_string())))
}

impl Found {
    async fn store(&self, pipeline: &Pipeline) -> Result<(), IngestError> {
        match &self.kind {
            Kind::Alerts => pipeline.store_container(&self.content, &self.origin).await,
            Kind::File(key) => pipeline.store_file(key.clone(), &self.content, &self.origin).await,
        }
    }
}

/// Reads files on a thread of its own.
struct Reader {
    settings: FolderSettings,
    pipeline: Arc<Pipeline>,
    sender: mpsc::Sender<Found>,
    is_stopped: Arc<AtomicBool>,
    runtime: Handle,
    /// KiB of files in memory.
    buffer: Arc<Semaphore>,
    buffer_kib: u32,
}

/// Ends the reading.
struct Stopped;

/// Fails once the command is stopped: skipping a large file of an archive may take minutes.
struct UntilStopped<'a, R> {
    archive: R,
    is_stopped: &'a AtomicBool,
}

impl<R: Read> Read for UntilStopped<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        self.archive.read(buffer)
    }
}

impl Reader {
    fn read_all(&self) {
        for root in &self.settings.paths {
            for entry in WalkDir::new(root).sort_by_file_name() {
                let read = match entry {
                    Ok(entry) if entry.file_type().is_file() || entry.path_is_symlink() && entry.path().is_file() => {
                        let below = entry.path().strip_prefix(root).ok().filter(|below| !below.as_os_str().is_empty());
                        let below = below.map_or_else(|| PathBuf::from(entry.file_name()), Path::to_path_buf);
                        self.read(entry.path(), &below)
                    }
                    // The folder that was named may be a link.
                    Ok(entry) if entry.path_is_symlink() && !entry.path().is_dir() && entry.depth() == 0 => {
                        self.fail(&entry.path().display().to_string(), "it is neither a file nor a folder");
                        Ok(())
                    }
                    Ok(entry) if entry.path_is_symlink() && entry.depth() > 0 => {
                        self.fail(&entry.path().display().to_string(), "it is a link to a folder, or to nothing");
                        Ok(())
                    }
                    Ok(entry) if !entry.file_type().is_dir() && !entry.path_is_symlink() => {
                        self.fail(&entry.path().display().to_string(), "it is neither a file nor a folder");
                        Ok(())
                    }
                    Ok(_) => Ok(()),
                    Err(error) => {
                        let path = error.path().unwrap_or(root).display().to_string();
                        self.fail(&path, &error.io_error().map_or_else(|| error.to_string(), ToString::to_string));
                        Ok(())
                    }
                };
                if read.is_err() || self.is_stopped() {
                    return;
                }
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn fail(&self, origin: &str, why: &str) {
        self.pipeline.counts.failed.fetch_add(1, Ordering::Relaxed);
        self.pipeline.events.failed(origin, why);
    }

    /// Reads a file. `below` is its path below the folder.
    fn read(&self, path: &Path, below: &Path) -> Result<(), Stopped> {
        let origin = path.display().to_string();
        let Some(name) = below.to_str() else {
            self.fail(&origin, "its name isn't UTF-8");
            return Ok(());
        };
        let content = match Format::of(name) {
            Format::Tar { is_compressed } => {
                let open = Unchanged::open(path).map_err(|error| error.to_string());
                let read = open.and_then(|open| {
                    let (file, check) = (BufReader::new(&open.file), || open.check());
                    match is_compressed {
                        false => self.read_tar(file, &check, &origin, name),
                        true => self.read_tar(MultiGzDecoder::new(file), &check, &origin, name),
                    }
                });
                return match read {
                    Ok(read) => read,
                    Err(_) if self.is_stopped() => Err(Stopped),
                    Err(why) => {
                        self.fail(&origin, &why);
                        Ok(())
                    }
                };
            }
            Format::Avro | Format::Fits => self.read_file(path),
            Format::Other => Err("it is neither Avro, FITS nor a tar archive of them".to_owned()),
        };
        match content {
            Ok((content, permit)) => self.send(origin, name.to_owned(), name, content, permit),
            Err(why) => {
                self.fail(&origin, &why);
                Ok(())
            }
        }
    }

    /// Reads the files of a tar archive; `check` fails once it was changed. The outer error says
    /// why the rest of it can't be read.
    fn read_tar(
        &self,
        archive: impl Read,
        check: &dyn Fn() -> Result<(), String>,
        origin: &str,
        name: &str,
    ) -> Result<Result<(), Stopped>, String> {
        let archive = without_label(UntilStopped { archive, is_stopped: &self.is_stopped }).map_err(|error| error.to_string())?;
        let mut archive = tar::Archive::new(archive);
        // Reads on after the end of an archive: to the checksum of what is compressed, and to an
        // archive that was appended.
        archive.set_ignore_zeros(true);
        for entry in archive.entries().map_err(|error| error.to_string())? {
            let mut entry = entry.map_err(|error| format!("the archive is damaged: {error}"))?;
            let kind = entry.header().entry_type();
            if kind.is_dir() || kind.is_pax_global_extensions() {
                continue;
            }
            let member = String::from_utf8(entry.path_bytes().into_owned());
            let member = match member {
                Ok(member) => member.trim_start_matches("./").to_owned(),
                Err(error) => {
                    self.fail(&format!("{origin}: {}", String::from_utf8_lossy(error.as_bytes())), "its name isn't UTF-8");
                    continue;
                }
            };
            let member_origin = format!("{origin}: {member}");
            if !kind.is_file() {
                self.fail(&member_origin, "it is a link or a special file");
                continue;
            }
            let is_sparse = entry
                .pax_extensions()
                .map_err(|error| format!("the archive is damaged: {error}"))?
                .is_some_and(|all| all.flatten().any(|extension| extension.key_bytes().starts_with(b"GNU.sparse")));
            if is_sparse {
                self.fail(&member_origin, "it is a sparse file");
                continue;
            }
            match Format::of(&member) {
                Format::Avro | Format::Fits => {}
                Format::Tar { .. } => {
                    self.fail(&member_origin, "it is a tar archive in a tar archive");
                    continue;
                }
                Format::Other => {
                    self.fail(&member_origin, "it is neither Avro nor FITS");
                    continue;
                }
            }
            if entry.size() > FILE_MAX {
                self.fail(&member_origin, TOO_LARGE);
                continue;
            }
            let size = entry.size();
            let permit = self.reserve(size);
            let mut content = Vec::with_capacity(size as usize);
            let length = entry.read_to_end(&mut content).map_err(|error| format!("the archive is damaged: {error}"))?;
            if length as u64 != size {
                return Err("the archive ends early".to_owned());
            }
            check()?;
            if let Err(stopped) = self.send(member_origin, format!("{name}/{member}"), &member, content.into(), permit) {
                return Ok(Err(stopped));
            }
        }
        check().map(Ok)
    }

    /// Passes a file on. `letter` is its dead letter's key.
    fn send(&self, origin: String, letter: String, path: &str, content: Bytes, permit: OwnedSemaphorePermit) -> Result<(), Stopped> {
        let kind = match Format::of(path) {
            Format::Avro => Kind::Alerts,
            _ => Kind::File(self.key(path)),
        };
        let origin = Origin { metadata: vec![("file", origin.clone())], name: origin, key: letter };
        self.sender.blocking_send(Found { origin, content, kind, _permit: permit }).map_err(|_| Stopped)?;
        if self.is_stopped() { Err(Stopped) } else { Ok(()) }
    }

    fn key(&self, path: &str) -> Result<String, String> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let key = self.settings.file_key.key(|wanted| if wanted == "name" { name.to_owned() } else { path.to_owned() });
        key.map_err(|error| error.to_string())
    }

    /// Waits until a file fits into memory. A larger one gets all of it.
    fn reserve(&self, bytes: u64) -> OwnedSemaphorePermit {
        // Empty files take memory, too.
        let kib = u32::try_from(bytes.div_ceil(1 << 10) + 1).unwrap_or(u32::MAX).min(self.buffer_kib);
        let permit = self.runtime.block_on(Arc::clone(&self.buffer).acquire_many_owned(kib));
        permit.expect("the semaphore is never closed")
    }

    fn read_file(&self, path: &Path) -> Result<(Bytes, OwnedSemaphorePermit), String> {
        read_unchanged(path, |length| self.reserve(length))
    }
}

/// A tar archive without the label that GNU tar may write before the first file: its header may
/// have no size, and then looks damaged.
fn without_label(mut archive: impl Read) -> io::Result<impl Read> {
    let mut header = Vec::with_capacity(TAR_BLOCK);
    archive.by_ref().take(TAR_BLOCK as u64).read_to_end(&mut header)?;
    if header.len() == TAR_BLOCK && header[TAR_TYPE] == b'V' && header[TAR_SIZE].iter().all(|byte| b"\0 0".contains(byte)) {
        header.clear();
    }
    Ok(io::Cursor::new(header).chain(archive))
}

/// Reads a file that nothing changes meanwhile. `reserve` waits for memory.
fn read_unchanged<P>(path: &Path, reserve: impl FnOnce(u64) -> P) -> Result<(Bytes, P), String> {
    let open = Unchanged::open(path).map_err(|error| error.to_string())?;
    let length = open.stamp.bytes;
    if length > FILE_MAX {
        return Err(TOO_LARGE.to_owned());
    }
    let permit = reserve(length);
    let mut content = Vec::with_capacity(length as usize);
    (&open.file).take(FILE_MAX + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
    open.check()?;
    if content.len() as u64 == length { Ok((content.into(), permit)) } else { Err(CHANGED.to_owned()) }
}

/// An open file, with what it was like before it was read.
struct Unchanged {
    file: File,
    stamp: Stamp,
}

/// Changes with each write to a file, but for writes within one tick of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Unchanged {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let stamp = stamp(&file)?;
        Ok(Self { file, stamp })
    }

    /// Fails if the file was written to since it was opened.
    fn check(&self) -> Result<(), String> {
        let now = stamp(&self.file).map_err(|error| error.to_string())?;
        if now == self.stamp { Ok(()) } else { Err(CHANGED.to_owned()) }
    }
}

fn stamp(file: &File) -> io::Result<Stamp> {
    let metadata = file.metadata()?;
    let (modified, changed) = ((metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec()));
    Ok(Stamp { bytes: metadata.len(), modified, changed })
}

const CHANGED: &str = "it changed while it was read";
const TOO_LARGE: &str = "it is larger than 256 MiB: copy such files with rclone or the AWS command line";

#[cfg(test)]
mod tests;
