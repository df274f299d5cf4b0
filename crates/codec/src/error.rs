//! Errors of the codes.

use thiserror::Error;

/// Why a code can't be created, or lost symbols can't be repaired.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum CodeError {
    /// More symbols are lost than the remaining redundancy can rebuild.
    #[error(
        "{lost} information symbols are lost, but only {available} redundancy symbols are available: \
         fetch more redundancy, or go to the next code level"
    )]
    TooManyLost { lost: usize, available: usize },
    /// The field has too few elements for a code of this size.
    #[error("a code of {information}+{redundancy} symbols doesn't fit its field: the limit is {limit}")]
    TooLong {
        information: usize,
        redundancy: usize,
        /// Symbols that fit the field, in the code's own counting.
        limit: usize,
    },
    /// A code without information symbols, or a pooled code without redundancy.
    #[error("a code of {information}+{redundancy} symbols lacks information or redundancy")]
    Empty { information: usize, redundancy: usize },
    /// The length of a pooled code's shard is 0, or isn't a multiple of 64 bytes.
    #[error("a shard of {shard_bytes} bytes isn't a positive multiple of {block_bytes} bytes: pad it")]
    ShardLength { shard_bytes: usize, block_bytes: usize },
    /// A lost, available or wanted position is outside the code or repeated, or a wanted one isn't
    /// lost.
    #[error("position {position} is outside the code's {positions}, is repeated, or is wanted but not lost")]
    Position { position: usize, positions: usize },
    /// An LDPC code with too few or too many parity columns.
    #[error("an LDPC code has 5 to 20 parity columns, not {parity_columns}")]
    ParityColumns { parity_columns: usize },
    /// A sector too small for a codeword.
    #[error("a sector of {symbols} symbols of {bits_per_symbol} bits can't hold a codeword of {codeword_bits} bits")]
    SectorTooSmall { symbols: usize, bits_per_symbol: usize, codeword_bits: usize },
    /// Symbols without bits, or with more than a byte holds.
    #[error("symbols have 1 to 8 bits, not {bits_per_symbol}")]
    BitsPerSymbol { bits_per_symbol: usize },
}
