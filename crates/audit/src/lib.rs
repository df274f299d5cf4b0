//! Fixity audit: every copy of every file is read and compared with its digest, wherever it is, and
//! a provider that gets slow is named.
#![forbid(unsafe_code)]

pub mod expectation;
pub mod place;
pub mod service_level;
pub mod slowdown;
mod thinned;
