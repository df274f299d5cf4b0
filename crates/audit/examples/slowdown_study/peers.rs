//! What others would use: rules on single checks or on running means, for comparison.
//!
//! Each learns the mean, the median and the deviations of the logarithms of ratios in the same four
//! weeks as the detector.

use std::collections::VecDeque;

use fulgurite_audit::slowdown::{Check, Timing};

use super::world::{DAY, START};
use fulgurite_audit::expectation::Expectation;

/// Learning takes this long.
const LEARN: f64 = 28.0 * DAY;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One check takes more than twice the usual time.
    TwiceOnce,
    /// Three of five checks take more than 1.5 times the usual time.
    ThreeOfFive,
    /// One check is more than four standard deviations above the mean.
    ZScore,
    /// Exponentially weighted mean with weight 0.2, clipped at three deviations, above four of its
    /// own.
    Ewma,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::TwiceOnce, Self::ThreeOfFive, Self::ZScore, Self::Ewma];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TwiceOnce => "once above 2x",
            Self::ThreeOfFive => "3 of 5 above 1.5x",
            Self::ZScore => "z-score above 4",
            Self::Ewma => "EWMA 0.2, 4 deviations",
        }
    }
}

#[derive(Clone)]
pub(crate) struct Peer {
    kind: Kind,
    learned: Option<Learned>,
    values: Vec<f64>,
    last: VecDeque<bool>,
    mean: f64,
}

#[derive(Clone, Copy)]
struct Learned {
    mean: f64,
    deviation: f64,
    median: f64,
    robust: f64,
}

impl Peer {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, learned: None, values: Vec::new(), last: VecDeque::new(), mean: 0.0 }
    }

    /// Adds a check; true if the rule alarms.
    pub(crate) fn observe(&mut self, expectation: Expectation, check: Check) -> bool {
        let ratio = match check.timing {
            Timing::Answered(time) => libm::log(expectation.ratio(check.bytes, time)),
            Timing::Unanswered => 9.0,
        };
        let Some(learned) = self.learned else {
            self.values.push(ratio);
            if check.at_s as f64 >= START + LEARN {
                self.learned = Some(learn(&std::mem::take(&mut self.values)));
            }
            return false;
        };
        let above = ratio - learned.median;
        match self.kind {
            Kind::TwiceOnce => above > std::f64::consts::LN_2,
            Kind::ThreeOfFive => {
                self.last.push_back(above > 1.5_f64.ln());
                if self.last.len() > 5 {
                    self.last.pop_front();
                }
                self.last.iter().filter(|above| **above).count() >= 3
            }
            Kind::ZScore => (ratio - learned.mean) / learned.deviation > 4.0,
            Kind::Ewma => {
                let z = (above / learned.robust).clamp(-3.0, 3.0);
                self.mean = 0.8 * self.mean + 0.2 * z;
                // The variance of the mean is 0.2 / (2 - 0.2) of that of a value.
                self.mean > 4.0 / 3.0
            }
        }
    }
}

fn learn(values: &[f64]) -> Learned {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    let middle = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let median = middle(values.to_vec());
    let robust = 1.4826 * middle(values.iter().map(|value| (value - median).abs()).collect());
    Learned { mean, deviation, median, robust }
}
