//! The folder of a bag: opens files without following links, and lists what is there.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::matching::Present;

/// Opens a regular file and refuses everything else: a link could lead out of the bag, and a pipe
/// could block for ever.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    // The flags close the gap between a look at the path and the open.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// Opens a tag file. `None` if it doesn't exist.
pub(crate) fn open_tag_file(root: &Path, name: &str) -> io::Result<Option<File>> {
    match open_file(&root.join(name)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Something in the folder.
pub(crate) enum Entry {
    /// A path relative to the folder.
    Path { path: Vec<u8>, present: Present },
    /// A folder below the bag's without entries.
    EmptyFolder { path: Vec<u8> },
    /// A folder or file that can't be looked into.
    Unreadable { path: Vec<u8>, error: io::Error },
}

/// Lists everything below a folder, in no particular order.
pub(crate) struct Walk {
    root: PathBuf,
    entries: walkdir::IntoIter,
    /// The last folder, until an entry in it is seen.
    maybe_empty: Option<(Vec<u8>, usize)>,
    ready: Option<Entry>,
}

impl Walk {
    pub(crate) fn new(root: &Path) -> Self {
        let entries = walkdir::WalkDir::new(root).min_depth(1).follow_links(false).into_iter();
        Self { root: root.to_owned(), entries, maybe_empty: None, ready: None }
    }

    fn relative(&self, path: &Path) -> Vec<u8> {
        path.strip_prefix(&self.root).unwrap_or(path).as_os_str().as_bytes().to_vec()
    }

    /// Returns the folder before an entry at `depth` if it had no entries.
    fn take_empty(&mut self, depth: usize) -> Option<Entry> {
        let (path, folder_depth) = self.maybe_empty.take()?;
        (depth <= folder_depth).then_some(Entry::EmptyFolder { path })
    }
}

impl Iterator for Walk {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if let Some(entry) = self.ready.take() {
            return Some(entry);
        }
        loop {
            let entry = match self.entries.next() {
                None => return self.take_empty(0),
                Some(Err(error)) => {
                    // The folder before may be the one that can't be read; it isn't called empty.
                    self.maybe_empty = None;
                    let path = error.path().map(|path| self.relative(path)).unwrap_or_default();
                    return Some(Entry::Unreadable { path, error: error.into() });
                }
                Some(Ok(entry)) => entry,
            };
            let empty = self.take_empty(entry.depth());
            let path = self.relative(entry.path());
            let kind = entry.file_type();
            if kind.is_dir() {
                self.maybe_empty = Some((path, entry.depth()));
                match empty {
                    Some(empty) => return Some(empty),
                    None => continue,
                }
            }
            let found = if kind.is_file() {
                match entry.metadata() {
                    Ok(metadata) => Entry::Path { path, present: Present::File { bytes: metadata.len() } },
                    Err(error) => Entry::Unreadable { path, error: error.into() },
                }
            } else if kind.is_symlink() {
                Entry::Path { path, present: Present::Link }
            } else {
                Entry::Path { path, present: Present::Other }
            };
            return match empty {
                Some(empty) => {
                    self.ready = Some(found);
                    Some(empty)
                }
                None => Some(found),
            };
        }
    }
}

/// True if `path` is a folder, and not a link to one.
pub(crate) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}
