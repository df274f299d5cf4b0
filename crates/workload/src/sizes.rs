//! Sizes: the distribution of the sizes of files that are read.
//!
//! The published marginals (SOSP '23, section 2) give the shares of reads and bytes at 4 MiB, 10
//! MiB and 256 MiB, a range of ten orders of magnitude, and a mean file of about 100 MB. So the
//! sizes are a mixture of classes between these edges. With a mean of 100 MB:
//!
//! ```text
//!          100 B     1 MiB     4 MiB    10 MiB    256 MiB     1 TB
//!            |         |         |         |         |         |
//! reads      |  14.7 % |  44.0 % |  21.3 % |  18.1 % |   1.9 % |    58.7 % up to 4 MiB, 80 % under 10 MiB, "under 2 %" over 256 MiB
//! bytes      |   0.02 %|  1.18 % |   1.46 %|  12.34 %|    85 % |    1.2 % up to 4 MiB, "about 85 %" over 256 MiB
//! class mean | 113.3 kB| 2.69 MB | 6.87 MB | 68.2 MB | 4.47 GB |    = share of bytes / share of reads x 100 MB
//! ```
//!
//! Inside a class, between its edges, the density is proportional to x^(p-1): p = 0 makes all
//! factors equally likely (log-uniform), p = 1 all lengths, and p < 0 is a bounded Pareto law. The
//! first and the third class are log-uniform; the p of the others is solved for, to give the class
//! its mean. Published are the edges, the sums of shares on the right, the range and the mean. Ours
//! are the split at 1 MiB (a quarter of the small reads, so that small sizes of every order occur),
//! 1.9 % for "under 2 %", and the shape inside the classes.
//!
//! Means other than 100 MB reweight the classes and leave each class unchanged: class i has weight
//! w_i m_i^t, with w_i and m_i as above and the one t that gives the requested mean. The published
//! marginals hold only at 100 MB.

use crate::SpecError;
use crate::error::{check_count, check_positive, check_range};

const MIB: f64 = 1_048_576.0;
/// Edges of the classes in bytes; the last is 10^10 times the first.
const EDGES: [f64; CLASSES + 1] = [100.0, MIB, 4.0 * MIB, 10.0 * MIB, 256.0 * MIB, 1e12];
/// Shares of reads. 0.147 + 0.440 = 0.587; + 0.213 = 0.8; + 0.181 + 0.019 = 1.
const SHARES: [f64; CLASSES] = [0.147, 0.440, 0.213, 0.181, 0.019];
/// Share of all bytes in reads up to 4 MiB, and in those over 256 MiB.
const SMALL_BYTES: f64 = 0.012;
const LARGE_BYTES: f64 = 0.85;
/// The mean at which the shares of bytes equal the published ones.
const MEAN: f64 = 1e8;
const CLASSES: usize = 5;

/// Distribution of file sizes. A size is a whole number of bytes, at least 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sizes {
    /// One fixed size.
    Fixed {
        /// Size in bytes.
        bytes: u64,
    },
    /// Exponential, for comparison with queueing theory; rounded up to whole bytes.
    Exponential {
        /// Mean in bytes.
        mean_bytes: f64,
    },
    /// The mixture of classes described above.
    Mixture {
        /// Mean in bytes; 1e8 reproduces the published marginals.
        mean_bytes: f64,
        /// The largest file, in bytes: 10^9 to 10^12. The law above 256 MiB is cut off here, with
        /// its p unchanged.
        largest_bytes: u64,
    },
}

impl Sizes {
    /// The published marginals: a mean of 100 MB, files of up to 1 TB.
    pub const PUBLISHED: Self = Self::Mixture { mean_bytes: MEAN, largest_bytes: 1_000_000_000_000 };

    /// Mean in bytes.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        match *self {
            Self::Fixed { bytes } => bytes as f64,
            Self::Exponential { mean_bytes } | Self::Mixture { mean_bytes, .. } => mean_bytes,
        }
    }
}

