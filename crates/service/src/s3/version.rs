//! The S3 view of a version: its attributes, by their names in the record.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_domain::{Attributes, Kind};
use s3s::dto::{ChecksumType, ETag, Metadata, StorageClass, Timestamp};

use crate::state::{Bucket, Versioning, hex};
use crate::transfer::checksums::{Algorithm, Sum};

/// Names of attributes. They are stored on platters, so none may ever change its meaning.
pub(crate) mod attribute {
    /// The ETag, without quotes.
    pub(crate) const ETAG: &str = "etag";
    /// Present on the null version of a name: put while versioning was off.
    pub(crate) const NULL: &str = fulgurite_archive::catalogue::NULL;
    /// The storage class, if it isn't `STANDARD`.
    pub(crate) const CLASS: &str = "storage-class";
    /// Prefix of checksums, followed by the algorithm in lower case; the value is Base64.
    pub(crate) const CHECKSUM: &str = "checksum-";
    /// `COMPOSITE` if the checksum covers the parts' checksums.
    pub(crate) const CHECKSUM_TYPE: &str = "checksum-type";
    /// Sizes of the parts of a multipart upload: LEB128 numbers.
    pub(crate) const PARTS: &str = "parts";
    /// Checksums of those parts, concatenated, by the algorithm of the object's checksum.
    pub(crate) const PART_CHECKSUMS: &str = "part-checksums";
    /// Tags at the put, URL-encoded.
    pub(crate) const TAGS: &str = "tags";
    /// Retention mode at the put: `GOVERNANCE` or `COMPLIANCE`.
    pub(crate) const RETENTION_MODE: &str = "retention-mode";
    /// End of the retention at the put, in milliseconds since 1970, decimal.
    pub(crate) const RETENTION_UNTIL: &str = "retention-until";
    /// Present if the object was put under legal hold.
    pub(crate) const LEGAL_HOLD: &str = "legal-hold";
    /// Prefix of user metadata.
    pub(crate) const META: &str = "meta-";
    /// User metadata without attributes of their own, because of a long name or a large number: a
    /// JSON object of strings.
    pub(crate) const MORE_META: &str = "more-metadata";
    /// ID of the multipart upload that created the object.
    pub(crate) const UPLOAD: &str = "upload";
    /// The value of `Expires` in seconds since 1970, decimal. No longer written: clients may send
    /// values that aren't times.
    pub(crate) const EXPIRES_SECONDS: &str = "expires";
    /// The value of `Expires` as sent.
    pub(crate) const EXPIRES: &str = "expires-as-sent";
}

/// The S3 view of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) row: VersionRow,
}

impl Version {
    pub(crate) fn new(row: VersionRow) -> Self {
        Self { row }
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        &self.row.record.attributes
    }

    pub(crate) fn is_marker(&self) -> bool {
        self.row.record.kind == Kind::DeletionMarker
    }

    pub(crate) fn is_null(&self) -> bool {
        self.attributes().get(attribute::NULL).is_some()
    }

    /// The version ID in S3.
    pub(crate) fn id(&self) -> String {
        if self.is_null() { "null".to_owned() } else { self.row.id.to_string() }
    }

    pub(crate) fn size(&self) -> u64 {
        self.row.record.size
    }

    /// The ETag. Objects that were not put over S3 get one that can't be mistaken for an MD5.
    pub(crate) fn etag(&self) -> ETag {
        let given = self.attributes().text(attribute::ETAG).map(str::to_owned);
        ETag::Strong(given.unwrap_or_else(|| format!("{}-1", hex(&self.row.record.sha256.0[..16]))))
    }

    pub(crate) fn modified(&self) -> Timestamp {
        timestamp(i64::try_from(self.row.record.created_ms).unwrap_or(i64::MAX))
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.attributes().text(name).map(str::to_owned)
    }

    /// The value of `Expires`.
    pub(crate) fn expires(&self) -> Option<http::HeaderValue> {
        if let Some(sent) = self.attributes().get(attribute::EXPIRES) {
            return http::HeaderValue::from_bytes(sent).ok();
        }
        let seconds: i64 = self.attributes().text(attribute::EXPIRES_SECONDS)?.parse().ok()?;
        http_date(&timestamp(seconds.saturating_mul(1_000)))
    }

