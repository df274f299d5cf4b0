//! Backups of the service's state: put into the archive as an object, each replacing the previous
//! one.
//!
//! A backup is put before each set that is written, so that the platters hold it with the objects
//! it describes; when the server stops; when `service.db` was removed or replaced; and otherwise at
//! most once an hour. If the newest one is of the current state, none is put.

use std::time::Duration;

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::{IntakeError, NewObject};
use fulgurite_domain::{Attributes, Kind};
use tokio::sync::{mpsc, oneshot};

use crate::gateway::Gateway;
use crate::memory::MemoryOwner;
use crate::state::{BackupError, BackupStatus, StateError, backup_name, backups};

/// Interval between two backups if no set is written.
const BACKUP_INTERVAL: Duration = Duration::from_secs(3_600);
/// Capacity of the channel between the writer of a backup and staging, in pieces.
const PIECES_AHEAD_MAX: usize = 2;

/// Why a backup wasn't put. The previous one is still in the archive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupFailed {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Intake(#[from] IntakeError),
    #[error("staging has too little room")]
    Room,
    #[error("it was aborted")]
    Aborted,
}

impl Gateway {
    /// Whether the newest backup is outdated, and it is urgent or an hour has passed since that
    /// backup and since the server started. A backup dated in the future by a wrong clock doesn't
    /// delay the next one.
    pub(crate) fn is_backup_due(&self, now_ms: i64) -> bool {
        let is_due = || -> Result<bool, StateError> {
            let existing = backups(&self.archive)?;
            let is_recent = |row: &VersionRow| {
                let age_ms = (now_ms as u64).checked_sub(row.record.created_ms);
                age_ms.is_some_and(|age_ms| Duration::from_millis(age_ms) < BACKUP_INTERVAL)
            };
            let has_just_started = self.jobs.started.elapsed() < BACKUP_INTERVAL;
            // If `service.db` was removed or replaced, the state survives only in a backup.
            let has_time = (has_just_started || existing.first().is_some_and(is_recent)) && !self.state.is_displaced();
            Ok(!has_time && is_outdated(&self.state.backup_status()?, &existing))
        };
        is_due().unwrap_or_else(|error| {
            tracing::error!(%error, "can't find out whether the service's state needs a backup");
            false
        })
    }

    /// Puts a backup if the newest one is outdated, and logs the result.
    pub(crate) async fn back_up_state(&self) {
        match self.try_back_up_state().await {
            Ok(true) => tracing::info!("put a backup of the service's state into the archive"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "can't put a backup of the service's state into the archive; the previous one is kept"),
        }
    }

    /// Puts a backup if the newest one is outdated, in place of the previous one. Returns `false`
    /// if it isn't.
    pub(crate) async fn try_back_up_state(&self) -> Result<bool, BackupFailed> {
        let _guard = self.jobs.backing_up.lock().await;
        let status = self.state.backup_status()?;
        let existing = backups(&self.archive)?;
        if !is_outdated(&status, &existing) {
            return Ok(false);
        }
        self.transfers.check_room(existing.first().map_or(0, |row| row.record.size)).map_err(|_| BackupFailed::Room)?;
        // Backups of other states are kept: the operator decided to use this one without them.
        let is_ours = |row: &VersionRow| [status.version, status.begun].contains(&Some(row.id));
        let replaced: Vec<VersionRow> = existing.into_iter().filter(is_ours).collect();
        let (pieces_tx, mut pieces_rx) = mpsc::channel::<Vec<u8>>(PIECES_AHEAD_MAX);
        let state = self.state.clone();
        let writing = tokio::task::spawn_blocking(move || {
            state.write_backup(&mut |piece| pieces_tx.blocking_send(piece).map_err(|_| std::io::ErrorKind::BrokenPipe.into()))
        });
        let mut upload = self.transfers.begin_object(MemoryOwner::own());
        while let Some(piece) = pieces_rx.recv().await {
            self.transfers.write(&mut upload, &piece, u64::MAX).await;
        }
        let upload = upload.upload();
        let changes = match writing.await {
            Ok(written) => written?,
            Err(error) => {
                self.log_panic("writing a backup of the state", error);
                return Err(BackupFailed::Aborted);
            }
        };
        let id = upload.id();
        let mut attributes = Attributes::default();
        attributes.set("content-type", "application/jsonl");
        let is_begun_put = replaced.iter().any(|row| Some(row.id) == status.begun);
        status.describe(changes, is_begun_put, &mut attributes);
        let object = NewObject { name: backup_name(), kind: Kind::File, modified: None, mode: Some(0o600), attributes };
        self.state.begin_backup(id, is_begun_put)?;
        let (acknowledge, acknowledged) = oneshot::channel();
        upload.finish(object, replaced, Box::new(move |result| drop(acknowledge.send(result))));
        acknowledged.await.map_err(|_| BackupFailed::Aborted)??;
        self.state.confirm_backup(changes, id)?;
        Ok(true)
    }
}

/// Whether the newest backup in the archive, which a recovery would use, is not of the current
/// state. It may be gone, if the catalogue was rebuilt, or of another state, which was set aside.
fn is_outdated(newest: &BackupStatus, existing: &[VersionRow]) -> bool {
    newest.is_changed || existing.first().is_none_or(|row| Some(row.id) != newest.version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::now_ms;
    use crate::test_gateway::{TestGateway, soon};

    #[tokio::test]
    async fn a_clock_that_was_ahead_does_not_delay_the_next_backup() {
        let test = TestGateway::new();
        let (gateway, state) = (&test.gateway, &test.gateway.state);
        assert!(soon(gateway.try_back_up_state()).await.expect("a backup"));
        state.add_account("bo", false).expect("an account");
        let (now, ahead_ms) = (now_ms(), 40 * 86_400_000);
        assert!(!gateway.is_backup_due(now - ahead_ms), "the server has just started");
        tokio::time::pause();
        tokio::time::advance(BACKUP_INTERVAL).await;
        tokio::time::resume();
        assert!(!gateway.is_backup_due(now), "the newest backup is younger than an hour");
        assert!(gateway.is_backup_due(now + 3_600_000));
        assert!(gateway.is_backup_due(now - ahead_ms), "the newest backup is dated in the future");
        assert!(soon(gateway.try_back_up_state()).await.expect("a backup"));
        assert!(!gateway.is_backup_due(now - ahead_ms), "the newest backup is of the current state");
    }
}
