//! A retrieval: its folder, its parts, and how it goes on after a stop.
//!
//! ```text
//! FOLDER/part-000001.tar  ...             complete parts
//! FOLDER/_part-000001.tar.partial         a part that is being written
//! FOLDER/_part-000001.failed.jsonl        objects of a part that the server could not send
//! FOLDER/_part-000001.uploaded            a part is in the bucket, and no longer in the folder
//! FOLDER/_retrieval/job.json              what is retrieved
//! FOLDER/_retrieval/sorted, parts.json    the list in reading order, and where parts begin
//! FOLDER/_retrieval/part-000001.json      a complete part's length, and how many objects failed
//! ```
//!
//! Programs that read a folder of Parquet files ignore names that begin with an underscore.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fulgurite_client::{Requested, Server};
use fulgurite_digest::{Algorithm, Digester};
use serde::{Deserialize, Serialize};

use crate::exchange::{Exchange, ExchangeError, OnRetry};
use crate::files::{at, write_whole};
use crate::list::ListError;
use crate::order::{self, Part, read_line};
use crate::part::{self, Fetched, PartFiles, Record};
use crate::upload::Destination;

/// File format of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Tar archives, as the server sends them: a file for each object, and `result.json`.
    Tar,
    /// Parquet files: a row for each object, with its content.
    Parquet,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::Parquet => "parquet",
        }
    }
}

/// What is retrieved, and how.
#[derive(Debug)]
pub struct Settings {
    /// The list of objects.
    pub list: PathBuf,
    /// Where the parts go.
    pub folder: PathBuf,
    /// What the parts are.
    pub format: Format,
    /// Number of concurrent bulk gets.
    pub connections: usize,
    /// Maximum number of objects of a part.
    pub part_objects: u64,
    /// Maximum bytes of content per part; a larger object gets its own part.
    pub part_bytes: u64,
    /// The bucket that complete parts are put into, and then removed from the folder.
    pub destination: Option<Destination>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            list: PathBuf::new(),
            folder: PathBuf::new(),
            format: Format::Tar,
            connections: 2,
            part_objects: order::OBJECTS_MAX as u64,
            part_bytes: 1 << 30,
            destination: None,
        }
    }
}

/// What was retrieved, by this run and earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Parts of the retrieval.
    pub parts: u64,
    /// Those that earlier runs completed.
    pub earlier_parts: u64,
    /// Objects of the list.
    pub objects: u64,
    /// Objects that the server could not send, by all runs.
    pub failed: u64,
    /// Parts with failed objects whose lists are no longer in the folder.
    pub missing_lists: u64,
    /// Objects that this run retrieved.
    pub retrieved: u64,
    /// Bytes of their content.
    pub bytes: u64,
}

/// Progress of a retrieval.
pub trait Progress: Send {
    /// Called with the number of objects located so far.
    fn placed(&mut self, _objects: u64) {}
    /// Called once, with the length of the list and the number retrieved by earlier runs.
    fn begun(&mut self, _objects: u64, _earlier: u64) {}
    /// Called with the objects and bytes retrieved by this run so far.
    fn retrieved(&mut self, _objects: u64, _bytes: u64) {}
}

