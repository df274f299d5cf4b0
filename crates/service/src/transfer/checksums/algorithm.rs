//! The ten checksum algorithms of S3: names and implementations.

use std::hash::Hasher as _;

use aws_lc_rs::digest::{self, SHA512};
use base64_simd::STANDARD;
use fulgurite_digest::Md5;
use http::HeaderName;
use s3s::S3Result;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use s3s::dto::ChecksumAlgorithm;
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

use super::unsupported;

/// A checksum algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
    Sha512,
    Md5,
    Xxhash64,
    Xxhash3,
    Xxhash128,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 10] = [
        Self::Crc32,
        Self::Crc32c,
        Self::Crc64Nvme,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Md5,
        Self::Xxhash64,
        Self::Xxhash3,
        Self::Xxhash128,
    ];

    /// The name in headers and attributes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "crc32",
            Self::Crc32c => "crc32c",
            Self::Crc64Nvme => "crc64nvme",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Md5 => "md5",
            Self::Xxhash64 => "xxhash64",
            Self::Xxhash3 => "xxhash3",
            Self::Xxhash128 => "xxhash128",
        }
    }

    /// The header that carries such a checksum.
    pub(crate) fn header(self) -> HeaderName {
        HeaderName::from_static(match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
            Self::Sha512 => "x-amz-checksum-sha512",
            Self::Md5 => "x-amz-checksum-md5",
            Self::Xxhash64 => "x-amz-checksum-xxhash64",
            Self::Xxhash3 => "x-amz-checksum-xxhash3",
            Self::Xxhash128 => "x-amz-checksum-xxhash128",
        })
    }

    /// Parses the name of an XML element.
    pub(crate) fn of_element(name: &[u8]) -> Option<Self> {
        Self::parse(std::str::from_utf8(name.strip_prefix(b"Checksum")?).ok()?)
    }

    /// Parses the name in a request, in any case of letters.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(text))
    }

    /// The algorithm that a request names, if it names one.
    pub(crate) fn named(given: Option<&ChecksumAlgorithm>) -> S3Result<Option<Self>> {
        given.map(|name| Self::parse(name.as_str()).ok_or_else(unsupported)).transpose()
    }

    /// The name in XML responses.
    pub(crate) fn in_xml(self) -> ChecksumAlgorithm {
        ChecksumAlgorithm::from(self.name().to_uppercase())
    }

    /// Length of a checksum in bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme | Self::Xxhash64 | Self::Xxhash3 => 8,
            Self::Md5 | Self::Xxhash128 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// Whether the checksum of the whole can be computed from those of its parts.
    pub(crate) fn is_linear(self) -> bool {
        matches!(self, Self::Crc32 | Self::Crc32c | Self::Crc64Nvme)
    }

    pub(crate) fn hasher(self) -> Hasher {
        match self {
            Self::Crc32 => Hasher::Crc32(Crc32::new()),
            Self::Crc32c => Hasher::Crc32c(Crc32c::new()),
            Self::Crc64Nvme => Hasher::Crc64Nvme(Crc64Nvme::new()),
            Self::Sha1 => Hasher::Sha1(Sha1::new()),
            Self::Sha256 => Hasher::Sha256(Sha256::new()),
            Self::Sha512 => Hasher::Sha512(digest::Context::new(&SHA512)),
            Self::Md5 => Hasher::Md5(Md5::new()),
            Self::Xxhash64 => Hasher::Xxhash64(XxHash64::with_seed(0)),
            Self::Xxhash3 => Hasher::Xxhash3(Box::new(XxHash3_64::new())),
            Self::Xxhash128 => Hasher::Xxhash128(Box::new(XxHash3_128::new())),
        }
    }

    /// The checksum of these bytes.
    pub(crate) fn of(self, bytes: &[u8]) -> String {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        hasher.finish()
    }
}

