//! Checksums that clients send or ask for: the ten of S3, and Content-MD5.
//!
//! The framework has fields for only five of them. So they are read from and written to headers
//! here. In XML responses, those without a field use the SHA-256 field, and [`ChecksumElement`]
//! renames the element.

mod algorithm;

use base64_simd::STANDARD;
use bytes::Bytes;
use fulgurite_domain::Digest;
use http::{HeaderMap, HeaderValue};
use s3s::{S3Request, S3Result, TrailingHeaders, s3_error};

use crate::s3::errors::custom;
use crate::transfer::digests::{ContentDigests, Digests};
use crate::transfer::trailers::Trailers;

pub(crate) use self::algorithm::{Algorithm, Hasher};

/// Prefix of headers with checksums.
const HEADER: &str = "x-amz-checksum-";
/// Headers with this prefix that hold no checksum.
const NON_SUM_SUFFIXES: [&str; 3] = ["algorithm", "mode", "type"];

/// Sets the field of an XML response for a checksum. Algorithms without a field use that of
/// SHA-256; the response then needs a [`ChecksumElement`].
macro_rules! set_sum {
    ($answer:expr, $algorithm:expr, $value:expr) => {
        match $algorithm {
            $crate::transfer::checksums::Algorithm::Crc32 => $answer.checksum_crc32 = Some($value),
            $crate::transfer::checksums::Algorithm::Crc32c => $answer.checksum_crc32c = Some($value),
            $crate::transfer::checksums::Algorithm::Crc64Nvme => $answer.checksum_crc64nvme = Some($value),
            $crate::transfer::checksums::Algorithm::Sha1 => $answer.checksum_sha1 = Some($value),
            _ => $answer.checksum_sha256 = Some($value),
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

impl Sum {
    /// Adds the checksum to the headers of a response.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::from_str(&self.value) {
            headers.insert(self.algorithm.header(), value);
        }
    }
}

/// Extension of an XML response: the algorithm of the checksums in the SHA-256 field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChecksumElement(Algorithm);

impl ChecksumElement {
    /// Adds the extension if the algorithm has no field of its own.
    pub(crate) fn set(algorithm: Algorithm, extensions: &mut http::Extensions) {
        if !matches!(algorithm, Algorithm::Crc32 | Algorithm::Crc32c | Algorithm::Crc64Nvme | Algorithm::Sha1 | Algorithm::Sha256) {
            extensions.insert(Self(algorithm));
        }
    }

    /// Renames the elements in the XML.
    pub(crate) fn rename(self, xml: &[u8]) -> Bytes {
        let name = format!("Checksum{}>", self.0.name().to_uppercase());
        replace(xml, b"ChecksumSHA256>", name.as_bytes()).into()
    }
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        replaced.extend_from_slice(&rest[..at]);
        replaced.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    replaced.extend_from_slice(rest);
    replaced
}

/// The checksum in the headers, unchecked. Unknown algorithms are rejected: otherwise the content
/// would be stored without the check that the client asked for.
pub(crate) fn find_claimed_sum(headers: &HeaderMap) -> S3Result<Option<Sum>> {
    let mut found = None;
    for (name, value) in headers {
        let Some(rest) = name.as_str().strip_prefix(HEADER).filter(|rest| !NON_SUM_SUFFIXES.contains(rest)) else { continue };
        let Some(algorithm) = Algorithm::parse(rest) else {
            return Err(s3_error!(InvalidRequest, "The checksum algorithm of the header {name} is not supported. {VALID}"));
        };
        let value = value.to_str().ok().filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| invalid(algorithm))?.to_owned();
        if found.replace(Sum { algorithm, value }).is_some() {
            return Err(multiple_sums());
        }
    }
    Ok(found)
}

const VALID: &str =
    "Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256, SHA512, MD5, XXHASH64, XXHASH3, XXHASH128]";

/// The error for an unknown algorithm.
pub(crate) fn unsupported() -> s3s::S3Error {
    s3_error!(InvalidRequest, "Checksum algorithm provided is unsupported. {VALID}")
}

fn invalid(algorithm: Algorithm) -> s3s::S3Error {
    s3_error!(InvalidRequest, "Value for {HEADER}{} header is invalid.", algorithm.name())
}

