//! Properties of a new object, as a request states them: its bucket, and the attributes of its
//! record. Copies and multipart uploads state them with the same fields as a put, so their inputs
//! are read as one ([`as_put`]).

use std::collections::BTreeMap;

use fulgurite_domain::Attributes;
use http::{Extensions, HeaderMap, header};
use s3s::dto::{Metadata, ObjectLockLegalHoldStatus, PutObjectInput, ServerSideEncryption, StorageClass};
use s3s::{S3Result, s3_error};

use crate::auth::grant::GrantedBucket;
use crate::s3::errors::{ends_in_the_past, unreadable_setting, without_object_lock};
use crate::s3::namespace::Namespace;
use crate::s3::tags;
use crate::s3::version::{attribute, ms_of};
use crate::state::{Bucket, RetentionMode, now_ms};

/// Maximum size of an object's user metadata: names and values.
const METADATA_BYTES_MAX: usize = 2 << 10;
/// Maximum number of user metadata entries with an attribute each. A record has a limit on
/// attributes and needs others too.
const METADATA_OWN_MAX: usize = 128;
/// Bytes of attributes that requests must leave free for those that the server adds: ETag,
/// checksum, retention.
pub(crate) const RESERVED_BYTES: usize = 1 << 10;
/// Headers of a put that say something of the object, other than its ACL and its tags. Headers that
/// would change the operation, such as those of a copy, are excluded.
pub(crate) const OBJECT_HEADERS: HeaderSet = HeaderSet {
    names: &[
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-md5",
        "content-type",
        "expires",
        "x-amz-object-lock-legal-hold",
        "x-amz-object-lock-mode",
        "x-amz-object-lock-retain-until-date",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-storage-class",
        "x-amz-website-redirect-location",
        "x-amz-grant-full-control",
        "x-amz-grant-read",
        "x-amz-grant-read-acp",
        "x-amz-grant-write-acp",
    ],
    prefixes: &["x-amz-checksum-", "x-amz-meta-", "x-amz-server-side-encryption"],
};
/// Maximum length of a key.
pub(crate) const KEY_BYTES_MAX: usize = 1_024;

/// A set of headers, by name and by prefix, in lower case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderSet {
    pub(crate) names: &'static [&'static str],
    pub(crate) prefixes: &'static [&'static str],
}

impl HeaderSet {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(&name) || self.prefixes.iter().any(|start| name.starts_with(start))
    }
}

/// Moves the fields of these names from one input or output to another.
macro_rules! same_fields {
    ($from:ident => $to:ident: $($field:ident)*) => {
        s3s::dto::$to { $($field: $from.$field,)* ..Default::default() }
    };
}

/// Reads the properties of a new object from another operation's input, as if it were a put's.
macro_rules! as_put {
    ($input:ident) => {
        $crate::s3::new_object::same_fields!($input => PutObjectInput:
            acl bucket cache_control content_disposition content_encoding content_language content_type key metadata
            object_lock_legal_hold_status object_lock_mode object_lock_retain_until_date server_side_encryption
            sse_customer_algorithm sse_customer_key sse_customer_key_md5 ssekms_encryption_context ssekms_key_id storage_class
            tagging website_redirect_location)
    };
}

pub(crate) use {as_put, same_fields};

impl Namespace {
    /// The bucket of a new object, and the encryption that responses report. Refuses keys that are
    /// too long and unsupported encryption.
    pub(crate) fn destination(
        &self,
        request: &Extensions,
        put_input: &PutObjectInput,
    ) -> S3Result<(GrantedBucket, Option<ServerSideEncryption>)> {
        if put_input.key.len() > KEY_BYTES_MAX {
            return Err(s3_error!(KeyTooLongError, "Your key is too long"));
        }
        Ok((self.granted(request, &put_input.bucket)?, self.encryption(put_input)?))
    }
}

/// The attributes of an object in a bucket. `original` are the headers as sent; without them, the
/// attributes that a copy may take from its source are left out.
pub(crate) fn attributes(put_input: &PutObjectInput, original: Option<&HeaderMap>, bucket: &Bucket) -> S3Result<Attributes> {
    let mut attributes = Attributes::default();
    put_text("website-redirect-location", put_input.website_redirect_location.as_deref(), &mut attributes);
    match original {
        Some(original) => put_headers(put_input, original, &mut attributes)?,
        None => check_attributes(&attributes)?,
    }
    if let Some(tagging) = &put_input.tagging {
        let tags = tags::parse(tagging)?;
        tags::check(&tags, tags::OBJECT_TAGS_MAX)?;
        if !tags.is_empty() {
            attributes.set(attribute::TAGS, tags::encode(&tags));
        }
    }
    put_lock(put_input, bucket, &mut attributes)?;
    put_class(put_input.storage_class.as_ref(), &mut attributes)?;
    check_attributes(&attributes)?;
    Ok(attributes)
}

