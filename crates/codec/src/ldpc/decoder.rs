//! The decoder as callers see it.

use super::base_matrix::BaseMatrix;
use super::decode::{Schedule, State, decode};
use crate::kernel::Kernel;

/// Decodes words of one code, one after the other. Memory is allocated once.
///
/// The algorithm is layered normalized min-sum with 8-bit ratios. It runs on the machine's fastest
/// [`Kernel`]; all kernels give the same results.
///
/// [`decode`](Self::decode) a word, then copy out what became of it.
pub struct LdpcDecoder {
    kernel: Kernel,
    schedule: Schedule,
    state: State,
}

/// How decoding of a word ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// Iterations over all checks; 0 if the signs of the ratios satisfied all checks already.
    pub iterations: u32,
    /// Whether all checks hold. If they do, the word is a codeword, though not necessarily the one
    /// that was written.
    pub is_codeword: bool,
}

impl LdpcDecoder {
    /// Log-likelihood ratios count in quarters of a nat: a ratio of 4 means that 0 is e times as
    /// likely as 1. Finer units make the decoder saturate, coarser ones lose precision.
    pub const RATIOS_PER_NAT: f32 = 4.0;

    /// A decoder with the machine's fastest kernel.
    pub fn new(matrix: &BaseMatrix) -> Self {
        Self::with_kernel(matrix, Kernel::best())
    }

    /// A decoder with a chosen kernel, for tests and benchmarks.
    ///
    /// # Panics
    /// If the machine doesn't support the kernel.
    pub fn with_kernel(matrix: &BaseMatrix, kernel: Kernel) -> Self {
        assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
        let schedule = Schedule::new(matrix);
        let state = State::new(&schedule);
        Self { kernel, schedule, state }
    }

    /// The largest ratio, ten nats. A channel that is surer than that is sometimes wrong all the
    /// same, and three checks, each of which tells at most 32, have to outvote it.
    pub const MOST_RATIO: i8 = 40;

    /// The ratio of a log-likelihood in nats: rounded, and limited to
    /// [`MOST_RATIO`](Self::MOST_RATIO).
    pub fn ratio(nats: f32) -> i8 {
        // `as` saturates and maps NaN, which says nothing about the bit, to 0.
        ((nats * Self::RATIOS_PER_NAT).round() as i8).clamp(-Self::MOST_RATIO, Self::MOST_RATIO)
    }

    /// Decodes a word from the ratios of its bits, positive where 0 is more likely; 0 is an erased
    /// bit, and ratios beyond ±[`MOST_RATIO`](Self::MOST_RATIO) count as that. Stops at the first
    /// codeword, or after `most_iterations`.
    ///
    /// # Panics
    /// If the number of ratios isn't that of a codeword's bits.
    pub fn decode(&mut self, ratios: &[i8], most_iterations: u32) -> Decoded {
        assert_eq!(ratios.len(), self.schedule.codeword_bits(), "one ratio per bit is required");
        decode(self.kernel, &self.schedule, &mut self.state, ratios, most_iterations)
    }

    /// Copies out the ratios after decoding; zeros if nothing was decoded yet.
    ///
    /// # Panics
    /// If the number of ratios isn't that of a codeword's bits.
    pub fn copy_ratios(&self, ratios: &mut [i8]) {
        assert_eq!(ratios.len(), self.schedule.codeword_bits(), "one ratio per bit is required");
        for (column, ratios) in ratios.chunks_exact_mut(self.schedule.lifting).enumerate() {
            for (ratio, byte) in ratios.iter_mut().zip(self.state.column(&self.schedule, column)) {
                *ratio = byte.cast_signed();
            }
        }
    }

    /// Copies out the decoded bits, from the first on: as many as fit `bytes`. Bit b is bit b mod
    /// 8, counted from the least significant one, of byte b / 8.
    ///
    /// # Panics
    /// If a codeword has fewer bits, or its columns aren't whole bytes.
    pub fn copy_bits(&self, bytes: &mut [u8]) {
        assert!(8 * bytes.len() <= self.schedule.codeword_bits(), "a codeword has only {} bits", self.schedule.codeword_bits());
        assert!(self.schedule.lifting.is_multiple_of(8), "columns of {} bits aren't whole bytes", self.schedule.lifting);
        for (column, bytes) in bytes.chunks_mut(self.schedule.lifting / 8).enumerate() {
            for (byte, ratios) in bytes.iter_mut().zip(self.state.column(&self.schedule, column).chunks_exact(8)) {
                *byte = signs(ratios.try_into().expect("8 ratios"));
            }
        }
    }
}

/// The sign bits of eight bytes.
fn signs(bytes: [u8; 8]) -> u8 {
    let signs = u64::from_le_bytes(bytes) & 0x8080_8080_8080_8080;
    // Shifted by 7, the sign of byte i is bit 8i; the factor's bit 7(8 - i) moves it to bit 56 + i.
    ((signs >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}
