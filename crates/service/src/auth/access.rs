//! Access control: signatures identify accounts, accounts own the buckets they create, and bucket
//! policies grant access to others.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::{PostObjectInput, PutObjectTaggingInput, Tag};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, s3_error};

use crate::auth::caller::{Caller, Peer, Signed, origin};
use crate::auth::grant::{AccessQuestion, AdmittedTo, Grant, check_same};
use crate::auth::policy::{Decision, Policy, PolicyRequest, RequestContext};
use crate::http::query::parameter;
use crate::http::url_encoding;
use crate::s3::errors::{FirstError, internal, no_such_bucket, state_failed};
use crate::s3::namespace::Namespace;
use crate::s3::tags;
use crate::state::{Bucket, State, now_ms};

/// The header with the account that the client expects to own the bucket.
pub(crate) const EXPECTED_OWNER: &str = "x-amz-expected-bucket-owner";
/// The header with the account that the client expects to own the source bucket of a copy.
pub(crate) const EXPECTED_SOURCE_OWNER: &str = "x-amz-source-expected-bucket-owner";
/// Query parameters by which a reader sets headers of the response.
const RESPONSE_HEADER_OVERRIDES: [&str; 6] = [
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
];

/// Looks up the secret keys that requests are signed with.
#[derive(Clone)]
pub(crate) struct SecretKeys(pub(crate) Arc<State>);

#[async_trait]
impl S3Auth for SecretKeys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        match self.0.key(access_key).map_err(state_failed)? {
            Some(key) => Ok(SecretKey::from(key.secret.as_str())),
            None => Err(s3_error!(InvalidAccessKeyId, "The AWS Access Key Id you provided does not exist in our records.")),
        }
    }
}

/// Checks access to the bucket or object before the framework parses the operation's input.
#[derive(Clone)]
pub(crate) struct Gate(pub(crate) Arc<Namespace>);

#[async_trait]
impl S3Access for Gate {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let first_error = FirstError::of(context.extensions_mut());
        self.check_request(context).map_err(|error| first_error.keep(error))
    }

    /// Browser forms are handled before the framework, which interprets them differently. A form
    /// that arrives here is refused.
    async fn post_object(&self, _: &mut S3Request<PostObjectInput>) -> S3Result<()> {
        Err(s3_error!(MethodNotAllowed))
    }

    /// The tags are in the body, so conditions on them are checked here and not in `check`.
    async fn put_object_tagging(&self, request: &mut S3Request<PutObjectTaggingInput>) -> S3Result<()> {
        let input = &request.input;
        let bucket = self.0.granted(&request.extensions, &input.bucket)?;
        let caller = request.extensions.get::<Caller>().cloned().unwrap_or_default();
        let rights = Rights::new(&self.0, &bucket, &caller);
        if !rights.asks_new_tags() {
            return Ok(());
        }
        let context = RequestContext {
            headers: Some(&request.headers),
            version_id: input.version_id.as_deref(),
            new_tags: &input.tagging.tag_set,
            ..RequestContext::of(&caller.origin, now_ms())
        };
        rights.ask(action_of("PutObjectTagging", input.version_id.is_some()), Some(&input.key), context)
    }
}

