//! Reading the newest version of a name beside a server that replaces it.

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::VersionRow;
use crate::object::{ObjectReader, Opened, ReadError};

/// How often a read of the newest version begins again because the version was replaced.
pub const SUCCESSORS_MAX: usize = 8;

impl Archive {
    /// The newest version of the same name, after a read of `version` ended with
    /// [`ReadError::Removed`]. `None` if the name was deleted.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn successor(&self, version: &VersionRow) -> Result<Option<VersionRow>, ArchiveError> {
        let newest = self.reading().newest(&version.record.name)?;
        Ok(newest.filter(|row| row.record.kind.has_content()))
    }
}

impl ObjectReader<'_> {
    /// [Opens](Self::open) a version that was the newest of its name when it was looked up; if it
    /// was replaced since, its successor. `None` if the name was deleted.
    ///
    /// # Errors
    /// [`ReadError`] says why; [`ReadError::Removed`] if it is replaced again and again.
    pub fn open_newest(&self, version: &VersionRow) -> Result<Option<Opened>, ReadError> {
        let mut found = version.clone();
        for _ in 0..SUCCESSORS_MAX {
            match self.open(&found) {
                Err(ReadError::Removed) => {}
                opened => return opened.map(Some),
            }
            match self.archive.successor(&found)? {
                Some(successor) => found = successor,
                None => return Ok(None),
            }
        }
        Err(ReadError::Removed)
    }
}
