//! The intake of a server: many concurrent streams, each acknowledged on its own.
//!
//! ```text
//! Upload -- data records ----.      keys       .--> committer: sync, catalogue --> acknowledge
//! Upload -- data records ----+---> writer -----'        |
//! remove -- versions --------'       ^--- Committed ----'
//! ```
//!
//! A data record is a record of a staging segment (docs/format.md): sealed content of an object.
//! The metadata of the object follows in its object record.
//!
//! Only one commit is in progress at a time. Meanwhile the writer stores the keys of complete
//! objects, so that the next commit can start at once. A single client waits only for its own
//! commit, and a thousand share one.
//!
//! If a commit fails, all of its clients get the error, and nothing of it is kept: the intake drops
//! what is in progress, and starts a new session with the next message. An upload that had already
//! sent content fails, because its staged bytes were discarded.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use fulgurite_domain::{Attributes, Digest, Kind, Modified, ObjectName, VersionId};
use fulgurite_format::{FRAME_BYTES, STORED_FRAME_BYTES, TAG_BYTES};

use super::batch::Batch;
use super::writer::PieceWriter;
use super::{Buffers, Draft, Piece, RECORD_BYTES, Sealing, Sha256, digest_of};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::VersionRow;
use crate::segments::{cut_unacknowledged, release_segments};
use crate::staging::Writing;

/// Why an object was not put, or versions were not removed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IntakeError {
    /// Staging, keys or catalogue failed.
    #[error("{0}")]
    Archive(Arc<ArchiveError>),
    /// A failed commit discarded content of this upload that was already staged.
    #[error("a failed commit discarded the content sent so far; put the object again")]
    GivenUp,
    /// The intake was closed.
    #[error("the archive is being closed")]
    Closed,
}

impl From<ArchiveError> for IntakeError {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(Arc::new(error))
    }
}

/// Callback with the result. Called at most once: by the committer after a commit, by the writer if
/// nothing could be committed, or on the caller's thread if the intake has ended. It should only
/// forward the result.
///
/// If the intake panics after it has taken up the change, the callback is dropped without a call,
/// because the result isn't known.
pub type Acknowledge = Box<dyn FnOnce(Result<(), IntakeError>) + Send>;

/// Held with each data record and dropped once it is written. Callers use it to bound memory (I9).
pub type Ticket = Box<dyn Send>;

/// The properties of an object whose content is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObject {
    /// Its name.
    pub name: ObjectName,
    /// File, link, directory.
    pub kind: Kind,
    /// Time of the last change, if known.
    pub modified: Option<Modified>,
    /// Permission bits, if known.
    pub mode: Option<u32>,
    /// Attributes from the client.
    pub attributes: Attributes,
}

enum Message {
    Piece(Piece, Option<Ticket>),
    /// Puts the object, and removes versions in the same transaction.
    Object(Box<Draft>, Vec<VersionRow>, Unhandled),
    Remove(Vec<VersionRow>, Unhandled),
    /// The committer of this session has committed a batch, and is ready for the next.
    Committed(u64),
    /// The committer of this session failed.
    Failed(u64, IntakeError),
    Close,
}

/// A queued message's callback. If the message is dropped unhandled, as by an intake that ends, the
/// callback reports [`IntakeError::Closed`].
struct Unhandled(Option<Acknowledge>);

impl Unhandled {
    fn new(acknowledge: Acknowledge) -> Self {
        Self(Some(acknowledge))
    }

    fn take(mut self) -> Acknowledge {
        self.0.take().expect("it is taken only here, and when it is dropped")
    }
}

impl Drop for Unhandled {
    fn drop(&mut self) {
        if let Some(acknowledge) = self.0.take() {
            acknowledge(Err(IntakeError::Closed));
        }
    }
}

/// Accepts objects as long as it exists. Nothing else may put meanwhile.
pub struct Intake {
    archive: Arc<Archive>,
    messages: Sender<Message>,
    buffers: Arc<Buffers>,
    writer: Option<JoinHandle<()>>,
}

