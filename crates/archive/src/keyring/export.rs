//! Exporting: writes a copy of all keys.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use fulgurite_format::{KeyExportWriter, ScryptCost, SealedExportWriter};

use super::{KeyringError, PAGE};
use crate::archive::Archive;
use crate::catalogue::Pages;
use crate::entropy::random;

impl Archive {
    /// Writes the master key and all object keys to a new file that only its owner can read, sealed
    /// if a passphrase is given. Returns the number of object keys.
    ///
    /// # Errors
    /// [`KeyringError`]; then the file does not exist.
    pub fn export_keys(&self, path: &Path, passphrase: Option<&[u8]>) -> Result<u64, KeyringError> {
        let io_error = |source| KeyringError::Io { path: path.to_owned(), source };
        let file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyringError::Exists { path: path.to_owned() },
            _ => io_error(error),
        })?;
        let written = write_keys(self, path, &file, passphrase).and_then(|keys| {
            file.sync_all().map_err(io_error)?;
            Ok(keys)
        });
        if written.is_err() {
            let _ = std::fs::remove_file(path);
        }
        written
    }
}

fn write_keys(archive: &Archive, path: &Path, file: &File, passphrase: Option<&[u8]>) -> Result<u64, KeyringError> {
    let io_error = |source| KeyringError::Io { path: path.to_owned(), source };
    match passphrase {
        None => {
            let (keys, mut out) = write_key_text(archive, BufWriter::new(file), &io_error)?;
            out.flush().map_err(io_error)?;
            Ok(keys)
        }
        Some(passphrase) => {
            let sealed = SealedExportWriter::new(BufWriter::new(file), passphrase, random(), ScryptCost::default());
            let sealed = sealed.map_err(|source| KeyringError::Sealed { path: path.to_owned(), source })?;
            let (keys, sealed) = write_key_text(archive, sealed, &io_error)?;
            sealed.finish().and_then(|mut out| out.flush()).map_err(io_error)?;
            Ok(keys)
        }
    }
}

fn write_key_text<W: Write>(archive: &Archive, out: W, io_error: &dyn Fn(io::Error) -> KeyringError) -> Result<(u64, W), KeyringError> {
    let mut export = KeyExportWriter::new(out, archive.id(), archive.master_key()).map_err(io_error)?;
    let mut keys = 0;
    let mut pages = Pages::default();
    while let Some(page) = pages.next(|after| archive.keys().page(after.copied(), PAGE))? {
        for (version, key) in &page {
            export.push(*version, key).map_err(io_error)?;
            keys += 1;
        }
    }
    Ok((keys, export.finish().map_err(io_error)?))
}
