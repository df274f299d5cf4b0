//! Platters that the server's scrub reads while drives verify them.
//!
//! ```text
//! scrub --request_turn--> library: a shuttle brings the platter to a drive, which verifies it
//!   |                                     | verify, interrupted
//!   '-- reads the platter's file while <--'
//!   '--finish_turn--> the drive has its bytes
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use fulgurite_domain::SetId;
use fulgurite_library::{CommandId, RegionOutcome, RegionPlatter, RequestId};
use fulgurite_live::{Ended, Verify};

use super::{Library, lock};

/// What the library does about a platter that the scrub wants to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnState {
    /// No drive verifies it now.
    Waiting,
    /// A drive verifies it: the scrub may read.
    Reading(CommandId),
    /// The request has ended, and the scrub has not finished.
    Ended(RegionOutcome),
    /// The scrub has finished, or has given up.
    Finished,
}

impl TurnState {
    /// The command of the drive that verifies the platter.
    fn command(self) -> Option<CommandId> {
        match self {
            Self::Reading(command) => Some(command),
            Self::Waiting | Self::Ended(_) | Self::Finished => None,
        }
    }
}

/// The scrub's turn at a platter.
pub(crate) struct Turn {
    request: RequestId,
    platter: RegionPlatter,
    state: Mutex<TurnState>,
    changed: Condvar,
}

impl Turn {
    /// The state, after waiting this long at most for a drive.
    pub(crate) fn wait(&self, most: Duration) -> TurnState {
        let waits = |state: &mut TurnState| *state == TurnState::Waiting;
        let waited = self.changed.wait_timeout_while(lock(&self.state), most, waits);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(*lock(&self.state), TurnState::Ended(_))
    }

    fn set(&self, state: TurnState) -> TurnState {
        let before = std::mem::replace(&mut *lock(&self.state), state);
        self.changed.notify_all();
        before
    }
}

/// The turns that have not finished. The scrub reads one platter at a time, so there are few.
#[derive(Default)]
pub(super) struct Turns {
    /// Held while a turn's state changes, so that no drive begins a turn that has just finished.
    open: Mutex<Vec<Arc<Turn>>>,
    /// Turns in which the scrub read a platter, and those that ended before that.
    read: AtomicU64,
    out_of_reach: AtomicU64,
}

impl Turns {
    /// A drive has been told to verify a platter. Returns false if no turn waits for it.
    pub(super) fn begin(&self, verify: &Verify) -> bool {
        let open = lock(&self.open);
        let turn = open.iter().find(|turn| turn.platter == verify.platter);
        turn.map(|turn| turn.set(TurnState::Reading(verify.command))).is_some()
    }

    /// A drive verifies a platter no longer.
    pub(super) fn interrupt(&self, verify: &Verify) {
        let open = lock(&self.open);
        if let Some(turn) = open.iter().find(|turn| *lock(&turn.state) == TurnState::Reading(verify.command)) {
            turn.set(TurnState::Waiting);
        }
    }

    /// A request has ended. `None` if it was not one for a turn, otherwise the command that a drive
    /// still carries out for it.
    pub(super) fn end(&self, ended: &Ended) -> Option<Option<CommandId>> {
        let mut open = lock(&self.open);
        let index = open.iter().position(|turn| turn.request == ended.request)?;
        if ended.outcome != RegionOutcome::Refused {
            self.out_of_reach.fetch_add(1, Ordering::Relaxed);
        }
        Some(open.remove(index).set(TurnState::Ended(ended.outcome)).command())
    }

    /// The scrub needs the turn no longer. Returns the command that its drive carries out.
    fn finish(&self, turn: &Turn, was_read: bool) -> Option<CommandId> {
        let mut open = lock(&self.open);
        open.retain(|other| other.request != turn.request);
        self.read.fetch_add(was_read.into(), Ordering::Relaxed);
        // How it ended stays known.
        if turn.has_ended() {
            return None;
        }
        turn.set(TurnState::Finished).command()
    }

