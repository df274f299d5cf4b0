//! Puts of whole objects.

use std::sync::atomic::Ordering;

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::{Acknowledge, NewObject, Upload};
use fulgurite_domain::{Attributes, Kind, ObjectName, VersionId};
use s3s::dto::{ChecksumType, ETag, PutObjectInput, PutObjectOutput};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::auth::grant::GrantedBucket;
use crate::gateway::{Gateway, acknowledgement};
use crate::s3::Answer;
use crate::s3::conditions::PutConditions;
use crate::s3::errors::{catalogue_failed, internal_error, not_acknowledged};
use crate::s3::namespace::Namespace;
use crate::s3::new_object::{attributes, check_record, put_default_retention, refuse_acl};
use crate::s3::normalize::original;
use crate::s3::object_names::object_name;
use crate::s3::version::attribute;
use crate::state::{Bucket, Versioning, hex};
use crate::transfer::checksums::{Algorithm, BodyTrailers, Claims, ContentSums, KnownDigests, Sum};
use crate::transfer::upload::{IncomingBody, LengthLimit, length_of};

/// The result of a put.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) etag: ETag,
    /// The version ID in the response; `None` if versioning isn't enabled, even for the version
    /// `null`, as in AWS.
    pub(crate) version_id: Option<String>,
    /// When the version was put, in milliseconds since 1970.
    pub(crate) created_ms: u64,
}

/// Sets the attribute of a checksum.
pub(crate) fn put_sum(sum: Option<&Sum>, attributes: &mut Attributes) {
    if let Some(sum) = sum {
        attributes.set(format!("{}{}", attribute::CHECKSUM, sum.algorithm.name()), sum.value.as_str());
    }
}

/// Sets the attributes of the checksums of an object that is put whole.
pub(crate) fn set_checksums(sums: &ContentSums, attributes: &mut Attributes) {
    put_sum(sums.sum.as_ref(), attributes);
    attributes.set(attribute::ETAG, hex(&sums.md5));
}

