//! Platters of glass, emulated: files of symbols, read as a camera would see their voxels.
//!
//! The archive sees the bytes of a platter as on a disk: headers, tracks, labels. Between them and
//! the file are the code of sectors and the optics.
//!
//! ```text
//! write   sector: payload, label --SectorCode--> symbols --packed--> file            VoxelWriter
//! read    file -> symbols --laser--> voxels --camera--> frames --VoxelDecoder--> probabilities
//!         --LDPC--> sector, or a lost one                                            VoxelPlatter
//! ```
//!
//! ```text
//! file    head | header | tracks, sector by sector | header | tracks | header | head
//! ```
//!
//! The head describes the emulated glass: what real glass would need no record of. Each sector is a
//! layer of voxels, and a track is a stack of them, so the camera also sees the sectors before and
//! after in the same track. A sector that can't be decoded reads as zeros: its label is wrong then,
//! and the codes between sectors treat it as lost. `docs/format.md` specifies the file.

mod batch;
mod head;
mod header_coding;
mod layout;
mod packing;
mod quality;
mod reader;
mod reading;
mod writing;

pub use batch::{CallersThread, DecodeService, SectorBatch, SectorContent};
pub use head::{GlassHead, GlassHeadError};
pub use quality::{Correction, SectorQuality, SectorTrouble, SectorView};
pub use reader::GlassReader;
pub use reading::VoxelPlatter;
pub use writing::VoxelWriter;
