//! Shuttles that can be in each other's way from the start: more than drives, on a single shelf, or
//! in narrow racks. All requests end.

use fulgurite_domain::{Micros, SetShape};
use fulgurite_library::Layout;
use fulgurite_library::placement::{ZoneShape, Zones};
use fulgurite_twin::scenario::{PolicyName, Scenario};
use fulgurite_twin::simulation::run;

use crate::support::{minutes, scenario};

/// Half an hour of a light load, and half a day to serve it.
fn all_requests_end(layout: &Layout) {
    for name in [PolicyName::Balanced, PolicyName::Partitioned] {
        let mut scenario = Scenario { layout: layout.clone(), platters: 0, ..Scenario::default() };
        scenario.policy.name = name;
        scenario.sets.shape = SetShape { information: 2, redundancy: 1 };
        scenario.sets.zones = Zones { shapes: vec![ZoneShape { racks: 1, shelves: 1 }] };
        (scenario.run.warm_up, scenario.run.measured) = (Micros::ZERO, Micros(Micros::HOUR.0 / 2));
        scenario.run.cool_down = Micros(12 * Micros::HOUR.0);
        scenario.workload.rate = 0.015 * f64::from(layout.shuttles.min(layout.drive_count()));
        scenario.workload.bursts.count = 0;
        let run = run(&scenario, 1).unwrap_or_else(|error| panic!("{layout:?}, {name:?}: {error}"));
        assert_eq!(run.censored(), 0, "{layout:?}, {name:?}");
    }
}

#[test]
fn all_requests_end_with_several_shuttles_for_each_drive() {
    for (drives, shuttles, shelves) in [([9, 11], 40, 10), ([3, 19], 28, 10), ([0, 11], 21, 10), ([10, 10], 40, 5)] {
        all_requests_end(&Layout { drives, shuttles, shelves, port_shelf: 0, ..Layout::default() });
    }
}

#[test]
fn nothing_hinders_the_only_shuttle_however_long_it_takes_to_change_shelves() {
    for (policy, spread_s) in [(PolicyName::Balanced, 0.088), (PolicyName::Balanced, 300.0), (PolicyName::ShortestPaths, 60.0)] {
        let mut scenario = scenario(policy, 1, 0.01);
        scenario.mechanics.motion.crab_spread_s = spread_s;
        (scenario.run.measured, scenario.run.cool_down) = (minutes(120), minutes(600));
        let shuttles = run(&scenario, 1).unwrap_or_else(|error| panic!("{error}")).shuttles;
        assert!(shuttles.congestion.trips > 20, "{:?}", shuttles.congestion);
        let overhead = shuttles.congestion_overhead();
        assert!((0.0..1e-6).contains(&overhead), "{policy:?}, {spread_s} s: {overhead}");
    }
    // Others do hinder each other.
    assert!(run(&scenario(PolicyName::Balanced, 20, 0.5), 1).unwrap().shuttles.congestion_overhead() > 0.001);
}

#[test]
fn all_requests_end_on_a_single_shelf() {
    for drives in [[2, 2], [2, 0], [0, 2]] {
        all_requests_end(&Layout { drives, shuttles: 2, shelves: 1, port_shelf: 0, ..Layout::default() });
    }
}

#[test]
fn all_requests_end_in_narrow_racks() {
    for (drives, shuttles, rack_width_um) in [([4, 4], 16, 750_000), ([20, 20], 40, 1_000_000), ([10, 10], 20, 500_000)] {
        all_requests_end(&Layout { drives, shuttles, rack_width_um, ..Layout::default() });
    }
}
