//! A worker: checks the copies of its lane, one at a time, by a connection of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use fulgurite_places::{Cause, Refusal};

use super::lane::Lane;
use super::{Clock, Stop, Target};
use crate::check::{Check, Checker, Throttle};
use crate::copy::{Finding, Method, NodeId, State, Unavailability};
use crate::database::{Checked, Claim, DUE_TO_BE_READ};

/// What a worker tells the recorder.
pub(super) enum Message {
    /// A copy was checked. The check began at this time of the steady clock.
    Checked(Box<Checked>, Duration),
    /// A copy was not checked after all.
    Abandoned(NodeId, Box<Claim>),
}

struct Limit<'a> {
    lane: &'a Lane,
    clock: &'a dyn Clock,
    stop: &'a Stop,
    waited: Duration,
}

impl Throttle for Limit<'_> {
    fn arrived(&mut self, bytes: u64) -> bool {
        let Some(wait) = self.lane.spend(bytes, self.clock) else { return !self.stop.is_stopped() };
        let begun = self.clock.steady();
        let goes_on = self.lane.sleep(wait, self.clock, self.stop);
        self.waited += self.clock.steady().saturating_sub(begun);
        goes_on
    }

    fn waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }
}

pub(super) fn work(lane: &Lane, target: &Target<'_>, clock: &dyn Clock, stop: &Stop, recorder: &Sender<Message>) {
    let mut checker = Checker::new(target.place, lane.node.rules.all_digests);
    while let Some(claim) = lane.next(clock, stop) {
        let begun = clock.steady();
        // What the node states can't clear a copy whose bytes were read and found wrong.
        let is_doubtful = claim.state == State::DigestMismatch || claim.due_at == DUE_TO_BE_READ;
        let method = if is_doubtful { Method::Stream } else { lane.node.rules.method };
        let mut limit = Limit { lane, clock, stop, waited: Duration::ZERO };
        let started = Instant::now();
        // A fault of this program at one copy must not end the checks of others. Nothing of the
        // checker is used again.
        let check = catch_unwind(AssertUnwindSafe(|| {
            checker.check(method, &claim.location, &claim.expected, &mut || lane.witnesses(), &mut limit)
        }))
        .unwrap_or_else(|_| {
            checker = Checker::new(target.place, lane.node.rules.all_digests);
            let refusal = Refusal::new(Cause::Fault, "the check itself failed; this is a fault of the program");
            Check { finding: Finding::Unavailable(refusal.into()), method, bytes: 0, stream: started.elapsed() }
        });
        lane.answered(&claim, &check.finding, clock);
        let abandoned =
            matches!(&check.finding, Finding::Unavailable(Unavailability::Refused(refusal)) if refusal.cause == Cause::Abandoned);
        let message = if abandoned {
            Message::Abandoned(lane.node.id, Box::new(claim))
        } else {
            let Check { finding, method, bytes, stream } = check;
            let checked = Checked { claim, at: clock.wall(), method, finding, bytes, stream };
            Message::Checked(Box::new(checked), begun)
        };
        // The recorder ends first only if the database failed; the run then ends with its error.
        if recorder.send(message).is_err() {
            return;
        }
    }
}
