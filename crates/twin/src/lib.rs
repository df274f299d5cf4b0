//! x
pub mod statistics;
pub mod table;
