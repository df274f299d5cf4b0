//! The recorder: gives claims to lanes, and writes results.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use fulgurite_digest::Digest;

use super::lane::Lane;
use super::watch::Watch;
use super::worker::Message;
use super::{Chosen, Clock, NodeSummary, Observer, RunError, Stop, Until, WholeTimes};
use crate::copy::{FileId, NodeId, State};
use crate::database::{AuditDatabase, Checked, Claim, DatabaseError, Incident};
use crate::node::DAY_S;

/// Claims that may wait in a lane at first.
const QUEUE: usize = 512;
/// The most that may wait in a lane whose workers would else run out of them: while the recorder
/// commits, it supplies no lane.
const QUEUE_MAX: usize = 4_096;
/// The most bytes of names and digests in a queue that grows.
const QUEUE_BYTES_MAX: usize = 2 << 20;
/// Results of one transaction.
const MOST_RESULTS: usize = 4_096;
/// Results that come within this time share a commit.
const BETWEEN_COMMITS: Duration = Duration::from_millis(20);
/// The recorder looks for results at least this often while it gathers them.
const GATHER_SLICE: Duration = Duration::from_millis(4);
/// If no more claims than these are open, the run may be about to end.
const FEW_OPEN: usize = 64;
/// Pauses in a row after which a node is given up, if the run is to end.
const PAUSES: u32 = 3;
/// Where nothing is due, the database is asked again after this time: an inventory may have been
/// imported.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// The wall clock may differ by this much from the time that passed.
const TOLERANCE_S: i64 = 60;

pub(super) struct Recorder<'a, 'b> {
    database: &'a mut dyn AuditDatabase,
    lanes: Vec<Tracked<'a>>,
    until: Until,
    clock: &'b dyn Clock,
    observer: &'a mut dyn Observer,
    started_at: u64,
    /// The wall clock and the steady one when they were last compared.
    compared: (u64, Duration),
    whole_times: BTreeMap<(usize, u64, State), Duration>,
    watch: Watch,
    /// When results were last committed. A real time: the cost of a commit is real, too.
    committed: Instant,
}

struct Tracked<'a> {
    lane: &'a Lane,
    /// Files whose copies are still to be claimed, if the run checks these only.
    chosen: Option<&'a [FileId]>,
    /// Claims that were handed out and have no result yet.
    open: usize,
    /// Claims that may wait in the lane.
    queue: usize,
    ask_at: Duration,
    is_done: bool,
    summary: NodeSummary,
    found: BTreeMap<State, u64>,
}

