//! Attributes and deletion markers are kept in staging, on platters, in the catalogue and in a
//! rebuilt catalogue.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::support::{Home, get_all, record, stage};
use fulgurite_archive::catalogue::{VersionRow, Versions};
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, Existing, UnseenStores, rebuild_catalogue};
use fulgurite_domain::{Kind, ObjectName, ObjectRecord};

/// An unencrypted archive with these objects staged.
fn staged(objects: &[(ObjectRecord, &[u8])]) -> Home {
    let home = Home::with(2, 1, |settings| settings.archive.encrypt = false);
    stage(&home, 7, objects);
    home
}

fn objects() -> Vec<(ObjectRecord, &'static [u8])> {
    let long = vec![0xd8; 65_000];
    let described: &[(&str, &[u8])] = &[("content-type", b"text/plain"), ("etag", &[0xd4, 0x1d]), ("x-amz-meta-long", &long)];
    vec![
        (record("described", 1, Kind::File, b"content", described), b"content"),
        (record("gone", 1, Kind::File, b"earlier", &[("x-amz-meta-a", b"")]), b"earlier"),
        (record("gone", 2, Kind::DeletionMarker, b"", &[("owner", b"someone")]), b""),
        (record("here", 1, Kind::DeletionMarker, b"", &[]), b""),
        (record("here", 2, Kind::File, b"again", &[]), b"again"),
    ]
}

fn listed(archive: &Archive, versions: Versions) -> Vec<VersionRow> {
    archive.catalogue().list(b"", versions, None, 100).expect("listed")
}

/// Checks the records in listing order, and the result of restoring everything.
fn check(archive: &Archive, archived: bool) {
    let mut expected: Vec<ObjectRecord> = objects().into_iter().map(|(record, _)| record).collect();
    expected.sort_by(|a, b| (&a.name, b.version).cmp(&(&b.name, a.version)));
    let rows = listed(archive, Versions::All);
    assert!(rows.iter().all(|row| row.archived == archived));
    assert_eq!(rows.into_iter().map(|row| row.record).collect::<Vec<_>>(), expected);
    assert_eq!(listed(archive, Versions::Newest).len(), 2);
    let (report, found) = get_all(archive, &Unwatched);
    assert_eq!((report.objects, report.failed), (2, 0));
    assert_eq!(found, BTreeMap::from([(b"described".to_vec(), b"content".to_vec()), (b"here".to_vec(), b"again".to_vec())]));
}

#[test]
fn they_are_the_same_in_staging_on_platters_and_in_a_rebuilt_catalogue() {
    let home = staged(&objects());
    let rebuild = || {
        fs::remove_file(home.path().join("catalogue.db")).expect("removed");
        rebuild_catalogue(&home.path(), fulgurite_archive::UnseenStores::Refuse, &Unwatched).expect("rebuilt")
    };
    check(&home.open(), false);
    assert_eq!(rebuild().staged, 5);
    check(&home.open(), false);
    let flushed = home.open().flush(&Unwatched).expect("flushed");
    assert_eq!(flushed.sets, 1);
    check(&home.open(), true);
    assert_eq!(rebuild().archived, 5);
    check(&home.open(), true);
    home.open().catalogue().check().expect("sound");
}

#[test]
fn a_deletion_marker_is_not_restored_and_its_removal_brings_the_name_back() {
    let home = staged(&objects());
    let archive = home.open();
    archive.flush(&Unwatched).expect("flushed");
    let versions = archive.catalogue().versions_of(&ObjectName(b"gone".to_vec())).expect("listed");
    let [marker, earlier] = &versions[..] else { panic!("two versions") };
    let path = home.folder.path().join("restored");
    let refused = archive.get_to(marker, &path, Existing::Keep, &Unwatched).expect_err("refused");
    assert!(refused.to_string().contains("it is a deletion marker"), "{refused}");
    assert!(!path.exists());
    archive.get_to(earlier, &path, Existing::Keep, &Unwatched).expect("restored");
    assert_eq!(fs::read(&path).expect("readable"), b"earlier");

    archive.remove(&versions[..1]).expect("removed");
    drop(archive);
    for _ in 0..2 {
        let (_, found) = get_all(&home.open(), &Unwatched);
        assert_eq!(found[b"gone".as_slice()], b"earlier");
        fs::remove_file(home.path().join("catalogue.db")).expect("removed");
        rebuild_catalogue(&home.path(), fulgurite_archive::UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    }
}

/// Root may enter any folder, so this shows nothing when root runs it.
#[test]
fn folders_below_one_that_cannot_be_entered_get_their_modes_and_times() {
    let folder = |name: &str, mode: u32| {
        let mut folder = record(name, 1, Kind::Directory, b"", &[]);
        folder.mode = Some(mode);
        folder
    };
    let folders = [("a", 0o600), ("a/b", 0o610), ("a/b/c", 0o710), ("a/d", 0o701)];
    let home = staged(&folders.map(|(name, mode)| (folder(name, mode), &b""[..])));
    let to = tempfile::tempdir().expect("a folder");
    let report = home.open().get_all(b"", 0, to.path(), Existing::Keep, &Unwatched).expect("get");
    assert_eq!((report.objects, report.failed), (4, 0));
    for (name, mode) in folders {
        let path = to.path().join(name);
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o7777, mode, "{name}");
        fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("opened for the next");
    }
}

/// A crash can come after the records of a put, and before the catalogue commits them and forgets
/// what they replace.
#[test]
fn a_null_version_that_replaced_another_before_a_crash_is_the_only_one() {
    let home = Home::new(2, 1);
    let null = [("null", &b""[..])];
    let at = |created_ms: u64, record: ObjectRecord| ObjectRecord { created_ms, ..record };
    let before = [
        (record("put", 1, Kind::File, b"one", &null), &b"one"[..]),
        (record("deleted", 1, Kind::File, b"one", &null), b"one"),
        (record("versioned", 1, Kind::File, b"one", &[]), b"one"),
    ];
    stage(&home, 7, &before);
    drop(home.open());
    let after = [
        (at(1_700_000_001_000, record("put", 2, Kind::File, b"two", &null)), &b"two"[..]),
        (at(1_700_000_001_000, record("deleted", 2, Kind::DeletionMarker, b"", &null)), b""),
        (at(1_700_000_001_000, record("versioned", 2, Kind::File, b"two", &null)), b"two"),
    ];
    stage(&home, 8, &after);
    for round in 0..3 {
        let archive = home.open();
        let numbers = |name: &str| {
            let rows = archive.catalogue().versions_of(&ObjectName(name.into())).expect("versions");
            rows.iter().map(|row| row.record.version).collect::<Vec<_>>()
        };
        assert_eq!([numbers("put"), numbers("deleted"), numbers("versioned")], [vec![2], vec![2], vec![2, 1]], "{round}");
        drop(archive);
        // Nor does the replaced one come back without the catalogue.
        if round == 1 {
            std::fs::remove_file(home.path().join("catalogue.db")).expect("removed");
            let report = rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
            assert_eq!((report.staged, report.deleted), (4, 2), "{report:?}");
        }
    }
}
