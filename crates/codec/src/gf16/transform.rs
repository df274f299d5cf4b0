//! The additive FFT on blocks of columns: a safe wrapper that checks lengths around the kernels'
//! steps.

use super::BLOCK_BYTES;
use super::lanes::Step;
use crate::kernel::Kernel;

/// Transforms of `2^levels` points, run on one block of columns at a time: the same columns of
/// every row, sized to stay in L2 if the transform has at most 2,048 points.
///
/// Rows of work are `pitch` bytes apart and hold `width` bytes of the shards, starting at `from`,
/// in the kernel's order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transform {
    kernel: Kernel,
    /// Log2 of the number of points.
    levels: u32,
    pitch: usize,
}

/// Two blocks, work and sums, share an L2 of 1 MiB or more with the lines streaming past.
const WORK_BYTES: usize = 512 * 1024;
/// Narrower columns fetch too little to pay for opening a memory page; wider ones gain nothing.
const PITCH_MIN: usize = 256;
const PITCH_MAX: usize = 4096;

impl Transform {
    pub(crate) fn new(kernel: Kernel, levels: u32) -> Self {
        assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
        Transform { kernel, levels, pitch: (WORK_BYTES >> levels).clamp(PITCH_MIN, PITCH_MAX) }
    }

    pub(crate) fn kernel(&self) -> Kernel {
        self.kernel
    }

    pub(crate) fn points(&self) -> usize {
        1 << self.levels
    }

    pub(crate) fn pitch(&self) -> usize {
        self.pitch
    }

    pub(crate) fn block_bytes(&self, rows: usize) -> usize {
        rows * self.pitch
    }

    /// The column blocks of shards of `shard_bytes`, as (first byte, width).
    pub(crate) fn columns(&self, shard_bytes: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let pitch = self.pitch;
        (0..shard_bytes).step_by(pitch).map(move |from| (from, pitch.min(shard_bytes - from)))
    }

    /// Adds to `sums` the IFFT at `position` of columns `from..from + width` of the shards;
    /// replaces `sums` if `fresh`.
    ///
    /// Empty shards count as zeros, and so do missing shards at the end.
    #[allow(clippy::too_many_arguments, reason = "two buffers, one column block, one place")]
    pub(crate) fn add_inverse(
        &self,
        work: &mut [u8],
        sums: &mut [u8],
        fresh: bool,
        shards: &[&[u8]],
        from: usize,
        width: usize,
        position: usize,
    ) {
        let points = self.points();
        assert!(work.len() >= self.block_bytes(points) && sums.len() >= self.block_bytes(points));
        assert!(shards.len() <= points && position + points <= 65536);
        static ZEROS: [u8; PITCH_MAX] = [0; PITCH_MAX];
        let sources: Vec<*const u8> =
            shards.iter().map(|shard| if shard.is_empty() { ZEROS.as_ptr() } else { shard[from..from + width].as_ptr() }).collect();
        let step =
            Step::Inverse { work: work.as_mut_ptr(), sums: sums.as_mut_ptr(), fresh, sources: &sources, levels: self.levels, position };
        // SAFETY: work and sums have `points` rows, the sources `width` bytes each.
        unsafe { self.run(step, width) }
    }

    /// IFFT at `position` of `2^levels` rows of work, in place.
    pub(crate) fn inverse(&self, work: &mut [u8], levels: u32, width: usize, position: usize) {
        assert!(work.len() >= self.block_bytes(1 << levels));
        // SAFETY: work has the rows.
        unsafe { self.run(Step::InverseInPlace { work: work.as_mut_ptr(), levels, position }, width) }
    }

