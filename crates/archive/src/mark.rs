//! Marks: a small file in a folder that says whose it is. A disk that isn't mounted looks like an
//! empty folder, and only the mark tells them apart.

use std::io;

use crate::volume::Volume;

/// Longer than any mark, so that a foreign file isn't read whole.
pub(crate) const MARK_BYTES: usize = 4_096;

/// The text of a mark, whatever it says; `None` if there is none.
pub(crate) fn read_mark(volume: &dyn Volume, name: &str) -> io::Result<Option<String>> {
    let file = match volume.open(name) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; MARK_BYTES];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(read as u64, &mut bytes[read..])? {
            0 => break,
            more => read += more,
        }
    }
    Ok(Some(String::from_utf8_lossy(&bytes[..read]).into_owned()))
}

/// Writes a mark, whole or not at all, so that what was cut short can be tried again.
pub(crate) fn write_mark(volume: &dyn Volume, name: &str, text: &str) -> io::Result<()> {
    let part = format!("{name}.part");
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
