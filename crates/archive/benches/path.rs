//! Benchmarks the whole path of a file and each stage alone in one run, in content bytes per second
//! of wall-clock time.
//!
//! `cargo bench -p fulgurite-archive --bench path -- [MIB] [FOLDER] [STAGING]`: MIB of content
//! (default 1,024) as files of 256 MiB, plus a tenth of that as 15 KB files, in FOLDER (default:
//! the system's temporary folder), which needs five times as much space. Every figure is the median
//! of three rounds. All stores are on one disk, so a stage that writes or reads platters moves 1.66
//! bytes per byte of content. Staging and the catalogue are in FOLDER too, or in STAGING.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use aws_lc_rs::digest;
use fulgurite_archive::settings::{ArchiveSettings, Limits, SetSettings, Settings, StagingSettings, StoreSettings};
use fulgurite_archive::volume::{FolderVolume, Volume};
use fulgurite_archive::watch::{Unwatched, Watcher};
use fulgurite_archive::{Access, Archive, Existing, Skip, Source};
use fulgurite_chance::Xorshift;
use fulgurite_codec::{AlignedBytes, PooledCode, PooledEncoder};
use fulgurite_domain::{ArchiveId, Geometry, ObjectName, PlatterId, VersionId};
use fulgurite_format::{FRAME_BYTES, Frames, ObjectKey, TAG_BYTES};
use fulgurite_glass::{BlankPlatter, Track, WriteDrive};

const ROUNDS: usize = 3;
const SMALL_BYTES: usize = 15_360;
const STORES: u16 = 6;
const PLATTER_MIB: u64 = 1_024;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let mib: u64 = arguments.next().map_or(1_024, |text| text.parse().expect("a number of MiB"));
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder).expect("a folder");
    let staging = arguments.next().map(|folder| tempfile::tempdir_in(folder).expect("a folder"));
    let staging = staging.as_ref().unwrap_or(&folder).path();
    let large = folder.path().join("large");
    let small = folder.path().join("small");
    let content = make_files(&large, mib << 20, 256 << 20);
    let small_files = (mib << 20) / 10 / SMALL_BYTES as u64;
    let small_content = make_files(&small, small_files * SMALL_BYTES as u64, SMALL_BYTES as u64);

    println!("{} MiB of content in {} files, and {} files of 15 KB", content >> 20, content.div_ceil(256 << 20), small_files);
    println!("\n{:44} {:>10}", "stage alone", "MB/s");
    let mut slowest = f64::INFINITY;
    let mut stage = |name: &str, rate: f64| {
        slowest = slowest.min(rate);
        println!("{name:44} {rate:>10.0}");
    };
    stage("read the files", measure(content, || read_files(&large)));
    stage("SHA-256, one thread", measure(content, || hash(content)));
    stage("AES-256-GCM in frames, one thread", measure(content, || seal(content)));
    stage("write and sync as staging does", measure(content, || write_staged(staging, content)));
    stage("track and group codes, labels", measure(content, || code_platters(content)));
    stage("set code 4+2", measure(content, || code_set(content)));
    // 1.5 * 216/200 * 1.021 * 65,600/65,536
    let platter_bytes = content * 1_656 / 1_000;
    stage("write and sync what goes on platters, 6 files", measure(content, || write_platters(folder.path(), platter_bytes)));
    stage("read it back from the disk", read_back(folder.path(), content, platter_bytes));

    println!("\n{:44} {:>10}  {:>18}", "the way itself", "MB/s", "of slowest stage");
    let (home, stores) = (staging.join("archive"), folder.path().join("stores"));
    let (mut put, mut flush, mut get, mut both, mut in_sets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let archive = make_archive(&home, &stores, PLATTER_MIB);
        put.push(timed(|| archive.put(sources(&large), &Unwatched).map(drop).expect("put")));
        let stages = Stages::default();
        let seconds = timed(|| archive.flush(&stages).map(drop).expect("flush"));
        stages.print(seconds);
        flush.push(seconds);
        let out = folder.path().join("out");
        get.push(timed(|| archive.get_all(b"", 0, &out, Existing::Keep, &Unwatched).map(drop).expect("get")));
        fs::remove_dir_all(out).expect("removed");
        remove(&home, &stores);
        for (platter_mib, seconds) in [(PLATTER_MIB, &mut both), (mib / 16, &mut in_sets)] {
            let archive = make_archive(&home, &stores, platter_mib);
            seconds.push(timed(|| {
                let (put, flushed) = archive.put_changed_and_flush(sources(&large), Skip::Nothing, &Unwatched);
                assert!(put.failure.is_none(), "{:?}", put.failure);
                flushed.expect("flush");
            }));
            remove(&home, &stores);
        }
    }
    let in_sets_name = format!("put --flush in four sets of {} MiB", mib / 4);
    for (name, seconds) in [("put", put), ("flush", flush), ("put --flush in one set", both), (&in_sets_name, in_sets), ("get", get)] {
        let rate = content as f64 / median(seconds) / 1e6;
        println!("{name:44} {rate:>10.0}  {:>17.0}%", 100.0 * rate / slowest);
    }

    println!("\n{:44} {:>10}", "files of 15 KB", "files/s");
    let (mut put, mut flush, mut get) = (Vec::new(), Vec::new(), Vec::new());
    // Keep all files between these rounds: ext4 is slow to find an inode after many were freed in
    // the last seconds.
    for round in 0..ROUNDS {
        let home = staging.join(format!("archive{round}"));
        let archive = make_archive(&home, &folder.path().join(format!("stores{round}")), PLATTER_MIB);
        let out = folder.path().join(format!("out{round}"));
        put.push(timed(|| archive.put(sources(&small), &Unwatched).map(drop).expect("put")));
        flush.push(timed(|| archive.flush(&Unwatched).map(drop).expect("flush")));
        get.push(timed(|| archive.get_all(b"", 0, &out, Existing::Keep, &Unwatched).map(drop).expect("get")));
    }
    assert!(small_content > 0);
    for (name, seconds) in [("put", put), ("flush", flush), ("get", get)] {
        println!("{name:44} {:>10.0}", small_files as f64 / median(seconds));
    }
    let mut round = 0;
    let written = measure(small_files * 1_000_000, || {
        round += 1;
        write_each(&folder.path().join(format!("each{round}")), small_files);
    });
    println!("{:44} {written:>10.0}", "peer: each file created and synced, 2 threads");
}