/// Why a retrieval ended before its last part.
#[derive(Debug, thiserror::Error)]
pub enum RetrievalError {
    /// The list can't be used.
    #[error(transparent)]
    List(#[from] ListError),
    /// A request failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The folder belongs to another retrieval.
    #[error("{} has parts of another retrieval: {differs} differs. Use another folder, or remove this one", folder.display())]
    Other {
        /// The folder.
        folder: PathBuf,
        /// What differs.
        differs: &'static str,
    },
    /// The folder has parts, but no record of their retrieval.
    #[error("{} has parts of a retrieval whose own files are gone. Use another folder", folder.display())]
    Unknown {
        /// The folder.
        folder: PathBuf,
    },
    /// A file of the retrieval is damaged.
    #[error("{} is damaged: {why}. Retrieve into another folder", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Another process retrieves into the folder.
    #[error("another process is retrieving into {}", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// An object is too large for a row.
    #[error("{key:?} has {bytes} bytes, too many for a row of a Parquet file: retrieve it as tar")]
    TooLarge {
        /// Its key.
        key: String,
        /// Its size.
        bytes: u64,
    },
    /// The bucket for the parts can't be used.
    #[error("{0}")]
    Destination(String),
    /// A part is larger than an object may be.
    #[error("{} has {bytes} bytes, more than the 5 GiB of one put: retrieve into a folder", path.display())]
    PartTooLarge {
        /// The part.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A file of the retrieval can't be used.
    #[error("{}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An I/O error that [`Retrieval::run`] reports with the folder.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The file that says where parts begin. It exists once the list is sorted.
const PARTS: &str = "parts.json";

/// The extension of the list of a part's failed objects.
const FAILED: &str = "failed.jsonl";
/// The extension of the file that says that a part is in the bucket.
const UPLOADED: &str = "uploaded";
/// Maximum size of an object that is put with one request, as S3 defines it.
const PUT_BYTES_MAX: u64 = 5 << 30;

/// What identifies a retrieval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Job {
    endpoint: String,
    bucket: String,
    /// SHA-256 of the list.
    list_sha256: String,
    format: Format,
    part_objects: u64,
    part_bytes: u64,
    /// The bucket and the prefix of the parts, if they go into a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
}

impl Job {
    /// The first setting that differs. The endpoint is ignored, because a server may have moved.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let same = [
            ("the bucket", self.bucket == other.bucket),
            ("the list", self.list_sha256 == other.list_sha256),
            ("the format", self.format == other.format),
            ("--part-objects", self.part_objects == other.part_objects),
            ("--part-size", self.part_bytes == other.part_bytes),
            ("--into", self.destination == other.destination),
        ];
        same.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
    }
}

/// A retrieval of the objects of a list.
pub struct Retrieval<'a> {
    server: &'a Server,
    settings: Settings,
    /// The folder `_retrieval`.
    state: PathBuf,
}

impl<'a> Retrieval<'a> {
    /// A retrieval from a bucket of a server. Nothing is sent yet.
    #[must_use]
    pub fn new(server: &'a Server, settings: Settings) -> Self {
        let state = settings.folder.join("_retrieval");
        Self { server, settings, state }
    }

    /// Retrieves all parts that are missing. `on_retry` gets the reason why a request is sent
    /// again, and the pause before. Setting `stop` ends everything early.
    ///
    /// # Errors
    /// [`RetrievalError`]; another run goes on with the parts that are missing.
    pub fn run(&self, progress: &mut dyn Progress, on_retry: &OnRetry<'_>, stop: &AtomicBool) -> Result<Summary, RetrievalError> {
        self.run_in_folder(progress, on_retry, stop).map_err(|error| match error {
            RetrievalError::Io(source) => RetrievalError::Folder { folder: self.settings.folder.clone(), source },
            error => error,
        })
    }

    fn run_in_folder(&self, progress: &mut dyn Progress, on_retry: &OnRetry<'_>, stop: &AtomicBool) -> Result<Summary, RetrievalError> {
        let list_sha256 = digest(&self.settings.list)?;
        std::fs::create_dir_all(&self.state).map_err(at(&self.state))?;
        let _lock = self.lock()?;
        let exchange = Exchange::new(self.server, on_retry, stop)?;
        if let Some(destination) = &self.settings.destination {
            destination.check(&exchange)?;
        }
        self.claim(&list_sha256)?;
        // Sorting may take hours: what can be refused before is refused before.
        self.check_prefix(&exchange)?;
        let parts = self.parts(&list_sha256, progress, on_retry, stop)?;
        self.check_prefix(&exchange)?;
        let mut summary = Summary { parts: parts.len() as u64, objects: parts.iter().map(|part| part.objects).sum(), ..Summary::default() };
        let missing: Vec<usize> = (0..parts.len()).filter(|index| !self.is_done(*index)).collect();
        self.remove_uploaded(parts.len())?;
        summary.earlier_parts = (parts.len() - missing.len()) as u64;
        let earlier = summary.objects - missing.iter().map(|index| parts[*index].objects).sum::<u64>();
        progress.begun(summary.objects, earlier);
        let fetched = self.fetch_all(&parts, &missing, progress, on_retry, stop)?;
        (summary.retrieved, summary.bytes) = (fetched.retrieved, fetched.bytes);
        for index in 0..parts.len() {
            let (failed, is_listed) = self.count_failed(index)?;
            summary.failed += failed;
            summary.missing_lists += u64::from(failed > 0 && !is_listed);
        }
        Ok(summary)
    }

