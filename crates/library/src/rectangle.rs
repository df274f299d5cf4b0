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

/// Starting positions. Each shuttle of a rectangle starts in front of one of its drives, or at the
/// dock of that drive's shelf once all drives have a shuttle. If another shuttle is within the
/// spacing of that place, it starts at the nearest free dock of the same side, else elsewhere on
/// the rails: two shuttles that start too close together could never move. [`Layout::check`]
/// ensures that there is room for all.
pub(crate) fn resting_places(layout: &Layout) -> Vec<Position> {
    let rectangles = rectangles(layout);
    let mut taken = Taken { spacing_um: layout.spacing_um, by_shelf: vec![Vec::new(); usize::from(layout.shelves)] };
    let mut places = vec![None; usize::from(layout.shuttles)];
    for rectangle in &rectangles {
        for (shuttle, drive) in rectangle.shuttles.iter().zip(&rectangle.drives) {
            let door = layout.drive_position(*drive);
            places[usize::from(shuttle.0)] = taken.take_first([door].into_iter());
        }
    }
    for rectangle in &rectangles {
        for (shuttle, drive) in rectangle.shuttles.iter().zip(rectangle.drives.iter().cycle()) {
            let place = &mut places[usize::from(shuttle.0)];
            if place.is_none() {
                *place = taken.take_first(places_near(layout, *drive));
            }
        }
    }
    places.into_iter().map(|place| place.expect("the layout has been checked")).collect()
}

/// Places for a shuttle for which there is no room at the door of a drive, in order of preference.
fn places_near(layout: &Layout, drive: Drive) -> impl Iterator<Item = Position> {
    let (shelf, side) = (layout.drive_shelf(drive), layout.drive_side(drive));
    let shelves = move || {
        let others = (1..layout.shelves).flat_map(move |away| [shelf.checked_sub(away), shelf.checked_add(away)]).flatten();
        std::iter::once(shelf).chain(others.filter(|shelf| *shelf < layout.shelves))
    };
    let docks = shelves().map(move |shelf| layout.dock_position(shelf, side));
    let along = move |dock: Position| {
        let steps = layout.width_um() / layout.spacing_um;
        let both_ways = (1..=steps).flat_map(|step| [-step, step]);
        let places = both_ways.map(move |step| Position { x_um: dock.x_um + step * layout.spacing_um, ..dock });
        places.filter(|place| (0..=layout.width_um()).contains(&place.x_um))
    };
    docks.clone().chain(docks.flat_map(along))
}

/// Places that shuttles start at, so far.
struct Taken {
    spacing_um: i64,
    /// Their x, by shelf.
    by_shelf: Vec<Vec<i64>>,
}

impl Taken {
    /// Takes the first of these places that is at least the spacing away from all others.
    fn take_first(&mut self, mut places: impl Iterator<Item = Position>) -> Option<Position> {
        let place = places.find(|place| {
            let others = &self.by_shelf[usize::from(place.shelf)];
            others.iter().all(|x_um| (x_um - place.x_um).abs() >= self.spacing_um)
        })?;
        self.by_shelf[usize::from(place.shelf)].push(place.x_um);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_and_drive_is_in_one_rectangle() {
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
            }
        }
    }

    /// The least distance between two shuttles of a shelf at the start.
    fn least_distance_um(layout: &Layout) -> Option<i64> {
        let mut places = resting_places(layout);
        places.sort_unstable();
        let on_one_shelf = places.windows(2).filter(|two| two[0].shelf == two[1].shelf);
        on_one_shelf.map(|two| two[1].x_um - two[0].x_um).min()
    }

    #[test]
    fn no_two_shuttles_start_closer_together_than_the_spacing() {
        let panel =
            |shelves, storage_racks, rack_width_um| Layout { shelves, storage_racks, rack_width_um, port_shelf: 0, ..Layout::default() };
        let mut accepted = 0;
        for panel in [panel(10, 7, 1_200_000), panel(5, 1, 1_200_000), panel(10, 8, 500_000), panel(3, 1, 1_300_000)] {
            for (left, right) in (0..=20).flat_map(|left| (0..=20).map(move |right| (left, right))) {
                for shuttles in 1..=40 {
                    let Ok(layout) = (Layout { drives: [left, right], shuttles, ..panel.clone() }).check() else { continue };
                    accepted += 1;
                    let least_um = least_distance_um(&layout);
                    assert!(least_um.is_none_or(|least_um| least_um >= layout.spacing_um), "{layout:?}: {least_um:?}");
                }
            }
        }
        assert!(accepted > 19_000, "{accepted} combinations");
    }

    #[test]
    fn shuttles_for_which_their_own_dock_has_no_room_start_at_others() {
        let place = |shelf, x_um| Position { shelf, x_um };
        // The lowest of the 3 drives on the left has 3 shuttles.
        let places = resting_places(&Layout { drives: [3, 19], shuttles: 28, ..Layout::default() });
        let of_drive = [0, 13, 26].map(|shuttle| places[shuttle]);
        assert_eq!(of_drive, [place(1, 1_800_000), place(1, 1_240_000), place(0, 1_240_000)]);
        // All docks of the side are taken.
        let layout = Layout { shelves: 2, port_shelf: 0, drives: [3, 0], shuttles: 6, ..Layout::default() }.check().expect("in range");
        let places = resting_places(&layout);
        let of_upper_drives = [1, 3, 5].map(|shuttle| places[shuttle]);
        assert_eq!(of_upper_drives, [place(1, 1_600_000), place(1, 2_000_000), place(1, 890_000)]);
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