/// A checksum being computed.
pub(crate) enum Hasher {
    Crc32(Crc32),
    Crc32c(Crc32c),
    Crc64Nvme(Crc64Nvme),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(digest::Context),
    Md5(Md5),
    Xxhash64(XxHash64),
    Xxhash3(Box<XxHash3_64>),
    Xxhash128(Box<XxHash3_128>),
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(hasher) => hasher.update(bytes),
            Self::Crc32c(hasher) => hasher.update(bytes),
            Self::Crc64Nvme(hasher) => hasher.update(bytes),
            Self::Sha1(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
            Self::Md5(hasher) => hasher.update(bytes),
            Self::Xxhash64(hasher) => hasher.write(bytes),
            Self::Xxhash3(hasher) => hasher.write(bytes),
            Self::Xxhash128(hasher) => hasher.write(bytes),
        }
    }

    /// The checksum in Base64, most significant byte first.
    pub(crate) fn finish(self) -> String {
        let encode = |bytes: &[u8]| STANDARD.encode_to_string(bytes);
        match self {
            Self::Crc32(hasher) => encode(&hasher.finalize()),
            Self::Crc32c(hasher) => encode(&hasher.finalize()),
            Self::Crc64Nvme(hasher) => encode(&hasher.finalize()),
            Self::Sha1(hasher) => encode(&hasher.finalize()),
            Self::Sha256(hasher) => encode(&hasher.finalize()),
            Self::Sha512(hasher) => encode(hasher.finish().as_ref()),
            Self::Md5(hasher) => encode(&hasher.finish()),
            Self::Xxhash64(hasher) => encode(&hasher.finish().to_be_bytes()),
            Self::Xxhash3(hasher) => encode(&hasher.finish().to_be_bytes()),
            Self::Xxhash128(hasher) => encode(&hasher.finish_128().to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(algorithm: Algorithm, bytes: &[u8]) -> String {
        crate::state::hex(&STANDARD.decode_to_vec(algorithm.of(bytes)).expect("Base64"))
    }

    /// Test values of FIPS 180-4, RFC 1321 and the reference implementation of xxHash.
    #[test]
    fn checksums_match_their_specifications() {
        let text = b"hello world";
        for (algorithm, empty, sum) in [
            (Algorithm::Md5, "d41d8cd98f00b204e9800998ecf8427e", "5eb63bbbe01eeed093cb22bb8f5acdc3"),
            (Algorithm::Xxhash64, "ef46db3751d8e999", "45ab6734b21e6968"),
            (Algorithm::Xxhash3, "2d06800538d394c2", "d447b1ea40e6988b"),
            (Algorithm::Xxhash128, "99aa06d3014798d86001c324468d497f", "df8d09e93f874900a99b8775cc15b6c7"),
        ] {
            assert_eq!((hex(algorithm, b"").as_str(), hex(algorithm, text).as_str()), (empty, sum), "{algorithm:?}");
        }
        assert!(hex(Algorithm::Sha512, b"").starts_with("cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"));
        // Longer than what any of them processes at once.
        let long: Vec<u8> = (0..40).flat_map(|_| 0..=255_u8).collect();
        assert_eq!(hex(Algorithm::Xxhash64, &long), "58b820aa7970dbe2");
        assert_eq!(hex(Algorithm::Xxhash3, &long), "c03d2231ab9348f3");
        assert_eq!(hex(Algorithm::Xxhash128, &long), "1cb22534d0d96975c03d2231ab9348f3");
    }

    #[test]
    fn checksums_do_not_depend_on_how_content_is_split() {
        let content: Vec<u8> = (0..10_000_u32).map(|at| (at * 7 + at / 253) as u8).collect();
        for algorithm in Algorithm::ALL {
            for step in [1, 63, 64, 1_000] {
                let mut hasher = algorithm.hasher();
                content.chunks(step).for_each(|piece| hasher.update(piece));
                let sum = hasher.finish();
                assert_eq!(sum, algorithm.of(&content), "{algorithm:?} by {step}");
                assert_eq!(STANDARD.decode_to_vec(&sum).expect("Base64").len(), algorithm.bytes());
            }
        }
    }
}
