//! Capacity planning: the number of libraries, drives and shuttles that keep a service level over
//! the years, found by simulation.
//!
//! ```text
//!   plans/*.toml --> Plan --> Year: stored, written, read      (arithmetic)
//!                               |
//!                               v
//!            bounds and guess --> Size --> trial: simulation, several seeds --> is the level kept?
//!               (arithmetic)       ^                                             |
//!                                  '------- bisection, smallest that keeps it ---'
//!                               |
//!                               v
//!     staging, decode workers, energy, failures, fill date --> Outcome --> tables, figures, text
//! ```
//!
//! A year is planned for its end, when most is stored and read. Arithmetic alone gives the slots, a
//! lower bound on the drives (everything written must be read back), and a first guess that also
//! counts the requests. Only the simulation decides whether a size keeps the level. Machines are
//! never removed: a library never has fewer than in the year before.
//!
//! The plan rests on one assumption: sets are spread evenly over the libraries of a year. All
//! libraries are then alike, and two of them with their share of the load represent any number;
//! after the loss of a library, up to eight represent the remaining ones. (A trace names its
//! platters, so all libraries are simulated for it.) [`Outcome::assumptions`] lists the other
//! assumptions.

mod decoding;
mod error;
mod failures;
mod load;
mod read;
mod report;
mod search;
mod staging;
mod trial;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use error::PlanError;
pub use load::Year;
pub use read::reference;
pub use search::{Limit, plan};
pub use trial::{Case, Trial};

use fulgurite_domain::Micros;

use crate::scenario::{Scenario, WorkloadKind};

/// Input of a plan.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "fields without a comment are named for what they hold")]
pub struct Plan {
    /// Name of the results: the file's name without its ending.
    pub name: String,
    pub title: String,
    /// Number of planned years, at least 1.
    pub horizon: u32,
    /// The library, except for the planned racks, drives and shuttles. Also how long a run is
    /// measured.
    pub template: Scenario,
    pub ingest: IngestPlan,
    pub reads: Reads,
    pub service: ServiceLevel,
    pub margin: Margin,
    /// Limits of a library, and of the number of libraries.
    pub limits: Limits,
    pub failures: Failures,
    /// Bytes of content that a decode worker decodes per second.
    pub decode_bytes_s: f64,
    /// Power apart from motion.
    pub power_draw: PowerDraw,
    /// The first seed.
    pub seed: u64,
    /// Number of seeds; the level must be kept in each.
    pub seeds: u32,
}

/// Ingest of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IngestPlan {
    /// Bytes of content a month in the first year.
    pub bytes_per_month: u64,
    /// Growth from each year to the next, as a share.
    pub growth: f64,
    /// Bytes stored at the beginning.
    pub stored_bytes: u64,
    /// Standard deviation of the logarithm of a day's bytes.
    pub sigma: f64,
    /// Correlation of the logarithm of a day's bytes with that of the day before.
    pub persistence: f64,
    /// Capacity of the write drives, relative to the mean.
    pub headroom: f64,
}

/// Reads of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Reads {
    /// The preset whose sizes and bursts apply, or a trace.
    pub kind: WorkloadKind,
    /// The trace, if any. Every year replays it unchanged.
    pub trace: Option<PathBuf>,
    /// Requests per second at the end of the first year, for all libraries. `None` means one byte
    /// read per 47 written (SOSP '23, section 2).
    pub per_second: Option<f64>,
    /// Relative growth of reads each time the stored data grows by what was stored at the end of
    /// the first year (`first`): the rate is `per_second * (1 + growth * (stored / first - 1))`.
    pub growth: f64,
}

/// The service level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceLevel {
    /// Share of the reads that must be in time.
    pub share: f64,
    /// Time limit for the last byte, decoded.
    pub within: Micros,
    /// Part of the limit that is reserved for the decode service.
    pub for_decoding: Micros,
}

impl ServiceLevel {
    /// The time left for the libraries.
    #[must_use]
    pub fn in_library(&self) -> Micros {
        self.within.since(self.for_decoding)
    }
}

/// Required margins, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// Share of the libraries' time limit ([`ServiceLevel::in_library`]) that must be left over.
    pub service: f64,
    /// Verification capacity beyond what is written, as a share of that.
    pub verification: f64,
    /// Share of their time that shuttles must be idle, and that drives must not spend on reads,
    /// including mounting and seeking (they verify then).
    pub idle: f64,
    /// Share of the usable slots that stays empty.
    pub slots: f64,
}

