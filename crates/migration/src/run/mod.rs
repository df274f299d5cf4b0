//! Runs: the pipeline driven by real stores.
//!
//! ```text
//!  database --lots--> Pipeline --commands--> threads of streams --> source, spools, destination
//!     ^                  ^                        |
//!     '---- changes -----+------- events ---------'
//! ```
//!
//! One thread owns the pipeline and the database. What a stream has done is recorded before the
//! pipeline hears of it, so a kill at any instant loses only what was on its way.

pub mod again;
pub mod certificate;
pub mod database;
pub mod destination;
mod earlier;
pub mod folded;
pub mod inventory;
mod offers;
pub mod pace;
mod same_place;
pub mod settings;
pub mod spool;
mod stages;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fulgurite_domain::Micros;
use fulgurite_places::Place;

use self::database::{Change, Database, DatabaseError, FileId, FileRow, NO_VOLUME, NOT_AT_THE_SOURCE, Totals};
use self::destination::Destination;
use self::offers::{Offer, Offers};
use self::same_place::SamePlace;
use self::spool::{FoundLot, SpoolVolume, Spooled};
use self::stages::{Carried, Ended, FailureKind, Job, Shared, Told, Worker};
use crate::event::{Command, Done, Event};
use crate::figures::Figures;
use crate::layout::{Layout, SpoolId, Stage, StreamId};
use crate::lot::{LotId, SourceVolume};
use crate::pipeline::Pipeline;

/// How often the operator's orders are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Files in a row that may fail in a stage before the run stops, once others have passed it: then
/// a place is probably to blame. Files that contradict the inventory don't count.
const FAILURES_MAX: u32 = 1_000;
/// The same, before any file has passed the stage.
const FIRST_FAILURES_MAX: u32 = 20;
/// For how long a source counts as present after it listed a file of the inventory.
const SEEN_FOR: Micros = Micros(60_000_000);

/// What is migrated, and how.
pub struct Setup {
    /// Stations, streams and spool volumes.
    pub layout: Layout,
    /// The spool volumes, in the order of the layout's identifiers.
    pub volumes: Vec<SpoolVolume>,
    /// Files of a lot, at most.
    pub lot_files: usize,
    /// Bytes of a lot with several files, at most.
    pub lot_bytes: u64,
    /// Attempts for a file, at least 1.
    pub tries: u32,
    /// From a failed attempt to the next.
    pub retry_after: Duration,
    /// The source.
    pub source: Arc<dyn Place>,
    /// The destination.
    pub destination: Arc<dyn Destination>,
}

/// What the operator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Go on.
    Run,
    /// Begin no further lots, until told to go on.
    Pause,
    /// Let lots on their way arrive, and end.
    Stop,
}

/// What a run tells while it goes on.
pub trait Watcher {
    /// What the operator wants. Called several times a second.
    fn order(&mut self) -> Order;

    /// The pipeline has handled an event, and given commands.
    ///
    /// # Errors
    /// If it can't be noted; then the run ends.
    fn stepped(&mut self, now: Micros, event: &Event, commands: &[Command], run: &Progress<'_>) -> io::Result<()>;

    /// A file failed; `is_final` is true if it isn't tried again.
    fn failed(&mut self, name: &str, stage: Stage, reason: &str, is_final: bool);

    /// A stream can't reach its place, and tries again.
    fn unreachable(&mut self, stage: Stage, reason: &str);

    /// Many files in a row failed of a volume of the source. This run reads no more of it.
    fn set_aside(&mut self, volume: &str, failed: u32, reason: &str);
}

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The pipeline.
    pub pipeline: &'a Pipeline,
    /// What its streams did.
    pub figures: &'a Figures,
    /// Files and bytes by state.
    pub totals: Totals,
}

