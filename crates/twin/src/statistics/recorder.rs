//! Percentiles of integers, such as completion times in microseconds, in bounded memory.
//!
//! Samples are stored exactly up to a limit. Beyond it they are counted in buckets whose width
//! grows with the value: 1,024 per factor of two, and values below 2,048 in buckets of their own. A
//! percentile is then the middle of a bucket, at most 1/2048 = 0.049 % off.
//!
//! ```text
//! value   0 1 2 ... 2047 | 2048 2050 ... 4094 | 4096 4100 ... 8188 | ...
//! width        1                  2                    4
//! ```

/// Default number of exact samples: 8 MiB.
const EXACT_SAMPLES: usize = 1 << 20;
/// Buckets per factor of two, as a power of two.
const SUB_BITS: u32 = 10;

/// A record of samples for percentiles, in bounded memory.
#[derive(Debug, Clone)]
pub struct Recorder {
    limit: usize,
    count: u64,
    sum: u128,
    smallest: u64,
    largest: u64,
    samples: Samples,
}

#[derive(Debug, Clone)]
enum Samples {
    Exact { values: Vec<u64>, sorted: bool },
    Buckets(Vec<u64>),
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Exact up to 2^20 samples, which take at most 8 MiB, then buckets.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(EXACT_SAMPLES)
    }

    /// Exact up to this many samples, then buckets, which take up to 0.5 MB.
    #[must_use]
    pub fn with_limit(exact_samples: usize) -> Self {
        let samples = Samples::Exact { values: Vec::new(), sorted: true };
        Self { limit: exact_samples, count: 0, sum: 0, smallest: u64::MAX, largest: 0, samples }
    }

    /// Adds one sample.
    pub fn record(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.smallest = self.smallest.min(value);
        self.largest = self.largest.max(value);
        if self.count > self.limit as u64 {
            self.count_in_buckets();
        }
        match &mut self.samples {
            Samples::Exact { values, sorted } => {
                *sorted = values.is_empty() || *sorted && values[values.len() - 1] <= value;
                values.push(value);
            }
            Samples::Buckets(counts) => add(counts, value, 1),
        }
    }

    /// Adds all samples of another recorder. With equal limits, the result depends neither on the
    /// order nor on the grouping of merges.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.smallest = self.smallest.min(other.smallest);
        self.largest = self.largest.max(other.largest);
        if self.count > self.limit as u64 || !other.is_exact() {
            self.count_in_buckets();
        }
        match (&mut self.samples, &other.samples) {
            (Samples::Exact { values, sorted }, Samples::Exact { values: others, .. }) => {
                *sorted = others.is_empty() && *sorted;
                values.extend_from_slice(others);
            }
            (Samples::Buckets(counts), Samples::Exact { values, .. }) => values.iter().for_each(|&value| add(counts, value, 1)),
            (Samples::Buckets(counts), Samples::Buckets(others)) => {
                counts.resize(counts.len().max(others.len()), 0);
                counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
            }
            (Samples::Exact { .. }, Samples::Buckets(_)) => unreachable!("buckets can't be made exact again, so both are buckets by now"),
        }
    }

    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True while percentiles are exact.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        matches!(self.samples, Samples::Exact { .. })
    }

    /// The mean, exact except for one rounding.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The smallest sample, always exact; `None` without samples.
    #[must_use]
    pub fn smallest(&self) -> Option<u64> {
        (self.count > 0).then_some(self.smallest)
    }

    /// The largest sample, always exact; `None` without samples.
    #[must_use]
    pub fn largest(&self) -> Option<u64> {
        (self.count > 0).then_some(self.largest)
    }

    /// The smallest sample that is at least as large as a share `part` of all samples:
    /// `percentile(0.999)` is the 99.9th percentile by nearest rank, without interpolation. At most
    /// 0.05 % off if [`Recorder::is_exact`] is false, otherwise exact. `None` without samples.
    ///
    /// # Panics
    /// If `part` isn't within 0.0..=1.0.
    pub fn percentile(&mut self, part: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&part), "{part} is not a part of the samples");
        if self.count == 0 {
            return None;
        }
        let rank = rank(part, self.count);
        match &mut self.samples {
            Samples::Exact { values, sorted } => {
                if !*sorted {
                    values.sort_unstable();
                    *sorted = true;
                }
                Some(values[rank as usize - 1])
            }
            // The extremes are known exactly, and the middle of a bucket may be beyond them.
            Samples::Buckets(_) if rank == 1 => Some(self.smallest),
            Samples::Buckets(_) if rank == self.count => Some(self.largest),
            Samples::Buckets(counts) => {
                let mut below = 0;
                let bucket = counts.iter().position(|&count| {
                    below += count;
                    below >= rank
                });
                let bucket = bucket.expect("the buckets hold all samples, and the rank is at most their number");
                Some(middle(bucket).clamp(self.smallest, self.largest))
            }
        }
    }

    /// The share of samples that are at most `value`; `None` without samples. If
    /// [`Recorder::is_exact`] is false, all samples in the bucket of `value` count.
    #[must_use]
    pub fn share_within(&self, value: u64) -> Option<f64> {
        let within = match &self.samples {
            _ if self.count == 0 => return None,
            Samples::Exact { values, sorted: true } => values.partition_point(|&sample| sample <= value) as u64,
            Samples::Exact { values, .. } => values.iter().filter(|&&sample| sample <= value).count() as u64,
            Samples::Buckets(counts) => counts.iter().take(bucket(value) + 1).sum(),
        };
        Some(within as f64 / self.count as f64)
    }

    /// The distribution as a curve: pairs of a sample and the share of samples that don't exceed
    /// it, ascending in both. Points are dense in the tail, to resolve the 99.9th percentile; at
    /// most about 500 pairs for any number of samples.
    pub fn curve(&mut self) -> Vec<(u64, f64)> {
        let mut pairs: Vec<(u64, f64)> = Vec::new();
        let tail = (0..=50).map(|step| 1.0 - 0.01 * libm::exp10(-f64::from(step) / 10.0));
        for part in (0..400).map(|step| f64::from(step) / 400.0).filter(|&part| part < 0.99).chain(tail).chain([1.0]) {
            let Some(value) = self.percentile(part) else { return pairs };
            let reached = rank(part, self.count) as f64 / self.count as f64;
            match pairs.last_mut() {
                Some(last) if last.0 == value => last.1 = reached.max(last.1),
                Some(last) if reached <= last.1 => {}
                _ => pairs.push((value, reached)),
            }
        }
        pairs
    }

    fn count_in_buckets(&mut self) {
        if let Samples::Exact { values, .. } = &self.samples {
            let mut counts = Vec::new();
            values.iter().for_each(|&value| add(&mut counts, value, 1));
            self.samples = Samples::Buckets(counts);
        }
    }
}

