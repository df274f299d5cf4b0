//! Journals: the inputs and outputs of a region's controllers during a run, for replay.
//!
//! ```text
//!   simulation or service                                        replay
//!     requests, events ---+---> Region ---> commands   journal ---> Region, from scenario and seed
//!                         |                    |          |            | commands, ends
//!                         +---> Writer <-------+          +-----> compared, line by line
//! ```
//!
//! A journal is text with one fact per line (see [`Fact`]) and whole numbers only. The header names
//! the program version, the detail of the outputs and the seed, and describes the region: by a
//! scenario, or by a [`Stock`] and settings for a live library:
//!
//! ```text
//! fulgurite journal 1
//! program 0.1.0
//! detail commands
//! seed 42
//! scenario 2                       two lines of TOML follow
//! | [library]
//! | shuttles = 2
//! begin ~6b1c40d2
//! 0 L0 woken ~51c2bd2e             an input: an event for the controller of library 0
//! > L0 D0#1 switch 1 ~0a4e9bd1     an output: a command
//! 1500000 R0 by never P17:40+2 ~…  an input: request 0 to the region, for a shard
//! > L0 S0#2 move 0@3006000 ~…
//! > R0 read ~…                     an output: the request ended
//! . 2 7340033 ~…                   the end: two inputs, and the last instant
//! ```
//!
//! From `begin` on, each line ends with a check over it and all lines before it, so damage is found
//! at the line where it is, or at `begin` if it is in the header. A journal may contain digests of
//! the outputs instead of the outputs ([`Detail::Digests`]): it is half as long, and a difference
//! is located to within one digest's number of facts.

#![forbid(unsafe_code)]

mod digest;
mod error;
mod fact;
mod header;
mod read;
mod replay;
mod stock;
mod words;
mod write;

#[cfg(test)]
mod tests;

pub use error::{JournalError, LineContent};
pub use fact::Fact;
pub use header::{Header, Subject};
pub use read::JournalReader;
pub use replay::{Difference, ReplayError, Replayed, Watcher, replay, replay_seen};
pub use stock::{Stock, StockError};
pub use write::{Detail, JournalWriter};
