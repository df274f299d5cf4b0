//! Sessions: the writer collects complete objects in batches, and the committer commits them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::{Acknowledge, IntakeError, Message, refuse};
use crate::archive::Archive;
use crate::ingest::Buffers;
use crate::ingest::batch::Batch;
use crate::ingest::writer::PieceWriter;
use crate::segments::{cut_unacknowledged, release_segments};
use crate::staging::Writing;

/// Runs sessions one after another. Each has its own segments, so a failed one leaves nothing to
/// the next.
pub(super) fn run(archive: &Archive, messages: &Receiver<Message>, committer_tx: &Sender<Message>, buffers: &Buffers) {
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
