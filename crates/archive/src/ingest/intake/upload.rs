//! Uploads: content that is hashed and sealed as it arrives, and sent to the writer.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use fulgurite_domain::{Digest, VersionId};
use fulgurite_format::{FRAME_BYTES, STORED_FRAME_BYTES, TAG_BYTES};

use super::{Acknowledge, Message, NewObject, Ticket, Unhandled, send};
use crate::archive::Archive;
use crate::catalogue::VersionRow;
use crate::clock::unix_ms;
use crate::ingest::{Buffers, Piece, RECORD_BYTES, Sealing, Sha256, check_record_length, digest_of};

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
    pub(super) fn new(archive: Arc<Archive>, messages: Sender<Message>, buffers: Arc<Buffers>) -> Self {
        let sealing = Some(Sealing::new(&archive));
        Self { archive, messages, buffers, sealing, payload: Vec::new(), full: RECORD_BYTES, frame: 0, ticket: None }
    }

    /// Leaves the SHA-256 to the caller.
    pub(super) fn hashed_by_caller(mut self) -> Self {
        self.sealing.as_mut().expect("finish consumes the upload").hash = Sha256::Stated(None);
        self
    }

    fn sealing(&self) -> &Sealing {
        self.sealing.as_ref().expect("finish consumes the upload")
    }

    /// The identifier of the future version.
    #[must_use]
    pub fn id(&self) -> VersionId {
        self.sealing().id
    }

    /// Dates the version now instead of at the start of the upload. Returns its creation time,
    /// milliseconds since 1970. A caller that finishes uploads of one name one after another keeps
    /// their times in that order. The identifier still starts with the start of the upload, since
    /// it is bound into the sealed content.
    pub fn date_now(&mut self) -> u64 {
        let now_ms = unix_ms();
        self.sealing.as_mut().expect("finish consumes the upload").created_ms = now_ms;
        now_ms
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
    /// [hashed by the caller](super::Intake::upload_hashed_by_caller).
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
        if let Err(error) = check_record_length(&object.name, &object.attributes) {
            return acknowledge(Err(error.into()));
        }
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
