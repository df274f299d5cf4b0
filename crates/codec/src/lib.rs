//! Erasure codes that rebuild lost sectors, the checksum that detects lost ones, and the [LDPC
//! codes](ldpc) that correct bits inside of sectors on analog media.
//!
//! Both erasure codes are systematic and MDS: of I information and R redundancy symbols, any I
//! restore all the others.
//!
//! | code | field | for | cost |
//! | --- | --- | --- | --- |
//! | [`CauchyCode`] | GF(2^8), I + R <= 255 | a track (200 + 16), blocks of an exported key file | R products a byte to encode, e to rebuild e |
//! | [`PooledCode`] | GF(2^16), I + m <= 65,536, with m = R rounded up to a power of two | a large group (48,000 + 1,000), matching tracks of a platter-set (3,200 + 600) | about log2(m) / 2 products a symbol |
//!
//! Symbols, or *shards*, are slices of bytes of equal length, one sector each. Neither code detects
//! silent errors: the caller, who detects them with [`checksum`], names the lost symbols. Losses
//! are input, not an error; [`CodeError::TooManyLost`] only occurs when no code of that shape could
//! help.
//!
//! Products and LDPC decoding run on the machine's fastest [`Kernel`]; all kernels give the same
//! bytes. Only the kernels, the loops that they share, and the checked calls into them contain
//! `unsafe`.

mod aligned;
mod cauchy;
pub mod checksum;
mod error;
mod gf16;
mod gf8;
mod kernel;
pub mod ldpc;
mod pooled;
pub mod reference;
mod sector;

pub use aligned::AlignedBytes;
pub use cauchy::{CauchyCode, CauchyRepair};
pub use error::CodeError;
pub use kernel::Kernel;
pub use pooled::{PooledCode, PooledEncoder, PooledPlan, PooledRepairer, Rows};
pub use sector::{DecodedSector, KeyStream, SectorCode, SectorDecoder, SectorLoss};
