//! Base and slope from measured times.
//!
//! Sizes spread over ten orders of magnitude and times have heavy tails, so least squares would
//! follow a few large or late files. Instead, samples are sorted into classes of size, one for each
//! power of two, and the fit goes through the median time of each class with the least sum of
//! absolute logarithmic errors.
//!
//! With q = base / slope, the size at which the base costs as much as the bytes, the model is
//! ln t = ln(slope) + ln(q + bytes). For a given q, the best ln(slope) is a weighted median, so one
//! search over q is enough.

use std::time::Duration;

use super::Expectation;
use crate::thinned::{Thinned, median};

/// Size classes: one for each length of a size in bits.
const CLASSES: usize = 65;
/// Samples kept of each class. The median of 32 is within 22 % of a deviation of the true one.
const KEPT: usize = 32;
/// Steps of the search over q, from 1 B to 10^15 B: 9 % each, and then a finer search.
const STEPS: u32 = 400;
/// A term that contributes less than this share at every size seen is noise.
const LEAST_SHARE: f64 = 0.1;

/// Collects measured times of one node and method, in bounded memory, and fits an [`Expectation`].
///
/// Holds at most 65 classes of 32 samples of 16 bytes: 33 kB.
#[derive(Debug, Clone)]
pub struct Fit {
    classes: Vec<Thinned<(u64, f64)>>,
    seen: u64,
}

/// A fitted expectation, with what it rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fitted {
    /// The fit. Outside of [`Fitted::sizes`] it is an extrapolation.
    pub expectation: Expectation,
    /// Which of base and slope the samples determine.
    pub identified: Identified,
    /// Smallest and largest size among the kept samples, in bytes.
    pub sizes: (u64, u64),
    /// Samples seen.
    pub samples: u64,
    /// Typical error: the weighted median of |ln(measured / expected)| of the classes' medians.
    pub error: f64,
}

/// Which terms of the model the samples determine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identified {
    /// Both. Sizes reach from where the base matters to where the bytes do.
    BaseAndSlope,
    /// Only the base; the slope is set to 0. The time didn't grow with the size, or all sizes were
    /// within a factor of four and at most 1 MiB, where requests cost more than bytes.
    Base,
    /// Only the slope; the base is set to 1 % of the smallest file's time. The time was
    /// proportional to the size, or all sizes were within a factor of four and above 1 MiB.
    Slope,
}

/// There is no fit.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Too few samples.
    #[error("{seen} measured times are too few to learn what a node needs: at least {} are required", Fit::LEAST_SAMPLES)]
    TooFew {
        /// Samples seen.
        seen: u64,
    },
    /// The times make no usable expectation.
    #[error("the measured times don't make an expectation")]
    Unusable(#[from] super::ExpectationError),
}

impl Default for Fit {
    fn default() -> Self {
        Self { classes: vec![Thinned::new(KEPT); CLASSES], seen: 0 }
    }
}

impl Fit {
    /// Samples that a fit requires: medians of fewer follow single slow checks.
    pub const LEAST_SAMPLES: u64 = 30;

    /// Starts without samples.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check that returned the right bytes. Checks without an answer have no time and don't
    /// belong here.
    pub fn add(&mut self, bytes: u64, measured: Duration) {
        let class = (u64::BITS - bytes.leading_zeros()) as usize;
        // A time below the clock's resolution is still more than nothing.
        self.classes[class].push((bytes, measured.as_secs_f64().max(1e-7)));
        self.seen += 1;
    }

