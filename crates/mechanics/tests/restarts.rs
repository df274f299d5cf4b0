//! A library that stops at any instant takes up its work again from where its platters and shuttles
//! are: no platter is lost or in two places, every request ends, and every written platter is
//! verified and stored. Machines fail, and are still out of order after the next start.

use std::collections::BTreeMap;

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;
use fulgurite_domain::SetShape;
use fulgurite_library::{
    Actor, Balanced, Berth, Controller, Drive, Event, Found, Inventory, Layout, Library, Pace, Partitioned, Platter, Policy, Region,
    RegionOutcome, RegionPlatter, RequestId, Sets, Shard, ShortestPaths, Shuttle, Slot, Techniques, Tracks, Verification, Whereabouts,
};
use fulgurite_mechanics::{
    Breakdown, Detection, DriveTimes, Lasting, Libraries, NoTwoShuttlesMeet, NotRepaired, Outage, PlannedFault, Settings, Witness,
};

const WRITTEN: u32 = 200;
const TO_WRITE: u32 = 12;
const REQUESTS: u64 = 150;
const TRACKS: u32 = 100;
const LIBRARY: Library = Library(0);

/// The requests that are open, and how the others ended.
#[derive(Default)]
struct Requests {
    open: BTreeMap<u64, Shard>,
    ended: u64,
    unavailable: u64,
}

impl Witness for Requests {
    fn ended(&mut self, _: Micros, request: RequestId, outcome: RegionOutcome) {
        if outcome == RegionOutcome::Unavailable {
            // Its platter is out of reach: it is requested again after the next start.
            self.unavailable += 1;
            return;
        }
        assert_eq!(outcome, RegionOutcome::Read, "request {}", request.0);
        assert!(self.open.remove(&request.0).is_some(), "request {} ended twice", request.0);
        self.ended += 1;
    }
}

fn layout(shuttles: u16) -> Layout {
    Layout { shuttles, drives: [3, 3], ..Layout::default() }.check().expect("in range")
}

fn policy(which: u64, layout: &Layout) -> Box<dyn Policy> {
    match which % 3 {
        0 => Box::new(Balanced::new(layout, &Pace::default(), Techniques::default())),
        1 => Box::new(Partitioned::new(layout, None)),
        _ => Box::new(ShortestPaths),
    }
}

/// Everything is where a new library has it, except what was found.
fn whereabouts(inventory: &Inventory) -> Vec<Whereabouts> {
    let usual = inventory.homes.iter().enumerate().map(|(index, home)| {
        if (index as u32) < inventory.written { Whereabouts::Berth(Berth::Slot(*home)) } else { Whereabouts::Unwritten }
    });
    let mut all: Vec<Whereabouts> = usual.collect();
    inventory.found.iter().for_each(|found| all[found.platter.0 as usize] = found.at);
    all
}

fn assert_no_two_share_a_place(inventory: &Inventory) {
    let all = whereabouts(inventory);
    for (index, one) in all.iter().enumerate() {
        let is_shared = |other: &Whereabouts| one == other;
        let may_be_shared = matches!(one, Whereabouts::Unwritten | Whereabouts::Berth(Berth::Port));
        assert!(may_be_shared || !all[..index].iter().any(is_shared), "platter {index} shares {one:?}");
    }
}

/// How often each of these was the case at a stop, and how many requests found their platter out of
/// reach.
#[derive(Default, Debug)]
struct Seen {
    carried: u32,
    in_drives: u32,
    out_of_order: u32,
    unavailable: u64,
}

