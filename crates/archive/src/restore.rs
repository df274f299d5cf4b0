//! Restores versions as files.
//!
//! A file appears under its name only after its SHA-256 has been verified. Names come from the
//! archive and are untrusted: nothing is ever written outside the requested folder, whether through
//! `..`, an absolute name or a symbolic link.

mod names;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use fulgurite_domain::{Kind, ObjectName};
use fulgurite_new_file::{NewFile, part_name};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use self::names::Target;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{VersionRow, Versions};
use crate::ingest::digest_of;
use crate::object::{ObjectReader, ReadError, SUCCESSORS_MAX};
use crate::paging::Pager;
use crate::reserved::is_reserved;
use crate::set_reader::Repairs;
use crate::watch::{OutOfReach, Trouble, Watcher};

const PAGE: usize = 256;
/// Size of a block of zeros that becomes a hole in a restored file.
const HOLE_BYTES: usize = 4_096;
/// Bytes of an existing file that are read at a time, to compare it.
const COMPARED_BYTES: usize = 256 << 10;

/// Results of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GetReport {
    /// Objects restored.
    pub objects: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Objects whose files were there already, with the same content.
    pub same: u64,
    /// Objects that could not be restored.
    pub failed: u64,
    /// Failed objects that can't be read now but aren't known to be lost.
    pub out_of_reach: OutOfReach,
    /// Restored objects that got a different name; each was reported.
    pub renamed: u64,
    /// Repairs performed while reading.
    pub repairs: Repairs,
}

/// What to do if the target file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Keep it, and report the object unless the file has its content.
    Keep,
    /// Replace it.
    Replace,
}

#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is a deletion marker and has no content to restore")]
    DeletionMarker,
    #[error("{0} is there already (--force replaces it)")]
    Exists(PathBuf),
    #[error("{0} is a folder, and a file can't replace it")]
    Folder(PathBuf),
    #[error("{0} is a symbolic link, and restores don't follow links")]
    Link(PathBuf),
}

impl Archive {
    /// Restores the newest versions of all objects whose names start with `prefix` into
    /// `destination`, under their names without the first `strip` bytes. Skips deleted names.
    /// Objects that can't be restored are reported to `watcher` and counted, and the restore
    /// continues. An object that is replaced before it was read is restored in its newest version,
    /// and one that is deleted is skipped. An empty prefix selects everything except the [names
    /// reserved for the archive](crate::reserved). Files that are there already with the same
    /// content are left as they are, so an interrupted restore can be repeated.
    ///
    /// Changes and reports names that no file can have, and names that are both a file's and a
    /// folder's.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails, or `destination` can't be created.
    pub fn get_all(
        &self,
        prefix: &[u8],
        strip: usize,
        destination: &Path,
        existing: Existing,
        watcher: &dyn Watcher,
    ) -> Result<GetReport, ArchiveError> {
        fs::create_dir_all(destination).map_err(ArchiveError::io(destination))?;
        let restore = Restore {
            archive: self,
            prefix,
            strip,
            destination,
            existing,
            watcher,
            listing: Mutex::new(Listing { pages: Pager::default(), rows: Vec::new().into_iter(), ended: false }),
            report: Mutex::default(),
            directories: Mutex::default(),
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads()).map(|_| scope.spawn(|| restore.work())).collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        let mut report = restore.report.into_inner().expect("nothing panics while it holds this lock");
        // Set the times of directories last, because adding files changes them. A directory comes
        // before those above it, which its user may not enter afterwards.
        let mut directories = restore.directories.into_inner().expect("nothing panics while it holds this lock");
        directories.sort_by(|(one, _), (other, _)| other.cmp(one));
        for (path, row) in directories {
            if let Err(error) = File::open(&path).and_then(|directory| set_attributes(&directory, &row)) {
                report.objects -= 1;
                report.failed += 1;
                let why = format!("the folder {} is there, but its mode and time could not be set: {error}", path.display());
                watcher.trouble(Trouble::unread(&row, None, &why));
            }
        }
        Ok(report)
    }

    /// Restores one version to `path`. Also returns false if the file was there already with the
    /// same content.
    ///
    /// # Errors
    /// [`ReadError`]; `path` is unchanged then.
    pub fn get_to(
        &self,
        version: &VersionRow,
        path: &Path,
        existing: Existing,
        watcher: &dyn Watcher,
    ) -> Result<(Repairs, bool), ReadError> {
        let mut reader = ObjectReader::new(self);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))?;
        let is_folder = version.record.kind == Kind::Directory;
        let target = Target { components: vec![name.as_bytes().to_vec()], is_folder, rename_reason: None };
        match restore(&mut reader, version, &target, parent, existing, &mut |n| watcher.done(0, n)) {
            Ok(Restored { is_new, .. }) => Ok((reader.repairs(), is_new)),
            Err(RestoreError::Read(error)) => Err(error),
            Err(RestoreError::Io(error)) => Err(ReadError::Sink(error)),
            Err(error) => Err(ReadError::Sink(io::Error::other(error.to_string()))),
        }
    }
}

