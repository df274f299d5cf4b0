//! Compares a run with the expectations of its scenario.

use fulgurite_domain::Micros;

use crate::scenario::Expectations;
use crate::simulation::Run;

/// An expectation that a run did not meet.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum Missed {
    #[error("{what} is {found_s:.3} s; expected at most {expected}")]
    Time {
        what: &'static str,
        /// Measured time, in seconds.
        found_s: f64,
        expected: Micros,
    },
    #[error("{what} is at least {found_s:.3} s, because {censored} requests had not ended; expected at most {expected}")]
    Censored {
        what: &'static str,
        /// Lower bound of the time, in seconds.
        found_s: f64,
        censored: u64,
        expected: Micros,
    },
    #[error("no request was measured that got its bytes, so {what} is unknown; expected at most {expected}")]
    Nothing { what: &'static str, expected: Micros },
    #[error("a share of {found:.4} of the requests ended without their bytes; expected at most {expected}")]
    Lost {
        /// Measured share, 0 to 1.
        found: f64,
        expected: f64,
    },
    #[error(
        "the tail is at least {found:.3} times the bound, because {censored} requests had not ended; expected at most {expected} times"
    )]
    CensoredOverBound { found: f64, censored: u64, expected: f64 },
    #[error("the tail is {found:.3} times the bound; expected at most {expected} times")]
    OverBound { found: f64, expected: f64 },
    #[error(
        "the scenario limits the tail over the bound, but no bound is known: requests ended without their bytes, or there were too many \
         reads to compute it, or so few that it is 0"
    )]
    NoBound,
    #[error("{found} written platters waited to be verified or were being verified; expected at most {expected}")]
    Unverified { found: u64, expected: u32 },
}

impl Expectations {
    /// The expectations that this run missed. A limit of a completion time also counts as missed if
    /// requests were unfinished, because the run gives only a lower bound of that time.
    #[must_use]
    pub fn missed(&self, run: &Run) -> Vec<Missed> {
        let mut completions = run.completions.clone();
        let tail_s = completions.percentile(crate::bound::TAIL_QUANTILE).unwrap_or(0) as f64 / 1e6;
        let censored = run.censored();
        let mut missed = Vec::new();
        let times = [
            ("the 99.9th percentile of completion times", tail_s, self.tail_at_most),
            ("the longest completion time", run.longest_s(), self.longest_at_most),
            ("the mean completion time", run.mean_s(), self.mean_at_most),
        ];
        for (what, found_s, expected) in times {
            let Some(expected) = expected else { continue };
            if run.completions.count() == 0 {
                missed.push(Missed::Nothing { what, expected });
            } else if censored > 0 {
                missed.push(Missed::Censored { what, found_s, censored, expected });
            } else if found_s > expected.seconds() {
                missed.push(Missed::Time { what, found_s, expected });
            }
        }
        let lost = run.lost();
        if lost > self.lost_at_most {
            missed.push(Missed::Lost { found: lost, expected: self.lost_at_most });
        }
        let unverified = run.system.unverified_most;
        if let Some(expected) = self.unverified_at_most.filter(|expected| unverified > u64::from(*expected)) {
            missed.push(Missed::Unverified { found: unverified, expected });
        }
        if let Some(expected) = self.tail_over_bound_at_most {
            match run.bound.map(|bound| bound.tail.seconds()).filter(|bound_s| *bound_s > 0.0) {
                None => missed.push(Missed::NoBound),
                Some(bound_s) if censored > 0 => {
                    missed.push(Missed::CensoredOverBound { found: tail_s / bound_s, censored, expected });
                }
                Some(bound_s) if tail_s > expected * bound_s => missed.push(Missed::OverBound { found: tail_s / bound_s, expected }),
                Some(_) => {}
            }
        }
        missed
    }
}
