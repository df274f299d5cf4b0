//! Counts short cycles of a growing base matrix, so that a search can avoid them.
//!
//! A decoder assumes that what reaches a bit from different checks is independent. Short cycles in
//! the graph of bits and checks break this, and small sets of bits on several of them are where
//! decoding gets stuck.
//!
//! ```text
//!        column a        column b         a difference is the shift in one row less the shift in
//! row i     s ------------- t             another; two columns with equal differences close a cycle
//!           |               |             of length 4: (s - u) - (t - v) = 0 modulo Z
//! row k     u ------------- v
//! ```

/// A row and a shift: one entry of a column.
pub(super) type Entry = (usize, usize);

/// Differences between rows, counted.
pub(super) struct Cycles {
    lifting: usize,
    rows: usize,
    /// For rows i, k and a difference: how many columns have it.
    steps: Vec<u32>,
    /// The same for two steps, by way of a third row and through two columns.
    paths: Vec<u32>,
}

/// How many cycles a column would close. Fewer short ones are better, whatever the number of longer
/// ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Closed {
    pub(super) of_length_4: u32,
    pub(super) of_length_6: u32,
}

impl Cycles {
    pub(super) fn new(lifting: usize, rows: usize) -> Self {
        let counts = vec![0; rows * rows * lifting];
        Self { lifting, rows, steps: counts.clone(), paths: counts }
    }

    fn index(&self, from: usize, to: usize, difference: usize) -> usize {
        (from * self.rows + to) * self.lifting + difference
    }

    /// Cycles through `column` and columns added before.
    pub(super) fn closed_by(&self, column: &[Entry]) -> Closed {
        let mut closed = Closed { of_length_4: 0, of_length_6: 0 };
        for (n, &(i, s)) in column.iter().enumerate() {
            for &(k, t) in &column[n + 1..] {
                let at = self.index(i, k, (s + self.lifting - t) % self.lifting);
                closed.of_length_4 += self.steps[at];
                closed.of_length_6 += self.paths[at];
            }
        }
        closed
    }

    pub(super) fn add(&mut self, column: &[Entry]) {
        let steps: Vec<(usize, usize, usize)> = column
            .iter()
            .flat_map(|&(i, s)| column.iter().filter(move |&&(k, _)| k != i).map(move |&(k, t)| (i, k, s, t)))
            .map(|(i, k, s, t)| (i, k, (s + self.lifting - t) % self.lifting))
            .collect();
        for &(i, k, difference) in &steps {
            for l in (0..self.rows).filter(|&l| l != i && l != k) {
                for other in 0..self.lifting {
                    let sum = (difference + other) % self.lifting;
                    // This column from i to k, then an earlier one to l; or an earlier one from l
                    // to i, then this one to k.
                    let (after, before) = (self.index(k, l, other), self.index(l, i, other));
                    let (through, into) = (self.index(i, l, sum), self.index(l, k, sum));
                    self.paths[through] += self.steps[after];
                    self.paths[into] += self.steps[before];
                }
            }
        }
        for (i, k, difference) in steps {
            let at = self.index(i, k, difference);
            self.steps[at] += 1;
        }
    }
}
