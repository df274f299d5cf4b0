//! Neighbouring objects on a platter are fetched in one read if the reader knows which objects
//! follow. Readers share the platters that they open, if they are allowed to.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::different_store::{Difference, open_on};
use crate::support::{Home, noise, put_all};
use fulgurite_archive::Archive;
use fulgurite_archive::archive::CATALOGUE_FILE;
use fulgurite_archive::catalogue::{VersionRow, Versions};
use fulgurite_archive::object::ObjectReader;
use fulgurite_archive::read_order::MediumPosition;
use fulgurite_archive::store::{PlatterFile, PlatterStore};
use fulgurite_archive::watch::Unwatched;
use fulgurite_domain::PlatterId;
use fulgurite_glass::PlatterSource;

/// Counts of platter reads.
#[derive(Default)]
struct Counter {
    opened: AtomicU64,
    open: AtomicU64,
    most_open: AtomicU64,
    reads: AtomicU64,
    bytes: AtomicU64,
    /// Reads of what is in memory, which is everything.
    cached_reads: AtomicU64,
}

struct CountingFile {
    inner: Arc<dyn PlatterFile>,
    counter: Arc<Counter>,
}

impl Difference for Arc<Counter> {
    fn open(&self, inner: &dyn PlatterStore, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>> {
        let Some(inner) = inner.open(platter)? else { return Ok(None) };
        let counter = self.clone();
        counter.opened.fetch_add(1, Ordering::Relaxed);
        let open = counter.open.fetch_add(1, Ordering::Relaxed) + 1;
        counter.most_open.fetch_max(open, Ordering::Relaxed);
        Ok(Some(Arc::new(CountingFile { inner, counter })))
    }
}

impl Drop for CountingFile {
    fn drop(&mut self) {
        self.counter.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PlatterSource for CountingFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.counter.reads.fetch_add(1, Ordering::Relaxed);
        self.counter.bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.inner.read_at(offset, buffer)
    }
    fn read_cached_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
        self.counter.cached_reads.fetch_add(1, Ordering::Relaxed);
        matches!(self.inner.read_at(offset, buffer), Ok(read) if read == buffer.len())
    }
}

impl PlatterFile for CountingFile {
    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
}

/// Opens an archive whose reads are counted.
fn open(home: &Home, counter: &Arc<Counter>) -> Archive {
    open_on(home, CATALOGUE_FILE, || counter.clone())
}

fn assert_reads(reader: &mut ObjectReader<'_>, row: &VersionRow, files: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut content = Vec::new();
    let read = reader.read(row, &mut |bytes| {
        content.extend_from_slice(bytes);
        Ok(())
    });
    read.expect("it reads");
    assert!(content == files[&row.record.name.0], "{} has different bytes", row.record.name.display());
}

#[test]
fn neighbouring_small_objects_are_fetched_with_few_reads_and_few_extra_bytes() {
    let home = Home::new(2, 1);
    let counter = Arc::new(Counter::default());
    let archive = open(&home, &counter);
    // 15 KB each: image cutouts of a sky survey.
    let files: BTreeMap<Vec<u8>, Vec<u8>> = (0..2_000_u64).map(|i| (format!("{i:04}").into_bytes(), noise(i, 15_000))).collect();
    put_all(&archive, &files);
    archive.flush(&Unwatched).expect("flush");
    let rows = archive.catalogue().list(b"", Versions::Newest, None, 10_000).expect("a list");
    assert_eq!(rows.len(), files.len());
    let mut placed: Vec<(MediumPosition, &VersionRow)> =
        rows.iter().map(|row| (MediumPosition::of(&archive, row).expect("a place"), row)).collect();
    placed.sort_by_key(|(place, _)| *place);
    let take = || [&counter.opened, &counter.reads, &counter.bytes].map(|count| count.swap(0, Ordering::Relaxed));

    take();
    let mut reader = ObjectReader::new(&archive);
    for (index, (_, row)) in placed.iter().enumerate() {
        reader.expect(placed[index..].iter().map(|(place, _)| *place));
        assert_reads(&mut reader, row, &files);
    }
    let [opened, reads, bytes] = take();
    let stored: u64 = rows.iter().map(|row| row.stored_bytes).sum();
    assert_eq!(opened, 3, "each platter of the set is opened once");
    // No read extends beyond a track.
    let tracks = stored.div_ceil(archive.catalogue().sets().expect("sets")[0].description.geometry.track_bytes());
    assert!(reads <= tracks + tracks / 20, "{reads} reads for {} objects on {tracks} tracks", files.len());
    assert!(bytes < stored + stored / 10, "{bytes} bytes were fetched for {stored}");

    // Reading one object at a time, for comparison with the batch.
    for row in rows.iter().take(50) {
        assert_reads(&mut ObjectReader::new(&archive), row, &files);
    }
    let [opened, reads, _] = take();
    assert!(opened == 150 && reads >= 50, "{opened} platters were opened, with {reads} reads");
}

