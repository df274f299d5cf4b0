//! LDPC codes: the error correction inside a sector.
//!
//! A decoder of images doesn't know the bits, only how likely each is. An [`LdpcCode`] adds parity
//! bits, so that every codeword satisfies parity checks. An [`LdpcDecoder`] uses the checks to
//! correct the likelihoods until they agree on a codeword, or gives up.
//!
//! ```text
//! information --LdpcCode--> codeword --> medium --> log-likelihood ratios --LdpcDecoder--> codeword?
//! ```
//!
//! The codes are quasi-cyclic: [`BaseMatrix`] explains how they are written. The decoder takes any
//! such matrix, so standard codes can be compared.
//!
//! A word that satisfies all checks can still differ from the one that was written. Only a checksum
//! of the content reveals that: the [`SectorCode`](crate::SectorCode) has one.

mod base_matrix;
mod code;
mod cycles;
mod decode;
mod decoder;
mod dvb_s2;
mod family;
mod lanes;
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod neon;
mod portable;
pub mod reference;
#[cfg(test)]
mod tests;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

pub use base_matrix::{BaseMatrix, Circulant};
pub use code::LdpcCode;
pub use decoder::{Decoded, LdpcDecoder};
pub use dvb_s2::DvbS2;
