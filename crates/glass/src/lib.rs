//! The medium: a write drive turns a blank platter into a written one, and a read drive fetches its
//! tracks.
//!
//! The [`WriteDrive`] consumes a [`BlankPlatter`] and returns a [`WrittenPlatter`], which no
//! function accepts for writing again (I2). A [`ReadDrive`] delivers [`Track`]s: their lost sectors
//! are rebuilt by the track's own code or, failing that, by the code of the large group. Sectors
//! beyond both are reported as a value, [`Lost`], for the platter-set to repair.
//!
//! All of this is the `disk` medium, where a platter is a file; `docs/format.md` specifies its
//! bytes. The modules are parts of the `glass` medium, which `docs/medium.md` describes: [`voxel`]
//! symbols, their [`polarization`], an [`emulator`] of laser and camera, [`decoder`]s of images,
//! and [`frame_errors`], which measures how much noise the LDPC codes of sectors bear.

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
    BatchDecoders, CallersThread, DecodeService, GlassHead, GlassHeadError, GlassReader, SectorBatch, SectorContent, VoxelPlatter,
    VoxelWriter,
};
pub use write::{BlankPlatter, WriteDrive, WrittenPlatter};
