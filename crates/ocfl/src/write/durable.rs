//! Files and folders that survive a crash once they are written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::WriteError;

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteError + '_ {
    move |error| WriteError::Io { path: path.to_owned(), error }
}

/// Writes a file and syncs it, but not its folder.
pub(super) fn write_file(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(at(path))?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(at(path))
}

/// Syncs the names in a folder.
pub(super) fn sync_folder(path: &Path) -> Result<(), WriteError> {
    // Other systems can't open folders as files, and have no use for it.
    if cfg!(unix) { File::open(path).and_then(|folder| folder.sync_all()).map_err(at(path)) } else { Ok(()) }
}

/// Syncs a folder and all folders below it; the files are synced already.
pub(super) fn sync_folders(path: &Path) -> Result<(), WriteError> {
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(at(&folder))? {
            let entry = entry.map_err(at(&folder))?;
            if entry.file_type().map_err(at(&folder))?.is_dir() {
                folders.push(entry.path());
            }
        }
        sync_folder(&folder)?;
    }
    Ok(())
}

pub(super) fn create_folders(path: &Path) -> Result<(), WriteError> {
    fs::create_dir_all(path).map_err(at(path))
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<(), WriteError> {
    fs::rename(from, to).map_err(at(to))
}

/// Removes a folder with everything in it, if it exists.
pub(super) fn remove_folder(path: &Path) -> Result<(), WriteError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

/// True if something has this name, a link included.
pub(super) fn exists(path: &Path) -> Result<bool, WriteError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(at(path)(error)),
    }
}
