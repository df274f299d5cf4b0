//! Each copy's dates are evidence: they are recorded after its bytes were read and checked, survive
//! restarts, and are never those of a reading that did not happen.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::different_store::{Difference, open_on};
use crate::support::{Home, Troubles, noise, put_all};
use fulgurite_archive::archive::CATALOGUE_FILE;
use fulgurite_archive::catalogue::{Health, PlatterRow, StagedHealth};
use fulgurite_archive::store::{PlatterFile, PlatterStore};
use fulgurite_archive::unread::Hindrance;
use fulgurite_archive::watch::{Unwatched, Watcher};
use fulgurite_archive::{Access, Archive, ArchiveError, CopyState, ObjectFixity, PlatterState, Replace, UnseenStores, rebuild_catalogue};
use fulgurite_domain::{ObjectName, PlatterId};
use fulgurite_glass::PlatterSource;

/// A date long before any that a test records.
const EARLIER: u64 = 1_000;

fn objects(count: u64, bytes: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..count).map(|number| (format!("{number:02}").into_bytes(), noise(number, bytes))).collect()
}

fn fixity(archive: &Archive, name: &str) -> ObjectFixity {
    let row = archive.reading().newest(&ObjectName(name.into())).expect("a catalogue").expect("it was put");
    let state = |name: &str| match archive.store(name).expect("a store").check() {
        Ok(()) => None,
        Err(error) => Some(error.hindrance()),
    };
    archive.fixity(&row, &state).expect("a catalogue").expect("it is there")
}

fn staged_health(archive: &Archive, name: &str) -> StagedHealth {
    fixity(archive, name).staged.expect("it is staged").health
}

fn platters(archive: &Archive) -> Vec<PlatterRow> {
    archive.reading().platters().expect("a catalogue")
}

/// Dates all platters back, as if they had been read long ago.
fn date_back(archive: &Archive) {
    for row in platters(archive) {
        archive.catalogue().record_health(row.place.platter, Health::intact_at(EARLIER)).expect("recorded");
    }
}

fn platter_file(home: &Home, platter: PlatterId) -> PathBuf {
    let is_of = |path: &&PathBuf| path.to_string_lossy().contains(&platter.to_string());
    home.platter_files().iter().find(is_of).expect("the platter's file").clone()
}

fn flip(path: &Path, offsets: impl IntoIterator<Item = usize>) {
    let mut bytes = fs::read(path).expect("read");
    offsets.into_iter().for_each(|offset| bytes[offset] ^= 0x55);
    fs::write(path, bytes).expect("written");
}

fn flushed(home: &Home) -> Archive {
    let archive = home.open();
    put_all(&archive, &objects(3, 300_000));
    archive.flush(&Unwatched).expect("a flush");
    date_back(&archive);
    archive
}

#[test]
fn a_staged_copy_has_a_date_once_it_was_read() {
    let home = Home::new(2, 1);
    let archive = home.open();
    put_all(&archive, &objects(2, 300_000));
    let before = fixity(&archive, "00");
    assert_eq!(before.worst_state(), Some(CopyState::Unverified), "a put does not read back");
    assert_eq!((before.oldest_verified(), before.platters_to_spare(), before.shards.len()), (None, None, 0));

    let report = archive.verify_staged(&|_| true, &Unwatched).expect("read");
    assert_eq!((report.versions, report.damaged), (2, 0));
    let dates: Vec<StagedHealth> = ["00", "01"].map(|name| staged_health(&archive, name)).into();
    assert!(dates.iter().all(|health| health.verified > Some(EARLIER) && health.damaged.is_none()), "{dates:?}");
    let report = archive.verify_staged(&|health| health.verified.is_none(), &Unwatched).expect("read");
    assert_eq!((report.versions, report.bytes), (0, 0), "none of them is due again");
    drop(archive);
    let archive = home.open();
    assert_eq!(["00", "01"].map(|name| staged_health(&archive, name)).to_vec(), dates, "dates survive a restart");
}

