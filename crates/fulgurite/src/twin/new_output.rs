//! Files that commands of the twin write: complete, or not at all. A command that fails leaves
//! nothing, so it can be repeated under the same names.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fulgurite_new_file::NewFile;

use crate::outcome::Misuse;
use crate::text;

/// Permissions of the files, less those that the process masks.
const MODE: u32 = 0o666;

/// A file to be written. That this is possible is checked before anything runs, so that no run is
/// in vain.
pub(super) struct NewOutput {
    path: PathBuf,
    folder: File,
    name: OsString,
    /// "the page", "the journal".
    what: &'static str,
}

impl NewOutput {
    pub(super) fn new(path: &Path, what: &'static str) -> Result<Self> {
        let cannot_create = || format!("can't create {what} {}", text::harmless(&path.display().to_string()));
        let (folder, name) = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => (if folder.as_os_str().is_empty() { Path::new(".") } else { folder }, name),
            _ => return Err(Misuse(format!("{}: not the name of a file", cannot_create())).into()),
        };
        let checked = || {
            if path.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let folder = File::open(folder)?;
            NewFile::create(folder.as_fd(), MODE)?;
            Ok::<_, io::Error>(folder)
        };
        Ok(Self { folder: checked().with_context(cannot_create)?, path: path.to_owned(), name: name.to_owned(), what })
    }

    /// Its path, for messages.
    pub(super) fn shown(&self) -> String {
        text::harmless(&self.path.display().to_string())
    }

    /// What has failed, if writing has.
    pub(super) fn cannot_write(&self) -> String {
        format!("can't write {} {}", self.what, self.shown())
    }

    /// Writes the file.
    pub(super) fn write<T>(self, write: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        let new = NewFile::create(self.folder.as_fd(), MODE).with_context(|| self.cannot_write())?;
        let written = write(new.file())?;
        new.publish_durably(self.name.as_bytes(), false).with_context(|| self.cannot_write())?;
        Ok(written)
    }
}

/// Writes files into a folder that has none of them: all, or none if one fails.
pub(super) fn write_all(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<()> {
    let opened = File::open(folder).with_context(|| folder.display().to_string())?;
    // One after another: a sweep may write more files than a process can have open.
    for (index, (name, content)) in files.iter().enumerate() {
        let written = || -> io::Result<()> {
            let new = NewFile::create(opened.as_fd(), MODE)?;
            new.file().write_all(content)?;
            new.file().sync_all()?;
            Ok(new.publish(name.as_bytes(), false)?)
        };
        if let Err(error) = written() {
            files[..index].iter().for_each(|(name, _)| drop(fs::remove_file(folder.join(name))));
            return Err(error).with_context(|| folder.join(name).display().to_string());
        }
    }
    opened.sync_all().with_context(|| folder.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn of_several_files_all_are_written_or_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ["a", "b", "c"].map(|name| (name.to_owned(), name.as_bytes().to_vec()));
        fs::write(folder.path().join("b"), "another program's").expect("written");
        let refused = write_all(folder.path(), &files).expect_err("b exists");
        assert!(format!("{refused:#}").contains("/b: "), "{refused:#}");
        assert_eq!(entries(folder.path()), ["b"], "a can be written again");
        assert_eq!(fs::read(folder.path().join("b")).expect("a file"), b"another program's");
        fs::remove_file(folder.path().join("b")).expect("removed");
        write_all(folder.path(), &files).expect("nothing is in the way");
        assert_eq!(entries(folder.path()), ["a", "b", "c"]);
        assert_eq!(fs::read(folder.path().join("c")).expect("a file"), b"c");
    }

    #[test]
    fn a_file_that_could_not_be_written_is_not_there_and_can_be_written_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new.journal");
        let new = || NewOutput::new(&path, "the journal");
        let failed = new().expect("it can be created").write(|mut file| {
            file.write_all(b"half")?;
            Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull).into())
        });
        assert!(failed.is_err());
        assert!(entries(folder.path()).is_empty());
        new().expect("nothing is there").write(|mut file| Ok(file.write_all(b"all")?)).expect("written");
        assert_eq!(fs::read(&path).expect("a file"), b"all");
        let refused = format!("{:#}", new().err().expect("it exists"));
        assert!(refused.starts_with("can't create the journal "), "{refused}");
    }
}
