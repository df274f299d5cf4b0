//! Runs a load: threads with clients, for as long as it lasts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::{sleep_until, timeout};

use crate::figures::Window;
use crate::objects::{Mix, Objects, Operation, Random, Task};
use crate::process::Process;
use crate::target::{Client, Done, Place, Target, TargetError};
use crate::{Figures, Usage};

/// The slowest rate that an operation may have, besides [`Load::patience`]: bytes a second.
const SLOWEST_BYTES_S: u64 = 1_000_000;
/// A client waits this long after a failure, as SDKs do.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Tries to put an object that a load needs, each after twice the pause of the one before: a server
/// may be busy for a moment.
const PREPARE_TRIES: u32 = 5;

/// When requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Each client begins its next request when the last one has ended.
    Closed,
    /// At random instants, at this many a second on average (a Poisson process). The time of a
    /// request counts from its instant, although all clients may be busy then.
    Open(f64),
}

/// How long a load lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// As long as this.
    Time(Duration),
    /// This many operations, of which a bulk put is one.
    Operations(u64),
    /// Until it is stopped.
    UntilStopped,
}

/// A load.
#[derive(Debug, Clone)]
pub struct Load {
    /// What clients do.
    pub mix: Mix,
    /// Objects that a client puts with one request; more than 1 makes it a bulk put, which only
    /// Fulgurite's servers have.
    pub bulk: u64,
    /// Requests that can be open at once.
    pub clients: usize,
    /// When requests come.
    pub pace: Pace,
    /// How long it lasts. Operations that have begun are finished and count.
    pub length: Length,
    /// How long a window is.
    pub window: Duration,
    /// How long an operation may take, plus a second for each MB.
    pub patience: Duration,
    /// Threads that share the clients.
    pub threads: usize,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// What came of a load.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// From the start to the end of the last operation, in seconds.
    pub seconds: f64,
    /// What each operation did, in the order of [`Operation::ALL`].
    pub operations: [Figures; 4],
    /// The same over time. The last one may be shorter.
    pub windows: Vec<Window>,
    /// What the server's process used, if it can be measured.
    pub server: Option<Usage>,
    /// What this process used.
    pub own: Usage,
    /// Whether it was stopped before its end.
    pub was_stopped: bool,
    /// Requests of an open loop that were due when it was stopped and had not been sent.
    pub unsent: u64,
    /// Whether it ended early because no object was left to read, replace or delete.
    pub ran_out: bool,
}

/// Receives the progress of a load.
pub trait Progress {
    /// A window is over.
    fn window(&mut self, window: &Window) {
        let _ = window;
    }
    /// Of the objects that a load needs, this many of all exist now.
    fn prepared(&mut self, objects: u64, of: u64) {
        let _ = (objects, of);
    }
}

impl Progress for () {}

impl Load {
    /// Carries out an operation, for as long as the load has patience.
    async fn perform(&self, client: &mut Client, task: &Task, objects: &Objects) -> Result<Done, String> {
        let bytes: u64 = match task.objects {
            1 => task.content.bytes,
            _ => (task.content.number..task.content.number + task.objects).map(|number| objects.first(number).bytes).sum(),
        };
        let patience = self.patience + Duration::from_micros(bytes / (SLOWEST_BYTES_S / 1_000_000));
        timeout(patience, client.perform(task, objects)).await.unwrap_or_else(|_| Err("timeout".to_owned()))
    }

    /// Puts objects that the load needs: all of them, or it fails.
    async fn prepare(&self, client: &mut Client, task: &Task, objects: &Objects) -> Result<(), String> {
        let done = self.perform(client, task, objects).await?;
        done.failures.into_iter().next().map_or(Ok(()), Err)
    }
}

