//! Opens an archive: its settings, databases, stores and master key.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::{KeyTextError, MasterKey, WrappedKey};

use super::{Access, Archive, ArchiveError, CATALOGUE_FILE, KEYS_FILE, Parts, Readers};
use crate::catalogue::{Catalogue, CatalogueError, SqliteCatalogue, Versions};
use crate::decoding::{DecodePool, SystemClock};
use crate::error::MasterKeyTrouble;
use crate::keystore::{KeyStore, KeyStoreError, SqliteKeyStore};
use crate::lock::Lock;
use crate::open_file::{OpenFile, refuse_undecided};
use crate::rebuild::keys_of_later_versions;
use crate::settings::{self, Settings, StoreSettings};
use crate::store::{FolderStore, GlassDrives, MediumStore, PlatterStore};
use crate::uncatalogued::refuse_uncatalogued;
use crate::unwritable::is_unwritable;
use crate::volume::FolderVolume;

impl Archive {
    /// Opens the archive in `home`.
    ///
    /// # Errors
    /// [`ArchiveError`] says what is missing or wrong.
    pub fn open(home: &Path, access: Access) -> Result<Self, ArchiveError> {
        let settings = read_settings(home)?;
        let lock = match access {
            Access::Read => None,
            Access::Write | Access::Repair => Some(Lock::take(home)?),
        };
        let master_key = read_master_key(&home.join(&settings.archive.master_key))?;
        let catalogue = home.join(CATALOGUE_FILE);
        let is_there = catalogue.exists() || (access == Access::Read && wait_for_catalogue(home, &catalogue));
        if !is_there {
            refuse_undecided(&catalogue).map_err(CatalogueError::from)?;
            return Err(CatalogueError::Damaged(format!("{} does not exist", catalogue.display())).into());
        }
        let id = settings.archive.id;
        let (databases, read_only_lock) = match open_databases(home, &catalogue, id) {
            Err(error) if access == Access::Read && is_unwritable(&error) => match open_without_writing(home, &catalogue, id) {
                Some((databases, lock)) => (databases, Some(lock)),
                None => return Err(error),
            },
            databases => (databases?, None),
        };
        let (mut catalogue, mut keys) = databases;
        if lock.is_some() {
            catalogue.keep_in_place();
            keys.keep_in_place();
        }
        let files = catalogue.open_file().zip(keys.open_file());
        let parts = Parts {
            catalogue: Box::new(catalogue),
            keys: Box::new(keys),
            master_key,
            staging: Arc::new(FolderVolume::new(home.join(&settings.staging.path))),
            stores: folder_stores(home, &settings),
            readers: files.map_or_else(Readers::default, |files| readers(home, id, files)),
            settings,
        };
        let mut archive = Self::assemble(home, parts);
        archive.is_read_only = read_only_lock.is_some();
        archive._lock = lock.or(read_only_lock);
        check_master_key(&archive)?;
        if access != Access::Read {
            archive.reconcile()?;
            archive.later_keys = keys_of_later_versions(&archive).ok();
        }
        if access == Access::Write {
            refuse_uncatalogued(&archive)?;
        }
        Ok(archive)
    }
}

impl Archive {
    /// Checks that the stores have no platters that the catalogue doesn't list. A catalogue that is
    /// an old copy lacks newer versions, and has old ones as the newest.
    ///
    /// # Errors
    /// [`ArchiveError`] names such platters, and says what to do.
    pub fn check_catalogue_is_current(&self) -> Result<(), ArchiveError> {
        refuse_uncatalogued(self)
    }
}

impl Parts {
    /// The components of the archive in `home`, with an empty catalogue in the file `catalogue`.
    pub(crate) fn with_new_catalogue(home: &Path, settings: Settings, catalogue: &Path) -> Result<Self, ArchiveError> {
        // The catalogue comes last: without keys, it can't be filled.
        Ok(Self {
            keys: Box::new(open_keys(home, settings.archive.id)?),
            readers: Readers::default(),
            master_key: read_master_key(&home.join(&settings.archive.master_key))?,
            catalogue: Box::new(SqliteCatalogue::create(catalogue, settings.archive.id)?),
            staging: Arc::new(FolderVolume::new(home.join(&settings.staging.path))),
            stores: folder_stores(home, &settings),
            settings,
        })
    }
}

/// The master key need not open all of these: one may be damaged, and later ones may have been
/// wrapped under a wrong key.
const KEYS_TRIED_MAX: usize = 16;

/// Checks that the master key wraps the object keys. Under another master key, new objects
/// would be unrecoverable, and exported keys useless.
pub(crate) fn check_master_key(archive: &Archive) -> Result<(), ArchiveError> {
    let first = archive.keys().page(None, KEYS_TRIED_MAX);
    let keys = match first {
        // This says nothing about the master key, and must not block reads that other keys can
        // decrypt.
        Err(KeyStoreError::Damaged { .. }) => keys_of_listed(archive),
        keys => keys?,
    };
    let Some((version, _)) = keys.first() else { return Ok(()) };
    if keys.iter().any(|(_, key)| archive.master_key.unwrap(key).is_ok()) {
        return Ok(());
    }
    let path = archive.home.join(&archive.settings.archive.master_key);
    Err(ArchiveError::MasterKey { path, why: MasterKeyTrouble::Foreign(*version) })
}

/// Keys of versions that the catalogue lists, as far as they can be read.
fn keys_of_listed(archive: &Archive) -> Vec<(VersionId, WrappedKey)> {
    const VERSIONS_TRIED_MAX: usize = 1_000;
    // Damage of the catalogue is reported elsewhere.
    let listed = archive.catalogue().list(b"", Versions::All, None, VERSIONS_TRIED_MAX).unwrap_or_default();
    let mut keys = archive.keys();
    let sealed = listed.iter().filter(|row| row.sealed).map(|row| row.id);
    sealed.filter_map(|id| Some((id, keys.get(id).ok()??))).take(KEYS_TRIED_MAX).collect()
}

