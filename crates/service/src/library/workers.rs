//! Workers that do for the library what may wait for a disk.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_journal::{Fact, Stock};
use fulgurite_library::{CommandId, Event};
use fulgurite_live::{Ended, Events, JournalEnd, Motions, Read, Verify};
use tokio::sync::watch;

use super::flights::{Flight, Flights};
use super::motions::Reporter;
use super::turns::Turns;
use super::waiting::Cause;
use super::{Library, Machine, lock};
use crate::gateway::Gateway;
use crate::state::{Restore, StateError};
use crate::traces::Traces;

/// Threads that read for drives.
const WORKERS: usize = 3;
/// How often restores that had to wait are tried again.
pub(super) const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// How long the server waits for the library's thread when it stops. That takes milliseconds, or as
/// long as the disk of the journal takes.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);

/// What a worker does.
pub(super) enum Job {
    /// A drive was told to read.
    Read(Read),
    /// A drive verifies a platter that the scrub doesn't want to read any more.
    VerifiedUnread(CommandId),
    /// A request has ended.
    Ended(Ended),
    /// There is a state to keep.
    Keep,
    JournalEnded(JournalEnd),
    /// The library's thread has panicked.
    Panicked(Box<dyn Any + Send>),
    Stop,
}

/// What takes long, and must not keep drives waiting.
pub(super) enum SlowJob {
    /// Restores an object without the library.
    Direct(Box<Restore>, Box<VersionRow>),
    /// Reads a whole object after its request has ended.
    Finish(Arc<Flight>, Ended),
    Stop,
}

/// The lane of slow jobs.
pub(super) struct SlowLane {
    pub(super) jobs: Sender<SlowJob>,
    pub(super) received: Mutex<Receiver<SlowJob>>,
}

impl Default for SlowLane {
    fn default() -> Self {
        let (jobs, received) = channel();
        Self { jobs, received: Mutex::new(received) }
    }
}

/// Hands the library's events to the workers.
pub(super) struct ToWorkers {
    pub(super) jobs: Sender<Job>,
    pub(super) to_keep: Arc<Mutex<Option<Stock>>>,
    pub(super) turns: Arc<Turns>,
    pub(super) flights: Arc<Flights>,
    pub(super) reporter: Reporter,
    pub(super) traces: Option<Arc<Traces>>,
}

impl ToWorkers {
    fn send(&self, job: Job) {
        // When the server has stopped, there is nothing left to do.
        let _ = self.jobs.send(job);
    }
}

impl Events for ToWorkers {
    fn read(&mut self, read: Read) {
        if let Some(traces) = &self.traces {
            traces.reading(&read);
        }
        self.send(Job::Read(read));
    }

    fn verify(&mut self, verify: Verify) {
        if !self.turns.begin(&verify) {
            self.send(Job::VerifiedUnread(verify.command));
        }
    }

    fn interrupted(&mut self, verify: Verify) {
        self.turns.interrupt(&verify);
    }

    fn ended(&mut self, ended: Ended) {
        match self.turns.end(&ended) {
            None => self.send(Job::Ended(ended)),
            Some(command) => command.into_iter().for_each(|command| self.send(Job::VerifiedUnread(command))),
        }
    }

    fn keep(&mut self, stock: Stock) {
        if lock(&self.to_keep).replace(stock).is_none() {
            self.send(Job::Keep);
        }
    }

    fn fact(&mut self, fact: &Fact) {
        if let Some(traces) = &self.traces {
            traces.fact(fact);
        }
        if let Fact::Happened { event: Event::Repaired { .. }, .. } = fact {
            self.flights.note_repair();
        }
    }

    fn is_watched(&self) -> bool {
        self.reporter.readers().exist()
    }

    fn moved(&mut self, motions: Motions) {
        self.reporter.report(&motions);
    }

    fn journal_ended(&mut self, why: JournalEnd) {
        self.send(Job::JournalEnded(why));
    }

    fn panicked(&mut self, panic: Box<dyn Any + Send>) {
        self.reporter.readers().end();
        self.send(Job::Panicked(panic));
    }
}

/// Runs the workers until `stop` is set, then stops the library and keeps its last state.
pub(crate) async fn run_workers(gateway: Arc<Gateway>, mut stop: watch::Receiver<bool>) {
    let worker = |work: fn(&Gateway, &Library)| {
        let gateway = gateway.clone();
        tokio::task::spawn_blocking(move || gateway.library.as_ref().map(|library| work(&gateway, library)))
    };
    let mut workers: Vec<_> = (0..WORKERS).map(|_| worker(work)).collect();
    workers.push(worker(work_slowly));
    let blocking = async |what: fn(&Gateway)| {
        let worker = gateway.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || what(&worker)).await {
            gateway.log_panic("the library", error);
        }
    };
    let mut looked = Instant::now();
    while !*stop.borrow() {
        blocking(Gateway::submit_restores).await;
        let Some(library) = &gateway.library else { break };
        if looked.elapsed() >= RETRY_PERIOD {
            looked = Instant::now();
            if library.flights.retry_if_repaired() {
                library.repaired.notify_one();
            }
            library.retry_keeping();
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_PERIOD) => {}
            () = library.flights.wake.notified() => {}
            _ = stop.changed() => {}
        }
    }
    blocking(|gateway| {
        let Some(library) = &gateway.library else { return };
        library.is_stopping.store(true, Ordering::Relaxed);
        library.readers.end();
        if !library.runner.stop(STOPPED_WITHIN) {
            tracing::error!("the library's thread doesn't stop; the next start continues from the state recorded last");
        }
        if let Err(error) = gateway.keep_library(library) {
            tracing::error!(%error, "can't record the last state of the library; the next start continues from an earlier one");
        }
        (0..WORKERS).for_each(|_| drop(library.own_jobs.send(Job::Stop)));
        drop(library.flights.slow.jobs.send(SlowJob::Stop));
    })
    .await;
    for worker in workers {
        if let Err(error) = worker.await {
            gateway.log_panic("a worker of the library", error);
        }
    }
}

