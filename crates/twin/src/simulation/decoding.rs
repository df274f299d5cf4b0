//! The decode service behind a run's libraries: whatever leaves them becomes a job, and is decoded by its deadline. It is reported apart, as in
//! Project Silica (SOSP '23, section 7.2), and changes nothing of the run.

use fulgurite_domain::Micros;
use fulgurite_library::RegionOutcome;

use super::observer::{Ended, Observer};
use crate::decode::{DecodeService, Job};
use crate::scenario::Decode;
use crate::statistics::Recorder;

/// Images of a sector: the least that is decoded by itself. 100 kB (P, section 3).
const SECTOR_BYTES: u64 = 100_000;

/// What the decode service did with all requests of a run.
#[derive(Debug, Clone)]
pub struct DecodeFigures {
    /// Jobs done.
    pub jobs: u64,
    /// Those done after their deadline.
    pub late: u64,
    /// Those that came when no more could wait, and were not done.
    pub turned_away: u64,
    /// From the last byte leaving the library to its being decoded, in microseconds.
    pub waits: Recorder,
    /// What the workers cost.
    pub cost: f64,
    /// What they would have cost, had all work been done at the mean price.
    pub cost_at_mean_price: f64,
    /// Share of the workers that could be had that worked.
    pub utilization: f64,
}

/// Hands requests to the service as they end.
pub(super) struct Decoding {
    service: DecodeService,
    bytes_per_second: f64,
    mean_price: f64,
    turned_away: u64,
    waits: Recorder,
}

impl Decoding {
    pub(super) fn new(decode: &Decode) -> Self {
        Self {
            service: DecodeService::new(decode.service.clone()),
            bytes_per_second: decode.throughput_bytes_s,
            mean_price: decode.service.prices.iter().sum::<f64>() / 24.0,
            turned_away: 0,
            waits: Recorder::new(),
        }
    }

    fn advance(&mut self, until: Micros) {
        let waits = &mut self.waits;
        self.service.advance(until, |decoded| waits.record(decoded.at.since(decoded.job.ready).0));
    }

    /// Goes on until all is done, but no longer than a month.
    pub(super) fn figures(mut self, now: Micros) -> DecodeFigures {
        let mut until = now;
        while self.service.waiting() > 0 && until < now + Micros(31 * 24 * Micros::HOUR.0) {
            until += Micros::HOUR;
            self.advance(until);
        }
        let totals = self.service.totals();
        DecodeFigures {
            jobs: totals.jobs,
            late: totals.late,
            turned_away: self.turned_away,
            waits: self.waits,
            cost: totals.cost,
            cost_at_mean_price: totals.busy_seconds / 3600.0 * self.mean_price,
            utilization: totals.utilization(),
        }
    }
}

impl Observer for Decoding {
    fn ended(&mut self, ended: &Ended) {
        if !matches!(ended.outcome, RegionOutcome::Read | RegionOutcome::Recovered) {
            return;
        }
        self.advance(ended.at);
        let job = Job {
            id: ended.id.0,
            ready: ended.at,
            work: Micros::from_seconds(ended.bytes as f64 / self.bytes_per_second).max(Micros(1)),
            width: ended.bytes.div_ceil(SECTOR_BYTES).clamp(1, u64::from(u32::MAX)) as u32,
            deadline: ended.deadline,
        };
        self.turned_away += u64::from(self.service.submit(job).is_err());
    }
}
