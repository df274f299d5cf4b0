//! The pooled code: one Reed-Solomon code over all sectors of a large group, or over the matching
//! tracks of a set's platters.
//!
//! Each shard has a point of GF(2^16); its 16-bit symbols are values of polynomials there. Let m be
//! R rounded up to a power of two: redundancy is at points 0..m (only the first R are stored), and
//! information at points m.., in chunks of m:
//!
//! ```text
//! point       0        R    m            2m           3m                 m + I
//!             [redundancy]..[ chunk 0    ][ chunk 1    ][ chunk 2 ... 0 0 ]     missing shards are zero
//!                  ^             | IFFT       | IFFT       | IFFT
//!                  +---- FFT ----+----- + ----+----- + ----+
//! ```
//!
//! Each chunk gives the values of a polynomial of degree below m; redundancy is the sum of all
//! those polynomials at points 0..m. Layout, field and byte order are those of Leopard and of
//! reed-solomon-simd's high rate, so each can read the other's shards.
//!
//! **Repair.** Recompute the redundancy with zeros for the lost shards L and add the stored
//! redundancy: what remains is G, the contribution of the lost shards. With s the polynomial that
//! vanishes on points 0..m (a shift by log2 m in this basis), a lost shard d at point w adds `s(w)
//! d / (x + w)` to G at point x < m. So `G = N / P`, where P is the product of all (x + w) over L
//! and N has a degree below e = |L|. Take an aligned block of 2^k >= e points of which e rows Q are
//! available, and let U be its other points. `N * product of (x + u) over U` has a degree below 2^k
//! and is known at all points of the block: zero on U, and G times two products on Q. One IFFT of
//! the block gives its coefficients, FFTs at the places of the lost shards its values there, and
//! `s(w) d = N(w) / P'(w)`. The products come from their logarithms,
//! [`sums_of_logs`](crate::gf16::sums_of_logs). Any e rows will do, so the code is MDS and the cost
//! is an encoding plus a part proportional to the losses.
//!
//! Both operations run on blocks of columns that stay in L2 for m up to 2,048, so shards pass
//! through memory once.

use crate::aligned::{AlignedBytes, CACHE_LINE};
use crate::error::CodeError;
use crate::gf16::{BLOCK_BYTES, Transform};
use crate::kernel::Kernel;

mod encoder;
mod plan;
mod repairer;
#[cfg(test)]
mod tests;

pub use encoder::{PooledEncoder, Rows};
pub use plan::PooledPlan;
pub use repairer::PooledRepairer;

/// Points of GF(2^16).
const SHARDS_MAX: usize = 65536;

/// A systematic code of I information and R redundancy shards; any I of them restore all the
/// others.
///
/// Shards are byte slices of equal length, a multiple of 64. The code doesn't detect silent errors:
/// the caller names the lost shards.
#[derive(Debug, Clone)]
pub struct PooledCode {
    information: usize,
    redundancy: usize,
    transform: Transform,
}

impl PooledCode {
    /// Creates a code of `information` + `redundancy` shards on the fastest available kernel.
    ///
    /// # Errors
    /// [`CodeError::TooLong`] if I plus R rounded up to a power of two exceeds 65,536,
    /// [`CodeError::Empty`] if either is 0.
    pub fn new(information: usize, redundancy: usize) -> Result<Self, CodeError> {
        Self::with_kernel(information, redundancy, Kernel::best())
    }

    /// Like [`PooledCode::new`], on the given kernel.
    ///
    /// # Panics
    /// If this machine can't run the kernel.
    pub fn with_kernel(information: usize, redundancy: usize, kernel: Kernel) -> Result<Self, CodeError> {
        if information == 0 || redundancy == 0 {
            return Err(CodeError::Empty { information, redundancy });
        }
        if information > SHARDS_MAX || redundancy > SHARDS_MAX || information + redundancy.next_power_of_two() > SHARDS_MAX {
            return Err(CodeError::TooLong { information, redundancy, limit: SHARDS_MAX });
        }
        let levels = redundancy.next_power_of_two().trailing_zeros();
        Ok(PooledCode { information, redundancy, transform: Transform::new(kernel, levels) })
    }

    /// Information shards, I.
    pub fn information(&self) -> usize {
        self.information
    }

    /// Redundancy shards, R.
    pub fn redundancy(&self) -> usize {
        self.redundancy
    }

    /// The kernel that the code runs on.
    pub fn kernel(&self) -> Kernel {
        self.transform.kernel()
    }

    /// Buffer size of a [`PooledEncoder`] or [`PooledRepairer`] for shards of `shard_bytes`: m
    /// shards twice, once rounded up to whole blocks of columns, where m is R rounded up to a power
    /// of two. (In addition, each thread needs up to 0.5 MiB of work space to encode and 1 MiB to
    /// repair; more if m exceeds 2,048.)
    pub fn encoder_bytes(&self, shard_bytes: usize) -> usize {
        self.transform.points() * (shard_bytes + shard_bytes.next_multiple_of(self.transform.pitch()))
    }

