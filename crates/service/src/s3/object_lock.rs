//! Operations on retention and legal hold of versions. The values set at the put are attributes;
//! later changes are in the state.

use fulgurite_archive::catalogue::VersionRow;
use s3s::dto::{self, ObjectLockLegalHold, ObjectLockLegalHoldStatus, ObjectLockRetention};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::auth::caller::Caller;
use crate::gateway::Gateway;
use crate::object_lock::Lock;
use crate::s3::Answer;
use crate::s3::errors::{ends_in_the_past, locked, malformed_xml, state_failed, without_object_lock};
use crate::s3::namespace::Namespace;
use crate::s3::object_names::object_name;
use crate::s3::version::{Version, attribute, ms_of, timestamp};
use crate::state::{Retention, RetentionMode, VersionState, now_ms};

impl Namespace {
    /// The current lock of a version.
    pub(crate) fn lock_of(&self, row: &VersionRow) -> S3Result<Lock> {
        let state = self.state.version(row.id).map_err(state_failed)?;
        Ok(Lock::of(&row.record, &state))
    }

    pub(crate) fn get_retention(&self, request: S3Request<dto::GetObjectRetentionInput>) -> Answer<dto::GetObjectRetentionOutput> {
        let input = request.input;
        let version = self.lockable(&input.bucket, &input.key, input.version_id.as_deref())?;
        let retention = self.lock_of(&version.row)?.retention;
        let retention = retention
            .ok_or_else(|| s3_error!(NoSuchObjectLockConfiguration, "The specified object does not have a ObjectLock configuration"))?;
        let retention = ObjectLockRetention {
            mode: Some(retention.mode.name().to_owned().into()),
            retain_until_date: Some(timestamp(retention.until_ms)),
        };
        Ok(S3Response::new(dto::GetObjectRetentionOutput { retention: Some(retention) }))
    }

    pub(crate) fn get_legal_hold(&self, request: S3Request<dto::GetObjectLegalHoldInput>) -> Answer<dto::GetObjectLegalHoldOutput> {
        let input = request.input;
        let version = self.lockable(&input.bucket, &input.key, input.version_id.as_deref())?;
        let changed = self.state.version(version.row.id).map_err(state_failed)?.legal_hold;
        let is_held = changed.or_else(|| version.attributes().get(attribute::LEGAL_HOLD).map(|_| true));
        let is_held = is_held
            .ok_or_else(|| s3_error!(NoSuchObjectLockConfiguration, "The specified object does not have a ObjectLock configuration"))?;
        let status = if is_held { ObjectLockLegalHoldStatus::ON } else { ObjectLockLegalHoldStatus::OFF };
        let legal_hold = ObjectLockLegalHold { status: Some(ObjectLockLegalHoldStatus::from_static(status)) };
        Ok(S3Response::new(dto::GetObjectLegalHoldOutput { legal_hold: Some(legal_hold) }))
    }

    /// A version in a bucket with object lock.
    fn lockable(&self, bucket: &str, key: &str, id: Option<&str>) -> S3Result<Version> {
        let bucket = self.bucket(bucket)?;
        if !bucket.object_lock {
            return Err(without_object_lock());
        }
        self.find(&bucket.name, key, id)
    }
}

impl Gateway {
    pub(crate) async fn put_retention(&self, request: S3Request<dto::PutObjectRetentionInput>) -> Answer<dto::PutObjectRetentionOutput> {
        let caller = request.extensions.get::<Caller>().cloned();
        let granted = self.namespace.granted(&request.extensions, &request.input.bucket)?;
        let input = request.input;
        // A removal that has already checked the lock finishes first.
        let _key_guard = self.key_locks.lock(object_name(&input.bucket, &input.key)).await;
        let _shared = self.bucket_locks.shared(&input.bucket).await;
        let bucket = granted.current(&self.namespace)?;
        let version = self.namespace.lockable(&input.bucket, &input.key, input.version_id.as_deref())?;
        let new_retention = match input.retention {
            None | Some(ObjectLockRetention { mode: None, retain_until_date: None }) => None,
            Some(ObjectLockRetention { mode: Some(mode), retain_until_date: Some(until) }) => {
                let mode = RetentionMode::parse(mode.as_str()).ok_or_else(malformed_xml)?;
                if ms_of(&until) <= now_ms() {
                    return Err(ends_in_the_past());
                }
                Some(Retention { mode, until_ms: ms_of(&until) })
            }
            Some(_) => return Err(malformed_xml()),
        };
        let bypasses = input.bypass_governance_retention.unwrap_or(false);
        if bypasses {
            self.namespace.may(&bucket, caller.as_ref(), "s3:BypassGovernanceRetention", Some(&input.key), input.version_id.as_deref())?;
        }
        if let Some(current) = self.namespace.lock_of(&version.row)?.retention.filter(|retention| retention.until_ms > now_ms()) {
            let is_longer = new_retention.is_some_and(|new_retention| new_retention.until_ms >= current.until_ms);
            let is_as_firm = new_retention.is_some_and(|new_retention| new_retention.mode == current.mode);
            let may_loosen = current.mode == RetentionMode::Governance && bypasses;
            let may_tighten = is_longer && is_as_firm;
            if !may_tighten && !may_loosen {
                return Err(locked());
            }
        }
        let change = VersionState { retention: Some(new_retention), ..VersionState::default() };
        self.state.change_version(version.row.id, &change).map_err(state_failed)?;
        Ok(S3Response::new(dto::PutObjectRetentionOutput::default()))
    }

    pub(crate) async fn put_legal_hold(&self, request: S3Request<dto::PutObjectLegalHoldInput>) -> Answer<dto::PutObjectLegalHoldOutput> {
        let granted = self.namespace.granted(&request.extensions, &request.input.bucket)?;
        let input = request.input;
        // A removal that has already checked the lock finishes first.
        let _key_guard = self.key_locks.lock(object_name(&input.bucket, &input.key)).await;
        let _shared = self.bucket_locks.shared(&input.bucket).await;
        granted.current(&self.namespace)?;
        let version = self.namespace.lockable(&input.bucket, &input.key, input.version_id.as_deref())?;
        let status = input.legal_hold.and_then(|hold| hold.status).ok_or_else(malformed_xml)?;
        let legal_hold = match status.as_str() {
            ObjectLockLegalHoldStatus::ON => true,
            ObjectLockLegalHoldStatus::OFF => false,
            _ => return Err(malformed_xml()),
        };
        let change = VersionState { legal_hold: Some(legal_hold), ..VersionState::default() };
        self.state.change_version(version.row.id, &change).map_err(state_failed)?;
        Ok(S3Response::new(dto::PutObjectLegalHoldOutput::default()))
    }
}
