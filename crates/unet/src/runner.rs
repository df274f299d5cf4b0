//! Runners: the network applied to images of one size.

use std::ops::Range;
use std::sync::Arc;

use crate::direct;
use crate::image::{BLOCK, Image, Planes, TILE};
use crate::kernel::Kernel;
use crate::network::Layers;
use crate::winograd::{Scratch, TILES_MAX, Target};

/// Applies a network to images of one size, on the calling thread. It owns all memory that this
/// takes, and reuses it for each image; a runner per thread uses several cores.
#[derive(Debug)]
pub struct Runner {
    layers: Arc<Layers>,
    kernel: Kernel,
    rows: usize,
    columns: usize,
    /// The normalized input.
    planes: Planes,
    levels: Vec<Level>,
    /// A row of logits.
    head: Image,
    scratch: Scratch,
}

/// The images of a level. Their borders stay zero.
#[derive(Debug)]
struct Level {
    /// The pooled image of the level above; without channels on the first level.
    input: Image,
    /// Between the two convolutions, on both ways.
    middle: Image,
    /// The result on the way down, which is the skip connection, from block `skip` on. On the way
    /// up, the blocks before it get the upsampled image, which the result then replaces.
    result: Image,
    /// The first block of the skip connection.
    skip: usize,
}

impl Runner {
    pub(crate) fn new(layers: Arc<Layers>, rows: usize, columns: usize, kernel: Kernel) -> Self {
        let mut levels = Vec::new();
        for (level, &width) in layers.widths.iter().enumerate() {
            let (rows, columns, blocks) = (rows >> level, columns >> level, width / BLOCK);
            let above = if level > 0 { layers.widths[level - 1] / BLOCK } else { 0 };
            let skip = if level + 1 < layers.widths.len() { blocks } else { 0 };
            levels.push(Level {
                input: Image::zeros(above, rows, columns),
                middle: Image::zeros(blocks, rows, columns),
                result: Image::zeros(skip + blocks, rows, columns),
                skip,
            });
        }
        let down = layers.down.iter().flat_map(|down| down.a.iter().chain([&down.b]));
        let scratch = Scratch::new(down.chain(layers.up.iter().flat_map(|up| [&up.a, &up.b])));
        let planes = Planes::zeros(layers.inputs, rows, columns);
        let head = Image::zeros(layers.outputs.div_ceil(BLOCK), 1, columns);
        Self { layers, kernel, rows, columns, planes, levels, head, scratch }
    }

    /// Rows of an image.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of an image.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of memory that the runner holds, without the network's weights.
    pub fn memory_bytes(&self) -> usize {
        let images = self.levels.iter().flat_map(|level| [&level.input, &level.middle, &level.result]);
        let images: usize = images.chain([&self.head]).map(|image| size_of_val(image.cells.as_slice())).sum();
        self.planes.bytes() + images + self.scratch.bytes()
    }

    /// Computes the logits of an image.
    ///
    /// `planes` is `[input, row, column]` and `logits` `[row, column, output]`. Inputs that aren't
    /// finite make some or all logits NaN or meaningless. The same image gives the same logits on
    /// the same kernel.
    ///
    /// # Panics
    /// If a slice doesn't have the length of its shape.
    pub fn run(&mut self, planes: &[f32], logits: &mut [f32]) {
        let pixels = self.rows * self.columns;
        assert_eq!(planes.len(), self.layers.inputs * pixels, "values of the input planes");
        assert_eq!(logits.len(), self.layers.outputs * pixels, "logits of all pixels");
        self.normalize(planes);
        for level in 0..self.levels.len() {
            self.go_down(level);
        }
        for level in (0..self.levels.len() - 1).rev() {
            self.go_up(level, logits);
        }
    }

