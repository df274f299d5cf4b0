//! Archives and workers at one folder, in one process: good workers, and bad ones of all kinds.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fulgurite_chance::noise;
use fulgurite_codec::DecodedSector;
use fulgurite_decode::{Policy, Settings};
use fulgurite_domain::{Geometry, PhysicalTrack, PlatterId};
use fulgurite_glass::decoder::{DecoderKind, Decoders, Device};
use fulgurite_glass::emulator::Effects;
use fulgurite_glass::{
    BlankPlatter, DecodeService, GlassHead, GlassReader, PlatterSource, ReadDrive, SectorBatch, SectorContent, Track, VoxelPlatter,
    WriteDrive,
};

use super::job_file::JobFile;
use super::lease::{OwnLease, Timing};
use super::result_file::{Outcome, ResultFile, SectorResult};
use super::*;
use crate::decoding::SystemClock;
use crate::decoding::pool::{DecodeTotals, Pool, Workers};

const TIMING: Timing = Timing {
    renewal: Duration::from_millis(50),
    lease: Duration::from_millis(1_500),
    claim: Duration::from_secs(3),
    work: Duration::from_secs(20),
    leftover: Duration::from_secs(2),
    poll: Duration::from_millis(5),
};

const PLATTER: PlatterId = PlatterId([9; 16]);

const GEOMETRY: Geometry = Geometry {
    sector_bytes: 4_096,
    track_information: 6,
    track_redundancy: 2,
    group_information: 4,
    group_redundancy: 0,
    information_tracks: 2,
};

/// Waits for a condition that another thread brings about.
fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} did not come about in two minutes");
        std::thread::sleep(Duration::from_millis(2));
    }
}

struct File(Vec<u8>);

impl PlatterSource for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let from = &self.0[(offset as usize).min(self.0.len())..];
        let bytes = from.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&from[..bytes]);
        Ok(bytes)
    }
}

fn payload(track: u32, sector: u16) -> Vec<u8> {
    noise(u64::from(track) * 100 + u64::from(sector) + 1, GEOMETRY.sector_bytes as usize)
}

/// The file of a platter.
fn platter() -> Vec<u8> {
    let head = GlassHead::new(PLATTER, GEOMETRY, 42, Effects::NONE.write).expect("glass");
    let mut sink = GlassReader::new(Effects::NONE.read, DecoderKind::Nearest).writer(head, Vec::new()).expect("begun");
    let header = vec![0; Geometry::HEADER_BYTES as usize];
    let blank = BlankPlatter { platter: PLATTER, geometry: GEOMETRY, header };
    let mut drive = WriteDrive::load(blank, &mut sink, 1).expect("loaded");
    let mut track = Track::new(GEOMETRY);
    for index in 0..GEOMETRY.information_tracks {
        for sector in 0..GEOMETRY.track_information {
            track.payload_mut(sector).copy_from_slice(&payload(index, sector));
        }
        drive.write(&mut track).expect("written");
    }
    drive.finish().expect("finished");
    sink.finish().expect("complete")
}

/// A pool of one thread, with a client.
struct Archive {
    pool: Pool<SectorBatch>,
    client: Arc<Client>,
}

impl DecodeService for Archive {
    fn decode(&self, batches: Vec<SectorBatch>) -> Vec<Vec<Option<SectorContent>>> {
        self.pool.decode(Class::Read, batches)
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        self.client.stop();
    }
}

impl Archive {
    fn at(root: &Path) -> Arc<Self> {
        let settings = Settings { policy: Policy::AtOnce, ..Settings::default() };
        let pool = Pool::new(settings, 1, Arc::new(SystemClock), Decoders::default);
        let client = Arc::new(Client::with_timing(root, pool.tasks(), TIMING).expect("a thread"));
        pool.set_workers(client.clone());
        Arc::new(Self { pool, client })
    }

    fn totals(&self) -> DecodeTotals {
        self.pool.totals()
    }

