//! What is asked for in a run: a preset with any of its numbers changed, or a trace; and what is written meanwhile.

use std::path::PathBuf;

use fulgurite_domain::Micros;
use fulgurite_library::Verification;
use fulgurite_workload::{
    AccountLayout, Arrivals, Demand, FullLibrary, IngestSpec, Interval, Platters, Popularity, SHARD_BYTES, Sizes, Source, Spec, SpecError,
};

use super::{Scenario, ScenarioError};

/// Whose numbers a workload begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadKind {
    /// A typical interval.
    Typical,
    /// The interval with the most reads.
    Iops,
    /// The interval with the most bytes.
    Volume,
    /// A full library, under Poisson arrivals of files of one size.
    FullLibrary,
    /// A trace, in place of all numbers.
    Trace,
}

impl WorkloadKind {
    /// All of them, as they are written in a scenario.
    pub const ALL: [(&'static str, Self); 5] = [
        ("typical", Self::Typical),
        ("iops", Self::Iops),
        ("volume", Self::Volume),
        ("full-library", Self::FullLibrary),
        ("trace", Self::Trace),
    ];

    /// As it is written in a scenario.
    #[must_use]
    pub fn text(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// How requests outside of bursts come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Independent of each other.
    Poisson,
    /// Evenly spaced.
    Constant,
    /// Poisson, at a rate that is drawn anew for each period.
    Modulated,
}

/// How large files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeLaw {
    /// The published classes, weighted for the mean.
    Mixture,
    /// All the same.
    Fixed,
    /// Exponential.
    Exponential,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Where its numbers are from.
    pub kind: WorkloadKind,
    /// The trace, where it is one.
    pub trace: Option<PathBuf>,
    /// Requests a second in the mean, those of bursts included; for modulated arrivals the median rate outside of bursts.
    pub rate: f64,
    /// The requests outside of bursts.
    pub steady: Steady,
    /// Bursts.
    pub bursts: Bursts,
    /// Exponent of Zipf's law by which accounts fall on platters; 0 is uniform.
    pub zipf: f64,
    /// Where the files of an account lie.
    pub layout: AccountLayout,
    /// The largest shard, in bytes.
    pub shard_bytes: u64,
    /// How long after its arrival the last byte of a request is wanted; none for at leisure.
    pub deadline: Option<Micros>,
}

/// Requests outside of bursts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// When they come.
    pub pattern: Pattern,
    /// How large the files are.
    pub sizes: SizeLaw,
    /// Mean size in bytes.
    pub mean_bytes: u64,
    /// The largest file, in bytes, of the mixture.
    pub largest_bytes: u64,
    /// Files of an account, which are requested together.
    pub account_files: u32,
    /// Modulated: the rate's 99.9th percentile over its median.
    pub spread: f64,
    /// Modulated: how long a rate lasts.
    pub period: Micros,
    /// Modulated: how much the logarithm of one period's rate is like the last one's, 0 to less than 1.
    pub persistence: f64,
    /// Modulated: the highest rate, in requests a second.
    pub most: f64,
}

/// So many bursts in each period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    /// After it the next ones come.
    pub period: Micros,
    /// Bursts a period; 0 for none.
    pub count: u32,
    /// Arrivals of a burst.
    pub arrivals: u32,
    /// How long a burst lasts.
    pub over: Micros,
    /// Share of its part of the period by which a burst may be late.
    pub jitter: f64,
    /// How large the files are.
    pub sizes: SizeLaw,
    /// Mean size in bytes.
    pub mean_bytes: u64,
    /// The largest file, in bytes, of the mixture.
    pub largest_bytes: u64,
    /// Files of an account, which are requested together: each arrival asks for all of them.
    pub account_files: u32,
}

/// What is written meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ingest {
    /// Bytes of content that come in a day, in the mean, to all libraries together. Redundancy is written beside them.
    pub bytes_per_day: u64,
    /// Standard deviation of the logarithm of a day's bytes.
    pub sigma: f64,
    /// How much the logarithm of a day's bytes is like the last one's.
    pub persistence: f64,
    /// What the write drives can write, over the mean.
    pub headroom: f64,
    /// Platters that each library has room for, beside those that are there at the beginning.
    pub room: u32,
}

