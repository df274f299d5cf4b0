//! Reads every version in full.

use serde::{Deserialize, Serialize};

use super::PAGE;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{VersionRow, Versions};
use crate::object::{ObjectReader, ReadError};
use crate::paging::Pager;
use crate::watch::{OutOfReach, Trouble, Watcher, check_not_stopped};

/// Result of reading every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ObjectsReport {
    /// Versions checked.
    pub versions: u64,
    /// Versions whose content differs from what was put, or is lost.
    pub wrong: u64,
    /// Versions that can't be read now but aren't known to be lost.
    pub out_of_reach: OutOfReach,
}

impl Archive {
    /// Reads every version in full and compares it with its SHA-256.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails, or if the watcher stops the reading. Versions that
    /// can't be read are reported and counted.
    pub fn verify_objects(&self, watcher: &dyn Watcher) -> Result<ObjectsReport, ArchiveError> {
        let totals = self.catalogue().totals()?;
        watcher.stage("reading objects", Some(totals.content_bytes));
        let mut reader = ObjectReader::new(self);
        let mut report = ObjectsReport::default();
        let mut pages = Pager::default();
        while let Some(page) = pages.next(|after| self.catalogue().list(b"", Versions::All, after, PAGE))? {
            for row in page {
                check_not_stopped(watcher)?;
                let result = reader.read(&row, &mut |bytes| {
                    watcher.done(0, bytes.len() as u64);
                    Ok(())
                });
                report.versions += 1;
                match result {
                    Ok(()) => {}
                    // For example by a server.
                    Err(ReadError::Removed) => report.versions -= 1,
                    Err(error) => {
                        match error.hindrance() {
                            Some(hindrance) => report.out_of_reach.add(hindrance),
                            None => report.wrong += 1,
                        }
                        watcher.trouble(Trouble::unread(&row, error.hindrance(), &error.to_string()));
                    }
                }
            }
        }
        self.check_in_place()?;
        Ok(report)
    }
}

/// True if a listed version was removed since, for example by a server.
pub(super) fn was_removed(archive: &Archive, row: &VersionRow) -> Result<bool, ArchiveError> {
    Ok(archive.catalogue().version(&row.record.name, row.id)?.is_none())
}
