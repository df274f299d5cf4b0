//! The mark file of the staging folder. Staging can be on its own disk, and an unmounted disk looks
//! like an empty folder. Without a mark, all staged objects would be taken for lost.

use std::io;
use std::sync::atomic::Ordering;

use fulgurite_domain::ArchiveId;

use super::{Staging, StagingError};
use crate::archive::{Archive, ArchiveError};
use crate::folder_mark::{read_mark, write_mark};

pub(crate) const MARK: &str = "fulgurite-staging";

fn mark_text(archive: ArchiveId) -> String {
    format!("fulgurite staging 1\narchive {archive}\n")
}

fn is_mark(text: &str) -> bool {
    let id = text.strip_prefix("fulgurite staging 1\narchive ").and_then(|rest| rest.strip_suffix('\n'));
    id.is_some_and(|id| id.parse::<ArchiveId>().is_ok())
}

fn on_one_line(text: &str) -> String {
    text.trim().replace('\n', ", ")
}

enum Found {
    Ours,
    Nothing,
    Other(String),
    /// A file that is not a valid mark.
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

    /// True if the folder carries the mark of this archive's staging.
    ///
    /// # Errors
    /// [`StagingError::Foreign`] if it carries a different mark, [`StagingError::Unreadable`] if
    /// the folder can't be read.
    pub fn is_marked(&self) -> Result<bool, StagingError> {
        match self.found_mark()? {
            Found::Ours => Ok(true),
            Found::Nothing => Ok(false),
            Found::Other(found) | Found::Damaged(found) => Err(self.foreign(found)),
        }
    }

    /// True if the folder carries the mark of this archive's staging, or a damaged mark.
    pub(crate) fn has_some_mark(&self) -> Result<bool, StagingError> {
        match self.found_mark()? {
            Found::Damaged(_) => Ok(true),
            _ => self.is_marked(),
        }
    }

    /// Writes the mark. The folder must exist.
    ///
    /// # Errors
    /// [`StagingError::Foreign`], [`StagingError::Unreadable`] or [`StagingError::Write`].
    pub fn mark(&self) -> Result<(), StagingError> {
        match self.is_marked()? {
            true => Ok(()),
            false => self.write_mark(),
        }
    }

    fn write_mark(&self) -> Result<(), StagingError> {
        write_mark(&*self.volume, MARK, &mark_text(self.archive)).map_err(|source| self.write_error(source))
    }

    /// Fails if the folder lost its mark since the archive was opened: the disk was probably
    /// unmounted, and would hide a new segment as soon as it is mounted again.
    pub(super) fn check_still_marked(&self) -> io::Result<()> {
        if self.marked.load(Ordering::Relaxed) && !matches!(self.found_mark(), Ok(Found::Ours)) {
            let why = "it no longer contains the mark of this archive; is the disk mounted?";
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(())
    }

    fn foreign(&self, found: String) -> StagingError {
        StagingError::Foreign { place: self.place(), found, expected: on_one_line(&mark_text(self.archive)) }
    }

    pub(crate) fn absent(&self) -> StagingError {
        StagingError::Absent(self.place())
    }
}

/// Checks that the staging folder is present. An archive made by an earlier version has no
/// mark; its folder is accepted if no staged segment is missing. A folder with a damaged mark
/// is accepted if it contains all staged segments, and so is one with the mark of another archive
/// if at least one segment is staged.
pub(crate) fn check_staging(archive: &Archive) -> Result<(), ArchiveError> {
    let is_it = match archive.staging().found_mark()? {
        Found::Ours => true,
        Found::Nothing => !archive.catalogue().is_staging_marked()? && has_all_segments(archive)?,
        Found::Damaged(_) if has_all_segments(archive)? => true,
        Found::Other(_) if !archive.catalogue().segments_in_use()?.is_empty() && has_all_segments(archive)? => true,
        Found::Damaged(found) | Found::Other(found) => return Err(archive.staging().foreign(found).into()),
    };
    if is_it { Ok(()) } else { Err(archive.staging().absent().into()) }
}

/// Writes the mark into the verified staging folder and records it in the catalogue.
pub(crate) fn mark_staging(archive: &Archive) -> Result<(), ArchiveError> {
    if !matches!(archive.staging().found_mark()?, Found::Ours) {
        archive.staging().write_mark()?;
    }
    archive.staging().marked.store(true, Ordering::Relaxed);
    if !archive.catalogue().is_staging_marked()? {
        archive.catalogue().note_staging_mark()?;
    }
    Ok(())
}

fn has_all_segments(archive: &Archive) -> Result<bool, ArchiveError> {
    let Ok(existing) = archive.staging().segments() else { return Ok(false) };
    let used = archive.catalogue().segments_in_use()?;
    Ok(used.iter().all(|segment| existing.binary_search(segment).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use crate::settings::Settings;

    #[test]
    fn an_archive_of_an_earlier_version_gets_a_mark_and_requires_it_afterwards() {
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
        // A damaged mark is rewritten, and is no reason to refuse the folder.
        std::fs::write(&mark, "fulgurite staginh 1\n").expect("written");
        drop(Archive::open(&home, Access::Write).expect("opens"));
        assert_eq!(std::fs::read_to_string(&mark).expect("text"), mark_text(ArchiveId([7; 16])));
    }
}
