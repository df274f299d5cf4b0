//! The benchmark matrix: known files are read from each node on schedule, to see how long it takes.
//!
//! ```text
//!              access   audit        access: by a presigned URL, as a user's download
//!   node A       x        x          audit:  as an audit reads, with the place's own protocol
//!   node B       x        x
//!   node C                x          each x: known files, one after another
//! ```
//!
//! Each node has a thread of its own, so one that stalls delays no other. A reading uses a new
//! connection and covers connecting, asking, reading and digesting. It is compared with an expected
//! time, base + bytes x slope, that the operator states or that is learned, and shown to the
//! [detector](crate::slowdown) of its node and kind. It is no evidence: a copy that looks wrong
//! here is only made due for its regular check.
//!
//! Source: the benchmark matrix of the California Digital Library (2025).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::copy::{FileId, NodeId};
use crate::database::{AuditDatabase, Benchmark, BenchmarkRecord, DatabaseError, ExpectedTime, Incident};
use crate::expectation::Outcome;
use crate::node::Node;
use crate::run::{Clock, Stop, Target, Until};
use crate::series::Probe;
use crate::slowdown::Check;

mod measure;
#[cfg(test)]
mod tests;
mod times;

use measure::Measured;
use times::Times;
pub(crate) use times::expectation;

/// The database is asked again after this time for what is due: a benchmark may have been added.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// The wall clock may be corrected by this much.
const TOLERANCE_S: u64 = 60;

/// Hears what happens.
pub trait Observer {
    /// A reading was recorded, durably.
    fn recorded(&mut self, node: &Node, benchmark: &Benchmark, record: &BenchmarkRecord) {
        let _ = (node, benchmark, record);
    }

    /// A reading was interrupted by the end of the run. It is due again.
    fn interrupted(&mut self, node: &Node, benchmark: &Benchmark) {
        let _ = (node, benchmark);
    }

    /// The expected time of a node was learned.
    fn learned(&mut self, node: &Node, time: &ExpectedTime) {
        let _ = (node, time);
    }

    /// A detector reported something about a node's times.
    fn incident(&mut self, node: &Node, incident: &Incident) {
        let _ = (node, incident);
    }
}

impl Observer for () {}

/// Reads what is due, or with `all` every benchmark once, from the nodes of `targets`. With
/// [`Until::Stopped`], it goes on with whatever becomes due.
///
/// # Errors
/// If the database fails. Readings that were recorded stay.
pub fn run(
    database: &mut dyn AuditDatabase,
    targets: &[Target<'_>],
    until: Until,
    all: bool,
    stop: &Stop,
    clock: &dyn Clock,
    observer: &mut dyn Observer,
) -> Result<(), DatabaseError> {
    let times = Times::load(database, targets.iter().map(|target| &target.node))?;
    let (done, results) = channel();
    thread::scope(|scope| {
        let readers = targets.iter().enumerate().map(|(index, target)| {
            let (jobs, queue) = channel();
            let done = done.clone();
            scope.spawn(move || read_all(index, target, &queue, stop, &done));
            Reader { target, jobs, is_busy: false }
        });
        let mut leader = Leader { database, readers: readers.collect(), until, stop, clock, observer, times, pending: Vec::new() };
        if all {
            leader.pending = leader.database.benchmarks()?.iter().map(key).collect();
        }
        // The readers end once the leader is gone.
        leader.lead(&results)
    })
}

type Key = (NodeId, FileId, Probe);

fn key(benchmark: &Benchmark) -> Key {
    (benchmark.node, benchmark.file, benchmark.probe)
}

/// A reading, by the index of its node. `None` if it was stopped.
type Done = (usize, Box<Claimed>, Option<Measured>);

/// A benchmark that is being read.
struct Claimed {
    benchmark: Benchmark,
    /// When the reading after this one is due.
    next: u64,
}

fn read_all(index: usize, target: &Target<'_>, queue: &Receiver<Box<Claimed>>, stop: &Stop, done: &Sender<Done>) {
    for claimed in queue {
        let benchmark = &claimed.benchmark;
        // A fault of this program at one node must not end the readings of others.
        let measured = catch_unwind(AssertUnwindSafe(|| {
            measure::measure(target.place, benchmark.probe, &benchmark.location, &benchmark.expected, stop)
        }));
        let measured = measured.unwrap_or_else(|_| {
            let detail = "the reading itself failed; this is a fault of the program".into();
            Some(Measured { outcome: Outcome::Unanswered, timing: None, bytes: 0, time: Duration::ZERO, detail })
        });
        // The leader ends first only if the database failed.
        if done.send((index, claimed, measured)).is_err() {
            return;
        }
    }
}

/// A node's thread.
struct Reader<'a> {
    target: &'a Target<'a>,
    jobs: Sender<Box<Claimed>>,
    is_busy: bool,
}