impl Intake {
    /// Starts the intake.
    ///
    /// # Errors
    /// [`ArchiveError`] if the system can't start a thread.
    pub fn open(archive: Arc<Archive>) -> Result<Self, ArchiveError> {
        let (messages, messages_rx) = channel();
        let buffers = Arc::new(Buffers::default());
        let (thread_archive, committer_tx, thread_buffers) = (archive.clone(), messages.clone(), buffers.clone());
        let builder = std::thread::Builder::new().name("intake".into());
        let writer = builder
            .spawn(move || run(&thread_archive, &messages_rx, &committer_tx, &thread_buffers))
            .map_err(ArchiveError::io(archive.home()))?;
        Ok(Self { archive, messages, buffers, writer: Some(writer) })
    }

    /// Starts an upload.
    #[must_use]
    pub fn upload(&self) -> Upload {
        Upload {
            archive: self.archive.clone(),
            messages: self.messages.clone(),
            buffers: self.buffers.clone(),
            sealing: Some(Sealing::new(&self.archive)),
            payload: Vec::new(),
            full: RECORD_BYTES,
            frame: 0,
            ticket: None,
        }
    }

    /// Starts an upload of content whose SHA-256 the caller [states](Upload::state_sha256), because
    /// it hashes the content itself. The archive doesn't compute it again.
    /// [`ObjectReader::read`](crate::object::ObjectReader::read) compares it and fails if it
    /// differs; reads of ranges, and S3's GET, don't.
    #[must_use]
    pub fn upload_hashed_by_caller(&self) -> Upload {
        let mut upload = self.upload();
        upload.sealing.as_mut().expect("finish consumes the upload").hash = Sha256::Stated(None);
        upload
    }

