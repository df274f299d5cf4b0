//! Errors of an archive. Each message says what failed and why, and what to do where something can
//! be done.

use std::io;
use std::path::{Path, PathBuf};

use fulgurite_domain::{ArchiveId, Medium, PhysicalTrack, PlatterId, SetId, SetShape, VersionId};
use fulgurite_format::KeyTextError;

use crate::catalogue::{CatalogueError, UNKNOWN_STORE};
use crate::keystore::KeyStoreError;
use crate::settings::{self, SettingsError};
use crate::staging::StagingError;
use crate::store::{StoreError, distinct_texts};
use crate::unread::{Hindrance, NoPlatter, UnavailableStore, Unread, absent_text, store_names};

/// An operation on an archive failed.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The folder contains no archive.
    #[error("{0} is not an archive: it has no {file}. `fulgurite init` makes a new archive; `fulgurite attach` brings one back from its \
         stores and a copy of its keys", file = settings::FILE)]
    NotAnArchive(PathBuf),
    /// The folder already contains an archive.
    #[error("{0} holds an archive already")]
    Exists(PathBuf),
    /// The folder contains part of an archive, but no settings.
    #[error(
        "{0} exists, but the folder has no settings: an archive lost its settings, or its creation was interrupted. \
         `fulgurite attach` restores an archive from its stores, and uses this file. Move the file away if it is not needed"
    )]
    Leftover(PathBuf),
    /// Another process holds the lock.
    #[error("the archive in {0} is in use by another fulgurite; try again when it has finished")]
    InUse(PathBuf),
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The catalogue failed.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The key store failed.
    #[error(transparent)]
    Keys(#[from] KeyStoreError),
    /// Staging failed.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The master key file can't be read, or is not a master key.
    #[error("can't use the master key {path}: {why}. Encrypted objects can't be read without it{}", .why.advice())]
    MasterKey {
        /// The file.
        path: PathBuf,
        /// Why.
        why: MasterKeyTrouble,
    },
    /// Too few stores are available to write a set.
    #[error(
        "a set of {shape} platters needs {} stores, only {available} {} available; everything stays staged. {}",
        shape.platters(),
        if *.available == 1 { "is" } else { "are" },
        distinct_texts(others).join("; ")
    )]
    TooFewStores {
        /// The shape of the set.
        shape: SetShape,
        /// Stores that can be used.
        available: usize,
        /// What is wrong with the other stores.
        others: Vec<StoreError>,
    },
    /// A newly written platter does not read back correctly.
    #[error("verification of platter {platter} on store {store} failed: {what}. The set was given up, and everything stays staged")]
    Verification {
        /// The platter.
        platter: PlatterId,
        /// The store.
        store: String,
        /// What is wrong, and what to check.
        what: Misread,
    },
    /// A staged version can't be put into a file table.
    #[error("version {version} can't be written to platters, and everything stays staged: {error}")]
    Unwritable {
        /// The version.
        version: VersionId,
        /// Why.
        error: fulgurite_format::TableError,
    },
    /// A rewritten platter does not read back correctly.
    #[error(
        "rewritten platter {platter} on store {store} does not read back correctly ({lost_sectors} bad sectors, {bad_headers} bad header \
         copies, {unreadable} unreadable sectors or header copies); the old one was not touched. Check that disk"
    )]
    NotReplaced {
        /// The platter.
        platter: PlatterId,
        /// The store it was written to.
        store: String,
        /// Bad sectors.
        lost_sectors: u64,
        /// Bad copies of the header.
        bad_headers: u32,
        /// Sectors and copies of the header that can't be read.
        unreadable: u64,
    },
    /// The file that a replacement would overwrite is another platter.
    #[error("the name of platter {platter} is taken by a file on store {store}: {what}")]
    NameTaken {
        /// The platter.
        platter: PlatterId,
        /// The store.
        store: String,
        /// What the file is.
        what: String,
    },
    /// The catalogue refers to a segment that does not exist.
    #[error(
        "the catalogue needs staging segment {0:016x}, which does not exist: the catalogue is an old copy, or staging was damaged. \
         `fulgurite catalogue rebuild` recreates the catalogue from platters and staging"
    )]
    SegmentMissing(u64),
    /// Staging is back, but the catalogue was rebuilt without it.
    #[error(
        "staging holds objects that the catalogue doesn't list, because staging was absent when the catalogue was rebuilt. \
         Nothing was changed. `fulgurite catalogue rebuild` brings the catalogue up to date"
    )]
    StagingUnseen,
    /// Staging contains a segment of another archive.
    #[error(
        "staging segment {segment:016x} belongs to archive {found}: two archives share one staging folder, or the settings name the wrong one"
    )]
    ForeignSegment {
        /// Number of the segment.
        segment: u64,
        /// The archive it belongs to.
        found: ArchiveId,
    },
    /// A segment in staging does not match its name, or a newer program wrote it.
    #[error("staging segment {segment:016x}: {source}")]
    UnusableSegment {
        /// Number of the segment.
        segment: u64,
        /// What is wrong with it.
        source: fulgurite_format::SegmentError,
    },
    /// The platter is not in the catalogue.
    #[error("the catalogue does not list platter {0}; `fulgurite catalogue rebuild` recreates it from platters and staging")]
    UnknownPlatter(PlatterId),
    /// The settings have no such store.
    #[error("no store is called {0}; `fulgurite store list` lists them")]
    UnknownStore(String),
    /// A store of this archive, at another path than the settings say.
    #[error("{found} is store {store}, but the settings have it at {place}; if it is to stay at {found}, change its path in the settings")]
    Moved {
        /// The store.
        store: String,
        /// Its path in the settings.
        place: PathBuf,
        /// Its actual path.
        found: PathBuf,
    },
    /// The store already holds a platter of the set.
    #[error("store {store} holds platter {other} of the same set; losing that store would lose both. Choose another store")]
    SharedStore {
        /// The store.
        store: String,
        /// The platter on it.
        other: PlatterId,
    },
    /// The folder belongs to a configured store.
    #[error("{path} is store {store} already, as the settings say{}", trouble.as_ref().map_or_else(String::new, |trouble| format!(": {trouble}")))]
    Configured {
        /// The store.
        store: String,
        /// Its path.
        path: PathBuf,
        /// Why it can't be used.
        trouble: Option<Box<StoreError>>,
    },
    /// A folder without a mark has platters of a store that is at another path in the settings.
    #[error(
        "{found} has no mark but holds platters of store {store}. To keep it there, change its path in the settings and run \
         `fulgurite store replace {store}`, which keeps the platters"
    )]
    PlattersOf {
        /// The store.
        store: String,
        /// The folder.
        found: PathBuf,
    },
    /// The new folder of a store is not empty.
    #[error(
        "{0} is not empty, and has no platters; a replacement for a store must be an empty folder on a mounted disk, or that store's own \
         folder with its platters"
    )]
    NotEmpty(PathBuf),
    /// The folder of a store does not exist.
    #[error("can't set up store {store}: its folder {path} {}. Mount its disk there, or create the folder on a new disk", match *.is_file {
        true => "is a file",
        false => "does not exist",
    })]
    NoFolder {
        /// The store.
        store: String,
        /// Its path.
        path: PathBuf,
        /// True if the path is a file.
        is_file: bool,
    },
    /// The platters in the folder of a store without a mark don't prove that it is this store.
    #[error("the mark of store {store} was not written again: {why}. Nothing was changed")]
    NotProven {
        /// The store.
        store: String,
        /// What was found.
        why: String,
    },
    /// The path of staging is a file or a dangling link.
    #[error("{0} is not a folder, but the settings name it as staging: move it away, or change staging.path")]
    NotAFolder(PathBuf),
    /// Stores that a rebuild can't read.
    #[error(
        "the catalogue was not changed, because a new one would lack the content of {}: {}. Mount what is absent and try again. \
         If it is gone for good, `fulgurite catalogue rebuild --without-unseen` continues with the others",
        store_names(.0.iter().map(|store| store.store.as_str())),
        .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    StoresUnseen(Vec<UnavailableStore>),
    /// The stores contain platters that the catalogue does not list.
    #[error(
        "{platters} {} on the stores but not in the catalogue (the first is {first} on store {store}): {}",
        if *.platters == 1 { "platter is" } else { "platters are" },
        if *.is_unseen { UNSEEN_SETS } else { OLD_CATALOGUE }
    )]
    UnknownPlatters {
        /// Number of platters.
        platters: u64,
        /// One of them.
        first: PlatterId,
        /// The store it is on.
        store: String,
        /// True if the last rebuild missed places that may hold the rest of the sets.
        is_unseen: bool,
    },
    /// No store is free to rebuild a platter on.
    #[error("platter {platter} can't be rebuilt: {}", no_store(*platter, store, *needed, refused))]
    NoStoreFor {
        /// The platter.
        platter: PlatterId,
        /// The store it was on.
        store: String,
        /// Bytes of the platter.
        needed: u64,
        /// Why the stores without another platter of the set can't take it.
        refused: Vec<StoreError>,
    },
    /// The set can't be given up.
    #[error("set {set} was not given up: {why}")]
    SetKept {
        /// The set.
        set: SetId,
        /// Why.
        why: SetKeptReason,
    },
    /// No platter of a set has a readable header.
    #[error("no header of set {0} can be read: its platters are absent, missing or damaged")]
    NoHeader(SetId),
    /// Too much of a set is lost, or can't be read now.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// The watcher asked to stop.
    #[error("stopped before it was finished")]
    Stopped,
    /// A file or folder of the archive can't be read or written.
    #[error("{path}: {source}")]
    Io {
        /// File or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

const OLD_CATALOGUE: &str = "the catalogue is an old copy. Nothing was changed. `fulgurite catalogue rebuild` brings it up to date";
const UNSEEN_SETS: &str = "the rest of their sets was not seen when the catalogue was rebuilt, or it is an old copy. Nothing was changed. \
                           Mount or `fulgurite store add` what is missing, then `fulgurite catalogue rebuild` brings it up to date. \
                           If it is gone for good: `fulgurite catalogue forget --unseen`";

fn no_store(platter: PlatterId, store: &str, needed: u64, refused: &[StoreError]) -> String {
    let own = if store == UNKNOWN_STORE { "its store is not known, and " } else { "" };
    let is_elsewhere_absent = |error: &&StoreError| error.hindrance() == Hindrance::Absent && error.store() != store;
    let (absent, others): (Vec<_>, Vec<_>) = refused.iter().partition(is_elsewhere_absent);
    let others = distinct_texts(others).into_iter().chain(absent_text(absent.into_iter().map(StoreError::store)));
    let others: String = others.map(|why| format!(". {why}")).collect();
    format!(
        "{own}every store that can be used holds a platter of the same set{others}. It needs {needed} bytes on a store without one, beside \
         what is there now: free that space, or add a store with `fulgurite store add FOLDER`; then `fulgurite scrub`, or \
         `fulgurite recover {platter} --store NAME`"
    )
}

/// Why a master key can't be used.
#[derive(Debug, thiserror::Error)]
pub enum MasterKeyTrouble {
    /// Its file can't be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// The file is not a master key.
    #[error(transparent)]
    Text(#[from] KeyTextError),
    /// It does not wrap the keys of the archive.
    #[error(
        "the key of version {0} is not wrapped by it, nor is any other that was tried; it belongs to another archive, so move the file \
         away before importing keys"
    )]
    Foreign(VersionId),
}

