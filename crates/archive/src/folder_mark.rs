//! Marks: small files that say which archive a folder belongs to. The folder where a disk isn't
//! mounted looks like an empty store; only the missing mark shows that it isn't one.

use std::io;

use crate::volume::{Volume, read_full};

/// Maximum bytes read of a mark. Longer than any mark, and it keeps a large foreign file from being
/// read completely.
pub(crate) const MARK_BYTES_MAX: usize = 4_096;

/// Returns the text of a mark, valid or not; `None` if the file doesn't exist.
pub(crate) fn read_mark(volume: &dyn Volume, name: &str) -> io::Result<Option<String>> {
    let file = match volume.open(name) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; MARK_BYTES_MAX];
    let read = read_full(|offset, buffer| file.read_at(offset, buffer), 0, &mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes[..read]).into_owned()))
}

/// The file that a mark is written to before it gets its name. An interrupted write leaves it.
pub(crate) fn part_of_mark(name: &str) -> String {
    format!("{name}.part")
}

/// Writes a mark atomically, so that an interrupted write can be retried.
pub(crate) fn write_mark(volume: &dyn Volume, name: &str, text: &str) -> io::Result<()> {
    let part = part_of_mark(name);
    match volume.remove(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = volume.create(&part)?;
    file.write_at(0, text.as_bytes())?;
    file.sync()?;
    volume.rename(&part, name)?;
    volume.sync_directory("")
}
