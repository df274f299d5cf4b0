//! Failures of shuttles, drives and platters. A lost shuttle takes its platter with it and makes
//! the cells around it unreachable; a drive that is down takes the platters in its bays. Requests
//! for unreachable platters end as unavailable, so that the region reads other platters of the set
//! instead.

use crate::layout::RACKS_BEFORE_STORAGE;
use crate::{
    Actor, Bay, Berth, Carry, Cell, Command, CommandId, Controller, Drive, Fault, Job, Outcome, Platter, Position, Purpose, Shuttle, Stage,
};

impl Controller {
    pub(super) fn handle_failed(&mut self, command: CommandId, fault: Fault, commands: &mut Vec<Command>) {
        let is_current = match command.actor {
            Actor::Shuttle(shuttle) => self.shuttle(shuttle).operation.is_some_and(|(id, _)| id == command),
            Actor::Drive(drive) => self.drive(drive).operation.is_some_and(|(id, _)| id == command),
        };
        if is_current {
            self.handle_lost(command.actor, fault, commands);
        } else {
            self.unexpected_answers += 1;
        }
    }

    pub(super) fn handle_lost(&mut self, actor: Actor, fault: Fault, commands: &mut Vec<Command>) {
        match (actor, fault) {
            (Actor::Shuttle(shuttle), Fault::Stopped { x_um } | Fault::Collided { x_um, .. }) => {
                self.mark_shuttle_lost(shuttle, x_um, commands)
            }
            (Actor::Drive(drive), _) => self.mark_drive_down(drive, commands),
            (Actor::Shuttle(_), Fault::DriveDown) => self.unexpected_answers += 1,
        }
    }

    fn mark_shuttle_lost(&mut self, shuttle: Shuttle, x_um: i64, commands: &mut Vec<Command>) {
        if self.shuttle(shuttle).lost {
            return;
        }
        let state = *self.shuttle(shuttle);
        if let Job::Carry(carry) = state.job {
            if state.carrying.is_none() {
                self.cancel_job(shuttle, carry, commands);
            } else {
                self.panel.forget_destination(carry);
                self.release_destination(carry);
            }
        }
        self.panel.traffic.mark_lost(shuttle, x_um);
        let state = self.shuttle(shuttle);
        (state.lost, state.operation, state.job) = (true, None, Job::Idle);
        if let Some(platter) = state.carrying {
            self.end_requests(platter, commands);
        }
        for cell in self.blocked_cells_of(shuttle) {
            self.block(cell, commands);
        }
        for platter in self.platters_before(shuttle) {
            self.end_requests(platter, commands);
        }
        self.reconsider_jobs(commands);
    }

    /// Platters in the slots that others can't stand before while a shuttle is lost.
    fn platters_before(&self, shuttle: Shuttle) -> Vec<Platter> {
        let layout = &self.panel.layout;
        let at = self.panel.traffic.at(shuttle);
        let shelves = [Some(at.shelf), self.panel.traffic.other_shelf(shuttle)];
        let near = [at.x_um - layout.spacing_um, at.x_um, at.x_um + layout.spacing_um];
        let racks = near.map(|x_um| layout.cell_at(Position { x_um: x_um.clamp(0, layout.width_um() - 1), ..at }).rack);
        let cells = shelves.into_iter().flatten().flat_map(|shelf| (racks[0]..=racks[2]).map(move |rack| Cell { rack, shelf }));
        let is_before = |platter: &Platter| {
            let place = layout.slot_position(match self.panel.whereabouts(*platter) {
                crate::Whereabouts::Berth(Berth::Slot(slot)) => slot,
                _ => return false,
            });
            (place.x_um - at.x_um).abs() < layout.spacing_um
        };
        cells.flat_map(|cell| self.platters_in(cell)).filter(is_before).collect()
    }

    /// Lets shuttles that wait for a path to something now unreachable give up or turn elsewhere.
    /// No event would tell them, since nothing moves to make that path free. Those that move find
    /// out at the end of their leg.
    fn reconsider_jobs(&mut self, commands: &mut Vec<Command>) {
        if !self.is_started {
            return;
        }
        for shuttle in (0..self.panel.layout.shuttles).map(Shuttle) {
            let state = *self.shuttle(shuttle);
            let Job::Carry(carry) = state.job else { continue };
            let is_stuck = match state.carrying {
                None => !self.is_berth_reachable(carry.from),
                Some(_) => !self.is_berth_reachable(carry.to),
            };
            if is_stuck {
                self.continue_job(shuttle, commands);
            }
        }
    }

    /// The cells that a lost shuttle makes unreachable.
    fn blocked_cells_of(&self, shuttle: Shuttle) -> Vec<Cell> {
        let at = self.panel.traffic.at(shuttle);
        let other = self.panel.traffic.other_shelf(shuttle);
        let cell = self.panel.layout.cell_at(Position { shelf: at.shelf.min(other.unwrap_or(at.shelf)), ..at });
        self.panel.zones.unreachable(&self.panel.layout, cell, other.is_some()).cells().collect()
    }

    fn block(&mut self, cell: Cell, commands: &mut Vec<Command>) {
        let index = self.cell_index(cell);
        self.panel.blocked[index] += 1;
        if self.panel.blocked[index] == 1 {
            self.panel.blocked_cells += 1;
            for platter in self.platters_in(cell).into_iter().chain(self.platters_beside(cell)) {
                if !self.panel.is_available(platter) {
                    self.end_requests(platter, commands);
                }
            }
            // What waits in them for a shuttle may have to be verified there.
            for drive in self.panel.drives() {
                if self.is_started && self.panel.layout.cell_at(self.panel.door(drive)) == cell {
                    self.start_next_operation(drive, commands);
                }
            }
        }
    }

