//! Checksums that clients send, or want to see: S3's five, and Content-MD5.

use crate::failures::custom;
use crate::hashing::ContentMd5;
use base64_simd::STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use s3s::{S3Result, TrailingHeaders, s3_error};

/// A checksum's algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

/// Puts a checksum into the field of an answer that is its algorithm's: they are five fields of many types.
macro_rules! set_sum {
    ($answer:expr, $algorithm:expr, $value:expr) => {
        match $algorithm {
            $crate::checksums::Algorithm::Crc32 => $answer.checksum_crc32 = Some($value),
            $crate::checksums::Algorithm::Crc32c => $answer.checksum_crc32c = Some($value),
            $crate::checksums::Algorithm::Crc64Nvme => $answer.checksum_crc64nvme = Some($value),
            $crate::checksums::Algorithm::Sha1 => $answer.checksum_sha1 = Some($value),
            $crate::checksums::Algorithm::Sha256 => $answer.checksum_sha256 = Some($value),
        }
    };
}
pub(crate) use set_sum;

/// A checksum in Base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) algorithm: Algorithm,
    pub(crate) value: String,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 5] = [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    /// As it stands in names of headers and attributes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "crc32",
            Self::Crc32c => "crc32c",
            Self::Crc64Nvme => "crc64nvme",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// As it stands in requests and answers.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(text))
    }

    /// Bytes of a checksum.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Whether those of the parts give that of the whole.
    pub(crate) fn is_linear(self) -> bool {
        matches!(self, Self::Crc32 | Self::Crc32c | Self::Crc64Nvme)
    }

    pub(crate) fn hasher(self) -> ChecksumHasher {
        let mut hasher = ChecksumHasher::default();
        match self {
            Self::Crc32 => hasher.crc32 = Some(Crc32::new()),
            Self::Crc32c => hasher.crc32c = Some(Crc32c::new()),
            Self::Crc64Nvme => hasher.crc64nvme = Some(Crc64Nvme::new()),
            Self::Sha1 => hasher.sha1 = Some(Sha1::new()),
            Self::Sha256 => hasher.sha256 = Some(Sha256::new()),
        }
        hasher
    }

    /// The checksum of these bytes.
    pub(crate) fn of(self, bytes: &[u8]) -> String {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        take(hasher)
    }
}

pub(crate) fn take(hasher: ChecksumHasher) -> String {
    let sum = hasher.finalize();
    let found = [sum.checksum_crc32, sum.checksum_crc32c, sum.checksum_crc64nvme, sum.checksum_sha1, sum.checksum_sha256];
    found.into_iter().flatten().next().unwrap_or_default()
}

/// What a client says of the content that it sends.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    md5: Option<[u8; 16]>,
    sum: Option<Sum>,
    /// The checksum comes behind the content.
    trailer: Option<Algorithm>,
}

/// The five fields of a request that may hold a checksum, in the order of [`Algorithm::ALL`].
pub(crate) type Fields<'a> = [Option<&'a str>; 5];

impl Claims {
    pub(crate) fn new(md5: Option<&str>, fields: Fields<'_>, headers: &HeaderMap) -> S3Result<Self> {
        // The framework takes a header without a value for none.
        let md5 = match md5 {
            None if headers.get("content-md5").is_some_and(http::HeaderValue::is_empty) => {
                return Err(s3_error!(InvalidDigest, "The Content-MD5 you specified was invalid."));
            }
            None => None,
            Some(text) => {
                let bytes = STANDARD.decode_to_vec(text.as_bytes()).ok().and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
                Some(bytes.ok_or_else(|| s3_error!(InvalidDigest, "The Content-MD5 you specified was invalid."))?)
            }
        };
        if let Some((name, _)) = headers.iter().find(|(name, value)| value.is_empty() && name.as_str().starts_with("x-amz-checksum-")) {
            return Err(s3_error!(InvalidRequest, "Value for {name} header is invalid."));
        }
        let mut given = Algorithm::ALL.into_iter().zip(fields).filter_map(|(algorithm, value)| Some((algorithm, value?)));
        let sum = given.next();
        if given.next().is_some() {
            return Err(s3_error!(InvalidRequest, "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."));
        }
        let sum = match sum {
            None => None,
            Some((algorithm, value)) => {
                let bytes = STANDARD.decode_to_vec(value.as_bytes()).ok().filter(|bytes| bytes.len() == algorithm.bytes());
                bytes.ok_or_else(|| s3_error!(InvalidRequest, "Value for x-amz-checksum-{} header is invalid.", algorithm.name()))?;
                Some(Sum { algorithm, value: value.to_owned() })
            }
        };
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let announced = header("x-amz-trailer").and_then(|name| Algorithm::parse(name.trim().strip_prefix("x-amz-checksum-")?));
        let trailer = announced.filter(|_| sum.is_none());
        if let Some(named) = header("x-amz-sdk-checksum-algorithm") {
            let named = Algorithm::parse(named).ok_or_else(|| {
                s3_error!(InvalidRequest, "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]")
            })?;
            let found = sum.as_ref().map(|sum| sum.algorithm).or(trailer);
            if found.is_none() {
                return Err(s3_error!(
                    InvalidRequest,
                    "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found."
                ));
            }
            if found != Some(named) {
                return Err(s3_error!(InvalidRequest, "Value for x-amz-sdk-checksum-algorithm header is invalid."));
            }
        }
        Ok(Self { md5, sum, trailer })
    }