    /// True while the intake accepts objects. A panic of its writer ends it.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| !writer.is_finished())
    }

    /// Removes versions for good. The catalogue forgets them before this is acknowledged; the next
    /// [`Archive::sweep`] destroys their keys.
    pub fn remove(&self, versions: Vec<VersionRow>, acknowledge: Acknowledge) {
        send(&self.messages, Message::Remove(versions, Unhandled::new(acknowledge)));
    }

    /// Commits complete objects and stops. Unfinished uploads get [`IntakeError::Closed`].
    pub fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(writer) = self.writer.take() {
            let _ = self.messages.send(Message::Close);
            if let Err(panic) = writer.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

fn send(messages: &Sender<Message>, message: Message) {
    // If the intake is gone, the message is dropped, which reports that to the client.
    let _ = messages.send(message);
}

fn refuse(message: Message, error: &IntakeError) {
    if let Message::Object(_, _, acknowledge) | Message::Remove(_, acknowledge) = message {
        acknowledge.take()(Err(error.clone()));
    }
}

/// An object being uploaded. Its content is hashed and sealed as it arrives. Dropping the upload
/// discards it.
pub struct Upload {
    archive: Arc<Archive>,
    messages: Sender<Message>,
    buffers: Arc<Buffers>,
    /// `None` once the object was sent to the writer.
    sealing: Option<Sealing>,
    /// Sealed frames, followed by the frame being filled.
    payload: Vec<u8>,
    /// Length of `payload` at which it is sent as a data record.
    full: usize,
    /// Offset in `payload` of the frame being filled.
    frame: usize,
    ticket: Option<Ticket>,
}

impl Upload {
    fn sealing(&self) -> &Sealing {
        self.sealing.as_ref().expect("finish consumes the upload")
    }

    /// The identifier of the future version.
    #[must_use]
    pub fn id(&self) -> VersionId {
        self.sealing().id
    }

    /// Start of the upload, milliseconds since 1970; the version's creation time.
    #[must_use]
    pub fn created_ms(&self) -> u64 {
        self.sealing().created_ms
    }

    /// Content bytes so far.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.sealing().size
    }

    /// Content bytes that fit before another data record, with another ticket, must begin.
    #[must_use]
    pub fn room(&self) -> usize {
        let left = self.full - self.payload.len();
        if self.ticket.is_none() { 0 } else { left - left.div_ceil(STORED_FRAME_BYTES) * TAG_BYTES }
    }

    /// Begins a data record for up to 1 MiB of content. Its buffer has room for `expected` bytes of
    /// content from the start. The ticket is dropped once the data record is written.
    ///
    /// # Panics
    /// If the previous data record is not full.
    pub fn begin_record(&mut self, expected: usize, ticket: Ticket) {
        assert_eq!(self.room(), 0, "the previous data record must be full");
        let stored = expected + expected.div_ceil(FRAME_BYTES) * TAG_BYTES;
        // A shard is cut at multiples of a full data record, and only between data records. So
        // after data records of one frame, the next one ends where a full one would have ended.
        let full = RECORD_BYTES - (self.sealing().stored % RECORD_BYTES as u64) as usize;
        self.begin(stored.min(full), full, ticket);
    }

    /// Begins a data record of one frame, to save memory: it takes 64 KiB of content, but is
    /// otherwise like a longer one.
    ///
    /// # Panics
    /// If the previous data record is not full.
    pub fn begin_frame(&mut self, expected: usize, ticket: Ticket) {
        assert_eq!(self.room(), 0, "the previous data record must be full");
        self.begin((expected + TAG_BYTES).min(STORED_FRAME_BYTES), STORED_FRAME_BYTES, ticket);
    }

    fn begin(&mut self, stored: usize, full: usize, ticket: Ticket) {
        self.payload = self.buffers.take_empty(stored);
        self.full = full;
        self.frame = 0;
        self.ticket = Some(ticket);
    }

    /// Adds content.
    ///
    /// # Panics
    /// If `bytes` exceeds [`room`](Self::room).
    pub fn write(&mut self, mut bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "{} bytes, but room for only {}", bytes.len(), self.room());
        let sealing = self.sealing.as_mut().expect("finish consumes the upload");
        sealing.hash.update(bytes);
        sealing.size += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(FRAME_BYTES - (self.payload.len() - self.frame)));
            self.payload.extend_from_slice(now);
            bytes = later;
            if self.payload.len() - self.frame == FRAME_BYTES {
                self.seal_frame();
            }
        }
        if self.payload.len() == self.full {
            self.send_record();
        }
    }

    fn seal_frame(&mut self) {
        self.payload.resize(self.payload.len() + TAG_BYTES, 0);
        let sealing = self.sealing.as_ref().expect("finish consumes the upload");
        let index = (sealing.stored + self.frame as u64) / STORED_FRAME_BYTES as u64;
        sealing.frames.seal(index, &mut self.payload[self.frame..]);
        self.frame = self.payload.len();
    }

    fn send_record(&mut self) {
        let payload = std::mem::take(&mut self.payload);
        let piece = self.sealing.as_mut().expect("finish consumes the upload").piece(payload);
        // If the intake is gone, finishing the object reports it.
        let _ = self.messages.send(Message::Piece(piece, self.ticket.take()));
    }

    /// States the SHA-256 of all content of an upload
    /// [hashed by the caller](Intake::upload_hashed_by_caller).
    ///
    /// # Panics
    /// If the upload computes it.
    pub fn state_sha256(&mut self, sha256: Digest) {
        match &mut self.sealing.as_mut().expect("finish consumes the upload").hash {
            Sha256::Stated(stated) => *stated = Some(sha256),
            Sha256::Computed(_) => panic!("this upload computes its SHA-256"),
        }
    }

    /// SHA-256 of the content so far, or the one that was stated.
    ///
    /// # Panics
    /// If it should be stated and was not.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        match &self.sealing().hash {
            Sha256::Computed(hash) => digest_of(hash.as_ref().clone().finish()),
            Sha256::Stated(digest) => digest.expect("the caller states it before it asks for it"),
        }
    }

    /// Completes the object as a version of `object`, and removes `replaced` in the same
    /// transaction. Acknowledged once all of that survives a crash.
    ///
    /// # Panics
    /// If its SHA-256 should be stated and was not.
    pub fn finish(mut self, object: NewObject, replaced: Vec<VersionRow>, acknowledge: Acknowledge) {
        assert!(!matches!(self.sealing().hash, Sha256::Stated(None)), "the caller states the SHA-256 before it finishes the upload");
        if self.payload.len() > self.frame {
            self.seal_frame();
        }
        if !self.payload.is_empty() {
            self.send_record();
        }
        let sealing = self.sealing.take().expect("finish consumes the upload");
        let draft = Box::new(sealing.draft(&self.archive, object));
        send(&self.messages, Message::Object(draft, replaced, Unhandled::new(acknowledge)));
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(sealing) = self.sealing.as_ref().filter(|sealing| sealing.stored > 0) {
            let _ = self.messages.send(Message::Piece(Piece::Abandoned(sealing.id), None));
        }
    }
}

