//! The planner: tracks free slots and chooses where the next set, or one platter of a set, goes.
//!
//! ```text
//! free slots    100  99 100 ...        of all sets of cells that keep the rule, take the one with the
//! per cell       98 100 100 ...   -->  most free slots in its cells: the least occupied area, found
//!               100   0  97 ...        exactly (see `patterns`). Each cell gives its first free slot;
//!                                      full cells are excluded.
//! ```
//!
//! Its answers depend only on which slots are free, so a planner rebuilt from an inventory
//! continues like the old one.

use std::collections::BTreeMap;

use super::patterns::BLOCKED;
use super::{Patterns, PlacementError, Search, Zones};
use crate::{Cell, Layout, Slot};

/// Places sets and platters in one library. The methods panic for a slot that the layout lacks.
#[derive(Debug, Clone)]
pub struct Planner {
    layout: Layout,
    zones: Zones,
    patterns: Patterns,
    /// Keyed by members of a set.
    searches: BTreeMap<usize, Search>,
    cells: Vec<Slots>,
    weights: Vec<i64>,
}

#[derive(Debug, Clone)]
struct Slots {
    /// One bit per slot, set if it is free.
    free: Vec<u64>,
    count: u16,
}

/// A cell with free slots that no complete set can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unusable {
    /// The cell.
    pub cell: Cell,
    /// Its free slots.
    pub free: u16,
    /// Why no set can use them.
    pub reason: Reason,
}

/// Why no complete set can use a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The rule: no set of this size can use this cell, not even in an empty library.
    Rule,
    /// Every set that would use this cell also needs a cell that is full.
    OthersFull,
}

impl Planner {
    /// Creates the planner of an empty library.
    ///
    /// # Errors
    /// [`PlacementError`] if the zones are invalid, or the layout has too many choices for an exact
    /// answer.
    pub fn new(layout: &Layout, zones: &Zones) -> Result<Self, PlacementError> {
        let patterns = Patterns::new(layout.storage_racks.into(), layout.shelves.into(), zones)?;
        let cells = usize::from(layout.storage_racks) * usize::from(layout.shelves);
        let words = usize::from(layout.slots).div_ceil(64);
        let word = |index: usize| match usize::from(layout.slots) - index * 64 {
            left @ 0..64 => (1 << left) - 1,
            _ => u64::MAX,
        };
        let empty = Slots { free: (0..words).map(word).collect(), count: layout.slots };
        let (layout, zones) = (layout.clone(), zones.clone());
        Ok(Self { layout, zones, patterns, searches: BTreeMap::new(), cells: vec![empty; cells], weights: Vec::new() })
    }

    /// The most platters that one set can have here.
    #[must_use]
    pub fn most(&self) -> usize {
        self.patterns.most()
    }

    /// Marks a slot as occupied, for example by a platter of an inventory. Returns false if it was
    /// occupied already.
    pub fn take(&mut self, slot: Slot) -> bool {
        let was_free = self.is_free(slot);
        if was_free {
            let (cell, word, bit) = self.place_of(slot);
            self.cells[cell].free[word] &= !bit;
            self.cells[cell].count -= 1;
        }
        was_free
    }

    /// Marks a slot as free. Returns false if it was free already.
    pub fn free(&mut self, slot: Slot) -> bool {
        let was_free = self.is_free(slot);
        if !was_free {
            let (cell, word, bit) = self.place_of(slot);
            self.cells[cell].free[word] |= bit;
            self.cells[cell].count += 1;
        }
        !was_free
    }

    /// Whether a slot is free.
    #[must_use]
    pub fn is_free(&self, slot: Slot) -> bool {
        let (cell, word, bit) = self.place_of(slot);
        self.cells[cell].free[word] & bit != 0
    }

