//! Names a node that gets slower, and no other.
//!
//! A [`Detector`] watches one method of one node. Detectors share nothing, so a slowdown of one
//! node can't hide or delay that of another. It is a sequential test on ln(measured / expected):
//!
//! ```text
//! check --> ln(measured / expected) - usual value of its size class
//!             | median of a bin of time: one witness, however many checks are in it
//!             v
//!           residual = median - usual level - usual cycle of the day and the week
//!             | divided by its usual deviation, clipped
//!             v
//!           sums of what exceeds the allowance: slower, faster, back --> Event
//! ```
//!
//! - **Bins.** A minute of congestion can delay ten thousand checks; they are one piece of
//!   evidence. All checks of a bin have one vote, their median. At low rates, a bin has one check.
//! - **Clipping.** A bin adds at most `clip - allowance` to a sum, so an alarm takes at least
//!   `threshold / (clip - allowance)` bins, however slow they are. That is what tells a slowdown
//!   from a burst: congestion that ends before is not reported.
//! - **The baseline is learned, then held.** A gradual slowdown is therefore not absorbed. Only an
//!   operator can say that a new level is the usual one: [`Detector::relearn`].
//! - **No answer is not fast.** A check without an answer ranks as slower than any other.
//!
//! `docs/audit/slowdown.md` has the study from which the parameters come, and where it fails.

mod baseline;
mod cusum;
mod state;

use std::time::Duration;

pub use baseline::Baseline;
pub use cusum::{ParameterError, Parameters, run_length};
pub use state::StateError;

use crate::expectation::Expectation;
use crate::thinned::{Thinned, median, robust_deviation};
use baseline::{LearnedBin, Learning};
use cusum::Walk;

/// Residuals kept of the checks of a bin: the median of 64 is within 16 % of a deviation.
const BIN_KEPT: usize = 64;
/// Residuals kept of the bins of an episode.
const EPISODE_KEPT: usize = 32;
/// Bins whose median is the present factor.
const RECENT: usize = 5;
/// The logarithm of ratios that a check without an answer has: above that of every answer.
const UNANSWERED: f32 = 9.0;
/// Logarithms of ratios are limited to this: a factor of 5,000.
const LARGEST: f64 = 8.5;
/// The logarithm of the factor by which a slowdown must exceed the reported one to be reported
/// again: 1.5.
const WORSE: f64 = 0.405;
/// A check this much older than the present bin means that the clock was set back.
const CLOCK_SET_BACK_S: u64 = 86_400;

/// A check, as far as its time matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// When it ended, in seconds of Unix time. Days and weeks are those of UTC.
    pub at_s: u64,
    /// Size of the file.
    pub bytes: u64,
    /// How long it took.
    pub timing: Timing,
}

/// How long a check took.
///
/// A check with wrong bytes belongs here too if all bytes arrived. A file that is missing, or that
/// the node refuses for lack of permission, has no timing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// The whole content arrived after this time.
    Answered(Duration),
    /// No complete answer: a timeout, a lost connection, a fault of the node. How soon it failed
    /// doesn't matter.
    Unanswered,
}

/// What a detector reports. Each change is reported once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// The usual behavior is known, and judging begins.
    Learned {
        /// Usual time divided by expected time. Far above 1, the node was slow while the detector
        /// learned, or the expectation is wrong: look before you trust it.
        factor: f64,
    },
    /// The node's times changed and stayed so. An episode of faster times is over when one of
    /// slower times begins.
    Began(Episode),
    /// A slowdown that was reported got worse, by at least a half. Otherwise a small one would
    /// hide a large one at the same node.
    Worsened {
        /// The episode, with its new factor.
        episode: Episode,
        /// Estimate of when it got worse, in Unix seconds.
        since_s: u64,
        /// When that was named, in Unix seconds.
        named_s: u64,
    },
    /// The node is back at its usual times.
    Ended {
        /// The episode that ended, with the factor of all of it.
        episode: Episode,
        /// Estimate of when it ended, in Unix seconds.
        until_s: u64,
    },
}

