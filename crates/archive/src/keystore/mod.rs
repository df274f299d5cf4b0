//! The key store: the wrapped key of every sealed version, and nothing else.
//!
//! Keys can't be rebuilt: without its keys, a platter is unreadable. So the key store is separate
//! from the catalogue, can be exported with `fulgurite keys export`, and [`KeyStore::insert`]
//! returns only once the keys are on stable storage, before the first byte encrypted under them is
//! acknowledged. Deletion happens here too: once [`KeyStore::destroy`] returns, the bytes of the
//! key are in none of the store's files. (It has no control over overwritten blocks that a file
//! system or a flash drive keeps; but those keys are wrapped.)
//!
//! [`SqliteKeyStore`] is the embedded store. `conformance` is the test suite that every store has
//! to pass.

#[cfg(test)]
pub(crate) mod conformance;
pub mod salvage;
mod sqlite;

use std::path::PathBuf;

use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::WrappedKey;

use crate::catalogue::is_unreadable;
use crate::open_file::{Displaced, LogOfAnother, UndecidedCopy};
use crate::unread::Hindrance;

pub use sqlite::SqliteKeyStore;
pub(crate) use sqlite::memory_max_kib;

/// An operation on the key store failed.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// The engine failed: disk full, I/O error, locked.
    #[error("the key store could not {action}: {source}")]
    Engine {
        /// The operation that failed.
        action: &'static str,
        /// The engine's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is damaged, or is not a key store.
    #[error(
        "the key store is damaged ({0}); leave its file where it is: `fulgurite keys repair` saves every key that is still \
         readable, and `fulgurite keys repair FILE...` adds keys from copies made with `fulgurite keys export`"
    )]
    Damaged(String),
    /// The file does not exist.
    #[error(
        "the key store {0} does not exist; `fulgurite keys import FILE...` restores the keys from copies made with \
         `fulgurite keys export`"
    )]
    Missing(PathBuf),
    /// A newer program wrote the schema.
    #[error("the key store has schema {found}, but this program supports only schemas up to {known}; use a newer fulgurite")]
    Newer {
        /// Schema version of the file.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The key store belongs to another archive.
    #[error(
        "the key store belongs to archive {found}, but the settings to archive {expected}. Move keys.db away, with keys.db-wal and \
         keys.db-shm if they exist; `fulgurite keys import FILE...` then restores the keys from copies made with `fulgurite keys export`"
    )]
    OtherArchive {
        /// Archive in the key store.
        found: ArchiveId,
        /// Archive in the settings.
        expected: ArchiveId,
    },
    /// It was removed or replaced while it is open.
    #[error("the key store can't be used any more: {0}")]
    Displaced(#[from] Displaced),
    /// It was replaced while it was open, and the log of the replaced file is still there.
    #[error(transparent)]
    LogOfAnother(#[from] LogOfAnother),
    /// It was removed or replaced while it was open, and its content was saved under another name.
    #[error(transparent)]
    Undecided(#[from] UndecidedCopy),
    /// The version already has another key. Replacing that would lose the version.
    #[error("version {0} already has another key, which was kept")]
    OtherKey(VersionId),
}

impl KeyStoreError {
    /// [`Hindrance::Unreadable`] if the engine couldn't open or read a file that may be sound.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Engine { source, .. } => is_unreadable(&**source).then_some(Hindrance::Unreadable),
            _ => None,
        }
    }
}

/// The keys that an export contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportMark(i64);

/// What exported copies cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// When the last export was complete, in milliseconds since 1970.
    pub last_ms: Option<u64>,
    /// Keys inserted since it began, which no copy need have, including those destroyed since.
    pub keys_since: u64,
}

/// Stores wrapped keys. Each method that changes something is one transaction, durable when it
/// returns.
pub trait KeyStore: Send {
    /// Stores the keys of new versions. A key that is already stored is ignored.
    fn insert(&mut self, keys: &[(VersionId, WrappedKey)]) -> Result<(), KeyStoreError>;
    /// The key of a version.
    fn get(&mut self, id: VersionId) -> Result<Option<WrappedKey>, KeyStoreError>;
    /// The keys of several versions, in the order of `ids`.
    fn get_many(&mut self, ids: &[VersionId]) -> Result<Vec<Option<WrappedKey>>, KeyStoreError>;
    /// Destroys the keys of versions; unknown versions are ignored. When it returns, none of the
    /// store's files contains their bytes.
    fn destroy(&mut self, ids: &[VersionId]) -> Result<(), KeyStoreError>;
    /// Up to `limit` keys in order of identifier, after `after`.
    fn page(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<(VersionId, WrappedKey)>, KeyStoreError>;
    /// Number of keys.
    fn len(&mut self) -> Result<u64, KeyStoreError>;
    /// True if the store contains no keys.
    fn is_empty(&mut self) -> Result<bool, KeyStoreError> {
        Ok(self.len()? == 0)
    }
    /// Begins an export: marks the keys that are there now.
    fn export_mark(&mut self) -> Result<ExportMark, KeyStoreError> {
        Ok(ExportMark(0))
    }
    /// Records an export of the marked keys, and when it was complete.
    fn note_export(&mut self, _mark: ExportMark, _at_ms: u64) -> Result<(), KeyStoreError> {
        Ok(())
    }
    /// What the last export covers. `None` if the store doesn't record that.
    fn exported(&mut self) -> Result<Option<Exported>, KeyStoreError> {
        Ok(None)
    }
    /// Fails if the store was removed or replaced while it is open. Keys that exist nowhere else
    /// are saved, as far as the engine can.
    fn check_in_place(&mut self) -> Result<(), KeyStoreError> {
        Ok(())
    }
    /// Checks the store for damage.
    fn check(&mut self) -> Result<(), KeyStoreError>;
}
