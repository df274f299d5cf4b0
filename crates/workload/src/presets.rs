//! Presets: the paper's measurement intervals as workloads.
//!
//! The paper measures three 12-hour intervals of one data centre, and a full library (SOSP '23,
//! section 7). Its traces are not public, but their ratios are: *IOPS* has about 10 times Typical's
//! reads per byte, *Volume* 25 times its bytes in 5 times its reads. The absolute levels are ours,
//! calibrated with the published results: with 20 drives of 60 MB/s and no shuttles, drives spend 6
//! %, 31 % and 26 % of their time on reads (Typical, IOPS, Volume), and the 99.9th percentile of
//! completion times is 2.6 minutes, 15 to 22 minutes and 4.6 hours. `tests/calibration.rs` checks
//! the presets against these.
//!
//! ```text
//! a visit to a platter takes 2.6 s plus 0.33 s per track; one track is enough for a read of up to 20 MB
//!            reads/s x visit = drives x share     mean read
//! Typical    0.39 x 3.1 s    = 20 x 6 %            9 MB
//! IOPS       2.3  x 2.7 s    = 20 x 31 %         0.9 MB = 9 / 10              in bursts, one visit serves several reads
//! Volume     1.95 x 2.7 s    = 20 x 26 %          45 MB = 9 x 25 / 5          1.95 = 0.39 x 5
//! ```
//!
//! Bursts cause the tails. 860 reads at once keep 20 drives busy for two and a half minutes, 8,000
//! for twenty minutes. But 4.6 hours, with drives busy only a quarter of the time, can't come from
//! waiting for drives: one drive must be reading one platter for that long. So Volume's bursts are
//! accounts: 9,500 files of 45 MB on average, together on one platter, 1.74 s each.

use std::fmt;
use std::str::FromStr;

use fulgurite_domain::Micros;

use crate::SpecError;
use crate::arrivals::Arrivals;
use crate::demand::{AccountLayout, Source, Spec};
use crate::error::check_positive;
use crate::popularity::Popularity;
use crate::read::{Platters, SHARD_BYTES};
use crate::sizes::Sizes;

/// A named preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// A typical interval.
    Typical,
    /// The interval with the most reads.
    Iops,
    /// The interval with the most bytes.
    Volume,
    /// A library without free slots, under a steady load.
    FullLibrary,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 4] = [Self::Typical, Self::Iops, Self::Volume, Self::FullLibrary];

    /// The name used in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Typical => "typical",
            Self::Iops => "iops",
            Self::Volume => "volume",
            Self::FullLibrary => "full-library",
        }
    }

    /// The workload with the preset's own numbers and no end.
    ///
    /// # Errors
    /// None with the built-in numbers.
    pub fn spec(self) -> Result<Spec, SpecError> {
        match self {
            Self::Typical => Interval::TYPICAL.spec(),
            Self::Iops => Interval::IOPS.spec(),
            Self::Volume => Interval::VOLUME.spec(),
            Self::FullLibrary => Ok(FullLibrary::PUBLISHED.spec()),
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unknown preset name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown preset {found}: use typical, iops, volume or full-library")]
pub struct UnknownPreset {
    /// The name.
    pub found: Box<str>,
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(name: &str) -> Result<Self, UnknownPreset> {
        Self::ALL.into_iter().find(|preset| preset.name() == name).ok_or_else(|| UnknownPreset { found: name.into() })
    }
}

/// An interval with bursts. All periods are alike, so warm-up and cool-down are simply the time
/// around the measured one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Length of the interval: 12 hours (SOSP '23).
    pub period: Micros,
    /// Platters of an early library: "several hundreds" are 10 % of them (SOSP '23). We take 7,000;
    /// docs/paper.md shows how the results depend on it.
    pub platters: u32,
    /// Mean requests per second over a period, including bursts.
    pub requests_per_second: f64,
    /// Mean size of the files requested outside of bursts, in bytes; see [`Sizes::Mixture`].
    pub mean_bytes: f64,
    /// Size of the largest of these files, in bytes.
    pub largest_bytes: u64,
    /// The requests that arrive in bursts.
    pub bursts: IntervalBursts,
    /// The largest shard, in bytes.
    pub shard_bytes: u64,
    /// How reads are distributed over platters: uniformly, unless skew is studied (SOSP '23).
    pub popularity: Popularity,
}

/// The bursts of an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalBursts {
    /// Bursts per period; 0 for none.
    pub count: u32,
    /// Arrivals per burst.
    pub arrivals: u32,
    /// Files requested per arrival, together on one platter; 1 if files are unrelated.
    pub account_files: u32,
    /// Length of a burst.
    pub over: Micros,
    /// See [`Arrivals::Bursts`].
    pub jitter: f64,
    /// Mean file size, in bytes.
    pub mean_bytes: f64,
    /// Size of the largest of these files, in bytes.
    pub largest_bytes: u64,
}

