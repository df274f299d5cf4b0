//! Short runs of many kinds, with everything looked at.

use fulgurite_domain::{Micros, SetShape};
use fulgurite_library::Layout;
use fulgurite_mechanics::NoTwoShuttlesMeet;
use fulgurite_twin::checks::{Checked, Checks, no_two_shuttles_met};
use fulgurite_twin::scenario::{PolicyChoice, PolicyName, RunSettings, Scenario, SizeLaw, Workload, WorkloadKind};
use fulgurite_twin::simulation::{Finished, Observer, run_with};

/// So many minutes.
pub(crate) fn minutes(minutes: u64) -> Micros {
    Micros(minutes * 60_000_000)
}

/// Half an hour of steady demand, after ten minutes of the same: one library, files of 100 MB in the mean.
pub(crate) fn scenario(policy: PolicyName, shuttles: u16, rate: f64) -> Scenario {
    let mut workload = Workload::preset(WorkloadKind::Typical);
    workload.rate = rate;
    workload.bursts.count = 0;
    workload.steady.sizes = SizeLaw::Exponential;
    workload.steady.mean_bytes = 100_000_000;
    Scenario {
        layout: Layout { shuttles, ..Layout::default() },
        policy: PolicyChoice { name: policy, ..PolicyChoice::default() },
        workload,
        run: RunSettings { warm_up: minutes(10), measured: minutes(30), cool_down: minutes(240), ..RunSettings::default() },
        ..Scenario::default()
    }
}

/// The same with a few platters in sets of 4+2, quick to set up.
pub(crate) fn small(policy: PolicyName, shuttles: u16, rate: f64) -> Scenario {
    let mut scenario = scenario(policy, shuttles, rate);
    scenario.sets.shape = SetShape { information: 4, redundancy: 2 };
    scenario.platters = 600;
    scenario
}

/// Runs a scenario and looks at everything, with somebody else who does.
pub(crate) fn watched<O: Observer>(scenario: &Scenario, seed: u64, other: O) -> (Checked, Finished<NoTwoShuttlesMeet>) {
    let repeat =
        || format!("{:?}, {} shuttles, {} libraries, seed {seed}", scenario.policy.name, scenario.layout.shuttles, scenario.libraries);
    let mut checks = Checks::new(scenario);
    let finished = run_with(scenario, seed, (&mut checks, other), NoTwoShuttlesMeet::new);
    let mut finished = match (finished, checks.violation()) {
        (_, Some(violation)) => panic!("{}: {violation}", repeat()),
        (Err(error), None) => panic!("{}: {error}", repeat()),
        (Ok(finished), None) => finished,
    };
    let checked = checks.finish_run(&finished, false).unwrap_or_else(|violation| panic!("{}: {violation}", repeat()));
    for (index, machines) in finished.mechanics.iter_mut().enumerate() {
        let library = fulgurite_library::Library(index as u16);
        no_two_shuttles_met(library, machines.log_mut(), finished.at).unwrap_or_else(|met| panic!("{}: {met}", repeat()));
    }
    (checked, finished)
}

/// Runs a scenario and looks at everything.
pub(crate) fn checked(scenario: &Scenario, seed: u64) -> Checked {
    watched(scenario, seed, ()).0
}
