//! Putting files: workers read them, one writer stages them, and the whole put returns one report.

use std::collections::HashSet;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use fulgurite_domain::ObjectName;

use super::Buffers;
use super::known::{Doubt, Skip};
use super::room::Room;
use super::worker::{Handed, Worker};
use super::writer::{Batch, PieceWriter};
use crate::archive::{Archive, ArchiveError};
use crate::segments::{cut_unacknowledged, release_segments};
use crate::staging::Writing;
use crate::watch::Watcher;

/// Pieces queued for the writer. Large ones are one record each, so this bounds memory (I9).
const QUEUE: usize = 64;

/// An input of a put.
pub enum Source {
    /// A file, symbolic link or directory of the file system.
    Path {
        /// Its path.
        path: PathBuf,
        /// The object name.
        name: ObjectName,
    },
    /// A stream.
    Stream {
        /// Its bytes.
        reader: Box<dyn Read + Send>,
        /// The object name.
        name: ObjectName,
    },
}

impl Source {
    /// The object name.
    #[must_use]
    pub fn name(&self) -> &ObjectName {
        match self {
            Self::Path { name, .. } | Self::Stream { name, .. } => name,
        }
    }
}

/// Counts of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PutReport {
    /// Acknowledged versions.
    pub objects: u64,
    /// Their content bytes.
    pub bytes: u64,
    /// Sources skipped because the newest version of their name is the same.
    pub unchanged: u64,
    /// Sources that could not be read, or were too large.
    pub failed: u64,
    /// Files that changed during every attempt to read them, and were not stored.
    pub changed: u64,
}

/// Result of a put.
#[derive(Debug, Default)]
pub struct PutOutcome {
    /// Counts, also of a failed put.
    pub report: PutReport,
    /// Why the put stopped before everything was stored.
    pub failure: Option<ArchiveError>,
    /// Names that were therefore not stored, in no particular order, up to [`NAMES`](Self::NAMES)
    /// of them.
    pub unstored: Vec<ObjectName>,
}

impl PutOutcome {
    /// Limit on the names listed for a failed put.
    pub const NAMES: usize = 100_000;
}

pub(crate) struct Flushing<'a> {
    pub(crate) committed: &'a (dyn Fn() + Sync),
    /// Writes everything staged to platters. Returns `false` on failure.
    pub(crate) flush: &'a (dyn Fn() -> bool + Sync),
}

impl Archive {
    /// Puts all `sources`. Unreadable sources are reported to `watcher` and counted, and the put
    /// continues.
    ///
    /// # Errors
    /// [`ArchiveError`] if staging, keys or catalogue fail, or staging is full. Objects
    /// acknowledged before are safe.
    pub fn put(&self, sources: impl Iterator<Item = Source> + Send, watcher: &dyn Watcher) -> Result<PutReport, ArchiveError> {
        let outcome = self.put_changed(sources, Skip::Nothing, watcher);
        outcome.failure.map_or(Ok(outcome.report), Err)
    }

    /// Puts all `sources` except those that `skip` excludes, and reports what was stored even on
    /// failure.
    pub fn put_changed(&self, sources: impl Iterator<Item = Source> + Send, skip: Skip, watcher: &dyn Watcher) -> PutOutcome {
        put_flushing(self, sources, skip, watcher, None)
    }
}

pub(crate) fn put_flushing(
    archive: &Archive,
    sources: impl Iterator<Item = Source> + Send,
    skip: Skip,
    watcher: &dyn Watcher,
    flushing: Option<&Flushing<'_>>,
) -> PutOutcome {
    let sources = Mutex::new(sources);
    let put = Put { archive, skip, watcher, flushing, report: Mutex::default(), pending: Mutex::default() };
    let result = put.run(&sources);
    let report = put.report.into_inner().expect("no panic holds this lock");
    let Err(failure) = result else { return PutOutcome { report, ..PutOutcome::default() } };
    // Unacknowledged objects must not reappear later. If they can't be removed now, the next
    // opening decides.
    let _ = release_segments(archive);
    let rest = sources.into_inner().expect("no panic holds this lock").map(|source| source.name().clone());
    let pending = put.pending.into_inner().expect("no panic holds this lock");
    PutOutcome { report, failure: Some(failure), unstored: pending.into_iter().chain(rest).take(PutOutcome::NAMES).collect() }
}

struct Put<'a> {
    archive: &'a Archive,
    skip: Skip,
    watcher: &'a dyn Watcher,
    flushing: Option<&'a Flushing<'a>>,
    report: Mutex<PutReport>,
    /// Names of objects that are being read, or are not yet acknowledged.
    pending: Mutex<HashSet<ObjectName>>,
}

