//! The medium: a write drive turns a blank platter into a written one, and a read drive fetches its
//! tracks.
//!
//! The [`WriteDrive`] consumes a [`BlankPlatter`] and returns a [`WrittenPlatter`], which no
//! function accepts for writing again (I2). A [`ReadDrive`] delivers [`Track`]s: their lost sectors
//! are rebuilt by the track's own code or, failing that, by the code of the large group. Sectors
//! beyond both are reported as a value, [`Lost`], for the platter-set to repair.
//!
//! The drives see the bytes of a platter, which `docs/format.md` specifies. On the `disk` medium,
//! these bytes are the platter's file. On the `glass` medium, which `docs/medium.md` describes, the
//! file contains symbols: [`VoxelWriter`] and [`VoxelPlatter`] translate between the two. They are
//! built on [`voxel`] symbols, their [`polarization`], an [`emulator`] of laser and camera, and
//! [`decoder`]s of images. [`frame_errors`] measures how much noise the LDPC codes of sectors
//! tolerate, [`sector_errors`] what decoders lose.

#![forbid(unsafe_code)]

pub mod decoder;
pub mod emulator;
mod error_rate;
pub mod frame_errors;
mod group;
mod label;
mod medium;
pub mod polarization;
mod read;
pub mod sector_errors;
mod track;
pub mod voxel;
mod voxel_platter;
mod write;

pub use error_rate::ErrorRate;
pub use group::{GroupRepair, RebuiltSector};
pub use medium::GlassMedium;
pub use read::{Lost, PlatterSource, ReadDrive};
pub use track::Track;
pub use voxel_platter::{
    CallersThread, Correction, DecodeService, GlassHead, GlassHeadError, GlassReader, SectorBatch, SectorContent, SectorQuality,
    SectorTrouble, SectorView, VoxelPlatter, VoxelWriter,
};
pub use write::{BlankPlatter, WriteDrive, WrittenPlatter};
