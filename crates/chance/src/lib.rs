//! Reproducible randomness. A [`Stream`] draws the same values from the same seed on every machine,
//! and each purpose has its own stream, so an extra draw for one purpose doesn't change the others.
//!
//! The generator is explicitly ChaCha8: its values are fixed, unlike those of a "standard"
//! generator. Logarithms and exponentials come from `libm`, because those of operating systems
//! differ in their last bits.
//!
//! [`Xorshift`] is a much smaller generator, for tests and benchmarks of any crate.

#![forbid(unsafe_code)]

mod xorshift;

pub use xorshift::{Xorshift, noise};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random values.
#[derive(Debug, Clone)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream for one `purpose` of a run with this seed. Streams of different purposes are
    /// independent.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self::numbered(seed, purpose, 0)
    }

    /// Like [`Stream::new`], for the `number`th of several things with the same purpose, such as
    /// drives.
    #[must_use]
    pub fn numbered(seed: u64, purpose: &str, number: u32) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(u64::from(fnv1a(purpose)) << 32 | u64::from(number));
        Self(generator)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in 0.0..1.0, with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in `0..count`, with a bias below `count` / 2^64.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn below(&mut self, count: u64) -> u64 {
        assert!(count > 0, "count must not be 0");
        ((u128::from(self.bits()) * u128::from(count)) >> 64) as u64
    }

    /// Uniform in `low..high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// True with this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - u is in (0, 1], so the logarithm is finite.
        -mean * libm::log(1.0 - self.unit())
    }

    /// Normal with mean 0 and standard deviation 1, by Marsaglia's polar method. The second value
    /// is discarded, so that the generator is the stream's only state.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (self.between(-1.0, 1.0), self.between(-1.0, 1.0));
            let square = u * u + v * v;
            if square > 0.0 && square < 1.0 {
                return u * (-2.0 * libm::log(square) / square).sqrt();
            }
        }
    }

    /// Lognormal with this median; `sigma` is the standard deviation of its logarithm.
    pub fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        median * libm::exp(sigma * self.normal())
    }

    /// Log-uniform in `low..high`: the logarithm is uniform, so 1 to 2 is as likely as 10 to 20.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        low * libm::exp(self.unit() * libm::log(high / low))
    }

    /// Beta(2, 2) in 0.0..1.0: the median of three uniform draws.
    pub fn beta_2_2(&mut self) -> f64 {
        let (a, b, c) = (self.unit(), self.unit(), self.unit());
        a.max(b).min(a.min(b).max(c))
    }
}

/// 32-bit FNV-1a hash, for a few known names.
fn fnv1a(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(count: u32, mut draw: impl FnMut() -> f64) -> f64 {
        (0..count).map(|_| draw()).sum::<f64>() / f64::from(count)
    }

    #[test]
    fn a_seed_and_a_purpose_always_give_the_same_values() {
        let mut stream = Stream::new(42, "arrivals");
        assert_eq!([stream.bits(), stream.bits(), stream.bits()], GOLDEN);
        let other = Stream::new(42, "sizes").bits();
        assert_ne!(other, GOLDEN[0]);
        assert_ne!(Stream::numbered(42, "arrivals", 1).bits(), GOLDEN[0]);
        assert_ne!(Stream::new(43, "arrivals").bits(), GOLDEN[0]);
    }

    const GOLDEN: [u64; 3] = [16_403_374_189_556_672_416, 1_054_667_745_781_461_063, 18_257_921_414_758_589_829];

    #[test]
    fn distributions_have_the_expected_moments() {
        let mut stream = Stream::new(1, "moments");
        let close = |found: f64, wanted: f64, within: f64| assert!((found - wanted).abs() < within, "{found} instead of {wanted}");
        close(mean(100_000, || stream.unit()), 0.5, 0.005);
        close(mean(100_000, || stream.exponential(3.0)), 3.0, 0.05);
        close(mean(100_000, || stream.normal()), 0.0, 0.02);
        close(mean(100_000, || stream.normal().powi(2)), 1.0, 0.02);
        close(mean(100_000, || stream.beta_2_2()), 0.5, 0.005);
        close(mean(100_000, || (stream.beta_2_2() - 0.5).powi(2)), 0.05, 0.001);
        close(mean(100_000, || libm::log(stream.lognormal(0.6, 0.4))), libm::log(0.6), 0.005);
        close(mean(100_000, || stream.below(10) as f64), 4.5, 0.05);
        close(mean(100_000, || libm::log(stream.log_uniform(1.0, 100.0))), libm::log(10.0), 0.02);
    }
}
