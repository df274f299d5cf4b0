//! The code of a sector's codewords: rates and encoding.

use super::base_matrix::BaseMatrix;
use super::family::{self, COLUMNS, LIFTING};
use crate::error::CodeError;

/// Words of a column.
const WORDS: usize = LIFTING / 64;
const COLUMN_BYTES: usize = LIFTING / 8;
type Column = [u64; WORDS];
/// Most parity columns of a code, and so the most rows of its matrix.
const PARITY_COLUMNS_MAX: usize = 20;

/// A systematic LDPC code with codewords of [`LdpcCode::CODEWORD_BYTES`].
///
/// Bit b of a codeword is bit b mod 8, counted from the least significant one, of byte b / 8.
///
/// ```
/// use fulgurite_codec::ldpc::{LdpcCode, LdpcDecoder};
///
/// let code = LdpcCode::new(9)?;
/// let information = vec![0x5A; code.information_bytes()];
/// let mut codeword = information.clone();
/// codeword.resize(LdpcCode::CODEWORD_BYTES, 0);
/// code.encode(&information, &mut codeword[information.len()..]);
///
/// // 20 quarters of a nat for each bit, and a hundred bits wrong.
/// let mut ratios: Vec<i8> = (0..8 * codeword.len()).map(|b| if codeword[b / 8] >> (b % 8) & 1 == 0 { 20 } else { -20 }).collect();
/// ratios.iter_mut().step_by(400).for_each(|ratio| *ratio = -*ratio);
/// let mut decoder = LdpcDecoder::new(code.matrix());
/// assert!(decoder.decode(&ratios, 20).is_codeword);
/// let mut decoded = vec![0; code.information_bytes()];
/// decoder.copy_bits(&mut decoded);
/// assert_eq!(decoded, information);
/// # Ok::<(), fulgurite_codec::CodeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct LdpcCode {
    matrix: BaseMatrix,
    /// For each information column, its rows and shifts.
    information: Vec<Vec<(usize, usize)>>,
    /// Shift of the first parity column in the first and the last row.
    first_shift: usize,
    /// Shifts of the other parity columns in the last row, but for the last one, whose shift is 0.
    last_row: Vec<usize>,
    /// Polynomials, as exponents, whose product is the inverse of the first parity column's.
    inverse: Vec<Vec<usize>>,
}

impl LdpcCode {
    /// Bytes of a codeword.
    pub const CODEWORD_BYTES: usize = COLUMNS * COLUMN_BYTES;
    /// Bits of a codeword.
    pub const CODEWORD_BITS: usize = COLUMNS * LIFTING;
    /// Columns of the matrix; the rate is the share of them that isn't parity.
    pub const COLUMNS: usize = COLUMNS;
    /// Fewest and most parity columns: rates 0.9375 to 0.75.
    pub const PARITY_COLUMNS: std::ops::RangeInclusive<usize> = 5..=PARITY_COLUMNS_MAX;

    /// The code with `parity_columns` of 80 columns. Takes milliseconds, for the search of its
    /// matrix.
    ///
    /// # Errors
    /// [`CodeError::ParityColumns`] outside of [`LdpcCode::PARITY_COLUMNS`].
    pub fn new(parity_columns: usize) -> Result<Self, CodeError> {
        if !Self::PARITY_COLUMNS.contains(&parity_columns) {
            return Err(CodeError::ParityColumns { parity_columns });
        }
        let matrix = family::matrix(parity_columns);
        let information_columns = COLUMNS - parity_columns;
        let mut information = vec![Vec::new(); information_columns];
        for (row, entries) in matrix.rows().iter().enumerate() {
            for entry in entries.iter().filter(|entry| entry.column < information_columns) {
                information[entry.column].push((row, entry.shift));
            }
        }
        let last: Vec<usize> =
            matrix.rows()[parity_columns - 1].iter().filter(|entry| entry.column >= information_columns).map(|entry| entry.shift).collect();
        let (first_shift, last_row) = (last[0], last[1..last.len() - 1].to_vec());
        let inverse = inverse(&first_column(parity_columns, first_shift, &last_row));
        Ok(Self { matrix, information, first_shift, last_row, inverse })
    }

    /// The parity-check matrix.
    pub fn matrix(&self) -> &BaseMatrix {
        &self.matrix
    }

    /// Parity columns, of 80.
    pub fn parity_columns(&self) -> usize {
        self.matrix.rows().len()
    }

    /// Information bytes of a codeword; they come first.
    pub fn information_bytes(&self) -> usize {
        self.information.len() * COLUMN_BYTES
    }

    /// Information bits per bit.
    pub fn rate(&self) -> f64 {
        self.information.len() as f64 / COLUMNS as f64
    }