/// Reads the settings of the archive in `home`.
///
/// # Errors
/// [`ArchiveError::NotAnArchive`] if the folder has no settings, [`ArchiveError::Settings`] if they
/// are invalid.
pub fn read_settings(home: &Path) -> Result<Settings, ArchiveError> {
    let file = home.join(settings::FILE);
    if !file.exists() {
        return Err(ArchiveError::NotAnArchive(home.to_owned()));
    }
    Ok(Settings::read(&file)?)
}

/// Opens the key store of the archive in `home`. A missing key store is never recreated: an empty
/// one would hide that all keys are lost.
///
/// # Errors
/// [`KeyStoreError`].
pub fn open_keys(home: &Path, archive: ArchiveId) -> Result<SqliteKeyStore, KeyStoreError> {
    let path = home.join(KEYS_FILE);
    refuse_undecided(&path)?;
    if !path.exists() {
        return Err(KeyStoreError::Missing(path));
    }
    SqliteKeyStore::open(&path, archive)
}

type Databases = (SqliteCatalogue, SqliteKeyStore);

fn open_databases(home: &Path, catalogue: &Path, archive: ArchiveId) -> Result<Databases, ArchiveError> {
    Ok((SqliteCatalogue::open(catalogue, archive)?, open_keys(home, archive)?))
}

/// Opens catalogue and keys without writing anything, and holds the lock that keeps other processes
/// from changing them. `None` if another process is changing them, or if they can't be opened, even
/// as a [temporary copy](crate::unwritable).
fn open_without_writing(home: &Path, catalogue: &Path, archive: ArchiveId) -> Option<(Databases, Lock)> {
    let keys = home.join(KEYS_FILE);
    let lock = Lock::share(home)?;
    let databases =
        (SqliteCatalogue::open_without_writing(catalogue, archive).ok()?, SqliteKeyStore::open_without_writing(&keys, archive).ok()?);
    Some((databases, lock))
}

/// Waits for a catalogue that another process is replacing. `false` if no process is replacing it,
/// or on timeout.
fn wait_for_catalogue(home: &Path, catalogue: &Path) -> bool {
    const TIMEOUT: Duration = Duration::from_secs(10);
    const POLL_INTERVAL: Duration = Duration::from_millis(10);
    let begun = Instant::now();
    loop {
        let is_held = Lock::is_taken(home);
        // Check the file after the lock: the holder may have finished in between.
        if catalogue.exists() {
            return true;
        }
        if !is_held || begun.elapsed() > TIMEOUT {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Readers of these files, which are open: once another file has the name of one, only its open
/// connection can be used.
fn readers(home: &Path, archive: ArchiveId, (catalogue_file, keys_file): (OpenFile, OpenFile)) -> Readers {
    let (catalogue, keys) = (home.join(CATALOGUE_FILE), home.join(KEYS_FILE));
    Readers {
        catalogue: Some(Box::new(move |cache| {
            let open = || SqliteCatalogue::open_reader(&catalogue, archive, cache).ok();
            Some(Box::new(of_file(&catalogue_file, open)?) as Box<dyn Catalogue>)
        })),
        keys: Some(Box::new(move |cache| {
            let open = || SqliteKeyStore::open_reader(&keys, archive, cache).ok();
            Some(Box::new(of_file(&keys_file, open)?) as Box<dyn KeyStore>)
        })),
    }
}

/// Opens a reader, unless the path leads to another file before or after that.
fn of_file<T>(file: &OpenFile, open: impl FnOnce() -> Option<T>) -> Option<T> {
    let is_in_place = || file.displacement().is_none();
    is_in_place().then(open).flatten().filter(|_| is_in_place())
}

/// The stores of an archive in `home`.
#[must_use]
pub fn folder_stores(home: &Path, settings: &Settings) -> Vec<Arc<dyn PlatterStore>> {
    let drives = drives(home, settings);
    settings.stores.iter().map(|store| store_with(&drives, home, settings.archive.id, store)).collect()
}

/// A store of an archive in `home` that need not be in its settings.
pub(crate) fn folder_store(home: &Path, settings: &Settings, store: &StoreSettings) -> Arc<dyn PlatterStore> {
    store_with(&drives(home, settings), home, settings.archive.id, store)
}

fn drives(home: &Path, settings: &Settings) -> GlassDrives {
    let decoding = DecodePool::new(home, &settings.decode, settings.limits.threads, Arc::new(SystemClock));
    GlassDrives::with_service(settings.medium.glass(), Arc::new(decoding))
}

fn store_with(drives: &GlassDrives, home: &Path, archive: ArchiveId, store: &StoreSettings) -> Arc<dyn PlatterStore> {
    let volume = Arc::new(FolderVolume::new(home.join(&store.path)));
    let files = FolderStore::new(store.name.clone(), archive, volume);
    Arc::new(MediumStore::new(Arc::new(files), drives.clone()))
}

/// Reads a master key file.
///
/// # Errors
/// [`ArchiveError::MasterKey`].
pub fn read_master_key(path: &Path) -> Result<MasterKey, ArchiveError> {
    let wrong = |why: MasterKeyTrouble| ArchiveError::MasterKey { path: path.to_owned(), why };
    let text = zeroize::Zeroizing::new(std::fs::read_to_string(path).map_err(|error| wrong(error.into()))?);
    text.trim().parse().map_err(|error: KeyTextError| wrong(error.into()))
}
