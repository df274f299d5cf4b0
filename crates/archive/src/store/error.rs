//! Reasons why a store can't be used.

use std::fmt;
use std::io;

use fulgurite_domain::ArchiveId;

use super::layout::{MARK, Mark};
use crate::attach::ABSENT;
use crate::unread::Hindrance;

/// Why a store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store has no mark: it is not mounted, was never set up, or lost the file.
    #[error("store {store} ({place}) is absent: {}", unmarked(store, place, *platters))]
    Unmarked {
        /// Name in the settings.
        store: String,
        /// Configured location.
        place: String,
        /// Number of platters in the place.
        platters: usize,
    },
    /// The mark can't be read, so it doesn't say whose store this is.
    #[error("store {store} ({place}) is absent: {mark}. {}", bad_mark_advice(store, mark))]
    BadMark {
        /// Name in the settings.
        store: String,
        /// Location of the store.
        place: String,
        /// What is wrong with the mark.
        mark: BadMark,
    },
    /// The store belongs to another archive, or is another store of this one.
    #[error("store {store} ({place}) is absent: {}", foreign(found, *expected))]
    Foreign {
        /// Name in the settings.
        store: String,
        /// Location of the store.
        place: String,
        /// The mark found.
        found: Box<Mark>,
        /// The archive expected.
        expected: ArchiveId,
    },
    /// The store's disk is in the folder of another store. [`check_all`](super::check_all) finds
    /// that; a single store can't.
    #[error(transparent)]
    Misplaced(Box<MisplacedStore>),
    /// The folder can't become a new store, because it has a mark, valid or not, or platters.
    #[error("store {store} ({place}) can't be set up: {found}. Choose another folder{}", attach_hint(*archive))]
    Taken {
        /// Name in the settings.
        store: String,
        /// Location of the store.
        place: String,
        /// What was found in the folder.
        found: String,
        /// The archive that the folder belongs to, if known.
        archive: Option<ArchiveId>,
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
    /// Its file system has no room for another file.
    #[error("store {store} ({place}) has no room for another file: its file system has no free inodes")]
    NoFreeFiles {
        /// Name in the settings.
        store: String,
        /// Location of the store.
        place: String,
    },
    /// Its platters can be read, but this user can't write any to it.
    #[error("store {store} ({place}) can't be written to: {source}")]
    ReadOnly {
        /// Name in the settings.
        store: String,
        /// Location of the store.
        place: String,
        /// The system's error.
        source: io::Error,
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

/// A store whose disk is in the folder of another one.
#[derive(Debug, thiserror::Error)]
#[error("{}", misplaced(self))]
pub struct MisplacedStore {
    /// Name in the settings.
    pub store: String,
    /// Location in the settings.
    pub place: String,
    /// The store in whose location the disk is.
    pub found_in: String,
    /// That location.
    pub found_at: String,
    /// The store whose disk is in this store's location.
    pub holds: Option<String>,
}

/// What is wrong with a mark that names no store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadMark {
    /// It has no content.
    Empty,
    /// It is no mark; the beginning of its content.
    Damaged(String),
    /// A newer program wrote it; its first line.
    Newer(String),
}

impl BadMark {
    /// Classifies the text of a mark that doesn't [parse](Mark::parse).
    #[must_use]
    pub fn of(text: &str) -> Self {
        const SHOWN_CHARS: usize = 80;
        let line = text.trim().replace('\n', ", ");
        if line.is_empty() {
            return Self::Empty;
        }
        let version = text.strip_prefix("fulgurite store ").and_then(|rest| rest.lines().next()?.parse::<u32>().ok());
        match version {
            Some(2..) => Self::Newer(text.lines().next().unwrap_or_default().to_owned()),
            _ => Self::Damaged(line.chars().take(SHOWN_CHARS).collect()),
        }
    }
}

impl fmt::Display for BadMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "its mark, the file {MARK}, is empty"),
            Self::Damaged(found) => write!(f, "its mark, the file {MARK}, is damaged: it says {found:?}"),
            Self::Newer(found) => write!(f, "its mark, the file {MARK}, is of a newer version of the program: it says {found:?}"),
        }
    }
}

fn bad_mark_advice(store: &str, mark: &BadMark) -> String {
    match mark {
        BadMark::Newer(_) => "Use that version of fulgurite or a newer one".to_owned(),
        _ => format!("`fulgurite store replace {store}` writes the mark again if the platters in the folder are this store's"),
    }
}

