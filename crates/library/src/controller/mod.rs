//! The controller of one library: events in, commands out.
//!
//! ```text
//!              +--------------------------- Controller ----------------------------+
//!   event ---> | apply: what is now true     settle: what follows                  | ---> commands
//!              |   Panel, Queue, Traffic       drives work off their platters      |
//!              |                               the Policy gives tasks to shuttles  |
//!              |                               housekeeping, traffic               |
//!              +-------------------------------------------------------------------+
//! ```
//!
//! It reads no clock, uses no randomness and does no IO: the same events give the same commands,
//! whether the mechanics are simulated or real. Ties are broken by number.

mod drives;
mod failures;
mod housekeeping;
mod routine;
mod shuttles;
mod verification;

use std::collections::BTreeMap;

use fulgurite_domain::Micros;

use self::verification::Verifications;
use crate::panel::{DriveState, Operation, ShuttleOperation, ShuttleState};
use crate::policy::Task;
use crate::{
    Action, Actor, Bay, Berth, Carry, Command, CommandId, Drive, Event, Inventory, Job, Layout, Outcome, Pace, Panel, Platter, Policy,
    Position, ReadRequest, Shuttle, Stage, Whereabouts,
};

/// How many changes the rules make after one event. A few for each shuttle are enough, unless a
/// policy changes its mind each time that it is asked.
const CHANGES_MAX: u32 = 10_000;
/// When the rules go on that were broken off.
const GO_ON_AFTER: Micros = Micros(1_000_000);

/// Decides all motion in one library.
pub struct Controller {
    panel: Panel,
    policy: Box<dyn Policy>,
    needs_no_shuttles: bool,
    reads_by_track: bool,
    /// The policy's last answer about each drive.
    customers_only: Vec<bool>,
    /// Number of commands so far; numbers them.
    commands: u64,
    /// Whether [`Event::Woken`] has started it.
    is_started: bool,
    /// Legs that traffic has started and that no command was sent for yet.
    legs: Vec<(Shuttle, Position)>,
    /// Shuttles with a platter that can't be placed anywhere now. They try again after each event.
    stranded: Vec<Shuttle>,
    verifications: BTreeMap<Platter, Verifications>,
    unexpected_answers: u64,
    /// Changes that the rules may still make after this event.
    changes_left: u32,
    /// When the rules go on that were broken off.
    goes_on_at: Option<Micros>,
    unsettled_events: u64,
}

impl Controller {
    /// Creates the controller of a panel with this layout and inventory.
    ///
    /// # Panics
    /// If two platters share a home or were found in one place, or a home is not a slot of the
    /// layout, or the number of shuttles differs.
    #[must_use]
    pub fn new(layout: Layout, pace: Pace, inventory: &Inventory, policy: Box<dyn Policy>) -> Self {
        let mut homes = inventory.homes.clone();
        homes.sort_unstable();
        assert!(homes.windows(2).all(|two| two[0] != two[1]), "two platters have the same home");
        assert!([0, layout.shuttles.into()].contains(&inventory.shuttles.len()), "each shuttle has one position");
        assert!(homes.last().is_none_or(|last| last.0 < layout.slot_count()), "a platter's home is beyond the last slot");
        let mut panel = Panel::new(layout, pace, inventory);
        if policy.needs_no_shuttles() {
            // No shuttle takes home what another policy left in a drive.
            for (drive, bay) in panel.drives().flat_map(|drive| [(drive, Bay(0)), (drive, Bay(1))]) {
                if panel.bays(drive)[usize::from(bay.0)].held.is_some_and(|held| panel.home(held.platter).is_some()) {
                    panel.vanish(drive, bay);
                }
            }
        }
        Self {
            panel,
            needs_no_shuttles: policy.needs_no_shuttles(),
            reads_by_track: policy.reads_by_track(),
            customers_only: vec![false; policy.customers_only().len()],
            policy,
            commands: 0,
            is_started: false,
            legs: Vec::new(),
            stranded: Vec::new(),
            verifications: BTreeMap::new(),
            unexpected_answers: 0,
            changes_left: 0,
            goes_on_at: None,
            unsettled_events: 0,
        }
    }

