//! Short runs of many kinds, with all checks enabled.

#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

pub(crate) mod checks;

use fulgurite_domain::{Micros, SetShape};
use fulgurite_journal::Fact;
use fulgurite_library::{Command, Event, Layout, Library};
use fulgurite_mechanics::NoTwoShuttlesMeet;
use fulgurite_twin::scenario::{PolicyChoice, PolicyName, RunSettings, Scenario, SizeLaw, Workload, WorkloadKind};
use fulgurite_twin::simulation::{Ended, Finished, Observer, Request, run_with};

use checks::{Checked, Checks, no_two_shuttles_met};

pub(crate) fn minutes(minutes: u64) -> Micros {
    Micros(minutes * 60_000_000)
}

/// A quarter of an hour of steady demand after a warm-up of five minutes: one library of 600
/// platters in sets of 4+2, files of 100 MB on average.
pub(crate) fn scenario(policy: PolicyName, shuttles: u16, rate: f64) -> Scenario {
    let mut workload = Workload::preset(WorkloadKind::Typical);
    workload.rate = rate;
    workload.bursts.count = 0;
    workload.steady.sizes = SizeLaw::Exponential;
    workload.steady.mean_bytes = 100_000_000;
    let mut scenario = Scenario {
        layout: Layout { shuttles, ..Layout::default() },
        platters: 600,
        policy: PolicyChoice { name: policy, ..PolicyChoice::default() },
        workload,
        run: RunSettings { warm_up: minutes(5), measured: minutes(15), cool_down: minutes(360), ..RunSettings::default() },
        ..Scenario::default()
    };
    scenario.sets.shape = SetShape { information: 4, redundancy: 2 };
    scenario
}

/// Describes a run in failure messages.
pub(crate) fn named(scenario: &Scenario, seed: u64) -> String {
    let Scenario { policy, layout, libraries, .. } = scenario;
    format!(
        "{}, {} shuttles, {libraries} libraries, {} requests/s, seed {seed}",
        policy.name.text(),
        layout.shuttles,
        scenario.workload.rate
    )
}

/// Runs a scenario with all checks and a further observer.
pub(crate) fn watched<O: Observer>(scenario: &Scenario, seed: u64, other: O) -> (Checked, Finished<NoTwoShuttlesMeet>) {
    let name = named(scenario, seed);
    let mut checks = Checks::new(scenario);
    let finished = run_with(scenario, seed, (&mut checks, other), NoTwoShuttlesMeet::new);
    if let Some(violation) = checks.violation() {
        panic!("{name}: {violation}");
    }
    let mut finished = finished.unwrap_or_else(|error| panic!("{name}: {error}"));
    for (index, machines) in finished.mechanics.iter_mut().enumerate() {
        let met = no_two_shuttles_met(Library(index as u16), machines.log_mut(), finished.at);
        met.unwrap_or_else(|met| panic!("{name}: {met}"));
    }
    let checked = checks.finish_run(&finished, false).unwrap_or_else(|violation| panic!("{name}: {violation}"));
    (checked, finished)
}

/// Runs a scenario with all checks.
pub(crate) fn checked(scenario: &Scenario, seed: u64) -> Checked {
    watched(scenario, seed, ()).0
}

/// Records all facts of a run.
#[derive(Default)]
pub(crate) struct Facts(pub(crate) Vec<Fact>);

impl Observer for Facts {
    fn request(&mut self, request: &Request<'_>) {
        let Request { id, at, shards, deadline, .. } = *request;
        self.0.push(Fact::Requested { now: at, request: id, deadline, shards: shards.to_vec() });
    }

    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        self.0.push(Fact::Happened { now, library, event: *event });
    }

    fn command(&mut self, _: Micros, library: Library, command: &Command) {
        self.0.push(Fact::Commanded { library, command: *command });
    }

    fn ended(&mut self, ended: &Ended) {
        self.0.push(Fact::Ended { request: ended.id, outcome: ended.outcome });
    }
}
