//! Keeps the content of a file that was removed or replaced while it is open, or whose log was.
//!
//! ```text
//! removed:            open file --copy--> NAME.displaced --> NAME
//! replaced, log gone: open file --copy--> NAME.displaced
//! ```
//!
//! After a removal, the copy gets the name of the file, if its log could be detached. While a
//! `.displaced` file of the key store exists, the key store isn't opened: it may have keys that
//! nothing else has, and only the operator knows which of both files is right.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{Displacement, OpenFile};
use crate::database::with_suffix;
use crate::volume::sync_folder_of;

/// A database was removed or replaced while it is open, so nothing in it can be relied on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Displaced {
    /// Path of the file.
    pub path: PathBuf,
    /// What happened to it.
    pub how: Displacement,
    /// What was done about its content.
    pub kept: Kept,
}

/// What was done about the content of a displaced file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Nothing.
    Not,
    /// It was written back under its name.
    WrittenBack,
    /// It is in this file.
    Aside(PathBuf),
    /// That failed, and the next check tries again.
    Failed(String),
}

/// The content of a displaced file was saved, and the operator hasn't decided yet which file is
/// right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path} or its log was removed or replaced while it was in use; what it contained was saved in {aside}. If a server is still running, stop it. To \
     continue with the saved content, move {path} away, with {path}-wal and {path}-shm if they exist, and rename {aside} to {path}. To do \
     without it, move {aside} away",
    path = path.display(),
    aside = set_aside_name(path).display()
)]
pub struct UndecidedCopy {
    /// Path of the file that was displaced.
    pub path: PathBuf,
}

/// Fails if the content of the file was [saved](Kept::Aside) and is still there.
pub(crate) fn refuse_undecided(path: &Path) -> Result<(), UndecidedCopy> {
    if set_aside_name(path).exists() { Err(UndecidedCopy { path: path.to_owned() }) } else { Ok(()) }
}

impl fmt::Display for Displaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names only: the server tells everyone why it isn't ready, but no paths.
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = name(&self.path);
        match self.how {
            Displacement::Removed => write!(f, "{path} was removed while it was in use")?,
            Displacement::Replaced => write!(f, "{path} was replaced while it was in use")?,
            Displacement::LogGone => write!(f, "{path}-wal was removed or replaced while it was in use")?,
            Displacement::OutOfReach => {
                return write!(f, "{path}, which is in use, can't be found, so nothing is stored. Is its disk mounted?");
            }
        }
        f.write_str(", so nothing more is stored")?;
        match &self.kept {
            Kept::Not => f.write_str(". Restart the server")?,
            Kept::WrittenBack => f.write_str(". Its content was written back under its name: restart the server")?,
            Kept::Aside(aside) => {
                write!(f, ". Its content was saved in {}: stop the server; the next command says how to go on", name(aside))?;
            }
            Kept::Failed(why) => write!(f, ". {why}: don't stop the server before this is resolved")?,
        }
        Ok(())
    }
}

/// Name of the file that the content of a displaced file is saved in.
fn set_aside_name(path: &Path) -> PathBuf {
    with_suffix(path, ".displaced")
}

/// When the content of a displaced file is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// If it was removed. For what can be recreated: after a replacement, the operator decides.
    Removed,
    /// If it or its log was removed or replaced. For what exists nowhere else.
    Always,
}

/// Checks that an open database is in place, and remembers if it wasn't.
#[derive(Debug)]
pub(crate) struct InPlace {
    file: OpenFile,
    /// `None` in a process that doesn't exclude others, which may rightly replace the file.
    keep: Option<Keep>,
    found: Option<Displaced>,
}

impl InPlace {
    pub(crate) fn of(path: &Path) -> Self {
        Self { file: OpenFile::of(path), keep: None, found: None }
    }

    /// From now on, keeps the content if the file is displaced. The caller excludes other
    /// processes that may replace it.
    pub(crate) fn keep(&mut self, keep: Keep) {
        self.keep = Some(keep);
        // Without the record, a replacement is only protected as long as this process lives.
        let _ = self.file.record_log();
    }

