//! The decode workers that a year needs: reads are decoded by their deadline, verified data when
//! computing is cheap.
//!
//! The reads of the first seed's run go to the decode service as they left the library, grouped
//! into slots of five minutes, and are repeated each interval until two days are over. The workers
//! needed are the fewest with which no job is late and the work doesn't pile up.

use fulgurite_decode::{Class, DecodeService, Job, Settings, Totals};
use fulgurite_domain::Micros;
use fulgurite_library::RegionOutcome;

use super::load::Year;
use super::{DecodeNeed, Plan, Trial};
use crate::scenario::Scenario;
use crate::simulation::{Ended, Observer};

const SLOT_DURATION: Micros = Micros(300 * Micros::SECOND.0);
const TWO_DAYS: Micros = Micros(48 * Micros::HOUR.0);

/// Requests whose bytes left the libraries in a slot of five minutes: bytes of whole tracks, and
/// the least time from an end to its deadline (0 if it is past).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Departures {
    bytes: f64,
    due_within: Option<Micros>,
}

/// Collects the departures of the measured interval, by the slot in which they ended.
pub(super) struct DepartureRecorder {
    begin: Micros,
    track_bytes: u64,
    pub(super) slots: Vec<Departures>,
}

impl DepartureRecorder {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let slots = (scenario.run.measured.0 / SLOT_DURATION.0).max(1) as usize;
        Self { begin: scenario.run.warm_up, track_bytes: scenario.mechanics.drive.track_bytes, slots: vec![Departures::default(); slots] }
    }
}

impl Observer for DepartureRecorder {
    fn ended(&mut self, ended: &Ended) {
        if !matches!(ended.outcome, RegionOutcome::Read | RegionOutcome::Recovered) {
            return;
        }
        let Some(slot) =
            (ended.at >= self.begin).then(|| self.slots.get_mut((ended.at.since(self.begin).0 / SLOT_DURATION.0) as usize)).flatten()
        else {
            return;
        };
        slot.bytes += (ended.bytes.div_ceil(self.track_bytes) * self.track_bytes) as f64;
        let time_left = ended.deadline.since(ended.at);
        slot.due_within = Some(slot.due_within.map_or(time_left, |due| due.min(time_left)));
    }
}

pub(super) fn need(plan: &Plan, year: &Year, trial: &Trial) -> DecodeNeed {
    let scale = f64::from(trial.size.libraries) / f64::from(trial.simulated);
    let verification = year.written_bytes_s / plan.decode_bytes_s;
    let read_bytes: f64 = trial.departures.iter().map(|slot| slot.bytes * scale).sum();
    let mean = verification + read_bytes / (trial.departures.len().max(1) as f64 * SLOT_DURATION.seconds()) / plan.decode_bytes_s;
    let decoded = |workers| decode_two_days(plan, &trial.departures, scale, year.written_bytes_s, workers);
    // The mean itself must fit into what the reserve leaves.
    let reserve = Settings::default().reserve;
    let mut low = ((mean / (1.0 - reserve)).ceil() as u32).max(1);
    let mut high = low;
    while decoded(high).late > 0 && high < u32::MAX / 2 {
        low = high + 1;
        high *= 2;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if decoded(middle).late > 0 { low = middle + 1 } else { high = middle }
    }
    let totals = decoded(high);
    // The second day: the first begins without work from the day before.
    let by_hour = std::array::from_fn(|hour| totals.workers.get(24 + hour).copied().unwrap_or(0.0));
    DecodeNeed { mean, verification, must_have: high, by_hour }
}

