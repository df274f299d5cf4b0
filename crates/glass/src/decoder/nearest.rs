//! The classical decoder: the formulas of the microscope, a linear equalizer, and the distance to
//! the nominal symbols.
//!
//! ```text
//! frames -> retardance vector of each pixel -> minus the background -> equalized, block by block
//!        -> distances to the symbols' vectors -> probabilities
//! ```
//!
//! Everything that varies from read to read is estimated from the sector itself. Scrambled symbols
//! average out, so the mean vector is the background. The equalizer is the linear filter that
//! brings voxels closest, by least squares, to the symbols that were estimated for them; both
//! estimates are refined in a few passes.

use std::ops::Range;

use super::{FramesError, Probabilities, VoxelDecoder};
use crate::emulator::Frames;
use crate::polarization::{FRAMES, Microscope};
use crate::voxel::Alphabet;

/// Pixels of the equalizer: the voxel's own and its eight neighbors.
const TAPS: usize = 9;
/// Side of the blocks with an equalizer of their own, in voxels. A rotated camera sees different
/// shifts in different places.
const BLOCK: usize = 32;
/// How often symbols are estimated from equalized pixels, and the equalizer from symbols.
const PASSES: usize = 3;

/// Decodes by distance to the nominal symbols.
#[derive(Debug, Clone)]
pub struct NearestSymbol {
    microscope: Microscope,
    rows: usize,
    columns: usize,
    /// Retardance vector of each symbol.
    symbols: Vec<Vector>,
}

/// Retardance times sine and cosine of twice the azimuth.
type Vector = [f64; 2];

impl NearestSymbol {
    /// A decoder for sectors of `rows` by `columns` voxels.
    pub fn new(microscope: Microscope, alphabet: &Alphabet, rows: usize, columns: usize) -> Self {
        Self::of_symbols(microscope, alphabet, 0..alphabet.symbol_count(), rows, columns)
    }

    /// A decoder for sectors with only these symbols, whose number must be a power of two. Its
    /// probabilities are in their order.
    pub fn of_symbols(
        microscope: Microscope,
        alphabet: &Alphabet,
        symbols: impl IntoIterator<Item = u8>,
        rows: usize,
        columns: usize,
    ) -> Self {
        let vector = |symbol| {
            let written = alphabet.birefringence(symbol);
            let (sine, cosine) = (2.0 * written.azimuth).sin_cos();
            [written.retardance * sine, written.retardance * cosine]
        };
        Self { microscope, rows, columns, symbols: symbols.into_iter().map(vector).collect() }
    }

    fn nearest(&self, vector: Vector) -> Vector {
        let by_distance = |a: &&Vector, b: &&Vector| squared_distance(vector, **a).total_cmp(&squared_distance(vector, **b));
        *self.symbols.iter().min_by(by_distance).expect("an alphabet has symbols")
    }

    /// The vector of each pixel, minus the mean of all.
    fn vectors(&self, frames: &Frames) -> Vec<Vector> {
        let pixels = self.rows * self.columns;
        let mut vectors: Vec<Vector> = (0..pixels)
            .map(|pixel| {
                let seen = self
                    .microscope
                    .birefringence(std::array::from_fn::<f64, FRAMES, _>(|frame| f64::from(frames.pixels[frame * pixels + pixel])));
                let (sine, cosine) = (2.0 * seen.azimuth).sin_cos();
                [seen.retardance * sine, seen.retardance * cosine]
            })
            .collect();
        for axis in 0..2 {
            let mean = vectors.iter().map(|vector| vector[axis]).sum::<f64>() / pixels as f64;
            vectors.iter_mut().for_each(|vector| vector[axis] -= mean);
        }
        vectors
    }

    /// Vectors with the power that the alphabet has on average, block by block: blur shrinks them,
    /// and so does a laser that loses energy. Symbols are equally likely, so the power is known.
    fn scaled(&self, vectors: &[Vector]) -> Vec<Vector> {
        let nominal = self.symbols.iter().map(|&symbol| dot(symbol, symbol)).sum::<f64>() / self.symbols.len() as f64;
        let mut scaled = vectors.to_vec();
        for (rows, columns) in self.blocks() {
            let places = || rows.clone().flat_map(|row| columns.clone().map(move |column| row * self.columns + column));
            let power = places().map(|place| dot(vectors[place], vectors[place])).sum::<f64>() / places().count() as f64;
            let gain = (nominal / power.max(f64::MIN_POSITIVE)).sqrt();
            places().for_each(|place| scaled[place] = vectors[place].map(|value| value * gain));
        }
        scaled
    }

