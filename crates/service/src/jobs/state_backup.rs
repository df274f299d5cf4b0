//! Copies of the service's state: put into the archive as an object, each in the place of the one before.
//!
//! One is put before each set that is written, so that platters hold it with what it speaks of; when the server stops; and when something has been
//! changed for an hour. None is put where nothing was changed.

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::{IntakeError, NewObject};
use fulgurite_domain::{Attributes, Kind};
use tokio::sync::{mpsc, oneshot};

use crate::gateway::Gateway;
use crate::memory::Holder;
use crate::state::{CopyError, StateError, copies, copy_name, now_ms};

/// How old the newest copy may be when something was changed since.
const COPY_AFTER_MS: i64 = 3_600_000;
/// Pieces of a copy on their way to staging.
const PIECES: usize = 2;

/// Why a copy wasn't put. The one before is still there.
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
    #[error("it was given up when the server ended")]
    Ended,
}

impl Gateway {
    /// Whether something was changed, and the newest copy is old. One that was never made counts as made when the server started.
    pub(crate) fn is_copy_due(&self) -> bool {
        let is_due = || -> Result<bool, StateError> {
            if !self.state.copied()?.is_changed {
                return Ok(false);
            }
            let copied_ms = copies(&self.archive)?.first().map_or(0, |row| row.record.created_ms as i64);
            Ok(now_ms().saturating_sub(copied_ms.max(self.started_ms)) >= COPY_AFTER_MS)
        };
        is_due().unwrap_or_else(|error| {
            tracing::error!(%error, "it is not known whether the service's state has to be copied");
            false
        })
    }

    /// Puts a copy if something was changed, and tells the log what came of it.
    pub(crate) async fn copy_state(&self) {
        match self.try_copy_state().await {
            Ok(true) => tracing::info!("the service's state was copied into the archive"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "the service's state can't be copied into the archive; the copy before is still there"),
        }
    }

    /// Puts a copy in the place of the one before, if something was changed since. `false` if nothing was.
    pub(crate) async fn try_copy_state(&self) -> Result<bool, NotCopied> {
        let _alone = self.copying.lock().await;
        let copied = self.state.copied()?;
        let there = copies(&self.archive)?;
        // It may be gone: the catalogue was rebuilt, or this file was brought back from an old copy of it.
        if !copied.is_changed && there.iter().any(|row| Some(row.id) == copied.version) {
            return Ok(false);
        }
        self.check_room(there.first().map_or(0, |row| row.record.size)).map_err(|_| NotCopied::Room)?;
        // Copies of other states stay: this one was begun without them, or brought back from an old copy of the file.
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
