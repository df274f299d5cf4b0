//! The usual behavior of a node: learned once, then held.

use super::Parameters;
use crate::thinned::{Thinned, median, robust_deviation};

/// Classes of sizes: up to 31 B, 1 kB, 32 kB, 1 MB, 32 MB, 1 GB, 32 GB, and more.
pub(super) const CLASSES: usize = 8;
/// Ratios kept of each class while learning.
const CLASS_KEPT: usize = 128;
/// Checks that a class needs to be half believed; until then it is close to all others.
const CLASS_HALF: f64 = 8.0;
/// Checks in a bin from which their scatter is known.
const SCATTER_CHECKS: u16 = 8;
/// The variance of the median of n normal values is this, divided by n.
const MEDIAN_VARIANCE: f64 = std::f64::consts::FRAC_PI_2;
/// Bins over which correlation is looked for.
const LAGS: usize = 8;
/// Limit of the correlation of neighboring bins: beyond, three weeks can't tell it from a trend.
const MOST_CORRELATION: f64 = 0.8;

/// The size class of a file. A node's times never follow base + bytes x slope exactly, so a change
/// of the mix of sizes would look like a change of the node without classes.
pub(super) fn class(bytes: u64) -> usize {
    (((u64::BITS - bytes.leading_zeros()) / 5) as usize).min(CLASSES - 1)
}

/// The usual behavior of a node: natural logarithms of ratios of measured to expected time.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// Level of all bins, less those of classes, hours and days.
    pub level: f64,
    /// Levels of size classes, from the smallest.
    pub classes: [f64; 8],
    /// Deviations of the hours of the day from the level, in UTC.
    pub hours: [f64; 24],
    /// Deviations of the days of the week, from Thursday, the day with which Unix time began.
    pub days: [f64; 7],
    /// Deviation of a bin with many checks, including its correlation with the bins before.
    pub between: f64,
    /// Deviation of a check from others in its bin; 0 if bins have too few checks to know.
    pub within: f64,
}

impl Baseline {
    /// Usual time divided by expected time, for the middle size class.
    #[must_use]
    pub fn factor(&self) -> f64 {
        let mut classes = self.classes;
        libm::exp(self.level + median(&mut classes).unwrap_or(0.0))
    }

    /// The residual of a bin's median, and its usual deviation.
    pub(super) fn residual(&self, start_s: u64, value: f64, checks: u64) -> (f64, f64) {
        let (hour, day) = cycles(start_s);
        let kept = checks.clamp(1, super::BIN_KEPT as u64) as f64;
        let variance = self.between * self.between + MEDIAN_VARIANCE * self.within * self.within / kept;
        (value - self.level - self.hours[hour] - self.days[day], variance.sqrt())
    }
}

/// Hour of the day and day of the week of an instant.
fn cycles(start_s: u64) -> (usize, usize) {
    ((start_s / 3_600 % 24) as usize, (start_s / 86_400 % 7) as usize)
}

/// A bin of the learning phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LearnedBin {
    pub(super) start_s: u64,
    pub(super) value: f32,
    pub(super) scatter: f32,
    pub(super) checks: u16,
}

impl LearnedBin {
    pub(super) fn new(start_s: u64, value: f64, checks: u64, scatter: f64) -> Self {
        let checks = u16::try_from(checks.min(super::BIN_KEPT as u64)).unwrap_or(u16::MAX);
        Self { start_s, value: value as f32, scatter: scatter as f32, checks }
    }
}

/// What is known while learning. The first quarter compares size classes; the bins after it are
/// kept until the baseline is computed from them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Learning {
    /// Start of the first bin.
    pub(super) from_s: Option<u64>,
    /// Ratios by size class, until the classes are settled.
    pub(super) ratios: Vec<Thinned<f32>>,
    /// Levels of the classes, once settled.
    pub(super) classes: Option<[f64; CLASSES]>,
    /// Bins of the first quarter.
    pub(super) early: u32,
    pub(super) bins: Vec<LearnedBin>,
}

impl Default for Learning {
    fn default() -> Self {
        Self { from_s: None, ratios: vec![Thinned::new(CLASS_KEPT); CLASSES], classes: None, early: 0, bins: Vec::new() }
    }
}

impl Learning {
    /// Adds the ratio of a check, and returns the level of its class.
    pub(super) fn add(&mut self, class: usize, ratio: f64) -> f64 {
        match &self.classes {
            Some(classes) => classes[class],
            None => {
                self.ratios[class].push(ratio as f32);
                0.0
            }
        }
    }

    pub(super) fn close(&mut self, start_s: u64, bin: LearnedBin, parameters: &Parameters) {
        // A clock that was set back starts the time over; the bins remain.
        let from_s = self.from_s.filter(|from| *from <= start_s).unwrap_or(start_s);
        self.from_s = Some(from_s);
        if self.classes.is_some() {
            self.bins.push(bin);
            return;
        }
        self.early = self.early.saturating_add(1);
        if (start_s - from_s).saturating_add(parameters.bin_s) >= parameters.learn_s / 4 && self.early >= parameters.least_bins / 4 {
            self.classes = Some(self.settle());
            self.ratios.iter_mut().for_each(Thinned::clear);
        }
    }

