use fulgurite_settings::Override;

use super::*;
use crate::layout::Stage;
use crate::pipeline::Wait;

fn scenario(text: &str) -> Scenario {
    Scenario::parse("test", text, &[]).expect("a scenario")
}

/// One station with one stream each, memory as its spool, and files of 1 GB.
const SIMPLE: &str = r#"
[files]
total = "100 GB"
[input]
rate = "50 MB/s"
[output]
rate = "100 MB/s"
gap = "0 s"
gap_max = "0 s"
[stations]
count = 1
inputs = 1
outputs = 1
spools = 1
spool = "10 GB"
spool_exclusive = false
spool_write = "1 GB/s"
spool_read = "1 GB/s"
link = "1 GB/s"
"#;

fn simple(more: &[&str]) -> Scenario {
    let overrides: Vec<Override> = more.iter().map(|text| Override::parse("--set", text).expect("a setting")).collect();
    Scenario::parse("test", SIMPLE, &overrides).expect("a scenario")
}

/// The simple scenario, with parts of files: a mean size and a share of each.
fn with_parts(parts: &[(&str, &str)], more: &[&str]) -> Result<Scenario, fulgurite_settings::SettingErrors> {
    let tables: String = parts.iter().map(|(size, share)| format!("[[files.parts]]\nsize = \"{size}\"\nshare = \"{share}\"\n")).collect();
    let overrides: Vec<Override> = more.iter().map(|text| Override::parse("--set", text).expect("a setting")).collect();
    Scenario::parse("test", &format!("{SIMPLE}{tables}"), &overrides)
}

fn elapsed_s(more: &[&str]) -> f64 {
    simulate(&simple(more)).elapsed().seconds()
}

fn assert_near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found}, expected {expected}");
}

#[test]
fn the_slowest_stage_sets_the_pace() {
    // 100 files of 20 s each, and the last is written in another 10 s.
    assert_near(elapsed_s(&[]), 2_010.0, 1e-6);
    // The first is read in 20 s, and 100 are written in 15 s each.
    assert_near(elapsed_s(&["output.gap=\"5 s\"", "output.gap_max=\"5 s\"", "input.rate=\"200 MB/s\""]), 5.0 + 1_500.0, 1e-6);
    // A scan of 40 s each is slower than both.
    assert_near(elapsed_s(&["stations.scans=1", "scan.rate=\"25 MB/s\""]), 20.0 + 10.0 + 4_000.0, 1e-6);
    // Two inputs share a link.
    assert_near(elapsed_s(&["stations.inputs=2"]), 1_000.0 + 20.0, 0.01);
    assert_near(elapsed_s(&["stations.inputs=2", "stations.source=\"60 MB/s\""]), 100e9 / 60e6 + 20.0, 0.01);
    // Two stations are twice as fast.
    assert_near(elapsed_s(&["stations.count=2"]), 1_010.0, 0.01);
}

#[test]
fn a_stream_says_what_it_waits_for() {
    let outcome = simulate(&simple(&[]));
    assert_eq!(outcome.limiting_stage(), Some(Stage::Input));
    let outputs = outcome.stage(Stage::Output);
    assert_near(outputs.busy_share(), 1_000.0 / 2_010.0, 1e-3);
    assert_eq!(outputs.wait_shares().first().map(|(wait, _)| *wait), Some(Wait::Input));
    let slow = simulate(&simple(&["output.rate=\"10 MB/s\""]));
    assert_eq!(slow.limiting_stage(), Some(Stage::Output));
    let waits = slow.stage(Stage::Input).wait_shares();
    assert!(waits.iter().any(|&(wait, share)| wait == Wait::Room && share > 0.5), "{waits:?}");
    // The spool volume of 10 GB is full most of the time.
    assert!(slow.figures.mean_bytes(&slow.figures.spools[0]) > 9e9 && slow.figures.spools[0].max_bytes == 10_000_000_000);
}

#[test]
fn a_disk_as_the_only_spool_serializes_and_a_second_one_does_not() {
    let exclusive = ["stations.spool_exclusive=true"];
    // Reading and writing take turns.
    assert_near(elapsed_s(&exclusive), 100.0 * (20.0 + 10.0), 1e-6);
    assert_near(elapsed_s(&["stations.spool_exclusive=true", "stations.spools=2"]), 2_010.0, 1e-6);
}

#[test]
fn volumes_cost_a_change_each() {
    // 10 volumes of 10 files; each change takes 90 s.
    let outcome = simulate(&simple(&["files.volume=\"10 GB\"", "files.change=\"90 s\""]));
    assert_near(outcome.elapsed().seconds(), 2_010.0 + 900.0, 1e-6);
}