/// A distribution of sizes, ready for drawing: its quantile function.
#[derive(Debug, Clone)]
pub(crate) enum Quantiles {
    Fixed(u64),
    Exponential(f64),
    Mixture(Box<Mixture>),
}

impl Quantiles {
    pub(crate) fn new(sizes: Sizes) -> Result<Self, SpecError> {
        Ok(match sizes {
            Sizes::Fixed { bytes } => Self::Fixed(check_count("sizes.bytes", bytes)?),
            Sizes::Exponential { mean_bytes } => Self::Exponential(check_positive("sizes.mean_bytes", mean_bytes)?),
            Sizes::Mixture { mean_bytes, largest_bytes } => Self::Mixture(Box::new(Mixture::new(mean_bytes, largest_bytes)?)),
        })
    }

    /// The size at the quantile `unit`, in 0.0..1.0.
    #[inline]
    pub(crate) fn at(&self, unit: f64) -> u64 {
        match self {
            Self::Fixed(bytes) => *bytes,
            // 1 - u is in (0, 1], so the logarithm is finite.
            Self::Exponential(mean) => ((-mean * libm::log(1.0 - unit)).ceil() as u64).max(1),
            Self::Mixture(mixture) => mixture.at(unit),
        }
    }

    pub(crate) fn largest(&self) -> u64 {
        self.at(1.0 - 1.0 / (1_u64 << 53) as f64)
    }
}

/// The classes with their weights.
#[derive(Debug, Clone)]
pub(crate) struct Mixture {
    classes: [Class; CLASSES],
}

/// One class, with its begin and end in the cumulative share of reads.
#[derive(Debug, Clone, Copy)]
struct Class {
    begin: f64,
    /// 1 / (end - begin).
    scale: f64,
    end: f64,
    power: Power,
}

impl Mixture {
    fn new(mean_bytes: f64, largest_bytes: u64) -> Result<Self, SpecError> {
        check_positive("sizes.mean_bytes", mean_bytes)?;
        let fits = (1_000_000_000..=1_000_000_000_000).contains(&largest_bytes);
        check_range("sizes.largest_bytes", largest_bytes as f64, fits, "10^9 to 10^12")?;
        let mut powers = published();
        powers[CLASSES - 1] = Power::new(EDGES[CLASSES - 1], largest_bytes as f64, powers[CLASSES - 1].p);
        let means = powers.map(|power| power.mean());
        let (least, most) = (means[0], means[CLASSES - 1]);
        if !(least < mean_bytes && mean_bytes < most) {
            return Err(SpecError::Mean { found: mean_bytes, least, most });
        }
        let tilt = bisect(-16.0, 16.0, mean_bytes, |tilt| dot(&weights(&means, tilt), &means));
        let weights = weights(&means, tilt);
        let mut end = 0.0;
        let classes = std::array::from_fn(|index| {
            let begin = end;
            end = if index + 1 == CLASSES { 1.0 } else { begin + weights[index] };
            Class { begin, scale: 1.0 / (end - begin), end, power: powers[index] }
        });
        Ok(Self { classes })
    }

    #[inline]
    fn at(&self, unit: f64) -> u64 {
        let class = self.classes.iter().find(|class| unit < class.end).unwrap_or(&self.classes[CLASSES - 1]);
        class.power.at((unit - class.begin) * class.scale)
    }
}

/// The classes at the published marginals.
fn published() -> [Power; CLASSES] {
    let class = |index: usize, p: f64| Power::new(EDGES[index], EDGES[index + 1], p);
    let solved = |index: usize, bytes: f64| Power::with_mean(EDGES[index], EDGES[index + 1], bytes / SHARES[index]);
    let (tiny, medium) = (class(0, 0.0), class(2, 0.0));
    // `bytes` is a class's bytes per read of any class.
    let small_bytes = SMALL_BYTES * MEAN - SHARES[0] * tiny.mean();
    let large_bytes = (1.0 - SMALL_BYTES - LARGE_BYTES) * MEAN - SHARES[2] * medium.mean();
    [tiny, solved(1, small_bytes), medium, solved(3, large_bytes), solved(4, LARGE_BYTES * MEAN)]
}

