//! Checks a version shard by shard, in whatever order its platters come within reach.
//!
//! Each frame is opened once, so its tag is checked (I5). Nothing is kept but frames that lie on
//! two shards, until both were read: memory doesn't grow with the object (I9).

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_domain::PlatterId;
use fulgurite_format::{Frames, STORED_FRAME_BYTES};

use super::{ObjectReader, ReadError};
use crate::archive::Archive;
use crate::catalogue::{Extent, VersionRow};
use crate::ingest::RECORD_FRAMES;

const FRAME: u64 = STORED_FRAME_BYTES as u64;
/// Stored bytes that are read at once.
const PIECE_BYTES: u64 = RECORD_FRAMES as u64 * FRAME;

/// The progress of a check. Each shard counts once.
pub struct ShardCheck {
    frames: Frames,
    stored_bytes: u64,
    /// Bytes of frames that passed.
    checked: u64,
    /// Frames of which a part is missing, each with its parts so far and the length of these.
    divided: BTreeMap<u64, (Vec<u8>, usize)>,
    shards: BTreeSet<u32>,
}

impl ShardCheck {
    /// Begins the check of an archived version.
    ///
    /// # Errors
    /// [`ReadError`] if its key can't be used.
    pub fn begin(archive: &Archive, version: &VersionRow) -> Result<Self, ReadError> {
        let frames = ObjectReader::new(archive).frames(version.id, version.sealed)?;
        Ok(Self { frames, stored_bytes: version.stored_bytes, checked: 0, divided: BTreeMap::new(), shards: BTreeSet::new() })
    }

    /// Reads and checks a shard, from its own platter alone.
    ///
    /// # Errors
    /// [`ReadError`] if the platter's own codes don't yield it. The shard then doesn't count.
    pub fn read(&mut self, archive: &Archive, shard: &Extent) -> Result<(), ReadError> {
        if self.shards.contains(&shard.shard) {
            return Ok(());
        }
        let mut reader = ObjectReader::new(archive).with_only([shard.platter]);
        let (mut from, end) = (shard.object_offset, shard.object_offset + shard.bytes);
        let (mut buffer, mut checked, mut parts) = (Vec::new(), 0, Vec::new());
        while from < end {
            let until = end.min((from / PIECE_BYTES + 1) * PIECE_BYTES);
            buffer.resize((until - from) as usize, 0);
            reader.read_extents(std::slice::from_ref(shard), from, &mut buffer)?;
            let mut rest = &mut buffer[..];
            while !rest.is_empty() {
                let (frame, within) = (from / FRAME, from % FRAME);
                let frame_bytes = FRAME.min(self.stored_bytes.saturating_sub(frame * FRAME));
                let (part, later) = rest.split_at_mut(((frame_bytes - within) as usize).min(rest.len()));
                if part.len() as u64 == frame_bytes {
                    self.frames.open(frame, part)?;
                    checked += frame_bytes;
                } else {
                    parts.push((frame, frame_bytes, within as usize, part.to_vec()));
                }
                from += part.len() as u64;
                rest = later;
            }
        }
        for (frame, frame_bytes, within, part) in parts {
            checked += self.add_part(frame, frame_bytes as usize, within, &part)?;
        }
        self.checked += checked;
        self.shards.insert(shard.shard);
        Ok(())
    }

    /// Adds a part of a divided frame. Returns the frame's length once it passed.
    fn add_part(&mut self, frame: u64, frame_bytes: usize, within: usize, part: &[u8]) -> Result<u64, ReadError> {
        let (bytes, filled) = self.divided.entry(frame).or_insert_with(|| (vec![0; frame_bytes], 0));
        bytes[within..within + part.len()].copy_from_slice(part);
        *filled += part.len();
        if *filled < frame_bytes {
            return Ok(0);
        }
        let (mut bytes, _) = self.divided.remove(&frame).expect("it was just filled");
        self.frames.open(frame, &mut bytes)?;
        Ok(frame_bytes as u64)
    }

    /// Whether every stored byte of the version has passed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.checked == self.stored_bytes
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
