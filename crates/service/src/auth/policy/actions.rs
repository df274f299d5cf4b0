//! Actions that policies may name.

use super::patterns::like;

/// Actions that the service checks. [`access`](crate::auth::access) maps operations to them.
const ACTIONS: &str = "AbortMultipartUpload BypassGovernanceRetention DeleteBucket DeleteBucketPolicy DeleteObject \
    DeleteObjectTagging DeleteObjectVersion DeleteObjectVersionTagging GetAccelerateConfiguration GetBucketAcl GetBucketCORS \
    GetBucketLocation GetBucketLogging GetBucketNotification GetBucketObjectLockConfiguration GetBucketOwnershipControls \
    GetBucketPolicy GetBucketPolicyStatus GetBucketPublicAccessBlock GetBucketRequestPayment GetBucketTagging GetBucketVersioning \
    GetBucketWebsite GetEncryptionConfiguration GetLifecycleConfiguration GetObject GetObjectAcl GetObjectAttributes \
    GetObjectLegalHold GetObjectRetention GetObjectTagging GetObjectVersion GetObjectVersionAcl GetObjectVersionAttributes \
    GetObjectVersionTagging GetReplicationConfiguration ListBucket ListBucketMultipartUploads ListBucketVersions \
    ListMultipartUploadParts PutBucketAcl PutBucketCORS PutBucketObjectLockConfiguration PutBucketOwnershipControls \
    PutBucketPolicy PutBucketPublicAccessBlock PutBucketTagging PutBucketVersioning PutEncryptionConfiguration PutObject \
    PutObjectAcl PutObjectLegalHold PutObjectRetention PutObjectTagging PutObjectVersionAcl PutObjectVersionTagging RestoreObject";

/// AWS actions of operations that the service doesn't offer. Allowing or denying them has no
/// effect, and policies that name them are common.
const IDLE_ACTIONS: &str = "DeleteBucketWebsite GetAnalyticsConfiguration \
    GetIntelligentTieringConfiguration GetInventoryConfiguration GetMetricsConfiguration GetObjectTorrent \
    GetObjectVersionForReplication GetObjectVersionTorrent InitiateReplication ObjectOwnerOverrideToBucketOwner \
    PutAccelerateConfiguration PutAnalyticsConfiguration PutBucketLogging PutBucketNotification PutBucketRequestPayment \
    PutBucketWebsite PutIntelligentTieringConfiguration PutInventoryConfiguration PutLifecycleConfiguration \
    PutMetricsConfiguration PutReplicationConfiguration ReplicateDelete ReplicateObject ReplicateTags";

/// Whether an action exists in S3, or a pattern matches one. As in AWS, case doesn't matter.
pub(super) fn is_action(pattern: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    if pattern == "*" {
        return true;
    }
    let Some(pattern) = pattern.strip_prefix("s3:") else { return false };
    ACTIONS.split(' ').chain(IDLE_ACTIONS.split(' ')).any(|action| like(pattern, &action.to_ascii_lowercase()))
}

/// Whether AWS lets an action depend on the tags that the object has. It doesn't for actions that
/// need no object, replace it or remove it.
pub(super) fn knows_existing_tags(action: &str) -> bool {
    !matches!(
        action,
        "s3:PutObject" | "s3:DeleteObject" | "s3:DeleteObjectVersion" | "s3:AbortMultipartUpload" | "s3:ListMultipartUploadParts"
    )
}
