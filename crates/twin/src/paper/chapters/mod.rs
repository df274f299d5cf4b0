//! The chapters: the file of an experiment plans its runs and reports on them. `sweep` has two
//! chapters, and `grid` is shared by two.

mod ablation;
mod account_layout;
mod arithmetic;
mod congestion;
mod decoding;
mod deployment;
mod drives;
mod full_library;
mod grid;
mod sensitivity;
mod skew;
mod sweep;
mod unavailable;
mod workload;

use fulgurite_domain::Micros;

use super::PaperError;
use super::aggregate::{Estimate, Measured, Sample};
use super::chapter::{Chapter, compared, digits, percent, time, time_within};
use super::plan::{Plan, Point, Results};
use crate::scenario::{PolicyName, Scenario, Workload, WorkloadKind};
use fulgurite_plot::{self as plot, Axis, Figure, Panel};
use fulgurite_table::{Column, Table, Value};

/// Reports on the runs that a chapter planned.
pub(super) type Report = Box<dyn FnOnce(&Results) -> Result<Chapter, PaperError>>;

/// The names of all chapters, in the order of the page.
pub const NAMES: [&str; 14] = [
    "workload",
    "throughput",
    "shuttles",
    "drives",
    "congestion",
    "skew",
    "unavailable",
    "full-library",
    "overheads",
    "ablation",
    "accounts",
    "decode",
    "deployments",
    "sensitivity",
];

const PLANNERS: [fn(&mut Plan) -> Report; NAMES.len()] = [
    workload::plan,
    sweep::throughput,
    sweep::shuttles,
    drives::plan,
    congestion::plan,
    skew::plan,
    unavailable::plan,
    full_library::plan,
    arithmetic::plan,
    ablation::plan,
    account_layout::plan,
    decoding::plan,
    deployment::plan,
    sensitivity::plan,
];

pub(super) fn plan(plan: &mut Plan) -> Vec<Report> {
    let only = plan.settings().only.clone();
    let wanted = NAMES.into_iter().zip(PLANNERS).filter(|(name, _)| only.is_empty() || only.iter().any(|one| one == name));
    let planned = wanted.map(|(name, planner)| {
        plan.chapter = name;
        planner(plan)
    });
    planned.collect()
}

/// The three intervals, with their names in figures.
const INTERVALS: [(WorkloadKind, &str); 3] =
    [(WorkloadKind::Typical, "Typical"), (WorkloadKind::Iops, "IOPS"), (WorkloadKind::Volume, "Volume")];

/// The policies, in the same order and so in the same colours in all figures.
const POLICIES: [PolicyName; 4] = [PolicyName::NoShuttles, PolicyName::Partitioned, PolicyName::Balanced, PolicyName::ShortestPaths];

fn policy_label(policy: PolicyName) -> &'static str {
    match policy {
        PolicyName::NoShuttles => "no shuttles",
        PolicyName::ShortestPaths => "shortest paths",
        PolicyName::Partitioned => "partitioned",
        PolicyName::Balanced => "balanced",
    }
}

const BOUND_NAME: &str = "bound";

/// Time limit for the last byte: 15 hours (SOSP '23, section 2).
const SERVICE_LEVEL_S: f64 = 15.0 * 3_600.0;
const SERVICE_LEVEL: &str = "service level: 15 h";

/// An interval under a policy: 20 shuttles, 20 drives of 60 MB/s, 7,000 platters. A quick look
/// takes half an hour with a fifth of the requests and no bursts.
fn interval(plan: &Plan, kind: WorkloadKind, policy: PolicyName) -> Scenario {
    let mut scenario =
        Scenario { name: kind.text().to_owned(), title: String::new(), workload: Workload::preset(kind), ..Scenario::default() };
    scenario.policy.name = policy;
    if plan.settings().quick {
        (scenario.run.warm_up, scenario.run.measured) = (Micros(Micros::HOUR.0 / 6), Micros(Micros::HOUR.0 / 2));
        scenario.workload.bursts.count = 0;
        scenario.workload.rate *= 0.2;
    }
    scenario
}

/// A point of a sweep, with all seeds if it is the default library's (except on shortest paths).
fn point_of(plan: &mut Plan, scenario: &Scenario, is_reference: bool) -> Point {
    // Slow to simulate, and its tails are so far from the others' that fewer seeds show it.
    let is_slow = scenario.policy.name == PolicyName::ShortestPaths;
    if is_reference && !is_slow { plan.headline(scenario) } else { plan.point(scenario) }
}

fn at_throughput(mut scenario: Scenario, mb_s: f64) -> Scenario {
    scenario.mechanics.drive.throughput_bytes_s = mb_s * 1e6;
    scenario
}

fn with_shuttles(mut scenario: Scenario, shuttles: u16) -> Scenario {
    scenario.layout.shuttles = shuttles;
    scenario
}

fn tail_at(x: f64, sample: &Sample) -> plot::Point {
    plot_point(x, &sample.tail())
}

/// A point of a figure, with its interval if there are enough seeds.
fn plot_point(x: f64, estimate: &Estimate) -> plot::Point {
    plot::Point { x, y: estimate.mean, within: estimate.reliable_interval().map(|interval| (interval.low(), interval.high())) }
}

fn tails() -> Axis {
    Axis::seconds("99.9th percentile of completion times")
}

/// Adds the bound along a line of samples. A load too light to bound anything has no point.
fn with_bound<'r>(panel: Panel, samples: impl Iterator<Item = (f64, &'r Sample)>) -> Panel {
    let bound: Vec<(f64, f64)> = samples.filter_map(|(x, sample)| Some((x, sample.bound().filter(|bound| *bound > 0.0)?))).collect();
    if bound.is_empty() { panel } else { panel.bound(BOUND_NAME, bound) }
}

/// True if the service level is near enough to be drawn with such tails.
fn shows_service_level(longest_s: f64) -> bool {
    longest_s > SERVICE_LEVEL_S / 4.0
}
