//! Scrubbing in pieces, one platter or set at a time, for a server that reads a little at a time.

use fulgurite_domain::PlatterId;

use super::{PlatterFinding, ScrubReport};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::SetDescription;
use crate::watch::{Watcher, go_on};

impl Archive {
    /// Reads a platter in full and records the result.
    ///
    /// # Errors
    /// [`ArchiveError::UnknownPlatter`], [`ArchiveError::Stopped`], or an error of the catalogue.
    pub fn verify_platter(&self, platter: PlatterId, watcher: &dyn Watcher) -> Result<PlatterFinding, ArchiveError> {
        let set = self.set_with(platter)?;
        let position = set.platters.iter().position(|place| place.platter == platter).expect("a set names its platters") as u16;
        let finding = self.read_platter(&self.open_set(&set), position, &mut ScrubReport::default(), watcher);
        go_on(watcher)?;
        self.record(&finding)?;
        Ok(finding)
    }

    /// Reads all platters of the set that contains `platter`, and reports what is lost. Replaces
    /// nothing.
    ///
    /// # Errors
    /// [`ArchiveError::UnknownPlatter`], [`ArchiveError::Stopped`], or an error of the catalogue.
    pub fn verify_set_of(&self, platter: PlatterId, watcher: &dyn Watcher) -> Result<ScrubReport, ArchiveError> {
        let mut report = ScrubReport::default();
        self.scrub_set(&self.set_with(platter)?, None, &mut report, watcher)?;
        Ok(report)
    }

    fn set_with(&self, platter: PlatterId) -> Result<SetDescription, ArchiveError> {
        let set = self.catalogue().set_of(platter)?;
        Ok(set.ok_or(ArchiveError::UnknownPlatter { platter })?.description)
    }
}
