//! Taking up the work of a library again: platters are wherever they were when it stopped.
//!
//! What was under way is finished or undone. A platter on a shuttle goes to its slot, one in a
//! drive is verified or taken home, and one in a spare slot returns home.

use super::{Found, Held, Panel, Purpose, Stage, Whereabouts};
use crate::{Berth, Carry, Job, Platter};

impl Panel {
    /// The platters that are not stored and verified at home, to put into an
    /// [`Inventory`](super::Inventory) whose first `written` platters are. Those at the port are
    /// last, in its order.
    pub fn take_stock(&self, written: u32) -> impl Iterator<Item = Found> + '_ {
        let found = move |(index, state): (usize, &super::PlatterState)| {
            let platter = Platter(index as u32);
            let usual = match state.home {
                Some(home) if (index as u32) < written => Whereabouts::Berth(Berth::Slot(home)),
                Some(_) => Whereabouts::Unwritten,
                // A platter under endless verification.
                None => return None,
            };
            let verified = if usual == Whereabouts::Unwritten { 0 } else { state.tracks };
            let is_usual = (state.whereabouts, state.verified) == (usual, verified);
            (!is_usual).then_some(Found { platter, at: state.whereabouts, verified: state.verified })
        };
        let is_at_port = |state: &super::PlatterState| state.whereabouts == Whereabouts::Berth(Berth::Port);
        let elsewhere = self.platters.iter().enumerate().filter(move |(_, state)| !is_at_port(state)).filter_map(found);
        elsewhere.chain(self.at_port().filter_map(move |platter| found((platter.0 as usize, &self.platters[platter.0 as usize]))))
    }

    /// Puts a platter where it was found.
    ///
    /// # Panics
    /// If another platter is there.
    pub(super) fn put_found(&mut self, found: Found) {
        let Found { platter, at, verified } = found;
        let index = platter.0 as usize;
        let state = &mut self.platters[index];
        (state.whereabouts, state.verified) = (at, verified.min(state.tracks));
        let (home, is_verified) = (state.home, state.verified == state.tracks);
        match at {
            Whereabouts::Unwritten => {}
            Whereabouts::Berth(berth @ Berth::Slot(slot)) => {
                if home != Some(slot) {
                    assert!(self.slot_occupants[slot.0 as usize].is_none(), "platter {index} was found in a slot that belongs to another");
                    self.occupy_spare_slot(slot, platter);
                    if is_verified {
                        self.displaced_platters.push(platter);
                    }
                }
                self.pause_verification(platter);
                self.set_place(platter, berth);
            }
            Whereabouts::Berth(berth @ Berth::Bay(drive, bay)) => {
                let state = &mut self.drives[usize::from(drive.0)].bays[usize::from(bay.0)];
                assert!(state.held.is_none(), "platter {index} was found in a bay that holds another");
                let (purpose, stage) =
                    if is_verified { (Purpose::Customer, Stage::Released) } else { (Purpose::Verification, Stage::Arrived) };
                state.held = Some(Held { platter, purpose, stage, collector: None });
                self.set_place(platter, berth);
            }
            Whereabouts::Berth(Berth::Port) => {
                self.port.push_back(platter);
                self.set_place(platter, Berth::Port);
            }
            Whereabouts::Shuttle(shuttle) => {
                let place = self.traffic.at(shuttle);
                let lane = self.lane_at(place);
                (self.platters[index].at, self.platters[index].lane) = (place, lane);
                let state = &mut self.shuttles[usize::from(shuttle.0)];
                assert!(state.carrying.is_none(), "platter {index} was found on a shuttle that carries another");
                state.carrying = Some(platter);
                if let Some(home) = home {
                    let berth = Berth::Slot(home);
                    state.job = Job::Carry(Carry { platter, from: berth, to: berth });
                }
            }
        }
    }

    fn set_place(&mut self, platter: Platter, berth: Berth) {
        let (at, lane) = (self.layout.berth_position(berth), self.lane_of(berth));
        let state = &mut self.platters[platter.0 as usize];
        (state.at, state.lane) = (at, lane);
    }
}
