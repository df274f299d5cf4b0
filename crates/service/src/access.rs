//! Who may do what: signatures belong to accounts, buckets to those that made them, and policies let others in.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::{PostObjectInput, PutObjectTaggingInput, Tag};
use s3s::path::S3Path;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, s3_error};

use crate::between::Signed;
use crate::failures::{custom, no_such_bucket, state_failed};
use crate::gateway::Gateway;
use crate::policy::{Answer, Facts, Origin, Policy, Question, parameter};
use crate::signatures::version_2;
use crate::state::{Account, Bucket, State, now_ms};
use crate::tags;

/// Who a request is of, and where it comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// Nobody, where a bucket lets everybody in.
    pub(crate) account: Option<Arc<Account>>,
    pub(crate) origin: Origin,
}

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
pub(crate) struct Gate(pub(crate) Arc<Gateway>);

#[async_trait]
impl S3Access for Gate {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let state = &self.0.state;
        let signed = context.extensions_mut().get::<Signed>().cloned();
        let key = match signed {
            Some(Signed(key)) => key,
            None => context.credentials().map(|credentials| credentials.access_key.clone()),
        };
        let account = match key {
            Some(key) => Some(state.key(&key).map_err(state_failed)?.ok_or_else(|| s3_error!(InvalidAccessKeyId))?.account.clone()),
            None => None,
        };
        let origin = match context.extensions_mut().get::<Peer>().copied() {
            Some(Peer { address, is_tls }) => Origin::new(Some(address), is_tls, context.headers()),
            None => Origin::new(None, false, context.headers()),
        };
        let caller = Caller { account, origin };
        let operation = context.s3_op().name();
        let (bucket, key) = match context.s3_path() {
            S3Path::Root => (None, None),
            S3Path::Bucket { bucket } => (Some(bucket.clone()), None),
            S3Path::Object { bucket, key } => (Some(bucket.clone()), Some(key.clone())),
        };
        match (&bucket, operation) {
            // Whoever has an account may list and make buckets; that there is one of another's, the operation itself says.
            (None, _) | (_, "CreateBucket") => {
                if caller.account.is_none() {
                    return Err(s3_error!(AccessDenied));
                }
            }
            (Some(name), _) => {
                let found = state.bucket(name).map_err(state_failed)?;
                match found {
                    Some(bucket) => {
                        self.check_owner(&bucket, context.headers())?;
                        // Of these, the keys are not known yet; they are asked for one by one.
                        if !matches!(operation, "PostObject" | "DeleteObjects") {
                            self.check_policy(&bucket, &caller, key.as_deref(), context)?;
                        }
                    }
                    // Strangers are not told what there is.
                    None if caller.account.is_none() => return Err(s3_error!(AccessDenied)),
                    None => return Err(no_such_bucket()),
                }
            }
        }
        if takes_grants(operation) && context.headers().keys().any(|name| name.as_str().starts_with("x-amz-grant-")) {
            return Err(s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs"));
        }
        context.extensions_mut().insert(caller);
        Ok(())
    }

    /// A form says in its fields who signed it, for which key, and what other puts say in headers.
    async fn post_object(&self, request: &mut S3Request<PostObjectInput>) -> S3Result<()> {
        if request.credentials.is_some() {
            // The framework knows no region of a signature of version 2.
            let Some(region) = &request.region else { return Err(version_2()) };
            if region.as_str() != self.0.region || request.service.as_deref() != Some("s3") {
                let message = "The credential in the form is of another region or service.";
                return Err(custom("AuthorizationQueryParametersError", http::StatusCode::BAD_REQUEST, message));
            }
        }
        let input = &request.input;
        let bucket = self.0.bucket(&input.bucket)?;
        let caller = request.extensions.get::<Caller>().cloned().unwrap_or_default();
        let headers = fields(input);
        let new_tags = input.tagging.as_deref().and_then(|tagging| tags::parse(tagging).ok()).unwrap_or_default();
        let facts = Facts { headers: Some(&headers), new_tags: &new_tags, ..Facts::of(&caller.origin, now_ms()) };
        let (policy, account) = (policy_of(&bucket), caller.account.as_deref());
        let actions = ["s3:PutObject"].into_iter().chain(further_actions("PutObject", false, &headers));
        actions.into_iter().try_for_each(|action| self.0.ask(&bucket, policy.as_ref(), account, action, Some(&input.key), facts))
    }

    /// The tags stand in the body.
    async fn put_object_tagging(&self, request: &mut S3Request<PutObjectTaggingInput>) -> S3Result<()> {
        let input = &request.input;
        let bucket = self.0.bucket(&input.bucket)?;
        let policy = policy_of(&bucket);
        if !policy.as_ref().is_some_and(Policy::asks_new_tags) {
            return Ok(());
        }
        let caller = request.extensions.get::<Caller>().cloned().unwrap_or_default();
        let facts = Facts {
            headers: Some(&request.headers),
            version_id: input.version_id.as_deref(),
            new_tags: &input.tagging.tag_set,
            ..Facts::of(&caller.origin, now_ms())
        };
        let action = action_of("PutObjectTagging", input.version_id.is_some());
        self.0.ask(&bucket, policy.as_ref(), caller.account.as_deref(), action, Some(&input.key), facts)
    }
}

