//! The course of a run over simulated time: completion times, queues, and what drives and shuttles
//! do, in bins of equal length, as figures and as a table.
//!
//! ```text
//! bin      0        1        2             10 samples in each bin: requests and platters waiting
//!      |........|........|........|...
//!      ^        ^        ^                 at its ends: time in each state, of all machines
//!      requests that arrive in a bin: their completion times, whenever they end
//! ```
//!
//! The warm-up and the measured interval have at most 120 bins, of a round length. If a long
//! cool-down adds too many, neighbouring bins are merged, so memory is bounded by the bins and the
//! requests in progress.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_library::{RegionOutcome, RequestId};
use fulgurite_mechanics::{DriveState, ShuttleState};
use fulgurite_plot::{Axis, Figure, Panel, Point};
use fulgurite_table::{Column, Table, Value};

use crate::scenario::Scenario;
use crate::simulation::{Activity, Ended, Observer, Request, Sample};
use crate::statistics::Recorder;

/// Maximum number of bins of the warm-up and the measured interval.
const BINS_WANTED: u64 = 120;
/// Number of bins at which neighbours are merged.
const BINS_MAX: usize = 256;
/// Samples of the queues in a bin.
const SAMPLES: u64 = 10;
/// Completion times of a bin that are kept exactly.
const EXACT_TIMES: usize = 4_096;
/// Lengths of a bin, in seconds; longer ones are whole days.
const LENGTHS_S: [u64; 18] = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 21_600, 43_200];
const DAY_S: u64 = 86_400;

/// Observes a run, and draws its course.
#[derive(Debug, Clone)]
pub struct Timeline {
    bins: Vec<Bin>,
    length: Micros,
    next_sample: Micros,
    /// Activity at the start of the last bin.
    before: Activity,
    /// Requests in progress.
    present: u64,
    /// Requests in progress whose completion times are wanted, with their arrival.
    open: BTreeMap<RequestId, Micros>,
    warm_up: Micros,
    /// Later requests have no completion times, because the run doesn't wait for them.
    measured_until: Micros,
}

/// What happened in a bin.
#[derive(Debug, Clone)]
struct Bin {
    from: Micros,
    until: Micros,
    requests: u64,
    censored: u64,
    completions: Recorder,
    present: Queue,
    waiting: Queue,
    activity: Activity,
}

/// Sampled lengths of a queue.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    samples: u64,
    sum: u64,
    most: u64,
}

impl Queue {
    fn sample(&mut self, length: u64) {
        *self = self.and(Self { samples: 1, sum: length, most: length });
    }

    fn and(self, other: Self) -> Self {
        Self { samples: self.samples + other.samples, sum: self.sum + other.sum, most: self.most.max(other.most) }
    }

    fn mean(self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum as f64 / self.samples as f64)
    }
}

impl Bin {
    fn starting(from: Micros) -> Self {
        Self {
            from,
            until: from,
            requests: 0,
            censored: 0,
            completions: Recorder::with_limit(EXACT_TIMES),
            present: Queue::default(),
            waiting: Queue::default(),
            activity: Activity::default(),
        }
    }

    /// This bin and the next one as a single bin.
    fn merged(mut self, next: &Self) -> Self {
        self.completions.merge(&next.completions);
        Self {
            until: next.until,
            requests: self.requests + next.requests,
            censored: self.censored + next.censored,
            present: self.present.and(next.present),
            waiting: self.waiting.and(next.waiting),
            activity: self.activity.plus(&next.activity),
            ..self
        }
    }

    fn middle_s(&self) -> f64 {
        0.5 * (self.from.seconds() + self.until.seconds())
    }

    /// A percentile of completion times in seconds.
    fn percentile_s(&self, part: f64) -> Option<f64> {
        self.completions.clone().percentile(part).map(|micros| micros as f64 / 1e6)
    }
}

