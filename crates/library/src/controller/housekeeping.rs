//! Chores that no policy decides: written platters go to drives, verified ones to their slots,
//! displaced platters home, shuttles to their docks.

use crate::panel::{BayState, Held, Purpose, Stage, Verification};
use crate::policy::nearest_idle;
use crate::{Berth, Carry, Controller, Drive, Job, Platter, Position, Shuttle, Side, Slot, Whereabouts};

impl Controller {
    /// Assigns one chore to an idle shuttle and returns the shuttle.
    pub(super) fn assign_chore(&mut self) -> Option<Shuttle> {
        self.panel.shuttles.iter().find(|state| state.job == Job::Idle && !state.lost)?;
        self.assign_charging()
            .or_else(|| self.store_verified())
            .or_else(|| self.bring_for_verification())
            .or_else(|| self.return_displaced())
    }

    fn assign_charging(&mut self) -> Option<Shuttle> {
        let is_due = |state: &crate::panel::ShuttleState| state.battery_low && state.job == Job::Idle && !state.lost;
        let index = self.panel.shuttles.iter().position(is_due)?;
        let shuttle = Shuttle(index as u16);
        let dock = self.panel.dock_of(shuttle);
        self.shuttle(shuttle).job = Job::Charge(dock);
        Some(shuttle)
    }

    /// Sends idle shuttles that the policy doesn't need for long to docks.
    pub(super) fn park(&mut self) {
        for shuttle in (0..self.panel.shuttles.len() as u16).map(Shuttle) {
            let state = *self.shuttle(shuttle);
            let is_resting = state.job == Job::Idle && !state.lost && self.panel.traffic.goal(shuttle).is_none();
            if !is_resting || self.panel.traffic.is_moving(shuttle) || self.is_at_dock(shuttle) || !self.policy.stands_by(shuttle) {
                continue;
            }
            if let Some(dock) = self.free_dock(shuttle) {
                self.panel.traffic.set_goal(shuttle, dock);
                self.panel.traffic.advance(shuttle, &mut self.legs);
            }
        }
    }

    fn is_at_dock(&self, shuttle: Shuttle) -> bool {
        let at = self.panel.traffic.at(shuttle);
        [Side::Left, Side::Right].iter().any(|side| self.panel.layout.dock_position(at.shelf, *side) == at)
    }

    /// The nearest dock on a shuttle's side that no other shuttle is at or goes to.
    fn free_dock(&self, shuttle: Shuttle) -> Option<Position> {
        let (layout, traffic) = (&self.panel.layout, &self.panel.traffic);
        let (at, side) = (self.panel.position(shuttle), self.panel.dock_side(shuttle));
        let docks = (0..layout.shelves).map(|shelf| layout.dock_position(shelf, side));
        let is_at = |place: Position, dock: Position| place.shelf == dock.shelf && (place.x_um - dock.x_um).abs() < layout.spacing_um;
        let others = (0..layout.shuttles).map(Shuttle).filter(|other| *other != shuttle);
        let is_free = |dock: &Position| {
            others
                .clone()
                .all(|other| !is_at(self.panel.position(other), *dock) && traffic.goal(other).is_none_or(|goal| !is_at(goal, *dock)))
        };
        docks.filter(is_free).min_by_key(|dock| (self.panel.pace.travel(at, *dock), *dock))
    }

    /// Stores a platter that was read back in full.
    fn store_verified(&mut self) -> Option<Shuttle> {
        // Endless verification is never done.
        if self.panel.verification != Verification::Written {
            return None;
        }
        let drives = self.panel.drives().filter(|drive| self.panel.is_reachable(*drive));
        let is_verified = |held: Held| {
            let state = &self.panel.platters[held.platter.0 as usize];
            let is_done = held.purpose == Purpose::Verification && state.verified == state.tracks;
            is_done && held.stage == Stage::Released && held.collector.is_none()
        };
        let mut done = drives.flat_map(|drive| (0..2).map(move |bay| (drive, crate::Bay(bay))));
        let (drive, bay) = done.find(|(drive, bay)| self.panel.bays(*drive)[usize::from(bay.0)].held.is_some_and(is_verified))?;
        let shuttle = nearest_idle(&self.panel, self.panel.door(drive))?;
        self.assign_task(shuttle, crate::Task::Collect { drive, bay });
        Some(shuttle)
    }

