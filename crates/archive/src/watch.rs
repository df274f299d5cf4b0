//! How an operation tells what it is doing, to whoever shows progress.

use std::path::Path;

use fulgurite_domain::ObjectName;
use serde::{Deserialize, Serialize};

use crate::unread::Hindrance;

use crate::catalogue::UnlistedVersion;

/// What long operations report. All methods may be called from several threads.
pub trait Watcher: Sync {
    /// A new stage begins; `bytes` of work are expected, where that is known.
    fn stage(&self, what: &str, bytes: Option<u64>) {
        let _ = (what, bytes);
    }
    /// More work is expected in this stage.
    fn expect(&self, objects: u64, bytes: u64) {
        let _ = (objects, bytes);
    }
    /// So much more was done.
    fn done(&self, objects: u64, bytes: u64) {
        let _ = (objects, bytes);
    }
    /// Whether nobody wants the result any more. Reading platters and writing sets then end early, with
    /// [`ArchiveError::Stopped`](crate::ArchiveError::Stopped). Once true, it stays true.
    fn is_stopped(&self) -> bool {
        false
    }
    /// This version is acknowledged: it survives a crash.
    fn stored(&self, name: &ObjectName, version: u64) {
        let _ = (name, version);
    }
    /// Something failed that concerns one thing only; the operation goes on.
    fn trouble(&self, trouble: Trouble<'_>) {
        let _ = trouble;
    }
}

/// What failed for one thing.
#[derive(Debug)]
pub enum Trouble<'a> {
    /// A file could not be read and was not stored.
    Unreadable {
        /// The file.
        path: &'a Path,
        /// Why.
        why: &'a str,
    },
    /// A file changed each time it was read, and was not stored.
    Changed {
        /// The file.
        path: &'a Path,
        /// How often it was read.
        attempts: u32,
    },
    /// An object could not be given back.
    Lost {
        /// Its name.
        name: &'a ObjectName,
        /// Number of the version.
        version: u64,
        /// Why.
        why: &'a str,
    },
    /// An object can't be read now. It is not known to be lost.
    Unreachable {
        /// Its name.
        name: &'a ObjectName,
        /// Number of the version.
        version: u64,
        /// What keeps it from being read.
        hindrance: Hindrance,
        /// Why.
        why: &'a str,
    },
    /// An object was restored under another name than its own.
    Renamed {
        /// Its name.
        name: &'a ObjectName,
        /// Number of the version.
        version: u64,
        /// Where it is now.
        path: &'a Path,
        /// Why not under its own.
        why: &'a str,
    },
    /// A version exists that can't be listed.
    Unlisted {
        /// What is known of it.
        version: &'a UnlistedVersion,
        /// Whether its key, which was missing, is in the key store now; then a rebuild lists it.
        key_is_back: bool,
    },
    /// Something that a person should know.
    Note {
        /// A sentence.
        text: &'a str,
    },
}

/// Ends an operation that nobody wants the result of.
pub(crate) fn go_on(watcher: &dyn Watcher) -> Result<(), crate::ArchiveError> {
    if watcher.is_stopped() { Err(crate::ArchiveError::Stopped) } else { Ok(()) }
}

impl<'a> Trouble<'a> {
    /// An object that could not be read.
    #[must_use]
    pub fn unread(name: &'a ObjectName, version: u64, hindrance: Option<Hindrance>, why: &'a str) -> Self {
        match hindrance {
            Some(hindrance) => Self::Unreachable { name, version, hindrance, why },
            None => Self::Lost { name, version, why },
        }
    }
}

/// How many objects could not be read, and aren't known to be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutOfReach {
    /// Because stores are absent.
    pub absent: u64,
    /// Because something that is there can't be read.
    pub unreadable: u64,
}

impl OutOfReach {
    /// Counts one more.
    pub fn add(&mut self, hindrance: Hindrance) {
        match hindrance {
            Hindrance::Absent => self.absent += 1,
            Hindrance::Unreadable => self.unreadable += 1,
        }
    }

    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        self.absent + self.unreadable
    }

    /// The worst that kept any of them from being read.
    #[must_use]
    pub fn hindrance(self) -> Option<Hindrance> {
        match self {
            Self { unreadable: 1.., .. } => Some(Hindrance::Unreadable),
            Self { absent: 1.., .. } => Some(Hindrance::Absent),
            _ => None,
        }
    }
}

/// Watches nothing.
pub struct Unwatched;

impl Watcher for Unwatched {}
