//! Confidence intervals of a mean, over independent runs or over batches of one long run.

use super::{Moments, student_t_quantile};

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean of the runs or batches.
    pub mean: f64,
    /// Half the width of the interval, in the unit of the mean.
    pub half_width: f64,
    /// Number of runs or batches.
    pub count: u64,
}

impl Interval {
    /// The lower end.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.mean - self.half_width
    }

    /// The upper end.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.mean + self.half_width
    }

    /// True if the interval contains this value, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low() <= value && value <= self.high()
    }

    /// Half the width relative to the mean; `None` if the mean is zero.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        (self.mean != 0.0).then(|| self.half_width / self.mean.abs())
    }
}

/// The interval that contains the true mean with probability `level` (such as 0.95), from one value
/// per independent run: its mean, or its 99.9th percentile. `None` for fewer than two runs, because
/// one run says nothing about the spread.
///
/// The values are assumed to be approximately normal, as means of many requests are. Percentiles of
/// few requests are skewed, so their intervals are too narrow on the upper side.
///
/// # Panics
/// If `level` isn't between 0 and 1.
#[must_use]
pub fn confidence(values: &[f64], level: f64) -> Option<Interval> {
    assert!(level > 0.0 && level < 1.0, "a confidence of {level} is not between 0 and 1");
    let moments: Moments = values.iter().copied().collect();
    let (mean, variance) = (moments.mean()?, moments.variance()?);
    let count = moments.count();
    let t = student_t_quantile(0.5 + 0.5 * level, count - 1);
    Some(Interval { mean, half_width: t * (variance / count as f64).sqrt(), count })
}

/// The interval for the mean of one long run with correlated values, such as waits. The values are
/// cut in order into `batches` of equal length; batch means are nearly independent if batches are
/// much longer than the memory of the queue. Excess values are dropped at the beginning, where the
/// warm-up may still have an effect. `None` for fewer than two batches, or fewer values than
/// batches.
///
/// # Panics
/// If `level` isn't between 0 and 1.
///
/// Source: A. M. Law, Simulation Modeling and Analysis, 5th ed. (2015), 9.5.3.
#[must_use]
pub fn batch_means(values: &[f64], batches: usize, level: f64) -> Option<Interval> {
    let length = values.len().checked_div(batches).filter(|&length| length > 0)?;
    let means: Vec<f64> =
        values[values.len() - length * batches..].chunks_exact(length).map(|batch| batch.iter().sum::<f64>() / length as f64).collect();
    confidence(&means, level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_chance::Stream;

    #[test]
    fn an_interval_matches_the_textbook() {
        // Mean 5, variance 2.5, t(0.975, 4) = 2.776445.
        let interval = confidence(&[3.0, 4.0, 5.0, 6.0, 7.0], 0.95).unwrap();
        assert_eq!((interval.mean, interval.count), (5.0, 5));
        assert!((interval.half_width - 2.776_445 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-6);
        assert!(interval.contains(interval.low()) && interval.contains(interval.high()) && !interval.contains(7.0));
    }

    #[test]
    fn one_run_has_no_interval() {
        assert_eq!(confidence(&[], 0.95), None);
        assert_eq!(confidence(&[1.0], 0.95), None);
        assert_eq!(batch_means(&[1.0, 2.0, 3.0], 4, 0.95), None);
        assert_eq!(batch_means(&[1.0, 2.0, 3.0], 0, 0.95), None);
    }

    /// Share of 4,000 intervals over `runs` draws that contain the true mean.
    fn coverage(purpose: &str, runs: usize, level: f64, mean: f64, draw: impl Fn(&mut Stream) -> f64) -> f64 {
        let mut stream = Stream::new(2026, purpose);
        let held = (0..4_000).filter(|_| {
            let values: Vec<f64> = (0..runs).map(|_| draw(&mut stream)).collect();
            confidence(&values, level).unwrap().contains(mean)
        });
        held.count() as f64 / 4_000.0
    }

    #[test]
    fn intervals_contain_the_true_mean_at_the_stated_rate() {
        // The standard error of a coverage near 0.95 is 0.0034.
        for (runs, level) in [(2, 0.95), (3, 0.95), (10, 0.95), (10, 0.99), (10, 0.5)] {
            let found = coverage("normal", runs, level, 4.0, |stream| 4.0 + 3.0 * stream.normal());
            assert!((found - level).abs() < 0.025, "seed 2026: {found} of the intervals over {runs} runs, not {level}");
        }
        // Means of 50 exponential draws are nearly normal.
        let found = coverage("exponential", 10, 0.95, 2.0, |stream| (0..50).map(|_| stream.exponential(2.0)).sum::<f64>() / 50.0);
        assert!((found - 0.95).abs() < 0.025, "seed 2026: {found}");
    }

    #[test]
    fn batch_means_cover_the_mean_of_correlated_values_where_single_values_do_not() {
        // x' = 0.9 x + noise: the mean is 0, and each value depends on about ten before it.
        let mut stream = Stream::new(2026, "memory");
        let (mut batched, mut single) = (0, 0);
        for _ in 0..400 {
            let mut x = 0.0;
            let values: Vec<f64> = (0..4_003)
                .map(|_| {
                    x = 0.9 * x + stream.normal();
                    x
                })
                .collect();
            batched += u32::from(batch_means(&values, 20, 0.95).unwrap().contains(0.0));
            single += u32::from(confidence(&values, 0.95).unwrap().contains(0.0));
        }
        assert!((364..=396).contains(&batched), "seed 2026: {batched} of 400");
        assert!(single < 240, "seed 2026: {single} of 400");
    }
}
