//! What was measured: operations, bytes, times and errors.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::Operation;

/// Longer times are recorded as this: an hour, in microseconds.
const LONGEST_US: u64 = 3_600_000_000;
/// Significant digits of times.
const DIGITS: u8 = 3;

/// Measurements of one kind of operation.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Operations that succeeded.
    pub done: u64,
    /// Bytes of content that they carried.
    pub bytes: u64,
    /// Operations that failed, by kind.
    pub errors: BTreeMap<String, u64>,
    times: Histogram<u64>,
}

impl Default for Figures {
    fn default() -> Self {
        let times = Histogram::new_with_bounds(1, LONGEST_US, DIGITS).expect("the bounds are valid");
        Self { done: 0, bytes: 0, errors: BTreeMap::new(), times }
    }
}

impl Figures {
    /// Operations that took this long succeeded, with so many bytes in all.
    pub(crate) fn succeeded(&mut self, took: Duration, operations: u64, bytes: u64) {
        self.done += operations;
        self.bytes += bytes;
        let took = u64::try_from(took.as_micros()).unwrap_or(LONGEST_US).max(1);
        self.times.saturating_record_n(took, operations);
    }

    pub(crate) fn failed(&mut self, kind: String) {
        *self.errors.entry(kind).or_default() += 1;
    }

    /// Adds what others did.
    pub fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.bytes += other.bytes;
        other.errors.iter().for_each(|(kind, count)| *self.errors.entry(kind.clone()).or_default() += count);
        self.times.add(&other.times).expect("all histograms have the same bounds");
    }

    /// Operations that failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The time within which this share of the successful operations ended, 0.0 to 1.0, to three
    /// digits. `None` if nothing succeeded.
    #[must_use]
    pub fn time(&self, share: f64) -> Option<Duration> {
        (self.done > 0).then(|| Duration::from_micros(self.times.value_at_quantile(share)))
    }

    /// The mean time of the successful operations; `None` if nothing succeeded.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        (self.done > 0).then(|| Duration::from_secs_f64(self.times.mean() / 1e6))
    }
}

/// What one operation did in a stretch of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Brief {
    /// Operations that succeeded.
    pub done: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Time within which half of the successful ones ended; `None` if nothing succeeded.
    pub p50: Option<Duration>,
    /// Time within which 99 % of them ended.
    pub p99: Option<Duration>,
}

impl From<&Figures> for Brief {
    fn from(figures: &Figures) -> Self {
        let Figures { done, bytes, .. } = *figures;
        Self { done, failed: figures.failures(), bytes, p50: figures.time(0.5), p99: figures.time(0.99) }
    }
}

/// A stretch of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// When it began, in seconds since the start of the run.
    pub at_s: f64,
    /// How long it lasted, in seconds.
    pub seconds: f64,
    /// What ended in it, in the order of [`Operation::ALL`].
    pub operations: [Brief; 4],
    /// All operations together.
    pub all: Brief,
    /// Memory of the server's process at its end, in bytes.
    pub server_memory: Option<u64>,
}

impl Window {
    pub(crate) fn new(at_s: f64, seconds: f64, operations: &[Figures; 4], server_memory: Option<u64>) -> Self {
        let mut all = Figures::default();
        operations.iter().for_each(|figures| all.add(figures));
        Self { at_s, seconds, operations: operations.each_ref().map(Brief::from), all: (&all).into(), server_memory }
    }

    /// The figures of an operation.
    #[must_use]
    pub fn of(&self, operation: Operation) -> Brief {
        self.operations[operation.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_sums_are_of_both() {
        let mut figures = Figures::default();
        assert_eq!((figures.time(0.5), figures.mean()), (None, None));
        (1..=1000).for_each(|millis| figures.succeeded(Duration::from_millis(millis), 1, 10));
        figures.failed("503 SlowDown".to_owned());
        let mut all = Figures::default();
        all.failed("503 SlowDown".to_owned());
        all.failed("timeout".to_owned());
        all.succeeded(Duration::from_secs(9_000), 1, 5);
        all.add(&figures);
        assert_eq!((all.done, all.bytes, all.failures(), all.errors["503 SlowDown"]), (1001, 10_005, 3, 2));
        for (share, millis) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0)] {
            let found = all.time(share).expect("some succeeded").as_secs_f64() * 1e3;
            assert!((found / millis - 1.0).abs() < 0.003, "{share}: {found}");
        }
        assert!(all.time(1.0) >= Some(Duration::from_secs(3_590)), "longer times count as an hour");
    }
}
