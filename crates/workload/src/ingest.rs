//! Ingest: the bytes written per day and the platters that they fill.
//!
//! Writes are bursty by the day and smooth by the month: the peak day has about 16 times the mean
//! day's bytes, but over 30 days or more the peak is only about 2 times the mean (SOSP '23, section
//! 2). So writes are staged, and the write drives run near their mean.
//!
//! ```text
//! bytes per day    |     .              |      |          lognormal, correlated with the day before
//!                  | . . | . . .  | . . | .  . | . .
//!                        v staging: the excess waits
//! platters         | . . | | | | || | . | | |  | | |      limited by what the write drives can do in a day
//! ```
//!
//! A day's bytes are m e^(s z - s²/2), with mean m and z standard normal; z is r times the previous
//! day's z plus a fresh part. Two published peaks determine the two parameters. Over six months,
//! the length of the published record, r = 0 and s = 1.39 have a median peak day of 16 times the
//! mean, but a 30-day peak of only 1.7 times; with r = 0.5 and s = 1.46 they are 16 and 2.0. A test
//! measures the second pair.

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;

use crate::SpecError;
use crate::error::{check_count, check_positive, check_range};

/// Parameters of the ingest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IngestSpec {
    /// Mean bytes per day.
    pub bytes_per_day: f64,
    /// Standard deviation of the logarithm of a day's bytes; [`IngestSpec::SIGMA`] matches the
    /// published peaks.
    pub sigma: f64,
    /// Correlation of the logarithms of consecutive days, from 0 to less than 1;
    /// [`IngestSpec::PERSISTENCE`] goes with that deviation.
    pub persistence: f64,
    /// Bytes that fill a platter.
    pub platter_bytes: u64,
    /// Daily capacity of the write drives over the mean ingest. Must be above 1, or staging grows
    /// without bound.
    pub headroom: f64,
}

impl IngestSpec {
    /// The deviation that matches the published peaks.
    pub const SIGMA: f64 = 1.46;
    /// The correlation that matches the published peaks.
    pub const PERSISTENCE: f64 = 0.5;
    /// Megabytes written per megabyte read (SOSP '23, section 2).
    pub const BYTES_PER_BYTE_READ: f64 = 47.0;
    /// Headroom of the write drives: twice the mean, which is the published 30-day peak over the
    /// mean, so that no day's bytes wait longer than about a month.
    pub const HEADROOM: f64 = 2.0;

    /// The ingest that corresponds to this many bytes read per day, on platters of this size.
    #[must_use]
    pub fn beside_reads(bytes_read_per_day: f64, platter_bytes: u64) -> Self {
        Self {
            bytes_per_day: bytes_read_per_day * Self::BYTES_PER_BYTE_READ,
            sigma: Self::SIGMA,
            persistence: Self::PERSISTENCE,
            platter_bytes,
            headroom: Self::HEADROOM,
        }
    }
}

/// A day in microseconds.
const DAY: u128 = 24 * Micros::HOUR.0 as u128;

/// A day of ingest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngestDay {
    /// Index, counted from 0.
    pub day: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Platters written.
    pub platters: u64,
    /// Bytes staged at the end of the day, including those that don't fill a platter yet.
    pub staged_bytes: u64,
}

impl IngestDay {
    /// When each of the day's platters leaves the write drives: evenly over the day, the last one
    /// at its end.
    pub fn finished(self) -> impl Iterator<Item = Micros> {
        let begin = u128::from(self.day) * DAY;
        (1..=self.platters)
            .map(move |platter| Micros((begin + u128::from(platter) * DAY / u128::from(self.platters)).min(u64::MAX.into()) as u64))
    }

    /// When the day begins.
    #[must_use]
    pub fn begin(self) -> Micros {
        Micros((u128::from(self.day) * DAY).min(u64::MAX.into()) as u64)
    }
}

/// Yields days endlessly.
#[derive(Debug, Clone)]
pub struct Ingest {
    spec: IngestSpec,
    stream: Stream,
    /// The last day's z; `None` before the first day.
    state: Option<f64>,
    day: u64,
    staged: u64,
    /// Unused write capacity, in platters.
    credit: f64,
}

impl Ingest {
    /// Starts with the first day and empty staging.
    ///
    /// # Errors
    /// [`SpecError::Range`] names the invalid number.
    pub fn new(spec: IngestSpec, seed: u64) -> Result<Self, SpecError> {
        check_positive("ingest.bytes_per_day", spec.bytes_per_day)?;
        check_count("ingest.platter_bytes", spec.platter_bytes)?;
        check_range("ingest.sigma", spec.sigma, (0.0..=5.0).contains(&spec.sigma), "0 to 5")?;
        check_range("ingest.persistence", spec.persistence, (0.0..1.0).contains(&spec.persistence), "0 to less than 1")?;
        check_range("ingest.headroom", spec.headroom, spec.headroom > 1.0 && spec.headroom.is_finite(), "a finite number above 1")?;
        Ok(Self { spec, stream: Stream::new(seed, "ingest"), state: None, day: 0, staged: 0, credit: 0.0 })
    }
}

impl Iterator for Ingest {
    type Item = IngestDay;

