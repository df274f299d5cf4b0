//! Sets, returns and deletes the lifecycle rules of a bucket. [`crate::jobs::lifecycle`] carries
//! them out.

use std::collections::BTreeSet;

use http::Extensions;
use s3s::dto::{
    self, AbortIncompleteMultipartUpload, ExpirationStatus, LifecycleExpiration, LifecycleRule, LifecycleRuleAndOperator,
    LifecycleRuleFilter, NoncurrentVersionExpiration, Tag,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::gateway::Gateway;
use crate::lifecycle::{DAY_MS, Expiration, Filter, Noncurrent, Rule, Rules};
use crate::s3::Answer;
use crate::s3::errors::{custom, malformed_xml, unreadable_setting};
use crate::s3::namespace::Namespace;
use crate::s3::tags;
use crate::s3::version::{ms_of, timestamp};
use crate::state::{hex, random};

/// Maximum number of rules of a bucket, the same as AWS.
const RULES_MAX: usize = 1_000;
/// Maximum size of a bucket's stored rules.
const RULES_BYTES_MAX: usize = 256 << 10;
/// Maximum length of a rule's name, the same as AWS.
const ID_CHARS_MAX: usize = 255;
/// Maximum number of noncurrent versions that a rule can keep, the same as AWS.
const NEWER_MAX: u32 = 100;

impl Namespace {
    pub(crate) fn get_lifecycle(
        &self,
        request: S3Request<dto::GetBucketLifecycleConfigurationInput>,
    ) -> Answer<dto::GetBucketLifecycleConfigurationOutput> {
        let bucket = self.bucket(&request.input.bucket)?;
        if bucket.unreadable.lifecycle {
            return Err(unreadable_setting("lifecycle configuration"));
        }
        let Some(rules) = bucket.lifecycle.clone() else {
            let message = "The lifecycle configuration does not exist";
            return Err(custom("NoSuchLifecycleConfiguration", http::StatusCode::NOT_FOUND, message));
        };
        let rules = rules.0.into_iter().map(to_dto).collect();
        Ok(S3Response::new(dto::GetBucketLifecycleConfigurationOutput { rules: Some(rules), ..Default::default() }))
    }
}

impl Gateway {
    pub(crate) async fn put_lifecycle(
        &self,
        request: S3Request<dto::PutBucketLifecycleConfigurationInput>,
    ) -> Answer<dto::PutBucketLifecycleConfigurationOutput> {
        let input = request.input;
        self.namespace.bucket(&input.bucket)?;
        let given = input.lifecycle_configuration.ok_or_else(malformed_xml)?.rules;
        if given.is_empty() || given.len() > RULES_MAX {
            return Err(s3_error!(MalformedXML, "A lifecycle configuration must have 1 to {RULES_MAX} rules."));
        }
        let rules = Rules(given.into_iter().map(from_dto).collect::<S3Result<_>>()?);
        let mut ids = BTreeSet::new();
        if !rules.0.iter().all(|rule| ids.insert(&rule.id)) {
            return Err(s3_error!(InvalidArgument, "Rule ID must be unique. Found same ID for more than one rule"));
        }
        // Every backup of the service's state contains the rules.
        if serde_json::to_vec(&rules).expect("rules are text and numbers").len() > RULES_BYTES_MAX {
            let message = "Your request was too large: the limit of a lifecycle configuration is 256 KiB as stored.";
            return Err(custom("MaxMessageLengthExceeded", http::StatusCode::BAD_REQUEST, message));
        }
        self.change_lifecycle(&request.extensions, &input.bucket, Some(rules)).await?;
        self.jobs.lifecycle.rules_changed(&input.bucket);
        Ok(S3Response::new(dto::PutBucketLifecycleConfigurationOutput::default()))
    }

    pub(crate) async fn delete_lifecycle(
        &self,
        request: S3Request<dto::DeleteBucketLifecycleInput>,
    ) -> Answer<dto::DeleteBucketLifecycleOutput> {
        self.change_lifecycle(&request.extensions, &request.input.bucket, None).await?;
        Ok(S3Response::with_status(dto::DeleteBucketLifecycleOutput {}, http::StatusCode::NO_CONTENT))
    }

    /// Removals by the old rules finish first, and none begins after this returns.
    async fn change_lifecycle(&self, request: &Extensions, bucket: &str, rules: Option<Rules>) -> S3Result<()> {
        let _bucket_guard = self.bucket_locks.exclusive(bucket).await;
        self.namespace.change(request, bucket, |bucket| {
            bucket.lifecycle = rules;
            bucket.unreadable.lifecycle = false;
            Ok(())
        })
    }
}

fn from_dto(rule: LifecycleRule) -> S3Result<Rule> {
    if rule.transitions.is_some() || rule.noncurrent_version_transitions.is_some() {
        let message = "Transitions are not supported: an object keeps the storage class that it is put with.";
        return Err(s3_error!(NotImplemented, "{message}"));
    }
    let enabled = match rule.status.as_str() {
        ExpirationStatus::ENABLED => true,
        ExpirationStatus::DISABLED => false,
        _ => return Err(malformed_xml()),
    };
    let id = rule.id.filter(|id| !id.is_empty()).unwrap_or_else(|| hex(&random::<16>()));
    if id.chars().count() > ID_CHARS_MAX {
        return Err(s3_error!(InvalidArgument, "ID length should not exceed allowed limit of {ID_CHARS_MAX}"));
    }
    let filter = match (rule.filter, rule.prefix) {
        (None, Some(prefix)) => Filter { prefix: Some(prefix), old_form: true, ..Filter::default() },
        (Some(filter), None) => filter_of(filter)?,
        _ => return Err(malformed_xml()),
    };
    let abort =
        |abort: AbortIncompleteMultipartUpload| days("DaysAfterInitiation", "AbortIncompleteMultipartUpload", abort.days_after_initiation);
    let rule = Rule {
        id,
        enabled,
        filter,
        expiration: rule.expiration.map(expiration_of).transpose()?,
        noncurrent: rule.noncurrent_version_expiration.map(noncurrent_of).transpose()?,
        abort_uploads_after_days: rule.abort_incomplete_multipart_upload.map(abort).transpose()?,
    };
    if rule.expiration.is_none() && rule.noncurrent.is_none() && rule.abort_uploads_after_days.is_none() {
        return Err(s3_error!(InvalidRequest, "At least one action needs to be specified in a rule"));
    }
    // A response could not contain it: XML has no such characters.
    let is_xml = |text: &str| !text.contains(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r'));
    if !is_xml(&rule.id) || !is_xml(rule.filter.prefix()) {
        return Err(s3_error!(InvalidArgument, "An ID or a prefix must not contain control characters"));
    }
    let is_by_property = !rule.filter.tags.is_empty() || rule.filter.has_size();
    if is_by_property && rule.abort_uploads_after_days.is_some() {
        return Err(s3_error!(InvalidRequest, "AbortIncompleteMultipartUpload cannot be specified with Tags or object sizes"));
    }
    if is_by_property && rule.expiration == Some(Expiration::Markers) {
        return Err(s3_error!(InvalidRequest, "ExpiredObjectDeleteMarker cannot be specified with Tags or object sizes"));
    }
    Ok(rule)
}

fn filter_of(filter: LifecycleRuleFilter) -> S3Result<Filter> {
    let LifecycleRuleFilter { and, object_size_greater_than, object_size_less_than, prefix, tag, .. } = filter;
    let alone = [and.is_some(), object_size_greater_than.is_some(), object_size_less_than.is_some(), prefix.is_some(), tag.is_some()];
    if alone.iter().filter(|is_given| **is_given).count() > 1 {
        return Err(malformed_xml());
    }
    let all =
        and.unwrap_or(LifecycleRuleAndOperator { object_size_greater_than, object_size_less_than, prefix, tags: tag.map(|tag| vec![tag]) });
    let given_tags = all.tags.unwrap_or_default();
    tags::check(&given_tags, tags::OBJECT_TAGS_MAX)?;
    let size = |bytes: Option<i64>| {
        bytes
            .map(|bytes| u64::try_from(bytes).map_err(|_| s3_error!(InvalidRequest, "A size in a filter must not be negative")))
            .transpose()
    };
    let filter = Filter {
        prefix: all.prefix,
        old_form: false,
        tags: given_tags.into_iter().map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default())).collect(),
        larger_than: size(all.object_size_greater_than)?,
        smaller_than: size(all.object_size_less_than)?,
    };
    if let (Some(larger), Some(smaller)) = (filter.larger_than, filter.smaller_than)
        && larger >= smaller
    {
        return Err(s3_error!(InvalidRequest, "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'"));
    }
    Ok(filter)
}

