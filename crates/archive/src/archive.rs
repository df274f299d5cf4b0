//! An open archive: settings, staging, catalogue, keys and stores, opened together.
//!
//! ```text
//! put   -> Staging + KeyStore + Catalogue
//! flush -> PlatterStores, then Catalogue, then Staging
//! get   <- Catalogue -> PlatterStores or Staging
//! ```
//!
//! One process at a time can change an archive; it holds the lock file. Readers need no lock.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::{KeyTextError, MasterKey};

use crate::catalogue::{Catalogue, CatalogueError, SetDescription, SetState, SqliteCatalogue};
use crate::entropy::random;
use crate::keystore::{KeyStore, KeyStoreError, SqliteKeyStore};
use crate::lock::Lock;
use crate::pool::{Open, Pool, Reading};
use crate::settings::{self, Settings, SettingsError, StagingSettings};
use crate::staging::Staging;
use crate::store::{FolderStore, PlatterStore, StoreError};
use crate::unwritable::is_unwritable;
use crate::volume::{FolderVolume, Volume};

pub use crate::error::ArchiveError;

/// File of the catalogue in an archive's folder.
pub const CATALOGUE_FILE: &str = "catalogue.db";
/// File of the key store.
pub const KEYS_FILE: &str = "keys.db";

/// The components of an archive. Tests supply their own.
pub struct Parts {
    /// Its settings.
    pub settings: Settings,
    /// The index of all versions.
    pub catalogue: Box<dyn Catalogue>,
    /// The wrapped keys of the objects.
    pub keys: Box<dyn KeyStore>,
    /// The key that wraps them.
    pub master_key: MasterKey,
    /// The volume of staging.
    pub staging: Arc<dyn Volume>,
    /// The stores, in the order of the settings.
    pub stores: Vec<Arc<dyn PlatterStore>>,
    /// Opens more connections for reading, if the engines support it.
    pub readers: Readers,
}

/// Opens more connections to the engines, which read while the main one commits.
#[derive(Default)]
pub struct Readers {
    /// The catalogue.
    pub catalogue: Option<Open<dyn Catalogue>>,
    /// The key store.
    pub keys: Option<Open<dyn KeyStore>>,
}

/// An open archive.
pub struct Archive {
    home: PathBuf,
    settings: Settings,
    catalogue: Pool<dyn Catalogue>,
    keys: Pool<dyn KeyStore>,
    master_key: MasterKey,
    staging: Staging,
    stores: Vec<Arc<dyn PlatterStore>>,
    /// Held while something is rebuilt, because that takes hundreds of MiB of memory (I9).
    rebuilding: Mutex<()>,
    /// Versions that the catalogue has forgotten but whose keys still exist.
    forgotten: Mutex<Vec<VersionId>>,
    /// True if catalogue and keys can't be written.
    is_still: bool,
    /// Held while this process may change the archive, or while no process may change it.
    _lock: Option<Lock>,
}

/// The access that a process needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only read.
    Read,
    /// Change it, excluding other processes. Refused if stores contain platters that the catalogue
    /// does not list.
    Write,
    /// Record the state of platters and rewrite them, but neither put nor remove. Excludes other
    /// processes that change the archive.
    Repair,
}

