//! The digital twin: simulates robotic platter libraries, with the real controller and emulated
//! mechanics, to measure what they can do.
//!
//! A [`Scenario`](scenario::Scenario) fully describes a run. [`simulation::run`] executes it and
//! returns a [`Run`](simulation::Run) with the measurements.
//!
//! ```text
//!   scenario files ---> scenario ---> simulation ---> Run ---> tables, figures
//!                                         |  mechanics: controllers, machines, events in time order
//!                                         |  bound: what no policy can beat
//!                                         '  statistics: percentiles, time averages
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | [`scenario`] | all inputs of a run, read from TOML with the crate `settings` |
//! | [`simulation`] | runs a scenario, with the crates `mechanics` and `decode` |
//! | [`sweep`] | runs all combinations of varied settings, with several seeds each |
//! | [`compare`] | compares two scenarios, seed by seed |
//! | [`timeline`] | the course of a run over simulated time, as figures and a table |
//! | [`results`] | the figures of runs, and their comparison with what the scenario expects |
//! | [`statistics`] | percentiles, moments, time averages, confidence intervals |
//! | [`bound`] | a lower bound on completion times, for any policy |
//! | [`journal`] | records the inputs and outputs of the controllers, and replays them |
//! | [`plan`] | capacity planning: the smallest archive that keeps a service level |
//! | [`paper`] | repeats the evaluation of Project Silica |
//! | `overheads` | overheads and failure rates of the codes, for [`paper`] |
//! | [`placement_program`] | placement as integer and linear programs for a solver |
//! | `jobs` | a thread pool |

#![forbid(unsafe_code)]

pub mod bound;
pub mod compare;
mod jobs;
pub mod journal;
pub(crate) mod overheads;
pub mod paper;
pub mod placement_program;
pub mod plan;
pub mod results;
pub mod scenario;
pub mod simulation;
pub mod statistics;
pub mod sweep;
pub mod timeline;
