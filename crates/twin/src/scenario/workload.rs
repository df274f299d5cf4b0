//! The workload of a run: a preset with some numbers changed, or a trace; and what is written
//! meanwhile.

use std::path::PathBuf;

use fulgurite_domain::Micros;
use fulgurite_library::Verification;
use fulgurite_workload::{
    AccountLayout, Arrivals, Demand, FullLibrary, IngestSpec, Interval, Platters, Popularity, SHARD_BYTES, Sizes, Source, Spec, SpecError,
};

use super::{Scenario, ScenarioError, SettingValue, range};

/// The preset that supplies a workload's defaults, or a trace.
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
    /// A trace, which replaces all numbers.
    Trace,
}

impl WorkloadKind {
    /// All kinds with their names in scenario files.
    pub const ALL: [(&'static str, Self); 5] = [
        ("typical", Self::Typical),
        ("iops", Self::Iops),
        ("volume", Self::Volume),
        ("full-library", Self::FullLibrary),
        ("trace", Self::Trace),
    ];

    /// The name in scenario files.
    #[must_use]
    pub fn text(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// Arrival pattern of requests outside of bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Independent of each other.
    Poisson,
    /// Evenly spaced.
    Constant,
    /// Poisson, at a rate that is redrawn for each period.
    Modulated,
}

/// Distribution of file sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeLaw {
    /// The published classes, weighted for the mean.
    Mixture,
    /// All the same.
    Fixed,
    /// Exponential.
    Exponential,
}

/// The requests of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The preset that the numbers come from.
    pub kind: WorkloadKind,
    /// Path of the trace, if the kind is a trace.
    pub trace: Option<PathBuf>,
    /// Mean requests per second, including those of bursts; for modulated arrivals, the median rate
    /// outside of bursts.
    pub rate: f64,
    /// Requests outside of bursts.
    pub steady: Steady,
    /// Bursts.
    pub bursts: Bursts,
    /// Exponent of the Zipf law that assigns accounts to platters; 0 is uniform.
    pub zipf: f64,
    /// Where the files of an account are placed.
    pub layout: AccountLayout,
    /// The largest shard, in bytes.
    pub shard_bytes: u64,
    /// Time from a request's arrival until its last byte is wanted; `None` if it isn't urgent.
    pub deadline: Option<Micros>,
}

/// Requests outside of bursts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// Arrival pattern.
    pub pattern: Pattern,
    /// Distribution of file sizes.
    pub sizes: SizeLaw,
    /// Mean size in bytes.
    pub mean_bytes: u64,
    /// Largest file of the mixture, in bytes.
    pub largest_bytes: u64,
    /// Files of an account, which are requested together.
    pub account_files: u32,
    /// Modulated: the rate's 99.9th percentile over its median.
    pub spread: f64,
    /// Modulated: how long each rate lasts.
    pub period: Micros,
    /// Modulated: correlation of the logarithm of the rate between successive periods, 0 to less
    /// than 1.
    pub persistence: f64,
    /// Modulated: maximum rate of arrivals, in requests a second, or in accounts a second if an
    /// account reads several files.
    pub most: f64,
}

/// Bursts, a fixed number in each period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    /// Length of a period, after which the bursts repeat.
    pub period: Micros,
    /// Bursts a period; 0 for none.
    pub count: u32,
    /// Arrivals of a burst.
    pub arrivals: u32,
    /// How long a burst lasts.
    pub over: Micros,
    /// Maximum delay of a burst, as a share of the spare time of its part of the period.
    pub jitter: f64,
    /// Distribution of file sizes.
    pub sizes: SizeLaw,
    /// Mean size in bytes.
    pub mean_bytes: u64,
    /// Largest file of the mixture, in bytes.
    pub largest_bytes: u64,
    /// Files of an account; each arrival requests all of them.
    pub account_files: u32,
}

