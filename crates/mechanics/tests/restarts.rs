//! A library that stops at any instant takes up its work again from where its platters and shuttles
//! are: no platter is lost or in two places, every request ends, and every written platter is
//! verified and stored.

use std::collections::BTreeMap;

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;
use fulgurite_domain::SetShape;
use fulgurite_library::{
    Balanced, Berth, Controller, Event, Found, Inventory, Layout, Library, Pace, Partitioned, Platter, Policy, Region, RegionOutcome,
    RegionPlatter, RequestId, Sets, Shard, ShortestPaths, Shuttle, Slot, Techniques, Tracks, Verification, Whereabouts,
};
use fulgurite_mechanics::{DriveTimes, Libraries, NoTwoShuttlesMeet, Settings, Witness};

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
}

impl Witness for Requests {
    fn ended(&mut self, _: Micros, request: RequestId, outcome: RegionOutcome) {
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

/// Runs a library that stops `stops` times, and returns at how many of the stops a shuttle carried
/// a platter, and at how many a platter was in a drive.
fn run_with_stops(seed: u64, stops: u32) -> (u32, u32) {
    let mut chance = Stream::new(seed, "stops");
    let layout = layout(2 + chance.below(11) as u16);
    let apart = layout.slot_count() / (WRITTEN + TO_WRITE);
    let settings = Settings { drive: DriveTimes { track_bytes: 20_000_000, ..DriveTimes::default() }, ..Settings::default() };
    let mut inventory = Inventory {
        homes: (0..WRITTEN + TO_WRITE).map(|index| Slot(index * apart)).collect(),
        written: WRITTEN,
        tracks: TRACKS,
        verification: Verification::Written,
        ..Inventory::default()
    };
    let mut requests = Requests::default();
    for request in 0..REQUESTS {
        let tracks = Tracks { first: chance.below(u64::from(TRACKS) - 2) as u32, count: 1 + chance.below(2) as u32 };
        requests.open.insert(request, Shard { platter: RegionPlatter(chance.below(WRITTEN.into()) as u32), tracks });
    }
    let (mut carried, mut in_drives) = (0, 0);
    for stop in 0..=stops {
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
        let unwritten: Vec<Platter> = unwritten.collect();
        for (platter, nth) in unwritten.into_iter().zip(1..) {
            libraries.schedule(Micros(nth * 60_000_000), LIBRARY, Event::PlatterWritten { platter });
        }
        let mut left = if stop == stops { u64::MAX } else { 1 + chance.below(400) };
        while left > 0 {
            let Some((at, due)) = libraries.pop_until(Micros::NEVER) else { break };
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
        carried += u32::from(inventory.found.iter().any(|found| matches!(found.at, Whereabouts::Shuttle(_))));
        in_drives += u32::from(inventory.found.iter().any(|found| matches!(found.at, Whereabouts::Berth(Berth::Bay(..)))));
        let (_, mut mechanics) = libraries.into_parts();
        mechanics[0].log_mut().check(now).unwrap_or_else(|meeting| panic!("seed {seed}, after stop {stop}: {meeting}"));
    }
    assert_eq!((requests.ended, requests.open.len()), (REQUESTS, 0), "seed {seed}: every request ends once");
    // All are at home: the written ones are verified.
    let stored = |index: u32| Found {
        platter: Platter(index),
        at: Whereabouts::Berth(Berth::Slot(inventory.homes[index as usize])),
        verified: TRACKS,
    };
    let expected: Vec<Found> = (WRITTEN..WRITTEN + TO_WRITE).map(stored).collect();
    assert_eq!(inventory.found, expected, "seed {seed}");
    (carried, in_drives)
}

#[test]
fn a_library_that_stops_anywhere_takes_up_its_work() {
    let (mut carried, mut in_drives) = (0, 0);
    for seed in 0..60 {
        let (on_shuttles, held) = run_with_stops(seed, 8);
        (carried, in_drives) = (carried + on_shuttles, in_drives + held);
    }
    assert!(carried > 100 && in_drives > 100, "{carried} stops with a platter on a shuttle, {in_drives} with one in a drive");
}
