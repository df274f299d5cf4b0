//! The commands of the digital twin.

use crate::support::Sandbox;

/// A library small enough that a run takes no noticeable time.
const SMALL: &str = "\
title = \"A small library\"

[library]
platters = 190

[workload.bursts]
period = \"20 min\"
count = 1
arrivals = 50

[run]
warm_up = \"5 min\"
measured = \"20 min\"
seeds = 2
";

fn place() -> Sandbox {
    let place = Sandbox::empty();
    place.write("small.toml", SMALL);
    place
}

#[test]
fn a_run_prints_its_scenario_and_results() {
    let place = place();
    let shown = place.good(&["twin", "run", "small.toml"]).text();
    for says in ["small, seed 1, policy balanced, fulgurite ", "A small library", "tail_s", "99.9th percentile of completion times."] {
        assert!(shown.contains(says), "{says:?} is not in {shown}");
    }
    let of = |arguments: &[&str]| place.good(arguments).json();
    let json = of(&["twin", "run", "small.toml", "--json", "--seed", "7"]);
    assert_eq!((json["scenario"].as_str(), json["runs"][0]["seed"].as_u64()), (Some("small"), Some(7)));
    assert!(json["runs"][0]["figures"]["requests"].as_u64().is_some_and(|requests| requests > 50), "{json}");
    // The printed settings are enough to repeat the run.
    place.write("again.toml", json["settings"].as_str().unwrap());
    assert_eq!(of(&["twin", "run", "again.toml", "--json"])["runs"], json["runs"]);
    let other = of(&["twin", "run", "small.toml", "--json", "--seed", "7", "--set", "drives.throughput=30 MB/s"]);
    assert_ne!(other["runs"], json["runs"]);
}

#[test]
fn a_sweep_gives_the_same_files_with_one_thread_and_with_three() {
    let place = place();
    let sweep = |out: &str, threads: &str| {
        place
            .good(&[
                "twin",
                "sweep",
                "small.toml",
                "--vary",
                "shuttles.count=8,20",
                "--vary=policy.name=partitioned,no-shuttles",
                "--out",
                out,
                "--threads",
                threads,
            ])
            .text()
    };
    let shown = sweep("one", "1");
    assert!(shown.contains("small, 8 runs, ") && shown.contains("bound_tail_s"), "{shown}");
    sweep("three", "3");
    for file in ["runs.csv", "runs.columns.csv", "runs.parquet", "means.csv", "means.parquet", "scenario-3.toml"] {
        assert!(place.read(format!("one/{file}")) == place.read(format!("three/{file}")), "{file}");
    }
    let runs = String::from_utf8(place.read("one/runs.csv")).unwrap();
    assert_eq!(runs.lines().count(), 1 + 8);
    assert!(runs.starts_with("scenario,shuttles.count,policy.name,seed,requests,"), "{runs}");
}

#[test]
fn missed_expectations_exit_with_1_and_invalid_scenarios_with_2() {
    let place = place();
    let ran = place.run(&["twin", "run", "small.toml", "--set", "expect.tail=1 s"]);
    ran.fails_with(1, "small, seed 1: not as expected: the 99.9th percentile of completion times is ");
    place.run(&["twin", "run", "small.toml", "--set", "shuttles.cuont=1"]).fails_with(2, "did you mean `count`?");
    place.run(&["twin", "run", "small.toml", "--set", "library.platters=99999"]).fails_with(2, "99999 platters in each library, but ");
    place.run(&["twin", "sweep", "small.toml", "--vary", "shuttles.count=8,99"]).fails_with(2, "--vary shuttles.count=99");
    place.run(&["twin", "run", "none.toml"]).fails_with(2, "none.toml");
    place.run(&["twin", "run"]).fails_with(2, "SCENARIO");
}

/// A request each second, and no time for the last ones to end.
const CUT_SHORT: [&str; 4] = ["--set", "run.cool_down=0 s", "--set", "workload.rate=1 /s"];

