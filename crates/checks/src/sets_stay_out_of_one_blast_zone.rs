//! Checks that platters of one set never share a blast zone (I3), neither in their homes nor in the
//! slots where they wait when a failure keeps them from home. A platter in a drive or on a shuttle
//! is in use and counts with its home.

use fulgurite_domain::Micros;
use fulgurite_library::placement::Zones;
use fulgurite_library::{Action, Berth, Cell, Event, Layout, Library, Panel, Platter, Region, Slot, Whereabouts};

use super::AnsweredCommand;

/// Two platters of one set that a single failure can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "at {now}, platters {} and {} of library {} are of set {set}, but rest in one blast zone, in slots {} and {}",
    .platters[0].0, .platters[1].0, .library.0, .slots[0].0, .slots[1].0
)]
pub struct SharedZone {
    /// When the conflict was found.
    pub now: Micros,
    /// The library.
    pub library: Library,
    /// Which set.
    pub set: u32,
    /// The two platters.
    pub platters: [Platter; 2],
    /// Their slots.
    pub slots: [Slot; 2],
}

/// The slots of the platters of each set.
#[derive(Debug, Clone)]
pub struct SetsStayOutOfOneBlastZone {
    zones: Zones,
    layout: Layout,
    /// Platters of each set, with their libraries.
    sets: Vec<Vec<(Library, Platter)>>,
    /// The set of each platter, by library.
    set_of: Vec<Vec<Option<u32>>>,
    /// The home of each platter, by library.
    homes: Vec<Vec<Option<Slot>>>,
    /// The slot with which each platter counts, by library.
    rests: Vec<Vec<Option<Slot>>>,
    guests: u64,
}

impl SetsStayOutOfOneBlastZone {
    /// Checks all homes in a region without input so far, or the slots where platters wait instead.
    ///
    /// # Errors
    /// [`SharedZone`] names the first two platters that share a zone.
    pub fn new(region: &Region, zones: Zones) -> Result<Self, SharedZone> {
        let panels = || region.controllers().iter().map(fulgurite_library::Controller::panel);
        let rest = |panel: &Panel, platter| match panel.whereabouts(platter) {
            Whereabouts::Berth(Berth::Slot(slot)) => Some(slot),
            _ => panel.home(platter),
        };
        let of_all = |slot: &dyn Fn(&Panel, Platter) -> Option<Slot>| -> Vec<Vec<Option<Slot>>> {
            panels().map(|panel| (0..panel.platter_count()).map(|platter| slot(panel, Platter(platter))).collect()).collect()
        };
        let homes = of_all(&|panel, platter| panel.home(platter));
        let rests = of_all(&rest);
        let mut set_of: Vec<Vec<Option<u32>>> = rests.iter().map(|library| vec![None; library.len()]).collect();
        let members = usize::from(region.sets().shape.platters());
        let sets: Vec<Vec<(Library, Platter)>> = region.sets().places.chunks_exact(members).map(<[_]>::to_vec).collect();
        for (set, platters) in sets.iter().enumerate() {
            for (library, platter) in platters {
                set_of[usize::from(library.0)][platter.0 as usize] = Some(set as u32);
            }
        }
        let layout = panels().next().map(|panel| panel.layout().clone()).unwrap_or_default();
        let all = Self { zones, layout, sets, set_of, homes, rests, guests: 0 };
        for (library, platter) in all.sets.iter().flatten() {
            all.compare(Micros::ZERO, *library, *platter)?;
        }
        Ok(all)
    }

    /// Checks a command that was carried out.
    ///
    /// # Errors
    /// [`SharedZone`] if it placed a platter in a zone of its set.
    pub fn observe(&mut self, now: Micros, answered: Option<&AnsweredCommand>) -> Result<(), SharedZone> {
        let Some(AnsweredCommand { library, open, outcome: Event::Done { .. } }) = answered else { return Ok(()) };
        let rests = &mut self.rests[usize::from(library.0)];
        let homes = &self.homes[usize::from(library.0)];
        match open.action {
            Action::Pick { from: Berth::Slot(_), platter } => {
                let platter = platter.0 as usize;
                rests[platter] = homes[platter];
                Ok(())
            }
            Action::Place { to: Berth::Slot(slot), platter } => {
                rests[platter.0 as usize] = Some(slot);
                self.guests += u64::from(homes[platter.0 as usize] != Some(slot));
                self.compare(now, *library, platter)
            }
            _ => Ok(()),
        }
    }

    /// How often a platter was placed in another slot than its home.
    pub fn guests(&self) -> u64 {
        self.guests
    }

    fn compare(&self, now: Micros, library: Library, platter: Platter) -> Result<(), SharedZone> {
        let rest = |platter: Platter| self.rests[usize::from(library.0)][platter.0 as usize];
        let (Some(set), Some(slot)) = (self.set_of[usize::from(library.0)][platter.0 as usize], rest(platter)) else { return Ok(()) };
        let cell: Cell = self.layout.cell_of(slot);
        let others = self.sets[set as usize].iter().filter(|(other_library, other)| *other_library == library && *other != platter);
        for (_, other) in others {
            if let Some(there) = rest(*other)
                && self.zones.share(cell, self.layout.cell_of(there))
            {
                return Err(SharedZone { now, library, set, platters: [platter, *other], slots: [slot, there] });
            }
        }
        Ok(())
    }
}
