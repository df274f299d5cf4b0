//! Version numbers that several versions of a name share.
//!
//! A rebuild without all stores can't know which numbers are taken (decision 0014). Whatever takes a number then needs an identifier to choose by.

use fulgurite_domain::ObjectName;

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{After, VersionRow, Versions};
use crate::watch::{Trouble, Watcher};

/// Rows asked of the catalogue at once.
const PAGE: usize = 1_000;
/// Most numbers that are named; the others are only counted.
const NAMED: u64 = 100;

/// Finds shared numbers in rows that come in the order of all listings.
#[derive(Default)]
pub(crate) struct SharedNumbers {
    last: Option<(ObjectName, u64)>,
    /// Whether the last number is counted already.
    is_counted: bool,
    count: u64,
}

impl SharedNumbers {
    /// Takes the next row. Names its number if the row before has the same, and the one before that has not.
    pub(crate) fn take(&mut self, row: &VersionRow, watcher: &dyn Watcher) {
        let is_shared = self.last.as_ref().is_some_and(|(name, number)| *number == row.record.version && *name == row.record.name);
        if !is_shared {
            self.last = Some((row.record.name.clone(), row.record.version));
        } else if !self.is_counted {
            self.count += 1;
            if self.count <= NAMED {
                let text = format!(
                    "{} has several versions numbered {}; `fulgurite ls --versions` shows their identifiers, and `get --id` and `rm --id` take one",
                    row.record.name.display(),
                    row.record.version
                );
                watcher.trouble(Trouble::Note { text: &text });
            }
        }
        self.is_counted = is_shared;
    }

    /// How many numbers are shared.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

impl Archive {
    /// Counts the numbers that several versions of a name share, and names the first of them.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn count_shared_numbers(&self, watcher: &dyn Watcher) -> Result<u64, ArchiveError> {
        let mut shared = SharedNumbers::default();
        let mut after = None;
        loop {
            let page = self.catalogue().list(b"", Versions::All, after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { return Ok(shared.count()) };
            after = Some(After::row(last));
            page.iter().for_each(|row| shared.take(row, watcher));
        }
    }
}
