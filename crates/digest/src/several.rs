//! Several digests of one content, in one read.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest as aws;

use crate::Md5;

/// A digest algorithm that preservation systems use.
///
/// The names are those of OCFL 1.1; [`FromStr`] also accepts the spellings of BagIt manifests and
/// of common inventories, such as `SHA-256`. The order is by strength, weakest first: of several
/// digests of one content, the greatest is the best evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Legacy: collisions can be made in seconds.
    Md5,
    /// Legacy: collisions have been made.
    Sha1,
    /// BLAKE2b with 160 bits.
    Blake2b160,
    /// SHA-2 with 224 bits. OCFL doesn't know it; old bags have it.
    Sha224,
    /// SHA-2 with 256 bits.
    Sha256,
    /// SHA-512 with other initial values, truncated to 256 bits.
    Sha512Of256,
    /// BLAKE2b with 256 bits.
    Blake2b256,
    /// SHA-2 with 384 bits.
    Sha384,
    /// BLAKE2b with 384 bits.
    Blake2b384,
    /// BLAKE2b with 512 bits.
    Blake2b512,
    /// SHA-2 with 512 bits.
    Sha512,
}

impl Algorithm {
    /// All algorithms, in their order.
    pub const ALL: [Self; 11] = [
        Self::Md5,
        Self::Sha1,
        Self::Blake2b160,
        Self::Sha224,
        Self::Sha256,
        Self::Sha512Of256,
        Self::Blake2b256,
        Self::Sha384,
        Self::Blake2b384,
        Self::Blake2b512,
        Self::Sha512,
    ];

    /// Its name in OCFL 1.1, or in the registry of OCFL extension 0009.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha224 => "sha224",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
            Self::Sha512Of256 => "sha512/256",
            Self::Blake2b160 => "blake2b-160",
            Self::Blake2b256 => "blake2b-256",
            Self::Blake2b384 => "blake2b-384",
            Self::Blake2b512 => "blake2b-512",
        }
    }

    /// Bytes of a digest.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 | Self::Blake2b160 => 20,
            Self::Sha224 => 28,
            Self::Sha256 | Self::Sha512Of256 | Self::Blake2b256 => 32,
            Self::Sha384 | Self::Blake2b384 => 48,
            Self::Sha512 | Self::Blake2b512 => 64,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no known algorithm has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown digest algorithm; known are ")?;
        for (index, algorithm) in Algorithm::ALL.into_iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{algorithm}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    /// Ignores case, and hyphens except in BLAKE2b's names.
    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        let lower = name.to_ascii_lowercase();
        let plain: String = lower.chars().filter(|c| *c != '-' && *c != '_' && *c != '/').collect();
        let found = Self::ALL.into_iter().find(|algorithm| {
            let own: String = algorithm.name().chars().filter(|c| *c != '-' && *c != '/').collect();
            own == plain
        });
        found.or((plain == "blake2b").then_some(Self::Blake2b512)).ok_or(UnknownAlgorithm)
    }
}

/// A digest of some content.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    value: [u8; 64],
}

impl Digest {
    /// `None` unless `value` has the length of the algorithm's digests.
    #[must_use]
    pub fn new(algorithm: Algorithm, value: &[u8]) -> Option<Self> {
        let mut padded = [0; 64];
        (value.len() == algorithm.bytes()).then(|| padded[..value.len()].copy_from_slice(value))?;
        Some(Self { algorithm, value: padded })
    }

    /// Reads hexadecimal digits of either case. `None` unless they have the right number.
    #[must_use]
    pub fn from_hex(algorithm: Algorithm, digits: &str) -> Option<Self> {
        let nibbles = digits.bytes().map(|digit| char::from(digit).to_digit(16).and_then(|nibble| u8::try_from(nibble).ok()));
        let nibbles: Vec<u8> = nibbles.collect::<Option<_>>()?;
        if nibbles.len() != 2 * algorithm.bytes() {
            return None;
        }
        let value: Vec<u8> = nibbles.chunks_exact(2).map(|pair| (pair[0] << 4) | pair[1]).collect();
        Self::new(algorithm, &value)
    }

    /// The algorithm that computed it.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Its bytes.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value[..self.algorithm.bytes()]
    }

    /// Its bytes as lower-case hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        use fmt::Write;
        self.value().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex())
    }
}

/// Computes several digests of a content that arrives in pieces.
pub struct Digester {
    states: Vec<State>,
    bytes: u64,
}

enum State {
    Md5(Box<Md5>),
    Aws(Algorithm, aws::Context),
    Blake2b(Algorithm, Box<blake2b_simd::State>),
}

