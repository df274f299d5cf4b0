//! Puts of whole objects.

use std::collections::BTreeMap;

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::{NewObject, Upload};
use fulgurite_domain::{Attributes, Kind, VersionId};
use http::{HeaderValue, header};
use s3s::dto::{ETag, Metadata, ObjectLockLegalHoldStatus, ObjectLockMode, PutObjectInput, PutObjectOutput, StorageClass, Timestamp};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::gateway::{Gateway, acknowledgement};
use crate::s3::conditions::{ETags, may_replace};
use crate::s3::encryption::asked;
use crate::s3::errors::{catalogue_failed, failed, not_acknowledged, not_readable};
use crate::s3::key_locks::object_name;
use crate::s3::normalize::original;
use crate::s3::tags;
use crate::s3::version::{attribute, ms_of};
use crate::state::{Bucket, RetentionMode, Versioning, hex, now_ms};
use crate::transfer::checksums::{Algorithm, Claims, Sum, Trailing};
use crate::transfer::upload::{UpTo, length_of};

/// Maximum size of an object's user metadata: names and values.
const METADATA_BYTES_MAX: usize = 2 << 10;
/// Maximum number of user metadata entries with an attribute each. A record has a limit on
/// attributes and needs others too.
const METADATA_OWN_MAX: usize = 128;
/// Bytes of attributes that requests must leave free for those that the server adds: ETag,
/// checksum, retention.
pub(crate) const RESERVED_BYTES: usize = 1 << 10;
/// Maximum length of a key.
const KEY_BYTES_MAX: usize = 1_024;

/// Properties of a new object other than its content; the same for puts, multipart uploads and
/// copies.
#[derive(Debug, Default)]
pub(crate) struct Described<'a> {
    pub(crate) content_type: Option<&'a str>,
    pub(crate) cache_control: Option<&'a str>,
    pub(crate) content_disposition: Option<&'a str>,
    pub(crate) content_encoding: Option<&'a str>,
    pub(crate) content_language: Option<&'a str>,
    pub(crate) website_redirect_location: Option<&'a str>,
    pub(crate) expires: Option<&'a HeaderValue>,
    pub(crate) metadata: Option<&'a Metadata>,
    pub(crate) storage_class: Option<&'a StorageClass>,
    pub(crate) tagging: Option<&'a str>,
    pub(crate) lock_mode: Option<&'a ObjectLockMode>,
    pub(crate) lock_until: Option<&'a Timestamp>,
    pub(crate) legal_hold: Option<&'a ObjectLockLegalHoldStatus>,
}

/// The result of a put.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) etag: ETag,
    /// The version ID in the response; `None` if versioning isn't enabled, even for the version
    /// `null`, as in AWS.
    pub(crate) version_id: Option<String>,
}

