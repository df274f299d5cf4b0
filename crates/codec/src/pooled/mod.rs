//! The pooled code: one Reed-Solomon code over all sectors of a large group, or of a track of each platter of a set.
//!
//! Symbols are points of GF(2^16). With m = R rounded up to a power of two, redundancy sits at points 0..m (only the first R are
//! kept) and information at points m.., in chunks of m:
//!
//! ```text
//! point       0        R    m            2m           3m                 m + I
//!             [redundancy]..[ chunk 0    ][ chunk 1    ][ chunk 2 ... 0 0 ]     what isn't there is zero
//!                  ^             | IFFT       | IFFT       | IFFT
//!                  +---- FFT ----+----- + ----+----- + ----+
//! ```
//!
//! Each chunk is the values of a polynomial of degree below m; redundancy is the sum of all those polynomials at points 0..m. The
//! layout, the field and the order of bytes are those of Leopard and of reed-solomon-simd's high rate, so
//! either can read the other's shards.
//!
//! **Repair.** Recompute the redundancy with zeros for the lost shards L, and add what is stored: that leaves the part G of
//! the lost shards alone. With s the polynomial that vanishes on points 0..m (a shift by log2 m in this basis), a lost shard
//! d at point w adds `s(w) d / (x + w)` to G at point x < m. So `G = N / P`, where P is the product of all (x + w) over L
//! and N has a degree below e = |L|. Take a block of 2^k >= e points, aligned, of which e rows Q are at hand, and let U be its
//! other points. `N * product of (x + u) over U` has a degree below 2^k and is known at all points of the block: zero on U,
//! and G times two products on Q. One IFFT of the block gives its coefficients, FFTs at the places of the lost shards
//! its values there, and `s(w) d = N(w) / P'(w)`. The products come from their logarithms,
//! [`sums_of_logs`](crate::gf16::sums_of_logs). Every choice of e rows will do, so the code is MDS and the
//! cost is an encoding plus what was lost.
//!
//! Both run on blocks of columns that stay in L2, so shards pass through memory once.

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
const LIMIT: usize = 65536;

/// A systematic code of I information and R redundancy shards, any I of which restore all.
///
/// Shards are slices of bytes of one length, a multiple of 64. The code doesn't find silent errors: the caller says which are lost.
#[derive(Debug, Clone)]
pub struct PooledCode {
    information: usize,
    redundancy: usize,
    transform: Transform,
}

impl PooledCode {
    /// A code of `information` + `redundancy` shards, on the fastest kernel there is.
    ///
    /// # Errors
    /// [`CodeError::TooLong`] if I plus R rounded up to a power of two is over 65,536, [`CodeError::Empty`] if either is 0.
    pub fn new(information: usize, redundancy: usize) -> Result<Self, CodeError> {
        Self::with_kernel(information, redundancy, Kernel::best())
    }

    /// As [`PooledCode::new`], on a kernel of the caller's choice.
    ///
    /// # Panics
    /// If this machine can't run the kernel.
    ///
    /// # Errors
    /// As [`PooledCode::new`].
    pub fn with_kernel(information: usize, redundancy: usize, kernel: Kernel) -> Result<Self, CodeError> {
        if information == 0 || redundancy == 0 {
            return Err(CodeError::Empty { information, redundancy });
        }
        if information > LIMIT || redundancy > LIMIT || information + redundancy.next_power_of_two() > LIMIT {
            return Err(CodeError::TooLong { information, redundancy, limit: LIMIT });
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

    /// Bytes of the buffers of a [`PooledEncoder`] or [`PooledRepairer`] for shards of `shard_bytes`: twice m shards, where m is R rounded
    /// up to a power of two. (Besides these, work space of about 0.5 or 1 MiB for each thread.)
    pub fn encoder_bytes(&self, shard_bytes: usize) -> usize {
        self.transform.points() * (shard_bytes + shard_bytes.next_multiple_of(self.transform.pitch()))
    }

    /// Writes the R redundancy shards of the information shards, all in memory.
    ///
    /// Fewer than I information shards are a shortened code: the missing last ones count as zeros, as do empty slices.
    ///
    /// # Errors
    /// [`CodeError::ShardLength`] if the length isn't a multiple of 64.
    ///
    /// # Panics
    /// If there are more than I information or other than R redundancy shards, or they differ in length.
    pub fn encode(&self, information: &[&[u8]], redundancy: &mut [&mut [u8]]) -> Result<(), CodeError> {
        assert_eq!(redundancy.len(), self.redundancy, "redundancy shards of the code");
        let shard_bytes = redundancy[0].len();
        check_shard_length(shard_bytes)?;
        assert!(redundancy.iter().all(|shard| shard.len() == shard_bytes), "redundancy shards of unequal lengths");
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

    /// How to rebuild lost information shards.
    ///
    /// `lost` are the positions (0..I) of the information shards that aren't there, `rows` the redundancy shards (0..R) that are, and
    /// `wanted` those of the lost that are to be rebuilt, in any order. Lost redundancy comes back by encoding anew.
    ///
    /// # Errors
    /// [`CodeError::TooManyLost`] if `lost` are more than `rows`; [`CodeError::Position`] for a position outside the code or named
    /// twice, or wanted but not lost.
    pub fn plan(&self, lost: &[usize], rows: &[usize], wanted: &[usize]) -> Result<PooledPlan, CodeError> {
        PooledPlan::new(self, lost, rows, wanted)
    }

    /// Rebuilds the plan's wanted shards into `out`, all in memory.
    ///
    /// `information` has a slice per information shard, in order, empty where it is lost (or, at the end of a shortened code, absent); `rows` the redundancy
    /// shards [`PooledPlan::rows`], in that order.
    ///
    /// # Errors
    /// [`CodeError::ShardLength`] if the length isn't a multiple of 64.
    ///
    /// # Panics
    /// If the slices aren't as many as the code and the plan say, or differ in length, or the plan is another code's.
    pub fn repair(&self, plan: &PooledPlan, information: &[&[u8]], rows: &[&[u8]], out: &mut [&mut [u8]]) -> Result<(), CodeError> {
        plan.check_code(self);
        assert_eq!(rows.len(), plan.rows().len(), "redundancy shards of the plan");
        assert_eq!(out.len(), plan.wanted().len(), "shards that the plan rebuilds");
        let Some(shard_bytes) = out.first().map(|shard| shard.len()) else { return Ok(()) };
        check_shard_length(shard_bytes)?;
        assert!(out.iter().all(|shard| shard.len() == shard_bytes), "output shards of unequal lengths");
        assert!(rows.iter().all(|shard| shard.len() == shard_bytes), "redundancy shards of another length than the output");
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

    /// Puts the sum of the inverse transforms of all chunks into `sums`, for one block of columns.
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
            "information shards of another length than the output"
        );
    }
}

fn check_shard_length(shard_bytes: usize) -> Result<(), CodeError> {
    if shard_bytes == 0 || !shard_bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(CodeError::ShardLength { shard_bytes, block_bytes: BLOCK_BYTES });
    }
    Ok(())
}