impl Digester {
    /// Starts one digest for each algorithm. An algorithm that is given twice is computed once.
    #[must_use]
    pub fn new(algorithms: &[Algorithm]) -> Self {
        let mut wanted = algorithms.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        Self { states: wanted.into_iter().map(State::new).collect(), bytes: 0 }
    }

    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        // Pieces that stay in the first-level cache are fetched from memory once for all digests.
        let part_bytes = if self.states.len() > 1 { 16 << 10 } else { piece.len().max(1) };
        for part in piece.chunks(part_bytes) {
            for state in &mut self.states {
                state.update(part);
            }
        }
    }

    /// Bytes added so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Finishes, and returns the digests in the order of [`Algorithm`].
    #[must_use]
    pub fn finish(self) -> Vec<Digest> {
        self.states.into_iter().map(State::finish).collect()
    }
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digester").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl State {
    fn new(algorithm: Algorithm) -> Self {
        let aws = |function: &'static aws::Algorithm| Self::Aws(algorithm, aws::Context::new(function));
        match algorithm {
            Algorithm::Md5 => Self::Md5(Box::default()),
            Algorithm::Sha1 => aws(&aws::SHA1_FOR_LEGACY_USE_ONLY),
            Algorithm::Sha224 => aws(&aws::SHA224),
            Algorithm::Sha256 => aws(&aws::SHA256),
            Algorithm::Sha384 => aws(&aws::SHA384),
            Algorithm::Sha512 => aws(&aws::SHA512),
            Algorithm::Sha512Of256 => aws(&aws::SHA512_256),
            Algorithm::Blake2b160 | Algorithm::Blake2b256 | Algorithm::Blake2b384 | Algorithm::Blake2b512 => {
                let state = blake2b_simd::Params::new().hash_length(algorithm.bytes()).to_state();
                Self::Blake2b(algorithm, Box::new(state))
            }
        }
    }

    fn update(&mut self, part: &[u8]) {
        match self {
            Self::Md5(state) => state.update(part),
            Self::Aws(_, context) => context.update(part),
            Self::Blake2b(_, state) => {
                state.update(part);
            }
        }
    }

    fn finish(self) -> Digest {
        let digest = match self {
            Self::Md5(state) => Digest::new(Algorithm::Md5, &state.finish()),
            Self::Aws(algorithm, context) => Digest::new(algorithm, context.finish().as_ref()),
            Self::Blake2b(algorithm, state) => Digest::new(algorithm, state.finalize().as_bytes()),
        };
        digest.expect("every algorithm returns as many bytes as `Algorithm::bytes` says; a test computes all")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests of "abc", from RFC 1321, FIPS 180-4 and Python's hashlib.
    const OF_ABC: [(Algorithm, &str); 11] = [
        (Algorithm::Md5, "900150983cd24fb0d6963f7d28e17f72"),
        (Algorithm::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (Algorithm::Blake2b160, "384264f676f39536840523f284921cdc68b6846b"),
        (Algorithm::Sha224, "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        (Algorithm::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (Algorithm::Sha512Of256, "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
        (Algorithm::Blake2b256, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"),
        (Algorithm::Sha384, "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"),
        (Algorithm::Blake2b384, "6f56a82c8e7ef526dfe182eb5212f7db9df1317e57815dbda46083fc30f54ee6c66ba83be64b302d7cba6ce15bb556f4"),
        (
            Algorithm::Blake2b512,
            "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
        ),
        (
            Algorithm::Sha512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ];

    #[test]
    fn all_digests_in_one_read_are_those_of_the_standards() {
        let mut digester = Digester::new(&Algorithm::ALL);
        for piece in [&b"a"[..], b"", b"bc"] {
            digester.update(piece);
        }
        assert_eq!(digester.bytes(), 3);
        let digests = digester.finish();
        assert_eq!(digests.len(), OF_ABC.len());
        for (digest, (algorithm, hex)) in digests.iter().zip(OF_ABC) {
            assert_eq!((digest.algorithm(), digest.hex().as_str()), (algorithm, hex));
            assert_eq!(Digest::from_hex(algorithm, &hex.to_uppercase()).as_ref(), Some(digest));
        }
    }

    #[test]
    fn several_digests_equal_those_computed_alone() {
        let content: Vec<u8> = (0..100_003_u32).map(|index| ((index * 31) >> 3) as u8).collect();
        let mut together = Digester::new(&Algorithm::ALL);
        content.chunks(33_333).for_each(|piece| together.update(piece));
        let alone = OF_ABC.map(|(algorithm, _)| {
            let mut digester = Digester::new(&[algorithm, algorithm]);
            digester.update(&content);
            digester.finish()
        });
        assert_eq!(together.finish(), alone.concat());
    }

    #[test]
    fn names_of_other_systems_are_understood() {
        for (name, algorithm) in [
            ("SHA-256", Algorithm::Sha256),
            ("sha512/256", Algorithm::Sha512Of256),
            ("SHA-512/256", Algorithm::Sha512Of256),
            ("MD5", Algorithm::Md5),
            ("sha_1", Algorithm::Sha1),
            ("BLAKE2b-512", Algorithm::Blake2b512),
            ("blake2b", Algorithm::Blake2b512),
            ("blake2b-160", Algorithm::Blake2b160),
        ] {
            assert_eq!(name.parse(), Ok(algorithm), "{name}");
        }
        assert!("sha3-256".parse::<Algorithm>().is_err() && "".parse::<Algorithm>().is_err());
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
        assert!(Algorithm::ALL.is_sorted());
    }

    #[test]
    fn malformed_digests_are_rejected() {
        for digits in ["", "90", "900150983cd24fb0d6963f7d28e17f7g", "900150983cd24fb0d6963f7d28e17f7", "+00150983cd24fb0d6963f7d28e17f72"]
        {
            assert_eq!(Digest::from_hex(Algorithm::Md5, digits), None, "{digits}");
        }
    }
}