#[test]
fn damage_in_staging_is_that_of_its_own_copy_and_keeps_the_earlier_date() {
    let home = Home::new(2, 1);
    let archive = home.open();
    put_all(&archive, &objects(2, 300_000));
    archive.verify_staged(&|_| true, &Unwatched).expect("read");
    let before = staged_health(&archive, "00");
    let row = archive.reading().newest(&ObjectName(b"00".to_vec())).expect("a catalogue").expect("it was put");
    let (_, data) = archive.reading().staged(row.row_id).expect("a catalogue").expect("staged");
    let segment = home.path().join(format!("staging/{:016x}.segment", data[0].place.segment));
    flip(&segment, [data[0].place.offset as usize + 7]);

    let troubles = Troubles::default();
    let report = archive.verify_staged(&|_| true, &troubles).expect("read");
    assert_eq!((report.versions, report.damaged, troubles.take()), (2, 1, vec!["lost 00".to_owned()]));
    let damaged = fixity(&archive, "00");
    let health = staged_health(&archive, "00");
    assert_eq!((damaged.worst_state(), health.verified), (Some(CopyState::Damaged), before.verified));
    assert!(health.damaged.is_some());
    assert_eq!(fixity(&archive, "01").worst_state(), Some(CopyState::Good));

    flip(&segment, [data[0].place.offset as usize + 7]);
    archive.verify_staged(&|_| true, &Unwatched).expect("read");
    assert_eq!(fixity(&archive, "00").worst_state(), Some(CopyState::Good));
}

#[test]
fn an_absent_staging_folder_is_no_damage_and_changes_no_date() {
    let home = Home::new(2, 1);
    let archive = home.open();
    put_all(&archive, &objects(1, 300_000));
    archive.verify_staged(&|_| true, &Unwatched).expect("read");
    let before = staged_health(&archive, "00");
    drop(archive);
    let archive = home.open();
    let (staging, away) = (home.path().join("staging"), home.path().join("away"));
    fs::rename(&staging, &away).expect("moved");
    fs::create_dir(&staging).expect("an empty mount point");
    let report = archive.verify_staged(&|_| true, &Unwatched).expect("read");
    assert_eq!((report.damaged, report.out_of_reach.absent), (0, 1));
    assert_eq!(staged_health(&archive, "00"), before);
}

#[test]
fn a_staged_segment_that_cannot_be_opened_is_unreadable_and_not_missing() {
    let home = Home::new(2, 1);
    let archive = home.open();
    put_all(&archive, &objects(1, 300_000));
    let segment = archive.staging().segments().expect("listed")[0];
    drop(archive);
    let state = || {
        let archive = Archive::open(&home.path(), Access::Read).expect("it opens");
        fixity(&archive, "00").worst_state().expect("it is staged")
    };
    let path = home.path().join(format!("staging/{segment:016x}.segment"));
    let whole = path.with_extension("whole");
    fs::rename(&path, &whole).expect("renamed");
    assert_eq!(state(), CopyState::Missing);
    // Opening a link to itself fails, even for root.
    std::os::unix::fs::symlink(&path, &path).expect("linked");
    assert_eq!(state(), CopyState::Unreadable);
    fs::remove_file(&path).expect("removed");
    fs::rename(&whole, &path).expect("renamed");
    assert_eq!(state(), CopyState::Unverified);
}

#[test]
fn a_missing_platter_keeps_its_date_and_a_repair_says_what_was_found() {
    let home = Home::new(2, 1);
    let archive = flushed(&home);
    let before = fixity(&archive, "00");
    assert_eq!((before.worst_state(), before.platters_to_spare()), (Some(CopyState::Good), Some(1)));
    assert_eq!(before.oldest_verified(), Some(EARLIER));
    assert!(before.staged.is_none());
    let shard = &before.shards[0];
    fs::remove_file(platter_file(&home, shard.platter)).expect("removed");

    archive.scrub(None, &Unwatched).expect("a scrub");
    let missing = fixity(&archive, "00");
    let found = &missing.shards[0];
    assert_eq!((found.state, found.health.verified()), (CopyState::Missing, Some(EARLIER)), "a look for it is no reading");
    assert!(found.health.checked > Some(EARLIER));
    assert_eq!((missing.platters_to_spare(), missing.oldest_verified()), (Some(0), Some(EARLIER)));

    archive.scrub(Some(Replace::default()), &Unwatched).expect("a scrub");
    let repaired = fixity(&archive, "00");
    let found = &repaired.shards[0];
    assert_eq!((found.state, repaired.platters_to_spare()), (CopyState::Good, Some(1)));
    assert!(found.health.verified() > Some(EARLIER), "the new platter was read back");
    let repair = found.health.repaired.expect("it was repaired");
    assert_eq!((repair.found, repair.lost_sectors), (PlatterState::Missing, 0));

    // Later readings keep the record of the repair, also after a restart.
    drop(archive);
    let archive = home.open();
    archive.verify_platter(found.platter, &Unwatched).expect("read");
    assert_eq!(fixity(&archive, "00").shards[0].health.repaired, Some(repair));
}

