//! Removing: versions are forgotten and their keys destroyed.
//!
//! What is on platters stays there, and can't be read any more by anyone: neither bytes nor names, for both are sealed under the key that
//! is gone. (In an archive that stores in the clear it stays readable to whoever has the platter.) A tombstone is staged, so that
//! a rebuild of the catalogue doesn't bring the version back.

use fulgurite_domain::VersionId;
use fulgurite_format::RecordKind;

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{StagedTombstone, VersionKey, VersionRow};

impl Archive {
    /// Removes versions, for ever.
    ///
    /// # Errors
    /// What failed. Before the catalogue's transaction nothing is removed; a removal that is cut short behind it is completed by the next
    /// opening.
    pub fn remove(&self, versions: &[VersionRow]) -> Result<(), ArchiveError> {
        if versions.is_empty() {
            return Ok(());
        }
        let forgotten = self.forget(versions);
        let sealed: Vec<VersionId> = versions.iter().filter(|version| version.sealed).map(|version| version.id).collect();
        let removed = forgotten.and_then(|()| Ok(self.keys().destroy(&sealed)?));
        // Whether it worked or not: a tombstone without the catalogue's word for it must not be found by a rebuild one day.
        let released = self.release_segments();
        removed.and(released)
    }

    /// Stages tombstones and takes the versions out of the catalogue.
    fn forget(&self, versions: &[VersionRow]) -> Result<(), ArchiveError> {
        let writing = self.staging().begin()?;
        let mut writer = writing.writer();
        let mut tombstones = Vec::with_capacity(versions.len());
        for version in versions {
            let place = writer.append(RecordKind::Tombstone, version.id, 0, false, &[])?;
            tombstones.push(StagedTombstone { id: version.id, segment: place.segment });
        }
        writer.unsynced()?.sync()?;
        let keys: Vec<VersionKey> = versions.iter().map(|version| version.key).collect();
        Ok(self.catalogue().commit_delete(&keys, &tombstones)?)
    }

    /// Destroys the keys of what an [`Intake`](crate::Intake) has removed, clears their names from the catalogue's log, and removes segments that
    /// nothing needs any more. Until then, whoever has the archive's disks could still read what was removed.
    ///
    /// # Errors
    /// What failed; the next sweep tries it again.
    pub fn sweep(&self) -> Result<(), ArchiveError> {
        let forgotten = std::mem::take(&mut *self.forgotten());
        if !forgotten.is_empty() {
            if let Err(error) = self.keys().destroy(&forgotten) {
                self.forgotten().extend(forgotten);
                return Err(error.into());
            }
            self.catalogue().clear_log()?;
        }
        self.release_segments()
    }

    /// Does what is left to do for versions that the catalogue has forgotten: their keys are destroyed, and the segments they were staged in go.
    pub(crate) fn finish_removals(&self, tombstones: &[VersionId]) -> Result<(), ArchiveError> {
        if tombstones.is_empty() {
            return Ok(());
        }
        self.keys().destroy(tombstones)?;
        self.release_segments()
    }
}