/// The rank, from 1 in ascending order, of the smallest sample that a share `part` of `count`
/// samples doesn't exceed.
fn rank(part: f64, count: u64) -> u64 {
    let exact = part * count as f64;
    // 0.07 * 100 is slightly more than 7 in binary; the intended rank is 7.
    let nearest = (exact + 0.5).floor();
    let rank = if (exact - nearest).abs() <= exact * 4.0 * f64::EPSILON { nearest } else { exact.ceil() };
    (rank as u64).clamp(1, count)
}

fn add(counts: &mut Vec<u64>, value: u64, times: u64) {
    let bucket = bucket(value);
    if bucket >= counts.len() {
        counts.resize(bucket + 1, 0);
    }
    counts[bucket] += times;
}

fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
    // The leading one of the shifted value is 2^SUB_BITS, which makes consecutive bucket ranges
    // contiguous.
    ((u64::from(shift) << SUB_BITS) + (value >> shift)) as usize
}

fn middle(bucket: usize) -> u64 {
    let shift = ((bucket >> SUB_BITS) as u32).saturating_sub(1);
    let first = (bucket as u64 - (u64::from(shift) << SUB_BITS)) << shift;
    first + ((1_u64 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_chance::Stream;

    const PARTS: [f64; 9] = [0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 0.999_9, 1.0];

    fn times(seed: u64, count: usize) -> Vec<u64> {
        let mut stream = Stream::new(seed, "times");
        (0..count).map(|_| (stream.lognormal(6e8, 2.5)) as u64).collect()
    }

    /// Computed by the definition, without arithmetic on ranks.
    fn by_sorting(values: &[u64], part: f64) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let enough = |at: usize| (at + 1) as f64 >= part * values.len() as f64 * (1.0 - 1e-15);
        sorted[(0..values.len()).find(|&at| enough(at)).unwrap()]
    }

    fn recorded(values: &[u64], limit: usize) -> Recorder {
        let mut recorder = Recorder::with_limit(limit);
        values.iter().for_each(|&value| recorder.record(value));
        recorder
    }

    #[test]
    fn percentiles_match_sorting_while_samples_are_exact() {
        for count in [1, 2, 3, 10, 999, 1_000, 1_001, 5_000] {
            let values = times(3, count);
            let mut recorder = recorded(&values, 5_000);
            assert!(recorder.is_exact());
            for part in PARTS {
                assert_eq!(recorder.percentile(part), Some(by_sorting(&values, part)), "{part} of {count}, seed 3");
            }
        }
    }

    #[test]
    fn percentiles_of_buckets_are_within_a_thousandth() {
        let values = times(4, 50_000);
        let mut recorder = recorded(&values, 100);
        assert!(!recorder.is_exact());
        for part in PARTS {
            let (found, wanted) = (recorder.percentile(part).unwrap() as f64, by_sorting(&values, part) as f64);
            assert!((found / wanted - 1.0).abs() <= 1.0 / 2_048.0, "{found} instead of {wanted} at {part}, seed 4");
        }
        let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
        assert_eq!(recorder.mean(), Some(sum as f64 / 50_000.0));
        assert_eq!((recorder.smallest(), recorder.largest()), (values.iter().min().copied(), values.iter().max().copied()));
    }

    #[test]
    fn the_middle_of_every_bucket_is_near_its_values() {
        let mut stream = Stream::new(5, "bits");
        let edges = (0..64).flat_map(|bit| [1_u64 << bit, (1_u64 << bit) - 1, (1 << bit) + 1]);
        let anywhere: Vec<u64> = (0..10_000).map(|_| stream.bits() >> stream.below(64)).collect();
        for value in edges.chain(anywhere).chain([u64::MAX]) {
            let found = middle(bucket(value));
            assert!(found.abs_diff(value) <= value / 2_048, "{found} for {value}");
            assert!(value < 2_048 || bucket(value) >= bucket(value - 1) && bucket(value) - bucket(value - 1) <= 1);
        }
        assert!(bucket(u64::MAX) < 60_000, "the buckets take less than half a megabyte");
    }

    #[test]
    fn rounding_errors_of_binary_fractions_do_not_change_the_rank() {
        let hundred: Vec<u64> = (1..=100).collect();
        let mut recorder = recorded(&hundred, 100);
        for percent in 1..=100_u64 {
            assert_eq!(recorder.percentile(percent as f64 / 100.0), Some(percent));
        }
        assert_eq!(recorder.percentile(0.001), Some(1));
        assert_eq!(recorder.percentile(0.701), Some(71));
    }

    #[test]
    fn merging_equals_recording_for_any_order_and_limit() {
        let values = times(6, 3_000);
        for limit in [0, 10, 1_500, 2_999, 3_000] {
            let mut whole = recorded(&values, limit);
            let parts: Vec<Recorder> = values.chunks(700).map(|part| recorded(part, limit)).collect();
            let mut forth = Recorder::with_limit(limit);
            parts.iter().for_each(|part| forth.merge(part));
            let mut back = Recorder::with_limit(limit);
            parts.iter().rev().for_each(|part| back.merge(part));
            for part in PARTS {
                let wanted = whole.percentile(part);
                assert_eq!((forth.percentile(part), back.percentile(part)), (wanted, wanted), "{part} with limit {limit}");
            }
            assert_eq!((forth.is_exact(), forth.count(), forth.mean()), (whole.is_exact(), whole.count(), whole.mean()));
        }
    }

    #[test]
    fn the_curve_ascends_from_the_smallest_sample_and_resolves_the_tail() {
        let values = times(8, 20_000);
        for limit in [100, 20_000] {
            let mut recorder = recorded(&values, limit);
            let curve = recorder.curve();
            assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
            assert_eq!(curve.first().map(|pair| Some(pair.0)), Some(recorder.smallest()));
            assert_eq!(curve.last().copied(), recorder.largest().map(|largest| (largest, 1.0)));
            assert!(curve.len() <= 500 && curve.iter().filter(|pair| pair.1 > 0.999).count() >= 10);
        }
        assert!(Recorder::new().curve().is_empty());
    }

    #[test]
    fn the_share_within_a_service_level_includes_the_level_itself() {
        let mut recorder = recorded(&[30, 10, 20, 20], 10);
        assert_eq!([9, 10, 20, 29, 30].map(|value| recorder.share_within(value).unwrap()), [0.0, 0.25, 0.75, 0.75, 1.0]);
        assert_eq!(recorder.percentile(0.5), Some(20));
        assert_eq!(recorder.share_within(20), Some(0.75));
        assert_eq!(recorded(&[30, 10, 20, 20], 0).share_within(20), Some(0.75));
        assert_eq!(Recorder::new().share_within(1), None);
        assert_eq!(Recorder::new().percentile(0.5), None);
    }
}
