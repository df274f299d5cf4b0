//! Short runs of many kinds, with all checks enabled.

pub(crate) mod station;

use fulgurite_checks::{Checked, Checks, Machines, Violation, no_two_shuttles_met};
use fulgurite_domain::{Micros, SetShape};
use fulgurite_journal::Fact;
use fulgurite_library::Region;
use fulgurite_library::{Command, Event, Layout, Library};
use fulgurite_mechanics::{MotionLog, NoTwoShuttlesMeet};
use fulgurite_twin::scenario::{PolicyChoice, PolicyName, RunSettings, Scenario, SizeLaw, Workload, WorkloadKind};
use fulgurite_twin::simulation::{Ended, Finished, Observer, Request, run_with};

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

/// The checks that a run of this scenario must pass.
pub(crate) fn checks_of(scenario: &Scenario) -> Checks {
    Checks::new(scenario.sets.zones.clone(), scenario.tracks, scenario.policy.name)
}

/// Checks a run of the simulation while it goes on.
pub(crate) struct Checking(pub(crate) Checks);

impl Observer for Checking {
    fn begin(&mut self, region: &Region) {
        self.0.begin(region);
    }

    fn request(&mut self, request: &Request<'_>) {
        let Request { id, at, shards, deadline, .. } = *request;
        self.0.observe(&Fact::Requested { now: at, request: id, deadline, shards: shards.to_vec() });
    }

    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        self.0.observe(&Fact::Happened { now, library, event: *event });
    }

    fn command(&mut self, _: Micros, library: Library, command: &Command) {
        self.0.observe(&Fact::Commanded { library, command: *command });
    }

    fn ended(&mut self, ended: &Ended) {
        self.0.observe(&Fact::Ended { request: ended.id, outcome: ended.outcome });
    }

    fn settled(&mut self, _: Micros, region: &Region) {
        self.0.settled(region);
    }
}

/// [`Checks::finish`], for a run of the simulation.
pub(crate) fn finish_run<L: MotionLog>(checks: Checks, finished: &Finished<L>, drained: bool) -> Result<Checked, Violation> {
    let pairs = finished.region.controllers().iter().zip(&finished.mechanics);
    let machines: Vec<Machines> =
        pairs.map(|(controller, machines)| Machines::of(machines, controller.panel().platter_count(), finished.at)).collect();
    checks.finish(finished.at, &finished.region, &machines, drained)
}

/// Runs a scenario with all checks and a further observer.
pub(crate) fn watched<O: Observer>(scenario: &Scenario, seed: u64, other: O) -> (Checked, Finished<NoTwoShuttlesMeet>) {
    let name = named(scenario, seed);
    let mut checks = Checking(checks_of(scenario));
    let finished = run_with(scenario, seed, (&mut checks, other), NoTwoShuttlesMeet::new);
    if let Some(violation) = checks.0.violation() {
        panic!("{name}: {violation}");
    }
    let mut finished = finished.unwrap_or_else(|error| panic!("{name}: {error}"));
    for (index, machines) in finished.mechanics.iter_mut().enumerate() {
        let met = no_two_shuttles_met(Library(index as u16), machines.log_mut(), finished.at);
        met.unwrap_or_else(|met| panic!("{name}: {met}"));
    }
    let checked = finish_run(checks.0, &finished, false).unwrap_or_else(|violation| panic!("{name}: {violation}"));
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
