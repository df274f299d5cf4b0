//! Restores: objects of the classes GLACIER and DEEP_ARCHIVE are read after they were asked for.
//!
//! On platters that are files on disks, nothing has to be fetched: a restore reads the object in full, mends what has to be mended, and checks its
//! digest; from then on it can be read from where it is. So what has been restored is known to be whole, and takes no room.

use fulgurite_archive::object::ObjectReader;
use s3s::dto::{RestoreObjectInput, RestoreObjectOutput, StorageClass, Tier};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::errors::Status;
use crate::failures::state_failed;
use crate::gateway::Gateway;
use crate::state::{Restore, now_ms};
use crate::version::Version;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// By when a restore is to be done, as AWS has it for its tiers and classes.
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
    pub(crate) async fn restore(&self, request: S3Request<RestoreObjectInput>) -> S3Result<S3Response<RestoreObjectOutput>> {
        let account = self.account(&request)?;
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        let version = self.find(&bucket.name, &input.key, input.version_id.as_deref())?;
        let asked = input.restore_request.ok_or_else(malformed)?;
        if asked.type_.is_some() || asked.select_parameters.is_some() || asked.output_location.is_some() {
            return Err(s3_error!(NotImplemented, "Restores with SELECT are not supported."));
        }
        if !version.is_cold() {
            return Err(s3_error!(InvalidObjectState, "Restore is not allowed for the object's current storage class"));
        }
        let days = asked.days.ok_or_else(malformed)?;
        let days = u32::try_from(days).ok().filter(|days| (1..=36_500).contains(days));
        let days = days.ok_or_else(|| s3_error!(InvalidArgument, "restoration days should be at least 1"))?;
        let tier = asked.glacier_job_parameters.map(|parameters| parameters.tier).or(asked.tier);
        let tier = tier.map_or(Tier::STANDARD.to_owned(), |tier| tier.as_str().to_owned());
        let due = due_ms(&tier, version.class())
            .ok_or_else(|| s3_error!(InvalidArgument, "The {tier} tier is not available for objects of class {}", version.class()))?;
        let _held = self.names.hold(version.row.record.name.clone()).await;
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
            Some(before) if before.done_ms.is_some() => {
                // It is kept for so many days from now.
                restore.done_ms = before.done_ms;
                restore.expires_ms = Some(expiry(now, days));
                status = http::StatusCode::OK;
            }
            // A faster tier may be asked for while it is under way.
            Some(before) if restore.due_ms >= before.due_ms => {
                return Err(s3_error!(RestoreAlreadyInProgress, "Object restore is already in progress"));
            }
            _ => {}
        }
        self.state.keep_restore(&restore).map_err(state_failed)?;
        self.work.notify_one();
        let mut response = S3Response::new(RestoreObjectOutput::default());
        response.extensions.insert(Status(status));
        Ok(response)
    }

    /// Does the most urgent restore; `false` if there is none. Blocks.
    pub(crate) fn restore_next(&self) -> bool {
        let next = match self.state.open_restores(1) {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(%error, "restores can't be listed");
                return false;
            }
        };
        let Some(mut restore) = next.into_iter().next() else { return false };
        let name = crate::names::object_name(&restore.bucket, &restore.key);
        let row = match self.archive.reading().version(&name, restore.id) {
            Ok(row) => row,
            Err(error) => {
                tracing::error!(%error, "a restore can't be done now");
                return false;
            }
        };
        let ended = match row.map(Version::new) {
            // It was removed meanwhile.
            None => self.state.forget_restore(restore.id),
            Some(version) => match ObjectReader::new(&self.archive).read(&version.row, &mut |_| Ok(())) {
                Ok(()) => {
                    let now = now_ms();
                    restore.done_ms = Some(now);
                    restore.expires_ms = Some(expiry(now, restore.days));
                    tracing::info!(name = %name.display(), tier = restore.tier, "restored");
                    self.state.keep_restore(&restore)
                }
                Err(error) => {
                    // Every restore ends. S3 has no word for one that failed: it is as if it had not been asked for.
                    tracing::error!(%error, name = %name.display(), "an object can't be restored");
                    self.state.forget_restore(restore.id)
                }
            },
        };
        if let Err(error) = ended {
            tracing::error!(%error, "what became of a restore can't be recorded");
            return false;
        }
        true
    }
}

/// The first midnight, UTC, after so many days, as AWS has it.
fn expiry(now_ms: i64, days: u32) -> i64 {
    let end = now_ms + i64::from(days) * DAY_MS;
    (end + DAY_MS - 1) / DAY_MS * DAY_MS
}

fn malformed() -> s3s::S3Error {
    s3_error!(MalformedXML, "The XML you provided was not well-formed or did not validate against our published schema")
}
