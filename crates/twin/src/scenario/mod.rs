//! A scenario: all inputs of a run except the seed.
//!
//! ```text
//!   scenarios/iops.toml --set ... --> Scenario::read ---.
//!   Scenario { ..Default::default() } ------------------+--> Scenario --> run(seed) --> Run
//!                                                               |
//!                     docs/scenarios.md <-- reference()         '--> canonical(): complete TOML
//! ```
//!
//! Programs can set every field, as files can. [`Scenario::check`] checks both for consistency.

mod inventory;
mod read;
mod workload;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use fulgurite_domain::{Micros, SetShape};
use fulgurite_library::placement::{PlacementError, Zones};
use fulgurite_library::{Layout, LayoutError, Library, Pace, Verification};
use fulgurite_library_settings::LibrarySettings;
use fulgurite_mechanics::{Breakdown, Settings, SettingsError};
use fulgurite_workload::{Platters, SpecError};

pub(crate) use fulgurite_library_settings::mean_seek_s;
pub use fulgurite_library_settings::{PolicyChoice, PolicyName};
pub use inventory::Stock;
pub use read::reference;
pub use workload::{Bursts, Ingest, Pattern, SizeLaw, Steady, Workload, WorkloadKind};

/// All inputs of a run except the seed. The default is an early library: 8 storage racks with 7,000
/// platters in sets of 16+3 (7 racks also hold such sets, but only in patterns that leave some
/// halves of shelves with less than half the platters of others), 20 shuttles, 20 drives of 60 MB/s
/// that always have something to verify, and the typical workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Names the results: the file name without its extension.
    pub name: String,
    /// One-line description, for reports.
    pub title: String,
    /// Number of identical libraries over which sets are spread.
    pub libraries: u16,
    /// The first `away` libraries are unreachable for the whole run: their platters can't be read
    /// and their drives verify nothing.
    pub away: u16,
    /// The panel of each library.
    pub layout: Layout,
    /// Written platters in each library at the start, rounded down to complete sets over all
    /// libraries; 0 for as many as fit.
    pub platters: u32,
    /// Information tracks of a platter.
    pub tracks: u32,
    /// What the drives verify.
    pub verification: Verification,
    /// How platters form sets.
    pub sets: Sets,
    /// The policy of each library.
    pub policy: PolicyChoice,
    /// Settings of shuttles and drives. Faults planned here strike every library; `no_shuttles` is
    /// ignored, the policy decides it.
    pub mechanics: Settings,
    /// Faults planned for one library.
    pub faults: Vec<LibraryFault>,
    /// The requests.
    pub workload: Workload,
    /// What is written during the run, if anything.
    pub ingest: Option<Ingest>,
    /// The decode service that processes what leaves the libraries, if its figures are wanted.
    pub decode: Option<Decode>,
    /// What is measured.
    pub run: RunSettings,
    /// The expected results.
    pub expect: Expectations,
}

/// The decode service that processes what leaves the libraries.
#[derive(Debug, Clone, PartialEq)]
pub struct Decode {
    /// Its settings.
    pub service: fulgurite_decode::Settings,
    /// Throughput of one worker, in bytes per second: 10 MB/s (proposed).
    pub throughput_bytes_s: f64,
}

impl Default for Decode {
    fn default() -> Self {
        Self { service: fulgurite_decode::Settings::default(), throughput_bytes_s: 10e6 }
    }
}

/// How platters form sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Sets {
    /// Information and redundancy platters of a set: 16+3 (SOSP '23, section 5).
    pub shape: SetShape,
    /// Which platters one failure makes unreachable.
    pub zones: Zones,
    /// Share of all platters that are unavailable, chosen at random, but never more of a set than
    /// its redundancy.
    pub unavailable: f64,
}

/// A fault planned for one library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryFault {
    /// The library.
    pub library: Library,
    /// Instant of the fault, from the start of the warm-up.
    pub at: Micros,
    /// The fault and the machine it strikes.
    pub what: Breakdown,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSettings {
    /// Time before the measured interval.
    pub warm_up: Micros,
    /// The measured interval: requests that arrive in it count. 12 hours (SOSP '23, section 7.2).
    pub measured: Micros,
    /// How long after the interval counted requests may take. Requests keep arriving until the last
    /// counted one has ended.
    pub cool_down: Micros,
    /// The first seed.
    pub seed: u64,
    /// Number of seeds, from the first one on, where several are run.
    pub seeds: u32,
}