    /// Whether a part is where it belongs.
    fn is_done(&self, index: usize) -> bool {
        match self.settings.destination {
            None => self.is_whole(index),
            Some(_) => self.hidden_path_of(index, UPLOADED).exists(),
        }
    }

    /// Whether a part is complete in the folder, and as long as when it was written.
    fn is_whole(&self, index: usize) -> bool {
        let Ok(found) = std::fs::metadata(self.path_of(index)) else { return false };
        // Earlier releases didn't record it.
        self.record_of(index).map_or(found.len() > 0, |recorded| found.len() == recorded.length)
    }

    /// What was recorded of a part when it was complete.
    fn record_of(&self, index: usize) -> Option<Record> {
        serde_json::from_slice(&std::fs::read(self.record_path_of(index)).ok()?).ok()
    }

    /// The path of the file with a part's record.
    fn record_path_of(&self, index: usize) -> PathBuf {
        self.state.join(format!("part-{:06}.json", index + 1))
    }

    /// The path of a part.
    fn path_of(&self, index: usize) -> PathBuf {
        self.settings.folder.join(format!("part-{:06}.{}", index + 1, self.settings.format.extension()))
    }

    /// The path of another file of a part.
    fn hidden_path_of(&self, index: usize, extension: &str) -> PathBuf {
        self.settings.folder.join(format!("_part-{:06}.{extension}", index + 1))
    }