#[test]
fn small_files_move_in_lots() {
    let small = ["files.size=\"1 MB\"", "files.total=\"10 GB\"", "input.gap=\"10 ms\"", "input.gap_max=\"10 ms\""];
    // Each file takes 20 ms and a gap of 10 ms, alone or in lots.
    assert_near(elapsed_s(&small), 300.0, 0.001);
    let lots = [&small[..], &["files.lot_files=100"]].concat();
    let outcome = simulate(&simple(&lots));
    assert_near(outcome.elapsed().seconds(), 301.0, 0.001);
    let passed = outcome.stage(Stage::Output);
    assert_eq!((passed.files, passed.bytes), (10_000, 10_000_000_000));
}

#[test]
fn each_file_may_take_time_besides_its_bytes() {
    // 10,000 files of 20 ms, and 5 ms each besides.
    let files = ["files.size=\"1 MB\"", "files.total=\"10 GB\"", "files.lot_files=100", "input.per_file=\"5 ms\""];
    let outcome = simulate(&simple(&files));
    assert_near(outcome.elapsed().seconds(), 250.0 + 1.0, 0.001);
    // It counts as moving.
    let inputs = outcome.stage(Stage::Input);
    assert_near(inputs.rate(), 10e9 / 250.0, 0.001);
    assert!(inputs.gap_s() < 1e-6);
}

#[test]
fn parts_follow_each_other_and_each_has_its_slowest_stage() {
    // 50,000 files of 1 MB are read in 1,000 s and written in 1,500 s, since each is synced; 20 of
    // 5 GB are read in 2,000 s and written in 1,000 s.
    let both = ["files.total=\"150 GB\"", "files.lot_files=100", "files.lot_bytes=\"100 MB\"", "output.per_file=\"20 ms\""];
    let scenario = with_parts(&[("1 MB", "33.3333 %"), ("5 GB", "66.6667 %")], &both).expect("a scenario");
    assert_near(scenario.files.size as f64, 150e9 / 50_020.0, 1e-4);
    let outcome = simulate(&scenario);
    let passed = outcome.stage(Stage::Output);
    assert!(passed.bytes == 150_000_000_000 && passed.files.abs_diff(50_020) <= 1, "{passed:?}");
    // One large file is read while small ones are written; there is no room for a second.
    assert_near(outcome.elapsed().seconds(), 1_500.0 + 1_900.0 + 50.0, 0.01);
    // Files of the mean size hide that the stages set the pace in turn.
    let mean = simulate(&simple(&[&both[..], &["files.size=\"3 MB\""]].concat()));
    assert_near(mean.elapsed().seconds(), 3_000.0, 0.02);
}

#[test]
fn work_for_a_share_of_the_time_gives_that_duty() {
    let outcome = simulate(&simple(&["files.total=\"2 TB\"", "stations.fed=[\"60 %\"]"]));
    assert_near(outcome.stage(Stage::Input).duty(), 0.6, 0.02);
    assert_near(outcome.rate(), 0.6 * 50e6, 0.02);
}

#[test]
fn a_share_of_the_time_limits_lots_that_take_longer_than_it() {
    // 2 TB at 50 MB/s are 40,000 s of work. With 100 GB, a lot takes 2,000 s.
    for (size, lot_s, share) in [("1 GB", 20.0, 0.1), ("10 GB", 200.0, 0.1), ("100 GB", 2_000.0, 0.1), ("100 GB", 2_000.0, 0.6)] {
        let (size, fed) = (format!("files.size=\"{size}\""), format!("stations.fed=[\"{} %\"]", share * 100.0));
        let spool = ["files.total=\"2 TB\"", "stations.spool=\"500 GB\"", "output.rate=\"1 GB/s\""];
        let outcome = simulate(&simple(&[&[&*size, &*fed], &spool[..]].concat()));
        let elapsed = outcome.elapsed().seconds();
        // The last lot isn't interrupted, and the first hour begins with work.
        let (least, most) = ((40_000.0 - lot_s) / share - 3_600.0, 40_000.0 / share + 3_600.0);
        assert!((least..most).contains(&elapsed), "{size}, {fed}: {elapsed} s instead of {least} to {most} s");
        assert_near(outcome.stage(Stage::Input).duty(), share, 0.06);
    }
    // 36 s of each hour, and lots of 20 s.
    let outcome = simulate(&simple(&["files.total=\"2 TB\"", "stations.fed=[\"1 %\"]", "stations.spool=\"500 GB\""]));
    assert_near(outcome.elapsed().seconds(), 40_000.0 / 0.01, 0.01);
}

