//! Runs a live library against the clock, on a thread of its own.
//!
//! The thread waits for nothing but the clock and its inputs: reads, ends and the stock to keep are
//! handed to [`Events`], and another thread writes the journal. Library time passes `time_scale`
//! times as fast as real time, and begins at 0 with each start.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fulgurite_domain::Micros;
use fulgurite_journal::{Detail, Fact, Header, Stock, Subject};
use fulgurite_library::{Actor, CommandId, RegionPlatter, RequestId, Shard};
use fulgurite_viewer::{Entries, Recording};

use crate::journal_file::{JournalEnd, JournalFile, JournalSettings};
use crate::{Ended, LiveLibrary, Outside, Plan, Read, Verify, View, WrongMachine};

/// Events that are handled before inputs are looked at again, if the library lags behind.
const EVENTS_AT_ONCE: usize = 10_000;
/// How long a caller waits for an answer. It comes at once, unless something is very wrong.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// What a running library tells the program. The calls come from the library's thread, so they must
/// not wait.
pub trait Events: Send + 'static {
    /// A drive has been told to read; [`Runner::bytes_read`] answers.
    fn read(&mut self, read: Read);
    /// A drive has been told to verify a platter whose verification was requested;
    /// [`Runner::bytes_read`] answers.
    fn verify(&mut self, verify: Verify);
    /// A drive verifies no longer, although it has not read all tracks.
    fn interrupted(&mut self, verify: Verify);
    /// A request has ended.
    fn ended(&mut self, ended: Ended);
    /// The state from which another run can take up the work. Only the latest counts.
    fn keep(&mut self, stock: Stock);
    /// An input or output of the controllers.
    fn fact(&mut self, fact: &Fact) {
        let _ = fact;
    }
    /// Whether anyone watches the library.
    fn is_watched(&self) -> bool;
    /// What could be seen since the last call; empty if nothing moved. It comes only while the
    /// library is watched.
    fn moved(&mut self, motions: Motions);
    /// The journal ends. The library goes on.
    fn journal_ended(&mut self, why: JournalEnd);
    /// The library's thread has panicked.
    fn panicked(&mut self, panic: Box<dyn std::any::Any + Send>);
}

/// What could be seen of a library since the last motions.
#[derive(Debug)]
pub struct Motions {
    /// Motions follow each other without gaps in these numbers, while the library is watched.
    pub number: u64,
    /// The library's time.
    pub now: Micros,
    /// What could be seen.
    pub entries: Entries,
}

/// What can be seen of a library at an instant.
#[derive(Debug)]
pub struct Picture {
    /// Number of the first motions that it doesn't include.
    pub next: u64,
    /// The present state.
    pub recording: Recording,
}

/// How a library is run.
#[derive(Debug, Clone)]
pub struct RunnerSettings {
    /// How much faster than real time it runs; more than 0.
    pub time_scale: f64,
    /// How often the stock is kept, in real time, while anything changes.
    pub keep_every: Duration,
    /// How often motions are reported, in real time, while the library is watched.
    pub report_every: Duration,
    /// The journal, if one is written.
    pub journal: Option<JournalSettings>,
    /// Seed of the emulated machines.
    pub seed: u64,
}

/// A library on its thread. Dropping it stops the library; [`Runner::stop`] also waits.
#[derive(Debug)]
pub struct Runner {
    inputs: Sender<Input>,
    thread: Mutex<Option<Thread>>,
}

/// The library's thread, and what is disconnected when it ends.
#[derive(Debug)]
struct Thread {
    handle: JoinHandle<()>,
    ended: Receiver<()>,
}

#[derive(Debug)]
enum Input {
    Request { request: RequestId, shards: Vec<Shard>, due_in: Option<Duration> },
    Hasten { request: RequestId, due_in: Duration },
    Verify { request: RequestId, platter: RegionPlatter },
    TakeIn(Vec<RegionPlatter>),
    BytesRead(CommandId),
    BreakDown(Actor, SyncSender<Result<(), WrongMachine>>),
    Repair(Actor, SyncSender<Result<(), WrongMachine>>),
    View(SyncSender<View>),
    Picture(SyncSender<Picture>),
    Stop,
}

