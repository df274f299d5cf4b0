//! The family of base matrices that sectors use: one matrix per rate, found by a seeded search.
//!
//! Every codeword has 80 columns of 512 bits. J = 5 to 20 of the columns are parity, so the rate is
//! 1 - J/80.
//!
//! ```text
//! J = 5       light columns        heavy           parity
//! row 0     [ .  x  .  x  ... |  x  x ... x |  a   0   .   .   . ]     x, a, c: found by the search;
//! row 1     [ x  .  x  x  ... |  x  x ... x |  .   0   0   .   . ]     both a are equal,
//! row 2     [ x  x  x  .  ... |  x  x ... x |  0   .   0   0   . ]     each c is its own
//! row 3     [ .  x  .  x  ... |  x  x ... x |  .   .   .   0   0 ]     .: no entry
//! row 4     [ x  .  x  .  ... |  x  x ... x |  a   c   c   c   0 ]
//! ```
//!
//! - The diagonals of zeros make each parity column the running sum of the rows above it, so
//!   encoding is linear in the number of entries. The shifts c in the last row give these columns a
//!   third check; without it, chains of bits with only two checks raise the error floor.
//! - Six information columns are heavy, with up to 8 entries; the others have 3. Bits with many
//!   checks are correct early and help the others. `docs/decisions/0016` compares mixtures.
//! - Entries go to the rows with the fewest, and the search keeps the candidate that closes the
//!   fewest cycles of length 4 and 6. None of the matrices has a cycle of length 4, and only those
//!   for J < 10 and J = 18 have any of length 6: 65 at J = 5, at most 22 otherwise.
//!
//! The matrices are part of the format. No change to this file or to `cycles` may change one of
//! them; a test holds them to checksums.

use super::base_matrix::{BaseMatrix, Circulant};
use super::cycles::{Cycles, Entry};

/// Z: bits of a column.
pub(super) const LIFTING: usize = 512;
/// Columns of every matrix.
pub(super) const COLUMNS: usize = 80;
/// Information columns with more entries than the others.
const HEAVY_COLUMNS: usize = 6;
/// Entries of a heavy column, if there are as many rows.
const HEAVY_ENTRIES: usize = 8;
/// Candidates for each column.
const CANDIDATES: usize = 1000;

/// The matrix with `parity_columns` of [`COLUMNS`] columns.
pub(super) fn matrix(parity_columns: usize) -> BaseMatrix {
    let mut search = Search {
        random: SplitMix64(parity_columns as u64),
        cycles: Cycles::new(LIFTING, parity_columns),
        entries_of_row: vec![0; parity_columns],
        columns: vec![Vec::new(); COLUMNS],
    };
    let rows = parity_columns;
    let information = COLUMNS - parity_columns;
    // Parity columns come first: their places and most of their shifts are fixed, so the others
    // have to avoid their cycles.
    search.place(COLUMNS - 1, |_, _| vec![(rows - 2, 0), (rows - 1, 0)]);
    search.place(information, |random, _| {
        let a = random.below(LIFTING);
        vec![(0, a), (middle_row(rows), 0), (rows - 1, a)]
    });
    for row in 0..rows - 2 {
        search.place(information + 1 + row, |random, _| vec![(row, 0), (row + 1, 0), (rows - 1, random.below(LIFTING))]);
    }
    // From the last to the first: the heavy columns take part in more cycles, so they choose first.
    for column in (0..information).rev() {
        let heavy = column >= information - HEAVY_COLUMNS;
        let entries = if heavy { HEAVY_ENTRIES.min(rows) } else { 3 };
        search.place(column, |random, entries_of_row| {
            let mut rows: Vec<(usize, u64, usize)> =
                entries_of_row.iter().enumerate().map(|(row, &entries)| (entries, random.next(), row)).collect();
            rows.sort_unstable();
            rows[..entries].iter().map(|&(_, _, row)| (row, random.below(LIFTING))).collect()
        });
    }
    let mut matrix = vec![Vec::new(); rows];
    for (column, entries) in search.columns.iter().enumerate() {
        for &(row, shift) in entries {
            matrix[row].push(Circulant { column, shift });
        }
    }
    BaseMatrix::new(LIFTING, COLUMNS, matrix)
}

/// The row of the first parity column's middle entry. It is even, so that the encoder's polynomial
/// has an inverse.
pub(super) fn middle_row(rows: usize) -> usize {
    rows / 4 * 2
}

struct Search {
    random: SplitMix64,
    cycles: Cycles,
    entries_of_row: Vec<usize>,
    columns: Vec<Vec<Entry>>,
}

impl Search {
    /// Fills a column with the candidate that closes the fewest cycles.
    fn place(&mut self, column: usize, mut candidate: impl FnMut(&mut SplitMix64, &[usize]) -> Vec<Entry>) {
        let candidates = (0..CANDIDATES).map(|_| candidate(&mut self.random, &self.entries_of_row));
        let (_, best) = candidates
            .map(|candidate| (self.cycles.closed_by(&candidate), candidate))
            .reduce(|best, next| if next.0 < best.0 { next } else { best })
            .expect("a positive number of candidates");
        for &(row, _) in &best {
            self.entries_of_row[row] += 1;
        }
        self.cycles.add(&best);
        self.columns[column] = best;
    }
}

/// The generator splitmix64.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`: the high half of a product.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}
