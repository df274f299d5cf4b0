//! The intake of a server: many streams at once, each acknowledged on its own.
//!
//! ```text
//! Upload -- sealed records --.      keys       .--> committer: sync, catalogue --> acknowledgements
//! Upload -- sealed records ---+--> writer -----'        |
//! remove -- versions --------'       ^------ free ------'
//! ```
//!
//! One commit is under way at a time. Meanwhile the writer stores the keys of objects that are complete, so that they go with the next commit
//! at once. A lonely client waits for its own commit only, and a thousand share one.
//!
//! A commit that fails is told to everybody in it, and nothing of it stays: the intake gives up what is under way, and begins anew with the next
//! piece. An upload that had sent some of its content before is told that it failed, since its staged bytes are gone.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use aws_lc_rs::digest;
use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{Attributes, Digest, Kind, Modified, ObjectName, ObjectRecord, VersionId};
use fulgurite_format::{FRAME_BYTES, Frames, ObjectKey, STORED_FRAME_BYTES, TAG_BYTES};

use super::writer::{Batch, PieceWriter};
use super::{Buffers, Draft, Piece, RECORD_BYTES};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::VersionRow;
use crate::chance::random;
use crate::clock::now_ms;
use crate::staging::Writing;

/// Why something wasn't put or removed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IntakeError {
    /// Staging, keys or catalogue failed.
    #[error("{0}")]
    Archive(Arc<ArchiveError>),
    /// A failure of something else took the content that was staged already.
    #[error("what was sent before was given up when a commit failed; put it again")]
    GivenUp,
    /// The intake was closed.
    #[error("the archive is being closed")]
    Closed,
}

/// Told once what came of it, on the intake's own thread: it should only pass that on.
pub type Acknowledge = Box<dyn FnOnce(Result<(), IntakeError>) + Send>;

/// Held with each record until it is written, and dropped then: the caller's bound on memory (I9).
pub type Ticket = Box<dyn Send>;

/// What is known of an object when all of its content is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObject {
    /// Its name.
    pub name: ObjectName,
    /// File, link, directory.
    pub kind: Kind,
    /// When it was last changed, where known.
    pub modified: Option<Modified>,
    /// Permission bits, where known.
    pub mode: Option<u32>,
    /// What the client says of it.
    pub attributes: Attributes,
}

enum Message {
    Piece(Piece, Option<Ticket>),
    /// Puts the object, and removes versions in the same transaction.
    Object(Box<Draft>, Vec<VersionRow>, Acknowledge),
    Remove(Vec<VersionRow>, Acknowledge),
    /// The committer of this session waits for a batch.
    Free(u64),
    /// The committer of this session failed.
    Failed(u64, IntakeError),
    Close,
}

/// Takes objects in for as long as it is there. While it is, nobody else can put.
pub struct Intake {
    archive: Arc<Archive>,
    messages: Sender<Message>,
    buffers: Arc<Buffers>,
    writer: Option<JoinHandle<()>>,
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intake").finish_non_exhaustive()
    }
}

impl Intake {
    /// Begins to take in.
    ///
    /// # Errors
    /// [`ArchiveError`] if the system gives no thread.
    pub fn open(archive: Arc<Archive>) -> Result<Self, ArchiveError> {
        let (messages, received) = channel();
        let buffers = Arc::new(Buffers::default());
        let (theirs, own, used) = (archive.clone(), messages.clone(), buffers.clone());
        let builder = std::thread::Builder::new().name("intake".into());
        let writer = builder.spawn(move || run(&theirs, &received, &own, &used)).map_err(ArchiveError::io(archive.home()))?;
        Ok(Self { archive, messages, buffers, writer: Some(writer) })
    }

    /// Begins an object.
    #[must_use]
    pub fn upload(&self) -> Upload {
        let created_ms = now_ms();
        let id = VersionId::new(created_ms, random());
        let key = self.archive.encrypts().then(|| ObjectKey::new(random()));
        Upload {
            archive: self.archive.clone(),
            messages: self.messages.clone(),
            buffers: self.buffers.clone(),
            id,
            created_ms,
            frames: Some(Frames::new(id, key.as_ref())),
            key,
            hash: digest::Context::new(&digest::SHA256),
            payload: Vec::new(),
            full: RECORD_BYTES,
            frame: 0,
            ticket: None,
            size: 0,
            stored: 0,
        }
    }

