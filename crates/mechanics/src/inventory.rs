//! The ground truth of every platter's place. The controller keeps its own view, and only commands
//! and events keep the two consistent: if they differ, a shuttle finds an empty slot and the run
//! stops.
//!
//! ```text
//!   slots [ p7 ][    ][ p2 ] ...        bays [ p4 |    ] ...        port  -> p9, p11 ->
//!   whereabouts, by platter: p2 in slot 2, p4 in bay 0 of drive 0, p5 on shuttle 3, ...
//! ```

use std::collections::VecDeque;

use fulgurite_library::{Bay, Berth, Drive, Layout, Platter, Shuttle, Slot};

/// The place of a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// Not in this library.
    Absent,
    /// In a berth.
    At(Berth),
    /// On a shuttle.
    On(Shuttle),
}

/// The place of each platter and the content of each place.
#[derive(Debug, Clone)]
pub(crate) struct Inventory {
    slots: Vec<Option<Platter>>,
    bays: Vec<[Option<Platter>; 2]>,
    shuttles: Vec<Option<Platter>>,
    port: VecDeque<Platter>,
    whereabouts: Vec<Whereabouts>,
}

impl Inventory {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self {
            slots: vec![None; layout.slot_count() as usize],
            bays: vec![[None; 2]; layout.drive_count().into()],
            shuttles: vec![None; layout.shuttles.into()],
            port: VecDeque::new(),
            whereabouts: Vec::new(),
        }
    }

    pub(crate) fn whereabouts(&self, platter: Platter) -> Whereabouts {
        self.whereabouts.get(platter.0 as usize).copied().unwrap_or(Whereabouts::Absent)
    }

    /// The platter that can be picked from a berth; at the port, the one that arrived first.
    pub(crate) fn at(&self, berth: Berth) -> Option<Platter> {
        match berth {
            Berth::Slot(Slot(slot)) => self.slots[slot as usize],
            Berth::Bay(Drive(drive), Bay(bay)) => self.bays[usize::from(drive)][usize::from(bay)],
            Berth::Port => self.port.front().copied(),
        }
    }

    pub(crate) fn carried(&self, shuttle: Shuttle) -> Option<Platter> {
        self.shuttles[usize::from(shuttle.0)]
    }

    /// Adds a platter at a berth. Returns false if the berth is occupied or the platter already has
    /// a place.
    pub(crate) fn put(&mut self, platter: Platter, berth: Berth) -> bool {
        let free = berth == Berth::Port || self.at(berth).is_none();
        if !free || self.whereabouts(platter) != Whereabouts::Absent {
            return false;
        }
        self.make_known(platter);
        self.fill_berth(platter, berth);
        true
    }

    /// Adds a platter on a shuttle. Returns false if the shuttle is loaded or the platter already
    /// has a place.
    pub(crate) fn load(&mut self, platter: Platter, shuttle: Shuttle) -> bool {
        if self.carried(shuttle).is_some() || self.whereabouts(platter) != Whereabouts::Absent {
            return false;
        }
        self.make_known(platter);
        self.shuttles[usize::from(shuttle.0)] = Some(platter);
        self.whereabouts[platter.0 as usize] = Whereabouts::On(shuttle);
        true
    }

    fn make_known(&mut self, platter: Platter) {
        if self.whereabouts.len() <= platter.0 as usize {
            self.whereabouts.resize(platter.0 as usize + 1, Whereabouts::Absent);
        }
    }

    /// Moves a platter from a berth to a shuttle. Returns false if it isn't in the berth or the
    /// shuttle is loaded.
    pub(crate) fn pick(&mut self, shuttle: Shuttle, from: Berth, platter: Platter) -> bool {
        if self.at(from) != Some(platter) || self.carried(shuttle).is_some() {
            return false;
        }
        self.clear_berth(from);
        self.shuttles[usize::from(shuttle.0)] = Some(platter);
        self.whereabouts[platter.0 as usize] = Whereabouts::On(shuttle);
        true
    }

    /// Moves a platter from a shuttle to a berth. Returns false if the shuttle doesn't carry it or
    /// the berth is occupied.
    pub(crate) fn place(&mut self, shuttle: Shuttle, to: Berth, platter: Platter) -> bool {
        if self.carried(shuttle) != Some(platter) || self.at(to).is_some() {
            return false;
        }
        self.shuttles[usize::from(shuttle.0)] = None;
        self.fill_berth(platter, to);
        true
    }

    /// Moves a platter between berths instantly, for the baseline without shuttles. Returns false
    /// if it isn't at `from` or `to` is occupied.
    pub(crate) fn move_instantly(&mut self, platter: Platter, from: Berth, to: Berth) -> bool {
        if self.at(from) != Some(platter) || self.at(to).is_some() {
            return false;
        }
        self.clear_berth(from);
        self.fill_berth(platter, to);
        true
    }

    fn clear_berth(&mut self, from: Berth) {
        match from {
            Berth::Slot(Slot(slot)) => self.slots[slot as usize] = None,
            Berth::Bay(Drive(drive), Bay(bay)) => self.bays[usize::from(drive)][usize::from(bay)] = None,
            Berth::Port => drop(self.port.pop_front()),
        }
    }

    fn fill_berth(&mut self, platter: Platter, berth: Berth) {
        match berth {
            Berth::Slot(Slot(slot)) => self.slots[slot as usize] = Some(platter),
            Berth::Bay(Drive(drive), Bay(bay)) => self.bays[usize::from(drive)][usize::from(bay)] = Some(platter),
            Berth::Port => self.port.push_back(platter),
        }
        self.whereabouts[platter.0 as usize] = Whereabouts::At(berth);
    }

    /// Counts the platters of the library.
    ///
    /// # Panics
    /// If a platter is not at its recorded place, or a place holds another platter.
    pub(crate) fn check(&self) -> usize {
        for (number, whereabouts) in self.whereabouts.iter().enumerate() {
            let platter = Platter(number as u32);
            let found = match *whereabouts {
                Whereabouts::Absent => true,
                Whereabouts::At(Berth::Port) => self.port.contains(&platter),
                Whereabouts::At(berth) => self.at(berth) == Some(platter),
                Whereabouts::On(shuttle) => self.carried(shuttle) == Some(platter),
            };
            assert!(found, "platter {number} is recorded as {whereabouts:?}, but is not there");
        }
        let known = self.whereabouts.iter().filter(|whereabouts| **whereabouts != Whereabouts::Absent).count();
        let places = self.slots.iter().chain(self.bays.iter().flatten()).chain(&self.shuttles);
        let resting = places.flatten().count() + self.port.len();
        assert_eq!(resting, known, "places hold {resting} platters, but {known} are known");
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platter_is_in_one_place_at_a_time() {
        let mut inventory = Inventory::new(&Layout::default());
        let (slot, bay) = (Berth::Slot(Slot(5)), Berth::Bay(Drive(1), Bay(1)));
        assert!(inventory.put(Platter(3), slot));
        assert!(!inventory.put(Platter(3), bay), "twice in the library");
        assert!(!inventory.put(Platter(4), slot), "two in a slot");
        assert!(inventory.pick(Shuttle(2), slot, Platter(3)));
        assert_eq!(inventory.whereabouts(Platter(3)), Whereabouts::On(Shuttle(2)));
        assert!(!inventory.pick(Shuttle(3), slot, Platter(3)), "picked twice");
        assert!(inventory.place(Shuttle(2), bay, Platter(3)));
        assert!(!inventory.place(Shuttle(2), slot, Platter(3)), "placed twice");
        assert_eq!(inventory.check(), 1);
    }

    #[test]
    fn the_port_releases_platters_in_the_order_they_were_written() {
        let mut inventory = Inventory::new(&Layout::default());
        assert!(inventory.put(Platter(8), Berth::Port) && inventory.put(Platter(2), Berth::Port));
        assert!(!inventory.pick(Shuttle(0), Berth::Port, Platter(2)));
        assert!(inventory.pick(Shuttle(0), Berth::Port, Platter(8)) && inventory.pick(Shuttle(1), Berth::Port, Platter(2)));
        assert_eq!(inventory.check(), 2);
    }
}