/// Why a run ended before everything was migrated or given up.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A spool volume can't be used.
    #[error("can't use a spool volume")]
    Spool(#[source] io::Error),
    /// A spool volume failed.
    #[error("{0}")]
    SpoolFailed(String),
    /// Many files in a row failed, so the source or the destination seems to be unusable.
    #[error("{count} files in a row failed in the {} stage, so the run stopped; the last: {reason}", stage.name())]
    AllFail {
        /// How many.
        count: u32,
        /// Where.
        stage: Stage,
        /// The last reason.
        reason: String,
    },
    /// A place can't be used at all.
    #[error("can't use the {}: {reason}", if *stage == Stage::Input { "source" } else { "destination" })]
    Unusable {
        /// The stage that needs it.
        stage: Stage,
        /// Why.
        reason: String,
    },
    /// Files that were migrated are not at the destination.
    #[error("none of {0} files that were migrated earlier is at the destination: is it mounted, and is it the right one?")]
    DestinationAbsent(usize),
    /// Nothing is left to be migrated, and the destination can't be reached.
    #[error("nothing is left to be migrated, but whether the destination still has it can't be seen: {0}")]
    DestinationUnreachable(String),
    /// The watcher can't note what happens.
    #[error("can't note what the run does")]
    Watcher(#[source] io::Error),
    /// A thread can't be started.
    #[error("can't start a thread")]
    Thread(#[source] io::Error),
    /// A thread of a stream ended without a result.
    #[error("a stream's thread panicked")]
    Panicked,
}

/// A lot on its way.
struct OnItsWay {
    files: Vec<Carried>,
    spooled: Option<Arc<Spooled>>,
}

struct Runner<'a> {
    setup: &'a Setup,
    database: &'a mut Database,
    watcher: &'a mut dyn Watcher,
    pipeline: Pipeline,
    figures: Figures,
    offers: Offers,
    lots: BTreeMap<LotId, OnItsWay>,
    stages: Vec<Stage>,
    jobs: Vec<Sender<Job>>,
    shared: Arc<Shared>,
    /// The last instant: instants never decrease, even if the clock is set back.
    now: Micros,
    /// When that was, by the clock that can't be set.
    looked: Instant,
    wakes_at: Option<Micros>,
    order: Order,
    /// Failures in each stage, but for inputs from volumes.
    records: [FailureRecord; 3],
    /// When the source last listed a file of the inventory.
    source_seen: Option<Micros>,
    /// Failures of inputs from each volume.
    volumes: BTreeMap<u32, FailureRecord>,
    /// Why the run ends, after what has arrived is recorded.
    failure: Option<RunError>,
    /// Why inputs have stopped. The run ends once the spooled lots have arrived, which makes room
    /// in the spool volume.
    spool_failure: Option<RunError>,
}

/// What the pipeline handles next. A question is answered only once the pipeline knows the answers
/// to earlier ones: they say which volumes are in use.
enum Next {
    Event(Event),
    Ask(StreamId, Option<SourceVolume>),
}

/// Failures in a stage.
#[derive(Debug, Clone, Copy, Default)]
struct FailureRecord {
    /// True once a file passed.
    has_passed: bool,
    /// Files in a row that failed.
    in_a_row: u32,
}

/// Migrates what is waiting, until nothing is left or the operator stops it.
///
/// # Errors
/// [`RunError`]. What was recorded before is kept, and another run goes on from there.
pub fn run(setup: &Setup, database: &mut Database, watcher: &mut dyn Watcher) -> Result<Figures, RunError> {
    let migration: Arc<str> = database.identity()?.into();
    let prepared = setup.volumes.iter().map(|volume| volume.prepare(&migration)).collect::<io::Result<Vec<_>>>();
    let (_locks, found): (Vec<_>, Vec<_>) = prepared.map_err(RunError::Spool)?.into_iter().map(|of| (of.lock, of.found)).unzip();
    let last = found.iter().flatten().map(|lot| lot.id).max().unwrap_or(LotId(0));
    let pipeline = Pipeline::new(&setup.layout);
    let stages: Vec<Stage> = pipeline.streams().map(|(place, _)| place.stage).collect();
    let source: Arc<dyn Place> = Arc::new(SamePlace::new(setup.source.clone()));
    let (told, hears) = channel();
    let shared = Arc::new(Shared::default());
    let mut threads = Vec::new();
    let mut jobs = Vec::new();
    for stream in (0..).take(stages.len()).map(StreamId) {
        let (sender, receiver) = channel::<Job>();
        let (source, destination, shared, told) = (source.clone(), setup.destination.clone(), shared.clone(), told.clone());
        let migration = migration.clone();
        let name = format!("{} {}", stages[usize::from(stream.0)].name(), stream.0);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let tell = told.clone();
            let mut worker = Worker { stream, migration, source, destination, shared, told, input: None, output: None, back: None };
            while let Ok(job) = receiver.recv() {
                if catch_unwind(AssertUnwindSafe(|| worker.work(job))).is_err() {
                    // Without a receiver the run has ended already.
                    let _ = tell.send(Told::Panicked);
                    return;
                }
            }
        });
        threads.push(thread.map_err(RunError::Thread)?);
        jobs.push(sender);
    }
    drop(told);
    let mut runner = Runner {
        setup,
        database,
        watcher,
        figures: Figures::new(&pipeline),
        pipeline,
        offers: Offers::new(setup, last),
        lots: BTreeMap::new(),
        stages,
        jobs,
        shared: shared.clone(),
        now: Micros::ZERO,
        looked: Instant::now(),
        wakes_at: None,
        order: Order::Run,
        records: [FailureRecord::default(); 3],
        source_seen: None,
        volumes: BTreeMap::new(),
        failure: None,
        spool_failure: None,
    };
    let result = runner.run(&hears, found);
    let Runner { jobs, figures, .. } = runner;
    shared.stops.store(true, Ordering::Relaxed);
    shared.aborts.store(true, Ordering::Relaxed);
    drop(jobs);
    for thread in threads {
        // A panic was told.
        let _ = thread.join();
    }
    result.map(|()| figures)
}

