//! The digital twin.

pub mod decode;
pub mod kernel;
pub mod overheads;
pub mod placement_program;
pub mod plot;
pub mod settings;
mod simulation;
pub mod station;
pub mod statistics;
pub mod table;
pub use simulation::*;
