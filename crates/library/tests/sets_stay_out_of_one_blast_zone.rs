//! Checks rule I3 on whatever the planner answers: one failure takes at most one platter of a set
//! from the storage racks.

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_chance::Stream;
use fulgurite_library::placement::{Filling, PlacementError, Planner, Reason, Spread, ZoneShape, Zones, fill};
use fulgurite_library::{Cell, Layout, Slot};

fn layout(storage_racks: u8, shelves: u8, slots: u16) -> Layout {
    let drives = [shelves.min(10), shelves.min(10)];
    Layout { storage_racks, shelves, slots, drives, shuttles: 2, port_shelf: 0, ..Layout::default() }.check().expect("in range")
}

fn zones(shapes: &[(u8, u8)]) -> Zones {
    Zones { shapes: shapes.iter().map(|&(racks, shelves)| ZoneShape { racks, shelves }).collect() }
}

/// The most of these slots that a single stuck shuttle can make unreachable.
fn worst_failure(layout: &Layout, zones: &Zones, slots: &[Slot]) -> usize {
    let cells: Vec<Cell> = slots.iter().map(|&slot| layout.cell_of(slot)).collect();
    let mut worst = 0;
    for (rack, shelf) in (0..layout.racks()).flat_map(|rack| (0..layout.shelves).map(move |shelf| (rack, shelf))) {
        for between_shelves in [false, true] {
            let lost = zones.unreachable(layout, Cell { rack, shelf }, between_shelves);
            worst = worst.max(cells.iter().filter(|&&cell| lost.contains(cell)).count());
        }
    }
    worst
}

fn keeps_the_rule(layout: &Layout, zones: &Zones, slots: &[Slot]) -> bool {
    let share = |a: Slot, b: Slot| zones.share(layout.cell_of(a), layout.cell_of(b));
    slots.iter().enumerate().all(|(index, &a)| slots[..index].iter().all(|&b| !share(a, b)))
}

fn filling(layout: &Layout, zones: &Zones, members: usize) -> Filling {
    let filling = fill(layout, zones, members).expect("sets that fit");
    let slots: BTreeSet<Slot> = filling.sets.iter().flatten().copied().collect();
    assert_eq!(slots.len(), filling.sets.len() * members, "no slot is used twice");
    assert_eq!(slots.len() as u32, filling.used);
    let left: u32 = filling.left.iter().map(|cell| u32::from(cell.free)).sum();
    assert_eq!(filling.used + left, layout.slot_count(), "every slot is used or reported as unusable");
    filling
}

#[test]
fn one_failure_takes_at_most_one_platter_of_any_set_of_a_full_library() {
    let cases = [
        (layout(7, 10, 9), Zones::default(), 19),
        (layout(6, 10, 9), Zones::default(), 15),
        (layout(5, 6, 7), zones(&[(2, 2)]), 7),
        (layout(4, 8, 5), zones(&[(1, 3), (2, 2), (4, 1)]), 6),
    ];
    for (layout, zones, members) in cases {
        for set in filling(&layout, &zones, members).sets {
            assert_eq!(set.len(), members);
            assert_eq!(worst_failure(&layout, &zones, &set), 1, "{set:?}");
            assert!(keeps_the_rule(&layout, &zones, &set), "{set:?}");
        }
    }
}

#[test]
fn slots_left_over_after_filling_seven_racks_are_those_the_rule_excludes() {
    let layout = layout(7, 10, 10);
    let filling = filling(&layout, &Zones::default(), 19);
    assert_eq!(filling.sets.len(), 20);
    let by_rule: Vec<Cell> = filling.left.iter().filter(|left| left.reason == Reason::Rule).map(|left| left.cell).collect();
    // No set of 19 has a member on these shelves of these racks, so all of their slots are left
    // over.
    assert_eq!(by_rule.len(), 12);
    let all_left = |cell| filling.left.iter().any(|left| left.cell == cell && left.free == 10);
    assert!(by_rule.iter().all(|&cell| all_left(cell) && [2, 3, 6, 7].contains(&cell.shelf)), "{by_rule:?}");
    assert!(filling.left.iter().any(|left| left.reason == Reason::OthersFull));
}

#[test]
fn no_slot_is_unusable_for_single_platters_and_half_sets_leave_few() {
    let layout = layout(7, 10, 3);
    assert_eq!(filling(&layout, &Zones::default(), 1).left, []);
    assert!(filling(&layout, &Zones::default(), 10).used >= 190);
}