impl Described<'_> {
    /// The attributes of an object in a bucket.
    pub(crate) fn attributes(&self, bucket: &Bucket) -> S3Result<Attributes> {
        let mut attributes = Attributes::default();
        self.put_headers(&mut attributes)?;
        if let Some(tagging) = self.tagging {
            let tags = tags::parse(tagging)?;
            tags::check(&tags, tags::OBJECT_MAX)?;
            if !tags.is_empty() {
                attributes.set(attribute::TAGS, tags::encode(&tags));
            }
        }
        self.put_lock(bucket, &mut attributes)?;
        put_class(self.storage_class, &mut attributes)?;
        check_attributes(&attributes)?;
        Ok(attributes)
    }

    /// Sets content type, metadata and similar headers.
    pub(crate) fn put_headers(&self, attributes: &mut Attributes) -> S3Result<()> {
        for (name, value) in [
            ("content-type", self.content_type),
            ("cache-control", self.cache_control),
            ("content-disposition", self.content_disposition),
            ("content-encoding", self.content_encoding.map(without_chunked).as_deref()),
            ("content-language", self.content_language),
            ("website-redirect-location", self.website_redirect_location),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                attributes.set(name, value);
            }
        }
        if let Some(expires) = self.expires.filter(|expires| !expires.is_empty()) {
            attributes.set(attribute::EXPIRES, expires.as_bytes());
        }
        self.put_metadata(attributes)?;
        check_attributes(attributes)
    }

    fn put_metadata(&self, attributes: &mut Attributes) -> S3Result<()> {
        // Sorted, so that equal metadata always gives an equal record.
        let metadata: BTreeMap<String, &str> =
            self.metadata.into_iter().flatten().map(|(name, value)| (name.to_lowercase(), value.as_str())).collect();
        let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > METADATA_BYTES_MAX {
            return Err(s3_error!(
                MetadataTooLarge,
                "Your metadata headers exceed the maximum allowed metadata size: names and values have {bytes} bytes, the limit is {METADATA_BYTES_MAX}."
            ));
        }
        let mut more = BTreeMap::new();
        let mut own = 0;
        for (name, value) in metadata {
            if attribute::META.len() + name.len() > Attributes::NAME_BYTES_MAX || own == METADATA_OWN_MAX {
                more.insert(name, value);
            } else {
                own += 1;
                attributes.set(format!("{}{name}", attribute::META), value);
            }
        }
        if !more.is_empty() {
            attributes.set(attribute::MORE_META, serde_json::to_vec(&more).expect("texts are JSON"));
        }
        Ok(())
    }

    fn put_lock(&self, bucket: &Bucket, attributes: &mut Attributes) -> S3Result<()> {
        let asked = self.lock_mode.is_some() || self.lock_until.is_some() || self.legal_hold.is_some();
        if asked && !bucket.object_lock {
            return Err(s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration"));
        }
        match (self.lock_mode, self.lock_until) {
            (Some(mode), Some(until)) => {
                let mode = RetentionMode::parse(mode.as_str()).ok_or_else(|| s3_error!(InvalidArgument, "Unknown wormMode directive."))?;
                if ms_of(until) <= now_ms() {
                    return Err(s3_error!(InvalidArgument, "The retain until date must be in the future!"));
                }
                attributes.set(attribute::RETENTION_MODE, mode.name());
                attributes.set(attribute::RETENTION_UNTIL, ms_of(until).to_string());
            }
            (None, None) => put_default_retention(bucket, attributes)?,
            _ => {
                return Err(s3_error!(
                    InvalidArgument,
                    "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied"
                ));
            }
        }
        match self.legal_hold.map(ObjectLockLegalHoldStatus::as_str) {
            None | Some(ObjectLockLegalHoldStatus::OFF) => {}
            Some(ObjectLockLegalHoldStatus::ON) => attributes.set(attribute::LEGAL_HOLD, "ON"),
            Some(_) => return Err(s3_error!(InvalidArgument, "Legal Hold must be either of 'ON' or 'OFF'")),
        }
        Ok(())
    }
}

/// Refuses attributes that a record can't hold, with room for those that the server adds.
pub(crate) fn check_attributes(attributes: &Attributes) -> S3Result<()> {
    let most = Attributes::BYTES_MAX - RESERVED_BYTES;
    if attributes.bytes() > most {
        return Err(s3_error!(
            MetadataTooLarge,
            "The headers and tags stored with the object have {} bytes in total, the limit is {most}.",
            attributes.bytes()
        ));
    }
    attributes.check().map_err(|error| s3_error!(MetadataTooLarge, "The object's metadata can't be stored: {error}."))
}

/// Gives an object without its own retention the bucket's default.
///
/// # Errors
/// An S3 error if the default is unreadable: the version must not be stored unprotected.
fn put_default_retention(bucket: &Bucket, attributes: &mut Attributes) -> S3Result<()> {
    if !bucket.object_lock || attributes.text(attribute::RETENTION_MODE).is_some() {
        return Ok(());
    }
    if bucket.unreadable.retention {
        return Err(not_readable("default retention"));
    }
    if let Some(default) = bucket.retention {
        attributes.set(attribute::RETENTION_MODE, default.mode.name());
        attributes.set(attribute::RETENTION_UNTIL, now_ms().saturating_add(default.period_ms()).to_string());
    }
    Ok(())
}

