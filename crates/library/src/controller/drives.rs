//! Scheduling of the read drives. Requests go first, also those for a platter that is being
//! verified; verification gets the remaining time.
//!
//! ```text
//! arrived --mount--> mounted --read, read, ...--> (nothing waits) --unmount--> released --> a shuttle takes it
//!                      \--verify ... verify--> (all tracks read back) --unmount--> released
//! ```

use fulgurite_domain::Micros;

use crate::panel::{Held, Operation, Purpose, Stage};
use crate::{Action, Bay, Command, CommandId, Controller, Drive, Outcome, Platter, Tracks};

/// Two platters with many requests in one drive take turns of this length. Each turn costs an
/// unmount, a switch and a mount, 1 % of it. Requests that had less time by more than this when
/// they arrived don't wait for their turn.
const TURN: Micros = Micros(300_000_000);

impl Controller {
    /// Starts a drive's next operation, unless the current one can't be interrupted.
    pub(super) fn start_next_operation(&mut self, drive: Drive, commands: &mut Vec<Command>) {
        let state = *self.drive(drive);
        if state.down || state.operation.is_some_and(|(_, operation)| operation != Operation::Verify) {
            return;
        }
        let is_verifying = state.operation.is_some();
        if is_verifying && state.interrupted.is_some() {
            // It goes on with the answer of the verification that was interrupted before.
            return;
        }
        if !state.should_verify {
            // Verification platters that were not mounted yet are released as they are.
            let arrived = |held: &&mut Held| held.purpose == Purpose::Verification && held.stage == Stage::Arrived;
            for held in self.drive(drive).bays.iter_mut().filter_map(|bay| bay.held.as_mut()).filter(arrived) {
                held.stage = Stage::Released;
            }
        }
        let Some((bay, held)) = self.next_to_serve(drive) else { return };
        let is_wanted = self.panel.queue.requests_for(held.platter) > 0;
        if is_verifying && held.purpose == Purpose::Verification && state.should_verify && !is_wanted {
            return;
        }
        if bay != state.active {
            self.command_drive(drive, Operation::Switch(bay), Action::Switch { to: bay }, commands);
            return;
        }
        let platter = held.platter;
        match (held.stage, held.purpose) {
            (Stage::Arrived | Stage::Released, _) => {
                let is_verified = self.panel.is_verified(platter);
                if let Some(held) = self.drive(drive).bays[usize::from(bay.0)].held.as_mut() {
                    held.stage = Stage::Arrived;
                    if !is_wanted && !is_verified {
                        held.purpose = Purpose::Verification;
                    }
                }
                self.command_drive(drive, Operation::Mount, Action::Mount { bay, platter }, commands);
            }
            (Stage::Mounted, Purpose::Verification) if is_wanted => self.read_next(drive, bay, platter, commands),
            (Stage::Mounted, Purpose::Customer) => self.read_next(drive, bay, platter, commands),
            (Stage::Mounted, Purpose::Verification) => {
                let at = &self.panel.platters[platter.0 as usize];
                if at.verified < at.tracks && state.should_verify {
                    let tracks = Tracks { first: at.verified, count: at.tracks - at.verified };
                    self.drive(drive).head = None;
                    self.command_drive(drive, Operation::Verify, Action::Verify { platter, tracks }, commands);
                } else {
                    self.command_drive(drive, Operation::Unmount, Action::Unmount { bay, platter }, commands);
                }
            }
        }
    }

    /// The bay that the drive should serve: a mounted customer, then one that has arrived or is
    /// wanted again, then a verification. A platter under verification that is requested is served
    /// like a customer. A customer's platter that is to be verified goes home first, unless no
    /// shuttle can take it.
    fn next_to_serve(&self, drive: Drive) -> Option<(Bay, Held)> {
        let verifies = self.panel.drives[usize::from(drive.0)].should_verify;
        let rank = |held: &Held| {
            let is_wanted = self.panel.queue.requests_for(held.platter) > 0;
            let is_verified = self.panel.is_verified(held.platter);
            let stays =
                held.purpose == Purpose::Customer && held.stage == Stage::Released && !is_verified && !self.panel.is_reachable(drive);
            let is_customer = is_wanted || held.purpose == Purpose::Customer && !stays;
            match (held.purpose, held.stage) {
                (_, Stage::Mounted) if is_customer => Some(0),
                (_, Stage::Arrived) if is_customer => Some(1),
                (_, Stage::Released) if is_customer => (is_wanted && held.collector.is_none()).then_some(2),
                (_, Stage::Mounted) => Some(3),
                _ => (!is_verified && held.collector.is_none() && verifies).then_some(3),
            }
        };
        let bays = self.panel.bays(drive).iter().enumerate();
        let held = bays.filter_map(|(index, bay)| Some((rank(&bay.held?)?, Bay(index as u8), bay.held?)));
        let mounted_at = self.panel.drives[usize::from(drive.0)].mounted_at;
        held.min_by_key(|(rank, bay, _)| (*rank, mounted_at[usize::from(bay.0)], *bay)).map(|(_, bay, held)| (bay, held))
    }