impl Gateway {
    pub(crate) async fn put(&self, request: S3Request<PutObjectInput>) -> Answer<PutObjectOutput> {
        let trailers = BodyTrailers::of(&request);
        let original = original(&request.headers, &request.extensions);
        let conditions = PutConditions::of(original, "");
        let mut input = request.input;
        let (bucket, encryption) = self.namespace.destination(&request.extensions, &input)?;
        refuse_acl(input.acl.as_ref().map(|acl| acl.as_str()))?;
        if input.write_offset_bytes.is_some() {
            return Err(s3_error!(NotImplemented, "Appending is not supported: objects are written once."));
        }
        let limit = request.extensions.get::<LengthLimit>().map(|limit| limit.0);
        let length = limit.map_or_else(|| length_of(input.content_length, &request.headers), Ok)?;
        self.transfers.check_room(length)?;
        let claims = Claims::of(&request.headers)?;
        let mut attributes = attributes(&input, Some(original), &bucket)?;
        // The decisive check happens in `store`, which holds the lock of the key.
        self.namespace.check_replaceable(&bucket.name, &input.key, &conditions)?;
        let known_digests = request.extensions.get::<KnownDigests>().copied();
        let hasher = self.transfers.object_hasher(claims, Algorithm::Crc64Nvme).with_known(known_digests);
        let mut body = IncomingBody::of_request(input.body.take(), length, &request.extensions);
        if limit.is_some() {
            body = body.may_end_early();
        }
        let (upload, sums) = self.transfers.receive(&mut body, hasher, &trailers).await?;
        set_checksums(&sums, &mut attributes);
        let stored = self.store(&bucket, &input.key, upload, attributes, &conditions).await?;
        let output = PutObjectOutput {
            e_tag: Some(stored.etag),
            version_id: stored.version_id,
            server_side_encryption: encryption,
            checksum_type: Some(ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
            ..Default::default()
        };
        let mut response = S3Response::new(output);
        if let Some(sum) = sums.sum {
            sum.put(&mut response.headers);
        }
        Ok(response)
    }

    /// Puts an object whose content is in staging, replacing the versions that the bucket doesn't
    /// keep. Returns when the object survives a crash.
    pub(crate) async fn store(
        &self,
        granted: &GrantedBucket,
        key: &str,
        mut upload: Upload,
        mut attributes: Attributes,
        conditions: &PutConditions,
    ) -> S3Result<Stored> {
        let name = object_name(&granted.name, key);
        let key_guard = self.key_locks.lock(name.clone()).await;
        let shared = self.bucket_locks.shared(&granted.name).await;
        // During the transfer the bucket may have been changed, or removed and created again by
        // another account.
        let bucket = granted.current(&self.namespace)?;
        self.namespace.check_replaceable(&bucket.name, key, conditions)?;
        put_default_retention(&bucket, &mut attributes)?;
        let mut replaced = self.namespace.replaced(&bucket, &name, false)?;
        let outnumbered = self.namespace.outnumbered(&bucket, key, &replaced)?;
        let outnumbered_count = outnumbered.len() as u64;
        replaced.extend(outnumbered);
        if bucket.versioning != Versioning::Enabled {
            attributes.set(attribute::NULL, "");
        }
        check_record(&attributes)?;
        let etag = ETag::Strong(attributes.text(attribute::ETAG).unwrap_or_default().to_owned());
        let version_id = (bucket.versioning == Versioning::Enabled).then(|| upload.id().to_string());
        // Under the lock of the key: a client that compares times must not take this version for an
        // older one than the one it replaces, however long the upload took.
        let created_ms = upload.date_now();
        let object = NewObject { name, kind: Kind::File, modified: None, mode: None, attributes };
        self.commit((key_guard, shared), replaced, |replaced, acknowledge| upload.finish(object, replaced, acknowledge)).await?;
        self.jobs.lifecycle.counts.removed_by_puts.fetch_add(outnumbered_count, Ordering::Relaxed);
        Ok(Stored { etag, version_id, created_ms })
    }

    /// Carries out a change that may remove versions, and returns when it survives a crash.
    /// `guards` are released only then.
    pub(crate) async fn commit(
        &self,
        guards: impl Send + 'static,
        removed: Vec<VersionRow>,
        change: impl FnOnce(Vec<VersionRow>, Acknowledge),
    ) -> S3Result<()> {
        let removed_ids: Vec<VersionId> = removed.iter().map(|row| row.id).collect();
        let (acknowledge, acknowledged) = acknowledgement(guards);
        change(removed, acknowledge);
        acknowledged.await.map_err(internal_error("the intake"))?.map_err(not_acknowledged)?;
        self.namespace.forget_state(&removed_ids);
        Ok(())
    }
}

impl Namespace {
    /// The versions that a new version of a name replaces; an error if one of them is locked.
    pub(crate) fn replaced(&self, bucket: &Bucket, name: &ObjectName, bypasses: bool) -> S3Result<Vec<VersionRow>> {
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
    fn forget_state(&self, removed_ids: &[VersionId]) {
        if !removed_ids.is_empty()
            && let Err(error) = self.state.forget_versions(removed_ids)
        {
            tracing::warn!(%error, "can't delete the state of removed versions from the service's database");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::now_ms;
    use crate::test_gateway::{TestGateway, soon};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_slow_put_is_dated_after_the_fast_one_that_it_replaces() {
        let test = TestGateway::new();
        let slow = test.upload(b"slow").await;
        let begun_ms = now_ms();
        soon(async {
            while now_ms() <= begun_ms {
                tokio::task::yield_now().await;
            }
        })
        .await;
        test.put("sun", b"fast").await;
        let created_ms = || test.gateway.namespace.find("photos", "sun", None).expect("it is there").row.record.created_ms;
        let fast_ms = created_ms();
        let stored = soon(test.gateway.store(&test.bucket(), "sun", slow, Attributes::default(), &PutConditions::default())).await;
        assert!(created_ms() >= fast_ms);
        assert_eq!(stored.expect("put").created_ms, created_ms());
    }
}
