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
        let writing = self.staging().begin()?;
        let mut writer = writing.writer();
        let mut tombstones = Vec::with_capacity(versions.len());
        for version in versions {
            let place = writer.append(RecordKind::Tombstone, version.id, 0, false, &[])?;
            tombstones.push(StagedTombstone { id: version.id, segment: place.segment });
        }
        writer.unsynced()?.sync()?;
        let keys: Vec<VersionKey> = versions.iter().map(|version| version.key).collect();
        self.catalogue().commit_delete(&keys, &tombstones)?;
        let sealed: Vec<VersionId> = versions.iter().filter(|version| version.sealed).map(|version| version.id).collect();
        self.keys().destroy(&sealed)?;
        drop(writer);
        drop(writing);
        self.release_segments()
    }
}
