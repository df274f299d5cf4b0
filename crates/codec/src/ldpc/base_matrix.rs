//! Base matrices: how quasi-cyclic parity-check matrices are written down.
//!
//! A base matrix of J rows and L columns with lifting factor Z stands for a binary matrix of J Z
//! checks over L Z bits. Each of its entries is a circulant: a Z x Z identity matrix with rotated
//! rows. Missing entries are zero.
//!
//! ```text
//! Z = 4        column 0  column 1  column 2
//! row 0      [     1         -         3    ]    check 1 of row 0 sums bit 2 of column 0
//! row 1      [     0         2         -    ]                     and bit 0 of column 2
//! ```

/// An entry of a base matrix: check r of its row includes bit `(r + shift) mod Z` of `column`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circulant {
    /// Index of the base column.
    pub column: usize,
    /// Rotation, below the lifting factor.
    pub shift: usize,
}

/// Largest lifting factor, and largest number of columns.
const LIMIT: usize = 1 << 16;

/// A parity-check matrix made of circulants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseMatrix {
    lifting: usize,
    columns: usize,
    rows: Vec<Vec<Circulant>>,
}

impl BaseMatrix {
    /// Creates a matrix from the entries of its rows.
    ///
    /// # Panics
    /// If the lifting factor or the number of columns isn't within 1 and 65,536, an entry lies
    /// outside of the matrix, or a row has two entries in one column: a layered decoder updates all
    /// bits of a row at once, each of them once.
    pub fn new(lifting: usize, columns: usize, rows: Vec<Vec<Circulant>>) -> Self {
        // The decoder's offsets are products of these.
        assert!((1..=LIMIT).contains(&lifting), "a lifting factor of {lifting} is outside of 1..={LIMIT}");
        assert!((1..=LIMIT).contains(&columns), "{columns} columns are outside of 1..={LIMIT}");
        for row in &rows {
            let mut seen = vec![false; columns];
            for entry in row {
                assert!(entry.shift < lifting, "a shift of {} reaches the lifting factor {lifting}", entry.shift);
                let twice = std::mem::replace(&mut seen[entry.column], true);
                assert!(!twice, "a row has two entries in column {}", entry.column);
            }
        }
        Self { lifting, columns, rows }
    }

    /// Z: bits per base column, and checks per base row.
    pub fn lifting(&self) -> usize {
        self.lifting
    }

    /// Base columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The entries of each base row.
    pub fn rows(&self) -> &[Vec<Circulant>] {
        &self.rows
    }

    /// Bits of a codeword.
    pub fn codeword_bits(&self) -> usize {
        self.columns * self.lifting
    }

    /// The bits that a check sums.
    pub fn bits_of_check(&self, row: usize, check: usize) -> impl Iterator<Item = usize> + '_ {
        self.rows[row].iter().map(move |entry| entry.column * self.lifting + (check + entry.shift) % self.lifting)
    }

    /// Whether all checks hold for `bits`, given as one bool each.
    ///
    /// # Panics
    /// If `bits` isn't as long as a codeword.
    pub fn is_codeword(&self, bits: &[bool]) -> bool {
        assert_eq!(bits.len(), self.codeword_bits(), "one bool per bit is required");
        (0..self.rows.len())
            .all(|row| (0..self.lifting).all(|check| self.bits_of_check(row, check).filter(|&bit| bits[bit]).count() % 2 == 0))
    }
}
