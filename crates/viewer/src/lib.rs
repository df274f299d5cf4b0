//! A library in motion: recordings of what its shuttles and drives did, and the page that plays
//! them.
//!
//! ```text
//!   journal --> replay --> facts, panel --> Recorder --> Recording --> page: one HTML file
//!   live library ----------^                   '-------> Entries, now and then --> dashboard
//! ```
//!
//! A [`Recorder`] watches a [`Region`](fulgurite_library::Region) at work and keeps what can be
//! seen: legs of shuttles, picks and places, what drives do, how many platters wait in each half of
//! a shelf, unreachable cells, and when requests began and ended. [`page()`] puts the recording
//! into a page that needs no server and loads nothing. [`web`] has the parts of that page, for
//! others.

#![forbid(unsafe_code)]

mod entries;
mod page;
mod recorder;
mod recording;
pub mod web;

pub use entries::Entries;
pub use page::page;
pub use recorder::Recorder;
pub use recording::Recording;
