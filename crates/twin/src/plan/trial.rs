//! A trial: a size under a year's load, simulated with several seeds.

use std::thread;

use fulgurite_domain::Micros;
use fulgurite_library::{Drive, Library, Shuttle, Verification};
use fulgurite_mechanics::{Breakdown, Faults};

use super::load::{Year, at_rate, cool_down, share_of};
use super::{Failures, Limit, Plan, PlanError, Size};
use crate::scenario::{LibraryFault, RunSettings, Scenario, WorkloadKind};
use crate::simulation::{self, Run, RunError};
use crate::statistics::{Interval, confidence};

/// What goes wrong in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// Nothing.
    Nothing,
    /// Shuttles and drives fail by chance, and are repaired.
    ByChance,
    /// In each library a shuttle and a drive are down from the beginning and stay so.
    Machines,
    /// One library of all is away, and what it holds is read from the others.
    Library,
}

impl Case {
    /// Those that a size can be planned for, as they are written in a plan.
    pub const PLANNABLE: [(&'static str, Self); 3] =
        [("nothing", Self::Nothing), ("by-chance", Self::ByChance), ("machines", Self::Machines)];

    /// What fails, in words.
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

/// How a size did. All figures are means over the seeds, and of all libraries where nothing else is said.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The size.
    pub size: Size,
    /// What went wrong.
    pub case: Case,
    /// The time that the service level's share of the reads took, in seconds, by seed; infinite where reads had not ended when the level's
    /// time was over.
    pub tails_s: Vec<f64>,
    /// Requests that counted, in all simulated libraries and seeds.
    pub requests: u64,
    /// Share of the requests that ended without their bytes.
    pub lost: f64,
    /// Share of the drives' time that went to reading, mounting and seeking.
    pub reading: f64,
    /// Share that went to verifying, where there is always something to verify.
    pub verifying: f64,
    /// Share of the shuttles' time in which they had nothing to do.
    pub shuttles_idle: f64,
    /// Share of the shuttles' time in motion.
    pub shuttles_moving: f64,
    /// Bytes that drives could verify in a second.
    pub verified_bytes_s: f64,
    /// Over what is written in a second; infinite if nothing is.
    pub verification: f64,
    /// Bytes of whole tracks read for customers in a second.
    pub read_bytes_s: f64,
    /// Joules of motion in a second.
    pub motion_w: f64,
    /// What keeps it from being enough; nothing if it is.
    pub short_of: Option<Limit>,
}

impl Trial {
    /// The mean of the tails, with its 95 % interval; nothing with fewer than two seeds, or where one didn't end.
    #[must_use]
    pub fn tail(&self) -> Option<Interval> {
        self.tails_s.iter().all(|tail| tail.is_finite()).then(|| confidence(&self.tails_s, 0.95)).flatten()
    }

    /// The worst of the tails in seconds.
    #[must_use]
    pub fn worst_tail_s(&self) -> f64 {
        self.tails_s.iter().copied().fold(0.0, f64::max)
    }
}

/// Seeds that are run at once: always so many, whatever cores there are, so that a trial that is given up looks the same everywhere.
const AT_ONCE: usize = 2;

/// Runs a size under a year's load. With `gives_up`, seeds are left out when an earlier one has shown that the size is not enough.
pub(super) fn trial(plan: &Plan, racks: u8, year: &Year, size: Size, case: Case, gives_up: bool) -> Result<Trial, PlanError> {
    let scenario = scenario(plan, racks, year, size, case);
    let scale = f64::from(size.libraries) / f64::from(scenario.libraries);
    let mut sum = Sum::default();
    let seeds: Vec<u64> = (0..u64::from(plan.seeds)).map(|index| plan.seed + index).collect();
    for seeds in seeds.chunks(AT_ONCE) {
        let runs: Vec<Result<Run, RunError>> = thread::scope(|scope| {
            let started: Vec<_> = seeds
                .iter()
                .map(|&seed| {
                    scope.spawn({
                        let scenario = &scenario;
                        move || simulation::run(scenario, seed)
                    })
                })
                .collect();
            started.into_iter().map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        for run in runs {
            match run {
                Ok(run) => sum.add(run, plan.service.share, &scenario),
                // Slower than anything that is promised.
                Err(RunError::Unfinished { .. }) => sum.tails_s.push(f64::INFINITY),
                Err(error) => return Err(error.into()),
            }
        }
        if gives_up && sum.trial(plan, year, size, case, scale).short_of.is_some() {
            break;
        }
    }
    Ok(sum.trial(plan, year, size, case, scale))
}

/// Libraries that stand for all of them.
fn simulated_libraries(plan: &Plan, size: Size) -> u16 {
    // A trace says which platters it wants, so it needs all of them.
    if plan.reads.kind == WorkloadKind::Trace { size.libraries } else { size.libraries.min(2) }
}

/// What is simulated.
pub(super) fn scenario(plan: &Plan, racks: u8, year: &Year, size: Size, case: Case) -> Scenario {
    let libraries = simulated_libraries(plan, size);
    let part = f64::from(libraries) / f64::from(size.libraries);
    let like = plan.reads_like();
    let mut workload = share_of(&at_rate(&like, year.reads_per_second), part);
    if case == Case::Library && size.libraries > 1 {
        // Each read of a platter that is away is read from as many others as a set has information platters.
        let (all, reads) = (f64::from(size.libraries), f64::from(plan.like.sets.shape.information));
        workload = at_rate(&workload, workload.rate * (all - 1.0 + reads) / (all - 1.0));
    }
    let mut mechanics = plan.like.mechanics.clone();
    let mut faults = Vec::new();
    let Failures { shuttle_hours, drive_hours, detection_s, repair_s, .. } = plan.failures;
    match case {
        Case::ByChance => {
            mechanics.faults = Faults { shuttle_hours, drive_hours, detection_s, repair_s, ..mechanics.faults };
        }
        Case::Machines => {
            mechanics.faults = Faults { detection_s, repair_s: 1e9, ..mechanics.faults };
            for library in (0..libraries).map(Library) {
                let fault = |what| LibraryFault { library, at: Micros::ZERO, what };
                faults.extend([fault(Breakdown::ShuttleStops(Shuttle(size.shuttles / 2))), fault(Breakdown::DriveDown(Drive(0)))]);
            }
        }
        Case::Nothing | Case::Library => {}
    }
    let per_library = year.platters.div_ceil(u64::from(size.libraries)).max(1);
    let members = u64::from(plan.like.sets.shape.platters());
    // Complete sets over all that are simulated.
    let platters = (per_library * u64::from(libraries)).div_ceil(members) * members / u64::from(libraries);
    let mut layout = plan.like.layout.clone();
    layout.storage_racks = racks;
    layout.drives = [size.drives.div_ceil(2) as u8, (size.drives / 2) as u8];
    layout.shuttles = size.shuttles;
    Scenario {
        name: plan.name.clone(),
        title: format!("Year {} of {}", year.number, plan.name),
        libraries,
        layout,
        platters: platters.max(members.div_ceil(u64::from(libraries))) as u32,
        verification: Verification::Endless,
        mechanics,
        faults,
        workload,
        ingest: None,
        run: RunSettings { cool_down: cool_down(plan.service.in_library()), seed: plan.seed, seeds: plan.seeds, ..plan.like.run },
        ..plan.like.clone()
    }
}

/// Figures of several runs.
#[derive(Default)]
struct Sum {
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
    fn add(&mut self, mut run: Run, share: f64, scenario: &Scenario) {
        let measured_s = scenario.run.measured.seconds();
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

    /// What the runs so far come to; `scale` is libraries over those that were simulated.
    fn trial(&self, plan: &Plan, year: &Year, size: Size, case: Case, scale: f64) -> Trial {
        let runs = self.runs.max(1.0);
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
        };
        let limit_s = (1.0 - plan.margin.service) * plan.service.in_library().seconds();
        // What a shuttle or drive has no time for may show in the tail only after more hours than are simulated.
        trial.short_of = if trial.worst_tail_s() > limit_s {
            Some(Limit::Level)
        } else if trial.verification < 1.0 + plan.margin.verification {
            Some(Limit::Verification)
        } else if trial.reading > 1.0 - plan.margin.idle {
            Some(Limit::DriveTime)
        } else if trial.shuttles_idle < plan.margin.idle {
            Some(Limit::ShuttleTime)
        } else {
            None
        };
        trial
    }
}
