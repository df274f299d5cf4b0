//! The threads that decode, and the tasks that wait for them.
//!
//! ```text
//! reader --tasks--> DecodeQueue: whose turn --> thread --> decodes, or hands over to other workers
//!    '<---------------------- results ------------'                        |
//!                                 '<---------------------------------------'
//! ```
//!
//! Readers block until all of their tasks are done. No thread of the pool ever waits for a reader,
//! or for the result of a task, so any number of readers can wait without a deadlock. A task that
//! was handed over is kept until its result has come: if it comes late or never, a thread decodes
//! it here.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fulgurite_decode::{Class, DecodeQueue, Job, Policy, Settings};
use fulgurite_domain::Micros;

use super::Clock;

/// Work of a sector, for the plan of the hour: that of a sector of the `desk` preset.
const SECTOR_WORK: Micros = Micros(50_000);
/// How long a task may be elsewhere before it is decoded here.
const AWAY_MAX: Duration = Duration::from_secs(150);
/// Interval at which threads look for a new hour and for tasks that are away too long.
const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// Interval at which a reader that waits for a cheaper hour asks whether to go on waiting.
const STOP_CHECK_PERIOD: Duration = Duration::from_millis(200);

/// Some sectors to be decoded together.
pub(crate) trait Task: Send + Sync + Sized + 'static {
    /// What a sector becomes.
    type Output: Send + 'static;
    /// What a thread keeps from task to task.
    type Tools;
    /// Number of sectors; at least 1.
    fn sectors(&self) -> usize;
    /// Decodes all sectors; `None` for a lost one.
    fn decode(&self, tools: &mut Self::Tools) -> Vec<Option<Self::Output>>;
    /// The task of decoding some of its sectors.
    fn part(&self, indices: &[usize]) -> Self;
}

/// Workers other than the threads of the pool.
pub(crate) trait Workers<T: Task>: Send + Sync {
    /// True if they would begin another task soon.
    fn have_room(&self) -> bool;
    /// Tasks that they decode at once.
    fn threads(&self) -> usize;
    /// Hands a task over. Its result comes by [`Tasks::returned`]. Returns `false` if the task has
    /// to be decoded here.
    fn hand_over(&self, number: u64, class: Class, task: &T) -> bool;
    /// False if the thread that passes tasks and results on gives no sign of life: it may hang.
    fn respond(&self) -> bool;
}

/// What the decode service did since the archive was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecodeTotals {
    /// Sectors decoded by this process, with those that it lost.
    pub sectors_here: u64,
    /// Sectors decoded by workers.
    pub sectors_elsewhere: u64,
    /// Sectors whose images gave no bytes. The codes of tracks and sets replace them.
    pub sectors_lost: u64,
    /// Tasks that workers were given and did not decode, or not correctly.
    pub taken_back: u64,
    /// Tasks that wait for a thread or are at workers.
    pub waiting: u64,
}

#[derive(Default)]
struct Counters {
    here: AtomicU64,
    elsewhere: AtomicU64,
    lost: AtomicU64,
    taken_back: AtomicU64,
}

/// Results of the tasks of one reader.
struct Call<O> {
    state: Mutex<CallState<O>>,
    done: Condvar,
}

struct CallState<O> {
    results: Vec<Option<O>>,
    open: usize,
}

struct Pending<T: Task> {
    task: Arc<T>,
    class: Class,
    call: Arc<Call<T::Output>>,
    /// Where the results of its sectors go.
    places: Vec<usize>,
    /// Must be decoded by this process.
    is_local: bool,
}

struct State<T: Task> {
    queue: DecodeQueue,
    waiting: HashMap<u64, Pending<T>>,
    /// Readers that wait until computing is cheap enough, and then submit their tasks.
    turns: HashMap<u64, Arc<Call<()>>>,
    /// Tasks that were handed over.
    away: HashMap<u64, (Pending<T>, Instant)>,
    next_number: u64,
    is_stopping: bool,
}

/// The tasks of a pool, shared with its threads.
pub(crate) struct Tasks<T: Task> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    clock: Arc<dyn Clock>,
    policy: Policy,
    /// Makes the tools of a thread.
    tools: Box<dyn Fn() -> T::Tools + Send + Sync>,
    threads_max: usize,
    workers: OnceLock<Arc<dyn Workers<T>>>,
    counters: Counters,
}

