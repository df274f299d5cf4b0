//! Errors of a catalogue.

use fulgurite_domain::{ArchiveId, PlatterId, SetId, VersionId};

use crate::catalogue::is_unreadable;
use crate::open_file::{Displaced, LogOfAnother, UndecidedCopy};
use crate::unread::Hindrance;

/// What can go wrong in the catalogue.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The engine failed: disk full, I/O error, locked.
    #[error("the catalogue could not {action}: {source}")]
    Engine {
        /// The operation that failed.
        action: &'static str,
        /// The engine's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is damaged, or is not a catalogue.
    #[error("the catalogue is damaged ({0}); `fulgurite catalogue rebuild` recreates it from platters and staging")]
    Damaged(String),
    /// A newer program wrote the schema.
    #[error("the catalogue has schema {found}, but this program supports only schemas up to {known}; use a newer fulgurite")]
    Newer {
        /// Schema version of the file.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The catalogue belongs to another archive.
    #[error(
        "the catalogue belongs to archive {found}, but the settings to archive {expected}. Put the right catalogue.db back; or move \
         this one away, and `fulgurite catalogue rebuild` makes the archive's from platters and staging"
    )]
    OtherArchive {
        /// Archive in the catalogue.
        found: ArchiveId,
        /// Archive in the settings.
        expected: ArchiveId,
    },
    /// It was removed or replaced while it is open.
    #[error("the catalogue can't be used any more: {0}")]
    Displaced(#[from] Displaced),
    /// It was replaced while it was open, and the log of the replaced file is still there.
    #[error(transparent)]
    LogOfAnother(#[from] LogOfAnother),
    /// It was removed or replaced while it was open, and its content was saved under another name.
    #[error(transparent)]
    Undecided(#[from] UndecidedCopy),
    /// The set was already completed or abandoned, or never begun.
    #[error("set {0} is not being written")]
    SetNotWriting(SetId),
    /// The set is not complete, or the catalogue has no such set.
    #[error("set {0} is not complete")]
    SetNotComplete(SetId),
    /// The catalogue has no such platter, or the completed set does not contain it.
    #[error("platter {0} is not in the catalogue, or not in the set that is being completed")]
    UnknownPlatter(PlatterId),
    /// The locations given for a version don't add up to its stored bytes.
    #[error("the locations given for version {0} do not add up to its stored bytes")]
    Uncovered(VersionId),
}

impl CatalogueError {
    /// [`Hindrance::Unreadable`] if the engine couldn't open or read a file that may be sound.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Engine { source, .. } => is_unreadable(&**source).then_some(Hindrance::Unreadable),
            _ => None,
        }
    }
}
