//! Who may do what: signatures belong to accounts, buckets to those that made them, and policies let others in.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;

use async_trait::async_trait;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::PostObjectInput;
use s3s::path::S3Path;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, s3_error};

use crate::between::Signed;
use crate::failures::{no_such_bucket, state_failed};
use crate::gateway::Gateway;
use crate::policy::{Answer, Policy, Question, RequestFacts};
use crate::state::{Account, Bucket, State};

/// Who a request is of (nobody, where a bucket lets everybody in), and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Option<Arc<Account>>, pub(crate) Option<IpAddr>);

/// Finds the secrets that requests are signed with.
#[derive(Clone)]
pub(crate) struct Signatures(pub(crate) Arc<State>);

#[async_trait]
impl S3Auth for Signatures {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        match self.0.key(access_key).map_err(state_failed)? {
            Some(key) => Ok(SecretKey::from(key.secret.as_str())),
            None => Err(s3_error!(InvalidAccessKeyId, "The AWS Access Key Id you provided does not exist in our records.")),
        }
    }
}

/// Decides before an operation is read.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) state: Arc<State>,
}

#[async_trait]
impl S3Access for Gate {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let signed = context.extensions_mut().get::<Signed>().cloned();
        let key = match signed {
            Some(Signed(key)) => key,
            None => context.credentials().map(|credentials| credentials.access_key.clone()),
        };
        let account = match key {
            Some(key) => Some(self.state.key(&key).map_err(state_failed)?.ok_or_else(|| s3_error!(InvalidAccessKeyId))?.account.clone()),
            None => None,
        };
        let peer = context.extensions_mut().get::<Peer>().map(|peer| peer.0);
        let operation = context.s3_op().name();
        let (bucket, key) = match context.s3_path() {
            S3Path::Root => (None, None),
            S3Path::Bucket { bucket } => (Some(bucket.clone()), None),
            S3Path::Object { bucket, key } => (Some(bucket.clone()), Some(key.clone())),
        };
        match (&bucket, operation) {
            // Whoever has an account may list and make buckets; that there is one of another's, the operation itself says.
            (None, _) | (_, "CreateBucket") => {
                if account.is_none() {
                    return Err(s3_error!(AccessDenied));
                }
            }
            (Some(name), _) => {
                let found = self.state.bucket(name).map_err(state_failed)?;
                match found {
                    Some(bucket) => {
                        self.check_owner(&bucket, context.headers())?;
                        let request = RequestFacts { query: context.uri().query(), peer };
                        let action = action_of(operation, request.query);
                        // Of these, the keys are not known yet; they are asked for one by one.
                        if operation != "DeleteObjects" {
                            ask(&bucket, account.as_deref(), action, key.as_deref(), &request)?;
                        }
                    }
                    // Strangers are not told what there is.
                    None if account.is_none() => return Err(s3_error!(AccessDenied)),
                    None => return Err(no_such_bucket()),
                }
            }
        }
        if takes_grants(operation) && context.headers().keys().any(|name| name.as_str().starts_with("x-amz-grant-")) {
            return Err(s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs"));
        }
        context.extensions_mut().insert(Caller(account, peer));
        Ok(())
    }

    /// Forms are taken before the framework, which reads them otherwise; what gets past is none.
    async fn post_object(&self, _: &mut S3Request<PostObjectInput>) -> S3Result<()> {
        Err(s3_error!(MethodNotAllowed))
    }
}

impl Gate {
    /// Whether a bucket is of who the client says it is.
    fn check_owner(&self, bucket: &Bucket, headers: &HeaderMap) -> S3Result<()> {
        let Some(expected) = headers.get("x-amz-expected-bucket-owner") else { return Ok(()) };
        let owner = self.state.account(&bucket.owner).map_err(state_failed)?;
        let is_owner = owner.is_some_and(|owner| expected == owner.id.as_str() || expected == owner.name.as_str());
        if is_owner { Ok(()) } else { Err(s3_error!(AccessDenied, "Access Denied")) }
    }
}

