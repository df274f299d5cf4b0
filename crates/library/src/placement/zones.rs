//! Blast zones: the cells (one shelf of one rack) that one failure makes unreachable together.
//!
//! ```text
//!   stuck between two shelves:        stuck on a shelf, in front of rack r:
//!   4 shelves of one rack             1 shelf of 3 neighbouring racks
//!
//!   shelf s+2  [####]                              r-1    r    r+1
//!   shelf s+1  [####] } touches       shelf s     [####][####][####]
//!   shelf s    [####] } both
//!   shelf s-1  [####]
//! ```
//!
//! Project Silica (Anderson et al., SOSP '23, section 6) defines blast zones in these units but
//! gives no shapes. These two shapes reproduce its Table 1: on a grid of 10 shelves a set then has
//! at most 16, 19, 22, 24, 27 members in 6 to 10 storage racks, so 12+3, 16+3 and 24+3 need 6, 7
//! and 10. Which failure has which shape, and where it is centred, is our interpretation.

use super::PlacementError;
use crate::{Cell, Layout};

/// The size of a zone; it may be anywhere in the panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneShape {
    /// Neighbouring racks.
    pub racks: u8,
    /// Neighbouring shelves.
    pub shelves: u8,
}

/// All shapes that a failure may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zones {
    /// In any order.
    pub shapes: Vec<ZoneShape>,
}

impl Default for Zones {
    fn default() -> Self {
        Self { shapes: vec![ZoneShape { racks: 1, shelves: 4 }, ZoneShape { racks: 3, shelves: 1 }] }
    }
}

impl Zones {
    /// Checks the shapes, which may come from a file.
    ///
    /// # Errors
    /// [`PlacementError::NoZones`], or [`PlacementError::EmptyShape`].
    pub fn check(&self) -> Result<(), PlacementError> {
        if self.shapes.is_empty() {
            return Err(PlacementError::NoZones);
        }
        match self.shapes.iter().find(|shape| shape.racks == 0 || shape.shelves == 0) {
            Some(&ZoneShape { racks, shelves }) => Err(PlacementError::EmptyShape { racks, shelves }),
            None => Ok(()),
        }
    }

    /// Whether some zone contains both cells; a cell shares a zone with itself.
    #[must_use]
    pub fn share(&self, a: Cell, b: Cell) -> bool {
        let (racks, shelves) = (a.rack.abs_diff(b.rack), a.shelf.abs_diff(b.shelf));
        self.shapes.iter().any(|shape| racks < shape.racks && shelves < shape.shelves)
    }

    /// Two cells this many racks apart share a zone if their shelves differ by less than the
    /// returned number.
    pub(super) fn shelves_within(&self, racks_apart: usize) -> usize {
        self.shapes.iter().filter(|shape| racks_apart < usize::from(shape.racks)).map(|shape| usize::from(shape.shelves)).max().unwrap_or(0)
    }

    /// Two cells share no zone if their racks differ by at least this number.
    pub(super) fn racks_within(&self) -> usize {
        self.shapes.iter().map(|shape| usize::from(shape.racks)).max().unwrap_or(0)
    }

    /// The zone that a stuck shuttle makes unreachable.
    ///
    /// On a shelf, at `cell`, it is the widest shape, centred on `cell`; an even number of racks or
    /// shelves extends one further to the right, or up. With `between_shelves`, while crabbing
    /// between `cell` and the shelf above, it is the tallest shape, centred on the two shelves that
    /// the shuttle touches; an odd number of shelves extends one further down, and a single one is
    /// only the lower. The zone is clipped at the edges of the panel and may include a read rack,
    /// whose drives are then unreachable too. As a zone of these shapes, it contains at most one
    /// platter of a set.
    #[must_use]
    pub fn unreachable(&self, layout: &Layout, cell: Cell, between_shelves: bool) -> Zone {
        let shapes = self.shapes.iter().copied();
        let shape = if between_shelves {
            shapes.max_by_key(|shape| (shape.shelves, u8::MAX - shape.racks))
        } else {
            shapes.max_by_key(|shape| (shape.racks, u8::MAX - shape.shelves))
        };
        let shape = shape.unwrap_or(ZoneShape { racks: 1, shelves: 1 });
        let centred = |middle: u8, length: u8, end: u8| {
            let below = length.saturating_sub(1) / 2;
            let above = length.saturating_sub(1) - below;
            (middle.saturating_sub(below), middle.saturating_add(above).min(end - 1))
        };
        let (first_rack, last_rack) = centred(cell.rack, shape.racks, layout.racks());
        let (first_shelf, last_shelf) = centred(cell.shelf, shape.shelves, layout.shelves);
        Zone { first: Cell { rack: first_rack, shelf: first_shelf }, last: Cell { rack: last_rack, shelf: last_shelf } }
    }
}

