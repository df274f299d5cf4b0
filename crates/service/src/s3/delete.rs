//! Deletion: adds a deletion marker in versioned buckets, and removes versions for good in
//! unversioned ones or if the request names a version. With versioning suspended, the marker also
//! replaces the null version.

use std::time::{Duration, Instant};

use fulgurite_archive::NewObject;
use fulgurite_archive::catalogue::VersionRow;
use fulgurite_domain::{Attributes, Kind, ObjectName};
use s3s::dto::{self, DeletedObject, Error, ObjectIdentifier};
use s3s::{S3Request, S3Response, S3Result};

use crate::auth::access::Rights;
use crate::auth::caller::Caller;
use crate::auth::grant::GrantedBucket;
use crate::gateway::Gateway;
use crate::s3::Answer;
use crate::s3::conditions::{ETags, failed as condition_failed};
use crate::s3::errors::{locked, malformed_xml, no_such_key};
use crate::s3::key_locks::{BucketGuard, KeyGuard};
use crate::s3::namespace::Namespace;
use crate::s3::normalize::original;
use crate::s3::object_names::object_name;
use crate::s3::version::{Version, attribute, ms_of};
use crate::state::{Bucket, Versioning, now_ms};

/// Maximum number of keys of one request.
const KEYS_MAX: usize = 1_000;
/// How long access checks may run before the task yields.
const YIELD_AFTER: Duration = Duration::from_millis(1);

/// The result of a deletion.
pub(crate) struct Deleted {
    /// Whether a deletion marker was added or removed.
    marker: bool,
    /// The version that was added or removed.
    version_id: Option<String>,
}

/// One deletion in a request.
struct RequestedDelete<'a> {
    key: &'a str,
    version_id: Option<&'a str>,
    bypasses: bool,
    etag: Option<ETags>,
    size: Option<i64>,
    modified_ms: Option<i64>,
}

impl Gateway {
    pub(crate) async fn delete(&self, request: S3Request<dto::DeleteObjectInput>) -> Answer<dto::DeleteObjectOutput> {
        let caller = request.extensions.get::<Caller>().cloned();
        let etag = ETags::of(original(&request.headers, &request.extensions), "if-match");
        let bucket = self.namespace.granted(&request.extensions, &request.input.bucket)?;
        let input = request.input;
        let version_id = input.version_id.as_deref();
        let bypasses = input.bypass_governance_retention.unwrap_or(false);
        if bypasses {
            self.namespace.may(&bucket, caller.as_ref(), "s3:BypassGovernanceRetention", Some(&input.key), version_id)?;
        }
        let requested = RequestedDelete {
            key: &input.key,
            version_id,
            bypasses,
            etag,
            size: input.if_match_size,
            modified_ms: input.if_match_last_modified_time.as_ref().map(ms_of),
        };
        let deleted = self.delete_one(&bucket, &requested).await?;
        let output =
            dto::DeleteObjectOutput { delete_marker: deleted.marker.then_some(true), version_id: deleted.version_id, ..Default::default() };
        Ok(S3Response::with_status(output, http::StatusCode::NO_CONTENT))
    }

    pub(crate) async fn delete_many(&self, request: S3Request<dto::DeleteObjectsInput>) -> Answer<dto::DeleteObjectsOutput> {
        let caller = request.extensions.get::<Caller>().cloned().unwrap_or_default();
        let bucket = self.namespace.granted(&request.extensions, &request.input.bucket)?;
        let input = request.input;
        let objects = &input.delete.objects;
        if objects.is_empty() || objects.len() > KEYS_MAX || objects.iter().any(|object| object.key.is_empty()) {
            return Err(malformed_xml());
        }
        let quiet = input.delete.quiet.unwrap_or(false);
        let bypasses = input.bypass_governance_retention.unwrap_or(false);
        let access = check_access(&Rights::new(&self.namespace, &bucket, &caller), objects, bypasses).await;
        let one = async |(object, access): (&ObjectIdentifier, S3Result<()>)| {
            access?;
            let requested = RequestedDelete {
                key: &object.key,
                version_id: object.version_id.as_deref(),
                bypasses,
                etag: object.e_tag.clone().map(|etag| ETags::OneOf(vec![etag])),
                size: object.size,
                modified_ms: object.last_modified_time.as_ref().map(ms_of),
            };
            self.delete_one(&bucket, &requested).await
        };
        // Concurrently, so that they share commits; deletions of the same name wait for each other.
        let results = futures_util::future::join_all(objects.iter().zip(access).map(one)).await;
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        for (object, result) in input.delete.objects.into_iter().zip(results) {
            match result {
                Ok(_) if quiet => {}
                Ok(done) => deleted.push(DeletedObject {
                    delete_marker: done.marker.then_some(true),
                    delete_marker_version_id: done.version_id.filter(|_| done.marker),
                    key: Some(object.key),
                    version_id: object.version_id,
                }),
                Err(error) => errors.push(Error {
                    code: Some(error.code().as_str().to_owned()),
                    key: Some(object.key),
                    message: error.message().map(str::to_owned),
                    version_id: object.version_id,
                }),
            }
        }
        let output = dto::DeleteObjectsOutput {
            deleted: (!deleted.is_empty()).then_some(deleted),
            errors: (!errors.is_empty()).then_some(errors),
            ..Default::default()
        };
        Ok(S3Response::new(output))
    }

