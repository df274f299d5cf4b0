//! A worker: claims jobs, decodes them, and writes results.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulgurite_glass::decoder::{Decoders, Device};

use super::job_file::{JobFile, NoJob};
use super::lease::{Others, OwnLease, Timing};
use super::result_file::{Outcome, ResultFile, SectorResult};
use super::{CLAIMED, DecodeFolderError, Folder, JOBS, JobName, RESULTS};

/// Interval at which the thread of the lease checks whether to renew it, and whether all jobs are
/// done.
const LOOP_PERIOD: Duration = Duration::from_millis(50);
/// Most names of skipped jobs that are remembered.
const SKIPPED_MAX: usize = 10_000;

/// What a worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerTotals {
    /// Jobs decoded.
    pub jobs: u64,
    /// Sectors of these jobs.
    pub sectors: u64,
    /// Sectors among them that were lost.
    pub lost: u64,
    /// Jobs that it could not decode.
    pub refused: u64,
}

#[derive(Default)]
struct Counters {
    jobs: AtomicU64,
    sectors: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
}

/// Decodes the jobs in a folder.
pub struct DecodeWorker {
    folder: Folder,
    threads: usize,
    device: Device,
    timing: Timing,
    /// Held while looking for jobs: one thread at a time does. Contains the names of skipped jobs.
    finder: Mutex<HashSet<String>>,
    counters: Counters,
    /// The last trouble of each kind with the folder, so that it is reported once.
    troubles: Mutex<BTreeMap<&'static str, String>>,
}

/// A claimed job.
struct Claimed {
    name: JobName,
    file: String,
}

impl DecodeWorker {
    /// A worker for this folder, with this many threads, whose networks run on `device`. Prepares
    /// an empty folder.
    ///
    /// # Errors
    /// [`DecodeFolderError`] if the folder can't be used.
    pub fn open(folder: &Path, threads: usize, device: Device) -> Result<Self, DecodeFolderError> {
        Self::with_timing(folder, threads, device, Timing::DEFAULT)
    }

    pub(super) fn with_timing(folder: &Path, threads: usize, device: Device, timing: Timing) -> Result<Self, DecodeFolderError> {
        let folder = Folder::new(folder);
        folder.prepare()?;
        Ok(Self {
            folder,
            threads: threads.max(1),
            device,
            timing,
            finder: Mutex::default(),
            counters: Counters::default(),
            troubles: Mutex::default(),
        })
    }

    #[cfg(test)]
    pub(super) fn jobs(&self) -> u64 {
        self.counters.jobs.load(Ordering::Relaxed)
    }

