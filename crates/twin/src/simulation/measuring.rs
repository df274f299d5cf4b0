//! Measurements taken during a run.
//!
//! ```text
//!  0            warm-up        begin              measured                 end      cool-down
//!  |---------------------------|--------------------------------------------|-----------------|
//!                              ^ figures of drives and shuttles, less those ^
//!     requests that arrive here:    count, whenever they end                                  ^ those still open are censored
//! ```

use fulgurite_domain::Micros;
use fulgurite_library::{Congestion, Drive, Library, Region, RegionOutcome, RequestId, Shard, Shuttle};
use fulgurite_mechanics::{DriveStatistics, Mechanics, MotionLog, ShuttleStatistics};

use super::figures::{DriveFigures, Outcomes, Run, ShuttleFigures, SystemFigures};
use super::observer::{Ended, platters_waiting};
use super::requests::OpenRequest;
use crate::bound::{ARRIVALS_MAX, Arrival, Bound, TAIL_QUANTILE};
use crate::scenario::{RunSettings, Scenario, Stock};
use crate::statistics::{Recorder, TimeWeighted};

/// Sampling interval of the queues of platters.
const SAMPLING_INTERVAL: Micros = Micros(60_000_000);

pub(super) struct Measuring {
    begin: Micros,
    end: Micros,
    /// Instant of the next measurement.
    pub(super) next_measurement: Micros,
    at_begin: Option<Figures>,
    at_end: Option<Figures>,
    requests: u64,
    reads: u64,
    bytes: u64,
    completions: Recorder,
    outcomes: Outcomes,
    /// Times of the trips that ended in the measured interval, in microseconds.
    trips: Recorder,
    /// Of each library, after its last event.
    congestion: Vec<Congestion>,
    /// Requests in progress: over the measured interval, and over the whole run.
    present: TimeWeighted,
    present_all: TimeWeighted,
    present_at_end: (f64, f64),
    spent_us: u64,
    samples: u64,
    waiting_sum: u64,
    waiting_max: u64,
    unverified_max: u64,
    last_end: Micros,
    /// All reads, for the bound; `None` if there are too many.
    arrivals: Option<Vec<Arrival>>,
}

struct Figures {
    drives: Vec<DriveStatistics>,
    shuttles: Vec<ShuttleStatistics>,
    congestion: Congestion,
}

impl Figures {
    fn of<L: MotionLog>(at: Micros, region: &Region, mechanics: &[Mechanics<L>]) -> Self {
        let (mut drives, mut shuttles, mut congestion) = (Vec::new(), Vec::new(), Congestion::default());
        for (controller, machines) in region.controllers().iter().zip(mechanics) {
            let layout = machines.layout();
            drives.extend((0..layout.drive_count()).map(|drive| machines.drive_statistics(Drive(drive), at)));
            shuttles.extend((0..layout.shuttles).map(|shuttle| machines.shuttle_statistics(Shuttle(shuttle), at)));
            let here = controller.panel().congestion();
            congestion.trips += here.trips;
            congestion.taken += here.taken;
            congestion.unhindered += here.unhindered;
            congestion.evasions += here.evasions;
        }
        Self { drives, shuttles, congestion }
    }
}

impl Measuring {
    pub(super) fn new(run: &RunSettings, libraries: u16) -> Self {
        Self {
            begin: run.warm_up,
            end: run.measured_until(),
            next_measurement: run.warm_up,
            at_begin: None,
            at_end: None,
            requests: 0,
            reads: 0,
            bytes: 0,
            completions: Recorder::new(),
            outcomes: Outcomes::default(),
            trips: Recorder::new(),
            congestion: vec![Congestion::default(); libraries.into()],
            present: TimeWeighted::new(Micros::ZERO, 0.0),
            present_all: TimeWeighted::new(Micros::ZERO, 0.0),
            present_at_end: (0.0, 0.0),
            spent_us: 0,
            samples: 0,
            waiting_sum: 0,
            waiting_max: 0,
            unverified_max: 0,
            last_end: Micros::ZERO,
            arrivals: Some(Vec::new()),
        }
    }

    /// Takes the measurements that are due up to `at`, before anything happens at that instant.
    pub(super) fn measure<L: MotionLog>(&mut self, at: Micros, region: &Region, mechanics: &[Mechanics<L>]) {
        while self.next_measurement <= at {
            let mark = self.next_measurement;
            if mark == self.begin && self.at_begin.is_none() {
                self.at_begin = Some(Figures::of(mark, region, mechanics));
                self.present.restart(mark);
            }
            if mark == self.end {
                self.at_end = Some(Figures::of(mark, region, mechanics));
                self.present_at_end = (self.present.average(mark).unwrap_or(0.0), self.present.largest());
                self.next_measurement = Micros::NEVER;
                return;
            }
            let waiting = platters_waiting(region);
            self.samples += 1;
            self.waiting_sum += waiting;
            self.waiting_max = self.waiting_max.max(waiting);
            let unverified = region.controllers().iter().map(|one| u64::from(one.panel().unverified())).sum();
            self.unverified_max = self.unverified_max.max(unverified);
            self.next_measurement = (mark + SAMPLING_INTERVAL).min(self.end);
        }
    }

