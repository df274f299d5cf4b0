//! A scenario: everything that one run is made of, but for the seed.
//!
//! ```text
//!   scenarios/iops.toml --set ... --> Scenario::read ---.
//!   Scenario { ..Default::default() } ------------------+--> Scenario --> simulation::run(seed) --> Run
//!                                                               |
//!                         docs/scenarios.md <-- reference()     '--> canonical(): the same again, as TOML with every setting
//! ```
//!
//! All fields can be set by a program as well as by a file. What goes with what is checked in one place, [`Scenario::check`], for both.

mod inventory;
mod pace;
mod policy;
mod read;
mod workload;

use fulgurite_domain::{Micros, SetShape};
use fulgurite_library::placement::{PlacementError, Zones};
use fulgurite_library::{Layout, LayoutError, Library, Pace, Verification};
use fulgurite_mechanics::{Breakdown, Settings, SettingsError};
use fulgurite_workload::{Platters, SpecError};

pub use inventory::Stock;
pub(crate) use pace::mean_seek_s;
pub use policy::{PolicyChoice, PolicyName};
pub use read::reference;
pub use workload::{Bursts, Ingest, Pattern, SizeLaw, Steady, Workload, WorkloadKind};

/// Everything that a run is made of, but for the seed. The default is the library of the design: 8 storage racks with 3,800 platters in
/// sets of 16+3 (7 racks hold such sets too, but only in patterns that leave some shelves 100 platters and give others 250), 20 shuttles,
/// 20 drives of 60 MB/s that always have something to verify, and the typical workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// What results are filed under: the name of the file without its ending.
    pub name: String,
    /// What it is about, for reports.
    pub title: String,
    /// Libraries, all alike, over which sets are spread.
    pub libraries: u16,
    /// The first so many of them are away all the time: nothing they hold can be read there, and their drives verify nothing.
    pub away: u16,
    /// The panel of each.
    pub layout: Layout,
    /// Written platters in each library at the beginning, of which as many are there as make complete sets over all libraries; 0 for as
    /// many as fit.
    pub platters: u32,
    /// Information tracks of a platter.
    pub tracks: u32,
    /// What there is to verify.
    pub verification: Verification,
    /// How platters belong together.
    pub sets: Sets,
    /// Who decides.
    pub policy: PolicyChoice,
    /// What shuttles and drives are like. Faults planned here strike every library; `no_shuttles` is what the policy says.
    pub mechanics: Settings,
    /// Faults planned for one library.
    pub faults: Vec<LibraryFault>,
    /// What is asked for.
    pub workload: Workload,
    /// What is written meanwhile, if anything.
    pub ingest: Option<Ingest>,
    /// The decode service behind the libraries, if it is to be reported.
    pub decode: Option<Decode>,
    /// What is measured.
    pub run: RunSettings,
    /// What has to come out.
    pub expect: Expectations,
}

/// The decode service behind the libraries.
#[derive(Debug, Clone, PartialEq)]
pub struct Decode {
    /// What it is like.
    pub service: crate::decode::Settings,
    /// What one worker decodes, in bytes per second: 10 MB/s (proposed).
    pub throughput_bytes_s: f64,
}

impl Default for Decode {
    fn default() -> Self {
        Self { service: crate::decode::Settings::default(), throughput_bytes_s: 10e6 }
    }
}

/// How platters belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Sets {
    /// Information and redundancy platters of a set: 16+3 (P, section 5).
    pub shape: SetShape,
    /// What one failure makes unreachable.
    pub zones: Zones,
    /// Share of all platters that can't be used, chosen at random, but never more of a set than its redundancy.
    pub unavailable: f64,
}

/// A fault planned for one library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryFault {
    /// Where.
    pub library: Library,
    /// When, from the start of the warm-up.
    pub at: Micros,
    /// What happens to whom.
    pub what: Breakdown,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSettings {
    /// Time before the measured interval.
    pub warm_up: Micros,
    /// The interval in which requests have to arrive to count: 12 hours (P, section 7.2).
    pub measured: Micros,
    /// The longest that the requests that count may go on behind it. Requests arrive until the last of them has ended.
    pub cool_down: Micros,
    /// The first seed.
    pub seed: u64,
    /// How many seeds, from the first one on, where several are run.
    pub seeds: u32,
}