/// Decodes tasks on a bounded number of threads. Dropping it ends them.
pub(crate) struct Pool<T: Task> {
    tasks: Arc<Tasks<T>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<T: Task> Pool<T> {
    /// A pool of up to `threads` threads, which start with the first task. `tools` makes those of a
    /// thread.
    pub(crate) fn new(
        settings: Settings,
        threads: usize,
        clock: Arc<dyn Clock>,
        tools: impl Fn() -> T::Tools + Send + Sync + 'static,
    ) -> Self {
        let policy = settings.policy;
        let state = State {
            queue: DecodeQueue::new(settings),
            waiting: HashMap::new(),
            turns: HashMap::new(),
            away: HashMap::new(),
            next_number: 0,
            is_stopping: false,
        };
        let tasks = Tasks {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            clock,
            policy,
            tools: Box::new(tools),
            threads_max: threads.max(1),
            workers: OnceLock::new(),
            counters: Counters::default(),
        };
        Self { tasks: Arc::new(tasks), threads: Mutex::default() }
    }

    /// Adds other workers. Only the first call does something.
    pub(crate) fn set_workers(&self, workers: Arc<dyn Workers<T>>) {
        let _ = self.tasks.workers.set(workers);
    }

    /// For other workers to return tasks to.
    pub(crate) fn tasks(&self) -> Weak<Tasks<T>> {
        Arc::downgrade(&self.tasks)
    }

    pub(crate) fn totals(&self) -> DecodeTotals {
        let Counters { here, elsewhere, lost, taken_back } = &self.tasks.counters;
        let state = self.tasks.lock();
        let waiting = (state.waiting.len() + state.away.len()) as u64;
        drop(state);
        DecodeTotals {
            sectors_here: here.load(Ordering::Relaxed),
            sectors_elsewhere: elsewhere.load(Ordering::Relaxed),
            sectors_lost: lost.load(Ordering::Relaxed),
            taken_back: taken_back.load(Ordering::Relaxed),
            waiting,
        }
    }

    /// The current time.
    pub(crate) fn now(&self) -> Micros {
        self.tasks.clock.now()
    }

    /// Decodes tasks. They are due at once: only their class decides whose turn it is. Returns the
    /// results of each task, in order; `None` for lost sectors.
    pub(crate) fn decode(&self, class: Class, tasks: Vec<T>) -> Vec<Vec<Option<T::Output>>> {
        let lengths: Vec<usize> = tasks.iter().map(Task::sectors).collect();
        if !self.start() {
            let mut tools = (self.tasks.tools)();
            return tasks.iter().map(|task| self.tasks.decode_here(task, &mut tools)).collect();
        }
        let sectors = lengths.iter().sum();
        let call = Arc::new(Call::new(sectors));
        let mut first = 0;
        // All at once, so that a thread that takes one knows that others wait.
        let mut state = self.tasks.lock();
        for task in tasks {
            let places: Vec<usize> = (first..first + task.sectors()).collect();
            first += places.len();
            let pending = Pending { task: Arc::new(task), class, call: call.clone(), places, is_local: false };
            self.tasks.submit(&mut state, pending);
        }
        drop(state);
        let mut results = call.wait().into_iter();
        lengths.into_iter().map(|length| results.by_ref().take(length).collect()).collect()
    }

    /// Waits until the schedule allows work on this many sectors, due by `deadline`. Asks `goes_on`
    /// again and again while it waits, and returns once that is false.
    pub(crate) fn wait_until_cheap(&self, sectors: u32, deadline: Micros, goes_on: &dyn Fn() -> bool) {
        if self.tasks.policy == Policy::AtOnce || !self.start() {
            return;
        }
        let turn = Arc::new(Call::new(1));
        let number = self.tasks.submit_turn(sectors, deadline, turn.clone());
        while !turn.is_done_within(STOP_CHECK_PERIOD) {
            if !goes_on() {
                self.tasks.withdraw_turn(number);
                return;
            }
        }
    }

    /// Starts the threads. `false` if the system doesn't allow any.
    fn start(&self) -> bool {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        while threads.len() < self.tasks.threads_max {
            let tasks = self.tasks.clone();
            match std::thread::Builder::new().name("decode".to_owned()).spawn(move || tasks.work()) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        !threads.is_empty()
    }
}

impl<T: Task> Drop for Pool<T> {
    fn drop(&mut self) {
        self.tasks.lock().is_stopping = true;
        self.tasks.arrived.notify_all();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = thread.join();
        }
    }
}

impl<O> Call<O> {
    fn new(sectors: usize) -> Self {
        let state = CallState { results: (0..sectors).map(|_| None).collect(), open: sectors };
        Self { state: Mutex::new(state), done: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, CallState<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, results: impl IntoIterator<Item = (usize, Option<O>)>) {
        let mut state = self.lock();
        for (place, result) in results {
            state.results[place] = result;
            state.open -= 1;
        }
        if state.open == 0 {
            self.done.notify_all();
        }
    }

    fn is_done_within(&self, time: Duration) -> bool {
        let waited = self.done.wait_timeout_while(self.lock(), time, |state| state.open > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.open == 0
    }

    fn wait(&self) -> Vec<Option<O>> {
        let state = self.done.wait_while(self.lock(), |state| state.open > 0);
        std::mem::take(&mut state.unwrap_or_else(PoisonError::into_inner).results)
    }
}

impl<T: Task> Tasks<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, state: &mut State<T>, pending: Pending<T>) {
        let sectors = pending.task.sectors() as u32;
        let now = self.clock.now();
        let number = self.queue(state, pending.class, now, sectors, now);
        state.waiting.insert(number, pending);
    }

