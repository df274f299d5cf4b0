//! The conformance suite with platters of each medium, over stores of each kind.

use fulgurite_domain::{ArchiveId, ObjectName, SetId, SetShape};
use fulgurite_format::{Member, TABLE_HEAD_BYTES};

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::archive::{Archive, ArchiveError, Misread, Parts};
use crate::catalogue::Versions;
use crate::decoding::Clock;
use crate::ingest::Source;
use crate::object::ObjectReader;
use crate::settings::{
    ArchiveSettings, DecodeSettings, GlassPreset, Limits, MediumSettings, SetSettings, Settings, StagingSettings, StoreSettings,
};
use crate::store::FolderStore;
use crate::store::conformance::{Fixture, conformance, noise};
use crate::volume::{FolderVolume, Volume};
use crate::watch::{Unwatched, Watcher};

/// A folder with the drives of all media.
struct Folder {
    folder: tempfile::TempDir,
    medium: Medium,
}

impl Folder {
    fn new(medium: Medium) -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), medium }
    }

    fn volume(&self) -> FolderVolume {
        FolderVolume::new(self.folder.path())
    }
}

impl Fixture for Folder {
    fn open(&self, archive: ArchiveId, name: &str) -> Arc<dyn PlatterStore> {
        let files = FolderStore::new(name.to_owned(), archive, Arc::new(self.volume()));
        Arc::new(MediumStore::new(Arc::new(files), GlassDrives::new(MediumSettings::default().glass(), 2)))
    }

    fn names(&self) -> Vec<String> {
        let names = |folder: &str| self.volume().list(folder).unwrap_or_default();
        names("").into_iter().chain(names("platters").iter().map(|name| format!("platters/{name}"))).collect()
    }

    fn spoil_mark(&self, text: Option<&str>) {
        let mark = self.folder.path().join(crate::store::STORE_MARK);
        match text {
            Some(text) => std::fs::write(mark, text),
            None => std::fs::remove_file(mark),
        }
        .expect("spoiled");
    }

    fn content(&self, seed: u64, bytes: usize) -> Vec<u8> {
        match self.medium {
            Medium::Disk => noise(seed, bytes),
            Medium::Glass => glass(seed, bytes),
        }
    }
}

/// The bytes of a platter of glass. It takes milliseconds to read a sector, so the platter is a
/// hundredth as long as requested.
fn glass(seed: u64, bytes: usize) -> Vec<u8> {
    let geometry = Geometry {
        sector_bytes: 4_096,
        track_information: 2,
        track_redundancy: 1,
        group_information: 100,
        group_redundancy: 0,
        information_tracks: (bytes / 100).div_ceil(3 * 4_096).max(1) as u32,
    };
    let platter = PlatterId([seed as u8; 16]);
    let header = Header {
        archive: ArchiveId([1; 16]),
        platter,
        set: SetId([2; 16]),
        medium: Medium::Glass,
        geometry,
        position: 0,
        shape: SetShape { information: 1, redundancy: 0 },
        members: vec![Member { platter, table_offset: 0, table_bytes: TABLE_HEAD_BYTES, table_crc64: seed }],
        written: 3,
        writer: "test".to_owned(),
    };
    let header = header.to_block().expect("a valid header");
    let mut content = noise(seed, geometry.file_bytes() as usize);
    for offset in geometry.header_offsets() {
        content[offset as usize..][..HEADER_BYTES].copy_from_slice(&header);
    }
    content
}

mod disk {
    use super::*;
    conformance!(Folder::new(Medium::Disk));
}

mod glass {
    use super::*;
    conformance!(Folder::new(Medium::Glass));
}

const ARCHIVE: ArchiveId = ArchiveId([7; 16]);
const PLATTER: PlatterId = PlatterId([9; 16]);

fn write(store: &dyn PlatterStore, bytes: &[u8]) {
    let mut sink = store.create(PLATTER, bytes.len() as u64).expect("begun");
    sink.write_all(bytes).expect("written");
    sink.commit().expect("committed");
}

#[test]
fn the_header_decides_what_a_platter_is_made_of_and_the_file_how_it_is_read() {
    let place = Folder::new(Medium::Glass);
    let store = place.open(ARCHIVE, "one");
    store.mark().expect("marked");
    let bytes = glass(5, 0);
    write(&*store, &bytes);
    let file = store.open(PLATTER).expect("opened").expect("there");
    let geometry = Header::from_block(&bytes[..HEADER_BYTES]).expect("a header").geometry;
    let expected = platter_bytes(Medium::Glass, geometry);
    assert!(expected > bytes.len() as u64);
    assert_eq!((file.length().expect("told"), file.stored_bytes().expect("told")), (bytes.len() as u64, expected));
    // The same bytes as the file of a disk.
    let path = place.folder.path().join("platters").join(format!("{PLATTER}.platter"));
    assert_eq!(std::fs::metadata(&path).expect("a file").len(), expected);
    std::fs::write(&path, &bytes).expect("written");
    let file = store.open(PLATTER).expect("opened").expect("there");
    assert_eq!((file.length().expect("told"), file.stored_bytes().expect("told")), (bytes.len() as u64, bytes.len() as u64));
}

