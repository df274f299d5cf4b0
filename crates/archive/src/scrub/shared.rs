//! Detects version numbers shared by several versions of a name.
//!
//! A rebuild without all stores can't know which numbers are taken (decision 0014). Commands that
//! take a version number then need an identifier instead.

use fulgurite_domain::ObjectName;

use super::PAGE;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{VersionRow, Versions};
use crate::paging::Pager;
use crate::watch::{Trouble, Watcher};

/// Maximum number of shared numbers to report; further ones are only counted.
const REPORTED_MAX: u64 = 100;

#[derive(Default)]
pub(crate) struct SharedNumbers {
    last: Option<(ObjectName, u64)>,
    is_counted: bool,
    pub(crate) count: u64,
}

impl SharedNumbers {
    /// Processes the next row. Reports its number at the second row that has it.
    pub(crate) fn take(&mut self, row: &VersionRow, watcher: &dyn Watcher) {
        let is_shared = self.last.as_ref().is_some_and(|(name, number)| *number == row.record.version && *name == row.record.name);
        if !is_shared {
            self.last = Some((row.record.name.clone(), row.record.version));
        } else if !self.is_counted {
            self.count += 1;
            if self.count <= REPORTED_MAX {
                let text = format!(
                    "{} has several versions numbered {}; `fulgurite ls --versions` shows their identifiers, for use with `get --id` and `rm --id`",
                    row.record.name.display(),
                    row.record.version
                );
                watcher.trouble(Trouble::Note(&text));
            }
        }
        self.is_counted = is_shared;
    }
}

/// Counts version numbers shared by several versions of a name, and reports the first of them.
///
/// # Errors
/// [`ArchiveError`] if the catalogue fails.
pub fn count_shared_numbers(archive: &Archive, watcher: &dyn Watcher) -> Result<u64, ArchiveError> {
    let mut shared = SharedNumbers::default();
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| archive.catalogue().list(b"", Versions::All, after, PAGE))? {
        page.iter().for_each(|row| shared.take(row, watcher));
    }
    Ok(shared.count)
}
