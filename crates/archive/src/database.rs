//! Copies, replaces and removes the files of a database that no process has open.

use std::io;
use std::path::{Path, PathBuf};

use crate::archive::ArchiveError;
use crate::volume::sync_folder;

/// Copies a database together with its write-ahead log. No process may have it open.
pub(crate) fn copy_database(from: &Path, to: &Path) -> Result<(), ArchiveError> {
    for suffix in ["", "-wal"] {
        let (from, to) = (with_suffix(from, suffix), with_suffix(to, suffix));
        match std::fs::copy(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => {
                copied.and_then(|_| std::fs::File::open(&to)?.sync_all()).map_err(ArchiveError::io(&to))?;
            }
        }
    }
    Ok(())
}

/// Replaces a database with another. A crash at any instant leaves one of the two, or none, and a
/// missing catalogue is reported.
///
/// A database without its log looks intact but is out of date, and SQLite would replay a log next
/// to the wrong database. So the old database is renamed first, then its log is removed, and only
/// then the new database gets its name.
pub(crate) fn replace_database(home: &Path, fresh: &Path, old: &Path) -> Result<(), ArchiveError> {
    let sync = || sync_folder(home).map_err(ArchiveError::io(home));
    let aside = with_suffix(old, ".old");
    remove_database(&aside)?;
    if old.exists() {
        std::fs::rename(old, &aside).map_err(ArchiveError::io(old))?;
    }
    sync()?;
    remove_database(old)?;
    sync()?;
    std::fs::rename(fresh, old).map_err(ArchiveError::io(old))?;
    sync()?;
    remove_database(&aside)
}

/// Suffixes of the files that SQLite may keep for one database.
pub(crate) const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
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