    /// Computes the R redundancy shards of the information shards, all in memory.
    ///
    /// With fewer than I information shards the code is shortened: missing shards at the end count
    /// as zeros, and so do empty slices.
    ///
    /// # Errors
    /// [`CodeError::ShardLength`] if the length is 0 or isn't a multiple of 64.
    ///
    /// # Panics
    /// If there are more than I information shards or not R redundancy shards, or they differ in
    /// length.
    pub fn encode(&self, information: &[&[u8]], redundancy: &mut [&mut [u8]]) -> Result<(), CodeError> {
        assert_eq!(redundancy.len(), self.redundancy, "wrong number of redundancy shards");
        let shard_bytes = redundancy[0].len();
        check_shard_length(shard_bytes)?;
        assert!(redundancy.iter().all(|shard| shard.len() == shard_bytes), "redundancy shards differ in length");
        self.check_information(information, shard_bytes);

        let transform = &self.transform;
        let mut work = AlignedBytes::zeroed(transform.block_bytes(transform.points()), CACHE_LINE);
        let mut sums = AlignedBytes::zeroed(transform.block_bytes(transform.points()), CACHE_LINE);
        let all: Vec<u16> = (0..self.redundancy as u16).collect();
        for (from, width) in transform.columns(shard_bytes) {
            self.sum_of_chunks(information, from, width, &mut work, &mut sums);
            transform.forward(&mut sums, transform.points().trailing_zeros(), width, 0, &all);
            for (shard, row) in redundancy.iter_mut().zip(sums.chunks_exact(transform.pitch())) {
                transform.write(&mut shard[from..from + width], row, 1);
            }
        }
        Ok(())
    }

    /// Plans the repair of lost information shards.
    ///
    /// `lost` are the positions (0..I) of missing information shards, `rows` the available
    /// redundancy shards (0..R), and `wanted` the lost shards to rebuild, in any order. Lost
    /// redundancy is restored by encoding again.
    ///
    /// # Errors
    /// [`CodeError::TooManyLost`] if there are more `lost` than `rows`; [`CodeError::Position`] for
    /// a position that is outside the code or repeated, or wanted but not lost.
    pub fn plan(&self, lost: &[usize], rows: &[usize], wanted: &[usize]) -> Result<PooledPlan, CodeError> {
        PooledPlan::new(self, lost, rows, wanted)
    }

    /// Rebuilds the plan's wanted shards into `out`, all in memory.
    ///
    /// `information` has one slice per information shard, in order; a slice is empty if the shard
    /// is lost (or, at the end of a shortened code, absent). `rows` are the redundancy shards
    /// [`PooledPlan::rows`], in that order.
    ///
    /// # Errors
    /// [`CodeError::ShardLength`] if the length is 0 or isn't a multiple of 64.
    ///
    /// # Panics
    /// If the number of slices doesn't match the code and the plan, if they differ in length, or if
    /// the plan belongs to another code.
    pub fn repair(&self, plan: &PooledPlan, information: &[&[u8]], rows: &[&[u8]], out: &mut [&mut [u8]]) -> Result<(), CodeError> {
        plan.check_code(self);
        assert_eq!(rows.len(), plan.rows().len(), "wrong number of redundancy shards for the plan");
        assert_eq!(out.len(), plan.wanted().len(), "wrong number of outputs for the plan");
        let Some(shard_bytes) = out.first().map(|shard| shard.len()) else { return Ok(()) };
        check_shard_length(shard_bytes)?;
        assert!(out.iter().all(|shard| shard.len() == shard_bytes), "output shards differ in length");
        assert!(rows.iter().all(|shard| shard.len() == shard_bytes), "redundancy shards and output differ in length");
        self.check_information(information, shard_bytes);
        let mut present = information.to_vec();
        for &lost in plan.lost() {
            if let Some(shard) = present.get_mut(lost) {
                *shard = &[];
            }
        }

        let transform = &self.transform;
        let mut work = AlignedBytes::zeroed(transform.block_bytes(transform.points()), CACHE_LINE);
        let mut sums = AlignedBytes::zeroed(transform.block_bytes(transform.points()), CACHE_LINE);
        for (from, width) in transform.columns(shard_bytes) {
            self.sum_of_chunks(&present, from, width, &mut work, &mut sums);
            let block = plan.recompute(transform, &mut sums, width);
            for (i, (row, stored)) in plan.rows_in_block().zip(rows).enumerate() {
                let at = transform.block_bytes(row);
                let recomputed = &block[at..at + transform.pitch()];
                transform.scale(&mut work[at..], recomputed, &stored[from..from + width], plan.factor_of_row(i));
            }
            plan.solve(transform, &mut work, &mut sums, width, |wanted, row, factor| {
                transform.write(&mut out[wanted][from..from + width], row, factor);
            });
        }
        Ok(())
    }

    /// Computes into `sums` the sum of the inverse transforms of all chunks, for one block of
    /// columns.
    fn sum_of_chunks(&self, information: &[&[u8]], from: usize, width: usize, work: &mut [u8], sums: &mut [u8]) {
        let points = self.transform.points();
        for (chunk, shards) in information.chunks(points).enumerate() {
            let position = (chunk + 1) * points;
            self.transform.add_inverse(work, sums, chunk == 0, shards, from, width, position);
        }
        if information.is_empty() {
            sums.fill(0);
        }
    }

    fn check_information(&self, information: &[&[u8]], shard_bytes: usize) {
        assert!(information.len() <= self.information, "more information shards than the code has");
        assert!(
            information.iter().all(|shard| shard.is_empty() || shard.len() == shard_bytes),
            "information shards and output differ in length"
        );
    }
}

fn check_shard_length(shard_bytes: usize) -> Result<(), CodeError> {
    if shard_bytes == 0 || !shard_bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(CodeError::ShardLength { shard_bytes, block_bytes: BLOCK_BYTES });
    }
    Ok(())
}