impl Archive {
    /// Creates an archive in `home`: settings, keys, catalogue, staging, and a mark on every store.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`] if `home` contains an archive; otherwise whatever failed. The
    /// settings file is written last, so a failed call can be repeated.
    pub fn init(home: &Path, settings: &Settings) -> Result<(), ArchiveError> {
        let file = home.join(settings::FILE);
        if file.exists() {
            return Err(ArchiveError::Exists { path: home.to_owned() });
        }
        // An archive that lost its settings still matters: its keys exist nowhere else.
        let (catalogue, keys) = (home.join(CATALOGUE_FILE), home.join(KEYS_FILE));
        for database in [&catalogue, &keys] {
            if database.metadata().is_ok_and(|metadata| metadata.len() > 0) {
                return Err(ArchiveError::Leftover { path: database.clone() });
            }
        }
        // The settings must survive a round trip through the file.
        let text = settings.to_file();
        let settings = Settings::parse(&text, &file)?;
        std::fs::create_dir_all(home).map_err(ArchiveError::io(home))?;
        let staging = home.join(&settings.staging.path);
        std::fs::create_dir_all(&staging).map_err(ArchiveError::io(&staging))?;
        for store in &settings.stores {
            let path = home.join(&store.path);
            std::fs::create_dir_all(&path).map_err(ArchiveError::io(&path))?;
        }
        check_places(home, &settings)?;
        // Check all stores before marking the first: a leftover mark would block the next attempt.
        for store in folder_stores(home, &settings) {
            match store.check() {
                Ok(()) | Err(StoreError::Unmarked { .. }) => {}
                Err(StoreError::Foreign { store, place, found, .. }) => return Err(StoreError::Taken { store, place, found }.into()),
                Err(error) => return Err(error.into()),
            }
        }
        for store in folder_stores(home, &settings) {
            store.mark()?;
        }
        let master_key = home.join(&settings.archive.master_key);
        if !master_key.exists() {
            write_new(&master_key, format!("{}\n", MasterKey::new(random()).to_hex().as_str()).as_bytes())?;
        }
        // An interrupted `init` can leave either file empty.
        for database in [&catalogue, &keys] {
            if database.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                std::fs::remove_file(database).map_err(ArchiveError::io(database))?;
            }
        }
        Staging::in_folder(&staging, &settings).mark()?;
        SqliteCatalogue::create(&catalogue, settings.archive.id)?.note_staging_mark()?;
        SqliteKeyStore::create(&keys, settings.archive.id)?;
        write_new(&file, text.as_bytes())
    }

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
        let is_there = catalogue.exists() || (access == Access::Read && comes_back(home, &catalogue));
        if !is_there {
            return Err(CatalogueError::Damaged { found: format!("{} does not exist", catalogue.display()) }.into());
        }
        let id = settings.archive.id;
        let (databases, still) = match open_databases(home, &catalogue, id) {
            Err(error) if access == Access::Read && is_unwritable(&error) => match open_still(home, &catalogue, id) {
                Some((databases, lock)) => (databases, Some(lock)),
                None => return Err(error),
            },
            databases => (databases?, None),
        };
        let parts = Parts {
            catalogue: Box::new(databases.0),
            keys: Box::new(databases.1),
            master_key,
            staging: Arc::new(FolderVolume::new(home.join(&settings.staging.path))),
            stores: folder_stores(home, &settings),
            readers: if still.is_some() { Readers::default() } else { readers(home, id) },
            settings,
        };
        let mut archive = Self::assemble(home, parts);
        archive.is_still = still.is_some();
        archive._lock = lock.or(still);
        archive.check_master_key()?;
        if access != Access::Read {
            archive.settle()?;
        }
        if access == Access::Write {
            archive.refuse_strangers()?;
        }
        Ok(archive)
    }

    /// Checks that the master key wraps the object keys. Under another master key, new objects
    /// would be unrecoverable, and exported keys useless.
    ///
    /// # Errors
    /// [`ArchiveError::MasterKey`] if it opens none of the 16 oldest keys. It need not open all of
    /// them: one may be damaged, and later ones may have been wrapped under a wrong key.
    pub(crate) fn check_master_key(&self) -> Result<(), ArchiveError> {
        const TRIED: usize = 16;
        let keys = match self.keys().page(None, TRIED) {
            // This says nothing about the master key, and must not block reads that other keys can
            // decrypt.
            Err(KeyStoreError::Damaged { .. }) => return Ok(()),
            keys => keys?,
        };
        let Some((version, _)) = keys.first() else { return Ok(()) };
        if keys.iter().any(|(_, key)| self.master_key.unwrap(key).is_ok()) {
            return Ok(());
        }
        let why = format!("the key of version {version} is not wrapped by it, nor are the keys after it; it belongs to another archive");
        Err(ArchiveError::MasterKey { path: self.home.join(&self.settings.archive.master_key), why })
    }

    /// Assembles an archive without cleaning up after a crash: see [`settle`](Self::settle).
    #[must_use]
    pub fn assemble(home: &Path, parts: Parts) -> Self {
        let StagingSettings { segment_mib, limit_mib, .. } = parts.settings.staging;
        Self {
            home: home.to_owned(),
            staging: Staging::new(parts.staging, parts.settings.archive.id, segment_mib << 20).limited(limit_mib.map(|mib| mib << 20)),
            settings: parts.settings,
            catalogue: Pool::new(parts.catalogue, parts.readers.catalogue),
            keys: Pool::new(parts.keys, parts.readers.keys),
            master_key: parts.master_key,
            stores: parts.stores,
            rebuilding: Mutex::new(()),
            forgotten: Mutex::new(Vec::new()),
            is_still: false,
            _lock: None,
        }
    }

    /// Reconciles stores and staging with the catalogue after a crash. It gives up sets that were
    /// being written, since all of their content is still staged; completes removals; acknowledges
    /// puts that were durable in all but the catalogue; and removes segments that are no longer
    /// needed. Work on a store that is absent waits for the next call.
    ///
    /// # Errors
    /// [`StagingError::Absent`](crate::staging::StagingError::Absent) if the staging folder does
    /// not exist, [`ArchiveError::SegmentMissing`] if the catalogue refers to missing bytes, and
    /// [`ArchiveError::ForeignSegment`] if staging belongs to another archive. In these cases
    /// nothing is changed.
    pub fn settle(&self) -> Result<(), ArchiveError> {
        self.check_staging()?;
        let mut there = self.staging.segments()?;
        let used = self.catalogue().segments_in_use()?;
        self.staging.number_behind(self.catalogue().last_released()?);
        // A released segment reappears if an old copy of staging was restored. It is removed again
        // below.
        let old = self.catalogue().old_segments(&there, &used)?;
        there.retain(|segment| old.binary_search(segment).is_err());
        if let Some(&segment) = used.iter().find(|segment| there.binary_search(segment).is_err()) {
            return Err(ArchiveError::SegmentMissing { segment });
        }
        if there.iter().any(|segment| used.binary_search(segment).is_err()) && self.was_staging_unseen()? {
            return Err(ArchiveError::StagingUnseen);
        }
        // Before anything is removed: the catalogue may be an old copy that does not list what is
        // staged now.
        self.adopt_staged(&there, &used)?;
        self.mark_staging()?;
        let sets = self.catalogue().sets()?;
        for set in sets.iter().filter(|set| set.state == SetState::Writing) {
            if self.drop_platters(&set.description)? {
                self.catalogue().abandon_set(set.description.id)?;
            }
        }
        for store in &self.stores {
            if store.check().is_ok() {
                let store_error = |source| StoreError::Io { store: store.name().to_owned(), place: store.place(), source };
                store.sweep().map_err(store_error)?;
            }
        }
        let deleted: Vec<_> = self.catalogue().staged_tombstones()?.into_iter().map(|tombstone| tombstone.id).collect();
        self.finish_removals(&deleted)?;
        self.release_segments()
    }

    /// Removes the platters of a set that is given up. Returns `false` if a store that can't be
    /// used now may still hold one. Then the set must not be forgotten: the platter would belong to
    /// no known set, and a rebuild would trust it.
    fn drop_platters(&self, set: &SetDescription) -> Result<bool, ArchiveError> {
        let mut all = true;
        for place in &set.platters {
            // A store that is no longer in the settings is gone for good.
            let Some(store) = self.store(&place.store) else { continue };
            if store.check().is_err() {
                all = false;
                continue;
            }
            let store_error = |source| StoreError::Io { store: place.store.clone(), place: store.place(), source };
            store.remove(place.platter).map_err(store_error)?;
        }
        Ok(all)
    }

    /// True if catalogue and keys are read-only, because their folder can't be written.
    #[must_use]
    pub fn is_still(&self) -> bool {
        self.is_still
    }

    /// The archive's folder.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The archive's identifier.
    #[must_use]
    pub fn id(&self) -> ArchiveId {
        self.settings.archive.id
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The catalogue, for one operation. Don't hold the guard while waiting for something else.
    pub fn catalogue(&self) -> MutexGuard<'_, Box<dyn Catalogue>> {
        self.catalogue.main()
    }

    /// The catalogue for reading. It does not wait for a commit in progress, and sees everything
    /// committed before.
    pub fn reading(&self) -> Reading<'_, dyn Catalogue> {
        self.catalogue.reading()
    }

    /// The key store, for one operation.
    pub fn keys(&self) -> MutexGuard<'_, Box<dyn KeyStore>> {
        self.keys.main()
    }

    /// The key store for reading. It does not wait for a commit in progress.
    pub fn reading_keys(&self) -> Reading<'_, dyn KeyStore> {
        self.keys.reading()
    }

    /// The stores, in the order of the settings.
    #[must_use]
    pub fn stores(&self) -> &[Arc<dyn PlatterStore>] {
        &self.stores
    }

    /// The store with this name.
    #[must_use]
    pub fn store(&self, name: &str) -> Option<&Arc<dyn PlatterStore>> {
        self.stores.iter().find(|store| store.name() == name)
    }

    /// Staging.
    #[must_use]
    pub fn staging(&self) -> &Staging {
        &self.staging
    }

    /// The key that wraps the object keys.
    #[must_use]
    pub fn master_key(&self) -> &MasterKey {
        &self.master_key
    }

    /// Lock to hold while something is rebuilt.
    pub(crate) fn rebuilding(&self) -> &Mutex<()> {
        &self.rebuilding
    }

    pub(crate) fn forgotten(&self) -> MutexGuard<'_, Vec<VersionId>> {
        self.forgotten.lock().expect("no panic holds this lock")
    }

    pub(crate) fn encrypts(&self) -> bool {
        self.settings.archive.encrypt
    }

    pub(crate) fn threads(&self) -> usize {
        self.settings.limits.threads
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.settings.limits.memory_mib << 20
    }
}