struct Leader<'a> {
    database: &'a mut dyn AuditDatabase,
    readers: Vec<Reader<'a>>,
    until: Until,
    stop: &'a Stop,
    clock: &'a dyn Clock,
    observer: &'a mut dyn Observer,
    times: Times,
    /// What is to be read although it isn't due.
    pending: Vec<Key>,
}

impl Leader<'_> {
    fn lead(&mut self, results: &Receiver<Done>) -> Result<(), DatabaseError> {
        let started_at = self.clock.wall();
        let mut ask_at = Duration::ZERO;
        loop {
            let mut is_more_due = true;
            if !self.stop.is_stopped() && self.clock.steady() >= ask_at {
                let limit = if self.until == Until::AllTried { started_at } else { self.clock.wall() };
                let next;
                (is_more_due, next) = self.hand_out(limit)?;
                let wait = next.map_or(ASK_AGAIN, |next| Duration::from_secs(next.saturating_sub(self.clock.wall())));
                ask_at = self.clock.steady() + wait.min(ASK_AGAIN);
            }
            let is_idle = self.readers.iter().all(|reader| !reader.is_busy);
            if is_idle && (self.stop.is_stopped() || (self.until == Until::AllTried && !is_more_due)) {
                return Ok(());
            }
            match results.recv_timeout(self.clock.nap()) {
                Ok((index, claimed, measured)) => {
                    self.readers[index].is_busy = false;
                    match measured {
                        Some(measured) => self.take(index, &claimed.benchmark, measured)?,
                        None => {
                            self.database.release_benchmark(&claimed.benchmark, claimed.next)?;
                            self.observer.interrupted(&self.readers[index].target.node, &claimed.benchmark);
                        }
                    }
                    ask_at = Duration::ZERO;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The readers outlive this loop.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Gives each idle node its longest due benchmark. Returns true if anything is due, or given,
    /// and when something else becomes due.
    fn hand_out(&mut self, limit: u64) -> Result<(bool, Option<u64>), DatabaseError> {
        let (mut due, later): (Vec<_>, Vec<_>) =
            self.database.benchmarks()?.into_iter().partition(|benchmark| self.is_due(benchmark, limit));
        let is_ours = |benchmark: &&Benchmark| self.readers.iter().any(|reader| reader.target.node.id == benchmark.node);
        let next = later.iter().filter(is_ours).map(|benchmark| benchmark.due_at).min();
        due.sort_by_key(|benchmark| benchmark.due_at);
        let mut is_any = false;
        for index in 0..self.readers.len() {
            let node = self.readers[index].target.node.id;
            for benchmark in due.iter().filter(|benchmark| benchmark.node == node) {
                is_any = true;
                if self.readers[index].is_busy {
                    break;
                }
                self.pending.retain(|pending| *pending != key(benchmark));
                let next = self.clock.wall().saturating_add(benchmark.every.as_secs());
                // Another process may have been quicker.
                if self.database.claim_benchmark(benchmark, next)? {
                    self.readers[index].is_busy =
                        self.readers[index].jobs.send(Box::new(Claimed { benchmark: benchmark.clone(), next })).is_ok();
                }
            }
        }
        Ok((is_any, next))
    }

    fn is_due(&self, benchmark: &Benchmark, limit: u64) -> bool {
        // Later than its interval allows: it was dated by a clock that was wrong.
        let latest = self.clock.wall().saturating_add(benchmark.every.as_secs()).saturating_add(TOLERANCE_S);
        benchmark.due_at <= limit || benchmark.due_at > latest || self.pending.contains(&key(benchmark))
    }

    /// Records a reading. What a detector says of it comes first: a report that is repeated after a
    /// crash is better than one that is lost.
    fn take(&mut self, index: usize, benchmark: &Benchmark, measured: Measured) -> Result<(), DatabaseError> {
        let node = &self.readers[index].target.node;
        let times = (benchmark.node, benchmark.probe);
        let at = self.clock.wall();
        let bytes = benchmark.expected.bytes.unwrap_or(measured.bytes);
        let (expected_s, verdict) = self.times.judge(times, bytes, measured.outcome);
        let check = measured.timing.map(|timing| Check { at_s: at, bytes, timing });
        let (incident, detector) = check.map_or((None, None), |check| self.times.observe(times, check));
        if let Some(incident) = incident {
            self.database.record_incidents(&[incident])?;
            self.observer.incident(node, &incident);
        }
        let record = BenchmarkRecord {
            record: 0,
            node: benchmark.node,
            file: benchmark.file,
            probe: benchmark.probe,
            at,
            bytes: measured.bytes,
            measured: measured.time,
            expected_s,
            verdict,
            detail: measured.detail,
        };
        self.database.record_benchmark(&record, detector.as_ref())?;
        self.observer.recorded(node, benchmark, &record);
        if let Some(time) = self.times.learn(self.database, times)? {
            self.observer.learned(node, &time);
        }
        Ok(())
    }
}
