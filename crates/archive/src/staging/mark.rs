//! The mark of the folder of staging. Staging can be a disk of its own, and one that isn't mounted
//! looks like an empty folder: without a mark, everything staged would be taken for lost.

use std::io;
use std::sync::atomic::Ordering;

use fulgurite_domain::ArchiveId;

use super::{Staging, StagingError};
use crate::archive::{Archive, ArchiveError};
use crate::mark::{read_mark, write_mark};

pub(crate) const MARK: &str = "fulgurite-staging";

fn mark_text(archive: ArchiveId) -> String {
    format!("fulgurite staging 1\narchive {archive}\n")
}

/// Whether that is the mark of some archive's staging.
fn is_mark(text: &str) -> bool {
    let id = text.strip_prefix("fulgurite staging 1\narchive ").and_then(|rest| rest.strip_suffix('\n'));
    id.is_some_and(|id| id.parse::<ArchiveId>().is_ok())
}

fn on_one_line(text: &str) -> String {
    text.trim().replace('\n', ", ")
}

/// What is in the place of the mark.
enum Found {
    Ours,
    Nothing,
    /// A mark of another archive.
    Other(String),
    /// Something that is no mark.
    Damaged(String),
}

impl Staging {
    fn found_mark(&self) -> Result<Found, StagingError> {
        let found = read_mark(&*self.volume, MARK);
        Ok(match found.map_err(|source| StagingError::Unreadable { place: self.place(), source })? {
            None => Found::Nothing,
            Some(text) if text == mark_text(self.archive) => Found::Ours,
            Some(text) if is_mark(&text) => Found::Other(on_one_line(&text)),
            Some(text) => Found::Damaged(on_one_line(&text)),
        })
    }

    /// Whether the folder has the mark of this archive's staging.
    ///
    /// # Errors
    /// [`StagingError::Foreign`] if another mark is in it, [`StagingError::Unreadable`] if the
    /// folder can't be read.
    pub fn is_marked(&self) -> Result<bool, StagingError> {
        match self.found_mark()? {
            Found::Ours => Ok(true),
            Found::Nothing => Ok(false),
            Found::Other(found) | Found::Damaged(found) => Err(self.foreign(found)),
        }
    }

    /// Whether the folder has the mark of this archive's staging, or a damaged one.
    ///
    /// # Errors
    /// As [`is_marked`](Self::is_marked), of another archive's mark.
    pub(crate) fn has_some_mark(&self) -> Result<bool, StagingError> {
        match self.found_mark()? {
            Found::Damaged(_) => Ok(true),
            _ => self.is_marked(),
        }
    }

    /// Marks the folder, which must be there.
    ///
    /// # Errors
    /// [`StagingError::Foreign`], or [`StagingError::Write`].
    pub fn mark(&self) -> Result<(), StagingError> {
        match self.is_marked()? {
            true => Ok(()),
            false => self.write_mark(),
        }
    }

    fn write_mark(&self) -> Result<(), StagingError> {
        write_mark(&*self.volume, MARK, &mark_text(self.archive)).map_err(|source| self.write_error(source))
    }

    /// Fails if the folder lost its mark since the archive was opened: the disk was unmounted, and a
    /// segment would be hidden when it is mounted again.
    pub(super) fn check_still_marked(&self) -> io::Result<()> {
        if self.marked.load(Ordering::Relaxed) && !matches!(self.found_mark(), Ok(Found::Ours)) {
            let why = "the mark of this archive is not in it any more; is the disk mounted?";
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(())
    }

    fn foreign(&self, found: String) -> StagingError {
        StagingError::Foreign { place: self.place(), found, expected: on_one_line(&mark_text(self.archive)) }
    }

    pub(crate) fn absent(&self) -> StagingError {
        StagingError::Absent { place: self.place() }
    }
}

impl Archive {
    /// Makes sure that the folder of staging is there. An archive made by an earlier version has no
    /// mark in it, and is believed if nothing that was staged is missing. So is a folder whose mark is
    /// damaged, if everything that is staged is in it.
    pub(crate) fn check_staging(&self) -> Result<(), ArchiveError> {
        let is_it = match self.staging().found_mark()? {
            Found::Ours => true,
            Found::Nothing => !self.catalogue().is_staging_marked()? && self.has_all_segments()?,
            Found::Damaged(_) if self.has_all_segments()? => true,
            Found::Other(_) if !self.catalogue().segments_in_use()?.is_empty() && self.has_all_segments()? => true,
            Found::Damaged(found) | Found::Other(found) => return Err(self.staging().foreign(found).into()),
        };
        if is_it { Ok(()) } else { Err(self.staging().absent().into()) }
    }

    /// Marks the folder that was found to be staging, and notes that in the catalogue.
    pub(crate) fn mark_staging(&self) -> Result<(), ArchiveError> {
        if !matches!(self.staging().found_mark()?, Found::Ours) {
            self.staging().write_mark()?;
        }
        self.staging().marked.store(true, Ordering::Relaxed);
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
        // A damaged mark is no reason to stop, and is written anew.
        std::fs::write(&mark, "fulgurite staginh 1\n").expect("written");
        drop(Archive::open(&home, Access::Write).expect("opens"));
        assert_eq!(std::fs::read_to_string(&mark).expect("text"), mark_text(ArchiveId([7; 16])));
    }
}
