//! Sections: the drives at one end of a shelf, and the halves of shelves that are nearest to them.
//!
//! ```text
//!            left half         right half
//! shelf 3  | D3 [section 3 ] | [section 7 ] D7 |
//! shelf 2  | D2 [section 2 ] | [section 6 ] D6 |     8 drives on 4 shelves
//! shelf 1  | D1 [section 1 ] | [section 5 ] D5 |
//! shelf 0  | D0 [section 0 ] | [section 4 ] D4 |
//! ```
//!
//! Unlike a [`Rectangle`](crate::Rectangle), a section depends on the drives alone: any number of
//! shuttles can work in it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{Drive, Lane, Layout, Position, Side};

/// The drives at one end of a shelf, and the lanes nearest to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Halves of shelves, its own shelf's first.
    pub lanes: Vec<Lane>,
    /// Its drives, one or more, the nearest to the lanes first.
    pub drives: Vec<Drive>,
    /// Where shuttles reach the first of its drives.
    pub door: Position,
}

impl Section {
    /// The number of shelves that its lanes are on.
    pub(crate) fn shelves(&self) -> usize {
        let mut shelves: Vec<u16> = self.lanes.iter().map(|lane| lane.0 / 2).collect();
        shelves.sort_unstable();
        shelves.dedup();
        shelves.len()
    }
}

/// The sections of a panel: left half first, from the lowest shelf up. Each lane belongs to one.
#[must_use]
pub fn sections(layout: &Layout) -> Vec<Section> {
    let mut ends: BTreeMap<(bool, u8), Section> = BTreeMap::new();
    for drive in (0..layout.drive_count()).map(Drive) {
        let (side, shelf) = (layout.drive_side(drive), layout.drive_shelf(drive));
        let door = layout.drive_position(drive);
        ends.entry((side == Side::Right, shelf)).or_insert(Section { lanes: Vec::new(), drives: Vec::new(), door }).drives.push(drive);
    }
    for lane in (0..2 * u16::from(layout.shelves)).map(Lane) {
        let (shelf, is_right) = ((lane.0 / 2) as u8, lane.0 % 2 == 1);
        let crabs = |(of_right, other): &(bool, u8)| (*of_right != is_right, other.abs_diff(shelf), Reverse(*other));
        let nearest = *ends.keys().min_by_key(|end| crabs(end)).expect("a panel has at least one drive");
        let lanes = &mut ends.get_mut(&nearest).expect("it is one of them").lanes;
        let at = if nearest.1 == shelf { 0 } else { lanes.len() };
        lanes.insert(at, lane);
    }
    for section in ends.values_mut() {
        section.drives.sort_by_key(|drive| (layout.drive_position(*drive).x_um - layout.middle_um()).abs());
        section.door = layout.drive_position(section.drives[0]);
    }
    ends.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_and_every_drive_is_in_one_section() {
        for drives in [[10, 10], [5, 5], [2, 10], [1, 1], [0, 3], [7, 5], [20, 20], [13, 4]] {
            let layout = Layout { drives, shuttles: 1, ..Layout::default() }.check().expect("in range");
            let all = sections(&layout);
            let mut lanes: Vec<u16> = all.iter().flat_map(|one| &one.lanes).map(|lane| lane.0).collect();
            lanes.sort_unstable();
            assert_eq!(lanes, (0..20).collect::<Vec<_>>(), "{drives:?}");
            let mut of_sections: Vec<u16> = all.iter().flat_map(|one| &one.drives).map(|drive| drive.0).collect();
            of_sections.sort_unstable();
            assert_eq!(of_sections, (0..layout.drive_count()).collect::<Vec<_>>(), "{drives:?}");
        }
    }

    #[test]
    fn a_shelf_without_a_drive_belongs_to_the_nearest_one_with_a_drive() {
        let layout = Layout { drives: [5, 5], shuttles: 1, ..Layout::default() };
        // The drives of each side are on shelves 1, 3, 5, 7 and 9.
        let all = sections(&layout);
        assert_eq!(all[0].lanes, [Lane(2), Lane(0)]);
        assert_eq!(all[4].lanes, [Lane(18), Lane(16)]);
    }
}