#[test]
fn the_rule_is_kept_while_platters_come_and_go_one_by_one() {
    for seed in 0..8 {
        let mut chance = Stream::new(seed, "placement test");
        let layout = layout(5, 8, 2);
        let mut planner = Planner::new(&layout, &Zones::default()).expect("few choices");
        let mut sets: BTreeMap<u32, Vec<Slot>> = BTreeMap::new();
        let mut moved = 0;
        for number in 0..100 {
            let members = 4 + chance.below(6) as usize;
            match planner.place_set(members) {
                Some(slots) => drop(sets.insert(number, slots)),
                // Full: retire the oldest set.
                None => sets.pop_first().into_iter().flat_map(|(_, slots)| slots).for_each(|slot| assert!(planner.free(slot))),
            }
            // A platter of some set can't go home and moves to another slot.
            if let Some(slots) = sets.values_mut().nth(chance.below(12) as usize) {
                let index = chance.below(slots.len() as u64) as usize;
                let home = slots.swap_remove(index);
                let slot = planner.place_one(slots).inspect(|_| moved += 1);
                if slot.is_some() {
                    planner.free(home);
                }
                slots.push(slot.unwrap_or(home));
            }
            for (name, slots) in &sets {
                assert!(keeps_the_rule(&layout, &Zones::default(), slots), "seed {seed}, set {name}: {slots:?}");
            }
            let used: BTreeSet<Slot> = sets.values().flatten().copied().collect();
            assert_eq!(used.len(), sets.values().map(Vec::len).sum::<usize>(), "seed {seed}: a slot holds two platters");
            assert_eq!(used.len() as u32 + planner.free_slots(), layout.slot_count(), "seed {seed}: slots got lost");
        }
        assert!(moved > 10, "seed {seed}: only {moved} platters were moved");
    }
}

#[test]
fn a_single_platter_goes_to_the_emptiest_allowed_cell_or_nowhere() {
    let layout = layout(1, 4, 2);
    let mut planner = Planner::new(&layout, &zones(&[(1, 2)])).expect("few choices");
    let cell = |shelf: u8| layout.slot(Cell { rack: 2, shelf }, 0);
    assert!(planner.take(cell(2)) && !planner.take(cell(2)));
    // Shelf 2 has fewer free slots than shelf 3, and shelves 0 and 1 share a zone with the other
    // platter.
    assert_eq!(planner.place_one(&[cell(0)]), Some(cell(3)));
    assert_eq!(planner.place_one(&[cell(0), cell(2)]), None);
}

#[test]
fn no_platter_is_placed_in_an_unreachable_cell() {
    let layout = layout(7, 10, 3);
    let zones = Zones::default();
    let mut planner = Planner::new(&layout, &zones).expect("few choices");
    let lost = zones.unreachable(&layout, Cell { rack: 5, shelf: 4 }, true);
    let mut sets = 0;
    while let Some(slots) = planner.place_set_within(14, |cell| !lost.contains(cell)) {
        assert!(slots.iter().all(|&slot| !lost.contains(layout.cell_of(slot))), "{slots:?}");
        let moved = planner.place_one_within(&slots[1..], |cell| !lost.contains(cell));
        assert!(moved.is_none_or(|slot| !lost.contains(layout.cell_of(slot))), "{moved:?}");
        sets += 1;
    }
    assert!(sets > 5, "only {sets} sets");
    assert!(planner.occupancy().all(|(cell, free)| !lost.contains(cell) || free == 3));
}

#[test]
fn a_planner_rebuilt_from_an_inventory_continues_like_the_original() {
    let layout = layout(6, 10, 2);
    let mut first = Planner::new(&layout, &Zones::default()).expect("few choices");
    let slots: Vec<Slot> = (0..3).flat_map(|number| first.place_set(10 + number).expect("room")).collect();
    first.free(slots[3]);
    let mut second = Planner::new(&layout, &Zones::default()).expect("few choices");
    for &slot in slots.iter().rev().filter(|&&slot| slot != slots[3]) {
        assert!(second.take(slot));
    }
    assert!(first.occupancy().eq(second.occupancy()));
    loop {
        let (a, b) = (first.place_set(12), second.place_set(12));
        assert_eq!(a, b);
        if a.is_none() {
            break;
        }
    }
    assert_eq!(first.unusable(12), second.unusable(12));
    assert_eq!(fill(&layout, &Zones::default(), 19), fill(&layout, &Zones::default(), 19));
}