/// Source: the analysis of the stand, `reference/tape-migration.md` of the project's notes: 2.4
/// streams of 33 MB/s are 80 MB/s, 12.5 s for a GB and 4.8 months for a PB.
#[test]
fn the_published_stand_gives_the_published_figures() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/migrations/stand.toml");
    let outcome = simulate(&Scenario::read(&path, &[]).expect("a scenario"));
    assert_near(outcome.stage(Stage::Input).duty(), 2.4, 0.02);
    assert_near(outcome.rate(), 80e6, 0.02);
    assert_near(outcome.seconds_per_gb(), 12.5, 0.02);
    assert_near(outcome.months_per_pb(), 4.8, 0.02);
    // The output is starved by the input.
    assert_eq!(outcome.stage(Stage::Output).wait_shares().first().map(|(wait, _)| *wait), Some(Wait::Input));
}

#[test]
fn more_never_takes_longer() {
    // With room for many files: a large one that waits for room may be the last.
    let base =
        ["stations.spool=\"100 GB\"", "files.total=\"300 GB\"", "stations.scans=1", "scan.gap_max=\"3 s\"", "files.sizes=\"exponential\""];
    let elapsed = |more: &str| elapsed_s(&[&base[..], &[more]].concat());
    for (setting, values) in [("stations.inputs", 1..=6), ("stations.outputs", 1..=4), ("stations.scans", 1..=4), ("stations.count", 1..=8)]
    {
        let times: Vec<f64> = values.map(|value| elapsed(&format!("{setting}={value}"))).collect();
        assert!(times.windows(2).all(|pair| pair[1] <= pair[0] * 1.01), "{setting}: {times:?}");
    }
}

#[test]
fn a_search_finds_the_cheapest_that_ends_in_time() {
    let text = format!("{SIMPLE}[search]\nwithin = \"20 min\"\nstations = 3\ninputs = 4\noutputs = 3\ninstances = 1\n");
    let text = text.replace("rate = \"100 MB/s\"", "rate = \"60 MB/s\"");
    let found = search(&scenario(&text));
    let (candidate, outcome) = found.cheapest.expect("one ends in time");
    let of = &candidate.scenario.stations;
    // 1,200 s for 100 GB are 83 MB/s: two inputs of 50 MB/s and two outputs of 60 MB/s.
    assert_eq!((of.count, of.inputs, of.outputs), (1, 2, 2));
    assert!(outcome.elapsed().seconds() <= 1_200.0 && candidate.cost == 4.0 + 2.0 + 6.0);
    // What was found can be planned again.
    let again = Scenario::parse("test", &candidate.scenario.text, &[]).expect("a scenario");
    assert_eq!((again.stations, again.files), (candidate.scenario.stations.clone(), candidate.scenario.files.clone()));
    let none = search(&scenario(&text.replace("20 min", "1 min")));
    assert!(none.cheapest.is_none() && none.fastest.is_none() && none.tried == 0);
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    for (setting, says) in [
        ("stations.fed=[\"0 %\"]", "a station that gets work"),
        ("stations.fed=[\"10 %\", \"20 %\"]", "one value"),
        ("output.gap=\"11 s\"", "at least as long as gap"),
        ("files.size=\"20 GB\"", "room for a file"),
        ("files.lot_files=0", "lot_files"),
        ("files.size=\"1 B\"", "too many"),
    ] {
        let error =
            Scenario::parse("test", SIMPLE, &[Override::parse("--set", setting).expect("a setting")]).expect_err(setting).to_string();
        assert!(error.contains(says), "{setting}: {error}");
    }
    let error = |parts: &[(&str, &str)], more: &[&str]| with_parts(parts, more).expect_err("no scenario").to_string();
    let text = error(&[("1 MB", "50 %"), ("1 GB", "40 %")], &[]);
    assert!(text.contains("add up to 100 %"), "{text}");
    let text = error(&[("1 MB", "50 %"), ("20 GB", "50 %")], &[]);
    assert!(text.contains("room for a file"), "{text}");
    // Without this, nothing would tell that the setting is not used.
    let text = error(&[("1 MB", "50 %"), ("1 GB", "50 %")], &["files.size=\"5 MB\""]);
    assert!(text.contains("nothing, since files.parts has sizes"), "{text}");
    let parts = [("100 TB", "50 %"), ("100 TB", "40 %")];
    assert!(error(&parts, &[]).contains("add up to 100 %") && error(&[("1 MB", "0 %"), ("1 GB", "0 %")], &[]).contains("add up to 100 %"));
    let missing = Scenario::parse("test", &format!("{SIMPLE}[[files.parts]]\nsize = \"1 MB\"\n"), &[]).expect_err("no share").to_string();
    assert!(missing.contains("share"), "{missing}");
    // Each part counts, however small its share is.
    let text = error(&[("5 GB", "99.95 %"), ("1 B", "0.05 %")], &["files.total=\"100 TB\""]);
    assert!(text.contains("too many"), "{text}");
}