    /// Reads a whole platter, and compares it with what was written.
    fn read(self: &Arc<Self>, file: &[u8]) {
        let reader = Arc::new(GlassReader::new(Effects::NONE.read, DecoderKind::Nearest).with_service(self.clone()));
        let glass = VoxelPlatter::open(Arc::new(File(file.to_vec())), file.len() as u64, &reader).expect("readable").expect("glass");
        let drive = ReadDrive::load(PLATTER, GEOMETRY, Arc::new(glass));
        std::thread::scope(|scope| {
            for index in 0..GEOMETRY.physical_tracks() {
                let drive = &drive;
                scope.spawn(move || {
                    let mut track = Track::new(GEOMETRY);
                    assert_eq!(drive.read(PhysicalTrack(index), &mut track), Ok(0), "no sector is lost");
                    for sector in 0..GEOMETRY.track_information {
                        assert!(track.payload(sector) == payload(index, sector), "track {index}, sector {sector}");
                    }
                });
            }
        });
    }
}

/// A folder for decoding.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    Folder::new(folder.path()).prepare().expect("prepared");
    folder
}

#[test]
fn an_interrupted_preparation_can_be_repeated_and_other_folders_are_rejected() {
    let prepare = |make: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        make(folder.path());
        Folder::new(folder.path()).prepare()
    };
    // After each of the steps, the last of which is the mark's temporary file.
    for made in 0..=DIRECTORIES.len() {
        let interrupted = |root: &Path| DIRECTORIES[..made].iter().for_each(|name| std::fs::create_dir(root.join(name)).expect("made"));
        assert!(prepare(&interrupted).is_ok(), "{made} directories");
    }
    let partial_mark = |root: &Path| {
        std::fs::create_dir(root.join(TMP)).expect("made");
        std::fs::write(root.join(TMP).join(format!("{}-{:016x}", Owner::new(), 0)), "fulg").expect("written");
    };
    assert!(prepare(&partial_mark).is_ok());
    let with_file = |file: &'static str| {
        move |root: &Path| {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "").expect("written");
        }
    };
    for file in ["photo", "jobs/application", "tmp/notes", "alive"] {
        assert!(matches!(prepare(&with_file(file)), Err(DecodeFolderError::Foreign(_))), "{file}");
    }
}

/// Runs a worker until `work` is done.
fn with_worker<T>(root: &Path, threads: usize, notes: &Mutex<Vec<String>>, work: impl FnOnce() -> T) -> (T, WorkerTotals) {
    let worker = DecodeWorker::with_timing(root, threads, Device::Cpu, TIMING).expect("a folder");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| worker.run(&stop, &|note| notes.lock().expect("no panic").push(note.to_owned())));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        let totals = running.join().expect("no panic");
        (done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), totals)
    })
}

fn names(root: &Path, directory: &str) -> Vec<String> {
    Folder::new(root).names(directory).expect("listed")
}

#[test]
fn two_workers_share_the_jobs_and_leave_nothing_behind() {
    let (folder, file) = (folder(), platter());
    let notes = Mutex::default();
    let one = DecodeWorker::with_timing(folder.path(), 1, Device::Cpu, TIMING).expect("a folder");
    let stop = AtomicBool::new(false);
    let (totals, other) = std::thread::scope(|scope| {
        let running = scope.spawn(|| one.run(&stop, &|note| panic!("{note}")));
        let ((), other) = with_worker(folder.path(), 1, &notes, || {
            let archive = Archive::at(folder.path());
            until("workers are known", || archive.client.have_room());
            archive.read(&file);
            let totals = archive.totals();
            assert!(totals.sectors_elsewhere > 0 && totals.taken_back == 0, "{totals:?}");
            // Until both had their share.
            let decoded = |worker: &DecodeWorker| worker.jobs();
            for _ in 0..20 {
                if decoded(&one) > 0 && archive.totals().sectors_elsewhere > 4 * decoded(&one) {
                    break;
                }
                archive.read(&file);
            }
        });
        stop.store(true, Ordering::Relaxed);
        (running.join().expect("no panic"), other)
    });
    assert!(totals.jobs > 0 && other.jobs > 0, "{totals:?}, {other:?}");
    assert_eq!((totals.lost, other.lost, totals.refused, other.refused), (0, 0, 0, 0));
    assert_eq!(*notes.lock().expect("no panic"), [""; 0]);
    for directory in [JOBS, CLAIMED, RESULTS, TMP, ALIVE] {
        assert_eq!(names(folder.path(), directory), [""; 0], "{directory}");
    }
}

