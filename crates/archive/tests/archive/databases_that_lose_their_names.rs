//! Key store and catalogue are removed or replaced while a process has them open. Nothing more is
//! acknowledged then, and what was acknowledged before survives the process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_archive::archive::{CATALOGUE_FILE, KEYS_FILE};
use fulgurite_archive::keyring::{export_keys, import_keys};
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Access, Archive, Source};
use fulgurite_domain::ObjectName;

use crate::support::{Home, get_all};

fn put(archive: &Archive, name: &str) -> Result<(), String> {
    let reader = Box::new(std::io::Cursor::new(name.to_owned()));
    let source = Source::Stream { reader, name: ObjectName(name.as_bytes().to_vec()) };
    archive.put(std::iter::once(source), &Unwatched).map(drop).map_err(|error| error.to_string())
}

fn names(archive: &Archive) -> Vec<String> {
    let (_, found): (_, BTreeMap<Vec<u8>, Vec<u8>>) = get_all(archive, &Unwatched);
    assert!(found.iter().all(|(name, content)| name == content));
    found.into_keys().map(|name| String::from_utf8(name).expect("text")).collect()
}

fn files_of(home: &Path, file: &str) -> Vec<PathBuf> {
    ["", "-wal", "-shm"].map(|suffix| home.join(format!("{file}{suffix}"))).into()
}

/// Everything that must not succeed.
fn assert_nothing_is_well(archive: &Archive, what: &str) {
    let failures = [
        put(archive, "later").err(),
        archive.flush(&Unwatched).err().map(|error| error.to_string()),
        archive.scrub(None, &Unwatched).err().map(|error| error.to_string()),
        archive.verify_objects(&Unwatched).err().map(|error| error.to_string()),
        archive.check_in_place().err().map(|error| error.to_string()),
    ];
    for failure in failures {
        assert!(failure.as_ref().is_some_and(|text| text.contains(what)), "{failure:?}");
    }
}

#[test]
fn a_removed_database_is_written_back_and_nothing_more_is_acknowledged() {
    for (file, with_log) in [(KEYS_FILE, false), (KEYS_FILE, true), (CATALOGUE_FILE, false), (CATALOGUE_FILE, true)] {
        let home = Home::new(1, 1);
        let archive = home.open();
        put(&archive, "archived").expect("put");
        archive.flush(&Unwatched).expect("flushed");
        put(&archive, "staged").expect("put");
        for path in &files_of(&home.path(), file)[..if with_log { 3 } else { 1 }] {
            fs::remove_file(path).expect("removed");
        }
        assert_nothing_is_well(&archive, "removed");
        drop(archive);
        let archive = home.open();
        let names = names(&archive);
        // A put that was refused may be there too, as after a crash.
        assert!(
            ["archived", "staged"].iter().all(|name| names.iter().any(|found| found == name)),
            "{file}, with log: {with_log}: {names:?}"
        );
        let report = archive.scrub(None, &Unwatched).expect("scrubbed");
        assert!(report.nothing_is_lost());
        put(&archive, "new").expect("put");
    }
}

#[test]
fn a_database_removed_just_before_the_end_is_written_back() {
    let home = Home::new(1, 1);
    let archive = home.open();
    put(&archive, "staged").expect("put");
    for path in files_of(&home.path(), KEYS_FILE) {
        fs::remove_file(path).expect("removed");
    }
    drop(archive);
    assert_eq!(names(&home.open()), ["staged"]);
}

#[test]
fn the_keys_of_a_replaced_key_store_are_saved_and_the_operator_decides() {
    let home = Home::new(1, 1);
    let (keys, aside) = (home.path().join(KEYS_FILE), home.path().join("keys.db.displaced"));
    let copy = home.folder.path().join("copy.db");
    put(&home.open(), "early").expect("put");
    fs::copy(&keys, &copy).expect("copied");
    let archive = home.open();
    put(&archive, "late").expect("put");
    fs::rename(&copy, &keys).expect("replaced");
    assert_nothing_is_well(&archive, "replaced");
    assert_eq!(names(&archive), ["early", "late"], "the open key store has both keys");
    drop(archive);
    let refused = Archive::open(&home.path(), Access::Read).err().expect("the operator has to decide").to_string();
    assert!(refused.contains("keys.db.displaced"), "{refused}");
    assert!(!home.path().join("keys.db-wal").exists(), "it would be applied to the replacement");
    fs::rename(&aside, &keys).expect("decided");
    let archive = home.open();
    assert_eq!(names(&archive), ["early", "late"]);
    put(&archive, "new").expect("put");
}

