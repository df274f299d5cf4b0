//! Job steps of a shuttle: go to the platter, pick it, go to its destination, place it.

use fulgurite_domain::Micros;

use crate::panel::{Held, ShuttleOperation, Stage};
use crate::policy::customer_work;
use crate::traffic::Stance;
use crate::{Action, Bay, Berth, Carry, Command, Controller, Drive, Job, Platter, Position, Purpose, Shuttle, Slot, Whereabouts};

/// A shuttle with a platter for a drive whose bays are needed for longer goes elsewhere.
const WAIT_FOR_BAY: Micros = Micros(120_000_000);

impl Controller {
    /// Starts the next step of a shuttle's job, unless the shuttle is moving or busy.
    pub(super) fn continue_job(&mut self, shuttle: Shuttle, commands: &mut Vec<Command>) {
        let state = *self.shuttle(shuttle);
        if state.lost || state.operation.is_some() || self.panel.traffic.is_moving(shuttle) {
            return;
        }
        match state.job {
            Job::Idle => self.panel.traffic.set_stance(shuttle, Stance::Free),
            Job::Charge(dock) => {
                self.panel.traffic.set_stance(shuttle, Stance::Working);
                if self.go_to(shuttle, dock, commands) {
                    self.command_shuttle(shuttle, ShuttleOperation::Charge, Action::Charge, commands);
                }
            }
            Job::Carry(carry) if state.carrying.is_none() => self.continue_pickup(shuttle, carry, commands),
            Job::Carry(carry) => self.continue_delivery(shuttle, carry, commands),
        }
    }

    /// Goes to the platter and picks it.
    fn continue_pickup(&mut self, shuttle: Shuttle, carry: Carry, commands: &mut Vec<Command>) {
        // A drive needs its bay again, whether or not the platter in it can be used.
        let is_wanted = matches!(carry.from, Berth::Bay(..)) || self.panel.is_available(carry.platter);
        if !is_wanted || !self.is_berth_reachable(carry.from) {
            // The platter has become unreachable.
            self.cancel_job(shuttle, carry, commands);
            self.panel.traffic.drop_goal(shuttle);
            return;
        }
        self.panel.traffic.set_stance(shuttle, Stance::Working);
        if self.go_to(shuttle, self.panel.layout.berth_position(carry.from), commands) {
            let action = Action::Pick { from: carry.from, platter: carry.platter };
            self.command_shuttle(shuttle, ShuttleOperation::Pick, action, commands);
        }
    }

    /// Goes to the destination and places the platter.
    fn continue_delivery(&mut self, shuttle: Shuttle, carry: Carry, commands: &mut Vec<Command>) {
        if !self.is_berth_reachable(carry.to) || !self.is_reserved(carry) {
            self.redirect(shuttle, carry);
            let Job::Carry(again) = self.shuttle(shuttle).job else { return };
            if again.to != carry.to {
                self.continue_delivery(shuttle, again, commands);
            } else {
                self.stranded.retain(|other| *other != shuttle);
                self.stranded.push(shuttle);
            }
            return;
        }
        let target = self.panel.layout.berth_position(carry.to);
        let carry = self.exchange_bays(shuttle, carry);
        if self.is_occupied(carry.to) {
            self.wait_for_bay(shuttle, carry, commands);
            return;
        }
        self.panel.traffic.set_stance(shuttle, Stance::Working);
        if self.go_to(shuttle, target, commands) {
            let action = Action::Place { to: carry.to, platter: carry.platter };
            self.command_shuttle(shuttle, ShuttleOperation::Place, action, commands);
        }
    }

