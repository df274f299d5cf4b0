//! The parameters of the test, its run length, and a one-sided sum.

use super::{EPISODE_KEPT, Ended, Residual};
use crate::thinned::Thinned;

/// Most bins that learning may hold.
const MOST_BINS: u64 = 4_096;

/// The parameters of a [`Detector`](super::Detector). [`Parameters::default`] suits 4 to 24,000
/// checks a day.
///
/// Sums and clips are in units of the usual deviation of a bin, learned for each node and method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Length of a bin in seconds. Congestion is correlated over minutes to hours, so shorter bins
    /// would count it as several witnesses; longer ones delay alarms.
    pub bin_s: u64,
    /// Seconds over which the usual behavior is learned. The first quarter serves to compare size
    /// classes, the rest must show each day of the week at least three times.
    pub learn_s: u64,
    /// Bins that learning requires in any case. The level learned from n bins is wrong by
    /// 1.25 / sqrt(n) deviations, and must be wrong by less than the allowance.
    pub least_bins: u32,
    /// Part of a deviation, in each bin, that is not evidence. Optimal for a change of twice its
    /// size; smaller ones are named late or never.
    pub allowance: f64,
    /// Limit of what one bin can show, in deviations.
    pub clip: f64,
    /// Sum at which a change is named. [`run_length`] gives the bins between false alarms, and
    /// `threshold / (clip - allowance)` the fewest bins of an alarm.
    pub threshold: f64,
    /// Least deviation of a bin, as the logarithm of a ratio. A node with perfectly even times
    /// isn't judged more finely.
    pub finest: f64,
}

impl Default for Parameters {
    /// The values of the study, `docs/audit/slowdown.md`, and where they come from:
    ///
    /// - `threshold` 12.5 with `allowance` 0.5: for normal bins, [`run_length`] is 1.7 million bins
    ///   between false alarms, 390 years at two hours each. The excess is spent on what the formula
    ///   leaves out: heavy tails, congestion, and a level and a deviation learned from few bins.
    /// - `clip` 3: an alarm takes at least 5 bins, so 8 to 10 hours; congestion of up to 6 hours
    ///   touches 4. A greater clip names large slowdowns sooner, and congestion too.
    /// - `allowance` 0.5: the best for a change by one deviation. A twofold slowdown is 2 to 7
    ///   deviations, so it is named about as soon with any value from 0.4 to 0.75; small slowdowns
    ///   need a small one.
    /// - `learn_s` 28 days: a week to compare size classes, and each day of the week three times.
    /// - `finest` 0.1: with the allowance, a lasting change by 5 % is drift and not worth a report.
    fn default() -> Self {
        Self { bin_s: 2 * 3_600, learn_s: 28 * 86_400, least_bins: 40, allowance: 0.5, clip: 3.0, threshold: 12.5, finest: 0.1 }
    }
}

/// The parameters can't work.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the detector's parameter `{name}` is {value}, but must be {must}")]
pub struct ParameterError {
    /// Name of the field.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// What it must be.
    pub must: &'static str,
}

impl Parameters {
    /// Rejects parameters with which the test would never alarm, always alarm, or need unbounded
    /// memory.
    pub(super) fn check(&self) -> Result<(), ParameterError> {
        let rules = [
            ("bin_s", self.bin_s as f64, (60..=7 * 86_400).contains(&self.bin_s), "60 s to a week"),
            (
                "learn_s",
                self.learn_s as f64,
                self.learn_s / self.bin_s.max(1) <= MOST_BINS && self.learn_s >= 86_400,
                "at least a day and at most 4,096 bins",
            ),
            ("least_bins", f64::from(self.least_bins), (8..=MOST_BINS).contains(&u64::from(self.least_bins)), "8 to 4,096"),
            ("allowance", self.allowance, (0.0..=10.0).contains(&self.allowance), "0 to 10"),
            ("clip", self.clip, self.clip >= self.allowance + 0.1 && self.clip <= 100.0, "above the allowance by 0.1 or more, up to 100"),
            ("threshold", self.threshold, (0.1..=10_000.0).contains(&self.threshold), "0.1 to 10,000"),
            ("finest", self.finest, (1e-6..=10.0).contains(&self.finest), "0.000001 to 10"),
        ];
        match rules.into_iter().find(|(_, _, is_valid, _)| !is_valid) {
            None => Ok(()),
            Some((name, value, _, must)) => Err(ParameterError { name, value, must }),
        }
    }

