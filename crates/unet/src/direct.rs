//! Direct convolutions: for windows of one pixel, and for the input, which has too few channels for
//! [Winograd's transformations](crate::winograd) to pay off.

use crate::image::{BLOCK, Cell, Image, Source};
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
    /// Inputs of a block.
    channels: usize,
    /// By block of outputs, block of inputs, tap and input: weights of the block's 16 outputs.
    weights: Vec<Cell>,
    /// By block of outputs.
    bias: Vec<Cell>,
}

impl DirectConvolution {
    /// A window of 3x3 on separate planes; `weights` are `[out, in, 3, 3]`.
    pub(crate) fn of_planes(layer: &Weights) -> Self {
        Self::with(layer, 3, 1, |output, input, tap| layer.weight[(output * layer.inputs + input) * 9 + tap])
    }

    /// A window of one pixel; `weights` are `[out, in, 1, 1]`.
    pub(crate) fn of_pixels(layer: &Weights) -> Self {
        Self::with(layer, 1, BLOCK, |output, input, _| layer.weight[output * layer.inputs + input])
    }

    /// The four pixels that a transposed convolution makes of one, row by row. Each is a
    /// convolution with one tap; `weights` are `[in, out, 2, 2]`.
    pub(crate) fn transposed(layer: &Weights) -> [Self; 4] {
        [0, 1, 2, 3].map(|pixel| Self::with(layer, 1, BLOCK, |output, input, _| layer.weight[(input * layer.outputs + output) * 4 + pixel]))
    }

    /// `channels` are the inputs of a block; `weight` gets output, input and tap.
    fn with(layer: &Weights, side: usize, channels: usize, weight: impl Fn(usize, usize, usize) -> f32) -> Self {
        let (inputs, outputs) = (layer.inputs, layer.outputs);
        let mut weights = Vec::with_capacity(outputs.div_ceil(BLOCK) * inputs * side * side);
        for first in (0..outputs).step_by(BLOCK) {
            for block in (0..inputs).step_by(channels) {
                for tap in 0..side * side {
                    for input in block..inputs.min(block + channels) {
                        weights.push(Cell::of_block(first, outputs, |output| weight(output, input, tap)));
                    }
                }
            }
        }
        let bias = (0..outputs).step_by(BLOCK).map(|first| Cell::of_block(first, outputs, |output| layer.bias[output])).collect();
        Self { inputs, outputs, side, channels, weights, bias }
    }

    /// Multiply-adds for one pixel of the output.
    pub(crate) fn multiply_adds(&self) -> u64 {
        (self.inputs * self.outputs * self.side * self.side) as u64
    }

    /// Applies the layer to the first blocks of `source`, and writes the first blocks of `target`.
    ///
    /// # Panics
    /// If `source` or `target` lacks the layer's blocks, or the target lacks rows or columns, or
    /// the source has another layout than the layer was made for.
    pub(crate) fn run(&self, kernel: Kernel, source: Source<'_>, target: &mut Image, to: Target) {
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

/// Where a layer writes, and whether ReLU is applied: its output at row r and column c goes to the
/// pixel at `first_row + r * step`, `first_column + c * step`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) first_row: usize,
    pub(crate) first_column: usize,
    pub(crate) step: usize,
    pub(crate) relu: bool,
}

/// A layer with addresses and counts, checked to stay inside both images.
#[derive(Debug)]
pub(crate) struct DirectJob<'a> {
    layer: &'a DirectConvolution,
    window: Window,
    /// The first value under the first tap for the first output.
    source: *const f32,
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
    fn new(layer: &'a DirectConvolution, source: Source<'a>, target: &'a mut Image, to: Target) -> Self {
        let Source { rows, columns, channels, block_stride, row_stride, .. } = source;
        assert!(rows > 0 && columns > 0 && to.step > 0, "an image without pixels");
        assert!(channels == layer.channels, "a source of another layout");
        assert!(layer.inputs.div_ceil(channels) <= source.blocks, "a source without the layer's inputs");
        assert!(layer.bias.len() <= target.blocks(), "a target without room for the layer's outputs");
        assert!(to.first_row + (rows - 1) * to.step < target.rows, "a target with too few rows");
        assert!(to.first_column + (columns - 1) * to.step < target.columns, "a target with too few columns");
        assert!(layer.side == 1 || layer.side == 3, "a window that the border isn't made for");
        // A window of one pixel starts at the pixel itself.
        let start = (1 - layer.side / 2) * (row_stride + channels);
        let (target_block, target_row) = (target.block_stride(), target.row_stride() * to.step);
        let first = target.index(0, to.first_row, to.first_column);
        Self {
            layer,
            window: Window { inputs: layer.inputs, side: layer.side, block_stride, row_stride },
            source: source.values.wrapping_add(start),
            target: target.cells[first..].as_mut_ptr(),
            target_block,
            target_row,
            step: to.step,
            relu: to.relu,
            rows,
            columns,
        }
    }

    /// Pixels of a row, some of which are computed at once.
    pub(crate) fn pixels(&self) -> usize {
        self.columns
    }
}

/// Runs a job on `P` pixels at once, each with `V` registers, which hold one block of outputs.
///
/// # Safety
/// `L`'s instructions are available.
#[inline(always)]
pub(crate) unsafe fn run_direct<L: Lanes, const V: usize, const P: usize>(job: &DirectJob<'_>) {
    // SAFETY: the caller guarantees the instructions.
    unsafe { if job.layer.channels == 1 { run_layout::<L, V, P, 1>(job) } else { run_layout::<L, V, P, BLOCK>(job) } }
}

/// # Safety
/// `L`'s instructions are available, and the layer's blocks have `C` inputs.
#[inline(always)]
unsafe fn run_layout<L: Lanes, const V: usize, const P: usize, const C: usize>(job: &DirectJob<'_>) {
    assert!(P <= job.columns, "a block of pixels that is wider than the image");
    let blocks = job.layer.bias.len();
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
                    let sums = accumulate::<L, V, P, C>(
                        job.window,
                        job.source.add(row * job.window.row_stride + column * C),
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