    /// Fits base and slope to the samples so far.
    ///
    /// # Errors
    /// [`FitError::TooFew`] below [`Fit::LEAST_SAMPLES`].
    pub fn fit(&self) -> Result<Fitted, FitError> {
        if self.seen < Self::LEAST_SAMPLES {
            return Err(FitError::TooFew { seen: self.seen });
        }
        let points: Vec<Point> = self.classes.iter().filter_map(Point::of).collect();
        let sizes = self.classes.iter().flat_map(|class| class.kept.iter().map(|(bytes, _)| *bytes));
        let sizes = sizes.fold((u64::MAX, 0), |(low, high), bytes| (low.min(bytes), high.max(bytes)));
        let fitted = |base_s: f64, slope_ns: f64, identified| {
            let expectation = Expectation::new(base_s.max(1e-6), slope_ns)?;
            let errors = points.iter().map(|point| {
                let expected = expectation.base_s + point.bytes * expectation.slope_ns * 1e-9;
                (libm::log(point.seconds / expected).abs(), point.weight)
            });
            let error = weighted_median(errors.collect());
            Ok(Fitted { expectation, identified, sizes, samples: self.seen, error })
        };
        let level = |shape: &dyn Fn(f64) -> f64| {
            let logarithms = points.iter().map(|point| (libm::log(point.seconds / shape(point.bytes)), point.weight));
            libm::exp(weighted_median(logarithms.collect()))
        };
        let only_base = || fitted(level(&|_| 1.0), 0.0, Identified::Base);
        let only_slope = || {
            let slope_s = level(&|bytes| bytes.max(1.0));
            fitted(0.01 * slope_s * (sizes.0.max(1)) as f64, slope_s * 1e9, Identified::Slope)
        };
        if sizes.1 / 4 < sizes.0 || sizes.1 < 4 {
            return if sizes.1 <= 1 << 20 { only_base() } else { only_slope() };
        }
        let crossover = crossover(&points);
        let (smallest, largest) = (sizes.0 as f64, sizes.1 as f64);
        // Shares of the expected time: of the bytes in the largest file, of the base in the
        // smallest.
        if largest / (crossover + largest) < LEAST_SHARE {
            return only_base();
        }
        if crossover / (crossover + smallest) < LEAST_SHARE {
            return only_slope();
        }
        let slope_s = level(&|bytes| crossover + bytes);
        fitted(slope_s * crossover, slope_s * 1e9, Identified::BaseAndSlope)
    }
}

/// The medians of a size class.
struct Point {
    bytes: f64,
    seconds: f64,
    weight: f64,
}

impl Point {
    fn of(class: &Thinned<(u64, f64)>) -> Option<Self> {
        let mut sizes: Vec<f64> = class.kept.iter().map(|(bytes, _)| *bytes as f64).collect();
        let bytes = median(&mut sizes)?;
        // Within a class, sizes differ by less than a factor of two; scaling by up to that would
        // assume that the slope dominates, so times are taken as they are.
        let mut times: Vec<f64> = class.kept.iter().map(|(_, seconds)| *seconds).collect();
        let seconds = median(&mut times)?;
        // The deviation of a median falls with the root of the number of samples.
        Some(Self { bytes, seconds, weight: (class.kept.len() as f64).sqrt() })
    }
}

/// The size at which the base takes as long as the bytes, by the least sum of absolute errors.
fn crossover(points: &[Point]) -> f64 {
    let loss = |logarithm: f64| {
        let size = libm::exp(logarithm);
        let logarithms = points.iter().map(|point| (libm::log(point.seconds / (size + point.bytes)), point.weight));
        let residuals: Vec<(f64, f64)> = logarithms.collect();
        let center = weighted_median(residuals.clone());
        residuals.iter().map(|(residual, weight)| weight * (residual - center).abs()).sum::<f64>()
    };
    let width = libm::log(1e15) / f64::from(STEPS);
    let best =
        |grid: &mut dyn Iterator<Item = f64>| grid.map(|at| (loss(at), at)).min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0.0, |(_, at)| at);
    let rough = best(&mut (0..=STEPS).map(|step| f64::from(step) * width));
    libm::exp(best(&mut (-50..=50).map(|step| rough + f64::from(step) * width / 50.0)))
}