/// Sets content type, metadata and similar headers.
pub(crate) fn put_headers(put_input: &PutObjectInput, original: &HeaderMap, attributes: &mut Attributes) -> S3Result<()> {
    put_text("content-type", put_input.content_type.as_deref(), attributes);
    put_text("cache-control", put_input.cache_control.as_deref(), attributes);
    put_text("content-disposition", put_input.content_disposition.as_deref(), attributes);
    put_text("content-encoding", put_input.content_encoding.as_deref().map(without_chunked).as_deref(), attributes);
    put_text("content-language", put_input.content_language.as_deref(), attributes);
    if let Some(expires) = original.get(header::EXPIRES).filter(|expires| !expires.is_empty()) {
        attributes.set(attribute::EXPIRES, expires.as_bytes());
    }
    put_metadata(put_input.metadata.as_ref(), attributes)?;
    check_attributes(attributes)
}

fn put_text(name: &str, value: Option<&str>, attributes: &mut Attributes) {
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        attributes.set(name, value);
    }
}

fn put_metadata(metadata: Option<&Metadata>, attributes: &mut Attributes) -> S3Result<()> {
    // Sorted, so that equal metadata always gives an equal record.
    let metadata: BTreeMap<String, &str> =
        metadata.into_iter().flatten().map(|(name, value)| (name.to_lowercase(), value.as_str())).collect();
    let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > METADATA_BYTES_MAX {
        return Err(s3_error!(
            MetadataTooLarge,
            "Your metadata headers exceed the maximum allowed metadata size: names and values have {bytes} bytes, the limit is {METADATA_BYTES_MAX}."
        ));
    }
    let mut more = BTreeMap::new();
    let mut own_attributes = 0;
    for (name, value) in metadata {
        if attribute::META.len() + name.len() > Attributes::NAME_BYTES_MAX || own_attributes == METADATA_OWN_MAX {
            more.insert(name, value);
        } else {
            own_attributes += 1;
            attributes.set(format!("{}{name}", attribute::META), value);
        }
    }
    if !more.is_empty() {
        attributes.set(attribute::MORE_META, serde_json::to_vec(&more).expect("texts are JSON"));
    }
    Ok(())
}

fn put_lock(put_input: &PutObjectInput, bucket: &Bucket, attributes: &mut Attributes) -> S3Result<()> {
    let sets_lock = put_input.object_lock_mode.is_some()
        || put_input.object_lock_retain_until_date.is_some()
        || put_input.object_lock_legal_hold_status.is_some();
    if sets_lock && !bucket.object_lock {
        return Err(without_object_lock());
    }
    match (&put_input.object_lock_mode, &put_input.object_lock_retain_until_date) {
        (Some(mode), Some(until)) => {
            let mode = RetentionMode::parse(mode.as_str()).ok_or_else(|| s3_error!(InvalidArgument, "Unknown wormMode directive."))?;
            if ms_of(until) <= now_ms() {
                return Err(ends_in_the_past());
            }
            attributes.set(attribute::RETENTION_MODE, mode.name());
            attributes.set(attribute::RETENTION_UNTIL, ms_of(until).to_string());
        }
        (None, None) => put_default_retention(bucket, attributes)?,
        _ => {
            return Err(s3_error!(InvalidArgument, "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied"));
        }
    }
    match put_input.object_lock_legal_hold_status.as_ref().map(ObjectLockLegalHoldStatus::as_str) {
        None | Some(ObjectLockLegalHoldStatus::OFF) => {}
        Some(ObjectLockLegalHoldStatus::ON) => attributes.set(attribute::LEGAL_HOLD, "ON"),
        Some(_) => return Err(s3_error!(InvalidArgument, "Legal Hold must be either of 'ON' or 'OFF'")),
    }
    Ok(())
}

/// Refuses attributes that a record can't hold, with room for those that the server adds.
fn check_attributes(attributes: &Attributes) -> S3Result<()> {
    let bytes_max = Attributes::BYTES_MAX - RESERVED_BYTES;
    if attributes.bytes() > bytes_max {
        return Err(s3_error!(
            MetadataTooLarge,
            "The headers and tags stored with the object have {} bytes in total, the limit is {bytes_max}.",
            attributes.bytes()
        ));
    }
    check_record(attributes)
}

/// Refuses attributes that a record can't hold.
pub(crate) fn check_record(attributes: &Attributes) -> S3Result<()> {
    attributes.check().map_err(|error| s3_error!(MetadataTooLarge, "The object's metadata can't be stored: {error}."))
}

/// Gives an object without its own retention the bucket's default.
///
/// # Errors
/// An S3 error if the default is unreadable: the version must not be stored unprotected.
pub(crate) fn put_default_retention(bucket: &Bucket, attributes: &mut Attributes) -> S3Result<()> {
    if !bucket.object_lock || attributes.text(attribute::RETENTION_MODE).is_some() {
        return Ok(());
    }
    if bucket.unreadable.retention {
        return Err(unreadable_setting("default retention"));
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
