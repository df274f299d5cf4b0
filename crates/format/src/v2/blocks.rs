//! Blocks: they divide a sealed key export so that a damaged file can be repaired.
//!
//! ```text
//! file       [ section 0: up to 10,240 information blocks, then redundancy ][ section 1 ] ...
//! section    i i i i i i i i i i i ... i r r r ... r        block b is in group b mod g
//! block      [ head: scrypt parameters, and the block's place | 960 bytes | CRC-64 ]
//! ```
//!
//! Each block contains its own number, and the salt and cost of the passphrase. So no block is more
//! important than another, and a block is recognised anywhere in the file. The groups of a section
//! are interleaved: a burst takes about the same number of blocks from each.

use fulgurite_codec::checksum::crc64;

use super::VERSION;
use crate::v1::u32_at;

pub(crate) const MAGIC: &[u8; 8] = b"FULGKEYS";
pub(crate) const BLOCK_BYTES: usize = 1_024;
/// Bytes of the sealed export in an information block, or of redundancy in a redundancy block.
pub(crate) const PAYLOAD_BYTES: usize = 960;
const PAYLOAD_AT: usize = 56;
const CRC_AT: usize = BLOCK_BYTES - 8;
/// Magic, version, scrypt's cost and salt: the first bytes of every block, identical in all of
/// them, in the layout of version 1's head.
pub(crate) const HEAD_BYTES: usize = 37;
/// Most information blocks of a group.
const GROUP_INFORMATION_MAX: u32 = 160;
/// Most information blocks of a section.
pub(crate) const SECTION_INFORMATION_MAX: u32 = 64 * GROUP_INFORMATION_MAX;

/// Redundancy blocks of a group with `k` information blocks: 35 % of them, and 8 in addition, so
/// that a short export also survives the loss of 8 KiB.
fn group_redundancy(k: u32) -> u32 {
    8 + (7 * k).div_ceil(20)
}

/// Number of blocks in a section, and how they form groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Information blocks of the section, `n`.
    pub(crate) information: u32,
    /// Groups, `g`.
    pub(crate) groups: u32,
    /// Information blocks of a group, `k`; the last groups may have one fewer.
    pub(crate) group_information: u32,
    /// Redundancy blocks of a group, `r`.
    pub(crate) group_redundancy: u32,
}

impl Shape {
    /// The shape of a section of 1 to [`SECTION_INFORMATION_MAX`] information blocks.
    pub(crate) fn new(information: u32) -> Self {
        let groups = information.div_ceil(GROUP_INFORMATION_MAX);
        let group_information = information.div_ceil(groups);
        Self { information, groups, group_information, group_redundancy: group_redundancy(group_information) }
    }

    /// Blocks of the section.
    pub(crate) fn blocks(self) -> u32 {
        self.information + self.groups * self.group_redundancy
    }

    /// The group of a block, and its position in the group's code. A group with one information
    /// block fewer has a block of zeros at its last information position.
    #[cfg(test)]
    pub(crate) fn position(self, block: u32) -> (u32, usize) {
        let group = block % self.groups;
        match block.checked_sub(self.information) {
            None => (group, (block / self.groups) as usize),
            Some(redundancy) => (group, (self.group_information + redundancy / self.groups) as usize),
        }
    }

    /// The block at a position of a group's code; `None` for the zeros that no block stores.
    pub(crate) fn block(self, group: u32, position: u32) -> Option<u32> {
        match position.checked_sub(self.group_information) {
            None => Some(position * self.groups + group).filter(|&block| block < self.information),
            Some(redundancy) => {
                // Redundancy continues the round-robin over the groups where the information ends.
                let first = (group + self.groups - self.information % self.groups) % self.groups;
                Some(self.information + redundancy * self.groups + first)
            }
        }
    }
}

/// A block, as stored in a file.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a>(&'a [u8; BLOCK_BYTES]);

impl<'a> Block<'a> {
    /// Accepts a block whose magic, version, checksum and numbers are right.
    pub(crate) fn parse(bytes: &'a [u8; BLOCK_BYTES]) -> Option<Self> {
        let block = Self(bytes);
        let sound = bytes.starts_with(MAGIC)
            && u32_at(bytes, 8) == VERSION
            && crc64(&bytes[..CRC_AT]).to_le_bytes() == bytes[CRC_AT..]
            && (1..=SECTION_INFORMATION_MAX).contains(&block.place().information)
            && block.place().number < Shape::new(block.place().information).blocks()
            && block.place().bytes.div_ceil(PAYLOAD_BYTES as u32) == block.place().information;
        sound.then_some(block)
    }

    pub(crate) fn head(self) -> [u8; HEAD_BYTES] {
        self.0[..HEAD_BYTES].try_into().expect("as many bytes")
    }

    pub(crate) fn place(self) -> BlockPlace {
        BlockPlace { section: u32_at(self.0, 40), number: u32_at(self.0, 44), information: u32_at(self.0, 48), bytes: u32_at(self.0, 52) }
    }

    pub(crate) fn payload(self) -> &'a [u8] {
        &self.0[PAYLOAD_AT..CRC_AT]
    }
}

/// Identifies a block of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    /// Index of the section.
    pub(crate) section: u32,
    /// Index in the section.
    pub(crate) number: u32,
    /// Information blocks of the section.
    pub(crate) information: u32,
    /// Bytes of the sealed export in the section.
    pub(crate) bytes: u32,
}

/// Encodes a block.
pub(crate) fn block(head: &[u8; HEAD_BYTES], place: BlockPlace, payload: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    bytes[..HEAD_BYTES].copy_from_slice(head);
    for (at, number) in [(40, place.section), (44, place.number), (48, place.information), (52, place.bytes)] {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    bytes[PAYLOAD_AT..PAYLOAD_AT + payload.len()].copy_from_slice(payload);
    let crc = crc64(&bytes[..CRC_AT]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_exactly_one_position() {
        for information in [1, 2, 5, 159, 160, 161, 320, 321, 1_000, 10_239, 10_240] {
            let shape = Shape::new(information);
            assert!(shape.group_information <= 160 && shape.group_information + shape.group_redundancy <= 224, "{shape:?}");
            let mut seen = vec![false; shape.blocks() as usize];
            for group in 0..shape.groups {
                for position in 0..shape.group_information + shape.group_redundancy {
                    let Some(block) = shape.block(group, position) else { continue };
                    assert!(!std::mem::replace(&mut seen[block as usize], true), "{shape:?} block {block}");
                    assert_eq!(shape.position(block), (group, position as usize), "{shape:?} block {block}");
                }
            }
            assert!(seen.iter().all(|&seen| seen), "{shape:?}");
        }
        // The sizes that docs/format.md gives.
        assert_eq!(Shape::new(10_240).blocks(), 14_336);
        assert_eq!(Shape::new(1), Shape { information: 1, groups: 1, group_information: 1, group_redundancy: 9 });
    }
}