/// Runs sessions one after another. Each has its own segments, so a failed one leaves nothing to
/// the next.
fn run(archive: &Archive, messages: &Receiver<Message>, committer_tx: &Sender<Message>, buffers: &Buffers) {
    let mut failure = IntakeError::GivenUp;
    // Segments of a failed session whose unacknowledged part could not be cut off.
    let mut uncut = None;
    // The message that a failed session had received but not handled.
    let mut next = None;
    for session in 0.. {
        // A session starts only with a message to handle, so that each message tries a full or
        // missing disk just once.
        let first = loop {
            match next.take().map_or_else(|| messages.recv(), Ok) {
                Err(_) | Ok(Message::Close) => return,
                Ok(Message::Committed(_) | Message::Failed(..)) => {}
                Ok(first) => break first,
            }
        };
        let cut = uncut.take().map_or(Ok(()), |segments: Range<u64>| {
            let cut = cut_unacknowledged(archive, segments.clone());
            uncut = cut.is_err().then_some(segments);
            cut
        });
        let writing = match cut.and_then(|()| Ok(archive.staging().begin()?)) {
            Ok(writing) => writing,
            Err(error) => {
                failure = error.into();
                refuse(first, &failure);
                continue;
            }
        };
        let reports = CommitReports { messages: committer_tx.clone(), session };
        let batcher = Batcher {
            writer: PieceWriter::new(archive, &writing, buffers),
            objects: VecDeque::new(),
            removals: Vec::new(),
            failure: failure.clone(),
        };
        next = Some(first);
        let result = batcher.run(archive, &writing, &mut next, messages, reports);
        if result.is_err() {
            // Unacknowledged objects must not reappear later under a number that another version
            // has by then.
            let segments = writing.segments();
            uncut = cut_unacknowledged(archive, segments.clone()).is_err().then_some(segments);
        }
        drop(writing);
        // Frees the space of unacknowledged objects. If it fails, the next opening does that.
        let _ = release_segments(archive);
        match result {
            Ok(()) => return,
            Err(error) => failure = error,
        }
    }
}

/// Reports commits of a session to the writer, through the queue of the clients' messages.
struct CommitReports {
    messages: Sender<Message>,
    session: u64,
}

impl CommitReports {
    fn send(&self, message: Message) {
        // If the writer is gone, so are its clients.
        let _ = self.messages.send(message);
    }
}

impl Drop for CommitReports {
    fn drop(&mut self) {
        // The writer would wait for this commit forever. Its session ends, and passes the panic on.
        if std::thread::panicking() {
            self.send(Message::Failed(self.session, IntakeError::Closed));
        }
    }
}

/// A batch, and the clients that wait for its commit.
type PendingBatch = (Batch, Vec<Acknowledge>);

/// The writer of a session: collects objects and removals in batches.
struct Batcher<'a> {
    writer: PieceWriter<'a>,
    objects: VecDeque<Acknowledge>,
    removals: Vec<Acknowledge>,
    /// Why content staged in an earlier session was discarded.
    failure: IntakeError,
}