    /// Computes the parity of `information`.
    ///
    /// # Panics
    /// If the lengths aren't those of a codeword's information and parity.
    pub fn encode(&self, information: &[u8], parity: &mut [u8]) {
        assert_eq!(information.len(), self.information_bytes(), "information of another code");
        assert_eq!(parity.len(), Self::CODEWORD_BYTES - information.len(), "parity of another code");
        let rows = self.parity_columns();
        // Sums of the information in each row.
        let mut sums = [[0; WORDS]; PARITY_COLUMNS_MAX];
        for (column, entries) in information.chunks_exact(COLUMN_BYTES).zip(&self.information) {
            let column = Doubled::new(&words(column));
            for &(row, shift) in entries {
                column.add_rotated(shift, &mut sums[row]);
            }
        }
        // Running sums: what the diagonals give without the first parity column.
        for row in 1..rows - 1 {
            let before = sums[row - 1];
            add(&mut sums[row], &before);
        }
        // In the last row, only the first parity column is still unknown.
        let mut first = sums[rows - 1];
        add(&mut first, &sums[rows - 2]);
        for (sum, &shift) in sums.iter().zip(&self.last_row) {
            Doubled::new(sum).add_rotated(shift, &mut first);
        }
        for polynomial in &self.inverse {
            let before = Doubled::new(&first);
            first = [0; WORDS];
            for &exponent in polynomial {
                before.add_rotated(exponent, &mut first);
            }
        }
        let mut rotated = [0; WORDS];
        Doubled::new(&first).add_rotated(self.first_shift, &mut rotated);
        let middle = family::middle_row(rows);
        let mut parity = parity.chunks_exact_mut(COLUMN_BYTES);
        let mut write = |column: &Column| {
            for (bytes, word) in parity.next().expect("a chunk per parity column").chunks_exact_mut(8).zip(column) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        };
        write(&first);
        for (row, sum) in sums[..rows - 1].iter_mut().enumerate() {
            add(sum, &rotated);
            if row >= middle {
                add(sum, &first);
            }
            write(sum);
        }
    }
}

/// The factor of the first parity column, g, in the last row, after the other parity columns are
/// replaced by running sums. In terms of g, parity column j is then `x^a g`, plus `g` from the
/// middle row on. The last row sums g itself (from the last running sum; `x^a g` cancels) and each
/// column j rotated by its shift c.
fn first_column(rows: usize, first_shift: usize, last_row: &[usize]) -> Vec<usize> {
    let mut exponents = vec![0];
    for (row, shift) in last_row.iter().enumerate() {
        exponents.push((shift + first_shift) % LIFTING);
        if row >= family::middle_row(rows) {
            exponents.push(*shift);
        }
    }
    without_pairs(exponents)
}

/// The inverse of a polynomial over GF(2) modulo `x^Z - 1`, as factors.
///
/// Z is a power of two, so p(x)^Z = p(x^Z) = p(1), which is 1 if p has an odd number of terms. So
/// the inverse is p^(Z-1), the product of p^(2^k) = p(x^(2^k)) for all 2^k below Z, and none of
/// these has more terms than p.
fn inverse(polynomial: &[usize]) -> Vec<Vec<usize>> {
    assert!(polynomial.len() % 2 == 1, "a polynomial with an even number of terms has no inverse");
    (0..LIFTING.trailing_zeros())
        .map(|k| without_pairs(polynomial.iter().map(|exponent| (exponent << k) % LIFTING).collect()))
        .filter(|factor| factor != &[0])
        .collect()
}

/// Equal terms cancel in pairs.
fn without_pairs(mut exponents: Vec<usize>) -> Vec<usize> {
    exponents.sort_unstable();
    exponents.chunk_by(|a, b| a == b).filter(|equal| equal.len() % 2 == 1).map(|equal| equal[0]).collect()
}

fn words(bytes: &[u8]) -> Column {
    std::array::from_fn(|i| u64::from_le_bytes(bytes[8 * i..][..8].try_into().expect("8 bytes")))
}

fn add(sum: &mut Column, column: &Column) {
    for (sum, word) in sum.iter_mut().zip(column) {
        *sum ^= word;
    }
}

/// A column twice in a row, so that each rotation is a contiguous read.
struct Doubled([u64; 2 * WORDS]);

impl Doubled {
    fn new(column: &Column) -> Self {
        Doubled(std::array::from_fn(|i| column[i % WORDS]))
    }

    /// Adds bit `(r + shift) mod Z` to bit r of `sum`.
    fn add_rotated(&self, shift: usize, sum: &mut Column) {
        let (words, bits) = (shift / 64, shift % 64);
        let from: &[u64; WORDS + 1] = self.0[words..words + WORDS + 1].try_into().expect("a shift below Z");
        for i in 0..WORDS {
            // In two steps, because a shift by 64 isn't defined.
            sum[i] ^= from[i] >> bits | from[i + 1] << 1 << (63 - bits);
        }
    }
}