    /// If the bay at its destination is occupied and the other one isn't, the shuttle uses that. A
    /// shuttle on its way to the other one gets this one instead.
    fn exchange_bays(&mut self, shuttle: Shuttle, carry: Carry) -> Carry {
        let Berth::Bay(drive, bay) = carry.to else { return carry };
        let other = Bay(1 - bay.0);
        if !self.is_occupied(carry.to) || self.is_occupied(Berth::Bay(drive, other)) {
            return carry;
        }
        let expected = self.panel.bays(drive)[usize::from(other.0)].incoming;
        let carriers = (0..self.panel.shuttles.len() as u16).map(Shuttle);
        let mut carries = carriers.filter_map(|carrier| match self.panel.job(carrier) {
            Job::Carry(carry) => Some((carrier, carry)),
            Job::Idle | Job::Charge(_) => None,
        });
        let of_other = expected.and_then(|platter| carries.find(|(_, carry)| carry.platter == platter));
        if let Some((carrier, of_other)) = of_other {
            if self.shuttle(carrier).operation.is_some_and(|(_, operation)| operation == ShuttleOperation::Place) {
                return carry;
            }
            self.panel.forget_destination(of_other);
        }
        let carry = self.panel.change_destination(carry, Berth::Bay(drive, other));
        self.shuttle(shuttle).job = Job::Carry(carry);
        if let Some((carrier, of_other)) = of_other {
            self.shuttle(carrier).job = Job::Carry(self.panel.change_destination(of_other, Berth::Bay(drive, bay)));
        }
        carry
    }

    /// Both bays of the drive are occupied. The shuttle keeps off the door, because another one has
    /// to fetch a platter; it can be asked to make room.
    fn wait_for_bay(&mut self, shuttle: Shuttle, carry: Carry, commands: &mut Vec<Command>) {
        let Berth::Bay(drive, _) = carry.to else { return };
        if self.waits_in_vain(shuttle, drive) {
            self.redirect(shuttle, carry);
            let Job::Carry(again) = self.shuttle(shuttle).job else { return };
            if again.to != carry.to {
                self.continue_delivery(shuttle, again, commands);
                return;
            }
        }
        self.stranded.retain(|other| *other != shuttle);
        self.stranded.push(shuttle);
        let target = self.panel.layout.drive_position(drive);
        self.panel.traffic.set_stance(shuttle, Stance::Free);
        let at = self.panel.position(shuttle);
        let step = 2 * self.panel.layout.spacing_um;
        let off_um = if target.x_um < self.panel.layout.middle_um() { target.x_um + step } else { target.x_um - step };
        if (at.x_um - off_um).abs() > step {
            self.go_to(shuttle, Position { x_um: off_um, ..at }, commands);
        } else {
            self.panel.traffic.drop_goal(shuttle);
        }
    }

    /// Whether the drive will need its platters for long, or no other shuttle can come to take one
    /// away: all wait for bays themselves.
    fn waits_in_vain(&self, shuttle: Shuttle, drive: Drive) -> bool {
        if customer_work(&self.panel, drive) > WAIT_FOR_BAY {
            return true;
        }
        let is_released = |held: Held| held.stage == Stage::Released && held.collector.is_none();
        let bays = self.panel.bays(drive);
        if !bays.iter().all(|bay| bay.held.is_some_and(is_released)) {
            return false;
        }
        let others = (0..self.panel.shuttles.len() as u16).map(Shuttle).filter(|other| *other != shuttle && self.panel.is_working(*other));
        let mut others = others.map(|other| (self.panel.job(other), self.panel.carried(other)));
        others.all(|(job, carried)| matches!(job, Job::Carry(carry) if carried.is_some() && self.is_occupied(carry.to)))
    }

    /// Sends the shuttle to a position. Returns true if it is already there.
    fn go_to(&mut self, shuttle: Shuttle, to: Position, commands: &mut Vec<Command>) -> bool {
        if self.panel.traffic.at(shuttle) == to {
            self.panel.traffic.drop_goal(shuttle);
            return true;
        }
        if self.panel.traffic.goal(shuttle) != Some(to) {
            self.panel.traffic.set_goal(shuttle, to);
        }
        self.panel.traffic.advance(shuttle, &mut self.legs);
        self.send_legs(commands);
        false
    }