/// Reads the settings of the archive in `home`.
///
/// # Errors
/// [`ArchiveError::NotAnArchive`] if the folder has no settings, [`ArchiveError::Settings`] if they
/// are invalid.
pub fn read_settings(home: &Path) -> Result<Settings, ArchiveError> {
    let file = home.join(settings::FILE);
    if !file.exists() {
        return Err(ArchiveError::NotAnArchive { path: home.to_owned() });
    }
    Ok(Settings::read(&file)?)
}

/// Opens the key store of the archive in `home`. A missing key store is never recreated: without
/// its keys, every sealed version would appear deleted.
///
/// # Errors
/// [`KeyStoreError`].
pub fn open_keys(home: &Path, archive: ArchiveId) -> Result<SqliteKeyStore, KeyStoreError> {
    let path = home.join(KEYS_FILE);
    if !path.exists() {
        return Err(KeyStoreError::Missing { path });
    }
    SqliteKeyStore::open(&path, archive)
}

type Databases = (SqliteCatalogue, SqliteKeyStore);

fn open_databases(home: &Path, catalogue: &Path, archive: ArchiveId) -> Result<Databases, ArchiveError> {
    Ok((SqliteCatalogue::open(catalogue, archive)?, open_keys(home, archive)?))
}

/// Opens catalogue and keys without writing anything, and holds the lock that keeps other processes
/// from changing them. `None` if that is impossible: another process is changing them, or a crash
/// left a log that must first be checkpointed.
fn open_still(home: &Path, catalogue: &Path, archive: ArchiveId) -> Option<(Databases, Lock)> {
    let keys = home.join(KEYS_FILE);
    let lock = Lock::share(home)?;
    let databases = (SqliteCatalogue::open_still(catalogue, archive).ok()?, SqliteKeyStore::open_still(&keys, archive).ok()?);
    Some((databases, lock))
}

