//! Counts short cycles of a growing base matrix, so that a search can avoid them.
//!
//! A decoder assumes that what reaches a bit from different checks is independent. Short cycles in
//! the graph of bits and checks break this, and decoding gets stuck in small sets of bits that lie
//! on several of them.
//!
//! ```text
//!        column a        column b
//! row i     s ------------- u
//!           |               |
//! row k     t ------------- v
//! ```
//!
//! The difference of a column between rows i and k is its shift in i less its shift in k, modulo Z
//! (`lifting`). Two columns with equal differences between the same rows close a cycle of length 4:
//! (s - t) - (u - v) = 0. A column whose difference is the sum of those of two others, from i to a
//! third row l and from l to k, closes a cycle of length 6 with them.
//!
//! The counts decide which matrices `family` finds, and these are part of the format: a change here
//! must not change any count. A test holds the matrices to checksums.

/// A row and a shift: one entry of a column.
pub(super) type Entry = (usize, usize);

/// Differences of the columns so far, counted. Both lists are `[i, k, difference]`.
pub(super) struct Cycles {
    lifting: usize,
    rows: usize,
    /// How many columns have this difference between rows i and k.
    differences: Vec<u32>,
    /// How many pairs of different columns lead from row i to a third row l and on to k, with this
    /// sum of their two differences. A new column with this difference between i and k closes a
    /// cycle of length 6 with each pair.
    paths: Vec<u32>,
}

/// How many cycles a column would close. Ordered by the shorter cycles first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Closed {
    pub(super) of_length_4: u32,
    pub(super) of_length_6: u32,
}

impl Cycles {
    pub(super) fn new(lifting: usize, rows: usize) -> Self {
        let counts = vec![0; rows * rows * lifting];
        Self { lifting, rows, differences: counts.clone(), paths: counts }
    }

    fn index(&self, from: usize, to: usize, difference: usize) -> usize {
        (from * self.rows + to) * self.lifting + difference
    }

    /// Counts the cycles through `column` and columns added before.
    pub(super) fn closed_by(&self, column: &[Entry]) -> Closed {
        let mut closed = Closed { of_length_4: 0, of_length_6: 0 };
        for (n, &(i, s)) in column.iter().enumerate() {
            for &(k, t) in &column[n + 1..] {
                let at = self.index(i, k, (s + self.lifting - t) % self.lifting);
                closed.of_length_4 += self.differences[at];
                closed.of_length_6 += self.paths[at];
            }
        }
        closed
    }

    /// Adds the column's differences, and the pairs that it forms with columns added before.
    pub(super) fn add(&mut self, column: &[Entry]) {
        let differences: Vec<(usize, usize, usize)> = column
            .iter()
            .flat_map(|&(i, s)| column.iter().filter(move |&&(k, _)| k != i).map(move |&(k, t)| (i, k, s, t)))
            .map(|(i, k, s, t)| (i, k, (s + self.lifting - t) % self.lifting))
            .collect();
        for &(i, k, difference) in &differences {
            for l in (0..self.rows).filter(|&l| l != i && l != k) {
                for other in 0..self.lifting {
                    let sum = (difference + other) % self.lifting;
                    // This column from i to k, then an earlier one to l; or an earlier one from l
                    // to i, then this one to k.
                    let (after, before) = (self.index(k, l, other), self.index(l, i, other));
                    let (through, into) = (self.index(i, l, sum), self.index(l, k, sum));
                    self.paths[through] += self.differences[after];
                    self.paths[into] += self.differences[before];
                }
            }
        }
        for (i, k, difference) in differences {
            let at = self.index(i, k, difference);
            self.differences[at] += 1;
        }
    }
}