    /// Rows and columns of each block.
    fn blocks(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + '_ {
        let ranges = |count: usize| (0..count).step_by(BLOCK).map(move |from| from..(from + BLOCK).min(count));
        ranges(self.rows).flat_map(move |rows| ranges(self.columns).map(move |columns| (rows.clone(), columns)))
    }

    /// A voxel's pixel and its eight neighbors; beyond the edge of the frame, the edge is repeated.
    fn around(&self, vectors: &[Vector], row: usize, column: usize) -> [Vector; TAPS] {
        std::array::from_fn(|tap| {
            let row = (row + tap / 3).saturating_sub(1).min(self.rows - 1);
            let column = (column + tap % 3).saturating_sub(1).min(self.columns - 1);
            vectors[row * self.columns + column]
        })
    }

    /// Equalizes the voxels of a block, with the filter that brings them closest to `targets`.
    fn equalize(&self, vectors: &[Vector], targets: &[Vector], (rows, columns): (Range<usize>, Range<usize>), equalized: &mut [Vector]) {
        let mut products = [[0.0; TAPS + 1]; TAPS];
        for row in rows.clone() {
            for column in columns.clone() {
                let around = self.around(vectors, row, column);
                let target = targets[row * self.columns + column];
                for i in 0..TAPS {
                    for k in 0..TAPS {
                        products[i][k] += dot(around[i], around[k]);
                    }
                    products[i][TAPS] += dot(around[i], target);
                }
            }
        }
        // A small multiple of the identity keeps the equations solvable where all pixels are alike.
        let power: f64 = (0..TAPS).map(|i| products[i][i]).sum();
        for (i, row) in products.iter_mut().enumerate() {
            row[i] += 1e-9 * power + f64::MIN_POSITIVE;
        }
        let taps = solve(products);
        for row in rows {
            for column in columns.clone() {
                let around = self.around(vectors, row, column);
                equalized[row * self.columns + column] =
                    std::array::from_fn(|axis| around.iter().zip(taps).map(|(pixel, tap)| tap * pixel[axis]).sum());
            }
        }
    }
}

impl VoxelDecoder for NearestSymbol {
    fn decode(&mut self, frames: &Frames) -> Result<Probabilities, FramesError> {
        let pixels = self.rows * self.columns;
        if (frames.rows, frames.columns, frames.pixels.len()) != (self.rows, self.columns, FRAMES * pixels) {
            return Err(FramesError::Shape {
                rows: frames.rows,
                columns: frames.columns,
                pixels: frames.pixels.len(),
                expected_rows: self.rows,
                expected_columns: self.columns,
            });
        }
        let vectors = self.vectors(frames);
        if vectors.iter().all(|vector| dot(*vector, *vector) < 1e-12) {
            return Err(FramesError::Blank);
        }
        let mut equalized = self.scaled(&vectors);
        for _ in 0..PASSES {
            let targets: Vec<Vector> = equalized.iter().map(|&vector| self.nearest(vector)).collect();
            for block in self.blocks() {
                self.equalize(&vectors, &targets, block, &mut equalized);
            }
        }
        // The remaining distances are taken for Gaussian noise, equally strong everywhere.
        let variance = equalized.iter().map(|&vector| squared_distance(vector, self.nearest(vector))).sum::<f64>() / (2 * pixels) as f64;
        let variance = variance.max(1e-12);
        let mut values = Vec::with_capacity(pixels * self.symbols.len());
        for &vector in &equalized {
            let least = squared_distance(vector, self.nearest(vector));
            let likelihoods = self.symbols.iter().map(|&symbol| ((least - squared_distance(vector, symbol)) / (2.0 * variance)).exp());
            let sum: f64 = likelihoods.clone().sum();
            values.extend(likelihoods.map(|likelihood| (likelihood / sum) as f32));
        }
        Ok(Probabilities::new(self.symbols.len(), values))
    }
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

fn squared_distance(a: Vector, b: Vector) -> f64 {
    (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)
}

/// Solves linear equations given as rows with the right side last, by elimination. The matrix is
/// positive definite, so it needs no pivoting.
fn solve(mut rows: [[f64; TAPS + 1]; TAPS]) -> [f64; TAPS] {
    for pivot in 0..TAPS {
        let pivot_row = rows[pivot];
        for row in &mut rows[pivot + 1..] {
            let factor = row[pivot] / pivot_row[pivot];
            for (value, above) in row.iter_mut().zip(pivot_row) {
                *value -= factor * above;
            }
        }
    }
    let mut solution = [0.0; TAPS];
    for i in (0..TAPS).rev() {
        let known: f64 = (i + 1..TAPS).map(|k| rows[i][k] * solution[k]).sum();
        solution[i] = (rows[i][TAPS] - known) / rows[i][i];
    }
    solution
}