#[test]
fn a_platter_that_ends_early_is_never_committed() {
    let place = Folder::new(Medium::Glass);
    let store = place.open(ARCHIVE, "one");
    store.mark().expect("marked");
    let bytes = glass(5, 0);
    let mut sink = store.create(PLATTER, bytes.len() as u64).expect("begun");
    sink.write_all(&bytes[..bytes.len() - 1]).expect("written");
    assert_eq!(sink.finish().map(drop).expect_err("a byte is missing").kind(), io::ErrorKind::UnexpectedEof);
    assert!(sink.commit().is_err());
    assert!(store.open(PLATTER).expect("looked for").is_none());
}

/// A store whose laser fails in some sectors of every platter: their symbols arrive changed.
struct BadLaser {
    files: FolderStore,
    bad_sectors: Vec<u64>,
}

struct BadSink {
    sink: Box<dyn PlatterSink>,
    at: u64,
    bad_sectors: Vec<u64>,
}

impl Write for BadSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut bytes = bytes.to_vec();
        for (byte, at) in bytes.iter_mut().zip(self.at..) {
            // Behind the head and the header are sectors of 5,120 bytes.
            let sector = at.checked_sub(4_096).map(|at| (at / 5_120, at % 5_120));
            if sector.is_some_and(|(sector, within)| within < 3_000 && self.bad_sectors.iter().any(|bad| 26 + bad == sector)) {
                *byte ^= 0x5a;
            }
        }
        self.at += bytes.len() as u64;
        self.sink.write_all(&bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl PlatterSink for BadSink {
    fn finish(&mut self) -> io::Result<Arc<dyn PlatterFile>> {
        self.sink.finish()
    }

    fn commit(self: Box<Self>) -> io::Result<()> {
        self.sink.commit()
    }
}

impl PlatterStore for BadLaser {
    fn name(&self) -> &str {
        self.files.name()
    }

    fn place(&self) -> String {
        self.files.place()
    }

    fn mark(&self) -> Result<(), StoreError> {
        self.files.mark()
    }

    fn restore_mark(&self) -> Result<(), StoreError> {
        self.files.restore_mark()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.files.check()
    }

    fn create(&self, platter: PlatterId, bytes: u64) -> io::Result<Box<dyn PlatterSink>> {
        Ok(Box::new(BadSink { sink: self.files.create(platter, bytes)?, at: 0, bad_sectors: self.bad_sectors.clone() }))
    }

    fn open(&self, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>> {
        self.files.open(platter)
    }

    fn list(&self) -> io::Result<Vec<PlatterId>> {
        self.files.list()
    }

    fn remove(&self, platter: PlatterId) -> io::Result<()> {
        self.files.remove(platter)
    }

    fn sweep(&self) -> io::Result<()> {
        self.files.sweep()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.files.free_bytes()
    }
}

/// Puts a file into a new archive of tiny glass, and flushes it through a bad laser.
fn flushed(bad_sectors: &[u64]) -> Result<Archive, ArchiveError> {
    flushed_to(bad_sectors, |glass| GlassDrives::new(glass, 2)).map(|(archive, _)| archive)
}

/// The same with these drives, and the folder of the archive.
fn flushed_to(
    bad_sectors: &[u64],
    drives: impl FnOnce(GlassSettings) -> GlassDrives,
) -> Result<(Archive, tempfile::TempDir), ArchiveError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let home = folder.path().join("a");
    let glass = GlassSettings { preset: GlassPreset::Tiny, ..GlassSettings::default() };
    let settings = Settings {
        archive: ArchiveSettings { id: ARCHIVE, encrypt: false, master_key: "master.key".into() },
        limits: Limits::default(),
        staging: StagingSettings::default(),
        set: SetSettings { information: 1, redundancy: 0, platter_mib: 8 },
        medium: MediumSettings::Glass(glass),
        decode: DecodeSettings::default(),
        stores: vec![StoreSettings { name: "one".to_owned(), path: "one".into() }],
    };
    Archive::init(&home, &settings).expect("made");
    let mut parts = Parts::with_new_catalogue(&home, settings, &home.join("again.db")).expect("opened");
    let files = FolderStore::new("one".to_owned(), ARCHIVE, Arc::new(FolderVolume::new(home.join("one"))));
    let laser = BadLaser { files, bad_sectors: bad_sectors.to_vec() };
    parts.stores = vec![Arc::new(MediumStore::new(Arc::new(laser), drives(glass)))];
    let archive = Archive::assemble(&home, parts);
    let content = io::Cursor::new(noise(1, 20_000));
    let source = Source::Stream { reader: Box::new(content), name: ObjectName(b"file".to_vec()) };
    archive.put(std::iter::once(source), &Unwatched).expect("put");
    archive.flush(&Unwatched).map(|_| (archive, folder))
}

#[test]
fn a_flush_accepts_a_lost_sector_in_each_track_of_glass_and_no_more() {
    // Tracks of 6+2 sectors.
    let archive = flushed(&[0, 15]).expect("a lost sector in each of two tracks");
    assert_eq!(archive.catalogue().staged_totals().expect("told").versions, 0);
    let refused = flushed(&[3, 4]).map(|_| ()).expect_err("two lost sectors in a track");
    let ArchiveError::Verification { what: Misread::Sectors { track, sectors, .. }, .. } = refused else { panic!("{refused}") };
    assert_eq!((track.0, sectors), (0, 2));
}

/// A clock that the test sets, in hours.
struct HourClock(AtomicU64);

impl Clock for HourClock {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::SeqCst) * Micros::HOUR.0)
    }
}