/// Records the start of each stage of a flush.
#[derive(Default)]
struct Stages(Mutex<Vec<(String, Instant)>>);

impl Watcher for Stages {
    fn stage(&self, what: &str, _bytes: Option<u64>) {
        self.0.lock().expect("nothing panics while it holds this lock").push((what.to_owned(), Instant::now()));
    }
}

impl Stages {
    /// Prints the duration of each stage. The last one ends after `seconds`.
    fn print(&self, seconds: f64) {
        let stages = self.0.lock().expect("nothing panics while it holds this lock");
        let Some((_, first)) = stages.first() else { return };
        let begun = stages.iter().map(|(_, at)| at.duration_since(*first).as_secs_f64());
        let ended = begun.clone().skip(1).chain([seconds]);
        let parts: Vec<String> =
            stages.iter().zip(begun.zip(ended)).map(|((what, _), (from, to))| format!("{what} {:.2} s", to - from)).collect();
        println!("  flush: {}", parts.join(", "));
    }
}

fn timed(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// MB/s for `content` bytes: the median of all rounds.
fn measure(content: u64, mut run: impl FnMut()) -> f64 {
    content as f64 / median((0..ROUNDS).map(|_| timed(&mut run)).collect()) / 1e6
}

/// Bytes that are incompressible and don't repeat within a file.
fn noise(seed: u64, out: &mut [u8]) {
    Xorshift::seeded(seed).fill(out);
}

fn make_files(folder: &Path, bytes: u64, file_bytes: u64) -> u64 {
    let mut left = bytes;
    let mut buffer = vec![0; (1 << 20).min(file_bytes as usize)];
    let mut index = 0;
    while left > 0 {
        let folder = folder.join(format!("{:03}", index / 1_000));
        fs::create_dir_all(&folder).expect("a folder");
        let mut file = File::create(folder.join(format!("{index:06}"))).expect("a file");
        let mut in_file = left.min(file_bytes);
        left -= in_file;
        while in_file > 0 {
            noise(left ^ in_file, &mut buffer);
            let now = in_file.min(buffer.len() as u64);
            file.write_all(&buffer[..now as usize]).expect("written");
            in_file -= now;
        }
        index += 1;
    }
    bytes
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .flat_map(|entry| fs::read_dir(entry.expect("an entry").path()).expect("a folder"))
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

fn sources(folder: &Path) -> impl Iterator<Item = Source> + Send + use<> {
    files_in(folder).into_iter().map(|path| {
        let name = ObjectName(path.file_name().expect("a name").as_encoded_bytes().to_vec());
        Source::Path { path, name }
    })
}

fn remove(home: &Path, stores: &Path) {
    fs::remove_dir_all(home).expect("removed");
    fs::remove_dir_all(stores).expect("removed");
}

fn make_archive(home: &Path, stores: &Path, platter_mib: u64) -> Archive {
    let settings = Settings {
        archive: ArchiveSettings { id: ArchiveId([1; 16]), encrypt: true, master_key: "master.key".into() },
        limits: Limits::default(),
        staging: StagingSettings::default(),
        set: SetSettings { information: 4, redundancy: 2, platter_mib },
        medium: fulgurite_archive::settings::MediumSettings::default(),
        decode: fulgurite_archive::settings::DecodeSettings::default(),
        stores: (0..STORES).map(|i| StoreSettings { name: format!("d{i}"), path: stores.join(format!("d{i}")) }).collect(),
    };
    Archive::init(home, &settings).expect("an archive");
    Archive::open(home, Access::Write).expect("it opens")
}

fn read_files(folder: &Path) {
    let mut buffer = vec![0; 1 << 20];
    for path in files_in(folder) {
        let mut file = File::open(path).expect("opened");
        while file.read(&mut buffer).expect("read") > 0 {}
    }
}

fn hash(bytes: u64) {
    let buffer = vec![7; 1 << 20];
    let mut hash = digest::Context::new(&digest::SHA256);
    (0..bytes >> 20).for_each(|_| hash.update(&buffer));
    std::hint::black_box(hash.finish());
}

fn seal(bytes: u64) {
    let frames = Frames::new(VersionId([1; 16]), Some(&ObjectKey::new([2; 32])));
    let mut frame = vec![7; FRAME_BYTES + TAG_BYTES];
    (0..bytes / FRAME_BYTES as u64).for_each(|index| frames.seal(index, &mut frame));
    std::hint::black_box(frame);
}

fn geometry(tracks: u32) -> Geometry {
    Geometry {
        sector_bytes: 32_768,
        track_information: 200,
        track_redundancy: 16,
        group_information: 240,
        group_redundancy: 5,
        information_tracks: tracks,
    }
}

fn code_platters(bytes: u64) {
    let tracks = bytes.div_ceil(geometry(1).track_bytes()) as u32;
    let header = vec![0; Geometry::HEADER_BYTES as usize];
    let blank = BlankPlatter { platter: PlatterId([1; 16]), geometry: geometry(tracks), header };
    let mut drive = WriteDrive::load(blank, std::io::sink(), 2).expect("a sink takes everything");
    let mut track = Track::new(geometry(tracks));
    (0..200).for_each(|sector| noise(u64::from(sector), track.payload_mut(sector)));
    (0..tracks).for_each(|_| drive.write(&mut track).expect("a sink takes everything"));
}

fn code_set(bytes: u64) {
    let code = PooledCode::new(800, 400).expect("a code");
    let mut encoder = PooledEncoder::new(&code, 32_768).expect("a code").with_threads(2);
    let mut track = Track::new(geometry(1));
    (0..200).for_each(|sector| noise(u64::from(sector), track.payload_mut(sector)));
    let shards: Vec<&[u8]> = track.information().collect();
    for _ in 0..bytes.div_ceil(4 * geometry(1).track_bytes()) {
        (0..4).for_each(|_| encoder.push(&shards));
        std::hint::black_box(encoder.finish().row(0)[0]);
        encoder.reset();
    }
}

/// A buffer aligned for direct I/O.
fn aligned(bytes: usize) -> AlignedBytes {
    let mut buffer = AlignedBytes::zeroed(bytes, 4_096);
    noise(1, &mut buffer);
    buffer
}

/// Writes `bytes` into reserved space, and syncs every 64 MiB.
fn write_staged(folder: &Path, bytes: u64) {
    let volume = FolderVolume::new(folder);
    let buffer = aligned(1 << 20);
    let segment = 256 << 20;
    for number in 0..bytes.div_ceil(segment) {
        let name = format!("staged{number}");
        let _ = volume.remove(&name);
        let file = volume.create(&name).expect("a file");
        file.allocate(segment).expect("room");
        for piece in 0..256 {
            file.write_at(piece << 20, &buffer).expect("written");
            if piece % 64 == 63 {
                file.sync().expect("synced");
            }
        }
    }
}

/// Writes `bytes` to one file after another with direct I/O, and syncs each.
fn write_platters(folder: &Path, bytes: u64) {
    let volume = FolderVolume::new(folder);
    let buffer = aligned(4 << 20);
    let pieces = bytes.div_ceil(STORES.into()).div_ceil(buffer.len() as u64);
    for index in 0..STORES {
        let name = format!("raw{index}");
        let _ = volume.remove(&name);
        let file = volume.create_direct(&name).expect("a file");
        file.allocate(pieces * buffer.len() as u64).expect("room");
        (0..pieces).for_each(|piece| file.write_at(piece * buffer.len() as u64, &buffer).expect("written"));
        file.sync().expect("synced");
    }
}

/// MB/s of content. The files are rewritten before each round, because a repeated read may come
/// from a cache below the operating system's.
fn read_back(folder: &Path, content: u64, bytes: u64) -> f64 {
    let volume = FolderVolume::new(folder);
    let mut buffer = aligned(4 << 20);
    let mut read = || {
        for index in 0..STORES {
            let file = volume.open_direct(&format!("raw{index}")).expect("opened");
            let mut at = 0;
            loop {
                match file.read_at(at, &mut buffer).expect("read") {
                    0 => break,
                    read => at += read as u64,
                }
            }
        }
    };
    let mut round = || {
        write_platters(folder, bytes);
        timed(&mut read)
    };
    content as f64 / median((0..ROUNDS).map(|_| round()).collect()) / 1e6
}

fn write_each(folder: &Path, files: u64) {
    fs::create_dir_all(folder).expect("a folder");
    let mut buffer = vec![0; SMALL_BYTES];
    noise(1, &mut buffer);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let buffer = &buffer;
            scope.spawn(move || {
                for index in (thread..files).step_by(2) {
                    let mut file = File::create(folder.join(index.to_string())).expect("a file");
                    file.write_all(buffer).expect("written");
                    file.sync_all().expect("synced");
                }
            });
        }
    });
}