    /// Reads the next request of a mounted platter, or unmounts it if there is none.
    fn read_next(&mut self, drive: Drive, bay: Bay, platter: Platter, commands: &mut Vec<Command>) {
        let head = self.drive(drive).head;
        let by_track = if self.reads_by_track { head.or(Some(0)) } else { None };
        let next = if self.is_turn_over(drive, bay) { None } else { self.panel.queue.pop(platter, by_track) };
        match next {
            Some(waiting) => {
                let (tracks, request) = (waiting.tracks, waiting.id);
                let adjacent = head == Some(tracks.first);
                self.drive(drive).head = Some(tracks.end());
                self.command_drive(drive, Operation::Read(request, tracks), Action::Read { platter, tracks, adjacent, request }, commands);
            }
            None => self.command_drive(drive, Operation::Unmount, Action::Unmount { bay, platter }, commands),
        }
    }

    /// Whether a mounted platter has to make way for the one in the other bay, for which requests
    /// wait: it was mounted for long, or the others have much less time.
    fn is_turn_over(&self, drive: Drive, bay: Bay) -> bool {
        let (state, queue) = (&self.panel.drives[usize::from(drive.0)], &self.panel.queue);
        let [mounted, other] = [bay.0, 1 - bay.0].map(|bay| state.bays[usize::from(bay)].held);
        let Some(other) = other.filter(|held| held.collector.is_none() && queue.requests_for(held.platter) > 0) else { return false };
        let is_urgent = |held: Held| {
            let is_sooner = queue.rank(other.platter) < queue.rank(held.platter);
            is_sooner && queue.head_start(other.platter) > queue.head_start(held.platter) + TURN
        };
        self.panel.now.since(state.mounted_at[usize::from(bay.0)]) >= TURN || mounted.is_some_and(is_urgent)
    }

    pub(super) fn finish_drive_operation(&mut self, drive: Drive, command: CommandId, operation: Operation, commands: &mut Vec<Command>) {
        let active = self.drive(drive).active;
        match operation {
            Operation::Switch(bay) => {
                let state = self.drive(drive);
                (state.active, state.head) = (bay, None);
            }
            Operation::Mount => {
                self.set_stage(drive, active, Stage::Mounted);
                let now = self.panel.now;
                let state = self.drive(drive);
                (state.head, state.mounted_at[usize::from(active.0)]) = (None, now);
            }
            Operation::Unmount => self.finish_unmount(drive, active),
            Operation::Read(request, _) => commands.push(Command::Finish { request, outcome: Outcome::Read }),
            Operation::Verify => {
                if let Some(held) = self.drive(drive).bays[usize::from(active.0)].held {
                    self.note_verified(held.platter, command, None, commands);
                }
            }
        }
        self.start_next_operation(drive, commands);
    }

    fn finish_unmount(&mut self, drive: Drive, bay: Bay) {
        self.drive(drive).head = None;
        self.release(drive, bay);
    }

    /// Lets a shuttle take an unmounted platter.
    pub(super) fn release(&mut self, drive: Drive, bay: Bay) {
        if !self.needs_no_shuttles {
            self.set_stage(drive, bay, Stage::Released);
            return;
        }
        // Without shuttles, the platter is home at once.
        if let Some(platter) = self.panel.vanish(drive, bay) {
            self.enqueue(platter);
        }
    }

    pub(super) fn set_stage(&mut self, drive: Drive, bay: Bay, stage: Stage) {
        if let Some(held) = self.drive(drive).bays[usize::from(bay.0)].held.as_mut() {
            held.stage = stage;
        }
    }

    /// Lets drives verify or stop verifying, as the policy wants it now. Returns true if that has
    /// changed for any.
    pub(super) fn update_verification(&mut self, commands: &mut Vec<Command>) -> bool {
        let mut is_changed = false;
        for index in 0..self.customers_only.len() {
            let (drive, customers_only) = (Drive(index as u16), self.policy.customers_only()[index]);
            if std::mem::replace(&mut self.customers_only[index], customers_only) != customers_only {
                self.drive(drive).should_verify = !customers_only;
                self.start_next_operation(drive, commands);
                is_changed = true;
            }
        }
        is_changed
    }

    /// Without shuttles, requested platters appear in drives at once. Written platters stay at the
    /// port, because no shuttle fetches them.
    /// Returns true if a drive got one.
    pub(super) fn load_drives(&mut self, commands: &mut Vec<Command>) -> bool {
        let mut is_changed = false;
        for drive in self.panel.drives() {
            if self.panel.queue.platters() == 0 {
                break;
            }
            if !self.drive(drive).down
                && self.panel.customers(drive) == 0
                && let Some(platter) = self.panel.first_in(self.panel.lanes())
            {
                is_changed |= self.load_drive(drive, platter, commands);
            }
        }
        is_changed
    }

    /// Without shuttles: puts a platter into an empty bay.
    fn load_drive(&mut self, drive: Drive, platter: Platter, commands: &mut Vec<Command>) -> bool {
        let Some(bay) = self.panel.empty_bay(drive) else { return false };
        self.panel.appear(platter, drive, bay);
        self.start_next_operation(drive, commands);
        true
    }
}
