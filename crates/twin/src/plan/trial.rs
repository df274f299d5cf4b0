//! A trial: the simulation of a size under a year's load, with several seeds.

use fulgurite_domain::Micros;
use fulgurite_library::{Drive, Library, Shuttle, Verification};
use fulgurite_mechanics::{Breakdown, Faults};

use super::decoding::{DepartureRecorder, Departures};
use super::load::{Year, at_rate, cool_down, share_of};
use super::{Failures, Limit, Plan, PlanError, Size};
use crate::jobs::{self, Job};
use crate::scenario::{LibraryFault, RunSettings, Scenario, Sets, WorkloadKind};
use crate::simulation::{Repeated, Run, RunError};
use crate::statistics::{Interval, confidence};

/// The failures in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// No failure.
    Nothing,
    /// Shuttles and drives fail by chance, and are repaired.
    ByChance,
    /// In each library one shuttle and one drive are down for the whole run.
    Machines,
    /// One library is away, and its content is read from the others.
    Library,
}

impl Case {
    /// The cases that a size can be planned for, with their names in plan files.
    pub const PLANNABLE: [(&'static str, Self); 3] =
        [("nothing", Self::Nothing), ("by-chance", Self::ByChance), ("machines", Self::Machines)];

    /// A description of the failure.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Nothing => "nothing fails",
            Self::ByChance => "shuttles and drives fail by chance",
            Self::Machines => "a shuttle and a drive of each library are down all the time",
            Self::Library => "one library is away",
        }
    }
}

/// Results of a size. All figures are means over the seeds whose runs ended, and for all libraries
/// unless noted.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The size.
    pub size: Size,
    /// The failures.
    pub case: Case,
    /// Seconds within which the service level's share of the reads left the libraries, by seed;
    /// infinite if reads had not ended by the end of the cool-down.
    pub tails_s: Vec<f64>,
    /// Requests that counted, in all simulated libraries and seeds.
    pub requests: u64,
    /// Share of the requests that ended without their bytes.
    pub lost: f64,
    /// Share of the drives' time spent on reading, mounting, seeking and unmounting.
    pub reading: f64,
    /// Share spent on verifying, when there is always a platter to verify.
    pub verifying: f64,
    /// Idle share of the shuttles' time.
    pub shuttles_idle: f64,
    /// Share of the shuttles' time in motion.
    pub shuttles_moving: f64,
    /// Bytes per second that drives could verify.
    pub verified_bytes_s: f64,
    /// The same relative to the bytes written per second; infinite if none are.
    pub verification: f64,
    /// Bytes per second of whole tracks read for customers.
    pub read_bytes_s: f64,
    /// Mean power of motion, in joules per second.
    pub motion_w: f64,
    /// The limit that the size misses; `None` if it is sufficient.
    pub short_of: Option<Limit>,
    /// Number of simulated libraries, which represent all.
    pub simulated: u16,
    /// Requests that ended in the simulated libraries, in the run of the first seed that ended.
    pub(super) departures: Vec<Departures>,
}

impl Trial {
    /// Whether any read counted. Without one, nothing is known of the service level.
    #[must_use]
    pub fn has_reads(&self) -> bool {
        self.requests > 0
    }

    /// The mean of the tails with its 95 % interval; `None` with fewer than two seeds, without
    /// reads, or if a run didn't end.
    #[must_use]
    pub fn tail(&self) -> Option<Interval> {
        let is_known = self.has_reads() && self.tails_s.iter().all(|tail| tail.is_finite());
        is_known.then(|| confidence(&self.tails_s, 0.95)).flatten()
    }

    /// The worst tail, in seconds; 0 without reads.
    #[must_use]
    pub fn worst_tail_s(&self) -> f64 {
        self.tails_s.iter().copied().fold(0.0, f64::max)
    }
}

/// Tries sizes of one plan. Keeps the placement of platters from the last trial if it is unchanged.
pub(super) struct Trials<'p> {
    plan: &'p Plan,
    racks: u8,
    last: Option<Repeated>,
}

/// Mean time until a machine is repaired that is down for a whole run: 30 years.
const UNREPAIRED_S: f64 = 1e9;

/// Number of seeds after which a size may be given up. Independent of the number of cores, so that
/// a trial that is given up looks the same everywhere.
const BEFORE_GIVING_UP: usize = 2;

impl<'p> Trials<'p> {
    pub(super) fn new(plan: &'p Plan, racks: u8) -> Self {
        Self { plan, racks, last: None }
    }

