//! The mark of the folder of staging. Staging can be a disk of its own, and one that isn't mounted
//! looks like an empty folder: without a mark, everything staged would be taken for lost.

use fulgurite_domain::ArchiveId;

use super::{Staging, StagingError};
use crate::archive::{Archive, ArchiveError};
use crate::mark::{read_mark, write_mark};

pub(crate) const MARK: &str = "fulgurite-staging";

fn mark_text(archive: ArchiveId) -> String {
    format!("fulgurite staging 1\narchive {archive}\n")
}

impl Staging {
    /// Whether the folder has the mark of this archive's staging.
    ///
    /// # Errors
    /// [`StagingError::Foreign`] if another mark is in it, [`StagingError::Unreadable`] if the
    /// folder can't be read.
    pub fn is_marked(&self) -> Result<bool, StagingError> {
        let found = read_mark(&*self.volume, MARK);
        match found.map_err(|source| StagingError::Unreadable { place: self.place(), source })? {
            None => Ok(false),
            Some(text) if text == mark_text(self.archive) => Ok(true),
            Some(text) => Err(StagingError::Foreign { place: self.place(), found: text.trim().replace('\n', ", ") }),
        }
    }

    /// Marks the folder, which must be there.
    ///
    /// # Errors
    /// [`StagingError::Foreign`], or [`StagingError::Write`].
    pub fn mark(&self) -> Result<(), StagingError> {
        if self.is_marked()? {
            return Ok(());
        }
        write_mark(&*self.volume, MARK, &mark_text(self.archive)).map_err(|source| self.write_error(source))
    }

    pub(crate) fn absent(&self) -> StagingError {
        StagingError::Absent { place: self.place() }
    }
}

impl Archive {
    /// Makes sure that the folder of staging is there. An archive made by an earlier version has no
    /// mark in it, and is believed if nothing that was staged is missing.
    pub(crate) fn check_staging(&self) -> Result<(), ArchiveError> {
        if self.staging().is_marked()? || (!self.catalogue().is_staging_marked()? && self.has_all_segments()?) {
            return Ok(());
        }
        Err(self.staging().absent().into())
    }

    /// Marks the folder of staging, unless it is marked, and notes that in the catalogue.
    pub(crate) fn mark_staging(&self) -> Result<(), ArchiveError> {
        self.staging().mark()?;
        if !self.catalogue().is_staging_marked()? {
            self.catalogue().note_staging_mark()?;
        }
        Ok(())
    }

    fn has_all_segments(&self) -> Result<bool, ArchiveError> {
        let Ok(there) = self.staging().segments() else { return Ok(false) };
        let used = self.catalogue().segments_in_use()?;
        Ok(used.iter().all(|segment| there.binary_search(segment).is_ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use crate::settings::Settings;

    #[test]
    fn an_archive_of_an_earlier_version_gets_a_mark_and_needs_it_from_then_on() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().join("archive");
        let text = format!(
            "[archive]\nid = \"{}\"\n[set]\ninformation = 1\nredundancy = 0\n[[store]]\nname = \"s\"\npath = \"s\"\n",
            ArchiveId([7; 16])
        );
        Archive::init(&home, &Settings::parse(&text, &home).expect("settings")).expect("made");
        let mark = home.join("staging").join(MARK);
        std::fs::remove_file(&mark).expect("there was one");
        assert!(matches!(Archive::open(&home, Access::Write), Err(ArchiveError::Staging(StagingError::Absent { .. }))));
        let catalogue = rusqlite::Connection::open(home.join("catalogue.db")).expect("opens");
        assert_eq!(catalogue.execute("DELETE FROM staging_mark", []).expect("deleted"), 1);
        drop(catalogue);
        drop(Archive::open(&home, Access::Write).expect("opens"));
        assert!(mark.exists());
        std::fs::write(&mark, mark_text(ArchiveId([8; 16]))).expect("written");
        assert!(matches!(Archive::open(&home, Access::Write), Err(ArchiveError::Staging(StagingError::Foreign { .. }))));
    }
}
