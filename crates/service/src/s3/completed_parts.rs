//! The parts that a client lists to complete a multipart upload, and the checksums and the ETag
//! that follow from them.

use base64_simd::STANDARD;
use fulgurite_digest::Md5;
use s3s::dto::ETag;
use s3s::xml::{DeError, DeResult, Deserialize, DeserializeContent, Deserializer};
use s3s::{S3Result, s3_error};

use crate::state::{Part, hex};
use crate::transfer::checksums::{Algorithm, Sum};

/// Minimum size of all parts but the last.
const PART_BYTES_MIN: u64 = 5 << 20;

/// The concatenated checksums of parts, without those that can't be of the upload's algorithm:
/// older versions of this program kept checksums of any algorithm.
pub(super) fn part_sums(algorithm: Algorithm, parts: &[Part]) -> Vec<u8> {
    let sum = |part: &Part| STANDARD.decode_to_vec(part.checksum.as_deref()?.as_bytes()).ok();
    parts.iter().filter_map(sum).filter(|sum| sum.len() == algorithm.bytes()).flatten().collect()
}

/// The checksum of the parts' checksums.
pub(super) fn composite(algorithm: Algorithm, part_sums: &[u8], parts: usize) -> Sum {
    Sum { algorithm, value: format!("{}-{parts}", algorithm.of(part_sums)) }
}

/// The ETag of an object with parts of these MD5s.
pub(super) fn etag_of_parts(md5s: impl IntoIterator<Item = [u8; 16]>) -> String {
    let (mut whole, mut count) = (Md5::new(), 0);
    for md5 in md5s {
        whole.update(&md5);
        count += 1;
    }
    format!("{}-{count}", hex(&whole.finish()))
}

/// The ETag of an object with the listed parts; `None` if an entry is invalid.
pub(super) fn named_etag(requested_parts: &[NamedPart]) -> Option<String> {
    let md5s: Option<Vec<[u8; 16]>> = requested_parts
        .iter()
        .map(|part| {
            let etag = part.etag.as_ref()?.value();
            let md5 = u128::from_str_radix(etag, 16).ok()?.to_be_bytes();
            (hex(&md5) == etag).then_some(md5)
        })
        .collect();
    md5s.map(etag_of_parts)
}

/// Compares the checksum of the whole with the client's claim, if it has one.
pub(super) fn check_claim(claim: Option<&Sum>, sum: &Sum) -> S3Result<()> {
    match claim {
        Some(Sum { algorithm, value }) if *algorithm != sum.algorithm || value.split('-').next() != sum.value.split('-').next() => {
            Err(s3_error!(BadDigest, "The {} you specified did not match the calculated checksum.", algorithm.name()))
        }
        _ => Ok(()),
    }
}

/// The parts that a client lists, in its order.
#[derive(Debug, Default)]
pub(super) struct NamedParts(pub(super) Vec<NamedPart>);

/// A part in the list. The framework's type lacks the newer checksums.
#[derive(Debug, Default)]
pub(super) struct NamedPart {
    number: Option<i32>,
    etag: Option<ETag>,
    sum: Option<Sum>,
}

impl<'xml> Deserialize<'xml> for NamedParts {
    fn deserialize(xml: &mut Deserializer<'xml>) -> DeResult<Self> {
        xml.named_element("CompleteMultipartUpload", |xml| xml.list_content("Part")).map(Self)
    }
}

impl<'xml> DeserializeContent<'xml> for NamedPart {
    fn deserialize_content(xml: &mut Deserializer<'xml>) -> DeResult<Self> {
        let mut part = Self::default();
        xml.for_each_element(|xml, name| match name {
            b"PartNumber" => once(&mut part.number, xml.content()?),
            b"ETag" => once(&mut part.etag, xml.content()?),
            name => {
                let algorithm = Algorithm::of_element(name).ok_or(DeError::UnexpectedTagName)?;
                if part.sum.as_ref().is_some_and(|sum| sum.algorithm == algorithm) {
                    return Err(DeError::DuplicateField);
                }
                part.sum = Some(Sum { algorithm, value: xml.content()? });
                Ok(())
            }
        })?;
        Ok(part)
    }
}

