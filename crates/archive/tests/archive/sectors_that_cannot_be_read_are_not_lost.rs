//! A scrub counts sectors that the system refuses to read as unreadable, on platters that the
//! catalogue knows and on others.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;

use crate::support::{Home, noise, put_all};
use fulgurite_archive::archive::{CATALOGUE_FILE, folder_stores, open_keys, read_master_key, read_settings};
use fulgurite_archive::catalogue::SqliteCatalogue;
use fulgurite_archive::store::{PlatterFile, PlatterSink, PlatterStore, StoreError};
use fulgurite_archive::unread::Hindrance;
use fulgurite_archive::volume::FolderVolume;
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, Parts, PlatterState, Readers};
use fulgurite_domain::PlatterId;
use fulgurite_glass::PlatterSource;

/// A byte of each platter file that can't be read. It is in a sector.
const BAD_BYTE: u64 = 20_000;

struct Store(Arc<dyn PlatterStore>);

struct File(Arc<dyn PlatterFile>);

impl PlatterSource for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match (offset..offset + buffer.len() as u64).contains(&BAD_BYTE) {
            true => Err(io::Error::other("input/output error")),
            false => self.0.read_at(offset, buffer),
        }
    }
}

impl PlatterFile for File {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
}

impl PlatterStore for Store {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn place(&self) -> String {
        self.0.place()
    }

    fn mark(&self) -> Result<(), StoreError> {
        self.0.mark()
    }
    fn restore_mark(&self) -> Result<(), StoreError> {
        self.0.restore_mark()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.0.check()
    }

    fn create(&self, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>> {
        self.0.create(platter, bytes)
    }

    fn open(&self, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>> {
        Ok(self.0.open(platter)?.map(|file| Arc::new(File(file)) as Arc<dyn PlatterFile>))
    }

    fn list(&self) -> io::Result<Vec<PlatterId>> {
        self.0.list()
    }

    fn remove(&self, platter: PlatterId) -> io::Result<()> {
        self.0.remove(platter)
    }

    fn sweep(&self) -> io::Result<()> {
        self.0.sweep()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.0.free_bytes()
    }
}

fn open(home: &Home, catalogue: &str) -> Archive {
    let path = home.path();
    let settings = read_settings(&path).expect("settings");
    let store = |inner| -> Arc<dyn PlatterStore> { Arc::new(Store(inner)) };
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

#[test]
fn refused_sectors_are_unreadable_whether_or_not_the_catalogue_knows_the_platter() {
    let home = Home::new(2, 1);
    fs::copy(home.path().join(CATALOGUE_FILE), home.path().join("old.db")).expect("an old copy");
    let archive = home.open();
    put_all(&archive, &BTreeMap::from([(b"a".to_vec(), noise(1, 200_000))]));
    archive.flush(&Unwatched).expect("flushed");
    drop(archive);
    let platters = home.platter_files().len();

    let known = open(&home, CATALOGUE_FILE).scrub(None, &Unwatched).expect("scrubbed");
    assert_eq!((known.unsound.len(), known.unknown.len()), (platters, 0));
    for finding in &known.unsound {
        assert_eq!((finding.state(), finding.lost_sectors, finding.unreadable), (PlatterState::Unreadable, 0, 1));
    }

    let unknown = open(&home, "old.db").scrub(None, &Unwatched).expect("scrubbed");
    assert_eq!((unknown.unsound.len(), unknown.unknown.len()), (0, platters));
    for platter in &unknown.unknown {
        assert_eq!((&platter.why_unreadable, platter.lost_sectors, platter.unreadable), (&None, 0, 1));
    }
    assert_eq!((known.hindrance(), unknown.hindrance()), (Some(Hindrance::Unreadable), Some(Hindrance::Unreadable)));
}