/// Expected results of each run; `None` is not checked. Every request is always expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Expectations {
    /// 99.9th percentile of completion times.
    pub tail_at_most: Option<Micros>,
    /// The longest completion time.
    pub longest_at_most: Option<Micros>,
    /// The mean completion time.
    pub mean_at_most: Option<Micros>,
    /// Maximum share of requests that end without their bytes.
    pub lost_at_most: f64,
    /// Maximum ratio of the tail to the bound that no policy can beat.
    pub tail_over_bound_at_most: Option<f64>,
    /// Written platters that wait to be verified or are being verified.
    pub unverified_at_most: Option<u32>,
}

impl Default for Scenario {
    fn default() -> Self {
        let LibrarySettings { layout, zones, policy, mechanics } = LibrarySettings::default();
        Self {
            name: "default".to_owned(),
            title: "An early library under a typical load".to_owned(),
            libraries: 1,
            away: 0,
            layout,
            platters: 7_000,
            tracks: 100_000,
            verification: Verification::Endless,
            sets: Sets { shape: SetShape { information: 16, redundancy: 3 }, zones, unavailable: 0.0 },
            policy,
            mechanics,
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
    /// 12 hours after a warm-up of 6. The presets repeat every 12 hours, and hour 6 falls between
    /// two bursts of each, so that an interval contains as many bursts as a period.
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

    /// When a run ends at the latest.
    #[must_use]
    pub fn latest(&self) -> Micros {
        self.measured_until() + self.cool_down
    }
}

/// A scenario that can't be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum ScenarioError {
    #[error("library: {0}")]
    Layout(#[from] LayoutError),
    #[error("mechanics: {0}")]
    Mechanics(#[from] SettingsError),
    #[error("planned fault {index}: library {found} does not exist; the {libraries} libraries are counted from 0")]
    FaultElsewhere {
        /// Which fault, counted from 0.
        index: usize,
        found: u16,
        libraries: u16,
    },
    #[error("planned fault {index}: {source}")]
    Fault {
        /// Which fault, counted from 0.
        index: usize,
        source: SettingsError,
    },
    #[error("workload: {0}")]
    Workload(#[from] SpecError),
    #[error("placement: {0}")]
    Placement(#[from] PlacementError),
    #[error(
        "{wanted} platters in each library, but only {fit} fit: {sets} sets of {shape} in {libraries} libraries under the blast zone rule"
    )]
    TooManyPlatters { wanted: u32, fit: u32, sets: u64, shape: SetShape, libraries: u16 },
    /// The wanted platters make up no set; or if as many as fit are wanted (0), none fits.
    #[error("{} in each of {libraries} libraries don't make a complete set of {shape}", no_set(*.wanted))]
    NoSet { wanted: u32, libraries: u16, shape: SetShape },
    #[error("{setting}: expected {expected}; found {found}")]
    Range { setting: &'static str, found: SettingValue, expected: Cow<'static, str> },
}

fn no_set(wanted: u32) -> String {
    match wanted {
        0 => "the slots that the room for ingest leaves".to_owned(),
        _ => format!("{wanted} platters"),
    }
}

/// The value of a setting that can't be run.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "what has no comment is what its name says")]
pub enum SettingValue {
    Nothing,
    Count(u64),
    /// A share, or a rate in bytes per second.
    Number(f64),
    /// Requests per second.
    Rate(f64),
    Time(Micros),
    Shape(SetShape),
    /// What drives verify.
    Verification(Verification),
    Path(PathBuf),
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Rate(rate) => write!(f, "{rate} a second"),
            Self::Time(time) => write!(f, "{time}"),
            Self::Shape(shape) => write!(f, "{shape}"),
            Self::Verification(verification) => write!(f, "{verification:?}"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

/// [`ScenarioError::Range`] unless the setting is `good`.
fn range(setting: &'static str, good: bool, found: SettingValue, expected: impl Into<Cow<'static, str>>) -> Result<(), ScenarioError> {
    if good { Ok(()) } else { Err(ScenarioError::Range { setting, found, expected: expected.into() }) }
}

impl Scenario {
    /// Checks that all settings are valid together. [`Scenario::read`] calls it.
    ///
    /// # Errors
    /// The first problem found. Whether all platters fit is only known once they are placed.
    pub fn check(&self) -> Result<(), ScenarioError> {
        use SettingValue::{Count, Number, Shape, Time};
        self.layout.clone().check()?;
        let members = self.sets.shape.platters();
        range("deployment.libraries", (1..=1_000).contains(&self.libraries), Count(self.libraries.into()), "1 to 1000")?;
        range("deployment.away", self.away < self.libraries, Count(self.away.into()), "fewer than the number of libraries")?;
        range("deployment.away", self.away == 0 || self.ingest.is_none(), Count(self.away.into()), "0 when the scenario has ingest")?;
        range("sets.information", self.sets.shape.information >= 1, Count(self.sets.shape.information.into()), "1 or more")?;
        range("sets.redundancy", members <= 64, Shape(self.sets.shape), "a set of 64 platters at most")?;
        self.sets.zones.check()?;
        let most = f64::from(self.sets.shape.redundancy) / f64::from(members);
        let unavailable = self.sets.unavailable;
        let expected = format!("0 to {:.2} %, the share of redundancy", (10_000.0 * most).floor() / 100.0);
        range("sets.unavailable", (0.0..=most).contains(&unavailable), Number(unavailable), expected)?;
        range("platters.tracks", self.tracks > 0, Count(self.tracks.into()), "1 or more")?;
        if self.layout.shuttles == 0 && self.policy.name != PolicyName::NoShuttles {
            range("shuttles.count", false, Count(0), "1 or more, unless the policy is \"no-shuttles\"")?;
        }
        Settings { no_shuttles: self.policy.name == PolicyName::NoShuttles, ..self.mechanics.clone() }.check(&self.layout)?;
        for (index, fault) in self.faults.iter().enumerate() {
            if fault.library.0 >= self.libraries {
                return Err(ScenarioError::FaultElsewhere { index, found: fault.library.0, libraries: self.libraries });
            }
            // Alone, so that no other fault is blamed for it.
            let alone = Self { faults: vec![*fault], ..self.clone() };
            alone.mechanics_of(fault.library).check(&self.layout).map_err(|source| ScenarioError::Fault { index, source })?;
        }
        range("run.measured", self.run.measured > Micros::ZERO, Time(self.run.measured), "more than nothing")?;
        range("run.seeds", self.run.seeds > 0, Count(self.run.seeds.into()), "1 or more")?;
        if let Some(decode) = &self.decode {
            let workers = decode.service.workers.iter().map(|workers| u64::from(*workers)).sum::<u64>();
            range("decode.workers", workers > 0, Count(workers), "one or more at some hour")?;
            range("decode.throughput", decode.throughput_bytes_s > 0.0, Number(decode.throughput_bytes_s), "more than nothing")?;
        }
        if let Some(ingest) = &self.ingest {
            ingest.check(self)?;
        }
        self.workload.check(self.readable())
    }

    /// The information platters of all libraries, as the workload counts them: those of the first
    /// set, then those of the next. If as many platters as fit are wanted, this is an estimate with
    /// a platter in every slot; the exact count is known only after placement
    /// ([`Stock::readable`]).
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

    /// Settings of the machines of one library, including its faults.
    #[must_use]
    pub fn mechanics_of(&self, library: Library) -> Settings {
        let mut settings = self.mechanics.clone();
        settings.no_shuttles = self.policy.name == PolicyName::NoShuttles;
        let here = self.faults.iter().filter(|fault| fault.library == library);
        settings.faults.planned.extend(here.map(|fault| fulgurite_mechanics::PlannedFault { at: fault.at, what: fault.what }));
        settings
    }

    /// The machine times that controllers assume.
    #[must_use]
    pub fn pace(&self) -> Pace {
        fulgurite_library_settings::pace(&self.mechanics)
    }
}

#[cfg(test)]
mod tests;