fn work(gateway: &Gateway, library: &Library) {
    loop {
        let Ok(job) = lock(&library.jobs).recv() else { return };
        let read = if let Job::Read(read) = &job { Some(*read) } else { None };
        let ended = if let Job::Ended(ended) = &job { Some(ended.request) } else { None };
        match (&job, library.is_stopping()) {
            (Job::Stop, _) => return,
            // The next start requests it again.
            (Job::Read(_) | Job::Ended(_), true) => continue,
            _ => {}
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| gateway.do_job(library, job))) {
            gateway.panicked("a worker of the library", &*panic);
            // The drive must not wait forever, nor others behind it.
            if let Some(read) = read {
                library.flights.note_failure(read.request);
                library.runner.bytes_read(read.command);
            }
            if let Some(request) = ended {
                gateway.give_up(library, request);
            }
        }
    }
}

fn work_slowly(gateway: &Gateway, library: &Library) {
    loop {
        let Ok(job) = lock(&library.flights.slow.received).recv() else { return };
        if library.is_stopping() || matches!(job, SlowJob::Stop) {
            return;
        }
        let (direct, request) = match &job {
            SlowJob::Direct(restore, _) => (Some(restore.id), None),
            SlowJob::Finish(flight, _) => (None, Some(flight.request)),
            SlowJob::Stop => (None, None),
        };
        let done = catch_unwind(AssertUnwindSafe(|| match job {
            SlowJob::Direct(restore, row) => gateway.restore_directly(library, &restore, &row),
            SlowJob::Finish(flight, ended) => gateway.finish_slowly(library, &flight, &ended),
            SlowJob::Stop => {}
        }));
        if let Err(panic) = done {
            gateway.panicked("a restore", &*panic);
            if let Some(id) = direct {
                library.flights.later(id, Cause::Error);
            }
            request.into_iter().for_each(|request| gateway.give_up(library, request));
        }
    }
}

impl Gateway {
    /// Records the state of the library that was handed over last, unless that was done. A state
    /// that can't be recorded stays to be recorded.
    fn keep_library(&self, library: &Library) -> Result<(), StateError> {
        // An older state must not replace a newer one.
        let _guard = lock(&library.keeping);
        let Some(stock) = lock(&library.to_keep).take() else { return Ok(()) };
        let kept = self.state.keep_library(&stock.to_string());
        if kept.is_err() {
            lock(&library.to_keep).get_or_insert(stock);
        }
        kept
    }

    /// Puts a machine out of order until it is repaired, or repairs it. When this returns, that is
    /// recorded.
    ///
    /// # Errors
    /// Says why that can't be done.
    pub(crate) fn change_machine(&self, machine: Machine, is_repaired: bool) -> Result<(), String> {
        let library = self.library.as_ref().ok_or("the server has no library: see [library] in service.toml")?;
        let actor = machine.into();
        let changed = if is_repaired { library.runner.repair(actor) } else { library.runner.break_down(actor) };
        changed.ok_or("the library has stopped, or doesn't answer; see the server's log")?.map_err(|wrong| wrong.to_string())?;
        self.keep_library(library).map_err(|error| format!("it is done, but can't be recorded yet, and a restart may undo it: {error}"))
    }

    fn do_job(&self, library: &Library, job: Job) {
        match job {
            Job::Read(read) => self.read_for_drive(library, &read),
            Job::VerifiedUnread(command) => library.runner.bytes_read(command),
            Job::Ended(ended) => self.end_request(library, ended),
            Job::Keep => {
                if let Err(error) = self.keep_library(library) {
                    tracing::error!(%error, "can't record the state of the library; after a crash it continues from an earlier one");
                }
            }
            Job::JournalEnded(why) => {
                library.journal_ended.store(true, Ordering::Relaxed);
                match why {
                    JournalEnd::Full => {
                        tracing::warn!(
                            "the library's journal has reached journal_mib and ends; the next start of the server begins another"
                        );
                    }
                    JournalEnd::Failed(error) => {
                        tracing::error!(%error, "the library's journal can't be written; the library goes on without one");
                    }
                }
            }
            Job::Panicked(panic) => {
                self.panicked("the library", &*panic);
                self.health.liveness.fail("the library's thread has panicked");
            }
            Job::Stop => {}
        }
    }
}