    /// Applies one event at `now`, settles, and appends the resulting commands. The first event
    /// should be [`Event::Woken`]: it starts the drives that hold a platter to verify, and the
    /// shuttles that carry one. Only machines that are out of order from the start come before, by
    /// [`Event::Lost`]: nothing moves until all of them are known.
    pub fn step(&mut self, now: Micros, event: Event, commands: &mut Vec<Command>) {
        debug_assert!(now >= self.panel.now, "time went backwards");
        self.panel.now = now;
        self.panel.traffic.set_now(now);
        let seen = self.see(&event);
        let waits_for_start = !self.is_started && matches!(event, Event::Lost { .. });
        match event {
            Event::ReadRequested(request) => self.handle_read_request(&request, commands),
            Event::ReadHastened { request, platter, deadline } => self.panel.queue.hasten(platter, request, deadline),
            Event::VerificationRequested { request, platter } => self.handle_verification_request(request, platter, commands),
            Event::Done { command } => self.handle_done(command, commands),
            Event::Interrupted { command, verified } => self.handle_interrupted(command, verified, commands),
            Event::PlatterWritten { platter } => self.handle_written(platter),
            Event::Failed { command, fault } => self.handle_failed(command, fault, commands),
            Event::Lost { actor, fault } => self.handle_lost(actor, fault, commands),
            Event::Repaired { actor } => self.handle_repaired(actor, commands),
            Event::PlatterUnavailable { platter } => self.set_available(platter, false, commands),
            Event::PlatterAvailable { platter } => self.set_available(platter, true, commands),
            Event::ChargeLow { shuttle } => {
                self.panel.shuttles[usize::from(shuttle.0)].battery_low = true;
            }
            Event::Woken if !self.is_started => {
                self.is_started = true;
                for drive in self.panel.drives() {
                    self.start_next_operation(drive, commands);
                }
                for shuttle in (0..self.panel.layout.shuttles).map(Shuttle) {
                    self.continue_job(shuttle, commands);
                }
            }
            // Settling asks the policy again, and retries shuttles that wait for a path.
            Event::Woken => {}
        }
        if waits_for_start {
            return;
        }
        self.changes_left = CHANGES_MAX;
        if seen.is_none_or(|seen| self.has_changed(seen)) {
            self.goes_on_at = None;
            self.settle_work(commands);
        }
        while self.settle_traffic(commands) && self.may_change() {
            self.settle_work(commands);
        }
        if self.changes_left == 0 {
            // A library that stood still would be worse than a bad policy.
            self.goes_on_at = Some(now + GO_ON_AFTER);
            self.unsettled_events += 1;
        }
    }

    /// When the controller needs [`Event::Woken`] if no other event comes first: for shuttles that
    /// wait for a free path, or for the policy.
    #[must_use]
    pub fn deadline(&self) -> Option<Micros> {
        [self.panel.traffic.deadline(), self.policy.deadline(&self.panel), self.goes_on_at].into_iter().flatten().min()
    }

    /// The panel, as the controller believes it to be.
    #[must_use]
    pub fn panel(&self) -> &Panel {
        &self.panel
    }

    /// Events that contradict the controller's state, such as late answers to commands after a
    /// restart, or repairs of what works. They are ignored.
    #[must_use]
    pub fn unexpected_answers(&self) -> u64 {
        self.unexpected_answers
    }

    /// Events after which the rules were still changing something when they were broken off: a bug
    /// in the policy.
    #[must_use]
    pub fn unsettled_events(&self) -> u64 {
        self.unsettled_events
    }

    /// Applies the rules that follow from the state, until none has an effect. They run after every
    /// event that is not `routine`, so no event can forget to ask for them.
    fn settle_work(&mut self, commands: &mut Vec<Command>) {
        while self.may_change()
            && self.retry_stranded(commands) | if self.needs_no_shuttles { self.load_drives(commands) } else { self.assign_work(commands) }
        {
        }
        self.park();
    }

