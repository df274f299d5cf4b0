//! The stages of a lot, as the threads of streams carry them out.
//!
//! A file that fails, fails alone. If a place can't be reached at all, the stream waits and tries
//! again, because no file is to blame.

use std::io;
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use fulgurite_digest::{Algorithm, Digest, Digester};
use fulgurite_domain::Modified;
use fulgurite_places::{Cause, Connection, Place, Refusal, Unchanged};

use super::database::{FileRow, READ_OTHERWISE, VANISHED};
use super::destination::{BackReader, Destination, LotWriter, Outgoing, Stored};
use super::folded::{self, Suspects};
use super::spool::{SpoolVolume, Spooled, SpooledFile};
use crate::layout::{Stage, StreamId};
use crate::lot::LotId;

/// The first wait for a place that can't be reached; each wait is twice as long as the one before.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Attempts for a file whose connection fails, while other files pass. Then the file is to blame.
const TRIES_BESIDE_OTHERS: u32 = 4;
/// How long files that passed wait for others of their lot until they are told.
pub(super) const TOLD_EARLY_AFTER: Duration = Duration::from_secs(1);
/// How often a waiting stream looks whether it should stop.
const LOOK: Duration = Duration::from_millis(100);

/// A file of a lot on its way.
#[derive(Debug, Clone)]
pub(super) struct Carried {
    pub(super) row: FileRow,
    /// The SHA-256 with which it was read.
    pub(super) sha256: Option<Digest>,
    /// Where it begins in the spooled lot.
    pub(super) offset: u64,
    /// When it was last modified, if the source says so.
    pub(super) modified: Option<Modified>,
    /// How it got to the destination.
    pub(super) stored: Option<Stored>,
}

impl Carried {
    /// A file that no stage has handled yet.
    pub(super) fn new(row: FileRow) -> Self {
        Self { row, sha256: None, offset: 0, modified: None, stored: None }
    }
}

/// Why a file did not pass a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: String,
    pub(super) kind: FailureKind,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// It may be tried again, a few times.
    Again,
    /// Another attempt would fail too.
    Final,
    /// It isn't what the inventory states, or its name isn't distinguished from another's.
    Wrong,
    /// The source can be reached, and says that it doesn't have the file any more.
    Vanished,
    /// The place can't be used at all, for a reason that won't go away: no file is to blame.
    Place,
    /// The run stops; the file isn't to blame.
    Stopped,
    /// The spool volume failed; nothing more can be read.
    Spool,
}

/// What a stream is to do.
#[derive(Debug)]
pub(super) enum Job {
    Read { lot: LotId, files: Vec<Carried>, volume: SpoolVolume },
    Write { lot: LotId, files: Vec<Carried>, spooled: Arc<Spooled> },
    Scan { lot: LotId, files: Vec<Carried> },
}

/// What a stream did.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) stream: StreamId,
    pub(super) stage: Stage,
    pub(super) lot: LotId,
    /// The files that passed.
    pub(super) passed: Vec<Carried>,
    /// The files that didn't, and why.
    pub(super) failed: Vec<(FileRow, Failure)>,
    /// The lot, after it was read.
    pub(super) spooled: Option<Arc<Spooled>>,
    /// Time in which bytes moved.
    pub(super) moving: Duration,
}

/// Something that a stream tells before its job has ended.
#[derive(Debug)]
pub(super) enum Told {
    Ended(Box<Ended>),
    /// Files passed a stage, which goes on with others of their lot.
    Passed(Stage, Vec<Carried>),
    /// A place can't be reached, and why; the stream tries again.
    Unreachable(StreamId, String),
    /// The thread of a stream panicked.
    Panicked,
}

/// Tells of files while their lot is still being handled, so that a kill costs less.
struct Early {
    told: Sender<Told>,
    stage: Stage,
    files: Vec<Carried>,
    since: Instant,
}