impl Batcher<'_> {
    /// Appends messages, the first being `next`, and passes complete objects on whenever the
    /// committer is free, until the intake closes or fails. After a failure, `next` may be a
    /// message for the next session.
    fn run(
        mut self,
        archive: &Archive,
        writing: &Writing<'_>,
        next: &mut Option<Message>,
        messages: &Receiver<Message>,
        reports: CommitReports,
    ) -> Result<(), IntakeError> {
        let session = reports.session;
        std::thread::scope(|scope| {
            let (batch_tx, batch_rx) = channel();
            scope.spawn(move || commit_all(archive, writing, &batch_rx, &reports));
            let mut is_free = true;
            let end = loop {
                if is_free && self.has_waiting() && (next.is_none() || self.writer.is_full()) {
                    is_free = false;
                    if let Err(error) = self.send_batch(&batch_tx) {
                        break Err(error);
                    }
                } else if !is_free
                    && next.is_none()
                    && self.writer.has_keys_to_store()
                    && let Err(error) = self.writer.store_keys()
                {
                    break Err(error.into());
                }
                // `recv` can't fail: the committer keeps a sender.
                let message = next.take().unwrap_or_else(|| messages.recv().unwrap_or(Message::Close));
                match message {
                    Message::Close => break Ok(()),
                    Message::Committed(of) => is_free |= of == session,
                    Message::Failed(of, error) if of == session => break Err(error),
                    Message::Failed(..) => {}
                    message => {
                        if let Err(error) = self.append(message) {
                            break Err(error);
                        }
                    }
                }
                *next = messages.try_recv().ok();
            };
            // Complete objects are committed even if the next append failed: a full disk loses
            // nothing already written. After a failed commit, the committer rejects them.
            while self.has_waiting() && self.send_batch(&batch_tx).is_ok() {}
            end
        })
    }

    fn append(&mut self, message: Message) -> Result<(), IntakeError> {
        match message {
            Message::Piece(piece, ticket) => {
                self.writer.append(piece)?;
                drop(ticket);
            }
            Message::Object(draft, replaced, acknowledge) => match self.writer.complete_object(*draft, &replaced) {
                Ok(Some(_)) => self.objects.push_back(acknowledge.take()),
                Ok(None) => acknowledge.take()(Err(self.failure.clone())),
                Err(error) => {
                    let error = IntakeError::from(error);
                    acknowledge.take()(Err(error.clone()));
                    return Err(error);
                }
            },
            Message::Remove(versions, acknowledge) => {
                self.writer.remove(&versions);
                self.removals.push(acknowledge.take());
            }
            Message::Committed(_) | Message::Failed(..) | Message::Close => {}
        }
        Ok(())
    }

    fn has_waiting(&self) -> bool {
        !(self.objects.is_empty() && self.removals.is_empty())
    }

    /// Passes a batch to the committer, or reports the error to all of its clients.
    fn send_batch(&mut self, batch_tx: &Sender<PendingBatch>) -> Result<(), IntakeError> {
        let mut waiting = std::mem::take(&mut self.removals);
        match self.writer.take_batch() {
            Ok(batch) => {
                waiting.extend(self.objects.drain(..batch.change.staged.len()));
                if let Err(unsent) = batch_tx.send((batch, waiting)) {
                    unsent.0.1.into_iter().for_each(|acknowledge| acknowledge(Err(IntakeError::Closed)));
                }
                Ok(())
            }
            Err(error) => {
                let error = IntakeError::from(error);
                waiting.extend(self.objects.drain(..));
                waiting.into_iter().for_each(|acknowledge| acknowledge(Err(error.clone())));
                Err(error)
            }
        }
    }
}

/// Commits batch after batch, and reports when it is ready for the next. After a failed commit it
/// rejects all others: their content may be in segments that were not synced.
fn commit_all(archive: &Archive, writing: &Writing<'_>, batches: &Receiver<PendingBatch>, reports: &CommitReports) {
    let mut failure = None;
    for (mut batch, waiting) in batches {
        let result = match &failure {
            Some(error) => Err(IntakeError::clone(error)),
            None => batch.commit(archive, writing).map_err(IntakeError::from),
        };
        for acknowledge in waiting {
            acknowledge(result.clone());
        }
        let message = match result {
            Ok(()) => Message::Committed(reports.session),
            Err(error) => {
                failure = Some(error.clone());
                Message::Failed(reports.session, error)
            }
        };
        reports.send(message);
    }
}

#[cfg(test)]
mod tests;
