//! A law: whatever the load, the number of shuttles and drives, the skew and the failures, the tail
//! of `balanced` is at most 5 % above that of `partitioned`. Each point is a small library with two
//! seeds; full intervals are compared in docs/paper.md.

use fulgurite_domain::Micros;
use fulgurite_library::{Drive, Library, Shuttle};
use fulgurite_mechanics::Breakdown;
use fulgurite_twin::scenario::{LibraryFault, PolicyName, Scenario};
use fulgurite_twin::simulation::run;

use crate::support::minutes;

const ABOVE_AT_MOST: f64 = 1.05;
const SEEDS: u64 = 2;

/// A name, and the change that it makes to a scenario.
type Change = (&'static str, fn(&mut Scenario));

/// The loads: bursts of small reads, a steady overload, and accounts of hours on one platter.
const LOADS: [Change; 3] = [
    ("bursts", |scenario| {
        scenario.workload.rate = 0.3;
        scenario.workload.bursts.period = Micros::HOUR;
        (scenario.workload.bursts.count, scenario.workload.bursts.arrivals) = (1, 400);
    }),
    ("overload", |scenario| {
        scenario.workload.rate = 2.0;
        scenario.workload.steady.mean_bytes = 1_000_000;
        scenario.workload.bursts.count = 0;
    }),
    ("accounts", |scenario| {
        scenario.workload.rate = 0.6;
        scenario.workload.bursts.period = Micros::HOUR;
        (scenario.workload.bursts.count, scenario.workload.bursts.arrivals) = (1, 1);
        scenario.workload.bursts.account_files = 1_200;
        scenario.workload.bursts.mean_bytes = 45_000_000;
        scenario.workload.bursts.largest_bytes = 1_000_000_000;
    }),
];

/// What goes wrong, and how many shuttles and drives there are.
const CASES: [Change; 12] = [
    ("8 shuttles", |scenario| scenario.layout.shuttles = 8),
    ("12 shuttles", |scenario| scenario.layout.shuttles = 12),
    ("20 shuttles", |_| ()),
    ("28 shuttles", |scenario| scenario.layout.shuttles = 28),
    ("10 drives", |scenario| scenario.layout.drives = [5, 5]),
    ("40 drives", |scenario| scenario.layout.drives = [20, 20]),
    ("2 drives, 4 shuttles", |scenario| (scenario.layout.drives, scenario.layout.shuttles) = ([1, 1], 4)),
    ("10 drives, one fails", |scenario| {
        scenario.layout.drives = [5, 5];
        scenario.faults = vec![fault(Breakdown::DriveDown(Drive(4)))];
    }),
    ("zipf 1.2", |scenario| scenario.workload.zipf = 1.2),
    ("10 % unavailable", |scenario| scenario.sets.unavailable = 0.1),
    ("a drive fails", |scenario| scenario.faults = vec![fault(Breakdown::DriveDown(Drive(4)))]),
    ("two shuttles stop", |scenario| {
        scenario.faults = vec![fault(Breakdown::ShuttleStops(Shuttle(3))), fault(Breakdown::ShuttleStops(Shuttle(14)))];
    }),
];

fn fault(what: Breakdown) -> LibraryFault {
    LibraryFault { library: Library(0), at: minutes(40), what }
}

fn tail_s(scenario: &Scenario, policy: PolicyName) -> f64 {
    let mut scenario = scenario.clone();
    scenario.policy.name = policy;
    let of = |seed| {
        let mut run = run(&scenario, seed).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(run.censored(), 0, "every request ends");
        run.percentile_s(0.999)
    };
    (1..=SEEDS).map(of).sum::<f64>() / SEEDS as f64
}

#[test]
fn balanced_is_never_above_partitioned_beyond_noise() {
    let mut above = Vec::new();
    for (load, set_load) in LOADS {
        for (case, set_case) in CASES {
            let mut scenario = Scenario { platters: 1_900, ..Scenario::default() };
            (scenario.run.warm_up, scenario.run.measured) = (minutes(30), minutes(120));
            set_load(&mut scenario);
            set_case(&mut scenario);
            let [partitioned, balanced] = [PolicyName::Partitioned, PolicyName::Balanced].map(|policy| tail_s(&scenario, policy));
            println!("{load}, {case}: partitioned {partitioned:.0} s, balanced {balanced:.0} s, {:.3}", balanced / partitioned);
            if balanced > ABOVE_AT_MOST * partitioned {
                above.push(format!("{load}, {case}: {balanced:.0} s instead of {partitioned:.0} s"));
            }
        }
    }
    assert!(above.is_empty(), "above partitioned: {above:#?}");
}

#[test]
fn a_second_shuttle_pays_in_sections_of_two_shelves() {
    let (_, set_load) = LOADS[0];
    let mut scenario = Scenario { platters: 1_900, ..Scenario::default() };
    (scenario.run.warm_up, scenario.run.measured) = (minutes(30), minutes(120));
    set_load(&mut scenario);
    scenario.layout.drives = [5, 5];
    let [one, two] = [10, 20].map(|shuttles| {
        scenario.layout.shuttles = shuttles;
        tail_s(&scenario, PolicyName::Balanced)
    });
    assert!(two < 0.8 * one, "{two:.0} s with two shuttles for each drive, {one:.0} s with one");
}

#[test]
fn more_drives_than_shuttles_never_make_the_tail_longer() {
    let (_, set_load) = LOADS[1];
    let mut scenario = Scenario { platters: 1_900, ..Scenario::default() };
    (scenario.run.warm_up, scenario.run.measured) = (minutes(30), minutes(120));
    set_load(&mut scenario);
    let [twenty, forty] = [10, 20].map(|drives| {
        scenario.layout.drives = [drives, drives];
        tail_s(&scenario, PolicyName::Balanced)
    });
    assert!(forty <= ABOVE_AT_MOST * twenty, "{forty:.0} s with two drives for each shuttle, {twenty:.0} s with one");
}
