//! Direct convolutions: for windows of one pixel, and for images with few channels.

use crate::image::{BLOCK, Cell, Image};
use crate::kernel::Kernel;
use crate::lanes::{Lanes, Window, accumulate};
use crate::model::Weights;

/// A layer whose weights are in the order in which the inner loop uses them.
#[derive(Debug)]
pub(crate) struct DirectConvolution {
    inputs: usize,
    outputs: usize,
    /// Rows and columns of the window: 1 or 3.
    side: usize,
    /// By block of outputs, block of inputs, tap and input: weights of the block's 16 outputs.
    weights: Vec<Cell>,
    /// By block of outputs.
    bias: Vec<Cell>,
}

impl DirectConvolution {
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
        let mut weights = Vec::with_capacity(outputs.div_ceil(BLOCK) * inputs * side * side);
        for first in (0..outputs).step_by(BLOCK) {
            for block in (0..inputs).step_by(BLOCK) {
                for tap in 0..side * side {
                    for input in block..inputs.min(block + BLOCK) {
                        weights.push(Cell::of_block(first, outputs, |output| weight(output, input, tap)));
                    }
                }
            }
        }
        let bias = (0..outputs).step_by(BLOCK).map(|first| Cell::of_block(first, outputs, |output| layer.bias[output])).collect();
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

    /// Applies the layer to the first blocks of `source`, and writes blocks of `target` from
    /// `to.first_block` on.
    ///
    /// # Panics
    /// If `source` or `target` lack the layer's blocks, or the target lacks rows or columns.
    pub(crate) fn run(&self, kernel: Kernel, source: &Image, target: &mut Image, to: Target) {
        assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
        let job = DirectJob::new(self, source, target, to);
        // SAFETY: the kernel is available, so its instructions are.
        unsafe {
            match kernel {
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx512 => crate::x86::direct_avx512(&job),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx2 => crate::x86::direct_avx2(&job),
                #[cfg(all(target_arch = "aarch64", not(miri)))]
                Kernel::Neon => crate::neon::direct_neon(&job),
                _ => crate::portable::direct_portable(&job),
            }
        }
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

/// A layer with addresses and counts, checked to stay inside of both images.
#[derive(Debug)]
pub(crate) struct DirectJob<'a> {
    layer: &'a DirectConvolution,
    window: Window,
    /// The cell under the first tap for the first output.
    source: *const Cell,
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

impl<'a> DirectJob<'a> {
    fn new(layer: &'a DirectConvolution, source: &'a Image, target: &'a mut Image, to: Target) -> Self {
        let (rows, columns) = (source.rows, source.columns);
        assert!(rows > 0 && columns > 0 && to.step > 0, "an image without pixels");
        assert!(layer.input_blocks() <= source.blocks(), "a source without the layer's inputs");
        assert!(to.first_block + layer.output_blocks() <= target.blocks(), "a target without room for the layer's outputs");
        assert!(to.first_row + (rows - 1) * to.step < target.rows, "a target with too few rows");
        assert!(to.first_column + (columns - 1) * to.step < target.columns, "a target with too few columns");
        assert!(layer.side == 1 || layer.side == 3, "a window that the border isn't made for");
        let border = layer.side / 2;
        let (block_stride, row_stride) = (source.block_stride(), source.row_stride());
        let (target_block, target_row) = (target.block_stride(), target.row_stride() * to.step);
        let first = target.at(to.first_block, to.first_row, to.first_column);
        Self {
            layer,
            window: Window { inputs: layer.inputs, side: layer.side, block_stride, row_stride },
            source: source.cells[(1 - border) * (row_stride + 1)..].as_ptr(),
            source_row: row_stride,
            target: target.cells[first..].as_mut_ptr(),
            target_block,
            target_row,
            step: to.step,
            relu: to.relu,
            rows,
            columns,
        }
    }

    /// Pixels that can form a block.
    pub(crate) fn pixels(&self) -> usize {
        self.columns
    }
}

/// Runs a job with blocks of `P` pixels, each with `V` registers, which are one block of outputs.
///
/// # Safety
/// `L`'s instructions are available.
#[inline(always)]
pub(crate) unsafe fn run_direct<L: Lanes, const V: usize, const P: usize>(job: &DirectJob<'_>) {
    assert!(P <= job.columns, "a block of pixels that is wider than the image");
    let blocks = job.layer.output_blocks();
    let weights_of_block = job.layer.weights.len() / blocks;
    for row in 0..job.rows {
        for block in 0..blocks {
            let mut column = 0;
            while column < job.columns {
                column = column.min(job.columns - P);
                // SAFETY: `DirectJob::new` checked that the images hold all rows, columns and
                // blocks, and the source has its border; the layer has `weights_of_block` cells of
                // weights, and one of biases, for each block of outputs.
                unsafe {
                    let bias = job.layer.bias.as_ptr().add(block).cast::<f32>();
                    let sums = accumulate::<L, V, P>(
                        job.window,
                        job.source.add(row * job.source_row + column),
                        job.layer.weights.as_ptr().add(block * weights_of_block),
                        [std::array::from_fn(|v| L::load(bias.add(v * L::LANES))); P],
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