/// A rectangle of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Its lowest cell, at the left.
    pub first: Cell,
    /// Its highest cell, at the right.
    pub last: Cell,
}

impl Zone {
    /// Whether the zone contains a cell.
    #[must_use]
    pub fn contains(&self, cell: Cell) -> bool {
        (self.first.rack..=self.last.rack).contains(&cell.rack) && (self.first.shelf..=self.last.shelf).contains(&cell.shelf)
    }

    /// Its cells, rack by rack, upwards.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + use<> {
        let shelves = self.first.shelf..=self.last.shelf;
        (self.first.rack..=self.last.rack).flat_map(move |rack| shelves.clone().map(move |shelf| Cell { rack, shelf }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(cell: Cell, between_shelves: bool) -> Vec<(u8, u8)> {
        let cells = Zones::default().unreachable(&Layout::default(), cell, between_shelves).cells();
        cells.map(|cell| (cell.rack, cell.shelf)).collect()
    }

    #[test]
    fn a_stuck_shuttle_blocks_three_racks_of_a_shelf_or_four_shelves_of_a_rack_clipped_at_the_edges() {
        assert_eq!(zone(Cell { rack: 5, shelf: 7 }, false), [(4, 7), (5, 7), (6, 7)]);
        assert_eq!(zone(Cell { rack: 5, shelf: 4 }, true), [(5, 3), (5, 4), (5, 5), (5, 6)]);
        assert_eq!(zone(Cell { rack: 9, shelf: 0 }, false), [(8, 0), (9, 0)]);
        assert_eq!(zone(Cell { rack: 0, shelf: 0 }, true), [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(zone(Cell { rack: 2, shelf: 8 }, true), [(2, 7), (2, 8), (2, 9)]);
    }

    #[test]
    fn any_two_cells_blocked_by_one_failure_share_a_zone_for_all_shapes() {
        let layout = Layout::default();
        let shapes = |shapes: &[(u8, u8)]| Zones { shapes: shapes.iter().map(|&(racks, shelves)| ZoneShape { racks, shelves }).collect() };
        for zones in [Zones::default(), shapes(&[(2, 2)]), shapes(&[(1, 1)]), shapes(&[(4, 1), (2, 3), (1, 5)]), shapes(&[(20, 20)])] {
            for (rack, shelf) in (0..layout.racks()).flat_map(|rack| (0..layout.shelves).map(move |shelf| (rack, shelf))) {
                for between_shelves in [false, true] {
                    let failed = Cell { rack, shelf };
                    let lost = zones.unreachable(&layout, failed, between_shelves);
                    assert!(lost.contains(failed));
                    for (a, b) in lost.cells().flat_map(|a| lost.cells().map(move |b| (a, b))) {
                        assert!(zones.share(a, b), "{zones:?}: {failed:?} takes {a:?} and {b:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn cells_share_a_zone_within_four_shelves_of_a_rack_or_three_racks_of_a_shelf() {
        let zones = Zones::default();
        let share = |racks: u8, shelves: u8| zones.share(Cell { rack: 2, shelf: 1 }, Cell { rack: 2 + racks, shelf: 1 + shelves });
        assert!(share(0, 0) && share(0, 3) && share(2, 0));
        assert!(!share(0, 4) && !share(3, 0) && !share(1, 1));
    }

    #[test]
    fn empty_zones_are_rejected() {
        assert_eq!(Zones { shapes: Vec::new() }.check(), Err(PlacementError::NoZones));
        let flat = ZoneShape { racks: 3, shelves: 0 };
        assert_eq!(Zones { shapes: vec![flat] }.check(), Err(PlacementError::EmptyShape { racks: 3, shelves: 0 }));
    }
}