impl MasterKeyTrouble {
    fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(error) if error.kind() != io::ErrorKind::NotFound)
    }

    /// What to do, if the file has to be written again.
    fn advice(&self) -> &'static str {
        if self.is_unreadable() { "" } else { "; `fulgurite keys import` brings it back" }
    }
}

fn advice_on(medium: Medium) -> &'static str {
    match medium {
        Medium::Disk => "read back wrong; check that disk",
        Medium::Glass => "can't be decoded: more than the decoders lose at the noise \"nominal\". Check `noise` in [medium], and that disk",
    }
}

/// What is wrong with a platter that was just written.
#[derive(Debug, thiserror::Error)]
pub enum Misread {
    /// Nothing of it can be read.
    #[error(transparent)]
    Gone(Box<NoPlatter>),
    /// Its store doesn't have it any more.
    #[error("it is no longer on its store")]
    Missing,
    /// Sectors can't be read, or are wrong.
    #[error("{sectors} sectors of track {} {}", track.0, advice_on(*medium))]
    Sectors {
        /// The track.
        track: PhysicalTrack,
        /// How many of its sectors.
        sectors: usize,
        /// What the platter is made of.
        medium: Medium,
    },
    /// A copy of the header is wrong.
    #[error("the header at byte {0} differs from what was written; check that disk")]
    Header(u64),
    /// The checksum of a shard or of the file table is wrong.
    #[error("a file on it differs from what was staged; check that disk and the memory of this machine")]
    Content,
    /// The content is shorter than planned.
    #[error("its content ends early; check that disk and the memory of this machine")]
    Short,
}