#[test]
fn keys_in_a_log_that_was_removed_are_saved_and_an_import_touches_nothing_before_it_is_decided() {
    let home = Home::new(1, 1);
    let (keys, aside) = (home.path().join(KEYS_FILE), home.path().join("keys.db.displaced"));
    let archive = home.open();
    put(&archive, "early").expect("put");
    fs::remove_file(home.path().join("keys.db-wal")).expect("removed");
    assert_nothing_is_well(&archive, "keys.db-wal was removed or replaced");
    drop(archive);
    let copy = home.folder.path().join("copy");
    let other = Home::new(1, 1);
    export_keys(&other.open(), &copy, None).expect("exported");
    let refused =
        import_keys(&home.path(), std::slice::from_ref(&copy), &[], &Unwatched).expect_err("the operator has to decide").to_string();
    assert!(refused.contains("keys.db.displaced"), "{refused}");
    // After a kill, the file would lack what only the log had. The saved one has it.
    for path in files_of(&home.path(), KEYS_FILE) {
        let _ = fs::remove_file(path);
    }
    fs::rename(&aside, &keys).expect("decided");
    assert_eq!(names(&Archive::open(&home.path(), Access::Read).expect("opens")), ["early"]);
}

/// Replaces the catalogue under an archive that has put something since the copy was made.
fn with_replaced_catalogue(home: &Home) -> Archive {
    let (catalogue, copy) = (home.path().join(CATALOGUE_FILE), home.folder.path().join("copy.db"));
    put(&home.open(), "early").expect("put");
    fs::copy(&catalogue, &copy).expect("copied");
    let archive = home.open();
    put(&archive, "late").expect("put");
    fs::rename(copy, &catalogue).expect("replaced");
    archive
}

#[test]
fn a_replaced_catalogue_does_not_get_the_log_of_the_old_one() {
    let home = Home::new(1, 1);
    let archive = with_replaced_catalogue(&home);
    assert_nothing_is_well(&archive, "replaced");
    drop(archive);
    assert_eq!(names(&Archive::open(&home.path(), Access::Read).expect("opens")), ["early"]);
}

#[test]
fn a_replaced_catalogue_whose_old_log_a_killed_process_left_is_refused() {
    let home = Home::new(1, 1);
    std::mem::forget(with_replaced_catalogue(&home));
    let open = || Archive::open(&home.path(), Access::Read);
    let refused = open().err().expect("its log belongs to another file").to_string();
    assert!(refused.contains("catalogue.db-wal belongs to the replaced file"), "{refused}");
    for path in &files_of(&home.path(), CATALOGUE_FILE)[1..] {
        fs::remove_file(path).expect("moved away");
    }
    assert_eq!(names(&open().expect("opens")), ["early"]);
}

#[test]
fn an_archive_whose_folder_is_away_stores_nothing_and_goes_on_when_it_is_back() {
    let home = Home::new(1, 1);
    let archive = home.open();
    put(&archive, "early").expect("put");
    let away = home.folder.path().join("away");
    fs::rename(home.path(), &away).expect("moved");
    fs::create_dir(home.path()).expect("an empty mount point");
    assert!(archive.check_in_place().is_err());
    assert_eq!(fs::read_dir(home.path()).expect("a folder").count(), 0, "keys don't belong on another disk");
    fs::remove_dir(home.path()).expect("removed");
    fs::rename(&away, home.path()).expect("moved back");
    archive.check_in_place().expect("in place");
    export_keys(&archive, &home.folder.path().join("copy"), None).expect("exported");
    put(&archive, "late").expect("put");
    assert_eq!(names(&archive), ["early", "late"]);
}
