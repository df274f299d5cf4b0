//! The bound compared with the best possible schedule of tiny libraries.
//!
//! The model has the mean times of the machines and leaves out what the bound leaves out: shuttles
//! drive empty in no time and never hinder each other, and a drive turns to its other bay in no
//! time. So its best schedule is at most as long as the best one of the library with these times.
//! The scheduler knows all requests in advance.
//!
//! A schedule consists of seven operations:
//!
//! | operation | needs | condition |
//! | --- | --- | --- |
//! | pick from a slot | a shuttle | requests of the platter are unread |
//! | place into a bay | the shuttle that carries the platter | a bay is empty |
//! | mount | the drive | requests of the platter are unread |
//! | read | the drive | the request has arrived, the platter is mounted |
//! | unmount | the drive | |
//! | pick from a bay | a shuttle | the platter is unmounted |
//! | place at home | the shuttle that carries the platter | it came from a drive |
//!
//! Starting an operation earlier never delays another if each machine keeps its order. So it
//! suffices to try every order of operations, and to start each as early as its machines and its
//! platter allow. Holding, waiting and sharing a visit are all orders: a platter stays in a bay or
//! on a shuttle until its next operation. Two choices need no search: empty shuttles are alike, as
//! are the empty bays of a drive, so an operation takes the one that became free last among those
//! that don't delay it, or else the first to become free.
//!
//! Of two partial schedules with the same platters in the same places and the same requests read,
//! one is dropped if none of its times is earlier. The remaining ones are continued in order of a
//! lower limit of their longest completion time, so the first complete one is optimal. A schedule
//! may leave `excluded` requests unread.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use fulgurite_chance::Stream;
use fulgurite_domain::{Micros, SetShape};
use fulgurite_library::{Drive, Layout, Pace, RegionPlatter, Slot, Tracks};

use super::{Arrival, Bound};
use crate::scenario::{Scenario, Stock, mean_seek_s};

const PLATTERS_MAX: usize = 7;
const MACHINES_MAX: usize = 3;
/// The time of a machine that isn't free, and the request of a head that is nowhere in particular.
const NEVER: i64 = i64::MAX;
const NOWHERE: u8 = u8::MAX;

/// Where a platter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Slot,
    /// On a shuttle that took it from its slot, or from a drive.
    Carried(Option<u8>),
    Bay {
        drive: u8,
        is_mounted: bool,
    },
}

/// What partial schedules must have in common to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Situation {
    /// Bit mask of the requests that were read.
    read: u8,
    places: [Place; PLATTERS_MAX],
    /// The last request that each drive read, if another one begins where it ends.
    heads: [u8; MACHINES_MAX],
}

/// The instants from which things are free, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Times {
    /// The longest completion time so far.
    longest: i64,
    platters: [i64; PLATTERS_MAX],
    /// Empty shuttles.
    shuttles: [i64; MACHINES_MAX],
    drives: [i64; MACHINES_MAX],
    /// Empty bays.
    bays: [[i64; 2]; MACHINES_MAX],
}

impl Times {
    fn all(&self) -> impl Iterator<Item = i64> + '_ {
        let machines = self.shuttles.iter().chain(&self.drives).chain(self.bays.as_flattened());
        std::iter::once(&self.longest).chain(&self.platters).chain(machines).copied()
    }

    fn are_no_later_than(&self, other: &Self) -> bool {
        self.all().zip(other.all()).all(|(one, other)| one <= other)
    }
}

/// Takes a place that is free from `wanted` at the latest, or else from the first possible instant.
/// Returns when it is free, or `None` if all are occupied.
fn take(free: &mut [i64], wanted: i64) -> Option<i64> {
    let best = free
        .iter_mut()
        .filter(|at| **at < NEVER)
        .min_by_key(|at| if **at <= wanted { (0, Reverse(**at), 0) } else { (1, Reverse(0), **at) })?;
    Some(std::mem::replace(best, NEVER))
}

fn give_back(free: &mut [i64], at: i64) {
    *free.iter_mut().find(|free| **free == NEVER).expect("it was taken before") = at;
    free.sort_unstable();
}

struct Model {
    platters: usize,
    shuttles: usize,
    drives: usize,
    pick: i64,
    place: i64,
    mount: i64,
    unmount: i64,
    seek: i64,
    track: i64,
    /// From each platter's slot to each drive.
    carries: Vec<Vec<i64>>,
    between_drives: Vec<Vec<i64>>,
    arrivals: Vec<Arrival>,
}