    /// Counts one more change. Returns false if the rules have to be broken off.
    fn may_change(&mut self) -> bool {
        self.changes_left = self.changes_left.saturating_sub(1);
        self.changes_left > 0
    }

    /// Lets shuttles set off. Returns true if one has lost its job, and can have another.
    fn settle_traffic(&mut self, commands: &mut Vec<Command>) -> bool {
        self.panel.traffic.retry(&mut self.legs);
        self.send_legs(commands);
        let mut is_free = false;
        while let Some(shuttle) = self.panel.traffic.take_without_plan() {
            let had_job = self.panel.job(shuttle) != Job::Idle;
            self.continue_job(shuttle, commands);
            is_free |= had_job && self.panel.job(shuttle) == Job::Idle;
        }
        is_free
    }

    /// Lets shuttles with a platter that fits nowhere look for a place again. Returns true if one
    /// has found it.
    fn retry_stranded(&mut self, commands: &mut Vec<Command>) -> bool {
        let stranded = std::mem::take(&mut self.stranded);
        stranded.iter().for_each(|shuttle| self.continue_job(*shuttle, commands));
        self.stranded.len() < stranded.len()
    }

    /// Gives idle shuttles tasks and chores, and tells drives whether to verify. Returns true if
    /// anything changed after the policy had no task: it may have one now.
    fn assign_work(&mut self, commands: &mut Vec<Command>) -> bool {
        let mut is_changed = false;
        while self.may_change()
            && let Some((shuttle, task)) = self.policy.assign(&self.panel)
        {
            self.assign_task(shuttle, task);
            self.continue_job(shuttle, commands);
            // A task may have made room for a stranded platter.
            is_changed = !self.stranded.is_empty();
        }
        // `!=` calls `memcmp`, which waits for the bytes that the policy has just written.
        if self.policy.customers_only().iter().zip(&self.customers_only).any(|(new, old)| new != old) {
            is_changed |= self.update_verification(commands);
        }
        while self.may_change()
            && let Some(shuttle) = self.assign_chore()
        {
            self.continue_job(shuttle, commands);
            is_changed = true;
        }
        is_changed
    }

    /// Gives a shuttle its task.
    ///
    /// # Panics
    /// If the task is impossible: that is a bug in the policy.
    fn assign_task(&mut self, shuttle: Shuttle, task: Task) {
        let state = self.shuttle(shuttle);
        assert!(state.job == Job::Idle && !state.lost, "a policy gave {task:?} to {shuttle:?}, which is not idle");
        let carry = match task {
            Task::Fetch { platter, drive } => {
                let Whereabouts::Berth(from @ Berth::Slot(_)) = self.panel.whereabouts(platter) else {
                    panic!("a policy wanted {platter:?} fetched, which is in no slot");
                };
                assert!(self.panel.queue.lane_of(platter).is_some(), "a policy wanted {platter:?} fetched, which no request waits for");
                let bay =
                    self.panel.bay_to_fill(drive).unwrap_or_else(|| panic!("a policy sent {platter:?} to {drive:?}, which has no room"));
                Carry { platter, from, to: Berth::Bay(drive, bay) }
            }
            Task::Collect { drive, bay } => {
                let held = self.panel.bays(drive)[usize::from(bay.0)].held.filter(|held| held.stage == Stage::Released);
                let held = held.unwrap_or_else(|| panic!("a policy wanted a platter from {drive:?}, {bay:?} that is not released"));
                assert!(held.collector.is_none(), "a policy wanted a platter from {drive:?}, {bay:?} that another shuttle is fetching");
                let platter = held.platter;
                let to = self.choose_destination_slot(platter);
                let to = to.unwrap_or_else(|| panic!("a policy wanted {platter:?} collected, for which there is no slot"));
                Carry { platter, from: Berth::Bay(drive, bay), to: Berth::Slot(to) }
            }
        };
        self.take_on(shuttle, carry);
    }

    pub(super) fn take_on(&mut self, shuttle: Shuttle, carry: Carry) {
        self.panel.take_on(shuttle, carry);
        self.shuttle(shuttle).job = Job::Carry(carry);
    }

