//! A server verifies while clients put, remove and archive objects, and while operators stop the
//! verification. None of that counts as damage.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fulgurite_archive::catalogue::{Health, SetState};
use fulgurite_archive::watch::{Trouble, Unwatched, Watcher};
use fulgurite_archive::{Archive, ArchiveError};
use fulgurite_domain::ObjectName;

use crate::support::{Home, noise};

/// Runs an action once, after the first work in a stage, and collects reported losses.
struct Meddling<'a> {
    stage: &'a str,
    now: AtomicBool,
    what: Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>,
    lost: Mutex<Vec<String>>,
}

impl<'a> Meddling<'a> {
    fn new(stage: &'a str, what: impl FnOnce() + Send + 'a) -> Self {
        Self { stage, now: AtomicBool::new(false), what: Mutex::new(Some(Box::new(what))), lost: Mutex::default() }
    }

    /// The reported losses. Panics if the action did not run.
    fn lost(self) -> Vec<String> {
        assert!(self.what.into_inner().expect("no panic").is_none(), "the action did not run");
        self.lost.into_inner().expect("no panic")
    }
}

impl Watcher for Meddling<'_> {
    fn stage(&self, what: &str, _bytes: Option<u64>) {
        self.now.store(what == self.stage, Ordering::SeqCst);
    }

    fn done(&self, _objects: u64, _bytes: u64) {
        if self.now.load(Ordering::SeqCst) {
            let what = self.what.lock().expect("no panic").take();
            what.into_iter().for_each(|what| what());
        }
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        if let Trouble::Lost { why, .. } = trouble {
            self.lost.lock().expect("no panic").push(why.to_owned());
        }
    }
}

/// Asks to stop after the first work.
#[derive(Default)]
struct Stopping(AtomicBool);

impl Watcher for Stopping {
    fn done(&self, _objects: u64, _bytes: u64) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Asks to stop once, as a server's scrub does while a short command runs.
#[derive(Default)]
struct Interrupted(AtomicU64);

impl Watcher for Interrupted {
    fn is_stopped(&self) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst) == 2
    }
}

fn objects(count: u64, bytes: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..count).map(|number| (format!("{number:02}").into_bytes(), noise(number, bytes))).collect()
}

fn filled(home: &Home) -> Archive {
    let archive = home.open();
    crate::support::put_all(&archive, &objects(4, 300_000));
    archive
}

#[test]
fn an_object_archived_while_staging_is_read_is_not_lost() {
    let home = Home::new(2, 1);
    let archive = filled(&home);
    let watcher = Meddling::new("reading staging", || {
        archive.flush(&Unwatched).expect("a flush");
    });
    let report = archive.scrub(None, &watcher).expect("a scrub");
    assert!(archive.staging().segments().expect("segments").is_empty(), "the segments to read are gone");
    assert_eq!((report.lost_versions, watcher.lost()), (0, Vec::<String>::new()));
}

#[test]
fn an_object_removed_while_objects_are_read_is_not_wrong() {
    let home = Home::new(2, 1);
    let archive = filled(&home);
    archive.flush(&Unwatched).expect("a flush");
    let last = archive.reading().newest(&ObjectName(b"03".to_vec())).expect("a catalogue").expect("it was put");
    let watcher = Meddling::new("reading objects", || archive.remove(&[last]).expect("removed"));
    let report = archive.verify_objects(&watcher).expect("read");
    assert_eq!((report.versions, report.wrong), (3, 0));
    assert_eq!(watcher.lost(), Vec::<String>::new());
}

#[test]
fn a_partly_read_platter_does_not_count_as_verified() {
    let home = Home::new(2, 1);
    let archive = filled(&home);
    archive.flush(&Unwatched).expect("a flush");
    let platters: Vec<_> = archive.reading().platters().expect("a catalogue").into_iter().map(|row| row.place.platter).collect();
    for platter in &platters {
        archive.catalogue().record_health(*platter, Health::default()).expect("recorded");
    }
    assert!(matches!(archive.scrub(Some(Default::default()), &Stopping::default()), Err(ArchiveError::Stopped)));
    assert!(matches!(archive.verify_platter(platters[0], &Stopping::default()), Err(ArchiveError::Stopped)));
    assert!(matches!(archive.verify_objects(&Stopping::default()), Err(ArchiveError::Stopped)));
    assert!(matches!(archive.verify_platter(platters[0], &Interrupted::default()), Err(ArchiveError::Stopped)));
    let rows = archive.reading().platters().expect("a catalogue");
    assert!(rows.iter().all(|row| row.health == Health::default()), "{rows:?}");

    let finding = archive.verify_platter(platters[1], &Unwatched).expect("verified");
    assert!(finding.is_sound(), "{finding:?}");
    let rows = archive.reading().platters().expect("a catalogue");
    let verified: Vec<bool> = rows.iter().map(|row| row.health.verified().is_some()).collect();
    assert_eq!(verified, [false, true, false]);
}

#[test]
fn a_stopped_flush_completes_its_set_and_returns_an_error() {
    let home = Home::with(1, 1, |settings| settings.set.platter_mib = 8);
    let archive = home.open();
    let objects = objects(5, 5_000_000);
    crate::support::put_all(&archive, &objects);
    assert!(matches!(archive.flush(&Stopping::default()), Err(ArchiveError::Stopped)));
    let sets = archive.reading().sets().expect("a catalogue");
    assert!(sets.len() == 1 && sets[0].state == SetState::Complete, "{sets:?}");
    assert!(archive.reading().staged_totals().expect("a catalogue").versions > 0, "the rest stays staged");
    archive.flush(&Unwatched).expect("a flush");
    let report = archive.verify_objects(&Unwatched).expect("read");
    assert_eq!((report.versions, report.wrong), (5, 0));
}
