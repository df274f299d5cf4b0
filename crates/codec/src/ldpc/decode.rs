//! Layered normalized min-sum decoding on 8-bit log-likelihood ratios.
//!
//! A layer is a base row. Its Z checks share no bit, so they are computed side by side, one byte
//! lane each. In every layer, a bit first subtracts what the layer's check told it before. The
//! check then tells each of its bits the sign that the others imply, with three quarters of the
//! smallest magnitude among them: min-sum alone overestimates.
//!
//! ```text
//! a column as stored: rotated so that the layer that used it last reads the bit of check 0 first
//! [ b17 b18 ... b511 b0 ... b16 | b17 b18 ... ]      twice in a row, so that every rotation is one
//!        ^ the next layer's check 0                  contiguous read
//! ```

use super::base_matrix::BaseMatrix;
use super::decoder::{Decoded, LdpcDecoder};
use super::lanes;
use crate::aligned::{AlignedBytes, CACHE_LINE};
use crate::kernel::Kernel;

/// Buffers are padded for registers of up to this size.
pub(super) const PADDING: usize = 64;

/// An entry of the base matrix, as the decoder visits it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// Offset of the stored column.
    pub(super) column: usize,
    /// Offset of check 0's bit in the stored column when the layer begins.
    pub(super) at_layer: usize,
    /// The same between iterations.
    pub(super) between: usize,
}

/// A base matrix with the decoder's offsets.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    pub(super) lifting: usize,
    /// `lifting`, rounded up to whole registers.
    pub(super) padded: usize,
    pub(super) layers: Vec<Vec<Edge>>,
    /// Rotation of each column between iterations.
    rotations: Vec<usize>,
}

impl Schedule {
    pub(super) fn new(matrix: &BaseMatrix) -> Self {
        let lifting = matrix.lifting();
        let padded = lifting.next_multiple_of(PADDING);
        let stride = Self::stride_of(lifting);
        let mut rotations = vec![0; matrix.columns()];
        for entry in matrix.rows().iter().flatten() {
            rotations[entry.column] = entry.shift;
        }
        let mut now = rotations.clone();
        let mut layers = Vec::with_capacity(matrix.rows().len());
        for row in matrix.rows() {
            let edges = row.iter().map(|entry| {
                let before = std::mem::replace(&mut now[entry.column], entry.shift);
                Edge {
                    column: entry.column * stride,
                    at_layer: (entry.shift + lifting - before) % lifting,
                    between: (entry.shift + lifting - rotations[entry.column]) % lifting,
                }
            });
            layers.push(edges.collect());
        }
        Self { lifting, padded, layers, rotations }
    }

    /// Bytes of a stored column: two copies, and room for a register that starts inside the second
    /// copy and reaches past its end.
    fn stride_of(lifting: usize) -> usize {
        (2 * lifting).next_multiple_of(PADDING) + PADDING
    }

    fn stride(&self) -> usize {
        Self::stride_of(self.lifting)
    }

    pub(super) fn codeword_bits(&self) -> usize {
        self.rotations.len() * self.lifting
    }

    fn widest(&self) -> usize {
        self.layers.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn edges(&self) -> usize {
        self.layers.iter().map(Vec::len).sum()
    }
}

/// The decoder's state for one word. All values are signed bytes; buffers start at a cache line,
/// because stores across two lines cost up to half of the speed.
pub(super) struct State {
    /// Log-likelihood ratio of every bit, by column.
    pub(super) bits: AlignedBytes,
    /// What each check last told each of its bits, by layer, edge and check.
    pub(super) messages: AlignedBytes,
    /// The current layer's bits without its checks' messages, by edge and check.
    pub(super) extrinsic: AlignedBytes,
    /// Per check of the current layer: smallest and second smallest magnitude, product of signs.
    pub(super) checks: AlignedBytes,
}

impl State {
    pub(super) fn new(schedule: &Schedule) -> Self {
        Self {
            bits: AlignedBytes::zeroed(schedule.rotations.len() * schedule.stride(), CACHE_LINE),
            messages: AlignedBytes::zeroed(schedule.edges() * schedule.padded, CACHE_LINE),
            extrinsic: AlignedBytes::zeroed(schedule.widest() * schedule.padded, CACHE_LINE),
            checks: AlignedBytes::zeroed(3 * schedule.padded, CACHE_LINE),
        }
    }

    /// Whether the buffers have the sizes that the schedule's offsets need.
    pub(super) fn fits(&self, schedule: &Schedule) -> bool {
        self.bits.len() == schedule.rotations.len() * schedule.stride()
            && self.messages.len() == schedule.edges() * schedule.padded
            && self.extrinsic.len() == schedule.widest() * schedule.padded
            && self.checks.len() == 3 * schedule.padded
    }

    fn load(&mut self, schedule: &Schedule, ratios: &[i8]) {
        let z = schedule.lifting;
        let columns = self.bits.chunks_exact_mut(schedule.stride());
        for ((column, ratios), &rotation) in columns.zip(ratios.chunks_exact(z)).zip(&schedule.rotations) {
            for copy in column.chunks_exact_mut(z).take(2) {
                copy_limited(&mut copy[..z - rotation], &ratios[rotation..]);
                copy_limited(&mut copy[z - rotation..], &ratios[..rotation]);
            }
        }
        self.messages.fill(0);
    }

    /// The ratios of a column, in the order of the codeword, as their unsigned bytes.
    pub(super) fn column(&self, schedule: &Schedule, column: usize) -> &[u8] {
        let from = column * schedule.stride() + schedule.lifting - schedule.rotations[column];
        &self.bits[from..from + schedule.lifting]
    }
}

fn copy_limited(to: &mut [u8], ratios: &[i8]) {
    for (to, ratio) in to.iter_mut().zip(ratios) {
        *to = (*ratio).clamp(-LdpcDecoder::MOST_RATIO, LdpcDecoder::MOST_RATIO).cast_unsigned();
    }
}

/// Decodes `ratios` into `state`, which was created for `schedule`.
pub(super) fn decode(kernel: Kernel, schedule: &Schedule, state: &mut State, ratios: &[i8], most_iterations: u32) -> Decoded {
    state.load(schedule, ratios);
    let mut iterations = 0;
    loop {
        let is_codeword = lanes::all_checks_hold(kernel, schedule, state);
        if is_codeword || iterations == most_iterations {
            return Decoded { iterations, is_codeword };
        }
        lanes::iterate(kernel, schedule, state);
        iterations += 1;
    }
}
