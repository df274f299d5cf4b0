//! The committer: acknowledges batches.

use super::writer::Batch;
use crate::archive::{Archive, ArchiveError};
use crate::staging::Writing;

/// Syncs the segments of a batch, and commits it to the catalogue. Then it survives any crash (I7).
/// Its keys were stored before its records were written.
pub(super) fn commit_batch(archive: &Archive, batch: &mut Batch, writing: &Writing<'_>) -> Result<(), ArchiveError> {
    if let Some(unsynced) = batch.unsynced.take() {
        unsynced.sync()?;
    }
    archive.catalogue().commit(&batch.change)?;
    archive.forgotten().extend(batch.change.tombstones.iter().map(|tombstone| tombstone.id));
    writing.keep_from(batch.keep_from);
    Ok(())
}
