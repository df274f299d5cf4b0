//! Buckets and their settings.

use fulgurite_archive::catalogue::Versions;
use http::Extensions;
use s3s::dto::{
    self, AccessControlPolicy, Bucket as ListedBucket, BucketLocationConstraint, BucketVersioningStatus,
    DefaultRetention as GivenRetention, Grant, Grantee, ObjectLockConfiguration, ObjectLockEnabled, ObjectLockRetentionMode,
    ObjectLockRule, ObjectOwnership, Owner, OwnershipControls, OwnershipControlsRule, Permission, PolicyStatus, Tag, Type,
};
use s3s::xml::{DeResult, Deserialize, Deserializer};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::auth::caller::Caller;
use crate::auth::grant::check_same;
use crate::auth::policy::Policy;
use crate::gateway::Gateway;
use crate::s3::Answer;
use crate::s3::errors::{catalogue_failed, custom, malformed_xml, no_such_bucket, state_failed, unreadable_setting};
use crate::s3::namespace::Namespace;
use crate::s3::new_object::refuse_acl;
use crate::s3::object_names::object_name;
use crate::s3::tags;
use crate::s3::version::timestamp;
use crate::s3::xml_body::{SentBody, Skipped};
use crate::state::{Bucket, DefaultRetention, RetentionMode, Versioning};

/// AWS's oldest region, which keeps two legacy behaviours.
const OLDEST_REGION: &str = "us-east-1";

/// The tags in the configuration of a new bucket, which the framework drops.
#[derive(Debug, Default)]
struct NewBucket(Vec<Tag>);

impl<'xml> Deserialize<'xml> for NewBucket {
    fn deserialize(xml: &mut Deserializer<'xml>) -> DeResult<Self> {
        xml.named_element("CreateBucketConfiguration", |xml| {
            let mut tags = Vec::new();
            xml.for_each_element(|xml, name| match name {
                b"Tags" => {
                    tags.extend(xml.list_content::<Tag>("Tag")?);
                    Ok(())
                }
                _ => xml.content::<Skipped>().map(drop),
            })?;
            Ok(Self(tags))
        })
    }
}

/// Maximum length of a default retention, in years.
const RETENTION_YEARS_MAX: i32 = 100;
/// Maximum length of a default retention, in days: a century.
const RETENTION_DAYS_MAX: i32 = 36_500;
/// Maximum number of buckets of a page.
const BUCKETS_MAX: i32 = 10_000;

impl Namespace {
    pub(crate) fn create_bucket(&self, request: S3Request<dto::CreateBucketInput>) -> Answer<dto::CreateBucketOutput> {
        let account = Caller::account_of(&request.extensions)?;
        let NewBucket(tags) = SentBody::read(&request.extensions)?;
        tags::check(&tags, tags::BUCKET_TAGS_MAX)?;
        let tags = (!tags.is_empty()).then(|| tags::encode(&tags));
        let input = request.input;
        refuse_acl(input.acl.as_ref().map(|acl| acl.as_str()))?;
        refuse_ownership(input.object_ownership.as_ref())?;
        let location = input.create_bucket_configuration.and_then(|configuration| configuration.location_constraint);
        if let Some(location) = location
            && location.as_str() != self.region
            && !location.as_str().is_empty()
        {
            return Err(s3_error!(InvalidLocationConstraint, "The specified location-constraint is not valid: this is {}", self.region));
        }
        let locks = input.object_lock_enabled_for_bucket.unwrap_or(false);
        // The content of a folder without a bucket has no owner yet: the command line put it, or
        // its bucket's row was lost.
        if !account.admin && self.state.bucket(&input.bucket).map_err(state_failed)?.is_none() && self.has_any(&input.bucket)? {
            return Err(s3_error!(
                BucketAlreadyExists,
                "The requested bucket name is not available: the archive has a folder of that name, and only an admin can turn it into a bucket."
            ));
        }
        if !self.state.add_bucket(&input.bucket, &account.name, locks, tags.as_deref()).map_err(state_failed)? {
            let bucket = self.bucket(&input.bucket)?;
            if bucket.owner != account.name {
                return Err(s3_error!(BucketAlreadyExists, "The requested bucket name is not available."));
            }
            // The oldest region answers as if the bucket had just been created, and changes
            // nothing. But a client that asks for object lock must learn that the bucket has none.
            if self.region != OLDEST_REGION || (locks && !bucket.object_lock) {
                return Err(s3_error!(
                    BucketAlreadyOwnedByYou,
                    "Your previous request to create the named bucket succeeded and you already own it."
                ));
            }
        }
        Ok(S3Response::new(dto::CreateBucketOutput { location: Some(format!("/{}", input.bucket)) }))
    }