#[test]
fn a_plan_whose_reads_were_not_simulated_is_not_met() {
    let place = Sandbox::empty();
    place.write("small.toml", "years = 1\n[ingest]\nper_month = '1 GB'\n[run]\nwarm_up = '0 s'\nmeasured = '1 min'\n");
    let planned = place.run(&["--json", "twin", "plan", "small.toml"]);
    planned.fails_with(1, "");
    let plan = planned.json();
    assert!(plan["met"] == false && plan["years"][0]["tail"].is_null() && plan["years"][0]["requests"] == 0, "{plan}");
    assert!(plan["statement"].as_str().is_some_and(|statement| statement.starts_with("It is not known whether 1 library")), "{plan}");
}

#[test]
fn a_run_that_stops_too_early_reports_lower_bounds_and_exits_with_1() {
    let place = place();
    let ran = place.run(&[&["twin", "run", "small.toml", "--out", "out"], CUT_SHORT.as_slice()].concat());
    ran.fails_with(1, "requests of the measured interval had not ended at");
    ran.fails_with(1, "when the cool-down was over; the first of them, request ");
    let tail = ran.text().lines().find(|line| line.trim_start().starts_with("tail_s ")).unwrap_or_default().to_owned();
    assert!(tail.contains("99.9th percentile of completion times. A lower bound, censored: "), "{tail}");
    assert!(String::from_utf8(place.read("out/runs.csv")).unwrap().starts_with("scenario,seed,requests,censored,"));

    // A limit that the lower bound keeps isn't kept.
    let json = place.run(&[&["twin", "run", "small.toml", "--json", "--set", "expect.tail=10 h"], CUT_SHORT.as_slice()].concat()).json();
    let run = &json["runs"][0];
    assert!(run["figures"]["censored"].as_u64().is_some_and(|censored| censored > 0), "{json}");
    let missed = run["missed"][0].as_str().unwrap_or_default();
    assert!(missed.starts_with("the 99.9th percentile of completion times is at least "), "{json}");
    let ran = place.run(&[&["twin", "record", "small.toml", "a.journal"], CUT_SHORT.as_slice()].concat());
    ran.fails_with(1, "small, seed 1: ");
    ran.fails_with(1, " had not ended at ");
    assert!(place.good(&["twin", "replay", "a.journal"]).text().contains("the same"));
}

#[test]
fn a_sweep_marks_the_points_that_stop_too_early_and_runs_the_others() {
    let place = place();
    let ran = place.run(&["twin", "sweep", "small.toml", "--vary", "run.cool_down=0 s,30 d", "--set", "workload.rate=1 /s", "--json"]);
    ran.fails_with(1, "small, run.cool_down=0 s, seed 2: ");
    let points = ran.json()["points"].clone();
    let censored = |point: usize| points[point]["censored"].as_f64().unwrap();
    assert!(censored(0) > 0.0 && censored(1) == 0.0, "{points}");
    assert!(points[1]["tail_s_low"].as_f64().is_some_and(|low| low >= 0.0), "no time is negative: {points}");
    assert!(points[0]["tail_s_low"].is_null() && points[1]["tail_s_low"].is_number(), "a lower bound has no interval: {points}");
}

