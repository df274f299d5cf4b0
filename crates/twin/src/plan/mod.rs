//! A plan: how many libraries, drives and shuttles keep a service level over the years, by simulation.
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
//!     staging, decode workers, energy, failures, when it is full --> Outcome --> tables, figures, a statement
//! ```
//!
//! A year is planned for its end, when most is stored and read. Arithmetic alone gives the slots, a lower bound on the drives (what is
//! written is read back, and what is asked for is read), and a first guess; whether a size keeps the level is only ever said by the
//! simulation. What was bought stays: no year has less than the one before.
//!
//! One assumption carries all of it: sets are spread evenly over the libraries of a year, so that all of them are alike and two of them,
//! with their share of the load, stand for any number; without one of them, up to eight stand for those that are left. Others are listed by [`Outcome::assumptions`].

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

/// What is asked of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What results are filed under: the name of the file without its ending.
    pub name: String,
    /// What it is about, for reports.
    pub title: String,
    /// Years that are planned, 1 or more.
    pub horizon: u32,
    /// What a library is like, but for what is planned: racks, drives and shuttles. Also how a run is measured.
    pub like: Scenario,
    /// What comes in.
    pub ingest: IngestPlan,
    /// What is asked for.
    pub reads: Reads,
    /// What is promised.
    pub service: Service,
    /// What has to be left over.
    pub margin: Margin,
    /// What a library can have, and how many there may be.
    pub limits: Limits,
    /// What fails.
    pub failures: Failures,
    /// What a decode worker does in a second, in bytes of content.
    pub decode_bytes_s: f64,
    /// What is drawn besides motion.
    pub draws: Draws,
    /// The first seed.
    pub seed: u64,
    /// How many seeds; the level has to be kept in each.
    pub seeds: u32,
}

/// What comes in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IngestPlan {
    /// Bytes of content a month in the first year.
    pub bytes_per_month: u64,
    /// What each year has more than the one before, as a share.
    pub growth: f64,
    /// Bytes that are stored at the beginning.
    pub stored_bytes: u64,
    /// Standard deviation of the logarithm of a day's bytes.
    pub sigma: f64,
    /// How much the logarithm of a day's bytes is like the last one's.
    pub persistence: f64,
    /// What the write drives can write, over the mean.
    pub headroom: f64,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Reads {
    /// Whose sizes and bursts, or a trace.
    pub kind: WorkloadKind,
    /// The trace, where it is one. It is asked for as it is in every year.
    pub trace: Option<PathBuf>,
    /// Requests a second at the end of the first year, of all libraries; none for a byte read for each 47 written (P, section 2).
    pub per_second: Option<f64>,
    /// By how much reads grow when the bytes stored at the end of the first year have come once more, as a share.
    pub growth: f64,
}

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Share of the reads that keep it.
    pub share: f64,
    /// Within what time the last byte is there, decoded.
    pub within: Micros,
    /// How much of it is left to the decode service.
    pub for_decoding: Micros,
}

impl Service {
    /// What is left for the libraries.
    #[must_use]
    pub fn in_library(&self) -> Micros {
        self.within.since(self.for_decoding)
    }
}

/// What has to be left over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// Of the service level's time, as a share.
    pub service: f64,
    /// Of verification: what drives could verify more than what is written, as a share of that.
    pub verification: f64,
    /// Of the time of shuttles, and of drives beside reading, as a share.
    pub idle: f64,
    /// Of the slots that sets can have, as a share.
    pub slots: f64,
}

/// What a library can have, and how many there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most libraries.
    pub libraries: u16,
    /// Storage racks of each; none for the fewest that hold a set.
    pub racks: Option<u8>,
    /// Fewest and most drives.
    pub drives: [u16; 2],
    /// Fewest and most shuttles.
    pub shuttles: [u16; 2],
}

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Failures {
    /// Mean hours of motion after which a shuttle stops.
    pub shuttle_hours: f64,
    /// Mean hours after which a drive goes down.
    pub drive_hours: f64,
    /// Mean seconds until a failure is noticed.
    pub detection_s: f64,
    /// Mean seconds from then until it is repaired.
    pub repair_s: f64,
    /// With what going wrong the level has to be kept.
    pub planned_for: Case,
}

/// What is drawn besides motion, in watts. Only ratios are to be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draws {
    /// A drive that reads or verifies.
    pub drive_busy_w: f64,
    /// A drive that doesn't.
    pub drive_idle_w: f64,
    /// A decode worker at work.
    pub worker_w: f64,
}

/// How many of everything. Libraries are all alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// Libraries.
    pub libraries: u16,
    /// Drives of each.
    pub drives: u16,
    /// Shuttles of each.
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

/// What came out.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// Storage racks of each library.
    pub racks: u8,
    /// The years, up to the last that could be planned.
    pub years: Vec<YearPlan>,
    /// Why not all years could be planned.
    pub unmet: Option<Unmet>,
    /// What failures do to the last year.
    pub failures: Vec<FailureEffect>,
}

/// One year.
#[derive(Debug, Clone)]
pub struct YearPlan {
    /// What it asks for.
    pub year: Year,
    /// What is needed for it.
    pub size: Size,
    /// What made libraries, drives and shuttles as many as they are.
    pub limits: [Limit; 3],
    /// How it went, simulated.
    pub trial: Trial,
    /// Bytes of content, written and not yet verified or not yet written, in 19 of 20 years at most.
    pub staging_bytes: f64,
    /// Decode workers.
    pub decode: DecodeNeed,
    /// Kilowatt-hours in a year.
    pub energy_kwh: Energy,
    /// Years from the beginning until the slots of these libraries are taken, if ingest goes on growing; infinite if they never are.
    pub full_after_years: f64,
    /// Platters that sets can have in these libraries.
    pub capacity_platters: u64,
}

/// Decode workers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DecodeNeed {
    /// At work in the mean.
    pub mean: f64,
    /// Of them for what is verified.
    pub verification: f64,
    /// Workers that must be had, so that nothing is late.
    pub must_have: u32,
    /// At work in the mean, by the hour of the day.
    pub by_hour: [f64; 24],
}

/// Energy in a year, in kilowatt-hours.
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
    /// All of it.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.shuttles + self.drives + self.decoding
    }
}

/// Why a year could not be planned.
#[derive(Debug, Clone)]
pub struct Unmet {
    /// The year.
    pub year: Year,
    /// The largest size that was tried.
    pub size: Size,
    /// Which limit it ran into.
    pub limit: Limit,
    /// How the largest size did, if it was simulated.
    pub trial: Option<Trial>,
}

/// What a failure does to the last year that could be planned.
#[derive(Debug, Clone)]
pub struct FailureEffect {
    /// What fails.
    pub case: Case,
    /// How it went; none if it needs no simulation to be told.
    pub trial: Option<Trial>,
    /// Whether the level is kept, its margin left out.
    pub keeps_level: bool,
    /// In a sentence.
    pub account: String,
}
