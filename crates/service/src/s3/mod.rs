//! The operations of S3, one module per group. Operations that are missing here are answered with
//! `NotImplemented`; docs/s3.md lists them.

mod buckets;
pub(crate) mod bulk_get;
mod completion;
pub(crate) mod conditions;
pub(crate) mod copy;
mod cors;
mod delete;
pub(crate) mod encryption;
pub(crate) mod errors;
pub(crate) mod get;
mod given;
pub(crate) mod key_locks;
pub(crate) mod list;
mod multipart;
mod multipart_lists;
pub(crate) mod normalize;
mod object_lock;
pub(crate) mod pages;
pub(crate) mod post_object;
mod public_access;
pub(crate) mod put;
mod restore;
pub(crate) mod routes;
pub(crate) mod tags;
pub(crate) mod version;

use std::sync::Arc;

use async_trait::async_trait;
use s3s::dto as d;
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::gateway::Gateway;

/// The gateway as the framework wants it.
#[derive(Debug, Clone)]
pub(crate) struct Operations(pub(crate) Arc<Gateway>);

#[async_trait]
impl S3 for Operations {
    async fn create_bucket(&self, request: S3Request<d::CreateBucketInput>) -> S3Result<S3Response<d::CreateBucketOutput>> {
        self.0.create_bucket(request)
    }
    async fn head_bucket(&self, request: S3Request<d::HeadBucketInput>) -> S3Result<S3Response<d::HeadBucketOutput>> {
        self.0.head_bucket(request)
    }
    async fn delete_bucket(&self, request: S3Request<d::DeleteBucketInput>) -> S3Result<S3Response<d::DeleteBucketOutput>> {
        self.0.delete_bucket(request).await
    }
    async fn list_buckets(&self, request: S3Request<d::ListBucketsInput>) -> S3Result<S3Response<d::ListBucketsOutput>> {
        self.0.list_buckets(request)
    }
    async fn get_bucket_location(&self, request: S3Request<d::GetBucketLocationInput>) -> S3Result<S3Response<d::GetBucketLocationOutput>> {
        self.0.location(request)
    }
    async fn get_bucket_versioning(
        &self,
        request: S3Request<d::GetBucketVersioningInput>,
    ) -> S3Result<S3Response<d::GetBucketVersioningOutput>> {
        self.0.get_versioning(request)
    }
    async fn put_bucket_versioning(
        &self,
        request: S3Request<d::PutBucketVersioningInput>,
    ) -> S3Result<S3Response<d::PutBucketVersioningOutput>> {
        self.0.put_versioning(request)
    }
    async fn get_bucket_tagging(&self, request: S3Request<d::GetBucketTaggingInput>) -> S3Result<S3Response<d::GetBucketTaggingOutput>> {
        self.0.get_bucket_tags(request)
    }
    async fn put_bucket_tagging(&self, request: S3Request<d::PutBucketTaggingInput>) -> S3Result<S3Response<d::PutBucketTaggingOutput>> {
        self.0.put_bucket_tags(request)
    }
    async fn delete_bucket_tagging(
        &self,
        request: S3Request<d::DeleteBucketTaggingInput>,
    ) -> S3Result<S3Response<d::DeleteBucketTaggingOutput>> {
        self.0.delete_bucket_tags(request)
    }
    async fn get_bucket_policy(&self, request: S3Request<d::GetBucketPolicyInput>) -> S3Result<S3Response<d::GetBucketPolicyOutput>> {
        self.0.get_policy(request)
    }
    async fn get_bucket_policy_status(
        &self,
        request: S3Request<d::GetBucketPolicyStatusInput>,
    ) -> S3Result<S3Response<d::GetBucketPolicyStatusOutput>> {
        self.0.policy_status(request)
    }
    async fn put_bucket_policy(&self, request: S3Request<d::PutBucketPolicyInput>) -> S3Result<S3Response<d::PutBucketPolicyOutput>> {
        self.0.put_policy(request)
    }
    async fn delete_bucket_policy(
        &self,
        request: S3Request<d::DeleteBucketPolicyInput>,
    ) -> S3Result<S3Response<d::DeleteBucketPolicyOutput>> {
        self.0.delete_policy(request)
    }
    async fn get_object_lock_configuration(
        &self,
        request: S3Request<d::GetObjectLockConfigurationInput>,
    ) -> S3Result<S3Response<d::GetObjectLockConfigurationOutput>> {
        self.0.get_lock_configuration(request)
    }
    async fn put_object_lock_configuration(
        &self,
        request: S3Request<d::PutObjectLockConfigurationInput>,
    ) -> S3Result<S3Response<d::PutObjectLockConfigurationOutput>> {
        self.0.put_lock_configuration(request)
    }
    async fn get_bucket_acl(&self, request: S3Request<d::GetBucketAclInput>) -> S3Result<S3Response<d::GetBucketAclOutput>> {
        self.0.get_bucket_acl(request)
    }
    async fn put_bucket_acl(&self, request: S3Request<d::PutBucketAclInput>) -> S3Result<S3Response<d::PutBucketAclOutput>> {
        self.0.put_bucket_acl(request)
    }
    async fn get_object_acl(&self, request: S3Request<d::GetObjectAclInput>) -> S3Result<S3Response<d::GetObjectAclOutput>> {
        self.0.get_object_acl(request)
    }
    async fn put_object_acl(&self, request: S3Request<d::PutObjectAclInput>) -> S3Result<S3Response<d::PutObjectAclOutput>> {
        self.0.put_object_acl(request)
    }
    async fn get_bucket_ownership_controls(
        &self,
        request: S3Request<d::GetBucketOwnershipControlsInput>,
    ) -> S3Result<S3Response<d::GetBucketOwnershipControlsOutput>> {
        self.0.ownership(request)
    }
    async fn put_bucket_ownership_controls(
        &self,
        request: S3Request<d::PutBucketOwnershipControlsInput>,
    ) -> S3Result<S3Response<d::PutBucketOwnershipControlsOutput>> {
        self.0.put_ownership(request)
    }
    async fn get_public_access_block(
        &self,
        request: S3Request<d::GetPublicAccessBlockInput>,
    ) -> S3Result<S3Response<d::GetPublicAccessBlockOutput>> {
        self.0.get_public_access(request)
    }
    async fn put_public_access_block(
        &self,
        request: S3Request<d::PutPublicAccessBlockInput>,
    ) -> S3Result<S3Response<d::PutPublicAccessBlockOutput>> {
        self.0.put_public_access(request)
    }
    async fn delete_public_access_block(
        &self,
        request: S3Request<d::DeletePublicAccessBlockInput>,
    ) -> S3Result<S3Response<d::DeletePublicAccessBlockOutput>> {
        self.0.delete_public_access(request)
    }
    async fn get_bucket_cors(&self, request: S3Request<d::GetBucketCorsInput>) -> S3Result<S3Response<d::GetBucketCorsOutput>> {
        self.0.get_cors(request)
    }
    async fn put_bucket_cors(&self, request: S3Request<d::PutBucketCorsInput>) -> S3Result<S3Response<d::PutBucketCorsOutput>> {
        self.0.put_cors(request)
    }
    async fn delete_bucket_cors(&self, request: S3Request<d::DeleteBucketCorsInput>) -> S3Result<S3Response<d::DeleteBucketCorsOutput>> {
        self.0.delete_cors(request)
    }
    async fn get_bucket_encryption(
        &self,
        request: S3Request<d::GetBucketEncryptionInput>,
    ) -> S3Result<S3Response<d::GetBucketEncryptionOutput>> {
        self.0.get_encryption(request)
    }
    async fn put_bucket_encryption(
        &self,
        request: S3Request<d::PutBucketEncryptionInput>,
    ) -> S3Result<S3Response<d::PutBucketEncryptionOutput>> {
        self.0.put_encryption(request)
    }
    async fn delete_bucket_encryption(
        &self,
        request: S3Request<d::DeleteBucketEncryptionInput>,
    ) -> S3Result<S3Response<d::DeleteBucketEncryptionOutput>> {
        self.0.delete_encryption(request)
    }
    async fn get_bucket_request_payment(
        &self,
        request: S3Request<d::GetBucketRequestPaymentInput>,
    ) -> S3Result<S3Response<d::GetBucketRequestPaymentOutput>> {
        self.0.payer(request)
    }
    async fn get_bucket_logging(&self, request: S3Request<d::GetBucketLoggingInput>) -> S3Result<S3Response<d::GetBucketLoggingOutput>> {
        self.0.logging(request)
    }
    async fn get_bucket_notification_configuration(
        &self,
        request: S3Request<d::GetBucketNotificationConfigurationInput>,
    ) -> S3Result<S3Response<d::GetBucketNotificationConfigurationOutput>> {
        self.0.notifications(request)
    }
    async fn get_bucket_accelerate_configuration(
        &self,
        request: S3Request<d::GetBucketAccelerateConfigurationInput>,
    ) -> S3Result<S3Response<d::GetBucketAccelerateConfigurationOutput>> {
        self.0.acceleration(request)
    }
    async fn get_bucket_lifecycle_configuration(
        &self,
        request: S3Request<d::GetBucketLifecycleConfigurationInput>,
    ) -> S3Result<S3Response<d::GetBucketLifecycleConfigurationOutput>> {
        self.0.lifecycle(request)
    }
    async fn get_bucket_replication(
        &self,
        request: S3Request<d::GetBucketReplicationInput>,
    ) -> S3Result<S3Response<d::GetBucketReplicationOutput>> {
        self.0.replication(request)
    }
    async fn get_bucket_website(&self, request: S3Request<d::GetBucketWebsiteInput>) -> S3Result<S3Response<d::GetBucketWebsiteOutput>> {
        self.0.website(request)
    }
    async fn put_object(&self, request: S3Request<d::PutObjectInput>) -> S3Result<S3Response<d::PutObjectOutput>> {
        self.0.put(request).await
    }
    async fn get_object(&self, request: S3Request<d::GetObjectInput>) -> S3Result<S3Response<d::GetObjectOutput>> {
        self.0.get(request).await
    }
    async fn head_object(&self, request: S3Request<d::HeadObjectInput>) -> S3Result<S3Response<d::HeadObjectOutput>> {
        self.0.head(request)
    }
    async fn get_object_attributes(
        &self,
        request: S3Request<d::GetObjectAttributesInput>,
    ) -> S3Result<S3Response<d::GetObjectAttributesOutput>> {
        self.0.attributes(request)
    }
    async fn delete_object(&self, request: S3Request<d::DeleteObjectInput>) -> S3Result<S3Response<d::DeleteObjectOutput>> {
        self.0.delete(request).await
    }
    async fn delete_objects(&self, request: S3Request<d::DeleteObjectsInput>) -> S3Result<S3Response<d::DeleteObjectsOutput>> {
        self.0.delete_many(request).await
    }
    async fn copy_object(&self, request: S3Request<d::CopyObjectInput>) -> S3Result<S3Response<d::CopyObjectOutput>> {
        self.0.copy(request).await
    }
    async fn list_objects(&self, request: S3Request<d::ListObjectsInput>) -> S3Result<S3Response<d::ListObjectsOutput>> {
        self.0.list(request)
    }
    async fn list_objects_v2(&self, request: S3Request<d::ListObjectsV2Input>) -> S3Result<S3Response<d::ListObjectsV2Output>> {
        self.0.list_v2(request)
    }
    async fn list_object_versions(
        &self,
        request: S3Request<d::ListObjectVersionsInput>,
    ) -> S3Result<S3Response<d::ListObjectVersionsOutput>> {
        self.0.list_versions(request)
    }
    async fn create_multipart_upload(
        &self,
        request: S3Request<d::CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<d::CreateMultipartUploadOutput>> {
        self.0.begin_multipart(request)
    }
    async fn upload_part(&self, request: S3Request<d::UploadPartInput>) -> S3Result<S3Response<d::UploadPartOutput>> {
        self.0.put_part(request).await
    }
    async fn upload_part_copy(&self, request: S3Request<d::UploadPartCopyInput>) -> S3Result<S3Response<d::UploadPartCopyOutput>> {
        self.0.copy_part(request).await
    }
    async fn complete_multipart_upload(
        &self,
        request: S3Request<d::CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<d::CompleteMultipartUploadOutput>> {
        self.0.clone().complete(request).await
    }
    async fn abort_multipart_upload(
        &self,
        request: S3Request<d::AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<d::AbortMultipartUploadOutput>> {
        self.0.abort(request)
    }
    async fn list_parts(&self, request: S3Request<d::ListPartsInput>) -> S3Result<S3Response<d::ListPartsOutput>> {
        self.0.list_parts(request)
    }
    async fn list_multipart_uploads(
        &self,
        request: S3Request<d::ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<d::ListMultipartUploadsOutput>> {
        self.0.list_uploads(request)
    }
    async fn get_object_tagging(&self, request: S3Request<d::GetObjectTaggingInput>) -> S3Result<S3Response<d::GetObjectTaggingOutput>> {
        self.0.get_tags(request)
    }
    async fn put_object_tagging(&self, request: S3Request<d::PutObjectTaggingInput>) -> S3Result<S3Response<d::PutObjectTaggingOutput>> {
        self.0.put_tags(request)
    }
    async fn delete_object_tagging(
        &self,
        request: S3Request<d::DeleteObjectTaggingInput>,
    ) -> S3Result<S3Response<d::DeleteObjectTaggingOutput>> {
        self.0.delete_tags(request)
    }
    async fn get_object_retention(
        &self,
        request: S3Request<d::GetObjectRetentionInput>,
    ) -> S3Result<S3Response<d::GetObjectRetentionOutput>> {
        self.0.get_retention(request)
    }
    async fn put_object_retention(
        &self,
        request: S3Request<d::PutObjectRetentionInput>,
    ) -> S3Result<S3Response<d::PutObjectRetentionOutput>> {
        self.0.put_retention(request).await
    }
    async fn get_object_legal_hold(
        &self,
        request: S3Request<d::GetObjectLegalHoldInput>,
    ) -> S3Result<S3Response<d::GetObjectLegalHoldOutput>> {
        self.0.get_legal_hold(request)
    }
    async fn put_object_legal_hold(
        &self,
        request: S3Request<d::PutObjectLegalHoldInput>,
    ) -> S3Result<S3Response<d::PutObjectLegalHoldOutput>> {
        self.0.put_legal_hold(request).await
    }
    async fn restore_object(&self, request: S3Request<d::RestoreObjectInput>) -> S3Result<S3Response<d::RestoreObjectOutput>> {
        self.0.restore(request).await
    }
}