/// Runs a library that stops `stops` times. With `faults`, one machine fails after each start but
/// the last, and those that are out of order at a stop still are at the next start.
fn run_with_stops(seed: u64, stops: u32, verification: Verification, faults: bool, seen: &mut Seen) {
    let mut chance = Stream::new(seed, "stops");
    let layout = layout(2 + chance.below(11) as u16);
    let apart = layout.slot_count() / (WRITTEN + TO_WRITE);
    let settings = Settings { drive: DriveTimes { track_bytes: 20_000_000, ..DriveTimes::default() }, ..Settings::default() };
    let mut inventory = Inventory {
        homes: (0..WRITTEN + TO_WRITE).map(|index| Slot(index * apart)).collect(),
        written: WRITTEN,
        tracks: TRACKS,
        verification,
        ..Inventory::default()
    };
    let mut requests = Requests::default();
    for request in 0..REQUESTS {
        let tracks = Tracks { first: chance.below(u64::from(TRACKS) - 2) as u32, count: 1 + chance.below(2) as u32 };
        requests.open.insert(request, Shard { platter: RegionPlatter(chance.below(WRITTEN.into()) as u32), tracks });
    }
    let mut out_of_order: Vec<Breakdown> = Vec::new();
    for stop in 0..=stops {
        let mut settings = settings.clone();
        if stop < stops {
            let again = out_of_order.drain(..).map(|what| PlannedFault { at: Micros(1), what });
            settings.faults.planned = again.collect();
            if faults {
                let at = Micros(1 + chance.below(120_000_000));
                let number = chance.below(u64::MAX);
                let what = match chance.below(3) {
                    0 => Breakdown::DriveDown(Drive((number % 6) as u16)),
                    1 => Breakdown::Collision(Shuttle((number % u64::from(layout.shuttles)) as u16)),
                    _ => Breakdown::ShuttleStops(Shuttle((number % u64::from(layout.shuttles)) as u16)),
                };
                settings.faults.planned.push(PlannedFault { at, what });
            }
        }
        let places = (0..WRITTEN + TO_WRITE).map(|index| (LIBRARY, Platter(index))).collect();
        let controller = Controller::new(layout.clone(), Pace::default(), &inventory, policy(seed, &layout));
        let region = Region::new(vec![controller], Sets { shape: SetShape { information: 1, redundancy: 0 }, places });
        let mut libraries = Libraries::new(region, |_| settings.clone(), chance.below(u64::MAX), NoTwoShuttlesMeet::new);
        libraries.start_machines();
        let mut now = Micros::ZERO;
        libraries.deliver(now, LIBRARY, Event::Woken, &mut requests);
        for (request, shard) in requests.open.clone() {
            libraries.request(now, RequestId(request), &[shard], Micros::NEVER, &mut requests);
        }
        let unwritten = (WRITTEN..WRITTEN + TO_WRITE).map(Platter);
        let unwritten =
            unwritten.filter(|platter| libraries.region().controllers()[0].panel().whereabouts(*platter) == Whereabouts::Unwritten);
        // With endless verification, no platter is written.
        let unwritten: Vec<Platter> = unwritten.filter(|_| verification == Verification::Written).collect();
        for (platter, nth) in unwritten.into_iter().zip(1..) {
            libraries.schedule(Micros(nth * 60_000_000), LIBRARY, Event::PlatterWritten { platter });
        }
        let end = if verification == Verification::Endless { Micros(6 * Micros::HOUR.0) } else { Micros::NEVER };
        let mut left = if stop == stops { u64::MAX } else { 1 + chance.below(if faults { 1_500 } else { 400 }) };
        while left > 0 {
            let Some((at, due)) = libraries.pop_until(end) else { break };
            now = at;
            libraries.handle(now, due, &mut requests);
            left -= 1;
            assert!(now < Micros(30 * Micros::HOUR.0), "seed {seed}: it never ends");
        }
        let panel = libraries.region().controllers()[0].panel();
        inventory.found = panel.take_stock(WRITTEN).collect();
        let rests = (0..layout.shuttles).map(|shuttle| libraries.mechanics()[0].resting_place(Shuttle(shuttle), now));
        inventory.shuttles = rests.collect();
        assert_no_two_share_a_place(&inventory);
        assert_eq!(libraries.region().controllers()[0].unexpected_answers(), 0);
        let lost = (0..layout.shuttles).map(Shuttle).filter(|shuttle| !panel.is_working(*shuttle)).map(Breakdown::ShuttleStops);
        let down = panel.drives().filter(|drive| !panel.is_reachable(*drive)).map(Breakdown::DriveDown);
        out_of_order = lost.chain(down).collect();
        seen.out_of_order += u32::from(!out_of_order.is_empty());
        seen.carried += u32::from(inventory.found.iter().any(|found| matches!(found.at, Whereabouts::Shuttle(_))));
        seen.in_drives += u32::from(inventory.found.iter().any(|found| matches!(found.at, Whereabouts::Berth(Berth::Bay(..)))));
        let (_, mut mechanics) = libraries.into_parts();
        mechanics[0].log_mut().check(now).unwrap_or_else(|meeting| panic!("seed {seed}, after stop {stop}: {meeting}"));
    }
    assert_eq!((requests.ended, requests.open.len()), (REQUESTS, 0), "seed {seed}: every request ends once");
    seen.unavailable += requests.unavailable;
    if verification == Verification::Endless {
        // The last reads were hours ago: all platters but those under verification are at home.
        assert_eq!(inventory.found, [], "seed {seed}");
        return;
    }
    // All are at home: the written ones are verified.
    let stored = |index: u32| Found {
        platter: Platter(index),
        at: Whereabouts::Berth(Berth::Slot(inventory.homes[index as usize])),
        verified: TRACKS,
    };
    let expected: Vec<Found> = (WRITTEN..WRITTEN + TO_WRITE).map(stored).collect();
    assert_eq!(inventory.found, expected, "seed {seed}");
}