    /// Locks the folder against other processes. The system releases the lock when this process
    /// ends.
    fn lock(&self) -> Result<File, RetrievalError> {
        let path = self.state.join("lock");
        let file = File::options().create(true).append(true).open(&path).map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(RetrievalError::InUse { folder: self.settings.folder.clone() }),
            Err(TryLockError::Error(error)) => Err(at(&path)(error).into()),
        }
    }

    /// Records what is retrieved, or refuses to mix it with something else.
    fn claim(&self, list_sha256: &str) -> Result<(), RetrievalError> {
        let job = Job {
            endpoint: self.server.endpoint().to_owned(),
            bucket: self.server.bucket().to_owned(),
            list_sha256: list_sha256.to_owned(),
            format: self.settings.format,
            part_objects: self.settings.part_objects,
            part_bytes: self.settings.part_bytes,
            destination: self.settings.destination.as_ref().map(Destination::address),
        };
        let path = self.state.join("job.json");
        match std::fs::read(&path) {
            Ok(text) => {
                let found: Job = serde_json::from_slice(&text).map_err(|error| damaged(&path, &error))?;
                match found.difference(&job) {
                    None => Ok(()),
                    // Nothing was retrieved yet: a wrong bucket was named, for example.
                    Some(_) if !self.state.join(PARTS).exists() => {
                        self.refuse_parts()?;
                        Ok(write_whole(&path, &job)?)
                    }
                    // The prefix was in use when the list was sorted.
                    Some("--into") if !self.has_parts()? => Ok(write_whole(&path, &job)?),
                    Some(differs) => Err(RetrievalError::Other { folder: self.settings.folder.clone(), differs }),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.refuse_parts()?;
                Ok(write_whole(&path, &job)?)
            }
            Err(error) => Err(at(&path)(error).into()),
        }
    }

    /// Refuses a folder with parts: they would be taken for those of the list that is sorted next.
    fn refuse_parts(&self) -> Result<(), RetrievalError> {
        if self.has_parts()? { Err(RetrievalError::Unknown { folder: self.settings.folder.clone() }) } else { Ok(()) }
    }

    /// Whether the folder has complete parts, or says that some are in the bucket.
    fn has_parts(&self) -> Result<bool, ExchangeError> {
        let folder = &self.settings.folder;
        for entry in std::fs::read_dir(folder).map_err(at(folder))? {
            let name = entry.map_err(at(folder))?.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("part-") || name.starts_with("_part-") && name.ends_with(&format!(".{UPLOADED}")) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses a prefix with parts, unless they may be this retrieval's own. Then the folder has
    /// one of them, or says that it is in the bucket: a part's file is removed only after that.
    fn check_prefix(&self, exchange: &Exchange<'_>) -> Result<(), RetrievalError> {
        match &self.settings.destination {
            Some(destination) if !self.has_parts()? => destination.refuse_parts(exchange),
            _ => Ok(()),
        }
    }

    /// The parts of the sorted list, which an earlier run may have sorted.
    fn parts(
        &self,
        list_sha256: &str,
        progress: &mut dyn Progress,
        on_retry: &OnRetry<'_>,
        stop: &AtomicBool,
    ) -> Result<Vec<Part>, RetrievalError> {
        let path = self.state.join(PARTS);
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| damaged(&path, &error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.refuse_parts()?;
                let exchange = Exchange::new(self.server, on_retry, stop)?;
                let parts = order::sort(&self.settings, &exchange, &self.sorted(), &mut |objects| progress.placed(objects))?;
                if digest(&self.settings.list)? != list_sha256 {
                    return Err(ListError::Changed(self.settings.list.clone()).into());
                }
                write_whole(&path, &parts)?;
                Ok(parts)
            }
            Err(error) => Err(at(&path)(error).into()),
        }
    }

    fn sorted(&self) -> PathBuf {
        self.state.join("sorted")
    }

    /// Retrieves parts, several at once, in order.
    fn fetch_all(
        &self,
        parts: &[Part],
        missing: &[usize],
        progress: &mut dyn Progress,
        on_retry: &OnRetry<'_>,
        stop: &AtomicBool,
    ) -> Result<Fetched, RetrievalError> {
        let (next, gives_up) = (AtomicUsize::new(0), AtomicBool::new(false));
        let tally = Mutex::new(Tally { progress, complete: Fetched::default(), running: BTreeMap::new() });
        let work = |worker: usize| -> Result<(), RetrievalError> {
            let exchange = Exchange::new(self.server, on_retry, stop)?;
            while !gives_up.load(Ordering::Relaxed) {
                let Some(index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
                let fetched = self.fetch(&exchange, *index, parts[*index], &mut |running| lock(&tally).set(worker, running));
                let fetched = fetched.inspect_err(|_| gives_up.store(true, Ordering::Relaxed))?;
                lock(&tally).complete(worker, fetched);
            }
            Ok(())
        };
        let work = &work;
        let workers = self.settings.connections.clamp(1, missing.len().max(1));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
            // Joins all workers before the first error is returned.
            let results: Vec<_> =
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect();
            results.into_iter().collect::<Result<(), _>>()
        })?;
        Ok(tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).complete)
    }

    /// Retrieves a part, and puts it into the bucket if that is wanted.
    fn fetch(
        &self,
        exchange: &Exchange<'_>,
        index: usize,
        part: Part,
        on_progress: &mut dyn FnMut(Fetched),
    ) -> Result<Fetched, RetrievalError> {
        // An earlier run may have retrieved it, and ended before it was in the bucket.
        let fetched = match self.is_whole(index) {
            true => Fetched::default(),
            false => self.fetch_file(exchange, index, part, on_progress)?,
        };
        if let Some(destination) = &self.settings.destination {
            self.upload(exchange, destination, index)?;
        }
        Ok(fetched)
    }

    /// Puts a complete part into the bucket, with the list of its failed objects, and removes it
    /// from the folder.
    fn upload(&self, exchange: &Exchange<'_>, destination: &Destination, index: usize) -> Result<(), RetrievalError> {
        let (path, failed) = (self.path_of(index), self.hidden_path_of(index, FAILED));
        let bytes = std::fs::metadata(&path).map_err(at(&path))?.len();
        if bytes > PUT_BYTES_MAX {
            return Err(RetrievalError::PartTooLarge { path, bytes });
        }
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        destination.put_new(exchange, &path, &name(&path))?;
        if failed.exists() {
            // The part is this retrieval's own, and so is this list.
            destination.put(exchange, &failed, &name(&failed), &[])?;
        }
        write_whole(&self.hidden_path_of(index, UPLOADED), &format!("{}{}", destination.address(), name(&path)))?;
        Ok(std::fs::remove_file(&path).map_err(at(&path))?)
    }

    /// Removes parts that are in the bucket: an earlier run may have ended between recording that
    /// and removing them.
    fn remove_uploaded(&self, parts: usize) -> Result<(), ExchangeError> {
        if self.settings.destination.is_none() {
            return Ok(());
        }
        for index in (0..parts).filter(|index| self.is_done(*index)) {
            let path = self.path_of(index);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn fetch_file(
        &self,
        exchange: &Exchange<'_>,
        index: usize,
        part: Part,
        on_progress: &mut dyn FnMut(Fetched),
    ) -> Result<Fetched, RetrievalError> {
        let path = self.sorted();
        let mut sorted = BufReader::new(File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => damaged(&path, &"it is missing"),
            _ => at(&path)(error).into(),
        })?);
        sorted.seek(SeekFrom::Start(part.offset)).map_err(at(&path))?;
        let mut objects = Vec::new();
        for _ in 0..part.objects {
            let object = read_line::<Requested>(&mut sorted).map_err(|error| damaged(&path, &error))?;
            objects.push(object.ok_or_else(|| damaged(&path, &"it ends early"))?);
        }
        let extension = self.settings.format.extension();
        let (partial, complete) = (self.hidden_path_of(index, &format!("{extension}.partial")), self.path_of(index));
        let (failed, record) = (self.hidden_path_of(index, FAILED), self.record_path_of(index));
        let files = PartFiles { partial: &partial, complete: &complete, failed: &failed, record: &record };
        let fetched = part::fetch(exchange, &objects, self.settings.format, &files, on_progress);
        if fetched.is_err() {
            // The next run would replace it.
            let _ = std::fs::remove_file(&partial);
        }
        Ok(fetched?)
    }

    /// Number of objects of a part that the server could not send, and whether their list is there.
    fn count_failed(&self, index: usize) -> Result<(u64, bool), RetrievalError> {
        let path = self.hidden_path_of(index, FAILED);
        // The user may have moved the list, to retrieve its objects again.
        if let Some(recorded) = self.record_of(index).and_then(|record| record.failed) {
            return Ok((recorded, path.exists()));
        }
        match File::open(&path) {
            Ok(file) => {
                let mut lines = BufReader::new(file);
                let mut count = 0;
                while read_line::<serde::de::IgnoredAny>(&mut lines).map_err(|error| damaged(&path, &error))?.is_some() {
                    count += 1;
                }
                Ok((count, true))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((0, false)),
            Err(error) => Err(at(&path)(error).into()),
        }
    }
}