    pub(crate) fn head_bucket(&self, request: S3Request<dto::HeadBucketInput>) -> Answer<dto::HeadBucketOutput> {
        self.bucket(&request.input.bucket)?;
        Ok(S3Response::new(dto::HeadBucketOutput { bucket_region: Some(self.region.clone()), ..Default::default() }))
    }

    /// Whether the folder of a bucket contains any version.
    fn has_any(&self, bucket: &str) -> S3Result<bool> {
        let prefix = object_name(bucket, "").0;
        let any = self.archive.reading().list(&prefix, Versions::All, None, 1).map_err(catalogue_failed)?;
        Ok(!any.is_empty())
    }

    pub(crate) fn list_buckets(&self, request: S3Request<dto::ListBucketsInput>) -> Answer<dto::ListBucketsOutput> {
        let account = Caller::account_of(&request.extensions)?;
        let input = request.input;
        let all = self.state.buckets(Some(account.name.as_str())).map_err(state_failed)?;
        let limit = match input.max_buckets {
            None => usize::MAX,
            Some(limit @ 1..=BUCKETS_MAX) => limit as usize,
            Some(_) => {
                return Err(s3_error!(InvalidArgument, "Argument max-buckets must be an integer between 1 and {BUCKETS_MAX}."));
            }
        };
        let after = input.continuation_token.unwrap_or_default();
        let prefix = input.prefix.clone().unwrap_or_default();
        let mut matching = all.into_iter().filter(|bucket| bucket.name > after && bucket.name.starts_with(&prefix));
        let buckets: Vec<Bucket> = matching.by_ref().take(limit).collect();
        let next = matching.next().and_then(|_| Some(buckets.last()?.name.clone()));
        let listed = |bucket: &Bucket| ListedBucket {
            name: Some(bucket.name.clone()),
            creation_date: Some(timestamp(bucket.created_ms)),
            bucket_region: Some(self.region.clone()),
        };
        let output = dto::ListBucketsOutput {
            buckets: Some(buckets.iter().map(listed).collect()),
            continuation_token: next,
            owner: Some(Owner { display_name: Some(account.name.clone()), id: Some(account.id.clone()) }),
            prefix: input.prefix,
        };
        Ok(S3Response::new(output))
    }

    pub(crate) fn location(&self, request: S3Request<dto::GetBucketLocationInput>) -> Answer<dto::GetBucketLocationOutput> {
        self.bucket(&request.input.bucket)?;
        // The oldest region is reported as an absent value.
        let location = (self.region != OLDEST_REGION).then(|| BucketLocationConstraint::from(self.region.clone()));
        Ok(S3Response::new(dto::GetBucketLocationOutput { location_constraint: location }))
    }

    /// Changes the bucket that a request names, if the request got access to this one, and its
    /// settings allow the change.
    ///
    /// # Errors
    /// Those of [`granted`](Self::granted), and that of `change`.
    pub(super) fn change(&self, request: &Extensions, name: &str, change: impl FnOnce(&mut Bucket) -> S3Result<()>) -> S3Result<()> {
        let granted = self.granted(request, name)?;
        let checked = |bucket: &mut Bucket| {
            check_same(&granted, bucket)?;
            change(bucket)
        };
        self.state.try_change_bucket(name, checked).map_err(state_failed)?.ok_or_else(no_such_bucket)?
    }

