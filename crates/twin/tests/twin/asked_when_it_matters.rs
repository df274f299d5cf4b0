//! A law: a policy that is asked for tasks after every event does the same as one that is asked
//! only after events that matter to it. `balanced` looks at the time: asked more often, it may act
//! a little sooner or choose otherwise. Single tails differ in either direction, so sums over three
//! seeds are compared.

use fulgurite_domain::Micros;
use fulgurite_library::{
    Balanced, Drive, Layout, Library, Pace, Panel, Partitioned, Policy, Progress, ShortestPaths, Shuttle, Task, Techniques,
};
use fulgurite_mechanics::{Battery, Breakdown};
use fulgurite_twin::scenario::{Ingest, LibraryFault, Scenario};
use fulgurite_twin::simulation::{Run, run_with_policy};

use crate::support::minutes;

/// A policy that is asked after every event, or only after those that it wants to be asked about.
struct Asked<P> {
    policy: P,
    always: bool,
}

impl<P: Policy> Policy for Asked<P> {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        self.policy.assign(panel)
    }

    fn may_act_on(&self, panel: &Panel, progress: Progress) -> bool {
        self.always || self.policy.may_act_on(panel, progress)
    }

    fn customers_only(&self) -> &[bool] {
        self.policy.customers_only()
    }

    fn stands_by(&self, shuttle: Shuttle) -> bool {
        self.policy.stands_by(shuttle)
    }

    fn deadline(&self, panel: &Panel) -> Option<Micros> {
        self.policy.deadline(panel)
    }

    fn reads_by_track(&self) -> bool {
        self.policy.reads_by_track()
    }
}

fn asked<P: Policy + 'static>(scenario: &Scenario, seed: u64, always: bool, policy: impl Fn(&Layout) -> P) -> Run {
    let policy = |layout: &Layout| -> Box<dyn Policy> { Box::new(Asked { policy: policy(layout), always }) };
    let run = run_with_policy(scenario, seed, policy).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(run.censored(), 0, "every request ends");
    run
}

/// Bursts with work for half of the shuttles, with 1,900 platters.
fn bursts(change: fn(&mut Scenario)) -> Scenario {
    let mut scenario = Scenario { platters: 1_900, ..Scenario::default() };
    (scenario.run.warm_up, scenario.run.measured) = (minutes(10), minutes(110));
    scenario.workload.rate = 0.3;
    scenario.workload.bursts.period = Micros::HOUR;
    (scenario.workload.bursts.count, scenario.workload.bursts.arrivals) = (1, 400);
    change(&mut scenario);
    scenario
}

fn fault(what: Breakdown) -> LibraryFault {
    LibraryFault { library: Library(0), at: minutes(40), what }
}

fn scenarios() -> [(&'static str, Scenario); 7] {
    [
        ("20 shuttles", bursts(|_| ())),
        ("skew, 40 shuttles", bursts(|scenario| (scenario.workload.zipf, scenario.layout.shuttles) = (1.2, 40))),
        (
            "10 drives, one fails",
            bursts(|scenario| {
                scenario.layout.drives = [5, 5];
                scenario.faults = vec![fault(Breakdown::DriveDown(Drive(4)))];
            }),
        ),
        (
            "much is written, and batteries run low",
            bursts(|scenario| {
                scenario.verification = fulgurite_library::Verification::Written;
                scenario.ingest =
                    Some(Ingest { bytes_per_day: 50_000_000_000_000, sigma: 0.0, persistence: 0.0, room: 190, ..Ingest::default() });
                scenario.mechanics.battery = Some(Battery { capacity_j: 20e3, low_j: 12e3, ..Battery::default() });
            }),
        ),
        (
            "accounts of hours on one platter",
            bursts(|scenario| {
                scenario.workload.rate = 0.6;
                (scenario.workload.bursts.arrivals, scenario.workload.bursts.account_files) = (1, 1_200);
                scenario.workload.bursts.mean_bytes = 45_000_000;
                scenario.workload.bursts.largest_bytes = 1_000_000_000;
            }),
        ),
        ("10 % unavailable", bursts(|scenario| scenario.sets.unavailable = 0.1)),
        ("a shuttle stops", bursts(|scenario| scenario.faults = vec![fault(Breakdown::ShuttleStops(Shuttle(3)))])),
    ]
}

#[test]
fn policies_that_ignore_the_time_do_the_same() {
    fn same<P: Policy + 'static>(name: &str, scenario: &Scenario, policy: impl Fn(&Layout) -> P + Copy) {
        let [mut often, mut seldom] = [true, false].map(|always| asked(scenario, 1, always, policy));
        let figures = |run: &mut Run| (run.longest_s(), run.percentile_s(0.5), format!("{:?} {:?}", run.drives, run.shuttles));
        assert_eq!(figures(&mut often), figures(&mut seldom), "{name}");
        assert!(often.shuttles.operations > 400, "{name}");
        assert_eq!(often.shuttles.charging > 0.0, scenario.mechanics.battery.is_some(), "{name}");
        assert!(often.drives.tracks_verified > 0, "{name}");
    }
    for (name, scenario) in &scenarios() {
        same(name, scenario, |layout| Partitioned::new(layout, Some(100)));
        same(name, scenario, |_| ShortestPaths);
    }
}

#[test]
fn balanced_is_as_fast() {
    for (name, scenario) in scenarios() {
        let pace: Pace = scenario.pace();
        // The median shows what a shuttle could have fetched earlier, the tail what it forgot.
        for quantile in [0.5, 0.999] {
            let [often, seldom] = [true, false].map(|always| {
                let policy = |layout: &Layout| Balanced::new(layout, &pace, Techniques::default());
                (1..=3).map(|seed| asked(&scenario, seed, always, policy).percentile_s(quantile)).sum::<f64>()
            });
            println!("{name}, {quantile}: {often:.1} s when asked often, {seldom:.1} s");
            assert!(seldom <= 1.05 * often, "{name}, {quantile}: {often} s when asked often, {seldom} s");
        }
    }
}