fn once<T>(field: &mut Option<T>, value: T) -> DeResult {
    if field.replace(value).is_some() { Err(DeError::DuplicateField) } else { Ok(()) }
}

/// Requires the checksum of each part, unless the algorithm is a CRC. AWS requires them for all
/// algorithms, but SDKs that choose a CRC on their own omit them.
pub(super) fn check_part_checksums(requested_parts: &[NamedPart], algorithm: Option<Algorithm>) -> S3Result<()> {
    let Some(algorithm) = algorithm.filter(|algorithm| !algorithm.is_linear()) else { return Ok(()) };
    match requested_parts.iter().find(|part| part.sum.is_none()) {
        Some(part) => Err(s3_error!(
            InvalidRequest,
            "The upload was created using a {} checksum. The complete request must include the checksum for each part. It was missing for part {} in the request.",
            algorithm.name(),
            part.number.unwrap_or(0)
        )),
        None => Ok(()),
    }
}

/// The listed parts, at least one, which must be in order of their numbers.
pub(super) fn select_parts(requested_parts: &[NamedPart], all: &[Part]) -> S3Result<Vec<Part>> {
    let mut selected: Vec<Part> = Vec::with_capacity(requested_parts.len());
    for requested in requested_parts {
        let number = requested.number.unwrap_or(0);
        if selected.last().is_some_and(|last| i64::from(last.number) >= i64::from(number)) {
            return Err(s3_error!(
                InvalidPartOrder,
                "The list of parts was not in ascending order. The parts list must be specified in order by part number."
            ));
        }
        // They are in order of their numbers.
        let found = all.binary_search_by_key(&i64::from(number), |part| i64::from(part.number));
        let part = found.ok().map(|index| &all[index]);
        let part = part.filter(|part| requested.etag.as_ref().is_some_and(|etag| etag.value() == hex(&part.md5)));
        let part = part.ok_or_else(|| {
            s3_error!(
                InvalidPart,
                "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag."
            )
        })?;
        if let (Some(claimed), Some(found)) = (&requested.sum, &part.checksum)
            && claimed.value != *found
        {
            return Err(s3_error!(InvalidPart, "The checksum of part {number} differs from the one it was uploaded with."));
        }
        selected.push(part.clone());
    }
    if let Some(small) = selected[..selected.len() - 1].iter().find(|part| part.size < PART_BYTES_MIN) {
        return Err(s3_error!(
            EntityTooSmall,
            "Your proposed upload is smaller than the minimum allowed size: part {} has {} bytes, but all except the last must have at least {PART_BYTES_MIN}",
            small.number,
            small.size
        ));
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(parts: &str) -> DeResult<Vec<NamedPart>> {
        let xml = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        NamedParts::deserialize(&mut Deserializer::new(xml.as_bytes())).map(|NamedParts(parts)| parts)
    }

    #[test]
    fn parts_may_have_checksums_unknown_to_the_framework() {
        let parts = parse(
            "<Part><ChecksumMD5>a</ChecksumMD5><PartNumber>1</PartNumber></Part><Part><ETag>\"e\"</ETag><ChecksumSHA1>c</ChecksumSHA1></Part>",
        );
        let parts = parts.expect("it is valid");
        assert_eq!((parts[0].number, parts[0].sum.as_ref().map(|sum| sum.algorithm)), (Some(1), Some(Algorithm::Md5)));
        assert_eq!((parts[1].etag.as_ref().map(ETag::value), parts[1].sum.as_ref().map(|sum| sum.value.as_str())), (Some("e"), Some("c")));
        for wrong in ["<Part><Size>1</Size></Part>", "<Part><PartNumber>1</PartNumber><PartNumber>1</PartNumber></Part>", "<Part>"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
