//! Runs the conformance suite on the SQLite key store, and tests damage and permissions of its
//! file.

use std::path::PathBuf;

use super::*;
use crate::keystore::conformance::{Fixture, conformance, key};

const ARCHIVE: ArchiveId = ArchiveId([0xa5; 16]);

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("keys.db")
    }
}

impl Fixture for Folder {
    fn open(&self) -> Box<dyn KeyStore> {
        let file = self.file();
        let open = if file.exists() { SqliteKeyStore::open } else { SqliteKeyStore::create };
        Box::new(open(&file, ARCHIVE).expect("opened"))
    }

    fn raw(&self) -> Vec<u8> {
        let files = std::fs::read_dir(self.0.path()).expect("the folder is there");
        files.flat_map(|file| std::fs::read(file.expect("listed").path()).expect("read")).collect()
    }
}

conformance!(Folder::new());

/// Opens a damaged store and reads all of it.
fn read_all(file: &std::path::Path) -> Result<Vec<(VersionId, WrappedKey)>, KeyStoreError> {
    let mut store = SqliteKeyStore::open(file, ARCHIVE)?;
    store.check()?;
    store.page(None, 10_000)
}

#[test]
fn any_flipped_bit_in_a_key_is_reported_as_damage() {
    let folder = Folder::new();
    let kept: Vec<_> = (0..100).map(key).collect();
    folder.open().insert(&kept).expect("kept");
    let sound = std::fs::read(folder.file()).expect("read");
    let (id, wrapped) = kept[50];
    let at = sound.windows(40).position(|window| window == wrapped.0).expect("the key is in the file");
    for byte in at - 16..at + 48 {
        let mut damaged = sound.clone();
        damaged[byte] ^= 1 << (byte % 8);
        std::fs::write(folder.file(), damaged).expect("written");
        let mut store = SqliteKeyStore::open(&folder.file(), ARCHIVE).expect("opened");
        for damage in [store.get(id).err(), store.check().err()] {
            assert!(matches!(damage, Some(KeyStoreError::Damaged { .. })), "byte {byte}: {damage:?}");
        }
        assert_eq!(store.get(kept[51].0).expect("other keys are still good"), Some(kept[51].1));
    }
}

#[test]
fn a_flipped_bit_anywhere_never_yields_a_wrong_key() {
    let folder = Folder::new();
    let mut kept: Vec<_> = (0..300).map(key).collect();
    folder.open().insert(&kept).expect("kept");
    kept.sort_by_key(|&(id, _)| id);
    let sound = std::fs::read(folder.file()).expect("read");
    for at in (100..sound.len()).step_by(211) {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x10;
        std::fs::write(folder.file(), damaged).expect("written");
        // Flipped bits in free space change nothing.
        match read_all(&folder.file()) {
            Ok(found) => assert_eq!(found, kept, "byte {at}"),
            Err(error) => assert!(matches!(error, KeyStoreError::Damaged { .. }), "byte {at}: {error}"),
        }
    }
}

#[test]
fn a_file_that_is_not_a_key_store_is_reported_as_damage() {
    let folder = Folder::new();
    folder.open().insert(&(0..500).map(key).collect::<Vec<_>>()).expect("kept");
    let sound = std::fs::read(folder.file()).expect("read");
    let half = sound[..sound.len() / 2].to_vec();
    for content in [Vec::new(), b"no database at all, but long enough to have a header".repeat(100), half, sound[..50].to_vec()] {
        std::fs::write(folder.file(), content).expect("written");
        assert!(matches!(read_all(&folder.file()), Err(KeyStoreError::Damaged { .. })));
    }
    std::fs::remove_file(folder.file()).expect("removed");
    assert!(matches!(SqliteKeyStore::open(&folder.file(), ARCHIVE), Err(KeyStoreError::Engine { .. })), "a missing file is not damage");
    Connection::open(folder.file()).and_then(|file| file.execute_batch("CREATE TABLE another (program)")).expect("made");
    let made = std::fs::read(folder.file()).expect("read");
    assert!(matches!(SqliteKeyStore::open(&folder.file(), ARCHIVE), Err(KeyStoreError::Damaged { .. })), "made by another program");
    assert!(std::fs::read(folder.file()).expect("read") == made, "the file of another program is left unchanged");
}