fn put_class(class: Option<&StorageClass>, attributes: &mut Attributes) -> S3Result<()> {
    match class.map(StorageClass::as_str) {
        None | Some(StorageClass::STANDARD) => Ok(()),
        // Classes that elsewhere differ from `STANDARD` only in cost are stored as requested and
        // read like `STANDARD`.
        Some(
            class @ (StorageClass::GLACIER
            | StorageClass::DEEP_ARCHIVE
            | StorageClass::GLACIER_IR
            | StorageClass::STANDARD_IA
            | StorageClass::ONEZONE_IA
            | StorageClass::INTELLIGENT_TIERING
            | StorageClass::REDUCED_REDUNDANCY),
        ) => {
            attributes.set(attribute::CLASS, class);
            Ok(())
        }
        Some(_) => Err(s3_error!(InvalidStorageClass, "The storage class you specified is not valid")),
    }
}

/// Removes `aws-chunked`, which describes the transfer and not the content. The rest is kept as
/// sent.
fn without_chunked(encoding: &str) -> String {
    let is_kept = |part: &&str| !part.trim().eq_ignore_ascii_case("aws-chunked") && !part.trim().is_empty();
    encoding.split(',').filter(is_kept).collect::<Vec<_>>().join(",").trim().to_owned()
}

/// Sets the attribute of a checksum.
pub(crate) fn put_sum(sum: Option<&Sum>, attributes: &mut Attributes) {
    if let Some(sum) = sum {
        attributes.set(format!("{}{}", attribute::CHECKSUM, sum.algorithm.name()), sum.value.as_str());
    }
}

/// Refuses keys that are too long, before anything is read.
pub(crate) fn check_key(key: &str) -> S3Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(s3_error!(KeyTooLongError, "Your key is too long"));
    }
    Ok(())
}

impl Gateway {
    pub(crate) async fn put(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let trailing = Trailing::of(&request);
        let original = original(&request.headers, &request.extensions);
        let conditions = (ETags::of(original, "if-match"), ETags::of(original, "if-none-match"));
        let mut input = request.input;
        check_key(&input.key)?;
        let bucket = self.bucket(&input.bucket)?;
        let encryption = self.encryption(&asked!(input))?;
        refuse_acl(input.acl.as_ref().map(|acl| acl.as_str()))?;
        if input.write_offset_bytes.is_some() {
            return Err(s3_error!(NotImplemented, "Appending is not supported: objects are written once."));
        }
        let up_to = request.extensions.get::<UpTo>().map(|up_to| up_to.0);
        let length = up_to.map_or_else(|| length_of(input.content_length, &request.headers), Ok)?;
        self.check_room(length)?;
        let claims = Claims::of(&request.headers)?;
        let described = Described {
            content_type: input.content_type.as_deref(),
            cache_control: input.cache_control.as_deref(),
            content_disposition: input.content_disposition.as_deref(),
            content_encoding: input.content_encoding.as_deref(),
            content_language: input.content_language.as_deref(),
            website_redirect_location: input.website_redirect_location.as_deref(),
            expires: original.get(header::EXPIRES),
            metadata: input.metadata.as_ref(),
            storage_class: input.storage_class.as_ref(),
            tagging: input.tagging.as_deref(),
            lock_mode: input.object_lock_mode.as_ref(),
            lock_until: input.object_lock_retain_until_date.as_ref(),
            legal_hold: input.object_lock_legal_hold_status.as_ref(),
        };
        let mut attributes = described.attributes(&bucket)?;
        // An early check, before a long body is read in vain. The decisive check happens in the
        // put.
        let conditions = (conditions.0.as_ref(), conditions.1.as_ref());
        if conditions != (None, None) {
            let current = self.newest(&bucket.name, &input.key)?.filter(|version| !version.is_marker());
            may_replace(conditions.0, conditions.1, current.as_ref())?;
        }
        let mut summing = self.summing(claims, Algorithm::Crc64Nvme);
        let mut body = self.body(input.body.take(), length, &request.extensions);
        if up_to.is_some() {
            body = body.or_less();
        }
        let upload = self.receive(&mut body, &mut summing).await?;
        let summed = summing.end(&trailing).await?;
        put_sum(summed.sum.as_ref(), &mut attributes);
        attributes.set(attribute::ETAG, hex(&summed.md5));
        let stored = self.store(&bucket, &input.key, upload, attributes, conditions).await?;
        let output = PutObjectOutput {
            e_tag: Some(stored.etag),
            version_id: stored.version_id,
            server_side_encryption: encryption,
            checksum_type: Some(s3s::dto::ChecksumType::from_static(s3s::dto::ChecksumType::FULL_OBJECT)),
            ..Default::default()
        };
        let mut response = S3Response::new(output);
        if let Some(sum) = summed.sum {
            sum.put(&mut response.headers);
        }
        Ok(response)
    }

