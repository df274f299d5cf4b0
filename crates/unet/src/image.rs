//! Images with many channels, in the layout that convolutions read.
//!
//! ```text
//! block 0 (channels 0 to 15)         block 1 (16 to 31)
//! . . . . . . . .                    . . . . . . . .       one cell: 16 channels of a pixel,
//! . p p p p p p .                    . p p p p p p .       a cache line
//! . p p p p p p .                    . p p p p p p .       . border: stays zero
//! . . . . . . . .                    . . . . . . . .
//! ```
//!
//! Pixels next to each other are a constant 64 bytes apart, whatever the number of channels, so the
//! addresses of neighboring pixels are constants in the inner loop. The border holds the zeros that
//! windows see beyond the image. Blocks are separate, so two layers can write the two halves of a
//! concatenation.

use std::marker::PhantomData;
use std::ops::Range;

/// Channels of a cell.
pub(crate) const BLOCK: usize = 16;
/// Rows and columns of a tile. An [`Image`] has room for whole tiles; the pixels that this adds at
/// the bottom and at the right belong to the border.
pub(crate) const TILE: usize = 4;

/// The channels of a block in one pixel; also the weights of a block of outputs.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Cell(pub(crate) [f32; BLOCK]);

impl Cell {
    pub(crate) const ZERO: Cell = Cell([0.0; BLOCK]);

    /// The cell of the block that begins with channel `first`: the value of each of its channels,
    /// and zeros after the last of all `channels`.
    pub(crate) fn of_block(first: usize, channels: usize, value: impl Fn(usize) -> f32) -> Self {
        Cell(std::array::from_fn(|lane| if first + lane < channels { value(first + lane) } else { 0.0 }))
    }
}

/// An image of few channels, plane by plane, with a border of one pixel. Only direct convolutions
/// read it, so it isn't extended to whole tiles.
#[derive(Debug)]
pub(crate) struct Planes {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    values: Vec<f32>,
}

impl Planes {
    pub(crate) fn zeros(planes: usize, rows: usize, columns: usize) -> Self {
        Self { rows, columns, values: vec![0.0; planes * (rows + 2) * (columns + 2)] }
    }

    /// The values of a plane's rows without their borders.
    pub(crate) fn rows_mut(&mut self, plane: usize) -> impl Iterator<Item = &mut [f32]> {
        let (rows, columns) = (self.rows, self.columns);
        let plane = self.values.chunks_exact_mut((rows + 2) * (columns + 2)).nth(plane).expect("a plane of the image");
        plane.chunks_exact_mut(columns + 2).skip(1).take(rows).map(move |row| &mut row[1..=columns])
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice())
    }

    pub(crate) fn source(&self) -> Source<'_> {
        let row_stride = self.columns + 2;
        let block_stride = (self.rows + 2) * row_stride;
        Source {
            values: self.values.as_ptr(),
            channels: 1,
            blocks: self.values.len() / block_stride,
            rows: self.rows,
            columns: self.columns,
            block_stride,
            row_stride,
            image: PhantomData,
        }
    }
}

/// What a direct convolution reads: either kind of image, or some rows of it. Strides count values
/// of f32.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The border's first pixel, left of and above the first pixel of the image.
    pub(crate) values: *const f32,
    /// Adjacent channels of a pixel, which form a block: 1 in [`Planes`], [`BLOCK`] in an
    /// [`Image`].
    pub(crate) channels: usize,
    pub(crate) blocks: usize,
    /// Rows without the border; `columns` are without it too.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) block_stride: usize,
    pub(crate) row_stride: usize,
    image: PhantomData<&'a [f32]>,
}

impl Source<'_> {
    /// Some rows, with their neighbors as their border.
    pub(crate) fn rows(self, rows: Range<usize>) -> Self {
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        Self { values: self.values.wrapping_add(rows.start * self.row_stride), rows: rows.len(), ..self }
    }
}

/// An image of many channels, with its border.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) cells: Vec<Cell>,
}

impl Image {
    pub(crate) fn zeros(blocks: usize, rows: usize, columns: usize) -> Self {
        let mut image = Self { rows, columns, cells: Vec::new() };
        image.cells = vec![Cell::ZERO; blocks * image.block_stride()];
        image
    }

    /// Blocks of 16 channels.
    pub(crate) fn blocks(&self) -> usize {
        self.cells.len() / self.block_stride()
    }

    /// Cells from a row to the next.
    pub(crate) fn row_stride(&self) -> usize {
        self.columns.next_multiple_of(TILE) + 2
    }

    /// Cells from a block to the next.
    pub(crate) fn block_stride(&self) -> usize {
        (self.rows.next_multiple_of(TILE) + 2) * self.row_stride()
    }

    /// Index in `cells` of a block's cell for a pixel.
    pub(crate) fn index(&self, block: usize, row: usize, column: usize) -> usize {
        block * self.block_stride() + (row + 1) * self.row_stride() + column + 1
    }

    /// The cells of a row without its border.
    pub(crate) fn row(&self, block: usize, row: usize) -> &[Cell] {
        let start = self.index(block, row, 0);
        &self.cells[start..start + self.columns]
    }

    pub(crate) fn source(&self) -> Source<'_> {
        Source {
            values: self.cells.as_ptr().cast(),
            channels: BLOCK,
            blocks: self.blocks(),
            rows: self.rows,
            columns: self.columns,
            block_stride: self.block_stride() * BLOCK,
            row_stride: self.row_stride() * BLOCK,
            image: PhantomData,
        }
    }
}
