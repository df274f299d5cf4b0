//! The archive's own versions: backups of the service's state, stored like other objects. Users
//! didn't put these, so `status` counts them separately, and other counts mention them.

use anyhow::Result;
use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::Versions;
use fulgurite_archive::reserved::RESERVED_FOLDER;

use crate::list::each_version;
use crate::text::phrase;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OwnVersions {
    pub(crate) objects: u64,
    pub(crate) versions: u64,
    pub(crate) content_bytes: u64,
    pub(crate) staged_versions: u64,
    pub(crate) staged_bytes: u64,
}

impl OwnVersions {
    pub(crate) fn count(archive: &Archive) -> Result<Self> {
        let mut own = Self::default();
        let mut last = None;
        each_version(archive, RESERVED_FOLDER.as_bytes(), Versions::All, &mut |row| {
            own.versions += 1;
            own.content_bytes += row.record.size;
            if !row.archived {
                own.staged_versions += 1;
                own.staged_bytes += row.stored_bytes;
            }
            // Versions of a name follow each other.
            if last.as_ref() != Some(&row.record.name) {
                own.objects += 1;
                last = Some(row.record.name);
            }
            Ok(())
        })?;
        Ok(own)
    }

    /// A sentence for a count of versions that includes these, if there are any.
    pub(crate) fn included(&self) -> Option<String> {
        let versions = phrase(
            self.versions,
            "of these versions is a backup of the service's state",
            "of these versions are backups of the service's state",
        );
        (self.versions > 0).then(|| format!("{versions}."))
    }
}
