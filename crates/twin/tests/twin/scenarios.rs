//! Every scenario of the project, shortened, can be read and run, and keeps the invariants of every
//! run.

use std::path::PathBuf;

use fulgurite_domain::Micros;
use fulgurite_library::{Event, Library, Panel, Platter, Verification, Whereabouts};
use fulgurite_mechanics::{Mechanics, MotionLog, NoTwoShuttlesMeet, Whereabouts as Truth};
use fulgurite_twin::scenario::{Ingest, PolicyName, Scenario};
use fulgurite_twin::simulation::{Ended, Finished, Observer, Request, run, run_with};

fn all() -> Vec<(PathBuf, Scenario)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    assert!(paths.len() >= 9, "{paths:?}");
    paths.into_iter().map(|path| (path.clone(), Scenario::read(&path, &[]).unwrap_or_else(|errors| panic!("{errors}")))).collect()
}

/// The scenario with an hour and a half instead of 18 hours, and bursts and faults scaled to match.
fn shortened(mut scenario: Scenario) -> Scenario {
    const BY: u64 = 12;
    let libraries = u32::from(scenario.libraries);
    let shorter = |time: Micros| Micros((time.0 / BY).max(1));
    let (run, bursts) = (&mut scenario.run, &mut scenario.workload.bursts);
    (run.warm_up, run.measured) = (shorter(run.warm_up), shorter(run.measured));
    bursts.period = shorter(bursts.period);
    bursts.arrivals = bursts.arrivals.div_ceil(BY as u32);
    bursts.account_files = bursts.account_files.div_ceil(BY as u32);
    // Accounts and arrivals both shrank, so the rate must stay above that of the bursts.
    scenario.workload.rate = scenario.workload.rate.max(scenario.workload.rate_in_bursts() * 1.1);
    for fault in &mut scenario.faults {
        fault.at = shorter(fault.at);
    }
    scenario.mechanics.faults.repair_s /= BY as f64;
    if libraries > 1 {
        scenario.run.warm_up = Micros(30_000_000);
        scenario.run.measured = Micros(60_000_000);
        scenario.platters = 1_900;
    }
    scenario
}

/// Counts requests that arrive and end.
#[derive(Default)]
struct Tally {
    counted: u64,
    ended: u64,
    late: u64,
}

impl Observer for Tally {
    fn request(&mut self, request: &Request<'_>) {
        self.counted += u64::from(request.is_measured);
        assert!(!request.shards.is_empty() && request.bytes > 0);
    }

    fn ended(&mut self, ended: &Ended) {
        self.ended += u64::from(ended.is_measured);
        self.late += u64::from(ended.at > ended.deadline);
        assert!(ended.at >= ended.arrived);
    }
}

/// Checks that the controller and the machines agree on the place of every platter, and that each
/// platter exists once.
fn platters_are_conserved<L: MotionLog>(panel: &Panel, machines: &Mechanics<L>) {
    let mut there = 0;
    for platter in (0..panel.platter_count()).map(Platter) {
        let (believed, truth) = (panel.whereabouts(platter), machines.whereabouts(platter));
        let agree = match believed {
            Whereabouts::Berth(berth) => truth == Truth::At(berth),
            Whereabouts::Shuttle(shuttle) => truth == Truth::On(shuttle),
            Whereabouts::Unwritten => truth == Truth::Absent,
        };
        assert!(agree, "{platter:?}: the controller says {believed:?}, but the machines say {truth:?}");
        there += usize::from(believed != Whereabouts::Unwritten);
    }
    assert_eq!(machines.count_platters(), there);
}

/// The figures that README and CHANGELOG quote rest on these intervals.
#[test]
fn full_intervals_keep_their_tails() {
    for (path, scenario) in all() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if ["typical", "iops", "volume", "unavailable", "write-heavy"].contains(&name.as_str()) {
            let run = run(&scenario, scenario.run.seed).unwrap_or_else(|error| panic!("{name}: {error}"));
            let missed = scenario.expect.missed(&run);
            assert!(missed.is_empty(), "{name}: {}", missed[0]);
        }
    }
}

#[test]
fn every_request_ends_platters_are_conserved_and_no_two_shuttles_meet() {
    for (path, scenario) in all() {
        let scenario = shortened(scenario);
        for seed in 0..2 {
            let context = || format!("{}, shortened, seed {seed}", path.display());
            let mut tally = Tally::default();
            let finished = run_with(&scenario, seed, &mut tally, NoTwoShuttlesMeet::new);
            let Finished { run, region, mut mechanics, at } = finished.unwrap_or_else(|error| panic!("{}: {error}", context()));
            assert!(run.requests > 50, "{}: {} requests", context(), run.requests);
            assert_eq!((tally.counted, tally.ended, run.outcomes.total()), (run.requests, run.requests, run.requests), "{}", context());
            let lost = run.outcomes.unavailable + run.outcomes.refused;
            assert_eq!(run.completions.count() + lost, run.requests, "{}", context());
            let missed = scenario.expect.missed(&run);
            assert!(missed.is_empty(), "{}: {}", context(), missed[0]);
            for (controller, machines) in region.controllers().iter().zip(&mut mechanics) {
                platters_are_conserved(controller.panel(), machines);
                assert_eq!(controller.unexpected_answers(), 0, "{}", context());
                if let Err(meeting) = machines.log_mut().check(at) {
                    panic!("{}: {meeting}", context());
                }
            }
            // Little's law over the whole run: the integral of the requests present equals the sum
            // of their times.
            let (present, spent) = (run.system.request_seconds_present, run.system.request_seconds_spent);
            assert!((present - spent).abs() <= 1e-6 * spent + 1e-3, "{}: {present} and {spent}", context());
            let drives = run.drives;
            let all = drives.reading + drives.verifying + drives.switching + drives.idle + drives.failed;
            assert!((all - 1.0).abs() < 1e-9, "{}: drives' shares add up to {all}", context());
        }
    }
}

#[test]
fn every_printed_scenario_reads_back_the_same() {
    for (path, scenario) in all() {
        let mut again =
            Scenario::parse("again", &scenario.canonical(), &[]).unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
        again.name.clone_from(&scenario.name);
        assert_eq!(again, scenario, "{}", path.display());
    }
}

/// Counts platters that are written.
#[derive(Default)]
struct Written(u64);

impl Observer for Written {
    fn event(&mut self, _now: Micros, _library: Library, event: &Event) {
        self.0 += u64::from(matches!(event, Event::PlatterWritten { .. }));
    }
}

/// Days without a finished platter, and days with more of them than fit into memory: a run looks no
/// further than it lasts, and at no more than it writes.
#[test]
fn extreme_rates_of_ingest_neither_hang_nor_fill_the_memory() {
    let mut scenario = crate::support::scenario(PolicyName::Balanced, 20, 0.1);
    scenario.verification = Verification::Written;
    for (bytes_per_day, tracks) in [(1, scenario.tracks), (10_u64.pow(18), 1)] {
        scenario.tracks = tracks;
        scenario.workload.shard_bytes = 1_000_000;
        scenario.ingest = Some(Ingest { bytes_per_day, room: 60, ..Ingest::default() });
        let mut written = Written::default();
        run_with(&scenario, 1, &mut written, |_| ()).unwrap();
        assert_eq!(written.0 > 0, bytes_per_day > 1, "{} platters at {bytes_per_day} bytes a day", written.0);
    }
}