    /// A library's controller has handled an event. An event ends one trip at most.
    pub(super) fn stepped(&mut self, at: Micros, library: Library, congestion: Congestion) {
        let before = std::mem::replace(&mut self.congestion[usize::from(library.0)], congestion);
        if congestion.trips > before.trips && at >= self.begin && at < self.end {
            self.trips.record(congestion.taken.since(before.taken).0);
        }
    }

    pub(super) fn arrived(&mut self, at: Micros, is_measured: bool, id: RequestId, shards: &[Shard]) {
        self.present.change(at, 1.0);
        self.present_all.change(at, 1.0);
        if is_measured {
            self.requests += 1;
            self.reads += shards.len() as u64;
        }
        let has_other_shards = shards.len() > 1;
        let arrival =
            |shard: &Shard| Arrival { at, request: id.0, platter: shard.platter, tracks: shard.tracks, has_other_shards, is_measured };
        match &mut self.arrivals {
            Some(arrivals) if arrivals.len() + shards.len() <= ARRIVALS_MAX => arrivals.extend(shards.iter().map(arrival)),
            arrivals => *arrivals = None,
        }
    }

    pub(super) fn ended(&mut self, ended: &Ended) {
        self.present.change(ended.at, -1.0);
        self.present_all.change(ended.at, -1.0);
        let completion_time = ended.at.since(ended.arrived);
        self.spent_us += completion_time.0;
        if ended.is_measured {
            // A request that was given up has no completion time. It may have ended at once, and
            // would make a library that loses requests look fast.
            if matches!(ended.outcome, RegionOutcome::Read | RegionOutcome::Recovered) {
                self.completions.record(completion_time.0);
            }
            self.outcomes.count(ended.outcome);
            self.bytes += ended.bytes;
            self.last_end = ended.at;
        }
    }

    /// A measured request had not ended when the run stopped.
    pub(super) fn censored(&mut self, at: Micros, request: &OpenRequest) {
        self.completions.record(at.since(request.arrived).0);
        self.bytes += request.bytes;
        self.last_end = at;
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// The figures of a run that ended at `now`. `unfinished_us` is the total time that the
    /// requests still in progress have spent.
    pub(super) fn into_run(mut self, now: Micros, unfinished_us: u64, scenario: &Scenario, stock: &Stock) -> Run {
        let (begin, end) = self.at_begin.zip(self.at_end).expect("both ends of the interval were marked");
        let drives: Vec<DriveStatistics> = end.drives.iter().zip(&begin.drives).map(|(end, begin)| end.since(begin)).collect();
        let shuttles: Vec<ShuttleStatistics> = end.shuttles.iter().zip(&begin.shuttles).map(|(end, begin)| end.since(begin)).collect();
        let congestion = Congestion {
            trips: end.congestion.trips - begin.congestion.trips,
            taken: end.congestion.taken - begin.congestion.taken,
            unhindered: end.congestion.unhindered - begin.congestion.unhindered,
            evasions: end.congestion.evasions - begin.congestion.evasions,
        };
        let trip_tail = Micros(self.trips.percentile(TAIL_QUANTILE).unwrap_or(0));
        // The bound is of all requests, the tail of those that got their bytes.
        let arrivals = self.arrivals.filter(|_| self.outcomes.lost() == 0.0);
        let bound = arrivals.map(|arrivals| Bound::of(scenario, stock, &arrivals, self.requests));
        Run {
            scenario: scenario.name.clone(),
            seed: 0,
            requests: self.requests,
            unfinished: None,
            reads: self.reads,
            bytes: self.bytes,
            completions: self.completions,
            outcomes: self.outcomes,
            recoveries: 0,
            events: 0,
            ended_at: self.last_end,
            drives: DriveFigures::of(&drives, scenario.mechanics.drive.track_bytes),
            shuttles: ShuttleFigures { trip_tail, ..ShuttleFigures::of(&shuttles, congestion) },
            system: SystemFigures {
                requests: self.present_at_end.0,
                requests_most: self.present_at_end.1,
                platters_waiting: if self.samples > 0 { self.waiting_sum as f64 / self.samples as f64 } else { 0.0 },
                platters_waiting_most: self.waiting_max,
                unverified_most: self.unverified_max,
                request_seconds_present: self.present_all.integral(now),
                request_seconds_spent: (self.spent_us + unfinished_us) as f64 / 1e6,
            },
            bound,
            decode: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trips_that_end_in_the_measured_interval_are_recorded_one_by_one() {
        let run = RunSettings { warm_up: Micros(100), measured: Micros(1_000), ..Scenario::default().run };
        let mut measuring = Measuring::new(&run, 2);
        let mut step = |at, library, trips, taken| {
            measuring.stepped(Micros(at), Library(library), Congestion { trips, taken: Micros(taken), ..Congestion::default() });
        };
        step(50, 0, 1, 40);
        step(200, 1, 1, 70);
        step(300, 0, 2, 100);
        step(301, 0, 2, 100);
        step(1_100, 0, 3, 900);
        let trips = &measuring.trips;
        assert_eq!((trips.count(), trips.smallest(), trips.largest()), (2, Some(60), Some(70)));
    }
}