/// Whether an operation would give rights away by `x-amz-grant-*`.
fn takes_grants(operation: &str) -> bool {
    matches!(operation, "CreateBucket" | "PutBucketAcl" | "PutObjectAcl" | "PutObject" | "CopyObject" | "CreateMultipartUpload")
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Whether who made a request may do something else than it says, or with a key that it says elsewhere than in its path.
pub(crate) fn may_from(bucket: &Bucket, caller: Option<&Caller>, action: &str, key: Option<&str>) -> S3Result<()> {
    let request = RequestFacts { query: None, peer: caller.and_then(|caller| caller.1) };
    ask(bucket, caller.and_then(|caller| caller.0.as_deref()), action, key, &request)
}

fn ask(bucket: &Bucket, account: Option<&Account>, action: &str, key: Option<&str>, request: &RequestFacts<'_>) -> S3Result<()> {
    let policy = bucket.policy.as_deref().map(Policy::parse);
    let is_public = matches!(&policy, Some(Ok(policy)) if policy.is_public());
    let answer = match policy {
        None => Answer::Silent,
        Some(Ok(policy)) => policy.answer(&Question { account, action, bucket: &bucket.name, key, request: *request }),
        // It was checked when it was put; what can't be read lets nobody in.
        Some(Err(_)) => Answer::Silent,
    };
    let owns = account.is_some_and(|account| account.admin || account.name == bucket.owner);
    let is_restricted = !owns && bucket.public_access.is_some_and(|access| access.restrict_buckets);
    if is_restricted && is_public {
        return Err(s3_error!(AccessDenied, "Access Denied"));
    }
    // An owner can always mend a policy that shuts everybody out.
    let mends = owns && matches!(action, "s3:GetBucketPolicy" | "s3:PutBucketPolicy" | "s3:DeleteBucketPolicy");
    match answer {
        Answer::Denied if !mends => Err(s3_error!(AccessDenied, "Access Denied")),
        Answer::Silent if !owns => Err(s3_error!(AccessDenied, "Access Denied")),
        _ => Ok(()),
    }
}

impl Gateway {
    /// What a caller is told who asks for something that isn't there: nothing, if it may not list the bucket either.
    pub(crate) fn hidden(&self, caller: Option<&Caller>, bucket: &Bucket, error: S3Error) -> S3Error {
        let is_missing = matches!(error.code(), S3ErrorCode::NoSuchKey | S3ErrorCode::NoSuchVersion);
        match may_from(bucket, caller, "s3:ListBucket", None) {
            Err(denied) if is_missing => denied,
            _ => error,
        }
    }

    /// Whether a caller may read an object that it copies from.
    pub(crate) fn may_read(&self, caller: Option<&Caller>, bucket: &Bucket, key: &str, is_version: bool) -> S3Result<()> {
        may_from(bucket, caller, if is_version { "s3:GetObjectVersion" } else { "s3:GetObject" }, Some(key))
    }
}

/// The action of a policy that an operation is.
fn action_of(operation: &str, query: Option<&str>) -> &'static str {
    let of_version = query.is_some_and(|query| query.split('&').any(|pair| pair.starts_with("versionId=")));
    match operation {
        "GetObject" | "HeadObject" | "GetObjectAttributes" | "SelectObjectContent" if of_version => "s3:GetObjectVersion",
        "GetObject" | "HeadObject" | "GetObjectAttributes" | "SelectObjectContent" => "s3:GetObject",
        "PutObject" | "CopyObject" | "CreateMultipartUpload" | "UploadPart" | "UploadPartCopy" | "CompleteMultipartUpload" => {
            "s3:PutObject"
        }
        "AbortMultipartUpload" => "s3:AbortMultipartUpload",
        "ListParts" => "s3:ListMultipartUploadParts",
        "ListMultipartUploads" => "s3:ListBucketMultipartUploads",
        "DeleteObject" if of_version => "s3:DeleteObjectVersion",
        "DeleteObject" | "DeleteObjects" => "s3:DeleteObject",
        "ListObjects" | "ListObjectsV2" | "HeadBucket" => "s3:ListBucket",
        "ListObjectVersions" => "s3:ListBucketVersions",
        "GetBucketLocation" => "s3:GetBucketLocation",
        "GetObjectTagging" if of_version => "s3:GetObjectVersionTagging",
        "GetObjectTagging" => "s3:GetObjectTagging",
        "PutObjectTagging" if of_version => "s3:PutObjectVersionTagging",
        "PutObjectTagging" => "s3:PutObjectTagging",
        "DeleteObjectTagging" if of_version => "s3:DeleteObjectVersionTagging",
        "DeleteObjectTagging" => "s3:DeleteObjectTagging",
        "GetObjectAcl" => "s3:GetObjectAcl",
        "PutObjectAcl" => "s3:PutObjectAcl",
        "GetObjectRetention" => "s3:GetObjectRetention",
        "PutObjectRetention" => "s3:PutObjectRetention",
        "GetObjectLegalHold" => "s3:GetObjectLegalHold",
        "PutObjectLegalHold" => "s3:PutObjectLegalHold",
        "RestoreObject" => "s3:RestoreObject",
        "GetBucketPolicyStatus" => "s3:GetBucketPolicyStatus",
        "GetBucketPolicy" => "s3:GetBucketPolicy",
        "PutBucketPolicy" => "s3:PutBucketPolicy",
        "DeleteBucketPolicy" => "s3:DeleteBucketPolicy",
        "GetBucketVersioning" => "s3:GetBucketVersioning",
        "PutBucketVersioning" => "s3:PutBucketVersioning",
        "GetBucketTagging" => "s3:GetBucketTagging",
        "PutBucketTagging" | "DeleteBucketTagging" => "s3:PutBucketTagging",
        "GetObjectLockConfiguration" => "s3:GetBucketObjectLockConfiguration",
        "PutObjectLockConfiguration" => "s3:PutBucketObjectLockConfiguration",
        "GetPublicAccessBlock" => "s3:GetBucketPublicAccessBlock",
        "PutPublicAccessBlock" | "DeletePublicAccessBlock" => "s3:PutBucketPublicAccessBlock",
        "GetBucketCors" => "s3:GetBucketCORS",
        "PutBucketCors" | "DeleteBucketCors" => "s3:PutBucketCORS",
        "GetBucketEncryption" => "s3:GetEncryptionConfiguration",
        "PutBucketEncryption" | "DeleteBucketEncryption" => "s3:PutEncryptionConfiguration",
        "GetBucketRequestPayment" => "s3:GetBucketRequestPayment",
        "GetBucketLogging" => "s3:GetBucketLogging",
        "GetBucketNotificationConfiguration" => "s3:GetBucketNotification",
        "GetBucketAccelerateConfiguration" => "s3:GetAccelerateConfiguration",
        "GetBucketLifecycleConfiguration" => "s3:GetLifecycleConfiguration",
        "GetBucketReplication" => "s3:GetReplicationConfiguration",
        "GetBucketWebsite" => "s3:GetBucketWebsite",
        "GetBucketAcl" => "s3:GetBucketAcl",
        "PutBucketAcl" => "s3:PutBucketAcl",
        "DeleteBucket" => "s3:DeleteBucket",
        // Whatever else there is, only the owner may, or whom a policy lets do everything.
        _ => "s3:Other",
    }
}