    /// What the scrub does in the library.
    pub(super) fn activity(&self) -> &'static str {
        let open = lock(&self.open);
        let reads = open.iter().any(|turn| matches!(*lock(&turn.state), TurnState::Reading(_)));
        match reads {
            true => "reading",
            false if open.is_empty() => "idle",
            false => "waiting for a drive",
        }
    }

    /// Platters that the scrub has read, and those that were out of reach.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.out_of_reach.load(Ordering::Relaxed))
    }
}

impl Library {
    /// Asks for a turn at a platter; `None` if its set has no place in the library. The caller must
    /// finish it.
    pub(crate) fn request_turn(&self, set: SetId, position: u16) -> Option<Arc<Turn>> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let platter = places.platters_of(places.number(set)?).nth(position.into())?;
        drop(places);
        let request = self.flights.next_request();
        let turn = Arc::new(Turn { request, platter, state: Mutex::new(TurnState::Waiting), changed: Condvar::new() });
        lock(&self.turns.open).push(turn.clone());
        self.runner.verify(request, platter);
        Some(turn)
    }

    /// The scrub has read the platter of a turn, or gives up: a drive that verifies it may go on.
    pub(crate) fn finish_turn(&self, turn: &Turn, was_read: bool) {
        if let Some(command) = self.turns.finish(turn, was_read) {
            self.runner.bytes_read(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::Micros;
    use fulgurite_library::{Actor, Drive, Tracks};

    use super::*;

    fn turns() -> (Turns, Arc<Turn>) {
        let turn =
            Turn { request: RequestId(7), platter: RegionPlatter(3), state: Mutex::new(TurnState::Waiting), changed: Condvar::new() };
        let (turns, turn) = (Turns::default(), Arc::new(turn));
        lock(&turns.open).push(turn.clone());
        (turns, turn)
    }

    fn verify(platter: u32, number: u64) -> Verify {
        let command = CommandId { actor: Actor::Drive(Drive(0)), number };
        Verify { command, platter: RegionPlatter(platter), tracks: Tracks { first: 0, count: 9 } }
    }

    #[test]
    fn a_turn_lasts_while_a_drive_verifies_its_platter() {
        let (turns, turn) = turns();
        assert!(!turns.begin(&verify(4, 1)), "no turn waits for platter 4");
        assert_eq!(turn.wait(Duration::ZERO), TurnState::Waiting);
        assert!(turns.begin(&verify(3, 2)));
        assert_eq!(turn.wait(Duration::ZERO), TurnState::Reading(verify(3, 2).command));
        // A late message about an earlier command changes nothing.
        turns.interrupt(&verify(3, 1));
        assert_eq!(turns.activity(), "reading");
        turns.interrupt(&verify(3, 2));
        assert_eq!(turns.activity(), "waiting for a drive");
        assert_eq!(turn.wait(Duration::ZERO), TurnState::Waiting);
    }

    #[test]
    fn a_drive_waits_for_no_turn_that_has_finished() {
        let (turns, turn) = turns();
        turns.begin(&verify(3, 2));
        assert_eq!(turns.finish(&turn, true), Some(verify(3, 2).command));
        assert!(!turns.begin(&verify(3, 3)));
        assert_eq!((turn.wait(Duration::from_secs(60)), turns.finish(&turn, false)), (TurnState::Finished, None));
        assert_eq!((turns.activity(), turns.counts()), ("idle", (1, 0)));
    }

    #[test]
    fn a_turn_ends_with_its_request() {
        let (turns, turn) = turns();
        let ended = |request| Ended { request: RequestId(request), outcome: RegionOutcome::Unavailable, took: Micros::ZERO };
        assert_eq!((turns.end(&ended(6)), turn.has_ended()), (None, false));
        turns.begin(&verify(3, 1));
        assert_eq!((turns.end(&ended(7)), turn.has_ended()), (Some(Some(verify(3, 1).command)), true), "its drive goes on");
        assert!(!turns.begin(&verify(3, 2)), "its drive goes on without the scrub");
        assert_eq!(turn.wait(Duration::from_secs(60)), TurnState::Ended(RegionOutcome::Unavailable));
        assert_eq!((turns.activity(), turns.counts()), ("idle", (0, 1)));
        assert_eq!((turns.finish(&turn, false), turn.has_ended()), (None, true), "the scrub can still see how it ended");
    }
}