fn attach_hint(archive: Option<ArchiveId>) -> &'static str {
    match archive {
        Some(_) => ". If that archive's own folder is lost, `fulgurite attach` rebuilds it from its stores",
        None => "",
    }
}

fn unmarked(store: &str, place: &str, platters: usize) -> String {
    if platters > 0 {
        let platters = if platters == 1 { "1 platter".to_owned() } else { format!("{platters} platters") };
        return format!(
            "its folder has {platters}, but no mark (the file {MARK}). `fulgurite store replace {store}` writes the mark again \
             if these are the store's platters"
        );
    }
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

fn foreign(Mark { archive, name }: &Mark, expected: ArchiveId) -> String {
    match *archive == expected {
        true => format!("its folder has the disk of store {name}. Mount each disk in its own folder, or correct the paths in the settings"),
        false => {
            format!("its folder belongs to another archive, as store {name} of archive {archive}; this is archive {expected}")
        }
    }
}

fn misplaced(MisplacedStore { store, place, found_in, found_at, holds }: &MisplacedStore) -> String {
    if holds.as_ref() != Some(found_in) {
        return format!(
            "store {store} is in the wrong folder: its disk is in {found_at}, the folder of store {found_in}, and not in {place}. \
             Mount it in its own folder, or correct the paths in the settings"
        );
    }
    // Both stores get the same sentence, so that `distinct_texts` keeps one of them.
    let (one, other) = ((store, found_at), (found_in, place));
    let (one, other) = if one <= other { (one, other) } else { (other, one) };
    format!(
        "two disks changed places: the disk of store {} is in {}, and the disk of store {} is in {}. \
         Exchange the disks, or their paths in the settings",
        one.0, one.1, other.0, other.1
    )
}

impl StoreError {
    /// Name of the store in the settings.
    pub(crate) fn store(&self) -> &str {
        match self {
            Self::Misplaced(misplaced) => &misplaced.store,
            Self::Unmarked { store, .. }
            | Self::BadMark { store, .. }
            | Self::Foreign { store, .. }
            | Self::Taken { store, .. }
            | Self::Unfit { store, .. }
            | Self::Full { store, .. }
            | Self::NoFreeFiles { store, .. }
            | Self::ReadOnly { store, .. }
            | Self::Io { store, .. } => store,
        }
    }

    /// Name of the store of the same archive whose disk is in this place.
    #[must_use]
    pub fn is_disk_of(&self) -> Option<&str> {
        match self {
            Self::Foreign { found, expected, .. } if found.archive == *expected => Some(&found.name),
            Self::Misplaced(misplaced) => misplaced.holds.as_deref(),
            _ => None,
        }
    }

    /// Wraps errors of a store.
    pub(crate) fn io(store: &dyn super::PlatterStore) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { store: store.name().to_owned(), place: store.place(), source }
    }

    /// The error for a folder that is to become a new store but has a mark, valid or not, or
    /// platters.
    pub(crate) fn or_taken(self) -> Self {
        match self {
            Self::Foreign { store, place, found, .. } => {
                let Mark { archive, name } = *found;
                let found = format!("the folder is already marked as store {name} of archive {archive}");
                Self::Taken { store, place, found, archive: Some(archive) }
            }
            Self::BadMark { store, place, mark } => Self::Taken { store, place, found: mark.to_string(), archive: None },
            Self::Unmarked { store, place, platters: 1.. } => {
                Self::Taken { store, place, found: "the folder has platters already".to_owned(), archive: None }
            }
            error => error,
        }
    }

    /// Why the store's platters can't be read, given this error of
    /// [`check`](super::PlatterStore::check).
    #[must_use]
    pub fn hindrance(&self) -> Hindrance {
        match self {
            Self::Unmarked { .. } | Self::BadMark { .. } | Self::Foreign { .. } | Self::Misplaced(_) | Self::Taken { .. } => {
                Hindrance::Absent
            }
            Self::Unfit { .. } | Self::Full { .. } | Self::NoFreeFiles { .. } | Self::ReadOnly { .. } | Self::Io { .. } => {
                Hindrance::Unreadable
            }
        }
    }

    /// The state of the store in one word, as in reports.
    #[must_use]
    pub fn state(&self) -> String {
        match self {
            Self::Misplaced(_) => "misplaced".to_owned(),
            Self::Full { .. } | Self::NoFreeFiles { .. } => "full".to_owned(),
            Self::ReadOnly { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => "read-only".to_owned(),
            Self::ReadOnly { .. } => "not writable".to_owned(),
            error => error.hindrance().to_string(),
        }
    }
}