    fn handle_read_request(&mut self, request: &ReadRequest, commands: &mut Vec<Command>) {
        let platter = request.platter;
        let is_refused = self.panel.platters.get(platter.0 as usize).is_none_or(|state| {
            state.whereabouts == Whereabouts::Unwritten || request.tracks.count == 0 || request.tracks.end() > state.tracks
        });
        if is_refused || !self.panel.is_available(platter) {
            let outcome = if is_refused { Outcome::Refused } else { Outcome::Unavailable };
            commands.push(Command::Finish { request: request.id, outcome });
            return;
        }
        self.panel.queue.push(self.panel.now, request);
        match self.panel.whereabouts(platter) {
            Whereabouts::Berth(Berth::Slot(_)) => self.enqueue(platter),
            Whereabouts::Berth(Berth::Bay(drive, _)) => self.start_next_operation(drive, commands),
            // The shuttle that delivers it to a slot or drive checks for requests again. (Requests
            // for unwritten platters were refused above.)
            Whereabouts::Berth(Berth::Port) | Whereabouts::Shuttle(_) | Whereabouts::Unwritten => {}
        }
    }

    /// Queues a platter in its lane if it can be fetched and has requests.
    fn enqueue(&mut self, platter: Platter) {
        let state = &self.panel.platters[platter.0 as usize];
        let is_in_slot = matches!(state.whereabouts, Whereabouts::Berth(Berth::Slot(_)));
        if is_in_slot && !self.panel.is_claimed(platter) && self.panel.queue.requests_for(platter) > 0 && self.panel.is_available(platter) {
            let lane = state.lane;
            if self.panel.queue.lane_of(platter) != Some(lane) {
                self.panel.queue.enqueue_platter(platter, lane);
            }
        }
    }

    fn handle_done(&mut self, command: CommandId, commands: &mut Vec<Command>) {
        match command.actor {
            Actor::Shuttle(shuttle) => match self.shuttle(shuttle).operation {
                Some((id, operation)) if id == command => {
                    self.shuttle(shuttle).operation = None;
                    self.finish_shuttle_operation(shuttle, operation, commands);
                }
                _ => self.unexpected_answers += 1,
            },
            Actor::Drive(drive) => match self.drive(drive).operation {
                Some((id, operation)) if id == command => {
                    self.drive(drive).operation = None;
                    self.finish_drive_operation(drive, command, operation, commands);
                }
                _ => self.unexpected_answers += 1,
            },
        }
    }

    fn handle_interrupted(&mut self, command: CommandId, verified: u32, commands: &mut Vec<Command>) {
        // The verification has already made way for the operation now in progress; its finished
        // tracks count, once.
        let interrupted = match command.actor {
            Actor::Drive(drive) => self.drive(drive).interrupted.take_if(|(id, _)| *id == command),
            Actor::Shuttle(_) => None,
        };
        let Some((_, platter)) = interrupted else {
            self.unexpected_answers += 1;
            return;
        };
        self.note_verified(platter, command, Some(verified), commands);
        if let Actor::Drive(drive) = command.actor {
            self.start_next_operation(drive, commands);
        }
    }

    fn shuttle(&mut self, shuttle: Shuttle) -> &mut ShuttleState {
        &mut self.panel.shuttles[usize::from(shuttle.0)]
    }

    fn drive(&mut self, drive: Drive) -> &mut DriveState {
        &mut self.panel.drives[usize::from(drive.0)]
    }

    fn command_shuttle(&mut self, shuttle: Shuttle, operation: ShuttleOperation, action: Action, commands: &mut Vec<Command>) {
        let id = self.next_id(Actor::Shuttle(shuttle));
        self.shuttle(shuttle).operation = Some((id, operation));
        commands.push(Command::Do { id, action });
    }