    /// Platters at the port and in drives that shuttles reach from a cell.
    fn platters_beside(&self, cell: Cell) -> Vec<Platter> {
        let at_port = self.panel.at_port().filter(|_| self.panel.port_cell() == cell);
        let drives = self.panel.drives().filter(|drive| self.panel.layout.cell_at(self.panel.door(*drive)) == cell);
        let in_drives = drives.flat_map(|drive| self.panel.bays(drive).iter().filter_map(|bay| bay.held)).map(|held| held.platter);
        at_port.chain(in_drives).collect()
    }

    fn unblock(&mut self, cell: Cell) {
        let index = self.cell_index(cell);
        self.panel.blocked[index] -= 1;
        if self.panel.blocked[index] == 0 {
            self.panel.blocked_cells -= 1;
            for platter in self.platters_in(cell) {
                self.enqueue(platter);
            }
        }
    }

    fn cell_index(&self, cell: Cell) -> usize {
        usize::from(cell.rack) * usize::from(self.panel.layout.shelves) + usize::from(cell.shelf)
    }

    /// Platters that are in a cell's slots now.
    fn platters_in(&self, cell: Cell) -> Vec<Platter> {
        let layout = &self.panel.layout;
        if cell.rack < RACKS_BEFORE_STORAGE || cell.rack >= RACKS_BEFORE_STORAGE + layout.storage_racks {
            return Vec::new();
        }
        let slots = (0..layout.slots).map(|index| layout.slot(cell, index));
        let is_in_cell = |platter: &Platter| matches!(self.panel.whereabouts(*platter), crate::Whereabouts::Berth(Berth::Slot(slot)) if layout.cell_of(slot) == cell);
        slots.filter_map(|slot| self.panel.slot_occupants[slot.0 as usize]).filter(is_in_cell).collect()
    }

    fn mark_drive_down(&mut self, drive: Drive, commands: &mut Vec<Command>) {
        let state = self.drive(drive);
        if state.down {
            return;
        }
        let read = state.operation.take();
        (state.down, state.head) = (true, None);
        // The request being read has already left the queue.
        if let Some((_, crate::Operation::Read(request, _))) = read {
            commands.push(Command::Finish { request, outcome: Outcome::Unavailable });
        }
        for bay in 0..2 {
            if let Some(held) = self.drive(drive).bays[bay].held {
                self.end_requests(held.platter, commands);
            }
        }
        self.reconsider_jobs(commands);
    }

    pub(super) fn handle_repaired(&mut self, actor: Actor, commands: &mut Vec<Command>) {
        match actor {
            Actor::Shuttle(shuttle) if self.shuttle(shuttle).lost => {
                for cell in self.blocked_cells_of(shuttle) {
                    self.unblock(cell);
                }
                let before = self.platters_before(shuttle);
                self.panel.traffic.return_to_service(shuttle, &mut self.legs);
                self.send_legs(commands);
                self.shuttle(shuttle).lost = false;
                before.into_iter().for_each(|platter| self.enqueue(platter));
                if let Some(platter) = self.shuttle(shuttle).carrying {
                    // Without a slot, any bay will do as the destination: it isn't reserved for
                    // this platter, so the delivery looks for another one.
                    let slot = self.choose_destination_slot(platter);
                    let to = slot.map_or(Berth::Bay(Drive(0), Bay(0)), Berth::Slot);
                    self.shuttle(shuttle).job = Job::Carry(Carry { platter, from: to, to });
                    self.continue_job(shuttle, commands);
                }
            }
            Actor::Drive(drive) if self.drive(drive).down => {
                self.drive(drive).down = false;
                for bay in [Bay(0), Bay(1)] {
                    let Some(held) = self.panel.bays(drive)[usize::from(bay.0)].held else { continue };
                    let platter = &self.panel.platters[held.platter.0 as usize];
                    // Only a platter with tracks left to verify has to be mounted again.
                    let is_done = held.purpose == Purpose::Customer || platter.verified == platter.tracks;
                    if is_done {
                        self.release(drive, bay);
                    } else {
                        self.set_stage(drive, bay, Stage::Arrived);
                    }
                }
                self.start_next_operation(drive, commands);
            }
            _ => self.unexpected_answers += 1,
        }
    }

    pub(super) fn set_available(&mut self, platter: Platter, is_available: bool, commands: &mut Vec<Command>) {
        let Some(state) = self.panel.platters.get_mut(platter.0 as usize) else {
            self.unexpected_answers += 1;
            return;
        };
        state.unavailable = !is_available;
        if is_available {
            self.enqueue(platter);
        } else {
            self.end_requests(platter, commands);
        }
    }

    /// Ends all requests for an unreachable platter as unavailable. Verification that was requested
    /// goes on without the request when the platter can be reached again.
    pub(super) fn end_requests(&mut self, platter: Platter, commands: &mut Vec<Command>) {
        self.panel.queue.remove_platter(platter);
        while let Some(waiting) = self.panel.queue.pop(platter, None) {
            commands.push(Command::Finish { request: waiting.id, outcome: Outcome::Unavailable });
        }
        self.end_verifications(platter, Outcome::Unavailable, commands);
    }
}