/// `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-migration docs_migration` writes the page
/// anew.
#[test]
fn docs_migration_scenarios_md_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/migration-scenarios.md");
    let page = reference();
    if std::env::var_os("FULGURITE_WRITE_REFERENCE").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap_or_default(),
        page,
        "docs/migration-scenarios.md is out of date: `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-migration docs_migration` writes it"
    );
}

#[test]
fn a_complete_scenario_reads_back_as_the_same() {
    let first = simple(&["rules.unscanned=7", "files.sizes=\"exponential\""]);
    assert_eq!(Scenario::parse("test", &first.text, &[]).expect("a scenario"), first);
    let parts = with_parts(&[("1 MB", "33.333333 %"), ("2 GB", "66.666667 %"), ("3 kB", "0 %")], &[]).expect("a scenario");
    assert_eq!(Scenario::parse("test", &parts.text, &[]).expect("a scenario"), parts);
    let other = Override::parse("--set", "files.parts.1.size=\"3 GB\"").expect("a setting");
    assert_eq!(Scenario::parse("test", &parts.text, &[other]).expect("a scenario").files.parts[1].size, 3_000_000_000);
    // No part is lost because shares are rounded, and a part without a share has no files.
    let rounded = with_parts(&[("1 GB", "60 %"), ("1 GB", "40 %"), ("1 kB", "0.05 %")], &[]).expect("a scenario").files.bytes_of_parts();
    assert!(rounded.len() == 3 && rounded.iter().map(|part| part.0).sum::<u64>() == 100_000_000_000, "{rounded:?}");
    assert_eq!(parts.files.bytes_of_parts(), [(33_333_333_000, 1_000_000), (66_666_667_000, 2_000_000_000)]);
}

#[test]
fn a_statement_says_what_limits_the_rate() {
    assert!(simulate(&simple(&[])).statement().ends_with("The inputs limit the rate.\n"));
    let fed = simulate(&simple(&["stations.fed=[\"30 %\"]", "files.total=\"1 TB\""])).statement();
    assert!(fed.contains("The inputs are busiest: 3") && fed.contains("They wait for files 6") && fed.ends_with("% of it.\n"), "{fed}");
}

#[test]
fn with_other_streams_than_measured_ones_the_time_is_a_range() {
    let measured = ["measured.inputs=2", "measured.outputs=2", "measured.scans=0", "output.rate=\"1 GB/s\""];
    let of = |more: &[&str]| {
        let scenario = simple(&[&measured, more].concat());
        range(&scenario).map(|range| (range.least.seconds(), simulate(&scenario).elapsed().seconds(), range.most.seconds()))
    };
    assert_eq!(of(&["stations.inputs=2", "stations.outputs=2"]), None, "as measured");
    assert_eq!(of(&["stations.instances=2"]), None, "as measured, in two instances");
    assert_eq!(range(&simple(&["stations.inputs=3"])), None, "not measured");
    // Two inputs of 50 MB/s read 100 GB in 1,000 s. Four do so in half of that, unless they share
    // what two had.
    let (least, own, most) = of(&["stations.inputs=4", "stations.outputs=2"]).expect("a range");
    assert_near(least, 500.0, 0.01);
    assert_near(own, 500.0, 0.01);
    assert_near(most, 1_000.0, 0.01);
    // One may be as fast as two were, or as one of them.
    let (least, own, most) = of(&["stations.inputs=1", "stations.outputs=2"]).expect("a range");
    assert_near(least, 1_000.0, 0.01);
    assert_near(own, 2_000.0, 0.01);
    assert_near(most, 2_000.0, 0.01);
    let scenario = simple(&[&measured[..], &["stations.inputs=1", "stations.outputs=2"]].concat());
    let statement = range(&scenario).expect("a range").statement(&scenario);
    assert!(
        statement.contains("with 2 inputs, 2 outputs, 0 scans. With 1 input, 2 outputs, 0 scans, the time is between 16.7 min and"),
        "{statement}"
    );
}