impl Target {
    /// Creates what objects are put into: the bucket or the folder, unless it exists.
    ///
    /// # Errors
    /// [`TargetError`] if that fails, or takes longer than `patience`.
    pub fn create(&self, patience: Duration) -> Result<(), TargetError> {
        match &self.place {
            Place::Files(folder) => std::fs::create_dir_all(folder).map_err(|source| TargetError::Folder { path: folder.clone(), source }),
            Place::Server(server) => {
                let created = alone(async {
                    match self.client() {
                        Client::Connection(mut connection) => {
                            timeout(patience, connection.create_bucket()).await.unwrap_or_else(|_| Err("timeout".to_owned()))
                        }
                        Client::Files(_) => Ok(()),
                    }
                });
                created.map_err(|why| TargetError::Bucket {
                    endpoint: server.endpoint().to_owned(),
                    bucket: server.bucket().to_owned(),
                    why,
                })
            }
        }
    }

    /// Puts the objects that a load needs: all with numbers below `count`. Setting `stop` ends that
    /// early.
    ///
    /// # Errors
    /// [`TargetError::Prepare`] if one can't be put after several tries.
    pub fn prepare(
        &self,
        load: &Load,
        objects: &Objects,
        count: u64,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<(), TargetError> {
        let next = AtomicU64::new(0);
        let (send, receive) = channel();
        let put = || -> Result<(), TargetError> {
            alone(async {
                let mut client = self.client();
                loop {
                    let number = next.fetch_add(load.bulk, Ordering::Relaxed);
                    if number >= count || stop.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    let content = objects.first(number);
                    let task = Task { operation: Operation::Ingest, content, objects: load.bulk.min(count - number) };
                    let mut tries = 1;
                    while let Err(why) = load.prepare(&mut client, &task, objects).await {
                        if tries == PREPARE_TRIES {
                            next.store(count, Ordering::Relaxed);
                            return Err(TargetError::Prepare { target: self.name.clone(), number, of: count, why });
                        }
                        client = self.client();
                        tokio::time::sleep(AFTER_FAILURE * (1 << (tries - 1))).await;
                        tries += 1;
                    }
                    let _ = send.send(task.objects);
                }
            })
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..load.clients.min(16)).map(|_| scope.spawn(put)).collect();
            let mut done = 0;
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                if let Ok(objects) = receive.recv_timeout(Duration::from_millis(100)) {
                    done += objects + receive.try_iter().sum::<u64>();
                    progress.prepared(done, count);
                }
            }
            threads.into_iter().try_for_each(|thread| thread.join().expect("clients don't panic"))
        })
    }
}

/// Runs a future on a single-threaded runtime of its own.
pub(crate) fn alone<T>(what: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a thread can have a runtime");
    LocalSet::new().block_on(&runtime, what)
}

/// The same for a future that uses no sockets. Such a runtime takes no file descriptors, of which a
/// process may not have enough for thousands.
fn alone_without_sockets<T>(what: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime without sockets needs nothing");
    LocalSet::new().block_on(&runtime, what)
}

/// Plays a load against a target, and reports each window to `progress`. Setting `stop` ends it
/// early.
pub fn play(load: &Load, target: &Target, objects: &Objects, progress: &mut dyn Progress, stop: &AtomicBool) -> Run {
    let server = target.process();
    let [server_before, own_before] = [server, Some(Process::own())].map(|process| process.and_then(Process::usage));
    // Clients of a folder block their threads.
    let threads = if target.blocks() { load.clients } else { load.threads.clamp(1, load.clients) };
    let begin = Instant::now();
    let arrivals = match load.pace {
        Pace::Closed => None,
        Pace::Open(rate) => {
            let mean = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX / 1_000);
            Some(Mutex::new(Arrivals { next: begin, mean, random: Random::new(!load.seed), unsent: 0 }))
        }
    };
    let ran_out = AtomicBool::new(false);
    let shared =
        Shared { load, target, objects, stop, begin, begun: AtomicU64::new(0), ran_out, arrivals, stopped: OnceLock::new(), threads };
    let (send, receive) = channel();
    let mut run = std::thread::scope(|scope| {
        for number in 0..threads {
            let (shared, send) = (&shared, send.clone());
            scope.spawn(move || match target.blocks() {
                true => alone_without_sockets(thread(shared, number, send)),
                false => alone(thread(shared, number, send)),
            });
        }
        drop(send);
        collect(&shared, &receive, server, progress)
    });
    run.seconds = shared.begin.elapsed().as_secs_f64();
    run.ran_out = shared.ran_out.load(Ordering::Relaxed);
    run.was_stopped = load.length != Length::UntilStopped && stop.load(Ordering::Relaxed);
    if let Some(stopped) = shared.stopped.get() {
        run.unsent = shared.arrivals().map_or(0, |mut arrivals| arrivals.count_unsent(*stopped));
    }
    let used = |before: Option<Usage>, after: Option<Usage>| Some(Usage { cpu_s: after?.cpu_s - before?.cpu_s, ..after? });
    run.server = used(server_before, server.and_then(Process::usage)).map(|usage| {
        let most = run.windows.iter().filter_map(|window| window.server_memory).max().unwrap_or(0);
        Usage { memory: usage.memory.max(most), ..usage }
    });
    run.own = used(own_before, Process::own().usage()).unwrap_or_default();
    run
}