    pub(crate) fn get_versioning(&self, request: S3Request<dto::GetBucketVersioningInput>) -> Answer<dto::GetBucketVersioningOutput> {
        let status = match self.bucket(&request.input.bucket)?.versioning {
            Versioning::Never => None,
            Versioning::Enabled => Some(BucketVersioningStatus::ENABLED),
            Versioning::Suspended => Some(BucketVersioningStatus::SUSPENDED),
        };
        let output = dto::GetBucketVersioningOutput { status: status.map(BucketVersioningStatus::from_static), ..Default::default() };
        Ok(S3Response::new(output))
    }

    pub(crate) fn put_versioning(&self, request: S3Request<dto::PutBucketVersioningInput>) -> Answer<dto::PutBucketVersioningOutput> {
        let input = request.input;
        let versioning = match input.versioning_configuration.status.as_ref().map(BucketVersioningStatus::as_str) {
            Some(BucketVersioningStatus::ENABLED) => Versioning::Enabled,
            Some(BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
            _ => return Err(malformed_xml()),
        };
        self.change(&request.extensions, &input.bucket, |bucket| {
            if bucket.object_lock && versioning != Versioning::Enabled {
                return Err(s3_error!(
                    InvalidBucketState,
                    "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed."
                ));
            }
            bucket.versioning = versioning;
            Ok(())
        })?;
        Ok(S3Response::new(dto::PutBucketVersioningOutput {}))
    }

    pub(crate) fn get_bucket_tags(&self, request: S3Request<dto::GetBucketTaggingInput>) -> Answer<dto::GetBucketTaggingOutput> {
        let bucket = self.bucket(&request.input.bucket)?;
        let tags = bucket.tags.as_deref().ok_or_else(|| s3_error!(NoSuchTagSet, "The TagSet does not exist"))?;
        Ok(S3Response::new(dto::GetBucketTaggingOutput { tag_set: tags::parse(tags)? }))
    }

    pub(crate) fn put_bucket_tags(&self, request: S3Request<dto::PutBucketTaggingInput>) -> Answer<dto::PutBucketTaggingOutput> {
        let input = request.input;
        tags::check(&input.tagging.tag_set, tags::BUCKET_TAGS_MAX)?;
        self.change(&request.extensions, &input.bucket, |bucket| {
            bucket.tags = Some(tags::encode(&input.tagging.tag_set));
            Ok(())
        })?;
        Ok(S3Response::with_status(dto::PutBucketTaggingOutput {}, http::StatusCode::NO_CONTENT))
    }

    pub(crate) fn delete_bucket_tags(&self, request: S3Request<dto::DeleteBucketTaggingInput>) -> Answer<dto::DeleteBucketTaggingOutput> {
        self.change(&request.extensions, &request.input.bucket, |bucket| {
            bucket.tags = None;
            Ok(())
        })?;
        Ok(S3Response::with_status(dto::DeleteBucketTaggingOutput {}, http::StatusCode::NO_CONTENT))
    }

    pub(crate) fn get_policy(&self, request: S3Request<dto::GetBucketPolicyInput>) -> Answer<dto::GetBucketPolicyOutput> {
        let bucket = self.bucket(&request.input.bucket)?;
        let policy = bucket.policy.clone().ok_or_else(|| s3_error!(NoSuchBucketPolicy, "The bucket policy does not exist"))?;
        Ok(S3Response::new(dto::GetBucketPolicyOutput { policy: Some(policy) }))
    }

    pub(crate) fn policy_status(&self, request: S3Request<dto::GetBucketPolicyStatusInput>) -> Answer<dto::GetBucketPolicyStatusOutput> {
        let bucket = self.bucket(&request.input.bucket)?;
        // Without a policy, or with an unreadable one, nothing is public. AWS returns an error;
        // other servers answer as here.
        let is_public = bucket.policy.as_deref().is_some_and(|policy| Policy::parse(policy).is_ok_and(|policy| policy.is_public()));
        Ok(S3Response::new(dto::GetBucketPolicyStatusOutput { policy_status: Some(PolicyStatus { is_public: Some(is_public) }) }))
    }

    pub(crate) fn put_policy(&self, request: S3Request<dto::PutBucketPolicyInput>) -> Answer<dto::PutBucketPolicyOutput> {
        let input = request.input;
        let checked = Policy::parse(&input.policy).and_then(|policy| policy.check(&input.bucket).map(|()| policy.is_public()));
        let is_public = checked.map_err(|wrong| s3_error!(MalformedPolicy, "{wrong}"))?;
        self.change(&request.extensions, &input.bucket, |bucket| {
            if is_public && bucket.public_access.is_some_and(|access| access.block_policy) {
                return Err(s3_error!(
                    AccessDenied,
                    "The policy grants public access, which the bucket's setting BlockPublicPolicy forbids."
                ));
            }
            bucket.policy = Some(input.policy);
            Ok(())
        })?;
        Ok(S3Response::with_status(dto::PutBucketPolicyOutput {}, http::StatusCode::NO_CONTENT))
    }

    pub(crate) fn delete_policy(&self, request: S3Request<dto::DeleteBucketPolicyInput>) -> Answer<dto::DeleteBucketPolicyOutput> {
        self.change(&request.extensions, &request.input.bucket, |bucket| {
            bucket.policy = None;
            Ok(())
        })?;
        Ok(S3Response::with_status(dto::DeleteBucketPolicyOutput {}, http::StatusCode::NO_CONTENT))
    }

    pub(crate) fn get_lock_configuration(
        &self,
        request: S3Request<dto::GetObjectLockConfigurationInput>,
    ) -> Answer<dto::GetObjectLockConfigurationOutput> {
        let bucket = self.bucket(&request.input.bucket)?;
        if !bucket.object_lock {
            return Err(s3_error!(ObjectLockConfigurationNotFoundError, "Object Lock configuration does not exist for this bucket"));
        }
        if bucket.unreadable.retention {
            return Err(unreadable_setting("default retention"));
        }
        let rule = bucket.retention.map(|retention| ObjectLockRule {
            default_retention: Some(GivenRetention {
                days: (!retention.in_years).then_some(retention.period as i32),
                years: retention.in_years.then_some(retention.period as i32),
                mode: Some(ObjectLockRetentionMode::from(retention.mode.name().to_owned())),
            }),
        });
        let configuration =
            ObjectLockConfiguration { object_lock_enabled: Some(ObjectLockEnabled::from_static(ObjectLockEnabled::ENABLED)), rule };
        Ok(S3Response::new(dto::GetObjectLockConfigurationOutput { object_lock_configuration: Some(configuration) }))
    }

    pub(crate) fn put_lock_configuration(
        &self,
        request: S3Request<dto::PutObjectLockConfigurationInput>,
    ) -> Answer<dto::PutObjectLockConfigurationOutput> {
        let input = request.input;
        let configuration = input.object_lock_configuration.ok_or_else(malformed_xml)?;
        if configuration.object_lock_enabled.is_none_or(|enabled| enabled.as_str() != ObjectLockEnabled::ENABLED) {
            return Err(malformed_xml());
        }
        let retention = match configuration.rule {
            None => None,
            Some(rule) => {
                let given = rule.default_retention.ok_or_else(malformed_xml)?;
                let mode = given.mode.as_ref().and_then(|mode| RetentionMode::parse(mode.as_str())).ok_or_else(malformed_xml)?;
                let (period, in_years) = match (given.days, given.years) {
                    (Some(days), None) => (days, false),
                    (None, Some(years)) => (years, true),
                    _ => return Err(malformed_xml()),
                };
                let limit = if in_years { RETENTION_YEARS_MAX } else { RETENTION_DAYS_MAX };
                if period < 1 {
                    let message = "Default retention period must be a positive integer value.";
                    return Err(custom("InvalidRetentionPeriod", http::StatusCode::BAD_REQUEST, message));
                }
                if period > limit {
                    return Err(s3_error!(InvalidArgument, "Default retention period too large: at most {limit}."));
                }
                Some(DefaultRetention { mode, period: period as u32, in_years })
            }
        };
        self.change(&request.extensions, &input.bucket, |bucket| {
            if bucket.versioning != Versioning::Enabled {
                return Err(s3_error!(
                    InvalidBucketState,
                    "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration"
                ));
            }
            (bucket.object_lock, bucket.retention) = (true, retention);
            bucket.unreadable.retention = false;
            Ok(())
        })?;
        Ok(S3Response::new(dto::PutObjectLockConfigurationOutput::default()))
    }

    /// The canonical ID of an account, if it still exists.
    pub(super) fn account_id(&self, name: &str) -> S3Result<Option<String>> {
        Ok(self.state.account(name).map_err(state_failed)?.map(|account| account.id.clone()))
    }

    pub(super) fn owner(&self, bucket: &Bucket) -> S3Result<Owner> {
        Ok(Owner { display_name: Some(bucket.owner.clone()), id: self.account_id(&bucket.owner)? })
    }

    fn full_control(&self, bucket: &Bucket) -> S3Result<(Owner, Vec<Grant>)> {
        let owner = self.owner(bucket)?;
        let grantee = Grantee {
            display_name: owner.display_name.clone(),
            email_address: None,
            id: owner.id.clone(),
            type_: Type::from_static(Type::CANONICAL_USER),
            uri: None,
        };
        let grant = Grant { grantee: Some(grantee), permission: Some(Permission::from_static(Permission::FULL_CONTROL)) };
        Ok((owner, vec![grant]))
    }

    pub(crate) fn get_bucket_acl(&self, request: S3Request<dto::GetBucketAclInput>) -> Answer<dto::GetBucketAclOutput> {
        let (owner, grants) = self.full_control(&*self.bucket(&request.input.bucket)?)?;
        Ok(S3Response::new(dto::GetBucketAclOutput { grants: Some(grants), owner: Some(owner) }))
    }

    pub(crate) fn get_object_acl(&self, request: S3Request<dto::GetObjectAclInput>) -> Answer<dto::GetObjectAclOutput> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        self.find(&bucket.name, &input.key, input.version_id.as_deref())?;
        let (owner, grants) = self.full_control(&bucket)?;
        Ok(S3Response::new(dto::GetObjectAclOutput { grants: Some(grants), owner: Some(owner), ..Default::default() }))
    }