/// Waits for a catalogue that another process is replacing. `false` if no process is replacing it,
/// or on timeout.
fn comes_back(home: &Path, catalogue: &Path) -> bool {
    const PATIENCE: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_millis(10);
    let begun = Instant::now();
    loop {
        let is_held = Lock::is_taken(home);
        // Check the file after the lock: the holder may have finished in between.
        if catalogue.exists() {
            return true;
        }
        if !is_held || begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Upper bound on the memory of all connections to catalogue and key store, KiB, if up to `reading`
/// threads read at once (I9).
#[must_use]
pub const fn databases_kib(reading: u64) -> u64 {
    crate::catalogue::most_kib(reading) + crate::keystore::most_kib(reading)
}

fn readers(home: &Path, archive: ArchiveId) -> Readers {
    let (catalogue, keys) = (home.join(CATALOGUE_FILE), home.join(KEYS_FILE));
    Readers {
        catalogue: Some(Box::new(move |cache| Some(Box::new(SqliteCatalogue::open_reader(&catalogue, archive, cache).ok()?)))),
        keys: Some(Box::new(move |cache| Some(Box::new(SqliteKeyStore::open_reader(&keys, archive, cache).ok()?)))),
    }
}

/// The stores of an archive in `home`.
#[must_use]
pub fn folder_stores(home: &Path, settings: &Settings) -> Vec<Arc<dyn PlatterStore>> {
    settings.stores.iter().map(|store| folder_store(home, settings.archive.id, store)).collect()
}

pub(crate) fn folder_store(home: &Path, archive: ArchiveId, store: &settings::StoreSettings) -> Arc<dyn PlatterStore> {
    let volume = Arc::new(FolderVolume::new(home.join(&store.path)));
    Arc::new(FolderStore::new(store.name.clone(), archive, volume))
}

/// Rejects two stores at the same path, however it is written. Their folders must exist.
pub(crate) fn check_places(home: &Path, settings: &Settings) -> Result<(), ArchiveError> {
    for (i, store) in settings.stores.iter().enumerate() {
        let place = |store: &settings::StoreSettings| home.join(&store.path).canonicalize().ok();
        if settings.stores[..i].iter().any(|other| place(other).is_some_and(|path| Some(path) == place(store))) {
            let path = home.join(settings::FILE);
            return Err(SettingsError::StoreTwice { path, what: "path", value: store.path.display().to_string() }.into());
        }
    }
    Ok(())
}

/// Reads a master key file.
///
/// # Errors
/// [`ArchiveError::MasterKey`].
pub fn read_master_key(path: &Path) -> Result<MasterKey, ArchiveError> {
    let wrong = |why: String| ArchiveError::MasterKey { path: path.to_owned(), why };
    let text = zeroize::Zeroizing::new(std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?);
    text.trim().parse().map_err(|error: KeyTextError| wrong(error.to_string()))
}

/// Creates a file, readable only by its owner. After a crash it is either complete or absent.
///
/// # Errors
/// [`ArchiveError::Io`].
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), ArchiveError> {
    let write = || {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        // Unlike a rename, a hard link never replaces an existing file.
        let linked = std::fs::hard_link(&part, path);
        std::fs::remove_file(&part)?;
        linked?;
        File::open(path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(ArchiveError::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Cache;

    #[test]
    fn connections_cache_no_more_than_is_counted() {
        let home = tempfile::tempdir().expect("a folder");
        let id = ArchiveId([7; 16]);
        let (catalogue, keys) = (home.path().join(CATALOGUE_FILE), home.path().join(KEYS_FILE));
        let mut caches = SqliteCatalogue::create(&catalogue, id).expect("made").cache_kib()
            + SqliteKeyStore::create(&keys, id).expect("made").cache_kib();
        assert!(caches <= databases_kib(0), "{caches}");
        for reading in 1..=40 {
            let cache = if reading <= crate::pool::KEPT as u64 { Cache::Full } else { Cache::Small };
            caches += SqliteCatalogue::open_reader(&catalogue, id, cache).expect("opened").cache_kib();
            caches += SqliteKeyStore::open_reader(&keys, id, cache).expect("opened").cache_kib();
            assert!(caches <= databases_kib(reading), "{caches} KiB with {reading} readers");
        }
    }
}
