//! x

pub mod overheads;
pub mod placement_program;
