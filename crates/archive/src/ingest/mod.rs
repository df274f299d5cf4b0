//! Ingest: turns incoming bytes into staged, acknowledged versions.
//!
//! ```text
//! files   sources -> workers: read, hash, seal --.     writer:               committer:
//!                                                 >--> append data;      --> sync,
//! intake  streams of many clients: hash, seal ---'     keys, then records    catalogue
//! ```
//!
//! All stages run concurrently, with bounded memory between them. Many objects share one commit:
//! first their keys are stored, then their records are appended and the segment is synced, then the
//! catalogue's transaction acknowledges them (I7). The order matters. An unused key is harmless.
//! But a row without key or bytes would be wrong, and a record without a key, found after a crash,
//! could not be told from one whose key was lost.
//!
//! A put of files commits after a large amount of data, and reports its result at the end. An
//! intake is for servers: it commits as soon as the previous commit has ended, with everything that
//! arrived meanwhile, and answers each client separately.

mod batch;
mod files;
mod intake;
mod known;
mod room;
mod stable_file;
mod worker;
mod writer;

use std::sync::Mutex;

use aws_lc_rs::digest;
use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{Attributes, Digest, ObjectName, ObjectRecord, VersionId};
use fulgurite_format::{Frames, ObjectKey, RECORD_BYTES_MAX, STORED_FRAME_BYTES, WrappedKey, record_bytes_at_most};

use crate::archive::Archive;
use crate::clock::unix_ms;
use crate::entropy::random;

pub use files::{ContentCheck, PutOutcome, PutReport, Source};
pub(crate) use files::{FlushHooks, put_flushing};
pub use intake::{Acknowledge, Intake, IntakeError, NewObject, Ticket, Upload};
pub use known::Skip;

/// Frames in one data record. A shard can be cut only between data records, and each costs a
/// catalogue row. 16 frames are 1 MiB.
pub(crate) const RECORD_FRAMES: usize = 16;
/// Stored bytes of a full data record.
pub(crate) const RECORD_BYTES: usize = RECORD_FRAMES * STORED_FRAME_BYTES;

pub(crate) fn digest_of(digest: digest::Digest) -> Digest {
    Digest(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

/// The record of a version would be longer than the format allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name has {name_bytes} bytes and the attributes {attribute_bytes}: that is too much for the record of an object, which has at most \
     {RECORD_BYTES_MAX}"
)]
pub struct RecordTooLong {
    /// Bytes of the object's name.
    pub name_bytes: usize,
    /// Bytes of its attributes' names and values.
    pub attribute_bytes: usize,
}

/// Fails if a version with this name and these attributes can't be stored. Without this, it would
/// be staged, and could never be written to platters.
///
/// # Errors
/// [`RecordTooLong`] says how long they are.
pub fn check_record_length(name: &ObjectName, attributes: &Attributes) -> Result<(), RecordTooLong> {
    if record_bytes_at_most(name, attributes) <= RECORD_BYTES_MAX {
        return Ok(());
    }
    Err(RecordTooLong { name_bytes: name.0.len(), attribute_bytes: attributes.bytes() })
}

/// An object that was read completely, on its way to the writer.
struct Draft {
    id: VersionId,
    frames: Frames,
    /// Its key, encrypted with the master key; `None` if the archive doesn't encrypt.
    wrapped: Option<WrappedKey>,
    /// Complete except for the version number.
    record: ObjectRecord,
    /// Bytes of its content in staging, sealed if the archive encrypts.
    stored_bytes: u64,
}

/// The SHA-256 of content that arrives.
enum Sha256 {
    Computed(Box<digest::Context>),
    /// The caller states it, at the latest when all content has arrived.
    Stated(Option<Digest>),
}

impl Sha256 {
    fn new() -> Self {
        Self::Computed(Box::new(digest::Context::new(&digest::SHA256)))
    }

    fn update(&mut self, bytes: &[u8]) {
        if let Self::Computed(hash) = self {
            hash.update(bytes);
        }
    }

    fn finish(self) -> Digest {
        match self {
            Self::Computed(hash) => digest_of(hash.finish()),
            Self::Stated(digest) => digest.expect("the caller states it before it finishes the upload"),
        }
    }
}

/// A new version whose content is hashed and sealed as it arrives.
struct Sealing {
    id: VersionId,
    created_ms: u64,
    key: Option<ObjectKey>,
    frames: Frames,
    hash: Sha256,
    /// Content bytes so far.
    size: u64,
    /// Stored bytes in pieces so far.
    stored: u64,
}

impl Sealing {
    fn new(archive: &Archive) -> Self {
        let created_ms = unix_ms();
        let id = VersionId::new(created_ms, random());
        let key = archive.settings().archive.encrypt.then(|| ObjectKey::new(random()));
        let frames = Frames::new(id, key.as_ref());
        Self { id, created_ms, key, frames, hash: Sha256::new(), size: 0, stored: 0 }
    }

    /// The next piece, from sealed frames.
    fn piece(&mut self, payload: Vec<u8>) -> Piece {
        let (stored_offset, crc64) = (self.stored, crc64(&payload));
        self.stored += payload.len() as u64;
        Piece::Data { id: self.id, stored_offset, sealed: self.key.is_some(), payload, crc64 }
    }

    /// The object, once all of its content is in pieces.
    fn draft(self, archive: &Archive, object: NewObject) -> Draft {
        let Self { id, created_ms, key, frames, hash, size, stored } = self;
        let NewObject { name, kind, modified, mode, attributes } = object;
        let sha256 = hash.finish();
        let record = ObjectRecord { name, version: 0, kind, size, sha256, modified, mode, created_ms, attributes };
        let wrapped = key.map(|key| archive.master_key().wrap(&key));
        Draft { id, frames, wrapped, record, stored_bytes: stored }
    }
}

/// Content on its way to the writer. The pieces of an object come in order.
enum Piece {
    Data {
        id: VersionId,
        stored_offset: u64,
        sealed: bool,
        payload: Vec<u8>,
        crc64: u64,
    },
    /// The object of these pieces was given up.
    Abandoned(VersionId),
}

/// Reusable buffers of full data records. Fresh memory would cost a page fault for every page.
#[derive(Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// A used buffer, if one is left and a full data record is wanted.
    fn used(&self, bytes: usize) -> Option<Vec<u8>> {
        if bytes < RECORD_BYTES { None } else { self.0.lock().expect("nothing panics while it holds this lock").pop() }
    }

    /// A buffer of this length, with arbitrary content.
    fn take(&self, bytes: usize) -> Vec<u8> {
        let Some(mut buffer) = self.used(bytes) else { return vec![0; bytes] };
        buffer.resize(bytes, 0);
        buffer
    }

    /// An empty buffer with at least this capacity.
    fn take_empty(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.used(bytes).unwrap_or_else(|| Vec::with_capacity(bytes));
        buffer.clear();
        buffer
    }

    fn give_back(&self, buffer: Vec<u8>) {
        if buffer.capacity() == RECORD_BYTES {
            self.0.lock().expect("nothing panics while it holds this lock").push(buffer);
        }
    }
}