impl Model {
    fn new(scenario: &Scenario, stock: &Stock, arrivals: &[Arrival]) -> Self {
        let (layout, drive, pace): (&Layout, _, Pace) = (&scenario.layout, &scenario.mechanics.drive, scenario.pace());
        let doors: Vec<_> = (0..layout.drive_count()).map(|drive| layout.drive_position(Drive(drive))).collect();
        let us = |seconds: f64| (seconds * 1e6) as i64;
        let travels = |from| doors.iter().map(|door| pace.travel(from, *door).0 as i64).collect::<Vec<_>>();
        let homes = &stock.inventories[0].homes;
        assert!(homes.len() <= PLATTERS_MAX && arrivals.len() <= 8 && doors.len() <= MACHINES_MAX);
        Self {
            platters: homes.len(),
            shuttles: layout.shuttles.into(),
            drives: doors.len(),
            pick: pace.pick.0 as i64,
            place: pace.place.0 as i64,
            mount: us(drive.mount_s),
            unmount: us(drive.unmount_s),
            seek: us(mean_seek_s(drive)),
            track: us(drive.track_bytes as f64 / drive.throughput_bytes_s),
            carries: homes.iter().map(|home| travels(layout.slot_position(*home))).collect(),
            between_drives: doors.iter().map(|door| travels(*door)).collect(),
            arrivals: arrivals.to_vec(),
        }
    }