/// A lasting change of a node's times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Episode {
    /// Slower is an alarm. Faster is a note: the baseline may be out of date.
    pub direction: Direction,
    /// Estimate of when it began, in Unix seconds: the start of the first bin that counts.
    pub since_s: u64,
    /// When it was named, in Unix seconds.
    pub named_s: u64,
    /// Median time divided by the usual time of the hour, if at least half of the bins had
    /// answers.
    pub factor: Option<f64>,
    /// Checks from its beginning to the report, or to its end.
    pub checks: u64,
    /// Those of them without an answer.
    pub unanswered: u64,
}

/// A direction of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Times got longer.
    Slower,
    /// Times got shorter.
    Faster,
}

/// What a detector thinks of its node now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Status {
    /// The usual behavior is not known yet. Nothing is reported meanwhile.
    Learning {
        /// Bins so far.
        bins: u32,
    },
    /// Times are as usual.
    Usual {
        /// The sum of evidence for a slowdown, as a share of the threshold.
        suspicion: f64,
    },
    /// Times changed.
    Changed {
        /// The episode, as it was reported.
        episode: Episode,
        /// Median of the last five bins, as [`Episode::factor`].
        factor_now: Option<f64>,
    },
}

/// Watches one method of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Detector {
    expectation: Expectation,
    parameters: Parameters,
    bin: Bin,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq)]
struct Bin {
    /// Start in Unix seconds; meaningless while there are no checks.
    start_s: u64,
    /// Logarithms of ratios, less those of their size classes.
    ratios: Thinned<f32>,
    unanswered: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Learning(Box<Learning>),
    Judging(Box<Judging>),
}

#[derive(Debug, Clone, PartialEq)]
struct Judging {
    baseline: Baseline,
    slower: Walk,
    faster: Walk,
    /// The logarithm of the factor that was reported last.
    reported: f64,
    /// Evidence that the present episode is over.
    back: Walk,
    /// With the residuals of its bins.
    episode: Option<(Episode, Thinned<Residual>)>,
    /// Residuals of the last bins, newest last.
    recent: Vec<f32>,
}

/// The residual of a bin, and its start.
type Residual = (u64, f32);

/// A bin that has ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    start_s: u64,
    /// When it was closed.
    now_s: u64,
    value: f64,
    checks: u64,
    unanswered: u64,
}

impl Detector {
    /// Starts to learn the usual behavior of a node.
    ///
    /// # Errors
    /// If the parameters can't work.
    pub fn new(expectation: Expectation, parameters: Parameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        let bin = Bin { start_s: 0, ratios: Thinned::new(BIN_KEPT), unanswered: 0 };
        Ok(Self { expectation, parameters, bin, phase: Phase::Learning(Box::default()) })
    }

    /// Adds a check. A check of an earlier bin, late by less than a day, counts in the present one.
    pub fn observe(&mut self, check: Check) -> Option<Event> {
        let start_s = check.at_s - check.at_s % self.parameters.bin_s;
        let is_other = start_s > self.bin.start_s || self.bin.start_s - start_s >= CLOCK_SET_BACK_S;
        let event = if self.bin.ratios.seen > 0 && is_other { self.close(check.at_s) } else { None };
        if self.bin.ratios.seen == 0 {
            // A straggler of a bin that was judged already must not give its time a second vote.
            let is_straggler = start_s <= self.bin.start_s && self.bin.start_s - start_s < CLOCK_SET_BACK_S;
            self.bin.start_s = if is_straggler { self.bin.start_s.saturating_add(self.parameters.bin_s) } else { start_s };
        }
        let class = baseline::class(check.bytes);
        let ratio = match check.timing {
            Timing::Answered(time) => {
                let ratio = libm::log(time.as_secs_f64().max(1e-9) / self.expectation.seconds(check.bytes)).clamp(-LARGEST, LARGEST);
                let offset = match &mut self.phase {
                    Phase::Learning(learning) => learning.add(class, ratio),
                    Phase::Judging(judging) => judging.baseline.classes[class],
                };
                (ratio - offset).clamp(-LARGEST, LARGEST) as f32
            }
            Timing::Unanswered => {
                self.bin.unanswered += 1;
                UNANSWERED
            }
        };
        self.bin.ratios.push(ratio);
        event
    }

