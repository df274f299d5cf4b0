//! Scrubbing in pieces, one platter or set at a time, for a server that reads a little at a time.

use fulgurite_domain::PlatterId;

use super::reading::{read_platter, record};
use super::{PlatterFinding, Scrub, ScrubReport};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::SetDescription;
use crate::set_reader::OpenSet;
use crate::watch::{Watcher, go_on};

impl Archive {
    /// Reads a platter in full and records the result.
    ///
    /// # Errors
    /// [`ArchiveError::UnknownPlatter`], [`ArchiveError::Stopped`], or an error of the catalogue.
    pub fn verify_platter(&self, platter: PlatterId, watcher: &dyn Watcher) -> Result<PlatterFinding, ArchiveError> {
        let (set, position) = set_with(self, platter)?;
        let (finding, _) = read_platter(self, &OpenSet::of(self, &set), position, watcher);
        go_on(watcher)?;
        record(self, &finding)?;
        Ok(finding)
    }

    /// Reads all platters of the set that contains `platter`, and reports what is lost. Replaces
    /// nothing.
    ///
    /// # Errors
    /// [`ArchiveError::UnknownPlatter`], [`ArchiveError::Stopped`], or an error of the catalogue.
    pub fn verify_set_of(&self, platter: PlatterId, watcher: &dyn Watcher) -> Result<ScrubReport, ArchiveError> {
        let mut scrub = Scrub::new(self, None, watcher);
        scrub.set(&set_with(self, platter)?.0)?;
        Ok(scrub.report)
    }
}

/// The set of a platter, and the platter's position in it.
pub(super) fn set_with(archive: &Archive, platter: PlatterId) -> Result<(SetDescription, u16), ArchiveError> {
    let set = archive.catalogue().set_of(platter)?.ok_or(ArchiveError::UnknownPlatter(platter))?.description;
    let position = set.platters.iter().position(|place| place.platter == platter).expect("a set names its platters");
    Ok((set, position as u16))
}