    fn settle(&self) -> [f64; CLASSES] {
        let values = |class: &Thinned<f32>| class.kept.iter().map(|ratio| f64::from(*ratio)).collect::<Vec<f64>>();
        let mut all: Vec<f64> = self.ratios.iter().flat_map(values).collect();
        let all = median(&mut all).unwrap_or(0.0);
        let mut levels = [all; CLASSES];
        for (level, class) in levels.iter_mut().zip(&self.ratios) {
            let count = class.seen as f64;
            let own = median(&mut values(class)).unwrap_or(all);
            *level = (count * own + CLASS_HALF * all) / (count + CLASS_HALF);
        }
        levels
    }

    /// The baseline, once there are enough bins over enough time. Takes as many bins as the memory
    /// for them allows, so learning always ends.
    pub(super) fn finish(&self, parameters: &Parameters) -> Option<Baseline> {
        let classes = self.classes?;
        let last = self.bins.last()?;
        let is_long = last.start_s.saturating_sub(self.from_s?).saturating_add(parameters.bin_s) >= parameters.learn_s;
        let most = (parameters.learn_s / parameters.bin_s).max(u64::from(parameters.least_bins));
        let (count, least) = (self.bins.len() as u64, u64::from(parameters.least_bins));
        if !(is_long && count >= least || count > most) {
            return None;
        }
        Some(fit(&self.bins, classes, parameters))
    }
}

fn fit(bins: &[LearnedBin], classes: [f64; CLASSES], parameters: &Parameters) -> Baseline {
    let mut residuals: Vec<f64> = bins.iter().map(|bin| f64::from(bin.value)).collect();
    let level = median(&mut residuals.clone()).unwrap_or(0.0);
    residuals.iter_mut().for_each(|value| *value -= level);
    // The bins of an hour are a day apart and independent; those of a day follow each other.
    let variance = |residuals: &[f64]| robust_deviation(residuals.iter().copied(), 0.0).unwrap_or(0.0).powi(2);
    let (hours, kept_hours) = cycle::<24>(bins, &mut residuals, variance, |start_s| cycles(start_s).0);
    let correlated = |residuals: &[f64]| long_run_variance(residuals, variance(residuals));
    let (days, kept_days) = cycle::<7>(bins, &mut residuals, correlated, |start_s| cycles(start_s).1);
    let span_s = bins.last().zip(bins.first()).map_or(0, |(last, first)| last.start_s.saturating_sub(first.start_s));
    let span_s = span_s.saturating_add(parameters.bin_s) as f64;
    let unseen = unseen(kept_hours, span_s / 86_400.0) * unseen(kept_days, span_s / (7.0 * 86_400.0));
    let long_run = long_run_variance(&residuals, variance(&residuals)) * unseen;
    // How much of it comes from the number of checks, so that bins with fewer or more are judged
    // by their own deviation.
    let full: Vec<&LearnedBin> = bins.iter().filter(|bin| bin.checks >= SCATTER_CHECKS).collect();
    let mut scatters: Vec<f64> = full.iter().map(|bin| f64::from(bin.scatter)).collect();
    let mut shares: Vec<f64> = bins.iter().map(|bin| 1.0 / f64::from(bin.checks.max(1))).collect();
    let is_known = full.len() >= bins.len() / 2;
    let within = if is_known { median(&mut scatters).unwrap_or(0.0) } else { 0.0 };
    let share = median(&mut shares).unwrap_or(1.0);
    let between = (long_run - MEDIAN_VARIANCE * within * within * share).max(parameters.finest.powi(2)).sqrt();
    Baseline { level, classes, hours, days, between, within }
}

/// The variance of a sum of many successive bins, for each bin.
///
/// The greater of two estimates, from residuals that are limited to three deviations, as in the
/// test. Either alone is too low for some noise, and then false alarms follow:
/// - (1 + r) / (1 - r) times that of a bin, with the correlation r of neighbors. Right if the
///   correlation of bins decays evenly, too low if white noise hides a slow wander.
/// - The sum of the covariances with bins at up to eight steps, less weight for greater distances
///   (Newey and West, Econometrica 55, 703, 1987). Right for any noise that has shorter memory.
///
/// Apparent negative correlation is not used: it would make the test too sure.
fn long_run_variance(residuals: &[f64], variance: f64) -> f64 {
    let limit = 3.0 * variance.sqrt();
    let clipped: Vec<f64> = residuals.iter().map(|residual| residual.clamp(-limit, limit)).collect();
    let covariance = |lag: usize| clipped.iter().zip(&clipped[lag.min(clipped.len())..]).map(|(a, b)| a * b).sum::<f64>();
    let own = covariance(0);
    if own <= 0.0 {
        return variance;
    }
    let weight = |lag: usize| 1.0 - lag as f64 / (LAGS + 1) as f64;
    let summed = 1.0 + 2.0 * (1..=LAGS).map(|lag| weight(lag) * covariance(lag) / own).sum::<f64>();
    let neighbors = (covariance(1) / own).clamp(0.0, MOST_CORRELATION);
    let decaying = (1.0 + neighbors) / (1.0 - neighbors);
    variance * summed.max(decaying)
}