impl Runner {
    /// Takes up the work of a library. If its journal can't be created, it goes on without one, and
    /// tells [`Events::journal_ended`].
    ///
    /// # Errors
    /// If a thread can't be started.
    pub fn start(plan: Arc<Plan>, stock: Stock, settings: &RunnerSettings, mut events: impl Events) -> io::Result<Self> {
        let header = Header::new(Subject::Library, plan.description(&stock), settings.seed, Detail::Commands);
        let created = settings.journal.clone().map(|journal| JournalFile::create(journal, &header)).transpose();
        let journal = created.unwrap_or_else(|error| {
            events.journal_ended(error.into());
            None
        });
        let (inputs, received) = channel();
        let mut running = Running {
            clock: Clock { start: Instant::now(), scale: settings.time_scale },
            written: stock.written,
            keep_every: settings.keep_every,
            kept_at: Instant::now(),
            kept: None,
            report_every: settings.report_every,
            reported_at: Instant::now(),
            reports: 0,
            outside: Connections { events, journal, is_changed: true },
            inputs: received,
        };
        let seed = settings.seed;
        let (is_alive, ended) = channel();
        let handle = std::thread::Builder::new().name("library".to_owned()).spawn(move || {
            let _is_alive: Sender<()> = is_alive;
            let ran = catch_unwind(AssertUnwindSafe(|| running.run(&plan, &stock, seed)));
            if let Err(panic) = ran {
                running.outside.events.panicked(panic);
            }
        })?;
        Ok(Self { inputs, thread: Mutex::new(Some(Thread { handle, ended })) })
    }

    /// Starts a request. Its number must be that of no open request. `due_in` is real time.
    pub fn request(&self, request: RequestId, shards: Vec<Shard>, due_in: Option<Duration>) {
        self.send(Input::Request { request, shards, due_in });
    }

    /// Makes a request due sooner, unless it has ended. `due_in` is real time.
    pub fn hasten(&self, request: RequestId, due_in: Duration) {
        self.send(Input::Hasten { request, due_in });
    }

    /// Starts a request to read all tracks of a platter when drives have nothing else to do. Its
    /// number must be that of no open request.
    pub fn verify(&self, request: RequestId, platter: RegionPlatter) {
        self.send(Input::Verify { request, platter });
    }

    /// Platters have left the write rack: whole sets, in order of their numbers. Those that the
    /// library has are ignored.
    pub fn take_in(&self, platters: Vec<RegionPlatter>) {
        self.send(Input::TakeIn(platters));
    }

    /// The bytes of a read or verification are there, or it is known that this platter doesn't have
    /// them.
    pub fn bytes_read(&self, command: CommandId) {
        self.send(Input::BytesRead(command));
    }

    /// Puts a machine out of order until it is repaired. `None` if the library has stopped or
    /// doesn't answer. The state after it was handed to [`Events::keep`] before this returns.
    ///
    /// # Errors
    /// As for [`LiveLibrary::break_down`].
    #[must_use]
    pub fn break_down(&self, actor: Actor) -> Option<Result<(), WrongMachine>> {
        self.ask(|reply| Input::BreakDown(actor, reply))
    }

    /// Repairs a machine. `None` if the library has stopped or doesn't answer. The state after it
    /// was handed to [`Events::keep`] before this returns.
    ///
    /// # Errors
    /// As for [`LiveLibrary::repair`].
    #[must_use]
    pub fn repair(&self, actor: Actor) -> Option<Result<(), WrongMachine>> {
        self.ask(|reply| Input::Repair(actor, reply))
    }

    /// What can be seen of the library now; `None` if it has stopped or doesn't answer.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        self.ask(Input::View)
    }

    /// What can be seen now; `None` if the library has stopped or doesn't answer. A caller that
    /// [watches](Events::is_watched) before it asks misses no motions.
    #[must_use]
    pub fn picture(&self) -> Option<Picture> {
        self.ask(Input::Picture)
    }

    /// Stops the library, after its last state was handed to [`Events::keep`]. Returns false if it
    /// has not stopped within this time.
    #[must_use]
    pub fn stop(&self, within: Duration) -> bool {
        self.send(Input::Stop);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let has_ended = |thread: &mut Thread| thread.ended.recv_timeout(within) == Err(RecvTimeoutError::Disconnected);
        if let Some(Thread { handle, .. }) = thread.take_if(has_ended) {
            // A panic was reported to `Events`.
            let _ = handle.join();
        }
        thread.is_none()
    }

    fn ask<T>(&self, input: impl FnOnce(SyncSender<T>) -> Input) -> Option<T> {
        let (reply, answer) = sync_channel(1);
        self.send(input(reply));
        answer.recv_timeout(ANSWER_WITHIN).ok()
    }

    fn send(&self, input: Input) {
        // After a panic, which `Events` was told, the input has no receiver.
        let _ = self.inputs.send(input);
    }
}

/// Library time.
struct Clock {
    start: Instant,
    scale: f64,
}

impl Clock {
    fn now(&self) -> Micros {
        Micros::from_seconds(self.start.elapsed().as_secs_f64() * self.scale)
    }

    fn library_time(&self, real: Duration) -> Micros {
        Micros::from_seconds(real.as_secs_f64() * self.scale)
    }

    fn real_time(&self, library: Micros) -> Duration {
        Duration::try_from_secs_f64(library.seconds() / self.scale).unwrap_or(Duration::MAX)
    }
}

/// The library's thread.
struct Running<E> {
    clock: Clock,
    written: u32,
    keep_every: Duration,
    kept_at: Instant,
    kept: Option<Stock>,
    report_every: Duration,
    reported_at: Instant,
    reports: u64,
    outside: Connections<E>,
    inputs: Receiver<Input>,
}

