//! Exporting: writes a copy of all keys.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use fulgurite_format::{KeyExportWriter, ScryptCost, SealedExportWriter};

use super::{KeyringError, PAGE};
use crate::archive::{Archive, ArchiveError};
use crate::entropy::random;
use crate::paging::Pager;
use crate::volume::sync_folder_of;

/// Writes the master key and all object keys of an archive to a new file that only its owner can
/// read, sealed if a passphrase is given. Returns the number of object keys.
///
/// # Errors
/// [`KeyringError`]; then no new file is left.
pub fn export_keys(archive: &Archive, path: &Path, passphrase: Option<&[u8]>) -> Result<u64, KeyringError> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => KeyringError::Exists(path.to_owned()),
        _ => ArchiveError::io(path)(error).into(),
    })?;
    let written = write_keys(archive, path, &file, passphrase).and_then(|keys| {
        // Its name must survive a crash too: the key store may be lost later.
        file.sync_all().and_then(|()| sync_folder_of(path)).map_err(ArchiveError::io(path))?;
        Ok(keys)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
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
