//! Putting files: workers read them, one writer stages them, one committer acknowledges them, and
//! the whole put returns one report.
//!
//! ```text
//! sources --> workers --WriterMessage--> writer --CommitRequest--> committer
//!             read, hash,                append pieces             sync, catalogue,
//!             seal                       to staging                acknowledge
//! ```

use std::collections::HashSet;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use fulgurite_domain::ObjectName;

use super::Buffers;
use super::batch::Batch;
use super::known::{Skip, SuspectPlatters};
use super::room::Room;
use super::worker::{Worker, WriterMessage};
use super::writer::PieceWriter;
use crate::archive::{Archive, ArchiveError};
use crate::segments::{cut_unacknowledged, release_segments};
use crate::staging::Writing;
use crate::watch::Watcher;

/// Messages queued for the writer. Each has at most one record of content, so this bounds memory
/// (I9).
const WRITER_QUEUE: usize = 64;

/// Compares the content of a file with what is known of it, while it is read to be stored.
pub trait ContentCheck: Send {
    /// Reading begins, or begins again because the file changed: forgets what came before.
    fn restart(&mut self);
    /// Takes the next piece.
    fn update(&mut self, bytes: &[u8]);
    /// Decides at the end of the content.
    ///
    /// # Errors
    /// Why the content must not be stored, as a sentence without the file's path.
    fn finish(&mut self) -> Result<(), String>;
}

/// An input of a put.
pub enum Source {
    /// A file, symbolic link or directory of the file system.
    Path {
        /// Its path.
        path: PathBuf,
        /// The object name.
        name: ObjectName,
    },
    /// A regular file whose content is compared with what is known of it, while it is read.
    /// Nothing is stored unless `check` accepts it.
    Checked {
        /// Its path.
        path: PathBuf,
        /// The object name.
        name: ObjectName,
        /// Compares its content.
        check: Box<dyn ContentCheck>,
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
            Self::Path { name, .. } | Self::Checked { name, .. } | Self::Stream { name, .. } => name,
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
    pub unstable: u64,
}

/// Result of a put.
#[derive(Debug, Default)]
pub struct PutOutcome {
    /// Counts, also of a failed put.
    pub report: PutReport,
    /// Why the put stopped before everything was stored.
    pub failure: Option<ArchiveError>,
    /// Names that were therefore not stored, in no particular order, up to
    /// [`UNSTORED_MAX`](Self::UNSTORED_MAX) of them.
    pub unstored: Vec<ObjectName>,
}

impl PutOutcome {
    /// Limit on the names listed for a failed put.
    pub const UNSTORED_MAX: usize = 100_000;
}

/// How a put works with a flusher that runs beside it.
pub(crate) struct FlushHooks<'a> {
    /// Called after each commit.
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
    hooks: Option<&FlushHooks<'_>>,
) -> PutOutcome {
    let sources = Mutex::new(sources);
    let put = Put { archive, skip, watcher, hooks, report: Mutex::default(), pending: Mutex::default() };
    // The keys of what was acknowledged last may have lost their file since.
    let result = put.run(&sources).and_then(|()| archive.check_in_place());
    let report = put.report.into_inner().expect("nothing panics while it holds this lock");
    let Err(failure) = result else { return PutOutcome { report, ..PutOutcome::default() } };
    // Frees the space of segments that hold only unacknowledged content. If it fails, the next
    // opening does that.
    let _ = release_segments(archive);
    let rest = sources.into_inner().expect("nothing panics while it holds this lock").map(|source| source.name().clone());
    let pending = put.pending.into_inner().expect("nothing panics while it holds this lock");
    PutOutcome { report, failure: Some(failure), unstored: pending.into_iter().chain(rest).take(PutOutcome::UNSTORED_MAX).collect() }
}

struct Put<'a> {
    archive: &'a Archive,
    skip: Skip,
    watcher: &'a dyn Watcher,
    hooks: Option<&'a FlushHooks<'a>>,
    report: Mutex<PutReport>,
    /// Names of objects that are being read, or are not yet acknowledged.
    pending: Mutex<HashSet<ObjectName>>,
}