/// Configured bounds of a library, and of the number of libraries. ([`Limit`] says why a size can't
/// be smaller.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most libraries.
    pub libraries: u16,
    /// Storage racks of each; `None` for the fewest that hold a set.
    pub racks: Option<u8>,
    /// Fewest and most drives.
    pub drives: [u16; 2],
    /// Fewest and most shuttles.
    pub shuttles: [u16; 2],
}

/// Failure rates and times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Failures {
    /// Mean hours of motion after which a shuttle stops.
    pub shuttle_hours: f64,
    /// Mean hours after which a drive goes down.
    pub drive_hours: f64,
    /// Mean seconds until a failure is detected.
    pub detection_s: f64,
    /// Mean seconds from then until it is repaired.
    pub repair_s: f64,
    /// The failures with which the level must be kept.
    pub planned_for: Case,
}

/// Power apart from motion, in watts. The defaults are guesses: compare plans with each other, not
/// with a power bill.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerDraw {
    /// A drive that reads or verifies.
    pub drive_busy_w: f64,
    /// An idle drive.
    pub drive_idle_w: f64,
    /// A busy decode worker.
    pub worker_w: f64,
}

/// The number of libraries and machines. All libraries are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "fields without a comment are named for what they hold")]
pub struct Size {
    pub libraries: u16,
    pub drives: u16,
    pub shuttles: u16,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = |count| if count == 1 { "" } else { "s" };
        let (libraries, drives, shuttles) = (self.libraries, self.drives, self.shuttles);
        let libraries_text = if libraries == 1 { "1 library".to_owned() } else { format!("{libraries} libraries") };
        write!(f, "{libraries_text} of {drives} drive{} and {shuttles} shuttle{}", plural(drives), plural(shuttles))
    }
}

/// Result of a plan.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// Storage racks of each library.
    pub racks: u8,
    /// The years, up to the last that could be planned.
    pub years: Vec<YearPlan>,
    /// Why the remaining years could not be planned.
    pub unmet: Option<Unmet>,
    /// The effect of failures on the last year.
    pub failures: Vec<FailureEffect>,
}

impl Outcome {
    /// Whether the service level is met in all years, and at least one read showed that in each.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.unmet.is_none() && self.is_checked()
    }

    /// Whether reads counted in the simulations of all years and failures.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        let failures = self.failures.iter().filter_map(|effect| effect.trial.as_ref());
        self.years.iter().map(|year| &year.trial).chain(failures).all(Trial::has_reads)
    }
}

/// One year.
#[derive(Debug, Clone)]
pub struct YearPlan {
    /// The load.
    pub year: Year,
    /// The required size.
    pub size: Size,
    /// Why there can't be fewer libraries, drives and shuttles, in this order.
    pub bound_by: [Limit; 3],
    /// The simulation of this size.
    pub trial: Trial,
    /// Bytes of content not yet written or not yet verified: the yearly peak that 19 of 20 years
    /// don't exceed.
    pub staging_bytes: f64,
    /// Decode workers.
    pub decode: DecodeNeed,
    /// Energy of the year.
    pub energy_kwh: Energy,
    /// Years from the beginning until these libraries hold `capacity_platters`, if ingest keeps
    /// growing; infinite if more than a thousand.
    pub full_after_years: f64,
    /// Platters of sets that these libraries can hold, less the margin of slots.
    pub capacity_platters: u64,
}

/// Decode workers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DecodeNeed {
    /// Busy workers, on average.
    pub mean: f64,
    /// Those of `mean` that decode for verification.
    pub verification: f64,
    /// The fewest workers with which nothing is late.
    pub must_have: u32,
    /// Busy workers on average, by hour of the day.
    pub by_hour: [f64; 24],
}

/// Energy of a year, in kilowatt-hours.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Energy {
    /// Shuttles, in motion and at rest.
    pub shuttles: f64,
    /// Drives.
    pub drives: f64,
    /// Decode workers.
    pub decoding: f64,
}

impl Energy {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.shuttles + self.drives + self.decoding
    }
}

/// A year that could not be planned.
#[derive(Debug, Clone)]
pub struct Unmet {
    /// The year.
    pub year: Year,
    /// The largest size tried.
    pub size: Size,
    /// The limit that was reached.
    pub limit: Limit,
    /// The simulation of the largest size, if any.
    pub trial: Option<Trial>,
}

/// The effect of a failure on the last year that could be planned.
#[derive(Debug, Clone)]
pub struct FailureEffect {
    /// The failure.
    pub case: Case,
    /// Its simulation; `None` if the effect is known without one.
    pub trial: Option<Trial>,
    /// True if the level is kept, ignoring its margin; `None` if no read was simulated.
    pub keeps_level: Option<bool>,
    /// The effect, in a sentence.
    pub account: String,
}