    /// Decodes jobs until `stop` is set, and then finishes those that it has begun. `note` gets
    /// messages for the operator.
    pub fn run(&self, stop: &AtomicBool, note: &(dyn Fn(&str) + Sync)) -> WorkerTotals {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(|| self.decode_jobs(stop, note))).collect();
            scope.spawn(|| self.keep_lease(&is_over, note));
            for thread in threads {
                if thread.join().is_err() {
                    note("a thread of the worker ended early: this is a fault of the program");
                }
            }
            // The lease holds until the last job is done.
            is_over.store(true, Ordering::Relaxed);
        });
        let Counters { jobs, sectors, lost, refused } = &self.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkerTotals { jobs: get(jobs), sectors: get(sectors), lost: get(lost), refused: get(refused) }
    }

    /// Renews the lease, and removes what dead processes have left.
    fn keep_lease(&self, is_over: &AtomicBool, note: &(dyn Fn(&str) + Sync)) {
        let mut lease = OwnLease::new(self.threads as u32);
        let mut others = Others::default();
        let mut looked = Instant::now();
        while !is_over.load(Ordering::Relaxed) {
            let renewed = lease.renew(&self.folder, &self.timing);
            self.report(renewed, "renew the worker's lease", note);
            if looked.elapsed() >= self.timing.lease {
                looked = Instant::now();
                let _ = others.look(&self.folder).and_then(|()| others.remove_leftovers(&self.folder, &self.timing));
            }
            std::thread::sleep(LOOP_PERIOD.min(self.timing.renewal));
        }
        lease.end(&self.folder);
    }

    /// Reports an error of the folder, unless the same one was reported before.
    fn report<T>(&self, result: io::Result<T>, what: &'static str, note: &(dyn Fn(&str) + Sync)) -> Option<T> {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let text = format!("can't {what} in {}: {error}; trying again", self.folder.root.display());
                if troubles.get(what) != Some(&text) {
                    note(&text);
                    troubles.insert(what, text);
                }
                None
            }
        }
    }

    fn decode_jobs(&self, stop: &AtomicBool, note: &(dyn Fn(&str) + Sync)) {
        let mut decoders = Decoders::on(self.device.clone());
        loop {
            let mut skipped = self.finder.lock().unwrap_or_else(PoisonError::into_inner);
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let claimed = self.claim(&mut skipped, note);
            let Some(claimed) = self.report(claimed, "look for jobs", note).flatten() else {
                // Other threads needn't look meanwhile.
                std::thread::sleep(self.timing.poll);
                continue;
            };
            drop(skipped);
            let result = self.decode(&claimed, &mut decoders, note);
            self.report(result, "write a result", note);
        }
    }

    /// Claims the first job.
    fn claim(&self, skipped: &mut HashSet<String>, note: &(dyn Fn(&str) + Sync)) -> io::Result<Option<Claimed>> {
        for job in self.folder.names(JOBS)? {
            let Some(name) = JobName::parse(&job) else {
                self.skip(skipped, &job, "its name is not that of a job", note);
                continue;
            };
            if skipped.contains(&job) {
                continue;
            }
            // A job of another version is left to a worker of that version.
            match self.folder.version_of(&job) {
                Ok(Some(super::VERSION)) => {}
                Ok(Some(version)) => {
                    self.skip(skipped, &job, &NoJob::Version(version).to_string(), note);
                    continue;
                }
                Ok(None) => {
                    self.skip(skipped, &job, &NoJob::Magic.to_string(), note);
                    continue;
                }
                Err(gone) if gone.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.skip(skipped, &job, &error.to_string(), note);
                    continue;
                }
            }
            let file = name.claimed_by(self.folder.owner);
            if self.folder.rename((JOBS, &job), (CLAIMED, &file))? {
                return Ok(Some(Claimed { name, file }));
            }
        }
        Ok(None)
    }

    fn skip(&self, skipped: &mut HashSet<String>, job: &str, why: &str, note: &(dyn Fn(&str) + Sync)) {
        if skipped.len() >= SKIPPED_MAX {
            skipped.clear();
        }
        if skipped.insert(job.to_owned()) {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            note(&format!("refused the job {}: {why}", self.folder.path(JOBS, job).display()));
        }
    }

    /// Decodes a claimed job and writes its result. If the result can't be written, the job goes
    /// back to the queue; if the job can't be read, its archive takes it back in the end.
    fn decode(&self, claimed: &Claimed, decoders: &mut Decoders, note: &(dyn Fn(&str) + Sync)) -> io::Result<()> {
        let bytes = match self.folder.read(CLAIMED, &claimed.file) {
            // Its archive took it back.
            Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(()),
            bytes => bytes?,
        };
        let job_crc64 = JobFile::checksum(&bytes);
        let (outcome, addresses) = match JobFile::parse(&bytes, claimed.name) {
            Err(why) => (Outcome::Refused(why.to_string()), Vec::new()),
            Ok(job) => {
                drop(bytes);
                let decoded = catch_unwind(AssertUnwindSafe(|| decode_sectors(&job, decoders)));
                let outcome = decoded.map_or_else(
                    |_| {
                        decoders.forget();
                        Outcome::Refused("the decoder failed: this is a fault of the program".to_owned())
                    },
                    Outcome::Decoded,
                );
                (outcome, job.sectors.iter().map(|(address, _)| *address).collect())
            }
        };
        match &outcome {
            Outcome::Decoded(sectors) => {
                let lost = sectors.iter().filter(|sector| !matches!(sector, SectorResult::Decoded(_))).count();
                self.counters.jobs.fetch_add(1, Ordering::Relaxed);
                self.counters.sectors.fetch_add(sectors.len() as u64, Ordering::Relaxed);
                self.counters.lost.fetch_add(lost as u64, Ordering::Relaxed);
            }
            Outcome::Refused(why) => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                note(&format!("refused the job {}: {why}", claimed.name));
            }
        }
        let result = ResultFile { worker: self.folder.owner, job_crc64, outcome };
        let job = claimed.name.to_string();
        match self.folder.write(RESULTS, &job, &result.to_bytes(claimed.name, &addresses)) {
            Ok(()) => {
                // After the result, so that the archive always sees one of both.
                self.folder.remove(CLAIMED, &claimed.file);
                Ok(())
            }
            Err(error) => {
                let _ = self.folder.rename((CLAIMED, &claimed.file), (JOBS, &job));
                Err(error)
            }
        }
    }
}

fn decode_sectors(job: &JobFile, decoders: &mut Decoders) -> Vec<SectorResult> {
    let decoder = decoders.load(job.decoder, &job.medium, || Arc::new(job.medium.sector_code()));
    let sectors: Vec<_> = job.sectors.iter().map(|(address, frames)| (address.as_slice(), frames)).collect();
    decoder.decode_all(&sectors).into_iter().map(SectorResult::of).collect()
}

impl Folder {
    /// The version of a waiting job; `None` if it doesn't begin like a job.
    fn version_of(&self, job: &str) -> io::Result<Option<u32>> {
        let mut start = [0; 12];
        let read = super::open_regular(&self.path(JOBS, job), super::FILE_BYTES_MAX)
            .and_then(|(mut file, _)| io::Read::read_exact(&mut file, &mut start));
        match read {
            Err(short) if short.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            read => read.map(|()| JobFile::version(&start)),
        }
    }
}