    fn unread(&self, read: u8, platter: usize) -> impl Iterator<Item = usize> + '_ {
        let is_unread = move |index: &usize| read & 1 << index == 0 && self.arrivals[*index].platter.0 as usize == platter;
        (0..self.arrivals.len()).filter(is_unread)
    }

    fn reading(&self, request: usize) -> i64 {
        i64::from(self.arrivals[request].tracks.count) * self.track
    }

    /// The least longest completion time, in microseconds, of all but `excluded` requests.
    fn optimum(&self, excluded: usize) -> i64 {
        let free = |count: usize| std::array::from_fn(|index| if index < count { 0 } else { NEVER });
        let bays = std::array::from_fn(|drive| if drive < self.drives { [0; 2] } else { [NEVER; 2] });
        let times = Times { longest: 0, platters: [0; PLATTERS_MAX], shuttles: free(self.shuttles), drives: [0; MACHINES_MAX], bays };
        let situation = Situation { read: 0, places: [Place::Slot; PLATTERS_MAX], heads: [NOWHERE; MACHINES_MAX] };
        let mut best: HashMap<Situation, Vec<Times>> = HashMap::new();
        let mut open = BinaryHeap::from([Reverse((0_i64, Reverse(0_u32), situation, times))]);
        while let Some(Reverse((limit, _, situation, times))) = open.pop() {
            if situation.read.count_ones() as usize + excluded >= self.arrivals.len() {
                return limit;
            }
            let known = best.entry(situation).or_default();
            if known.iter().any(|other| other.are_no_later_than(&times)) {
                continue;
            }
            known.retain(|other| !times.are_no_later_than(other));
            known.push(times);
            self.continuations(&situation, &times, |next, times| {
                // Larger sets of read requests first, so that a complete schedule is found early.
                let limit = self.limit(&next, &times, excluded).max(limit);
                open.push(Reverse((limit, Reverse(next.read.count_ones()), next, times)));
            });
        }
        unreachable!("all requests can be read one after another")
    }

    /// No continuation has a shorter longest completion time.
    fn limit(&self, situation: &Situation, times: &Times, excluded: usize) -> i64 {
        let carried = (0..self.platters).filter(|platter| matches!(situation.places[*platter], Place::Carried(_)));
        let shuttle = carried.map(|platter| times.platters[platter]).chain(times.shuttles).min().unwrap_or(0);
        let mut waits: Vec<i64> = Vec::new();
        for platter in 0..self.platters {
            let ready = times.platters[platter];
            let mounted = match situation.places[platter] {
                Place::Slot => {
                    let carry = self.carries[platter].iter().min().copied().unwrap_or(0);
                    ready.max(shuttle) + self.pick + carry + self.place + self.mount
                }
                Place::Carried(_) => ready + self.place + self.mount,
                Place::Bay { is_mounted: false, drive } => ready.max(times.drives[usize::from(drive)]) + self.mount,
                Place::Bay { is_mounted: true, drive } => ready.max(times.drives[usize::from(drive)]),
            };
            waits.extend(self.unread(situation.read, platter).map(|request| {
                let arrived = self.arrivals[request].at.0 as i64;
                mounted.max(arrived) + self.reading(request) - arrived
            }));
        }
        waits.sort_unstable();
        let left = excluded.min(waits.len());
        waits[..waits.len() - left].last().map_or(times.longest, |wait| times.longest.max(*wait))
    }

    fn continuations(&self, situation: &Situation, times: &Times, mut found: impl FnMut(Situation, Times)) {
        for platter in 0..self.platters {
            let ready = times.platters[platter];
            let is_wanted = self.unread(situation.read, platter).next().is_some();
            let mut go = |place: Place, at: i64, mut times: Times| {
                let mut next = *situation;
                next.places[platter] = place;
                // No later operation depends on when a platter without requests came home.
                times.platters[platter] = if place == Place::Slot && !is_wanted { 0 } else { at };
                found(next, times);
            };
            match situation.places[platter] {
                Place::Slot => {
                    let mut after = *times;
                    if is_wanted && let Some(free) = take(&mut after.shuttles, ready) {
                        after.shuttles.sort_unstable();
                        go(Place::Carried(None), ready.max(free) + self.pick, after);
                    }
                }
                Place::Carried(from) => {
                    for drive in (0..self.drives).filter(|_| is_wanted) {
                        let carry = from.map_or(self.carries[platter][drive], |from| self.between_drives[usize::from(from)][drive]);
                        let mut after = *times;
                        let Some(free) = take(&mut after.bays[drive], ready + carry) else { continue };
                        after.bays[drive].sort_unstable();
                        let at = (ready + carry).max(free) + self.place;
                        give_back(&mut after.shuttles, at);
                        go(Place::Bay { drive: drive as u8, is_mounted: false }, at, after);
                    }
                    if let Some(from) = from {
                        let mut after = *times;
                        let at = ready + self.carries[platter][usize::from(from)] + self.place;
                        give_back(&mut after.shuttles, at);
                        go(Place::Slot, at, after);
                    }
                }
                Place::Bay { drive, is_mounted: false } => {
                    let index = usize::from(drive);
                    if is_wanted {
                        let mut after = *times;
                        after.drives[index] = ready.max(times.drives[index]) + self.mount;
                        go(Place::Bay { drive, is_mounted: true }, after.drives[index], after);
                    }
                    let mut after = *times;
                    if let Some(free) = take(&mut after.shuttles, ready) {
                        after.shuttles.sort_unstable();
                        let at = ready.max(free) + self.pick;
                        give_back(&mut after.bays[index], at);
                        go(Place::Carried(Some(drive)), at, after);
                    }
                }
                Place::Bay { drive, is_mounted: true } => {
                    let index = usize::from(drive);
                    let mut after = *times;
                    after.drives[index] = ready.max(times.drives[index]) + self.unmount;
                    go(Place::Bay { drive, is_mounted: false }, after.drives[index], after);
                    for request in self.unread(situation.read, platter) {
                        let (mut next, mut after) = (*situation, *times);
                        let Arrival { at, tracks, .. } = self.arrivals[request];
                        let head = self.arrivals.get(usize::from(situation.heads[index]));
                        let is_there = head.is_some_and(|head| head.platter.0 as usize == platter && head.tracks.end() == tracks.first);
                        let start = ready.max(times.drives[index]).max(at.0 as i64);
                        let end = start + if is_there { 0 } else { self.seek } + self.reading(request);
                        next.read |= 1 << request;
                        let begins_there = |other: usize| self.arrivals[other].tracks.first == tracks.end();
                        next.heads[index] = if self.unread(next.read, platter).any(begins_there) { request as u8 } else { NOWHERE };
                        (after.drives[index], after.platters[platter]) = (end, end);
                        after.longest = times.longest.max(end - at.0 as i64);
                        found(next, after);
                    }
                }
            }
        }
    }
}

/// A library with so many shuttles, drives and platters, all in slots of their own.
fn library(stream: &mut Stream, shuttles: u16, drives: [u8; 2], platters: u32) -> (Scenario, Stock) {
    let mut scenario = Scenario {
        layout: Layout { shelves: 3, storage_racks: 2, slots: 20, shuttles, drives, port_shelf: 0, ..Layout::default() },
        platters,
        ..Scenario::default()
    };
    scenario.sets.shape = SetShape { information: 1, redundancy: 0 };
    let mut stock = scenario.stock(1).expect("the platters fit");
    assert_eq!(stock.inventories[0].homes.len(), platters as usize);
    let mut slots: Vec<u32> = (0..scenario.layout.slot_count()).collect();
    for home in &mut stock.inventories[0].homes {
        *home = Slot(slots.swap_remove(stream.below(slots.len() as u64) as usize));
    }
    (scenario, stock)
}

