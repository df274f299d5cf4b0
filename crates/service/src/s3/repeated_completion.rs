//! Completions of multipart uploads that are already complete: clients retry when they didn't get
//! the response. A repeated completion changes nothing, whatever was put since.

use fulgurite_archive::catalogue::{ListCursor, Versions};
use s3s::dto::{CompleteMultipartUploadInput, CompleteMultipartUploadOutput};
use s3s::{S3Response, S3Result};

use crate::gateway::Gateway;
use crate::s3::completed_parts::named_etag;
use crate::s3::completion::{CompletionRequest, output_of, with_checksums};
use crate::s3::encryption::encryption_header;
use crate::s3::errors::{catalogue_failed, state_failed};
use crate::s3::multipart::no_such_upload;
use crate::s3::namespace::Namespace;
use crate::s3::object_names::object_name;
use crate::s3::put::Stored;
use crate::s3::version::{Version, attribute};
use crate::state::{Bucket, Versioning, begun_ms};

/// Versions, or uploads, that are looked at by one query.
const ROWS_PER_QUERY: usize = 100;

impl Namespace {
    /// The version that an upload became, if it was completed and the version was not removed
    /// since. Stops at the first page of versions that are all older than the upload; whole pages
    /// are read because the clock may have been set back a little.
    pub(super) fn completed_version(&self, bucket: &str, key: &str, upload_id: &str) -> S3Result<Option<Version>> {
        let Some(begun_ms) = begun_ms(upload_id) else { return Ok(None) };
        let name = object_name(bucket, key);
        let mut after = ListCursor::before_name(name.clone());
        loop {
            let rows = self.archive.reading().list(&name.0, Versions::All, Some(&after), ROWS_PER_QUERY).map_err(catalogue_failed)?;
            let (mut is_last, mut is_old) = (rows.len() < ROWS_PER_QUERY, true);
            for row in rows {
                if row.record.name != name {
                    is_last = true;
                    break;
                }
                if row.record.attributes.text(attribute::UPLOAD) == Some(upload_id) {
                    return Ok(Some(Version::new(row)));
                }
                is_old &= row.record.created_ms < begun_ms;
                after = ListCursor::after_row(&row);
            }
            if is_last || is_old {
                return Ok(None);
            }
        }
    }
}

impl Gateway {
    /// The response to a repeated completion of an upload that became `version`. It fails if the
    /// client lists other parts.
    pub(super) fn repeat_completion(
        &self,
        bucket: &Bucket,
        input: &CompleteMultipartUploadInput,
        completion: &CompletionRequest,
        version: &Version,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        // If it could not be ended when it was completed.
        self.end_upload(&input.upload_id)?;
        if named_etag(&completion.requested_parts).is_none_or(|etag| etag != version.etag().value()) {
            return Err(no_such_upload());
        }
        let version_id = (bucket.versioning == Versioning::Enabled).then(|| version.id());
        let stored = Stored { etag: version.etag(), version_id, created_ms: version.row.record.created_ms };
        let sum = version.sums().pop();
        let algorithm = sum.as_ref().map(|sum| sum.algorithm);
        let mut output = output_of(input, &completion.location, stored, sum, Some(version.checksum_type()));
        output.server_side_encryption = encryption_header(version.row.sealed);
        Ok(with_checksums(output, algorithm))
    }

