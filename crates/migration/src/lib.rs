//! Migration: copying an archive from one medium to another, with one pipeline that runs it and
//! plans it.
//!
//! ```text
//!              a station
//! inventory -> input streams -> spool volumes -> output streams -> scan streams -> migrated
//!     ^  lots                                                          |
//!     '------------ files that failed, to be tried again <-------------'
//! ```
//!
//! A [`Lot`] is a number of files of one family that move together. The [`Pipeline`] decides which
//! stream handles which lot, and when. It uses no clock, storage or randomness: it is handed an
//! [`Event`] with the instant, and returns [`Command`]s.
//!
//! | module | contents |
//! | --- | --- |
//! | [`layout`] | stations, their streams and spool volumes, and the rules |
//! | [`pipeline`] | the state machine |
//! | [`journal`] | the events and commands of a run, for replay |
//! | [`figures`] | what each stream did with its time, and what it waited for |
//! | [`run`] | the pipeline with real stores |
//! | [`plan`] | the pipeline in a simulation: how long a migration takes, and what limits it |
//! | [`starvation`] | which stage sets the pace, and what the others wait for |
//! | [`timeline`] | what moved when, from a journal |
//! | [`quantities`] | sizes, rates and times in words |
#![forbid(unsafe_code)]

mod event;
pub mod figures;
mod hourly_limits;
pub mod journal;
pub mod layout;
mod lot;
pub mod pipeline;
pub mod plan;
pub mod quantities;
pub mod run;
pub mod starvation;
pub mod timeline;

pub use event::{Command, Event};
pub use layout::{Layout, Rules, Spool, Station};
pub use lot::{FamilyId, Lot, LotId, SourceVolume};
pub use pipeline::Pipeline;
