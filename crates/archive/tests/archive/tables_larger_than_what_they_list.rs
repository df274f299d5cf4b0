//! Sets whose file tables are larger than their content: empty objects and removals.

use std::collections::BTreeMap;

use crate::support::{Home, get_all, put_all};
use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::Versions;
use fulgurite_archive::watch::Unwatched;

fn names(prefix: &str, count: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..count).map(|i| (format!("{prefix}/{i:06}").into_bytes(), Vec::new())).collect()
}

fn remove_all(archive: &Archive, prefix: &[u8]) {
    loop {
        let page = archive.catalogue().list(prefix, Versions::All, None, 1_000).expect("listed");
        if page.is_empty() {
            return;
        }
        archive.remove(&page).expect("removed");
    }
}

#[test]
fn thousands_of_empty_files_are_flushed_and_restored() {
    let home = Home::new(2, 1);
    let archive = home.open();
    let mut files = names("empty", 4_000);
    files.insert(b"a file".to_vec(), b"content".to_vec());
    assert_eq!(put_all(&archive, &files).objects, 4_001);
    let report = archive.flush(&Unwatched).expect("flushed");
    assert_eq!((report.sets, report.versions), (1, 4_001));
    let (report, found) = get_all(&archive, &Unwatched);
    assert_eq!((report.failed, found == files), (0, true));
}

#[test]
fn thousands_of_removals_are_flushed_with_a_single_file() {
    let home = Home::new(2, 1);
    let archive = home.open();
    put_all(&archive, &names("gone", 9_000));
    remove_all(&archive, b"gone");
    assert_eq!(archive.catalogue().totals().expect("counted").staged.tombstones, 9_000);
    let files: BTreeMap<_, _> = [(b"a file".to_vec(), b"content".to_vec())].into();
    put_all(&archive, &files);
    archive.flush(&Unwatched).expect("flushed");
    let totals = archive.catalogue().totals().expect("counted");
    assert_eq!((totals.staged.versions, totals.staged.tombstones), (0, 0));
    drop(archive);
    let rebuilt = fulgurite_archive::rebuild_catalogue(&home.path(), fulgurite_archive::UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    assert_eq!((rebuilt.archived, rebuilt.staged), (1, 0));
    let (report, found) = get_all(&home.open(), &Unwatched);
    assert_eq!((report.failed, found == files), (0, true));
}