impl Put<'_> {
    fn run(&self, sources: &Mutex<impl Iterator<Item = Source> + Send>) -> Result<(), ArchiveError> {
        let Self { archive, skip, watcher, flushing, ref report, ref pending } = *self;
        let stop = AtomicBool::new(false);
        let buffers = Buffers::default();
        let failure = Mutex::new(None);
        let room = Room::new(archive.staging());
        let doubt = if skip == Skip::Nothing { Doubt::default() } else { Doubt::look(archive)? };
        let writing = archive.staging().begin()?;
        let result = std::thread::scope(|scope| {
            let (pieces_in, pieces) = sync_channel(QUEUE);
            let (batches_in, batches) = sync_channel(1);
            for _ in 0..archive.threads() {
                let worker = Worker {
                    archive,
                    pieces: pieces_in.clone(),
                    watcher,
                    report,
                    stop: &stop,
                    buffers: &buffers,
                    skip,
                    doubt: &doubt,
                    room: &room,
                    flush: flushing.map(|flushing| flushing.flush),
                    pending,
                    failure: &failure,
                };
                scope.spawn(move || worker.run(sources));
            }
            drop(pieces_in);
            let committer = scope.spawn(|| {
                let result = self.commit_batches(batches, &writing);
                stop.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            });
            let written = write_pieces(PieceWriter::new(archive, &writing, &buffers), pieces, batches_in, &room);
            stop.store(true, Ordering::Relaxed);
            let committed = committer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            committed.and(written)
        });
        let result = result.and(failure.into_inner().expect("no panic holds this lock").map_or(Ok(()), Err));
        if result.is_err() {
            // Unacknowledged objects must not reappear later. If they can't be cut off now, the
            // next opening decides.
            let _ = cut_unacknowledged(archive, writing.segments());
        }
        result
    }

    fn commit_batches(&self, batches: Receiver<Due>, writing: &Writing<'_>) -> Result<(), ArchiveError> {
        for Due { mut batch, reply } in batches {
            batch.commit(self.archive, writing)?;
            self.acknowledged(&batch);
            if let Some(flushing) = self.flushing {
                (flushing.committed)();
            }
            // The receiver may be gone.
            let _ = reply.map(|reply| reply.send(()));
        }
        Ok(())
    }

    fn acknowledged(&self, batch: &Batch) {
        let records = || batch.change.staged.iter().map(|version| &version.record);
        let mut pending = self.pending.lock().expect("no panic holds this lock");
        for record in records() {
            pending.remove(&record.name);
        }
        drop(pending);
        let mut report = self.report.lock().expect("no panic holds this lock");
        report.objects += records().count() as u64;
        report.bytes += records().map(|record| record.size).sum::<u64>();
        drop(report);
        records().for_each(|record| self.watcher.stored(&record.name, record.version));
    }
}

/// Appends pieces to staging, and passes complete batches on. Takes ownership of `pieces`, so
/// that workers stop if it fails.
fn write_pieces(
    mut writer: PieceWriter<'_>,
    pieces: Receiver<Handed<'_>>,
    batches: SyncSender<Due>,
    room: &Room<'_>,
) -> Result<(), ArchiveError> {
    let mut failure = None;
    for handed in pieces {
        let (appended, reply) = match handed {
            Handed::Piece(piece, reserved) => {
                let appended = writer.append(piece);
                drop(reserved);
                (appended, None)
            }
            Handed::Object(draft, reserved) => {
                let owed = writer.owed;
                let whole = writer.object(*draft, &[]);
                reserved.content_is_appended(writer.owed - owed);
                (whole.map(|whole| assert!(whole, "a worker sends all pieces of an object before its end")), None)
            }
            Handed::Checkpoint(reply) => {
                writer.closes = true;
                (Ok(()), Some(reply))
            }
        };
        if let Err(error) = appended {
            failure = Some(error);
            break;
        }
        if reply.is_some() || writer.is_full() {
            let batch = writer.take_batch()?;
            room.records_are_appended();
            if batches.send(Due { batch, reply }).is_err() {
                // The committer failed, and reports the cause.
                return Ok(());
            }
        }
    }
    // Complete objects are committed even if the next append failed: a full disk loses nothing
    // already written.
    if !writer.is_empty() {
        match writer.take_batch() {
            Ok(batch) => {
                let _ = batches.send(Due { batch, reply: None });
            }
            // The first failure explains the others.
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

struct Due {
    batch: Batch,
    reply: Option<SyncSender<()>>,
}
