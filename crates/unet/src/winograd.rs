//! Convolutions of 3x3 with a quarter of the multiplications.
//!
//! Winograd's F(4x4, 3x3): a tile of 6x6 pixels and the window become 6x6 values each, by small
//! fixed transformations. Their products, summed over the input channels, transform back into 4x4
//! pixels of output: 36 multiplications where the window needs 144.
//!
//! ```text
//! tiles of 6x6 pixels --inputs--> 36 x [input channels][tiles]
//!                                      | for each of 36: weights x values
//!                                 36 x [output channels][tiles] --outputs--> tiles of 4x4 pixels
//! ```
//!
//! In one dimension, six values are a polynomial that is evaluated at 0, a, -a, b, -b and infinity.
//! With a = 1/sqrt(2) and b = sqrt(2), values of the transformations grow less than with the usual
//! 1 and 2, so less is lost to rounding.
//!
//! Source: Lavin and Gray, "Fast algorithms for convolutional neural networks", CVPR 2016; for the
//! points, Alam, Anderson, Barabasz and Gregg, "Winograd convolution for deep neural networks:
//! efficient point selection", ACM TECS 21, 2022.

use std::f32::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::ops::Range;

use crate::image::{BLOCK, Cell, Image, TILE};
use crate::kernel::Kernel;
use crate::lanes::{Lanes, Window, accumulate};
use crate::model::Weights;

/// Values of a transformed tile.
const POSITIONS: usize = 36;
/// Tiles that are transformed before they are multiplied, at most: as many as the kernel with the
/// most registers multiplies at once.
pub(crate) const TILES_MAX: usize = 28;

/// The points a and b, and their squares.
const A: f32 = FRAC_1_SQRT_2;
const B: f32 = SQRT_2;
const A2: f32 = 0.5;
const B2: f32 = 2.0;

/// A layer with transformed weights.
#[derive(Debug)]
pub(crate) struct WinogradConvolution {
    inputs: usize,
    outputs: usize,
    /// By position, block of outputs and input: weights of the block's 16 outputs.
    weights: Vec<Cell>,
    /// By block of outputs.
    bias: Vec<Cell>,
}

/// Transformed tiles, for any layer of a network.
#[derive(Debug)]
pub(crate) struct Scratch {
    inputs: Vec<Cell>,
    outputs: Vec<Cell>,
}

impl Scratch {
    /// Scratch that suffices for each of the layers.
    pub(crate) fn new<'a>(layers: impl Iterator<Item = &'a WinogradConvolution>) -> Self {
        let (inputs, outputs): (Vec<_>, Vec<_>) = layers.map(|layer| (layer.input_blocks(), layer.output_blocks())).unzip();
        let room = |blocks: Vec<usize>| {
            let most = blocks.into_iter().max().unwrap_or(0);
            vec![Cell::ZERO; POSITIONS * position_stride(most, TILES_MAX)]
        };
        Self { inputs: room(inputs), outputs: room(outputs) }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.inputs.as_slice()) + size_of_val(self.outputs.as_slice())
    }
}

/// Cells from a position to the next. One more than needed, since a stride of a power of two would
/// put all positions of a tile into few sets of the cache.
fn position_stride(blocks: usize, tiles: usize) -> usize {
    blocks * tiles + 1
}

impl WinogradConvolution {
    /// A window of 3x3; `weights` are `[out, in, 3, 3]`.
    pub(crate) fn new(layer: &Weights) -> Self {
        let (inputs, outputs) = (layer.inputs, layer.outputs);
        let blocks = outputs.div_ceil(BLOCK);
        let mut weights = vec![Cell::ZERO; POSITIONS * blocks * inputs];
        for (number, window) in layer.weight.as_chunks::<9>().0.iter().enumerate() {
            let (output, input) = (number / inputs, number % inputs);
            for (position, value) in transform_window(window).into_iter().enumerate() {
                weights[(position * blocks + output / BLOCK) * inputs + input].0[output % BLOCK] = value;
            }
        }
        let bias = (0..outputs).step_by(BLOCK).map(|first| Cell::of_block(first, outputs, |output| layer.bias[output])).collect();
        Self { inputs, outputs, weights, bias }
    }

