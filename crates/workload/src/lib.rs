//! Workload generator: what is requested from the libraries, and when.
//!
//! [`Demand`] turns a [`Spec`] into a stream of [`Read`]s: requests for files, cut into shards,
//! each with its instant, platter and tracks. A [`Trace`] yields reads from a log instead.
//! [`Statistics`] compares either with published figures. [`Ingest`] covers writing: bytes that
//! arrive, day by day, and the platters that they fill.
//!
//! ```text
//! Interval, FullLibrary --> Spec --> Demand ---.
//!           (presets)                           +--> Read, Read, Read ... --> Statistics
//!                           CSV ---> Trace ----'
//! IngestSpec --> Ingest --> IngestDay, IngestDay ...
//! ```
//!
//! This crate opens no files and reads no clock, and the same seed gives the same reads on every
//! machine. `docs/workload.md` distinguishes published numbers from ours.

#![forbid(unsafe_code)]

mod arrivals;
mod demand;
mod error;
mod ingest;
mod popularity;
mod presets;
mod read;
mod sizes;
mod statistics;
mod trace;

pub use arrivals::Arrivals;
pub use demand::{AccountLayout, Demand, Source, Spec};
pub use error::SpecError;
pub use ingest::{Ingest, IngestDay, IngestSpec, peak_over_mean};
pub use popularity::Popularity;
pub use presets::{FullLibrary, Interval, IntervalBursts, Preset, UnknownPreset, reads_per_second_at_age};
pub use read::{Platters, Read, SHARD_BYTES};
pub use sizes::Sizes;
pub use statistics::{Published, StatisticRow, Statistics};
pub use trace::{Cell, Column, Expected, Header, Trace, TraceError, TraceRows, TraceSettings};
