//! x

pub mod decode;
pub mod kernel;
pub mod station;
