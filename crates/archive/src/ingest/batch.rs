//! A batch: objects and removals that share one commit.

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::Change;
use crate::staging::{Unsynced, Writing};

#[derive(Default)]
pub(super) struct Batch {
    pub(super) change: Change,
    pub(super) unsynced: Option<Unsynced>,
    /// The first segment that has, or may yet get, content of objects in later batches.
    pub(super) keep_from: u64,
}

impl Batch {
    /// Syncs the segments of the batch, and commits it to the catalogue. Then it survives any crash
    /// (I7). Its keys were stored before its records were written.
    pub(super) fn commit(&mut self, archive: &Archive, writing: &Writing<'_>) -> Result<(), ArchiveError> {
        if let Some(unsynced) = self.unsynced.take() {
            unsynced.sync()?;
        }
        archive.catalogue().commit(&self.change)?;
        archive.keys_to_destroy().extend(self.change.tombstones.iter().map(|tombstone| tombstone.id));
        writing.keep_from(self.keep_from);
        Ok(())
    }
}
