//! Every run of every policy passes every check, over many seeds.

use fulgurite_domain::Micros;
use fulgurite_library::Verification;
use fulgurite_mechanics::{Battery, Breakdown};
use fulgurite_twin::scenario::{Ingest, LibraryFault, PolicyName, Scenario, Workload, WorkloadKind};
use fulgurite_twin::simulation::{run, run_with};

use crate::support::{Checking, checked, checks_of, finish_run, minutes, named, scenario};
use fulgurite_checks::Station;

const SEEDS: std::ops::Range<u64> = 1..11;

/// Numbers of shuttles with a request rate each that keeps them busy without overload; the rate is
/// lower without partitions.
fn loads(policy: PolicyName) -> [(u16, f64); 3] {
    if policy == PolicyName::ShortestPaths { [(8, 0.15), (20, 0.15), (40, 0.15)] } else { [(8, 0.25), (20, 0.4), (40, 0.4)] }
}

fn all_pass(policy: PolicyName, change: impl Fn(&mut Scenario)) {
    for (shuttles, rate) in loads(policy) {
        for seed in SEEDS {
            let mut scenario = scenario(policy, shuttles, rate);
            change(&mut scenario);
            let checked = checked(&scenario, seed);
            assert!(checked.requests > 100 && checked.commands > 500, "{}: {} requests", named(&scenario, seed), checked.requests);
        }
    }
}

/// Two drives fail at once and others at random; reads of the platters in them must be recovered.
fn drives_fail(scenario: &mut Scenario) {
    scenario.mechanics.faults.drive_hours = 5.0;
    scenario.mechanics.faults.repair_s = 300.0;
    let fault = |drive| LibraryFault {
        library: fulgurite_library::Library(0),
        at: minutes(7),
        what: Breakdown::DriveDown(fulgurite_library::Drive(drive)),
    };
    scenario.faults = vec![fault(3), fault(15)];
}

/// Shuttles stop where they are and block others.
fn shuttles_stop(scenario: &mut Scenario) {
    scenario.mechanics.faults.shuttle_hours = 1.0;
    scenario.mechanics.faults.repair_s = 300.0;
}

fn three_libraries_lack_platters(scenario: &mut Scenario) {
    scenario.libraries = 3;
    scenario.sets.unavailable = 0.1;
    scenario.workload.shard_bytes = 50_000_000;
}

fn platters_are_written(scenario: &mut Scenario) {
    scenario.verification = Verification::Written;
    // A platter of 100 tracks is verified within a minute.
    scenario.tracks = 100;
    scenario.workload.shard_bytes = 200_000_000;
    scenario.ingest = Some(Ingest { bytes_per_day: 2_000_000_000_000, room: 60, ..Ingest::default() });
}

fn batteries_run_low(scenario: &mut Scenario) {
    scenario.mechanics.battery = Some(Battery { capacity_j: 12_000.0, low_j: 9_000.0, charging_w: 200.0 });
}

