//! A lane: what the workers of one node share.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulgurite_places::Cause;

use super::{Clock, Stop};
use crate::breaker::{Breaker, Failure, Permission};
use crate::check::Witness;
use crate::copy::{Finding, Unavailability};
use crate::database::{AuditDatabase, Claim, DatabaseError};
use crate::node::Node;
use crate::pace::Pace;

const WITNESSES: usize = 8;

pub(super) struct Lane {
    pub(super) node: Node,
    state: Mutex<LaneState>,
    changed: Condvar,
}

struct LaneState {
    queue: VecDeque<Claim>,
    breaker: Breaker,
    files: Pace,
    bytes: Pace,
    /// Copies that this node has shown, the best first.
    witnesses: Vec<Witness>,
    /// The first pause that the recorder hasn't heard of.
    pause: Option<(Duration, String)>,
    ended: bool,
}

impl Lane {
    pub(super) fn new(node: &Node, database: &mut dyn AuditDatabase) -> Result<Self, DatabaseError> {
        let state = LaneState {
            queue: VecDeque::new(),
            breaker: Breaker::default(),
            files: Pace::new(node.rules.files_per_second),
            bytes: Pace::new(node.rules.bytes_per_second),
            witnesses: database.witnesses(node.id, WITNESSES)?,
            pause: None,
            ended: false,
        };
        Ok(Self { node: node.clone(), state: Mutex::new(state), changed: Condvar::new() })
    }

    /// No invariant spans two fields, so a panic of another worker leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a copy to check; `None` if there will be no more.
    pub(super) fn next(&self, clock: &dyn Clock, stop: &Stop) -> Option<Claim> {
        let mut state = self.lock();
        loop {
            if state.ended || stop.is_stopped() {
                return None;
            }
            let now = clock.steady();
            let wait = if state.queue.is_empty() {
                clock.nap()
            } else {
                match state.breaker.ask(now) {
                    Permission::At(until) => until.saturating_sub(now),
                    Permission::AfterProbe => clock.nap(),
                    Permission::Granted => match state.queue.pop_front() {
                        Some(claim) => {
                            let wait = state.files.spend(now, 1);
                            drop(state);
                            if self.sleep(wait, clock, stop) {
                                return Some(claim);
                            }
                            let mut state = self.lock();
                            state.breaker.forgone();
                            state.queue.push_front(claim);
                            return None;
                        }
                        None => clock.nap(),
                    },
                }
            };
            let (locked, _) = self
                .changed
                .wait_timeout(state, wait.max(Duration::from_millis(1)).min(clock.nap()))
                .unwrap_or_else(PoisonError::into_inner);
            state = locked;
        }
    }

    /// Spends bytes of the node's budget, and returns how long to wait; `None` without a budget.
    pub(super) fn spend(&self, bytes: u64, clock: &dyn Clock) -> Option<Duration> {
        self.node.rules.bytes_per_second?;
        Some(self.lock().bytes.spend(clock.steady(), bytes))
    }

    /// Sleeps, unless the run is stopped; then it returns false.
    pub(super) fn sleep(&self, wait: Duration, clock: &dyn Clock, stop: &Stop) -> bool {
        let until = clock.steady() + wait;
        loop {
            if stop.is_stopped() {
                return false;
            }
            let left = until.saturating_sub(clock.steady());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(clock.nap()));
        }
    }

    /// Copies that this node has shown.
    pub(super) fn witnesses(&self) -> Vec<Witness> {
        self.lock().witnesses.clone()
    }

    /// Tells the breaker how the node answered, and keeps or drops witnesses.
    pub(super) fn answered(&self, claim: &Claim, finding: &Finding, clock: &dyn Clock) {
        let mut state = self.lock();
        let failure = match finding {
            Finding::Unavailable(Unavailability::Refused(refusal)) => match refusal.cause {
                Cause::Abandoned => {
                    state.breaker.forgone();
                    return;
                }
                Cause::Throttled { retry_after } => Some(Failure::Throttled(retry_after)),
                _ => Some(Failure::Fault),
            },
            Finding::Unavailable(Unavailability::ReadingsDiffer { .. }) => None,
            // The place is another one, or can't show that it isn't.
            Finding::Unavailable(_) => Some(Failure::Fault),
            _ => None,
        };
        match failure {
            None => state.breaker.succeeded(),
            Some(failure) => {
                if let Some(pause) = state.breaker.failed(clock.steady(), failure)
                    && let Finding::Unavailable(why) = finding
                {
                    state.pause.get_or_insert_with(|| (pause, why.to_string()));
                }
            }
        }
        let now = finding.state();
        match state.witnesses.iter_mut().find(|witness| witness.location == claim.location) {
            Some(witness) => witness.state = now,
            None if now.is_shown() => state.witnesses.push(Witness {
                location: claim.location.clone(),
                expected: claim.expected.clone(),
                state: now,
                method: self.node.rules.method,
            }),
            None => {}
        }
        Witness::sort(&mut state.witnesses);
        state.witnesses.truncate(WITNESSES);
        drop(state);
        self.changed.notify_all();
    }

    /// Claims that wait.
    pub(super) fn waiting(&self) -> usize {
        self.lock().queue.len()
    }

    pub(super) fn supply(&self, claims: Vec<Claim>) {
        self.lock().queue.extend(claims);
        self.changed.notify_all();
    }

    /// The pause that the breaker made since the last call, and how many it has made in a row.
    pub(super) fn new_pause(&self) -> Option<(Duration, String, u32)> {
        let mut state = self.lock();
        let (pause, why) = state.pause.take()?;
        Some((pause, why, state.breaker.pauses()))
    }

    /// Ends the lane: its workers finish their copies and stop. Claims that wait are kept.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Takes the claims that wait.
    pub(super) fn abandoned(&self) -> Vec<Claim> {
        self.lock().queue.drain(..).collect()
    }
}
