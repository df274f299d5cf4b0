//! Measurements kept of each run, and their aggregates over several runs.

use crate::simulation::{DriveFigures, Outcomes, Run, ShuttleFigures, SystemFigures};
use crate::statistics::{Interval, confidence};

/// Measurements of a run. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "what has no comment is what its name says")]
pub struct Measured {
    pub seed: u64,
    pub requests: u64,
    /// Requests that had not ended when the run stopped. If there are any, completion times are
    /// lower bounds.
    pub censored: u64,
    pub bytes: u64,
    /// 99.9th percentile of completion times: the tail.
    pub tail_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    pub median_s: f64,
    pub mean_s: f64,
    pub longest_s: f64,
    /// Tail that no policy can beat on the same hardware; `None` if unknown.
    pub bound_s: Option<f64>,
    /// The same for policies without knowledge of future requests.
    pub unforeseen_s: Option<f64>,
    /// Time for all shuttles to visit every requested platter once.
    pub sweep_s: Option<f64>,
    /// How requests ended.
    pub outcomes: Outcomes,
    /// Shards read from other platters of their set.
    pub recoveries: u64,
    pub events: u64,
    pub drives: DriveFigures,
    pub shuttles: ShuttleFigures,
    /// Queues of the whole system.
    pub system: SystemFigures,
}

impl Measured {
    pub(super) fn of(mut run: Run) -> Self {
        Self {
            seed: run.seed,
            requests: run.requests,
            censored: run.censored(),
            bytes: run.bytes,
            tail_s: run.percentile_s(0.999),
            p99_s: run.percentile_s(0.99),
            median_s: run.percentile_s(0.5),
            mean_s: run.mean_s(),
            longest_s: run.longest_s(),
            bound_s: run.bound.map(|bound| bound.tail.seconds()),
            sweep_s: run.bound.map(|bound| bound.one_sweep.seconds()),
            unforeseen_s: run.bound.and_then(|bound| bound.unforeseen).map(|tail| tail.seconds()),
            outcomes: run.outcomes,
            recoveries: run.recoveries,
            events: run.events,
            drives: run.drives,
            shuttles: run.shuttles,
            system: run.system,
        }
    }

    /// Platter operations of shuttles per request: the cost of bringing and returning platters.
    #[must_use]
    pub fn operations_per_request(&self) -> f64 {
        self.shuttles.operations as f64 / self.requests.max(1) as f64
    }
}

/// A mean over seeds, with its 95 % confidence interval if there are enough of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// With two seeds or more, unless the mean is a lower bound.
    pub interval: Option<Interval>,
    /// True if the mean is a lower bound, because requests of a run were censored.
    pub is_at_least: bool,
}

/// With fewer seeds an interval reflects chance more than the mean.
const SEEDS_FOR_AN_INTERVAL: u64 = 5;

impl Estimate {
    /// The mean of one or more values.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Self { mean, interval: confidence(values, 0.95), is_at_least: false }
    }

    /// The interval, if enough seeds make it worth showing.
    #[must_use]
    pub fn reliable_interval(&self) -> Option<Interval> {
        self.interval.filter(|interval| interval.count >= SEEDS_FOR_AN_INTERVAL)
    }

    /// Half the width of the shown interval.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        self.reliable_interval().map(|interval| interval.half_width)
    }
}

/// Runs of one scenario, by their seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample(Vec<Measured>);

impl Sample {
    pub(super) fn new(runs: Vec<Measured>) -> Self {
        Self(runs)
    }

    /// The runs.
    #[must_use]
    pub fn runs(&self) -> &[Measured] {
        &self.0
    }

    /// The mean of a measurement, with its interval.
    #[must_use]
    pub fn estimate(&self, of: impl Fn(&Measured) -> f64) -> Estimate {
        Estimate::of(&self.0.iter().map(of).collect::<Vec<_>>())
    }

    /// The mean of a measurement.
    #[must_use]
    pub fn mean(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        self.estimate(of).mean
    }

    /// The tail in seconds.
    #[must_use]
    pub fn tail(&self) -> Estimate {
        let estimate = self.estimate(|run| run.tail_s);
        if self.is_censored() { Estimate { interval: None, is_at_least: true, ..estimate } } else { estimate }
    }

    /// True if requests of a run had not ended when it stopped.
    #[must_use]
    pub fn is_censored(&self) -> bool {
        self.0.iter().any(|run| run.censored > 0)
    }

    /// Mean of the tail that no policy can beat; `None` unless it is known for all runs.
    #[must_use]
    pub fn bound(&self) -> Option<f64> {
        self.mean_if_known(|run| run.bound_s)
    }

    /// The same for policies without knowledge of future requests.
    #[must_use]
    pub fn unforeseen(&self) -> Option<f64> {
        self.mean_if_known(|run| run.unforeseen_s)
    }

    fn mean_if_known(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.0.iter().map(of).collect();
        values.map(|values| Estimate::of(&values).mean)
    }

    /// Mean ratio of a measurement to that of another scenario, seed by seed. Both scenarios had
    /// the same requests, so this is more accurate than the ratio of means. Seeds that only one of
    /// them has are ignored.
    #[must_use]
    pub fn ratio_to(&self, other: &Self, of: impl Fn(&Measured) -> f64) -> Estimate {
        let ratios: Vec<f64> = self.0.iter().zip(&other.0).filter(|(a, b)| a.seed == b.seed).map(|(a, b)| of(a) / of(b)).collect();
        Estimate::of(&ratios)
    }

    /// Mean ratio of the tail to a bound; `None` unless the bound is known and not 0 in all runs.
    #[must_use]
    pub fn over(&self, bound: impl Fn(&Measured) -> Option<f64>) -> Option<Estimate> {
        let ratios: Option<Vec<f64>> = self.0.iter().map(|run| Some(run.tail_s / bound(run).filter(|bound_s| *bound_s > 0.0)?)).collect();
        ratios.map(|ratios| Estimate::of(&ratios))
    }
}
