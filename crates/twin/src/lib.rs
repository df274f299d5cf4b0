//! The digital twin: libraries run by the real controller against emulated mechanics, to find out what they can do.
//!
//! A [`Scenario`](scenario::Scenario) is all that a run is made of; [`simulation::run`] carries it out, and gives a
//! [`Run`](simulation::Run) with what was measured.
//!
//! ```text
//!   settings   scenario files ---> scenario ---> simulation ---> Run ---> table, plot
//!                                                 |  kernel: events in order of time
//!                                                 |  bound: what no policy can beat
//!                                                 '  statistics: percentiles, averages over time
//! ```

pub mod bound;
pub mod checks;
pub mod decode;
pub mod journal;
pub mod kernel;
pub mod overheads;
pub mod paper;
pub mod placement_program;
pub mod plan;
pub mod plot;
pub mod results;
pub mod scenario;
pub mod settings;
pub mod simulation;
pub mod station;
pub mod statistics;
pub mod table;
