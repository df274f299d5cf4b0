//! The digital twin.

pub mod kernel;
mod simulation;
pub use simulation::*;
