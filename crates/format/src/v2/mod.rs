//! Version 2 of the format, used only by sealed key exports: blocks with error correction around
//! the frames of version 1. These modules must never change what they read or write.

mod blocks;
mod read;
pub(crate) mod sealed_export;
mod write;

/// The version number these modules write.
pub(crate) const VERSION: u32 = 2;