    /// Queues a reader that waits for its turn. Returns its number.
    fn submit_turn(&self, sectors: u32, deadline: Micros, turn: Arc<Call<()>>) -> u64 {
        let mut state = self.lock();
        let number = self.queue(&mut state, Class::Deferrable, self.clock.now(), sectors, deadline);
        state.turns.insert(number, turn);
        number
    }

    /// Forgets a reader that no longer waits, so that no hour is planned for its work.
    fn withdraw_turn(&self, number: u64) {
        let mut state = self.lock();
        if state.turns.remove(&number).is_some() {
            state.queue.withdraw(self.clock.now(), number);
        }
    }

    /// Queues a job, and wakes a thread. Returns the job's number.
    fn queue(&self, state: &mut State<T>, class: Class, now: Micros, sectors: u32, deadline: Micros) -> u64 {
        let number = state.next_number;
        state.next_number += 1;
        let work = Micros(SECTOR_WORK.0 * u64::from(sectors.max(1)));
        let job = Job { id: number, class, ready: now, work, width: sectors.max(1), deadline };
        state.queue.submit(now, job).expect("any number of jobs may wait");
        self.arrived.notify_one();
        number
    }

    /// The loop of a thread.
    fn work(&self) {
        let mut tools = (self.tools)();
        while let Some((number, pending, may_be_handed_over)) = self.next() {
            if may_be_handed_over && self.hand_over(number, &pending) {
                continue;
            }
            let results = self.decode_here(&pending.task, &mut tools);
            // Another thread may have found it overdue meanwhile and queued it again.
            let Some(pending) = self.reclaim(number, may_be_handed_over, pending) else { continue };
            let lost = results.iter().filter(|result| result.is_none()).count();
            self.counters.here.fetch_add(results.len() as u64, Ordering::Relaxed);
            self.counters.lost.fetch_add(lost as u64, Ordering::Relaxed);
            pending.call.finish(pending.places.iter().copied().zip(results));
        }
    }

    /// Takes a task back that could not be handed over. `None` if that was done already.
    fn reclaim(&self, number: u64, was_away: bool, pending: Pending<T>) -> Option<Pending<T>> {
        if !was_away {
            return Some(pending);
        }
        self.lock().away.remove(&number).map(|(pending, _)| pending)
    }

