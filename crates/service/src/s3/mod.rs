//! The operations of S3, one module per group. Operations that are missing here are answered with
//! `NotImplemented`; docs/s3.md lists them.

mod buckets;
pub(crate) mod bulk_get;
mod completed_parts;
mod completion;
pub(crate) mod conditions;
mod copy;
mod cors;
mod delete;
pub(crate) mod described;
pub(crate) mod encryption;
pub(crate) mod errors;
pub(crate) mod framework;
pub(crate) mod get;
mod given;
pub(crate) mod key_locks;
pub(crate) mod list;
pub(crate) mod multipart;
mod multipart_lists;
pub(crate) mod normalize;
mod object_lock;
pub(crate) mod pages;
pub(crate) mod post_object;
mod public_access;
mod put;
mod restore;
pub(crate) mod tags;
pub(crate) mod version;
mod xml_body;

use std::sync::Arc;

use async_trait::async_trait;
use s3s::dto as d;
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::gateway::Gateway;
use crate::s3::errors::FirstError;

/// The gateway, as an implementation of the framework's trait.
#[derive(Debug, Clone)]
pub(crate) struct Operations(pub(crate) Arc<Gateway>);

/// Implements the framework's trait: for each S3 operation its types and the method that carries it
/// out.
macro_rules! operations {
    ($($operation:ident($input:ident) -> $output:ident: $method:ident $($wait:ident)?;)*) => {
        #[async_trait]
        impl S3 for Operations {
            $(async fn $operation(&self, request: S3Request<d::$input>) -> S3Result<S3Response<d::$output>> {
                let first = FirstError::of(&request.extensions);
                // A clone, since completing an upload continues after its client disconnects.
                self.0.clone().$method(request)$(.$wait)?.map_err(|error| first.keep(error))
            })*
        }
    };
}

operations! {
    create_bucket(CreateBucketInput) -> CreateBucketOutput: create_bucket;
    head_bucket(HeadBucketInput) -> HeadBucketOutput: head_bucket;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput: delete_bucket await;
    list_buckets(ListBucketsInput) -> ListBucketsOutput: list_buckets;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput: location;
    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput: get_versioning;
    put_bucket_versioning(PutBucketVersioningInput) -> PutBucketVersioningOutput: put_versioning;
    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput: get_bucket_tags;
    put_bucket_tagging(PutBucketTaggingInput) -> PutBucketTaggingOutput: put_bucket_tags;
    delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput: delete_bucket_tags;
    get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput: get_policy;
    get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput: policy_status;
    put_bucket_policy(PutBucketPolicyInput) -> PutBucketPolicyOutput: put_policy;
    delete_bucket_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput: delete_policy;
    get_object_lock_configuration(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput: get_lock_configuration;
    put_object_lock_configuration(PutObjectLockConfigurationInput) -> PutObjectLockConfigurationOutput: put_lock_configuration;
    get_bucket_acl(GetBucketAclInput) -> GetBucketAclOutput: get_bucket_acl;
    put_bucket_acl(PutBucketAclInput) -> PutBucketAclOutput: put_bucket_acl;
    get_object_acl(GetObjectAclInput) -> GetObjectAclOutput: get_object_acl;
    put_object_acl(PutObjectAclInput) -> PutObjectAclOutput: put_object_acl;
    get_bucket_ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput: ownership;
    put_bucket_ownership_controls(PutBucketOwnershipControlsInput) -> PutBucketOwnershipControlsOutput: put_ownership;
    get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput: get_public_access;
    put_public_access_block(PutPublicAccessBlockInput) -> PutPublicAccessBlockOutput: put_public_access;
    delete_public_access_block(DeletePublicAccessBlockInput) -> DeletePublicAccessBlockOutput: delete_public_access;
    get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput: get_cors;
    put_bucket_cors(PutBucketCorsInput) -> PutBucketCorsOutput: put_cors;
    delete_bucket_cors(DeleteBucketCorsInput) -> DeleteBucketCorsOutput: delete_cors;
    get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput: get_encryption;
    put_bucket_encryption(PutBucketEncryptionInput) -> PutBucketEncryptionOutput: put_encryption;
    delete_bucket_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput: delete_encryption;
    get_bucket_request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput: payer;
    get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput: logging;
    get_bucket_notification_configuration(GetBucketNotificationConfigurationInput) -> GetBucketNotificationConfigurationOutput: notifications;
    get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput: acceleration;
    get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput) -> GetBucketLifecycleConfigurationOutput: lifecycle;
    get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput: replication;
    get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput: website;
    put_object(PutObjectInput) -> PutObjectOutput: put await;
    get_object(GetObjectInput) -> GetObjectOutput: get await;
    head_object(HeadObjectInput) -> HeadObjectOutput: head;
    get_object_attributes(GetObjectAttributesInput) -> GetObjectAttributesOutput: attributes;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput: delete await;
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput: delete_many await;
    copy_object(CopyObjectInput) -> CopyObjectOutput: copy await;
    list_objects(ListObjectsInput) -> ListObjectsOutput: list;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output: list_v2;
    list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput: list_versions;
    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput: begin_multipart;
    upload_part(UploadPartInput) -> UploadPartOutput: put_part await;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput: copy_part await;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput: complete await;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput: abort;
    list_parts(ListPartsInput) -> ListPartsOutput: list_parts;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput: list_uploads;
    get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput: get_tags;
    put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput: put_tags;
    delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput: delete_tags;
    get_object_retention(GetObjectRetentionInput) -> GetObjectRetentionOutput: get_retention;
    put_object_retention(PutObjectRetentionInput) -> PutObjectRetentionOutput: put_retention await;
    get_object_legal_hold(GetObjectLegalHoldInput) -> GetObjectLegalHoldOutput: get_legal_hold;
    put_object_legal_hold(PutObjectLegalHoldInput) -> PutObjectLegalHoldOutput: put_legal_hold await;
    restore_object(RestoreObjectInput) -> RestoreObjectOutput: restore await;
}