impl Interval {
    /// A typical interval. Files above 20 GB would occur once in some intervals and change all of
    /// their figures.
    pub const TYPICAL: Self = Self {
        period: Micros(12 * Micros::HOUR.0),
        platters: 7_000,
        requests_per_second: 0.39,
        mean_bytes: 9e6,
        largest_bytes: 20_000_000_000,
        bursts: IntervalBursts {
            count: 7,
            arrivals: 860,
            account_files: 1,
            over: Micros(60_000_000),
            jitter: 0.5,
            mean_bytes: 9e6,
            largest_bytes: 20_000_000_000,
        },
        shard_bytes: SHARD_BYTES,
        popularity: Popularity::Uniform,
    };

    /// The interval with the most reads.
    pub const IOPS: Self = Self {
        requests_per_second: 2.3,
        mean_bytes: 0.9e6,
        bursts: IntervalBursts { count: 3, arrivals: 8_000, mean_bytes: 0.9e6, ..Self::TYPICAL.bursts },
        ..Self::TYPICAL
    };

    /// The interval with the most bytes. The files of an account are small enough not to be
    /// sharded, so they stay on one platter.
    pub const VOLUME: Self = Self {
        requests_per_second: 1.95,
        mean_bytes: 45e6,
        largest_bytes: 100_000_000_000,
        bursts: IntervalBursts {
            count: 4,
            arrivals: 1,
            account_files: 9_500,
            mean_bytes: 45e6,
            largest_bytes: SHARD_BYTES,
            ..Self::TYPICAL.bursts
        },
        ..Self::TYPICAL
    };

    /// Requests per period that arrive in bursts.
    #[must_use]
    pub fn requests_in_bursts(&self) -> f64 {
        f64::from(self.bursts.count) * f64::from(self.bursts.arrivals) * f64::from(self.bursts.account_files)
    }

    /// The workload, without an end.
    ///
    /// # Errors
    /// If the bursts alone exceed all requests, or a number is out of range.
    pub fn spec(&self) -> Result<Spec, SpecError> {
        let Self { period, bursts, .. } = *self;
        check_positive("period", period.seconds())?;
        let steady =
            check_positive("requests a second outside of bursts", self.requests_per_second - self.requests_in_bursts() / period.seconds())?;
        let source = |arrivals, mean_bytes, largest_bytes, account_files| Source {
            arrivals,
            sizes: Sizes::Mixture { mean_bytes, largest_bytes },
            popularity: self.popularity,
            account_files,
            layout: AccountLayout::Together,
        };
        let mut sources = vec![source(Arrivals::Poisson { per_second: steady }, self.mean_bytes, self.largest_bytes, 1)];
        if bursts.count > 0 {
            let arrivals =
                Arrivals::Bursts { period, count: bursts.count, arrivals: bursts.arrivals, over: bursts.over, jitter: bursts.jitter };
            sources.push(source(arrivals, bursts.mean_bytes, bursts.largest_bytes, bursts.account_files));
        }
        Ok(Spec { platters: Platters::new(self.platters), shard_bytes: self.shard_bytes, until: Micros::NEVER, sources })
    }
}

