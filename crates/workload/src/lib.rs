//! Demand: what is asked of the libraries, and when.
//!
//! A [`Spec`] is turned by [`Demand`] into a stream of [`Read`]s: requests for files, cut into shards, each with its instant, platter and
//! tracks. A [`Trace`] yields the same from a log of one's own. [`Statistics`] shows how either compares with what is published.
//! [`Ingest`] is the other direction: bytes that come in, day by day, and the platters they fill.
//!
//! ```text
//! Interval, FullLibrary --> Spec --> Demand ---.
//!           (presets)                           +--> Read, Read, Read ... --> Statistics
//!                           CSV ---> Trace ----'
//! IngestSpec --> Ingest --> IngestDay, IngestDay ...
//! ```
//!
//! Nothing here opens a file or looks at a clock, and the same seed gives the same reads on every machine. `docs/workload.md` says which
//! numbers are published and which are ours.

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