    /// Free slots of each cell, rack by rack, upwards.
    pub fn occupancy(&self) -> impl Iterator<Item = (Cell, u16)> + '_ {
        self.cells.iter().enumerate().map(|(index, slots)| (self.cell(index), slots.count))
    }

    /// Free slots of all cells.
    #[must_use]
    pub fn free_slots(&self) -> u32 {
        self.cells.iter().map(|slots| u32::from(slots.count)).sum()
    }

    /// Takes slots for a set's platters, in order of their positions. Returns `None` if the free
    /// slots hold no set of `members` platters.
    ///
    /// The cell at which a set's positions start varies from set to set, so that redundancy, which
    /// is hardly ever read, doesn't gather at one end.
    pub fn place_set(&mut self, members: usize) -> Option<Vec<Slot>> {
        self.place_set_within(members, |_| true)
    }

    /// [`Planner::place_set`], restricted to cells that `may_use` accepts, such as those that
    /// shuttles can reach at the moment.
    pub fn place_set_within(&mut self, members: usize, may_use: impl Fn(Cell) -> bool) -> Option<Vec<Slot>> {
        let mut weights = std::mem::take(&mut self.weights);
        weights.clear();
        weights.extend(self.occupancy().map(|(cell, free)| if free > 0 && may_use(cell) { free.into() } else { BLOCKED }));
        self.weights = weights;
        let cells = search(&mut self.searches, &self.patterns, members)?.heaviest(&self.weights)?;
        let mut slots: Vec<Slot> = cells.into_iter().filter_map(|cell| self.first_free(cell)).collect();
        debug_assert_eq!(slots.len(), members, "full cells are blocked");
        for &slot in &slots {
            self.take(slot);
        }
        let turn: usize = slots.iter().map(|slot| slot.0 as usize).sum();
        slots.rotate_left(turn % members.max(1));
        Some(slots)
    }

    /// Takes a slot for one more platter of a set whose `others` are already placed: a late one, or
    /// one that can't reach its own slot. Returns `None` if every free slot shares a zone with one
    /// of them.
    pub fn place_one(&mut self, others: &[Slot]) -> Option<Slot> {
        self.place_one_within(others, |_| true)
    }

    /// [`Planner::place_one`], restricted to cells that `may_use` accepts.
    pub fn place_one_within(&mut self, others: &[Slot], may_use: impl Fn(Cell) -> bool) -> Option<Slot> {
        let apart = |cell| others.iter().all(|&other| !self.zones.share(self.layout.cell_of(other), cell));
        let (best, _) = (self.occupancy().enumerate())
            .filter(|&(_, (cell, free))| free > 0 && may_use(cell) && apart(cell))
            .max_by_key(|&(index, (_, free))| (free, usize::MAX - index))?;
        let slot = self.first_free(best)?;
        self.take(slot);
        Some(slot)
    }

    /// Cells with free slots that no further set of `members` platters can use, and why; rack by
    /// rack, upwards.
    pub fn unusable(&mut self, members: usize) -> Vec<Unusable> {
        let full: Vec<bool> = self.cells.iter().map(|slots| slots.count == 0).collect();
        let none_full = vec![false; full.len()];
        let mut found = Vec::new();
        for index in (0..full.len()).filter(|&index| !full[index]) {
            let reason = if !self.can_use(members, index, &none_full) {
                Reason::Rule
            } else if !self.can_use(members, index, &full) {
                Reason::OthersFull
            } else {
                continue;
            };
            found.push(Unusable { cell: self.cell(index), free: self.cells[index].count, reason });
        }
        found
    }

    /// Whether some set uses this cell and no full cell.
    fn can_use(&mut self, members: usize, index: usize, full: &[bool]) -> bool {
        self.weights.clear();
        self.weights.extend(full.iter().enumerate().map(|(cell, &full)| if full { BLOCKED } else { i64::from(cell == index) }));
        let Some(search) = search(&mut self.searches, &self.patterns, members) else { return false };
        search.heaviest(&self.weights).is_some_and(|cells| cells.contains(&index))
    }

    fn first_free(&self, cell: usize) -> Option<Slot> {
        let (word, bits) = self.cells[cell].free.iter().enumerate().find(|(_, bits)| **bits != 0)?;
        Some(Slot(cell as u32 * u32::from(self.layout.slots) + word as u32 * 64 + bits.trailing_zeros()))
    }

    /// The cell, the index of the word in its bitmap, and the bit.
    fn place_of(&self, slot: Slot) -> (usize, usize, u64) {
        assert!(slot.0 < self.layout.slot_count(), "{slot:?} is out of range: the layout has {} slots", self.layout.slot_count());
        let (cell, index) = (slot.0 / u32::from(self.layout.slots), slot.0 % u32::from(self.layout.slots));
        (cell as usize, index as usize / 64, 1 << (index % 64))
    }

    fn cell(&self, index: usize) -> Cell {
        self.layout.cell_of(Slot(index as u32 * u32::from(self.layout.slots)))
    }
}

/// The search for sets of this size, built on first use.
fn search<'a>(searches: &'a mut BTreeMap<usize, Search>, patterns: &Patterns, members: usize) -> Option<&'a mut Search> {
    match searches.entry(members) {
        std::collections::btree_map::Entry::Occupied(known) => Some(known.into_mut()),
        std::collections::btree_map::Entry::Vacant(new) => patterns.search(members).ok().map(|search| new.insert(search)),
    }
}
