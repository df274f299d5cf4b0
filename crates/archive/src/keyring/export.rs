//! Exporting: writes a copy of all keys.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fulgurite_format::{KeyExportWriter, ScryptCost, SealedExportWriter};
use fulgurite_new_file::NewFile;
use rustix::io::Errno;

use super::{KeyringError, PAGE};
use crate::archive::{Archive, ArchiveError};
use crate::clock::unix_ms;
use crate::entropy::random;
use crate::paging::Pager;

/// Writes the master key and all object keys of an archive to a new file that only its owner can
/// read, sealed if a passphrase is given. Returns the number of object keys.
///
/// # Errors
/// [`KeyringError`]; then no new file is left.
pub fn export_keys(archive: &Archive, path: &Path, passphrase: Option<&[u8]>) -> Result<u64, KeyringError> {
    let exists = || KeyringError::Exists(path.to_owned());
    let failed = |errno: Errno| ArchiveError::io(path)(errno.into());
    // Checked now, so that no keys are written in vain, and again when the file gets its name.
    if path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let name = path.file_name().ok_or_else(|| failed(Errno::ISDIR))?;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).map_err(ArchiveError::io(path))?;
    let new = NewFile::create(folder.as_fd(), 0o600).map_err(failed)?;
    let mark = archive.keys().export_mark();
    let keys = write_keys(archive, path, new.file(), passphrase)?;
    // Its name must survive a crash too: the key store may be lost later.
    new.publish_durably(name.as_bytes(), false).map_err(|errno| if errno == Errno::EXIST { exists() } else { failed(errno).into() })?;
    // If that fails, as on a read-only disk, fewer keys seem to be in copies than are.
    let _ = mark.and_then(|mark| archive.keys().note_export(mark, unix_ms()));
    Ok(keys)
}

fn write_keys(archive: &Archive, path: &Path, file: &File, passphrase: Option<&[u8]>) -> Result<u64, KeyringError> {
    let Some(passphrase) = passphrase else {
        let (keys, mut out) = write_key_text(archive, path, BufWriter::new(file))?;
        out.flush().map_err(ArchiveError::io(path))?;
        return Ok(keys);
    };
    let sealed = SealedExportWriter::new(BufWriter::new(file), passphrase, random(), ScryptCost::default());
    let sealed = sealed.map_err(|source| KeyringError::Sealed { path: path.to_owned(), source })?;
    let (keys, sealed) = write_key_text(archive, path, sealed)?;
    sealed.finish().and_then(|mut out| out.flush()).map_err(ArchiveError::io(path))?;
    Ok(keys)
}

fn write_key_text<W: Write>(archive: &Archive, path: &Path, out: W) -> Result<(u64, W), ArchiveError> {
    let mut export = KeyExportWriter::new(out, archive.id(), archive.master_key()).map_err(ArchiveError::io(path))?;
    let mut keys = 0;
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| archive.keys().page(after.copied(), PAGE))? {
        for (version, key) in &page {
            export.push(*version, key).map_err(ArchiveError::io(path))?;
            keys += 1;
        }
    }
    Ok((keys, export.finish().map_err(ArchiveError::io(path))?))
}