#[test]
fn a_library_that_stops_anywhere_takes_up_its_work() {
    let mut seen = Seen::default();
    (0..60).for_each(|seed| run_with_stops(seed, 8, Verification::Written, false, &mut seen));
    assert!(seen.carried > 100 && seen.in_drives > 100 && seen.out_of_order == 0 && seen.unavailable == 0, "{seen:?}");
}

#[test]
fn it_does_so_with_machines_out_of_order() {
    let mut seen = Seen::default();
    (0..60).for_each(|seed| run_with_stops(seed, 8, Verification::Written, true, &mut seen));
    assert!(seen.carried > 100 && seen.in_drives > 100 && seen.out_of_order > 100 && seen.unavailable > 50, "{seen:?}");
}

#[test]
fn it_does_so_with_endless_verification_and_both_bays_for_customers() {
    let mut seen = Seen::default();
    (0..60).for_each(|seed| run_with_stops(seed, 8, Verification::Endless, false, &mut seen));
    assert!(seen.carried > 100 && seen.in_drives > 100, "{seen:?}");
}

#[test]
fn the_port_hands_out_platters_in_the_order_in_which_they_were_found() {
    let found = |platter| Found { platter: Platter(platter), at: Whereabouts::Berth(Berth::Port), verified: 0 };
    let inventory = Inventory {
        homes: vec![Slot(0), Slot(900), Slot(1_800)],
        written: 1,
        tracks: TRACKS,
        verification: Verification::Written,
        found: vec![found(2), found(1)],
        ..Inventory::default()
    };
    let layout = layout(4);
    let controller = Controller::new(layout.clone(), Pace::default(), &inventory, policy(0, &layout));
    assert_eq!(controller.panel().take_stock(1).collect::<Vec<_>>(), inventory.found);
    let places = (0..3).map(|index| (LIBRARY, Platter(index))).collect();
    let region = Region::new(vec![controller], Sets { shape: SetShape { information: 1, redundancy: 0 }, places });
    let mut libraries = Libraries::new(region, |_| Settings::default(), 1, |_| ());
    libraries.deliver(Micros::ZERO, LIBRARY, Event::Woken, &mut ());
    while let Some((at, due)) = libraries.pop_until(Micros::NEVER) {
        libraries.handle(at, due, &mut ());
    }
    let panel = libraries.region().controllers()[0].panel();
    assert!([1, 2].iter().all(|platter| panel.whereabouts(Platter(*platter)) == Whereabouts::Berth(Berth::Slot(Slot(900 * platter)))));
}

