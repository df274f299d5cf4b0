//! Which file the write-ahead log of `service.db` belongs to.
//!
//! SQLite finds a log by its name and applies it to any file called `service.db`. If that file was
//! replaced while it was open, the log of the old one would overwrite pages of the new one. So
//! `service.db-inodes` records the inodes of the file and of its log, and a file is not opened if
//! the log at its path is the recorded one but the file isn't. If both differ, they were copied
//! together, or the file system doesn't keep inodes: then the log is used.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::StateError;
use super::displacement::Identity;

/// SQLite's log.
pub(super) const LOG: &str = "-wal";
/// SQLite's index of the log, shared by all processes that have the file open.
pub(super) const INDEX: &str = "-shm";
/// The record: both inodes, as text.
pub(super) const RECORD: &str = "-inodes";

/// The log of an open file.
#[derive(Debug)]
pub(super) struct Log {
    /// The file, after symbolic links: SQLite puts the log beside it.
    pub(super) database: PathBuf,
    /// `None` if there is no log.
    log: Option<Identity>,
    index: Option<Identity>,
}

impl Log {
    /// Finds the log of a file that was opened and read, and records what it belongs to.
    pub(super) fn of_open(path: &Path) -> Self {
        let database = resolved(path);
        let [log, index] = [LOG, INDEX].map(|suffix| Identity::of(&with_suffix(&database, suffix)).ok());
        if let (Some(log), Ok(file)) = (log, Identity::of(&database)) {
            let (path, record) = (with_suffix(&database, RECORD), record(file, log));
            if std::fs::read_to_string(&path).ok().as_ref() != Some(&record)
                && let Err(error) = write_private(&path, &record)
            {
                tracing::warn!(path = %path.display(), %error, "can't record which file the log of service.db belongs to");
            }
        }
        Self { database, log, index }
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

/// Refuses a file if the log at its path belongs to another one, which it replaced. Called before
/// SQLite reads the file.
pub(super) fn refuse_log_of_another(path: &Path) -> Result<(), StateError> {
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
    let of_this_log = recorded.trim_end().split_once(' ').filter(|(_, recorded_log)| *recorded_log == log.inode().to_string());
    match of_this_log {
        Some((recorded_file, _)) if recorded_file != file.inode().to_string() => Err(StateError::LogOfAnother(database)),
        _ => Ok(()),
    }
}

/// Like all files of the archive's folder, the record is its owner's alone.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Without devices: their numbers can change when the machine restarts.
fn record(file: Identity, log: Identity) -> String {
    format!("{} {}\n", file.inode(), log.inode())
}

fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use fulgurite_domain::ArchiveId;
    use rusqlite::Connection;

    use super::*;
    use crate::state::file;

    const ARCHIVE: ArchiveId = ArchiveId([7; 16]);

    fn add(connection: &Connection, account: &str) {
        connection.execute("INSERT INTO account (name, id, admin, created) VALUES (?1, ?1, 1, 5)", [account]).expect("a row");
    }

    fn accounts(connection: &Connection) -> Vec<String> {
        let mut statement = connection.prepare("SELECT name FROM account ORDER BY name").expect("a query");
        statement.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("names")
    }

    /// A file with an account in its log, as a killed process leaves it.
    fn killed(path: &Path, account: &str) {
        let connection = file::open(path, ARCHIVE).expect("made");
        add(&connection, account);
        drop(Log::of_open(path));
        std::mem::forget(connection);
    }

    #[test]
    fn the_log_of_a_replaced_file_is_not_applied_to_the_new_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("service.db"), folder.path().join("other.db"));
        killed(&path, "ada");
        let new = file::open(&other, ARCHIVE).expect("made");
        add(&new, "bo");
        new.close().expect("closed");
        std::fs::rename(&path, folder.path().join("away.db")).expect("renamed");
        std::fs::rename(&other, &path).expect("renamed");
        let bytes = || ["", LOG].map(|suffix| std::fs::read(with_suffix(&path, suffix)).expect("read"));
        let before = bytes();
        for refused in [file::open(&path, ARCHIVE), file::open_read_only(&path, ARCHIVE)] {
            let error = refused.expect_err("the log belongs to another file");
            assert!(matches!(error, StateError::LogOfAnother(_)), "{error}");
            let text = error.to_string();
            assert!(text.contains("service.db-wal and") && text.contains("away"), "{text}");
        }
        assert!(bytes() == before, "nothing was changed");
        for suffix in [LOG, INDEX] {
            std::fs::remove_file(with_suffix(&path, suffix)).expect("removed");
        }
        let connection = file::open(&path, ARCHIVE).expect("it is a file of its own");
        assert_eq!(accounts(&connection), ["bo"]);
        assert!(!with_suffix(&path, RECORD).exists(), "the record was of the removed log");
    }

    #[test]
    fn the_log_of_a_killed_process_is_used_also_after_both_were_copied() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("service.db");
        killed(&path, "ada");
        let copies = tempfile::tempdir().expect("a folder");
        let copy = copies.path().join("service.db");
        let mode = std::fs::metadata(with_suffix(&path, RECORD)).expect("recorded").permissions().mode();
        assert_eq!(mode & 0o077, 0, "the record is its owner's alone");
        for suffix in ["", LOG, RECORD] {
            std::fs::copy(with_suffix(&path, suffix), with_suffix(&copy, suffix)).expect("copied");
        }
        for path in [path, copy] {
            assert_eq!(accounts(&file::open(&path, ARCHIVE).expect("opened")), ["ada"]);
        }
    }
}