macro_rules! runs {
    ($($(#[$attribute:meta])* $name:ident: $policy:ident, $change:expr;)*) => {
        $(#[test]
        $(#[$attribute])*
        fn $name() {
            all_pass(PolicyName::$policy, $change);
        })*
    };
}

runs! {
    no_shuttles_passes: NoShuttles, |_| ();
    shortest_paths_passes: ShortestPaths, |_| ();
    partitioned_passes: Partitioned, |_| ();
    balanced_passes: Balanced, |_| ();
    no_shuttles_passes_when_drives_fail: NoShuttles, drives_fail;
    shortest_paths_passes_when_drives_fail: ShortestPaths, drives_fail;
    partitioned_passes_when_drives_fail: Partitioned, drives_fail;
    balanced_passes_when_drives_fail: Balanced, drives_fail;
    shortest_paths_passes_when_shuttles_stop: ShortestPaths, shuttles_stop;
    partitioned_passes_when_shuttles_stop: Partitioned, shuttles_stop;
    balanced_passes_when_shuttles_stop: Balanced, shuttles_stop;
    no_shuttles_passes_in_libraries_that_lack_platters: NoShuttles, three_libraries_lack_platters;
    shortest_paths_passes_in_libraries_that_lack_platters: ShortestPaths, three_libraries_lack_platters;
    partitioned_passes_in_libraries_that_lack_platters: Partitioned, three_libraries_lack_platters;
    balanced_passes_in_libraries_that_lack_platters: Balanced, three_libraries_lack_platters;
    no_shuttles_passes_while_platters_are_written: NoShuttles, platters_are_written;
    shortest_paths_passes_while_platters_are_written: ShortestPaths, platters_are_written;
    partitioned_passes_while_platters_are_written: Partitioned, platters_are_written;
    balanced_passes_while_platters_are_written: Balanced, platters_are_written;
    shortest_paths_passes_when_batteries_run_low: ShortestPaths, batteries_run_low;
    partitioned_passes_when_batteries_run_low: Partitioned, batteries_run_low;
    balanced_passes_when_batteries_run_low: Balanced, batteries_run_low;
}

#[test]
fn in_full_libraries_drives_keep_verifying_if_no_slot_is_free() {
    let mut scenario = Scenario { libraries: 3, platters: 0, ..Scenario::default() };
    scenario.workload.rate = 20.0;
    scenario.workload.bursts.count = 0;
    (scenario.run.warm_up, scenario.run.measured) = (Micros::ZERO, minutes(3));
    // With 24,000 platters, the checks that look at every platter take longer than the run.
    let run = run(&scenario, 1).unwrap_or_else(|error| panic!("{error}"));
    assert!(run.requests > 3_000 && run.outcomes.read == run.requests, "{:?}", run.outcomes);
    assert!(run.drives.tracks_verified > 0, "some drives found no slot");
}

#[test]
fn over_hours_littles_law_holds_with_the_mean_times_of_departed_customers() {
    let mut scenario = scenario(PolicyName::Partitioned, 20, 0.4);
    scenario.run.measured = minutes(300);
    let checked = checked(&scenario, 1);
    for law in &checked.stations {
        // Customers left at the end and those present at the beginning account for the difference.
        let is_within = (law.l - law.lambda * law.w).abs() < 0.02 * law.l;
        let never_leaves = matches!(law.station, Station::InDrive(..) | Station::Mounted(..));
        assert!(is_within || never_leaves, "{law:?}");
    }
    let region = checked.stations.iter().find(|law| law.station == Station::Region).expect("it is a station");
    assert!(region.arrivals > 6_000 && region.departures <= region.arrivals, "{region:?}");
}

#[test]
fn littles_law_is_exact_in_a_run_that_begins_and_ends_empty() {
    let folder = tempfile::tempdir().expect("a folder for the trace");
    let path = folder.path().join("trace.csv");
    let rows: String = (0..500)
        .map(|row| format!("{}.{:03},{row},{},{},{}\n", row, row * 7 % 1_000, 1_000_000 * (row % 90 + 1), row * 37 % 400, row * 11))
        .collect();
    std::fs::write(&path, format!("arrival,file,bytes,platter,track\n{rows}")).expect("the trace is written");
    for (_, policy) in PolicyName::ALL {
        let mut scenario = scenario(policy, 20, 0.4);
        scenario.verification = Verification::Off;
        scenario.workload = Workload { trace: Some(path.clone()), ..Workload::preset(WorkloadKind::Trace) };
        (scenario.run.warm_up, scenario.run.measured) = (Micros::ZERO, minutes(600));
        let mut checks = Checking(checks_of(&scenario));
        let finished = run_with(&scenario, 1, &mut checks, |_| ()).unwrap_or_else(|error| panic!("{policy:?}: {error}"));
        let checked = finish_run(checks.0, &finished, true).unwrap_or_else(|violation| panic!("{policy:?}: {violation}"));
        assert_eq!(checked.requests, 500, "{policy:?}");
        for law in &checked.stations {
            assert_eq!((law.arrivals, law.present_us), (law.departures, law.spent_us), "{policy:?}: {law:?}");
            assert!((law.l - law.lambda * law.w).abs() <= 1e-9 * law.l, "{policy:?}: {law:?}");
        }
    }
}
