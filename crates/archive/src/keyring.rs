//! A copy of all keys, to be kept elsewhere, and its way back.
//!
//! A copy holds the keys of everything that was stored when it was made. What is removed later can still be read by whoever has the copy and
//! a platter; so after a removal that matters, make a new copy and destroy the old one.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::{
    KeyExportError, KeyExportWriter, MasterKey, ScryptCost, SealedExportError, SealedExportReader, SealedExportWriter, WrappedKey,
    is_sealed_export, read_key_export,
};

use crate::archive::{Archive, ArchiveError, KEYS_FILE, lock, read_master_key, read_settings, write_new};
use crate::chance::random;
use crate::keystore::{KeyStore, KeyStoreError, SqliteKeyStore};

/// Keys read or kept at once.
const PAGE: usize = 1_000;

/// Why keys can't be exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The file can't be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is a file already, which may be the only copy of other keys.
    #[error("{path} is there already; give another name, or remove it")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file isn't an export, or not whole.
    #[error("{path}: {source}")]
    Export {
        /// The file.
        path: PathBuf,
        /// What was found.
        source: KeyExportError,
    },
    /// The file can't be unsealed.
    #[error("{path}: {source}")]
    Sealed {
        /// The file.
        path: PathBuf,
        /// What was found.
        source: SealedExportError,
    },
    /// The file is sealed and no passphrase was given.
    #[error("{path} is sealed with a passphrase; give it with --passphrase-file")]
    NoPassphrase {
        /// The file.
        path: PathBuf,
    },
    /// The keys are of another archive.
    #[error("{path} has the keys of archive {found}, and this is archive {expected}; nothing was changed")]
    OtherArchive {
        /// The file.
        path: PathBuf,
        /// Archive in the file.
        found: ArchiveId,
        /// Archive in the settings.
        expected: ArchiveId,
    },
    /// There is another master key.
    #[error("{path} holds another master key; move it away if it is the wrong one. Nothing was changed")]
    OtherMasterKey {
        /// File of the master key.
        path: PathBuf,
    },
}

impl From<KeyStoreError> for KeyringError {
    fn from(error: KeyStoreError) -> Self {
        Self::Archive(error.into())
    }
}

impl Archive {
    /// Writes the master key and all object keys to a new file, readable by its owner only, sealed if there is a passphrase. Returns
    /// the number of object keys.
    ///
    /// # Errors
    /// [`KeyringError`]; there is no file then.
    pub fn export_keys(&self, path: &Path, passphrase: Option<&[u8]>) -> Result<u64, KeyringError> {
        let io_error = |source| KeyringError::Io { path: path.to_owned(), source };
        let file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyringError::Exists { path: path.to_owned() },
            _ => io_error(error),
        })?;
        let written = self.write_keys(path, &file, passphrase).and_then(|keys| {
            file.sync_all().map_err(io_error)?;
            Ok(keys)
        });
        if written.is_err() {
            let _ = std::fs::remove_file(path);
        }
        written
    }

    fn write_keys(&self, path: &Path, file: &File, passphrase: Option<&[u8]>) -> Result<u64, KeyringError> {
        let io_error = |source| KeyringError::Io { path: path.to_owned(), source };
        match passphrase {
            None => {
                let (keys, mut out) = self.write_key_text(BufWriter::new(file), &io_error)?;
                out.flush().map_err(io_error)?;
                Ok(keys)
            }
            Some(passphrase) => {
                let sealed = SealedExportWriter::new(BufWriter::new(file), passphrase, random(), ScryptCost::default());
                let sealed = sealed.map_err(|source| KeyringError::Sealed { path: path.to_owned(), source })?;
                let (keys, sealed) = self.write_key_text(sealed, &io_error)?;
                sealed.finish().and_then(|mut out| out.flush()).map_err(io_error)?;
                Ok(keys)
            }
        }
    }

    fn write_key_text<W: Write>(&self, out: W, io_error: &dyn Fn(io::Error) -> KeyringError) -> Result<(u64, W), KeyringError> {
        let mut export = KeyExportWriter::new(out, self.id(), self.master_key()).map_err(io_error)?;
        let mut keys = 0;
        let mut after = None;
        loop {
            let page = self.keys().page(after, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (version, key) in &page {
                export.push(*version, key).map_err(io_error)?;
                keys += 1;
            }
        }
        Ok((keys, export.finish().map_err(io_error)?))
    }
}

