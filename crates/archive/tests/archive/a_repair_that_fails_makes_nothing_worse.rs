//! A scrub writes to disks that are known to be damaged. A failed write must not replace content
//! that was still good.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::different_store::{Difference, open_on};
use crate::support::{Home, Troubles, get_all, noise, put_all};
use fulgurite_archive::archive::CATALOGUE_FILE;
use fulgurite_archive::store::{PlatterFile, PlatterSink, PlatterStore};
use fulgurite_archive::watch::{Unwatched, Watcher};
use fulgurite_archive::{UnseenStores, rebuild_catalogue};
use fulgurite_domain::PlatterId;

/// A store whose disk, while this is true, accepts every byte but stores a different one.
struct Sick(Arc<AtomicBool>);

struct Sink {
    inner: Box<dyn PlatterSink>,
    sick: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let kept: Vec<u8> = bytes.iter().map(|byte| byte ^ u8::from(self.sick)).collect();
        self.inner.write_all(&kept)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl PlatterSink for Sink {
    fn finish(&mut self) -> io::Result<Arc<dyn PlatterFile>> {
        self.inner.finish()
    }

    fn commit(self: Box<Self>) -> io::Result<()> {
        self.inner.commit()
    }
}

impl Difference for Sick {
    fn create(&self, inner: &dyn PlatterStore, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>> {
        Ok(Box::new(Sink { inner: inner.create(platter, bytes)?, sick: self.0.load(Ordering::Relaxed) }))
    }
}

/// Reads the new catalogue of a rebuild until it is dropped. So its log can't be moved into the
/// file when the rebuild closes it, as on a full disk.
struct Reader {
    fresh: PathBuf,
    held: Mutex<Option<rusqlite::Connection>>,
}

impl Watcher for Reader {
    fn stage(&self, _: &str, _: Option<u64>) {
        let mut held = self.held.lock().expect("no panic");
        if held.is_none() && self.fresh.exists() {
            let connection = rusqlite::Connection::open(&self.fresh).expect("opened");
            connection.execute_batch("BEGIN; SELECT count(*) FROM version").expect("reads");
            *held = Some(connection);
        }
    }
}

#[test]
fn a_catalogue_that_stays_in_its_log_replaces_nothing() {
    let home = Home::new(2, 1);
    let files = BTreeMap::from([(b"a".to_vec(), noise(1, 5_000)), (b"b".to_vec(), noise(2, 5_000))]);
    put_all(&home.open(), &files);
    let catalogue = home.path().join(CATALOGUE_FILE);
    let before = fs::read(&catalogue).expect("a catalogue");
    let reader = Reader { fresh: home.path().join(format!("{CATALOGUE_FILE}.rebuilding")), held: Mutex::default() };
    let error = rebuild_catalogue(&home.path(), UnseenStores::Refuse, &reader).expect_err("its log is left");
    assert!(error.to_string().contains("is the disk full?"), "{error}");
    assert!(reader.held.lock().expect("no panic").take().is_some(), "the reader was there in time");
    assert_eq!(fs::read(&catalogue).expect("a catalogue"), before);
    rebuild_catalogue(&home.path(), UnseenStores::Refuse, &reader).expect_err("a reader again");
    rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    assert_eq!(get_all(&home.open(), &Unwatched).1, files);
}

#[test]
fn a_platter_whose_replacement_fails_stays_unchanged() {
    let home = Home::new(2, 1);
    let sick = Arc::new(AtomicBool::new(false));
    let archive = open_on(&home, CATALOGUE_FILE, || Sick(sick.clone()));
    let files: BTreeMap<_, _> = (0..4).map(|i| (vec![b'a' + i], noise(i.into(), 200_000))).collect();
    put_all(&archive, &files);
    archive.flush(&Unwatched).expect("flushed");

    // One platter is missing, which is all that the set tolerates; the others have lost a few
    // sectors each.
    let platters = home.platter_files();
    fs::remove_file(&platters[0]).expect("removed");
    for file in &platters[1..] {
        let mut image = fs::read(file).expect("readable");
        image[20_000] ^= 1;
        fs::write(file, image).expect("written");
    }
    sick.store(true, Ordering::Relaxed);
    let troubles = Troubles::default();
    let report = archive.scrub(Some(Default::default()), &troubles).expect("scrubbed");
    assert_eq!((report.unsound.len(), report.rebuilt, report.lost_versions), (3, 0, 0), "{:?}", troubles.take());
    let (report, found) = get_all(&archive, &Unwatched);
    assert_eq!((report.failed, found == files), (0, true));

    sick.store(false, Ordering::Relaxed);
    let report = archive.scrub(Some(Default::default()), &Unwatched).expect("scrubbed");
    assert_eq!((report.unsound.len(), report.rebuilt), (3, 3));
    assert!(archive.scrub(None, &Unwatched).expect("scrubbed").unsound.is_empty());
}
