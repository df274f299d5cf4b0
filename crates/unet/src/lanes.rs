//! The inner loop of all layers, written once for the registers of every kernel.
//!
//! A register holds output channels of one pixel. The loop keeps the sums of a block of pixels in
//! registers: for each tap of the window and each input channel it loads the weights once, and
//! multiplies them by that channel of every pixel of the block.
//!
//! ```text
//! sums[pixel] += weights[tap][input channel] * pixel's input channel      (for up to 28 pixels)
//!  16 lanes       16 lanes                      the same in all lanes
//! ```

use crate::image::{BLOCK, Cell};

/// Registers of one kernel, as lanes of f32.
///
/// # Safety
/// The methods may only be called where the kernel's instructions are available, with pointers to
/// `LANES` values. Implementations are `inline(always)`, so that they become part of an entry
/// function that enables those instructions.
pub(crate) trait Lanes {
    /// Lanes; divides [`BLOCK`].
    const LANES: usize;
    type Register: Copy;

    unsafe fn load(from: *const f32) -> Self::Register;
    unsafe fn store(register: Self::Register, to: *mut f32);
    /// The value in all lanes.
    unsafe fn splat(value: f32) -> Self::Register;
    unsafe fn add(a: Self::Register, b: Self::Register) -> Self::Register;
    unsafe fn subtract(a: Self::Register, b: Self::Register) -> Self::Register;
    unsafe fn multiply(a: Self::Register, b: Self::Register) -> Self::Register;
    /// `a * b + sum`, rounded once or twice.
    unsafe fn multiply_add(a: Self::Register, b: Self::Register, sum: Self::Register) -> Self::Register;
    /// The larger of `a` and `b`; either of them if one is NaN.
    unsafe fn larger(a: Self::Register, b: Self::Register) -> Self::Register;
    /// The larger of `a` and 0. NaN stays NaN.
    unsafe fn relu(a: Self::Register) -> Self::Register;
}

/// The input values that a sum covers. Strides count values of f32.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Input channels.
    pub(crate) inputs: usize,
    /// Rows, and also columns, of the window.
    pub(crate) side: usize,
    /// From a block of inputs to the next.
    pub(crate) block_stride: usize,
    /// From a row to the next.
    pub(crate) row_stride: usize,
}

/// Adds the products of weights and inputs to `sums`: for each of `P` pixels in a row, `V`
/// registers that hold a block of outputs. A block of inputs has `C` channels, which are adjacent
/// for each pixel; the next pixel follows them.
///
/// # Safety
/// `L`'s instructions are available; `source` is the first value under the first tap for the first
/// pixel, and all pixels under the window exist; `weights` has a cell for each block of inputs, tap
/// and input.
#[inline(always)]
pub(crate) unsafe fn accumulate<L: Lanes, const V: usize, const P: usize, const C: usize>(
    window: Window,
    source: *const f32,
    weights: *const Cell,
    mut sums: [[L::Register; V]; P],
) -> [[L::Register; V]; P] {
    const { assert!(V * L::LANES == BLOCK, "the registers of a pixel hold a block of outputs") }
    let Window { inputs, side, block_stride, row_stride } = window;
    let mut weights = weights.cast::<f32>();
    // SAFETY: the caller guarantees that all pixels under the window exist, and their weights.
    unsafe {
        for block in 0..inputs.div_ceil(C) {
            let inputs = (inputs - block * C).min(C);
            for y in 0..side {
                for x in 0..side {
                    let values = source.add(block * block_stride + y * row_stride + x * C);
                    for input in 0..inputs {
                        let weight: [L::Register; V] = std::array::from_fn(|v| L::load(weights.add(v * L::LANES)));
                        weights = weights.add(BLOCK);
                        for (pixel, sums) in sums.iter_mut().enumerate() {
                            let value = L::splat(*values.add(pixel * C + input));
                            for (sum, &weight) in sums.iter_mut().zip(&weight) {
                                *sum = L::multiply_add(weight, value, *sum);
                            }
                        }
                    }
                }
            }
        }
        sums
    }
}

/// How many pixels to compute at once: the one of `sizes`, which include 1, that takes the least
/// time for `pixels` pixels. Every step computes a whole block of pixels: the last one overlaps the
/// one before it if necessary.
pub(crate) fn pixels_at_once(pixels: usize, sizes: &[usize]) -> usize {
    // Loading the weights of a block, and its loops, cost about half as much as a pixel.
    let cost = |size: usize| pixels.div_ceil(size) * (2 * size + 1);
    sizes.iter().copied().filter(|&size| size <= pixels).min_by_key(|&size| cost(size)).expect("the sizes include 1")
}

/// Calls `$run::<$lanes, $registers, P>($job)` with the fastest of the sizes for P.
macro_rules! with_pixels_at_once {
    ($run:ident, $job:expr, $lanes:ty, $registers:literal, [$($size:literal),+]) => {
        match $crate::lanes::pixels_at_once($job.pixels(), &[$($size),+]) {
            $($size => $run::<$lanes, $registers, $size>($job),)+
            size => unreachable!("{size} is not one of the sizes"),
        }
    };
}
pub(crate) use with_pixels_at_once;