    async fn delete_one(&self, granted: &GrantedBucket, requested: &RequestedDelete<'_>) -> S3Result<Deleted> {
        let name = object_name(&granted.name, requested.key);
        let key_guard = self.key_locks.lock(name.clone()).await;
        let shared = self.bucket_locks.shared(&granted.name).await;
        // The bucket may have been removed, and created again by another account. A marker in a
        // removed bucket would reappear with the next bucket of that name.
        let bucket = granted.current(&self.namespace)?;
        if let Some(id) = requested.version_id {
            let Some(version) = self.namespace.by_id(&bucket.name, requested.key, id)? else {
                // Deleting a missing version succeeds.
                return Ok(Deleted { marker: false, version_id: Some(id.to_owned()) });
            };
            check_conditions(requested, Some(&version))?;
            self.namespace.check_lock(&version.row, requested.bypasses)?;
            let deleted = Deleted { marker: version.is_marker(), version_id: Some(version.id()) };
            self.remove((key_guard, shared), vec![version.row]).await?;
            return Ok(deleted);
        }
        if requested.etag.is_some() || requested.size.is_some() || requested.modified_ms.is_some() {
            let current = self.namespace.newest(&bucket.name, requested.key)?.filter(|version| !version.is_marker());
            check_conditions(requested, current.as_ref())?;
        }
        self.delete_newest(&bucket, name, (key_guard, shared), requested.bypasses).await
    }

    /// Deletes an object as by a request without a version. `guards` are the locks of its name and
    /// its bucket.
    pub(crate) async fn delete_newest(
        &self,
        bucket: &Bucket,
        name: ObjectName,
        guards: (KeyGuard, BucketGuard),
        bypasses: bool,
    ) -> S3Result<Deleted> {
        let replaced = self.namespace.replaced(bucket, &name, bypasses)?;
        if bucket.versioning == Versioning::Never {
            if !replaced.is_empty() {
                self.remove(guards, replaced).await?;
            }
            return Ok(Deleted { marker: false, version_id: None });
        }
        // The marker needn't name the version that it hides: that is the one before it.
        let mut attributes = Attributes::default();
        if bucket.versioning == Versioning::Suspended {
            attributes.set(attribute::NULL, "");
        }
        let upload = self.transfers.intake.upload();
        let version_id = if bucket.versioning == Versioning::Suspended { "null".to_owned() } else { upload.id().to_string() };
        let marker = NewObject { name, kind: Kind::DeletionMarker, modified: None, mode: None, attributes };
        self.commit(guards, replaced, |replaced, acknowledge| upload.finish(marker, replaced, acknowledge)).await?;
        Ok(Deleted { marker: true, version_id: Some(version_id) })
    }

    /// Removes versions for good.
    pub(crate) async fn remove(&self, guards: impl Send + 'static, versions: Vec<VersionRow>) -> S3Result<()> {
        self.commit(guards, versions, |versions, acknowledge| self.transfers.intake.remove(versions, acknowledge)).await
    }
}

impl Namespace {
    /// Refuses to remove a version under retention or legal hold.
    pub(crate) fn check_lock(&self, row: &VersionRow, bypasses: bool) -> S3Result<()> {
        match self.lock_of(row)?.hold(now_ms(), bypasses) {
            Some(_) => Err(locked()),
            None => Ok(()),
        }
    }
}

/// Checks the access for each of many objects.
async fn check_access(rights: &Rights<'_>, objects: &[ObjectIdentifier], bypasses: bool) -> Vec<S3Result<()>> {
    let mut results = Vec::with_capacity(objects.len());
    let mut begun = Instant::now();
    for object in objects {
        // Policies with many patterns take long for long keys, and other requests must go on.
        if begun.elapsed() >= YIELD_AFTER {
            tokio::task::yield_now().await;
            begun = Instant::now();
        }
        let version_id = object.version_id.as_deref();
        let action = if version_id.is_some() { "s3:DeleteObjectVersion" } else { "s3:DeleteObject" };
        let mut actions = std::iter::once(action).chain(bypasses.then_some("s3:BypassGovernanceRetention"));
        results.push(actions.try_for_each(|action| rights.may(action, Some(&object.key), version_id)));
    }
    results
}

fn check_conditions(requested: &RequestedDelete<'_>, version: Option<&Version>) -> S3Result<()> {
    let Some(version) = version else {
        return if requested.etag.is_some() { Err(no_such_key()) } else { Ok(()) };
    };
    let matches = requested.etag.as_ref().is_none_or(|etags| etags.has(version));
    let fits = requested.size.is_none_or(|size| size as u64 == version.size())
        && requested.modified_ms.is_none_or(|ms| ms / 1_000 == ms_of(&version.modified()) / 1_000);
    if matches && fits { Ok(()) } else { Err(condition_failed()) }
}