/// What has to come out of each run; what is none isn't looked at. That every request ends is always expected.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Expectations {
    /// 99.9th percentile of completion times.
    pub tail_at_most: Option<Micros>,
    /// The longest completion time.
    pub longest_at_most: Option<Micros>,
    /// The mean completion time.
    pub mean_at_most: Option<Micros>,
    /// Share of the requests that may end without their bytes.
    pub lost_at_most: f64,
    /// The tail, over the bound that no policy can beat.
    pub tail_over_bound_at_most: Option<f64>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            title: "An early library under a typical load".to_owned(),
            libraries: 1,
            away: 0,
            layout: Layout { storage_racks: 8, ..Layout::default() },
            platters: 3_800,
            tracks: 100_000,
            verification: Verification::Endless,
            sets: Sets { shape: SetShape { information: 16, redundancy: 3 }, zones: Zones::default(), unavailable: 0.0 },
            policy: PolicyChoice::default(),
            mechanics: Settings::default(),
            faults: Vec::new(),
            workload: Workload::default(),
            ingest: None,
            decode: None,
            run: RunSettings::default(),
            expect: Expectations::default(),
        }
    }
}

impl Default for RunSettings {
    /// 12 hours after 6 of warm-up. The presets repeat every 12 hours, and 6 is between two bursts of each, so that an interval has as many
    /// of them as a period.
    fn default() -> Self {
        let hours = |hours| Micros(hours * Micros::HOUR.0);
        Self { warm_up: hours(6), measured: hours(12), cool_down: hours(30 * 24), seed: 1, seeds: 10 }
    }
}

impl RunSettings {
    /// When the measured interval ends.
    #[must_use]
    pub fn measured_until(&self) -> Micros {
        self.warm_up + self.measured
    }
}