#[test]
fn another_archive_and_a_newer_schema_are_rejected() {
    let folder = Folder::new();
    drop(folder.open());
    let other = ArchiveId([1; 16]);
    let refused = SqliteKeyStore::open(&folder.file(), other).expect_err("refused");
    assert!(matches!(refused, KeyStoreError::OtherArchive { found: ARCHIVE, expected } if expected == other), "{refused}");
    Connection::open(folder.file()).and_then(|file| file.pragma_update(None, "user_version", 3)).expect("changed");
    let refused = SqliteKeyStore::open(&folder.file(), ARCHIVE).expect_err("refused");
    assert!(matches!(refused, KeyStoreError::Newer { found: 3, known: 2 }), "{refused}");
    assert!(matches!(SqliteKeyStore::create(&folder.file(), ARCHIVE), Err(KeyStoreError::Engine { .. })), "create never overwrites a file");
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_its_files() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let mut store = folder.open();
    store.insert(&[key(1)]).expect("kept");
    let files: Vec<_> = std::fs::read_dir(folder.0.path()).expect("listed").map(|file| file.expect("listed")).collect();
    assert!(files.len() > 1, "expected the log as well");
    for file in files {
        assert_eq!(file.metadata().expect("read").permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
}

#[test]
fn destroy_does_not_wait_for_idle_readers() {
    let folder = Folder::new();
    let mut store = folder.open();
    store.insert(&(0..100).map(key).collect::<Vec<_>>()).expect("kept");
    let mut reader = folder.open();
    assert_eq!(reader.page(None, 1_000).expect("listed").len(), 100);
    store.destroy(&[key(3).0]).expect("destroyed");
    assert_eq!(reader.get(key(3).0).expect("looked up"), None);
    assert!(!folder.raw().windows(40).any(|window| window == key(3).1.0));
}

#[test]
fn keys_that_were_inserted_since_an_export_began_are_counted() {
    let folder = Folder::new();
    let mut store = folder.open();
    assert_eq!(store.exported().expect("known"), Some(Exported { last_ms: None, keys_since: 0 }));
    store.insert(&[key(1), key(2)]).expect("kept");
    store.insert(&[key(2)]).expect("kept already");
    assert_eq!(store.exported().expect("known"), Some(Exported { last_ms: None, keys_since: 2 }));
    let mark = store.export_mark().expect("marked");
    store.insert(&[key(3)]).expect("kept");
    store.note_export(mark, 7).expect("recorded");
    store.destroy(&[key(1).0]).expect("destroyed");
    let mut store = folder.open();
    assert_eq!(store.exported().expect("known"), Some(Exported { last_ms: Some(7), keys_since: 1 }));
}

#[test]
fn a_store_of_the_first_schema_is_migrated_and_its_keys_count_as_not_exported() {
    let folder = Folder::new();
    folder.open().insert(&[key(1), key(2)]).expect("kept");
    let undo = "ALTER TABLE counter DROP COLUMN inserted; DROP TABLE export; PRAGMA user_version = 1";
    Connection::open(folder.file()).and_then(|file| file.execute_batch(undo)).expect("changed");
    assert_eq!(SqliteKeyStore::open_read_only(&folder.file(), ARCHIVE).expect("opened").exported().expect("unknown"), None);
    let mut store = folder.open();
    assert_eq!(store.exported().expect("known"), Some(Exported { last_ms: None, keys_since: 2 }));
    store.check().expect("sound");
    assert_eq!(store.len().expect("counted"), 2);
}
