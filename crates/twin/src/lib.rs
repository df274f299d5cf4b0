//! x

pub mod kernel;
pub mod station;