    /// Brings a verification platter to a drive that has none: one that was set aside, else the
    /// first one at the port.
    fn bring_for_verification(&mut self) -> Option<Shuttle> {
        if self.panel.paused_verifications.is_empty() && self.panel.port.is_empty()
            || !self.panel.drives.iter().any(|drive| drive.should_verify)
        {
            return None;
        }
        let needy: Vec<Drive> = self.panel.drives().filter(|drive| self.needs_verification_platter(*drive)).collect();
        if needy.is_empty() {
            return None;
        }
        // The port hands out one platter at a time, so only one shuttle comes.
        let first = self.panel.port.front().filter(|platter| !self.panel.is_claimed(**platter));
        let port = first.map(|platter| (*platter, Berth::Port));
        let aside = self.panel.paused_verifications.iter().filter_map(|platter| match self.panel.whereabouts(*platter) {
            Whereabouts::Berth(from @ Berth::Slot(_)) => Some((*platter, from)),
            _ => None,
        });
        let options = aside.chain(port).filter_map(|(platter, from)| {
            if !self.panel.is_available(platter) || !self.is_berth_reachable(from) {
                return None;
            }
            let place = self.panel.layout.berth_position(from);
            let way = |drive: Drive| (self.panel.pace.travel(place, self.panel.door(drive)), drive);
            let (way, drive) = needy.iter().map(|drive| way(*drive)).min()?;
            // A platter that was set aside is near its drive, and so is the shuttle in charge of
            // it. Other shuttles don't come from afar, unless the verification was requested.
            let comes_from_afar = from == Berth::Port || self.verifications.contains_key(&platter);
            let shuttle = if comes_from_afar { nearest_idle(&self.panel, place) } else { self.nearest_shuttle_if_idle(place) };
            Some(((from == Berth::Port, way), platter, from, drive, shuttle?))
        });
        // The pair of platter and drive with the shortest way: each drive gets back its own.
        let (_, platter, from, drive, shuttle) = options.min_by_key(|(order, ..)| *order)?;
        let bay = self.panel.empty_bay(drive)?;
        self.take_on(shuttle, Carry { platter, from, to: Berth::Bay(drive, bay) });
        Some(shuttle)
    }

    /// Whether a drive should verify, has nothing to verify in its bays or on the way, and can
    /// receive a platter.
    fn needs_verification_platter(&self, drive: Drive) -> bool {
        let is_verification =
            |platter: Platter| self.panel.platters[platter.0 as usize].verified < self.panel.platters[platter.0 as usize].tracks;
        let has = |bay: &BayState| bay.held.is_some_and(|held| is_verification(held.platter)) || bay.incoming.is_some_and(is_verification);
        self.panel.drives[usize::from(drive.0)].should_verify
            && self.panel.empty_bay(drive).is_some()
            && !self.panel.bays(drive).iter().any(has)
            && self.panel.is_reachable(drive)
    }

    /// The working shuttle nearest to a place, if it is idle.
    fn nearest_shuttle_if_idle(&self, place: Position) -> Option<Shuttle> {
        let all = (0..self.panel.layout.shuttles).map(Shuttle).filter(|shuttle| self.panel.is_working(*shuttle));
        let nearest = all.min_by_key(|shuttle| (self.panel.pace.travel(self.panel.position(*shuttle), place), *shuttle))?;
        self.panel.idle_shuttles().find(|shuttle| *shuttle == nearest)
    }

    /// Returns a platter that a failure kept away from its home slot.
    fn return_displaced(&mut self) -> Option<Shuttle> {
        let mut index = 0;
        while let Some(platter) = self.panel.displaced_platters.get(index).copied() {
            let state = self.panel.platters[platter.0 as usize];
            let (Some(home), Whereabouts::Berth(from @ Berth::Slot(slot))) = (state.home, state.whereabouts) else {
                index += 1;
                continue;
            };
            if slot == home {
                self.panel.displaced_platters.swap_remove(index);
                continue;
            }
            if self.panel.is_claimed(platter) || !self.panel.is_available(platter) || !self.is_berth_reachable(Berth::Slot(home)) {
                index += 1;
                continue;
            }
            let shuttle = nearest_idle(&self.panel, state.at)?;
            self.take_on(shuttle, Carry { platter, from, to: Berth::Slot(home) });
            return Some(shuttle);
        }
        None
    }

    /// The slot for a platter: its home, or a spare one while a failure blocks its home. A platter
    /// in a spare slot goes home later. Without a spare slot it waits for its home; `None` if it
    /// has none.
    pub(super) fn choose_destination_slot(&mut self, platter: Platter) -> Option<Slot> {
        let state = self.panel.platters[platter.0 as usize];
        if let Some(home) = state.home.filter(|home| self.is_berth_reachable(Berth::Slot(*home))) {
            return Some(home);
        }
        let Some(slot) = self.panel.spare_slot_for(platter) else { return state.home };
        self.panel.occupy_spare_slot(slot, platter);
        if state.home.is_some() && !self.panel.displaced_platters.contains(&platter) {
            self.panel.displaced_platters.push(platter);
        }
        Some(slot)
    }

    pub(super) fn handle_written(&mut self, platter: Platter) {
        let Some(state) = self.panel.platters.get_mut(platter.0 as usize).filter(|state| state.whereabouts == Whereabouts::Unwritten)
        else {
            self.unexpected_answers += 1;
            return;
        };
        state.at = self.panel.layout.port_position();
        state.whereabouts = Whereabouts::Berth(Berth::Port);
        self.panel.port.push_back(platter);
    }
}
