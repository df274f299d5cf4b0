//! The timeline of a run agrees with its figures, and recording it doesn't change the run.

use fulgurite_domain::Micros;
use fulgurite_table::{Table, Value};
use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::simulation::{Run, run, run_with};
use fulgurite_twin::timeline::Timeline;

const SEED: u64 = 7;

/// Half an hour with a burst in a small library, after ten minutes of warm-up: bins of 20 seconds.
fn scenario() -> Scenario {
    let mut scenario = Scenario { platters: 190, ..Scenario::default() };
    (scenario.run.warm_up, scenario.run.measured) = (Micros(600_000_000), Micros(1_800_000_000));
    scenario.workload.rate = 1.0;
    scenario.workload.bursts.period = Micros(1_800_000_000);
    scenario.workload.bursts.count = 1;
    scenario.workload.bursts.arrivals = 200;
    scenario
}

fn drawn(scenario: &Scenario) -> (Run, Timeline) {
    let mut timeline = Timeline::new(scenario);
    let finished = run_with(scenario, SEED, &mut timeline, |_| ()).unwrap_or_else(|error| panic!("seed {SEED}: {error}"));
    (finished.run, timeline)
}

fn numbers(table: &Table, column: &str) -> Vec<f64> {
    let number = |row: usize| match table.value(row, column) {
        Some(Value::F64(value)) => *value,
        Some(Value::I64(value)) => *value as f64,
        _ => 0.0,
    };
    (0..table.rows().len()).map(number).collect()
}

#[test]
fn bins_add_up_to_the_figures_of_the_run() {
    let scenario = scenario();
    let (run, timeline) = drawn(&scenario);
    let table = timeline.table();
    let from_s = numbers(&table, "from_s");
    assert_eq!((from_s[0], from_s[1]), (0.0, 20.0));
    let measured = |column: &str| -> Vec<f64> {
        let values = numbers(&table, column).into_iter().zip(&from_s);
        values.filter(|(_, from_s)| (600.0..2_400.0).contains(*from_s)).map(|(value, _)| value).collect()
    };
    assert_eq!(measured("requests").iter().sum::<f64>(), run.requests as f64);
    assert_eq!(measured("longest_s").into_iter().fold(0.0, f64::max), run.longest_s());
    let mean = |column: &str| measured(column).iter().sum::<f64>() / 90.0;
    for (column, expected) in [
        ("drives_reading", run.drives.reading),
        ("drives_verifying", run.drives.verifying),
        ("drives_idle", run.drives.idle),
        ("shuttles_moving", run.shuttles.moving),
        ("shuttles_handling", run.shuttles.handling),
        ("shuttles_idle", run.shuttles.idle),
    ] {
        assert!((mean(column) - expected).abs() < 1e-9, "{column}: {} instead of {expected}, seed {SEED}", mean(column));
    }
    // Sampled every two seconds, and averaged over time.
    let present = mean("requests_present");
    assert!((present / run.system.requests - 1.0).abs() < 0.05, "{present} instead of {}, seed {SEED}", run.system.requests);
}

#[test]
fn a_timeline_does_not_change_the_run_and_the_same_seed_gives_the_same_bytes() {
    let scenario = scenario();
    let plain = run(&scenario, SEED).unwrap();
    let (watched, timeline) = drawn(&scenario);
    assert_eq!((plain.events, plain.ended_at, plain.mean_s()), (watched.events, watched.ended_at, watched.mean_s()));
    let again = drawn(&scenario).1;
    assert_eq!(timeline.table(), again.table());
    let svgs = |timeline: &Timeline| -> Vec<_> {
        timeline.figures("small").into_iter().map(|(name, figure)| (name, figure.svg().unwrap())).collect()
    };
    assert_eq!(svgs(&timeline), svgs(&again));
    assert_eq!(svgs(&timeline).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["completions", "queues", "drives", "shuttles"]);
}

#[test]
fn requests_that_have_not_ended_are_counted_where_they_arrived() {
    let mut scenario = scenario();
    scenario.layout.shuttles = 2;
    scenario.run.warm_up = Micros::ZERO;
    scenario.run.cool_down = Micros(60_000_000);
    let (run, timeline) = drawn(&scenario);
    assert!(run.censored() > 0);
    assert_eq!(numbers(&timeline.table(), "censored").iter().sum::<f64>(), run.censored() as f64);
    let (_, figure) = timeline.figures("small").swap_remove(0);
    assert!(figure.svg().unwrap().contains("lower bounds"));
}

#[test]
fn a_run_without_requests_still_has_figures_of_its_machines() {
    let mut scenario = scenario();
    scenario.workload.rate = 1e-9;
    scenario.workload.bursts.count = 0;
    let names: Vec<_> = drawn(&scenario).1.figures("empty").into_iter().map(|(name, figure)| (name, figure.svg().is_ok())).collect();
    assert_eq!(names, [("queues", true), ("drives", true), ("shuttles", true)]);
}
