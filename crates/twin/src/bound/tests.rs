//! Loads whose bound can be computed by hand, and runs compared with their bounds.

use fulgurite_domain::Micros;
use fulgurite_library::{Drive, RegionPlatter};

use super::*;
use crate::scenario::PolicyName;
use crate::scenario::{Workload, mean_seek_s};

fn arrival(at_s: f64, request: u64, platter: u32, count: u32) -> Arrival {
    let first = (request * 7 % 100_000) as u32;
    Arrival {
        at: Micros::from_seconds(at_s),
        request,
        platter: RegionPlatter(platter),
        tracks: Tracks { first, count },
        has_other_shards: false,
        is_measured: true,
    }
}

/// A library of 3,800 platters.
fn library() -> Scenario {
    Scenario { platters: 3_800, ..Scenario::default() }
}

fn bound(scenario: &Scenario, arrivals: &[Arrival]) -> Bound {
    Bound::of(scenario, &scenario.stock(1).unwrap(), arrivals, arrivals.len() as u64)
}

fn close(found: Micros, wanted_s: f64) {
    let found = found.seconds();
    assert!((found / wanted_s - 1.0).abs() < 2e-3, "{found} s instead of {wanted_s} s");
}

#[test]
fn a_burst_on_all_platters_takes_their_handling_divided_by_the_shuttles() {
    let scenario = library();
    let arrivals: Vec<Arrival> = (0..3_800).map(|platter| arrival(100.0, platter.into(), platter, 1)).collect();
    let servers = Servers::of(&scenario, &scenario.stock(1).unwrap(), Library(0));
    let all: f64 = servers.handling_s.iter().sum();
    let with_ways: f64 = servers.visiting_s.iter().sum();
    let edges = 60.0 * servers.handling_most_s;
    let bound = bound(&scenario, &arrivals);
    // The longest request waits for all of it; the tail leaves out the three that cost most.
    close(bound.longest, (all - edges) / 20.0);
    close(bound.tails.shuttles, (all - edges - 3.0 * servers.handling_most_s) / 20.0);
    // No request could be foreseen, but the empty ways to platters count.
    close(bound.unforeseen.unwrap(), (with_ways - 63.0 * servers.visiting_most_s) / 20.0);
    close(bound.one_sweep, with_ways / 20.0);
    // Each visit: 1 s, a seek of 0.648 s in the mean, a third of a second for the track, 1 s.
    let visit = 2.0 + servers.seek_s;
    close(bound.tails.drives, (3_797.0 * (visit + 1.0 / 3.0) - 40.0 * visit) / 20.0);
    assert_eq!(bound.tails.platter, Micros::ZERO, "with one read per platter, no request waits for its platter");
    assert_eq!(bound.tail, bound.tails.shuttles);
}

#[test]
fn without_foresight_the_work_starts_anew_when_fetched_platters_are_requested_again() {
    let mut scenario = library();
    // Half of the platters; a thousand seconds later the other half, and those that were fetched
    // meanwhile.
    let wanted = (0..1_900).map(|platter| (0.0, platter)).chain((0..1_100).chain(1_900..3_800).map(|platter| (1_000.0, platter)));
    let arrivals: Vec<Arrival> = wanted.zip(0..).map(|((at_s, platter), request)| arrival(at_s, request, platter, 1)).collect();
    let servers = Servers::of(&scenario, &scenario.stock(1).unwrap(), Library(0));
    let all: f64 = servers.visiting_s.iter().sum();
    // Now all wait again, as if no work had been done. Four requests may be left out, and 60
    // platters may be under way.
    let expected = (all - 64.0 * servers.visiting_most_s) / 20.0;
    let found = bound(&scenario, &arrivals);
    close(found.unforeseen.unwrap(), expected);
    assert!(found.tail.seconds() < expected - 500.0, "a policy with foresight fetches the others first: {found:?}");
    scenario.workload.zipf = 0.5;
    assert_eq!(bound(&scenario, &arrivals).unforeseen, None, "a policy that postpones unpopular platters may do better");
}

#[test]
fn one_platter_is_read_by_one_drive() {
    let scenario = library();
    let arrivals: Vec<Arrival> = (0..10_000).map(|request| arrival(5.0, request, 7, 5)).collect();
    let bound = bound(&scenario, &arrivals);
    // 10,000 reads of five thirds of a second with a seek, which takes 0.648 s in the mean; the
    // tail leaves out ten.
    let read = 5.0 / 3.0 + mean_seek_s(&scenario.mechanics.drive);
    close(bound.longest, 10_000.0 * read);
    close(bound.tail, 9_990.0 * read);
    assert_eq!(bound.tails.shuttles, Micros::ZERO);
    // Adjacent reads need no seeks, except the first.
    let beside = |request: u64| Tracks { first: request as u32 * 5, count: 5 };
    let arrivals: Vec<Arrival> = arrivals.iter().map(|arrival| Arrival { tracks: beside(arrival.request), ..*arrival }).collect();
    close(super::Bound::of(&scenario, &scenario.stock(1).unwrap(), &arrivals, 10_000).longest, 10_000.0 * 5.0 / 3.0);
}

