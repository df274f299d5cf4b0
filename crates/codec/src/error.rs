use thiserror::Error;

/// Why a code can't be made, or why a set of symbols can't be repaired.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CodeError {
    /// More symbols are lost than there is redundancy left to rebuild them from.
    #[error(
        "{lost} information symbols are lost and only {available} redundancy symbols are there to rebuild them: \
         fetch more redundancy, or go to the next code level"
    )]
    TooManyLost {
        /// Information symbols lost.
        lost: usize,
        /// Redundancy symbols available.
        available: usize,
    },

    /// The field has too few elements for a code of this shape.
    #[error("a code of {information}+{redundancy} symbols doesn't fit its field, which has room for {limit}")]
    TooLong {
        /// Information symbols asked for.
        information: usize,
        /// Redundancy symbols asked for.
        redundancy: usize,
        /// Symbols that the field has room for, counted as the code counts them.
        limit: usize,
    },

    /// A code without information symbols, or a pooled code without redundancy, codes nothing.
    #[error("a code of {information}+{redundancy} symbols is empty")]
    Empty {
        /// Information symbols asked for.
        information: usize,
        /// Redundancy symbols asked for.
        redundancy: usize,
    },

    /// A shard of a pooled code isn't a whole number of 64-byte blocks.
    #[error("a shard of {shard_bytes} bytes isn't a whole number of {block_bytes}-byte blocks: pad it")]
    ShardLength {
        /// Bytes of the shard.
        shard_bytes: usize,
        /// Bytes a block has.
        block_bytes: usize,
    },

    /// A position named as lost or available lies outside the code, or was named twice.
    #[error("position {position} is outside the code's {positions}, or was named twice")]
    Position {
        /// The position named.
        position: usize,
        /// Positions there are.
        positions: usize,
    },
}
