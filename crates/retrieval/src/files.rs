//! Files of a retrieval: errors that name them, and atomic writes.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::exchange::ExchangeError;

/// An I/O error, with the file that it concerns.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}{}", path.display(), advice(source))]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull => ". Free space on its file system",
        ErrorKind::QuotaExceeded => ". Free space within the quota",
        _ => "",
    }
}

/// Adds the path of a file to its I/O errors.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> ExchangeError {
    move |source| ExchangeError::File(FileError { path: path.to_owned(), source })
}

/// Writes a file atomically: after a crash, the path has its previous state or the new content.
pub(crate) fn write_whole(path: &Path, value: &impl Serialize) -> Result<(), ExchangeError> {
    let partial = path.with_extension("partial");
    let written = || {
        let mut file = File::create(&partial)?;
        file.write_all(&serde_json::to_vec_pretty(value)?)?;
        file.sync_all()
    };
    written().map_err(at(&partial))?;
    std::fs::rename(&partial, path).map_err(at(path))?;
    sync_folder(path)
}

/// Makes sure that a renamed file has its name after a crash.
pub(crate) fn sync_folder(path: &Path) -> Result<(), ExchangeError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))
}