    /// Runs a size under a year's load. With `gives_up`, skips the remaining seeds once the first
    /// ones show that the size is not enough.
    pub(super) fn run(&mut self, year: &Year, size: Size, case: Case, gives_up: bool) -> Result<Trial, PlanError> {
        let plan = self.plan;
        let scenario = scenario(plan, self.racks, year, size, case);
        let repeated = match &self.last {
            Some(last) => last.followed_by(scenario),
            None => Repeated::new(scenario),
        };
        self.last = Some(repeated.clone());
        let seeds: Vec<u64> = (0..u64::from(plan.seeds)).map(|index| plan.seed + index).collect();
        let mut sum = Sum { stand_for: stand_for(plan.reads.kind == WorkloadKind::Trace, size, case), ..Sum::default() };
        let (first, others) = seeds.split_at(if gives_up { BEFORE_GIVING_UP.min(seeds.len()) } else { seeds.len() });
        for seeds in [first, others] {
            for run in runs(&repeated, seeds) {
                match run? {
                    // Slower than any service level.
                    (run, _) if run.unfinished.is_some() => sum.tails_s.push(f64::INFINITY),
                    (run, departures) => sum.add(run, departures, plan.service.share, repeated.scenario()),
                }
            }
            if gives_up && sum.trial(plan, year, size, case).short_of.is_some() {
                break;
            }
        }
        Ok(sum.trial(plan, year, size, case))
    }
}

/// Runs each seed once, on all cores; the results are in the order of the seeds.
fn runs(repeated: &Repeated, seeds: &[u64]) -> Vec<Result<(Run, Vec<Departures>), RunError>> {
    let run = |&seed: &u64| {
        let work = move || {
            let mut recorder = DepartureRecorder::new(repeated.scenario());
            repeated.run_with(seed, &mut recorder).map(|run| (run, recorder.slots))
        };
        Job { cost: 1.0, work: Box::new(work) }
    };
    jobs::run_all(&seeds.iter().map(run).collect::<Vec<_>>(), 0, &|_| ())
}

/// Most libraries simulated for the loss of one.
pub(super) const SIMULATED_MOST: u16 = 8;

/// How the simulated libraries represent all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct StandFor {
    simulated: u16,
    away: u16,
    /// Number of libraries that they represent.
    all: u16,
    /// Share of their platters that is read from others.
    unavailable: f64,
}

impl StandFor {
    /// Share of all requests that they see.
    fn part(&self) -> f64 {
        f64::from(self.simulated) / f64::from(self.all)
    }
}

fn stand_for(is_trace: bool, size: Size, case: Case) -> StandFor {
    let all = size.libraries;
    if case == Case::Library && all > 1 {
        return if is_trace || all <= SIMULATED_MOST {
            StandFor { simulated: all, away: 1, all, unavailable: 0.0 }
        } else {
            // Only remaining libraries are simulated. Their share of the requests for the lost
            // library falls on unavailable platters.
            StandFor { simulated: SIMULATED_MOST, away: 0, all: all - 1, unavailable: 1.0 / f64::from(all) }
        };
    }
    // A trace names its platters, so it needs all libraries.
    let simulated = if is_trace { all } else { all.min(2) };
    StandFor { simulated, away: 0, all, unavailable: 0.0 }
}