/// An archive of small objects, archived, with its rows.
fn small_objects(home: &Home, counter: &Arc<Counter>) -> (Archive, BTreeMap<Vec<u8>, Vec<u8>>, Vec<VersionRow>) {
    let archive = open(home, counter);
    let files: BTreeMap<Vec<u8>, Vec<u8>> = (0..50_u64).map(|i| (format!("{i:02}").into_bytes(), noise(i, 15_000))).collect();
    put_all(&archive, &files);
    archive.flush(&Unwatched).expect("flush");
    let rows = archive.catalogue().list(b"", Versions::Newest, None, 100).expect("a list");
    (archive, files, rows)
}

#[test]
fn readers_that_share_platters_seldom_open_them() {
    let (home, counter) = (Home::new(2, 1), Arc::new(Counter::default()));
    let (archive, files, rows) = small_objects(&home, &counter);
    counter.opened.store(0, Ordering::Relaxed);
    for row in &rows {
        assert_reads(&mut ObjectReader::new(&archive).sharing_platters(), row, &files);
    }
    // A set is opened anew each second, which is much longer than a read takes.
    assert!(counter.opened.load(Ordering::Relaxed) <= 3 * 25, "{} platters were opened", counter.opened.load(Ordering::Relaxed));
    let open = counter.open.load(Ordering::Relaxed);
    assert!(open <= 3, "{open} platters are open");
}

#[test]
fn a_store_that_is_back_is_used_at_once() {
    let (home, counter) = (Home::new(1, 0), Arc::new(Counter::default()));
    let (archive, files, rows) = small_objects(&home, &counter);
    let store = home.platter_files()[0].parent().expect("a folder").to_owned();
    let away = home.path().join("away");
    for row in &rows[..5] {
        std::fs::rename(&store, &away).expect("moved");
        // Whatever was opened before.
        assert!(ObjectReader::new(&archive).read(row, &mut |_| Ok(())).is_err());
        drop(ObjectReader::new(&archive).sharing_platters().read(row, &mut |_| Ok(())));
        std::fs::rename(&away, &store).expect("moved back");
        assert_reads(&mut ObjectReader::new(&archive).sharing_platters(), row, &files);
    }
}

#[test]
fn a_reader_that_goes_on_for_long_uses_a_store_that_is_back() {
    let (home, counter) = (Home::new(1, 0), Arc::new(Counter::default()));
    let (archive, files, rows) = small_objects(&home, &counter);
    let store = home.platter_files()[0].parent().expect("a folder").to_owned();
    let away = home.path().join("away");
    std::fs::rename(&store, &away).expect("moved");
    let mut reader = ObjectReader::new(&archive).sharing_platters();
    assert!(reader.read(&rows[0], &mut |_| Ok(())).is_err());
    std::fs::rename(&away, &store).expect("moved back");
    // It opened the set itself, and opens it anew after a second.
    let begin = std::time::Instant::now();
    while reader.read(&rows[0], &mut |_| Ok(())).is_err() {
        assert!(begin.elapsed().as_secs() < 60, "it never looks again");
    }
    assert_reads(&mut reader, &rows[0], &files);
}

#[test]
fn content_in_memory_is_read_without_waiting() {
    let (home, counter) = (Home::new(2, 1), Arc::new(Counter::default()));
    let (archive, files, rows) = small_objects(&home, &counter);
    let mut fetched = 0;
    for row in &rows {
        let mut reader = ObjectReader::new(&archive).sharing_platters();
        let opened = reader.open(row).expect("it opens");
        let range = 100..row.record.size - 100;
        let reads = counter.reads.load(Ordering::Relaxed);
        let is_fetched = reader.fetch_cached(&opened, &range);
        fetched += u32::from(is_fetched);
        let mut content = Vec::new();
        let mut sink = |buffer: &mut Vec<u8>, pieces: &[std::ops::Range<usize>]| {
            pieces.iter().for_each(|piece| content.extend_from_slice(&buffer[piece.clone()]));
            Ok(())
        };
        reader.read_opened(&opened, range.clone(), &mut sink).expect("it reads");
        assert!(content == files[&row.record.name.0][range.start as usize..range.end as usize]);
        assert!(!is_fetched || counter.reads.load(Ordering::Relaxed) == reads, "it was read again");
    }
    // Those on two tracks, and the first of each second, are not.
    assert!(fetched >= 25 && counter.cached_reads.load(Ordering::Relaxed) >= u64::from(fetched), "{fetched} were fetched");
    // A reader that doesn't share platters fetches nothing.
    let mut reader = ObjectReader::new(&archive);
    let opened = reader.open(&rows[0]).expect("it opens");
    assert!(!reader.fetch_cached(&opened, &(0..10)));
}

