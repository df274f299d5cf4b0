//! Reading copies of the keys: text or sealed, one or several, complete or damaged.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::{
    DamagedKeyExport, KeyExport, KeyExportError, MasterKey, SealedExportError, SealedExportReader, WrappedKey, is_sealed_export,
    read_damaged_key_export, read_key_export,
};

use super::{KeyringError, PAGE};
use crate::archive::ArchiveError;

/// Copies of the keys of one archive, all of them checked.
pub(crate) struct KeyCopies {
    pub(crate) archive: ArchiveId,
    pub(crate) master: MasterKey,
    pub(crate) copies: Vec<KeyCopy>,
}

/// A copy that was checked and can be read again.
pub(crate) struct KeyCopy {
    pub(crate) path: PathBuf,
    /// The one that opens it; `None` for text.
    passphrase: Option<Vec<u8>>,
    /// Number of keys that could be read.
    pub(crate) keys: u64,
    /// Blocks that error correction restored.
    pub(crate) corrected: u64,
    /// Why a text copy can't be read completely; only its intact lines count then.
    pub(crate) damage: Option<KeyExportError>,
}

/// The archive and its master key, if known.
type KnownMaster<'a> = Option<(ArchiveId, &'a MasterKey)>;

type OnPage<'a> = &'a mut dyn FnMut(&[(VersionId, WrappedKey)]) -> Result<(), KeyringError>;

impl KeyCopies {
    /// Reads copies completely, and checks that they are of this archive and share one master key.
    /// If a text copy is damaged, its intact lines are used, provided the master key is known from
    /// its first lines, an earlier copy or `own_master`. `None` if no files are given.
    pub(crate) fn read_and_check(
        files: &[PathBuf],
        passphrases: &[Vec<u8>],
        archive: ArchiveId,
        own_master: Option<&MasterKey>,
    ) -> Result<Option<Self>, KeyringError> {
        let mut found: Option<Self> = None;
        for path in files {
            let master = own_master.or(found.as_ref().map(|found| &found.master));
            let (export, copy) = check_one(path, passphrases, archive, master)?;
            if export.archive != archive {
                return Err(KeyringError::OtherArchive { path: path.clone(), found: export.archive, expected: archive });
            }
            match &mut found {
                None => found = Some(Self { archive, master: export.master, copies: vec![copy] }),
                Some(first) if first.master.expose() != export.master.expose() => {
                    return Err(KeyringError::MasterKeysDiffer { path: path.clone(), other: first.copies[0].path.clone() });
                }
                Some(first) => first.copies.push(copy),
            }
        }
        Ok(found)
    }
}

/// Reads one copy completely: sealed with one of the passphrases, or as text. From damaged text it
/// reads the lines that a master key opens. `master` is the master key of the archive `expected`,
/// if known.
fn check_one(
    path: &Path,
    passphrases: &[Vec<u8>],
    expected: ArchiveId,
    master: Option<&MasterKey>,
) -> Result<(KeyExport, KeyCopy), KeyringError> {
    let known = master.map(|master| (expected, master));
    let sound_copy = |keys, corrected| KeyCopy { path: path.to_owned(), passphrase: None, keys, corrected, damage: None };
    if !is_sealed(path)? {
        return match read_complete(path, None, &mut |_| Ok(())) {
            Ok((export, _)) => Ok((export.clone(), sound_copy(export.keys, 0))),
            Err(KeyringError::Export { source, .. }) if source.has_intact_lines() => {
                let Ok(Some(DamagedKeyExport { archive, master, keys })) = read_damaged(path, known, &mut |_| Ok(())) else {
                    return Err(KeyringError::Export { path: path.to_owned(), source });
                };
                let archive = archive.ok_or_else(|| KeyringError::NoArchive { path: path.to_owned(), expected })?;
                Ok((KeyExport { archive, master, keys }, KeyCopy { damage: Some(source), ..sound_copy(keys, 0) }))
            }
            Err(error) => Err(error),
        };
    }
    let mut last_error = KeyringError::NoPassphrase(path.to_owned());
    for passphrase in passphrases {
        match read_complete(path, Some(passphrase), &mut |_| Ok(())) {
            Ok((export, corrected)) => {
                let copy = KeyCopy { passphrase: Some(passphrase.clone()), ..sound_copy(export.keys, corrected) };
                return Ok((export, copy));
            }
            // Another passphrase may be the right one.
            Err(error @ KeyringError::Sealed { source: SealedExportError::WrongPassphrase, .. }) => last_error = error,
            Err(error) => return Err(error),
        }
    }
    Err(last_error)
}

