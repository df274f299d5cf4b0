//! A trace in a preset's place.

use std::fmt::Write as _;

use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::settings::Override;
use fulgurite_twin::simulation::{RunError, run, workload_statistics};

fn scenario(trace: &str) -> (tempfile::TempDir, Scenario) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("reads.csv"), trace).unwrap();
    let path = folder.path().join("traced.toml");
    std::fs::write(&path, "[workload]\npreset = 'trace'\ntrace = 'reads.csv'\n[run]\nwarm_up = '1 min'\nmeasured = '10 min'\n").unwrap();
    let platters = Override::parse("--set", "library.platters=190").unwrap();
    let scenario = Scenario::read(&path, &[platters]).unwrap_or_else(|errors| panic!("{errors}"));
    (folder, scenario)
}

#[test]
fn what_arrives_in_the_measured_interval_counts_with_all_of_its_shards() {
    let mut trace = String::from("arrival,file,bytes,platter,track\n");
    for second in 0..900 {
        // A file of 2.5 GB every minute, which is cut into three.
        let (bytes, place) = if second % 60 == 0 { (2_500_000_000_u64, ",") } else { (1_000_000, "7,4") };
        writeln!(trace, "{second},{second},{bytes},{place}").unwrap();
    }
    let (_folder, scenario) = scenario(&trace);
    let run = run(&scenario, 1).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((run.requests, run.reads), (600, 590 + 3 * 10));
    assert_eq!(run.bytes, 590 * 1_000_000 + 10 * 2_500_000_000);
    let statistics = workload_statistics(&scenario, 1).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(statistics.requests(), 660);
}

#[test]
fn what_is_wrong_with_a_trace_ends_the_run_with_its_line() {
    let (_folder, scenario) = scenario("arrival,file,bytes,platter\n1,a,5,0\n2,b,5,160\n");
    let error = run(&scenario, 1).map(drop).unwrap_err();
    assert!(matches!(error, RunError::Trace { .. }), "{error}");
    assert!(error.to_string().contains("line 3, column platter: found \"160\", expected a whole number from 0 to 159"), "{error}");
}

#[test]
fn a_trace_that_is_not_there_is_told_by_its_path() {
    let (folder, scenario) = scenario("");
    std::fs::remove_file(folder.path().join("reads.csv")).unwrap();
    let error = run(&scenario, 1).map(drop).unwrap_err().to_string();
    assert!(error.contains("reads.csv can't be opened"), "{error}");
}
