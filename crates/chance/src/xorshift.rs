//! A small generator for tests, benchmarks and demonstrations.

/// Multiplier of xorshift64*, from Vigna's paper.
const STAR_MULTIPLIER: u64 = 0x2545_f491_4f6c_dd1d;
/// 2^64 divided by the golden ratio: its multiples are far apart.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// Pseudo-random bits that are the same in every run: Marsaglia's xorshift64 (2003), or Vigna's
/// xorshift64* (2016). For files and damage that tests can repeat; simulations draw from a
/// [`Stream`](crate::Stream).
#[derive(Debug, Clone)]
pub struct Xorshift {
    state: u64,
    is_star: bool,
}

impl Xorshift {
    /// xorshift64 with the shifts 13, 7 and 17. From the state 0 it draws only zeros; use
    /// [`Xorshift::seeded`] where the seed can be 0.
    #[must_use]
    pub const fn new(state: u64) -> Self {
        Self { state, is_star: false }
    }

    /// xorshift64 for any seed.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self::new(spread(seed))
    }

    /// xorshift64*. The state must not be 0 either.
    #[must_use]
    pub const fn star(state: u64) -> Self {
        Self { state, is_star: true }
    }

    /// xorshift64* for any seed.
    #[must_use]
    pub const fn star_seeded(seed: u64) -> Self {
        Self::star(spread(seed))
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        if self.is_star {
            self.state ^= self.state >> 12;
            self.state ^= self.state << 25;
            self.state ^= self.state >> 27;
            return self.state.wrapping_mul(STAR_MULTIPLIER);
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// A number below `count`, or 0 if `count` is 0. Slightly biased towards small numbers.
    pub fn below(&mut self, count: usize) -> usize {
        (self.bits() % count.max(1) as u64) as usize
    }

    /// Fills a buffer with bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.bits().to_le_bytes()[..piece.len()]);
        }
    }
}

/// Bytes without a pattern, the same for the same seed.
#[must_use]
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Xorshift::seeded(seed).fill(&mut bytes);
    bytes
}

/// Spreads seeds, which often are small, over the odd states: none of them is 0.
const fn spread(seed: u64) -> u64 {
    seed.wrapping_mul(GOLDEN_RATIO) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generators_give_the_published_values() {
        // From the state 1, by Marsaglia's and Vigna's definitions.
        let mut plain = Xorshift::new(1);
        assert_eq!([plain.bits(), plain.bits()], [1_082_269_761, 1_152_992_998_833_853_505]);
        let mut star = Xorshift::star(1);
        assert_eq!([star.bits(), star.bits()], [5_180_492_295_206_395_165, 12_380_297_144_915_551_517]);
    }

    #[test]
    fn a_buffer_of_any_length_begins_with_the_same_bytes() {
        let long = noise(7, 100);
        assert!((0..100).all(|length| noise(7, length) == long[..length]));
        assert_ne!(noise(0, 100), long);
    }
}
