//! Staging segments: they hold the bytes of objects until the objects' platters have been verified.
//!
//! ```text
//! segment head | record head | payload | zeros to a multiple of 64 | record head | ...
//! 64 bytes       64 bytes
//! ```
//!
//! A record's head contains its own position, and its checksum covers the segment number. So
//! leftover bytes of another file, or a segment stored inside an object, are never taken for a
//! record.

use std::io;

use fulgurite_domain::{ArchiveId, VersionId};

use crate::v1::frame::STORED_FRAME_BYTES;
use crate::v1::{VERSION, u32_at, u64_at};
use fulgurite_codec::checksum::{Crc64, crc64};

/// Bytes of a segment's head, and of each record's.
pub const HEAD_BYTES: usize = 64;

const SEGMENT_MAGIC: &[u8; 8] = b"FULGSEGM";
pub(crate) const RECORD_MAGIC: &[u8; 4] = b"FREC";
const SEALED_FLAG: u32 = 1;

/// The head of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHead {
    /// The archive it belongs to.
    pub archive: ArchiveId,
    /// Its number, which is also in the file name.
    pub number: u64,
}

/// Why a segment can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The file is too short for a segment, or it doesn't start like one and contains nothing after
    /// its head.
    #[error("this is not a Fulgurite staging segment: move the file out of the staging folder")]
    NotASegment,
    /// Written by a later version of the format.
    #[error("the segment has format version {0}, this program reads up to {VERSION}: use a newer program")]
    Newer(u32),
    /// The head has changed since it was written. ([`scan_segment`](crate::scan_segment) returns
    /// this only if nothing follows the head.)
    #[error("the head of the segment is damaged (its checksum is wrong), and nothing follows it")]
    Checksum,
    /// A segment of another archive.
    #[error("the segment belongs to archive {found}, not to {expected}: move it to the staging folder of its archive")]
    OtherArchive {
        /// The archive it belongs to.
        found: ArchiveId,
        /// The archive that reads it.
        expected: ArchiveId,
    },
    /// A segment under the wrong file name.
    #[error("the segment is number {found}, but its file name says {expected}: rename the file")]
    OtherNumber {
        /// The number in its head.
        found: u64,
        /// The number in its name.
        expected: u64,
    },
    /// The file could not be read.
    #[error("the segment could not be read at byte {at}")]
    Read {
        /// Offset of the failed read.
        at: u64,
        /// The system's error.
        source: io::Error,
    },
}

impl SegmentHead {
    /// Encodes the head.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.archive.0);
        bytes[32..40].copy_from_slice(&self.number.to_le_bytes());
        let crc = crc64(&bytes[..56]);
        bytes[56..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the head.
    ///
    /// # Errors
    /// [`SegmentError::NotASegment`], [`SegmentError::Newer`] or [`SegmentError::Checksum`].
    pub fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Result<Self, SegmentError> {
        if !bytes.starts_with(SEGMENT_MAGIC) {
            return Err(SegmentError::NotASegment);
        }
        let version = u32_at(bytes, 8);
        if version > VERSION {
            return Err(SegmentError::Newer(version));
        }
        if version != VERSION || crc64(&bytes[..56]) != u64_at(bytes, 56) {
            return Err(SegmentError::Checksum);
        }
        let archive = ArchiveId(bytes[16..32].try_into().expect("a slice of sixteen bytes"));
        Ok(Self { archive, number: u64_at(bytes, 32) })
    }
}

/// Type of a segment record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Whole frames of an object.
    Data,
    /// An object's record, which completes the object.
    Object,
    /// The version was deleted.
    Tombstone,
}

/// The head before a record's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHead {
    /// Type of the payload.
    pub kind: RecordKind,
    /// The version it belongs to.
    pub version: VersionId,
    /// Data: offset of the payload in the object's stored bytes. Object: their total length.
    /// Tombstone: 0.
    pub offset: u64,
    /// Length of the payload, without padding.
    pub payload_bytes: u32,
    /// Whether the payload is encrypted.
    pub sealed: bool,
    /// Checksum of the payload.
    pub crc64: u64,
    /// Position of this head in the segment.
    pub position: u64,
}

