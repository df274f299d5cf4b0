//! Rebuilding the catalogue hands versions in staging on before it knows which of them were removed
//! later.

use std::collections::BTreeMap;

use crate::support::{Home, get_all, put_all};
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, UnseenStores, rebuild_catalogue};
use fulgurite_domain::ObjectName;

fn put(archive: &Archive, names: &[&str]) {
    put_all(archive, &names.iter().map(|name| (name.as_bytes().to_vec(), name.as_bytes().to_vec())).collect());
}

fn remove(archive: &Archive, name: &str) {
    let row = archive.catalogue().versions_of(&ObjectName(name.as_bytes().to_vec())).expect("versions").remove(0);
    archive.remove(&[row]).expect("removed");
}

/// Without keys, only the tombstone says that a version was removed; with them, its record can't be
/// opened either.
#[test]
fn removed_versions_stay_removed_wherever_they_and_their_tombstones_are() {
    for encrypt in [true, false] {
        let home = Home::with(2, 1, |settings| settings.archive.encrypt = encrypt);
        let archive = home.open();
        put(&archive, &["archived", "archived, removed", "archived, removed before the flush"]);
        archive.flush(&Unwatched).expect("flush");
        remove(&archive, "archived, removed before the flush");
        put(&archive, &["archived later"]);
        archive.flush(&Unwatched).expect("flush");
        put(&archive, &["staged", "staged, removed"]);
        remove(&archive, "archived, removed");
        remove(&archive, "staged, removed");
        put(&archive, &["staged later"]);
        drop(archive);
        let before = std::fs::read(home.path().join("catalogue.db")).expect("read");
        for with_earlier in [false, true] {
            match with_earlier {
                true => std::fs::write(home.path().join("catalogue.db"), &before).expect("written"),
                false => std::fs::remove_file(home.path().join("catalogue.db")).expect("removed"),
            }
            let report = rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
            let found = (report.archived, report.staged, report.deleted, report.no_key, report.gone, report.carried_over);
            assert_eq!(found, (2, 2, 3, 0, 0, 0), "encrypted {encrypt}, with the earlier catalogue {with_earlier}: {report:?}");
            let archive = home.open();
            let kept =
                ["archived", "archived later", "staged", "staged later"].map(|name| (name.as_bytes().to_vec(), name.as_bytes().to_vec()));
            assert_eq!(get_all(&archive, &Unwatched).1, BTreeMap::from(kept));
            assert!(archive.catalogue().unlisted(None, 1).expect("unlisted").is_empty());
            let totals = archive.catalogue().totals().expect("totals");
            assert_eq!((totals.versions, totals.staged.versions), (4, 2));
        }
    }
}

/// A crash between the last byte of a set and the catalogue's transaction leaves such versions.
#[test]
fn versions_both_in_staging_and_on_platters_are_counted_once() {
    let home = Home::new(2, 1);
    let archive = home.open();
    put(&archive, &["a", "b"]);
    let segments = archive.staging().segments().expect("listed");
    let paths: Vec<_> = segments.iter().map(|number| home.path().join(format!("staging/{number:016x}.segment"))).collect();
    let staged: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("read")).collect();
    archive.flush(&Unwatched).expect("flush");
    put(&archive, &["c"]);
    archive.flush(&Unwatched).expect("flush");
    drop(archive);
    paths.iter().zip(&staged).for_each(|(path, bytes)| std::fs::write(path, bytes).expect("written"));
    std::fs::remove_file(home.path().join("catalogue.db")).expect("removed");
    let report = rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    assert_eq!((report.archived, report.staged, report.deleted), (1, 2, 0), "{report:?}");
    assert_eq!(get_all(&home.open(), &Unwatched).1.len(), 3);
}