    fn command_drive(&mut self, drive: Drive, operation: Operation, action: Action, commands: &mut Vec<Command>) {
        let id = self.next_id(Actor::Drive(drive));
        let state = self.drive(drive);
        if let Some((verification, Operation::Verify)) = state.operation.replace((id, operation)) {
            let held = state.bays[usize::from(state.active.0)].held;
            state.interrupted = held.map(|held| (verification, held.platter));
        }
        commands.push(Command::Do { id, action });
    }

    fn next_id(&mut self, actor: Actor) -> CommandId {
        self.commands += 1;
        CommandId { actor, number: self.commands }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Balanced, Bay, Held, Purpose, Slot, Techniques, Verification};

    #[test]
    fn interrupted_tracks_count_for_the_platter_under_the_head() {
        let inventory =
            Inventory { homes: vec![Slot(0), Slot(900)], tracks: 10, verification: Verification::Written, ..Inventory::default() };
        let layout = Layout::default();
        let policy = Balanced::new(&layout, &Pace::default(), Techniques::default());
        let mut controller = Controller::new(layout, Pace::default(), &inventory, Box::new(policy));
        // Platter 0 waits to be stored; platter 1 is mounted in the other bay.
        let (drive, mut commands) = (Drive(0), Vec::new());
        controller.panel.platters[0].verified = 10;
        for (bay, stage) in [(0, Stage::Released), (1, Stage::Mounted)] {
            let platter = Platter(bay);
            controller.panel.platters[bay as usize].whereabouts = Whereabouts::Berth(Berth::Bay(drive, Bay(bay as u8)));
            controller.drive(drive).bays[bay as usize].held =
                Some(Held { platter, purpose: Purpose::Verification, stage, collector: None });
        }
        controller.drive(drive).active = Bay(1);
        controller.start_next_operation(drive, &mut commands);
        let command = controller.panel.verification_command(drive).expect("it verifies platter 1");
        controller.drive(drive).should_verify = false;
        controller.start_next_operation(drive, &mut commands);
        assert_eq!(controller.panel.operation(drive), Some(Operation::Unmount));
        controller.handle_interrupted(command, 4, &mut commands);
        assert_eq!([0, 1].map(|platter| controller.panel.platters[platter].verified), [10, 4]);
    }

    #[test]
    fn requests_for_a_platter_under_verification_go_first() {
        let inventory = Inventory { homes: vec![Slot(0)], tracks: 10, verification: Verification::Written, ..Inventory::default() };
        let layout = Layout::default();
        let policy = Balanced::new(&layout, &Pace::default(), Techniques::default());
        let mut controller = Controller::new(layout, Pace::default(), &inventory, Box::new(policy));
        let (platter, drive, mut commands) = (Platter(0), Drive(0), Vec::new());
        controller.panel.platters[0].whereabouts = Whereabouts::Berth(Berth::Bay(drive, Bay(0)));
        controller.drive(drive).bays[0].held =
            Some(Held { platter, purpose: Purpose::Verification, stage: Stage::Mounted, collector: None });
        controller.start_next_operation(drive, &mut commands);
        let verifying = controller.panel.verification_command(drive).expect("it verifies");
        let ask = |id, first| ReadRequest {
            id: crate::RequestId(id),
            platter,
            tracks: crate::Tracks { first, count: 1 },
            deadline: Micros::NEVER,
        };
        controller.step(Micros(1), Event::ReadRequested(ask(1, 7)), &mut commands);
        controller.step(Micros(1), Event::ReadRequested(ask(2, 3)), &mut commands);
        controller.step(Micros(1), Event::Interrupted { command: verifying, verified: 4 }, &mut commands);
        let mut read = Vec::new();
        while let Some(Operation::Read(request, _)) = controller.panel.operation(drive) {
            read.push(request.0);
            let command = controller.panel.drives[0].operation.expect("it reads").0;
            controller.step(Micros(2), Event::Done { command }, &mut commands);
        }
        read.sort_unstable();
        assert_eq!(read, [1, 2]);
        let last = commands.last().copied();
        let rest = crate::Tracks { first: 4, count: 6 };
        assert!(matches!(last, Some(Command::Do { action: Action::Verify { tracks, .. }, .. }) if tracks == rest), "{last:?}");
    }
}
