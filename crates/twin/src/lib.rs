//! x
pub mod statistics;
