//! Who is responsible for a platter: the shuttle that will pick it, and the bay that is kept free
//! for it. All changes go through these transitions.
//!
//! ```text
//! in a slot or at the port --take_on--> claimed; the bay at its destination expects it
//! released in a bay        --take_on--> a shuttle collects it
//!            on a shuttle:             change_destination, forget_destination
//!       cancelled before it is picked: give_up
//!            placed:                   arrive
//! ```

use super::{Held, Panel, Purpose, Stage, Whereabouts};
use crate::{Bay, Berth, Carry, Drive, Platter, Shuttle};

impl Panel {
    /// A shuttle will carry a platter: nothing else takes it, and its bay expects it.
    pub(crate) fn take_on(&mut self, shuttle: Shuttle, carry: Carry) {
        if let Berth::Bay(drive, bay) = carry.from {
            if let Some(held) = self.held_mut(drive, bay) {
                held.collector = Some(shuttle);
            }
        } else {
            self.queue.remove_platter(carry.platter);
            self.platters[carry.platter.0 as usize].claimed = true;
            self.paused_verifications.retain(|platter| *platter != carry.platter);
        }
        self.expect(carry);
    }

    /// A shuttle won't carry a platter that it has not picked.
    pub(crate) fn give_up(&mut self, carry: Carry) {
        if let Berth::Bay(drive, bay) = carry.from
            && let Some(held) = self.held_mut(drive, bay).filter(|held| held.platter == carry.platter)
        {
            held.collector = None;
        }
        self.platters[carry.platter.0 as usize].claimed = false;
        self.pause_verification(carry.platter);
        self.forget_destination(carry);
    }

    /// A platter on its way goes elsewhere: the new bay expects it, and the old one doesn't.
    pub(crate) fn change_destination(&mut self, carry: Carry, to: Berth) -> Carry {
        self.forget_destination(carry);
        let carry = Carry { to, ..carry };
        self.expect(carry);
        carry
    }

    /// The bay at the destination doesn't expect the platter any more.
    pub(crate) fn forget_destination(&mut self, carry: Carry) {
        if let Berth::Bay(drive, bay) = carry.to {
            let state = &mut self.drives[usize::from(drive.0)].bays[usize::from(bay.0)];
            state.incoming = state.incoming.filter(|platter| *platter != carry.platter);
        }
    }

    /// A shuttle has placed a platter.
    pub(crate) fn arrive(&mut self, carry: Carry, purpose: Purpose) {
        let at = self.layout.berth_position(carry.to);
        let lane = self.lane_at(at);
        let state = &mut self.platters[carry.platter.0 as usize];
        (state.whereabouts, state.at, state.lane, state.claimed) = (Whereabouts::Berth(carry.to), at, lane, false);
        if let Berth::Bay(drive, bay) = carry.to {
            let held = Held { platter: carry.platter, purpose, stage: Stage::Arrived, collector: None };
            let state = &mut self.drives[usize::from(drive.0)].bays[usize::from(bay.0)];
            (state.held, state.incoming) = (Some(held), None);
        }
        self.pause_verification(carry.platter);
    }

    /// A platter stays in a slot: if it isn't verified, it waits there to be.
    pub(super) fn pause_verification(&mut self, platter: Platter) {
        let state = &self.platters[platter.0 as usize];
        let is_in_slot = matches!(state.whereabouts, Whereabouts::Berth(Berth::Slot(_)));
        if is_in_slot && state.verified < state.tracks {
            self.paused_verifications.push(platter);
        }
    }

    /// A verified platter in a slot is to be verified again. A shuttle that is to fetch it brings
    /// it to a drive anyway, or leaves it to wait in its slot.
    pub(crate) fn await_verification(&mut self, platter: Platter) {
        if !self.is_claimed(platter) {
            self.pause_verification(platter);
        }
    }

    /// Without shuttles: a platter is in a bay at once, and keeps its slot.
    pub(crate) fn appear(&mut self, platter: Platter, drive: Drive, bay: Bay) {
        self.queue.remove_platter(platter);
        let held = Held { platter, purpose: Purpose::Customer, stage: Stage::Arrived, collector: None };
        self.drives[usize::from(drive.0)].bays[usize::from(bay.0)].held = Some(held);
        let state = &mut self.platters[platter.0 as usize];
        (state.whereabouts, state.claimed) = (Whereabouts::Berth(Berth::Bay(drive, bay)), true);
    }

    /// Without shuttles: a platter is back in its slot at once.
    pub(crate) fn vanish(&mut self, drive: Drive, bay: Bay) -> Option<Platter> {
        let held = self.drives[usize::from(drive.0)].bays[usize::from(bay.0)].held.take()?;
        let state = &mut self.platters[held.platter.0 as usize];
        state.claimed = false;
        if let Some(home) = state.home {
            state.whereabouts = Whereabouts::Berth(Berth::Slot(home));
        }
        Some(held.platter)
    }

    /// Whether a shuttle is to pick a platter from its slot or the port.
    pub(crate) fn is_claimed(&self, platter: Platter) -> bool {
        self.platters[platter.0 as usize].claimed
    }

    fn expect(&mut self, carry: Carry) {
        if let Berth::Bay(drive, bay) = carry.to {
            self.drives[usize::from(drive.0)].bays[usize::from(bay.0)].incoming = Some(carry.platter);
        }
    }

    fn held_mut(&mut self, drive: Drive, bay: Bay) -> Option<&mut Held> {
        self.drives[usize::from(drive.0)].bays[usize::from(bay.0)].held.as_mut()
    }
}