/// Brings exported keys back into the archive in `home`: the master key if it is missing, and object keys that aren't there. Returns
/// the number of object keys in the file.
///
/// # Errors
/// [`KeyringError`]. The whole file is checked before anything is changed.
pub fn import_keys(home: &Path, path: &Path, passphrase: Option<&[u8]>) -> Result<u64, KeyringError> {
    let settings = read_settings(home)?;
    let _lock = lock(home)?;
    let export = read_keys(path, passphrase, &mut |_| Ok(()))?;
    if export.0 != settings.archive.id {
        return Err(KeyringError::OtherArchive { path: path.to_owned(), found: export.0, expected: settings.archive.id });
    }
    let master_key = home.join(&settings.archive.master_key);
    if master_key.exists() {
        if read_master_key(&master_key)?.expose() != export.1.expose() {
            return Err(KeyringError::OtherMasterKey { path: master_key });
        }
    } else {
        write_new(&master_key, format!("{}\n", export.1.to_hex().as_str()).as_bytes())?;
    }
    let file = home.join(KEYS_FILE);
    let mut store = match file.exists() {
        true => SqliteKeyStore::open(&file, settings.archive.id)?,
        false => SqliteKeyStore::create(&file, settings.archive.id)?,
    };
    let keys = read_keys(path, passphrase, &mut |keys| Ok(store.insert(keys)?))?;
    Ok(keys.2)
}

/// Reads an export, page by page.
#[allow(clippy::type_complexity)]
fn read_keys(
    path: &Path,
    passphrase: Option<&[u8]>,
    on_page: &mut dyn FnMut(&[(VersionId, WrappedKey)]) -> Result<(), KeyringError>,
) -> Result<(ArchiveId, MasterKey, u64), KeyringError> {
    let io_error = |source| KeyringError::Io { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(io_error)?);
    let mut beginning = [0; 8];
    let mut read = 0;
    while read < beginning.len() {
        match file.read(&mut beginning[read..]).map_err(io_error)? {
            0 => break,
            bytes => read += bytes,
        }
    }
    let whole = io::Cursor::new(beginning[..read].to_vec()).chain(file);
    let mut page = Vec::new();
    let on_key = |version, key| {
        page.push((version, key));
        if page.len() >= PAGE {
            on_page(&page)?;
            page.clear();
        }
        Ok::<(), ReadTrouble>(())
    };
    let result = if is_sealed_export(&beginning[..read]) {
        let passphrase = passphrase.ok_or_else(|| KeyringError::NoPassphrase { path: path.to_owned() })?;
        let sealed = SealedExportReader::new(whole, passphrase);
        read_key_export(sealed.map_err(|source| KeyringError::Sealed { path: path.to_owned(), source })?, on_key)
    } else {
        read_key_export(whole, on_key)
    };
    let export = result.map_err(|trouble| match trouble {
        ReadTrouble::Export(source) => KeyringError::Export { path: path.to_owned(), source },
        ReadTrouble::Keyring(error) => *error,
    })?;
    on_page(&page)?;
    Ok((export.archive, export.master, export.keys))
}

enum ReadTrouble {
    Export(KeyExportError),
    Keyring(Box<KeyringError>),
}

impl From<KeyExportError> for ReadTrouble {
    fn from(error: KeyExportError) -> Self {
        Self::Export(error)
    }
}

impl From<KeyringError> for ReadTrouble {
    fn from(error: KeyringError) -> Self {
        Self::Keyring(Box::new(error))
    }
}