    /// Sends move commands for the legs that traffic has started.
    pub(super) fn send_legs(&mut self, commands: &mut Vec<Command>) {
        while let Some((shuttle, to)) = self.legs.pop() {
            self.command_shuttle(shuttle, ShuttleOperation::Leg(to), Action::Move { to }, commands);
        }
    }

    pub(super) fn finish_shuttle_operation(&mut self, shuttle: Shuttle, operation: ShuttleOperation, commands: &mut Vec<Command>) {
        match operation {
            ShuttleOperation::Leg(to) => {
                let has_ended = self.panel.traffic.leg_ended(shuttle, to, &mut self.legs);
                // Shuttles that waited for this place go first.
                self.panel.traffic.retry(&mut self.legs);
                self.send_legs(commands);
                if has_ended {
                    self.continue_job(shuttle, commands);
                }
            }
            ShuttleOperation::Pick => self.finish_pick(shuttle, commands),
            ShuttleOperation::Place => self.finish_place(shuttle, commands),
            ShuttleOperation::Charge => {
                self.shuttle(shuttle).battery_low = false;
                self.become_idle(shuttle);
            }
        }
    }

    fn finish_pick(&mut self, shuttle: Shuttle, commands: &mut Vec<Command>) {
        let Job::Carry(carry) = self.shuttle(shuttle).job else { unreachable!("only a carrying shuttle picks") };
        self.shuttle(shuttle).carrying = Some(carry.platter);
        self.panel.platters[carry.platter.0 as usize].whereabouts = Whereabouts::Shuttle(shuttle);
        match carry.from {
            Berth::Slot(slot) => self.release_borrowed_slot(slot, carry.platter),
            Berth::Port => {
                self.panel.port.retain(|platter| *platter != carry.platter);
            }
            Berth::Bay(drive, bay) => {
                self.drive(drive).bays[usize::from(bay.0)].held = None;
                if let Some(incoming) = self.drive(drive).bays[usize::from(bay.0)].incoming {
                    self.continue_delivery_of(incoming, commands);
                }
                self.start_next_operation(drive, commands);
            }
        }
        self.continue_job(shuttle, commands);
    }

    /// Frees a slot that was only borrowed. A platter's home stays reserved while the platter is
    /// away.
    fn release_borrowed_slot(&mut self, slot: Slot, platter: Platter) {
        if self.panel.platters[platter.0 as usize].home != Some(slot) {
            self.panel.release_spare_slot(slot);
        }
    }

    /// Continues the job of the shuttle that carries a platter.
    fn continue_delivery_of(&mut self, platter: Platter, commands: &mut Vec<Command>) {
        if let Whereabouts::Shuttle(carrier) = self.panel.whereabouts(platter) {
            self.continue_job(carrier, commands);
        }
    }

    fn finish_place(&mut self, shuttle: Shuttle, commands: &mut Vec<Command>) {
        let Job::Carry(carry) = self.shuttle(shuttle).job else { unreachable!("only a carrying shuttle places") };
        self.shuttle(shuttle).carrying = None;
        let state = &self.panel.platters[carry.platter.0 as usize];
        // One that customers want is read for them and taken home, so that it doesn't keep others
        // out of the drive for as long as verification takes.
        let needs_verifying = state.verified < state.tracks && self.panel.queue.requests_for(carry.platter) == 0;
        self.panel.arrive(carry, if needs_verifying { Purpose::Verification } else { Purpose::Customer });
        self.become_idle(shuttle);
        match carry.to {
            // It went down while the shuttle was placing the platter.
            Berth::Bay(drive, _) if self.drive(drive).down => self.end_requests(carry.platter, commands),
            Berth::Bay(drive, _) => self.start_next_operation(drive, commands),
            // It became unreachable while the shuttle was placing the platter.
            Berth::Slot(_) if !self.panel.is_available(carry.platter) => self.end_requests(carry.platter, commands),
            Berth::Slot(_) => self.enqueue(carry.platter),
            Berth::Port => unreachable!("no platter is carried to the port"),
        }
    }