    /// FFT at `position` of `2^levels` rows of work, in place. Only the `wanted` rows are valid
    /// afterwards (ascending, no repeats).
    ///
    /// Few wanted rows cost less: a single one of m rows takes m products, all of them m/2 log m.
    pub(crate) fn forward(&self, work: &mut [u8], levels: u32, width: usize, position: usize, wanted: &[u16]) {
        let rows = 1 << levels;
        assert!(work.len() >= self.block_bytes(rows) && position + rows <= 65536);
        let Some(&last) = wanted.last() else { return };
        if levels == 0 {
            return;
        }
        let half = rows / 2;
        // Small transforms that need a fair share of their rows run as a whole, and so do those
        // that need the first rows only, because `Step::Forward` skips the blocks after the last
        // output. Others are halved, and halves without wanted rows are dropped.
        let is_small = rows <= 64 && wanted.len() >= rows / 8;
        if is_small || wanted.len() == usize::from(last) + 1 {
            let outputs = usize::from(last) + 1;
            let step = Step::Forward { work: work.as_mut_ptr(), levels, position, outputs };
            // SAFETY: work has the rows.
            unsafe { self.run(step, width) }
            return;
        }
        let (lower, upper) = wanted.split_at(wanted.partition_point(|&row| usize::from(row) < half));
        let step = Step::Split {
            work: work.as_mut_ptr(),
            half,
            factor: (position >> (levels - 1)) as u16,
            lower: !lower.is_empty(),
            upper: !upper.is_empty(),
        };
        // SAFETY: work has two halves of rows.
        unsafe { self.run(step, width) }
        let (low, high) = work.split_at_mut(self.block_bytes(half));
        self.forward(low, levels - 1, width, position, lower);
        let upper: Vec<u16> = upper.iter().map(|&row| row - half as u16).collect();
        self.forward(high, levels - 1, width, position + half, &upper);
    }

    /// `to = (from + shard) * factor`, for one row of each.
    pub(crate) fn scale(&self, to: &mut [u8], from: &[u8], shard: &[u8], factor: u16) {
        assert!(to.len() >= self.pitch && from.len() >= self.pitch);
        let step = Step::Scale { to: to.as_mut_ptr(), from: from.as_ptr(), shard: shard.as_ptr(), factor };
        // SAFETY: one row each, and the shard is read at its own length.
        unsafe { self.run(step, shard.len()) }
    }

    /// `to[..rows] = from[..rows]`
    pub(crate) fn copy(&self, to: &mut [u8], from: &[u8], rows: usize, width: usize) {
        assert!(to.len() >= self.block_bytes(rows) && from.len() >= self.block_bytes(rows));
        // SAFETY: both have the rows.
        unsafe { self.run(Step::Copy { to: to.as_mut_ptr(), from: from.as_ptr(), rows }, width) }
    }

    /// Writes a row of work, times `factor`, into a shard.
    pub(crate) fn write(&self, shard: &mut [u8], from: &[u8], factor: u16) {
        assert!(from.len() >= self.pitch);
        let step = Step::Write { shard: shard.as_mut_ptr(), from: from.as_ptr(), factor };
        // SAFETY: one row, and the shard is written at its own length.
        unsafe { self.run(step, shard.len()) }
    }

    /// # Safety
    /// The step's rows exist, `pitch` apart, and its shards have `width` bytes.
    unsafe fn run(&self, step: Step<'_>, width: usize) {
        assert!(width <= self.pitch && width.is_multiple_of(BLOCK_BYTES));
        // SAFETY: the kernel is available (checked on creation); `pitch` is a multiple of 128 and
        // at least `width`; the caller guarantees the rest.
        unsafe {
            match self.kernel {
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx512Gfni => super::x86::avx512_gfni(step, self.pitch, width),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx2Gfni => super::x86::avx2_gfni(step, self.pitch, width),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx2 => super::x86::avx2(step, self.pitch, width),
                #[cfg(all(target_arch = "aarch64", not(miri)))]
                Kernel::Neon => super::neon::neon(step, self.pitch, width),
                _ => super::portable::portable(step, self.pitch, width),
            }
        }
    }
}