impl RecordHead {
    /// Encodes the head.
    #[must_use]
    pub fn to_bytes(&self, segment_number: u64) -> [u8; HEAD_BYTES] {
        let kind: u32 = match self.kind {
            RecordKind::Data => 1,
            RecordKind::Object => 2,
            RecordKind::Tombstone => 3,
        };
        let flags = if self.sealed { SEALED_FLAG } else { 0 };
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(RECORD_MAGIC);
        bytes[4..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.version.0);
        bytes[24..32].copy_from_slice(&self.offset.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[36..40].copy_from_slice(&flags.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.crc64.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.position.to_le_bytes());
        let crc = head_crc(segment_number, &bytes);
        bytes[56..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the head at `position` of a segment. Returns `None` for anything else: zeros, a torn
    /// head, a head of another position or segment.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; HEAD_BYTES], segment_number: u64, position: u64) -> Option<Self> {
        if !bytes.starts_with(RECORD_MAGIC) || head_crc(segment_number, bytes) != u64_at(bytes, 56) || u64_at(bytes, 48) != position {
            return None;
        }
        let kind = match u32_at(bytes, 4) {
            1 => RecordKind::Data,
            2 => RecordKind::Object,
            3 => RecordKind::Tombstone,
            _ => return None,
        };
        let (offset, flags) = (u64_at(bytes, 24), u32_at(bytes, 36));
        let misplaced = kind == RecordKind::Data && !offset.is_multiple_of(STORED_FRAME_BYTES as u64);
        if misplaced || flags & !SEALED_FLAG != 0 {
            return None;
        }
        Some(Self {
            kind,
            version: VersionId(bytes[8..24].try_into().expect("a slice of sixteen bytes")),
            offset,
            payload_bytes: u32_at(bytes, 32),
            sealed: flags & SEALED_FLAG != 0,
            crc64: u64_at(bytes, 40),
            position,
        })
    }

    /// Position of the payload in the segment.
    #[must_use]
    pub fn payload_position(&self) -> u64 {
        self.position + HEAD_BYTES as u64
    }

    /// Length of the whole record in the segment: head, payload, padding.
    #[must_use]
    pub fn padded_bytes(&self) -> u64 {
        Self::padded_bytes_for(self.payload_bytes)
    }

    /// Length of a record in the segment, given its payload's length.
    #[must_use]
    pub fn padded_bytes_for(payload_bytes: u32) -> u64 {
        HEAD_BYTES as u64 + u64::from(payload_bytes).next_multiple_of(HEAD_BYTES as u64)
    }
}

fn head_crc(segment_number: u64, bytes: &[u8; HEAD_BYTES]) -> u64 {
    let mut crc = Crc64::new();
    crc.update(&segment_number.to_le_bytes());
    crc.update(&bytes[..56]);
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::parse_hex;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        parse_hex(hex.as_bytes(), &mut bytes).unwrap();
        bytes
    }

    /// Computed in Python with a bitwise CRC, from the specification alone.
    #[test]
    fn heads_are_laid_out_as_specified() {
        let segment = SegmentHead { archive: ArchiveId([10; 16]), number: 7 };
        let hex = "46554c475345474d01000000000000000a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a\
            070000000000000000000000000000000000000000000000da6fbd79592032ad";
        assert_eq!(segment.to_bytes(), bytes(hex));
        let record = RecordHead {
            kind: RecordKind::Object,
            version: VersionId(std::array::from_fn(|i| i as u8)),
            offset: 3 * 65_552,
            payload_bytes: 200,
            sealed: true,
            crc64: 0x1122_3344_5566_7788,
            position: 128,
        };
        let hex = "4652454302000000000102030405060708090a0b0c0d0e0f3000030000000000\
            c80000000100000088776655443322118000000000000000115f227e54e0e536";
        assert_eq!(record.to_bytes(7), bytes(hex));
        assert_eq!((record.payload_position(), record.padded_bytes()), (192, 64 + 256));
    }

    #[test]
    fn foreign_newer_and_damaged_segments_are_told_apart() {
        let good = SegmentHead { archive: ArchiveId([10; 16]), number: 7 }.to_bytes();
        let change = |at: usize, to: u8| {
            let mut bytes = good;
            bytes[at] = to;
            SegmentHead::from_bytes(&bytes)
        };
        assert!(matches!(change(0, 0), Err(SegmentError::NotASegment)));
        assert!(matches!(change(8, 2), Err(SegmentError::Newer(2))));
        for at in [8, 12, 16, 32, 40, 56] {
            assert!(matches!(change(at, 0x77 * u8::from(at != 8)), Err(SegmentError::Checksum)), "byte {at}");
        }
    }

    #[test]
    fn a_payload_is_padded_to_the_next_head() {
        for (payload, padded) in [(0, 64), (1, 128), (64, 128), (65, 192), (u32::MAX, 64 + (1 << 32))] {
            assert_eq!(RecordHead::padded_bytes_for(payload), padded);
        }
    }

    proptest! {
        #[test]
        fn every_head_reads_back_only_at_its_own_position(
            kind in 0usize..3, version: [u8; 16], offset: u64, payload_bytes: u32, sealed: bool, crc64: u64, position: u64, number: u64,
            at in 0..HEAD_BYTES, change in 1u8..,
        ) {
            let kind = [RecordKind::Data, RecordKind::Object, RecordKind::Tombstone][kind];
            let offset = if kind == RecordKind::Data { offset / 65_552 * 65_552 } else { offset };
            let head = RecordHead { kind, version: VersionId(version), offset, payload_bytes, sealed, crc64, position };
            let mut bytes = head.to_bytes(number);
            prop_assert_eq!(RecordHead::from_bytes(&bytes, number, position), Some(head));
            prop_assert_eq!(RecordHead::from_bytes(&bytes, number, position ^ 64), None);
            prop_assert_eq!(RecordHead::from_bytes(&bytes, number ^ 1, position), None);
            bytes[at] ^= change;
            prop_assert_eq!(RecordHead::from_bytes(&bytes, number, position), None);
        }
    }
}