    pub(crate) fn put_bucket_acl(&self, request: S3Request<dto::PutBucketAclInput>) -> Answer<dto::PutBucketAclOutput> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        self.refuse_grants(&bucket, input.access_control_policy.as_ref())?;
        refuse_acl(input.acl.as_ref().map(|acl| acl.as_str()))?;
        Ok(S3Response::new(dto::PutBucketAclOutput {}))
    }

    pub(crate) fn put_object_acl(&self, request: S3Request<dto::PutObjectAclInput>) -> Answer<dto::PutObjectAclOutput> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        self.find(&bucket.name, &input.key, input.version_id.as_deref())?;
        self.refuse_grants(&bucket, input.access_control_policy.as_ref())?;
        refuse_acl(input.acl.as_ref().map(|acl| acl.as_str()))?;
        Ok(S3Response::new(dto::PutObjectAclOutput::default()))
    }

    /// Accepts an ACL in a body only if it states what is already so: the bucket's owner has full
    /// control. (The gate refuses grants in headers.)
    fn refuse_grants(&self, bucket: &Bucket, given: Option<&AccessControlPolicy>) -> S3Result<()> {
        let Some(given) = given else { return Ok(()) };
        let (owner, current_grants) = self.full_control(bucket)?;
        let is_owner = |id: &Option<String>| *id == owner.id;
        let is_current = |grant: &Grant| {
            grant.permission == current_grants[0].permission
                && grant.grantee.as_ref().is_some_and(|grantee| is_owner(&grantee.id) && grantee.uri.is_none())
        };
        let grants = given.grants.as_deref().unwrap_or_default();
        if grants.is_empty() || !grants.iter().all(is_current) || !given.owner.as_ref().is_none_or(|owner| is_owner(&owner.id)) {
            return refuse_acl(Some("grants"));
        }
        Ok(())
    }

    pub(crate) fn ownership(
        &self,
        request: S3Request<dto::GetBucketOwnershipControlsInput>,
    ) -> Answer<dto::GetBucketOwnershipControlsOutput> {
        self.bucket(&request.input.bucket)?;
        let rule = OwnershipControlsRule { object_ownership: ObjectOwnership::from_static(ObjectOwnership::BUCKET_OWNER_ENFORCED) };
        Ok(S3Response::new(dto::GetBucketOwnershipControlsOutput { ownership_controls: Some(OwnershipControls { rules: vec![rule] }) }))
    }

    pub(crate) fn put_ownership(
        &self,
        request: S3Request<dto::PutBucketOwnershipControlsInput>,
    ) -> Answer<dto::PutBucketOwnershipControlsOutput> {
        let input = request.input;
        self.bucket(&input.bucket)?;
        match input.ownership_controls.rules.as_slice() {
            [rule] => refuse_ownership(Some(&rule.object_ownership))?,
            _ => return Err(malformed_xml()),
        }
        Ok(S3Response::new(dto::PutBucketOwnershipControlsOutput {}))
    }
}