/// A restore of many objects, shared by its workers.
struct Restore<'a> {
    archive: &'a Archive,
    prefix: &'a [u8],
    strip: usize,
    destination: &'a Path,
    existing: Existing,
    watcher: &'a dyn Watcher,
    listing: Mutex<Listing>,
    report: Mutex<GetReport>,
    /// Restored directories.
    directories: Mutex<Vec<(PathBuf, VersionRow)>>,
}

impl Restore<'_> {
    fn work(&self) -> Result<(), ArchiveError> {
        let mut reader = ObjectReader::new(self.archive);
        loop {
            let next = self.listing.lock().expect("nothing panics while it holds this lock").next(self.archive, self.prefix)?;
            let Some((row, is_above)) = next else { break };
            self.restore(&mut reader, row, is_above)?;
            self.watcher.done(1, 0);
        }
        self.report.lock().expect("nothing panics while it holds this lock").repairs.add(reader.repairs());
        Ok(())
    }

    /// Restores a version; if it is replaced before it was read, its successor. Skips names that
    /// were deleted since they were listed.
    fn restore(&self, reader: &mut ObjectReader<'_>, mut row: VersionRow, is_above: bool) -> Result<(), ArchiveError> {
        let mut attempts = 0;
        loop {
            let target = Target::of(self.archive, &row, self.strip, is_above)?;
            let progress = &mut |n| self.watcher.done(0, n);
            match restore(reader, &row, &target, self.destination, self.existing, progress) {
                Err(RestoreError::Read(ReadError::Removed)) if attempts < SUCCESSORS_MAX => attempts += 1,
                restored => {
                    self.note(row, &target, restored);
                    return Ok(());
                }
            }
            match self.archive.successor(&row)? {
                Some(successor) => row = successor,
                None => return Ok(()),
            }
        }
    }

    fn note(&self, row: VersionRow, target: &Target, restored: Result<Restored, RestoreError>) {
        let mut report = self.report.lock().expect("nothing panics while it holds this lock");
        match restored {
            Ok(Restored { is_new: false, .. }) => report.same += 1,
            Ok(Restored { path, .. }) => {
                report.objects += 1;
                report.bytes += row.record.size;
                if let Some(why) = target.rename_reason {
                    report.renamed += 1;
                    let (name, version) = (&row.record.name, row.record.version);
                    self.watcher.trouble(Trouble::Renamed { name, version, path: &path, why });
                }
                if target.is_folder {
                    self.directories.lock().expect("nothing panics while it holds this lock").push((path, row));
                }
            }
            Err(error) => {
                report.failed += 1;
                let hindrance = match &error {
                    RestoreError::Read(error) => error.hindrance(),
                    _ => None,
                };
                hindrance.into_iter().for_each(|hindrance| report.out_of_reach.add(hindrance));
                self.watcher.trouble(Trouble::unread(&row, hindrance, &error.to_string()));
            }
        }
    }
}

/// Returns the last part of an object's name, shortened if it is too long for a file name.
#[must_use]
pub fn file_name(component: &[u8]) -> Cow<'_, [u8]> {
    if component.len() > names::NAME_BYTES_MAX { names::renamed(component, "").into() } else { component.into() }
}

struct Listing {
    pages: Pager<VersionRow>,
    rows: std::vec::IntoIter<VersionRow>,
    ended: bool,
}

impl Listing {
    /// Returns the next row, and whether objects exist below its name.
    fn next(&mut self, archive: &Archive, prefix: &[u8]) -> Result<Option<(VersionRow, bool)>, ArchiveError> {
        loop {
            if let Some(row) = self.rows.find(|row| !prefix.is_empty() || !is_reserved(&row.record.name)) {
                let is_above = row.record.kind.has_content() && self.is_above(archive, &row.record.name)?;
                return Ok(Some((row, is_above)));
            }
            if self.ended {
                return Ok(None);
            }
            let page = self.pages.next(|after| archive.catalogue().list(prefix, Versions::Newest, after, PAGE))?.unwrap_or_default();
            self.ended = page.len() < PAGE;
            self.rows = page.into_iter();
        }
    }

    /// True if objects exist below `name`, which is the name of the row returned last. They come
    /// later in the listing, but not necessarily next: `a.txt` sorts before `a/b`.
    fn is_above(&self, archive: &Archive, name: &ObjectName) -> Result<bool, ArchiveError> {
        let below = [&name.0[..], b"/"].concat();
        let rows = self.rows.as_slice();
        let first = rows.partition_point(|row| row.record.name.0 < below);
        match rows.get(first) {
            Some(row) => Ok(row.record.name.0.starts_with(&below)),
            None if self.ended => Ok(false),
            None => Ok(!archive.reading().list(&below, Versions::Newest, None, 1)?.is_empty()),
        }
    }
}

/// A file, link or folder that a version has now.
struct Restored {
    path: PathBuf,
    /// False if it was there already, with the same content.
    is_new: bool,
}