fn multiple_sums() -> s3s::S3Error {
    s3_error!(InvalidRequest, "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
}

/// The algorithm of the checksum in the trailer.
fn find_trailer_algorithm(headers: &HeaderMap) -> S3Result<Option<Algorithm>> {
    let mut values = headers.get_all("x-amz-trailer").iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return if headers.contains_key("x-amz-trailer") { Err(multiple_sums()) } else { Ok(None) };
    };
    let name = value.to_str().unwrap_or_default().trim();
    let algorithm =
        name.get(..HEADER.len()).filter(|start| start.eq_ignore_ascii_case(HEADER)).and_then(|_| Algorithm::parse(&name[HEADER.len()..]));
    let unsupported = || s3_error!(InvalidRequest, "The value specified in the x-amz-trailer header is not supported");
    algorithm.map(Some).ok_or_else(unsupported)
}

/// The checksums that a client claims for its content.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    md5: Option<[u8; 16]>,
    sum: Option<Sum>,
    /// The algorithm of the checksum in the trailer.
    trailer: Option<Algorithm>,
}

impl Claims {
    /// Reads the claims from the headers of a request.
    pub(crate) fn of(headers: &HeaderMap) -> S3Result<Self> {
        let mut md5 = None;
        for value in headers.get_all("content-md5") {
            let bytes = STANDARD.decode_to_vec(value.as_bytes()).ok().and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
            let bytes = bytes.ok_or_else(|| s3_error!(InvalidDigest, "The Content-MD5 you specified was invalid."))?;
            if md5.replace(bytes).is_some_and(|other| other != bytes) {
                return Err(s3_error!(InvalidDigest, "The Content-MD5 you specified was invalid."));
            }
        }
        let sum = find_claimed_sum(headers)?;
        if let Some(Sum { algorithm, value }) = &sum {
            let bytes = STANDARD.decode_to_vec(value.as_bytes()).ok().filter(|bytes| bytes.len() == algorithm.bytes());
            bytes.ok_or_else(|| invalid(*algorithm))?;
        }
        let trailer = find_trailer_algorithm(headers)?;
        if sum.is_some() && trailer.is_some() {
            return Err(multiple_sums());
        }
        if let Some(named) = headers.get("x-amz-sdk-checksum-algorithm") {
            let named = named.to_str().ok().and_then(Algorithm::parse).ok_or_else(unsupported)?;
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

    /// Whether an MD5 is needed to check them.
    pub(crate) fn need_md5(&self) -> bool {
        self.md5.is_some() || self.algorithm() == Some(Algorithm::Md5)
    }

    /// Whether the client claims nothing.
    pub(crate) fn are_none(&self) -> bool {
        self.md5.is_none() && self.sum.is_none() && self.trailer.is_none()
    }

    /// The algorithm that the client chose.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.sum.as_ref().map(|sum| sum.algorithm).or(self.trailer)
    }

    /// Starts to compute the checksums, with `default` as the algorithm if the client chose none.
    pub(crate) fn begin(self, default: Option<Algorithm>) -> SumHasher {
        let algorithm = self.algorithm().or(default);
        let hasher = algorithm.filter(|algorithm| *algorithm != Algorithm::Md5).map(Algorithm::hasher);
        SumHasher { algorithm, hasher, claims: self }
    }
}

/// Trailers of a request's body, if it has any. The framework decodes those of signed requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyTrailers {
    signed: Option<TrailingHeaders>,
    unsigned: Option<Trailers>,
}

impl BodyTrailers {
    pub(crate) fn of<T>(request: &S3Request<T>) -> Self {
        let read = || Self { signed: request.trailing_headers.clone(), unsigned: request.extensions.get::<Trailers>().cloned() };
        // The framework drops the trailers when a request is handed on.
        request.extensions.get::<Self>().cloned().unwrap_or_else(read)
    }

    /// The value of a trailer, once the whole body was read.
    fn get(&self, name: &str) -> Option<String> {
        match (&self.signed, &self.unsigned) {
            (Some(signed), _) => signed.read(|headers| Some(headers.get(name)?.to_str().ok()?.to_owned())).flatten(),
            (None, Some(unsigned)) => unsigned.get(name),
            (None, None) => None,
        }
    }
}

/// Checksums being computed, except the MD5, which every object has as its ETag.
pub(crate) struct SumHasher {
    claims: Claims,
    algorithm: Option<Algorithm>,
    /// `None` for MD5, and without an algorithm.
    hasher: Option<Hasher>,
}

