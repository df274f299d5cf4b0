//! Backups of the service's state: put into the archive as an object, each replacing the previous
//! one.
//!
//! A backup is put before each set that is written, so that the platters hold it with the objects
//! it describes; when the server stops; when `service.db` was removed or replaced; and otherwise at
//! most once an hour. If the newest one is of the current state, none is put.

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::{IntakeError, NewObject};
use fulgurite_domain::{Attributes, Kind};
use tokio::sync::{mpsc, oneshot};

use crate::gateway::Gateway;
use crate::memory::MemoryOwner;
use crate::state::{BackupError, BackupStatus, StateError, backup_name, backups, now_ms};

/// Interval between two backups if no set is written.
const BACKUP_INTERVAL_MS: i64 = 3_600_000;
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
    /// backup and since the server started.
    pub(crate) fn is_backup_due(&self) -> bool {
        let is_due = || -> Result<bool, StateError> {
            let existing = backups(&self.archive)?;
            let put_ms = existing.first().map_or(0, |row| row.record.created_ms as i64);
            let age_ms = now_ms().saturating_sub(put_ms.max(self.jobs.started_ms));
            // If `service.db` was removed or replaced, the state survives only in a backup.
            let has_time = age_ms < BACKUP_INTERVAL_MS && !self.state.is_displaced();
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