fn restore(
    reader: &mut ObjectReader<'_>,
    version: &VersionRow,
    target: &Target,
    root: &Path,
    existing: Existing,
    progress: &mut dyn FnMut(u64),
) -> Result<Restored, RestoreError> {
    if version.record.kind == Kind::DeletionMarker {
        return Err(RestoreError::DeletionMarker);
    }
    let folders = if target.is_folder { &target.components[..] } else { &target.components[..target.components.len() - 1] };
    let parent = make_folders(root, folders, existing)?;
    if target.is_folder {
        return Ok(Restored { path: parent, is_new: true });
    }
    let path = parent.join(OsStr::from_bytes(target.components.last().expect("a file has a name")));
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_dir() => return Err(RestoreError::Folder(path)),
        Ok(metadata) if existing == Existing::Keep => {
            return match has_content_of(&path, &metadata, version) {
                Ok(true) => Ok(Restored { path, is_new: false }),
                _ => Err(RestoreError::Exists(path)),
            };
        }
        _ => {}
    }
    let name = target.components.last().expect("a file has a name");
    match version.record.kind {
        Kind::SymbolicLink => restore_link(reader, version, &parent, &path, existing)?,
        _ => {
            // A folder that may not be listed can take files.
            let folder =
                rustix::fs::open(&parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)?;
            let replaces = existing == Existing::Replace;
            restore_file(reader, version, folder.as_fd(), progress)?.publish(name, replaces).map_err(|errno| match errno {
                Errno::EXIST => RestoreError::Exists(path.clone()),
                errno => io::Error::from(errno).into(),
            })?;
        }
    }
    Ok(Restored { path, is_new: true })
}

/// True if a file or symbolic link has the content of a version.
fn has_content_of(path: &Path, metadata: &fs::Metadata, version: &VersionRow) -> io::Result<bool> {
    let mut hash = digest::Context::new(&digest::SHA256);
    match version.record.kind {
        Kind::SymbolicLink if metadata.is_symlink() => hash.update(fs::read_link(path)?.as_os_str().as_bytes()),
        Kind::File if metadata.is_file() && metadata.len() == version.record.size => {
            let mut file = OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32).open(path)?;
            let mut piece = vec![0; COMPARED_BYTES];
            loop {
                match file.read(&mut piece)? {
                    0 => break,
                    bytes => hash.update(&piece[..bytes]),
                }
            }
        }
        _ => return Ok(false),
    }
    Ok(digest_of(hash.finish()) == version.record.sha256)
}

/// Creates missing folders along a path and returns the path of the last one. The path can't leave
/// `root`, not even through a symbolic link.
fn make_folders(root: &Path, folders: &[Vec<u8>], existing: Existing) -> Result<PathBuf, RestoreError> {
    let mut path = root.to_owned();
    for folder in folders {
        path.push(OsStr::from_bytes(folder));
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) if metadata.is_symlink() => return Err(RestoreError::Link(path)),
            // Nothing restored in this run has the name of a folder, so the file existed before.
            Ok(_) if existing == Existing::Replace => {
                // Another worker may have been faster; then the path is a folder now, or doesn't
                // exist.
                if let Err(error) = fs::remove_file(&path)
                    && fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_dir())
                {
                    return Err(error.into());
                }
                make_directory(&path)?;
            }
            Ok(_) => return Err(RestoreError::Exists(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_directory(&path)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(path)
}

/// Creates a directory at a path that was free a moment ago. If another worker was faster, the path
/// must be a directory and not a link that leads elsewhere. (No worker replaces an existing
/// directory.)
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

fn restore_link(
    reader: &mut ObjectReader<'_>,
    version: &VersionRow,
    parent: &Path,
    path: &Path,
    existing: Existing,
) -> Result<(), RestoreError> {
    let mut target = Vec::new();
    reader.read(version, &mut |bytes| {
        target.extend_from_slice(bytes);
        Ok(())
    })?;
    let link = |at: &Path| std::os::unix::fs::symlink(OsStr::from_bytes(&target), at);
    match link(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && existing == Existing::Keep => {
            Err(RestoreError::Exists(path.to_owned()))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let part = parent.join(part_name());
            link(&part)?;
            Ok(fs::rename(&part, path).inspect_err(|_| drop(fs::remove_file(&part)))?)
        }
        linked => Ok(linked?),
    }
}

/// Writes the content of a version to a new file without a name.
fn restore_file<'f>(
    reader: &mut ObjectReader<'_>,
    version: &VersionRow,
    folder: BorrowedFd<'f>,
    progress: &mut dyn FnMut(u64),
) -> Result<NewFile<'f>, RestoreError> {
    // Until the file is verified and has its final permissions, only its owner can read it.
    let new = NewFile::create(folder, 0o600).map_err(io::Error::from)?;
    let mut at = 0;
    reader.read(version, &mut |bytes| {
        write_around_holes(new.file(), at, bytes)?;
        at += bytes.len() as u64;
        progress(bytes.len() as u64);
        Ok(())
    })?;
    new.file().set_len(version.record.size)?;
    set_attributes(new.file(), version)?;
    Ok(new)
}

/// Writes `bytes` at `at`, but skips blocks of zeros, which become holes: the original file may
/// have been sparse.
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
        // The set-user and set-group bits would grant the rights of the user who restores.
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
    fn losing_a_race_to_make_a_directory_accepts_only_a_directory() {
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