/// A worker that does what the test says with each job.
struct BadWorker {
    folder: Folder,
    lease: Mutex<OwnLease>,
}

impl BadWorker {
    fn new(root: &Path) -> Self {
        Self { folder: Folder::new(root), lease: Mutex::new(OwnLease::new(1)) }
    }

    fn renew(&self) {
        self.lease.lock().expect("no panic").renew(&self.folder, &TIMING).expect("renewed");
    }

    fn claim(&self) -> Option<JobName> {
        let job = self.folder.names(JOBS).expect("listed").into_iter().next()?;
        let name = JobName::parse(&job)?;
        self.folder.rename((JOBS, &job), (CLAIMED, &name.claimed_by(self.folder.owner))).expect("renamed").then_some(name)
    }

    fn read(&self, name: JobName) -> (JobFile, u64) {
        let bytes = self.folder.read(CLAIMED, &name.claimed_by(self.folder.owner)).expect("read");
        (JobFile::parse(&bytes, name).expect("a job"), JobFile::checksum(&bytes))
    }

    /// Claims jobs and answers each with `answer`, while `work` is done. Returns how many.
    fn answering(&self, answer: &(dyn Fn(JobName) + Sync), work: impl FnOnce()) -> u64 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let mut answered = 0;
                while !stop.load(Ordering::Relaxed) {
                    self.renew();
                    if let Some(name) = self.claim() {
                        answer(name);
                        self.folder.remove(CLAIMED, &name.claimed_by(self.folder.owner));
                        answered += 1;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                answered
            });
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            stop.store(true, Ordering::Relaxed);
            let answered = running.join().expect("no panic");
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            answered
        })
    }

    /// A well-formed result with these payloads.
    fn result(&self, name: JobName, payload: impl Fn(&[u8; 20], usize) -> Vec<u8>) -> Vec<u8> {
        let (job, job_crc64) = self.read(name);
        let payload_bytes = job.medium.payload_bytes().expect("a code");
        let decoded =
            |address| DecodedSector { payload: payload(address, payload_bytes), most_iterations: 3, corrected_bits: 5, information: 0.99 };
        let addresses: Vec<[u8; 20]> = job.sectors.iter().map(|(address, _)| *address).collect();
        let sectors = addresses.iter().map(|address| SectorResult::Decoded(decoded(address))).collect();
        ResultFile { worker: self.folder.owner, job_crc64, outcome: Outcome::Decoded(sectors) }.to_bytes(name, &addresses)
    }
}

#[test]
fn no_wrong_result_is_accepted() {
    let (folder, file) = (folder(), platter());
    let bad = BadWorker::new(folder.path());
    let write = |name: JobName, bytes: &[u8]| bad.folder.write(RESULTS, &name.to_string(), bytes).expect("written");
    let path = |name: JobName| bad.folder.path(RESULTS, &name.to_string());
    type Answer<'a> = Box<dyn Fn(JobName) + Sync + 'a>;
    let answers: Vec<(&str, Answer<'_>)> = vec![
        ("a wrong payload with a right checksum", Box::new(|name| write(name, &bad.result(name, |_, bytes| noise(77, bytes))))),
        ("zeros", Box::new(|name| write(name, &bad.result(name, |_, bytes| vec![0; bytes])))),
        ("a payload that is too short", Box::new(|name| write(name, &bad.result(name, |_, bytes| vec![0; bytes - 1])))),
        ("garbage", Box::new(|name| write(name, &noise(5, 5_000)))),
        ("nothing", Box::new(|name| write(name, b""))),
        ("half a result", Box::new(|name| write(name, &bad.result(name, |_, bytes| vec![0; bytes])[..3_000]))),
        ("a directory", Box::new(|name| fs::create_dir(path(name)).expect("made"))),
        ("a link", Box::new(|name| std::os::unix::fs::symlink("/dev/zero", path(name)).expect("made"))),
        (
            "a huge file",
            Box::new(|name| {
                let file = fs::File::create(path(name)).expect("made");
                file.set_len(FILE_BYTES_MAX + 1).expect("sparse");
            }),
        ),
        (
            "a refusal",
            Box::new(|name| {
                let (_, job_crc64) = bad.read(name);
                let result = ResultFile { worker: bad.folder.owner, job_crc64, outcome: Outcome::Refused("no".to_owned()) };
                write(name, &result.to_bytes(name, &[]));
            }),
        ),
        (
            "lost sectors that are not",
            Box::new(|name| {
                let (job, job_crc64) = bad.read(name);
                let addresses: Vec<[u8; 20]> = job.sectors.iter().map(|(address, _)| *address).collect();
                let sectors = vec![SectorResult::Noise { codewords: 1 }; addresses.len()];
                let result = ResultFile { worker: bad.folder.owner, job_crc64, outcome: Outcome::Decoded(sectors) };
                write(name, &result.to_bytes(name, &addresses));
            }),
        ),
    ];
    for (what, answer) in answers {
        let archive = Archive::at(folder.path());
        let answered = bad.answering(&*answer, || {
            until("the worker is known", || archive.client.have_room());
            archive.read(&file);
        });
        let totals = archive.totals();
        assert!(answered > 0, "{what}");
        assert_eq!(totals.sectors_elsewhere, 0, "{what}: {totals:?}");
        drop(archive);
        let _ = fs::remove_dir_all(folder.path().join(RESULTS));
        fs::create_dir(folder.path().join(RESULTS)).expect("made");
    }
}