impl Timeline {
    /// The timeline of a run of this scenario that is about to begin.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let measured_until = scenario.run.measured_until();
        let length = bin_length(measured_until);
        Self {
            bins: vec![Bin::starting(Micros::ZERO)],
            length,
            next_sample: Micros(length.0 / SAMPLES),
            before: Activity::default(),
            present: 0,
            open: BTreeMap::new(),
            warm_up: scenario.run.warm_up,
            measured_until,
        }
    }

    fn last(&mut self) -> &mut Bin {
        self.bins.last_mut().expect("a timeline has at least one bin")
    }

    fn bin_of(&mut self, arrived: Micros) -> &mut Bin {
        let last = self.bins.len() - 1;
        &mut self.bins[((arrived.0 / self.length.0) as usize).min(last)]
    }

    fn take_sample(&mut self, sample: &Sample<'_>) {
        let (present, waiting) = (self.present, sample.platters_waiting());
        let activity = sample.activity.since(&self.before);
        let bin = self.last();
        bin.present.sample(present);
        bin.waiting.sample(waiting);
        bin.until = sample.at;
        bin.activity = activity;
    }

    /// Halves the number of bins. The last one is complete.
    fn merge_neighbours(&mut self) {
        let bins = std::mem::take(&mut self.bins);
        self.bins = bins.chunks(2).map(|pair| pair[1..].iter().fold(pair[0].clone(), Bin::merged)).collect();
        self.length = self.length + self.length;
    }

    /// One row per bin.
    #[must_use]
    pub fn table(&self) -> Table {
        let columns = [
            Column::f64("from_s", "s", "Start of the bin, from the start of the warm-up."),
            Column::f64("until_s", "s", "End of the bin."),
            Column::i64("requests", "", "Requests that arrived in the bin, up to the end of the measured interval."),
            Column::i64(
                "censored",
                "",
                "Those that had not ended when the run stopped. If there are any, completion times are lower bounds.",
            ),
            Column::f64("p50_s", "s", "Median completion time of these requests."),
            Column::f64("p90_s", "s", "90th percentile of their completion times."),
            Column::f64("longest_s", "s", "The longest of their completion times."),
            Column::f64("requests_present", "", "Mean number of requests in progress, sampled ten times a bin."),
            Column::i64("requests_present_most", "", "Maximum sampled number."),
            Column::f64("platters_waiting", "", "Mean number of platters queued to be fetched, sampled ten times a bin."),
            Column::i64("platters_waiting_most", "", "Maximum sampled number."),
        ];
        let shares = |machines: &str, shares: &[Share]| -> Vec<Column> {
            let column = |share: &Share| Column::f64(&format!("{machines}_{}", share.name), "share", share.about);
            shares.iter().map(column).collect()
        };
        let columns = columns.into_iter().chain(shares("drives", &DRIVES)).chain(shares("shuttles", &SHUTTLES));
        let mut table = Table::new(columns);
        for bin in &self.bins {
            let count = |count: u64| Value::I64(count as i64);
            let row = [
                bin.from.seconds().into(),
                bin.until.seconds().into(),
                count(bin.requests),
                count(bin.censored),
                bin.percentile_s(0.5).into(),
                bin.percentile_s(0.9).into(),
                bin.percentile_s(1.0).into(),
                bin.present.mean().into(),
                count(bin.present.most),
                bin.waiting.mean().into(),
                count(bin.waiting.most),
            ];
            let shares = DRIVES.iter().chain(&SHUTTLES).map(|share| Value::from(share.of(bin)));
            table.push(row.into_iter().chain(shares)).expect("a value for each column");
        }
        table
    }

    /// The figures, with the names of their files. `title` names the run. Figures without data are
    /// left out.
    #[must_use]
    pub fn figures(&self, title: &str) -> Vec<(&'static str, Figure)> {
        let figure = |what: &str, panel: Panel| Figure::new(&format!("{title}: {what}")).width(504.0).panel(panel);
        let mut figures = Vec::new();
        if self.bins.iter().any(|bin| bin.completions.largest() > Some(0)) {
            let percentile = |part: f64| self.points(|bin| bin.percentile_s(part).filter(|seconds| *seconds > 0.0));
            let mut panel = Panel::new(Axis::seconds("Arrival, in simulated time"), Axis::seconds("Completion time").log())
                .line("longest", percentile(1.0))
                .line("90th percentile", percentile(0.9))
                .line("median", percentile(0.5));
            panel = self.marked(panel);
            let what =
                if self.bins.iter().any(|bin| bin.censored > 0) { "completion times (some are lower bounds)" } else { "completion times" };
            figures.push(("completions", figure(what, panel)));
        }
        let mean = |of: fn(&Bin) -> Queue| self.points(move |bin| of(bin).mean());
        let queues = Panel::new(time_axis(), Axis::new("Mean number", "").from(0.0))
            .line("requests in progress", mean(|bin| bin.present))
            .line("platters waiting", mean(|bin| bin.waiting));
        figures.push(("queues", figure("queues", self.marked(queues))));
        for (name, what, shares) in [("drives", "what drives do", &DRIVES[..]), ("shuttles", "what shuttles do", &SHUTTLES)] {
            let mut panel = Panel::new(time_axis(), Axis::share("Share of their time").from(0.0).to(1.0));
            for share in shares {
                let points = self.points(|bin| share.of(bin));
                // States that never occur, such as charging without batteries, are left out.
                if points.iter().any(|point| point.y > 0.0) {
                    panel = panel.line(share.name, points);
                }
            }
            if shares.iter().any(|share| self.bins.iter().any(|bin| share.of(bin) > Some(0.0))) {
                figures.push((name, figure(what, self.marked(panel))));
            }
        }
        figures
    }

    fn points(&self, of: impl Fn(&Bin) -> Option<f64>) -> Vec<Point> {
        self.bins.iter().filter_map(|bin| Some(Point::new(bin.middle_s(), of(bin)?))).collect()
    }

    /// Marks the ends of the measured interval.
    fn marked(&self, mut panel: Panel) -> Panel {
        if self.warm_up > Micros::ZERO {
            panel = panel.mark(self.warm_up.seconds(), "measurement begins");
        }
        panel.mark(self.measured_until.seconds(), "measurement ends")
    }
}

