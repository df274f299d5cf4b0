//! Labels and indexes of LTFS volumes.
//!
//! Source: SNIA, Linear Tape File System (LTFS) Format Specification 2.4, sections 8 (label) and 9
//! (index). Elements that don't concern contents, such as times, are ignored.

mod read;
mod write;

use fulgurite_digest::Digest;

pub use read::{read_index, read_label};
pub use write::{write_index, write_label};

/// The deepest folder that is accepted.
const DEPTH_MAX: usize = 1_000;

/// The label of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The volume's UUID, which its index repeats.
    pub uuid: String,
    /// Bytes of a block.
    pub block_bytes: u64,
}

/// What an index says of its volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexHead {
    /// The UUID of its volume.
    pub uuid: String,
    /// Number of the index: each later one has a higher number.
    pub generation: u64,
}

/// A file on a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapeFile {
    /// Its path on the volume, without a slash at the beginning.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Where its content is, in the order of the file. What no extent covers is zeros.
    pub extents: Vec<Extent>,
    /// A digest of its content that the index states.
    pub digest: Option<Digest>,
}

/// A part of a file's content on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The partition.
    pub partition: Partition,
    /// Its first block.
    pub block: u64,
    /// Where it begins in that block.
    pub offset: u64,
    /// Its length in bytes. It continues in the blocks that follow.
    pub bytes: u64,
    /// Where it belongs in the file.
    pub file_offset: u64,
}

/// A partition of a volume, by its letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Partition {
    /// The partition `a`, usually for indexes and small files.
    A,
    /// The partition `b`, usually for contents.
    B,
}

impl Partition {
    /// Its letter, as in an index.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// A label or an index can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// It isn't well-formed XML, or ends early.
    #[error("malformed: {0}")]
    Malformed(String),
    /// It isn't what it should be.
    #[error("its root is not {0}")]
    Root(&'static str),
    /// An element is missing, or its text is unusable.
    #[error("{element} of {of} is missing or invalid")]
    Element {
        /// The element.
        element: &'static str,
        /// What it belongs to.
        of: String,
    },
    /// A name can't be part of a path.
    #[error("invalid name {0:?}")]
    Name(String),
    /// Extents overlap, or don't fit the file's length.
    #[error("the extents of {0:?} overlap, or exceed its length")]
    Extents(String),
    /// Folders are too deep.
    #[error("folders are nested more than {DEPTH_MAX} deep")]
    Depth,
}

impl TapeFile {
    /// The first block of its content; the first of the volume if it has none.
    #[must_use]
    pub fn first_block(&self) -> (Partition, u64) {
        self.extents.first().map_or((Partition::A, 0), |extent| (extent.partition, extent.block))
    }

    /// Sorts the extents and checks them.
    fn checked(mut self) -> Result<Self, IndexError> {
        self.extents.sort_by_key(|extent| extent.file_offset);
        let mut end = 0_u64;
        for extent in &self.extents {
            let until = extent.file_offset.checked_add(extent.bytes);
            let Some(until) = until.filter(|until| extent.file_offset >= end && *until <= self.bytes) else {
                return Err(IndexError::Extents(self.path));
            };
            end = until;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