/// The value that has half of the weight on either side; 0 without values.
fn weighted_median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (value, weight) in &values {
        below += weight;
        if below >= half {
            return *value;
        }
    }
    values.last().map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_chance::Stream;

    /// Times with Student's t noise of three degrees of freedom, and one in 200 is 36 times slower.
    fn measured(expectation: Expectation, bytes: u64, noise: &mut Stream) -> Duration {
        let chi = (0..3).map(|_| noise.normal().powi(2)).sum::<f64>();
        let t = noise.normal() / (chi / 3.0).sqrt();
        let outlier = if noise.happens(0.005) { 36.0 } else { 1.0 };
        Duration::from_secs_f64((expectation.seconds(bytes) * libm::exp(0.3 * t) * outlier).min(1e6))
    }

    #[test]
    fn base_and_slope_are_found_in_heavy_tailed_times_of_all_sizes() {
        for seed in 0..20 {
            println!("seed {seed}");
            let mut noise = Stream::new(seed, "fit");
            let truth = Expectation::WASABI;
            let mut fit = Fit::new();
            for _ in 0..20_000 {
                let bytes = noise.log_uniform(100.0, 5e10) as u64;
                fit.add(bytes, measured(truth, bytes, &mut noise));
            }
            let fitted = fit.fit().unwrap();
            assert_eq!(fitted.identified, Identified::BaseAndSlope);
            let (base, slope) = (fitted.expectation.base_s() / truth.base_s(), fitted.expectation.slope_ns() / truth.slope_ns());
            assert!((0.85..1.18).contains(&base) && (0.85..1.18).contains(&slope), "{fitted:?}");
            assert!(fitted.error < 0.2 && fitted.samples == 20_000, "{fitted:?}");
        }
    }

    #[test]
    fn thirty_times_are_required_and_thirty_are_enough() {
        let mut noise = Stream::new(3, "fit");
        let mut fit = Fit::new();
        for count in 0..Fit::LEAST_SAMPLES {
            assert_eq!(fit.fit(), Err(FitError::TooFew { seen: count }));
            let bytes = if count % 2 == 0 { 1_000 } else { 1_000_000_000 };
            fit.add(bytes, measured(Expectation::S3, bytes, &mut noise));
        }
        let fitted = fit.fit().unwrap();
        for bytes in [1_000, 1_000_000_000] {
            let ratio = fitted.expectation.seconds(bytes) / Expectation::S3.seconds(bytes);
            assert!((0.6..1.6).contains(&ratio), "{fitted:?}");
        }
        let message = FitError::TooFew { seen: 29 }.to_string();
        assert!(message.contains("29") && message.contains("30"), "{message}");
    }

    #[test]
    fn equal_sizes_determine_one_term_and_the_fit_says_which() {
        for (bytes, seconds, identified) in
            [(0, 0.25, Identified::Base), (20_000, 0.25, Identified::Base), (104_857_600, 3.0, Identified::Slope)]
        {
            let mut fit = Fit::new();
            (0..50).for_each(|_| fit.add(bytes, Duration::from_secs_f64(seconds)));
            let fitted = fit.fit().unwrap();
            assert_eq!(fitted.identified, identified, "{bytes} bytes");
            assert!((fitted.expectation.seconds(bytes) / seconds - 1.0).abs() < 0.02, "{fitted:?}");
            assert_eq!(fitted.sizes, (bytes, bytes));
        }
    }

    #[test]
    fn a_term_that_plays_no_part_is_left_out() {
        let mut flat = Fit::new();
        let mut steep = Fit::new();
        for index in 0..2_000_u64 {
            let bytes = 1_000_000 << (index % 12);
            flat.add(bytes, Duration::from_secs(3));
            steep.add(bytes, Duration::from_nanos(10 * bytes));
        }
        assert_eq!(flat.fit().unwrap().identified, Identified::Base);
        assert_eq!(steep.fit().unwrap().identified, Identified::Slope);
    }

    #[test]
    fn extreme_sizes_and_times_are_no_panic() {
        let mut fit = Fit::new();
        for _ in 0..40 {
            fit.add(u64::MAX, Duration::MAX);
            fit.add(0, Duration::ZERO);
        }
        let _ = fit.fit();
        let mut fit = Fit::new();
        (0..40).for_each(|_| fit.add(0, Duration::MAX));
        assert!(matches!(fit.fit(), Err(FitError::Unusable(_))));
    }
}