impl Observer for Timeline {
    fn request(&mut self, request: &Request<'_>) {
        self.present += 1;
        if request.at < self.measured_until {
            self.open.insert(request.id, request.at);
            self.bin_of(request.at).requests += 1;
        }
    }

    fn ended(&mut self, ended: &Ended) {
        self.present -= 1;
        // A request that was given up has no completion time.
        let has_bytes = matches!(ended.outcome, RegionOutcome::Read | RegionOutcome::Recovered);
        if self.open.remove(&ended.id).is_some() && has_bytes {
            self.bin_of(ended.arrived).completions.record(ended.at.since(ended.arrived).0);
        }
    }

    fn next_sample(&self) -> Micros {
        self.next_sample
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.take_sample(sample);
        if sample.at >= self.last().from + self.length {
            if self.bins.len() >= BINS_MAX {
                self.merge_neighbours();
            }
            self.before = sample.activity;
            self.bins.push(Bin::starting(sample.at));
        }
        self.next_sample = sample.at + Micros(self.length.0 / SAMPLES);
    }

    fn end(&mut self, sample: &Sample<'_>) {
        if sample.at > self.last().from {
            self.take_sample(sample);
        } else if self.bins.len() > 1 && self.last().requests == 0 {
            self.bins.pop();
        }
        self.next_sample = Micros::NEVER;
        for arrived in std::mem::take(&mut self.open).into_values() {
            let bin = self.bin_of(arrived);
            bin.censored += 1;
            bin.completions.record(sample.at.since(arrived).0);
        }
    }
}

/// The shortest length that divides this time into at most [`BINS_WANTED`] bins.
fn bin_length(time: Micros) -> Micros {
    let least_s = time.0.div_ceil(BINS_WANTED * Micros::SECOND.0);
    let length_s = LENGTHS_S.into_iter().find(|length_s| *length_s >= least_s).unwrap_or(least_s.div_ceil(DAY_S) * DAY_S);
    Micros(length_s * Micros::SECOND.0)
}

fn time_axis() -> Axis {
    Axis::seconds("Simulated time")
}

/// A share of the time of machines, in some of their states.
struct Share {
    /// The end of a column's name, and the name in figures.
    name: &'static str,
    about: &'static str,
    states: States,
}

