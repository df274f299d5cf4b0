//! Archives on stores that differ from real ones in what a test is about.

use std::io;
use std::sync::Arc;

use fulgurite_archive::archive::{folder_stores, open_keys, read_master_key, read_settings};
use fulgurite_archive::catalogue::SqliteCatalogue;
use fulgurite_archive::store::{PlatterFile, PlatterSink, PlatterStore, StoreError};
use fulgurite_archive::volume::FolderVolume;
use fulgurite_archive::{Archive, Parts, Readers};
use fulgurite_domain::PlatterId;

use super::Home;

/// What a store does otherwise than the real one, `inner`. By default, nothing.
pub trait Difference: Send + Sync + 'static {
    fn create(&self, inner: &dyn PlatterStore, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>> {
        inner.create(platter, bytes)
    }

    fn open(&self, inner: &dyn PlatterStore, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>> {
        inner.open(platter)
    }

    fn free_bytes(&self, inner: &dyn PlatterStore) -> Option<u64> {
        inner.free_bytes()
    }
}

struct DifferentStore<D> {
    inner: Arc<dyn PlatterStore>,
    difference: D,
}

impl<D: Difference> PlatterStore for DifferentStore<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn place(&self) -> String {
        self.inner.place()
    }

    fn mark(&self) -> Result<(), StoreError> {
        self.inner.mark()
    }

    fn restore_mark(&self) -> Result<(), StoreError> {
        self.inner.restore_mark()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.inner.check()
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        self.inner.check_writable()
    }

    fn create(&self, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>> {
        self.difference.create(&*self.inner, platter, bytes)
    }

    fn open(&self, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>> {
        self.difference.open(&*self.inner, platter)
    }

    fn list(&self) -> io::Result<Vec<PlatterId>> {
        self.inner.list()
    }

    fn remove(&self, platter: PlatterId) -> io::Result<()> {
        self.inner.remove(platter)
    }

    fn sweep(&self) -> io::Result<()> {
        self.inner.sweep()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.difference.free_bytes(&*self.inner)
    }
}

/// Opens an archive with this catalogue, on stores that differ.
pub fn open_on<D: Difference>(home: &Home, catalogue: &str, difference: impl Fn() -> D) -> Archive {
    let path = home.path();
    let settings = read_settings(&path).expect("settings");
    let store = |inner| -> Arc<dyn PlatterStore> { Arc::new(DifferentStore { inner, difference: difference() }) };
    let parts = Parts {
        catalogue: Box::new(SqliteCatalogue::open(&path.join(catalogue), settings.archive.id).expect("a catalogue")),
        keys: Box::new(open_keys(&path, settings.archive.id).expect("keys")),
        readers: Readers::default(),
        master_key: read_master_key(&path.join(&settings.archive.master_key)).expect("a master key"),
        staging: Arc::new(FolderVolume::new(path.join(&settings.staging.path))),
        stores: folder_stores(&path, &settings).into_iter().map(store).collect(),
        settings,
    };
    Archive::assemble(&path, parts)
}
