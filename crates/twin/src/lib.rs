//! x
pub mod plot;
pub mod statistics;
pub mod table;
