//! The digital twin.

pub mod decode;
pub mod kernel;
pub mod overheads;
pub mod placement_program;
pub mod settings;
mod simulation;
pub mod station;
pub use simulation::*;
