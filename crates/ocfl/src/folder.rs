//! Folders and files of an object, read without trust: sorted, limited, and without following
//! symbolic links.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::Path;

/// What a name in a folder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    /// A device, a socket or a pipe: opening it could block, or do anything.
    Special,
}

impl From<FileType> for Kind {
    fn from(file_type: FileType) -> Self {
        if file_type.is_symlink() {
            Self::Link
        } else if file_type.is_dir() {
            Self::Folder
        } else if file_type.is_file() {
            Self::File
        } else {
            Self::Special
        }
    }
}

/// An entry of a folder.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: Kind,
}

impl Entry {
    /// The name as text. Bytes that aren't UTF-8 are replaced, so it may not open.
    pub(crate) fn text(&self) -> std::borrow::Cow<'_, str> {
        self.name.to_string_lossy()
    }

    /// The name, if it is UTF-8.
    pub(crate) fn utf8(&self) -> Option<&str> {
        self.name.to_str()
    }
}

/// The entries of a folder, sorted by the bytes of their names. All of them are in memory.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        entries.push(Entry { kind: entry.file_type()?.into(), name: entry.file_name() });
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Why something in an object or a storage root could not be read. This doesn't say that it is
/// corrupt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadFault {
    /// The system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is bigger than is allowed to be read into memory.
    #[error("the file has {bytes} bytes; at most {limit} are read")]
    TooLarge {
        /// Bytes of the file.
        bytes: u64,
        /// Most bytes that are read.
        limit: u64,
    },
    /// The name stands for a link, a folder or a device.
    #[error("it is not a regular file")]
    NotAFile,
}

impl ReadFault {
    /// True if the system says that the file doesn't exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Opens a regular file. Its last name must not be a link.
pub(crate) fn open(path: &Path) -> Result<File, ReadFault> {
    // Before opening: opening a pipe would wait for a writer.
    if Kind::from(fs::symlink_metadata(path)?.file_type()) != Kind::File {
        return Err(ReadFault::NotAFile);
    }
    Ok(File::open(path)?)
}

/// Reads a whole file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadFault> {
    let file = open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > limit {
        return Err(ReadFault::TooLarge { bytes, limit });
    }
    let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
    // The file may grow meanwhile.
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(ReadFault::TooLarge { bytes: content.len() as u64, limit });
    }
    Ok(content)
}

/// Joins a place and a name with a slash.
pub(crate) fn below(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}/{name}") }
}

/// True for the name of a file that declares an object, of whatever version.
pub(crate) fn is_object_declaration(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("0=ocfl_object"))
}

/// Checks the text of a declaration.
pub(crate) fn declaration_is(path: &Path, value: &str) -> Result<bool, ReadFault> {
    match read(path, crate::spec::SMALL_FILE_BYTES) {
        Ok(text) => Ok(text.strip_suffix(b"\n") == Some(value.as_bytes())),
        Err(ReadFault::TooLarge { .. }) => Ok(false),
        Err(fault) => Err(fault),
    }
}
