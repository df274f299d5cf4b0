//! Slots that are no platter's home: room for platters that can't go home, or have none.

use fulgurite_domain::Micros;

use super::Panel;
use crate::{Cell, Platter, Position, Slot};

impl Panel {
    /// Slots that are no platter's home, and that no platter occupies or is on its way to.
    #[must_use]
    pub fn spare_slots(&self) -> u32 {
        self.spare_slots
    }

    /// Assigns a platter to a spare slot.
    pub(crate) fn occupy_spare_slot(&mut self, slot: Slot, platter: Platter) {
        self.slot_occupants[slot.0 as usize] = Some(platter);
        self.spare_slots -= 1;
    }

    /// Frees a spare slot.
    pub(crate) fn release_spare_slot(&mut self, slot: Slot) {
        self.slot_occupants[slot.0 as usize] = None;
        self.spare_slots += 1;
    }

    pub(super) fn has_reachable_spare_slot(&self) -> bool {
        let is_reachable = |(slot, occupant): (usize, &Option<Platter>)| occupant.is_none() && !self.is_slot_blocked(Slot(slot as u32));
        self.spare_slots > 0 && (self.blocked_cells == 0 || self.slot_occupants.iter().enumerate().any(is_reachable))
    }

    /// The nearest reachable one of the [spare slots](Self::spare_slots).
    #[must_use]
    pub fn spare_slot(&self, near: Position) -> Option<Slot> {
        self.spare_slot_where(near, |_| true)
    }

    /// A spare slot that shares no blast zone with other platters of the platter's set (I3).
    pub(crate) fn spare_slot_for(&self, platter: Platter) -> Option<Slot> {
        let set_of = |platter: Platter| self.sets.get(platter.0 as usize);
        let set = set_of(platter);
        let is_other = |other: &Platter| set.is_some() && *other != platter && set_of(*other) == set;
        // Homes of the others, slots where they are, and slots to which shuttles carry them.
        let slots = self.slot_occupants.iter().zip(0..).filter(|(occupant, _)| occupant.as_ref().is_some_and(is_other));
        let cells: Vec<Cell> = slots.map(|(_, slot)| self.layout.cell_of(Slot(slot))).collect();
        let near = self.platters[platter.0 as usize].at;
        self.spare_slot_where(near, |cell| cells.iter().all(|other| !self.zones.share(cell, *other)))
    }

    fn spare_slot_where(&self, near: Position, is_allowed: impl Fn(Cell) -> bool) -> Option<Slot> {
        let (layout, slots) = (&self.layout, u32::from(self.layout.slots));
        if self.spare_slots == 0 {
            return None;
        }
        let least_way = |row: u32| {
            let ends = [row * slots, (row + 1) * slots - 1].map(|slot| layout.slot_position(Slot(slot)));
            self.pace.travel(near, Position { x_um: near.x_um.clamp(ends[0].x_um, ends[1].x_um), ..ends[0] })
        };
        let rows = 0..self.slot_occupants.len() as u32 / slots;
        let is_open = |cell| !self.is_blocked(cell) && is_allowed(cell);
        let rows = rows.filter(|row| is_open(layout.cell_of(Slot(row * slots))));
        let mut rows: Vec<(Micros, u32)> = rows.map(|row| (least_way(row), row)).collect();
        rows.sort_unstable();
        let mut best: Option<(Micros, Slot)> = None;
        for (least, row) in rows {
            // Beyond rounding, no other cell has a nearer slot.
            if best.is_some_and(|(way, _)| least > way + Micros(1)) {
                break;
            }
            let free = (row * slots..(row + 1) * slots).map(Slot).filter(|slot| self.slot_occupants[slot.0 as usize].is_none());
            let free = free.filter(|slot| !self.is_slot_blocked(*slot));
            let nearest = free.map(|slot| (self.pace.travel(near, layout.slot_position(slot)), slot)).min();
            best = best.into_iter().chain(nearest).min();
        }
        best.map(|(_, slot)| slot)
    }
}