    /// Closes the present bin if it has ended. A timer should call this at
    /// [`Detector::closes_at_s`]; otherwise a bin is judged when a check of a later one comes in.
    pub fn advance(&mut self, now_s: u64) -> Option<Event> {
        if self.closes_at_s().is_some_and(|end| now_s >= end) { self.close(now_s) } else { None }
    }

    /// When the present bin ends, in Unix seconds, if it has checks.
    #[must_use]
    pub fn closes_at_s(&self) -> Option<u64> {
        (self.bin.ratios.seen > 0).then(|| self.bin.start_s.saturating_add(self.parameters.bin_s))
    }

    /// Forgets the usual behavior and learns it again. Only for an operator who knows that the
    /// present behavior is what the node should be judged by from now on.
    pub fn relearn(&mut self) {
        self.phase = Phase::Learning(Box::default());
        self.bin.ratios.clear();
        self.bin.unanswered = 0;
    }

    /// The usual behavior, if it is known.
    #[must_use]
    pub fn baseline(&self) -> Option<&Baseline> {
        match &self.phase {
            Phase::Learning(_) => None,
            Phase::Judging(judging) => Some(&judging.baseline),
        }
    }

    /// The expectation that times are compared with.
    #[must_use]
    pub fn expectation(&self) -> Expectation {
        self.expectation
    }

    /// What the detector thinks of the node now.
    #[must_use]
    pub fn status(&self) -> Status {
        match &self.phase {
            Phase::Learning(learning) => Status::Learning { bins: u32::try_from(learning.bins.len()).unwrap_or(u32::MAX) },
            Phase::Judging(judging) => match &judging.episode {
                None => Status::Usual { suspicion: judging.slower.sum / self.parameters.threshold },
                Some((episode, _)) => Status::Changed { episode: *episode, factor_now: factor(&judging.recent) },
            },
        }
    }

    fn close(&mut self, now_s: u64) -> Option<Event> {
        let mut ratios: Vec<f64> = self.bin.ratios.kept.iter().map(|ratio| f64::from(*ratio)).collect();
        let value = median(&mut ratios)?;
        let bin = Ended { start_s: self.bin.start_s, now_s, value, checks: self.bin.ratios.seen, unanswered: self.bin.unanswered };
        let scatter = robust_deviation(ratios.into_iter(), value).unwrap_or(0.0);
        self.bin.ratios.clear();
        self.bin.unanswered = 0;
        match &mut self.phase {
            Phase::Judging(judging) => judging.add(bin, &self.parameters),
            Phase::Learning(learning) => {
                learning.close(bin.start_s, LearnedBin::new(bin.start_s, value, bin.checks, scatter), &self.parameters);
                let baseline = learning.finish(&self.parameters)?;
                let factor = baseline.factor();
                self.phase = Phase::Judging(Box::new(Judging::new(baseline)));
                Some(Event::Learned { factor })
            }
        }
    }
}

impl Judging {
    fn new(baseline: Baseline) -> Self {
        let walk = Walk::new;
        Self { baseline, slower: walk(), faster: walk(), back: walk(), reported: 0.0, episode: None, recent: Vec::new() }
    }