/// What is written during a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ingest {
    /// Mean bytes of content ingested per day, by all libraries together. Redundancy is written in
    /// addition.
    pub bytes_per_day: u64,
    /// Standard deviation of the logarithm of a day's bytes.
    pub sigma: f64,
    /// Correlation of the logarithm of the bytes between successive days.
    pub persistence: f64,
    /// Capacity of the write drives, relative to the mean.
    pub headroom: f64,
    /// Platters that each library has room for, in addition to those written at the start.
    pub room: u32,
}

impl Default for Ingest {
    /// The ingest of an early library: 47 times what a typical interval reads, spread as published.
    fn default() -> Self {
        let interval = Interval::TYPICAL;
        let read_per_day = interval.requests_per_second * interval.mean_bytes * 86_400.0;
        let bytes_per_day = read_per_day * IngestSpec::BYTES_PER_BYTE_READ;
        Self {
            bytes_per_day: (bytes_per_day / 1e12 + 0.5) as u64 * 1_000_000_000_000,
            sigma: IngestSpec::SIGMA,
            persistence: IngestSpec::PERSISTENCE,
            headroom: IngestSpec::HEADROOM,
            // Ten sets of 16+3.
            room: 190,
        }
    }
}

impl Ingest {
    /// The specification for the workload crate, including redundancy.
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
        let verification = scenario.verification;
        let is_written = verification == Verification::Written;
        range("verification.of", is_written, SettingValue::Verification(verification), "\"written\", because the scenario has ingest")?;
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
    /// A preset with its own numbers. A trace gets those of a typical interval, which have no
    /// effect.
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
            // Service level of the archive: last byte within 15 hours (SOSP '23, section 2).
            deadline: Some(Micros(15 * Micros::HOUR.0)),
        }
    }

    /// Mean requests per second that arrive in bursts.
    #[must_use]
    pub fn rate_in_bursts(&self) -> f64 {
        let Bursts { period, count, arrivals, account_files, .. } = self.bursts;
        f64::from(count) * f64::from(arrivals) * f64::from(account_files) / period.seconds()
    }

    /// The specification for the workload crate, for these platters and without an end.
    ///
    /// # Errors
    /// [`ScenarioError::Range`] if the bursts exceed the total rate. Other numbers are checked when
    /// the demand is built.
    pub fn spec(&self, platters: Platters) -> Result<Spec, ScenarioError> {
        let popularity = if self.zipf == 0.0 { Popularity::Uniform } else { Popularity::Zipf { exponent: self.zipf } };
        let source = |arrivals, sizes, account_files| Source { arrivals, sizes, popularity, account_files, layout: self.layout };
        let mut sources = Vec::new();
        let Steady { pattern, spread, period, persistence, most, .. } = self.steady;
        let outside = self.rate - self.rate_in_bursts();
        // A remainder that is only a rounding error counts as nothing.
        if outside > self.rate * 1e-9 || pattern == Pattern::Modulated {
            // Each arrival requests all files of an account.
            let per_arrival = f64::from(self.steady.account_files.max(1));
            let per_second = outside / per_arrival;
            let arrivals = match pattern {
                Pattern::Poisson => Arrivals::Poisson { per_second },
                Pattern::Constant => Arrivals::Constant { per_second },
                Pattern::Modulated => {
                    Arrivals::Modulated { median_per_second: self.rate / per_arrival, spread, period, persistence, most_per_second: most }
                }
            };
            let sizes = sizes(self.steady.sizes, self.steady.mean_bytes, self.steady.largest_bytes);
            sources.push(source(arrivals, sizes, self.steady.account_files));
        } else if outside < -self.rate * 1e-9 {
            let expected = format!("at least {:.4} a second, the rate of the bursts alone", self.rate_in_bursts());
            range("workload.rate", false, SettingValue::Rate(self.rate), expected)?;
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
            (WorkloadKind::Trace, None) => range("workload.trace", false, SettingValue::Nothing, "the path of a trace"),
            (WorkloadKind::Trace, Some(_)) => Ok(()),
            (_, Some(path)) => range("workload.trace", false, SettingValue::Path(path.clone()), "nothing, unless preset is \"trace\""),
            // Building the table of a Zipf law is the only slow step, and its success doesn't
            // depend on the number of platters.
            _ => {
                let small = if self.zipf == 0.0 { platters } else { Platters { count: platters.count.min(1_000), ..platters } };
                let spec = self.spec(small)?;
                range("workload.rate", !spec.sources.is_empty(), SettingValue::Rate(self.rate), "more than 0, or bursts")?;
                // One after another, so that an error can be attributed to one of them.
                for source in &spec.sources {
                    let alone = |platters| Demand::new(&Spec { platters, sources: vec![*source], ..spec.clone() }, 0).map(drop);
                    let checked = match alone(small) {
                        // The file may be too large only for the reduced number of platters.
                        Err(SpecError::File { .. }) if small != platters => alone(platters),
                        checked => checked,
                    };
                    checked.map_err(|error| at_setting(source, error))?;
                }
                Ok(())
            }
        }
    }
}