#[test]
fn an_object_that_one_more_loss_would_end_differs_from_one_that_is_lost() {
    let home = Home::new(2, 1);
    let archive = flushed(&home);
    let own = fixity(&archive, "00").shards[0].platter;
    let others: Vec<_> = platters(&archive).into_iter().map(|row| row.place.platter).filter(|platter| *platter != own).collect();
    let lose = |platter| {
        fs::remove_file(platter_file(&home, platter)).expect("removed");
        archive.verify_platter(platter, &Unwatched).expect("looked for");
        let now = fixity(&archive, "00");
        (now.platters_to_spare(), now.sets[0].platters_short(), now.platters_short())
    };
    assert_eq!(lose(others[0]), (Some(0), 0, 0));
    assert_eq!(lose(others[1]), (Some(0), 1, 0), "the platter that holds the object is good");
    assert_eq!(lose(own), (Some(0), 2, 2));
}

#[test]
fn a_damaged_platter_keeps_its_date_until_it_is_replaced() {
    let home = Home::new(2, 1);
    let archive = flushed(&home);
    let platter = fixity(&archive, "00").shards[0].platter;
    flip(&platter_file(&home, platter), [20_000, 40_000]);
    assert_eq!(archive.verify_platter(platter, &Unwatched).expect("read").state(), PlatterState::Damaged);
    let damaged = fixity(&archive, "00").shards[0].clone();
    assert_eq!((damaged.state, damaged.health.verified()), (CopyState::Damaged, Some(EARLIER)));
    assert_eq!(damaged.health.lost_sectors, 2);

    archive.recover(platter, None, &Unwatched).expect("recovered");
    let repaired = fixity(&archive, "00").shards[0].clone();
    assert!(repaired.state == CopyState::Good && repaired.health.verified() > Some(EARLIER), "{repaired:?}");
    let repair = repaired.health.repaired.expect("it was repaired");
    assert_eq!((repair.found, repair.lost_sectors), (PlatterState::Damaged, 2));
}

#[test]
fn a_damaged_header_alone_is_no_good_platter() {
    let home = Home::new(2, 1);
    let archive = flushed(&home);
    let platter = fixity(&archive, "00").shards[0].platter;
    flip(&platter_file(&home, platter), [100]);
    let finding = archive.verify_platter(platter, &Unwatched).expect("read");
    assert_eq!((finding.bad_headers, finding.lost_sectors), (1, 0));
    let copy = fixity(&archive, "00").shards[0].clone();
    assert_eq!((copy.state, copy.health.bad_headers, copy.health.verified()), (CopyState::Damaged, 1, Some(EARLIER)));
}

#[test]
fn platters_of_an_absent_store_keep_their_dates() {
    let home = Home::new(2, 1);
    let archive = flushed(&home);
    let shard = fixity(&archive, "00").shards[0].clone();
    let store = home.path().join("stores").join(shard.store.expect("a store"));
    let away = home.path().join("away");
    fs::rename(&store, &away).expect("moved");
    let health = platters(&archive).into_iter().find(|row| row.place.platter == shard.platter).expect("listed").health;
    let report = archive.scrub(Some(Replace::default()), &Unwatched).expect("a scrub");
    assert_eq!((report.rebuilt, report.hindrance()), (0, Some(Hindrance::Absent)));
    let absent = fixity(&archive, "00");
    assert_eq!((absent.shards[0].state, absent.shards[0].health), (CopyState::Absent, health));
    assert_eq!((absent.oldest_verified(), absent.platters_to_spare()), (Some(EARLIER), Some(0)));
    fs::rename(&away, &store).expect("back");
    assert_eq!(fixity(&archive, "00").shards[0].state, CopyState::Good);
}

/// Asks to stop once `bytes` were read.
struct StopsAfter {
    bytes: u64,
    read: AtomicU64,
}

impl Watcher for StopsAfter {
    fn done(&self, _objects: u64, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::SeqCst);
    }

    fn is_stopped(&self) -> bool {
        self.read.load(Ordering::SeqCst) >= self.bytes
    }
}

#[test]
fn an_interrupted_scrub_keeps_the_dates_of_the_platters_that_it_finished() {
    let home = Home::new(2, 1);
    let archive = flushed(&home);
    let set = archive.reading().sets().expect("a catalogue").remove(0).description;
    // The first platter in full, and part of the second.
    let watcher = StopsAfter { bytes: set.geometry.file_bytes() + 1, read: AtomicU64::new(0) };
    assert!(matches!(archive.scrub(None, &watcher), Err(ArchiveError::Stopped)));
    drop(archive);
    let verified: Vec<bool> = platters(&home.open()).iter().map(|row| row.health.verified() > Some(EARLIER)).collect();
    assert_eq!(verified, [true, false, false]);
}