#[test]
fn requests_for_one_platter_share_a_visit_if_they_can_wait_for_each_other() {
    let scenario = library();
    // Each platter is requested again a thousand seconds later: requests that wait that long need
    // one visit.
    let both = |again_s: f64| -> Vec<Arrival> {
        let first = (0..3_800).map(|platter| arrival(0.0, platter.into(), platter, 1));
        let second = (0..3_800).map(|platter| arrival(again_s, 3_800 + u64::from(platter), platter, 1));
        first.chain(second).collect()
    };
    let once = bound(&scenario, &both(0.0)).tails.shuttles;
    assert!(once > Micros(1_000_000_000), "{once}");
    close(bound(&scenario, &both(1_000.0)).tails.shuttles, once.seconds());
    // Far apart, they are two bursts, each like a single one, but the tail may leave out twice as
    // many.
    let apart = bound(&scenario, &both(40_000.0)).tails.shuttles;
    close(apart, once.seconds());
}

#[test]
fn unavailable_platters_and_unneeded_shuttles_do_not_count_in_the_bound() {
    let arrivals: Vec<Arrival> = (0..3_800).map(|platter| arrival(100.0, platter.into(), platter, 1)).collect();
    let mut scenario = library();
    let all = bound(&scenario, &arrivals);
    scenario.sets.unavailable = 0.1;
    let fewer = bound(&scenario, &arrivals);
    assert!(fewer.tail < all.tail && fewer.tail > Micros::ZERO, "{fewer:?}");
    scenario.policy.name = PolicyName::NoShuttles;
    let drives_alone = bound(&scenario, &arrivals);
    assert_eq!(drives_alone.tails.shuttles, Micros::ZERO);
    assert_eq!(drives_alone.tail, drives_alone.tails.drives);
}

#[test]
fn a_read_that_begins_where_a_recovery_ends_needs_no_seek() {
    let mut scenario = library();
    scenario.sets.unavailable = 0.05;
    let stock = scenario.stock(1).unwrap();
    let members = u32::from(stock.sets.shape.platters());
    let is_unavailable = |platter: u32| stock.unavailable.binary_search(&RegionPlatter(platter)).is_ok();
    let lost = stock.unavailable[0].0;
    let other = (lost / members * members..).find(|platter| !is_unavailable(*platter)).unwrap();
    // Pairs of requests: a track of the lost platter, then the next one of the other platter. If
    // recovery reads the other platter, it reads 2,000 adjacent tracks without a seek.
    let request = |index: u64, platter, pair: u64| Arrival {
        tracks: Tracks { first: 2 * pair as u32 + u32::from(platter == other), count: 1 },
        ..arrival(5.0, index, platter, 1)
    };
    let pairs = |first: u32| -> Vec<Arrival> {
        (0..1_000).flat_map(|pair| [request(2 * pair, first, pair), request(2 * pair + 1, other, pair)]).collect()
    };
    close(bound(&scenario, &pairs(lost)).longest, 1_000.0 / 3.0);
    let elsewhere = (0..).find(|platter| platter / members != lost / members && is_unavailable(*platter)).unwrap();
    close(bound(&scenario, &pairs(elsewhere)).longest, 1_000.0 * (1.0 / 3.0 + mean_seek_s(&scenario.mechanics.drive)));
}

#[test]
fn no_policy_beats_the_bound_and_every_run_has_one() {
    let mut scenario = Scenario { platters: 380, ..Scenario::default() };
    scenario.run.warm_up = Micros(600_000_000);
    scenario.run.measured = Micros(7_200_000_000);
    scenario.workload = Workload::default();
    scenario.workload.bursts.period = Micros(7_200_000_000);
    scenario.workload.bursts.count = 1;
    scenario.workload.rate = 0.5;
    for (text, name) in PolicyName::ALL {
        scenario.policy.name = name;
        let (mut tails_s, mut unforeseen_s) = (0.0, 0.0);
        for seed in 0..3 {
            let mut run = crate::simulation::run(&scenario, seed).unwrap();
            let bound = run.bound.unwrap();
            let (tail, longest) = (run.percentile_s(TAIL_QUANTILE), run.longest_s());
            assert!(tail >= bound.tail.seconds() && longest >= bound.longest.seconds(), "{text}, seed {seed}: {tail} s, {bound:?}");
            assert!(bound.tail > Micros(5_000_000), "{text}, seed {seed}: the bound is trivial: {bound:?}");
            tails_s += tail;
            unforeseen_s += bound.unforeseen.unwrap().seconds();
        }
        assert!(tails_s >= unforeseen_s, "{text}: the tails add up to {tails_s} s, below the bound of {unforeseen_s} s");
    }
}

#[test]
fn an_approach_starts_at_the_nearest_neighbour() {
    let scenario = library();
    let stock = scenario.stock(1).unwrap();
    let servers = Servers::of(&scenario, &stock, Library(0));
    let (layout, pace) = (&scenario.layout, scenario.pace());
    let homes: Vec<_> = stock.inventories[0].homes.iter().map(|slot| layout.slot_position(*slot)).collect();
    let doors = (0..layout.drive_count()).map(|drive| layout.drive_position(Drive(drive)));
    let places: Vec<_> = homes.iter().copied().chain(doors).collect();
    for (index, home) in homes.iter().enumerate().step_by(97) {
        let others = places.iter().enumerate().filter(|(other, _)| *other != index);
        let nearest = others.map(|(_, other)| pace.travel(*other, *home)).min().unwrap().seconds();
        let found = servers.visiting_s[index] - servers.handling_s[index];
        assert!(found <= nearest + 1e-9, "{home:?}: {found} s, and {nearest} s from its nearest neighbour");
        // Only a neighbour on the shelf above or below can be missed; a crab then counts instead.
        assert!(nearest - found < 1e-9 || found == pace.crab.seconds(), "{home:?}: {found} s instead of {nearest} s");
    }
}
