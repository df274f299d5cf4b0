//! Which file a write-ahead log belongs to.
//!
//! SQLite finds a log by its name and applies it to any file beside it. If the file was replaced
//! while it was open, the log of the old one would overwrite pages of the new one. So a file with
//! the suffix `-inodes` records the inodes of the database and of its log, and a database is not
//! opened if the log at its path is the recorded one but the database isn't. If both differ, they
//! were copied together, or the file system doesn't keep inodes: then the log is used.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::Identity;
use crate::database::with_suffix;

/// SQLite's log.
pub const LOG: &str = "-wal";
/// SQLite's index of the log, shared by all processes that have the file open.
pub const INDEX: &str = "-shm";
/// The record: both inodes, as text.
pub const RECORD: &str = "-inodes";

/// A database was replaced while it was open, and the log of the replaced one is still there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} was replaced while a process had it open, and {0}-wal belongs to the replaced file: SQLite would overwrite parts of the new one \
     with it. If a server is still running, stop it. To use the new file, move {0}-wal and {0}-shm away; to continue with the replaced \
     file, move that back"
)]
pub struct LogOfAnother(pub PathBuf);

/// The log of an open file.
#[derive(Debug, Clone)]
pub(super) struct Log {
    /// The file, after symbolic links: SQLite puts the log beside it.
    pub(super) database: PathBuf,
    /// `None` if there is no log.
    log: Option<Identity>,
    index: Option<Identity>,
}

impl Log {
    /// Finds the log of a file that was opened and read.
    pub(super) fn of_open(path: &Path) -> Self {
        let database = resolved(path);
        let [log, index] = [LOG, INDEX].map(|suffix| Identity::of(&with_suffix(&database, suffix)).ok());
        Self { database, log, index }
    }

    /// Records which file the log belongs to.
    pub(super) fn record(&self) -> io::Result<()> {
        let (Some(log), Ok(file)) = (self.log, Identity::of(&self.database)) else { return Ok(()) };
        let path = with_suffix(&self.database, RECORD);
        // Without devices: their numbers can change when the machine restarts.
        let record = format!("{} {}\n", file.inode, log.inode);
        if std::fs::read_to_string(&path).ok().as_ref() == Some(&record) {
            return Ok(());
        }
        // Like all files of the archive's folder, the record is its owner's alone.
        let mut file = std::fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(path)?;
        file.write_all(record.as_bytes())
    }

    /// Whether the log's path still leads to it. SQLite never removes the log of an open file.
    pub(super) fn is_in_place(&self) -> bool {
        self.log.is_none() || self.log == Identity::of(&with_suffix(&self.database, LOG)).ok()
    }

    /// Removes the names of the log and its index. Open connections continue to use them.
    pub(super) fn unlink(&self) -> io::Result<()> {
        // The log is last: until it is gone, the record keeps other processes from opening the
        // new file with either of them.
        for (suffix, open) in [(INDEX, self.index), (LOG, self.log)] {
            let path = with_suffix(&self.database, suffix);
            if open.is_some() && open == Identity::of(&path).ok() {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

/// Refuses a database if the log at its path belongs to another one, which it replaced. Called
/// before SQLite reads the file.
///
/// # Errors
/// [`LogOfAnother`].
pub fn refuse_log_of_another(path: &Path) -> Result<(), LogOfAnother> {
    let database = resolved(path);
    let record_path = with_suffix(&database, RECORD);
    let log = match Identity::of(&with_suffix(&database, LOG)) {
        Ok(log) => log,
        Err(error) => {
            if error.kind() == io::ErrorKind::NotFound {
                // The next log may get the inode that the record names. If the record can't be
                // removed, that could only cause a needless refusal.
                let _ = std::fs::remove_file(&record_path);
            }
            return Ok(());
        }
    };
    let (Ok(file), Ok(recorded)) = (Identity::of(&database), std::fs::read_to_string(&record_path)) else { return Ok(()) };
    let of_this_log = recorded.trim_end().split_once(' ').filter(|(_, recorded_log)| *recorded_log == log.inode.to_string());
    match of_this_log {
        Some((recorded_file, _)) if recorded_file != file.inode.to_string() => Err(LogOfAnother(database)),
        _ => Ok(()),
    }
}

fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