/// Checksums that match the client's claims.
#[derive(Debug, Clone)]
pub(crate) struct ContentSums {
    pub(crate) md5: [u8; 16],
    /// SHA-256 of an object's content; `None` for a part.
    pub(crate) sha256: Option<Digest>,
    /// Bytes that were hashed.
    pub(crate) bytes: u64,
    pub(crate) sum: Option<Sum>,
}

impl SumHasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
    }

    /// Compares the checksums with the client's claims, and returns the one of the algorithm.
    pub(crate) fn end(self, md5: [u8; 16], trailers: &BodyTrailers) -> S3Result<Option<Sum>> {
        if self.claims.md5.is_some_and(|claimed| claimed != md5) {
            return Err(s3_error!(BadDigest, "The Content-MD5 you specified did not match what we received."));
        }
        let value = self.hasher.map_or_else(|| STANDARD.encode_to_string(md5), Hasher::finish);
        let sum = self.algorithm.map(|algorithm| Sum { algorithm, value });
        let mut claimed = self.claims.sum.map(|sum| sum.value);
        if let Some(algorithm) = self.claims.trailer {
            claimed = Some(trailers.get(algorithm.header().as_str()).ok_or_else(|| {
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
        Ok(sum)
    }
}

/// The digests of content that was hashed before it is put, as a request extension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownDigests(pub(crate) Digests);

/// Computes all checksums of a content.
pub(crate) struct ContentHasher {
    sums: SumHasher,
    digests: DigestSource,
}

enum DigestSource {
    Known(Digests),
    Computed(ContentDigests),
}

impl ContentHasher {
    pub(crate) fn new(sums: SumHasher, digests: ContentDigests) -> Self {
        Self { sums, digests: DigestSource::Computed(digests) }
    }

    /// Leaves out the digests if they are known.
    pub(crate) fn with_known(self, known: Option<KnownDigests>) -> Self {
        Self { digests: known.map_or(self.digests, |KnownDigests(digests)| DigestSource::Known(digests)), ..self }
    }

    pub(crate) async fn update(&mut self, piece: &Bytes) {
        if let DigestSource::Computed(digests) = &mut self.digests {
            digests.update(piece).await;
        }
        self.sums.update(piece);
    }

    /// Compares the checksums with the client's claims.
    pub(crate) async fn end(self, trailers: &BodyTrailers) -> S3Result<ContentSums> {
        let digests = match self.digests {
            DigestSource::Known(digests) => digests,
            DigestSource::Computed(digests) => digests.finish().await,
        };
        let Digests { md5, sha256, bytes } = digests;
        Ok(ContentSums { md5, sha256, bytes, sum: self.sums.end(md5, trailers)? })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn claims(headers: &[(&'static str, &str)]) -> S3Result<Claims> {
        Claims::of(&headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a value"))).collect())
    }

    #[test]
    fn a_checksum_that_can_not_be_checked_is_refused() {
        let sum = Algorithm::Crc32.of(b"body");
        assert_eq!(
            claims(&[("x-amz-checksum-crc32", &sum), ("x-amz-checksum-mode", "ENABLED")]).expect("one").algorithm(),
            Some(Algorithm::Crc32)
        );
        assert_eq!(claims(&[("x-amz-trailer", "X-Amz-Checksum-XXHASH3")]).expect("one").algorithm(), Some(Algorithm::Xxhash3));
        for headers in [
            &[("x-amz-checksum-crc16", "AAA=")][..],
            &[("x-amz-checksum-sha3", "AAA=")],
            &[("x-amz-checksum-crc32", &sum), ("x-amz-checksum-md5", "AAAAAAAAAAAAAAAAAAAAAA==")],
            &[("x-amz-checksum-crc32", &sum), ("x-amz-trailer", "x-amz-checksum-crc32")],
            &[("x-amz-checksum-md5", &sum)],
            &[("x-amz-trailer", "x-amz-meta-a")],
            &[("x-amz-trailer", "x-amz-checksum-crc32, x-amz-checksum-sha1")],
        ] {
            assert!(claims(headers).is_err(), "{headers:?}");
        }
    }

    #[test]
    fn checksums_without_a_field_are_renamed_after_the_framework() {
        let inside = b"<Part><ChecksumSHA256>a</ChecksumSHA256></Part><Part><ChecksumSHA256>b</ChecksumSHA256></Part>";
        let outside = ChecksumElement(Algorithm::Md5).rename(inside);
        assert_eq!(outside, &b"<Part><ChecksumMD5>a</ChecksumMD5></Part><Part><ChecksumMD5>b</ChecksumMD5></Part>"[..]);
    }
}
