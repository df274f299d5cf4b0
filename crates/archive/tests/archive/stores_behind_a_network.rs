//! An archive on remote stores: objects are restored, also after the loss of as many stores as a
//! set has redundancy, and after those stores were replaced.
//!
//! The services are folders, so that a test can remove a disk and open the same archive with folder
//! stores.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use crate::support::{Home, get_all, noise, put_all};
use fulgurite_archive::archive::{CATALOGUE_FILE, open_keys, read_master_key, read_settings};
use fulgurite_archive::catalogue::SqliteCatalogue;
use fulgurite_archive::store::{PlatterStore, RemoteStore, StoreError};
use fulgurite_archive::volume::FolderVolume;
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, Parts, Readers};
use opendal::layers::CapabilityOverrideLayer;
use opendal::services::Fs;
use opendal::{Capability, Operator};

/// Opens the archive with its folders as opendal services. Half of the services claim that they
/// can't rename.
fn open(home: &Home) -> Archive {
    let path = home.path();
    let settings = read_settings(&path).expect("settings");
    let store = |(index, store): (usize, &fulgurite_archive::settings::StoreSettings)| -> Arc<dyn PlatterStore> {
        let root = path.join(&store.path);
        let operator = Operator::new(Fs::default().root(root.to_str().expect("a plain path"))).expect("an operator");
        let renames = index.is_multiple_of(2);
        let operator = operator.layer(CapabilityOverrideLayer::new(move |can| Capability { rename: renames, ..can }));
        Arc::new(RemoteStore::new(store.name.clone(), settings.archive.id, operator).expect("a service that can do it"))
    };
    let parts = Parts {
        catalogue: Box::new(SqliteCatalogue::open(&path.join(CATALOGUE_FILE), settings.archive.id).expect("a catalogue")),
        keys: Box::new(open_keys(&path, settings.archive.id).expect("a key store")),
        readers: Readers::default(),
        master_key: read_master_key(&path.join(&settings.archive.master_key)).expect("a master key"),
        staging: Arc::new(FolderVolume::new(path.join(&settings.staging.path))),
        stores: settings.stores.iter().enumerate().map(store).collect(),
        settings,
    };
    let archive = Archive::assemble(&path, parts);
    archive.reconcile().expect("reconciled");
    archive
}

fn lose(home: &Home, stores: [&str; 2]) {
    for store in stores {
        fs::remove_dir_all(home.path().join("stores").join(store)).expect("a store to lose");
    }
}

fn assert_all_there(archive: &Archive, files: &BTreeMap<Vec<u8>, Vec<u8>>) -> u64 {
    let (report, found) = get_all(archive, &Unwatched);
    assert_eq!(report.failed, 0);
    assert!(found == *files, "a file is missing or has different bytes");
    report.repairs.tracks()
}

#[test]
fn an_archive_survives_the_loss_of_as_many_remote_stores_as_it_has_redundancy_and_repairs_them() {
    let home = Home::new(4, 2);
    let archive = open(&home);
    // More than one piece per platter.
    let mut files: BTreeMap<_, _> = (0..50_u64).map(|i| (format!("{i:02}").into_bytes(), noise(i, (i * i * 500) as usize))).collect();
    files.insert(b"large".to_vec(), noise(99, 23_000_000));
    put_all(&archive, &files);
    let flushed = archive.flush(&Unwatched).expect("flush");
    assert_eq!((flushed.sets, flushed.platters), (1, 6));
    assert!(archive.staging().segments().expect("segments").is_empty(), "staging is released");
    assert_eq!(assert_all_there(&archive, &files), 0);
    assert_eq!(home.platter_files().len(), 6);
    assert!(home.platter_files().iter().all(|file| file.metadata().expect("a file").len() > 8 << 20));

    lose(&home, ["d0", "d1"]);
    assert!(assert_all_there(&archive, &files) > 0, "their content is rebuilt from the set");
    for name in ["d0", "d1"] {
        let store = archive.store(name).expect("of the settings");
        assert!(matches!(store.check(), Err(StoreError::Unmarked { .. })));
        store.mark().expect("an empty store in its place");
    }
    let scrubbed = archive.scrub(Some(Default::default()), &Unwatched).expect("scrub");
    assert_eq!((scrubbed.unsound.len(), scrubbed.rebuilt, scrubbed.lost_versions), (2, 2, 0));
    let scrubbed = archive.scrub(None, &Unwatched).expect("scrub");
    assert_eq!((scrubbed.platters, scrubbed.unsound.len()), (6, 0));

    // Now the files depend on the rebuilt platters.
    lose(&home, ["d2", "d3"]);
    assert!(assert_all_there(&archive, &files) > 0);
    drop(archive);
    assert_all_there(&home.open(), &files);
}
