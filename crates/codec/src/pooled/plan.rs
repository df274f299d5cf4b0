//! Repair plans: which shards to read and how to solve for the lost ones. [`pooled`](super)
//! explains the algebra.

use super::PooledCode;
use crate::error::CodeError;
use crate::gf16::{MODULUS, Transform, log, power, sums_of_logs};

/// How to rebuild lost shards of a [`PooledCode`]. Reusable for any number of codewords with the
/// same losses.
#[derive(Debug, Clone)]
pub struct PooledPlan {
    information: usize,
    redundancy: usize,
    lost: Vec<usize>,
    wanted: Vec<usize>,
    /// Redundancy rows used, ascending; all within the block.
    rows: Vec<usize>,
    /// First row of the block, and log2 of its rows.
    block: usize,
    levels: u32,
    /// The factor of each row's contribution G.
    row_factors: Vec<u16>,
    targets: Vec<Target>,
}

/// A block-sized range of points that contains wanted shards.
#[derive(Debug, Clone)]
struct Target {
    position: usize,
    /// Rows of the range, ascending.
    rows: Vec<u16>,
    /// For each row, its index in `wanted` and the factor of its value.
    shards: Vec<(usize, u16)>,
}

impl PooledPlan {
    pub(super) fn new(code: &PooledCode, lost: &[usize], rows: &[usize], wanted: &[usize]) -> Result<Self, CodeError> {
        let lost = rising(lost, code.information)?;
        let available = rising(rows, code.redundancy)?;
        rising(wanted, code.information)?;
        if let Some(&position) = wanted.iter().find(|position| lost.binary_search(position).is_err()) {
            return Err(CodeError::Position { position, positions: code.information });
        }
        if available.len() < lost.len() {
            return Err(CodeError::TooManyLost { lost: lost.len(), available: available.len() });
        }

        let points = code.transform.points();
        let (block, levels) = smallest_block(&available, lost.len(), points);
        let rows: Vec<usize> = available.iter().copied().skip_while(|&row| row < block).take(lost.len()).collect();

        let mut row_factors = Vec::new();
        let mut targets: Vec<Target> = Vec::new();
        if !wanted.is_empty() {
            let unused = (block..block + (1 << levels)).filter(|row| rows.binary_search(row).is_err());
            let set: Vec<u16> = unused.chain(lost.iter().map(|&shard| points + shard)).map(|point| point as u16).collect();
            // The sum of the logarithms of `x + p` over the set, except x itself (whose logarithm
            // counts as 0).
            let table = (set.len() * (rows.len() + wanted.len()) > DIRECT_SUMS).then(|| sums_of_logs(set.iter().copied()));
            let sum = |x: usize| match &table {
                Some(sums) => sums[x],
                None => set.iter().map(|&p| log(p ^ x as u16)).sum::<u32>() % MODULUS,
            };
            row_factors = rows.iter().map(|&row| power(sum(row))).collect();

            let mut order: Vec<usize> = (0..wanted.len()).collect();
            order.sort_unstable_by_key(|&i| wanted[i]);
            for i in order {
                let point = points + wanted[i];
                let position = point >> levels << levels;
                // d = N(w) / (s(w) P'(w)); the value that `solve` computes is N(w) times the
                // product over the unused rows, so the factor divides by that too.
                let divisor = log((point / points) as u16) + sum(point);
                let factor = power(2 * MODULUS - divisor);
                if targets.last().is_none_or(|target| target.position != position) {
                    targets.push(Target { position, rows: Vec::new(), shards: Vec::new() });
                }
                let target = targets.last_mut().expect("a target was pushed above");
                target.rows.push((point - position) as u16);
                target.shards.push((i, factor));
            }
        }
        Ok(PooledPlan {
            information: code.information,
            redundancy: code.redundancy,
            lost,
            wanted: wanted.to_vec(),
            rows,
            block,
            levels,
            row_factors,
            targets,
        })
    }

    /// The lost information shards, ascending.
    pub fn lost(&self) -> &[usize] {
        &self.lost
    }

    /// The shards to rebuild, in the order requested.
    pub fn wanted(&self) -> &[usize] {
        &self.wanted
    }

    /// The redundancy shards to read, ascending; as many as information shards are lost.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    pub(super) fn check_code(&self, code: &PooledCode) {
        assert!(
            self.information == code.information && self.redundancy == code.redundancy,
            "a plan for a code of {}+{} used with one of {}+{}",
            self.information,
            self.redundancy,
            code.information,
            code.redundancy
        );
    }

    /// The rows used, relative to the start of the block.
    pub(super) fn rows_in_block(&self) -> impl Iterator<Item = usize> + '_ {
        self.rows.iter().map(|row| row - self.block)
    }

    pub(super) fn factor_of_row(&self, index: usize) -> u16 {
        self.row_factors[index]
    }

    /// Turns the sum of all chunks into the redundancy of the block's rows and returns the block.
    pub(super) fn recompute<'a>(&self, transform: &Transform, sums: &'a mut [u8], width: usize) -> &'a mut [u8] {
        let wanted: Vec<u16> = self.rows.iter().map(|&row| row as u16).collect();
        transform.forward(sums, transform.points().trailing_zeros(), width, 0, &wanted);
        &mut sums[transform.block_bytes(self.block)..]
    }

    /// Solves for the wanted shards from the scaled rows, which are at their places in `values`.
    /// Calls `write` with the index of each shard, its row of work and the factor still to be
    /// applied. Overwrites `scratch`.
    pub(super) fn solve(
        &self,
        transform: &Transform,
        values: &mut [u8],
        scratch: &mut [u8],
        width: usize,
        mut write: impl FnMut(usize, &[u8], u16),
    ) {
        let pitch = transform.pitch();
        let size = 1 << self.levels;
        let mut used = self.rows_in_block().peekable();
        for (row, bytes) in values.chunks_exact_mut(pitch).take(size).enumerate() {
            if used.next_if_eq(&row).is_none() {
                bytes.fill(0);
            }
        }
        transform.inverse(values, self.levels, width, self.block);
        for target in &self.targets {
            transform.copy(scratch, values, size, width);
            transform.forward(scratch, self.levels, width, target.position, &target.rows);
            for (&row, &(wanted, factor)) in target.rows.iter().zip(&target.shards) {
                let at = usize::from(row) * pitch;
                write(wanted, &scratch[at..at + pitch], factor);
            }
        }
    }
}

/// Number of terms that take as long to add directly as the transforms of [`sums_of_logs`].
const DIRECT_SUMS: usize = 2_000_000;

/// Sorts positions, which must be unique and below `limit`.
fn rising(positions: &[usize], limit: usize) -> Result<Vec<usize>, CodeError> {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let repeated = sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    if let Some(position) = repeated.or_else(|| sorted.last().copied().filter(|&last| last >= limit)) {
        return Err(CodeError::Position { position, positions: limit });
    }
    Ok(sorted)
}

/// The smallest aligned power-of-two block with `needed` available rows, as its first row and log2
/// of its size.
fn smallest_block(available: &[usize], needed: usize, points: usize) -> (usize, u32) {
    let smallest = needed.next_power_of_two().trailing_zeros();
    for levels in smallest..=points.trailing_zeros() {
        for block in (0..points).step_by(1 << levels) {
            let below = |row: usize| available.partition_point(|&other| other < row);
            if below(block + (1 << levels)) - below(block) >= needed {
                return (block, levels);
            }
        }
    }
    unreachable!("the block of all points contains every available row, at least {needed}")
}
