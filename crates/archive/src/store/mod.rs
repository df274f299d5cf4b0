//! Stores: where platters are kept. One store stands for one thing that fails as a whole, such as a disk, a mount or a bucket.
//!
//! The platters of a set are on different stores (I3: a store is a blast zone of the disk medium). A store is marked as one of its archive's,
//! because a disk that isn't mounted looks like an empty folder, and must not be taken for one.
//!
//! `conformance` is the suite that any store has to pass.

#[cfg(test)]
mod conformance;
mod folder;
mod layout;
#[cfg(feature = "remote")]
mod remote;

use std::io::{self, Write};
use std::sync::Arc;

use fulgurite_domain::PlatterId;
use fulgurite_glass::PlatterSource;

use crate::unread::Hindrance;

pub use folder::FolderStore;
pub use layout::Mark;
#[cfg(feature = "remote")]
pub use remote::RemoteStore;

/// Why a store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It has no mark: not mounted, or never set up.
    #[error(
        "store {store} ({place}) is absent: no mark of this archive is in it. Is the disk mounted? \
         If this is an empty disk in place of one that is gone: `fulgurite store replace {store}`"
    )]
    Unmarked {
        /// Name in the settings.
        store: String,
        /// Where it should be.
        place: String,
    },
    /// It belongs to another archive, or is another store of this one.
    #[error(
        "store {store} ({place}) is absent: its folder is marked \"{found}\", and \"{expected}\" is expected. {}",
        whose(.found, .expected)
    )]
    Foreign {
        /// Name in the settings.
        store: String,
        /// Where it is.
        place: String,
        /// What its mark says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// It can't become a store, because it is one.
    #[error(
        "store {store} ({place}) can't be set up: the folder is marked \"{found}\" already. Give another folder. \
         If that archive's own folder is lost, `fulgurite attach` brings it back from its stores"
    )]
    Taken {
        /// Name in the settings.
        store: String,
        /// Where it is.
        place: String,
        /// What its mark says.
        found: String,
    },
    /// Its service can't do what a store has to.
    #[error("store {store} ({place}) can't keep platters: its service has no {lacks}")]
    Unfit {
        /// Name in the settings.
        store: String,
        /// Where it is.
        place: String,
        /// What the service doesn't do.
        lacks: &'static str,
    },
    /// Reading or writing failed.
    #[error("store {store} ({place}) can't be read or written: {source}")]
    Io {
        /// Name in the settings.
        store: String,
        /// Where it is.
        place: String,
        /// What the system says.
        source: io::Error,
    },
}

fn whose(found: &str, expected: &str) -> String {
    match layout::same_archive(found, expected) {
        Some(other) => format!("It is the disk of store {other}: two disks changed places, or the settings do"),
        None => "It is another archive's".to_owned(),
    }
}

impl StoreError {
    /// The store of the same archive whose disk is in the place of this one.
    #[must_use]
    pub fn is_disk_of(&self) -> Option<&str> {
        match self {
            Self::Foreign { found, expected, .. } => layout::same_archive(found, expected),
            _ => None,
        }
    }

    /// What it says of a store that was looked at, whose platters can't be read.
    #[must_use]
    pub fn hindrance(&self) -> Hindrance {
        match self {
            Self::Unmarked { .. } | Self::Foreign { .. } | Self::Taken { .. } => Hindrance::Absent,
            Self::Unfit { .. } | Self::Io { .. } => Hindrance::Unreadable,
        }
    }
}

/// A platter being written to a store. Nobody sees it before [`commit`](PlatterSink::commit).
pub trait PlatterSink: Write + Send {
    /// Makes what was written durable and opens it, to be read back before anybody sees it. Nothing can be written after that.
    ///
    /// # Errors
    /// What the store answers.
    fn finish(&mut self) -> io::Result<Arc<dyn PlatterFile>>;
    /// Makes the platter durable and visible under its identifier, in place of one that was there.
    ///
    /// # Errors
    /// What the store answers; the platter is not there then.
    fn commit(self: Box<Self>) -> io::Result<()>;
}

/// Keeps platters. Platters are immutable; all a store can do is take, show, list and drop them.
pub trait PlatterStore: Send + Sync {
    /// Its name in the settings.
    fn name(&self) -> &str;
    /// Where it is, for people.
    fn place(&self) -> String;
    /// Sets up a new, empty store.
    ///
    /// # Errors
    /// [`StoreError::Foreign`] if it is a store already.
    fn mark(&self) -> Result<(), StoreError>;
    /// Whether it is there, and this archive's.
    ///
    /// # Errors
    /// [`StoreError`] says what is wrong.
    fn check(&self) -> Result<(), StoreError>;
    /// Begins a platter of `bytes`.
    ///
    /// # Errors
    /// What the store answers, such as a full disk.
    fn create(&self, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>>;
    /// Opens a platter; `None` if it isn't there.
    ///
    /// # Errors
    /// What the store answers.
    fn open(&self, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>>;
    /// The platters that are there.
    ///
    /// # Errors
    /// What the store answers.
    fn list(&self) -> io::Result<Vec<PlatterId>>;
    /// Drops a platter. That it isn't there is no error.
    ///
    /// # Errors
    /// What the store answers.
    fn remove(&self, platter: PlatterId) -> io::Result<()>;
    /// Removes what interrupted writing left behind. Nobody else may be writing.
    ///
    /// # Errors
    /// What the store answers.
    fn sweep(&self) -> io::Result<()>;
    /// Bytes that can still be written, where that is known.
    fn free_bytes(&self) -> Option<u64>;
}

/// A platter of a store, to be read.
pub trait PlatterFile: PlatterSource {
    /// Length of the file.
    ///
    /// # Errors
    /// What the store answers.
    fn length(&self) -> io::Result<u64>;
}
