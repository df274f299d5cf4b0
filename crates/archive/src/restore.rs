//! Getting: versions become files again.
//!
//! A file appears under its name only when its SHA-256 is right. Names come from the archive, and archives come from anywhere: nothing is
//! ever written outside of the folder that was asked for, not by `..`, not by an absolute name, not through a link.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulgurite_domain::{Kind, ObjectName};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{After, VersionRow, Versions};
use crate::chance::random;
use crate::object::{ObjectReader, ReadError};
use crate::reserved::is_reserved;
use crate::set_reader::Repairs;
use crate::watch::{Trouble, Watcher};

/// Rows asked of the catalogue at once.
const PAGE: usize = 256;
/// Zeros that are worth a hole in a restored file.
const HOLE_BYTES: usize = 4_096;

/// What came of a get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GetReport {
    /// Objects restored.
    pub objects: u64,
    /// Their content.
    pub bytes: u64,
    /// Objects that could not be restored.
    pub failed: u64,
    /// What repair it took.
    pub repairs: Repairs,
}

/// What to do where a file of that name is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Leave it and report.
    Keep,
    /// Replace it.
    Replace,
}

/// Why a file couldn't be restored.
#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is a deletion marker, and there is nothing to restore")]
    DeletionMarker,
    #[error("its name would lead out of the folder")]
    Name,
    #[error("{0} is there already (--force replaces it)")]
    Exists(PathBuf),
    #[error("{0} is a symbolic link, and nothing is written through links")]
    Link(PathBuf),
}

impl Archive {
    /// Restores all objects whose names start with `prefix` into `destination`, under their names without the first `strip` bytes: the
    /// newest versions, and nothing of names that are deleted. What can't be restored is reported to `watcher` and counted, and the rest goes on.
    /// Without a prefix it is everything but the [names that the archive keeps for itself](crate::reserved).
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn get_all(
        &self,
        prefix: &[u8],
        strip: usize,
        destination: &Path,
        existing: Existing,
        watcher: &dyn Watcher,
    ) -> Result<GetReport, ArchiveError> {
        fs::create_dir_all(destination).map_err(ArchiveError::io(destination))?;
        let pages = Mutex::new(Pages { after: None, rows: Vec::new().into_iter(), ended: false });
        let report = Mutex::new(GetReport::default());
        let directories = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads())
                .map(|_| {
                    scope.spawn(|| {
                        let mut reader = ObjectReader::new(self);
                        loop {
                            let next = pages.lock().expect("no panic holds this lock").next(self, prefix)?;
                            let Some(row) = next else { break };
                            let relative = ObjectName(row.record.name.0[strip.min(row.record.name.0.len())..].to_vec());
                            let restored = restore(&mut reader, &row, &relative, destination, existing, &mut |n| watcher.done(0, n));
                            let mut report = report.lock().expect("no panic holds this lock");
                            match restored {
                                Ok(path) => {
                                    report.objects += 1;
                                    report.bytes += row.record.size;
                                    if row.record.kind == Kind::Directory {
                                        directories.lock().expect("no panic holds this lock").push((path, row));
                                    }
                                }
                                Err(error) => {
                                    report.failed += 1;
                                    let (name, version) = (&row.record.name, row.record.version);
                                    watcher.trouble(Trouble::Lost { name, version, why: &error.to_string() });
                                }
                            }
                            watcher.done(1, 0);
                        }
                        report.lock().expect("no panic holds this lock").repairs.add(reader.repairs());
                        Ok::<(), ArchiveError>(())
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        // Times of directories last, since files put into one change it.
        for (path, row) in directories.into_inner().expect("no panic holds this lock") {
            let _ = File::open(path).and_then(|directory| set_attributes(&directory, &row));
        }
        Ok(report.into_inner().expect("no panic holds this lock"))
    }

    /// Restores one version to `path`.
    ///
    /// # Errors
    /// [`ReadError`] says why not; nothing is at `path` then that wasn't there.
    pub fn get_to(&self, version: &VersionRow, path: &Path, existing: Existing, watcher: &dyn Watcher) -> Result<Repairs, ReadError> {
        let mut reader = ObjectReader::new(self);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a file name is expected"))?;
        let name = ObjectName(name.as_bytes().to_vec());
        match restore(&mut reader, version, &name, parent, existing, &mut |n| watcher.done(0, n)) {
            Ok(_) => Ok(reader.repairs()),
            Err(RestoreError::Read(error)) => Err(error),
            Err(RestoreError::Io(error)) => Err(ReadError::Sink(error)),
            Err(error) => Err(ReadError::Sink(io::Error::other(error.to_string()))),
        }
    }
}

/// The rows of a listing, fetched page by page.
struct Pages {
    after: Option<After>,
    rows: std::vec::IntoIter<VersionRow>,
    ended: bool,
}

impl Pages {
    fn next(&mut self, archive: &Archive, prefix: &[u8]) -> Result<Option<VersionRow>, ArchiveError> {
        loop {
            if let Some(row) = self.rows.find(|row| !prefix.is_empty() || !is_reserved(&row.record.name)) {
                return Ok(Some(row));
            }
            if self.ended {
                return Ok(None);
            }
            let page = archive.catalogue().list(prefix, Versions::Newest, self.after.as_ref(), PAGE)?;
            self.ended = page.len() < PAGE;
            self.after = page.last().map(After::row);
            self.rows = page.into_iter();
        }
    }
}

/// Restores one version under `relative` in `root`, and says where.
fn restore(
    reader: &mut ObjectReader<'_>,
    version: &VersionRow,
    relative: &ObjectName,
    root: &Path,
    existing: Existing,
    progress: &mut dyn FnMut(u64),
) -> Result<PathBuf, RestoreError> {
    if version.record.kind == Kind::DeletionMarker {
        return Err(RestoreError::DeletionMarker);
    }
    let (parent, name) = make_parents(root, relative)?;
    let path = parent.join(name);
    let there = fs::symlink_metadata(&path).ok();
    if version.record.kind == Kind::Directory {
        match there {
            Some(metadata) if metadata.is_dir() => {}
            Some(_) => return Err(RestoreError::Exists(path)),
            None => make_directory(&path)?,
        }
        return Ok(path);
    }
    if there.is_some_and(|metadata| existing == Existing::Keep || metadata.is_dir()) {
        return Err(RestoreError::Exists(path));
    }
    let suffix: String = random::<6>().iter().map(|byte| format!("{byte:02x}")).collect();
    let part = parent.join(format!(".fulgurite-{suffix}.part"));
    let made = match version.record.kind {
        Kind::SymbolicLink => restore_link(reader, version, &part),
        _ => restore_file(reader, version, &part, progress),
    };
    let made = made.and_then(|()| match existing {
        Existing::Replace => Ok(fs::rename(&part, &path)?),
        // Unlike a renaming, a link doesn't replace what came there meanwhile. Where a file system has no links, it was looked for above.
        Existing::Keep => match fs::hard_link(&part, &path) {
            Ok(()) => Ok(fs::remove_file(&part)?),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(RestoreError::Exists(path.clone())),
            Err(_) => Ok(fs::rename(&part, &path)?),
        },
    });
    if made.is_err() {
        let _ = fs::remove_file(&part);
    }
    made.map(|()| path)
}

/// Makes the directories above a name, one by one, and refuses those that aren't directories.
fn make_parents<'n>(root: &Path, name: &'n ObjectName) -> Result<(PathBuf, &'n OsStr), RestoreError> {
    let mut components = name.0.split(|&byte| byte == b'/').filter(|component| !component.is_empty() && *component != b".").peekable();
    let mut path = root.to_owned();
    while let Some(component) = components.next() {
        if component == b".." || component.contains(&0) {
            return Err(RestoreError::Name);
        }
        let component = OsStr::from_bytes(component);
        if components.peek().is_none() {
            return Ok((path, component));
        }
        path.push(component);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) if metadata.is_symlink() => return Err(RestoreError::Link(path)),
            Ok(_) => return Err(RestoreError::Exists(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_directory(&path)?,
            Err(error) => return Err(error.into()),
        }
    }
    Err(RestoreError::Name)
}

/// Makes a directory where nothing was a moment ago. Another worker may have been faster: then it has to be a directory that it made, and not
/// a link that would lead elsewhere. (What is there stays: no worker puts anything in the place of a directory.)
fn make_directory(path: &Path) -> Result<(), RestoreError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::symlink_metadata(path)? {
            metadata if metadata.is_dir() => Ok(()),
            metadata if metadata.is_symlink() => Err(RestoreError::Link(path.to_owned())),
            _ => Err(RestoreError::Exists(path.to_owned())),
        },
        made => Ok(made?),
    }
}

