//! A file that changes while it is read is read again, and skipped if it keeps changing. No version
//! mixes two states of a file.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Home, get_all, noise};
use fulgurite_archive::Source;
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_domain::ObjectName;

/// Changes a file after its first bytes were read, in each of the first `times` reads.
struct Meddler {
    file: PathBuf,
    size: u64,
    times: u64,
    change: fn(&Path, u64),
    read: AtomicU64,
    done: AtomicU64,
    troubles: Mutex<Vec<String>>,
}

impl Meddler {
    fn new(file: PathBuf, size: u64, times: u64, change: fn(&Path, u64)) -> Self {
        Self { file, size, times, change, read: AtomicU64::new(0), done: AtomicU64::new(0), troubles: Mutex::default() }
    }
}

impl Watcher for Meddler {
    fn done(&self, _objects: u64, bytes: u64) {
        // After the first frame of each read.
        if bytes > 0 && self.read.fetch_add(bytes, Ordering::Relaxed).is_multiple_of(self.size) {
            let round = self.done.fetch_add(1, Ordering::Relaxed);
            if round < self.times {
                (self.change)(&self.file, round);
            }
        }
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        if let Trouble::Changed { path, attempts } = trouble {
            self.troubles.lock().expect("not poisoned").push(format!("{} {attempts}", path.display()));
        }
    }
}

/// Overwrites the first and the last byte, as one logical change, without changing the modification
/// time.
fn overwrite(path: &Path, round: u64) {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a time");
    let mut content = fs::read(path).expect("read");
    let last = content.len() - 1;
    (content[0], content[last]) = (round as u8, round as u8);
    // In place, so that the inode stays the same.
    let mut file = OpenOptions::new().write(true).open(path).expect("opened");
    file.write_all(&content).expect("written");
    file.set_modified(modified).expect("time set");
}

/// Several frames, so that a change after the first one affects bytes already read and bytes still
/// to be read.
const SIZE: u64 = 4 << 16;

fn put(times: u64, change: fn(&Path, u64)) -> (fulgurite_archive::PutReport, Vec<String>, Option<Vec<u8>>, Vec<u8>) {
    let home = Home::new(1, 0);
    let archive = home.open();
    let path = home.folder.path().join("file");
    fs::write(&path, noise(1, SIZE as usize)).expect("written");
    let meddler = Meddler::new(path.clone(), SIZE, times, change);
    let source = Source::Path { path: path.clone(), name: ObjectName(b"file".to_vec()) };
    let report = archive.put(std::iter::once(source), &meddler).expect("put");
    let found = get_all(&archive, &fulgurite_archive::watch::Unwatched).1;
    (report, meddler.troubles.into_inner().expect("not poisoned"), found.get(&b"file"[..]).cloned(), fs::read(path).expect("read"))
}

#[test]
fn a_file_is_stored_in_its_state_after_the_last_change() {
    for times in [0, 1, 2] {
        let (report, troubles, found, now) = put(times, overwrite);
        assert_eq!((report.objects, report.unstable, report.failed), (1, 0, 0), "changed {times} times");
        assert_eq!(report.bytes, SIZE);
        assert!(troubles.is_empty(), "{troubles:?}");
        assert!(found == Some(now), "changed {times} times");
    }
}

#[test]
fn a_file_that_keeps_changing_is_skipped_and_reported() {
    let (report, troubles, found, _) = put(u64::MAX, overwrite);
    assert_eq!((report.objects, report.unstable, report.failed), (0, 1, 0));
    assert!(troubles.len() == 1 && troubles[0].ends_with("file 3"), "{troubles:?}");
    assert_eq!(found, None);
}

#[test]
fn a_file_replaced_during_the_read_is_stored_as_one_of_the_two() {
    let (report, _, found, _) = put(1, |path, _| {
        let other = path.with_file_name("other");
        fs::write(&other, vec![7; SIZE as usize]).expect("written");
        fs::rename(other, path).expect("renamed");
    });
    assert_eq!((report.objects, report.unstable), (1, 0));
    let found = found.expect("stored");
    assert!(found == vec![7; SIZE as usize] || found == noise(1, SIZE as usize));
}