impl Runner<'_> {
    fn run(&mut self, hears: &Receiver<Told>, found: Vec<Vec<FoundLot>>) -> Result<(), RunError> {
        while self.watcher.order() == Order::Pause {
            thread::sleep(LOOK);
        }
        if self.watcher.order() == Order::Stop {
            return Ok(());
        }
        let latest = (self.now().0 / 1_000_000).saturating_add(self.setup.retry_after.as_secs().max(1));
        self.database.limit_retries(latest)?;
        self.check_destination()?;
        self.check_names()?;
        self.scan_written(hears)?;
        self.go_on_with(found)?;
        if self.watcher.order() == Order::Stop {
            return Ok(());
        }
        self.step(Event::Begun)?;
        while !self.pipeline.has_ended() {
            let order = self.watcher.order();
            if order != self.order {
                self.order = order;
                self.shared.stops.store(order == Order::Stop, Ordering::Relaxed);
                self.step(match order {
                    Order::Run => Event::Resumed,
                    Order::Pause => Event::Paused,
                    Order::Stop => Event::Stopped,
                })?;
                continue;
            }
            let now = self.now();
            if self.wakes_at.is_some_and(|at| at <= now) {
                self.wakes_at = None;
                self.step(Event::Woken)?;
                continue;
            }
            let wait = self.wakes_at.map_or(LOOK, |at| LOOK.min(Duration::from_micros(at.since(now).0)));
            match hears.recv_timeout(wait) {
                Ok(first) => self.hear(std::iter::once(first).chain(hears.try_iter()).collect())?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(RunError::Panicked),
            }
        }
        self.spool_failure.take().map_or(Ok(()), Err)
    }

    /// Records what streams did, in one transaction, and tells the pipeline.
    fn hear(&mut self, told: Vec<Told>) -> Result<(), RunError> {
        let (mut changes, mut ended) = (Vec::new(), Vec::new());
        let had_failed = self.spool_failure.is_some();
        for told in told {
            match told {
                Told::Panicked => {
                    self.failure.get_or_insert(RunError::Panicked);
                }
                Told::Unreachable(stream, reason) => self.watcher.unreachable(self.stages[usize::from(stream.0)], &reason),
                Told::Passed(stage, files) => self.record_early(stage, &files)?,
                Told::Ended(of) => {
                    self.changes(&of, &mut changes)?;
                    ended.push(of);
                }
            }
        }
        self.database.record(&changes)?;
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let stops = self.spool_failure.is_some() && !had_failed;
        for of in ended {
            self.end_stage(*of)?;
        }
        if stops { self.step(Event::Stopped) } else { Ok(()) }
    }

    /// True if the source lists a file of the inventory, or did within the last minute: listing one
    /// may take long, and other streams wait meanwhile.
    fn has_known_files(&mut self) -> Result<bool, RunError> {
        let now = self.now();
        let is_recent = |seen: Micros| now.0.saturating_sub(seen.0) < SEEN_FOR.0;
        if self.source_seen.is_some_and(is_recent) {
            return Ok(true);
        }
        let has = earlier::has_known_files(&*self.setup.source, self.database)?;
        self.source_seen = has.then_some(now);
        Ok(has)
    }

    /// Records files of a lot that is still being handled, so that a kill costs less.
    fn record_early(&mut self, stage: Stage, files: &[Carried]) -> Result<(), RunError> {
        let now_s = self.now().0 / 1_000_000;
        let changes: Vec<_> = files.iter().filter_map(|file| passed(stage, file, now_s)).collect();
        Ok(self.database.record_unsynced(&changes)?)
    }

    /// What the end of a stage changes.
    fn changes(&mut self, ended: &Ended, changes: &mut Vec<(FileId, Change)>) -> Result<(), RunError> {
        let now_s = self.now().0 / 1_000_000;
        changes.extend(ended.passed.iter().filter_map(|file| passed(ended.stage, file, now_s)));
        // All files of a lot are of one volume.
        let row = ended.passed.first().map(|file| &file.row).or_else(|| ended.failed.first().map(|(row, _)| row));
        let volume = row.map(|row| row.volume).filter(|volume| ended.stage == Stage::Input && *volume != NO_VOLUME);
        // A source without any file of the inventory is probably absent, such as the disk of a
        // server that isn't mounted there.
        let has_vanished = volume.is_none() && ended.failed.iter().any(|(_, failure)| failure.kind == FailureKind::Vanished);
        let has_others = has_vanished && self.has_known_files()?;
        let record = match volume {
            Some(volume) => self.volumes.entry(volume).or_default(),
            None => &mut self.records[ended.stage as usize],
        };
        if !ended.passed.is_empty() {
            *record = FailureRecord { has_passed: true, in_a_row: 0 };
        }
        let limit = if record.has_passed { FAILURES_MAX } else { FIRST_FAILURES_MAX };
        for (row, failure) in &ended.failed {
            let reason = match &row.reason {
                // Only a list of digests has it.
                Some(reason) if failure.kind == FailureKind::Vanished && reason == NOT_AT_THE_SOURCE => reason.clone(),
                _ => failure.reason.clone(),
            };
            match failure.kind {
                FailureKind::Spool => {
                    self.spool_failure.get_or_insert(RunError::SpoolFailed(reason));
                    continue;
                }
                // It keeps its state, and the next run goes on with it.
                FailureKind::Stopped => continue,
                FailureKind::Place => {
                    self.failure.get_or_insert(RunError::Unusable { stage: ended.stage, reason });
                    continue;
                }
                // Many may have been removed, and the others can be read all the same.
                FailureKind::Vanished if has_others => {}
                FailureKind::Again | FailureKind::Final | FailureKind::Vanished => record.in_a_row += 1,
                // The file itself is to blame.
                FailureKind::Wrong => {}
            }
            if record.in_a_row >= limit {
                let count = record.in_a_row;
                match volume {
                    // The other volumes may be good.
                    Some(volume) if self.offers.set_aside(volume) => {
                        self.watcher.set_aside(&self.database.volume_name(volume)?, count, &reason);
                    }
                    Some(_) => {}
                    None => {
                        self.failure.get_or_insert(RunError::AllFail { count, stage: ended.stage, reason: reason.clone() });
                    }
                }
                // Nothing has passed, so probably no file is to blame.
                if !record.has_passed {
                    continue;
                }
            }
            let is_final = match failure.kind {
                FailureKind::Final | FailureKind::Wrong => true,
                FailureKind::Vanished => has_others,
                _ => false,
            };
            let is_final = is_final || row.attempts + 1 >= self.setup.tries;
            self.watcher.failed(&row.name, ended.stage, &reason, is_final);
            changes.push((row.id, if is_final { Change::Failed { reason } } else { retry(now_s, self.setup.retry_after, reason) }));
        }
        Ok(())
    }

    fn end_stage(&mut self, ended: Ended) -> Result<(), RunError> {
        let on_its_way = self.lots.get_mut(&ended.lot).expect("a lot being handled is on its way");
        let arrived = ended.passed.iter().filter(|_| ended.stage == Stage::Scan).map(|file| file.row.id);
        arrived.chain(ended.failed.iter().map(|(row, _)| row.id)).for_each(|file| self.offers.left(file));
        let (files, bytes) = (ended.passed.len() as u32, ended.passed.iter().map(|file| file.row.bytes).sum());
        on_its_way.files = ended.passed;
        if ended.stage == Stage::Input {
            on_its_way.spooled = ended.spooled;
        }
        if ended.stage == Stage::Output && ended.failed.iter().any(|(_, failure)| failure.kind == FailureKind::Stopped) {
            // It is not released: the next run goes on with it.
            on_its_way.spooled = None;
        }
        if files == 0 || ended.stage == Stage::Scan {
            self.release(ended.lot);
            self.lots.remove(&ended.lot);
        }
        let moving = Micros(u64::try_from(ended.moving.as_micros()).unwrap_or(u64::MAX));
        let done = Done { stream: ended.stream, lot: ended.lot, files, bytes, moving };
        self.step(match ended.stage {
            Stage::Input => Event::Read(done),
            Stage::Output => Event::Written(done),
            Stage::Scan => Event::Scanned(done),
        })
    }

    /// Lets the pipeline handle an event, and does what it commands.
    fn step(&mut self, event: Event) -> Result<(), RunError> {
        let mut queue = VecDeque::from([Next::Event(event)]);
        let mut commands = Vec::new();
        while let Some(next) = queue.pop_front() {
            let event = match next {
                Next::Event(event) => event,
                Next::Ask(stream, mounted) => self.answer(stream, mounted)?,
            };
            let now = self.now();
            self.pipeline.step(now, event, &mut commands);
            self.figures.observe(now, &event, &self.pipeline);
            let progress = Progress { pipeline: &self.pipeline, figures: &self.figures, totals: self.database.totals()? };
            self.watcher.stepped(now, &event, &commands, &progress).map_err(RunError::Watcher)?;
            for command in commands.drain(..) {
                match command {
                    Command::Ask { stream, mounted } => queue.push_back(Next::Ask(stream, mounted)),
                    Command::Read { stream, lot, spool } => self.begin_read(stream, lot, spool)?,
                    Command::Write { stream, lot, .. } => self.begin_write(stream, lot)?,
                    Command::Scan { stream, lot } => {
                        let files = self.lots[&lot].files.clone();
                        self.give(stream, Job::Scan { lot, files })?;
                    }
                    Command::Release { lot, .. } => self.release(lot),
                    Command::Reject { lot, largest, .. } => self.reject(lot, largest)?,
                    Command::WakeAt(at) => self.wakes_at = Some(at),
                    Command::End => {}
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, stream: StreamId, mounted: Option<SourceVolume>) -> Result<Event, RunError> {
        let now_s = self.now().0 / 1_000_000;
        let in_use = self.pipeline.volumes_in_use(stream).map(|volume| volume.0).collect();
        match self.offers.next(self.database, now_s, mounted, &in_use)? {
            Offer::Lot(lot, rows) => {
                let files = rows.into_iter().map(Carried::new).collect();
                self.lots.insert(lot.id, OnItsWay { files, spooled: None });
                Ok(Event::Offered { stream, lot })
            }
            Offer::Later(again_s) => {
                let again_at = again_s.map(|at| Micros(at.saturating_mul(1_000_000)));
                Ok(Event::NothingOffered { stream, again_at })
            }
        }
    }

    fn begin_read(&mut self, stream: StreamId, lot: LotId, spool: SpoolId) -> Result<(), RunError> {
        let on_its_way = &self.lots[&lot];
        let volume = self.setup.volumes[usize::from(spool.0)].clone();
        let job = Job::Read { lot, files: on_its_way.files.clone(), volume };
        self.give(stream, job)
    }

    fn begin_write(&mut self, stream: StreamId, lot: LotId) -> Result<(), RunError> {
        let on_its_way = &self.lots[&lot];
        let spooled = on_its_way.spooled.clone().expect("a lot that was read is spooled");
        let files = on_its_way.files.clone();
        self.give(stream, Job::Write { lot, files, spooled })
    }

    fn release(&mut self, lot: LotId) {
        if let Some(spooled) = self.lots.get_mut(&lot).and_then(|on_its_way| on_its_way.spooled.take()) {
            spooled.release();
        }
    }

    fn give(&self, stream: StreamId, job: Job) -> Result<(), RunError> {
        self.jobs[usize::from(stream.0)].send(job).map_err(|_| RunError::Panicked)
    }

    /// A lot fits into no spool volume: it is one large file.
    fn reject(&mut self, lot: LotId, largest: u64) -> Result<(), RunError> {
        let on_its_way = self.lots.remove(&lot).expect("it was offered");
        let mut changes = Vec::new();
        for file in on_its_way.files {
            self.offers.left(file.row.id);
            let reason = format!("{} bytes are more than the largest spool volume has room for: {largest} bytes", file.row.bytes);
            self.watcher.failed(&file.row.name, Stage::Input, &reason, true);
            changes.push((file.row.id, Change::Failed { reason }));
        }
        Ok(self.database.record(&changes)?)
    }

    fn now(&mut self) -> Micros {
        let micros = |time: Duration| Micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        let passed = std::mem::replace(&mut self.looked, Instant::now()).elapsed();
        self.now = next_instant(self.now, micros(passed), micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()));
        self.now
    }
}

/// The instant after `last`, once some time has `passed`: what the clock says, unless it was set
/// back. Then time goes on all the same, or nothing would be tried again until the clock catches
/// up.
fn next_instant(last: Micros, passed: Micros, clock: Micros) -> Micros {
    if clock < last { Micros(last.0.saturating_add(passed.0)) } else { clock }
}

/// What changes when a file has passed a stage.
fn passed(stage: Stage, file: &Carried, now_s: u64) -> Option<(FileId, Change)> {
    let change = match stage {
        Stage::Input => return None,
        Stage::Output => {
            let sha256 = file.sha256.clone().expect("a file that was read has its digest");
            let modified = file.modified;
            Change::Written { sha256, modified, stored: file.stored.expect("an output says how a file got there") }
        }
        Stage::Scan => Change::Migrated { at: now_s },
    };
    Some((file.row.id, change))
}

fn retry(now_s: u64, after: Duration, reason: String) -> Change {
    Change::Retry { at: now_s + after.as_secs().max(1), reason }
}

/// The files of a lot, as the offers have them.
type Rows = Vec<FileRow>;