    /// The fewest bins in which a change can be named.
    #[must_use]
    pub fn fewest_bins(&self) -> f64 {
        (self.threshold / (self.clip - self.allowance)).ceil()
    }
}

/// Mean number of bins until a one-sided sum exceeds its threshold, if the mean of the bins is
/// `shift` deviations above the usual level: the time between false alarms for 0, and the delay for
/// a change.
///
/// For normal, independent, unclipped bins. With d = shift - allowance and b = threshold + 1.166,
/// it is (exp(-2 d b) + 2 d b - 1) / (2 d^2), and b^2 for d = 0.
///
/// Source: Siegmund, Sequential Analysis (1985), section II.6, with the correction of 1.166 for
/// sums in discrete time.
#[must_use]
pub fn run_length(shift: f64, allowance: f64, threshold: f64) -> f64 {
    let (drift, bound) = (shift - allowance, threshold + 1.166);
    if drift.abs() < 1e-6 {
        return bound * bound;
    }
    let exponent = 2.0 * drift * bound;
    (libm::exp(-exponent) + exponent - 1.0) / (2.0 * drift * drift)
}

/// A one-sided cumulative sum (Page, 1954), with what happened since it last was 0.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Walk {
    pub(super) sum: f64,
    /// Start of the first bin since the sum was 0: the most likely time of a change.
    pub(super) since_s: u64,
    pub(super) checks: u64,
    pub(super) unanswered: u64,
    pub(super) residuals: Thinned<Residual>,
}

impl Walk {
    pub(super) fn new() -> Self {
        Self { sum: 0.0, since_s: 0, checks: 0, unanswered: 0, residuals: Thinned::new(EPISODE_KEPT) }
    }

    pub(super) fn add(&mut self, increment: f64, bin: &Ended, residual: f32) {
        if self.sum + increment <= 0.0 {
            return self.clear();
        }
        if self.sum == 0.0 {
            self.since_s = bin.start_s;
        }
        self.sum += increment;
        self.checks += bin.checks;
        self.unanswered += bin.unanswered;
        self.residuals.push((bin.start_s, residual));
    }

    pub(super) fn clear(&mut self) {
        self.sum = 0.0;
        self.checks = 0;
        self.unanswered = 0;
        self.residuals.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_chance::Stream;

    #[test]
    fn the_run_length_is_that_of_simulated_sums() {
        let seed = 7;
        println!("seed {seed}");
        let mut noise = Stream::new(seed, "run length");
        for (shift, allowance, threshold) in [(0.0, 0.5, 4.0), (0.0, 1.0, 2.5), (1.0, 0.5, 8.0), (2.0, 0.5, 12.0), (0.5, 0.5, 6.0)] {
            let runs = 4_000;
            let mut bins = 0_u32;
            for _ in 0..runs {
                let mut sum = 0.0_f64;
                while sum < threshold {
                    sum = (sum + shift + noise.normal() - allowance).max(0.0);
                    bins += 1;
                }
            }
            let (found, formula) = (f64::from(bins) / f64::from(runs), run_length(shift, allowance, threshold));
            assert!((found / formula - 1.0).abs() < 0.12, "shift {shift}: {found} bins instead of {formula}");
        }
    }

    #[test]
    fn the_default_allows_one_alarm_in_centuries_of_normal_bins_and_outlasts_six_hours() {
        let Parameters { bin_s, allowance, clip, threshold, .. } = Parameters::default();
        let years = run_length(0.0, allowance, threshold) * bin_s as f64 / 31_557_600.0;
        assert_eq!(years.round(), 393.0);
        assert_eq!(Parameters::default().fewest_bins(), 5.0);
        // Six hours that begin within a bin touch four bins.
        assert!(4.0 * (clip - allowance) < threshold);
    }

    #[test]
    fn parameters_that_can_not_work_are_rejected_by_name() {
        let good = Parameters::default();
        assert_eq!(good.check(), Ok(()));
        for (name, parameters) in [
            ("bin_s", Parameters { bin_s: 0, ..good }),
            ("learn_s", Parameters { learn_s: u64::MAX, ..good }),
            ("learn_s", Parameters { learn_s: 60, ..good }),
            ("least_bins", Parameters { least_bins: 0, ..good }),
            ("allowance", Parameters { allowance: f64::NAN, ..good }),
            ("clip", Parameters { clip: 0.5, ..good }),
            ("threshold", Parameters { threshold: f64::INFINITY, ..good }),
            ("finest", Parameters { finest: 0.0, ..good }),
        ] {
            assert_eq!(parameters.check().unwrap_err().name, name);
        }
    }
}
