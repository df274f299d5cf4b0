//! An open archive: settings, staging, catalogue, keys and stores, opened together.
//!
//! ```text
//! put   -> Staging + KeyStore + Catalogue
//! flush -> PlatterStores, then Catalogue, then Staging
//! get   <- Catalogue -> PlatterStores or Staging
//! ```
//!
//! One process at a time can change an archive; it holds the lock file. Readers need no lock,
//! unless they can't write the archive's folder: then they share the lock, and no process can
//! change it.

mod making;
mod opening;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use fulgurite_domain::{ArchiveId, VersionId};
use fulgurite_format::MasterKey;

use crate::catalogue::Catalogue;
use crate::keystore::KeyStore;
use crate::lock::Lock;
use crate::open_sets::OpenSets;
use crate::pool::{Open, Pool, Reading};
use crate::settings::{Settings, StagingSettings};
use crate::staging::Staging;
use crate::store::PlatterStore;
use crate::volume::Volume;

pub use self::making::write_new;
pub(crate) use self::making::{check_places, write_master_key};
pub(crate) use self::opening::{check_master_key, folder_store};
pub use self::opening::{folder_stores, open_keys, read_master_key, read_settings};
pub use crate::error::{ArchiveError, MasterKeyTrouble, Misread, SetKeptReason};

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
    /// Held while a track is rebuilt from its large group or its set, because that takes hundreds
    /// of MiB of memory (I9).
    pub(crate) rebuilding: Mutex<()>,
    /// Sets that readers of objects opened a moment ago.
    pub(crate) open_sets: OpenSets,
    /// Versions that the catalogue has forgotten but whose keys still exist, until the next
    /// [`sweep`](Self::sweep).
    keys_to_destroy: Mutex<Vec<VersionId>>,
    /// True if the catalogue's log may contain the names of removed versions.
    pub(crate) has_log_to_clear: AtomicBool,
    /// True if catalogue and keys can't be written.
    is_read_only: bool,
    /// Keys newer than all versions that the catalogue knew when the archive was opened for
    /// changes, if they could be counted. Later counts would include keys of puts in progress.
    pub(crate) later_keys: Option<u64>,
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
    /// Assembles an archive without cleaning up after a crash: see [`reconcile`](Self::reconcile).
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
            open_sets: OpenSets::default(),
            keys_to_destroy: Mutex::new(Vec::new()),
            has_log_to_clear: AtomicBool::new(false),
            is_read_only: false,
            later_keys: None,
            _lock: None,
        }
    }

    /// For readers that read content once, to check it: large reads of staged content bypass the
    /// page cache, where they would only evict useful pages, and come from the disk itself.
    #[must_use]
    pub fn reading_directly(mut self) -> Self {
        self.staging.read_directly();
        self
    }

    /// True if catalogue and keys are read-only, because their folder can't be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Closes platters that were opened a second ago or earlier and kept open for [other
    /// readers](crate::object::ObjectReader::sharing_platters). Programs that run for long call this
    /// every few seconds: open files keep a disk from being unmounted.
    pub fn close_platters(&self) {
        self.open_sets.close_old(Instant::now());
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

    /// Checks that key store and catalogue weren't removed or replaced while they are open: what
    /// was stored since would be lost with the process. What it can, it saves or writes back.
    /// Programs that run for long call this every few seconds.
    ///
    /// # Errors
    /// [`ArchiveError`] says which file it is. Nothing more can be stored then.
    pub fn check_in_place(&self) -> Result<(), ArchiveError> {
        let keys = self.keys().check_in_place();
        // In any case, so that both are saved.
        let catalogue = self.catalogue().check_in_place();
        keys?;
        Ok(catalogue?)
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

    pub(crate) fn keys_to_destroy(&self) -> MutexGuard<'_, Vec<VersionId>> {
        self.keys_to_destroy.lock().expect("nothing panics while it holds this lock")
    }

    pub(crate) fn threads(&self) -> usize {
        self.settings.limits.threads
    }
}

/// Upper bound on the memory of all connections to catalogue and key store, KiB, if up to `reading`
/// threads read at once (I9).
#[must_use]
pub const fn databases_kib(reading: u64) -> u64 {
    crate::catalogue::memory_max_kib(reading) + crate::keystore::memory_max_kib(reading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::SqliteCatalogue;
    use crate::keystore::SqliteKeyStore;
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
            let cache = if reading <= crate::pool::CACHED_READERS_MAX as u64 { Cache::Full } else { Cache::Small };
            caches += SqliteCatalogue::open_reader(&catalogue, id, cache).expect("opened").cache_kib();
            caches += SqliteKeyStore::open_reader(&keys, id, cache).expect("opened").cache_kib();
            assert!(caches <= databases_kib(reading), "{caches} KiB with {reading} readers");
        }
    }
}
