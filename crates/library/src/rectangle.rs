//! The panel, cut into rectangles with their own shuttles and drives.
//!
//! ```text
//!            left half        right half
//! shelf 3  | D3  [  1  ]   |  [  3  ] D7 |
//! shelf 2  | D2  [     ]   |  [     ] D6 |      4 shuttles, 8 drives, 4 shelves
//! shelf 1  | D1  [  0  ]   |  [  2  ] D5 |
//! shelf 0  | D0  [     ]   |  [     ] D4 |
//! ```
//!
//! "The panel is cut into n rectangles, one shuttle and at least one drive slot each" (SOSP '23,
//! section 4). With 20 shuttles and 20 drives on 10 shelves, each is half a shelf; with more
//! shuttles than drives, shuttles share a rectangle.

use crate::{Drive, Lane, Layout, Position, Shuttle, Side};

/// A group of lanes, with the drives at their ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rectangle {
    /// Its halves of shelves.
    pub lanes: Vec<Lane>,
    /// Its drives, one or more.
    pub drives: Vec<Drive>,
    /// Its shuttles.
    pub shuttles: Vec<Shuttle>,
}

/// The rectangles of a panel, left half first, from the lowest shelf up. Always at least one, even
/// without shuttles.
#[must_use]
pub fn rectangles(layout: &Layout) -> Vec<Rectangle> {
    let drives: Vec<Drive> = (0..layout.drive_count()).map(Drive).collect();
    let (left, right) = drives.split_at(usize::from(layout.drives[0]));
    let shuttles = usize::from(layout.shuttles);
    let mut rectangles = if left.is_empty() || right.is_empty() || shuttles < 2 {
        stacked(layout, &drives, &[Side::Left, Side::Right], shuttles.max(1))
    } else {
        // Both sides get as nearly as possible the same number of shuttles per drive.
        let of_left = ((2 * shuttles * left.len() + drives.len()) / (2 * drives.len())).clamp(1, shuttles - 1);
        let mut rectangles = stacked(layout, left, &[Side::Left], of_left);
        rectangles.extend(stacked(layout, right, &[Side::Right], shuttles - of_left));
        rectangles
    };
    let count = rectangles.len();
    for shuttle in 0..layout.shuttles {
        rectangles[usize::from(shuttle) % count].shuttles.push(Shuttle(shuttle));
    }
    rectangles
}

/// Stacks at most `count` rectangles.
fn stacked(layout: &Layout, drives: &[Drive], sides: &[Side], count: usize) -> Vec<Rectangle> {
    let shelves_of_drives = drives.iter().map(|drive| layout.drive_shelf(*drive)).collect::<std::collections::BTreeSet<_>>();
    let count = count.min(shelves_of_drives.len());
    let group = |shelf: u8| {
        let below = shelves_of_drives.iter().filter(|other| **other < shelf).count();
        below * count / shelves_of_drives.len()
    };
    let nearest = |shelf: u8| *shelves_of_drives.iter().min_by_key(|other| other.abs_diff(shelf)).expect("a side has at least one drive");
    let mut rectangles = vec![Rectangle { lanes: Vec::new(), drives: Vec::new(), shuttles: Vec::new() }; count];
    for shelf in 0..layout.shelves {
        let lanes = sides.iter().map(|side| Lane(2 * u16::from(shelf) + u16::from(*side == Side::Right)));
        rectangles[group(nearest(shelf))].lanes.extend(lanes);
    }
    for drive in drives {
        rectangles[group(layout.drive_shelf(*drive))].drives.push(*drive);
    }
    rectangles
}

/// The index of each shuttle's rectangle. Shuttles are dealt to the rectangles in turn.
pub(crate) fn indices_by_shuttle(rectangles: &[Rectangle]) -> Vec<usize> {
    let shuttles: usize = rectangles.iter().map(|one| one.shuttles.len()).sum();
    (0..shuttles).map(|shuttle| shuttle % rectangles.len()).collect()
}

/// Starting positions: in front of a drive of the shuttle's rectangle, or at a dock for shuttles
/// beyond the number of drives.
pub(crate) fn resting_places(layout: &Layout) -> Vec<Position> {
    let mut places = vec![Position { shelf: 0, x_um: 0 }; usize::from(layout.shuttles)];
    for rectangle in rectangles(layout) {
        for (index, shuttle) in rectangle.shuttles.iter().enumerate() {
            let drive = rectangle.drives[index % rectangle.drives.len()];
            let door = layout.drive_position(drive);
            let dock = layout.dock_position(door.shelf, layout.drive_side(drive));
            places[usize::from(shuttle.0)] = if index < rectangle.drives.len() { door } else { dock };
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_and_drive_is_in_one_rectangle_and_no_two_shuttles_start_at_one_place() {
        for shuttles in 0..=40 {
            for drives in [[10, 10], [2, 10], [1, 1], [0, 3], [7, 5], [20, 20]] {
                let layout = Layout { shuttles: shuttles.min(2 * (drives[0] + drives[1]) as u16), drives, ..Layout::default() };
                let layout = layout.check().expect("in range");
                let all = rectangles(&layout);
                let mut lanes: Vec<u16> = all.iter().flat_map(|one| &one.lanes).map(|lane| lane.0).collect();
                lanes.sort_unstable();
                assert_eq!(lanes, (0..20).collect::<Vec<_>>(), "{shuttles} {drives:?}");
                let count: usize = all.iter().map(|one| one.drives.len()).sum();
                assert_eq!(count, usize::from(layout.drive_count()));
                assert!(
                    all.iter().all(|one| !one.drives.is_empty() && (layout.shuttles == 0 || !one.shuttles.is_empty())),
                    "{shuttles} {drives:?}"
                );
                let mut places = resting_places(&layout);
                places.sort_unstable();
                assert!(places.windows(2).all(|two| two[0].shelf != two[1].shelf || two[1].x_um - two[0].x_um >= layout.spacing_um));
            }
        }
    }

    #[test]
    fn twenty_shuttles_have_half_a_shelf_each() {
        let all = rectangles(&Layout::default());
        assert_eq!(all.len(), 20);
        assert!(all.iter().all(|one| one.lanes.len() == 1 && one.drives.len() == 1 && one.shuttles.len() == 1));
        let eight = rectangles(&Layout { shuttles: 8, ..Layout::default() });
        assert_eq!(eight.iter().map(|one| one.lanes.len()).collect::<Vec<_>>(), [3, 2, 3, 2, 3, 2, 3, 2]);
    }
}
