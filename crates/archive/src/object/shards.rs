//! Checks a version shard by shard, in whatever order its platters come within reach.
//!
//! Each frame is opened once, so its tag is checked (I5). Nothing is kept but frames that lie on
//! two shards, until both were read: memory doesn't grow with the object (I9).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fulgurite_domain::PlatterId;
use fulgurite_format::{Frames, STORED_FRAME_BYTES};

use super::{ObjectReader, ReadError};
use crate::archive::Archive;
use crate::catalogue::{Extent, VersionRow};
use crate::ingest::RECORD_FRAMES;

const FRAME: u64 = STORED_FRAME_BYTES as u64;
/// Stored bytes that are read at once.
const PIECE_BYTES: u64 = RECORD_FRAMES as u64 * FRAME;

/// The check of a version. Each shard counts once. Threads may check different shards at the same
/// time.
pub struct ShardCheck {
    frames: Frames,
    stored_bytes: u64,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// Bytes of frames that passed.
    checked: u64,
    /// Frames of which a part is missing, each with its parts so far and the length of these.
    divided: BTreeMap<u64, (Vec<u8>, usize)>,
    shards: BTreeSet<u32>,
}

/// A part of a frame that another shard continues.
struct Part {
    frame: u64,
    frame_bytes: usize,
    within: usize,
    bytes: Vec<u8>,
}

impl ShardCheck {
    /// Begins the check of an archived version.
    ///
    /// # Errors
    /// [`ReadError`] if its key can't be used.
    pub fn begin(archive: &Archive, version: &VersionRow) -> Result<Self, ReadError> {
        let frames = ObjectReader::new(archive).frames(version.id, version.sealed)?;
        Ok(Self { frames, stored_bytes: version.stored_bytes, progress: Mutex::default() })
    }

    /// Reads and checks a shard, from its own platter alone.
    ///
    /// # Errors
    /// [`ReadError`] if the platter's own codes don't yield it. The shard then doesn't count.
    pub fn read(&self, archive: &Archive, shard: &Extent) -> Result<(), ReadError> {
        let mut reader = ObjectReader::new(archive).with_only([shard.platter]);
        let (mut from, end) = (shard.object_offset, shard.object_offset.saturating_add(shard.bytes));
        let (mut buffer, mut checked, mut parts) = (Vec::new(), 0, Vec::new());
        while from < end {
            let until = end.min((from / PIECE_BYTES + 1) * PIECE_BYTES);
            buffer.resize((until - from) as usize, 0);
            reader.read_extents(std::slice::from_ref(shard), from, &mut buffer)?;
            let mut rest = &mut buffer[..];
            while !rest.is_empty() {
                let (frame, within) = (from / FRAME, from % FRAME);
                let frame_bytes = FRAME.min(self.stored_bytes.saturating_sub(frame * FRAME));
                // The catalogue may be damaged, and place bytes behind the version's end.
                let left = frame_bytes.checked_sub(within).filter(|left| *left > 0).ok_or(ReadError::Uncovered(from))?;
                let (part, later) = rest.split_at_mut((left as usize).min(rest.len()));
                if part.len() as u64 == frame_bytes {
                    self.frames.open(frame, part)?;
                    checked += frame_bytes;
                } else {
                    parts.push(Part { frame, frame_bytes: frame_bytes as usize, within: within as usize, bytes: part.to_vec() });
                }
                from += part.len() as u64;
                rest = later;
            }
        }
        let mut progress = self.progress();
        if progress.shards.contains(&shard.shard) {
            return Ok(());
        }
        for part in parts {
            checked += self.add_part(&mut progress, &part)?;
        }
        progress.checked += checked;
        progress.shards.insert(shard.shard);
        Ok(())
    }

    /// Adds a part of a divided frame. Returns the frame's length once it passed.
    fn add_part(&self, progress: &mut Progress, part: &Part) -> Result<u64, ReadError> {
        let (bytes, filled) = progress.divided.entry(part.frame).or_insert_with(|| (vec![0; part.frame_bytes], 0));
        bytes[part.within..part.within + part.bytes.len()].copy_from_slice(&part.bytes);
        *filled += part.bytes.len();
        if *filled < part.frame_bytes {
            return Ok(0);
        }
        let (mut bytes, _) = progress.divided.remove(&part.frame).expect("it was just filled");
        self.frames.open(part.frame, &mut bytes)?;
        Ok(part.frame_bytes as u64)
    }

    /// Whether every stored byte of the version has passed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.progress().checked == self.stored_bytes
    }

    /// A poisoned lock is usable: what a panic left out is missing, so the check stays incomplete.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectReader<'_> {
    /// Reads from these platters only, as if all others were absent: for platters that robots bring
    /// one by one.
    #[must_use]
    pub fn with_only(mut self, platters: impl IntoIterator<Item = PlatterId>) -> Self {
        self.only = Some(platters.into_iter().collect());
        self
    }
}
