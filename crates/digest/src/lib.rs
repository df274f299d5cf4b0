//! Digests of contents: MD5 and SHA-256 of many contents in parallel, and several digests of one
//! content in one read ([`Digester`]).
//!
//! S3's ETag of what one request uploads is the MD5 of its content, and an object's record has its
//! SHA-256. Neither can be fast for a single content: each step waits for the one before, which
//! limits MD5 to about 0.75 GB/s on today's CPUs, and SHA-256 to 2 GB/s with instructions for it.
//! But the steps of sixteen contents fit into 64-byte registers, and those of MD5 of up to four can
//! alternate on plain registers. So a server with several uploads at a time hashes them in
//! parallel: [`update_all`].
//!
//! MD5 is broken as a cryptographic hash; here it is a checksum that clients expect. Only the files
//! for x86-64 contain `unsafe`.
#![warn(missing_docs)]

mod blocks;
mod interleaved;
mod kernel;
mod parallel;
mod rounds;
mod several;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

pub use kernel::Kernel;
pub use several::{Algorithm, Digest, Digester, UnknownAlgorithm};

pub use parallel::{Parallel, Update, update_all, update_all_on};

use crate::blocks::{Block, Blocks};

/// An incremental MD5 of content that arrives in pieces.
#[derive(Debug, Clone)]
pub struct Md5(Blocks<4>);

impl Default for Md5 {
    fn default() -> Self {
        Self::new()
    }
}

impl Md5 {
    /// Starts a digest.
    #[must_use]
    pub fn new() -> Self {
        Self(Blocks::new([0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476]))
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
        self.0.update(piece, compress_md5);
    }

    /// Finishes and returns the digest.
    #[must_use]
    pub fn finish(self) -> [u8; 16] {
        let words = self.0.finish(u64::to_le_bytes, compress_md5).map(u32::to_le_bytes);
        std::array::from_fn(|at| words[at / 4][at % 4])
    }
}

fn compress_md5(state: &mut [u32; 4], blocks: &[Block]) {
    interleaved::compress(&mut [(state, blocks)]);
}

/// An incremental SHA-256 of content that arrives in pieces.
#[derive(Debug, Clone)]
pub struct Sha256(Blocks<8>);

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl Sha256 {
    /// Starts a digest.
    #[must_use]
    pub fn new() -> Self {
        // The first 32 bits of the fractional parts of the square roots of the first 8 primes.
        Self(Blocks::new([0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19]))
    }

    /// Hashes the next piece, without other contents in parallel.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece, sha2::block_api::compress256);
    }

    /// Finishes and returns the digest.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        let words = self.0.finish(u64::to_be_bytes, sha2::block_api::compress256).map(u32::to_be_bytes);
        std::array::from_fn(|at| words[at / 4][at % 4])
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
    fn digests_match_fips_180_4() {
        let hex = |text: &str| {
            let mut sha256 = Sha256::new();
            sha256.update(text.as_bytes());
            sha256.finish().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        // NIST's examples of the standard.
        assert_eq!(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(two_blocks), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }

    #[test]
    fn every_length_around_a_block_is_padded_correctly() {
        let content: Vec<u8> = (0..200).collect();
        for length in 0..content.len() {
            let content = &content[..length];
            assert_eq!(Md5::of(content), digest(content), "{length} bytes");
            let mut sha256 = Sha256::new();
            sha256.update(content);
            assert_eq!(sha256.finish().to_vec(), sha256_of(content), "{length} bytes");
        }
    }

    /// Contents split into pieces: the sizes of the pieces, content by content.
    fn contents() -> impl Strategy<Value = Vec<Vec<usize>>> {
        let piece = prop_oneof![4 => 0..300_usize, 1 => Just(64), 1 => 300..3_000_usize];
        prop::collection::vec(prop::collection::vec(piece, 0..6), 0..40)
    }

    /// Not by the crate `sha2`, which computes SHA-256 here.
    fn sha256_of(content: &[u8]) -> Vec<u8> {
        aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, content).as_ref().to_vec()
    }

    /// Hashes contents in pieces, all of them in parallel.
    fn check<D: Parallel + Default>(
        contents: &[Vec<Vec<u8>>],
        finish: fn(D) -> Vec<u8>,
        peer: fn(&[u8]) -> Vec<u8>,
    ) -> Result<(), TestCaseError> {
        let expected: Vec<_> = contents.iter().map(|pieces| peer(&pieces.concat())).collect();
        for &kernel in Kernel::available() {
            let mut digests: Vec<D> = contents.iter().map(|_| D::default()).collect();
            // Two calls, so that the second one starts within a block.
            for half in 0..2 {
                let mut updates: Vec<_> = digests
                    .iter_mut()
                    .zip(contents)
                    .map(|(digest, content)| {
                        let (first, second) = content.split_at(content.len() / 2);
                        Update { digest, pieces: if half == 0 { first } else { second } }
                    })
                    .collect();
                update_all_on(kernel, &mut updates);
            }
            let found: Vec<_> = digests.into_iter().map(finish).collect();
            prop_assert_eq!(&found, &expected, "{:?}", kernel);
        }
        Ok(())
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
            check::<Md5>(&contents, |md5| md5.finish().to_vec(), |content| digest(content).to_vec())?;
            check::<Sha256>(&contents, |sha256| sha256.finish().to_vec(), sha256_of)?;
        }
    }
}
