//! Codes between sectors: what an archive rebuilds lost sectors from, and the checksum that says which are lost.
//!
//! Two systematic MDS codes: of I information and R redundancy symbols, any I restore all the others.
//!
//! | code | field | for | cost |
//! | --- | --- | --- | --- |
//! | [`CauchyCode`] | GF(2^8), I + R <= 255 | a track (200 + 16), a column of a platter-set (16 + 3) | R products a byte to encode, e to rebuild e |
//! | [`PooledCode`] | GF(2^16), I + m <= 65,536, with m = R rounded up to a power of two | a large group (48,000 + 1,200), a platter-set (3,200 + 600) | log2(m) products a symbol |
//!
//! Symbols are shards: equal-length slices of bytes, one sector each. Neither code finds silent errors: the caller says what is lost,
//! which [`checksum`] tells it. Lost symbols are input, not an error; [`CodeError::TooManyLost`] comes only where no code of
//! that shape could help.
//!
//! Products run on the fastest [`Kernel`] of the machine; all give the same bytes. `unsafe` is in the kernels' files and
//! nowhere else.

mod aligned;
mod cauchy;
pub mod checksum;
mod error;
mod gf16;
mod gf8;
mod kernel;
mod pooled;
pub mod reference;

pub use aligned::AlignedBytes;
pub use cauchy::{CauchyCode, CauchyRepair};
pub use error::CodeError;
pub use kernel::Kernel;
pub use pooled::{PooledCode, PooledEncoder, PooledPlan, PooledRepairer, Rows};