impl Default for Ingest {
    /// A year of an early library: 47 times what a typical interval reads, spread as published.
    fn default() -> Self {
        let interval = Interval::TYPICAL;
        let read_per_day = interval.requests_per_second * interval.mean_bytes * 86_400.0;
        let bytes_per_day = read_per_day * IngestSpec::BYTES_PER_BYTE_READ;
        Self {
            bytes_per_day: (bytes_per_day / 1e12 + 0.5) as u64 * 1_000_000_000_000,
            sigma: IngestSpec::SIGMA,
            persistence: IngestSpec::PERSISTENCE,
            headroom: IngestSpec::HEADROOM,
            room: 190,
        }
    }
}

impl Ingest {
    /// As the workload's crate has it: redundancy included.
    #[must_use]
    pub fn spec(&self, scenario: &Scenario) -> IngestSpec {
        let shape = scenario.sets.shape;
        let written = f64::from(shape.platters()) / f64::from(shape.information);
        IngestSpec {
            bytes_per_day: self.bytes_per_day as f64 * written,
            sigma: self.sigma,
            persistence: self.persistence,
            platter_bytes: scenario.readable().platter_bytes(),
            headroom: self.headroom,
        }
    }

    pub(super) fn check(&self, scenario: &Scenario) -> Result<(), ScenarioError> {
        if scenario.verification != Verification::Written {
            let (setting, expected) = ("verification.of", "\"written\", where something is written".to_owned());
            return Err(ScenarioError::Range { setting, found: format!("{:?}", scenario.verification), expected });
        }
        fulgurite_workload::Ingest::new(self.spec(scenario), 0)?;
        Ok(())
    }
}

impl Default for Workload {
    fn default() -> Self {
        Self::preset(WorkloadKind::Typical)
    }
}

impl Workload {
    /// A preset with its own numbers; a trace has a typical interval's, which are of no effect.
    #[must_use]
    pub fn preset(kind: WorkloadKind) -> Self {
        match kind {
            WorkloadKind::Typical | WorkloadKind::Trace => Self { kind, ..Self::interval(kind, &Interval::TYPICAL) },
            WorkloadKind::Iops => Self::interval(kind, &Interval::IOPS),
            WorkloadKind::Volume => Self::interval(kind, &Interval::VOLUME),
            WorkloadKind::FullLibrary => {
                let FullLibrary { requests_per_second, file_bytes, .. } = FullLibrary::PUBLISHED;
                let typical = Self::interval(kind, &Interval::TYPICAL);
                let steady = Steady { sizes: SizeLaw::Fixed, mean_bytes: file_bytes, ..typical.steady };
                let bursts = Bursts { count: 0, ..typical.bursts };
                Self { rate: requests_per_second, steady, bursts, shard_bytes: SHARD_BYTES, ..typical }
            }
        }
    }

    fn interval(kind: WorkloadKind, interval: &Interval) -> Self {
        let bursts = &interval.bursts;
        Self {
            kind,
            trace: None,
            rate: interval.requests_per_second,
            steady: Steady {
                pattern: Pattern::Poisson,
                sizes: SizeLaw::Mixture,
                mean_bytes: interval.mean_bytes as u64,
                largest_bytes: interval.largest_bytes,
                account_files: 1,
                spread: 1e7,
                period: Micros::HOUR,
                persistence: 0.0,
                most: 100.0,
            },
            bursts: Bursts {
                period: interval.period,
                count: bursts.count,
                arrivals: bursts.arrivals,
                over: bursts.over,
                jitter: bursts.jitter,
                sizes: SizeLaw::Mixture,
                mean_bytes: bursts.mean_bytes as u64,
                largest_bytes: bursts.largest_bytes,
                account_files: bursts.account_files,
            },
            zipf: 0.0,
            layout: AccountLayout::Together,
            shard_bytes: interval.shard_bytes,
            // Service level of the archive: the last byte within 15 hours (P, section 2).
            deadline: Some(Micros(15 * Micros::HOUR.0)),
        }
    }

    /// Requests a second that come in bursts, in the mean.
    #[must_use]
    pub fn rate_in_bursts(&self) -> f64 {
        let Bursts { period, count, arrivals, account_files, .. } = self.bursts;
        f64::from(count) * f64::from(arrivals) * f64::from(account_files) / period.seconds()
    }

