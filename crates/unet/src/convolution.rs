//! Convolutions, written once for the registers of every kernel.
//!
//! A register holds output channels of one pixel. The inner loop keeps the sums of a block of
//! pixels in registers: for each tap of the window and each input channel it loads the weights
//! once, and multiplies them by that channel of every pixel of the block.
//!
//! ```text
//! sums[pixel] += weights[tap][input channel] * pixel's input channel      (for 4 to 28 pixels)
//!  16 lanes       16 lanes                      the same in all lanes
//! ```

use crate::image::{BLOCK, Cell, Image};
use crate::kernel::Kernel;
use crate::model::Weights;

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
    /// The value at `from` in all lanes.
    unsafe fn splat(from: *const f32) -> Self::Register;
    /// `a * b + sum`, rounded once or twice.
    unsafe fn multiply_add(a: Self::Register, b: Self::Register, sum: Self::Register) -> Self::Register;
    /// The larger of `a` and 0. NaN stays NaN.
    unsafe fn relu(a: Self::Register) -> Self::Register;
}

/// A layer whose weights are in the order in which the inner loop uses them.
#[derive(Debug)]
pub(crate) struct Convolution {
    inputs: usize,
    outputs: usize,
    /// Rows and columns of the window: 1 or 3.
    side: usize,
    /// By block of outputs, block of inputs, tap and input: weights of the block's 16 outputs.
    weights: Vec<Cell>,
    /// By block of outputs.
    bias: Vec<Cell>,
}

impl Convolution {
    /// A window of `side` rows and columns; `weights` are `[out, in, side, side]`.
    pub(crate) fn new(layer: &Weights, side: usize) -> Self {
        Self::with(layer, side, |output, input, tap| layer.weight[(output * layer.inputs + input) * side * side + tap])
    }

    /// The four pixels that a transposed convolution makes of one, row by row. Each is a
    /// convolution with one tap; `weights` are `[in, out, 2, 2]`.
    pub(crate) fn transposed(layer: &Weights) -> [Self; 4] {
        [0, 1, 2, 3].map(|pixel| Self::with(layer, 1, |output, input, _| layer.weight[(input * layer.outputs + output) * 4 + pixel]))
    }

    fn with(layer: &Weights, side: usize, weight: impl Fn(usize, usize, usize) -> f32) -> Self {
        let (inputs, outputs) = (layer.inputs, layer.outputs);
        // Zeros for outputs that fill the last block up.
        let cell = |first: usize, value: &dyn Fn(usize) -> f32| {
            Cell(std::array::from_fn(|lane| if first + lane < outputs { value(first + lane) } else { 0.0 }))
        };
        let mut weights = Vec::with_capacity(outputs.div_ceil(BLOCK) * inputs * side * side);
        for first in (0..outputs).step_by(BLOCK) {
            for block in (0..inputs).step_by(BLOCK) {
                for tap in 0..side * side {
                    for input in block..inputs.min(block + BLOCK) {
                        weights.push(cell(first, &|output| weight(output, input, tap)));
                    }
                }
            }
        }
        let bias = (0..outputs).step_by(BLOCK).map(|first| cell(first, &|output| layer.bias[output])).collect();
        Self { inputs, outputs, side, weights, bias }
    }

    /// Blocks of 16 inputs, the last one perhaps not full.
    pub(crate) fn input_blocks(&self) -> usize {
        self.inputs.div_ceil(BLOCK)
    }

    /// Blocks of 16 outputs.
    pub(crate) fn output_blocks(&self) -> usize {
        self.bias.len()
    }

    /// Multiplications for one pixel of the output.
    pub(crate) fn multiply_adds(&self) -> u64 {
        (self.inputs * self.outputs * self.side * self.side) as u64
    }
}

/// Where a layer writes: its output at row r and column c goes to the pixel at
/// `first_row + r * step`, `first_column + c * step`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) first_block: usize,
    pub(crate) first_row: usize,
    pub(crate) first_column: usize,
    pub(crate) step: usize,
    pub(crate) relu: bool,
}

impl Target {
    /// All pixels of the blocks from `first_block` on, after ReLU.
    pub(crate) fn activations(first_block: usize) -> Self {
        Self { first_block, first_row: 0, first_column: 0, step: 1, relu: true }
    }
}

/// A layer applied to the first blocks of `source`: addresses and counts, checked to stay inside of
/// both images.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    layer: &'a Convolution,
    /// The cell under the first tap for the first output.
    source: *const Cell,
    source_block: usize,
    source_row: usize,
    /// The cell of the first output.
    target: *mut Cell,
    target_block: usize,
    target_row: usize,
    step: usize,
    relu: bool,
    rows: usize,
    columns: usize,
}