/// What all threads of a load share.
struct Shared<'a> {
    load: &'a Load,
    target: &'a Target,
    objects: &'a Objects,
    stop: &'a AtomicBool,
    begin: Instant,
    begun: AtomicU64,
    ran_out: AtomicBool,
    /// Of an open loop. All clients share them, so that the next one that is free takes the next
    /// arrival, whichever thread it is on.
    arrivals: Option<Mutex<Arrivals>>,
    /// When a client first saw that the load was stopped.
    stopped: OnceLock<Instant>,
    threads: usize,
}

impl Shared<'_> {
    /// Whether another operation begins, at this instant.
    fn goes_on(&self, at: Instant) -> bool {
        let goes_on = match self.load.length {
            Length::Time(time) => at < self.begin + time,
            Length::Operations(count) => self.begun.fetch_add(1, Ordering::Relaxed) < count,
            Length::UntilStopped => true,
        };
        goes_on && !self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        let is_stopped = self.stop.load(Ordering::Relaxed);
        if is_stopped {
            self.stopped.get_or_init(Instant::now);
        }
        is_stopped
    }

    /// A poisoned lock is usable: it guards plain numbers.
    fn arrivals(&self) -> Option<MutexGuard<'_, Arrivals>> {
        self.arrivals.as_ref().map(|arrivals| arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn window_at(&self, at: Instant) -> usize {
        (at.duration_since(self.begin).as_secs_f64() / self.load.window.as_secs_f64()) as usize
    }
}

/// What a thread has measured in one window.
struct Part {
    thread: usize,
    window: usize,
    /// The window that it is in now; none if it has ended.
    next: Option<usize>,
    operations: [Figures; 4],
}

/// The measurements of a thread in the current window.
struct Recorder {
    thread: usize,
    window: usize,
    operations: [Figures; 4],
    send: Sender<Part>,
}

impl Recorder {
    /// Goes on to a window, or ends.
    fn turn_to(&mut self, next: Option<usize>) {
        if next.is_none_or(|next| next > self.window) {
            let operations = std::mem::take(&mut self.operations);
            let _ = self.send.send(Part { thread: self.thread, window: self.window, next, operations });
            self.window = next.unwrap_or(self.window);
        }
    }
}

/// The instants of an open loop.
struct Arrivals {
    /// The last one that was drawn.
    next: Instant,
    mean: Duration,
    random: Random,
    /// Clients that were due to begin one when they saw that the load was stopped.
    unsent: u64,
}

impl Arrivals {
    fn next(&mut self) -> Instant {
        self.next += self.mean.mul_f64(self.random.exponential());
        self.next
    }

    /// How many were due at this instant and have not begun, drawn or not.
    fn count_unsent(&mut self, at: Instant) -> u64 {
        while self.next() <= at {
            self.unsent += 1;
        }
        self.unsent
    }
}

