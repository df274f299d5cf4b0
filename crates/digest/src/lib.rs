//! Digests of contents: MD5 of many contents in parallel, and several digests of one content in one
//! read ([`Digester`]).
//!
//! S3's ETag of what one request uploads is the MD5 of its content, and MD5 can't be fast for a
//! single content: each of its 64 steps waits for the one before, which limits it to about 0.75
//! GB/s on today's CPUs. But the steps of up to four contents can alternate on plain registers, and
//! those of sixteen fit into 64-byte registers. So a server with several uploads at a time hashes
//! them in parallel: [`update_all`].
//!
//! MD5 is broken as a cryptographic hash; here it is a checksum that clients expect. Only the file
//! for x86-64 contains `unsafe`.
#![warn(missing_docs)]

mod interleaved;
mod kernel;
mod rounds;
mod several;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

pub use kernel::Kernel;
pub use several::{Algorithm, Digest, Digester, UnknownAlgorithm};

/// Bytes of a block.
const BLOCK_BYTES: usize = 64;
type Block = [u8; BLOCK_BYTES];

/// An incremental MD5 of content that arrives in pieces.
#[derive(Debug, Clone)]
pub struct Md5 {
    state: [u32; 4],
    /// Bytes hashed so far.
    length: u64,
    /// The incomplete last block, in the first `length % 64` bytes.
    tail: Block,
}

impl Default for Md5 {
    fn default() -> Self {
        Self::new()
    }
}

impl Md5 {
    /// Starts a digest.
    #[must_use]
    pub fn new() -> Self {
        Self { state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476], length: 0, tail: [0; BLOCK_BYTES] }
    }

    /// The digest of content that is entirely in memory.
    #[must_use]
    pub fn of(content: &[u8]) -> [u8; 16] {
        let mut md5 = Self::new();
        md5.update(content);
        md5.finish()
    }

    /// Hashes the next piece, without other contents in parallel.
    pub fn update(&mut self, piece: &[u8]) {
        let blocks = self.take_blocks(piece);
        interleaved::compress(&mut [(&mut self.state, blocks)]);
    }

    /// Finishes and returns the digest.
    #[must_use]
    pub fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8);
        let end = self.tail_bytes();
        // Padding: a one bit, zeros up to 8 bytes before the end of a block, then the length in
        // bits.
        let zeros = (2 * BLOCK_BYTES - 8 - 1 - end) % BLOCK_BYTES;
        let mut padding = [0; 2 * BLOCK_BYTES];
        padding[0] = 0x80;
        padding[1 + zeros..][..8].copy_from_slice(&bits.to_le_bytes());
        self.update(&padding[..1 + zeros + 8]);
        let mut digest = [0; 16];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }

    fn tail_bytes(&self) -> usize {
        (self.length % BLOCK_BYTES as u64) as usize
    }

    /// Adds a piece: completes and compresses the previous block, buffers the bytes after the last
    /// whole block, and returns the whole blocks, which the caller has to compress.
    fn take_blocks<'a>(&mut self, mut piece: &'a [u8]) -> &'a [Block] {
        let buffered = self.tail_bytes();
        self.length = self.length.wrapping_add(piece.len() as u64);
        if buffered > 0 {
            let (now, later) = piece.split_at(piece.len().min(BLOCK_BYTES - buffered));
            self.tail[buffered..][..now.len()].copy_from_slice(now);
            if buffered + now.len() < BLOCK_BYTES {
                return &[];
            }
            interleaved::compress(&mut [(&mut self.state, &[self.tail])]);
            piece = later;
        }
        let (blocks, rest) = piece.as_chunks();
        self.tail[..rest.len()].copy_from_slice(rest);
        blocks
    }
}

/// Consecutive pieces of one content.
#[derive(Debug)]
pub struct Update<'a, P> {
    /// The digest state to update.
    pub md5: &'a mut Md5,
    /// The pieces, in order.
    pub pieces: &'a [P],
}

