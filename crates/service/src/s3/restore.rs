//! Restores: objects of the classes GLACIER and DEEP_ARCHIVE must be restored before they can be
//! read.
//!
//! Without a [library](crate::library), platters need no fetching: a restore reads the object in
//! full, rebuilds what can't be read, and checks the digest. With one, drives read its shards when
//! shuttles have brought the platters. From then on the object can be read in place. So a restored
//! object was readable at that time, and takes no extra space.

use fulgurite_archive::ArchiveError;
use fulgurite_archive::object::{ObjectReader, ReadError};
use fulgurite_archive::staging::StagingError;
use fulgurite_domain::VersionId;
use s3s::dto::{RestoreObjectInput, RestoreObjectOutput, StorageClass, Tier};
use s3s::{S3Request, S3Response, s3_error};

use crate::auth::caller::Caller;
use crate::gateway::Gateway;
use crate::s3::Answer;
use crate::s3::errors::answers::StatusOverride;
use crate::s3::errors::{busy, malformed_xml, state_failed};
use crate::state::{Restore, RestoreAdmission, StateError, now_ms};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Maximum number of days that a restored object stays readable: a century.
const DAYS_MAX: u32 = 36_500;

/// AWS's deadline of a restore, by tier and class.
fn due_ms(tier: &str, class: &str) -> Option<i64> {
    match (tier, class) {
        (Tier::EXPEDITED, StorageClass::GLACIER) => Some(5 * 60_000),
        (Tier::STANDARD, StorageClass::GLACIER) => Some(5 * HOUR_MS),
        (Tier::STANDARD, _) | (Tier::BULK, StorageClass::GLACIER) => Some(12 * HOUR_MS),
        (Tier::BULK, _) => Some(48 * HOUR_MS),
        _ => None,
    }
}

impl Gateway {
    pub(crate) async fn restore(&self, request: S3Request<RestoreObjectInput>) -> Answer<RestoreObjectOutput> {
        let account = Caller::account_of(&request.extensions)?;
        let bucket = self.namespace.granted(&request.extensions, &request.input.bucket)?;
        let input = request.input;
        let version = self.namespace.find(&bucket.name, &input.key, input.version_id.as_deref())?;
        let restore_request = input.restore_request.ok_or_else(malformed_xml)?;
        if restore_request.type_.is_some() || restore_request.select_parameters.is_some() || restore_request.output_location.is_some() {
            return Err(s3_error!(NotImplemented, "Restores with SELECT are not supported."));
        }
        if !version.is_cold() {
            return Err(s3_error!(InvalidObjectState, "Restore is not allowed for the object's current storage class"));
        }
        let days = restore_request.days.ok_or_else(malformed_xml)?;
        let days = u32::try_from(days).ok().filter(|days| (1..=DAYS_MAX).contains(days));
        let days = days.ok_or_else(|| s3_error!(InvalidArgument, "restoration days should be at least 1 and at most {DAYS_MAX}"))?;
        let tier = restore_request.glacier_job_parameters.map(|parameters| parameters.tier).or(restore_request.tier);
        let tier = tier.map_or(Tier::STANDARD.to_owned(), |tier| tier.as_str().to_owned());
        let due = due_ms(&tier, version.class())
            .ok_or_else(|| s3_error!(InvalidArgument, "The {tier} tier is not available for objects of class {}", version.class()))?;
        let _key_guard = self.key_locks.lock(version.row.record.name.clone()).await;
        let _shared = self.bucket_locks.shared(&bucket.name).await;
        bucket.current(&self.namespace)?;
        let now = now_ms();
        let mut restore = Restore {
            id: version.row.id,
            bucket: bucket.name.clone(),
            key: input.key,
            account: account.name.clone(),
            tier,
            days,
            requested_ms: now,
            due_ms: now + due,
            done_ms: None,
            expires_ms: None,
        };
        let mut status = http::StatusCode::ACCEPTED;
        match self.state.restore(version.row.id).map_err(state_failed)? {
            None => {
                let in_library = self.library.as_ref().map_or(0, |library| library.requests_of(&account.name));
                match self.state.begin_restore(&restore, version.size(), in_library, self.jobs.restore_quota).map_err(state_failed)? {
                    RestoreAdmission::Accepted => {}
                    over => return Err(over_quota(&account.name, over, now)),
                }
            }
            Some(before) if before.done_ms.is_some() => {
                // The expiry is counted from now.
                restore.account = before.account;
                restore.done_ms = before.done_ms;
                restore.expires_ms = Some(expiry(now, days));
                self.state.record_restore(&restore).map_err(state_failed)?;
                status = http::StatusCode::OK;
            }
            Some(before) if restore.due_ms >= before.due_ms => {
                return Err(s3_error!(RestoreAlreadyInProgress, "Object restore is already in progress"));
            }
            // A faster tier may be requested while the restore is open. It still counts for the
            // account that requested it first.
            Some(before) => {
                restore.account = before.account;
                self.state.record_restore(&restore).map_err(state_failed)?;
            }
        }
        match &self.library {
            Some(library) => library.enqueue(&restore),
            None => self.jobs.wake.notify_one(),
        }
        let mut response = S3Response::new(RestoreObjectOutput::default());
        response.extensions.insert(StatusOverride(status));
        Ok(response)
    }