    fn input_blocks(&self) -> usize {
        self.inputs.div_ceil(BLOCK)
    }

    fn output_blocks(&self) -> usize {
        self.bias.len()
    }

    /// Multiply-adds of a direct convolution for one pixel of the output; Winograd's algorithm
    /// takes a quarter of them.
    pub(crate) fn multiply_adds(&self) -> u64 {
        (self.inputs * self.outputs * 9) as u64
    }

    /// Applies the layer and ReLU to some rows of tiles of the first blocks of `source`.
    ///
    /// # Panics
    /// If the images differ in size or lack some of the tiles, or one of them or `scratch` lacks
    /// blocks, or the pooled image doesn't have half the size.
    pub(crate) fn run(&self, kernel: Kernel, source: &Image, tile_rows: Range<usize>, target: Target<'_>, scratch: &mut Scratch) {
        assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
        let job = WinogradJob::new(self, source, tile_rows, target, scratch);
        // SAFETY: the kernel is available, so its instructions are.
        unsafe {
            match kernel {
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx512 => crate::x86::winograd_avx512(&job),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx2 => crate::x86::winograd_avx2(&job),
                #[cfg(all(target_arch = "aarch64", not(miri)))]
                Kernel::Neon => crate::neon::winograd_neon(&job),
                _ => crate::portable::winograd_portable(&job),
            }
        }
    }
}

/// Where a layer writes: to the blocks of `image` from `first_block` on.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) image: &'a mut Image,
    pub(crate) first_block: usize,
    /// Gets the largest of each 2x2 pixels, in its first blocks.
    pub(crate) pooled: Option<&'a mut Image>,
}

/// The values of a window's polynomial at the points, in both dimensions: rows of G in the paper,
/// for our points. Each is divided by the product of its point's differences to the other finite
/// points, a denominator of Lagrange's interpolation that the other two transformations leave out.
fn transform_window(window: &[f32; 9]) -> [f32; POSITIONS] {
    let (a, b) = (f64::from(A2).sqrt(), f64::from(B2).sqrt());
    let (a2, b2) = (a * a, b * b);
    let [divisor_a, divisor_b] = [2.0 * a2 * (a2 - b2), 2.0 * b2 * (b2 - a2)];
    let rows = [
        [1.0 / (a2 * b2), 0.0, 0.0],
        [1.0 / divisor_a, a / divisor_a, a2 / divisor_a],
        [1.0 / divisor_a, -a / divisor_a, a2 / divisor_a],
        [1.0 / divisor_b, b / divisor_b, b2 / divisor_b],
        [1.0 / divisor_b, -b / divisor_b, b2 / divisor_b],
        [0.0, 0.0, 1.0],
    ];
    std::array::from_fn(|position| {
        let (y, x) = (rows[position / 6], rows[position % 6]);
        let products = (0..9).map(|tap| y[tap / 3] * x[tap % 3] * f64::from(window[tap]));
        products.sum::<f64>() as f32
    })
}

/// A layer with addresses and counts, checked to stay inside both images and the scratch.
#[derive(Debug)]
pub(crate) struct WinogradJob<'a> {
    layer: &'a WinogradConvolution,
    source: *const Cell,
    source_block: usize,
    /// The cell of the first output.
    target: *mut Cell,
    target_block: usize,
    /// Cells from a row to the next, in both images.
    row: usize,
    rows: usize,
    columns: usize,
    pooled: Option<Pooled>,
    first_tile: usize,
    tiles: usize,
    /// By position, block and tile.
    inputs: *mut Cell,
    outputs: *mut Cell,
}

/// An image with half the rows and columns.
#[derive(Debug, Clone, Copy)]
struct Pooled {
    /// The cell of the first output.
    target: *mut Cell,
    block: usize,
    row: usize,
}

