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
mod error;
mod folder;
mod layout;
mod medium;
#[cfg(feature = "remote")]
mod remote;

use std::io::{self, Write};
use std::sync::Arc;

use fulgurite_domain::PlatterId;
use fulgurite_glass::PlatterSource;

use crate::decoding::DecodeTotals;
use crate::unread::Hindrance;
use crate::volume::read_full;

pub use error::{BadMark, MisplacedStore, StoreError};
pub use folder::FolderStore;
pub(crate) use layout::MARK as STORE_MARK;
pub use layout::Mark;
pub(crate) use medium::{GlassDrives, MediumStore, platter_bytes};
#[cfg(feature = "remote")]
pub use remote::RemoteStore;

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
    /// An error of the store. The platter may be visible all the same, if only the last step
    /// failed: syncing its name, or asking a service for its length.
    fn commit(self: Box<Self>) -> io::Result<()>;
}

/// Stores platters. Platters are immutable: a store only adds, reads, lists and removes them.
pub trait PlatterStore: Send + Sync {
    /// Its name in the settings.
    fn name(&self) -> &str;
    /// Location for messages.
    fn place(&self) -> String;
    /// Marks the place as this store, unless it is marked already.
    ///
    /// # Errors
    /// [`StoreError::Foreign`] if it is already another store, [`StoreError::BadMark`] if its mark
    /// is damaged.
    fn mark(&self) -> Result<(), StoreError>;
    /// Writes the store's mark over a missing or damaged one.
    ///
    /// # Errors
    /// [`StoreError::Foreign`] if it is another store, [`StoreError::BadMark`] if a newer program
    /// wrote the mark.
    fn restore_mark(&self) -> Result<(), StoreError>;
    /// Checks that the store is present: that its place has its mark.
    ///
    /// # Errors
    /// [`StoreError`] if it doesn't.
    fn check(&self) -> Result<(), StoreError>;
    /// Checks that the store is present, not read-only, and can have more files. Writes nothing, so
    /// other errors may follow.
    ///
    /// # Errors
    /// [`StoreError`] if it is absent, [`StoreError::ReadOnly`] or [`StoreError::NoFreeFiles`].
    fn check_writable(&self) -> Result<(), StoreError> {
        self.check()
    }
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
    /// What the decode service did that this store shares with the archive's others; `None` if it
    /// has none.
    fn decode_totals(&self) -> Option<DecodeTotals> {
        None
    }
}

/// A platter opened for reading.
pub trait PlatterFile: PlatterSource {
    /// Length of the platter in bytes.
    ///
    /// # Errors
    /// An error of the store.
    fn length(&self) -> io::Result<u64>;
    /// Bytes that the store holds for it. They are more than [`length`](Self::length) if the
    /// platter is of glass, whose file holds the symbols of voxels.
    ///
    /// # Errors
    /// An error of the store.
    fn stored_bytes(&self) -> io::Result<u64> {
        self.length()
    }
    /// Number of damaged heads. A platter of glass has two, each of which says how to read it; the
    /// disk medium needs none.
    ///
    /// # Errors
    /// An error of the store.
    fn bad_heads(&self) -> io::Result<u32> {
        Ok(0)
    }
    /// What is in the place of the platter, if it isn't a file. It reads as an empty platter, so it
    /// counts as damaged.
    fn not_a_file(&self) -> Option<&str> {
        None
    }
    /// The same platter, for a verification that begins now: what it reads is decoded after what
    /// clients wait for. `None` if nothing has to be decoded.
    fn for_verification(&self) -> Option<Arc<dyn PlatterFile>> {
        None
    }
    /// Waits until computing is cheap enough to decode some sectors for a verification, or its time
    /// is up. Asks `goes_on` again and again while it waits, and returns once that is false. Other
    /// reads never wait.
    fn wait_until_cheap(&self, _sectors: u32, _goes_on: &dyn Fn() -> bool) {}
}

/// Fills `buffer` from a platter file.
pub(crate) fn read_exact_at(file: &dyn PlatterFile, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    match read_full(|offset, buffer| file.read_at(offset, buffer), offset, buffer)? == buffer.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Checks that a platter of `needed` bytes can be written to a store, as far as that is known
/// before. Returns the free space; a store that doesn't report it is assumed to have enough.
pub(crate) fn check_room(store: &dyn PlatterStore, needed: u64) -> Result<u64, StoreError> {
    store.check_writable()?;
    match store.free_bytes().unwrap_or(u64::MAX) {
        free if free < needed => Err(StoreError::Full { store: store.name().to_owned(), place: store.place(), free, needed }),
        free => Ok(free),
    }
}

/// Checks all stores. A store whose disk is found in the folder of another one is
/// [misplaced](StoreError::Misplaced).
#[must_use]
pub fn check_all(stores: &[Arc<dyn PlatterStore>]) -> Vec<Result<(), StoreError>> {
    let mut checked: Vec<Result<(), StoreError>> = stores.iter().map(|store| store.check()).collect();
    let owner = |result: &Result<(), StoreError>| result.as_ref().err().and_then(StoreError::is_disk_of).map(str::to_owned);
    let owners: Vec<Option<String>> = checked.iter().map(owner).collect();
    for (store, result) in stores.iter().zip(&mut checked) {
        let Some(other) = owners.iter().position(|owner| owner.as_deref() == Some(store.name())) else { continue };
        if !matches!(result, Err(error) if error.hindrance() == Hindrance::Absent) {
            continue;
        }
        let holds = owner(result);
        *result = Err(StoreError::Misplaced(Box::new(MisplacedStore {
            store: store.name().to_owned(),
            place: store.place(),
            found_in: stores[other].name().to_owned(),
            found_at: stores[other].place(),
            holds,
        })));
    }
    checked
}

/// Like [`check_all`], but a present store whose platters can't be listed is an error, too: its
/// mark says nothing about them.
#[must_use]
pub fn check_all_and_list(stores: &[Arc<dyn PlatterStore>]) -> Vec<Result<(), StoreError>> {
    let list = |store: &Arc<dyn PlatterStore>| store.list().map(drop).map_err(StoreError::io(&**store));
    stores.iter().zip(check_all(stores)).map(|(store, checked)| checked.and_then(|()| list(store))).collect()
}

/// The messages of errors, without repetitions: two stores whose disks changed places have the same
/// message.
#[must_use]
pub fn distinct_texts<'a>(errors: impl IntoIterator<Item = &'a StoreError>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.into_iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}