impl KeyCopy {
    /// Reads the keys again, in pages. `archive` and `master` are those of [`KeyCopies`].
    pub(crate) fn read(&self, archive: ArchiveId, master: &MasterKey, on_page: OnPage<'_>) -> Result<(), KeyringError> {
        if self.damage.is_some() {
            return read_damaged(&self.path, Some((archive, master)), on_page).map(|_| ());
        }
        read_complete(&self.path, self.passphrase.as_deref(), on_page).map(|_| ())
    }
}

fn is_sealed(path: &Path) -> Result<bool, KeyringError> {
    let file = File::open(path).map_err(ArchiveError::io(path))?;
    Ok(is_sealed_export(&mut BufReader::new(file)).map_err(ArchiveError::io(path))?)
}

/// Reads a complete copy. Also returns the number of blocks restored by error correction.
fn read_complete(path: &Path, passphrase: Option<&[u8]>, on_page: OnPage<'_>) -> Result<(KeyExport, u64), KeyringError> {
    let mut buffer = PageBuffer { page: Vec::with_capacity(PAGE), on_page };
    let file = BufReader::new(File::open(path).map_err(ArchiveError::io(path))?);
    let with_path = |error: ReadError| error.with_path(path);
    let (export, corrected) = match passphrase {
        None => (read_key_export(file, |version, key| buffer.push(version, key)).map_err(with_path)?, 0),
        Some(passphrase) => {
            let sealed = SealedExportReader::new(file, passphrase);
            let mut sealed = sealed.map_err(|source| KeyringError::Sealed { path: path.to_owned(), source })?;
            let export = read_key_export(&mut sealed, |version, key| buffer.push(version, key)).map_err(with_path)?;
            (export, sealed.corrected())
        }
    };
    buffer.flush()?;
    Ok((export, corrected))
}

/// Reads the intact lines of a damaged text copy: those whose keys the master key opens. The master
/// key is `known` or the one in the text, whichever opens a key first. `None` if no key opens,
/// because the master key is then uncertain.
fn read_damaged(path: &Path, known: KnownMaster<'_>, on_page: OnPage<'_>) -> Result<Option<DamagedKeyExport>, KeyringError> {
    let mut buffer = PageBuffer { page: Vec::with_capacity(PAGE), on_page };
    let file = BufReader::new(File::open(path).map_err(ArchiveError::io(path))?);
    let export = read_damaged_key_export(file, known, |version, key| buffer.push(version, key)).map_err(|error| error.with_path(path))?;
    buffer.flush()?;
    Ok(export)
}

/// Collects keys and hands them on in pages of [`PAGE`].
struct PageBuffer<'a> {
    page: Vec<(VersionId, WrappedKey)>,
    on_page: OnPage<'a>,
}

impl PageBuffer<'_> {
    fn push(&mut self, version: VersionId, key: WrappedKey) -> Result<(), ReadError> {
        self.page.push((version, key));
        if self.page.len() >= PAGE {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), KeyringError> {
        (self.on_page)(&self.page)?;
        self.page.clear();
        Ok(())
    }
}

/// An error in reading a copy, before its path is added.
enum ReadError {
    Export(KeyExportError),
    Keyring(Box<KeyringError>),
}

impl ReadError {
    fn with_path(self, path: &Path) -> KeyringError {
        match self {
            // An error from `SealedExportReader`, wrapped as an I/O error.
            Self::Export(KeyExportError::Read(error)) if error.get_ref().is_some_and(|inner| inner.is::<SealedExportError>()) => {
                let source = error.downcast().expect("the type was just checked");
                KeyringError::Sealed { path: path.to_owned(), source }
            }
            Self::Export(source) => KeyringError::Export { path: path.to_owned(), source },
            Self::Keyring(error) => *error,
        }
    }
}

impl From<KeyExportError> for ReadError {
    fn from(error: KeyExportError) -> Self {
        Self::Export(error)
    }
}

impl From<KeyringError> for ReadError {
    fn from(error: KeyringError) -> Self {
        Self::Keyring(Box::new(error))
    }
}