    fn normalize(&mut self, planes: &[f32]) {
        for (input, plane) in planes.chunks_exact(self.rows * self.columns).enumerate() {
            let (mean, scale) = (self.layers.mean[input], self.layers.scale[input]);
            for (to, from) in self.planes.rows_mut(input).zip(plane.chunks_exact(self.columns)) {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = (from - mean) * scale;
                }
            }
        }
    }

    /// Both layers of a level, band by band: the second one follows a band behind the first, as it
    /// needs a row of the next band. So it finds in the cache what the first one has written.
    fn go_down(&mut self, number: usize) {
        let Self { layers, kernel, planes, levels, scratch, .. } = self;
        let (levels, below) = levels.split_at_mut(number + 1);
        let Level { input, middle, result, skip } = &mut levels[number];
        let bands = Bands::of(middle);
        for step in 0..=bands.count {
            if let Some(band) = bands.get(step, 0) {
                match &layers.down[number].a {
                    Some(a) => a.run(*kernel, input, band, Target { image: middle, first_block: 0, pooled: None }, scratch),
                    None => {
                        let rows = bands.rows(&band);
                        let to = direct::Target { first_row: rows.start, first_column: 0, step: 1, relu: true };
                        layers.first.run(*kernel, planes.source().rows(rows), middle, to);
                    }
                }
            }
            if let Some(band) = bands.get(step, 1) {
                let pooled = below.first_mut().map(|below| &mut below.input);
                layers.down[number].b.run(*kernel, middle, band, Target { image: result, first_block: *skip, pooled }, scratch);
            }
        }
    }

    /// The layers of a level, each a band behind the one before; on the first level, the head
    /// directly follows the last of them.
    fn go_up(&mut self, number: usize, logits: &mut [f32]) {
        let Self { layers, kernel, levels, scratch, head, .. } = self;
        let (levels, below) = levels.split_at_mut(number + 1);
        let Level { middle, result, .. } = &mut levels[number];
        let up = &layers.up[number];
        let bands = Bands::of(middle);
        for step in 0..=bands.count + 1 {
            if let Some(band) = bands.get(step, 0) {
                let rows = bands.rows(&band);
                let source = below[0].result.source().rows(rows.start / 2..rows.end / 2);
                for (pixel, layer) in up.transpose.iter().enumerate() {
                    let to = direct::Target { first_row: rows.start + pixel / 2, first_column: pixel % 2, step: 2, relu: false };
                    layer.run(*kernel, source, result, to);
                }
            }
            if let Some(band) = bands.get(step, 1) {
                up.a.run(*kernel, result, band, Target { image: middle, first_block: 0, pooled: None }, scratch);
            }
            // The result may replace this band of the upsampled image: the first layer has already
            // computed the next band, which needed this one's last row.
            if let Some(band) = bands.get(step, 2) {
                up.b.run(*kernel, middle, band.clone(), Target { image: result, first_block: 0, pooled: None }, scratch);
                if number == 0 {
                    let of_row = layers.outputs * result.columns;
                    for row in bands.rows(&band) {
                        let to = direct::Target { first_row: 0, first_column: 0, step: 1, relu: false };
                        layers.head.run(*kernel, result.source().rows(row..row + 1), head, to);
                        write_logits(head, layers.outputs, &mut logits[row * of_row..][..of_row]);
                    }
                }
            }
        }
    }
}

/// Rows of tiles of an image, a few at a time.
struct Bands {
    rows: usize,
    tile_rows: usize,
    /// Rows of tiles of a band; the last band may have fewer.
    height: usize,
    count: usize,
}

impl Bands {
    /// Bands of as few rows of tiles as fill the scratch.
    fn of(image: &Image) -> Self {
        let (rows, tile_rows) = (image.rows, image.rows.div_ceil(TILE));
        let height = TILES_MAX.div_ceil(image.columns.div_ceil(TILE));
        Self { rows, tile_rows, height, count: tile_rows.div_ceil(height) }
    }

    /// The rows of tiles of a layer that is some bands behind, if it has a band at this step.
    fn get(&self, step: usize, behind: usize) -> Option<Range<usize>> {
        let band = step.checked_sub(behind).filter(|&band| band < self.count)?;
        Some(band * self.height..((band + 1) * self.height).min(self.tile_rows))
    }

    /// The rows of a band, in pixels.
    fn rows(&self, band: &Range<usize>) -> Range<usize> {
        band.start * TILE..(band.end * TILE).min(self.rows)
    }
}

/// Copies a row of logits from their blocks.
fn write_logits(head: &Image, outputs: usize, logits: &mut [f32]) {
    if outputs == BLOCK {
        for (cell, logits) in head.row(0, 0).iter().zip(logits.as_chunks_mut().0) {
            *logits = cell.0;
        }
        return;
    }
    for first in (0..outputs).step_by(BLOCK) {
        let count = BLOCK.min(outputs - first);
        for (cell, logits) in head.row(first / BLOCK, 0).iter().zip(logits.chunks_exact_mut(outputs)) {
            logits[first..first + count].copy_from_slice(&cell.0[..count]);
        }
    }
}