impl<'a> WinogradJob<'a> {
    fn new(
        layer: &'a WinogradConvolution,
        source: &'a Image,
        tile_rows: Range<usize>,
        target: Target<'a>,
        scratch: &'a mut Scratch,
    ) -> Self {
        let Target { image: target, first_block, pooled } = target;
        assert!((source.rows, source.columns) == (target.rows, target.columns), "images of different sizes");
        assert!(source.columns > 0 && !tile_rows.is_empty(), "an image without pixels");
        assert!(tile_rows.end <= source.rows.div_ceil(TILE), "rows {tile_rows:?} of tiles, in {} rows of pixels", source.rows);
        assert!(layer.input_blocks() <= source.blocks(), "a source without the layer's inputs");
        assert!(first_block + layer.output_blocks() <= target.blocks(), "a target without room for the layer's outputs");
        let cells = |blocks| POSITIONS * position_stride(blocks, TILES_MAX);
        assert!(cells(layer.input_blocks()) <= scratch.inputs.len(), "scratch for fewer inputs");
        assert!(cells(layer.output_blocks()) <= scratch.outputs.len(), "scratch for fewer outputs");
        let tiles_of_row = source.columns.div_ceil(TILE);
        let target_block = target.block_stride();
        let first = target.index(first_block, 0, 0);
        let pooled = pooled.map(|pooled| {
            assert!((source.rows, source.columns) == (2 * pooled.rows, 2 * pooled.columns), "a pooled image of another size");
            assert!(layer.output_blocks() <= pooled.blocks(), "a pooled image without room for the layer's outputs");
            let first = pooled.index(0, 0, 0);
            Pooled { block: pooled.block_stride(), row: pooled.row_stride(), target: pooled.cells[first..].as_mut_ptr() }
        });
        Self {
            layer,
            source: source.cells.as_ptr(),
            source_block: source.block_stride(),
            target: target.cells[first..].as_mut_ptr(),
            target_block,
            row: source.row_stride(),
            rows: source.rows,
            columns: source.columns,
            pooled,
            first_tile: tile_rows.start * tiles_of_row,
            tiles: tile_rows.len() * tiles_of_row,
            inputs: scratch.inputs.as_mut_ptr(),
            outputs: scratch.outputs.as_mut_ptr(),
        }
    }

    /// Tiles, some of which are computed at once, as pixels are in direct convolutions.
    pub(crate) fn pixels(&self) -> usize {
        self.tiles
    }

    /// First row and column of a tile.
    fn place(&self, tile: usize) -> (usize, usize) {
        let in_row = self.columns.div_ceil(TILE);
        (tile / in_row * TILE, tile % in_row * TILE)
    }
}

/// Runs a job on `P` tiles at once.
///
/// # Safety
/// `L`'s instructions are available.
#[inline(always)]
pub(crate) unsafe fn run_winograd<L: Lanes, const V: usize, const P: usize>(job: &WinogradJob<'_>) {
    const { assert!(P <= TILES_MAX, "the scratch has room for fewer tiles") }
    assert!(P <= job.tiles, "a block of more tiles than the job has");
    let (mut first, end) = (job.first_tile, job.first_tile + job.tiles);
    while first < end {
        first = first.min(end - P);
        // SAFETY: the caller guarantees the instructions; the block's tiles are the image's.
        unsafe {
            transform_inputs::<L, P>(job, first);
            multiply::<L, V, P>(job);
            transform_outputs::<L, P>(job, first);
        }
        first += P;
    }
}