/// What all workers have retrieved.
struct Tally<'p> {
    progress: &'p mut dyn Progress,
    complete: Fetched,
    /// Progress of each worker's current part. A retry starts from nothing.
    running: BTreeMap<usize, Fetched>,
}

impl Tally<'_> {
    fn set(&mut self, worker: usize, running: Fetched) {
        self.running.insert(worker, running);
        let all = || self.running.values().chain([&self.complete]);
        let (objects, bytes) = (all().map(|some| some.retrieved).sum(), all().map(|some| some.bytes).sum());
        self.progress.retrieved(objects, bytes);
    }

    fn complete(&mut self, worker: usize, fetched: Fetched) {
        self.complete.retrieved += fetched.retrieved;
        self.complete.failed += fetched.failed;
        self.complete.bytes += fetched.bytes;
        self.set(worker, Fetched::default());
    }
}

fn lock<'m, 'p>(tally: &'m Mutex<Tally<'p>>) -> std::sync::MutexGuard<'m, Tally<'p>> {
    tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn damaged(path: &Path, why: &dyn std::fmt::Display) -> RetrievalError {
    RetrievalError::Damaged { path: path.to_owned(), why: why.to_string() }
}

fn digest(path: &Path) -> Result<String, RetrievalError> {
    let io_error = |source| ListError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io_error)?;
    if !file.metadata().map_err(io_error)?.is_file() {
        return Err(ListError::NotAFile(path.to_owned()).into());
    }
    let mut digester = Digester::new(&[Algorithm::Sha256]);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(io_error)? {
            0 => return Ok(digester.finish()[0].hex()),
            count => digester.update(&buffer[..count]),
        }
    }
}