    fn next(&mut self) -> Option<IngestDay> {
        let Self { spec, .. } = *self;
        let normal = self.stream.normal();
        // Keeps the variance at 1.
        let fresh = (1.0 - spec.persistence * spec.persistence).sqrt();
        let state = self.state.map_or(normal, |state| spec.persistence * state + fresh * normal);
        self.state = Some(state);
        let factor = libm::exp(spec.sigma * state - spec.sigma * spec.sigma / 2.0);
        let bytes = (spec.bytes_per_day * factor) as u64;
        self.staged = self.staged.saturating_add(bytes);
        self.credit += spec.headroom * spec.bytes_per_day / spec.platter_bytes as f64;
        let platters = (self.staged / spec.platter_bytes).min(self.credit as u64);
        self.staged -= platters * spec.platter_bytes;
        // Idle drives can't catch up later; only the platter in progress is carried over.
        self.credit = (self.credit - platters as f64).min(1.0);
        let day = self.day;
        self.day += 1;
        Some(IngestDay { day, bytes, platters, staged_bytes: self.staged })
    }
}

/// The largest mean over `window` consecutive days, over the mean of all days; `None` if the window
/// is 0, there are fewer days, or no bytes arrived.
#[must_use]
pub fn peak_over_mean(bytes_by_day: &[u64], window: usize) -> Option<f64> {
    if window == 0 || bytes_by_day.len() < window {
        return None;
    }
    let sum = |days: &[u64]| days.iter().map(|bytes| u128::from(*bytes)).sum::<u128>();
    let total = sum(bytes_by_day);
    let mut current = sum(&bytes_by_day[..window]);
    let mut peak = current;
    for (leaves, enters) in bytes_by_day.iter().zip(&bytes_by_day[window..]) {
        current = current + u128::from(*enters) - u128::from(*leaves);
        peak = peak.max(current);
    }
    (total > 0).then(|| (peak as f64 / window as f64) / (total as f64 / bytes_by_day.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: IngestSpec = IngestSpec {
        bytes_per_day: 1e14,
        sigma: IngestSpec::SIGMA,
        persistence: IngestSpec::PERSISTENCE,
        platter_bytes: 2_000_000_000_000,
        headroom: IngestSpec::HEADROOM,
    };

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    #[test]
    fn six_months_have_the_published_peaks() {
        let peaks = |window| {
            let of_seed = |seed| {
                let days: Vec<u64> = Ingest::new(SPEC, seed).unwrap().take(180).map(|day| day.bytes).collect();
                peak_over_mean(&days, window).unwrap()
            };
            median((0..1001).map(of_seed).collect())
        };
        let (day, month) = (peaks(1), peaks(30));
        assert!((15.0..17.0).contains(&day), "peak day over mean day: {day}");
        assert!((1.9..2.1).contains(&month), "peak of 30 days over mean: {month}");
    }

    #[test]
    fn bytes_arrive_at_their_mean_rate_and_none_are_lost() {
        let mut staged = 0_u64;
        let (mut bytes, mut written) = (0_u128, 0_u128);
        for day in Ingest::new(SPEC, 6).unwrap().take(100_000) {
            bytes += u128::from(day.bytes);
            written += u128::from(day.platters) * 2_000_000_000_000;
            staged = day.staged_bytes;
            assert!(day.platters <= 101, "the limit is twice the mean, 100 platters a day, plus one in progress");
        }
        assert_eq!(bytes, written + u128::from(staged));
        let mean = bytes as f64 / 1e5;
        assert!((mean / 1e14 - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn less_headroom_stages_more() {
        let most_staged =
            |headroom| Ingest::new(IngestSpec { headroom, ..SPEC }, 3).unwrap().take(3650).map(|day| day.staged_bytes).max().unwrap();
        assert!(most_staged(1.2) > most_staged(2.0));
        assert!(most_staged(2.0) > most_staged(8.0));
    }

    #[test]
    fn a_library_that_takes_days_to_fill_a_platter_writes_one_in_days() {
        let spec = IngestSpec { bytes_per_day: 1e11, sigma: 0.0, persistence: 0.0, platter_bytes: 1_000_000_000_000, headroom: 1.5 };
        let days: Vec<u64> = Ingest::new(spec, 0).unwrap().take(40).map(|day| day.platters).collect();
        assert_eq!(days.iter().sum::<u64>(), 4);
        assert_eq!(days[9], 1);
    }

    #[test]
    fn platters_leave_the_write_drives_within_their_day() {
        let day = IngestDay { day: 2, bytes: 0, platters: 3, staged_bytes: 0 };
        let hours: Vec<u64> = day.finished().map(|at| at.0 / Micros::HOUR.0).collect();
        assert_eq!(hours, [56, 64, 72]);
    }

    #[test]
    fn peaks_of_windows_are_means() {
        assert_eq!(peak_over_mean(&[1, 1, 4, 2], 1), Some(2.0));
        assert_eq!(peak_over_mean(&[1, 1, 4, 2], 2), Some(1.5));
        assert_eq!(peak_over_mean(&[1, 1, 4, 2], 5), None);
        assert_eq!(peak_over_mean(&[0, 0], 1), None);
    }
}
