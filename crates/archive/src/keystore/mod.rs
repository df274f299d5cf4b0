//! The key store: the wrapped key of every sealed version, and nothing else.
//!
//! It is a treasure: a platter without its keys is noise, and no rebuild brings a key back. So it lives apart from the catalogue, is exported with
//! `fulgurite keys export`, and [`KeyStore::insert`] returns only when the keys are on stable storage, before the first byte
//! under them is acknowledged. It is also where deletion happens: once [`KeyStore::destroy`] returns, the bytes of a key are nowhere in the store's
//! files any more. (What a file system or a flash drive keeps of overwritten blocks is beyond it; but those keys are wrapped.)
//!
//! [`SqliteKeyStore`] is the embedded store. `conformance` is the suite that any store has to pass.

#[cfg(test)]
mod conformance;
pub mod salvage;
mod sqlite;

use std::path::PathBuf;

use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::WrappedKey;

pub use sqlite::SqliteKeyStore;
pub(crate) use sqlite::most_kib;

/// What can go wrong in the key store.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// The engine failed: disk full, I/O error, locked.
    #[error("the key store could not {action}: {source}")]
    Engine {
        /// What was to be done.
        action: &'static str,
        /// What the engine says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is damaged, or isn't a key store.
    #[error(
        "the key store is damaged ({found}); leave its file where it is: `fulgurite keys repair` saves every key that can still be \
         read, and `fulgurite keys repair FILE...` adds those of copies made with `fulgurite keys export`"
    )]
    Damaged {
        /// What was found.
        found: String,
    },
    /// There is no file.
    #[error(
        "the key store {path} is not there; `fulgurite keys import FILE...` brings the keys back from copies made with \
         `fulgurite keys export`"
    )]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// Made by a newer program.
    #[error("the key store has schema {found}, this program knows up to {known}; use a newer fulgurite")]
    Newer {
        /// Schema version of the file.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// The keys of another archive.
    #[error("the key store belongs to archive {found}, the settings to archive {expected}")]
    OtherArchive {
        /// Archive in the key store.
        found: ArchiveId,
        /// Archive in the settings.
        expected: ArchiveId,
    },
    /// The version has another key already. To replace it would lose the version.
    #[error("version {id} has another key already, which is kept")]
    OtherKey {
        /// The version.
        id: VersionId,
    },
}

/// Keeps wrapped keys. Methods that change something are one transaction each, durable when they return.
pub trait KeyStore: Send {
    /// Keeps the keys of new versions. A key that is there already is passed over.
    fn insert(&mut self, keys: &[(VersionId, WrappedKey)]) -> Result<(), KeyStoreError>;
    /// The key of a version.
    fn get(&mut self, id: VersionId) -> Result<Option<WrappedKey>, KeyStoreError>;
    /// The keys of several versions, in their order.
    fn get_many(&mut self, ids: &[VersionId]) -> Result<Vec<Option<WrappedKey>>, KeyStoreError>;
    /// Destroys the keys of versions; those that are not there are passed over. When it returns, their bytes are in none of the store's files.
    fn destroy(&mut self, ids: &[VersionId]) -> Result<(), KeyStoreError>;
    /// Up to `limit` keys in order of identifier, after `after`.
    fn page(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<(VersionId, WrappedKey)>, KeyStoreError>;
    /// Number of keys.
    fn len(&mut self) -> Result<u64, KeyStoreError>;
    /// Whether there are none.
    fn is_empty(&mut self) -> Result<bool, KeyStoreError> {
        Ok(self.len()? == 0)
    }
    /// Looks for damage.
    fn check(&mut self) -> Result<(), KeyStoreError>;
}