    /// Ends uploads that a crash left after their objects were stored. Runs before the first
    /// request: once such an object is replaced, nothing shows that the upload was completed.
    pub(crate) fn end_completed_uploads(&self) -> S3Result<()> {
        let mut after = String::new();
        loop {
            let uploads = self.state.upload_keys(&after, ROWS_PER_QUERY).map_err(state_failed)?;
            let Some(last) = uploads.last() else { return Ok(()) };
            after.clone_from(&last.id);
            for upload in uploads {
                if self.namespace.completed_version(&upload.bucket, &upload.key, &upload.id)?.is_some() {
                    self.end_upload(&upload.id)?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::Attributes;
    use s3s::S3ErrorCode;

    use super::*;
    use crate::s3::conditions::PutConditions;
    use crate::test_gateway::{TestGateway, soon};

    /// Begins an upload with one part, and returns its ID and the part's ETag.
    async fn begin(test: &TestGateway) -> (String, String) {
        let id = test.begin_upload("sun");
        let etag = test.put_part(("sun", &id), 1, b"part", &[]).await;
        (id, etag)
    }

    /// Stores an upload's object as its completion does, without ending the upload: as if the
    /// program had crashed there.
    async fn store_without_ending(test: &TestGateway, id: &str, etag: &str) {
        let mut attributes = Attributes::default();
        let part = u128::from_str_radix(etag, 16).expect("an MD5").to_be_bytes();
        attributes.set(attribute::ETAG, crate::s3::completed_parts::etag_of_parts([part]));
        attributes.set(attribute::UPLOAD, id);
        let upload = test.upload(b"part").await;
        soon(test.gateway.store(&test.bucket(), "sun", upload, attributes, &PutConditions::default())).await.expect("put");
    }

    fn ids(test: &TestGateway) -> Vec<String> {
        let rows = test.gateway.namespace.versions(&object_name("photos", "sun")).expect("looked up");
        rows.into_iter().map(|row| Version::new(row).id()).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_completion_ends_the_upload_even_if_its_client_disconnects() {
        let test = std::sync::Arc::new(TestGateway::new());
        let (id, etag) = begin(&test).await;
        let name = object_name("photos", "sun");
        let key_guard = soon(test.gateway.key_locks.lock(name.clone())).await;
        let (client, client_id) = (test.clone(), id.clone());
        let completing = tokio::spawn(async move { client.complete(("sun", &client_id), &[(1, &etag)], &[]).await });
        soon(async {
            while !test.gateway.key_locks.is_contended(&name) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        completing.abort();
        assert!(soon(completing).await.expect_err("the client is gone").is_cancelled());
        drop(key_guard);
        drop(soon(test.gateway.lock_upload(&id)).await);
        assert_eq!(ids(&test), ["null"]);
        assert!(test.gateway.state.upload(&id).expect("looked up").is_none());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_completion_after_a_crash_changes_nothing_even_if_a_newer_version_exists() {
        let test = TestGateway::new();
        test.set_versioning(Versioning::Enabled);
        let (id, etag) = begin(&test).await;
        store_without_ending(&test, &id, &etag).await;
        test.put("sun", b"newer").await;
        let before = ids(&test);
        for headers in [&[][..], &[("if-none-match", "*")]] {
            let repeated = soon(test.complete(("sun", &id), &[(1, &etag)], headers)).await.expect("it is complete");
            assert_eq!(repeated.output.version_id.as_ref(), Some(&before[1]));
            assert!(test.gateway.state.upload(&id).expect("looked up").is_none());
        }
        let others = soon(test.complete(("sun", &id), &[(2, &etag), (3, &etag)], &[])).await;
        assert_eq!(others.expect_err("it had another part").code(), &S3ErrorCode::NoSuchUpload);
        assert_eq!(ids(&test), before);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn uploads_completed_before_a_crash_are_ended_at_the_start() {
        let test = TestGateway::new();
        let (completed, etag) = begin(&test).await;
        store_without_ending(&test, &completed, &etag).await;
        let (open, _) = begin(&test).await;
        test.gateway.end_completed_uploads().expect("looked up");
        assert!(test.gateway.state.upload(&completed).expect("looked up").is_none());
        assert!(test.gateway.state.upload(&open).expect("looked up").is_some());
        test.put("sun", b"newer").await;
        let repeated = soon(test.complete(("sun", &completed), &[(1, &etag)], &[])).await;
        assert_eq!(repeated.expect_err("its object was replaced").code(), &S3ErrorCode::NoSuchUpload);
    }
}