impl Gate {
    /// Whether a bucket is of who the client says it is.
    fn check_owner(&self, bucket: &Bucket, headers: &HeaderMap) -> S3Result<()> {
        let Some(expected) = headers.get("x-amz-expected-bucket-owner") else { return Ok(()) };
        let owner = self.0.state.account(&bucket.owner).map_err(state_failed)?;
        let is_owner = owner.is_some_and(|owner| expected == owner.id.as_str() || expected == owner.name.as_str());
        if is_owner { Ok(()) } else { Err(s3_error!(AccessDenied, "Access Denied")) }
    }

    /// Whether a request may do what stands in its first line and headers.
    fn check_policy(&self, bucket: &Bucket, caller: &Caller, key: Option<&str>, context: &S3AccessContext<'_>) -> S3Result<()> {
        let (operation, headers, query) = (context.s3_op().name(), context.headers(), context.uri().query());
        let policy = policy_of(bucket);
        let asks_new_tags = policy.as_ref().is_some_and(Policy::asks_new_tags);
        // It is asked when its body is known.
        if operation == "PutObjectTagging" && asks_new_tags {
            return Ok(());
        }
        let version_id = parameter(query, "versionId");
        let new_tags = if asks_new_tags { new_tags(operation, headers) } else { Vec::new() };
        let facts = Facts {
            query,
            headers: Some(headers),
            version_id: version_id.as_deref(),
            goes_on: matches!(operation, "UploadPart" | "UploadPartCopy" | "CompleteMultipartUpload"),
            new_tags: &new_tags,
            ..Facts::of(&caller.origin, now_ms())
        };
        let action = action_of(operation, version_id.is_some());
        let further = further_actions(operation, version_id.is_some(), headers);
        [action]
            .into_iter()
            .chain(further)
            .try_for_each(|action| self.0.ask(bucket, policy.as_ref(), caller.account.as_deref(), action, key, facts))
    }
}

/// Tags that an object gets by a header. A copy that keeps its tags passes them over.
fn new_tags(operation: &str, headers: &HeaderMap) -> Vec<Tag> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if operation == "CopyObject" && text("x-amz-tagging-directive") != Some("REPLACE") {
        return Vec::new();
    }
    text("x-amz-tagging").and_then(|tagging| tags::parse(tagging).ok()).unwrap_or_default()
}

/// What else an operation does than what it is called by: each is a right of its own.
fn further_actions(operation: &str, of_version: bool, headers: &HeaderMap) -> impl Iterator<Item = &'static str> {
    let makes = matches!(operation, "PutObject" | "CopyObject" | "CreateMultipartUpload");
    let says = |names: &[&str]| makes && names.iter().any(|name| headers.get(*name).is_some_and(|value| !value.is_empty()));
    let attributes = if of_version { "s3:GetObjectVersionAttributes" } else { "s3:GetObjectAttributes" };
    let further = [
        (operation == "GetObjectAttributes", attributes),
        (says(&["x-amz-tagging"]), "s3:PutObjectTagging"),
        (says(&["x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date"]), "s3:PutObjectRetention"),
        (says(&["x-amz-object-lock-legal-hold"]), "s3:PutObjectLegalHold"),
    ];
    further.into_iter().filter_map(|(does, action)| does.then_some(action))
}

/// The fields of a form that policies ask about, by the names of the headers that say the same.
fn fields(input: &PostObjectInput) -> HeaderMap {
    let fields = [
        ("x-amz-tagging", input.tagging.as_deref()),
        ("x-amz-object-lock-mode", input.object_lock_mode.as_ref().map(|mode| mode.as_str())),
        ("x-amz-object-lock-legal-hold", input.object_lock_legal_hold_status.as_ref().map(|status| status.as_str())),
        ("x-amz-acl", input.acl.as_ref().map(|acl| acl.as_str())),
        ("x-amz-server-side-encryption", input.server_side_encryption.as_ref().map(|algorithm| algorithm.as_str())),
        ("x-amz-server-side-encryption-aws-kms-key-id", input.ssekms_key_id.as_deref()),
        ("x-amz-server-side-encryption-customer-algorithm", input.sse_customer_algorithm.as_deref()),
        ("x-amz-storage-class", input.storage_class.as_ref().map(|class| class.as_str())),
        ("x-amz-website-redirect-location", input.website_redirect_location.as_deref()),
    ];
    let given = fields.into_iter().filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::from_str(value?).ok()?)));
    given.collect()
}