#[test]
fn results_are_never_overwritten_and_can_be_reproduced() {
    let place = place();
    place.write("reads.csv", (0..1_000).fold("arrival,file,bytes\n".to_owned(), |rows, row| format!("{rows}{row},{row},5\n")));
    place.write(
        "traced.toml",
        "[library]\nplatters = 190\n[workload]\npreset = 'trace'\ntrace = 'reads.csv'\n[run]\nwarm_up = '0 s'\nmeasured = '5 min'\n",
    );
    place.good(&["twin", "run", "traced.toml", "--out", "results/one"]);
    place.good(&["twin", "run", "results/one/scenario.toml", "--out", "results/two"]);
    assert!(place.read("results/one/means.csv").len() > 100);
    let row = |name: &str| String::from_utf8(place.read(name)).unwrap().split_once(',').unwrap().1.to_owned();
    let figures = |name| row(name).lines().nth(1).unwrap().split_once(',').unwrap().1.to_owned();
    assert_eq!(figures("results/one/runs.csv"), figures("results/two/runs.csv"));
    place.run(&["twin", "run", "traced.toml", "--out", "results/one"]).fails_with(1, "runs.csv already exists");
    place
        .run(&["twin", "sweep", "small.toml", "--vary", "shuttles.count=8,20", "--out", "results/one"])
        .fails_with(1, "runs.csv already exists");
    // A scenario in the folder may be one that the user wrote.
    place.write("own/scenario.toml", "# mine\nbase = '../traced.toml'\n[workload]\ntrace = '../reads.csv'\n");
    place.run(&["twin", "run", "own/scenario.toml", "--out", "own"]).fails_with(1, "scenario.toml already exists");
    assert!(place.read("own/scenario.toml").starts_with(b"# mine"));
}

#[test]
fn a_combination_that_does_not_fit_is_noticed_before_the_first_run() {
    let place = place();
    let sweep = ["twin", "sweep", "small.toml", "--seeds", "1", "--vary", "library.platters=190,1000000", "--out", "swept"];
    place.run(&sweep).fails_with(2, "small.toml, --vary library.platters=1000000: ");
}

#[test]
fn a_run_is_drawn_over_time() {
    let place = place();
    let shown = place.good(&["twin", "run", "small.toml", "--seeds", "2", "--plot", "drawn"]).text();
    assert!(shown.contains("Drawn in drawn."), "{shown}");
    for name in ["completions", "queues", "drives", "shuttles"] {
        let svg = String::from_utf8(place.read(format!("drawn/{name}.svg"))).unwrap();
        assert!(svg.contains("small, seed 1: "), "the first seed is drawn: {svg}");
        assert!(place.read(format!("drawn/{name}.png")).starts_with(b"\x89PNG"));
    }
    place.good(&["twin", "run", "small.toml", "--plot", "again"]);
    assert_eq!(place.read("drawn/timeline.csv"), place.read("again/timeline.csv"));
    assert_eq!(place.read("drawn/queues.png"), place.read("again/queues.png"));
    place.run(&["twin", "run", "small.toml", "--plot", "drawn"]).fails_with(1, "timeline.csv already exists");
}

#[test]
fn two_policies_are_compared_seed_by_seed() {
    let place = place();
    let compare = ["twin", "compare", "small.toml", "--seeds", "3", "--against", "policy.name=partitioned"];
    let shown = place.good(&compare).text();
    for says in ["A: small, policy balanced", "B: small, policy partitioned, policy.name=partitioned", "Geometric mean of A/B: "] {
        assert!(shown.contains(says), "{says:?} is not in {shown}");
    }
    // The values are those of single runs, and the ratio follows from them.
    let json = place.good(&[&compare, ["--json", "--figure", "mean_s"].as_slice()].concat()).json();
    let single = |set: &str| place.good(&["twin", "run", "small.toml", "--seed", "2", "--set", set, "--json"]).json();
    for (side, policy) in [("a", "policy.name=balanced"), ("b", "policy.name=partitioned")] {
        assert_eq!(json["seeds"][1][side], single(policy)["runs"][0]["figures"]["mean_s"], "{json}");
    }
    let ratios: Vec<f64> = (0..3).map(|seed| json["seeds"][seed]["ratio"].as_f64().unwrap()).collect();
    let mean = json["ratio"]["mean"].as_f64().unwrap();
    assert!((mean.powi(3) - ratios.iter().product::<f64>()).abs() < 1e-9, "{json}");
    assert_eq!(json["paired"].as_bool(), Some(true));
    let is_inside = json["ratio"]["low"].as_f64().unwrap() <= 1.0 && json["ratio"]["high"].as_f64().unwrap() >= 1.0;
    assert_eq!(json["verdict"].as_str().unwrap().starts_with("no difference shown"), is_inside, "{json}");

    let one = place.good(&["twin", "compare", "small.toml", "--seeds", "1", "--against", "policy.name=partitioned"]).text();
    assert!(one.contains("no verdict: one seed") && !one.contains("Geometric mean"), "{one}");
}