    /// Waits for the task whose turn it is. `None` once the pool is dropped. The flag is true if
    /// other workers have room for the task: then it already counts as away.
    fn next(&self) -> Option<(u64, Pending<T>, bool)> {
        let mut state = self.lock();
        loop {
            if state.is_stopping {
                return None;
            }
            self.take_back_overdue(&mut state);
            while let Some(job) = state.queue.next(self.clock.now()) {
                if let Some(turn) = state.turns.remove(&job.id) {
                    turn.finish([(0, Some(()))]);
                }
                let Some(pending) = state.waiting.remove(&job.id) else { continue };
                let may_be_handed_over = self.may_be_handed_over(&state, &pending);
                if may_be_handed_over {
                    state.away.insert(job.id, (pending.clone(), Instant::now()));
                }
                // A new hour may have made several tasks due, and woke only this thread.
                if state.queue.waiting() > 0 {
                    self.arrived.notify_one();
                }
                return Some((job.id, pending, may_be_handed_over));
            }
            let needs_check = state.queue.waiting() > 0 || !state.away.is_empty();
            state = match needs_check {
                true => self.arrived.wait_timeout(state, CHECK_PERIOD).unwrap_or_else(PoisonError::into_inner).0,
                false => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn may_be_handed_over(&self, state: &State<T>, pending: &Pending<T>) -> bool {
        // Workers could lie. What clients read is checked against tags and digests that they can't
        // forge; the rest decides about platters, and has only checksums.
        if pending.is_local || pending.class != Class::Read {
            return false;
        }
        let Some(workers) = self.workers.get().filter(|workers| workers.have_room()) else { return false };
        // The last tasks are done soonest here: a reader shouldn't wait for workers while these
        // threads have nothing to do.
        workers.threads() * state.waiting.len() >= self.threads_max * (state.away.len() + 1)
    }

    /// Decodes a task. If it panics, all of its sectors are lost.
    fn decode_here(&self, task: &T, tools: &mut T::Tools) -> Vec<Option<T::Output>> {
        let decoded = catch_unwind(AssertUnwindSafe(|| task.decode(tools)));
        let mut decoded = decoded.unwrap_or_else(|_| {
            // What a panic left behind is not to be trusted.
            *tools = (self.tools)();
            Vec::new()
        });
        decoded.resize_with(task.sectors(), || None);
        decoded
    }

    fn hand_over(&self, number: u64, pending: &Pending<T>) -> bool {
        let Some(workers) = self.workers.get() else { return false };
        catch_unwind(AssertUnwindSafe(|| workers.hand_over(number, pending.class, &pending.task))).unwrap_or(false)
    }

    /// Takes back tasks that are away for too long, or all if the workers don't respond.
    fn take_back_overdue(&self, state: &mut State<T>) {
        if state.away.is_empty() {
            return;
        }
        let respond = self.workers.get().is_some_and(|workers| workers.respond());
        let is_overdue = |(_, since): &(Pending<T>, Instant)| !respond || since.elapsed() > AWAY_MAX;
        let overdue: Vec<u64> = state.away.iter().filter(|(_, away)| is_overdue(away)).map(|(number, _)| *number).collect();
        for number in overdue {
            self.take_back_from(state, number);
        }
    }

    fn take_back_from(&self, state: &mut State<T>, number: u64) {
        if let Some((pending, _)) = state.away.remove(&number) {
            self.counters.taken_back.fetch_add(1, Ordering::Relaxed);
            self.submit(state, Pending { is_local: true, ..pending });
        }
    }

    /// True if a task that was handed over is still wanted.
    pub(crate) fn is_away(&self, number: u64) -> bool {
        self.lock().away.contains_key(&number)
    }

    /// Takes back a task that other workers don't decode.
    pub(crate) fn take_back(&self, number: u64) {
        self.take_back_from(&mut self.lock(), number);
    }

    /// Takes the results of a task from other workers. Sectors that they lost are decoded here: a
    /// faulty worker must not make a sector look lost. Ignores results of a task that was taken
    /// back.
    pub(crate) fn returned(&self, number: u64, results: Vec<Option<T::Output>>) {
        let mut state = self.lock();
        let Some((pending, _)) = state.away.remove(&number) else { return };
        let lost: Vec<usize> = results.iter().enumerate().filter(|(_, result)| result.is_none()).map(|(index, _)| index).collect();
        let done: Vec<(usize, Option<T::Output>)> =
            pending.places.iter().copied().zip(results).filter(|(_, result)| result.is_some()).collect();
        if !lost.is_empty() {
            let places = lost.iter().map(|&index| pending.places[index]).collect();
            let task = Arc::new(pending.task.part(&lost));
            self.submit(&mut state, Pending { task, places, is_local: true, ..pending.clone() });
        }
        drop(state);
        self.counters.elsewhere.fetch_add(done.len() as u64, Ordering::Relaxed);
        pending.call.finish(done);
    }
}

impl<T: Task> Clone for Pending<T> {
    fn clone(&self) -> Self {
        let Self { task, class, call, places, is_local } = self;
        Self { task: task.clone(), class: *class, call: call.clone(), places: places.clone(), is_local: *is_local }
    }
}

#[cfg(test)]
mod tests;