/// A bucket's policy. It was checked when it was put; one that can't be read says nothing, and so lets nobody in.
fn policy_of(bucket: &Bucket) -> Option<Policy> {
    Policy::parse(bucket.policy.as_deref()?).ok()
}

/// Whether an operation would give rights away by `x-amz-grant-*`.
fn takes_grants(operation: &str) -> bool {
    matches!(operation, "CreateBucket" | "PutBucketAcl" | "PutObjectAcl" | "PutObject" | "CopyObject" | "CreateMultipartUpload")
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Whether its connection is our own TLS.
    pub(crate) is_tls: bool,
}

impl Gateway {
    /// Whether an account may do something in a bucket.
    fn ask(
        &self,
        bucket: &Bucket,
        policy: Option<&Policy>,
        account: Option<&Account>,
        action: &str,
        key: Option<&str>,
        facts: Facts<'_>,
    ) -> S3Result<()> {
        let answer = match policy {
            None => Answer::Silent,
            Some(policy) => {
                let tags = match key {
                    Some(key) if policy.asks_tags(action) => self.tags_at(&bucket.name, key, facts.version_id)?,
                    _ => Vec::new(),
                };
                let facts = Facts { tags: &tags, ..facts };
                policy.answer(&Question { account, action, bucket: &bucket.name, key, facts })
            }
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

    /// Tags of a version, or of the newest; none where there is none.
    fn tags_at(&self, bucket: &str, key: &str, version_id: Option<&str>) -> S3Result<Vec<Tag>> {
        let found = match version_id {
            None => self.newest(bucket, key)?,
            Some(id) => match self.by_id(bucket, key, id) {
                // It names none; the operation says so, to whom it may.
                Err(error) if matches!(error.code(), S3ErrorCode::InvalidArgument) => None,
                found => found?,
            },
        };
        found.map_or(Ok(Vec::new()), |version| self.tags_of(&version))
    }

    /// Whether who made a request may do something else than stands in its first line, or with another key.
    pub(crate) fn may(
        &self,
        bucket: &Bucket,
        caller: Option<&Caller>,
        action: &str,
        key: Option<&str>,
        version_id: Option<&str>,
    ) -> S3Result<()> {
        let nobody = Caller::default();
        let caller = caller.unwrap_or(&nobody);
        let facts = Facts { version_id, ..Facts::of(&caller.origin, now_ms()) };
        self.ask(bucket, policy_of(bucket).as_ref(), caller.account.as_deref(), action, key, facts)
    }

    /// Whether a copy may put the tags that go along with it.
    pub(crate) fn may_copy_tags(&self, bucket: &Bucket, caller: Option<&Caller>, headers: &HeaderMap, key: &str) -> S3Result<()> {
        let nobody = Caller::default();
        let caller = caller.unwrap_or(&nobody);
        let facts = Facts { headers: Some(headers), ..Facts::of(&caller.origin, now_ms()) };
        self.ask(bucket, policy_of(bucket).as_ref(), caller.account.as_deref(), "s3:PutObjectTagging", Some(key), facts)
    }

    /// What a caller is told who asks for something that isn't there: nothing, if it may not list the bucket either.
    pub(crate) fn hidden(&self, caller: Option<&Caller>, bucket: &Bucket, error: S3Error) -> S3Error {
        let is_missing = matches!(error.code(), S3ErrorCode::NoSuchKey | S3ErrorCode::NoSuchVersion);
        match self.may(bucket, caller, "s3:ListBucket", None, None) {
            Err(denied) if is_missing => denied,
            _ => error,
        }
    }

    /// Whether a caller may read an object that it copies from.
    pub(crate) fn may_read(&self, caller: Option<&Caller>, bucket: &Bucket, key: &str, version_id: Option<&str>) -> S3Result<()> {
        let action = if version_id.is_some() { "s3:GetObjectVersion" } else { "s3:GetObject" };
        self.may(bucket, caller, action, Some(key), version_id)
    }
}

/// The action of a policy that an operation is.
fn action_of(operation: &str, of_version: bool) -> &'static str {
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
        "GetObjectAcl" if of_version => "s3:GetObjectVersionAcl",
        "GetObjectAcl" => "s3:GetObjectAcl",
        "PutObjectAcl" if of_version => "s3:PutObjectVersionAcl",
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
        "GetBucketOwnershipControls" => "s3:GetBucketOwnershipControls",
        "PutBucketOwnershipControls" => "s3:PutBucketOwnershipControls",
        "GetBucketAcl" => "s3:GetBucketAcl",
        "PutBucketAcl" => "s3:PutBucketAcl",
        "DeleteBucket" => "s3:DeleteBucket",
        // Whatever else there is, only the owner may, or whom a policy lets do everything.
        _ => "s3:Other",
    }
}