pub(super) fn scenario(plan: &Plan, racks: u8, year: &Year, size: Size, case: Case) -> Scenario {
    let stand_for = stand_for(plan.reads.kind == WorkloadKind::Trace, size, case);
    let libraries = stand_for.simulated;
    let workload = share_of(&at_rate(&plan.reads_like(), year.reads_per_second), stand_for.part());
    let mut mechanics = plan.template.mechanics.clone();
    let mut faults = Vec::new();
    let Failures { shuttle_hours, drive_hours, detection_s, repair_s, .. } = plan.failures;
    match case {
        Case::ByChance => {
            mechanics.faults = Faults { shuttle_hours, drive_hours, detection_s, repair_s, ..mechanics.faults };
        }
        Case::Machines => {
            mechanics.faults = Faults { detection_s, repair_s: UNREPAIRED_S, ..mechanics.faults };
            for library in (0..libraries).map(Library) {
                let fault = |what| LibraryFault { library, at: Micros::ZERO, what };
                faults.extend([fault(Breakdown::ShuttleStops(Shuttle(size.shuttles / 2))), fault(Breakdown::DriveDown(Drive(0)))]);
            }
        }
        Case::Nothing | Case::Library => {}
    }
    let members = u64::from(plan.template.sets.shape.platters());
    // Rounded up: rounding down would leave the last set incomplete.
    let sets = (year.sets * u64::from(libraries)).div_ceil(u64::from(size.libraries)).max(1);
    let platters = (sets * members).div_ceil(u64::from(libraries));
    // No set loses more platters than its redundancy, as where all libraries are simulated.
    let unavailable = plan.template.sets.unavailable + stand_for.unavailable;
    let unavailable = unavailable.min(f64::from(plan.template.sets.shape.redundancy) / members as f64);
    let mut layout = plan.template.layout.clone();
    layout.storage_racks = racks;
    layout.drives = [size.drives.div_ceil(2) as u8, (size.drives / 2) as u8];
    layout.shuttles = size.shuttles;
    Scenario {
        name: plan.name.clone(),
        title: format!("Year {} of {}", year.number, plan.name),
        libraries,
        away: stand_for.away,
        sets: Sets { unavailable, ..plan.template.sets.clone() },
        layout,
        platters: platters as u32,
        verification: Verification::Endless,
        mechanics,
        faults,
        workload,
        ingest: None,
        run: RunSettings { cool_down: cool_down(plan.service.in_library()), seed: plan.seed, seeds: plan.seeds, ..plan.template.run },
        ..plan.template.clone()
    }
}

#[derive(Default)]
struct Sum {
    stand_for: StandFor,
    departures: Option<Vec<Departures>>,
    tails_s: Vec<f64>,
    runs: f64,
    requests: u64,
    lost: f64,
    reading: f64,
    verifying: f64,
    shuttles_idle: f64,
    shuttles_moving: f64,
    verified_bytes_s: f64,
    read_bytes_s: f64,
    motion_w: f64,
}

impl Sum {
    fn add(&mut self, mut run: Run, departures: Vec<Departures>, share: f64, scenario: &Scenario) {
        let measured_s = scenario.run.measured.seconds();
        self.departures.get_or_insert(departures);
        self.tails_s.push(run.percentile_s(share));
        self.runs += 1.0;
        self.requests += run.requests;
        self.lost += run.outcomes.lost();
        self.reading += run.drives.reading;
        self.verifying += run.drives.verifying;
        self.shuttles_idle += run.shuttles.idle;
        self.shuttles_moving += run.shuttles.moving + run.shuttles.crabbing;
        self.verified_bytes_s += run.drives.bytes_verified as f64 / measured_s;
        self.read_bytes_s += run.drives.tracks_read as f64 * scenario.mechanics.drive.track_bytes as f64 / measured_s;
        self.motion_w += run.shuttles.joules / measured_s;
    }

    fn trial(&self, plan: &Plan, year: &Year, size: Size, case: Case) -> Trial {
        let (runs, scale) = (self.runs.max(1.0), 1.0 / self.stand_for.part());
        let verified_bytes_s = self.verified_bytes_s / runs * scale;
        let mut trial = Trial {
            size,
            case,
            tails_s: self.tails_s.clone(),
            requests: self.requests,
            lost: self.lost / runs,
            reading: self.reading / runs,
            verifying: self.verifying / runs,
            shuttles_idle: self.shuttles_idle / runs,
            shuttles_moving: self.shuttles_moving / runs,
            verified_bytes_s,
            verification: if year.written_bytes_s > 0.0 { verified_bytes_s / year.written_bytes_s } else { f64::INFINITY },
            read_bytes_s: self.read_bytes_s / runs * scale,
            motion_w: self.motion_w / runs * scale,
            short_of: None,
            simulated: self.stand_for.simulated,
            departures: self.departures.clone().unwrap_or_default(),
        };
        let limit_s = (1.0 - plan.margin.service) * plan.service.in_library().seconds();
        // A shuttle or drive that is short of time may affect the tail only after more hours than
        // are simulated.
        trial.short_of = if trial.worst_tail_s() > limit_s {
            Some(Limit::Level)
        } else if trial.shuttles_idle < plan.margin.idle {
            Some(Limit::ShuttleTime)
        } else if trial.verification < 1.0 + plan.margin.verification {
            Some(Limit::Verification)
        } else if trial.reading > 1.0 - plan.margin.idle {
            Some(Limit::DriveTime)
        } else {
            None
        };
        trial
    }
}
