//! The digital twin.

pub mod kernel;
pub mod overheads;
pub mod placement_program;
pub mod settings;
mod simulation;
pub use simulation::*;
pub mod journal;