impl Gate {
    /// Checks access of the caller that the request is [`Signed`] by.
    fn check_request(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let state = &self.0.state;
        let Some(Signed(access_key)) = context.extensions_mut().get::<Signed>().cloned() else { return Err(internal()) };
        let account = match &access_key {
            Some(key) => Some(state.key(key).map_err(state_failed)?.ok_or_else(|| s3_error!(InvalidAccessKeyId))?.account.clone()),
            None => None,
        };
        let peer = context.extensions_mut().get::<Peer>().copied();
        let admitted_to = context.extensions_mut().get::<AdmittedTo>().cloned();
        let caller = Caller { account, origin: origin(peer, context.headers()) };
        let question = AccessQuestion::of(context);
        let operation = question.operation.as_str();
        let bucket = match (&question.bucket, operation) {
            // Any account may list and create buckets. CreateBucket itself reports a bucket that
            // another account owns.
            (None, _) | (_, "CreateBucket") => {
                if caller.account.is_none() {
                    return Err(s3_error!(AccessDenied));
                }
                None
            }
            (Some(name), _) => match state.bucket(name).map_err(state_failed)? {
                Some(bucket) => {
                    if let Some(AdmittedTo(admitted_to)) = admitted_to {
                        check_same(&admitted_to, &bucket)?;
                    }
                    check_owner(state, &bucket, context.headers(), EXPECTED_OWNER)?;
                    if question.is_of_policy() {
                        self.0.check_policy(&bucket, &caller, &question)?;
                    }
                    Some(bucket)
                }
                // Anonymous clients must not learn which buckets exist.
                None if caller.account.is_none() => return Err(s3_error!(AccessDenied)),
                None => return Err(no_such_bucket()),
            },
        };
        if matches!(operation, "GetObject" | "HeadObject") {
            check_overrides(context.uri().query(), caller.account.is_none())?;
        }
        if accepts_grants(operation) && context.headers().keys().any(|name| name.as_str().starts_with("x-amz-grant-")) {
            return Err(s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs"));
        }
        context.extensions_mut().insert(caller.clone());
        context.extensions_mut().insert(Grant::new(access_key, caller, question, bucket));
        Ok(())
    }
}

/// Checks the response headers that a reader asks for. Anonymous readers may not set any: a link
/// must not be able to pass an object off as something else.
fn check_overrides(query: Option<&str>, is_anonymous: bool) -> S3Result<()> {
    for pair in query.unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(name) = url_encoding::decode(name).filter(|name| RESPONSE_HEADER_OVERRIDES.contains(&name.as_str())) else { continue };
        if is_anonymous {
            return Err(s3_error!(InvalidRequest, "Request specific response headers cannot be used for anonymous GET requests."));
        }
        if url_encoding::decode(value).is_none_or(|value| HeaderValue::from_str(&value).is_err()) {
            return Err(s3_error!(InvalidArgument, "The value of {name} is not a valid header value."));
        }
    }
    Ok(())
}

/// Checks that the account in this header owns the bucket, if the header is present.
pub(crate) fn check_owner(state: &State, bucket: &Bucket, headers: &HeaderMap, header: &str) -> S3Result<()> {
    let Some(expected) = headers.get(header) else { return Ok(()) };
    let owner = state.account(&bucket.owner).map_err(state_failed)?;
    let is_owner = owner.is_some_and(|owner| expected == owner.id.as_str() || expected == owner.name.as_str());
    if is_owner { Ok(()) } else { Err(s3_error!(AccessDenied, "Access Denied")) }
}

/// Tags that a request sets by header. A copy that keeps the source's tags ignores the header.
fn new_tags(operation: &str, headers: &HeaderMap) -> Vec<Tag> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if operation == "CopyObject" && text("x-amz-tagging-directive") != Some("REPLACE") {
        return Vec::new();
    }
    text("x-amz-tagging").and_then(|tagging| tags::parse(tagging).ok()).unwrap_or_default()
}

/// Further actions that a request needs permission for, besides the one of its operation.
fn further_actions(operation: &str, of_version: bool, headers: &HeaderMap) -> impl Iterator<Item = &'static str> {
    let creates_object = matches!(operation, "PutObject" | "CopyObject" | "CreateMultipartUpload");
    let sets_any = |names: &[&str]| creates_object && names.iter().any(|name| headers.get(*name).is_some_and(|value| !value.is_empty()));
    let attributes = if of_version { "s3:GetObjectVersionAttributes" } else { "s3:GetObjectAttributes" };
    let further = [
        (operation == "GetObjectAttributes", attributes),
        (sets_any(&["x-amz-tagging"]), "s3:PutObjectTagging"),
        (sets_any(&["x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date"]), "s3:PutObjectRetention"),
        (sets_any(&["x-amz-object-lock-legal-hold"]), "s3:PutObjectLegalHold"),
    ];
    further.into_iter().filter_map(|(applies, action)| applies.then_some(action))
}

/// Whether the operation accepts `x-amz-grant-*` headers.
fn accepts_grants(operation: &str) -> bool {
    matches!(operation, "CreateBucket" | "PutBucketAcl" | "PutObjectAcl" | "PutObject" | "CopyObject" | "CreateMultipartUpload")
}

/// The rights of a caller in a bucket. The policy is parsed once for many checks.
pub(crate) struct Rights<'a> {
    namespace: &'a Namespace,
    bucket: &'a Bucket,
    caller: &'a Caller,
    policy: StoredPolicy,
}

/// The stored policy of a bucket.
enum StoredPolicy {
    None,
    Read(Policy),
    /// An unreadable policy could contain any denial, so it denies everything to everyone.
    Unreadable,
}

impl StoredPolicy {
    fn policy(&self) -> Option<&Policy> {
        if let Self::Read(policy) = self { Some(policy) } else { None }
    }
}