struct Instance {
    scenario: Scenario,
    stock: Stock,
    arrivals: Vec<Arrival>,
}

impl Instance {
    /// Bursts, requests over a minute or a quarter of an hour, and reads of a track up to minutes.
    fn random(seed: u64) -> Self {
        let mut stream = Stream::new(seed, "tiny libraries");
        // Shuttles, drives at both ends, platters, requests.
        let sizes = [(1, [1, 0], 6, 7), (1, [1, 0], 5, 6), (1, [1, 1], 4, 5), (2, [1, 0], 4, 5), (2, [1, 1], 3, 4), (3, [2, 1], 3, 3)];
        let (shuttles, drives, platters, requests) = sizes[stream.below(sizes.len() as u64) as usize];
        let (scenario, stock) = library(&mut stream, shuttles, drives, platters);
        let spread_s = [0.0, 10.0, 60.0, 300.0, 900.0][stream.below(5) as usize];
        let tracks_max = [2.0, 30.0, 300.0][stream.below(3) as usize];
        let is_skewed = stream.happens(0.3);
        let mut at: Vec<Micros> = (0..requests).map(|_| Micros::from_seconds(stream.between(0.0, spread_s + 1e-6))).collect();
        at.sort_unstable();
        let mut arrivals: Vec<Arrival> = Vec::new();
        for (request, at) in at.into_iter().enumerate() {
            let platter = if is_skewed && stream.happens(0.6) { 0 } else { stream.below(platters.into()) as u32 };
            let before = arrivals.iter().rev().find(|other| other.platter.0 == platter);
            let first = match before {
                // Adjacent tracks, or the same ones.
                Some(other) if stream.happens(0.4) => other.tracks.end(),
                Some(other) if stream.happens(0.2) => other.tracks.first,
                _ => stream.below(90_000) as u32,
            };
            let count = stream.log_uniform(1.0, tracks_max) as u32;
            let tracks = Tracks { first, count };
            let platter = RegionPlatter(platter);
            arrivals.push(Arrival { at, request: request as u64, platter, tracks, has_other_shards: false, is_measured: true });
        }
        Self { scenario, stock, arrivals }
    }

    /// The bound on the longest completion time without the `excluded` longest, in microseconds.
    fn bound(&self, scenario: &Scenario, excluded: u64) -> i64 {
        // One request in a thousand is beyond the tail; requests that don't arrive take no time.
        let bound = Bound::of(scenario, &self.stock, &self.arrivals, 1_000 * excluded);
        (if excluded == 0 { bound.longest } else { bound.tail }).0 as i64
    }

    fn optimum(&self, excluded: u64) -> i64 {
        Model::new(&self.scenario, &self.stock, &self.arrivals).optimum(excluded as usize)
    }
}

/// Rounding to microseconds, a few of them for each operation.
const ROUNDING: i64 = 100;

/// A library with machines so many times as slow.
fn slowed(scenario: &Scenario, factor: f64) -> Scenario {
    let mut scenario = scenario.clone();
    let (motion, drive) = (&mut scenario.mechanics.motion, &mut scenario.mechanics.drive);
    for time_s in [&mut motion.positioning_s, &mut motion.crab_s, &mut motion.pick_s, &mut motion.place_s] {
        *time_s *= factor;
    }
    motion.speed_m_s /= factor;
    motion.acceleration_m_s2 /= factor * factor;
    (drive.throughput_bytes_s, drive.seek_median_s) = (drive.throughput_bytes_s / factor, drive.seek_median_s * factor);
    scenario
}

/// Burst on all platters of a library with one shuttle and one drive: one track each.
fn burst(seed: u64, platters: u32) -> Instance {
    let mut stream = Stream::new(seed, "bursts");
    let (scenario, stock) = library(&mut stream, 1, [1, 0], platters);
    let arrival = |platter: u32| Arrival {
        at: Micros(0),
        request: platter.into(),
        platter: RegionPlatter(platter),
        tracks: Tracks { first: 100 * platter, count: 1 },
        has_other_shards: false,
        is_measured: true,
    };
    Instance { scenario, stock, arrivals: (0..platters).map(arrival).collect() }
}