impl Early {
    fn new(told: &Sender<Told>, stage: Stage) -> Self {
        Self { told: told.clone(), stage, files: Vec::new(), since: Instant::now() }
    }

    /// A file passed. It is also among those that are told when the lot's stage ends.
    fn passed(&mut self, file: Carried) {
        self.files.push(file);
        if self.since.elapsed() >= TOLD_EARLY_AFTER {
            // Without a receiver the run has ended with an error.
            let _ = self.told.send(Told::Passed(self.stage, std::mem::take(&mut self.files)));
            self.since = Instant::now();
        }
    }
}

/// What streams share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The run stops, once what is on its way has arrived: streams stop waiting for places.
    pub(super) stops: AtomicBool,
    /// The run has failed, and results are no longer wanted.
    pub(super) aborts: AtomicBool,
    /// Files that passed each stage.
    pub(super) passed: [AtomicU64; 3],
    /// Files that the destination might take for others, if it could not be asked.
    pub(super) suspects: OnceLock<Suspects>,
}

/// Who refused.
enum Refused {
    /// The place, when a connection was opened.
    Connecting(Refusal),
    /// The place, about several files.
    Place(Refusal),
    /// The place, about a file.
    File(Refusal),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::File(refusal)
    }
}

/// Carries out the jobs of one stream.
pub(super) struct Worker {
    pub(super) stream: StreamId,
    /// Identifies the migration.
    pub(super) migration: Arc<str>,
    pub(super) source: Arc<dyn Place>,
    pub(super) destination: Arc<dyn Destination>,
    pub(super) shared: Arc<Shared>,
    pub(super) told: Sender<Told>,
    pub(super) input: Option<Box<dyn Connection>>,
    pub(super) output: Option<Box<dyn LotWriter>>,
    pub(super) back: Option<Box<dyn BackReader>>,
}

impl Worker {
    pub(super) fn work(&mut self, job: Job) {
        let ended = match job {
            Job::Read { lot, files, volume } => self.read(lot, files, &volume),
            Job::Write { lot, files, spooled } => self.write(lot, files, &spooled),
            Job::Scan { lot, files } => self.scan(lot, files),
        };
        // Without a receiver the run has ended with an error.
        let _ = self.told.send(Told::Ended(Box::new(ended)));
    }

