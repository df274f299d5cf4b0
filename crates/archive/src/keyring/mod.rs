//! Copies of all keys, kept elsewhere, and their way back.
//!
//! ```text
//!                                  export
//! keys.db, master.key ---------------------------> a copy: text, or sealed with a passphrase
//!         ^  ^                                                   |  |
//!         |  |__________________________ import _________________|  |     into a sound key store, or where there is none
//!         |_____________________________ repair ____________________|     what a damaged one still gives comes first
//! ```
//!
//! A copy holds the keys of everything that was stored when it was made. What was removed since doesn't get its key back: tombstones on
//! platters, in staging and in the catalogue outweigh a copy. Whoever has the copy and a platter can still read it, though; so after a
//! removal that matters, make a new copy and destroy the old one.

mod copies;
mod export;
mod merge;
mod removed;

use std::io;
use std::path::PathBuf;

use fulgurite_domain::{ArchiveId, ObjectName};
use fulgurite_format::{KeyExportError, SealedExportError};

use crate::archive::ArchiveError;
use crate::keystore::KeyStoreError;

pub(crate) use copies::Copies;
pub(crate) use merge::{Mode, bring_together, own_master_key};
pub use merge::{import_keys, repair_keys};
use removed::Removed;

/// Keys read or kept at once.
const PAGE: usize = 1_000;

/// Why keys can't be exported, imported or repaired.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The file can't be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is a file already, which may be the only copy of other keys.
    #[error("{path} is there already; give another name, or remove it")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file isn't an export, or not whole.
    #[error("{path}: {source}")]
    Export {
        /// The file.
        path: PathBuf,
        /// What was found.
        source: KeyExportError,
    },
    /// The file can't be unsealed.
    #[error("{path}: {source}")]
    Sealed {
        /// The file.
        path: PathBuf,
        /// What was found.
        source: SealedExportError,
    },
    /// The file is sealed and no passphrase was given.
    #[error("{path} is sealed with a passphrase; give it with --passphrase-file")]
    NoPassphrase {
        /// The file.
        path: PathBuf,
    },
    /// The keys are of another archive.
    #[error("{path} has the keys of archive {found}, and this is archive {expected}; nothing was changed")]
    OtherArchive {
        /// The file.
        path: PathBuf,
        /// Archive in the file.
        found: ArchiveId,
        /// Archive in the settings.
        expected: ArchiveId,
    },
    /// There is another master key.
    #[error("{path} holds another master key; move it away if it is the wrong one. Nothing was changed")]
    OtherMasterKey {
        /// File of the master key.
        path: PathBuf,
    },
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

impl KeyringError {
    fn io(path: &std::path::Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }
}

/// What an import or a repair came to.
#[derive(Debug, Default)]
pub struct KeyringReport {
    /// Keys in the key store now.
    pub keys: u64,
    /// What was salvaged from a damaged key store; `None` if it was sound or not there.
    pub salvaged: Option<SalvageReport>,
    /// Each copy, in the order given.
    pub copies: Vec<CopyReport>,
    /// Versions that were removed, and whose keys were left out.
    pub removed: u64,
    /// Versions for which two sources have different keys. The one that the master key opens was taken, or the first.
    pub disputed: u64,
    /// Versions without a key.
    pub without_key: WithoutKey,
    /// Versions that could not be listed for want of a key and have it now; a rebuild lists them.
    pub listable: u64,
    /// Where tombstones could not be looked for, a sentence each: keys of versions that were removed there may have come back.
    pub unread: Vec<String>,
    /// File tables among them.
    pub unread_tables: u64,
}

impl KeyringReport {
    /// Whether every version that is known has its key, and all copies were read whole.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.without_key.count() == 0 && self.copies.iter().all(|copy| copy.damage.is_none())
    }
}

/// What a damaged key store gave up.
#[derive(Debug, Default)]
pub struct SalvageReport {
    /// What was wrong with it.
    pub damage: String,
    /// Different keys that were found in it.
    pub keys: u64,
    /// Bytes of its files that the system could not read.
    pub unreadable: u64,
    /// Where the damaged file is kept now.
    pub aside: PathBuf,
}

/// What a copy gave.
#[derive(Debug)]
pub struct CopyReport {
    /// The file.
    pub path: PathBuf,
    /// Keys in it.
    pub keys: u64,
    /// How many of them were not there before, nor in the copies given before it.
    pub added: u64,
    /// Blocks of it that were damaged or missing, and given back by its error correction.
    pub corrected: u64,
    /// What is wrong with it, if only the lines that check were taken.
    pub damage: Option<String>,
}

/// Versions whose bytes may be fine and whose key is nowhere.
#[derive(Debug)]
pub enum WithoutKey {
    /// As the catalogue knows them.
    Known {
        /// Those that are listed, by name and number.
        listed: Vec<(ObjectName, u64)>,
        /// How many can't be listed, because their record can't be opened either.
        unlisted: u64,
    },
    /// The catalogue can't be read; this many were found on platters and in staging.
    Counted {
        /// How many.
        versions: u64,
        /// Why the catalogue can't be read.
        why: String,
    },
}

impl WithoutKey {
    /// How many there are.
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
