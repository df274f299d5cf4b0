//! Journals: what went into the controllers of a region during a run, and what came out, to be run again.
//!
//! ```text
//!   simulation or service                                        replay
//!     requests, events ---+---> Region ---> commands   journal ---> Region, made from scenario and seed
//!                         |                    |          |            | commands, ends
//!                         +---> Writer <-------+          +-----> compared, line by line
//! ```
//!
//! A journal is text, one fact a line (see [`Fact`]), whole numbers throughout. A header says which program wrote it, of which scenario and
//! seed:
//!
//! ```text
//! fulgurite journal 1
//! program 0.1.0
//! seed 42
//! scenario 2                       two lines of TOML follow
//! | [library]
//! | shuttles = 2
//! begin ~6b1c40d2
//! 0 L0 woken ~51c2bd2e             an input: the controller of library 0 was told
//! > L0 D0#1 switch 1 ~0a4e9bd1     what followed
//! 1500000 R0 by never P17:40+2 ~…  an input: request 0 asked the region for a shard
//! > L0 S0#2 move 0@3006000 ~…
//! > R0 read ~…                     the request ended
//! . 2 7340033 ~…                   complete: two inputs, until then
//! ```
//!
//! Behind each line stands a check over it and all lines above it, so damage is found at the line where it is. Instead of what followed,
//! a journal may hold digests of it ([`Detail::Digests`]): a third of the length, and a difference is found within as many facts.

mod error;
mod fact;
mod header;
mod read;
mod replay;
mod seal;
mod words;
mod write;

#[cfg(test)]
mod tests;

pub use error::JournalError;
pub use fact::Fact;
pub use header::Header;
pub use read::JournalReader;
pub use replay::{Difference, ReplayError, Replayed, replay, replay_onto};
pub use write::{Detail, JournalWriter};