/// Medians of the phases of a cycle, shrunk to 0 as far as noise explains them, and taken off the
/// residuals.
///
/// Returns the phases' levels and the share that was kept.
///
/// Positive-part James-Stein: with n bins in a phase, noise alone gives its median 1.57 / n of the
/// variance of a bin around its phase. The share of the medians' variance that exceeds this is
/// kept.
fn cycle<const PHASES: usize>(
    bins: &[LearnedBin],
    residuals: &mut [f64],
    variance: impl Fn(&[f64]) -> f64,
    phase: impl Fn(u64) -> usize,
) -> ([f64; PHASES], f64) {
    let mut groups: [Vec<f64>; PHASES] = std::array::from_fn(|_| Vec::new());
    for (bin, residual) in bins.iter().zip(&*residuals) {
        groups[phase(bin.start_s)].push(*residual);
    }
    let counts = groups.each_ref().map(Vec::len);
    let filled = counts.iter().filter(|count| **count > 0).count();
    // With one phase there is no cycle to tell from the level; with a bin in each, no noise to
    // tell from the cycle.
    if filled < 2 || filled >= bins.len() {
        return ([0.0; PHASES], 0.0);
    }
    let mut levels = groups.map(|mut group| median(&mut group).unwrap_or(0.0));
    let around: Vec<f64> = bins.iter().zip(&*residuals).map(|(bin, residual)| residual - levels[phase(bin.start_s)]).collect();
    // Each phase's median used up a bin's worth of variation.
    let variance = variance(&around) * bins.len() as f64 / (bins.len() - filled) as f64;
    let noise: f64 = counts.iter().filter(|count| **count > 0).map(|count| MEDIAN_VARIANCE * variance / *count as f64).sum();
    let found: f64 = levels.iter().map(|level| level * level).sum();
    let kept = if found > 0.0 { (1.0 - noise / found).max(0.0) } else { 0.0 };
    levels.iter_mut().for_each(|level| *level *= kept);
    for (bin, residual) in bins.iter().zip(residuals) {
        *residual -= levels[phase(bin.start_s)];
    }
    (levels, kept)
}

/// How much the variance around a cycle's levels grows in the future, if a share of each level is
/// `kept` from its mean over some cycles.
///
/// The mean follows the noise it was made from, so the variance around it is too low by
/// kept / cycles; in the future, its error adds as much.
fn unseen(kept: f64, cycles: f64) -> f64 {
    let share = kept / cycles.max(2.0);
    (1.0 + share) / (1.0 - share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_chance::Stream;

    fn bins(noise: &mut Stream, value: impl Fn(u64, &mut Stream) -> f64) -> Vec<LearnedBin> {
        (0..252).map(|index| LearnedBin::new(index * 7_200, value(index * 7_200, noise), 1, 0.0)).collect()
    }

    #[test]
    fn cycles_are_learned_and_noise_is_not_taken_for_one() {
        for seed in 0..10 {
            println!("seed {seed}");
            let mut noise = Stream::new(seed, "baseline");
            let flat = bins(&mut noise, |_, noise| 0.3 + 0.2 * noise.normal());
            let baseline = fit(&flat, [0.0; CLASSES], &Parameters::default());
            let spread = |values: &[f64]| (values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64).sqrt();
            assert!(spread(&baseline.hours) < 0.04 && spread(&baseline.days) < 0.04, "{baseline:?}");
            assert!((baseline.level - 0.3).abs() < 0.06 && (0.15..0.3).contains(&baseline.between), "{baseline:?}");
            let daily = bins(&mut noise, |at, noise| if at % 86_400 < 43_200 { 0.5 } else { -0.5 } + 0.1 * noise.normal());
            let baseline = fit(&daily, [0.0; CLASSES], &Parameters::default());
            assert!((baseline.hours[2] - baseline.hours[14] - 1.0).abs() < 0.15, "{baseline:?}");
            assert!(baseline.between < 0.2, "{baseline:?}");
        }
    }

    #[test]
    fn correlated_bins_count_as_fewer_witnesses() {
        let mut noise = Stream::new(5, "baseline");
        let mut level = 0.0;
        let mut values = Vec::new();
        for index in 0..1_000 {
            level = 0.7 * level + 0.1 * noise.normal();
            values.push(LearnedBin::new(index * 7_200, level, 1, 0.0));
        }
        let baseline = fit(&values, [0.0; CLASSES], &Parameters::default());
        // 0.1 / (1 - 0.7): the deviation of a sum, for each root of its length.
        assert!((baseline.between - 0.33).abs() < 0.1, "{baseline:?}");
    }
}
