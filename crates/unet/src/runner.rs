//! Runners: the network applied to images of one size.

use std::sync::Arc;

use crate::convolution::Convolution;
use crate::direct::Target;
use crate::image::{BLOCK, Cell, Image};
use crate::kernel::Kernel;
use crate::network::Layers;
use crate::winograd::Scratch;

/// Applies a network to images of one size, on the calling thread. It owns all memory that this
/// takes, and reuses it for each image; a runner per thread uses several cores.
#[derive(Debug)]
pub struct Runner {
    layers: Arc<Layers>,
    kernel: Kernel,
    rows: usize,
    columns: usize,
    levels: Vec<Level>,
    /// Logits, in blocks of 16.
    head: Image,
    scratch: Scratch,
}

/// The images of a level. Their borders stay zero.
#[derive(Debug)]
struct Level {
    /// What the level starts with: the normalized input, or the pooled image of the level above.
    input: Image,
    /// Between the two convolutions, on both ways.
    middle: Image,
    /// On the way down, the result: the skip connection. On the way up, the upsampled image before
    /// it, and then the result in place of that.
    result: Image,
    /// The first block of the result on the way down.
    skip: usize,
}

impl Runner {
    pub(crate) fn new(layers: Arc<Layers>, rows: usize, columns: usize, kernel: Kernel) -> Self {
        let mut levels = Vec::new();
        for (level, (&width, [first, _])) in layers.widths.iter().zip(&layers.down).enumerate() {
            let (rows, columns, blocks) = (rows >> level, columns >> level, width / BLOCK);
            let skip = if level + 1 < layers.widths.len() { blocks } else { 0 };
            levels.push(Level {
                input: Image::zeros(first.input_blocks(), rows, columns),
                middle: Image::zeros(blocks, rows, columns),
                result: Image::zeros(skip + blocks, rows, columns),
                skip,
            });
        }
        let head = Image::zeros(layers.head.output_blocks(), rows, columns);
        let convolutions = layers.down.iter().flatten().chain(layers.up.iter().flat_map(|up| &up.convolutions));
        let (inputs, outputs): (Vec<_>, Vec<_>) = convolutions.map(Convolution::scratch_blocks).unzip();
        let most = |blocks: Vec<usize>| blocks.into_iter().max().unwrap_or(0);
        let scratch = Scratch::new(most(inputs), most(outputs));
        Self { layers, kernel, rows, columns, levels, head, scratch }
    }

    /// Rows of an image.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of an image.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of memory that the runner holds, beside the network.
    pub fn scratch_bytes(&self) -> usize {
        let images = self.levels.iter().flat_map(|level| [&level.input, &level.middle, &level.result]);
        self.scratch.bytes() + images.chain([&self.head]).map(|image| size_of_val(image.cells.as_slice())).sum::<usize>()
    }

    /// Computes the logits of an image.
    ///
    /// `planes` is `[input, row, column]` and `logits` `[row, column, output]`. Values that aren't
    /// finite make some or all logits NaN or meaningless. The same image gives the same logits on
    /// the same kernel.
    ///
    /// # Panics
    /// If a slice doesn't have the length of its shape.
    pub fn run(&mut self, planes: &[f32], logits: &mut [f32]) {
        let (layers, kernel, pixels) = (Arc::clone(&self.layers), self.kernel, self.rows * self.columns);
        assert_eq!(planes.len(), layers.inputs * pixels, "values of the input planes");
        assert_eq!(logits.len(), layers.outputs * pixels, "logits of all pixels");
        let scratch = &mut self.scratch;
        normalize(&layers, planes, &mut self.levels[0].input);
        for (number, [a, b]) in layers.down.iter().enumerate() {
            let (above, levels) = self.levels.split_at_mut(number);
            let level = &mut levels[0];
            if let Some(above) = above.last() {
                pool(&above.result, above.skip, &mut level.input);
            }
            a.run(kernel, &level.input, &mut level.middle, 0, scratch);
            b.run(kernel, &level.middle, &mut level.result, level.skip, scratch);
        }
        for (number, up) in layers.up.iter().enumerate().rev() {
            let (levels, below) = self.levels.split_at_mut(number + 1);
            let level = &mut levels[number];
            for (pixel, layer) in up.transpose.iter().enumerate() {
                let to = Target { first_block: 0, first_row: pixel / 2, first_column: pixel % 2, step: 2, relu: false };
                layer.run(kernel, &below[0].result, &mut level.result, to);
            }
            let [a, b] = &up.convolutions;
            a.run(kernel, &level.result, &mut level.middle, 0, scratch);
            b.run(kernel, &level.middle, &mut level.result, 0, scratch);
        }
        let to = Target { first_block: 0, first_row: 0, first_column: 0, step: 1, relu: false };
        layers.head.run(kernel, &self.levels[0].result, &mut self.head, to);
        self.copy_logits(layers.outputs, logits);
    }

    fn copy_logits(&self, outputs: usize, logits: &mut [f32]) {
        for (row, logits) in logits.chunks_exact_mut(outputs * self.columns).enumerate() {
            for (block, first) in (0..outputs).step_by(BLOCK).enumerate() {
                let count = BLOCK.min(outputs - first);
                for (cell, logits) in self.head.row(block, row).iter().zip(logits.chunks_exact_mut(outputs)) {
                    logits[first..first + count].copy_from_slice(&cell.0[..count]);
                }
            }
        }
    }
}

fn normalize(layers: &Layers, planes: &[f32], image: &mut Image) {
    let (rows, columns) = (image.rows, image.columns);
    for (input, plane) in planes.chunks_exact(rows * columns).enumerate() {
        let (mean, scale) = (layers.mean[input], layers.scale[input]);
        for (row, values) in plane.chunks_exact(columns).enumerate() {
            for (cell, value) in image.row_mut(input / BLOCK, row).iter_mut().zip(values) {
                cell.0[input % BLOCK] = (value - mean) * scale;
            }
        }
    }
}

/// Takes the largest value of each 2 x 2 pixels, from the blocks of `from` that start with `first`.
fn pool(from: &Image, first: usize, to: &mut Image) {
    for block in 0..to.blocks() {
        for row in 0..to.rows {
            let (upper, lower) = (from.row(first + block, 2 * row), from.row(first + block, 2 * row + 1));
            let pairs = upper.as_chunks::<2>().0.iter().zip(lower.as_chunks::<2>().0);
            for (cell, ([a, b], [c, d])) in to.row_mut(block, row).iter_mut().zip(pairs) {
                *cell = larger(larger(*a, *b), larger(*c, *d));
            }
        }
    }
}

#[inline(always)]
fn larger(a: Cell, b: Cell) -> Cell {
    // A comparison is one instruction; `f32::max` has to look for NaN.
    Cell(std::array::from_fn(|lane| if a.0[lane] > b.0[lane] { a.0[lane] } else { b.0[lane] }))
}