/// # Safety
/// `L`'s instructions are available, and the image has the tiles from `first` on.
#[inline(always)]
unsafe fn transform_inputs<L: Lanes, const P: usize>(job: &WinogradJob<'_>, first: usize) {
    let blocks = job.layer.input_blocks();
    let stride = position_stride(blocks, P);
    for tile in 0..P {
        let (row, column) = job.place(first + tile);
        for (block, lane) in lanes_of::<L>(blocks) {
            // SAFETY: the border extends images to whole tiles and a pixel around them, so the
            // tile's 6x6 cells exist; `WinogradJob::new` checked the scratch.
            unsafe {
                let from = job.source.add(block * job.source_block + row * job.row + column).cast::<f32>().add(lane);
                let to = job.inputs.add(block * P + tile).cast::<f32>().add(lane);
                let mut columns = [[L::splat(0.0); 6]; 6];
                for (x, transformed) in columns.iter_mut().enumerate() {
                    *transformed = evaluate::<L>(std::array::from_fn(|y| L::load(from.add((y * job.row + x) * BLOCK))));
                }
                for (y, row) in transpose(columns).into_iter().enumerate() {
                    let values = evaluate::<L>(row);
                    for (x, value) in values.into_iter().enumerate() {
                        L::store(value, to.add((6 * y + x) * stride * BLOCK));
                    }
                }
            }
        }
    }
}

/// # Safety
/// `L`'s instructions are available, and `P` tiles have been transformed.
#[inline(always)]
unsafe fn multiply<L: Lanes, const V: usize, const P: usize>(job: &WinogradJob<'_>) {
    let (inputs, blocks) = (job.layer.inputs, job.layer.output_blocks());
    let window = Window { inputs, side: 1, block_stride: P * BLOCK, row_stride: 0 };
    for position in 0..POSITIONS {
        for block in 0..blocks {
            // SAFETY: the layer has weights for each position and block; `WinogradJob::new` checked
            // the scratch.
            unsafe {
                let sums = accumulate::<L, V, P, BLOCK>(
                    window,
                    job.inputs.add(position * position_stride(job.layer.input_blocks(), P)).cast(),
                    job.layer.weights.as_ptr().add((position * blocks + block) * inputs),
                    [[L::splat(0.0); V]; P],
                );
                let to = job.outputs.add(position * position_stride(blocks, P) + block * P);
                for (tile, sums) in sums.into_iter().enumerate() {
                    for (v, sum) in sums.into_iter().enumerate() {
                        L::store(sum, to.add(tile).cast::<f32>().add(v * L::LANES));
                    }
                }
            }
        }
    }
}

/// # Safety
/// `L`'s instructions are available, and the image has the tiles from `first` on, which have been
/// multiplied.
#[inline(always)]
unsafe fn transform_outputs<L: Lanes, const P: usize>(job: &WinogradJob<'_>, first: usize) {
    let blocks = job.layer.output_blocks();
    let stride = position_stride(blocks, P);
    for tile in 0..P {
        let (row, column) = job.place(first + tile);
        // The last tiles may extend beyond the image, where the border must stay zero.
        let (rows, columns) = ((job.rows - row).min(TILE), (job.columns - column).min(TILE));
        for (block, lane) in lanes_of::<L>(blocks) {
            // SAFETY: rows and columns are those of the image, whose blocks `WinogradJob::new`
            // checked, as well as the scratch and the pooled image; there is a bias for each
            // block.
            unsafe {
                let from = job.outputs.add(block * P + tile).cast::<f32>().add(lane);
                let to = job.target.add(block * job.target_block + row * job.row + column).cast::<f32>().add(lane);
                let bias = L::load(job.layer.bias.as_ptr().add(block).cast::<f32>().add(lane));
                let mut columns_of = [[L::splat(0.0); 4]; 6];
                for (x, transformed) in columns_of.iter_mut().enumerate() {
                    *transformed = interpolate::<L>(std::array::from_fn(|y| L::load(from.add((6 * y + x) * stride * BLOCK))));
                }
                let mut values = [[bias; TILE]; TILE];
                for (values, columns) in values.iter_mut().zip(transpose(columns_of)) {
                    *values = interpolate::<L>(columns).map(|value| L::relu(L::add(value, bias)));
                }
                for (y, values) in values.iter().enumerate().take(rows) {
                    for (x, &value) in values.iter().enumerate().take(columns) {
                        L::store(value, to.add((y * job.row + x) * BLOCK));
                    }
                }
                if let Some(pooled) = job.pooled {
                    let to = pooled.target.add(block * pooled.block + row / 2 * pooled.row + column / 2).cast::<f32>().add(lane);
                    pool::<L>(&values, rows / 2, columns / 2, to, pooled.row);
                }
            }
        }
    }
}

