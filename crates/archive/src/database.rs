//! Copies, replaces and removes the files of a database that no process has open.

use std::io;
use std::path::{Path, PathBuf};

use crate::archive::ArchiveError;
use crate::volume::sync_folder;

/// Copies a database together with its write-ahead log. No process may have it open.
pub(crate) fn copy_database(from: &Path, to: &Path) -> Result<(), ArchiveError> {
    ["", "-wal"].iter().try_for_each(|suffix| copy_if_there(&with_suffix(from, suffix), &with_suffix(to, suffix)))
}

fn copy_if_there(from: &Path, to: &Path) -> Result<(), ArchiveError> {
    match std::fs::copy(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        copied => copied.and_then(|_| std::fs::File::open(to)?.sync_all()).map_err(ArchiveError::io(to)),
    }
}

/// Replaces a database with another. A crash at any instant leaves the new database, or the old one
/// with its log, which may have `.old` added to its name.
///
/// A database without its log looks intact but is out of date, and SQLite would replay a log next
/// to the wrong database. So the old database gets a copy of its log under the other name before it
/// is renamed, then its first log is removed, and only then the new database gets its name.
///
/// # Errors
/// [`ArchiveError`]; if the new database isn't [whole](check_whole), nothing was changed.
pub(crate) fn replace_database(home: &Path, fresh: &Path, old: &Path) -> Result<(), ArchiveError> {
    check_whole(fresh)?;
    let sync = || sync_folder(home).map_err(ArchiveError::io(home));
    let aside = with_suffix(old, ".old");
    // Otherwise an interrupted replacement has moved the old one aside already.
    if old.exists() {
        remove_database(&aside)?;
        copy_if_there(&with_suffix(old, "-wal"), &with_suffix(&aside, "-wal"))?;
        sync()?;
        std::fs::rename(old, &aside).map_err(ArchiveError::io(old))?;
    }
    sync()?;
    remove_database(old)?;
    sync()?;
    std::fs::rename(fresh, old).map_err(ArchiveError::io(old))?;
    sync()?;
    remove_database(&aside)
}

/// Checks that the file of a closed database has all of its content.
///
/// When the last connection is closed, SQLite moves the log into the file and removes it. If the
/// disk is full or fails, closing leaves the log behind without an error, and the file alone is
/// incomplete.
pub(crate) fn check_whole(database: &Path) -> Result<(), ArchiveError> {
    let log = with_suffix(database, "-wal");
    match std::fs::metadata(&log) {
        Ok(log) if log.len() > 0 => {
            let why = "its log could not be moved into it: is the disk full?";
            Err(ArchiveError::io(database)(io::Error::new(io::ErrorKind::StorageFull, why)))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ArchiveError::io(&log)(error)),
        _ => Ok(()),
    }
}

/// Suffixes of the files that SQLite may keep for one database, and of the record of its log.
pub(crate) const SUFFIXES: [&str; 5] = ["", "-wal", "-shm", "-journal", "-inodes"];

/// The path with something appended to its name.
#[must_use]
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(crate) fn remove_database(path: &Path) -> Result<(), ArchiveError> {
    SUFFIXES.iter().try_for_each(|suffix| remove_if_there(&with_suffix(path, suffix)))
}

pub(crate) fn remove_if_there(path: &Path) -> Result<(), ArchiveError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ArchiveError::io(path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn rows(path: &Path) -> i64 {
        let file = Connection::open(path).expect("opened");
        file.query_row("SELECT count(*) FROM kept", [], |row| row.get(0)).expect("counted")
    }

    /// A database with one row in its file and one in its log, as a killed process leaves it.
    fn killed(path: &Path) {
        let file = Connection::open(path).expect("made");
        file.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE kept (one); INSERT INTO kept VALUES (1)").expect("made");
        file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("checkpointed");
        file.execute("INSERT INTO kept VALUES (2)", []).expect("added");
        std::mem::forget(file);
    }

    #[test]
    fn a_database_whose_log_is_left_replaces_nothing() {
        let home = tempfile::tempdir().expect("a folder");
        let (old, fresh) = (home.path().join("db"), home.path().join("db.fresh"));
        killed(&old);
        killed(&fresh);
        let error = replace_database(home.path(), &fresh, &old).expect_err("half of it is in its log");
        assert!(error.to_string().contains("is the disk full?"), "{error}");
        assert!(!with_suffix(&old, ".old").exists());
        assert_eq!((rows(&old), rows(&fresh)), (2, 2));
    }

    #[test]
    fn an_interrupted_replacement_keeps_the_old_database_with_its_log() {
        let home = tempfile::tempdir().expect("a folder");
        let (old, fresh) = (home.path().join("db"), home.path().join("db.fresh"));
        killed(&old);
        // Instead of a crash before the last rename: there is nothing to rename.
        replace_database(home.path(), &fresh, &old).expect_err("there is no new database");
        let aside = with_suffix(&old, ".old");
        assert!(!old.exists() && !with_suffix(&old, "-wal").exists());
        assert_eq!(rows(&aside), 2);
        // The next attempt keeps it, too, until the new database is in place.
        replace_database(home.path(), &fresh, &old).expect_err("there is no new database");
        assert_eq!(rows(&aside), 2);
        killed(&fresh);
        Connection::open(&fresh).expect("opened").query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("checkpointed");
        replace_database(home.path(), &fresh, &old).expect("replaced");
        assert_eq!(rows(&old), 2);
        assert!(!aside.exists());
    }
}
