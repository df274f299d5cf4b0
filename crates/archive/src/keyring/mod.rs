//! The keyring: exports copies of all keys, imports them, and repairs a damaged key store.
//!
//! ```text
//!                            export
//! keys.db, master.key -------------------> a copy: text, or sealed with a passphrase
//!         ^  ^                                |  |
//!         |  |____________ import ____________|  |    into a sound or missing key store
//!         |_______________ repair _______________|    salvages a damaged one first
//! ```
//!
//! A copy contains the keys of everything stored when it was made. Importing it does not bring back
//! the keys of versions removed since (except where tombstones can't be read: see
//! [`KeyringReport::unread`]): tombstones on platters and in staging override a copy. But anyone
//! with the copy and a platter can still read such a version; so after a removal that matters, make
//! a new copy and destroy the old one.

mod copies;
mod export;
mod merge;
mod removed;

use std::path::PathBuf;

use fulgurite_domain::{ArchiveId, ObjectName};
use fulgurite_format::{KeyExportError, SealedExportError};

use crate::archive::ArchiveError;
use crate::catalogue::CatalogueError;
use crate::keystore::KeyStoreError;

pub(crate) use copies::KeyCopies;
pub use export::export_keys;
pub(crate) use merge::{Mode, merge_copies, own_master_key};
pub use merge::{import_keys, repair_keys};
use removed::Removed;

const PAGE: usize = 1_000;

/// Exporting, importing or repairing keys failed.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// An operation on the archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The file exists, and may be the only copy of other keys.
    #[error("{0} already exists; choose another name, or remove the file")]
    Exists(PathBuf),
    /// The file is not an export, or is incomplete.
    #[error("{path}: {source}")]
    Export {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KeyExportError,
    },
    /// The file can't be unsealed.
    #[error("{path}: {source}")]
    Sealed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SealedExportError,
    },
    /// The file is sealed and no passphrase was given.
    #[error("{0} is sealed with a passphrase; give it with --passphrase-file")]
    NoPassphrase(PathBuf),
    /// The keys belong to another archive.
    #[error("{path} has the keys of archive {found}, but this is archive {expected}; nothing was changed")]
    OtherArchive {
        /// The file.
        path: PathBuf,
        /// The archive whose keys it has.
        found: ArchiveId,
        /// The archive that needs keys: that of the settings or, without settings, of the stores.
        expected: ArchiveId,
    },
    /// The line that names the archive is damaged, and no known master key opens the keys.
    #[error(
        "the line of {path} that names its archive is damaged. If it is a copy of the keys of this archive, change its second line to \
         `archive {expected}` and try again. Nothing was changed"
    )]
    NoArchive {
        /// The file.
        path: PathBuf,
        /// The archive that needs keys.
        expected: ArchiveId,
    },
    /// The archive has another master key.
    #[error("{0} contains another master key; move it away if it is the wrong one. Nothing was changed")]
    OtherMasterKey(PathBuf),
    /// Two copies have different master keys.
    #[error("{path} and {other} have different master keys, so they can't be used together. Nothing was changed")]
    MasterKeysDiffer {
        /// One copy.
        path: PathBuf,
        /// The other.
        other: PathBuf,
    },
}

impl From<KeyStoreError> for KeyringError {
    fn from(error: KeyStoreError) -> Self {
        Self::Archive(error.into())
    }
}

/// Result of an import or a repair.
#[derive(Debug, Default)]
pub struct KeyringReport {
    /// Keys in the key store now.
    pub keys: u64,
    /// Result of salvaging a damaged key store; `None` if the store was sound or missing.
    pub salvaged: Option<SalvageReport>,
    /// Result for each copy, in the order given.
    pub copies: Vec<CopyReport>,
    /// Removed versions, whose keys were skipped.
    pub removed: u64,
    /// Removed versions that the catalogue lists because it is an old copy.
    pub still_listed: u64,
    /// Versions with different keys in two sources. The key that the master key opens was kept, or
    /// else the first.
    pub conflicting: u64,
    /// Versions without a key.
    pub without_key: WithoutKey,
    /// Versions that could not be listed for lack of a key and now have one. A rebuild lists them.
    pub listable: u64,
    /// Places where tombstones could not be read, one sentence each. Keys of versions removed there
    /// may have come back.
    pub unread: Vec<String>,
    /// Number of file tables in `unread`.
    pub unread_tables: u64,
}

impl KeyringReport {
    /// True if every known version has its key, the catalogue lists no removed version, and all
    /// copies were read completely.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.without_key.count() == 0 && self.still_listed == 0 && self.copies.iter().all(|copy| copy.damage.is_none())
    }
}

/// Result of salvaging a damaged key store.
#[derive(Debug, Default)]
pub struct SalvageReport {
    /// What is wrong with it.
    pub damage: String,
    /// Keys added from it, without those of removed versions.
    pub keys: u64,
    /// Bytes that the system failed to read, except those of the log.
    pub unreadable: u64,
    /// Where the damaged file is now, or only its log. `None` if neither was there, as after an
    /// interrupted repair.
    pub moved_to: Option<PathBuf>,
}

/// Result for a copy.
#[derive(Debug)]
pub struct CopyReport {
    /// The file.
    pub path: PathBuf,
    /// Keys in it.
    pub keys: u64,
    /// Keys that the key store and earlier copies lacked, or that the master key didn't open there.
    pub added: u64,
    /// Damaged or missing blocks that error correction restored.
    pub corrected: u64,
    /// What is wrong with the copy, if only its intact lines were used.
    pub damage: Option<String>,
}

/// Versions whose bytes may be intact but whose key is lost.
#[derive(Debug)]
pub enum WithoutKey {
    /// According to the catalogue.
    Known {
        /// Listed versions, by name and number.
        listed: Vec<(ObjectName, u64)>,
        /// Number of versions that can't be listed, because their record can't be opened either.
        unlisted: u64,
    },
    /// The catalogue can't be read; versions found on platters and in staging were counted instead.
    Counted {
        /// Number of versions.
        versions: u64,
        /// Why the catalogue can't be read.
        why: CatalogueUnavailable,
    },
}

/// Why the catalogue can't be read.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueUnavailable {
    /// Its file does not exist.
    #[error("{0} does not exist")]
    Missing(PathBuf),
    /// It can't be opened.
    #[error(transparent)]
    CantOpen(#[from] CatalogueError),
}

impl WithoutKey {
    /// Number of versions without a key.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Known { listed, unlisted } => listed.len() as u64 + unlisted,
            Self::Counted { versions, .. } => *versions,
        }
    }
}

impl Default for WithoutKey {
    fn default() -> Self {
        Self::Known { listed: Vec::new(), unlisted: 0 }
    }
}
