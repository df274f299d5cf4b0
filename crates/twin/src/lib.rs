//! The digital twin: runs libraries under the real controller against emulated mechanics, to
//! measure what they can do.
//!
//! A [`Scenario`](scenario::Scenario) fully describes a run. [`simulation::run`] executes it and
//! returns a [`Run`](simulation::Run) with the measurements.
//!
//! ```text
//!   settings   scenario files ---> scenario ---> simulation ---> Run ---> table, plot
//!                                                 |  kernel: events in time order
//!                                                 |  bound: what no policy can beat
//!                                                 '  statistics: percentiles, time averages
//! ```

#![forbid(unsafe_code)]

pub mod bound;
pub mod decode;
mod jobs;
pub mod journal;
pub mod kernel;
pub(crate) mod overheads;
pub mod paper;
pub mod placement_program;
pub mod plan;
pub mod plot;
pub mod results;
pub mod scenario;
pub mod settings;
pub mod simulation;
pub mod statistics;
pub mod table;