    /// Puts an object whose content is in staging, replacing the versions that the bucket doesn't
    /// keep. Returns when the object survives a crash.
    pub(crate) async fn store(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Upload,
        mut attributes: Attributes,
        (matches, none_match): (Option<&ETags>, Option<&ETags>),
    ) -> S3Result<Stored> {
        let name = object_name(&bucket.name, key);
        let held = self.names.hold(name.clone()).await;
        if matches.is_some() || none_match.is_some() {
            let current = self.newest(&bucket.name, key)?.filter(|version| !version.is_marker());
            may_replace(matches, none_match, current.as_ref())?;
        }
        let shared = self.buckets.share(&bucket.name).await;
        // The bucket may have been changed or removed during the transfer.
        let bucket = self.bucket(&bucket.name)?;
        put_default_retention(&bucket, &mut attributes)?;
        let replaced = self.replaced(&bucket, &name, false)?;
        if bucket.versioning != Versioning::Enabled {
            attributes.set(attribute::NULL, "");
        }
        attributes.check().map_err(|error| s3_error!(MetadataTooLarge, "The object's metadata can't be stored: {error}."))?;
        let etag = ETag::Strong(attributes.text(attribute::ETAG).unwrap_or_default().to_owned());
        let version_id = (bucket.versioning == Versioning::Enabled).then(|| upload.id().to_string());
        let gone: Vec<VersionId> = replaced.iter().map(|row| row.id).collect();
        let object = NewObject { name, kind: Kind::File, modified: None, mode: None, attributes };
        let (acknowledge, told) = acknowledgement((held, shared));
        upload.finish(object, replaced, acknowledge);
        told.await.map_err(|error| failed("the intake", &error))?.map_err(not_acknowledged)?;
        self.forget_state(&gone);
        Ok(Stored { etag, version_id })
    }

    /// The versions that a new version of a name replaces; an error if one of them is locked.
    pub(crate) fn replaced(&self, bucket: &Bucket, name: &fulgurite_domain::ObjectName, bypasses: bool) -> S3Result<Vec<VersionRow>> {
        if bucket.versioning == Versioning::Enabled || self.archive.reading().newest(name).map_err(catalogue_failed)?.is_none() {
            return Ok(Vec::new());
        }
        let versions = match bucket.versioning {
            Versioning::Suspended => self.archive.reading().null_version(name).map_err(catalogue_failed)?.into_iter().collect(),
            Versioning::Never | Versioning::Enabled => self.versions(name)?,
        };
        // A bucket with object lock keeps its versions. But a lost bucket may have been recreated
        // without object lock.
        versions.iter().try_for_each(|row| self.check_lock(row, bypasses))?;
        Ok(versions)
    }

    /// Deletes the mutable state of removed versions. A failure is harmless: the state is just left
    /// over.
    pub(crate) fn forget_state(&self, gone: &[VersionId]) {
        if !gone.is_empty()
            && let Err(error) = self.state.forget_versions(gone)
        {
            tracing::warn!(%error, "can't delete the state of removed versions from the service's database");
        }
    }
}

/// Accepts only ACLs that grant nothing beyond the owner's full control, as in buckets that enforce
/// ownership, AWS's default since April 2023.
pub(crate) fn refuse_acl(acl: Option<&str>) -> S3Result<()> {
    match acl {
        None | Some("private" | "bucket-owner-full-control" | "bucket-owner-read") => Ok(()),
        Some(_) => Err(s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_chunk_encoding_is_removed() {
        for (sent, kept) in [
            ("gzip", "gzip"),
            ("deflate, gzip", "deflate, gzip"),
            ("deflate,gzip", "deflate,gzip"),
            ("gzip,aws-chunked", "gzip"),
            ("aws-chunked, deflate, gzip", "deflate, gzip"),
            ("aws-chunked", ""),
            ("gzip,", "gzip"),
        ] {
            assert_eq!(without_chunked(sent), kept, "{sent}");
        }
    }
}
