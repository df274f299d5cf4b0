//! A library that runs live, in real time or faster by a factor.
//!
//! ```text
//!             requests, platters, faults, bytes
//!                           v
//!   Runner (a thread, a clock) --> LiveLibrary (no clock) --> controllers and machines
//!      |                               |
//!      |-> Outside: reads to carry out, ends of requests, the stock to keep
//!      |-> journal
//!      |-> motions and pictures, for pages
//!      '-> View --> forecast: when requests will end
//! ```
//!
//! [`Plan`] is what doesn't change while a library runs, and a
//! [`Stock`](fulgurite_journal::Stock) says where everything is in it. Both together are the
//! beginning of a run: [`LiveLibrary::start`] takes up the work from them, its journal begins with
//! them, and [`forecast`] runs ahead from them. The machines are emulated; drives read nothing
//! until the caller has the bytes ([`LiveLibrary::bytes_read`]).

#![forbid(unsafe_code)]

mod forecast;
mod journal_file;
mod library;
mod plan;
mod replay;
mod runner;
mod view;

pub use forecast::forecast;
pub use journal_file::{JournalEnd, JournalSettings};
pub use library::{Ended, LiveLibrary, Outside, Read, Verify, WrongMachine};
pub use plan::{DescriptionError, Plan, StockMismatch};
pub use replay::{LiveReplayError, replay, replay_watched};
pub use runner::{Events, Motions, Picture, Runner, RunnerSettings};
pub use view::{DriveView, RequestView, ShuttleView, View, Waiting};
