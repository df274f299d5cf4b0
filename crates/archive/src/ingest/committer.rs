//! The committer: what makes a batch acknowledged.

use super::writer::Batch;
use crate::archive::{Archive, ArchiveError};
use crate::staging::{StagingError, Writing};

impl Archive {
    /// Keeps the keys of a batch, waits until its segments are `synced`, and commits it to the catalogue. Afterwards it survives whatever comes
    /// (I7). Keys and segments may reach stable storage in any order, or at once; the catalogue's row speaks of both.
    pub(super) fn commit_batch(
        &self,
        batch: &Batch,
        writing: &Writing<'_>,
        synced: impl FnOnce() -> Result<(), StagingError>,
    ) -> Result<(), ArchiveError> {
        let kept = if batch.keys.is_empty() { Ok(()) } else { self.keys().insert(&batch.keys) };
        // Whatever came of the keys: a sync that is under way has to be waited for.
        synced()?;
        kept?;
        self.catalogue().commit(&batch.change)?;
        self.forgotten().extend(batch.change.tombstones.iter().map(|tombstone| tombstone.id));
        writing.keep_from(batch.keep_from);
        Ok(())
    }
}