    /// Whether it still takes in: a panic ends its thread.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| !writer.is_finished())
    }

    /// Removes versions, for ever. They are forgotten when this is acknowledged; their keys are destroyed by the next [`Archive::sweep`].
    pub fn remove(&self, versions: Vec<VersionRow>, acknowledge: Acknowledge) {
        send(&self.messages, Message::Remove(versions, acknowledge));
    }

    /// Commits what is complete and ends. Uploads that go on are told that it is closed.
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

/// Sends, or tells that there is nobody any more.
fn send(messages: &Sender<Message>, message: Message) {
    if let Err(unsent) = messages.send(message) {
        refuse(unsent.0, &IntakeError::Closed);
    }
}

fn refuse(message: Message, error: &IntakeError) {
    if let Message::Object(_, _, acknowledge) | Message::Remove(_, acknowledge) = message {
        acknowledge(Err(error.clone()));
    }
}

/// An object on its way in. Its content is hashed and sealed as it comes; dropped, it leaves nothing behind.
pub struct Upload {
    archive: Arc<Archive>,
    messages: Sender<Message>,
    buffers: Arc<Buffers>,
    id: VersionId,
    created_ms: u64,
    key: Option<ObjectKey>,
    /// None once the object is handed over.
    frames: Option<Frames>,
    hash: digest::Context,
    /// Sealed frames, and one that is being filled.
    payload: Vec<u8>,
    /// Bytes that the record has when it is full.
    full: usize,
    /// Where the frame that is being filled begins.
    frame: usize,
    ticket: Option<Ticket>,
    size: u64,
    /// Stored bytes that were sent.
    stored: u64,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("id", &self.id).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Upload {
    /// The identifier that the version will have.
    #[must_use]
    pub fn id(&self) -> VersionId {
        self.id
    }

    /// When it was begun, milliseconds since 1970; the version will say so.
    #[must_use]
    pub fn created_ms(&self) -> u64 {
        self.created_ms
    }

    /// Bytes of content so far.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of content that can be written before a new record, and another ticket, is needed.
    #[must_use]
    pub fn room(&self) -> usize {
        let left = self.full - self.payload.len();
        if self.ticket.is_none() { 0 } else { left - left.div_ceil(STORED_FRAME_BYTES) * TAG_BYTES }
    }

    /// Begins a record, of `expected` bytes of content as far as is known; it takes up to 1 MiB. The ticket is dropped when it is written.
    ///
    /// # Panics
    /// If there is room in the record before.
    pub fn begin_record(&mut self, expected: usize, ticket: Ticket) {
        assert_eq!(self.room(), 0, "a record is begun when the one before is full");
        let stored = expected + expected.div_ceil(FRAME_BYTES) * TAG_BYTES;
        // A shard is cut at multiples of a full record, and only between records. After a record of one frame, the next one ends where a
        // full one would have ended.
        let full = RECORD_BYTES - (self.stored % RECORD_BYTES as u64) as usize;
        self.begin(stored.min(full), full, ticket);
    }

    /// Begins a record of one frame, for where there is little memory: it takes 64 KiB of content, and is else as a longer one.
    ///
    /// # Panics
    /// If there is room in the record before.
    pub fn begin_frame(&mut self, expected: usize, ticket: Ticket) {
        assert_eq!(self.room(), 0, "a record is begun when the one before is full");
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
    /// If it is more than there is [`room`](Self::room) for.
    pub fn write(&mut self, mut bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "{} bytes where there is room for {}", bytes.len(), self.room());
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
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

    /// Seals the frame that was being filled.
    fn seal_frame(&mut self) {
        self.payload.resize(self.payload.len() + TAG_BYTES, 0);
        let index = (self.stored + self.frame as u64) / STORED_FRAME_BYTES as u64;
        let frames = self.frames.as_ref().expect("an object that is handed over gets no content");
        frames.seal(index, &mut self.payload[self.frame..]);
        self.frame = self.payload.len();
    }

    fn send_record(&mut self) {
        let payload = std::mem::take(&mut self.payload);
        let (bytes, crc64) = (payload.len() as u64, crc64(&payload));
        let piece = Piece::Data { id: self.id, stored_offset: self.stored, sealed: self.key.is_some(), payload, crc64 };
        self.stored += bytes;
        // Where nobody takes it, the end of the object tells.
        let _ = self.messages.send(Message::Piece(piece, self.ticket.take()));
    }

    /// SHA-256 of the content so far.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        digest_of(self.hash.clone())
    }

    /// Ends the object: a version of `object`, and in the same transaction `replaced` are removed. Acknowledged when all of that survives a crash.
    pub fn finish(mut self, object: NewObject, replaced: Vec<VersionRow>, acknowledge: Acknowledge) {
        if self.payload.len() > self.frame {
            self.seal_frame();
        }
        if !self.payload.is_empty() {
            self.send_record();
        }
        let frames = self.frames.take().expect("an object is handed over once");
        let sha256 = digest_of(std::mem::replace(&mut self.hash, digest::Context::new(&digest::SHA256)));
        let NewObject { name, kind, modified, mode, attributes } = object;
        let record =
            ObjectRecord { name, version: 0, kind, size: self.size, sha256, modified, mode, created_ms: self.created_ms, attributes };
        let wrapped = self.key.as_ref().map(|key| self.archive.master_key().wrap(key));
        let draft = Box::new(Draft { id: self.id, frames, wrapped, record, stored_bytes: self.stored });
        send(&self.messages, Message::Object(draft, replaced, acknowledge));
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.frames.is_some() && self.stored > 0 {
            let _ = self.messages.send(Message::Piece(Piece::Abandoned(self.id), None));
        }
    }
}

fn digest_of(hash: digest::Context) -> Digest {
    let mut digest = Digest([0; 32]);
    digest.0.copy_from_slice(hash.finish().as_ref());
    digest
}

/// How a session ended.
enum End {
    Closed,
    Failed(IntakeError),
}

/// Sessions, one after another: each has segments of its own, and one that fails leaves nothing to the next.
fn run(archive: &Archive, messages: &Receiver<Message>, own: &Sender<Message>, buffers: &Buffers) {
    let mut failure = IntakeError::GivenUp;
    // Segments of a session that failed, and from which what was not acknowledged could not be cut off.
    let mut uncut = None;
    for session in 0.. {
        // A session begins with something to do, so that a disk that is full or gone is tried once for each.
        let first = loop {
            match messages.recv() {
                Err(_) | Ok(Message::Close) => return drain(messages),
                Ok(Message::Free(_) | Message::Failed(..)) => {}
                Ok(first) => break first,
            }
        };
        let cut = uncut.take().map_or(Ok(()), |segments: Range<u64>| {
            let cut = archive.cut_unacknowledged(segments.clone());
            uncut = cut.is_err().then_some(segments);
            cut
        });
        let writing = match cut.and_then(|()| Ok(archive.staging().begin()?)) {
            Ok(writing) => writing,
            Err(error) => {
                failure = IntakeError::Archive(Arc::new(error));
                refuse(first, &failure);
                continue;
            }
        };
        let own = Own { messages: own.clone(), session };
        let gathering = Gathering {
            writer: PieceWriter::new(archive, &writing, buffers),
            objects: VecDeque::new(),
            removals: Vec::new(),
            failure: failure.clone(),
        };
        let end = gathering.take_in(archive, &writing, first, messages, own);
        match end {
            End::Closed => {
                drop(writing);
                // What was begun and not acknowledged takes room; the next opening removes it too.
                let _ = archive.release_segments();
                return drain(messages);
            }
            End::Failed(error) => {
                // What was not acknowledged must not come back one day under a number that another version has by then.
                let segments = writing.segments();
                uncut = archive.cut_unacknowledged(segments.clone()).is_err().then_some(segments);
                drop(writing);
                let _ = archive.release_segments();
                failure = error;
            }
        }
    }
}

/// Tells whoever came too late.
fn drain(messages: &Receiver<Message>) {
    while let Ok(message) = messages.try_recv() {
        refuse(message, &IntakeError::Closed);
    }
}

/// What the committer of a session tells the writer.
struct Own {
    messages: Sender<Message>,
    session: u64,
}

/// A batch, and who waits for it.
type Waited = (Batch, Vec<Acknowledge>);

/// What a session has gathered for its next commit.
struct Gathering<'a> {
    writer: PieceWriter<'a>,
    /// Clients of complete objects, in their order.
    objects: VecDeque<Acknowledge>,
    /// Clients of removals.
    removals: Vec<Acknowledge>,
    /// Why content that was staged in an earlier session isn't there any more.
    failure: IntakeError,
}

