//! Databases that can be read where nothing can be written: on a full or a read-only file system.
//!
//! A reader of a database with a write-ahead log wants to make an index of the log beside it. Where that fails and the log is empty, the file
//! alone is the whole database, and it can be read as one that doesn't change, as long as nobody changes it. That is held off by the archive's
//! lock. A log that a crash left is brought into a copy of the database, in the system's folder for temporary files.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::chance::random;

/// Whether an error comes of a file system that takes nothing.
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

fn log_of(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Opens a database that nobody changes while it is open.
pub(crate) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    if std::fs::metadata(log_of(path)).map_or(0, |log| log.len()) == 0 {
        return connect_immutable(path);
    }
    let folder = std::env::temp_dir().join(format!("fulgurite-{:032x}", u128::from_le_bytes(random())));
    let opened = copy_with_log(path, &folder).and_then(|copy| connect_immutable(&copy));
    // What is open stays readable without its name.
    let _ = std::fs::remove_dir_all(&folder);
    opened
}

/// Copies a database to a new folder and brings its log into the copy.
fn copy_with_log(path: &Path, folder: &Path) -> rusqlite::Result<PathBuf> {
    let told = |error: io::Error| {
        let text = format!(
            "{} has a log that was left by a crash, and no copy to bring it into can be made in {}: {error}. TMPDIR names another folder",
            path.display(),
            folder.parent().unwrap_or(folder).display()
        );
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN), Some(text))
    };
    // The catalogue has names of objects that may be secret.
    std::fs::DirBuilder::new().mode(0o700).create(folder).map_err(told)?;
    let copy = folder.join("database");
    std::fs::copy(path, &copy).map_err(told)?;
    std::fs::copy(log_of(path), log_of(&copy)).map_err(told)?;
    for file in [&copy, &log_of(&copy)] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).map_err(told)?;
    }
    let connection = Connection::open(&copy)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(copy)
}

fn connect_immutable(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
}
