//! A server replaces and removes objects while others read the archive. None of that is a loss.

use std::collections::BTreeMap;
use std::sync::Mutex;

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::object::{ObjectReader, Opened, ReadError};
use fulgurite_archive::watch::{Trouble, Unwatched, Watcher};
use fulgurite_archive::{Archive, Existing};
use fulgurite_domain::ObjectName;

use crate::support::{Home, noise, put_all, read_tree};

fn newest(archive: &Archive, name: &str) -> VersionRow {
    archive.reading().newest(&ObjectName(name.into())).expect("a catalogue").expect("it was put")
}

/// Removes a version and puts another in its place, as a bucket without versions does. Nothing of
/// the removed one stays behind.
fn replace(archive: &Archive, name: &str, content: &[u8]) {
    let before = newest(archive, name);
    put_all(archive, &[(name.into(), content.to_vec())].into());
    archive.remove(&[before]).expect("removed");
    archive.flush(&Unwatched).expect("a flush");
}

fn whole(archive: &Archive, opened: &Opened) -> Vec<u8> {
    let mut content = Vec::new();
    let mut sink = |bytes: &[u8]| {
        content.extend_from_slice(bytes);
        Ok(())
    };
    ObjectReader::new(archive).read_whole(opened, &mut sink).expect("read");
    content
}

#[test]
fn a_version_that_was_replaced_is_reported_as_removed_and_its_successor_is_opened() {
    for is_archived in [false, true] {
        let home = Home::new(2, 1);
        let archive = home.open();
        put_all(&archive, &[(b"name".to_vec(), noise(1, 200_000))].into());
        if is_archived {
            archive.flush(&Unwatched).expect("a flush");
        }
        let listed = newest(&archive, "name");
        let opened = ObjectReader::new(&archive).open(&listed).expect("opened");
        replace(&archive, "name", &noise(2, 70_000));
        let mut reader = ObjectReader::new(&archive);
        for result in
            [reader.read(&listed, &mut |_| Ok(())), reader.read_range(&listed, 5..100, &mut |_| Ok(())), reader.open(&listed).map(drop)]
        {
            assert!(matches!(result, Err(ReadError::Removed)), "{result:?}");
        }
        assert!(whole(&archive, &opened) == noise(1, 200_000), "what is open is read to its end");
        let successor = reader.open_newest(&listed).expect("opened").expect("there is one");
        assert!(whole(&archive, &successor) == noise(2, 70_000));
        archive.remove(&[newest(&archive, "name")]).expect("removed");
        assert!(reader.open_newest(&listed).expect("looked up").is_none(), "it was deleted");
    }
}

/// Runs an action once, when the first content was read; other threads wait for its end.
struct Meanwhile<'a> {
    what: Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>,
    troubles: Mutex<Vec<String>>,
}

impl Watcher for Meanwhile<'_> {
    fn done(&self, _objects: u64, _bytes: u64) {
        let mut what = self.what.lock().expect("no panic");
        what.take().into_iter().for_each(|what| what());
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        self.troubles.lock().expect("no panic").push(format!("{trouble:?}"));
    }
}

#[test]
fn a_restore_beside_a_server_restores_successors_and_skips_what_was_deleted() {
    let home = Home::new(2, 1);
    let archive = home.open();
    let name = |number: u64| format!("{number:02}");
    put_all(&archive, &(0..60).map(|number| (name(number).into_bytes(), noise(number, 3_000))).collect());
    let replace_all = || {
        (50..59).for_each(|number| replace(&archive, &name(number), &noise(100 + number, 4_000)));
        archive.remove(&[newest(&archive, "59")]).expect("removed");
    };
    let watcher = Meanwhile { what: Mutex::new(Some(Box::new(replace_all))), troubles: Mutex::default() };
    let out = tempfile::tempdir().expect("a folder");
    let report = archive.get_all(b"", 0, out.path(), Existing::Keep, &watcher).expect("restored");
    assert_eq!((report.objects, report.failed, report.bytes), (59, 0, 50 * 3_000 + 9 * 4_000));
    assert_eq!(watcher.troubles.into_inner().expect("no panic"), Vec::<String>::new());
    let expected: BTreeMap<Vec<u8>, Vec<u8>> = (0..59)
        .map(|number| (name(number).into_bytes(), if number < 50 { noise(number, 3_000) } else { noise(100 + number, 4_000) }))
        .collect();
    let mut found = BTreeMap::new();
    read_tree(out.path(), out.path(), &mut found);
    assert!(found == expected);
}
