//! A bounded sample of a sequence of any length, for medians.

/// Every `stride`th value of a sequence, at most `capacity` of them.
///
/// When the sample is full, every second value is dropped and the stride doubles. The kept values
/// are spread evenly over the sequence, so a burst fills no more of the sample than of the
/// sequence. A reservoir would do the same with chance, which this crate does not have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Thinned<T> {
    pub(crate) kept: Vec<T>,
    /// Values seen so far.
    pub(crate) seen: u64,
    pub(crate) stride: u64,
    pub(crate) capacity: usize,
}

impl<T: Copy> Thinned<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { kept: Vec::new(), seen: 0, stride: 1, capacity: capacity.max(2) }
    }

    pub(crate) fn push(&mut self, value: T) {
        if self.seen.is_multiple_of(self.stride) {
            if self.kept.len() >= self.capacity {
                let mut index = 0;
                self.kept.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride = self.stride.saturating_mul(2);
            }
            if self.seen.is_multiple_of(self.stride) {
                self.kept.push(value);
            }
        }
        self.seen = self.seen.saturating_add(1);
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.seen = 0;
        self.stride = 1;
    }
}

/// The median, or `None` without values: the mean of the middle two of an even number.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    let half = values.len() / 2;
    let is_even = values.len().is_multiple_of(2);
    if values.is_empty() {
        return None;
    }
    let (below, middle, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    let middle = *middle;
    Some(if is_even { below.iter().copied().fold(f64::NEG_INFINITY, f64::max).midpoint(middle) } else { middle })
}

/// The standard deviation that normal noise with this median absolute deviation from `center` has,
/// or `None` without values.
pub(crate) fn robust_deviation(values: impl Iterator<Item = f64>, center: f64) -> Option<f64> {
    let mut distances: Vec<f64> = values.map(|value| (value - center).abs()).collect();
    // 1 / 0.6745, the upper quartile of the normal distribution.
    Some(1.4826 * median(&mut distances)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sequence_leaves_values_spread_evenly_over_it() {
        let mut thinned = Thinned::new(64);
        for value in 0..100_000_u32 {
            thinned.push(value);
            assert!(thinned.kept.len() <= 64);
        }
        assert!(thinned.kept.len() > 32 && thinned.seen == 100_000, "{thinned:?}");
        assert!(thinned.kept.windows(2).all(|pair| u64::from(pair[1] - pair[0]) == thinned.stride));
    }

    #[test]
    fn medians_of_few_values_are_exact() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&mut [9.0, 1.0, 5.0]), Some(5.0));
        assert!((robust_deviation([1.0, 2.0, 3.0, 4.0, 90.0].into_iter(), 3.0).unwrap() - 1.4826).abs() < 1e-12);
    }
}
