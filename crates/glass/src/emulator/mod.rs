//! The emulated medium: how a laser writes symbols as voxels, and what a camera sees of them.
//!
//! ```text
//! symbols --write--> WrittenLayer --image, with the layers above and below--> Frames
//!            |                         |
//!            permanent: a function     every time anew: a function of the seed, the sector
//!            of seed and sector        and how often it was read
//! ```
//!
//! Every effect has its own strength in [`Effects`]; zero switches it off, and no effect changes
//! the random values of another. Voxels are a function of symbols, effects and seed, so the file of
//! a glass platter contains these instead of voxels.

mod effects;
mod imaging;
mod samples;
mod writing;

pub use effects::{Effect, Effects, Preset, ReadEffects, WriteEffects};
pub use imaging::{Frames, Neighbors, image};
pub use samples::{Sample, sample_stack};
pub use writing::{WrittenLayer, write};

/// Identifies a sector of the emulated glass: the seed of its platter and its number on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectorSeed {
    /// Seed of the platter.
    pub platter: u64,
    /// Number of the sector on the platter.
    pub sector: u32,
}