    /// What the headers say of a body that the framework doesn't read.
    pub(crate) fn of(headers: &HeaderMap) -> S3Result<Self> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let sums = Algorithm::ALL.map(|algorithm| text(&format!("x-amz-checksum-{}", algorithm.name())));
        Self::new(text("content-md5"), sums, headers)
    }

    /// Whether the client says nothing of its content.
    pub(crate) fn are_none(&self) -> bool {
        self.md5.is_none() && self.sum.is_none() && self.trailer.is_none()
    }

    /// The algorithm that the client has chosen.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.sum.as_ref().map(|sum| sum.algorithm).or(self.trailer)
    }

    /// Sums up content as it comes, by `default` where the client has chosen no algorithm.
    pub(crate) fn begin(self, default: Option<Algorithm>) -> Sums {
        let algorithm = self.algorithm().or(default);
        Sums { hasher: algorithm.map(|algorithm| (algorithm, algorithm.hasher())), claims: self }
    }
}

/// Checksums on their way, but for the MD5.
pub(crate) struct Sums {
    claims: Claims,
    hasher: Option<(Algorithm, ChecksumHasher)>,
}

/// Checksums of content that is what the client says it is.
#[derive(Debug, Clone)]
pub(crate) struct Summed {
    pub(crate) md5: [u8; 16],
    pub(crate) sum: Option<Sum>,
}

impl Sums {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some((_, hasher)) = &mut self.hasher {
            hasher.update(bytes);
        }
    }

    /// Holds what was found against what the client says.
    pub(crate) fn end(self, md5: [u8; 16], trailers: Option<&TrailingHeaders>) -> S3Result<Summed> {
        if self.claims.md5.is_some_and(|claimed| claimed != md5) {
            return Err(s3_error!(BadDigest, "The Content-MD5 you specified did not match what we received."));
        }
        let sum = self.hasher.map(|(algorithm, hasher)| Sum { algorithm, value: take(hasher) });
        let mut claimed = self.claims.sum.map(|sum| sum.value);
        if let Some(algorithm) = self.claims.trailer {
            let name = format!("x-amz-checksum-{}", algorithm.name());
            let value =
                trailers.and_then(|trailers| trailers.read(|headers| Some(headers.get(&name)?.to_str().ok()?.to_owned()))).flatten();
            claimed = Some(value.ok_or_else(|| {
                let message = "The request contained trailing data that was not well-formed.";
                custom("MalformedTrailerError", http::StatusCode::BAD_REQUEST, message)
            })?);
        }
        if let (Some(claimed), Some(sum)) = (&claimed, &sum)
            && *claimed != sum.value
        {
            return Err(s3_error!(
                BadDigest,
                "The {} you specified did not match the calculated checksum.",
                sum.algorithm.name().to_uppercase()
            ));
        }
        Ok(Summed { md5, sum })
    }
}

/// Checksums of an object's content on their way.
pub(crate) struct Summing {
    sums: Sums,
    md5: ContentMd5,
}

impl Summing {
    pub(crate) fn new(sums: Sums, md5: ContentMd5) -> Self {
        Self { sums, md5 }
    }

    pub(crate) async fn update(&mut self, piece: &Bytes) {
        self.md5.update(piece).await;
        self.sums.update(piece);
    }

    /// Holds what was found against what the client says.
    pub(crate) async fn end(self, trailers: Option<&TrailingHeaders>) -> S3Result<Summed> {
        self.sums.end(self.md5.finish().await, trailers)
    }
}