    fn add(&mut self, bin: Ended, parameters: &Parameters) -> Option<Event> {
        let (residual, deviation) = self.baseline.residual(bin.start_s, bin.value, bin.checks);
        let (allowance, most) = (parameters.allowance, parameters.clip - parameters.allowance);
        let z = (residual / deviation).clamp(-parameters.clip, parameters.clip);
        // A bin in which most checks had no answer stays above all answers.
        let residual = if bin.value > LARGEST { UNANSWERED } else { residual as f32 };
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push(residual);
        let now = self.episode.as_ref().map(|(episode, _)| episode.direction);
        // While the node is slow, the same sum looks for a level well above the reported one.
        let known = if now == Some(Direction::Slower) { self.reported + WORSE } else { 0.0 };
        let beyond = ((f64::from(residual) - known) / deviation).clamp(-parameters.clip, parameters.clip);
        self.slower.add(beyond - allowance, &bin, residual);
        if now.is_none() {
            self.faster.add(-z - allowance, &bin, residual);
        }
        if let (Some((episode, course)), Some(direction)) = (&mut self.episode, now) {
            course.push((bin.start_s, residual));
            episode.checks += bin.checks;
            episode.unanswered += bin.unanswered;
            let away = if direction == Direction::Slower { z } else { -z };
            self.back.add((allowance - away).min(most), &bin, residual);
        }
        if self.slower.sum >= parameters.threshold && now == Some(Direction::Slower) {
            return self.worsen(bin.now_s);
        }
        if self.slower.sum >= parameters.threshold {
            return Some(self.begin(Direction::Slower, bin.now_s));
        }
        if self.faster.sum >= parameters.threshold {
            return Some(self.begin(Direction::Faster, bin.now_s));
        }
        if self.back.sum >= parameters.threshold {
            let until_s = self.back.since_s;
            let (mut episode, course) = self.episode.take()?;
            // The bins since then were usual, and would make the slowdown look smaller.
            let slow: Vec<f32> = course.kept.iter().filter(|(start_s, _)| *start_s < until_s).map(|(_, residual)| *residual).collect();
            episode.factor = if slow.is_empty() { episode.factor } else { factor(&slow) };
            episode.checks = episode.checks.saturating_sub(self.back.checks);
            episode.unanswered = episode.unanswered.saturating_sub(self.back.unanswered);
            [&mut self.slower, &mut self.faster, &mut self.back].into_iter().for_each(Walk::clear);
            return Some(Event::Ended { episode, until_s });
        }
        None
    }

    fn begin(&mut self, direction: Direction, named_s: u64) -> Event {
        let walk = if direction == Direction::Slower { &self.slower } else { &self.faster };
        let (since_s, checks, unanswered) = (walk.since_s, walk.checks, walk.unanswered);
        let course = walk.residuals.clone();
        let residuals: Vec<f32> = course.kept.iter().map(|(_, residual)| *residual).collect();
        let episode = Episode { direction, since_s, named_s, factor: factor(&residuals), checks, unanswered };
        self.reported = reported(episode.factor);
        self.episode = Some((episode, course));
        [&mut self.slower, &mut self.faster, &mut self.back].into_iter().for_each(Walk::clear);
        Event::Began(episode)
    }

    fn worsen(&mut self, named_s: u64) -> Option<Event> {
        let residuals: Vec<f32> = self.slower.residuals.kept.iter().map(|(_, residual)| *residual).collect();
        let since_s = self.slower.since_s;
        let (episode, _) = self.episode.as_mut()?;
        episode.factor = factor(&residuals);
        self.reported = reported(episode.factor);
        let episode = *episode;
        self.slower.clear();
        Some(Event::Worsened { episode, since_s, named_s })
    }
}

/// The logarithm of a reported factor. Nothing is worse than no answer.
fn reported(factor: Option<f64>) -> f64 {
    factor.map_or(f64::from(UNANSWERED), libm::log)
}

/// The factor of a median residual. `None` without residuals, or if the median had no answer.
fn factor(residuals: &[f32]) -> Option<f64> {
    let mut values: Vec<f64> = residuals.iter().map(|residual| f64::from(*residual)).collect();
    median(&mut values).filter(|value| *value < f64::from(UNANSWERED)).map(libm::exp)
}

#[cfg(test)]
mod tests;