fn expiration_of(expiration: LifecycleExpiration) -> S3Result<Expiration> {
    // Clients that know only one of the others say false.
    let markers = expiration.expired_object_delete_marker.filter(|is_wanted| *is_wanted);
    match (expiration.days, expiration.date, markers) {
        (given @ Some(_), None, None) => Ok(Expiration::Days(days("Days", "Expiration", given)?)),
        (None, Some(date), None) => {
            let date_ms = ms_of(&date);
            if date_ms % DAY_MS != 0 {
                return Err(s3_error!(InvalidArgument, "'Date' must be at midnight GMT"));
            }
            Ok(Expiration::DateMs(date_ms))
        }
        (None, None, Some(_)) => Ok(Expiration::Markers),
        _ => Err(malformed_xml()),
    }
}

fn noncurrent_of(noncurrent: NoncurrentVersionExpiration) -> S3Result<Noncurrent> {
    let action = "NoncurrentVersionExpiration";
    let limit = noncurrent.noncurrent_days.map(|given| days("NoncurrentDays", action, Some(given))).transpose()?;
    let newer = noncurrent.newer_noncurrent_versions.map(|newer| {
        let newer = u32::try_from(newer).ok().filter(|newer| (1..=NEWER_MAX).contains(newer));
        newer.ok_or_else(|| s3_error!(InvalidArgument, "'NewerNoncurrentVersions' for {action} action must be from 1 to {NEWER_MAX}"))
    });
    let noncurrent = Noncurrent { days: limit, newer: newer.transpose()? };
    if noncurrent == (Noncurrent { days: None, newer: None }) { Err(malformed_xml()) } else { Ok(noncurrent) }
}