    /// As the workload's crate has it, for these platters and without an end.
    ///
    /// # Errors
    /// [`ScenarioError::Range`] if bursts are more than everything. Other numbers are checked by who draws from them.
    pub fn spec(&self, platters: Platters) -> Result<Spec, ScenarioError> {
        let popularity = if self.zipf == 0.0 { Popularity::Uniform } else { Popularity::Zipf { exponent: self.zipf } };
        let source = |arrivals, sizes, account_files| Source { arrivals, sizes, popularity, account_files, layout: self.layout };
        let mut sources = Vec::new();
        let Steady { pattern, spread, period, persistence, most, .. } = self.steady;
        let outside = self.rate - self.rate_in_bursts();
        // What is left by rounding alone is nothing.
        if outside > self.rate * 1e-9 || pattern == Pattern::Modulated {
            let per_second = outside / f64::from(self.steady.account_files.max(1));
            let arrivals = match pattern {
                Pattern::Poisson => Arrivals::Poisson { per_second },
                Pattern::Constant => Arrivals::Constant { per_second },
                Pattern::Modulated => {
                    Arrivals::Modulated { median_per_second: self.rate, spread, period, persistence, most_per_second: most }
                }
            };
            let sizes = sizes(self.steady.sizes, self.steady.mean_bytes, self.steady.largest_bytes);
            sources.push(source(arrivals, sizes, self.steady.account_files));
        } else if outside < -self.rate * 1e-9 {
            let expected = format!("{:.4} a second or more, which come in bursts alone", self.rate_in_bursts());
            return Err(ScenarioError::Range { setting: "workload.rate", found: format!("{} a second", self.rate), expected });
        }
        let Bursts { period, count, arrivals, over, jitter, account_files, .. } = self.bursts;
        if count > 0 {
            let sizes = sizes(self.bursts.sizes, self.bursts.mean_bytes, self.bursts.largest_bytes);
            sources.push(source(Arrivals::Bursts { period, count, arrivals, over, jitter }, sizes, account_files));
        }
        Ok(Spec { platters, shard_bytes: self.shard_bytes, until: Micros::NEVER, sources })
    }

    pub(super) fn check(&self, platters: Platters) -> Result<(), ScenarioError> {
        match (self.kind, &self.trace) {
            (WorkloadKind::Trace, None) => {
                let (setting, found) = ("workload.trace", "nothing".to_owned());
                Err(ScenarioError::Range { setting, found, expected: "the path of a trace".to_owned() })
            }
            (WorkloadKind::Trace, Some(_)) => Ok(()),
            (_, Some(path)) => {
                let (setting, found) = ("workload.trace", path.display().to_string());
                Err(ScenarioError::Range { setting, found, expected: "nothing, unless preset is \"trace\"".to_owned() })
            }
            // The table of a Zipf law is all that takes time, and doesn't fail for any other number of platters.
            _ => {
                let small = if self.zipf == 0.0 { platters } else { Platters { count: platters.count.min(1_000), ..platters } };
                let spec = self.spec(small)?;
                match Demand::new(&spec, 0) {
                    // A file may be too large for a thousand platters.
                    Err(SpecError::File { .. }) if small != platters => Demand::new(&self.spec(platters)?, 0).map(drop)?,
                    checked => drop(checked?),
                }
                Ok(())
            }
        }
    }
}

fn sizes(law: SizeLaw, mean_bytes: u64, largest_bytes: u64) -> Sizes {
    match law {
        SizeLaw::Mixture => Sizes::Mixture { mean_bytes: mean_bytes as f64, largest_bytes },
        SizeLaw::Fixed => Sizes::Fixed { bytes: mean_bytes },
        SizeLaw::Exponential => Sizes::Exponential { mean_bytes: mean_bytes as f64 },
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_workload::Preset;

    use super::*;

    #[test]
    fn presets_are_those_of_the_workloads_crate() {
        let presets = [
            (WorkloadKind::Typical, Preset::Typical),
            (WorkloadKind::Iops, Preset::Iops),
            (WorkloadKind::Volume, Preset::Volume),
            (WorkloadKind::FullLibrary, Preset::FullLibrary),
        ];
        for (kind, preset) in presets {
            let theirs = preset.spec().unwrap();
            assert_eq!(Workload::preset(kind).spec(theirs.platters).unwrap(), theirs, "{preset}");
            assert_eq!(kind.text(), preset.name());
        }
    }

    #[test]
    fn bursts_alone_are_a_workload_and_more_of_them_than_everything_is_none() {
        let mut workload = Workload::preset(WorkloadKind::Iops);
        workload.rate = workload.rate_in_bursts();
        assert_eq!(workload.spec(Platters::new(10)).unwrap().sources.len(), 1);
        workload.rate *= 0.9;
        assert!(workload.spec(Platters::new(10)).unwrap_err().to_string().starts_with("workload.rate: "));
    }
}
