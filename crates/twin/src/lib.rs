//! The digital twin.

pub mod kernel;
pub mod overheads;
pub mod placement_program;
mod simulation;
pub use simulation::*;
