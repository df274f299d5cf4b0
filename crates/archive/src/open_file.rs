//! Notices that a SQLite file was removed or replaced while it is open.
//!
//! SQLite continues with the open file, which has no name any more, so everything written to it
//! would be gone with the process.
//!
//! The log of the open file keeps its name, though, and SQLite would apply it to the replacement.
//! So that name is removed, after everything in the log was moved into the open file, which may
//! have another name by now. From then on, no other process finds the log, so the file must not be
//! changed again, even if it returns to its place.

mod kept;
mod log;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

pub use self::kept::{Displaced, Kept, UndecidedCopy};
pub(crate) use self::kept::{InPlace, Keep, refuse_undecided};
use self::log::Log;
pub use self::log::{INDEX, LOG, LogOfAnother, RECORD, refuse_log_of_another};
pub use crate::database::with_suffix;

/// What identifies a file, whatever its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// What happened to an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Displacement {
    /// Nothing has its name any more.
    Removed,
    /// Another file has its name.
    Replaced,
    /// Its log was removed or replaced.
    LogGone,
    /// Its folder can't be found or read, so nothing is known.
    OutOfReach,
}

/// An open file and its log, to be found again under their names.
#[derive(Debug, Clone)]
pub struct OpenFile {
    path: PathBuf,
    /// `None` if it was gone at once.
    identity: Option<Identity>,
    folder: Option<Identity>,
    log: Log,
}

impl OpenFile {
    /// Describes a file that was just opened and read, so that its log exists.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let log = Log::of_open(path);
        let folder = log.database.parent().and_then(|folder| Identity::of(folder).ok());
        Self { path: path.to_owned(), identity: Identity::of(path).ok(), folder, log }
    }

    /// Records beside the file which log is its own: see [`refuse_log_of_another`]. Only for the
    /// process that excludes others from replacing the file.
    ///
    /// # Errors
    /// The system's error. Nothing but the protection of a replacement depends on the record.
    pub fn record_log(&self) -> io::Result<()> {
        self.log.record()
    }

    /// Whether the path of the file still leads to the open file, and that of its log to the log.
    #[must_use]
    pub fn displacement(&self) -> Option<Displacement> {
        match Identity::of(&self.path) {
            Ok(found) if Some(found) == self.identity => (!self.log.is_in_place()).then_some(Displacement::LogGone),
            Ok(_) => Some(Displacement::Replaced),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.has_folder() => Some(Displacement::Removed),
            Err(_) => Some(Displacement::OutOfReach),
        }
    }

    /// False if the folder was moved or its file system unmounted.
    fn has_folder(&self) -> bool {
        self.folder.is_some() && self.log.database.parent().and_then(|folder| Identity::of(folder).ok()) == self.folder
    }

    /// True if the open file lost the name that its log has.
    fn is_apart_from_log(&self) -> bool {
        Identity::of(&self.log.database).ok() != self.identity
    }

    /// Removes the name of the open file's log, unless the file still is beside it. Returns `false`
    /// if a reader needs the log, so that it must be tried again; until then the log's record
    /// protects the new file.
    ///
    /// # Errors
    /// SQLite's, or the system's.
    pub fn detach_log(&self, connection: &Connection) -> rusqlite::Result<io::Result<bool>> {
        if !self.is_apart_from_log() || !self.log.is_in_place() {
            return Ok(Ok(true));
        }
        // PASSIVE never waits.
        let is_complete = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            let (busy, frames, moved): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(!busy && frames == moved)
        })?;
        if !is_complete {
            return Ok(Ok(false));
        }
        // Another process may use the file with a log of its own.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(self.log.unlink().map(|()| true))
    }
}