    /// Carries out the next restore. Returns `false` if none is open, or one can't be carried out
    /// now. Blocks.
    pub(crate) fn restore_next(&self) -> bool {
        let last = self.jobs.last_restored.lock().expect("nothing panics while it holds this lock").clone();
        let restore = match self.state.next_restore(&last, &|id| self.jobs.set_back.waits(id)) {
            Ok(Some(next)) => next,
            Ok(None) => return false,
            Err(error) => {
                tracing::error!(%error, "can't look for restores");
                return false;
            }
        };
        self.jobs.last_restored.lock().expect("nothing panics while it holds this lock").clone_from(&restore.account);
        let name = crate::s3::object_names::object_name(&restore.bucket, &restore.key);
        let row = match self.archive.reading().version(&name, restore.id) {
            Ok(row) => row,
            Err(error) => {
                tracing::error!(%error, "can't carry out a restore now");
                return false;
            }
        };
        // `None` if the object was removed meanwhile.
        let result = row.map(|row| {
            if let Some(traces) = &self.traces {
                traces.begin(&restore, row.record.size);
            }
            self.traced(restore.id, "read from stores", || ObjectReader::new(&self.archive).read(&row, &mut |_| Ok(())))
        });
        if let Some(Err(error)) = &result
            && may_succeed_later(error)
        {
            if self.jobs.set_back.add(restore.id) {
                tracing::warn!(%error, bucket = restore.bucket, key = restore.key, "a restore waits");
            }
            return true;
        }
        let (how, error) = match &result {
            None => ("removed", None),
            Some(Ok(())) => ("read", None),
            Some(Err(error)) => ("failed", Some(error.to_string())),
        };
        if let Err(error) = self.record_restore_end(restore.id, result) {
            tracing::error!(%error, "can't record the result of a restore");
            return false;
        }
        self.jobs.set_back.remove(restore.id);
        if let Some(traces) = &self.traces {
            traces.end(restore.id, how, error.as_deref());
        }
        true
    }

    /// Records how a restore ended; `result` is `None` if its object was removed.
    pub(crate) fn record_restore_end(&self, id: VersionId, result: Option<Result<(), ReadError>>) -> Result<(), StateError> {
        // The days or the tier may have been changed since it began.
        let Some(mut restore) = self.state.restore(id)?.filter(|restore| restore.done_ms.is_none()) else { return Ok(()) };
        match result {
            None => self.state.forget_restore(id),
            Some(Ok(())) => {
                let now = now_ms();
                restore.done_ms = Some(now);
                restore.expires_ms = Some(expiry(now, restore.days));
                tracing::info!(bucket = restore.bucket, key = restore.key, tier = restore.tier, "restored");
                self.state.record_restore(&restore)
            }
            Some(Err(error)) => {
                // Every restore ends. S3 can't express a failed restore, so it is deleted as if it
                // had never been requested.
                tracing::error!(%error, bucket = restore.bucket, key = restore.key, "can't restore an object");
                self.state.forget_restore(id)
            }
        }
    }
}

/// Whether a restore that failed may succeed later: stores are absent, or something failed that is
/// not known to be lost.
pub(crate) fn may_succeed_later(error: &ReadError) -> bool {
    let is_passing = match error {
        ReadError::Archive(ArchiveError::Catalogue(_) | ArchiveError::Keys(_) | ArchiveError::Store(_)) => true,
        ReadError::Archive(ArchiveError::Staging(error)) => !matches!(error, StagingError::Damaged { .. }),
        _ => false,
    };
    is_passing || error.hindrance().is_some()
}

/// The error for an exceeded quota. AWS uses `SlowDown` for too many restores, on which clients
/// wait and retry.
fn over_quota(account: &str, over: RestoreAdmission, now_ms: i64) -> s3s::S3Error {
    let (message, seconds) = match over {
        RestoreAdmission::TooMuch { quota, until_ms } => {
            let gib = quota >> 30;
            let message = format!("Account {account} has reached its limit of {gib} GiB restored a day. Try again after midnight, UTC.");
            (message, u32::try_from((until_ms - now_ms) / 1_000 + 1).unwrap_or(1))
        }
        RestoreAdmission::TooMany { quota } => {
            (format!("Account {account} has reached its limit of {quota} restores open at once. Try again when some of them are done."), 60)
        }
        RestoreAdmission::Accepted => unreachable!("the quota was not exceeded"),
    };
    tracing::warn!(account, ?over, "refused a restore beyond the quota");
    busy(message, seconds)
}

/// The first midnight (UTC) after this many days, as in AWS.
fn expiry(now_ms: i64, days: u32) -> i64 {
    let end = now_ms + i64::from(days) * DAY_MS;
    (end + DAY_MS - 1) / DAY_MS * DAY_MS
}