    /// User metadata.
    pub(crate) fn metadata(&self) -> Option<Metadata> {
        let all = self.attributes().0.range(attribute::META.to_owned()..);
        let mine = all.map_while(|(name, value)| Some((name.strip_prefix(attribute::META)?, value)));
        let mut metadata: Metadata = mine.map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned())).collect();
        // A foreign record may contain anything here.
        let more = self.attributes().get(attribute::MORE_META).and_then(|json| serde_json::from_slice::<Metadata>(json).ok());
        metadata.extend(more.into_iter().flatten());
        (!metadata.is_empty()).then_some(metadata)
    }

    /// The storage class.
    pub(crate) fn class(&self) -> &str {
        self.attributes().text(attribute::CLASS).unwrap_or(StorageClass::STANDARD)
    }

    /// Whether the object must be restored before it can be read.
    pub(crate) fn is_cold(&self) -> bool {
        is_cold(self.class())
    }

    /// The class in headers and responses for single objects, which omit `STANDARD`.
    pub(crate) fn class_header(&self) -> Option<StorageClass> {
        self.attributes().text(attribute::CLASS).map(|class| StorageClass::from(class.to_owned()))
    }

    /// The known checksums.
    pub(crate) fn sums(&self) -> Vec<Sum> {
        let known = Algorithm::ALL.into_iter().filter_map(|algorithm| {
            let value = self.attributes().text(&format!("{}{}", attribute::CHECKSUM, algorithm.name()))?;
            Some(Sum { algorithm, value: value.to_owned() })
        });
        known.collect()
    }

    /// The checksum of a part by its number, from 1, if it is known.
    pub(crate) fn part_sum(&self, number: usize) -> Option<Sum> {
        let algorithm = self.sums().first()?.algorithm;
        let all = self.attributes().get(attribute::PART_CHECKSUMS)?;
        let value = all.chunks_exact(algorithm.bytes()).nth(number.checked_sub(1)?)?;
        Some(Sum { algorithm, value: base64_simd::STANDARD.encode_to_string(value) })
    }

    pub(crate) fn checksum_type(&self) -> ChecksumType {
        let composite = self.attributes().text(attribute::CHECKSUM_TYPE).is_some();
        ChecksumType::from_static(if composite { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT })
    }

    /// Sizes of the parts of a multipart upload. Those of a foreign record may not add up to the
    /// object's size; they are ignored.
    pub(crate) fn parts(&self) -> Option<Vec<u64>> {
        let sizes = decode_sizes(self.attributes().get(attribute::PARTS)?)?;
        let total = sizes.iter().try_fold(0_u64, |total, size| total.checked_add(*size));
        (total == Some(self.size())).then_some(sizes)
    }
}

/// The version ID that responses show; `None` if the bucket never had versioning.
pub(crate) fn shown_id(bucket: &Bucket, version: &Version) -> Option<String> {
    (bucket.versioning != Versioning::Never).then(|| version.id())
}

/// Whether objects of a class must be restored before they can be read.
pub(crate) fn is_cold(class: &str) -> bool {
    matches!(class, StorageClass::GLACIER | StorageClass::DEEP_ARCHIVE)
}

/// The end of the last year that S3 timestamps can express.
const TIMESTAMP_MS_MAX: i64 = 253_402_300_799_999;

/// An S3 timestamp. Times that it can't express, as in foreign records, are clamped.
pub(crate) fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from(UNIX_EPOCH + Duration::from_millis(ms.clamp(0, TIMESTAMP_MS_MAX).unsigned_abs()))
}

/// A time in the format of HTTP headers.
pub(crate) fn http_date(time: &Timestamp) -> Option<http::HeaderValue> {
    let mut date = Vec::new();
    time.format(s3s::dto::TimestampFormat::HttpDate, &mut date).ok()?;
    http::HeaderValue::from_bytes(&date).ok()
}

/// Milliseconds since 1970.
pub(crate) fn ms_of(timestamp: &Timestamp) -> i64 {
    let time: time::OffsetDateTime = timestamp.clone().into();
    let since = SystemTime::from(time).duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

pub(crate) fn encode_sizes(sizes: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &size in sizes {
        let mut left = size;
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
    }
    bytes
}

fn decode_sizes(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut sizes = Vec::new();
    let (mut size, mut shift) = (0_u64, 0);
    for byte in bytes {
        size |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            sizes.push(size);
            (size, shift) = (0, 0);
        }
    }
    (shift == 0).then_some(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_clamped_to_the_calendar() {
        for (ms, date) in [
            (i64::MIN, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (1_700_000_000_123, "Tue, 14 Nov 2023 22:13:20 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(http_date(&timestamp(ms)).expect("a date"), date, "{ms}");
        }
    }

    #[test]
    fn sizes_of_parts_round_trip() {
        let sizes = [0, 1, 127, 128, 5 << 20, 5 << 30, u64::MAX];
        assert_eq!(decode_sizes(&encode_sizes(&sizes)), Some(sizes.to_vec()));
        assert_eq!(decode_sizes(&[0x80]), None);
        assert_eq!(decode_sizes(&[0xff; 12]), None);
    }
}
