//! Whether a run is as its scenario says it should be.

use fulgurite_domain::Micros;

use crate::scenario::Expectations;
use crate::simulation::Run;

/// Something that was expected and did not come out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Missed {
    /// A completion time is too long.
    #[error("{what} is {found_s:.3} s, and at most {expected} is expected")]
    Time {
        /// Which.
        what: &'static str,
        /// What it is, in seconds.
        found_s: f64,
        /// What it may be.
        expected: Micros,
    },
    /// Too many requests ended without their bytes.
    #[error("{found:.4} of the requests ended without their bytes, and at most {expected} is expected")]
    Lost {
        /// The share.
        found: f64,
        /// What it may be.
        expected: f64,
    },
    /// The tail is too far above the bound.
    #[error("the tail is {found:.3} times the bound, and at most {expected} times is expected")]
    OverBound {
        /// By what factor.
        found: f64,
        /// What it may be.
        expected: f64,
    },
    /// There is no bound to compare with.
    #[error("the tail is expected to be near the bound, and there is none: too many reads, or no time that is too short for them")]
    NoBound,
}

impl Expectations {
    /// What did not come out as expected.
    #[must_use]
    pub fn missed(&self, run: &Run) -> Vec<Missed> {
        let mut completions = run.completions.clone();
        let tail_s = completions.percentile(crate::bound::TAIL).unwrap_or(0) as f64 / 1e6;
        let mut missed = Vec::new();
        let times = [
            ("the 99.9th percentile of completion times", tail_s, self.tail_at_most),
            ("the longest completion time", run.longest_s(), self.longest_at_most),
            ("the mean completion time", run.mean_s(), self.mean_at_most),
        ];
        for (what, found_s, expected) in times {
            if let Some(expected) = expected.filter(|expected| found_s > expected.seconds()) {
                missed.push(Missed::Time { what, found_s, expected });
            }
        }
        let lost = run.outcomes.lost();
        if lost > self.lost_at_most {
            missed.push(Missed::Lost { found: lost, expected: self.lost_at_most });
        }
        if let Some(expected) = self.tail_over_bound_at_most {
            match run.bound.map(|bound| bound.tail.seconds()).filter(|bound_s| *bound_s > 0.0) {
                None => missed.push(Missed::NoBound),
                Some(bound_s) if tail_s > expected * bound_s => missed.push(Missed::OverBound { found: tail_s / bound_s, expected }),
                Some(_) => {}
            }
        }
        missed
    }
}