    /// Does something until the place can be reached, or the run stops. `is_suspect` says that the
    /// file failed before.
    fn reaching<T>(
        &mut self,
        stage: Stage,
        is_suspect: bool,
        is_gone: impl Fn(&Self) -> bool,
        mut act: impl FnMut(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Failure> {
        let passed = |worker: &Self| worker.shared.passed[stage as usize].load(Ordering::Relaxed);
        let (mut wait, before) = (FIRST_WAIT, if is_suspect { 0 } else { passed(self) });
        let mut tries = 0;
        loop {
            let fail = |refusal: &Refusal, kind| Err(Failure { reason: reason(refusal, stage), kind });
            let refusal = match act(self) {
                Ok(done) => {
                    self.shared.passed[stage as usize].fetch_add(1, Ordering::Relaxed);
                    return Ok(done);
                }
                Err(Refused::Connecting(refusal)) if is_places(refusal.cause) || refusal.cause == Cause::Fault => refusal,
                Err(Refused::Connecting(refusal)) => return fail(&refusal, FailureKind::Place),
                Err(Refused::Place(refusal)) => refusal,
                Err(Refused::File(refusal)) if is_places(refusal.cause) => {
                    tries += 1;
                    // A place that serves others can be reached.
                    if refusal.cause != Cause::Absent && tries >= TRIES_BESIDE_OTHERS && passed(self) > before {
                        return fail(&refusal, FailureKind::Again);
                    }
                    refusal
                }
                Err(Refused::File(refusal)) if refusal.cause == Cause::Unsupported => return fail(&refusal, FailureKind::Final),
                // A folder that isn't there any more fails like its files.
                Err(Refused::File(refusal)) if is_gone(self) => refusal,
                Err(Refused::File(refusal)) if refusal.cause == Cause::Missing && stage == Stage::Input => {
                    return Err(Failure { reason: VANISHED.to_owned(), kind: FailureKind::Vanished });
                }
                Err(Refused::File(refusal)) => return fail(&refusal, FailureKind::Again),
            };
            let asked = match refusal.cause {
                Cause::Throttled { retry_after } => retry_after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            (self.input, self.output, self.back) = (None, None, None);
            let _ = self.told.send(Told::Unreachable(self.stream, refusal.to_string()));
            let until = Instant::now() + wait.max(asked);
            while Instant::now() < until {
                if self.shared.stops.load(Ordering::Relaxed) {
                    return fail(&refusal, FailureKind::Stopped);
                }
                thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// True if the results of this run are no longer wanted.
    fn is_aborted(&self) -> bool {
        self.shared.aborts.load(Ordering::Relaxed)
    }

    fn source_is_gone(&self) -> bool {
        self.source.connect().is_err()
    }

    fn destination_is_gone(&self) -> bool {
        self.destination.back_reader().is_err()
    }

    fn read(&mut self, lot: LotId, files: Vec<Carried>, volume: &SpoolVolume) -> Ended {
        let mut ended = self.ended(Stage::Input, lot);
        let spool_failure = |error: io::Error| Failure { reason: format!("the spool volume failed: {error}"), kind: FailureKind::Spool };
        let mut writer = match volume.begin(&self.migration, lot) {
            Ok(writer) => writer,
            Err(error) => {
                let failure = spool_failure(error);
                ended.failed = files.into_iter().map(|file| (file.row, failure.clone())).collect();
                return ended;
            }
        };
        let mut files = files.into_iter();
        // Files that were read ahead, with this one.
        let mut ahead = 0_usize;
        while let Some(mut file) = files.next() {
            if self.shared.stops.load(Ordering::Relaxed) {
                ended.failed.push((file.row, stopped()));
                break;
            }
            let (offset, mut spooling, mut too_long) = (writer.bytes(), io::Result::Ok(()), false);
            // What contradicts the inventory counts only if a fresh connection reads it too.
            let mut fresh = false;
            let outcome = loop {
                let row = &file.row;
                let moving = &mut ended.moving;
                let read = self.reaching(Stage::Input, row.attempts > 0, Self::source_is_gone, |worker| {
                    spooling = writer.cut(offset);
                    if spooling.is_err() {
                        return Err(Refusal::new(Cause::Abandoned, "").into());
                    }
                    if worker.input.is_none() {
                        worker.input = Some(worker.source.connect().map_err(Refused::Connecting)?);
                        ahead = 0;
                    }
                    // The connection may have files that were read ahead.
                    let mut another = fresh.then(|| worker.source.connect()).transpose().map_err(Refused::Connecting)?;
                    let shared = worker.shared.clone();
                    let connection = another.as_mut().or(worker.input.as_mut()).expect("it is connected");
                    if ahead == 0 && !fresh {
                        let began = Instant::now();
                        let following = files.as_slice().iter().map(|file| &file.row);
                        ahead = connection
                            .read_ahead(&mut iter::once(row).chain(following).map(|row| (&*row.name, row.bytes)))
                            .map_err(Refused::Place)?;
                        // Bytes move for most of this time.
                        if ahead > 0 {
                            *moving += began.elapsed();
                        }
                    }
                    let mut digester = Digester::new(&algorithms(row.expected.as_ref()));
                    let mut began: Option<Instant> = None;
                    let mut sink = |piece: &[u8]| {
                        began.get_or_insert_with(Instant::now);
                        digester.update(piece);
                        // A file that has grown must not take more room than it has reserved.
                        too_long = digester.bytes() > row.bytes;
                        if too_long || shared.aborts.load(Ordering::Relaxed) {
                            return false;
                        }
                        spooling = writer.write(piece);
                        spooling.is_ok()
                    };
                    let read = connection.read_unchanged(&row.name, &mut sink);
                    *moving += began.map_or(Duration::ZERO, |began| began.elapsed());
                    match read {
                        Err(Refusal { cause: Cause::Abandoned, .. }) if too_long => Ok(Err(format!("more than {} bytes", row.bytes))),
                        Ok(Unchanged { bytes, .. }) if bytes != row.bytes => Ok(Err(format!("{bytes} bytes"))),
                        read => Ok(read.map(|read| Ok((digester.finish(), read.modified, read.revision)))?),
                    }
                });
                if let Err(error) = spooling {
                    break Err(spool_failure(error));
                }
                let wrong = match read {
                    Err(failure) => break Err(failure),
                    Ok(Err(found)) => format!("the source has {found}, and the inventory says {}", row.bytes),
                    Ok(Ok((digests, modified, revision))) => {
                        let of = |algorithm| digests.iter().find(|digest| digest.algorithm() == algorithm);
                        match &row.expected {
                            Some(expected) if of(expected.algorithm()) != Some(expected) => {
                                let found = of(expected.algorithm()).map(Digest::hex).unwrap_or_default();
                                format!(
                                    "wrong at the source: its {} is {found}, and the inventory says {}",
                                    expected.algorithm(),
                                    expected.hex()
                                )
                            }
                            expected => {
                                let found = of(Algorithm::Sha256).cloned().expect("a SHA-256 was asked for");
                                match &row.sha256 {
                                    // It may have rotted since. A file that was edited has
                                    // another time, and the inventory decides if it states a
                                    // digest.
                                    Some(before) if expected.is_none() && *before != found && !is_edited(row, modified) => {
                                        format!("{READ_OTHERWISE}{} before, and with {} now", before.hex(), found.hex())
                                    }
                                    _ => break Ok((found, modified, revision)),
                                }
                            }
                        }
                    }
                };
                if fresh {
                    break Err(Failure { reason: wrong, kind: FailureKind::Wrong });
                }
                fresh = true;
            };
            ahead = ahead.saturating_sub(1);
            match outcome {
                Ok((sha256, modified, revision)) => {
                    let FileRow { id, name, bytes, expected, listed, .. } = file.row.clone();
                    let spooled = SpooledFile { id, name, offset, bytes, sha256: sha256.clone(), expected, modified, revision, listed };
                    if let Err(error) = writer.complete(&spooled) {
                        ended.failed.push((file.row, spool_failure(error)));
                        continue;
                    }
                    (file.sha256, file.offset, file.modified) = (Some(sha256), offset, modified);
                    ended.passed.push(file);
                }
                Err(failure) => {
                    if failure.kind != FailureKind::Spool
                        && let Err(error) = writer.cut(offset)
                    {
                        ended.failed.push((file.row, spool_failure(error)));
                        continue;
                    }
                    let is_stopped = failure.kind == FailureKind::Stopped || self.is_aborted();
                    ended.failed.push((file.row, failure));
                    if is_stopped {
                        break;
                    }
                }
            }
        }
        ended.failed.extend(files.map(|file| (file.row, stopped())));
        ended.spooled = Some(writer.finish());
        ended
    }

    fn write(&mut self, lot: LotId, files: Vec<Carried>, spooled: &Spooled) -> Ended {
        let mut ended = self.ended(Stage::Output, lot);
        let (mut left, mut early) = (self.without_suspects(files, &mut ended), Early::new(&self.told, Stage::Output));
        while !left.is_empty() {
            // Files that could not be written for the place's sake are written again.
            let mut again = Vec::new();
            let moving = &mut ended.moving;
            let written =
                self.reaching(Stage::Output, left.iter().any(|file| file.row.attempts > 0), Self::destination_is_gone, |worker| {
                    let output = match &mut worker.output {
                        Some(output) => output,
                        none => none.insert(worker.destination.writer().map_err(Refused::Connecting)?),
                    };
                    let outgoing: Vec<Outgoing<'_>> = left.iter().map(|file| outgoing(file, spooled)).collect();
                    let began = Instant::now();
                    let mut arrived = |index: usize, stored| early.passed(Carried { stored: Some(stored), ..left[index].clone() });
                    let results = output.write(&outgoing, &mut arrived);
                    *moving += began.elapsed();
                    assert_eq!(results.len(), outgoing.len(), "each file has a result");
                    // A folder that isn't there any more refuses each file.
                    let may_be_gone = |refusal: &Refusal| !is_places(refusal.cause) && refusal.cause != Cause::Unsupported;
                    let is_gone = results.iter().any(|result| result.as_ref().is_err_and(may_be_gone)) && worker.destination_is_gone();
                    let is_to_blame = |refusal: &Refusal| is_places(refusal.cause) || is_gone && may_be_gone(refusal);
                    // Without any progress, the place is to blame.
                    match results.iter().find_map(|result| result.as_ref().err().filter(|refusal| is_to_blame(refusal))) {
                        Some(refusal) if results.iter().all(|result| result.as_ref().is_err_and(is_to_blame)) => {
                            Err(refusal.clone().into())
                        }
                        _ => Ok((results, is_gone)),
                    }
                });
            match written {
                Err(failure) => {
                    ended.failed.extend(left.into_iter().map(|file| (file.row, failure.clone())));
                    break;
                }
                Ok((results, is_gone)) => {
                    for (mut file, result) in left.into_iter().zip(results) {
                        match result {
                            Ok(stored) => {
                                file.stored = Some(stored);
                                ended.passed.push(file);
                            }
                            Err(refusal) if is_places(refusal.cause) || is_gone && refusal.cause != Cause::Unsupported => again.push(file),
                            Err(refusal) => {
                                let kind = if refusal.cause == Cause::Unsupported { FailureKind::Final } else { FailureKind::Again };
                                ended.failed.push((file.row, Failure { reason: reason(&refusal, Stage::Output), kind }));
                            }
                        }
                    }
                    left = again;
                }
            }
        }
        ended
    }

    /// Removes files from a lot that the destination would take for others. It is asked now if it
    /// could not be asked before.
    fn without_suspects(&mut self, files: Vec<Carried>, ended: &mut Ended) -> Vec<Carried> {
        let shared = self.shared.clone();
        let others = |file: &Carried| shared.suspects.get().and_then(|suspects| suspects.get(&file.row.id));
        if !files.iter().any(|file| others(file).is_some()) {
            return files;
        }
        let found = self.reaching(
            Stage::Output,
            false,
            |_| false,
            |worker| match worker.destination.folding() {
                Err(refusal) if is_places(refusal.cause) => Err(Refused::Connecting(refusal)),
                found => Ok(found),
            },
        );
        let mut left = Vec::new();
        for file in files {
            let Some(others) = others(&file) else {
                left.push(file);
                continue;
            };
            let failure = match &found {
                Ok(found) => folded::reason(&file.row.name, others, found).map(|reason| Failure { reason, kind: FailureKind::Wrong }),
                Err(failure) => Some(failure.clone()),
            };
            match failure {
                Some(failure) => ended.failed.push((file.row, failure)),
                None => left.push(file),
            }
        }
        left
    }

    fn scan(&mut self, lot: LotId, files: Vec<Carried>) -> Ended {
        let mut ended = self.ended(Stage::Scan, lot);
        // Nothing that an earlier connection holds can stand for what is stored.
        self.back = None;
        let (mut files, mut early) = (files.into_iter(), Early::new(&self.told, Stage::Scan));
        // Files that were read ahead, with this one.
        let mut ahead = 0_usize;
        while let Some(file) = files.next() {
            let mut fresh = false;
            let outcome = loop {
                let (row, moving) = (&file.row, &mut ended.moving);
                let read = self.reaching(Stage::Scan, row.attempts > 0, Self::destination_is_gone, |worker| {
                    if worker.back.is_none() {
                        worker.back = Some(worker.destination.back_reader().map_err(Refused::Connecting)?);
                        ahead = 0;
                    }
                    let mut another = fresh.then(|| worker.destination.back_reader()).transpose().map_err(Refused::Connecting)?;
                    let began = Instant::now();
                    let back = another.as_mut().or(worker.back.as_mut()).expect("it is connected");
                    if ahead == 0 && !fresh {
                        let following = files.as_slice().iter().map(|file| &file.row);
                        ahead = back
                            .read_ahead(&mut iter::once(row).chain(following).map(|row| (&*row.name, row.bytes)))
                            .map_err(Refused::Place)?;
                    }
                    let read = back.sha256(&row.name);
                    *moving += began.elapsed();
                    Ok(read?)
                });
                match read {
                    Err(failure) => break Err(failure),
                    Ok((bytes, sha256)) if bytes == row.bytes && Some(&sha256) == file.sha256.as_ref() => break Ok(()),
                    Ok((bytes, sha256)) if fresh => {
                        let reason =
                            format!("the destination returned other bytes than it was given: {bytes} bytes with SHA-256 {}", sha256.hex());
                        break Err(Failure { reason, kind: FailureKind::Again });
                    }
                    Ok(_) => fresh = true,
                }
            };
            ahead = ahead.saturating_sub(1);
            match outcome {
                Ok(()) => {
                    early.passed(file.clone());
                    ended.passed.push(file);
                }
                Err(failure) => {
                    let is_stopped = failure.kind == FailureKind::Stopped;
                    ended.failed.push((file.row, failure));
                    if is_stopped {
                        break;
                    }
                }
            }
            if self.is_aborted() {
                break;
            }
        }
        ended.failed.extend(files.map(|file| (file.row, stopped())));
        self.back = None;
        ended
    }

    fn ended(&self, stage: Stage, lot: LotId) -> Ended {
        Ended { stream: self.stream, stage, lot, passed: Vec::new(), failed: Vec::new(), spooled: None, moving: Duration::ZERO }
    }
}

/// True if a file was modified since it was read before, as far as the source says.
fn is_edited(row: &FileRow, modified: Option<Modified>) -> bool {
    row.modified.zip(modified).is_some_and(|(before, now)| before != now)
}

/// The algorithms by which a file is checked.
pub(super) fn algorithms(expected: Option<&Digest>) -> Vec<Algorithm> {
    [Algorithm::Sha256].into_iter().chain(expected.map(Digest::algorithm)).collect()
}

fn outgoing<'a>(file: &'a Carried, spooled: &'a Spooled) -> Outgoing<'a> {
    let sha256 = file.sha256.as_ref().expect("a file that was read has its digest");
    let FileRow { name, bytes, was_written, .. } = &file.row;
    let (bytes, was_written) = (*bytes, *was_written);
    Outgoing { location: name, bytes, sha256, modified: file.modified, was_written, spooled, offset: file.offset }
}

/// The run stops before it came to a file.
fn stopped() -> Failure {
    Failure { reason: "the run stopped".to_owned(), kind: FailureKind::Stopped }
}

/// Why a place refused a file, without what its name says already.
fn reason(refusal: &Refusal, stage: Stage) -> String {
    match refusal.cause {
        Cause::Missing if stage == Stage::Output => "a folder of its path is missing at the destination, or is a file".to_owned(),
        Cause::Missing => "the file does not exist any more".to_owned(),
        Cause::Unsupported if !refusal.detail.is_empty() => refusal.detail.clone(),
        _ => refusal.to_string(),
    }
}

/// True if a refusal concerns the whole place, and not one file.
fn is_places(cause: Cause) -> bool {
    cause.is_out_of_reach() || cause == Cause::Absent
}
