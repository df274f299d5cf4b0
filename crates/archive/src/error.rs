//! What can go wrong with an archive. Each message says what failed, why, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use fulgurite_domain::{ArchiveId, SetShape};

use crate::catalogue::CatalogueError;
use crate::keystore::KeyStoreError;
use crate::settings::{self, SettingsError};
use crate::staging::StagingError;
use crate::store::StoreError;
use crate::unread::{AwayStore, Hindrance, Unread};

/// What can go wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// No archive in that folder.
    #[error("{path} is not an archive: it has no {file}. `fulgurite init` makes a new archive; `fulgurite attach` brings one back from its \
         stores and a copy of its keys", file = settings::FILE)]
    NotAnArchive {
        /// The folder.
        path: PathBuf,
    },
    /// There is an archive already.
    #[error("{path} holds an archive already")]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// There is part of an archive, without settings.
    #[error(
        "{path} is there, and no settings beside it: part of an archive that lost its settings, or of one whose making was cut short. \
         `fulgurite attach` brings an archive back from its stores, and uses this file. Move it away if nothing needs it"
    )]
    Leftover {
        /// The file.
        path: PathBuf,
    },
    /// Another process changes it.
    #[error("the archive in {path} is in use by another fulgurite; try again when that has ended")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The settings can't be used.
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
    /// The master key's file can't be read or isn't one.
    #[error(
        "the master key {path} can't be used: {why}. Without it no encrypted object can be read; `fulgurite keys import` brings it back"
    )]
    MasterKey {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Too few stores are there to write a set.
    #[error("a set of {shape} platters needs {} stores and {available} are available; everything stays staged. {why}", shape.platters())]
    TooFewStores {
        /// The shape of the set.
        shape: SetShape,
        /// Stores that can be used.
        available: usize,
        /// What is wrong with the others.
        why: String,
    },
    /// A platter that was just written reads back wrong.
    #[error("platter {platter} on store {store} was not verified: {what}. The set was given up, and everything stays staged")]
    Verification {
        /// The platter.
        platter: fulgurite_domain::PlatterId,
        /// The store.
        store: String,
        /// What was wrong, and what to look at.
        what: String,
    },
    /// A platter that was written anew reads back wrong.
    #[error(
        "written anew on store {store}, platter {platter} reads back wrong ({what}); what was there before is left as it was. Check that disk"
    )]
    NotReplaced {
        /// The platter.
        platter: fulgurite_domain::PlatterId,
        /// The store it was written to.
        store: String,
        /// What was wrong.
        what: String,
    },
    /// The catalogue speaks of a segment that isn't there.
    #[error(
        "the catalogue needs staging segment {segment:016x}, which is not there: the catalogue is an old copy, or staging was damaged. `fulgurite catalogue rebuild` makes it anew from platters and staging"
    )]
    SegmentMissing {
        /// Number of the segment.
        segment: u64,
    },
    /// Staging is back that the catalogue was rebuilt without.
    #[error(
        "staging holds what the catalogue doesn't know, because it was absent when the catalogue was rebuilt. Nothing was changed. \
         `fulgurite catalogue rebuild` brings the catalogue up to date"
    )]
    StagingUnseen,
    /// Staging holds a segment of another archive.
    #[error(
        "staging segment {segment:016x} belongs to archive {found}: two archives share one staging folder, or the settings name the wrong one"
    )]
    ForeignSegment {
        /// Number of the segment.
        segment: u64,
        /// The archive it belongs to.
        found: ArchiveId,
    },
    /// A segment in staging is not what its name says, or newer than this program.
    #[error("staging segment {segment:016x}: {source}")]
    UnusableSegment {
        /// Number of the segment.
        segment: u64,
        /// What is wrong with it.
        source: fulgurite_format::SegmentError,
    },
    /// The catalogue does not know a platter.
    #[error("the catalogue does not know platter {platter}; `fulgurite catalogue rebuild` makes it anew from platters and staging")]
    UnknownPlatter {
        /// The platter.
        platter: fulgurite_domain::PlatterId,
    },
    /// A store that isn't in the settings.
    #[error("no store is called {store}; the settings name them")]
    UnknownStore {
        /// The name.
        store: String,
    },
    /// A store of this archive, at another path than the settings have.
    #[error("{found} is store {store}, which the settings have at {place}; if it is to stay at {found}, change its path in the settings")]
    Moved {
        /// The store.
        store: String,
        /// Where the settings have it.
        place: PathBuf,
        /// Where it was found.
        found: PathBuf,
    },
    /// A store that has a platter of the set already.
    #[error("store {store} holds platter {other} of the same set; losing that store would lose both")]
    SharedStore {
        /// The store.
        store: String,
        /// The platter on it.
        other: fulgurite_domain::PlatterId,
    },
    /// The folder that is to replace a store is not empty.
    #[error("{place} is not empty; a store is replaced by an empty folder, on a disk that is mounted")]
    NotEmpty {
        /// The folder.
        place: PathBuf,
    },
    /// A file or a dangling link is in the place of staging.
    #[error("{path} is no folder, and is where the settings have staging: move it away, or change staging.path")]
    NotAFolder {
        /// What is there.
        path: PathBuf,
    },
    /// Stores that a rebuild can't look into.
    #[error(
        "the catalogue is left as it is, because what is on these stores would be missing from a new one: {}. Mount them and try again. \
         If they are gone for good, `fulgurite catalogue rebuild --without-unseen` goes on with the others",
        stores.iter().map(|away| away.why.as_str()).collect::<Vec<_>>().join("; ")
    )]
    StoresUnseen {
        /// The stores.
        stores: Vec<AwayStore>,
    },
    /// The stores have platters that the catalogue should know.
    #[error(
        "{platters} {} on the stores but not in the catalogue (the first is {first} on store {store}): the catalogue is an old copy. \
         Nothing was changed. `fulgurite catalogue rebuild` brings it up to date",
        if *.platters == 1 { "platter is" } else { "platters are" }
    )]
    UnknownPlatters {
        /// How many.
        platters: u64,
        /// One of them.
        first: fulgurite_domain::PlatterId,
        /// The store it is on.
        store: String,
    },
    /// Nowhere to write a platter anew.
    #[error(
        "platter {platter} has no store to be rebuilt on: {store} can't be used, and every other holds one of its set. \
         `fulgurite store replace {store}` after changing the disk, or `fulgurite store add FOLDER`, gives it one"
    )]
    NoStoreFor {
        /// The platter.
        platter: fulgurite_domain::PlatterId,
        /// The store it was on.
        store: String,
    },
    /// A set that is not given up.
    #[error("set {set} was not given up: {why}")]
    SetKept {
        /// The set.
        set: fulgurite_domain::SetId,
        /// What keeps anybody from knowing whether it is lost.
        hindrance: Option<Hindrance>,
        /// Why.
        why: String,
    },
    /// No platter of a set has a readable header.
    #[error("no platter of set {set} has a readable header")]
    NoHeader {
        /// The set.
        set: fulgurite_domain::SetId,
    },
    /// Too much of a set is lost.
    #[error(transparent)]
    BeyondRepair(crate::unread::BeyondRepair),
    /// Too much of a set can't be read now.
    #[error(transparent)]
    Unreachable(crate::unread::Unreachable),
    /// The watcher said to stop.
    #[error("stopped before it was done")]
    Stopped,
    /// Something of the archive's own folder can't be read or written.
    #[error("{path}: {source}")]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl From<Unread> for ArchiveError {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Lost(lost) => Self::BeyondRepair(lost),
            Unread::Unreachable(unreachable) => Self::Unreachable(unreachable),
        }
    }
}

impl ArchiveError {
    /// What kept the answer from being known, where nothing is known to be lost or damaged.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Unreachable(unreachable) => Some(unreachable.hindrance()),
            Self::Staging(error) => error.hindrance(),
            Self::StoresUnseen { stores } => stores.iter().map(|away| away.hindrance).max(),
            Self::SetKept { hindrance, .. } => *hindrance,
            _ => None,
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