/// A scenario that can't be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// The panel is none.
    #[error("library: {0}")]
    Layout(#[from] LayoutError),
    /// The machines are none.
    #[error("mechanics: {0}")]
    Mechanics(#[from] SettingsError),
    /// A planned fault is in a library that isn't there.
    #[error("planned fault {index}: library {found} of {libraries}, counted from 0")]
    FaultElsewhere {
        /// Which fault, counted from 0.
        index: usize,
        /// The library that it names.
        found: u16,
        /// How many there are.
        libraries: u16,
    },
    /// A planned fault is of a machine that isn't there.
    #[error("planned fault {index}: {source}")]
    Fault {
        /// Which one, counted from 0.
        index: usize,
        /// Why.
        source: SettingsError,
    },
    /// The workload is none.
    #[error("workload: {0}")]
    Workload(#[from] SpecError),
    /// The platters have no place.
    #[error("placement: {0}")]
    Placement(#[from] PlacementError),
    /// More platters than keep the rule.
    #[error(
        "{wanted} platters in each library, but {fit} fit: {sets} complete sets of {shape} in {libraries} libraries keep the rule on blast zones"
    )]
    TooManyPlatters {
        /// Asked for, in each library.
        wanted: u32,
        /// Those that fit.
        fit: u32,
        /// Sets that fit.
        sets: u64,
        /// Of this shape.
        shape: SetShape,
        /// Libraries.
        libraries: u16,
    },
    /// Not even one set.
    #[error("{wanted} platters in each of {libraries} libraries make no complete set of {shape}")]
    NoSet {
        /// Asked for, in each library.
        wanted: u32,
        /// Libraries.
        libraries: u16,
        /// Of this shape.
        shape: SetShape,
    },
    /// A number is outside its range, or doesn't go with others.
    #[error("{setting}: {found}, but {expected} is expected")]
    Range {
        /// Which setting.
        setting: &'static str,
        /// What it is.
        found: String,
        /// What it may be.
        expected: String,
    },
}

impl Scenario {
    /// Checks what goes with what. [`Scenario::read`] has done it.
    ///
    /// # Errors
    /// [`ScenarioError`] names the first thing that can't be. Whether all platters find a place is known only when they are given one.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let range = |setting, good: bool, found: &dyn std::fmt::Display, expected: &str| match good {
            true => Ok(()),
            false => Err(ScenarioError::Range { setting, found: found.to_string(), expected: expected.to_owned() }),
        };
        self.layout.clone().check()?;
        let members = self.sets.shape.platters();
        range("deployment.libraries", (1..=1_000).contains(&self.libraries), &self.libraries, "1 to 1000")?;
        range("deployment.away", self.away < self.libraries, &self.away, "fewer than there are libraries")?;
        range("deployment.away", self.away == 0 || self.ingest.is_none(), &self.away, "none where something is written")?;
        range("sets.information", self.sets.shape.information >= 1, &self.sets.shape.information, "1 or more")?;
        range("sets.redundancy", members <= 64, &self.sets.shape, "a set of 64 platters at most")?;
        self.sets.zones.check()?;
        let most = f64::from(self.sets.shape.redundancy) / f64::from(members);
        let unavailable = self.sets.unavailable;
        let expected = format!("0 to {:.1} %, the share of redundancy", 100.0 * most);
        range("sets.unavailable", (0.0..=most).contains(&unavailable), &unavailable, &expected)?;
        range("platters.tracks", self.tracks > 0, &self.tracks, "1 or more")?;
        if self.layout.shuttles == 0 && self.policy.name != PolicyName::NoShuttles {
            range("shuttles.count", false, &0, "1 or more, unless the policy is \"no-shuttles\"")?;
        }
        Settings { no_shuttles: self.policy.name == PolicyName::NoShuttles, ..self.mechanics.clone() }.check(&self.layout)?;
        for (index, fault) in self.faults.iter().enumerate() {
            if fault.library.0 >= self.libraries {
                return Err(ScenarioError::FaultElsewhere { index, found: fault.library.0, libraries: self.libraries });
            }
            self.mechanics_of(fault.library).check(&self.layout).map_err(|source| ScenarioError::Fault { index, source })?;
        }
        range("run.measured", self.run.measured > Micros::ZERO, &self.run.measured, "more than nothing")?;
        range("run.seeds", self.run.seeds > 0, &self.run.seeds, "1 or more")?;
        if let Some(decode) = &self.decode {
            let workers = decode.service.workers.iter().map(|workers| u64::from(*workers)).sum::<u64>();
            range("decode.workers", workers > 0, &workers, "one or more at some hour")?;
            range("decode.throughput", decode.throughput_bytes_s > 0.0, &decode.throughput_bytes_s, "more than nothing")?;
        }
        if let Some(ingest) = &self.ingest {
            ingest.check(self)?;
        }
        self.workload.check(self.readable())
    }

    /// The information platters of all libraries, as the workload counts them: those of the first set, then those of the next. Where as many
    /// are wanted as fit, it is known only when they are placed ([`Stock::readable`]); this is then as many as there are slots for.
    #[must_use]
    pub fn readable(&self) -> Platters {
        let here = if self.platters == 0 { self.layout.slot_count() } else { self.platters };
        let sets = (u64::from(here) * u64::from(self.libraries) / u64::from(self.sets.shape.platters())).max(1);
        self.readable_of(sets)
    }

    fn readable_of(&self, sets: u64) -> Platters {
        let count = sets * u64::from(self.sets.shape.information);
        Platters { count: count.min(u32::MAX.into()) as u32, tracks: self.tracks, track_bytes: self.mechanics.drive.track_bytes }
    }

    /// What shuttles and drives of a library are like, its faults included.
    #[must_use]
    pub fn mechanics_of(&self, library: Library) -> Settings {
        let mut settings = self.mechanics.clone();
        settings.no_shuttles = self.policy.name == PolicyName::NoShuttles;
        let here = self.faults.iter().filter(|fault| fault.library == library);
        settings.faults.planned.extend(here.map(|fault| fulgurite_mechanics::PlannedFault { at: fault.at, what: fault.what }));
        settings
    }

    /// What controllers are told about the machines.
    #[must_use]
    pub fn pace(&self) -> Pace {
        pace::pace(&self.mechanics)
    }
}

#[cfg(test)]
mod tests;
