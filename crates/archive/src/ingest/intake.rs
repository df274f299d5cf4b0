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

mod session;
mod upload;

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use fulgurite_domain::{Attributes, Kind, Modified, ObjectName};

use super::{Buffers, Draft, Piece, RecordTooLong};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::VersionRow;

pub use upload::Upload;

/// Why an object was not put, or versions were not removed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IntakeError {
    /// Staging, keys or catalogue failed.
    #[error("{0}")]
    Archive(Arc<ArchiveError>),
    /// A failed commit discarded content of this upload that was already staged.
    #[error("a failed commit discarded the content sent so far; put the object again")]
    GivenUp,
    /// The object's record would be too long.
    #[error(transparent)]
    Record(#[from] RecordTooLong),
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
            .spawn(move || session::run(&thread_archive, &messages_rx, &committer_tx, &thread_buffers))
            .map_err(ArchiveError::io(archive.home()))?;
        Ok(Self { archive, messages, buffers, writer: Some(writer) })
    }

    /// Starts an upload.
    #[must_use]
    pub fn upload(&self) -> Upload {
        Upload::new(self.archive.clone(), self.messages.clone(), self.buffers.clone())
    }

    /// Starts an upload of content whose SHA-256 the caller [states](Upload::state_sha256), because
    /// it hashes the content itself. The archive doesn't compute it again.
    /// [`ObjectReader::read`](crate::object::ObjectReader::read) compares it and fails if it
    /// differs; reads of ranges, and S3's GET, don't.
    #[must_use]
    pub fn upload_hashed_by_caller(&self) -> Upload {
        self.upload().hashed_by_caller()
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

#[cfg(test)]
mod tests;