impl Put<'_> {
    fn run(&self, sources: &Mutex<impl Iterator<Item = Source> + Send>) -> Result<(), ArchiveError> {
        let Self { archive, skip, watcher, hooks, ref report, ref pending } = *self;
        let stop = AtomicBool::new(false);
        let buffers = Buffers::default();
        let failure = Mutex::new(None);
        let room = Room::new(archive.staging());
        let suspects = if skip == Skip::Nothing { SuspectPlatters::default() } else { SuspectPlatters::find(archive)? };
        let writing = archive.staging().begin()?;
        let result = std::thread::scope(|scope| {
            let (writer_tx, writer_rx) = sync_channel(WRITER_QUEUE);
            let (commit_tx, commit_rx) = sync_channel(1);
            for _ in 0..archive.threads() {
                let worker = Worker {
                    archive,
                    writer_tx: writer_tx.clone(),
                    watcher,
                    report,
                    stop: &stop,
                    buffers: &buffers,
                    skip,
                    suspects: &suspects,
                    room: &room,
                    flush: hooks.map(|hooks| hooks.flush),
                    pending,
                    failure: &failure,
                };
                scope.spawn(move || worker.run(sources));
            }
            drop(writer_tx);
            let committer = scope.spawn(|| {
                let result = self.commit_batches(commit_rx, &writing);
                stop.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            });
            let written = write_pieces(PieceWriter::new(archive, &writing, &buffers), writer_rx, commit_tx, &room);
            stop.store(true, Ordering::Relaxed);
            let committed = committer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            committed.and(written)
        });
        let result = result.and(failure.into_inner().expect("nothing panics while it holds this lock").map_or(Ok(()), Err));
        if result.is_err() {
            // Unacknowledged records must not turn into versions later. If they can't be cut off
            // now, the next opening decides.
            let _ = cut_unacknowledged(archive, writing.segments());
        }
        result
    }

    fn commit_batches(&self, requests: Receiver<CommitRequest>, writing: &Writing<'_>) -> Result<(), ArchiveError> {
        for CommitRequest { mut batch, reply } in requests {
            batch.commit(self.archive, writing)?;
            self.acknowledge(&batch);
            if let Some(hooks) = self.hooks {
                (hooks.committed)();
            }
            // The worker may have stopped waiting.
            let _ = reply.map(|reply| reply.send(()));
        }
        Ok(())
    }

    fn acknowledge(&self, batch: &Batch) {
        let records = || batch.change.staged.iter().map(|version| &version.record);
        let mut pending = self.pending.lock().expect("nothing panics while it holds this lock");
        for record in records() {
            pending.remove(&record.name);
        }
        drop(pending);
        let mut report = self.report.lock().expect("nothing panics while it holds this lock");
        report.objects += records().count() as u64;
        report.bytes += records().map(|record| record.size).sum::<u64>();
        drop(report);
        records().for_each(|record| self.watcher.stored(&record.name, record.version));
    }
}

/// Appends pieces to staging, and passes complete batches to the committer. Takes ownership of
/// `messages`, so that workers stop if it fails.
fn write_pieces(
    mut writer: PieceWriter<'_>,
    messages: Receiver<WriterMessage<'_>>,
    commit_tx: SyncSender<CommitRequest>,
    room: &Room<'_>,
) -> Result<(), ArchiveError> {
    let mut failure = None;
    for message in messages {
        let (appended, reply) = match message {
            WriterMessage::Piece(piece, reserved) => {
                let appended = writer.append(piece);
                drop(reserved);
                (appended, None)
            }
            WriterMessage::Object(draft, reserved) => {
                let completed = writer.complete_object(*draft, &[]).map(|record_bytes| {
                    reserved.content_appended(record_bytes.expect("a worker sends all pieces of an object before its end"));
                });
                (completed, None)
            }
            WriterMessage::Checkpoint(reply) => {
                writer.close_segments_next = true;
                (Ok(()), Some(reply))
            }
        };
        if let Err(error) = appended {
            failure = Some(error);
            break;
        }
        if reply.is_some() || writer.is_full() {
            let batch = writer.take_batch()?;
            room.release_records();
            if commit_tx.send(CommitRequest { batch, reply }).is_err() {
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
                let _ = commit_tx.send(CommitRequest { batch, reply: None });
            }
            // The first failure explains the others.
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

/// A batch for the committer.
struct CommitRequest {
    batch: Batch,
    /// Answered after the commit.
    reply: Option<SyncSender<()>>,
}