fn restore_link(reader: &mut ObjectReader<'_>, version: &VersionRow, part: &Path) -> Result<(), RestoreError> {
    let mut target = Vec::new();
    reader.read(version, &mut |bytes| {
        target.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(std::os::unix::fs::symlink(OsStr::from_bytes(&target), part)?)
}

fn restore_file(
    reader: &mut ObjectReader<'_>,
    version: &VersionRow,
    part: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<(), RestoreError> {
    // Nobody else reads a file before it is checked and has the permissions it had.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part)?;
    let mut at = 0;
    reader.read(version, &mut |bytes| {
        write_around_holes(&file, at, bytes)?;
        at += bytes.len() as u64;
        progress(bytes.len() as u64);
        Ok(())
    })?;
    file.set_len(version.record.size)?;
    set_attributes(&file, version)?;
    Ok(())
}

/// Writes `bytes` at `at`, but for blocks of zeros: they become holes, as they were in a sparse file.
fn write_around_holes(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    let mut start = 0;
    let mut end = 0;
    for block in bytes.chunks(HOLE_BYTES) {
        if block.len() == HOLE_BYTES && is_zero(block) {
            file.write_all_at(&bytes[start..end], at + start as u64)?;
            start = end + block.len();
        }
        end += block.len();
    }
    file.write_all_at(&bytes[start..end], at + start as u64)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn set_attributes(file: &File, version: &VersionRow) -> io::Result<()> {
    if let Some(mode) = version.record.mode {
        // Set-user and set-group bits would hand out the rights of whoever restores.
        file.set_permissions(Permissions::from_mode(mode & 0o1777))?;
    }
    if let Some(modified) = version.record.modified {
        let seconds = Duration::from_secs(modified.seconds.unsigned_abs());
        let time: Option<SystemTime> = if modified.seconds < 0 { UNIX_EPOCH.checked_sub(seconds) } else { UNIX_EPOCH.checked_add(seconds) };
        if let Some(time) = time.and_then(|time| time.checked_add(Duration::from_nanos(modified.nanoseconds.into()))) {
            file.set_times(FileTimes::new().set_modified(time))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_another_worker_was_faster_only_a_directory_will_do() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("directory")).expect("a directory");
        std::os::unix::fs::symlink(folder.path(), at("link")).expect("a link");
        fs::write(at("file"), b"").expect("a file");
        assert!(make_directory(&at("new")).is_ok() && at("new").is_dir());
        assert!(make_directory(&at("directory")).is_ok());
        assert!(matches!(make_directory(&at("link")), Err(RestoreError::Link(_))));
        assert!(matches!(make_directory(&at("file")), Err(RestoreError::Exists(_))));
    }
}
