//! Backups of the service's state: put into the archive as an object, each replacing the previous
//! one.
//!
//! A backup is put before each set that is written, so that the platters hold it with the objects
//! it describes; when the server stops; and an hour after a change. Without a change, none is put.

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::{IntakeError, NewObject};
use fulgurite_domain::{Attributes, Kind};
use tokio::sync::{mpsc, oneshot};

use crate::gateway::Gateway;
use crate::memory::Holder;
use crate::state::{CopyError, StateError, copies, copy_name, now_ms};

/// Maximum age of the newest backup if something has changed since.
const COPY_AFTER_MS: i64 = 3_600_000;
/// Capacity of the channel between the writer of a backup and staging, in pieces.
const PIECES: usize = 2;

/// Why a backup wasn't put. The previous one is still in the archive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotCopied {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Intake(#[from] IntakeError),
    #[error("staging has too little room")]
    Room,
    #[error("aborted because the server stopped")]
    Ended,
}

impl Gateway {
    /// Whether something has changed and the newest backup is old. A missing backup counts as made
    /// when the server started.
    pub(crate) fn is_copy_due(&self) -> bool {
        let is_due = || -> Result<bool, StateError> {
            if !self.state.copied()?.is_changed {
                return Ok(false);
            }
            let copied_ms = copies(&self.archive)?.first().map_or(0, |row| row.record.created_ms as i64);
            Ok(now_ms().saturating_sub(copied_ms.max(self.started_ms)) >= COPY_AFTER_MS)
        };
        is_due().unwrap_or_else(|error| {
            tracing::error!(%error, "can't find out whether the service's state needs a backup");
            false
        })
    }

    /// Puts a backup if something has changed, and logs the result.
    pub(crate) async fn copy_state(&self) {
        match self.try_copy_state().await {
            Ok(true) => tracing::info!("put a backup of the service's state into the archive"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "can't put a backup of the service's state into the archive; the previous one is kept"),
        }
    }

    /// Puts a backup if something has changed, in place of the previous one. Returns `false` if
    /// nothing has changed.
    pub(crate) async fn try_copy_state(&self) -> Result<bool, NotCopied> {
        let _alone = self.copying.lock().await;
        let copied = self.state.copied()?;
        let there = copies(&self.archive)?;
        // The backup may be gone: the catalogue was rebuilt, or `service.db` was restored from an
        // old copy.
        if !copied.is_changed && there.iter().any(|row| Some(row.id) == copied.version) {
            return Ok(false);
        }
        self.check_room(there.first().map_or(0, |row| row.record.size)).map_err(|_| NotCopied::Room)?;
        // Backups of other states are kept: this state was created without them, or restored from
        // an old copy of `service.db`.
        let is_ours = |row: &VersionRow| [copied.version, copied.begun].contains(&Some(row.id));
        let replaced: Vec<VersionRow> = there.into_iter().filter(is_ours).collect();
        let (pieces_in, mut pieces) = mpsc::channel::<Vec<u8>>(PIECES);
        let state = self.state.clone();
        let writing = tokio::task::spawn_blocking(move || {
            state.write_copy(&mut |piece| pieces_in.blocking_send(piece).map_err(|_| std::io::ErrorKind::BrokenPipe.into()))
        });
        let mut upload = self.receiving(Holder::own());
        while let Some(piece) = pieces.recv().await {
            self.write(&mut upload, &piece, u64::MAX).await;
        }
        let upload = upload.upload();
        let changes = writing.await.map_err(|_| NotCopied::Ended)??;
        let id = upload.id();
        let mut attributes = Attributes::default();
        attributes.set("content-type", "application/jsonl");
        let object = NewObject { name: copy_name(), kind: Kind::File, modified: None, mode: Some(0o600), attributes };
        self.state.begin_copy(id)?;
        let (tell, told) = oneshot::channel();
        upload.finish(object, replaced, Box::new(move |result| drop(tell.send(result))));
        told.await.map_err(|_| NotCopied::Ended)??;
        self.state.keep_copy(changes, id)?;
        Ok(true)
    }
}
