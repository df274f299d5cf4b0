//! Version 2 of the format, which only sealed key exports have: blocks with error correction around the frames of version 1. Nothing in
//! here may change what it reads or writes.

mod blocks;
mod read;
pub(crate) mod sealed_export;
mod write;

/// The version number these modules write.
pub(crate) const VERSION: u32 = 2;