/// Why a set is not given up.
#[derive(Debug, thiserror::Error)]
pub enum SetKeptReason {
    /// No complete set has this identifier.
    #[error("the catalogue does not know it, or it is being written")]
    Unknown,
    /// A platter of it may come back.
    #[error("can't check all of its platters: {0}")]
    Unchecked(Box<NoPlatter>),
    /// It can be repaired.
    #[error("its redundancy covers the platters that are missing or were damaged when last read. `fulgurite scrub` repairs it")]
    Repairable,
    /// The archive has unlisted versions.
    #[error(
        "it may hold versions that can't be listed, or that were not looked into. `fulgurite verify` names them; \
         `fulgurite catalogue forget` gives them up"
    )]
    Unlisted,
    /// It holds versions.
    #[error("versions are on it. `fulgurite verify` lists the lost ones, and `fulgurite rm` removes them")]
    InUse,
}

impl ArchiveError {
    /// Why something could not be read now, if nothing is known to be lost or damaged; `None` for
    /// all other errors.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Unread(unread) => unread.hindrance(),
            Self::Staging(error) => error.hindrance(),
            Self::StoresUnseen(stores) => stores.iter().map(|store| store.hindrance).max(),
            Self::SetKept { why: SetKeptReason::Unchecked(unread), .. } => unread.hindrance(),
            Self::Catalogue(error) => error.hindrance(),
            Self::Keys(error) => error.hindrance(),
            Self::MasterKey { why, .. } => why.is_unreadable().then_some(Hindrance::Unreadable),
            _ => None,
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_database_or_key_is_not_a_loss() {
        let sqlite = |code| Box::new(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
        let hindrances = |code| {
            let keys = ArchiveError::Keys(KeyStoreError::Engine { action: "open", source: sqlite(code) });
            let catalogue = ArchiveError::Catalogue(CatalogueError::Engine { action: "open", source: sqlite(code) });
            [keys.hindrance(), catalogue.hindrance()]
        };
        for code in [rusqlite::ffi::SQLITE_CANTOPEN, rusqlite::ffi::SQLITE_IOERR_READ] {
            assert_eq!(hindrances(code), [Some(Hindrance::Unreadable); 2]);
        }
        for code in [rusqlite::ffi::SQLITE_FULL, rusqlite::ffi::SQLITE_IOERR_WRITE] {
            assert_eq!(hindrances(code), [None; 2]);
        }
        let master_key = |kind: io::ErrorKind| ArchiveError::MasterKey { path: "master.key".into(), why: io::Error::from(kind).into() };
        assert_eq!(master_key(io::ErrorKind::PermissionDenied).hindrance(), Some(Hindrance::Unreadable));
        assert_eq!(master_key(io::ErrorKind::NotFound).hindrance(), None);
    }
}