/// Updates many digests, as many in parallel as the machine has lanes ([`Kernel::lanes`]).
pub fn update_all<P: AsRef<[u8]>>(updates: &mut [Update<'_, P>]) {
    update_all_on(Kernel::best(), updates);
}

/// [`update_all`] on the given kernel, or on the best one if the machine doesn't support it.
pub fn update_all_on<P: AsRef<[u8]>>(kernel: Kernel, updates: &mut [Update<'_, P>]) {
    let kernel = if kernel.is_available() { kernel } else { Kernel::best() };
    let mut remaining = updates.iter_mut();
    let mut lanes: Vec<Lane<'_, '_, P>> = Vec::with_capacity(kernel.lanes());
    loop {
        lanes.retain_mut(Lane::has_blocks);
        while lanes.len() < kernel.lanes()
            && let Some(update) = remaining.next()
        {
            let mut lane = Lane { md5: update.md5, pieces: update.pieces.iter(), blocks: &[] };
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
                (&mut lane.md5.state, now)
            })
            .collect();
        kernel.compress(&mut steps);
    }
}

/// A content being hashed in one lane.
struct Lane<'u, 'a, P> {
    md5: &'u mut Md5,
    pieces: std::slice::Iter<'a, P>,
    /// Remaining whole blocks of the current piece.
    blocks: &'a [Block],
}

impl<P: AsRef<[u8]>> Lane<'_, '_, P> {
    /// Advances to the next piece with whole blocks; returns false if none is left.
    fn has_blocks(&mut self) -> bool {
        while self.blocks.is_empty() {
            let Some(piece) = self.pieces.next() else { return false };
            self.blocks = self.md5.take_blocks(piece.as_ref());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use md5::Digest as _;
    use proptest::prelude::*;

    fn digest(content: &[u8]) -> [u8; 16] {
        md5::Md5::digest(content).into()
    }

    #[test]
    fn digests_match_rfc_1321() {
        let hex = |text: &str| Md5::of(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // RFC 1321, A.5.
        assert_eq!(hex(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex("a"), "0cc175b9c0f1b6a831c399e269772661");
        assert_eq!(hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        let digits = "1234567890".repeat(8);
        assert_eq!(hex(&digits), "57edf4a22be3c955ac49da2e2107b67a");
    }

    #[test]
    fn every_length_around_a_block_is_padded_correctly() {
        let content: Vec<u8> = (0..200).collect();
        for length in 0..content.len() {
            assert_eq!(Md5::of(&content[..length]), digest(&content[..length]), "{length} bytes");
        }
    }

    /// Contents split into pieces: the sizes of the pieces, content by content.
    fn contents() -> impl Strategy<Value = Vec<Vec<usize>>> {
        let piece = prop_oneof![4 => 0..300_usize, 1 => Just(64), 1 => 300..3_000_usize];
        prop::collection::vec(prop::collection::vec(piece, 0..6), 0..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 128 }))]

        #[test]
        fn contents_hashed_in_parallel_have_the_same_digests_as_alone(sizes in contents(), seed: u8) {
            let mut next = seed;
            let contents: Vec<Vec<Vec<u8>>> = sizes
                .iter()
                .map(|pieces| {
                    let mut piece = |&size: &usize| (0..size).map(|_| { next = next.wrapping_mul(29).wrapping_add(17); next }).collect();
                    pieces.iter().map(&mut piece).collect()
                })
                .collect();
            let expected: Vec<_> = contents.iter().map(|pieces| digest(&pieces.concat())).collect();
            for &kernel in Kernel::available() {
                let mut states = vec![Md5::new(); contents.len()];
                // Two calls, so that the second one starts within a block.
                for half in 0..2 {
                    let mut updates: Vec<_> = states
                        .iter_mut()
                        .zip(&contents)
                        .map(|(md5, pieces)| {
                            let (first, second) = pieces.split_at(pieces.len() / 2);
                            Update { md5, pieces: if half == 0 { first } else { second } }
                        })
                        .collect();
                    update_all_on(kernel, &mut updates);
                }
                let found: Vec<_> = states.into_iter().map(Md5::finish).collect();
                prop_assert_eq!(&found, &expected, "{:?}", kernel);
            }
        }
    }
}
