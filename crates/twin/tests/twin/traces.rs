//! Runs whose workload is a trace.

use std::fmt::Write as _;

use fulgurite_settings::Override;
use fulgurite_table::{Column, Kind, Table, Value};
use fulgurite_twin::results::figures;
use fulgurite_twin::scenario::Scenario;
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
fn requests_in_the_measured_interval_count_with_all_their_shards() {
    let mut trace = String::from("arrival,file,bytes,platter,track\n");
    for second in 0..900 {
        // A file of 2.5 GB every minute, which is split into three shards.
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
fn an_error_in_a_trace_ends_the_run_and_names_the_line() {
    let (_folder, scenario) = scenario("arrival,file,bytes,platter\n1,a,5,0\n2,b,5,160\n");
    let error = run(&scenario, 1).map(drop).unwrap_err();
    assert!(matches!(error, RunError::Trace { .. }), "{error}");
    assert!(error.to_string().contains("line 3, column platter: found \"160\", expected a whole number from 0 to 159"), "{error}");
}

/// The same rows as Parquet.
fn parquet(rows: &[(f64, i64, &str, Option<i64>)]) -> Vec<u8> {
    let columns = [
        Column::new("arrival", Kind::F64, "s", "When."),
        Column::new("bytes", Kind::I64, "B", "How much."),
        Column::new("file", Kind::Text, "", "What."),
        Column::new("platter", Kind::I64, "", "Where."),
    ];
    let mut table = Table::new(columns);
    for (arrival, bytes, file, platter) in rows {
        let platter = platter.map_or(Value::Missing, Value::I64);
        table.push([Value::F64(*arrival), Value::I64(*bytes), Value::Text((*file).to_owned()), platter]).unwrap();
    }
    let mut bytes = Vec::new();
    table.write_parquet(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_parquet_file_gives_the_same_run_as_csv() {
    let rows: Vec<(f64, i64, String, Option<i64>)> = (0..600)
        .map(|row| {
            (
                f64::from(row) * 1.5,
                1 + i64::from(row) * 5_000_000,
                format!("file {}", row % 400),
                (row % 3 == 0).then_some(i64::from(row) % 160),
            )
        })
        .collect();
    let mut csv = String::from("arrival,bytes,file,platter\n");
    for (arrival, bytes, file, platter) in &rows {
        writeln!(csv, "{arrival},{bytes},{file},{}", platter.map_or(String::new(), |platter| platter.to_string())).unwrap();
    }
    let (folder, scenario) = scenario(&csv);
    let read = |scenario: &Scenario| format!("{:?}", figures(&run(scenario, 1).unwrap_or_else(|error| panic!("{error}"))));
    let from_csv = read(&scenario);
    let rows: Vec<(f64, i64, &str, Option<i64>)> =
        rows.iter().map(|(at, bytes, file, platter)| (*at, *bytes, file.as_str(), *platter)).collect();
    std::fs::write(folder.path().join("reads.csv"), parquet(&rows)).unwrap();
    assert!(read(&scenario) == from_csv, "the format is detected by content, not by name");
    let mut bytes = parquet(&[(1.0, 5, "a", None), (0.5, 5, "b", None)]);
    std::fs::write(folder.path().join("reads.csv"), &bytes).unwrap();
    let error = run(&scenario, 1).map(drop).unwrap_err().to_string();
    assert!(error.contains("reads.csv: line 2, column arrival: found \"0.5\", 0.5 s before the row above"), "{error}");
    bytes.truncate(bytes.len() - 20);
    std::fs::write(folder.path().join("reads.csv"), &bytes).unwrap();
    let error = run(&scenario, 1).map(drop).unwrap_err().to_string();
    assert!(error.contains("reads.csv: this is not a readable Parquet file"), "{error}");
}

#[test]
fn errors_after_the_measured_interval_are_rejected_too() {
    let rows: String = (0..2_000).fold("arrival,file,bytes\n".to_owned(), |mut rows, row| {
        writeln!(rows, "{row},a,5").unwrap();
        rows
    });
    let (_folder, scenario) = scenario(&(rows + "5,b,5\n"));
    let error = run(&scenario, 1).map(drop).unwrap_err().to_string();
    assert!(error.contains("line 2002, column arrival"), "{error}");
    let error = workload_statistics(&scenario, 1).map(drop).unwrap_err().to_string();
    assert!(error.contains("line 2002, column arrival"), "{error}");
}

#[test]
fn a_trace_without_measured_reads_is_rejected() {
    let (_folder, scenario) = scenario("arrival,file,bytes\n1,a,5\n59,b,5\n660,c,5\n");
    let error = run(&scenario, 1).map(drop).unwrap_err();
    assert!(matches!(error, RunError::NothingMeasured { .. }), "{error}");
    assert!(error.to_string().contains("no read arrives in the measured interval from 60.000000 s to 660.000000 s"), "{error}");
}

#[test]
fn a_missing_trace_is_reported_with_its_path() {
    let (folder, scenario) = scenario("");
    std::fs::remove_file(folder.path().join("reads.csv")).unwrap();
    let error = run(&scenario, 1).map(drop).unwrap_err().to_string();
    assert!(error.contains("reads.csv can't be opened"), "{error}");
}