enum States {
    Drive(&'static [DriveState]),
    Shuttle(&'static [ShuttleState]),
}

impl Share {
    /// `None` without time or machines.
    fn of(&self, bin: &Bin) -> Option<f64> {
        let (part, whole) = match self.states {
            States::Drive(states) => (states.iter().map(|state| bin.activity.drives_in(*state).0).sum(), bin.activity.of_drives().0),
            States::Shuttle(states) => {
                (states.iter().map(|state| bin.activity.shuttles_in(*state).0).sum::<u64>(), bin.activity.of_shuttles().0)
            }
        };
        (whole > 0).then(|| part as f64 / whole as f64)
    }
}

const DRIVES: [Share; 5] = [
    Share {
        name: "reading",
        about: "Share of drive time spent on reads, mounting, seeking and unmounting.",
        states: States::Drive(&[DriveState::Mounting, DriveState::Seeking, DriveState::Reading, DriveState::Unmounting]),
    },
    Share { name: "verifying", about: "Share of drive time spent verifying.", states: States::Drive(&[DriveState::Verifying]) },
    Share {
        name: "switching",
        about: "Share of drive time spent switching between bays.",
        states: States::Drive(&[DriveState::Switching]),
    },
    Share { name: "idle", about: "Share of drive time spent idle.", states: States::Drive(&[DriveState::Idle]) },
    Share { name: "failed", about: "Share of drive time spent out of order.", states: States::Drive(&[DriveState::Failed]) },
];

const SHUTTLES: [Share; 6] = [
    Share { name: "moving", about: "Share of shuttle time spent moving along shelves.", states: States::Shuttle(&[ShuttleState::Moving]) },
    Share { name: "crabbing", about: "Share of shuttle time spent changing shelves.", states: States::Shuttle(&[ShuttleState::Crabbing]) },
    Share {
        name: "handling",
        about: "Share of shuttle time spent picking and placing.",
        states: States::Shuttle(&[ShuttleState::Picking, ShuttleState::Placing]),
    },
    Share {
        name: "charging",
        about: "Share of shuttle time spent charging at a dock.",
        states: States::Shuttle(&[ShuttleState::Charging]),
    },
    Share { name: "idle", about: "Share of shuttle time spent idle.", states: States::Shuttle(&[ShuttleState::Idle]) },
    Share { name: "lost", about: "Share of shuttle time spent out of order.", states: States::Shuttle(&[ShuttleState::Lost]) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_have_round_lengths_and_are_at_most_120() {
        let length_s = |time_s: u64| bin_length(Micros(time_s * 1_000_000)).seconds();
        assert_eq!([1, 120, 121, 7_200, 18 * 3_600, 30 * 86_400].map(length_s), [1.0, 1.0, 2.0, 60.0, 600.0, 21_600.0]);
        assert_eq!(length_s(365 * 86_400), 4.0 * 86_400.0);
    }

    fn timeline() -> Timeline {
        let mut scenario = Scenario::default();
        (scenario.run.warm_up, scenario.run.measured) = (Micros::ZERO, Micros(120_000_000));
        Timeline::new(&scenario)
    }

    fn sampled(timeline: &mut Timeline, region: &fulgurite_library::Region, at: Micros) {
        let mut activity = Activity::default();
        activity.add_drive(&[at; 8]);
        timeline.sample(&Sample { at, region, activity });
    }

    #[test]
    fn a_long_cool_down_merges_bins_and_loses_nothing() {
        let scenario = Scenario { platters: 190, ..Scenario::default() };
        let region = scenario.region(&scenario.stock(1).unwrap());
        let mut timeline = timeline();
        let mut arrivals = 0;
        while timeline.length <= Micros(2_000_000) {
            let (id, at) = (RequestId(arrivals), timeline.next_sample);
            timeline.request(&Request { id, at, shards: &[], bytes: 1, deadline: Micros::NEVER, is_measured: true });
            arrivals += u64::from(at < timeline.measured_until);
            sampled(&mut timeline, &region, at);
        }
        assert_eq!(timeline.length, Micros(4_000_000));
        assert_eq!(timeline.bins.iter().map(|bin| bin.requests).sum::<u64>(), arrivals);
        assert!(timeline.bins.len() <= BINS_MAX);
        for pair in timeline.bins.windows(2) {
            assert_eq!((pair[0].until, pair[0].until.since(pair[0].from)), (pair[1].from, timeline.length));
            assert_eq!(pair[0].activity.drives_in(DriveState::Idle), timeline.length, "the time of a drive");
        }
    }
}
