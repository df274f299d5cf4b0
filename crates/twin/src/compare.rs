//! Comparison of two scenarios, such as two policies, seed by seed.
//!
//! Both run with the same seeds, so they get the same requests unless their workloads differ. The
//! randomness of the load then affects both alike and cancels out in the ratio, so a few seeds show
//! differences that are smaller than the spread between seeds.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use fulgurite_domain::Micros;
use fulgurite_table::Value;

use crate::results::{LOWER_BOUNDS_IF_CENSORED, figures};
use crate::scenario::Scenario;
use crate::simulation::{Observer, Request, Run, RunError};
use crate::statistics::{MeanRatio, mean_ratio};
use crate::sweep::{Point, run_points_with};

const CONFIDENCE_LEVEL: f64 = 0.95;

/// Runs of two scenarios, A and B, with the same seeds.
#[derive(Debug)]
pub struct Comparison {
    /// The runs of A, in order of seeds.
    pub a: Vec<Run>,
    /// The runs of B.
    pub b: Vec<Run>,
    /// True if A and B got the same requests with each seed, up to the end of the measured
    /// interval.
    pub is_paired: bool,
    /// Shares of requests that A and B may lose, according to their scenarios.
    pub lost_at_most: [f64; 2],
}

/// Runs both scenarios with `seeds` seeds, from the first seed of A; on at least one thread. After
/// each run, `done` gets the number of finished runs.
///
/// # Errors
/// The error of the first failed run: A's, then B's, in order of seeds.
pub fn compare(a: Scenario, mut b: Scenario, seeds: u32, threads: usize, done: &(dyn Fn(usize) + Sync)) -> Result<Comparison, RunError> {
    b.run.seed = a.run.seed;
    let lost_at_most = [a.expect.lost_at_most, b.expect.lost_at_most];
    let point = |scenario: Scenario, side: &str| Point { varied: vec![("side".to_owned(), side.to_owned())], scenario };
    let digests: Mutex<Vec<(u64, u64)>> = Mutex::default();
    let observer = |point: &Point, seed: u64| RequestDigest::new(seed, point.scenario.run.measured_until());
    let finished = |count: usize, digest: RequestDigest| {
        digests.lock().unwrap_or_else(PoisonError::into_inner).push((digest.seed, digest.hasher.finish()));
        done(count);
        ControlFlow::Continue(())
    };
    let mut points = run_points_with(vec![point(a, "a"), point(b, "b")], Some(seeds), threads, &observer, &finished)?.into_iter();
    let mut runs = || points.next().map(|point| point.runs).unwrap_or_default();
    let mut digests = digests.into_inner().unwrap_or_else(PoisonError::into_inner);
    digests.sort_unstable();
    Ok(Comparison { a: runs(), b: runs(), is_paired: digests.chunks(2).all(|pair| pair[0] == pair[pair.len() - 1]), lost_at_most })
}

/// Digests the requests that arrive up to the end of the measured interval.
struct RequestDigest {
    seed: u64,
    until: Micros,
    hasher: DefaultHasher,
}

impl RequestDigest {
    fn new(seed: u64, until: Micros) -> Self {
        Self { seed, until, hasher: DefaultHasher::new() }
    }
}

impl Observer for RequestDigest {
    fn request(&mut self, request: &Request<'_>) {
        if request.at < self.until {
            (request.at, request.bytes, request.is_measured, request.shards.len()).hash(&mut self.hasher);
            request.shards.iter().for_each(|shard| (shard.platter.0, shard.tracks).hash(&mut self.hasher));
        }
    }
}

/// One figure of both scenarios.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedFigure {
    /// Its name.
    pub name: &'static str,
    /// Its unit; may be empty.
    pub unit: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Its values, in order of seeds.
    pub pairs: Vec<Pair>,
    /// The ratio A/B; `None` with fewer than two seeds, or if a value is missing, 0 or negative.
    pub ratio: Option<MeanRatio>,
    /// Runs of A and of B in which the value is only a lower bound.
    pub lower_bounds: [usize; 2],
    /// Runs of A and of B that lost more requests than their scenarios allow, if the value leaves
    /// these out.
    pub lossy: [usize; 2],
}

/// The values of a figure with one seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The seed.
    pub seed: u64,
    /// The value of A; `None` if it wasn't measured.
    pub a: Option<f64>,
    /// The value of B.
    pub b: Option<f64>,
}

impl Pair {
    /// The ratio A/B; `None` unless both values are positive.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let [a, b] = [self.a?, self.b?];
        (a > 0.0 && b > 0.0).then(|| a / b)
    }
}