#[test]
fn redundancy_does_not_gather_at_one_end() {
    let layout = layout(7, 10, 20);
    let sets = filling(&layout, &Zones::default(), 19).sets;
    let mut racks = BTreeMap::new();
    for &slot in sets.iter().flat_map(|set| &set[16..]) {
        *racks.entry(layout.cell_of(slot).rack).or_insert(0) += 1;
    }
    // 40 sets with 3 redundancy platters each, over 7 racks: about 17 per rack.
    assert_eq!(racks.len(), 7);
    assert!(racks.values().all(|&count| (6..=34).contains(&count)), "{racks:?}");
}

#[test]
fn sets_spread_over_libraries_are_even_and_keep_the_rule_in_each() {
    // In a single library the rule leaves slots unused; see `docs/placement.md`.
    for (racks, members, least_alone) in [(7, 19, 5_000), (6, 15, 9_000), (10, 27, 5_000)] {
        for libraries in [1, 2, 3, 5, 7, 19, 100] {
            let layout = layout(racks, 10, if libraries > 2 { 10 } else { 4 });
            let spread = Spread::new(&layout, &Zones::default(), libraries, members).expect("sets that fit");
            let mut used = BTreeSet::new();
            for set in 0..spread.sets() {
                let mut shares: BTreeMap<u32, Vec<Slot>> = BTreeMap::new();
                for position in 0..members {
                    let (library, slot) = spread.place(set, position).expect("a member of a set");
                    assert!(library < libraries && used.insert((library, slot)), "{slot:?} of library {library} twice");
                    assert_eq!(spread.locate(library, slot), Some((set, position)));
                    shares.entry(library).or_default().push(slot);
                }
                let (most, least) = (members.div_ceil(libraries as usize), members / libraries as usize);
                assert!(shares.values().all(|share| (least..=most).contains(&share.len())), "set {set} over {libraries}");
                assert!(shares.values().all(|share| keeps_the_rule(&layout, &Zones::default(), share)), "set {set} over {libraries}");
            }
            assert_eq!(used.len() as u64, u64::from(spread.platters_per_library()) * u64::from(libraries));
            assert_eq!((spread.place(spread.sets(), 0), spread.place(0, members), spread.locate(libraries, Slot(0))), (None, None, None));
            let share = u64::from(spread.platters_per_library()) * 10_000 / u64::from(layout.slot_count());
            let least = if libraries == 1 { least_alone } else { 9_300 };
            assert!(share >= least, "{members} over {libraries}: only {share} of 10,000 slots are used");
        }
    }
}

#[test]
fn a_hundred_libraries_of_21_000_slots_place_sets_by_arithmetic_alone() {
    let spread = Spread::new(&Layout::default(), &Zones::default(), 100, 19).expect("sets that fit");
    assert_eq!((spread.sets(), spread.platters_per_library(), spread.most_together()), (110_500, 20_995, 1));
    // Consecutive sets start in different libraries, so all libraries fill evenly.
    let libraries: BTreeSet<u32> = (0..100).filter_map(|set| spread.place(set, 0)).map(|(library, _)| library).collect();
    assert_eq!(libraries.len(), 100);
    for set in [0, 1, 99, 100, 110_499] {
        let (library, slot) = spread.place(set, 18).expect("a member of a set");
        assert_eq!(spread.locate(library, slot), Some((set, 18)));
    }
}

#[test]
fn impossible_placements_are_rejected_by_name() {
    let text = |error: PlacementError| error.to_string();
    let default = Zones::default();
    assert_eq!(
        text(fill(&Layout::default(), &default, 20).expect_err("too many members")),
        "20 platters of a set, but 7 racks of 10 shelves hold at most 19 of one set outside each other's blast zones"
    );
    assert!(matches!(fill(&Layout::default(), &default, 0), Err(PlacementError::Nothing { .. })));
    assert!(matches!(Spread::new(&Layout::default(), &default, 0, 19), Err(PlacementError::Nothing { libraries: 0, .. })));
    assert!(matches!(Spread::new(&Layout::default(), &default, 2, 60), Err(PlacementError::TooManyMembers { members: 30, .. })));
    assert!(matches!(Planner::new(&layout(7, 60, 1), &default), Err(PlacementError::TooLarge { what: "ways to use one rack", .. })));
    assert!(matches!(Planner::new(&layout(9, 10, 1), &zones(&[(5, 1)])), Err(PlacementError::TooLarge { .. })));
    assert!(Planner::new(&layout(30, 20, 1), &default).is_err_and(|error| matches!(error, PlacementError::TooLarge { .. })));
}
