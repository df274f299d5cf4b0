//! Error rates with confidence bounds.

/// A measured rate of errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorRate {
    /// Lower bound of the 95 % confidence interval.
    pub low: f64,
    /// The share of tries that were errors.
    pub rate: f64,
    /// Upper bound of the 95 % confidence interval.
    pub high: f64,
}

impl ErrorRate {
    /// The rate with its exact 95 % confidence bounds (Clopper and Pearson, Biometrika 26, 404
    /// (1934)). Without tries, the rate is NaN and its bounds are 0 and 1.
    pub fn of(errors: u32, tries: u32) -> Self {
        if tries == 0 {
            return Self { low: 0.0, rate: f64::NAN, high: 1.0 };
        }
        let rate = f64::from(errors) / f64::from(tries);
        let low = if errors == 0 { 0.0 } else { solve(|p| 1.0 - at_most(errors - 1, tries, p) > 0.025) };
        let high = if errors >= tries { 1.0 } else { solve(|p| at_most(errors, tries, p) < 0.025) };
        Self { low, rate, high }
    }
}

/// Probability of at most `k` events in `n` tries of probability `p`. Terms are computed as
/// logarithms, because the first ones can be too small for a float.
fn at_most(k: u32, n: u32, p: f64) -> f64 {
    if p <= 0.0 {
        return 1.0;
    }
    if p >= 1.0 {
        return if k >= n { 1.0 } else { 0.0 };
    }
    let mut term = f64::from(n) * (-p).ln_1p();
    let mut sum = term.exp();
    for i in 1..=k {
        term += (f64::from(n - i + 1) / f64::from(i)).ln() + (p / (1.0 - p)).ln();
        sum += term.exp();
    }
    sum.min(1.0)
}

/// The smallest probability for which `holds` is true; it must be true for all larger ones too.
fn solve(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_clopper_and_pearson() {
        let rate = ErrorRate::of;
        // About 3.69/n for 0 of n; 10 of 100: 0.0490 to 0.1762 (any table of exact bounds).
        assert!((rate(0, 1000).high - 0.003_682).abs() < 1e-6);
        let ten = rate(10, 100);
        assert!((ten.low - 0.0490).abs() < 1e-4 && ten.rate == 0.1 && (ten.high - 0.1762).abs() < 1e-4, "{ten:?}");
        assert_eq!((rate(5, 5).high, rate(0, 5).low), (1.0, 0.0));
        assert!(rate(0, 0).rate.is_nan());
    }
}
