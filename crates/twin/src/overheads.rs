//! Overheads.