/// w_i m_i^t, scaled to add up to 1.
fn weights(means: &[f64; CLASSES], tilt: f64) -> [f64; CLASSES] {
    // Relative to the mean of the middle class, which keeps the powers in range.
    let raw: [f64; CLASSES] = std::array::from_fn(|index| SHARES[index] * libm::pow(means[index] / means[2], tilt));
    let total: f64 = raw.iter().sum();
    raw.map(|weight| weight / total)
}

fn dot(a: &[f64; CLASSES], b: &[f64; CLASSES]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Finds where an increasing function takes a value.
fn bisect(mut low: f64, mut high: f64, value: f64, function: impl Fn(f64) -> f64) -> f64 {
    // Each step halves the interval, so 100 steps reach neighbouring floating-point numbers.
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if function(middle) < value { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Density proportional to x^(p-1) between two sizes.
#[derive(Debug, Clone, Copy)]
struct Power {
    low: f64,
    high: f64,
    p: f64,
    /// (high/low)^p - 1, and 1/p; for p = 0 the limit: ln(high/low), and 0.
    span: f64,
    inverse: f64,
}

impl Power {
    fn new(low: f64, high: f64, p: f64) -> Self {
        let logarithm = libm::log(high / low);
        if p == 0.0 {
            Self { low, high, p, span: logarithm, inverse: 0.0 }
        } else {
            Self { low, high, p, span: libm::expm1(p * logarithm), inverse: 1.0 / p }
        }
    }

    /// The p between -20 and 20 that gives this mean.
    fn with_mean(low: f64, high: f64, mean: f64) -> Self {
        Self::new(low, high, bisect(-20.0, 20.0, mean, |p| Self::new(low, high, p).mean()))
    }

    /// With L = ln(high/low), the ratio of the integrals of x^p and x^(p-1) is low f(p+1) / f(p),
    /// where f(q) = (e^(qL) - 1) / q and f(0) = L.
    fn mean(&self) -> f64 {
        let logarithm = libm::log(self.high / self.low);
        let integral = |q: f64| if q == 0.0 { logarithm } else { libm::expm1(q * logarithm) / q };
        self.low * integral(self.p + 1.0) / integral(self.p)
    }

    /// x^p is uniform between low^p and high^p. Rounded up, so that a size is above the class's
    /// lower edge and at most its upper edge.
    #[inline]
    fn at(&self, unit: f64) -> u64 {
        let exponent = if self.inverse == 0.0 { unit * self.span } else { libm::log(1.0 + unit * self.span) * self.inverse };
        (self.low * libm::exp(exponent)).ceil().min(self.high) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes at evenly spaced quantiles: the distribution itself, without sampling noise.
    fn spread(sizes: Sizes, count: u32) -> Vec<u64> {
        let quantiles = Quantiles::new(sizes).unwrap();
        (0..count).map(|index| quantiles.at((f64::from(index) + 0.5) / f64::from(count))).collect()
    }

    fn share(sizes: &[u64], pick: impl Fn(u64) -> bool) -> (f64, f64) {
        let picked = sizes.iter().copied().filter(|size| pick(*size));
        let bytes: u128 = picked.clone().map(u128::from).sum();
        let all: u128 = sizes.iter().map(|size| u128::from(*size)).sum();
        (picked.count() as f64 / sizes.len() as f64, bytes as f64 / all as f64)
    }

    fn close(found: f64, wanted: f64, within: f64) {
        assert!((found - wanted).abs() <= within * wanted, "{found} instead of {wanted}");
    }

    #[test]
    fn the_published_marginals_are_met() {
        let sizes = spread(Sizes::PUBLISHED, 1_000_000);
        let (reads, bytes) = share(&sizes, |size| size <= 4 << 20);
        close(reads, 0.587, 1e-5);
        close(bytes, 0.012, 1e-3);
        close(share(&sizes, |size| size < 10 << 20).0, 0.8, 1e-5);
        let (reads, bytes) = share(&sizes, |size| size > 256 << 20);
        close(reads, 0.019, 1e-4);
        close(bytes, 0.85, 1e-3);
        close(sizes.iter().map(|size| *size as f64).sum::<f64>() / 1e6, 1e8, 1e-3);
        let orders = libm::log10(*sizes.last().unwrap() as f64 / sizes[0] as f64);
        assert!((9.9..=10.0).contains(&orders), "{orders} orders of magnitude");
    }

    #[test]
    fn sizes_rise_with_their_quantile() {
        assert!(spread(Sizes::PUBLISHED, 100_000).is_sorted());
    }

    #[test]
    fn the_means_in_the_table_match_the_solution() {
        let means = published().map(|power| power.mean());
        for (mean, wanted) in means.into_iter().zip([113.3e3, 2.69e6, 6.87e6, 68.2e6, 4.47e9]) {
            close(mean, wanted, 2e-3);
        }
    }

    #[test]
    fn any_feasible_mean_is_met_without_changing_the_shape_of_a_class() {
        let median_of_large = |sizes: &[u64]| {
            let large: Vec<u64> = sizes.iter().copied().filter(|size| (256 << 20..100_000_000_000).contains(size)).collect();
            large[large.len() / 2] as f64
        };
        let published = median_of_large(&spread(Sizes::PUBLISHED, 500_000));
        for mean_bytes in [5e5, 2e6, 2e7, 5e8] {
            let sizes = Sizes::Mixture { mean_bytes, largest_bytes: 1_000_000_000_000 };
            let Ok(Quantiles::Mixture(mixture)) = Quantiles::new(sizes) else { unreachable!("the sizes are a mixture") };
            let weighted = mixture.classes.iter().map(|class| (class.end - class.begin) * class.power.mean());
            close(weighted.sum(), mean_bytes, 1e-6);
            if mean_bytes > 1e7 {
                let drawn = spread(sizes, 500_000);
                close(drawn.iter().map(|size| *size as f64).sum::<f64>() / 5e5, mean_bytes, 0.02);
                close(median_of_large(&drawn), published, 0.02);
            }
        }
    }

    #[test]
    fn no_file_is_larger_than_the_largest() {
        let sizes = Sizes::Mixture { mean_bytes: 2e7, largest_bytes: 10_000_000_000 };
        let quantiles = Quantiles::new(sizes).unwrap();
        assert!((9_900_000_000..=10_000_000_000).contains(&quantiles.largest()), "{}", quantiles.largest());
        close(spread(sizes, 1_000_000).iter().map(|size| *size as f64).sum::<f64>() / 1e6, 2e7, 1e-3);
    }

    #[test]
    fn exponential_sizes_have_the_theoretical_moments() {
        let sizes = spread(Sizes::Exponential { mean_bytes: 1e6 }, 1_000_000);
        let mean = sizes.iter().map(|size| *size as f64).sum::<f64>() / 1e6;
        close(mean, 1e6, 1e-3);
        close(sizes.iter().map(|size| (*size as f64 - mean) * (*size as f64 - mean)).sum::<f64>() / 1e6, 1e12, 1e-3);
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        for sizes in [
            Sizes::Fixed { bytes: 0 },
            Sizes::Exponential { mean_bytes: 0.0 },
            Sizes::Exponential { mean_bytes: f64::INFINITY },
            Sizes::Mixture { mean_bytes: 1e5, largest_bytes: 1_000_000_000_000 },
            Sizes::Mixture { mean_bytes: 1e10, largest_bytes: 1_000_000_000_000 },
            Sizes::Mixture { mean_bytes: f64::NAN, largest_bytes: 1_000_000_000_000 },
            Sizes::Mixture { mean_bytes: 1e8, largest_bytes: 1 },
        ] {
            assert!(Quantiles::new(sizes).is_err(), "{sizes:?}");
        }
    }
}
