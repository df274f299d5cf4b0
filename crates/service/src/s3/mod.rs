//! The operations of S3, one module per group. Operations that are missing here are answered with
//! `NotImplemented`; docs/s3.md lists them.

mod buckets;
pub(crate) mod bulk_get;
pub(crate) mod bulk_put;
pub(crate) mod bulk_request;
mod completed_parts;
mod completion;
pub(crate) mod conditions;
mod copy;
mod cors;
mod delete;
pub(crate) mod encryption;
pub(crate) mod errors;
mod fixed_settings;
mod fixity;
pub(crate) mod framework;
pub(crate) mod get;
pub(crate) mod key_locks;
mod lifecycle;
pub(crate) mod list;
pub(crate) mod listings;
pub(crate) mod multipart;
mod multipart_lists;
pub(crate) mod namespace;
pub(crate) mod new_object;
pub(crate) mod normalize;
mod object_lock;
pub(crate) mod object_names;
pub(crate) mod page_positions;
pub(crate) mod pages;
pub(crate) mod post_object;
mod public_access;
mod put;
mod query_parameters;
mod repeated_completion;
pub(crate) mod restore;
pub(crate) mod tags;
pub(crate) mod version;
pub(crate) mod xml_body;
mod xml_check;

use std::sync::Arc;

use async_trait::async_trait;
use s3s::dto as d;
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::auth::grant::Grant;
use crate::gateway::Gateway;
use crate::s3::errors::FirstError;

/// The response to an operation, or the S3 error.
pub(crate) type Answer<T> = S3Result<S3Response<T>>;

/// The gateway, as an implementation of the framework's trait.
#[derive(Debug, Clone)]
pub(crate) struct Operations(pub(crate) Arc<Gateway>);

/// Implements the framework's trait: for each S3 operation its types and the method that carries it
/// out.
macro_rules! operations {
    ($($operation:ident($input:ident) -> $output:ident: $($method:ident).+ $($wait:ident)?;)*) => {
        #[async_trait]
        impl S3 for Operations {
            $(async fn $operation(&self, request: S3Request<d::$input>) -> Answer<d::$output> {
                let first_error = FirstError::of(&request.extensions);
                // The body, if it is in XML, may have taken long since the gate checked access.
                let granted = Grant::of(&request.extensions).and_then(|grant| grant.check(&self.0.namespace));
                granted.map_err(|error| first_error.keep(error))?;
                // A clone, since completing an upload continues after its client disconnects.
                self.0.clone().$($method).+(request)$(.$wait)?.map_err(|error| first_error.keep(error))
            })*
        }
    };
}

operations! {
    create_bucket(CreateBucketInput) -> CreateBucketOutput: namespace.create_bucket;
    head_bucket(HeadBucketInput) -> HeadBucketOutput: namespace.head_bucket;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput: delete_bucket await;
    list_buckets(ListBucketsInput) -> ListBucketsOutput: namespace.list_buckets;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput: namespace.location;
    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput: namespace.get_versioning;
    put_bucket_versioning(PutBucketVersioningInput) -> PutBucketVersioningOutput: namespace.put_versioning;
    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput: namespace.get_bucket_tags;
    put_bucket_tagging(PutBucketTaggingInput) -> PutBucketTaggingOutput: namespace.put_bucket_tags;
    delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput: namespace.delete_bucket_tags;
    get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput: namespace.get_policy;
    get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput: namespace.policy_status;
    put_bucket_policy(PutBucketPolicyInput) -> PutBucketPolicyOutput: namespace.put_policy;
    delete_bucket_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput: namespace.delete_policy;
    get_object_lock_configuration(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput: namespace.get_lock_configuration;
    put_object_lock_configuration(PutObjectLockConfigurationInput) -> PutObjectLockConfigurationOutput: namespace.put_lock_configuration;
    get_bucket_acl(GetBucketAclInput) -> GetBucketAclOutput: namespace.get_bucket_acl;
    put_bucket_acl(PutBucketAclInput) -> PutBucketAclOutput: namespace.put_bucket_acl;
    get_object_acl(GetObjectAclInput) -> GetObjectAclOutput: namespace.get_object_acl;
    put_object_acl(PutObjectAclInput) -> PutObjectAclOutput: namespace.put_object_acl;
    get_bucket_ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput: namespace.ownership;
    put_bucket_ownership_controls(PutBucketOwnershipControlsInput) -> PutBucketOwnershipControlsOutput: namespace.put_ownership;
    get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput: namespace.get_public_access;
    put_public_access_block(PutPublicAccessBlockInput) -> PutPublicAccessBlockOutput: namespace.put_public_access;
    delete_public_access_block(DeletePublicAccessBlockInput) -> DeletePublicAccessBlockOutput: namespace.delete_public_access;
    get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput: namespace.get_cors;
    put_bucket_cors(PutBucketCorsInput) -> PutBucketCorsOutput: namespace.put_cors;
    delete_bucket_cors(DeleteBucketCorsInput) -> DeleteBucketCorsOutput: namespace.delete_cors;
    get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput: namespace.get_encryption;
    put_bucket_encryption(PutBucketEncryptionInput) -> PutBucketEncryptionOutput: namespace.put_encryption;
    delete_bucket_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput: namespace.delete_encryption;
    get_bucket_request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput: namespace.payer;
    get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput: namespace.logging;
    get_bucket_notification_configuration(GetBucketNotificationConfigurationInput) -> GetBucketNotificationConfigurationOutput: namespace.notifications;
    get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput: namespace.acceleration;
    get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput) -> GetBucketLifecycleConfigurationOutput: namespace.get_lifecycle;
    put_bucket_lifecycle_configuration(PutBucketLifecycleConfigurationInput) -> PutBucketLifecycleConfigurationOutput: put_lifecycle await;
    delete_bucket_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput: delete_lifecycle await;
    get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput: namespace.replication;
    get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput: namespace.website;
    put_object(PutObjectInput) -> PutObjectOutput: put await;
    get_object(GetObjectInput) -> GetObjectOutput: get await;
    head_object(HeadObjectInput) -> HeadObjectOutput: namespace.head;
    get_object_attributes(GetObjectAttributesInput) -> GetObjectAttributesOutput: namespace.attributes;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput: delete await;
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput: delete_many await;
    copy_object(CopyObjectInput) -> CopyObjectOutput: copy await;
    list_objects(ListObjectsInput) -> ListObjectsOutput: list await;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output: list_v2 await;
    list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput: list_versions await;
    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput: namespace.begin_multipart;
    upload_part(UploadPartInput) -> UploadPartOutput: put_part await;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput: copy_part await;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput: complete await;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput: abort await;
    list_parts(ListPartsInput) -> ListPartsOutput: list_parts await;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput: list_uploads await;
    get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput: namespace.get_tags;
    put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput: put_tags await;
    delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput: delete_tags await;
    get_object_retention(GetObjectRetentionInput) -> GetObjectRetentionOutput: namespace.get_retention;
    put_object_retention(PutObjectRetentionInput) -> PutObjectRetentionOutput: put_retention await;
    get_object_legal_hold(GetObjectLegalHoldInput) -> GetObjectLegalHoldOutput: namespace.get_legal_hold;
    put_object_legal_hold(PutObjectLegalHoldInput) -> PutObjectLegalHoldOutput: put_legal_hold await;
    restore_object(RestoreObjectInput) -> RestoreObjectOutput: restore await;
}