#[test]
fn a_fault_by_command_lasts_until_it_is_repaired() {
    let homes = vec![Slot(0), Slot(900)];
    let inventory = Inventory { homes, written: 2, tracks: TRACKS, verification: Verification::Off, ..Inventory::default() };
    let layout = layout(4);
    let controller = Controller::new(layout.clone(), Pace::default(), &inventory, policy(0, &layout));
    let places = (0..2).map(|index| (LIBRARY, Platter(index))).collect();
    let region = Region::new(vec![controller], Sets { shape: SetShape { information: 1, redundancy: 0 }, places });
    let mut libraries = Libraries::new(region, |_| Settings::default(), 1, |_| ());
    let actor = Actor::Shuttle(Shuttle(2));
    libraries.deliver(Micros::ZERO, LIBRARY, Event::Woken, &mut ());
    assert_eq!(libraries.repair(Micros::ZERO, LIBRARY, actor, &mut ()), Err(NotRepaired::Works));
    libraries.break_down(Micros(1), LIBRARY, Breakdown::ShuttleStops(Shuttle(2)), Lasting::UntilRepaired, Detection::Later);
    assert_eq!(libraries.repair(Micros(2), LIBRARY, actor, &mut ()), Err(NotRepaired::Undetected));
    while let Some((at, due)) = libraries.pop_until(Micros(1_000 * Micros::HOUR.0)) {
        libraries.handle(at, due, &mut ());
    }
    assert_eq!(libraries.mechanics()[0].outage(actor), Some(Outage { is_detected: true, needs_repair: true }));
    assert!(!libraries.region().controllers()[0].panel().is_working(Shuttle(2)));
    libraries.repair(Micros(2_000 * Micros::HOUR.0), LIBRARY, actor, &mut ()).expect("it is down");
    assert_eq!(libraries.mechanics()[0].outage(actor), None);
    assert!(libraries.region().controllers()[0].panel().is_working(Shuttle(2)));
}

#[test]
fn a_machine_repaired_by_command_is_not_repaired_again() {
    let inventory = Inventory { homes: vec![Slot(0)], written: 1, tracks: TRACKS, verification: Verification::Off, ..Inventory::default() };
    let layout = layout(4);
    let controller = Controller::new(layout.clone(), Pace::default(), &inventory, policy(0, &layout));
    let region =
        Region::new(vec![controller], Sets { shape: SetShape { information: 1, redundancy: 0 }, places: vec![(LIBRARY, Platter(0))] });
    let mut settings = Settings::default();
    settings.faults.planned = vec![PlannedFault { at: Micros(1), what: Breakdown::DriveDown(Drive(0)) }];
    let mut libraries = Libraries::new(region, |_| settings.clone(), 1, |_| ());
    let actor = Actor::Drive(Drive(0));
    let outage = |libraries: &Libraries| libraries.mechanics()[0].outage(actor);
    libraries.start_machines();
    libraries.deliver(Micros::ZERO, LIBRARY, Event::Woken, &mut ());
    let mut now = Micros::ZERO;
    while !outage(&libraries).is_some_and(|outage| outage.is_detected) {
        let (at, due) = libraries.pop_until(Micros::HOUR).expect("the fault is detected");
        libraries.handle(at, due, &mut ());
        now = at;
    }
    libraries.repair(now, LIBRARY, actor, &mut ()).expect("it is down");
    // A new fault by command: the drawn repair of the first one must not end it.
    libraries.break_down(now, LIBRARY, Breakdown::DriveDown(Drive(0)), Lasting::UntilRepaired, Detection::Later);
    while let Some((at, due)) = libraries.pop_until(Micros(1_000 * Micros::HOUR.0)) {
        libraries.handle(at, due, &mut ());
    }
    assert_eq!(outage(&libraries), Some(Outage { is_detected: true, needs_repair: true }));
    assert_eq!(libraries.region().controllers()[0].unexpected_answers(), 0);
}