impl Gathering<'_> {
    /// Appends what comes, and hands on what is complete whenever the committer is free.
    fn take_in(mut self, archive: &Archive, writing: &Writing<'_>, first: Message, messages: &Receiver<Message>, own: Own) -> End {
        let session = own.session;
        std::thread::scope(|scope| {
            let (batches, taken) = channel();
            scope.spawn(move || commit_all(archive, writing, &taken, &own));
            let mut is_free = true;
            let mut next = Some(first);
            let end = loop {
                if is_free && self.has_waiting() && (next.is_none() || self.writer.is_full()) {
                    is_free = false;
                    if let Err(error) = self.hand_on(&batches) {
                        break End::Failed(error);
                    }
                } else if !is_free
                    && next.is_none()
                    && self.writer.wants_keys()
                    && let Err(error) = self.writer.store_keys()
                {
                    break End::Failed(IntakeError::Archive(Arc::new(error)));
                }
                // There is always a sender: the committer's.
                let message = next.take().unwrap_or_else(|| messages.recv().unwrap_or(Message::Close));
                match message {
                    Message::Close => break End::Closed,
                    Message::Free(of) => is_free |= of == session,
                    Message::Failed(of, error) if of == session => break End::Failed(error),
                    Message::Failed(..) => {}
                    message => {
                        if let Err(error) = self.append(message) {
                            break End::Failed(error);
                        }
                    }
                }
                next = messages.try_recv().ok();
            };
            // What is complete is acknowledged even where the next append failed: a full disk takes nothing back. After a commit that failed, the
            // committer refuses it.
            while self.has_waiting() && self.hand_on(&batches).is_ok() {}
            end
        })
    }

    fn append(&mut self, message: Message) -> Result<(), IntakeError> {
        let told = |error| IntakeError::Archive(Arc::new(error));
        match message {
            Message::Piece(piece, ticket) => {
                self.writer.append(piece).map_err(told)?;
                drop(ticket);
            }
            Message::Object(draft, replaced, acknowledge) => match self.writer.object(*draft, &replaced) {
                Ok(true) => self.objects.push_back(acknowledge),
                Ok(false) => acknowledge(Err(self.failure.clone())),
                Err(error) => {
                    let error = told(error);
                    acknowledge(Err(error.clone()));
                    return Err(error);
                }
            },
            Message::Remove(versions, acknowledge) => {
                self.writer.remove(&versions);
                self.removals.push(acknowledge);
            }
            Message::Free(_) | Message::Failed(..) | Message::Close => {}
        }
        Ok(())
    }

    fn has_waiting(&self) -> bool {
        !(self.objects.is_empty() && self.removals.is_empty())
    }

    /// Hands a batch to the committer, or tells all clients that it failed.
    fn hand_on(&mut self, batches: &Sender<Waited>) -> Result<(), IntakeError> {
        let mut waiting = std::mem::take(&mut self.removals);
        match self.writer.take_batch() {
            Ok(batch) => {
                waiting.extend(self.objects.drain(..batch.change.staged.len()));
                if let Err(unsent) = batches.send((batch, waiting)) {
                    unsent.0.1.into_iter().for_each(|acknowledge| acknowledge(Err(IntakeError::Closed)));
                }
                Ok(())
            }
            Err(error) => {
                let error = IntakeError::Archive(Arc::new(error));
                waiting.extend(self.objects.drain(..));
                waiting.into_iter().for_each(|acknowledge| acknowledge(Err(error.clone())));
                Err(error)
            }
        }
    }
}

/// Commits batch after batch, and says when it could do with the next. After one that failed, the others are refused: what they hold may have been
/// staged in segments that were not synced.
fn commit_all(archive: &Archive, writing: &Writing<'_>, batches: &Receiver<Waited>, own: &Own) {
    let mut failure = None;
    for (mut batch, waiting) in batches {
        let result = match &failure {
            Some(error) => Err(IntakeError::clone(error)),
            None => archive.commit_batch(&mut batch, writing).map_err(|error| IntakeError::Archive(Arc::new(error))),
        };
        for acknowledge in waiting {
            acknowledge(result.clone());
        }
        let message = match result {
            Ok(()) => Message::Free(own.session),
            Err(error) => {
                failure = Some(error.clone());
                Message::Failed(own.session, error)
            }
        };
        let _ = own.messages.send(message);
    }
}