    pub(crate) fn file(&self) -> &OpenFile {
        &self.file
    }

    /// Fails if the file isn't in place, or wasn't before: its content may have been kept, and must
    /// not change any more. `connection` must not be in a transaction.
    pub(crate) fn check(&mut self, connection: &Connection) -> Result<(), Displaced> {
        if let Some(found @ Displaced { kept: Kept::Not | Kept::WrittenBack, .. }) = &self.found {
            return Err(found.clone());
        }
        let how = match &self.found {
            Some(found) => found.how,
            None => match self.file.displacement() {
                None => return Ok(()),
                Some(how) => how,
            },
        };
        let displaced = Displaced { path: self.file.path.clone(), how, kept: self.keep_content(how, connection) };
        // A disk that is back has lost nothing.
        if how != Displacement::OutOfReach {
            self.found = Some(displaced.clone());
        }
        Err(displaced)
    }

    fn keep_content(&self, how: Displacement, connection: &Connection) -> Kept {
        let is_kept = match (how, self.keep) {
            // The file is in place, but what was last committed is only in the log that has no name
            // any more. It reaches the file at the end only if no other process has the file open.
            (Displacement::LogGone, Some(Keep::Always)) => return self.keep_aside(connection),
            (Displacement::Removed, Some(_)) => true,
            (Displacement::Replaced, Some(keep)) => {
                let detached = self.file.detach_log(connection);
                if keep == Keep::Removed && matches!(detached, Ok(Ok(false))) {
                    return Kept::Failed("Another process still reads its log".to_owned());
                }
                keep == Keep::Always
            }
            _ => false,
        };
        // Only a link to it was removed or replaced.
        if !is_kept || !self.file.is_apart_from_log() {
            return Kept::Not;
        }
        match self.keep_aside(connection) {
            Kept::Aside(aside) if how == Displacement::Removed && self.put_back(&aside, connection).unwrap_or(false) => Kept::WrittenBack,
            kept => kept,
        }
    }

    /// Saves the content beside the file, unless that was done.
    fn keep_aside(&self, connection: &Connection) -> Kept {
        let aside = set_aside_name(&self.file.log.database);
        let is_saved = matches!(self.found, Some(Displaced { kept: Kept::Aside(_), .. }));
        match if is_saved { Ok(()) } else { save(connection, &aside) } {
            Ok(()) => Kept::Aside(aside),
            Err(error) => Kept::Failed(format!("Its content could not be saved yet ({error})")),
        }
    }

    /// Gives the saved content the name of the file, unless something has that name now.
    fn put_back(&self, aside: &Path, connection: &Connection) -> io::Result<bool> {
        let name = &self.file.log.database;
        // SQLite would apply the log of the removed file to this one.
        if !self.file.detach_log(connection).map_err(io::Error::other)?? {
            return Ok(false);
        }
        let (Some(folder), Some(file), Some(part)) = (name.parent(), name.file_name(), aside.file_name().and_then(OsStr::to_str)) else {
            return Ok(false);
        };
        fulgurite_new_file::rename_new(File::open(folder)?.as_fd(), part, file.as_bytes())?;
        sync_folder_of(name)?;
        Ok(true)
    }
}

/// Writes the content of an open database to a new file.
fn save(connection: &Connection, to: &Path) -> io::Result<()> {
    let unfinished = with_suffix(to, ".part");
    let name = unfinished.to_str().ok_or_else(|| io::Error::other("the name of its folder is not UTF-8"))?;
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Only its owner may read it.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    let written = connection.execute("VACUUM INTO ?1", [name]).map_err(io::Error::other);
    let synced = written.and_then(|_| File::open(&unfinished)?.sync_all());
    synced.inspect_err(|_| _ = std::fs::remove_file(&unfinished))?;
    std::fs::rename(&unfinished, to)?;
    sync_folder_of(to)
}