impl<'a, 'b> Recorder<'a, 'b> {
    pub(super) fn new(
        database: &'a mut dyn AuditDatabase,
        lanes: &'a [Lane],
        until: Until,
        chosen: Option<&'a Chosen>,
        clock: &'b dyn Clock,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, RunError> {
        let tracked = |lane: &'a Lane| Tracked {
            lane,
            chosen: chosen.map(|chosen| chosen.get(&lane.node.id).map_or(&[][..], Vec::as_slice)),
            open: 0,
            queue: QUEUE,
            ask_at: Duration::ZERO,
            is_done: false,
            summary: NodeSummary {
                node: lane.node.id,
                found: Vec::new(),
                bytes: 0,
                stream: Duration::ZERO,
                whole: Duration::ZERO,
                given_up: None,
            },
            found: BTreeMap::new(),
        };
        let watch = Watch::new(database, lanes.iter().map(|lane| &lane.node))?;
        let started_at = clock.wall();
        let mut recorder = Self {
            database,
            lanes: lanes.iter().map(tracked).collect(),
            until,
            clock,
            observer,
            started_at,
            compared: (started_at, clock.steady()),
            whole_times: BTreeMap::new(),
            watch,
            committed: Instant::now(),
        };
        recorder.distrust_future(None)?;
        Ok(recorder)
    }

    /// Makes copies due whose dates lie in the future.
    fn distrust_future(&mut self, jump: Option<i64>) -> Result<(), RunError> {
        let now = self.clock.wall();
        let mut due_again = 0;
        for tracked in &self.lanes {
            let node = &tracked.lane.node;
            // A regular copy is due at most one interval from now; a day allows for corrections of
            // the clock.
            let latest = now.saturating_add(node.rules.interval.as_secs()).saturating_add(DAY_S);
            due_again += self.database.make_due(node.id, now, latest)?;
        }
        if jump.is_some() || due_again > 0 {
            self.observer.clock_jumped(jump, due_again);
        }
        Ok(())
    }

    fn compare_clocks(&mut self) -> Result<(), RunError> {
        let (wall, steady) = (self.clock.wall(), self.clock.steady());
        let passed = i64::try_from((steady - self.compared.1).as_secs()).unwrap_or(i64::MAX);
        let jump = wall.cast_signed().saturating_sub(self.compared.0.cast_signed()).saturating_sub(passed);
        if jump.abs() > TOLERANCE_S {
            self.compared = (wall, steady);
            self.distrust_future(Some(jump))?;
        } else if passed > TOLERANCE_S * 10 {
            self.compared = (wall, steady);
        }
        Ok(())
    }

    pub(super) fn nap(&self) -> Duration {
        self.clock.nap()
    }

    pub(super) fn is_done(&self) -> bool {
        self.lanes.iter().all(|tracked| tracked.is_done)
    }

    /// Gives claims to lanes that have few, and ends lanes that are done.
    pub(super) fn supply(&mut self) -> Result<(), RunError> {
        self.compare_clocks()?;
        self.database.renew_claims()?;
        let now = self.clock.steady();
        for tracked in &mut self.lanes {
            if tracked.is_done {
                continue;
            }
            let node = &tracked.lane.node;
            if let Some((pause, why, pauses)) = tracked.lane.new_pause() {
                if self.until == Until::AllTried && pauses >= PAUSES {
                    self.observer.given_up(node, &why);
                    tracked.summary.given_up = Some(why);
                    let unused = tracked.lane.abandoned();
                    tracked.open -= unused.len();
                    self.database.release(&unused)?;
                    tracked.lane.end();
                    tracked.is_done = true;
                    continue;
                }
                self.observer.paused(node, pause, &why);
            }
            let waiting = tracked.lane.waiting();
            let ends_now = self.until == Until::AllTried && tracked.open == 0;
            if waiting > tracked.queue / 2 || (now < tracked.ask_at && !ends_now) {
                continue;
            }
            let due_until = match self.until {
                Until::AllTried => self.started_at,
                Until::Stopped => self.clock.wall(),
            };
            let wanted = tracked.queue - waiting;
            let claims = match &mut tracked.chosen {
                Some(files) => claim_next(&mut *self.database, node.id, files, wanted)?,
                None => self.database.claim(node.id, due_until, wanted)?,
            };
            if claims.is_empty() {
                if ends_now {
                    tracked.lane.end();
                    tracked.is_done = true;
                }
                // Asking after each result of other lanes would cost them time.
                tracked.ask_at = now + ASK_AGAIN;
                continue;
            }
            if waiting < tracked.queue / 8 && claims.iter().map(held_bytes).sum::<usize>() <= QUEUE_BYTES_MAX / 2 {
                tracked.queue = (tracked.queue * 2).min(QUEUE_MAX);
            }
            tracked.open += claims.len();
            tracked.lane.supply(claims);
        }
        Ok(())
    }

    /// The result and those that follow it, until [`BETWEEN_COMMITS`] have passed since the last
    /// commit: each commit costs a sync, however few results it has.
    fn gather(&self, first: Message, receiver: &Receiver<Message>, stop: &Stop) -> Vec<Message> {
        let mut messages = vec![first];
        let open: usize = self.lanes.iter().map(|tracked| tracked.open).sum();
        while messages.len() < MOST_RESULTS {
            if let Ok(message) = receiver.try_recv() {
                messages.push(message);
                continue;
            }
            let wait = BETWEEN_COMMITS.saturating_sub(self.committed.elapsed());
            // If no other result can come, the lanes are waiting.
            if wait.is_zero() || messages.len() >= open || stop.is_stopped() {
                break;
            }
            if open - messages.len() > FEW_OPEN {
                // Being woken for each result costs more than the results wait.
                std::thread::sleep(wait.min(GATHER_SLICE));
                continue;
            }
            match receiver.recv_timeout(wait) {
                Ok(message) => messages.push(message),
                Err(_) => break,
            }
        }
        messages
    }

    /// Records a result, and those that follow it soon.
    pub(super) fn take(&mut self, first: Message, receiver: &Receiver<Message>, stop: &Stop) -> Result<(), RunError> {
        let mut results = Vec::new();
        let mut begun = Vec::new();
        for message in self.gather(first, receiver, stop) {
            let (node, claim) = match message {
                Message::Checked(checked, began) => {
                    let node = checked.claim.node;
                    results.push(*checked);
                    begun.push(began);
                    (node, None)
                }
                Message::Abandoned(node, claim) => (node, Some(claim)),
            };
            if let Some(tracked) = self.lanes.iter_mut().find(|tracked| tracked.lane.node.id == node) {
                tracked.open = tracked.open.saturating_sub(1);
            }
            if let Some(claim) = claim {
                self.database.release(&[*claim])?;
            }
        }
        if results.is_empty() {
            return Ok(());
        }
        self.report_incidents(&results)?;
        let states = self.watch.states(self.clock.steady(), false);
        self.database.record(&results, &states)?;
        self.committed = Instant::now();
        let ended = self.clock.steady();
        let whole: Vec<Duration> = begun.into_iter().map(|began| ended.saturating_sub(began)).collect();
        for (result, whole) in results.iter().zip(&whole) {
            self.count(result, *whole);
        }
        self.observer.recorded(&results, &whole);
        self.add_whole_times()
    }

    /// Shows results to the detectors, and records and reports what they say. That comes before the
    /// results: a report that is repeated after a crash is better than one that is lost.
    fn report_incidents(&mut self, results: &[Checked]) -> Result<(), RunError> {
        let incidents: Vec<Incident> = results.iter().flat_map(|result| self.watch.observe(result)).collect();
        if incidents.is_empty() {
            return Ok(());
        }
        self.database.record_incidents(&incidents)?;
        for incident in &incidents {
            if let Some(tracked) = self.lanes.iter().find(|tracked| tracked.lane.node.id == incident.node) {
                self.observer.incident(&tracked.lane.node, incident);
            }
        }
        Ok(())
    }

    fn count(&mut self, result: &Checked, whole: Duration) {
        let node = result.claim.node;
        let Some((index, tracked)) = self.lanes.iter_mut().enumerate().find(|(_, tracked)| tracked.lane.node.id == node) else { return };
        let state = result.finding.state();
        *tracked.found.entry(state).or_default() += 1;
        tracked.summary.bytes += result.bytes;
        tracked.summary.stream += result.stream;
        tracked.summary.whole += whole;
        *self.whole_times.entry((index, result.at / 3_600, state)).or_default() += whole;
    }

    /// Stores the whole times once they are worth a transaction.
    fn add_whole_times(&mut self) -> Result<(), RunError> {
        let total: Duration = self.whole_times.values().sum();
        if total > Duration::from_secs(60) { self.store_whole_times() } else { Ok(()) }
    }

    fn store_whole_times(&mut self) -> Result<(), RunError> {
        let times: WholeTimes = std::mem::take(&mut self.whole_times)
            .into_iter()
            .map(|((index, hour, state), whole)| {
                let node = &self.lanes[index].lane.node;
                (node.id, node.rules.method, hour, state, whole)
            })
            .collect();
        if !times.is_empty() {
            self.database.add_whole_times(&times)?;
        }
        Ok(())
    }

    /// Records what still comes until all workers have ended, and gives back what was not checked.
    pub(super) fn drain(&mut self, receiver: &Receiver<Message>, stop: &Stop) -> Result<(), RunError> {
        while let Ok(message) = receiver.recv() {
            self.take(message, receiver, stop)?;
        }
        for tracked in &self.lanes {
            self.database.release(&tracked.lane.abandoned())?;
        }
        let states = self.watch.states(self.clock.steady(), true);
        self.database.record(&[], &states)?;
        self.store_whole_times()
    }

    pub(super) fn summaries(self) -> Vec<NodeSummary> {
        let summary = |tracked: Tracked<'_>| NodeSummary { found: tracked.found.into_iter().collect(), ..tracked.summary };
        self.lanes.into_iter().map(summary).collect()
    }
}

/// Bytes that a claim holds while it waits.
fn held_bytes(claim: &Claim) -> usize {
    size_of::<Claim>() + claim.location.len() + claim.expected.digests.len() * size_of::<Digest>()
}

/// Claims the next copies of chosen files. Returns none only if there are no more.
fn claim_next(database: &mut dyn AuditDatabase, node: NodeId, files: &mut &[FileId], limit: usize) -> Result<Vec<Claim>, DatabaseError> {
    loop {
        let (next, rest) = files.split_at(limit.min(files.len()));
        *files = rest;
        let claims = if next.is_empty() { Vec::new() } else { database.claim_files(node, next)? };
        if !claims.is_empty() || rest.is_empty() {
            return Ok(claims);
        }
    }
}
