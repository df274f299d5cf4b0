//! Putting: bytes become staged, acknowledged versions.
//!
//! ```text
//! files   sources -> workers: read, hash, seal --.
//!                                                 >-- writer: append data; keys, then records -> committer: sync, catalogue
//! intake  streams of many clients: hash, seal ---'
//! ```
//!
//! All stages run at once, with bounded memory between them. Many objects share one commit: their keys are stored, then their records are
//! appended and the segment is synced, then the catalogue's transaction makes them acknowledged (I7). In that order, because a key
//! that nothing uses is harmless. A row without key or bytes would be a lie, and a record without a key, found after a crash,
//! could not be told from one whose key is lost.
//!
//! A put of files commits when much has come, and says what it did in the end. An intake is for servers: it commits when the commit before has
//! ended, with whatever came meanwhile, and tells each client apart.

mod committer;
mod files;
mod intake;
mod known;
mod room;
mod steady;
mod worker;
mod writer;

use std::sync::Mutex;

use fulgurite_domain::{ObjectRecord, VersionId};
use fulgurite_format::{Frames, STORED_FRAME_BYTES, WrappedKey};

pub(crate) use files::Flushing;
pub use files::{PutOutcome, PutReport, Source};
pub use intake::{Acknowledge, Intake, IntakeError, NewObject, Ticket, Upload};
pub use known::Skip;

/// Frames of one data record. A shard can only be cut between data records, and each costs a catalogue row; 16 frames are 1 MiB.
pub(crate) const RECORD_FRAMES: usize = 16;
/// Stored bytes of a full data record.
pub(crate) const RECORD_BYTES: usize = RECORD_FRAMES * STORED_FRAME_BYTES;

/// An object whose bytes are all read, on its way to the writer.
struct Draft {
    id: VersionId,
    frames: Frames,
    wrapped: Option<WrappedKey>,
    /// Complete but for the version number.
    record: ObjectRecord,
    stored_bytes: u64,
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
    /// The object that these pieces began is given up.
    Abandoned(VersionId),
}

/// Buffers of full records that were written, to be filled again: fresh memory costs a fault for every page.
#[derive(Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// A buffer of so many bytes, with anything in it.
    fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes < RECORD_BYTES {
            return vec![0; bytes];
        }
        let used = self.0.lock().expect("no panic holds this lock").pop();
        used.map_or_else(
            || vec![0; bytes],
            |mut buffer| {
                buffer.resize(bytes, 0);
                buffer
            },
        )
    }

    /// An empty buffer with room for so many bytes.
    fn take_empty(&self, bytes: usize) -> Vec<u8> {
        let used = (bytes >= RECORD_BYTES).then(|| self.0.lock().expect("no panic holds this lock").pop()).flatten();
        used.map_or_else(
            || Vec::with_capacity(bytes),
            |mut buffer| {
                buffer.clear();
                buffer
            },
        )
    }

    fn give_back(&self, buffer: Vec<u8>) {
        if buffer.capacity() == RECORD_BYTES {
            self.0.lock().expect("no panic holds this lock").push(buffer);
        }
    }
}