#[test]
fn jobs_of_a_worker_that_dies_go_to_another() {
    let (folder, file) = (folder(), platter());
    let dying = BadWorker::new(folder.path());
    let archive = Archive::at(folder.path());
    until("the worker is known", || {
        dying.renew();
        archive.client.have_room()
    });
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| archive.read(&file));
        let claimed = std::cell::Cell::new(None);
        until("a job is claimed", || {
            dying.renew();
            claimed.set(dying.claim());
            claimed.get().is_some()
        });
        let name = claimed.get().expect("claimed");
        let path = dying.folder.path(CLAIMED, &name.claimed_by(dying.folder.owner));
        assert_eq!(fs::metadata(path).expect("claimed").permissions().mode() & 0o777, 0o600);
        // It renews no more. A good worker comes instead.
        let ((), totals) = with_worker(folder.path(), 2, &Mutex::default(), || reader.join().expect("the read is complete"));
        assert!(totals.jobs > 0, "{totals:?}");
    });
}

#[test]
fn a_folder_that_disappears_costs_no_read() {
    let (folder, file) = (folder(), platter());
    let bad = BadWorker::new(folder.path());
    let archive = Archive::at(folder.path());
    until("the worker is known", || {
        bad.renew();
        archive.client.have_room()
    });
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| archive.read(&file));
        until("a job is claimed", || {
            bad.renew();
            bad.claim().is_some()
        });
        fs::rename(folder.path(), folder.path().with_extension("gone")).expect("moved");
        reader.join().expect("the read is complete");
    });
    let totals = archive.totals();
    assert!(totals.sectors_elsewhere == 0 && totals.taken_back > 0, "{totals:?}");
    fs::rename(folder.path().with_extension("gone"), folder.path()).expect("moved back");
}

#[test]
fn without_workers_nothing_is_written() {
    let (folder, file) = (folder(), platter());
    let archive = Archive::at(folder.path());
    archive.read(&file);
    assert_eq!(archive.totals().sectors_elsewhere, 0);
    for directory in [JOBS, TMP, ALIVE] {
        assert_eq!(names(folder.path(), directory), [""; 0], "{directory}");
    }
    drop(archive);
    // Neither is there anything to find in a folder that doesn't exist.
    let archive = Archive::at(&folder.path().join("missing"));
    archive.read(&file);
    assert!(!folder.path().join("missing").exists());
}

