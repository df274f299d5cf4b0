//! The archive's end of the folder: writes jobs, takes results, and takes back jobs that no
//! worker decodes.
//!
//! All access to the folder is on one thread, because a folder on a network may hang. If that
//! thread gives no sign of life, the pool takes all tasks back.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use fulgurite_decode::Class;
use fulgurite_glass::decoder::Evidence;
use fulgurite_glass::{SectorBatch, SectorContent};

use super::job_file::JobFile;
use super::lease::{Others, OwnLease, Timing};
use super::result_file::{Outcome, ResultFile, SectorResult};
use super::{CLAIMED, FILE_BYTES_MAX, Folder, JOBS, JobName, RESULTS, TMP};
use crate::decoding::pool::{Tasks, Workers};
use crate::entropy::random;

/// How long the thread may give no sign of life before it counts as hanging.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Interval at which an idle thread looks for workers.
const IDLE_PERIOD: Duration = Duration::from_millis(500);
/// How long dropping waits for the thread.
const END_MAX: Duration = Duration::from_secs(2);
/// Jobs that may wait to be claimed, for each thread of the workers.
const JOBS_PER_THREAD: u32 = 2;
/// With this many jobs waiting to be written to the folder, no more are handed over: they are in
/// memory.
const PARCELS_MAX: usize = 4;

/// A job on its way to the folder.
struct Parcel {
    number: u64,
    class: Class,
    bytes: Vec<u8>,
    batch: SectorBatch,
    evidence: Vec<Evidence>,
}

/// What the pool and the thread of the folder share.
struct Shared {
    folder: Folder,
    started: Instant,
    /// When the thread last gave a sign of life, in milliseconds since `started`.
    heard_ms: AtomicU64,
    /// Threads of live workers.
    worker_threads: AtomicU32,
    /// Jobs in the folder that no worker has claimed.
    unclaimed: AtomicUsize,
    /// Parcels that the thread has not taken.
    parcels: AtomicUsize,
    is_stopping: AtomicBool,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

/// Hands tasks over to the workers at a folder.
pub(in crate::decoding) struct Client {
    shared: Arc<Shared>,
    /// `None` once it was stopped.
    parcels: Mutex<Option<SyncSender<Parcel>>>,
}

impl Client {
    /// A client of the folder at `root`, which need not be there. Results go to `tasks`.
    ///
    /// # Errors
    /// An error of the system if it can't start a thread.
    pub(in crate::decoding) fn start(root: &Path, tasks: Weak<Tasks<SectorBatch>>) -> io::Result<Self> {
        Self::with_timing(root, tasks, Timing::DEFAULT)
    }

    pub(super) fn with_timing(root: &Path, tasks: Weak<Tasks<SectorBatch>>, timing: Timing) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            folder: Folder::new(root),
            started: Instant::now(),
            heard_ms: AtomicU64::new(0),
            worker_threads: AtomicU32::new(0),
            unclaimed: AtomicUsize::new(0),
            parcels: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            has_ended: Mutex::new(false),
            ended: Condvar::new(),
        });
        // With room for threads that check `have_room` at the same time. If even that is full,
        // `hand_over` returns false.
        let (parcels, received) = sync_channel(PARCELS_MAX + 64);
        let courier = Courier {
            shared: shared.clone(),
            timing,
            tasks,
            lease: OwnLease::new(0),
            others: Others::default(),
            looked: None,
            out: HashMap::new(),
        };
        std::thread::Builder::new().name("decode folder".to_owned()).spawn(move || courier.run(&received))?;
        Ok(Self { shared, parcels: Mutex::new(Some(parcels)) })
    }
}

impl Workers<SectorBatch> for Client {
    fn have_room(&self) -> bool {
        let Shared { worker_threads, unclaimed, parcels, .. } = &*self.shared;
        let parcels = parcels.load(Ordering::Relaxed);
        let waiting = unclaimed.load(Ordering::Relaxed) + parcels;
        parcels < PARCELS_MAX && waiting < (JOBS_PER_THREAD * worker_threads.load(Ordering::Relaxed)) as usize && self.respond()
    }

    fn threads(&self) -> usize {
        self.shared.worker_threads.load(Ordering::Relaxed) as usize
    }

    fn hand_over(&self, number: u64, class: Class, batch: &SectorBatch) -> bool {
        // The coding of headers is decoded from several sectors together, and quickly.
        if batch.is_header() {
            return false;
        }
        let images = batch.images();
        let evidence = images.iter().map(|frames| Evidence::take(batch.medium(), frames, u64::from_le_bytes(random()))).collect();
        let job = JobFile {
            owner: self.shared.folder.owner,
            number,
            decoder: batch.decoder(),
            medium: batch.medium().clone(),
            sectors: images.into_iter().enumerate().map(|(index, frames)| (batch.address(index), frames)).collect(),
        };
        let bytes = job.to_bytes();
        drop(job);
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return false;
        }
        self.shared.parcels.fetch_add(1, Ordering::Relaxed);
        let parcel = Parcel { number, class, bytes, batch: batch.clone(), evidence };
        let parcels = self.parcels.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = parcels.as_ref().is_some_and(|parcels| parcels.try_send(parcel).is_ok());
        if !sent {
            self.shared.parcels.fetch_sub(1, Ordering::Relaxed);
        }
        sent
    }

    fn respond(&self) -> bool {
        let heard = Duration::from_millis(self.shared.heard_ms.load(Ordering::Relaxed));
        self.shared.started.elapsed().saturating_sub(heard) < SILENCE_MAX
    }
}

