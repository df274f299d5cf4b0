use std::path::Path;

use fulgurite_settings::Override;

use super::search::Search;
use super::trial::{Trials, scenario};
use super::{Case, Limit, Plan, Size, plan, reference};

/// A small archive under a steady load, measured for two hours, so that a trial is quick.
const SMALL: &str = r#"
years = 2

[ingest]
per_month = "400 TB"

[reads]
like = "full-library"
per_second = "0.08 /s"

[service]
within = "2 h"

[run]
warm_up = "20 min"
measured = "2 h"
seeds = 2
"#;

fn small(settings: &[&str]) -> Plan {
    let settings: Vec<Override> = settings.iter().map(|text| Override::parse("--set", text).unwrap()).collect();
    Plan::parse("small", SMALL, &settings).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_load_of_a_year_matches_a_hand_computation() {
    let plan = small(&["ingest.per_month=100 TB", "ingest.growth=10 %", "ingest.stored=600 TB"]);
    let (first, second) = (plan.year(1), plan.year(2));
    // 600 + 1,200 TB; and 1,320 TB more.
    assert!((first.stored_bytes - 1.8e15).abs() < 1.0 && (second.stored_bytes - 3.12e15).abs() < 1e3);
    // A set holds 16 x 2 TB: 56.25 and 97.5 sets, of 19 platters.
    assert_eq!((first.sets, first.platters, second.sets), (57, 57 * 19, 98));
    // 1,200 TB x 19 / 16 in 31,557,600 s.
    assert!((first.written_bytes_s / 45.155e6 - 1.0).abs() < 1e-3, "{}", first.written_bytes_s);
    // 48 % more for each 1,800 TB more: 1,320 of them.
    assert!((second.reads_per_second / (0.08 * (1.0 + 0.48 * 1.32 / 1.8)) - 1.0).abs() < 1e-9);
    // 3,000 TB are reached after 600 + 1,200 in the first year and 1,200 of the second's 1,320.
    assert!((plan.years_until(3e15) - (1.0 + 1.2 / 1.32)).abs() < 1e-9);
}

#[test]
fn the_default_rate_reads_one_byte_per_47_written() {
    let plan = Plan::parse("published", "[ingest]\nper_month = \"94 TB\"\n[reads]\nlike = \"typical\"\n", &[]).unwrap();
    // 2 TB a month, in files of 9 MB.
    let per_second = 2e12 / 9e6 * 12.0 / (365.25 * 86_400.0);
    assert!((plan.year(1).reads_per_second / per_second - 1.0).abs() < 1e-9);
}

#[test]
fn the_drives_for_verification_match_a_hand_computation() {
    let plan = small(&[]);
    let search = Search::new(&plan).unwrap();
    // Blast zones leave room for 19 platters in 7 racks or more.
    assert_eq!(search.racks, 7);
    // 400 TB x 12 x 19/16 in a year are 180.6 MB/s; a quarter more is 225.8, which 4 drives of 60
    // MB/s verify, or 2 in each of two libraries.
    assert_eq!((search.drives_for_written(&plan.year(1), 1), search.drives_for_written(&plan.year(1), 2)), (4, 2));
}

#[test]
fn the_capacity_is_that_of_the_placement() {
    let plan = small(&["margin.slots=0 %"]);
    let mut search = Search::new(&plan).unwrap();
    // docs/placement.md: 600 sets of 19 in 7 racks; two libraries are filled to 99.9 %.
    assert_eq!(search.capacity(1).unwrap(), 600 * 19);
    assert!(search.capacity(2).unwrap() > 2 * 20_900);
}

#[test]
fn libraries_that_cannot_hold_a_set_have_no_capacity_and_more_of_them_do() {
    let plan = small(&["margin.slots=0 %"]);
    let mut search = Search::new(&plan).unwrap();
    search.racks = 1;
    let capacities = [1, 2, 20].map(|libraries| search.capacity(libraries).unwrap());
    assert!(capacities[..2] == [0, 0] && capacities[2] > 0, "{capacities:?}");
}

#[test]
fn the_chosen_size_keeps_the_level_and_one_smaller_does_not() {
    let plan = small(&["years=1"]);
    let outcome = plan_of(&plan);
    let year = &outcome.years[0];
    let tried = |drives, shuttles| {
        let size = Size { drives, shuttles, ..year.size };
        Trials::new(&plan, outcome.racks).run(&year.year, size, Case::Nothing, false).unwrap()
    };
    let Size { drives, shuttles, .. } = year.size;
    let trial = tried(drives, shuttles);
    assert_eq!(trial, year.trial);
    assert_eq!(trial.short_of, None);
    assert!(trial.worst_tail_s() <= 0.8 * 3_600.0 && trial.verification >= 1.25 && trial.requests > 500, "{trial:?}");
    // The recorded limit is what one fewer lacks.
    assert!(drives > 2, "{}", year.size);
    assert_eq!(tried(drives - 1, shuttles.min(2 * (drives - 1))).short_of, Some(year.bound_by[1]));
    if year.bound_by[2] != Limit::Minimum {
        assert_eq!(tried(drives, shuttles - 1).short_of, Some(year.bound_by[2]));
    }
}

#[test]
fn more_ingest_and_later_years_never_need_fewer_machines() {
    let mut last = 0;
    for per_month in ["100 TB", "400 TB", "800 TB"] {
        let outcome = plan_of(&small(&[&format!("ingest.per_month={per_month}")]));
        assert!(outcome.unmet.is_none());
        for year in &outcome.years {
            assert!(year.staging_bytes > 0.0 && year.energy_kwh.total() > 0.0 && year.full_after_years >= f64::from(year.year.number));
            assert!(f64::from(year.decode.must_have) >= year.decode.mean && year.decode.mean >= year.decode.verification);
        }
        let [first, second] = [0, 1].map(|index| outcome.years[index].size);
        assert!(first.drives <= second.drives && first.shuttles <= second.shuttles && first.libraries <= second.libraries);
        let drives = u32::from(first.libraries) * u32::from(first.drives);
        assert!(drives >= last, "{per_month}: {drives} drives, but {last} with less ingest");
        last = drives;
    }
}

#[test]
fn an_archive_that_is_hardly_read_needs_one_library() {
    // Its drives verify all the time, and no read interrupts them.
    let plan = small(&["ingest.per_month=1 GB", "reads.per_second=0.000001 /s", "years=1"]);
    let outcome = plan_of(&plan);
    let last = outcome.years.last().expect("a year");
    assert_eq!((outcome.years.len(), last.size.libraries), (1, 1));
    assert!(last.trial.verification > 1.0, "{}", last.trial.verification);
}

#[test]
fn a_level_is_not_met_if_no_read_was_simulated() {
    let plan = small(&["ingest.per_month=1 GB", "reads.per_second=0.000001 /s"]);
    let outcome = plan_of(&plan);
    assert_eq!((outcome.years.len(), outcome.years[0].trial.requests, outcome.unmet.is_none()), (2, 0, true));
    assert!(!outcome.is_met() && !outcome.is_checked());
    let statement = outcome.statement();
    assert!(statement.starts_with("It is not known whether 1 library of "), "{statement}");
    assert!(statement.contains("In the simulations of year 1, year 2, "), "{statement}");
    assert!(statement.contains("run.measured is too short; at the rate of the first year, 20 reads take 5555.6 h."), "{statement}");
    assert!(!statement.contains("is met") && !statement.contains("is kept,"), "{statement}");
    assert!(!outcome.assumptions().iter().any(|assumption| assumption.contains("the tail is that of the slowest")));
    let (loads, failures) = (outcome.loads().to_string(), outcome.failures_table());
    let row = loads.lines().last().expect("a row");
    assert!(row.contains(" - "), "no tail and no level: {row}");
    assert!(outcome.failures.iter().all(|effect| effect.trial.is_none() || effect.keeps_level.is_none()), "{failures}");
    assert!(outcome.figure().is_some_and(|figure| figure.svg().is_ok()));
}

#[test]
fn an_unreachable_level_is_reported_with_its_limit() {
    // Half of the reads in 6 s: the way to a drive alone takes longer.
    let outcome = plan_of(&small(&["service.within=66 s", "service.for_decoding=60 s", "service.share=50 %"]));
    let unmet = outcome.unmet.as_ref().expect("no shuttle is that fast");
    assert!(outcome.years.is_empty() && unmet.limit == Limit::Level, "{unmet:?}");
    assert!(outcome.statement().contains("is limited by the service level"), "{}", outcome.statement());
    let outcome = plan_of(&small(&["library.most=1", "ingest.per_month=9 PB", "margin.slots=0 %"]));
    assert_eq!(outcome.unmet.as_ref().map(|unmet| unmet.limit), Some(Limit::Slots));
    assert!(outcome.statement().contains("need more slots than 1 library has"), "{}", outcome.statement());
    let outcome = plan_of(&small(&["library.most=1", "library.drives_max=3"]));
    assert_eq!(outcome.unmet.as_ref().map(|unmet| unmet.limit), Some(Limit::Verification));
}

#[test]
fn the_same_plan_gives_the_same_answer() {
    let plan = small(&["years=1"]);
    let [one, other] = [plan_of(&plan), plan_of(&plan)];
    assert_eq!((one.table(), one.statement()), (other.table(), other.statement()));
    assert!(one.figure().unwrap().svg().unwrap() == other.figure().unwrap().svg().unwrap());
}

#[test]
fn inconsistent_settings_are_rejected_by_name() {
    let text = |settings: &[&str]| {
        let settings: Vec<Override> = settings.iter().map(|text| Override::parse("--set", text).unwrap()).collect();
        Plan::parse("small", SMALL, &settings).unwrap_err().to_string()
    };
    assert!(text(&["library.drives_min=9", "library.drives_max=8"]).contains("library.drives_min"));
    let late = text(&["service.for_decoding=3 h"]);
    assert!(late.contains("service.for_decoding") && late.contains("less than the 2.0 h"), "{late}");
    assert!(text(&["reads.like=trace"]).contains("reads.trace"));
    assert!(text(&["ingest.per_monht=1 TB"]).contains("did you mean `per_month`?"));
}

#[test]
fn an_archive_that_is_only_read_can_be_planned() {
    let plan = small(&["ingest.per_month=0 B", "ingest.stored=500 TB", "years=1"]);
    let outcome = plan_of(&plan);
    assert!(outcome.unmet.is_none() && outcome.years[0].staging_bytes == 0.0 && outcome.years[0].full_after_years.is_infinite());
    assert!(outcome.statement().contains("never full"), "{}", outcome.statement());
    let text = "[ingest]\nper_month = \"0 B\"\n";
    let errors = Plan::parse("nothing", text, &[]).unwrap_err().to_string();
    assert!(errors.contains("`ingest.stored`") && errors.contains("`reads.per_second`"), "{errors}");
}

#[test]
fn reads_of_a_lost_library_become_reads_of_the_others() {
    let plan = small(&["run.measured=1 h", "reads.per_second=0.2 /s"]);
    let year = plan.year(1);
    let trial = |libraries, case| {
        let size = Size { libraries, drives: 6, shuttles: 6 };
        Trials::new(&plan, 7).run(&year, size, case, false).unwrap()
    };
    // 6 or 7 of the 19 platters of each set are in each of three libraries, and 3 may be missing: a
    // third of all reads fails.
    let lost = trial(3, Case::Library);
    assert_eq!(lost.simulated, 3);
    assert!((lost.lost - 1.0 / 3.0).abs() < 0.05, "{}", lost.lost);
    // With 7 libraries or more none fails: every 7th read (or every 20th) becomes 16 reads.
    for (libraries, simulated, share) in [(7, 7, 7.0), (20, 8, 20.0)] {
        let [all, without] = [Case::Nothing, Case::Library].map(|case| trial(libraries, case));
        assert_eq!((without.simulated, without.lost), (simulated, 0.0));
        let more = without.read_bytes_s / all.read_bytes_s;
        let expected = 1.0 + 15.0 / share;
        assert!((more / expected - 1.0).abs() < 0.2, "{libraries} libraries: {more} times as much is read, expected {expected}");
    }
}

#[test]
fn the_loss_of_a_library_adds_to_platters_that_were_unavailable_before() {
    let mut plan = small(&[]);
    plan.template.sets.unavailable = 0.1;
    for libraries in [2, 8, 9, 20, 100] {
        let size = Size { libraries, drives: 6, shuttles: 6 };
        let scenario = scenario(&plan, 7, &plan.year(1), size, Case::Library);
        scenario.check().unwrap_or_else(|error| panic!("{libraries} libraries: {error}"));
    }
}

#[test]
fn a_trial_simulates_all_sets_of_its_libraries() {
    let plan = small(&[]);
    for (sets, libraries, simulated_sets) in [(3, 1, 3), (3, 2, 3), (4, 2, 4), (4, 3, 3), (100, 3, 67)] {
        let year = super::load::Year { sets, platters: 19 * sets, ..plan.year(1) };
        let size = Size { libraries, drives: 6, shuttles: 6 };
        let stock = scenario(&plan, 7, &year, size, Case::Nothing).stock(1).unwrap();
        assert_eq!(stock.written, 19 * simulated_sets, "{sets} sets in {libraries} libraries");
    }
}

#[test]
fn a_trace_needs_requests_in_the_measured_interval() {
    let path = std::env::temp_dir().join(format!("fulgurite-plan-{}.csv", std::process::id()));
    let rows: String = (0..360).map(|row| format!("{},{row},100000000\n", row * 10)).collect();
    std::fs::write(&path, format!("arrival,file,bytes\n{rows}")).unwrap();
    let settings = |warm_up: &str| {
        let trace = format!("reads.trace={}", path.display());
        let per_month = "ingest.per_month=100 TB";
        [trace.as_str(), per_month, "reads.like=trace", "run.measured=30 min", &format!("run.warm_up={warm_up}")].map(str::to_owned)
    };
    let planned = |warm_up| {
        let settings = settings(warm_up).map(|text| Override::parse("--set", &text).unwrap());
        plan(&Plan::parse("traced", &SMALL.replace("per_second = \"0.08 /s\"", ""), &settings).unwrap_or_else(|errors| panic!("{errors}")))
    };
    let outcome = planned("20 min").unwrap();
    // A row every 10 s for half an hour, with two seeds.
    assert!(outcome.unmet.is_none() && outcome.years[0].trial.requests == 2 * 180, "{outcome:?}");
    let refused = planned("2 h").unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(
        refused.contains("no read arrives in the measured interval from 7200.000000 s to 9000.000000 s") && refused.contains("run.warm_up"),
        "{refused}"
    );
}

#[test]
fn every_plan_of_the_repository_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/plans");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        Plan::read(&path, &[]).unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
        count += 1;
    }
    assert!(count >= 3);
}

#[test]
fn docs_plans_md_is_the_reference_of_plan_files() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plans.md");
    if std::env::var_os("FULGURITE_WRITE_REFERENCE").is_some() {
        std::fs::write(path, reference()).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap();
    assert!(
        page == reference(),
        "docs/plans.md is out of date: `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-twin docs_plans_md` writes it anew"
    );
}

fn plan_of(asked: &Plan) -> super::Outcome {
    plan(asked).unwrap_or_else(|error| panic!("{error}"))
}