impl<'a> Job<'a> {
    fn new(layer: &'a Convolution, source: &'a Image, target: &'a mut Image, to: Target) -> Self {
        let (rows, columns) = (source.rows, source.columns);
        assert!(rows > 0 && columns > 0 && to.step > 0, "an image without pixels");
        assert!(layer.input_blocks() * source.block_stride() <= source.cells.len(), "a source without the layer's inputs");
        assert!((to.first_block + layer.output_blocks()) * target.block_stride() <= target.cells.len(), "a target without room");
        assert!(to.first_row + (rows - 1) * to.step < target.rows, "a target with too few rows");
        assert!(to.first_column + (columns - 1) * to.step < target.columns, "a target with too few columns");
        assert!(layer.side == 1 || layer.side == 3, "a window that the border isn't made for");
        let border = layer.side / 2;
        let target_row = target.row_stride() * to.step;
        let target_block = target.block_stride();
        let first = target.at(to.first_block, to.first_row, to.first_column);
        Self {
            layer,
            source: source.cells[(1 - border) * (source.row_stride() + 1)..].as_ptr(),
            source_block: source.block_stride(),
            source_row: source.row_stride(),
            target: target.cells[first..].as_mut_ptr(),
            target_block,
            target_row,
            step: to.step,
            relu: to.relu,
            rows,
            columns,
        }
    }

    /// Which number of pixels of a block, of those in `sizes`, needs the least time for a row. The
    /// last block of a row is moved left until it ends with the row, so a row takes whole blocks.
    pub(crate) fn block_of(&self, sizes: &[usize]) -> usize {
        // The loads of weights and the loops of a block cost about half as much as a pixel.
        let cost = |size: usize| self.columns.div_ceil(size) * (2 * size + 1);
        sizes.iter().copied().filter(|&size| size <= self.columns).min_by_key(|&size| cost(size)).expect("a size of 1")
    }
}

/// Applies a layer to the first blocks of `source`.
///
/// # Panics
/// If `source` or `target` lack the layer's blocks, or the target lacks rows or columns.
pub(crate) fn convolve(kernel: Kernel, layer: &Convolution, source: &Image, target: &mut Image, to: Target) {
    assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
    let job = Job::new(layer, source, target, to);
    // SAFETY: the kernel is available, so its instructions are.
    unsafe {
        match kernel {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx512 => crate::x86::convolve_avx512(&job),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx2 => crate::x86::convolve_avx2(&job),
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            Kernel::Neon => crate::neon::convolve_neon(&job),
            _ => crate::portable::convolve_portable(&job),
        }
    }
}

/// Runs a job with blocks of `P` pixels, each with `V` registers, which are one block of outputs.
///
/// # Safety
/// `L`'s instructions are available.
#[inline(always)]
pub(crate) unsafe fn convolve_with<L: Lanes, const V: usize, const P: usize>(job: &Job<'_>) {
    const { assert!(V * L::LANES == BLOCK, "the registers of a pixel hold a block of outputs") }
    assert!(P <= job.columns, "a block of pixels that is wider than the image");
    let weights_of_block = job.layer.weights.len() / job.layer.output_blocks();
    for row in 0..job.rows {
        for block in 0..job.layer.output_blocks() {
            let mut column = 0;
            while column < job.columns {
                column = column.min(job.columns - P);
                // SAFETY: `Job::new` checked that the images hold all rows, columns and blocks, and
                // the source its border; the layer has `weights_of_block` cells of weights, and one
                // of biases, for each block of outputs.
                unsafe {
                    let sums = sums::<L, V, P>(
                        job,
                        job.source.add(row * job.source_row + column),
                        job.layer.weights.as_ptr().add(block * weights_of_block),
                        job.layer.bias.as_ptr().add(block),
                    );
                    let target = job.target.add(block * job.target_block + row * job.target_row + column * job.step);
                    for (pixel, sums) in sums.into_iter().enumerate() {
                        let target = target.add(pixel * job.step).cast::<f32>();
                        for (v, sum) in sums.into_iter().enumerate() {
                            L::store(if job.relu { L::relu(sum) } else { sum }, target.add(v * L::LANES));
                        }
                    }
                }
                column += P;
            }
        }
    }
}

/// The outputs of a block for `P` pixels.
///
/// # Safety
/// `L`'s instructions are available; `source` is the cell under the first tap for the first pixel,
/// `weights` and `bias` are those of the block of outputs.
#[inline(always)]
unsafe fn sums<L: Lanes, const V: usize, const P: usize>(
    job: &Job<'_>,
    source: *const Cell,
    weights: *const Cell,
    bias: *const Cell,
) -> [[L::Register; V]; P] {
    let side = job.layer.side;
    let mut weights = weights.cast::<f32>();
    // SAFETY: the caller guarantees that all cells under the window exist, and their weights.
    unsafe {
        let mut sums = [std::array::from_fn(|v| L::load(bias.cast::<f32>().add(v * L::LANES))); P];
        for block in 0..job.layer.input_blocks() {
            let inputs = (job.layer.inputs - block * BLOCK).min(BLOCK);
            for y in 0..side {
                for x in 0..side {
                    let cells = source.add(block * job.source_block + y * job.source_row + x).cast::<f32>();
                    for input in 0..inputs {
                        let weight: [L::Register; V] = std::array::from_fn(|v| L::load(weights.add(v * L::LANES)));
                        weights = weights.add(BLOCK);
                        for (pixel, sums) in sums.iter_mut().enumerate() {
                            let value = L::splat(cells.add(pixel * BLOCK + input));
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
