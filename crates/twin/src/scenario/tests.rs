//! Tests of scenarios: reading, printing, rejection, and placement of platters.

use std::collections::BTreeSet;

use fulgurite_domain::SetShape;
use fulgurite_library::Drive;
use fulgurite_mechanics::{Battery, Service};
use fulgurite_settings::Override;

use super::*;

fn read(text: &str) -> Scenario {
    Scenario::parse("a.toml", text, &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(text: &str) -> String {
    Scenario::parse("a.toml", text, &[]).map_or_else(|errors| errors.to_string(), |_| "none".to_owned())
}

#[test]
fn an_empty_file_is_the_default_library() {
    assert_eq!(read(""), Scenario { name: "a.toml".to_owned(), ..Scenario::default() });
}

#[test]
fn a_printed_scenario_reads_back_the_same() {
    let mut scenario = Scenario { name: "a.toml".to_owned(), title: "Everything else".to_owned(), ..Scenario::default() };
    let same = |scenario: &Scenario| assert_eq!(read(&scenario.canonical()), *scenario, "{}", scenario.canonical());
    same(&scenario);
    scenario.libraries = 3;
    scenario.layout.drives = [4, 5];
    scenario.layout.shuttles = 6;
    scenario.platters = 0;
    scenario.tracks = 77_777;
    scenario.verification = Verification::Written;
    scenario.sets = Sets { shape: SetShape { information: 4, redundancy: 2 }, zones: Zones::default(), unavailable: 0.1 };
    scenario.sets.zones.shapes.pop();
    scenario.policy = PolicyChoice { name: PolicyName::Partitioned, steals_above: None, ..PolicyChoice::default() };
    scenario.policy.techniques.window = 3;
    scenario.mechanics.battery = Some(Battery { low_j: 1234.5, ..Battery::default() });
    scenario.mechanics.drive.service = Service::Exponential(1.25);
    scenario.mechanics.drive.throughput_bytes_s = 120e6;
    scenario.mechanics.faults.shuttle_hours = 1_000.25;
    scenario.mechanics.faults.drive_hours = 0.3;
    scenario.faults = vec![
        LibraryFault { library: Library(2), at: Micros(3_600_000_001), what: Breakdown::Collision(fulgurite_library::Shuttle(5)) },
        LibraryFault { library: Library(0), at: Micros(5), what: Breakdown::DriveDown(Drive(8)) },
    ];
    scenario.workload = Workload { zipf: 0.9, deadline: None, ..Workload::preset(WorkloadKind::Volume) };
    scenario.workload.steady.mean_bytes = 77_000_000;
    scenario.ingest = Some(Ingest { room: 12, ..Ingest::default() });
    scenario.decode = Some(Decode { throughput_bytes_s: 3e6, ..Decode::default() });
    scenario.run.seed = u64::MAX;
    scenario.expect = Expectations {
        tail_at_most: Some(Micros(1)),
        longest_at_most: Some(Micros(2)),
        mean_at_most: None,
        lost_at_most: 0.25,
        tail_over_bound_at_most: Some(1.1),
        unverified_at_most: Some(30),
    };
    same(&scenario);
    scenario.workload = Workload { trace: Some("some/where.csv".into()), ..Workload::preset(WorkloadKind::Trace) };
    same(&scenario);
}

#[test]
fn each_number_of_a_preset_can_be_overridden() {
    let scenario = read("[workload]\npreset = 'iops'\nbursts.count = 2\nsteady.mean = '3 MB'");
    let iops = Workload::preset(WorkloadKind::Iops);
    assert_eq!((scenario.workload.rate, scenario.workload.bursts.arrivals), (iops.rate, iops.bursts.arrivals));
    assert_eq!((scenario.workload.bursts.count, scenario.workload.steady.mean_bytes), (2, 3_000_000));
    assert_eq!(scenario.workload.bursts.mean_bytes, iops.bursts.mean_bytes);
}

#[test]
fn conflicting_settings_are_rejected_at_their_position() {
    assert_eq!(errors("[shuttles]\ncuont = 3"), "a.toml:2:1: unknown setting `shuttles.cuont`; did you mean `count`?");
    assert_eq!(
        errors("[workload]\nrate = '0.01 /s'"),
        "a.toml:2:8: `workload.rate`: expected at least 0.1394 a second, the rate of the bursts alone; found \"0.01 /s\""
    );
    assert!(errors("[sets]\nunavailable = '16 %'").contains("`sets.unavailable`: expected 0 to 15.78 %, the share of redundancy"));
    assert!(errors("[workload]\npreset = 'trace'").contains("the path of a trace"));
    assert!(errors("[shuttles]\ncount = 0").contains("unless the policy is \"no-shuttles\""));
    assert_eq!(errors("[shuttles]\ncount = 0\n[policy]\nname = 'no-shuttles'"), "none");
    assert_eq!(errors("[shuttles]\ncount = 41"), "a.toml:2:9: `shuttles.count`: expected at most two for each drive; found 41");
    assert!(errors("[decode]\nused = true\nworkers = [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]").contains("one or more"));
    assert!(errors("[ingest]\nused = true").contains("`verification.of`: expected \"written\""));
    assert!(errors("[[faults.planned]]\nat = '1 h'\nwhat = 'drive-down'\nnumber = 20").contains("the library has 20"));
    let second =
        "[[faults.planned]]\nat = '1 h'\nwhat = 'drive-down'\nnumber = 3\n[[faults.planned]]\nat = '2 h'\nwhat = 'drive-down'\nnumber = 20";
    assert!(errors(second).contains("`faults.planned.1.number`"), "{}", errors(second));
    assert!(errors("[[faults.planned]]\nat = '1 h'\nwhat = 'drive-down'\nnumber = 2\nlibrary = 1").contains("one of the libraries"));
}

#[test]
fn platters_fill_complete_sets_and_the_error_says_how_many_fit() {
    let racks = |storage_racks| Scenario { layout: Layout { storage_racks, ..Layout::default() }, ..Scenario::default() };
    let stock = racks(7).stock(1).unwrap();
    assert_eq!((stock.written, stock.readable.count), (368 * 19, 368 * 16), "7,000 platters, less than a set more");
    assert_eq!(Scenario { platters: 0, ..racks(7) }.stock(1).unwrap().written, 600 * 19);
    assert_eq!(Scenario { platters: 0, ..racks(8) }.stock(1).unwrap().written, 1_261 * 19);
    assert_eq!(
        Scenario { platters: 11_419, ..racks(7) }.stock(1).unwrap_err().to_string(),
        "11419 platters in each library, but only 11400 fit: 600 sets of 16+3 in 1 libraries under the blast zone rule"
    );
    let none = Scenario { platters: 18, ..Scenario::default() }.stock(1).unwrap_err();
    assert!(matches!(none, ScenarioError::NoSet { wanted: 18, .. }));
    let ingest = |platters, room| {
        let ingest = Ingest { room, ..Ingest::default() };
        Scenario { platters, ingest: Some(ingest), ..racks(7) }.stock(1).unwrap_err().to_string()
    };
    assert_eq!(ingest(5, 190), "5 platters in each of 1 libraries don't make a complete set of 16+3");
    let all = "the slots that the room for ingest leaves in each of 1 libraries don't make a complete set of 16+3";
    assert_eq!(ingest(0, 11_400), all);
    let few = racks(6).stock(1).unwrap_err();
    assert!(matches!(few, ScenarioError::Placement(_)), "{few}");
}

#[test]
fn sets_span_blast_zones_in_one_library_and_in_several() {
    for libraries in [1, 2, 5, 19, 30] {
        let scenario = Scenario { libraries, platters: 1_900, ..Scenario::default() };
        let stock = scenario.stock(1).unwrap();
        let members = usize::from(stock.sets.shape.platters());
        assert_eq!(stock.sets.places.len() % members, 0);
        assert_eq!(stock.sets.places.iter().collect::<BTreeSet<_>>().len(), stock.sets.places.len());
        for set in stock.sets.places.chunks(members) {
            let cell = |(library, platter): &(Library, fulgurite_library::Platter)| {
                let homes = &stock.inventories[usize::from(library.0)].homes;
                (*library, scenario.layout.cell_of(homes[platter.0 as usize]))
            };
            let cells: Vec<_> = set.iter().map(cell).collect();
            for (index, (library, one)) in cells.iter().enumerate() {
                for (_, other) in cells[index + 1..].iter().filter(|(other, _)| other == library) {
                    assert!(!scenario.sets.zones.share(*one, *other), "{libraries} libraries: {one:?} and {other:?} share a zone");
                }
            }
        }
    }
}

#[test]
fn no_set_loses_more_platters_than_it_has_redundancy() {
    let mut scenario = Scenario::default();
    for share in [0.01, 0.1, 3.0 / 19.0] {
        scenario.sets.unavailable = share;
        scenario.check().unwrap();
        let stock = scenario.stock(7).unwrap();
        assert_eq!(stock.unavailable.len(), (share * 368.0 * 19.0 + 0.5) as usize);
        for set in 0..368 {
            assert!(stock.unavailable.iter().filter(|platter| platter.0 / 19 == set).count() <= 3);
        }
    }
    assert_ne!(scenario.stock(7).unwrap().sets.places.len(), 0);
    let away = Scenario { libraries: 7, away: 1, platters: 190, ..Scenario::default() };
    let stock = away.stock(1).unwrap();
    assert_eq!(stock.unavailable.len(), 190);
    assert!(stock.unavailable.iter().all(|platter| stock.sets.places[platter.0 as usize].0.0 == 0));
    scenario.sets.unavailable = 0.1;
    assert_ne!(scenario.stock(1).unwrap().unavailable, scenario.stock(2).unwrap().unavailable);
}

#[test]
fn the_workload_reads_only_information_platters() {
    let stock = Scenario::default().stock(1).unwrap();
    let all: Vec<u32> = (0..stock.readable.count).map(|index| stock.region_platter(index).0).collect();
    assert!(all.windows(2).all(|two| two[0] < two[1]));
    assert!(all.iter().all(|platter| platter % 19 < 16));
    assert_eq!(all.last(), Some(&(367 * 19 + 15)));
}

#[test]
fn command_line_settings_override_the_file() {
    let settings = ["shuttles.count=8", "drives.throughput=120 MB/s"].map(|text| Override::parse("--set", text).unwrap());
    let scenario = Scenario::parse("a.toml", "[shuttles]\ncount = 12", &settings).unwrap();
    assert_eq!((scenario.layout.shuttles, scenario.mechanics.drive.throughput_bytes_s), (8, 120e6));
    assert_eq!(scenario.pace().track, Micros(166_667));
}

/// `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-twin docs_scenarios_md` regenerates the
/// page.
#[test]
fn docs_scenarios_md_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md");
    if std::env::var_os("FULGURITE_WRITE_REFERENCE").is_some() {
        std::fs::write(path, reference()).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == reference(),
        "docs/scenarios.md is out of date: `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-twin docs_scenarios_md` regenerates it"
    );
}

#[test]
fn a_number_that_does_not_work_is_reported_at_its_setting() {
    for (setting, value, expected) in [
        ("steady.mean", "\"1 TB\"", "less than 1515179200 B"),
        ("bursts.mean", "\"1 kB\"", "more than 113254 B"),
        ("shard", "\"1 B\"", "`workload.steady.largest`: expected files of 4294967295 B or less"),
        ("steady.account_files", "1000000", "at most 222222"),
        ("bursts.account_files", "1000000\nworkload.rate = \"200000 /s\"", "at most 222222"),
        ("bursts.over", "\"2 h\"", "at most 6171.4"),
    ] {
        let found = errors(&format!("workload.{setting} = {value}"));
        let named = if setting == "shard" { "workload.steady.largest" } else { &format!("workload.{setting}") };
        assert!(found.contains(&format!("`{named}`: expected")) && found.contains(expected), "{setting}: {found}");
    }
    let found = errors("workload.rate = \"0 /s\"\nworkload.bursts.count = 0");
    assert!(found.contains("`workload.rate`: expected more than 0, or bursts"), "{found}");
}