impl Comparison {
    /// Compares the figure of this name, one of [`names`](crate::results::names); `None` if no
    /// figure has it.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<ComparedFigure> {
        let about = figures(&Run::default()).into_iter().find(|figure| figure.name == name)?;
        let value = |run: &Run| match figures(run).into_iter().find(|figure| figure.name == name)?.value {
            Value::F64(value) => Some(value),
            Value::I64(value) => Some(value as f64),
            _ => None,
        };
        let pairs = self.a.iter().zip(&self.b).map(|(a, b)| Pair { seed: a.seed, a: value(a), b: value(b) });
        let pairs: Vec<Pair> = pairs.collect();
        let values: Option<Vec<(f64, f64)>> = pairs.iter().map(|pair| pair.a.zip(pair.b)).collect();
        let ratio = values.and_then(|values| mean_ratio(&values, CONFIDENCE_LEVEL));
        let is_time = LOWER_BOUNDS_IF_CENSORED.contains(&about.name);
        let lower_bounds = [&self.a, &self.b].map(|runs| runs.iter().filter(|run| is_time && run.censored() > 0).count());
        let lossy = [(&self.a, self.lost_at_most[0]), (&self.b, self.lost_at_most[1])]
            .map(|(runs, at_most)| runs.iter().filter(|run| is_time && run.lost() > at_most).count());
        Some(ComparedFigure { name: about.name, unit: about.unit, about: about.about, pairs, ratio, lower_bounds, lossy })
    }
}

impl ComparedFigure {
    /// The result in words.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.ratio {
            _ if self.lower_bounds != [0, 0] => Verdict::LowerBounds(self.lower_bounds),
            _ if self.lossy != [0, 0] => Verdict::Lossy(self.lossy),
            _ if self.pairs.len() < 2 => Verdict::OneSeed,
            None => Verdict::NoRatio,
            Some(ratio) if ratio.includes_one() => Verdict::NoDifference(ratio),
            Some(ratio) => Verdict::Different(ratio),
        }
    }
}

/// What a comparison shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// The interval excludes 1.
    Different(MeanRatio),
    /// The interval includes 1.
    NoDifference(MeanRatio),
    /// Nothing: one seed says nothing about the spread.
    OneSeed,
    /// Nothing: a value is missing, 0 or negative.
    NoRatio,
    /// Nothing: in this many runs of A and of B the value is only a lower bound.
    LowerBounds([usize; 2]),
    /// Nothing: this many runs of A and of B lost requests, which the value leaves out.
    Lossy([usize; 2]),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            // Rounded to 100 %, it would say that A is nothing.
            Self::Different(MeanRatio { ratio, low, high, .. }) if high < 1.0 && low < LEAST_IN_PERCENT => {
                write!(f, "B is {:.2} times A ({:.2} to {:.2})", 1.0 / ratio, 1.0 / high, 1.0 / low)
            }
            Self::Different(MeanRatio { ratio, low, high, .. }) if high < 1.0 => {
                write!(f, "A is {} ({} to {}) below B", Percent(1.0 - ratio), Percent(1.0 - high), Percent(1.0 - low))
            }
            Self::Different(MeanRatio { ratio, low, high, .. }) if ratio < 2.0 => {
                write!(f, "A is {} ({} to {}) above B", Percent(ratio - 1.0), Percent(low - 1.0), Percent(high - 1.0))
            }
            Self::Different(MeanRatio { ratio, low, high, .. }) => write!(f, "A is {ratio:.2} times B ({low:.2} to {high:.2})"),
            Self::NoDifference(MeanRatio { low, high, .. }) => {
                write!(f, "no difference shown: the interval of A/B, {low:.4} to {high:.4}, includes 1")
            }
            Self::OneSeed => f.write_str("no verdict: one seed says nothing about the spread; run two or more"),
            Self::NoRatio => f.write_str("no verdict: a value is missing, 0 or negative, so it has no ratio"),
            Self::LowerBounds([a, b]) => {
                write!(
                    f,
                    "no verdict: the values of {a} runs of A and {b} of B are lower bounds, because requests had not ended (censored)"
                )
            }
            Self::Lossy([a, b]) => write!(
                f,
                "no verdict: {a} runs of A and {b} of B lost more requests than [expect] allows, and lost ones have no completion time"
            ),
        }
    }
}

/// A ratio A/B below this is not written as a share of B.
const LEAST_IN_PERCENT: f64 = 0.01;

