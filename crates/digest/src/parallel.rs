//! Digests of many contents in parallel.

use crate::blocks::Block;
use crate::kernel::Kernel;
use crate::{Md5, Sha256, interleaved};

/// A digest that can be computed of many contents in parallel: [`Md5`] or [`Sha256`].
pub trait Parallel: lanes::Lanes {}

impl Parallel for Md5 {}
impl Parallel for Sha256 {}

mod lanes {
    use super::{Block, Kernel};

    /// A digest that can be computed in one lane of many.
    pub trait Lanes {
        /// The running state, updated by each block.
        type State;
        /// How many contents are hashed in parallel.
        fn lanes(kernel: Kernel) -> usize;
        /// Adds a piece, and returns those blocks of it that the caller has to compress.
        fn take_blocks<'a>(&mut self, piece: &'a [u8]) -> &'a [Block];
        fn state(&mut self) -> &mut Self::State;
        /// Compresses the blocks of as many contents as there are lanes, or fewer, all with the
        /// same number of blocks.
        fn compress(kernel: Kernel, steps: &mut [(&mut Self::State, &[Block])]);
    }
}

impl lanes::Lanes for Md5 {
    type State = [u32; 4];

    fn lanes(kernel: Kernel) -> usize {
        match kernel {
            Kernel::Avx512 => 16,
            Kernel::Avx2 => 8,
            Kernel::Portable => interleaved::LANES_MAX,
        }
    }

    fn take_blocks<'a>(&mut self, piece: &'a [u8]) -> &'a [Block] {
        self.0.take_blocks(piece, crate::compress_md5)
    }

    fn state(&mut self) -> &mut [u32; 4] {
        &mut self.0.state
    }

    fn compress(kernel: Kernel, steps: &mut [(&mut [u32; 4], &[Block])]) {
        // A step takes as long in one lane of a vector as in all, and twice as long as on plain
        // registers.
        if steps.len() > interleaved::LANES_MAX {
            match kernel {
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx512 => return crate::x86::compress_avx512(steps),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx2 => return crate::x86::compress_avx2(steps),
                _ => {}
            }
        }
        interleaved::compress(steps);
    }
}

/// Minimum number of contents for which vectors are faster than hashing one after another. On Zen 5
/// a lane hashes 0.34 GB/s, and a content alone 2.1 GB/s with the CPU's instructions for SHA-256,
/// but 0.54 GB/s without them (measured with `--cfg sha2_backend="soft"`).
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn sha256_vector_contents_min() -> usize {
    if is_x86_feature_detected!("sha") { 7 } else { 2 }
}

impl lanes::Lanes for Sha256 {
    type State = [u32; 8];

    fn lanes(kernel: Kernel) -> usize {
        if kernel == Kernel::Avx512 { 16 } else { 1 }
    }

    fn take_blocks<'a>(&mut self, piece: &'a [u8]) -> &'a [Block] {
        self.0.take_blocks(piece, sha2::block_api::compress256)
    }

    fn state(&mut self) -> &mut [u32; 8] {
        &mut self.0.state
    }

    fn compress(kernel: Kernel, steps: &mut [(&mut [u32; 8], &[Block])]) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if kernel == Kernel::Avx512 && steps.len() >= sha256_vector_contents_min() {
            return crate::x86::sha256::compress_avx512(steps);
        }
        let _ = kernel;
        for (state, blocks) in steps {
            sha2::block_api::compress256(state, blocks);
        }
    }
}

/// Consecutive pieces of one content.
#[derive(Debug)]
pub struct Update<'a, D, P> {
    /// The digest to update.
    pub digest: &'a mut D,
    /// The pieces, in order.
    pub pieces: &'a [P],
}

/// Updates many digests, as many in parallel as the machine has lanes.
pub fn update_all<D: Parallel, P: AsRef<[u8]>>(updates: &mut [Update<'_, D, P>]) {
    update_all_on(Kernel::best(), updates);
}

/// [`update_all`] on the given kernel, or on the best one if the machine doesn't support it.
pub fn update_all_on<D: Parallel, P: AsRef<[u8]>>(kernel: Kernel, updates: &mut [Update<'_, D, P>]) {
    let kernel = if kernel.is_available() { kernel } else { Kernel::best() };
    let mut remaining = updates.iter_mut();
    let lanes_max = D::lanes(kernel);
    let mut lanes: Vec<Lane<'_, '_, D, P>> = Vec::with_capacity(lanes_max);
    loop {
        lanes.retain_mut(Lane::has_blocks);
        while lanes.len() < lanes_max
            && let Some(update) = remaining.next()
        {
            let mut lane = Lane { digest: update.digest, pieces: update.pieces.iter(), blocks: &[] };
            if lane.has_blocks() {
                lanes.push(lane);
            }
        }
        let Some(count) = lanes.iter().map(|lane| lane.blocks.len()).min() else { return };
        let mut steps: Vec<_> = lanes
            .iter_mut()
            .map(|lane| {
                let (now, later) = lane.blocks.split_at(count);
                lane.blocks = later;
                (lane.digest.state(), now)
            })
            .collect();
        D::compress(kernel, &mut steps);
    }
}

/// A content being hashed in one lane.
struct Lane<'u, 'a, D, P> {
    digest: &'u mut D,
    pieces: std::slice::Iter<'a, P>,
    /// Remaining whole blocks of the current piece.
    blocks: &'a [Block],
}

impl<D: Parallel, P: AsRef<[u8]>> Lane<'_, '_, D, P> {
    /// Advances to the next piece with whole blocks; returns false if none is left.
    fn has_blocks(&mut self) -> bool {
        while self.blocks.is_empty() {
            let Some(piece) = self.pieces.next() else { return false };
            self.blocks = self.digest.take_blocks(piece.as_ref());
        }
        true
    }
}