fn days(name: &str, action: &str, days: Option<i32>) -> S3Result<u32> {
    let days = days.ok_or_else(malformed_xml)?;
    let positive = u32::try_from(days).ok().filter(|days| *days > 0);
    positive.ok_or_else(|| s3_error!(InvalidArgument, "'{name}' for {action} action must be a positive integer"))
}

fn to_dto(rule: Rule) -> LifecycleRule {
    let Rule { id, enabled, filter, expiration, noncurrent, abort_uploads_after_days } = rule;
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let (prefix, filter) = if filter.old_form { (filter.prefix, None) } else { (None, Some(filter_to_dto(filter))) };
    let expiration = expiration.map(|expiration| match expiration {
        Expiration::Days(days) => LifecycleExpiration { days: Some(number(days)), ..Default::default() },
        Expiration::DateMs(date_ms) => LifecycleExpiration { date: Some(timestamp(date_ms)), ..Default::default() },
        Expiration::Markers => LifecycleExpiration { expired_object_delete_marker: Some(true), ..Default::default() },
    });
    LifecycleRule {
        abort_incomplete_multipart_upload: abort_uploads_after_days
            .map(|days| AbortIncompleteMultipartUpload { days_after_initiation: Some(number(days)) }),
        expiration,
        filter,
        id: Some(id),
        noncurrent_version_expiration: noncurrent.map(|noncurrent| NoncurrentVersionExpiration {
            newer_noncurrent_versions: noncurrent.newer.map(number),
            noncurrent_days: noncurrent.days.map(number),
        }),
        noncurrent_version_transitions: None,
        prefix,
        status: ExpirationStatus::from_static(if enabled { ExpirationStatus::ENABLED } else { ExpirationStatus::DISABLED }),
        transitions: None,
    }
}

/// A filter as S3 shows it: several conditions are inside of `And`.
fn filter_to_dto(filter: Filter) -> LifecycleRuleFilter {
    let size = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let mut tags: Vec<Tag> = filter.tags.into_iter().map(|(key, value)| Tag { key: Some(key), value: Some(value) }).collect();
    let (larger, smaller) = (filter.larger_than.map(size), filter.smaller_than.map(size));
    let conditions =
        tags.len() + [filter.prefix.is_some(), larger.is_some(), smaller.is_some()].into_iter().filter(|is_set| *is_set).count();
    if conditions > 1 {
        let and = LifecycleRuleAndOperator {
            object_size_greater_than: larger,
            object_size_less_than: smaller,
            prefix: filter.prefix,
            tags: (!tags.is_empty()).then_some(tags),
        };
        return LifecycleRuleFilter { and: Some(and), ..Default::default() };
    }
    LifecycleRuleFilter {
        object_size_greater_than: larger,
        object_size_less_than: smaller,
        prefix: filter.prefix,
        tag: tags.pop(),
        ..Default::default()
    }
}