#[test]
fn an_interrupted_reading_of_staging_keeps_the_dates_of_what_it_finished() {
    let home = Home::new(2, 1);
    let archive = home.open();
    put_all(&archive, &objects(3, 300_000));
    let watcher = StopsAfter { bytes: 450_000, read: AtomicU64::new(0) };
    assert!(matches!(archive.verify_staged(&|_| true, &watcher), Err(ArchiveError::Stopped)));
    drop(archive);
    let archive = home.open();
    let verified = ["00", "01", "02"].map(|name| staged_health(&archive, name).verified.is_some());
    assert_eq!(verified, [true, false, false], "the second was read in part only");
}

#[test]
fn a_rebuilt_catalogue_knows_no_dates_until_platters_are_read() {
    let home = Home::new(2, 1);
    let archive = flushed(&home);
    put_all(&archive, &BTreeMap::from([(b"staged".to_vec(), noise(9, 100_000))]));
    archive.verify_staged(&|_| true, &Unwatched).expect("read");
    assert!(staged_health(&archive, "staged").verified.is_some());
    drop(archive);
    rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    let archive = home.open();
    assert!(platters(&archive).iter().all(|row| row.health == Health::default()));
    assert_eq!(fixity(&archive, "00").worst_state(), Some(CopyState::Unverified));
    assert_eq!(fixity(&archive, "00").oldest_verified(), None);
    assert_eq!(staged_health(&archive, "staged"), StagedHealth::default());
    archive.scrub(None, &Unwatched).expect("a scrub");
    assert_eq!(fixity(&archive, "00").worst_state(), Some(CopyState::Good));
    assert_eq!(fixity(&archive, "staged").worst_state(), Some(CopyState::Good));
}

#[test]
fn an_object_archived_since_it_was_looked_up_is_found_on_its_platters() {
    let home = Home::new(2, 1);
    let archive = home.open();
    put_all(&archive, &objects(1, 300_000));
    let row = archive.reading().newest(&ObjectName(b"00".to_vec())).expect("a catalogue").expect("it was put");
    archive.flush(&Unwatched).expect("a flush");
    let found = archive.fixity(&row, &|_| None).expect("a catalogue").expect("it is there");
    assert!(found.staged.is_none() && !found.shards.is_empty() && found.version.archived, "{found:?}");
    archive.remove(std::slice::from_ref(&found.version)).expect("removed");
    assert_eq!(archive.fixity(&row, &|_| None).expect("a catalogue"), None);
}

/// A store whose files lie once: the first file that is opened of each platter has a wrong byte in
/// a sector and one in a header, and a platter that is looked for first is not found.
struct Lying {
    has_lied: AtomicBool,
    hides: bool,
}

struct LyingFile(Arc<dyn PlatterFile>);

impl PlatterSource for LyingFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(offset, buffer)?;
        for bad in [100, 20_000] {
            if (offset..offset + read as u64).contains(&bad) {
                buffer[(bad - offset) as usize] ^= 0x55;
            }
        }
        Ok(read)
    }
}

impl PlatterFile for LyingFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
}

impl Difference for Lying {
    fn open(&self, inner: &dyn PlatterStore, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>> {
        let Some(file) = inner.open(platter)? else { return Ok(None) };
        if self.has_lied.swap(true, Ordering::SeqCst) {
            return Ok(Some(file));
        }
        Ok(if self.hides { None } else { Some(Arc::new(LyingFile(file))) })
    }
}

#[test]
fn what_is_good_when_read_again_is_neither_damaged_nor_missing() {
    let home = Home::new(2, 1);
    drop(flushed(&home));
    for hides in [false, true] {
        let archive = open_on(&home, CATALOGUE_FILE, || Lying { has_lied: AtomicBool::new(false), hides });
        let troubles = Troubles::default();
        let report = archive.scrub(Some(Replace::default()), &troubles).expect("a scrub");
        assert_eq!((report.unsound.len(), report.rebuilt), (0, 0), "hides: {hides}");
        let notes = troubles.take().iter().filter(|text| text.contains("good when read again")).count();
        assert_eq!(notes, if hides { 0 } else { 3 }, "each platter's lie is noted");
        assert!(platters(&archive).iter().all(|row| row.health.is_sound() && row.health.verified() > Some(EARLIER)));
        date_back(&archive);
    }
    drop(Archive::open(&home.path(), Access::Read).expect("it opens"));
}