/// The setting that an error in the numbers of this source is about.
fn at_setting(source: &Source, error: SpecError) -> ScenarioError {
    let is_burst = matches!(source.arrivals, Arrivals::Bursts { .. });
    let of = |steady, bursts| if is_burst { bursts } else { steady };
    let (setting, found, expected) = match error {
        SpecError::Mean { found, least, most } => {
            let expected = format!("more than {least:.0} B and less than {most:.0} B: no weighting of the size classes has another mean");
            (of("workload.steady.mean", "workload.bursts.mean"), SettingValue::Number(found), expected)
        }
        SpecError::File { largest, capacity } => {
            let setting = match source.sizes {
                Sizes::Mixture { .. } => of("workload.steady.largest", "workload.bursts.largest"),
                Sizes::Fixed { .. } | Sizes::Exponential { .. } => of("workload.steady.mean", "workload.bursts.mean"),
            };
            let expected = format!("files of {capacity} B or less, which the platters hold in shards of the size `workload.shard`");
            (setting, SettingValue::Count(largest), expected)
        }
        SpecError::Account { files, fit } => {
            let expected = format!("at most {fit}, the files of the mean size that fit on a platter");
            (of("workload.steady.account_files", "workload.bursts.account_files"), SettingValue::Count(files.into()), expected)
        }
        SpecError::Bursts { count, over_s, period_s } => {
            let expected = format!("at most {} s, so that {count} bursts fit into a period of {period_s} s", period_s / f64::from(count));
            ("workload.bursts.over", SettingValue::Time(Micros::from_seconds(over_s)), expected)
        }
        error @ (SpecError::Range { .. } | SpecError::Sources { .. }) => return error.into(),
    };
    ScenarioError::Range { setting, found, expected: expected.into() }
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
    fn presets_match_those_of_the_workload_crate() {
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
    fn the_rate_counts_requests_whatever_the_pattern_and_the_files_of_an_account() {
        let mut workload = Workload::preset(WorkloadKind::FullLibrary);
        workload.steady.account_files = 16;
        for pattern in [Pattern::Poisson, Pattern::Constant, Pattern::Modulated] {
            workload.steady.pattern = pattern;
            let spec = workload.spec(Platters::new(10)).unwrap();
            let accounts = match spec.sources[0].arrivals {
                Arrivals::Poisson { per_second } | Arrivals::Constant { per_second } => per_second,
                Arrivals::Modulated { median_per_second, .. } => median_per_second,
                Arrivals::Bursts { .. } => panic!("this workload has no bursts"),
            };
            assert!((accounts * 16.0 / workload.rate - 1.0).abs() < 1e-12, "{pattern:?}");
        }
    }

    #[test]
    fn bursts_may_make_up_the_whole_rate_but_not_exceed_it() {
        let mut workload = Workload::preset(WorkloadKind::Iops);
        workload.rate = workload.rate_in_bursts();
        assert_eq!(workload.spec(Platters::new(10)).unwrap().sources.len(), 1);
        workload.rate *= 0.9;
        assert!(workload.spec(Platters::new(10)).unwrap_err().to_string().starts_with("workload.rate: "));
    }
}
