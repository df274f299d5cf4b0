//! The committer: what makes a batch acknowledged.

use super::writer::Batch;
use crate::archive::{Archive, ArchiveError};
use crate::staging::{StagingError, Writing};

impl Archive {
    /// Waits until the segments of a batch are `synced`, and commits it to the catalogue. Afterwards it survives whatever comes (I7). Its keys
    /// were stored before its records were written.
    pub(super) fn commit_batch(
        &self,
        batch: &Batch,
        writing: &Writing<'_>,
        synced: impl FnOnce() -> Result<(), StagingError>,
    ) -> Result<(), ArchiveError> {
        synced()?;
        self.catalogue().commit(&batch.change)?;
        self.forgotten().extend(batch.change.tombstones.iter().map(|tombstone| tombstone.id));
        writing.keep_from(batch.keep_from);
        Ok(())
    }
}