/// A share in percent, with at least two digits.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.0;
        let decimals = match percent.abs() {
            size if size >= 9.95 => 0,
            size if size >= 0.995 => 1,
            _ => 2,
        };
        write!(f, "{percent:.decimals$} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(pairs: &[(f64, f64)]) -> ComparedFigure {
        let ratio = mean_ratio(pairs, CONFIDENCE_LEVEL);
        let pair = |(seed, (a, b)): (usize, &(f64, f64))| Pair { seed: seed as u64, a: Some(*a), b: Some(*b) };
        let pairs = pairs.iter().enumerate().map(pair).collect();
        ComparedFigure { name: "tail_s", unit: "s", about: "", pairs, ratio, lower_bounds: [0, 0], lossy: [0, 0] }
    }

    #[test]
    fn verdicts_say_how_far_apart_the_scenarios_are() {
        let said = |pairs: &[(f64, f64)]| compared(pairs).verdict().to_string();
        // Logarithms of the ratios: ln 0.88 with a standard error of 0.0005; t(0.975, 1) = 12.706,
        // so the interval extends by a factor of exp(0.00635).
        let spread = libm::exp(0.000_5);
        assert_eq!(said(&[(0.88 * spread, 1.0), (0.88 / spread, 1.0)]), "A is 12 % (11 % to 13 %) below B");
        assert_eq!(said(&[(1.0, 0.88 * spread), (1.0, 0.88 / spread)]), "A is 14 % (13 % to 14 %) above B");
        assert_eq!(said(&[(3.0 * spread, 1.0), (3.0 / spread, 1.0)]), "A is 3.00 times B (2.98 to 3.02)");
        assert_eq!(said(&[(0.02 * spread, 1.0), (0.02 / spread, 1.0)]), "A is 98 % (98 % to 98 %) below B");
        assert_eq!(said(&[(0.004 * spread, 1.0), (0.004 / spread, 1.0)]), "B is 250.00 times A (248.42 to 251.59)");
        // An interval that reaches far down.
        assert_eq!(said(&[(0.1, 1.0), (0.05, 1.0), (0.01, 1.0)]), "B is 27.14 times A (1.44 to 510.63)");
        assert_eq!(said(&[(0.9, 1.0), (1.1, 1.0)]), "no difference shown: the interval of A/B, 0.2781 to 3.5603, includes 1");
        assert_eq!(said(&[(0.9, 1.0)]), "no verdict: one seed says nothing about the spread; run two or more");
        assert_eq!(said(&[(0.0, 1.0), (0.9, 1.0)]), "no verdict: a value is missing, 0 or negative, so it has no ratio");
    }

    #[test]
    fn lower_bounds_have_no_verdict() {
        let figure = ComparedFigure { lower_bounds: [2, 0], ..compared(&[(1.0, 2.0), (1.0, 2.0)]) };
        let said = figure.verdict().to_string();
        assert_eq!(said, "no verdict: the values of 2 runs of A and 0 of B are lower bounds, because requests had not ended (censored)");
    }

    /// Ten minutes of a small library.
    fn small() -> Scenario {
        let mut scenario = Scenario { platters: 190, ..Scenario::default() };
        (scenario.run.warm_up, scenario.run.measured) = (Micros::ZERO, Micros(600_000_000));
        scenario.workload.bursts.count = 0;
        scenario
    }

    fn ran(a: &Scenario, b: &Scenario) -> Comparison {
        compare(a.clone(), b.clone(), 3, 2, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn machines_leave_the_requests_paired_and_another_workload_does_not() {
        let a = small();
        let mut slower = small();
        slower.mechanics.drive.throughput_bytes_s = 1e6;
        slower.run.seed = 77;
        let comparison = ran(&a, &slower);
        assert!(comparison.is_paired);
        assert_eq!(comparison.a.iter().map(|run| run.seed).collect::<Vec<_>>(), [1, 2, 3]);
        let figure = comparison.figure("mean_s").unwrap();
        assert_eq!(figure.pairs.iter().map(|pair| pair.seed).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(matches!(figure.verdict(), Verdict::Different(ratio) if ratio.high < 1.0), "{:?}", figure.verdict());
        assert_eq!(comparison.figure("refused").unwrap().verdict(), Verdict::NoRatio);
        assert_eq!(comparison.figure("median"), None);

        let mut more = small();
        more.workload.rate *= 1.01;
        assert!(!ran(&a, &more).is_paired);
        let mut longer = small();
        longer.run.measured = Micros(660_000_000);
        assert!(!ran(&a, &longer).is_paired);
    }

    #[test]
    fn a_scenario_does_not_differ_from_itself() {
        let figure = ran(&small(), &small()).figure("tail_s").unwrap();
        assert!(figure.pairs.iter().all(|pair| pair.ratio() == Some(1.0)));
        assert!(matches!(figure.verdict(), Verdict::NoDifference(_)));
    }
}