impl<E: Events> Running<E> {
    fn run(&mut self, plan: &Arc<Plan>, stock: &Stock, seed: u64) {
        let mut library = LiveLibrary::start(plan.clone(), stock, seed, &mut self.outside);
        loop {
            let is_caught_up = library.advance(self.clock.now(), EVENTS_AT_ONCE, &mut self.outside);
            if self.kept_at.elapsed() >= self.keep_every {
                self.keep(&library);
                if !self.outside.events.is_watched() {
                    // Nothing of it is reported.
                    library.take_motions();
                }
            }
            let is_watched = self.outside.events.is_watched();
            if is_watched && self.reported_at.elapsed() >= self.report_every {
                self.report(&mut library);
            }
            let next = library.next_at().map_or(self.keep_every, |at| self.clock.real_time(at.since(library.now())));
            let most = if is_watched { self.report_every } else { self.keep_every };
            let wait = if is_caught_up { next.min(most) } else { Duration::ZERO };
            let mut input = match self.inputs.recv_timeout(wait) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Input::Stop),
            };
            if input.is_some() {
                library.advance(self.clock.now(), EVENTS_AT_ONCE, &mut self.outside);
            }
            while let Some(taken) = input.take() {
                if !self.take(taken, &mut library) {
                    self.keep(&library);
                    if let Some(journal) = self.outside.journal.take()
                        && let Err(error) = journal.finish(library.now())
                    {
                        self.outside.events.journal_ended(error.into());
                    }
                    return;
                }
                input = self.inputs.try_recv().ok();
            }
        }
    }

    /// Takes an input. Returns false if the library is to stop.
    fn take(&mut self, input: Input, library: &mut LiveLibrary) -> bool {
        match input {
            Input::Request { request, shards, due_in } => {
                let deadline = due_in.map_or(Micros::NEVER, |due_in| library.now() + self.clock.library_time(due_in));
                library.request(request, shards, deadline, &mut self.outside);
            }
            Input::Hasten { request, due_in } => {
                library.hasten(request, library.now() + self.clock.library_time(due_in), &mut self.outside);
            }
            Input::Verify { request, platter } => library.verify(request, platter, &mut self.outside),
            Input::TakeIn(platters) => {
                for platter in platters {
                    self.written = self.written.max(platter.0 + 1);
                    library.take_in(platter, &mut self.outside);
                }
            }
            Input::BytesRead(command) => library.bytes_read(command, &mut self.outside),
            // The caller may have gone.
            Input::BreakDown(actor, reply) => {
                let result = library.break_down(actor);
                self.keep_now(library);
                let _ = reply.try_send(result);
            }
            Input::Repair(actor, reply) => {
                let result = library.repair(actor, &mut self.outside);
                self.keep_now(library);
                let _ = reply.try_send(result);
            }
            Input::View(reply) => drop(reply.try_send(library.view(self.written))),
            Input::Picture(reply) => {
                self.report(library);
                drop(reply.try_send(Picture { next: self.reports, recording: library.picture() }));
            }
            Input::Stop => return false,
        }
        true
    }

    fn report(&mut self, library: &mut LiveLibrary) {
        self.reported_at = Instant::now();
        let motions = Motions { number: self.reports, now: library.now(), entries: library.take_motions() };
        self.reports += 1;
        self.outside.events.moved(motions);
    }

    /// Hands the state over, so that the caller of a command can record it.
    fn keep_now(&mut self, library: &LiveLibrary) {
        self.outside.is_changed = true;
        self.keep(library);
    }

    fn keep(&mut self, library: &LiveLibrary) {
        self.kept_at = Instant::now();
        if !std::mem::take(&mut self.outside.is_changed) {
            return;
        }
        let stock = library.stock(self.written);
        if self.kept.as_ref() != Some(&stock) {
            self.outside.events.keep(stock.clone());
            self.kept = Some(stock);
        }
    }
}

/// Where the library's outputs go.
struct Connections<E> {
    events: E,
    journal: Option<JournalFile>,
    /// Whether anything has happened since the stock was kept.
    is_changed: bool,
}

impl<E: Events> Outside for Connections<E> {
    fn read(&mut self, read: Read) {
        self.events.read(read);
    }

    fn verify(&mut self, verify: Verify) {
        self.events.verify(verify);
    }

    fn interrupted(&mut self, verify: Verify) {
        self.events.interrupted(verify);
    }

    fn ended(&mut self, ended: Ended) {
        self.events.ended(ended);
    }

    fn fact(&mut self, fact: Fact) {
        self.is_changed = true;
        self.events.fact(&fact);
        if let Some(journal) = &self.journal
            && let Err(why) = journal.add(fact)
        {
            self.journal = None;
            self.events.journal_ended(why);
        }
    }
}