/// Simulates two days of departures with `workers` workers at every hour, and the two days after
/// them, in which what is left is decoded.
fn decode_two_days(plan: &Plan, slots: &[Departures], scale: f64, verified_bytes_s: f64, workers: u32) -> Totals {
    let mut service = DecodeService::new(Settings { workers: [workers; 24], jobs_max: usize::MAX, ..Settings::default() });
    let work = |bytes: f64| Micros::from_seconds(bytes / plan.decode_bytes_s);
    for index in 0..TWO_DAYS.0 / SLOT_DURATION.0 {
        let at = Micros((index + 1) * SLOT_DURATION.0);
        service.advance(at, |_| ());
        let departures = slots[index as usize % slots.len()];
        // The service level allows a share of the requests to leave the libraries too late, and no
        // number of workers makes them be in time: they get the time reserved for decoding.
        let least = plan.service.for_decoding.max(SLOT_DURATION);
        let due = departures.due_within.map_or(Micros::NEVER, |within| at + within.max(least));
        let verified = (work(verified_bytes_s * SLOT_DURATION.seconds()), Micros::NEVER);
        for (id, (work, deadline)) in [(work(departures.bytes * scale), due), verified].into_iter().enumerate() {
            if work > Micros::ZERO {
                // Sectors are independent: any number of workers can share them.
                let job = Job { id: id as u64, class: Class::Deferrable, ready: at, work, width: u32::MAX, deadline };
                service.submit(job).expect("any number of jobs may wait");
            }
        }
    }
    service.advance(Micros(2 * TWO_DAYS.0), |_| ());
    service.totals().clone()
}

#[cfg(test)]
mod tests {
    use fulgurite_library::RequestId;

    use super::super::{Case, Size};
    use super::*;

    fn ended(at_s: u64, deadline_s: u64, outcome: RegionOutcome) -> Ended {
        let [at, deadline] = [at_s, deadline_s].map(|seconds| Micros(seconds * Micros::SECOND.0));
        Ended { id: RequestId(0), arrived: Micros::ZERO, at, bytes: 1_000_000_000, deadline, outcome, is_measured: true }
    }

    #[test]
    fn requests_without_bytes_are_no_decode_work() {
        let mut recorder = DepartureRecorder::new(&Scenario::default());
        let at_s = recorder.begin.seconds() as u64;
        recorder.ended(&ended(at_s, at_s + 60, RegionOutcome::Unavailable));
        recorder.ended(&ended(at_s, at_s + 60, RegionOutcome::Refused));
        assert_eq!(recorder.slots[0], Departures::default());
        recorder.ended(&ended(at_s, at_s + 60, RegionOutcome::Recovered));
        assert_eq!(recorder.slots[0].due_within, Some(Micros(60 * Micros::SECOND.0)));
        assert!(recorder.slots[0].bytes >= 1e9);
    }

    /// A request that leaves the libraries too late is no reason for more workers than one in time.
    #[test]
    fn late_departures_get_the_time_reserved_for_decoding() {
        for for_decoding in ["1 h", "0 s"] {
            let text = format!("[ingest]\nper_month = \"100 TB\"\n[service]\nfor_decoding = \"{for_decoding}\"\n");
            let plan = Plan::parse("late", &text, &[]).unwrap();
            let workers = |due_within| {
                let departures = vec![Departures { bytes: 1e9, due_within: Some(due_within) }];
                need(&plan, &plan.year(1), &trial(departures)).must_have
            };
            let in_time = workers(plan.service.for_decoding.max(SLOT_DURATION));
            assert!(in_time < 1_000, "{in_time}");
            assert_eq!([Micros::ZERO, Micros(1)].map(workers), [in_time; 2]);
        }
    }

    fn trial(departures: Vec<Departures>) -> Trial {
        Trial {
            size: Size { libraries: 1, drives: 1, shuttles: 1 },
            case: Case::Nothing,
            tails_s: vec![],
            requests: 1,
            lost: 0.0,
            reading: 0.0,
            verifying: 0.0,
            shuttles_idle: 0.0,
            shuttles_moving: 0.0,
            verified_bytes_s: 0.0,
            verification: 0.0,
            read_bytes_s: 0.0,
            motion_w: 0.0,
            short_of: None,
            simulated: 1,
            departures,
        }
    }
}
