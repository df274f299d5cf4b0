//! Stores: where platters are kept. A store is one failure unit, such as a disk, a mount or a
//! bucket.
//!
//! The platters of a set are on different stores (I3: a store is a blast zone of the disk medium).
//! A mark identifies a store as its archive's, because a disk that isn't mounted looks like an
//! empty folder and must not be mistaken for an empty store.
//!
//! Every store must pass the `conformance` suite.

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

use crate::attach::ABSENT;
use crate::unread::Hindrance;
use crate::volume::read_full;

pub use folder::FolderStore;
pub(crate) use layout::MARK as STORE_MARK;
pub use layout::Mark;
#[cfg(feature = "remote")]
pub use remote::RemoteStore;

/// Why a store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store has no mark: it is not mounted, or was never set up.
    #[error("store {store} ({place}) is absent: {}", unmarked(store, place))]
    Unmarked {
        /// Name in the settings.
        store: String,
        /// Configured location.
        place: String,
    },
    /// The store belongs to another archive, or is another store of this one.
    #[error(
        "store {store} ({place}) is absent: its folder is marked \"{found}\", expected \"{expected}\". {}",
        whose(.found, .expected)
    )]
    Foreign {
        /// Name in the settings.
        store: String,
        /// Location of the store.
        place: String,
        /// Text of the mark found.
        found: String,
        /// Text of the mark expected.
        expected: String,
    },
    /// The folder can't become a store, because it already is one.
    #[error(
        "store {store} ({place}) can't be set up: the folder is already marked \"{found}\". Choose another folder. \
         If that archive's own folder is lost, `fulgurite attach` rebuilds it from its stores"
    )]
    Taken {
        /// Name in the settings.
        store: String,
        /// Location of the store.
        place: String,
        /// Text of the mark found.
        found: String,
    },
    /// The service lacks a required feature.
    #[error("store {store} ({place}) can't hold platters: its service doesn't support {lacks}")]
    Unfit {
        /// Name in the settings.
        store: String,
        /// Location of the store.
        place: String,
        /// The missing feature.
        lacks: &'static str,
    },
    /// A platter is larger than the free space.
    #[error("store {store} ({place}) has {free} bytes free, a platter needs {needed}")]
    Full {
        /// Name in the settings.
        store: String,
        /// Location of the store.
        place: String,
        /// Bytes that can still be written to it.
        free: u64,
        /// Bytes of the platter.
        needed: u64,
    },
    /// A read or write failed.
    #[error("can't access store {store} ({place}): {source}")]
    Io {
        /// Name in the settings.
        store: String,
        /// Location of the store.
        place: String,
        /// The system's error.
        source: io::Error,
    },
}

fn unmarked(store: &str, place: &str) -> String {
    // A place that `attach` made up for a store that it was not given.
    if store.starts_with(ABSENT) && place.ends_with(&format!("/{store}")) {
        return format!(
            "it was not given to `fulgurite attach`. When it turns up: `fulgurite store add FOLDER`. If it is gone for good, change its path in \
             the settings to an empty folder on a new disk, then `fulgurite store replace {store}`"
        );
    }
    format!(
        "no mark of this archive is in it. Is the disk mounted? \
         If this is an empty disk in place of one that is gone: `fulgurite store replace {store}`"
    )
}

fn whose(found: &str, expected: &str) -> String {
    match layout::same_archive(found, expected) {
        Some(other) => format!("It is the disk of store {other}: two disks changed places, on the machine or in the settings"),
        None => "It belongs to another archive".to_owned(),
    }
}

impl StoreError {
    /// Name of the store of the same archive whose disk is in this place.
    #[must_use]
    pub fn is_disk_of(&self) -> Option<&str> {
        match self {
            Self::Foreign { found, expected, .. } => layout::same_archive(found, expected),
            _ => None,
        }
    }

    /// Wraps errors of a store.
    pub(crate) fn io(store: &dyn PlatterStore) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { store: store.name().to_owned(), place: store.place(), source }
    }

    /// Why the store's platters can't be read, given this error of [`check`](PlatterStore::check).
    #[must_use]
    pub fn hindrance(&self) -> Hindrance {
        match self {
            Self::Unmarked { .. } | Self::Foreign { .. } | Self::Taken { .. } => Hindrance::Absent,
            Self::Unfit { .. } | Self::Full { .. } | Self::Io { .. } => Hindrance::Unreadable,
        }
    }
}

/// A platter being written to a store. It is invisible before [`commit`](PlatterSink::commit).
pub trait PlatterSink: Write + Send {
    /// Makes the written bytes durable and opens them, to be read back before the platter becomes
    /// visible. Nothing can be written after that.
    ///
    /// # Errors
    /// An error of the store.
    fn finish(&mut self) -> io::Result<Arc<dyn PlatterFile>>;
    /// Makes the platter durable and visible under its identifier, replacing an earlier one.
    ///
    /// # Errors
    /// An error of the store; the platter is not visible then.
    fn commit(self: Box<Self>) -> io::Result<()>;
}

/// Stores platters. Platters are immutable: a store only adds, reads, lists and removes them.
pub trait PlatterStore: Send + Sync {
    /// Its name in the settings.
    fn name(&self) -> &str;
    /// Location for messages.
    fn place(&self) -> String;
    /// Sets up a new, empty store.
    ///
    /// # Errors
    /// [`StoreError::Foreign`] if it is already another store.
    fn mark(&self) -> Result<(), StoreError>;
    /// Checks that the store is present and belongs to this archive.
    ///
    /// # Errors
    /// [`StoreError`] if it doesn't.
    fn check(&self) -> Result<(), StoreError>;
    /// Starts writing a platter of `bytes`.
    ///
    /// # Errors
    /// An error of the store, such as a full disk.
    fn create(&self, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>>;
    /// Opens a platter; `None` if the store doesn't have it.
    ///
    /// # Errors
    /// An error of the store.
    fn open(&self, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>>;
    /// Lists the platters on the store.
    ///
    /// # Errors
    /// An error of the store.
    fn list(&self) -> io::Result<Vec<PlatterId>>;
    /// Removes a platter. Succeeds if the store doesn't have it.
    ///
    /// # Errors
    /// An error of the store.
    fn remove(&self, platter: PlatterId) -> io::Result<()>;
    /// Removes leftovers of interrupted writes. No platter may be being written.
    ///
    /// # Errors
    /// An error of the store.
    fn sweep(&self) -> io::Result<()>;
    /// Bytes that can still be written, if known.
    fn free_bytes(&self) -> Option<u64>;
}

/// A platter opened for reading.
pub trait PlatterFile: PlatterSource {
    /// Length of the file.
    ///
    /// # Errors
    /// An error of the store.
    fn length(&self) -> io::Result<u64>;
}

/// Fills `buffer` from a platter file.
pub(crate) fn read_exact_at(file: &dyn PlatterFile, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    match read_full(|offset, buffer| file.read_at(offset, buffer), offset, buffer)? == buffer.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
