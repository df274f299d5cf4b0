//! The decode service of a run: every request that leaves the libraries with its bytes becomes a
//! job. Its figures are reported separately, as in Project Silica (SOSP '23, section 7.2); it
//! does not affect the run.

use fulgurite_decode::{Class, DecodeService, Job};
use fulgurite_domain::Micros;
use fulgurite_library::RegionOutcome;

use super::observer::{Ended, Observer};
use crate::scenario::Decode;
use crate::statistics::Recorder;

/// Content of a sector, the smallest unit of decoding: 100 kB (SOSP '23, section 3).
const SECTOR_BYTES: u64 = 100_000;

/// What the decode service did with the requests of a run.
#[derive(Debug, Clone)]
pub struct DecodeFigures {
    /// Accepted jobs.
    pub jobs: u64,
    /// Jobs decoded after their deadline, or still waiting 31 days after the run, past it.
    pub late: u64,
    /// Jobs rejected because the queue was full.
    pub turned_away: u64,
    /// Time from the last byte leaving the library until it is decoded, in microseconds, of the
    /// jobs decoded by then.
    pub waits: Recorder,
    /// Cost of the workers.
    pub cost: f64,
    /// Cost of the same work at the mean price.
    pub cost_at_mean_price: f64,
    /// Share of the available workers that were used.
    pub utilization: f64,
}

/// Submits requests to the decode service as they end.
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

    /// Continues until all jobs are done, for 31 days at most.
    pub(super) fn figures(mut self, now: Micros) -> DecodeFigures {
        let mut until = now;
        while self.service.waiting() > 0 && until < now + Micros(31 * 24 * Micros::HOUR.0) {
            until += Micros::HOUR;
            self.advance(until);
        }
        let totals = self.service.totals();
        DecodeFigures {
            jobs: totals.jobs + self.service.waiting() as u64,
            late: totals.late + self.service.overdue(),
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
            class: Class::Deferrable,
            ready: ended.at,
            work: Micros::from_seconds(ended.bytes as f64 / self.bytes_per_second).max(Micros(1)),
            width: ended.bytes.div_ceil(SECTOR_BYTES).clamp(1, u64::from(u32::MAX)) as u32,
            deadline: ended.deadline,
        };
        self.turned_away += u64::from(self.service.submit(job).is_err());
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_library::RequestId;

    use super::*;

    #[test]
    fn jobs_that_are_not_decoded_in_a_month_are_late() {
        // One worker needs two days for each of 20 jobs.
        let mut decode = Decode { throughput_bytes_s: 1e6, ..Decode::default() };
        decode.service.workers = [1; 24];
        let mut decoding = Decoding::new(&decode);
        for id in 0..20 {
            let deadline = if id == 19 { Micros::NEVER } else { Micros::HOUR };
            let ended = Ended {
                id: RequestId(id),
                arrived: Micros::ZERO,
                at: Micros::ZERO,
                bytes: 2 * 86_400 * 1_000_000,
                deadline,
                outcome: RegionOutcome::Read,
                is_measured: true,
            };
            decoding.ended(&ended);
        }
        let figures = decoding.figures(Micros::ZERO);
        assert!(figures.waits.count() < 20, "some still wait");
        assert_eq!((figures.jobs, figures.late), (20, 19));
    }
}
