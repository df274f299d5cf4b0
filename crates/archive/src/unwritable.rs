//! Reads databases on full or read-only file systems.
//!
//! A reader of a database with a write-ahead log needs to create an index of the log next to it. If
//! that fails and the log is empty, the file alone is the complete database, and SQLite can open it
//! as immutable as long as no process changes it. The archive's lock ensures that. If a crash left
//! a log, the database is copied to the system's temporary folder and the log is checkpointed into
//! the copy.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::database::with_suffix;
use crate::entropy::random;

/// True if a file system that rejects writes may have caused the error.
#[must_use]
pub fn is_unwritable(error: &(dyn std::error::Error + 'static)) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull)
        {
            return true;
        }
        if let Some(rusqlite::Error::SqliteFailure(failure, _)) = error.downcast_ref::<rusqlite::Error>()
            && matches!(failure.code, ErrorCode::ReadOnly | ErrorCode::SystemIoFailure | ErrorCode::DiskFull | ErrorCode::CannotOpen)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error of SQLite that a full disk causes, of which its own text doesn't speak.
#[derive(Debug, thiserror::Error)]
#[error("the index of the database's log can't be enlarged: is the disk full?")]
struct DiskFull(#[source] rusqlite::Error);

/// An error of SQLite, with its most likely cause where its own text names none.
pub(crate) fn explained(error: rusqlite::Error) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        // The index of the log is made with its full size, so that writing to it can't fail.
        rusqlite::Error::SqliteFailure(failure, _) if failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => {
            Box::new(DiskFull(error))
        }
        error => Box::new(error),
    }
}

pub(crate) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    if std::fs::metadata(with_suffix(path, "-wal")).map_or(0, |log| log.len()) == 0 {
        return connect_immutable(path);
    }
    let folder = std::env::temp_dir().join(format!("fulgurite-{:032x}", u128::from_le_bytes(random())));
    let opened = copy_with_log(path, &folder).and_then(|copy| connect_immutable(&copy));
    // Open files stay readable after they are unlinked.
    let _ = std::fs::remove_dir_all(&folder);
    opened
}

/// Copies a database to a new folder and checkpoints its log into the copy.
fn copy_with_log(path: &Path, folder: &Path) -> rusqlite::Result<PathBuf> {
    let io_error = |error: io::Error| {
        let text = format!(
            "{} has a log left by a crash, and can't be copied to {} to apply it: {error}. Set TMPDIR to another folder",
            path.display(),
            folder.parent().unwrap_or(folder).display()
        );
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN), Some(text))
    };
    // The catalogue contains object names, which may be secret.
    std::fs::DirBuilder::new().mode(0o700).create(folder).map_err(io_error)?;
    let copy = folder.join("database");
    std::fs::copy(path, &copy).map_err(io_error)?;
    let log = with_suffix(&copy, "-wal");
    std::fs::copy(with_suffix(path, "-wal"), &log).map_err(io_error)?;
    for file in [&copy, &log] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).map_err(io_error)?;
    }
    let connection = Connection::open(&copy)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(copy)
}

fn connect_immutable(path: &Path) -> rusqlite::Result<Connection> {
    const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'_').remove(b'-');
    let uri = format!("file:{}?immutable=1", percent_encode(path.as_os_str().as_bytes(), &ENCODED));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
}
