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
//! addresses of a block of pixels are constants in the inner loop. The border serves all windows
//! that extend beyond the image. Blocks are separate, so two layers can write the two halves of a
//! concatenation.

/// Channels of a cell.
pub(crate) const BLOCK: usize = 16;
/// Images end with whole tiles of this many rows and columns; what is beyond them is border.
pub(crate) const TILE: usize = 4;

/// The channels of a block in one pixel; also the weights of a block of outputs.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Cell(pub(crate) [f32; BLOCK]);

impl Cell {
    pub(crate) const ZERO: Cell = Cell([0.0; BLOCK]);

    /// Values of the channels from `first` on; zeros for those that fill the last block up.
    pub(crate) fn of_block(first: usize, channels: usize, value: impl Fn(usize) -> f32) -> Self {
        Cell(std::array::from_fn(|lane| if first + lane < channels { value(first + lane) } else { 0.0 }))
    }
}

/// An image and its border.
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

    /// Index of a pixel's cell in a block.
    pub(crate) fn at(&self, block: usize, row: usize, column: usize) -> usize {
        block * self.block_stride() + (row + 1) * self.row_stride() + column + 1
    }

    /// The cells of a row without its border.
    pub(crate) fn row(&self, block: usize, row: usize) -> &[Cell] {
        let start = self.at(block, row, 0);
        &self.cells[start..start + self.columns]
    }

    /// The cells of a row without its border.
    pub(crate) fn row_mut(&mut self, block: usize, row: usize) -> &mut [Cell] {
        let start = self.at(block, row, 0);
        &mut self.cells[start..start + self.columns]
    }
}