/// Writes the largest of each 2x2 values of a tile, for some rows and columns.
///
/// # Safety
/// `L`'s instructions are available, and `to` is the first of so many rows and columns, with `row`
/// cells from a row to the next.
#[inline(always)]
unsafe fn pool<L: Lanes>(values: &[[L::Register; TILE]; TILE], rows: usize, columns: usize, to: *mut f32, row: usize) {
    let (pairs, _) = values.as_chunks::<2>();
    for (y, [upper, lower]) in pairs.iter().enumerate().take(rows) {
        for (x, ([a, b], [c, d])) in upper.as_chunks::<2>().0.iter().zip(lower.as_chunks::<2>().0).enumerate().take(columns) {
            // SAFETY: the caller guarantees the instructions, the row and the column.
            unsafe { L::store(L::larger(L::larger(*a, *b), L::larger(*c, *d)), to.add((y * row + x) * BLOCK)) };
        }
    }
}

/// For each register that these blocks fill: the index of its block, and its first lane in it.
fn lanes_of<L: Lanes>(blocks: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..blocks * BLOCK).step_by(L::LANES).map(|lane| (lane / BLOCK, lane % BLOCK))
}

#[inline(always)]
fn transpose<T: Copy, const N: usize, const M: usize>(columns: [[T; M]; N]) -> [[T; N]; M] {
    std::array::from_fn(|y| std::array::from_fn(|x| columns[x][y]))
}

/// The transformation of six pixels: rows of B^T in the paper, for our points.
///
/// # Safety
/// `L`'s instructions are available.
#[inline(always)]
unsafe fn evaluate<L: Lanes>(d: [L::Register; 6]) -> [L::Register; 6] {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let (a, b) = (L::splat(A), L::splat(B));
        let (minus_a, minus_b) = (L::splat(-A), L::splat(-B));
        let (minus_a2, minus_b2, both) = (L::splat(-A2), L::splat(-B2), L::splat(-A2 - B2));
        // The row of a point p has the coefficients of x (x^2 - a^2) (x^2 - b^2) / (x - p). For a
        // and -a, they differ only in the sign of the odd powers of x; the same holds for b.
        let (even_a, odd_a) = (L::multiply_add(d[2], minus_b2, d[4]), L::multiply_add(d[1], minus_b2, d[3]));
        let (even_b, odd_b) = (L::multiply_add(d[2], minus_a2, d[4]), L::multiply_add(d[1], minus_a2, d[3]));
        [
            // a^2 b^2 = 1, so the first and the last need one product.
            L::multiply_add(d[2], both, L::add(d[0], d[4])),
            L::multiply_add(odd_a, a, even_a),
            L::multiply_add(odd_a, minus_a, even_a),
            L::multiply_add(odd_b, b, even_b),
            L::multiply_add(odd_b, minus_b, even_b),
            L::multiply_add(d[3], both, L::add(d[1], d[5])),
        ]
    }
}

/// The transformation of six products to four pixels: rows of A^T in the paper, for our points.
///
/// # Safety
/// `L`'s instructions are available.
#[inline(always)]
unsafe fn interpolate<L: Lanes>(m: [L::Register; 6]) -> [L::Register; 4] {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let (sum_a, difference_a) = (L::add(m[1], m[2]), L::subtract(m[1], m[2]));
        let (sum_b, difference_b) = (L::add(m[3], m[4]), L::subtract(m[3], m[4]));
        let weighted = |factor_a: f32, factor_b: f32, a, b| L::multiply_add(L::splat(factor_b), b, L::multiply(L::splat(factor_a), a));
        [
            L::add(m[0], L::add(sum_a, sum_b)),
            weighted(A, B, difference_a, difference_b),
            weighted(A2, B2, sum_a, sum_b),
            L::add(m[5], weighted(A * A2, B * B2, difference_a, difference_b)),
        ]
    }
}
