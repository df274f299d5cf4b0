//! Checks what is due, with a lane for each node.
//!
//! ```text
//!  node A:  queue -> worker, worker, ...  --.                     each lane: own threads, own
//!  node B:  queue -> worker, worker, ...  --+-> recorder          connections, breaker, pace
//!  node C:  queue -> worker, worker, ...  --'     |
//!     ^                                           |  one transaction for all results that wait
//!     '------------- claims ----------------------'
//! ```
//!
//! The recorder is the thread that calls [`run`]; it alone uses the database. Lanes share nothing
//! else: a node that stalls blocks its own workers, and its results are simply fewer. The queue of
//! a lane is short, so memory doesn't depend on the inventory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fulgurite_places::Place;

use crate::copy::{FileId, Method, NodeId, State};
use crate::database::{AuditDatabase, Checked, DatabaseError, Incident};
use crate::node::Node;

mod lane;
mod recorder;
mod watch;
mod worker;

use lane::Lane;
use recorder::Recorder;

/// A node to be checked, with its place.
pub struct Target<'a> {
    /// The node.
    pub node: Node,
    /// Where its copies are.
    pub place: &'a dyn Place,
}

/// When a run ends, unless it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When everything that was due at its start has been tried. A node that keeps failing is given
    /// up.
    AllTried,
    /// Never.
    Stopped,
}

/// The time, handed in so that tests decide it.
pub trait Clock: Sync {
    /// Seconds since 1970, by a clock that may be wrong or jump.
    fn wall(&self) -> u64;
    /// The time since some instant, by a clock that doesn't jump.
    fn steady(&self) -> Duration;
    /// How long a thread that waits may sleep before it looks at the clock, and whether the run was
    /// stopped.
    fn nap(&self) -> Duration {
        Duration::from_millis(200)
    }
}

/// The system's clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    begun: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { begun: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn steady(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Ends a run from another thread: checks that are under way are abandoned, without a result.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Ends the run soon.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if the run is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Hears what happens in a run. Called by the recorder between transactions, so it should be quick.
pub trait Observer {
    /// Results were recorded, durably. `whole` is the time of each from the start of its check to
    /// now.
    fn recorded(&mut self, results: &[Checked], whole: &[Duration]) {
        let _ = (results, whole);
    }

    /// A detector reported something about a node's times.
    fn incident(&mut self, node: &Node, incident: &Incident) {
        let _ = (node, incident);
    }

    /// A node is left alone for a while.
    fn paused(&mut self, node: &Node, pause: Duration, why: &str) {
        let _ = (node, pause, why);
    }

    /// A node was given up for this run.
    fn given_up(&mut self, node: &Node, why: &str) {
        let _ = (node, why);
    }

    /// The wall clock moved by other than the time that passed, in seconds; or, at the start of a
    /// run, copies have dates in the future, which are not trusted.
    fn clock_jumped(&mut self, by: Option<i64>, copies_due_again: u64) {
        let _ = (by, copies_due_again);
    }
}

impl Observer for () {}

/// What a run did at one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSummary {
    /// The node.
    pub node: NodeId,
    /// Checks by what they found.
    pub found: Vec<(State, u64)>,
    /// Bytes read by first readings.
    pub bytes: u64,
    /// Time of first readings, all together.
    pub stream: Duration,
    /// Time from the start of checks to the commit of their results, all together.
    pub whole: Duration,
    /// Why the node was given up, if it was.
    pub given_up: Option<String>,
}

impl NodeSummary {
    /// Checks, all together.
    #[must_use]
    pub fn checks(&self) -> u64 {
        self.found.iter().map(|(_, count)| count).sum()
    }

    /// Checks that found one state.
    #[must_use]
    pub fn count(&self, state: State) -> u64 {
        self.found.iter().find(|(found, _)| *found == state).map_or(0, |(_, count)| *count)
    }
}

/// Why a run failed. What was recorded before stays.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A worker panicked: a fault of this program.
    #[error("a worker of node {node} panicked; its copy was not recorded")]
    Worker {
        /// The node's name.
        node: String,
    },
}

/// Files whose copies are checked, at each node.
pub type Chosen = BTreeMap<NodeId, Vec<FileId>>;

/// Checks copies that are due until there is nothing left to do, or until it is stopped. While an
/// unfinished import holds checks, a run that never ends waits.
///
/// # Errors
/// If the database fails, a worker panics, or an unfinished import holds checks.
pub fn run(
    database: &mut dyn AuditDatabase,
    targets: &[Target<'_>],
    until: Until,
    stop: &Stop,
    clock: &dyn Clock,
    observer: &mut dyn Observer,
) -> Result<Vec<NodeSummary>, RunError> {
    check(database, targets, until, None, stop, clock, observer)
}

/// Checks these copies, due or not, each once. Those that another worker is checking are left out.
///
/// # Errors
/// If the database fails, a worker panics, or an unfinished import holds checks.
pub fn run_files(
    database: &mut dyn AuditDatabase,
    targets: &[Target<'_>],
    chosen: &Chosen,
    stop: &Stop,
    clock: &dyn Clock,
    observer: &mut dyn Observer,
) -> Result<Vec<NodeSummary>, RunError> {
    check(database, targets, Until::AllTried, Some(chosen), stop, clock, observer)
}

fn check(
    database: &mut dyn AuditDatabase,
    targets: &[Target<'_>],
    until: Until,
    chosen: Option<&Chosen>,
    stop: &Stop,
    clock: &dyn Clock,
    observer: &mut dyn Observer,
) -> Result<Vec<NodeSummary>, RunError> {
    // Nothing could be claimed, and the run would end as if nothing were due.
    if until == Until::AllTried && database.unfinished_imports()?.iter().any(|import| import.holds_checks) {
        return Err(DatabaseError::ImportUnfinished.into());
    }
    let lanes = targets.iter().map(|target| Lane::new(&target.node, database)).collect::<Result<Vec<_>, _>>()?;
    let mut recorder = Recorder::new(database, &lanes, until, chosen, clock, observer)?;
    let result = thread::scope(|scope| {
        let (sender, receiver) = channel();
        let mut workers = Vec::new();
        for (target, lane) in targets.iter().zip(&lanes) {
            for _ in 0..target.node.rules.workers.max(1) {
                let sender = sender.clone();
                workers.push((lane, scope.spawn(move || worker::work(lane, target, clock, stop, &sender))));
            }
        }
        drop(sender);
        let result = record_all(&mut recorder, &receiver, stop);
        lanes.iter().for_each(Lane::end);
        // Results of checks that ended meanwhile.
        let rest = result.and_then(|()| recorder.drain(&receiver, stop));
        let mut panicked = None;
        for (lane, worker) in workers {
            if worker.join().is_err() {
                panicked = Some(RunError::Worker { node: lane.node.name.clone() });
            }
        }
        rest.and_then(|()| panicked.map_or(Ok(()), Err))
    });
    result.map(|()| recorder.summaries())
}

/// Records results until all lanes have ended.
fn record_all(recorder: &mut Recorder<'_, '_>, receiver: &Receiver<worker::Message>, stop: &Stop) -> Result<(), RunError> {
    recorder.supply()?;
    while !stop.is_stopped() && !recorder.is_done() {
        match receiver.recv_timeout(recorder.nap()) {
            Ok(message) => recorder.take(message, receiver, stop)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        recorder.supply()?;
    }
    Ok(())
}

/// A key of the sums of whole times.
type WholeTimes = Vec<(NodeId, Method, u64, State, Duration)>;

#[cfg(test)]
mod tests;