/// The optimum of a [`burst`]: when the last platter is placed, the other bay may hold one that was
/// never returned. All platters were fetched and all others are back, one carry after another. If
/// the two that stay have the longest ways, and each platter is read while the shuttle makes the
/// next trip, no schedule is shorter.
fn burst_optimum(instance: &Instance) -> i64 {
    let mut stock = instance.stock.clone();
    let homes = std::mem::take(&mut stock.inventories[0].homes);
    let (mut all, mut ways) = (0, Vec::new());
    for home in homes {
        stock.inventories[0].homes = vec![home];
        let model = Model::new(&instance.scenario, &stock, &[]);
        let way = model.pick + model.carries[0][0] + model.place;
        all += 2 * way;
        ways.push(way);
    }
    ways.sort_unstable();
    let model = Model::new(&instance.scenario, &stock, &[]);
    all - ways.iter().rev().take(2).sum::<i64>() + model.mount + model.seek + model.track
}

#[test]
fn no_schedule_of_a_tiny_library_beats_the_bound() {
    let (mut positive, mut ratios, mut caught) = (0, Vec::new(), 0);
    for seed in 0..300 {
        let instance = Instance::random(seed);
        for excluded in 0..2 {
            let (bound, optimum) = (instance.bound(&instance.scenario, excluded), instance.optimum(excluded));
            assert!(
                bound <= optimum + ROUNDING,
                "seed {seed}: with {excluded} excluded, the bound is {bound} us and the optimum {optimum} us: {:?}",
                instance.arrivals
            );
            positive += u32::from(bound > 0);
            ratios.push(bound as f64 / optimum as f64);
            let too_large = instance.bound(&slowed(&instance.scenario, 2.0), excluded);
            caught += u32::from(too_large > optimum + ROUNDING);
        }
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| ratios[(part * (ratios.len() - 1) as f64) as usize];
    println!("bound / optimum: quartiles {:.3} {:.3} {:.3}, 90 % {:.3}, most {:.3}", at(0.25), at(0.5), at(0.75), at(0.9), at(1.0));
    println!("{positive} of {} bounds are positive; {caught} are too large for machines twice as slow", ratios.len());
    assert!(positive > 150, "only {positive} bounds are positive");
    assert!(caught > 30, "only {caught} optima are below the bound of a library with machines twice as slow");
    assert!(at(1.0) > 0.9, "the best bound is {} of the optimum", at(1.0));
}

#[test]
fn the_bound_allows_platters_to_be_held_between_requests() {
    for seed in 0..20 {
        let mut stream = Stream::new(seed, "held platters");
        let (scenario, stock) = library(&mut stream, 1, [1, 0], 2);
        // Both are fetched in advance and stay in the drive; returning them each time would take
        // the shuttle too long.
        let request = |index: u64| Arrival {
            at: Micros::from_seconds(200.0 + 10.0 * index as f64),
            request: index,
            platter: RegionPlatter(index as u32 % 2),
            tracks: Tracks { first: 100 * index as u32, count: 1 },
            has_other_shards: false,
            is_measured: true,
        };
        let instance = Instance { scenario, stock, arrivals: (0..8).map(request).collect() };
        let (bound, optimum) = (instance.bound(&instance.scenario, 0), instance.optimum(0));
        assert!(optimum < 2_000_000, "seed {seed}: the optimum is {optimum} us");
        assert!(bound <= optimum + ROUNDING, "seed {seed}: the bound is {bound} us and the optimum {optimum} us");
    }
}

#[test]
fn the_formula_for_bursts_agrees_with_the_search() {
    for seed in 0..10 {
        let instance = burst(seed, 4 + (seed % 2) as u32);
        let (formula, search) = (burst_optimum(&instance), instance.optimum(0));
        assert!((formula - search).abs() < ROUNDING, "seed {seed}: {formula} us by the formula, {search} us by search");
    }
}

#[test]
fn the_bound_comes_close_to_the_optimum_of_a_burst() {
    for (platters, least) in [(14, 0.7), (30, 0.85), (100, 0.95)] {
        for seed in 0..20 {
            let instance = burst(seed, platters);
            let optimum = burst_optimum(&instance);
            let ratio = |scenario: &Scenario| instance.bound(scenario, 0) as f64 / optimum as f64;
            let (found, too_large) = (ratio(&instance.scenario), ratio(&slowed(&instance.scenario, 2.0)));
            assert!((least..=1.0).contains(&found), "{platters} platters, seed {seed}: the bound is {found} of the optimum");
            assert!(too_large > 1.0, "{platters} platters, seed {seed}: machines twice as slow go unnoticed");
        }
    }
}