#[test]
fn wrong_expectations_do_not_change_what_is_read() {
    let home = Home::new(2, 1);
    let counter = Arc::new(Counter::default());
    let archive = open(&home, &counter);
    let files: BTreeMap<Vec<u8>, Vec<u8>> =
        (0..60_u64).map(|i| (format!("{i:02}").into_bytes(), noise(i, (i * i * 60) as usize))).collect();
    put_all(&archive, &files);
    archive.flush(&Unwatched).expect("flush");
    let rows = archive.catalogue().list(b"", Versions::Newest, None, 100).expect("a list");
    let mut reader = ObjectReader::new(&archive);
    let places: Vec<MediumPosition> = rows.iter().map(|row| MediumPosition::of(&archive, row).expect("a place")).collect();
    for (index, row) in rows.iter().enumerate() {
        reader.expect(places[index..].iter().rev().copied());
        assert_reads(&mut reader, row, &files);
        reader.expect([MediumPosition::Archived { platter: PlatterId([9; 16]), offset: 0, end: u64::MAX }]);
        assert_reads(&mut reader, &rows[rows.len() - 1 - index], &files);
    }
}

#[test]
fn a_lost_sector_in_the_read_ahead_is_repaired_and_costs_no_object() {
    let home = Home::new(2, 1);
    let archive = home.open();
    let files: BTreeMap<Vec<u8>, Vec<u8>> = (0..400_u64).map(|i| (format!("{i:03}").into_bytes(), noise(i, 15_000))).collect();
    put_all(&archive, &files);
    archive.flush(&Unwatched).expect("flush");
    for file in home.platter_files() {
        let file = std::fs::File::options().read(true).write(true).open(file).expect("a platter");
        // After the first header, among the objects.
        let within = file.metadata().expect("a file").len() / 5;
        file.write_all_at(&[0x55; 100], within).expect("damaged");
    }
    let rows = archive.catalogue().list(b"", Versions::Newest, None, 1_000).expect("a list");
    let mut placed: Vec<(MediumPosition, &VersionRow)> =
        rows.iter().map(|row| (MediumPosition::of(&archive, row).expect("a place"), row)).collect();
    placed.sort_by_key(|(place, _)| *place);
    let mut reader = ObjectReader::new(&archive);
    for (index, (_, row)) in placed.iter().enumerate() {
        reader.expect(placed[index..].iter().map(|(place, _)| *place));
        assert_reads(&mut reader, row, &files);
    }
    assert!((1..=4).contains(&reader.repairs().by_track), "{:?}", reader.repairs());
}

#[test]
fn reading_many_sets_keeps_few_platters_open() {
    let home = Home::new(2, 1);
    let counter = Arc::new(Counter::default());
    let archive = open(&home, &counter);
    let files: BTreeMap<Vec<u8>, Vec<u8>> = (0..20_u64).map(|i| (format!("{i:02}").into_bytes(), noise(i, 1_000))).collect();
    for (name, content) in &files {
        put_all(&archive, &BTreeMap::from([(name.clone(), content.clone())]));
        archive.flush(&Unwatched).expect("flush");
    }
    assert_eq!(archive.catalogue().sets().expect("sets").len(), files.len());
    let rows = archive.catalogue().list(b"", Versions::Newest, None, 100).expect("a list");
    counter.most_open.store(0, Ordering::Relaxed);
    let mut reader = ObjectReader::new(&archive);
    for row in rows.iter().chain(&rows) {
        assert_reads(&mut reader, row, &files);
    }
    let most = counter.most_open.load(Ordering::Relaxed);
    assert!(most <= 8 * 3, "{most} platters were open at once, of {}", files.len() * 3);
}