impl<'a> Rights<'a> {
    pub(crate) fn new(namespace: &'a Namespace, bucket: &'a Bucket, caller: &'a Caller) -> Self {
        let policy = match bucket.policy.as_deref().map(Policy::parse) {
            None => StoredPolicy::None,
            Some(Ok(policy)) => StoredPolicy::Read(policy),
            // The policy was valid when it was put: either the database is damaged, or a newer
            // program accepted more.
            Some(Err(why)) => {
                namespace.state.note_unreadable(&bucket.name, "policy", &why);
                StoredPolicy::Unreadable
            }
        };
        Self { namespace, bucket, caller, policy }
    }

    /// Whether the decision may depend on the tags that the object gets.
    fn asks_new_tags(&self) -> bool {
        self.policy.policy().is_some_and(Policy::asks_new_tags)
    }

    /// Checks an action that isn't the request's main one, or that is on another key. Conditions on
    /// headers and query parameters find none.
    pub(crate) fn may(&self, action: &str, key: Option<&str>, version_id: Option<&str>) -> S3Result<()> {
        self.ask(action, key, RequestContext { version_id, ..RequestContext::of(&self.caller.origin, now_ms()) })
    }

    fn ask(&self, action: &str, key: Option<&str>, context: RequestContext<'_>) -> S3Result<()> {
        let (bucket, account) = (self.bucket, self.caller.account.as_deref());
        let answer = match &self.policy {
            StoredPolicy::None => Decision::NotApplicable,
            StoredPolicy::Unreadable => Decision::Denied,
            StoredPolicy::Read(policy) => {
                let tags = match key {
                    Some(key) if policy.asks_tags(action) => self.namespace.tags_at(&bucket.name, key, context.version_id)?,
                    _ => Vec::new(),
                };
                let context = RequestContext { tags: &tags, ..context };
                policy.decide(&PolicyRequest { account, action, bucket: &bucket.name, key, context })
            }
        };
        let is_owner = account.is_some_and(|account| account.admin || account.name == bucket.owner);
        let is_restricted = !is_owner && bucket.public_access.is_some_and(|access| access.restrict_buckets);
        if is_restricted && self.policy.policy().is_some_and(Policy::is_public) {
            return Err(s3_error!(AccessDenied, "Access Denied"));
        }
        // An owner may always repair a policy that locks everyone out or can't be read.
        let repairs_policy = is_owner && matches!(action, "s3:GetBucketPolicy" | "s3:PutBucketPolicy" | "s3:DeleteBucketPolicy");
        match answer {
            Decision::Denied if !repairs_policy => Err(s3_error!(AccessDenied, "Access Denied")),
            Decision::NotApplicable if !is_owner => Err(s3_error!(AccessDenied, "Access Denied")),
            _ => Ok(()),
        }
    }

    /// Hides from callers without ListBucket that an object doesn't exist: returns AccessDenied in
    /// place of `NoSuchKey` or `NoSuchVersion`.
    pub(crate) fn hide_missing(&self, error: S3Error) -> S3Error {
        if !matches!(error.code(), S3ErrorCode::NoSuchKey | S3ErrorCode::NoSuchVersion) {
            return error;
        }
        self.may("s3:ListBucket", None, None).err().unwrap_or(error)
    }
}

impl Namespace {
    /// Checks the policy for a request, by its request line and headers.
    pub(crate) fn check_policy(&self, bucket: &Bucket, caller: &Caller, question: &AccessQuestion) -> S3Result<()> {
        let AccessQuestion { operation, key, uri, headers, .. } = question;
        let (operation, query) = (operation.as_str(), uri.query());
        let rights = Rights::new(self, bucket, caller);
        // `put_object_tagging` checks this when the body has been parsed.
        if operation == "PutObjectTagging" && rights.asks_new_tags() {
            return Ok(());
        }
        let version_id = parameter(query, "versionId");
        let new_tags = if rights.asks_new_tags() { new_tags(operation, headers) } else { Vec::new() };
        let context = RequestContext {
            query,
            headers: Some(headers),
            version_id: version_id.as_deref(),
            continues_upload: matches!(operation, "UploadPart" | "UploadPartCopy" | "CompleteMultipartUpload"),
            new_tags: &new_tags,
            ..RequestContext::of(&caller.origin, now_ms())
        };
        let further = further_actions(operation, version_id.is_some(), headers);
        let mut actions = std::iter::once(action_of(operation, version_id.is_some())).chain(further);
        actions.try_for_each(|action| rights.ask(action, key.as_deref(), context))
    }

