//! What to read and how to solve for lost shards; see [`pooled`](super) for the algebra.

use super::PooledCode;
use crate::error::CodeError;
use crate::gf16::{Transform, log, power, sums_of_logs};

/// How to rebuild lost shards of a [`PooledCode`]. Good for any number of codewords with the same losses.
#[derive(Debug, Clone)]
pub struct PooledPlan {
    information: usize,
    redundancy: usize,
    lost: Vec<usize>,
    wanted: Vec<usize>,
    /// Redundancy rows used, rising; all within the block.
    rows: Vec<usize>,
    /// First row of the block, and log2 of its rows.
    block: usize,
    levels: u32,
    /// What to multiply each row's part G by.
    row_factors: Vec<u16>,
    targets: Vec<Target>,
}

/// A block-sized range of points with wanted shards in it.
#[derive(Debug, Clone)]
struct Target {
    position: usize,
    /// Rows of the range, rising.
    rows: Vec<u16>,
    /// For each, its index in `wanted` and what to multiply the value by.
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
            // The sum of the logarithms of `x + p` over the set, without that of x itself (whose logarithm counts as 0).
            let table = (set.len() * (rows.len() + wanted.len()) > DIRECT_SUMS).then(|| sums_of_logs(set.iter().copied()));
            let sum = |x: usize| match &table {
                Some(sums) => sums[x],
                None => set.iter().map(|&p| log(p ^ x as u16)).sum::<u32>() % 65535,
            };
            row_factors = rows.iter().map(|&row| power(sum(row))).collect();

            let mut order: Vec<usize> = (0..wanted.len()).collect();
            order.sort_unstable_by_key(|&i| wanted[i]);
            for i in order {
                let point = points + wanted[i];
                let position = point >> levels << levels;
                // d = N(w) / (s(w) P'(w)), and N(w) carries the product over the unused rows.
                let divisor = log((point / points) as u16) + sum(point);
                let factor = power(2 * 65535 - divisor);
                if targets.last().is_none_or(|target| target.position != position) {
                    targets.push(Target { position, rows: Vec::new(), shards: Vec::new() });
                }
                let target = targets.last_mut().expect("one was pushed if there was none");
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

    /// The lost information shards, rising.
    pub fn lost(&self) -> &[usize] {
        &self.lost
    }

    /// The shards that are rebuilt, in the order they were asked for.
    pub fn wanted(&self) -> &[usize] {
        &self.wanted
    }

    /// The redundancy shards to read, rising; as many as information shards are lost.
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

    /// The rows used, counted from the block's first.
    pub(super) fn rows_in_block(&self) -> impl Iterator<Item = usize> + '_ {
        self.rows.iter().map(|row| row - self.block)
    }

    pub(super) fn factor_of_row(&self, index: usize) -> u16 {
        self.row_factors[index]
    }

    /// Turns the sum of all chunks into the redundancy of the block's rows, and returns the block.
    pub(super) fn recompute<'a>(&self, transform: &Transform, sums: &'a mut [u8], width: usize) -> &'a mut [u8] {
        let wanted: Vec<u16> = self.rows.iter().map(|&row| row as u16).collect();
        transform.forward(sums, transform.points().trailing_zeros(), width, 0, &wanted);
        &mut sums[transform.block_bytes(self.block)..]
    }

    /// From the scaled rows at their places in `values`, the wanted shards: calls `write` with the index of each, its
    /// row of work and the factor it still needs. `scratch` is overwritten.
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

/// Terms that are added up in the time of the transforms of [`sums_of_logs`].
const DIRECT_SUMS: usize = 2_000_000;

/// Sorts positions below `limit`, each of which may be there once.
fn rising(positions: &[usize], limit: usize) -> Result<Vec<usize>, CodeError> {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let repeated = sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    if let Some(position) = repeated.or_else(|| sorted.last().copied().filter(|&last| last >= limit)) {
        return Err(CodeError::Position { position, positions: limit });
    }
    Ok(sorted)
}

/// The smallest aligned block of a power of two rows with `needed` available ones, as its first row and log2 of its rows.
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
    unreachable!("the block of all points holds every available row, of which there are {needed} or more")
}