impl Gateway {
    pub(crate) async fn delete_bucket(&self, request: S3Request<dto::DeleteBucketInput>) -> Answer<dto::DeleteBucketOutput> {
        let granted = self.namespace.granted(&request.extensions, &request.input.bucket)?;
        let name = request.input.bucket;
        let _bucket_guard = self.bucket_locks.exclusive(&name).await;
        let bucket = granted.current(&self.namespace)?;
        if self.namespace.has_any(&bucket.name)? {
            let message = "The bucket you tried to delete is not empty. You must delete all versions in the bucket.";
            return Err(s3_error!(BucketNotEmpty, "{message}"));
        }
        let uploads = self.state.uploads(&name, "", ("", ""), usize::MAX).map_err(state_failed)?;
        for upload in uploads {
            self.end_upload(&upload.id)?;
        }
        if !self.state.remove_bucket(&name).map_err(state_failed)? {
            return Err(no_such_bucket());
        }
        Ok(S3Response::with_status(dto::DeleteBucketOutput {}, http::StatusCode::NO_CONTENT))
    }
}

/// The bucket's owner owns all objects in it. Ignoring another setting would give rights to another
/// account than the client expects.
fn refuse_ownership(wanted: Option<&ObjectOwnership>) -> S3Result<()> {
    match wanted.map(ObjectOwnership::as_str) {
        None | Some(ObjectOwnership::BUCKET_OWNER_ENFORCED) => Ok(()),
        Some(ObjectOwnership::BUCKET_OWNER_PREFERRED | ObjectOwnership::OBJECT_WRITER) => {
            Err(s3_error!(NotImplemented, "ACLs are disabled: BucketOwnerEnforced is the only supported object ownership."))
        }
        Some(_) => Err(malformed_xml()),
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::Attributes;
    use futures_util::poll;

    use super::*;
    use crate::s3::conditions::PutConditions;
    use crate::test_gateway::{TestGateway, s3_request, soon};

    fn request(bucket: &str) -> S3Request<dto::DeleteBucketInput> {
        let input = dto::DeleteBucketInput { bucket: bucket.to_owned(), ..Default::default() };
        s3_request(http::Method::DELETE, input)
    }

    #[test]
    fn elements_nested_without_end_are_skipped_in_the_body_of_a_new_bucket() {
        for name in ["a", ""] {
            let (opened, closed) = (format!("<{name}>").repeat(200_000), format!("</{name}>").repeat(200_000));
            let tags = "<Tags><Tag><Key>k</Key><Value>v</Value></Tag></Tags>";
            let body = format!("<CreateBucketConfiguration>{opened}{closed}{tags}</CreateBucketConfiguration>");
            let read = NewBucket::deserialize(&mut Deserializer::new(body.as_bytes()));
            assert_eq!(read.expect("the parser accepts even elements without a name").0.len(), 1, "{name:?}");
        }
    }

    /// Another request may change the bucket between the lookup and the change, as another process
    /// does here: the cache still has the bucket as it was.
    #[test]
    fn versioning_and_object_lock_are_checked_against_the_stored_bucket() {
        let test = TestGateway::new();
        let namespace = &test.gateway.namespace;
        let other = crate::state::State::open(test.gateway.archive.clone()).expect("another connection");
        let store = |change: fn(&mut Bucket)| {
            namespace.bucket("photos").expect("it is in the cache");
            other.change_bucket("photos", change).expect("changed").expect("it exists");
        };
        store(|bucket| (bucket.object_lock, bucket.versioning) = (true, Versioning::Enabled));
        let mut input = dto::PutBucketVersioningInput::builder();
        input.set_bucket("photos".to_owned());
        let status = Some(BucketVersioningStatus::from_static(BucketVersioningStatus::SUSPENDED));
        input.set_versioning_configuration(dto::VersioningConfiguration { status, ..Default::default() });
        let refused = namespace.put_versioning(s3_request(http::Method::PUT, input.build().expect("complete"))).expect_err("it has a lock");
        assert_eq!(refused.code().as_str(), "InvalidBucketState");
        store(|bucket| (bucket.object_lock, bucket.versioning) = (false, Versioning::Suspended));
        let object_lock_enabled = Some(ObjectLockEnabled::from_static(ObjectLockEnabled::ENABLED));
        let input = dto::PutObjectLockConfigurationInput {
            bucket: "photos".to_owned(),
            object_lock_configuration: Some(ObjectLockConfiguration { object_lock_enabled, rule: None }),
            ..Default::default()
        };
        let refused = namespace.put_lock_configuration(s3_request(http::Method::PUT, input)).expect_err("versions aren't kept");
        assert_eq!(refused.code().as_str(), "InvalidBucketState");
        let bucket = other.bucket("photos").expect("looked up").expect("it exists");
        assert!(!bucket.object_lock && bucket.versioning == Versioning::Suspended);
    }

    #[tokio::test]
    async fn a_removal_waits_for_puts_and_then_finds_the_bucket_not_empty() {
        let test = TestGateway::new();
        // Holds the lock as a put does between its lookup of the bucket and its acknowledgement.
        let shared = soon(test.gateway.bucket_locks.shared("photos")).await;
        let mut removal = std::pin::pin!(test.gateway.delete_bucket(request("photos")));
        assert!(poll!(&mut removal).is_pending());
        let (acknowledge, acknowledged) = crate::gateway::acknowledgement(shared);
        let object = fulgurite_archive::NewObject {
            name: object_name("photos", "moon"),
            kind: fulgurite_domain::Kind::File,
            modified: None,
            mode: None,
            attributes: Attributes::default(),
        };
        test.upload(b"moon").await.finish(object, Vec::new(), acknowledge);
        soon(acknowledged).await.expect("an answer").expect("acknowledged");
        let refused = soon(removal).await.expect_err("it is not empty");
        assert_eq!(refused.code().as_str(), "BucketNotEmpty");
        assert!(test.gateway.namespace.newest("photos", "moon").expect("looked").is_some());
    }

    #[tokio::test]
    async fn a_put_into_a_bucket_being_removed_fails() {
        let test = TestGateway::new();
        let bucket = test.bucket();
        let alone = soon(test.gateway.bucket_locks.exclusive("photos")).await;
        let upload = test.upload(b"moon").await;
        let conditions = PutConditions::default();
        let mut put = std::pin::pin!(test.gateway.store(&bucket, "moon", upload, Attributes::default(), &conditions));
        assert!(poll!(&mut put).is_pending());
        assert!(test.gateway.state.remove_bucket("photos").expect("removed"));
        drop(alone);
        assert_eq!(soon(put).await.expect_err("it is gone").code().as_str(), "NoSuchBucket");
        assert!(test.gateway.namespace.newest("photos", "moon").expect("looked").is_none());
    }
}
