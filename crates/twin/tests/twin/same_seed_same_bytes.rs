//! The same scenario and seed give the same bytes with any number of threads, with and without
//! optimization, in every build.

use std::path::Path;

use fulgurite_domain::Micros;
use fulgurite_settings::{Override, Sweep};
use fulgurite_table::Value;
use fulgurite_twin::results::{summary, table};
use fulgurite_twin::scenario::{PolicyName, Scenario, Workload, WorkloadKind};
use fulgurite_twin::sweep::{Point, PointRuns, run_points};

/// Half an hour of a small library with a burst, faults, a tenth of the platters unavailable, and
/// every other kind of random draw.
fn tiny(name: PolicyName) -> Scenario {
    let mut scenario = Scenario { name: "tiny".to_owned(), platters: 190, tracks: 5_000, ..Scenario::default() };
    scenario.policy.name = name;
    scenario.run.warm_up = Micros(300_000_000);
    scenario.run.measured = Micros(1_800_000_000);
    scenario.run.seeds = 2;
    scenario.sets.unavailable = 0.1;
    scenario.mechanics.faults.drive_hours = 5.0;
    scenario.mechanics.faults.repair_s = 600.0;
    scenario.workload = Workload { zipf: 0.7, rate: 0.2, ..Workload::preset(WorkloadKind::Typical) };
    scenario.workload.bursts.period = Micros(1_800_000_000);
    scenario.workload.bursts.count = 1;
    scenario.workload.bursts.arrivals = 100;
    scenario
}

fn run(threads: usize) -> Vec<PointRuns> {
    let points = [PolicyName::NoShuttles, PolicyName::Partitioned, PolicyName::Balanced];
    let point = |name: PolicyName| Point { varied: vec![("policy.name".to_owned(), name.text().to_owned())], scenario: tiny(name) };
    run_points(points.map(point).to_vec(), None, threads, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
}

fn csv(points: &[PointRuns]) -> String {
    let mut bytes = Vec::new();
    table(points).write_csv(&mut bytes).unwrap();
    summary(points).write_csv(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let one = csv(&run(1));
    for threads in [2, 3, 7] {
        assert!(csv(&run(threads)) == one, "{threads} threads give other results than one");
    }
}

/// `FULGURITE_WRITE_GOLDEN=1 cargo test -p fulgurite-twin --test twin same_seed_same_bytes`
/// regenerates the golden file, after an intended change of decisions or times.
#[test]
fn results_match_the_golden_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-runs.csv");
    let found = csv(&run(2));
    if std::env::var_os("FULGURITE_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == golden,
        "results differ from {}; if the change is intended, regenerate it with FULGURITE_WRITE_GOLDEN=1:\n{found}",
        path.display()
    );
}

#[test]
fn other_seeds_and_other_settings_give_other_results() {
    let points = run(2);
    assert_ne!(points[0].runs[0].completions.mean(), points[0].runs[1].completions.mean());
    assert_ne!(points[0].runs[0].completions.mean(), points[1].runs[0].completions.mean());
}

#[test]
fn seeds_of_64_bits_are_written_as_given() {
    let mut scenario = tiny(PolicyName::NoShuttles);
    scenario.run.seed = (1 << 63) - 1;
    let points = run_points(vec![Point { varied: vec![], scenario }], None, 2, &|_| ()).unwrap();
    let seeds = [0, 1].map(|row| table(&points).value(row, "seed").unwrap().clone());
    assert_eq!(seeds, ["9223372036854775807", "9223372036854775808"].map(|seed| Value::Text(seed.to_owned())));
}

#[test]
fn a_sweep_reads_each_combination() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    std::fs::write(&path, "[library]\nplatters = 190\n").unwrap();
    let sweep = Sweep::parse(["shuttles.count=8,20", "drives.throughput=30 MB/s,60 MB/s"], 10).unwrap();
    let settings = [Override::parse("--set", "run.seed=7").unwrap()];
    let points = fulgurite_twin::sweep::points(&path, &settings, &sweep).unwrap();
    let found: Vec<_> =
        points.iter().map(|point| (point.scenario.layout.shuttles, point.scenario.mechanics.drive.throughput_bytes_s)).collect();
    assert_eq!(found, [(8, 30e6), (8, 60e6), (20, 30e6), (20, 60e6)]);
    assert!(points.iter().all(|point| point.scenario.run.seed == 7 && point.scenario.name == "small"));
    assert_eq!(points[3].varied[1], ("drives.throughput".to_owned(), "60 MB/s".to_owned()));
    let wrong = Sweep::parse(["shuttles.count=8,99"], 10).unwrap();
    assert!(fulgurite_twin::sweep::points(&path, &settings, &wrong).unwrap_err().to_string().starts_with("--vary shuttles.count=99"));
}
