//! Mean and variance of a stream of values, without storing them.

/// Count, mean, variance and extremes of the values added so far.
///
/// Source: B. P. Welford, Technometrics 4, 419 (1962); for merging, T. F. Chan, G. H. Golub and R.
/// J. LeVeque, Stanford report STAN-CS-79-773 (1979).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of the squared deviations from the mean.
    squares: f64,
    low: f64,
    high: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, low: f64::INFINITY, high: f64::NEG_INFINITY }
    }
}

impl Moments {
    /// No values yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let step = value - self.mean;
        self.mean += step / self.count as f64;
        self.squares += step * (value - self.mean);
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    /// Adds all values of another, as if they had been added to this one.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (here, there) = (self.count as f64, other.count as f64);
        let step = other.mean - self.mean;
        self.count += other.count;
        let all = self.count as f64;
        self.mean += step * there / all;
        self.squares += other.squares + step * step * here * there / all;
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The unbiased estimate of the variance; `None` for fewer than two values.
    #[must_use]
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }

    /// The smallest value.
    #[must_use]
    pub fn smallest(&self) -> Option<f64> {
        (self.count > 0).then_some(self.low)
    }

    /// The largest value.
    #[must_use]
    pub fn largest(&self) -> Option<f64> {
        (self.count > 0).then_some(self.high)
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut moments = Self::new();
        values.into_iter().for_each(|value| moments.add(value));
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_chance::Stream;

    #[test]
    fn a_small_spread_around_a_large_mean_is_kept() {
        let moments: Moments = [4.0, 7.0, 13.0, 16.0].into_iter().map(|value| value + 1e9).collect();
        assert_eq!(moments.mean(), Some(1e9 + 10.0));
        assert_eq!(moments.variance(), Some(30.0));
        assert_eq!((moments.smallest(), moments.largest()), (Some(1e9 + 4.0), Some(1e9 + 16.0)));
    }

    #[test]
    fn no_values_have_no_mean_and_one_has_no_variance() {
        let mut moments = Moments::new();
        assert_eq!((moments.mean(), moments.smallest(), moments.largest()), (None, None, None));
        moments.add(3.0);
        assert_eq!((moments.mean(), moments.variance()), (Some(3.0), None));
    }

    #[test]
    fn merging_parts_equals_adding_all_values() {
        let mut stream = Stream::new(7, "moments");
        let values: Vec<f64> = (0..1_000).map(|_| stream.lognormal(3.0, 1.0)).collect();
        let whole: Moments = values.iter().copied().collect();
        for cut in [0, 1, 500, 999, 1_000] {
            let mut left: Moments = values[..cut].iter().copied().collect();
            left.merge(&values[cut..].iter().copied().collect());
            assert_eq!((left.count(), left.smallest(), left.largest()), (whole.count(), whole.smallest(), whole.largest()));
            assert!((left.mean().unwrap() / whole.mean().unwrap() - 1.0).abs() < 1e-12, "cut at {cut}");
            assert!((left.variance().unwrap() / whole.variance().unwrap() - 1.0).abs() < 1e-12, "cut at {cut}");
        }
    }
}