    /// Tags of the given or newest version; empty if it doesn't exist.
    fn tags_at(&self, bucket: &str, key: &str, version_id: Option<&str>) -> S3Result<Vec<Tag>> {
        let found = match version_id {
            None => self.newest(bucket, key)?,
            Some(id) => match self.by_id(bucket, key, id) {
                // The ID is invalid. The operation reports that to callers with access.
                Err(error) if matches!(error.code(), S3ErrorCode::InvalidArgument) => None,
                found => found?,
            },
        };
        found.map_or(Ok(Vec::new()), |version| self.tags_of(&version))
    }

    /// Checks an action that isn't the request's main one, or that is on another key.
    pub(crate) fn may(
        &self,
        bucket: &Bucket,
        caller: Option<&Caller>,
        action: &str,
        key: Option<&str>,
        version_id: Option<&str>,
    ) -> S3Result<()> {
        Rights::new(self, bucket, caller.unwrap_or(&Caller::default())).may(action, key, version_id)
    }

    /// Checks that a copy may put the tags it takes along.
    pub(crate) fn may_copy_tags(&self, bucket: &Bucket, caller: Option<&Caller>, headers: &HeaderMap, key: &str) -> S3Result<()> {
        let anonymous = Caller::default();
        let caller = caller.unwrap_or(&anonymous);
        let context = RequestContext { headers: Some(headers), ..RequestContext::of(&caller.origin, now_ms()) };
        Rights::new(self, bucket, caller).ask("s3:PutObjectTagging", Some(key), context)
    }

    /// Hides from callers without ListBucket that an object doesn't exist.
    pub(crate) fn hide_missing(&self, caller: Option<&Caller>, bucket: &Bucket, error: S3Error) -> S3Error {
        Rights::new(self, bucket, caller.unwrap_or(&Caller::default())).hide_missing(error)
    }

    /// Checks that a caller may read the source of a copy.
    pub(crate) fn may_read(&self, caller: Option<&Caller>, bucket: &Bucket, key: &str, version_id: Option<&str>) -> S3Result<()> {
        let action = if version_id.is_some() { "s3:GetObjectVersion" } else { "s3:GetObject" };
        self.may(bucket, caller, action, Some(key), version_id)
    }
}

/// The policy action of an operation.
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
        "PutBucketLifecycleConfiguration" | "DeleteBucketLifecycle" => "s3:PutLifecycleConfiguration",
        "GetBucketReplication" => "s3:GetReplicationConfiguration",
        "GetBucketWebsite" => "s3:GetBucketWebsite",
        "GetBucketOwnershipControls" => "s3:GetBucketOwnershipControls",
        "PutBucketOwnershipControls" | "DeleteBucketOwnershipControls" => "s3:PutBucketOwnershipControls",
        "GetBucketAcl" => "s3:GetBucketAcl",
        "PutBucketAcl" => "s3:PutBucketAcl",
        "DeleteBucket" => "s3:DeleteBucket",
        // All other operations need ownership, or a policy that allows every action.
        _ => "s3:Other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::TestGateway;

    #[test]
    fn an_unreadable_policy_denies_everything_except_to_replace_it() {
        let test = TestGateway::new();
        let namespace = &test.gateway.namespace;
        namespace.state.add_account("bob", false).expect("an account");
        let caller = |name: &str| Caller { account: namespace.state.account(name).expect("looked up"), ..Caller::default() };
        let (owner, other, stranger) = (caller("ada"), caller("bob"), Caller::default());
        let all =
            r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::photos/*", "Unless": 1}}"#;
        for unreadable in [all, "", "{"] {
            namespace.state.change_bucket("photos", |bucket| bucket.policy = Some(unreadable.to_owned())).expect("changed");
            let bucket = test.bucket();
            let may =
                |caller: &Caller, action: &str, key: Option<&str>| Rights::new(namespace, &bucket, caller).may(action, key, None).is_ok();
            for caller in [&owner, &other, &stranger] {
                for (action, key) in
                    [("s3:GetObject", Some("k")), ("s3:PutObject", Some("k")), ("s3:ListBucket", None), ("s3:DeleteBucket", None)]
                {
                    assert!(!may(caller, action, key), "{unreadable:?}: {action} is allowed");
                }
            }
            for action in ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"] {
                assert!(may(&owner, action, None), "{unreadable:?}: the owner can't repair it with {action}");
                assert!(!may(&other, action, None) && !may(&stranger, action, None));
            }
            assert_eq!(namespace.state.count_unreadable(), 1, "it is reported once");
        }
        namespace.state.change_bucket("photos", |bucket| bucket.policy = None).expect("changed");
        assert!(Rights::new(namespace, &test.bucket(), &owner).may("s3:GetObject", Some("k"), None).is_ok());
        assert_eq!(namespace.state.count_unreadable(), 0);
    }
}