async fn thread(shared: &Shared<'_>, number: usize, send: Sender<Part>) {
    let (load, threads) = (shared.load, shared.threads);
    let recorder = Rc::new(RefCell::new(Recorder { thread: number, window: 0, operations: Default::default(), send }));
    let seed = load.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
    let clients = (0..load.clients).filter(|client| client % threads == number);
    let clients: FuturesUnordered<_> = clients.map(|index| client(shared, index, seed, recorder.clone())).collect();
    let windows = async {
        loop {
            tokio::time::sleep(load.window).await;
            recorder.borrow_mut().turn_to(Some(shared.window_at(Instant::now())));
        }
    };
    tokio::select! {
        () = clients.collect() => {}
        () = windows => {}
    }
    recorder.borrow_mut().turn_to(None);
}

async fn client(shared: &Shared<'_>, index: usize, seed: u64, recorder: Rc<RefCell<Recorder>>) {
    let (load, objects) = (shared.load, shared.objects);
    let mut random = Random::new(seed ^ (index as u64) << 32);
    let mut client = shared.target.client();
    loop {
        let mut begin = Instant::now();
        let arrival = shared.arrivals().map(|mut arrivals| arrivals.next());
        if let Some(at) = arrival {
            if !shared.goes_on(at) {
                if at <= begin && shared.is_stopped() {
                    shared.arrivals().into_iter().for_each(|mut arrivals| arrivals.unsent += 1);
                }
                return;
            }
            if at > begin {
                // Timers are late by up to a millisecond, which isn't the server's time.
                sleep_until(at.into()).await;
                begin = Instant::now();
            } else {
                begin = at;
            }
            if shared.is_stopped() {
                return;
            }
        } else if !shared.goes_on(begin) {
            return;
        }
        let Some(task) = objects.next(&load.mix, load.bulk, &mut random) else {
            shared.ran_out.store(true, Ordering::Relaxed);
            return;
        };
        let outcome = load.perform(&mut client, &task, objects).await;
        let is_broken = outcome.is_err();
        let is_failed = outcome.as_ref().map_or(true, |done| !done.failures.is_empty());
        let now = Instant::now();
        {
            let mut recorder = recorder.borrow_mut();
            recorder.turn_to(Some(shared.window_at(now)));
            let figures = &mut recorder.operations[task.operation.index()];
            match outcome {
                Ok(done) => {
                    figures.succeeded(now.duration_since(begin), done.objects, done.bytes);
                    done.failures.into_iter().for_each(|kind| figures.failed(kind));
                }
                Err(kind) => (0..task.objects).for_each(|_| figures.failed(kind.clone())),
            }
        }
        if is_broken {
            // A connection whose answer was cut off is of no use.
            client = shared.target.client();
        }
        if is_failed {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }
}

/// Adds up the windows of all threads, and tells of each that is complete.
fn collect(shared: &Shared<'_>, parts: &Receiver<Part>, server: Option<Process>, progress: &mut dyn Progress) -> Run {
    let mut run = Run::default();
    let length = shared.load.window.as_secs_f64();
    let mut open: BTreeMap<usize, [Figures; 4]> = BTreeMap::new();
    // The window that each thread is in.
    let mut windows = vec![Some(0); shared.threads];
    let mut memory = None;
    while windows.iter().any(Option::is_some) {
        match parts.recv_timeout(shared.load.window) {
            Ok(Part { thread, window, next, operations }) => {
                let all = open.entry(window).or_default();
                for ((all, total), part) in all.iter_mut().zip(&mut run.operations).zip(&operations) {
                    all.add(part);
                    total.add(part);
                }
                windows[thread] = next;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        memory = server.and_then(Process::usage).map(|usage| usage.memory).or(memory);
        let complete = windows.iter().map(|window| window.unwrap_or(usize::MAX)).min().unwrap_or(usize::MAX);
        let end = shared.begin.elapsed().as_secs_f64();
        while let Some((window, operations)) = open.first_key_value().filter(|(window, _)| **window < complete) {
            let at_s = *window as f64 * length;
            let told = Window::new(at_s, (end - at_s).clamp(1e-6, length), operations, memory);
            progress.window(&told);
            // Notes when.
            shared.is_stopped();
            run.windows.push(told);
            open.pop_first();
        }
    }
    run
}
