//! Comparison of two systems by the ratios of paired values, such as the tails of two policies with
//! the same seeds and requests.

use super::confidence;

/// The geometric mean of ratios, with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanRatio {
    /// The geometric mean.
    pub ratio: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Number of pairs.
    pub count: u64,
}

impl MeanRatio {
    /// True if the interval includes 1, so that no difference is shown.
    #[must_use]
    pub fn includes_one(&self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }
}

/// The geometric mean of the ratios a/b and the interval that contains the true one with
/// probability `level`, by Student's t on the logarithms of the ratios. Logarithms make the result
/// the same whichever system comes first, and ratios are closer to lognormal than to normal.
///
/// `None` for fewer than two pairs, or if a value isn't positive and finite.
///
/// # Panics
/// If `level` isn't between 0 and 1.
///
/// Source: A. M. Law, Simulation Modeling and Analysis, 5th ed. (2015), 10.2.1, the paired-t
/// interval.
#[must_use]
pub fn mean_ratio(pairs: &[(f64, f64)], level: f64) -> Option<MeanRatio> {
    let logarithm = |(a, b): &(f64, f64)| {
        let are_usable = [a, b].iter().all(|value| value.is_finite() && **value > 0.0);
        are_usable.then(|| libm::log(a / b))
    };
    let logarithms: Vec<f64> = pairs.iter().map(logarithm).collect::<Option<_>>()?;
    let interval = confidence(&logarithms, level)?;
    let [ratio, low, high] = [interval.mean, interval.low(), interval.high()].map(libm::exp);
    Some(MeanRatio { ratio, low, high, count: interval.count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_chance::Stream;

    #[test]
    fn a_mean_ratio_matches_the_textbook() {
        // Logarithms to base 2 of the ratios: 1, 2, 3. Mean 2, variance 1, t(0.975, 2) = 4.302653.
        let found = mean_ratio(&[(2.0, 1.0), (12.0, 3.0), (4.0, 0.5)], 0.95).unwrap();
        let half_width = 4.302_653 / 3.0_f64.sqrt();
        assert!((found.ratio - 4.0).abs() < 1e-12 && found.count == 3, "{found:?}");
        assert!((libm::log2(found.low) - (2.0 - half_width)).abs() < 1e-6, "{found:?}");
        assert!((libm::log2(found.high) - (2.0 + half_width)).abs() < 1e-6, "{found:?}");
        assert!(found.includes_one());
    }

    #[test]
    fn swapping_the_systems_inverts_the_ratio_and_its_interval() {
        let pairs = [(3.0, 4.0), (5.0, 6.0), (2.0, 3.0), (7.0, 9.0)];
        let found = mean_ratio(&pairs, 0.95).unwrap();
        let swapped = mean_ratio(&pairs.map(|(a, b)| (b, a)), 0.95).unwrap();
        assert!(found.high < 1.0 && swapped.low > 1.0);
        for (one, other) in [(found.ratio, swapped.ratio), (found.low, swapped.high), (found.high, swapped.low)] {
            assert!((one * other - 1.0).abs() < 1e-12, "{one} and {other}");
        }
    }

    #[test]
    fn without_two_usable_pairs_there_is_no_ratio() {
        assert_eq!(mean_ratio(&[], 0.95), None);
        assert_eq!(mean_ratio(&[(1.0, 2.0)], 0.95), None);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(mean_ratio(&[(1.0, 2.0), (bad, 2.0), (1.0, 2.0)], 0.95), None, "{bad}");
            assert_eq!(mean_ratio(&[(1.0, 2.0), (2.0, bad), (1.0, 2.0)], 0.95), None, "{bad}");
        }
        let same = mean_ratio(&[(3.0, 3.0), (5.0, 5.0)], 0.95).unwrap();
        assert!((same.low, same.high) == (1.0, 1.0) && same.includes_one());
    }

    #[test]
    fn pairing_shows_a_small_difference_between_values_that_vary_much() {
        // Each seed multiplies both values by the same draw, which spreads over a factor of e^4.
        let mut stream = Stream::new(2026, "pairs");
        let mut covered = 0;
        for _ in 0..1_000 {
            let pairs: Vec<(f64, f64)> = (0..10)
                .map(|_| {
                    let common = libm::exp(2.0 * stream.normal());
                    (0.9 * common * libm::exp(0.02 * stream.normal()), common * libm::exp(0.02 * stream.normal()))
                })
                .collect();
            let found = mean_ratio(&pairs, 0.95).unwrap();
            assert!(found.high < 1.0, "seed 2026: {found:?}");
            covered += u32::from(found.low <= 0.9 && 0.9 <= found.high);
        }
        // The standard error of a share of 0.95 is 0.007.
        assert!((925..=975).contains(&covered), "seed 2026: {covered} of 1000");
    }
}