impl Client {
    /// Ends the thread, which removes the files of this process from the folder.
    pub(in crate::decoding) fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        // Wakes the thread.
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that hangs in the system can't be waited for.
        let has_ended = self.shared.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.shared.ended.wait_timeout_while(has_ended, END_MAX, |has_ended| !*has_ended));
    }
}

/// A job in the folder.
struct Out {
    name: JobName,
    job_crc64: u64,
    batch: SectorBatch,
    evidence: Vec<Evidence>,
    place: Place,
    /// When it was first seen there.
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Waiting,
    Claimed,
    Missing,
}

/// The thread that uses the folder.
struct Courier {
    shared: Arc<Shared>,
    timing: Timing,
    tasks: Weak<Tasks<SectorBatch>>,
    lease: OwnLease,
    others: Others,
    /// When leases were last read.
    looked: Option<Instant>,
    /// Jobs in the folder, by number.
    out: HashMap<u64, Out>,
}

impl Courier {
    fn run(mut self, parcels: &Receiver<Parcel>) {
        // At once: most commands end before an idle thread would look for workers.
        self.look();
        while !self.shared.is_stopping.load(Ordering::Relaxed) {
            self.shared.heard_ms.store(self.shared.started.elapsed().as_millis() as u64, Ordering::Relaxed);
            let period = if self.out.is_empty() { IDLE_PERIOD.min(self.timing.renewal) } else { self.timing.poll };
            match parcels.recv_timeout(period) {
                Ok(parcel) => {
                    self.shared.parcels.fetch_sub(1, Ordering::Relaxed);
                    self.write(parcel);
                    // More may have come: results can wait that long.
                    while let Ok(parcel) = parcels.try_recv() {
                        self.shared.parcels.fetch_sub(1, Ordering::Relaxed);
                        self.write(parcel);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.look();
            if !self.out.is_empty() && self.follow().is_err() {
                // The folder is gone, perhaps for now. Readers don't wait for it.
                self.take_all_back();
            }
            let unclaimed = self.out.values().filter(|out| out.place == Place::Waiting).count();
            self.shared.unclaimed.store(unclaimed, Ordering::Relaxed);
        }
        for out in std::mem::take(&mut self.out).into_values() {
            self.remove(&out);
        }
        self.lease.end(&self.shared.folder);
        *self.shared.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ended.notify_all();
    }

    /// Reads leases if it is time to, and removes what dead processes have left.
    fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < self.timing.renewal) {
            return;
        }
        self.looked = Some(Instant::now());
        let folder = &self.shared.folder;
        // Without its mark, it is not the folder, but perhaps a mount point without its disk.
        let looked =
            folder.check().is_ok() && self.others.look(folder).and_then(|()| self.others.remove_leftovers(folder, &self.timing)).is_ok();
        let threads = if looked { self.others.threads(&self.timing) } else { 0 };
        self.shared.worker_threads.store(threads, Ordering::Relaxed);
    }

    fn write(&mut self, parcel: Parcel) {
        let Parcel { number, class, bytes, batch, evidence } = parcel;
        let folder = &self.shared.folder;
        let name = JobName { class, owner: folder.owner, number };
        let written = self.lease.renew(folder, &self.timing).and_then(|()| folder.write(JOBS, &name.to_string(), &bytes));
        if written.is_err() {
            self.shared.worker_threads.store(0, Ordering::Relaxed);
            self.take_back(number);
            return;
        }
        let out = Out { name, job_crc64: JobFile::checksum(&bytes), batch, evidence, place: Place::Waiting, since: Instant::now() };
        self.out.insert(number, out);
    }

    /// Looks up what became of the jobs.
    fn follow(&mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let folder = &shared.folder;
        self.lease.renew(folder, &self.timing)?;
        // In the order in which jobs move, so that none is missed on its way.
        let waiting = folder.names(JOBS)?;
        let claimed = folder.names(CLAIMED)?;
        let results = folder.names(RESULTS)?;
        let own = |name: &JobName| name.owner == folder.owner;
        let mut places: HashMap<u64, (Place, Option<(String, super::Owner)>)> = HashMap::new();
        for job in waiting.iter().filter_map(|name| JobName::parse(name)).filter(own) {
            places.insert(job.number, (Place::Waiting, None));
        }
        for file in claimed {
            if let Some((job, worker)) = JobName::parse_claimed(&file).filter(|(job, _)| own(job)) {
                places.insert(job.number, (Place::Claimed, Some((file, worker))));
            }
        }
        for job in results.iter().filter_map(|name| JobName::parse(name)).filter(own) {
            self.take_result(job);
        }
        let numbers: Vec<u64> = self.out.keys().copied().collect();
        for number in numbers {
            let (place, claim) = places.remove(&number).unwrap_or((Place::Missing, None));
            self.follow_job(number, place, claim);
        }
        // What is left belongs to jobs that were taken back, or whose results have come.
        for (number, (place, claim)) in places {
            match (place, claim) {
                (Place::Claimed, Some((file, worker))) if !self.others.is_alive(worker, &self.timing) => folder.remove(CLAIMED, &file),
                (Place::Waiting, _) => {
                    for class in [Class::Read, Class::Deferrable] {
                        folder.remove(JOBS, &JobName { class, owner: folder.owner, number }.to_string());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes back a job that takes too long or is no longer wanted, and gives one of a dead worker
    /// to another.
    fn follow_job(&mut self, number: u64, place: Place, claim: Option<(String, super::Owner)>) {
        let is_wanted = self.tasks.upgrade().is_some_and(|tasks| tasks.is_away(number));
        let (folder, timing) = (&self.shared.folder, self.timing);
        let Some(out) = self.out.get_mut(&number) else { return };
        if out.place != place {
            (out.place, out.since) = (place, Instant::now());
        }
        let elapsed = out.since.elapsed();
        let is_overdue = match place {
            Place::Waiting => elapsed > timing.claim,
            Place::Claimed => elapsed > timing.work,
            // Removed by another process; or lists of a folder on a network lag behind.
            Place::Missing => elapsed > timing.claim,
        };
        // A worker may claim it at this moment, and must then not decode it in vain.
        let temporary = format!("{}-{number:016x}-back", folder.owner);
        if is_wanted && is_overdue && place == Place::Waiting {
            match folder.rename((JOBS, &out.name.to_string()), (TMP, &temporary)) {
                Ok(false) => return,
                _ => folder.remove(TMP, &temporary),
            }
        }
        if !is_wanted || is_overdue {
            if let Some(out) = self.out.remove(&number) {
                self.remove(&out);
            }
            self.take_back(number);
        } else if let Some((file, worker)) = claim.filter(|(_, worker)| elapsed > timing.lease && !self.others.is_alive(*worker, &timing)) {
            debug_assert_ne!(worker, folder.owner);
            if folder.rename((CLAIMED, &file), (JOBS, &out.name.to_string())).unwrap_or(false) {
                (out.place, out.since) = (Place::Waiting, Instant::now());
            }
        }
    }

    /// Takes the result of a job, if it is right.
    fn take_result(&mut self, job: JobName) {
        let folder = &self.shared.folder;
        let name = job.to_string();
        let Some(out) = self.out.get(&job.number).filter(|out| out.name == job) else {
            // It was taken back, or decoded twice.
            folder.remove(RESULTS, &name);
            return;
        };
        let checked = folder.read(RESULTS, &name).ok().and_then(|bytes| out.check(&bytes));
        folder.remove(RESULTS, &name);
        let Some(out) = self.out.remove(&job.number) else { return };
        // A second worker may have begun it after the first one's lease had expired.
        self.remove(&out);
        match checked.zip(self.tasks.upgrade()) {
            Some((contents, tasks)) => tasks.returned(job.number, contents),
            None => self.take_back(job.number),
        }
    }

    /// Removes the files of a job.
    fn remove(&self, out: &Out) {
        let folder = &self.shared.folder;
        folder.remove(JOBS, &out.name.to_string());
        folder.remove(RESULTS, &out.name.to_string());
        if out.place == Place::Claimed {
            let claims = folder.names(CLAIMED).unwrap_or_default();
            for file in claims.iter().filter(|file| JobName::parse_claimed(file).is_some_and(|(job, _)| job == out.name)) {
                folder.remove(CLAIMED, file);
            }
        }
    }

    fn take_back(&self, number: u64) {
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.take_back(number);
        }
    }

    fn take_all_back(&mut self) {
        self.shared.worker_threads.store(0, Ordering::Relaxed);
        for number in std::mem::take(&mut self.out).into_keys() {
            self.take_back(number);
        }
    }
}

impl Out {
    /// The content of the sectors according to a result. `None` if the result isn't one of this
    /// job, or a payload is not what the images show: the worker is faulty, and the whole job is
    /// decoded again.
    fn check(&self, bytes: &[u8]) -> Option<Vec<Option<SectorContent>>> {
        let addresses: Vec<[u8; 20]> = (0..self.batch.sectors()).map(|index| self.batch.address(index)).collect();
        let code = self.batch.code();
        let result = ResultFile::parse(bytes, self.name, self.job_crc64, &addresses, code.payload_bytes())?;
        let Outcome::Decoded(sectors) = result.outcome else { return None };
        let mut contents = Vec::with_capacity(sectors.len());
        for ((sector, address), evidence) in sectors.into_iter().zip(&addresses).zip(&self.evidence) {
            contents.push(match sector {
                SectorResult::Decoded(decoded) if evidence.supports(code, address, &decoded.payload) => {
                    Some(SectorContent::Payload(decoded.payload))
                }
                SectorResult::Decoded(_) => return None,
                SectorResult::Noise { .. } | SectorResult::Checksum | SectorResult::Blank => None,
            });
        }
        Some(contents)
    }
}