#[test]
fn a_comparison_says_when_it_is_not_paired_or_censored() {
    let place = place();
    place.write("busier.toml", "base = 'small.toml'\n[workload]\nrate = '0.5 /s'\n");
    let ran = place.run(&["twin", "compare", "small.toml", "busier.toml", "--seeds", "2"]);
    ran.fails_with(0, "note: A and B don't get the same requests");
    let against = ["twin", "compare", "small.toml", "--seeds", "2", "--set", "workload.rate=1 /s", "--against", "run.cool_down=0 s"];
    let ran = place.run(&against);
    ran.fails_with(1, "B: small, seed 1: ");
    assert!(ran.text().contains("no verdict: the values of 0 runs of A and 2 of B are lower bounds"), "{ran:?}");
    place.run(&["twin", "compare", "small.toml"]).fails_with(2, "B would be the same as A");
    place.run(&["twin", "compare", "small.toml", "--against", "shuttles.cuont=1"]).fails_with(2, "--against shuttles.cuont=1");
    place.run(&["twin", "compare", "small.toml", "--against", "run.seed=2", "--figure", "tail"]).fails_with(2, "tail_s");
    place.run(&["twin", "compare", "small.toml", "--against", "run.seed=2"]).fails_with(2, "with --seed");
    let away = ["twin", "compare", "small.toml", "--seeds", "2", "--set", "deployment.libraries=2", "--against", "deployment.away=1"];
    let ran = place.run(&away);
    ran.fails_with(1, "requests ended without their bytes");
    assert!(ran.text().contains("no verdict: 0 runs of A and 2 of B lost more requests"), "{ran:?}");
    place.good(&[&away[..], &["--figure", "joules_per_operation"]].concat());
}

#[test]
fn errors_name_the_file_that_contains_them() {
    let place = place();
    place.run(&["twin", "run", "/dev/zero"]).fails_with(2, "expected a file of at most 1024 KiB");
    place.write("full.toml", "[library]\nslots = 1\n");
    place.run(&["twin", "run", "full.toml"]).fails_with(2, "full.toml: ");
    place.write("faulty.toml", "[[faults.planned]]\nat = '1 s'\nwhat = 'drive-down'\nnumber = 3\nlibrary = 4\n");
    place.run(&["twin", "run", "faulty.toml"]).fails_with(2, "faulty.toml:5:11: `faults.planned.0.library`: expected one of the libraries");
    place.write("faulty.toml", "[[faults.planned]]\nat = '1 s'\nwhat = 'drive-down'\nnumber = 500\n");
    place
        .run(&["twin", "run", "faulty.toml"])
        .fails_with(2, "faulty.toml:4:10: `faults.planned.0.number`: expected an existing shuttle or drive");
}

#[test]
fn the_reference_and_the_workload_are_printed() {
    let place = place();
    let reference = place.good(&["twin", "reference"]).text();
    for command in [&["twin", "reference"][..], &["migrate", "reference"], &["migrate", "tapes", "reference"]] {
        let json = place.good(&[command, &["--json"]].concat()).json();
        assert!(json["markdown"].as_str().is_some_and(|text| text.starts_with("# ")), "{command:?}");
    }
    assert!(reference.starts_with("# Scenario files\n") && reference.contains("| `throughput` |"), "{reference}");
    let checked = place.good(&["twin", "check-workload", "small.toml", "--set", "run.measured=12 h"]).text();
    assert!(checked.contains("requests up to 4 MiB, of all requests") && checked.contains("0.587"), "{checked}");
}