    pub(super) fn become_idle(&mut self, shuttle: Shuttle) {
        self.shuttle(shuttle).job = Job::Idle;
        self.panel.traffic.set_stance(shuttle, Stance::Free);
    }

    fn is_occupied(&self, berth: Berth) -> bool {
        matches!(berth, Berth::Bay(drive, bay) if self.panel.bays(drive)[usize::from(bay.0)].held.is_some())
    }

    /// Whether the destination of a carried platter is kept free for it.
    fn is_reserved(&self, carry: Carry) -> bool {
        match carry.to {
            Berth::Slot(slot) => self.panel.slot_occupants[slot.0 as usize] == Some(carry.platter),
            Berth::Bay(drive, bay) => self.panel.bays(drive)[usize::from(bay.0)].incoming == Some(carry.platter),
            Berth::Port => false,
        }
    }

    /// Whether shuttles can reach a berth.
    pub(super) fn is_berth_reachable(&self, berth: Berth) -> bool {
        match berth {
            Berth::Slot(slot) => !self.panel.is_slot_blocked(slot),
            Berth::Bay(drive, _) => self.panel.is_reachable(drive),
            Berth::Port => !self.panel.is_blocked(self.panel.port_cell()),
        }
    }

    /// Cancels a job before its platter is picked.
    pub(super) fn cancel_job(&mut self, shuttle: Shuttle, carry: Carry, commands: &mut Vec<Command>) {
        self.release_destination(carry);
        self.panel.give_up(carry);
        self.become_idle(shuttle);
        match carry.from {
            // It may have been requested while a shuttle was to take it away.
            Berth::Bay(drive, _) => self.start_next_operation(drive, commands),
            Berth::Slot(_) | Berth::Port => self.enqueue(carry.platter),
        }
    }

    /// Frees a spare slot reserved for a platter that won't come.
    pub(super) fn release_destination(&mut self, carry: Carry) {
        if let Berth::Slot(slot) = carry.to
            && self.panel.platters[carry.platter.0 as usize].home != Some(slot)
            && self.is_reserved(carry)
        {
            self.panel.release_spare_slot(slot);
        }
    }

    /// Chooses a new destination for a carried platter whose old one has become unreachable. If
    /// none is open, the shuttle waits, and its job keeps the old one without a reservation.
    fn redirect(&mut self, shuttle: Shuttle, carry: Carry) {
        let wants_drive = matches!(carry.to, Berth::Bay(..));
        self.panel.forget_destination(carry);
        self.release_destination(carry);
        let at = self.panel.position(shuttle);
        let rooms = self.panel.drives().filter(|drive| self.panel.is_reachable(*drive));
        let rooms = rooms.filter_map(|drive| {
            Some((self.panel.pace.travel(at, self.panel.layout.drive_position(drive)), drive, self.panel.empty_bay(drive)?))
        });
        let room = rooms.min().map(|(_, drive, bay)| Berth::Bay(drive, bay));
        let slot = if wants_drive && room.is_some() { None } else { self.choose_destination_slot(carry.platter).map(Berth::Slot) };
        let is_requested = self.panel.queue.requests_for(carry.platter) > 0;
        let carry = match (slot.filter(|slot| self.is_berth_reachable(*slot)), room) {
            // If no slot will do, a platter that is wanted needn't wait for one.
            (None, Some(room)) if wants_drive || is_requested => self.panel.change_destination(carry, room),
            _ => slot.map_or(carry, |to| Carry { to, ..carry }),
        };
        self.shuttle(shuttle).job = Job::Carry(carry);
        self.panel.traffic.drop_goal(shuttle);
        self.panel.traffic.set_stance(shuttle, Stance::Free);
    }
}
