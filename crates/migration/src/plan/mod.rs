//! Plans: the pipeline driven by a simulation instead of stores.
//!
//! ```text
//!  Scenario --> files, rates, gaps --> Simulation <--events, commands--> Pipeline
//!                                          |
//!                                      Outcome: figures, the end, what limits it
//! ```
//!
//! A stream alternates between gaps, in which nothing moves, the time that files take besides their
//! bytes, and transfers. Transfers that share a link, such as a station's network, divide it
//! fairly: none is slowed below its share, and what one can't use goes to the others.

mod outcome;
mod parts;
mod range;
mod scenario;
mod search;
mod sharing;
mod simulation;
#[cfg(test)]
mod tests;

pub use outcome::Outcome;
pub use parts::Parts;
pub use range::{Range, range};
pub use scenario::{Costs, Files, Part, Reach, Scenario, Speed, StationPlan, reference};
pub use search::{Candidate, Found, search};
pub use simulation::simulate;