/// A full library: Poisson arrivals, files of one size (SOSP '23, section 7).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FullLibrary {
    /// Requests per second.
    pub requests_per_second: f64,
    /// File size in bytes: 100 MB (SOSP '23).
    pub file_bytes: u64,
    /// Platters: 7 racks of 10 shelves with 300 slots each, all occupied. Racks and shelves are
    /// those of the paper, the slots our proposal.
    pub platters: u32,
}

impl FullLibrary {
    /// The published file size and rate of a library at age nine.
    pub const PUBLISHED: Self = Self { requests_per_second: READS_PER_SECOND_OLD, file_bytes: 100_000_000, platters: 21_000 };

    /// The workload, without an end.
    #[must_use]
    pub fn spec(&self) -> Spec {
        let arrivals = Arrivals::Poisson { per_second: self.requests_per_second };
        Spec {
            platters: Platters::new(self.platters),
            shard_bytes: SHARD_BYTES,
            until: Micros::NEVER,
            sources: vec![Source::plain(arrivals, Sizes::Fixed { bytes: self.file_bytes })],
        }
    }
}

/// Mean reads per second of an early library, and of one at age nine (SOSP '23, section 7.2).
const READS_PER_SECOND_EARLY: f64 = 0.3;
const READS_PER_SECOND_OLD: f64 = 1.6;

/// Mean reads per second of a library of a given age: 0.3 at age 0 and 1.6 at age 9 are published;
/// the straight line through them is ours.
#[must_use]
pub fn reads_per_second_at_age(age: f64) -> f64 {
    READS_PER_SECOND_EARLY + (READS_PER_SECOND_OLD - READS_PER_SECOND_EARLY) / 9.0 * age
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Demand;

    #[test]
    fn the_intervals_have_the_published_ratios() {
        let bytes = |interval: &Interval| interval.requests_per_second * interval.mean_bytes;
        let per_byte = |interval: &Interval| interval.requests_per_second / bytes(interval);
        let close = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-9, "{found} instead of {wanted}");
        close(per_byte(&Interval::IOPS) / per_byte(&Interval::TYPICAL), 10.0);
        close(bytes(&Interval::VOLUME) / bytes(&Interval::TYPICAL), 25.0);
        close(Interval::VOLUME.requests_per_second / Interval::TYPICAL.requests_per_second, 5.0);
        for interval in [Interval::TYPICAL, Interval::IOPS, Interval::VOLUME] {
            close(interval.bursts.mean_bytes, interval.mean_bytes);
            let in_bursts = interval.requests_in_bursts() / (interval.requests_per_second * interval.period.seconds());
            assert!((0.2..=0.51).contains(&in_bursts), "{in_bursts} of the requests come in bursts");
        }
    }

    #[test]
    fn every_preset_yields_its_rate() {
        for preset in Preset::ALL {
            let mut spec = preset.spec().unwrap();
            spec.until = Micros(2 * Interval::TYPICAL.period.0);
            let wanted = match preset {
                Preset::Typical => 0.39,
                Preset::Iops => 2.3,
                Preset::Volume => 1.95,
                Preset::FullLibrary => 1.6,
            };
            let found = Demand::new(&spec, 8).unwrap().filter(|read| read.shard == 0).count() as f64 / spec.until.seconds();
            assert!((found / wanted - 1.0).abs() < 0.02, "{preset}: {found} instead of {wanted}");
            assert_eq!(preset.name().parse(), Ok(preset));
        }
        assert_eq!("IOPS".parse::<Preset>(), Err(UnknownPreset { found: "IOPS".into() }));
    }

    #[test]
    fn bursts_that_exceed_all_requests_are_rejected() {
        let interval = Interval { requests_per_second: 0.01, ..Interval::TYPICAL };
        assert!(matches!(interval.spec(), Err(SpecError::Range { .. })));
        let without = Interval { bursts: IntervalBursts { count: 0, ..Interval::TYPICAL.bursts }, ..interval };
        assert_eq!(without.spec().unwrap().sources.len(), 1);
    }

    #[test]
    fn an_older_library_reads_more() {
        assert_eq!(reads_per_second_at_age(0.0), 0.3);
        assert!((reads_per_second_at_age(9.0) - 1.6).abs() < 1e-12);
    }
}
