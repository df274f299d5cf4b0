//! Who may do what: signatures belong to accounts, buckets to those that made them, and policies let others in.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::path::S3Path;
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use crate::gateway::{Gateway, no_such_bucket, state_failed};
use crate::policy::{Answer, Policy, Question, RequestFacts};
use crate::state::{Account, Bucket, State};

/// Who a request is of; nobody, where a bucket lets everybody in.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Option<Arc<Account>>);

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
pub(crate) struct Gate(pub(crate) Arc<State>);

#[async_trait]
impl S3Access for Gate {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let account = match context.credentials() {
            Some(credentials) => {
                Some(self.0.key(&credentials.access_key).map_err(state_failed)?.ok_or_else(|| s3_error!(InvalidAccessKeyId))?)
            }
            None => None,
        };
        let account = account.map(|key| key.account.clone());
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
                let found = self.0.bucket(name).map_err(state_failed)?;
                match found {
                    Some(bucket) => {
                        let request = RequestFacts { query: context.uri().query(), peer };
                        let action = action_of(operation, request.query);
                        ask(&bucket, account.as_deref(), action, key.as_deref(), &request)?;
                    }
                    // Strangers are not told what there is.
                    None if account.is_none() => return Err(s3_error!(AccessDenied)),
                    None => return Err(no_such_bucket()),
                }
            }
        }
        context.extensions_mut().insert(Caller(account));
        Ok(())
    }
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Whether an account may do something in a bucket, whatever else the request says.
pub(crate) fn may(bucket: &Bucket, account: Option<&Account>, action: &str, key: Option<&str>) -> S3Result<()> {
    ask(bucket, account, action, key, &RequestFacts::default())
}

fn ask(bucket: &Bucket, account: Option<&Account>, action: &str, key: Option<&str>, request: &RequestFacts<'_>) -> S3Result<()> {
    let policy = bucket.policy.as_deref().map(Policy::parse);
    let answer = match policy {
        None => Answer::Silent,
        Some(Ok(policy)) => policy.answer(&Question { account, action, bucket: &bucket.name, key, request: *request }),
        // It was checked when it was put; what can't be read lets nobody in.
        Some(Err(_)) => Answer::Silent,
    };
    let owns = account.is_some_and(|account| account.admin || account.name == bucket.owner);
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
        let account = caller.and_then(|caller| caller.0.as_deref());
        let is_missing = matches!(error.code(), S3ErrorCode::NoSuchKey | S3ErrorCode::NoSuchVersion);
        match may(bucket, account, "s3:ListBucket", None) {
            Err(denied) if is_missing => denied,
            _ => error,
        }
    }

    /// Whether a caller may read an object that it copies from.
    pub(crate) fn may_read(&self, caller: Option<&Caller>, bucket: &Bucket, key: &str, is_version: bool) -> S3Result<()> {
        let account = caller.and_then(|caller| caller.0.as_deref());
        may(bucket, account, if is_version { "s3:GetObjectVersion" } else { "s3:GetObject" }, Some(key))
    }
}

/// The action of a policy that an operation is.
fn action_of(operation: &str, query: Option<&str>) -> &'static str {
    let of_version = query.is_some_and(|query| query.split('&').any(|pair| pair.starts_with("versionId=")));
    match operation {
        "GetObject" | "HeadObject" | "GetObjectAttributes" | "SelectObjectContent" if of_version => "s3:GetObjectVersion",
        "GetObject" | "HeadObject" | "GetObjectAttributes" | "SelectObjectContent" => "s3:GetObject",
        "PutObject"
        | "PostObject"
        | "CopyObject"
        | "CreateMultipartUpload"
        | "UploadPart"
        | "UploadPartCopy"
        | "CompleteMultipartUpload" => "s3:PutObject",
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
        "GetBucketAcl" => "s3:GetBucketAcl",
        "PutBucketAcl" => "s3:PutBucketAcl",
        "DeleteBucket" => "s3:DeleteBucket",
        // Whatever else there is, only the owner may, or whom a policy lets do everything.
        _ => "s3:Other",
    }
}
