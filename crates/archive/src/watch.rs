//! Progress reporting by long operations.

use std::path::Path;

use fulgurite_domain::ObjectName;
use serde::{Deserialize, Serialize};

use crate::catalogue::{UnlistedVersion, VersionRow};
use crate::unread::Hindrance;

/// Receives reports from a long operation. All methods may be called from several threads.
pub trait Watcher: Sync {
    /// A new stage starts, with this many bytes of expected work, if known.
    fn stage(&self, _what: &str, _bytes: Option<u64>) {}
    /// More work is expected in this stage.
    fn expect(&self, _objects: u64, _bytes: u64) {}
    /// More work was done.
    fn done(&self, _objects: u64, _bytes: u64) {}
    /// The operation does nothing but wait for an hour in which decoding is cheap. Called several
    /// times a second while it waits.
    fn waits(&self) {}
    /// True once the result is no longer wanted. Reading platters and writing sets then end early
    /// with [`ArchiveError::Stopped`](crate::ArchiveError::Stopped). It may become false again, as
    /// when the command has ended to which the server's scrub yields; what has ended stays so.
    fn is_stopped(&self) -> bool {
        false
    }
    /// The version is acknowledged: it survives a crash.
    fn stored(&self, _name: &ObjectName, _version: u64) {}
    /// A failure that affects a single item; the operation continues.
    fn trouble(&self, _trouble: Trouble<'_>) {}
}

/// A failure that affects a single item.
#[derive(Debug)]
pub enum Trouble<'a> {
    /// A file could not be read and was not stored.
    Unreadable {
        /// The file.
        path: &'a Path,
        /// Why.
        why: &'a str,
    },
    /// A file changed during every attempt to read it, and was not stored.
    Changed {
        /// The file.
        path: &'a Path,
        /// Number of attempts.
        attempts: u32,
    },
    /// An object is lost or, during a restore, could not be restored.
    Lost {
        /// Its name.
        name: &'a ObjectName,
        /// Number of the version.
        version: u64,
        /// Why.
        why: &'a str,
    },
    /// An object can't be read now but isn't known to be lost.
    Unreachable {
        /// Its name.
        name: &'a ObjectName,
        /// Number of the version.
        version: u64,
        /// What kept it from being read.
        hindrance: Hindrance,
        /// Why.
        why: &'a str,
    },
    /// An object was restored under a different name.
    Renamed {
        /// Its name.
        name: &'a ObjectName,
        /// Number of the version.
        version: u64,
        /// Path of the restored file.
        path: &'a Path,
        /// Why its name could not be used.
        why: &'a str,
    },
    /// A version exists that can't be listed.
    Unlisted {
        /// The version.
        version: &'a UnlistedVersion,
        /// True if what was missing is back: its key is in the key store, or the file table can be
        /// read. A rebuild lists the version then, or what is on the platter.
        is_back: bool,
    },
    /// A message for the operator.
    Note(&'a str),
}

pub(crate) fn check_not_stopped(watcher: &dyn Watcher) -> Result<(), crate::ArchiveError> {
    if watcher.is_stopped() { Err(crate::ArchiveError::Stopped) } else { Ok(()) }
}

impl<'a> Trouble<'a> {
    /// Reports an object that could not be read.
    #[must_use]
    pub fn unread(version: &'a VersionRow, hindrance: Option<Hindrance>, why: &'a str) -> Self {
        let (name, version) = (&version.record.name, version.record.version);
        match hindrance {
            Some(hindrance) => Self::Unreachable { name, version, hindrance, why },
            None => Self::Lost { name, version, why },
        }
    }
}

/// Counts of objects that could not be read but aren't known to be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutOfReach {
    /// Objects on absent stores.
    pub absent: u64,
    /// Objects on stores that are present but can't be read.
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

    /// Total number.
    #[must_use]
    pub fn total(self) -> u64 {
        self.absent + self.unreadable
    }

    /// The worst reason.
    #[must_use]
    pub fn hindrance(self) -> Option<Hindrance> {
        match self {
            Self { unreadable: 1.., .. } => Some(Hindrance::Unreadable),
            Self { absent: 1.., .. } => Some(Hindrance::Absent),
            _ => None,
        }
    }
}

/// Passes on everything but progress, for work that was counted before.
pub(crate) struct WithoutProgress<'a>(pub(crate) &'a dyn Watcher);

impl Watcher for WithoutProgress<'_> {
    fn trouble(&self, trouble: Trouble<'_>) {
        self.0.trouble(trouble);
    }

    fn waits(&self) {
        self.0.waits();
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

/// A watcher that ignores all reports.
pub struct Unwatched;

impl Watcher for Unwatched {}