#[test]
fn a_worker_refuses_what_is_no_job_and_goes_on() {
    let (folder, file) = (folder(), platter());
    let root = folder.path();
    let name = |number| JobName { class: Class::Read, owner: Owner(1), number };
    let job = |number| root.join(JOBS).join(name(number).to_string());
    fs::write(root.join(JOBS).join("README"), "hello").expect("written");
    fs::write(job(1), "too short").expect("written");
    fs::write(job(2), [&b"FULGDJOB"[..], &7_u32.to_le_bytes(), &[0; 100]].concat()).expect("written");
    fs::write(job(3), [&b"FULGDJOB"[..], &VERSION.to_le_bytes(), &[0; 100]].concat()).expect("written");
    fs::File::create(job(4)).expect("made").set_len(FILE_BYTES_MAX + 1).expect("sparse");
    fs::create_dir(job(5)).expect("made");
    let notes = Mutex::default();
    let (archive, totals) = with_worker(root, 1, &notes, || {
        let archive = Archive::at(root);
        until("the worker is known", || archive.client.have_room());
        until("the damaged job is refused", || root.join(RESULTS).join(name(3).to_string()).exists());
        archive.read(&file);
        archive
    });
    assert!(archive.totals().sectors_elsewhere > 0);
    assert_eq!((totals.refused, totals.lost), (6, 0), "{:?}", notes.lock());
    let notes = notes.into_inner().expect("no panic");
    for says in [
        "README: its name is not",
        "doesn't begin like a job",
        "version 7, this program knows 1",
        "checksum is wrong",
        "longer than",
        "not a regular file",
    ] {
        assert_eq!(notes.iter().filter(|note| note.contains(says)).count(), 1, "{says}: {notes:?}");
    }
    // Jobs of other versions are left to other workers.
    assert!(!root.join(RESULTS).join(name(2).to_string()).exists());
}

#[test]
fn leftovers_of_the_dead_are_removed_and_foreign_files_are_not() {
    let folder = folder();
    let root = folder.path();
    let dead = Folder::new(root);
    let name = JobName { class: Class::Deferrable, owner: dead.owner, number: 1 };
    dead.write(ALIVE, &dead.owner.to_string(), b"archive 1\nthreads 0\ncount 5\n").expect("written");
    dead.write(JOBS, &name.to_string(), &noise(1, 50)).expect("written");
    dead.write(RESULTS, &name.to_string(), b"").expect("written");
    dead.write(CLAIMED, &name.claimed_by(Owner(5)), b"").expect("written");
    fs::write(root.join(TMP).join(format!("{}-{:016x}", dead.owner, 99)), "").expect("written");
    for directory in [ALIVE, JOBS, RESULTS, CLAIMED, TMP] {
        fs::write(root.join(directory).join("notes.txt"), "mine").expect("written");
    }
    let ((), _) = with_worker(root, 1, &Mutex::default(), || {
        until("leftovers are gone", || [JOBS, RESULTS, CLAIMED, TMP].iter().all(|directory| names(root, directory).len() == 1));
        until("the lease is gone", || !root.join(ALIVE).join(dead.owner.to_string()).exists());
    });
    for directory in [ALIVE, JOBS, RESULTS, CLAIMED, TMP] {
        assert_eq!(names(root, directory), ["notes.txt"], "{directory}");
    }
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = |path: &Path| DecodeWorker::open(path, 1, Device::Cpu).map(drop).map_err(|error| error.to_string());
    assert!(open(&folder.path().join("missing")).expect_err("missing").contains("does not exist"));
    fs::write(folder.path().join("photo.jpg"), "mine").expect("written");
    assert!(open(folder.path()).expect_err("foreign").contains("not a decode folder"));
    fs::write(folder.path().join(MARK), "fulgurite decode folder, version 2\n").expect("written");
    assert!(open(folder.path()).expect_err("newer").contains("version \"2\""));
    fs::write(folder.path().join(MARK), "hello").expect("written");
    assert!(open(folder.path()).expect_err("no mark").contains("not a decode folder"));
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("made");
    assert_eq!(open(&empty), Ok(()));
    assert_eq!(open(&empty), Ok(()), "prepared already");
    assert_eq!(fs::read_to_string(empty.join(MARK)).expect("marked"), "fulgurite decode folder, version 1\n");
    assert_eq!(fs::metadata(empty.join(JOBS)).expect("made").permissions().mode() & 0o777, 0o700);
}