/// Stops when a test says so, and records what the scrub does.
#[derive(Default)]
struct Stoppable {
    has_begun: AtomicBool,
    has_waited: AtomicBool,
    bytes: AtomicU64,
    is_stopped: AtomicBool,
}

impl Watcher for Stoppable {
    fn stage(&self, _what: &str, _bytes: Option<u64>) {
        self.has_begun.store(true, Ordering::SeqCst);
    }

    fn done(&self, _objects: u64, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    fn waits(&self) {
        self.has_waited.store(true, Ordering::SeqCst);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }
}

fn until(condition: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(120), "the condition did not come about in two minutes");
        std::thread::yield_now();
    }
}

#[test]
fn a_scrub_waits_for_a_cheap_hour_and_reads_and_flushes_do_not() {
    // Computing is cheap from 23:00.
    let clock = Arc::new(HourClock(AtomicU64::new(8)));
    let prices = Some(std::array::from_fn(|hour| if hour == 23 { 1 } else { 2 }));
    let decode = DecodeSettings { prices, ..DecodeSettings::default() };
    let decoding = Arc::new(DecodePool::new(Path::new("."), &decode, 2, clock.clone()));
    let (archive, _folder) = flushed_to(&[], |glass| GlassDrives::with_service(glass, decoding)).expect("flushed at 8:00");
    let read = || {
        let version = archive.catalogue().list(b"", Versions::All, None, 10).expect("listed").remove(0);
        let mut bytes = Vec::new();
        let mut take = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        ObjectReader::new(&archive).read(&version, &mut take).expect("read");
        bytes
    };
    std::thread::scope(|scope| {
        let (stopped, night) = (Stoppable::default(), Stoppable::default());
        let (stopped, night) = (&*Box::leak(Box::new(stopped)), &*Box::leak(Box::new(night)));
        let archive = &archive;
        let scrub = scope.spawn(move || archive.scrub(None, stopped));
        until(|| stopped.has_waited.load(Ordering::SeqCst));
        assert!(read() == noise(1, 20_000));
        stopped.is_stopped.store(true, Ordering::SeqCst);
        assert!(matches!(scrub.join().expect("no panic"), Err(ArchiveError::Stopped)), "while it waits, a scrub can be stopped");
        assert_eq!(stopped.bytes.load(Ordering::SeqCst), 0);

        let scrub = scope.spawn(move || archive.scrub(None, night));
        until(|| night.has_begun.load(Ordering::SeqCst));
        clock.0.store(22, Ordering::SeqCst);
        assert!(read() == noise(1, 20_000));
        assert_eq!((night.bytes.load(Ordering::SeqCst), scrub.is_finished()), (0, false));
        clock.0.store(23, Ordering::SeqCst);
        let report = scrub.join().expect("no panic").expect("scrubbed");
        assert_eq!((report.platters_read, report.unsound.len()), (1, 0));
    });
}

#[cfg(feature = "remote-tests")]
#[test]
fn glass_can_be_stored_behind_a_network() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let service = opendal::services::Fs::default().root(folder.path().to_str().expect("a plain path"));
    let operator = opendal::Operator::new(service).expect("an operator");
    let files = crate::store::RemoteStore::new("one".to_owned(), ARCHIVE, operator).expect("a service that can do it");
    let store = MediumStore::new(Arc::new(files), GlassDrives::new(MediumSettings::default().glass(), 2));
    store.mark().expect("marked");
    let bytes = glass(6, 3_000_000);
    write(&store, &bytes);
    let file = store.open(PLATTER).expect("opened").expect("there");
    let mut read = vec![0; bytes.len()];
    crate::store::read_exact_at(&*file, 0, &mut read).expect("read");
    assert!(read == bytes);
}
