//! Files that are complete before they have their name.
//!
//! On ext4, XFS and tmpfs, a new file begins as an unnamed file (`O_TMPFILE`), so a kill leaves
//! nothing. On other file systems, and while a file is replaced, it has the name of a part. Naming
//! an unnamed file syncs the whole pool on ZFS, and on Btrfs its content may be lost in a power
//! failure.

#![forbid(unsafe_code)]

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// What the names of parts begin with. Listings should leave them out: such a file isn't complete,
/// and a kill may leave some.
pub const PART_PREFIX: &str = ".fulgurite-part-";

/// A name for a part, different from all others of this process.
#[must_use]
pub fn part_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Two processes, perhaps on two machines, may write to one folder.
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{PART_PREFIX}{nanos:x}-{process:x}-{number:x}")
}

/// A file that is being written. Without [`publish`](Self::publish), nothing is left of it.
#[derive(Debug)]
pub struct NewFile<'a> {
    folder: BorrowedFd<'a>,
    file: File,
    /// Its name until it is published; it is removed when this is dropped.
    part: Option<String>,
}

impl<'a> NewFile<'a> {
    /// Begins a file in a folder, with these permissions less those that the process masks.
    ///
    /// # Errors
    /// The system's error.
    pub fn create(folder: BorrowedFd<'a>, mode: u32) -> Result<Self, Errno> {
        let mode = Mode::from_raw_mode(mode);
        unnamed(folder, mode).map_or_else(|| Self::named(folder, mode), |file| Ok(Self { folder, file, part: None }))
    }

    fn named(folder: BorrowedFd<'a>, mode: Mode) -> Result<Self, Errno> {
        let part = part_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(folder, &part, flags, mode)?);
        Ok(Self { folder, file, part: Some(part) })
    }

    /// The file, to be written.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name. If something has that name, it is replaced if `replaces`; else this
    /// fails with `EXIST`. Syncs nothing.
    ///
    /// # Errors
    /// The system's error.
    pub fn publish(mut self, name: &[u8], replaces: bool) -> Result<(), Errno> {
        if self.part.is_none() {
            match link(&self.file, self.folder, name) {
                Err(Errno::EXIST) if replaces => {
                    let part = part_name();
                    link(&self.file, self.folder, part.as_bytes())?;
                    self.part = Some(part);
                }
                linked => return linked,
            }
        }
        if let Some(part) = &self.part {
            if replaces {
                rustix::fs::renameat(self.folder, part, self.folder, name)?;
            } else {
                rename_new(self.folder, part, name)?;
            }
            self.part = None;
        }
        Ok(())
    }

    /// Syncs the content, [publishes](Self::publish) the file, and syncs its name.
    ///
    /// # Errors
    /// The system's error.
    pub fn publish_durably(self, name: &[u8], replaces: bool) -> Result<(), Errno> {
        let folder = self.folder;
        rustix::fs::fsync(&self.file)?;
        self.publish(name, replaces)?;
        rustix::fs::fsync(folder)
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = rustix::fs::unlinkat(self.folder, part, AtFlags::empty());
        }
    }
}

/// An unnamed file that can be named later; `None` where that isn't supported, or isn't known to be
/// safe and fast.
#[cfg(target_os = "linux")]
fn unnamed(folder: BorrowedFd<'_>, mode: Mode) -> Option<File> {
    /// From linux/magic.h.
    const SUITABLE: [u64; 3] = [0xEF53, 0x5846_5342, 0x0102_1994];
    #[allow(clippy::unnecessary_cast, reason = "the type differs from one system to another")]
    let kind = rustix::fs::fstatfs(folder).ok()?.f_type as u64;
    if !SUITABLE.contains(&kind) {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, ".", flags, mode).ok()?);
    // Without /proc it couldn't get a name.
    let seen = rustix::fs::statat(CWD, path_of(&file), AtFlags::empty()).ok()?;
    let status = rustix::fs::fstat(&file).ok()?;
    ((seen.st_dev, seen.st_ino) == (status.st_dev, status.st_ino)).then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: BorrowedFd<'_>, _: Mode) -> Option<File> {
    None
}

/// The path by which a file without a name is linked.
fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn link(file: &File, folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    rustix::fs::linkat(CWD, path_of(file), folder, name, AtFlags::SYMLINK_FOLLOW)
}

/// Renames a file in its folder, unless something has the new name: then this fails with `EXIST`.
/// Syncs nothing.
///
/// # Errors
/// The system's error.
pub fn rename_new(folder: BorrowedFd<'_>, part: &str, name: &[u8]) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    match rustix::fs::renameat_with(folder, part, folder, name, rustix::fs::RenameFlags::NOREPLACE) {
        // Not every file system can do that.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return renamed,
    }
    // Unlike a rename, a link never replaces what has the name.
    match rustix::fs::linkat(folder, part, folder, name, AtFlags::empty()) {
        Ok(()) => rustix::fs::unlinkat(folder, part, AtFlags::empty()),
        // Nor can every file system do that: here another program may still get between.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => rustix::fs::renameat(folder, part, folder, name),
                Err(errno) => Err(errno),
            }
        }
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::path::Path;

    use super::*;

    fn entries(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn with_or_without_a_name_a_file_appears_complete_and_replaces_only_if_told() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = File::open(root.path()).expect("a folder");
        // On systems without unnamed files both are the same.
        for create in [|folder| NewFile::create(folder, 0o600), |folder| NewFile::named(folder, Mode::from_raw_mode(0o600))] {
            let publish = |content: &[u8], replaces| {
                let new = create(folder.as_fd()).expect("created");
                new.file().write_all(content).expect("written");
                new.publish(b"a", replaces)
            };
            assert_eq!(publish(b"first", false), Ok(()));
            assert_eq!(publish(b"second", false), Err(Errno::EXIST));
            assert_eq!(std::fs::read(root.path().join("a")).expect("a file"), b"first");
            assert_eq!(publish(b"third", true), Ok(()));
            assert_eq!(std::fs::read(root.path().join("a")).expect("a file"), b"third");
            std::fs::remove_file(root.path().join("a")).expect("removed");
            assert_eq!(publish(b"fourth", true), Ok(()));
            drop(create(folder.as_fd()).expect("created"));
            assert_eq!(entries(root.path()), ["a"], "no part is left");
            std::fs::remove_file(root.path().join("a")).expect("removed");
        }
    }

    #[test]
    fn names_of_parts_never_repeat() {
        assert!(part_name() != part_name() && part_name().starts_with(PART_PREFIX));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_kill_leaves_nothing_where_files_can_be_without_a_name() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = File::open(root.path()).expect("a folder");
        let Some(file) = unnamed(folder.as_fd(), Mode::from_raw_mode(0o600)) else { return };
        let new = NewFile { folder: folder.as_fd(), file, part: None };
        new.file().write_all(b"half").expect("written");
        std::mem::forget(new);
        assert!(entries(root.path()).is_empty());
    }
}
