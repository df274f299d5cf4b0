//! Policies that know all future requests, in real runs: the bound holds for them too.
//!
//! [`Clairvoyant`] postpones a platter that will be requested again while its oldest request can
//! still wait, so that one visit serves both. This is the advantage that the bound grants to every
//! policy: fewer visits than any policy without foresight can hope for.

use std::fmt::Write as _;

use fulgurite_chance::Stream;
use fulgurite_domain::{Micros, SetShape};
use fulgurite_library::{Drive, Layout, Panel, Platter, Policy, Rectangle, Shuttle, Task, rectangles};
use fulgurite_twin::bound::TAIL_QUANTILE;
use fulgurite_twin::scenario::{PolicyChoice, PolicyName, Scenario, Workload, WorkloadKind};
use fulgurite_twin::simulation::{Run, run, run_with_policy};

/// Seconds of all arrivals of each platter, in order.
type Future = Vec<Vec<f64>>;

/// Ages of platters are compared by the minute; of the same age, the nearest is fetched.
const MINUTE: Micros = Micros(60_000_000);

/// Fetches the oldest platter, except that a platter waits for its next request if that arrives
/// within `patience_s` of its oldest one.
struct Clairvoyant {
    rectangles: Vec<Rectangle>,
    future: Future,
    patience_s: f64,
    /// Whether a shuttle idles when all of its platters wait for further requests.
    idles: bool,
}

impl Clairvoyant {
    fn next_arrival_s(&self, panel: &Panel, platter: Platter) -> f64 {
        let arrivals = self.future.get(platter.0 as usize).map_or(&[][..], Vec::as_slice);
        let now_s = panel.now().seconds();
        arrivals.get(arrivals.partition_point(|at_s| *at_s <= now_s)).copied().unwrap_or(f64::INFINITY)
    }

    fn task(&self, panel: &Panel, shuttle: Shuttle) -> Option<Task> {
        let own = self.rectangles.iter().find(|rectangle| panel.working_in(rectangle).any(|other| other == shuttle))?;
        let at = panel.position(shuttle);
        let near = |drive: &Drive| (panel.pace().travel(at, panel.layout().drive_position(*drive)), *drive);
        let released = own.drives.iter().copied().filter(|drive| panel.released_bay(*drive).is_some());
        let empty = own.drives.iter().copied().filter(|drive| panel.empty_bay(*drive).is_some() && panel.customers(*drive) <= 1);
        // A shuttle at a drive takes a platter home before it fetches the next.
        let released = released.min_by_key(near);
        if let Some(drive) = released.filter(|drive| empty.clone().next().is_none() || panel.layout().drive_position(*drive) == at) {
            return Some(Task::Collect { drive, bay: panel.released_bay(drive)? });
        }
        let fetch = empty.min_by_key(near).and_then(|drive| {
            let waiting = own.lanes.iter().flat_map(|lane| panel.queue().line(*lane));
            let key = |platter: &Platter| {
                let oldest = panel.queue().rank(*platter).map_or(panel.now(), |rank| rank.arrived);
                let is_postponed = self.next_arrival_s(panel, *platter) < oldest.seconds() + self.patience_s;
                let way = panel.pace().travel(at, panel.platter_position(*platter));
                (is_postponed, oldest.0 / MINUTE.0, way, *platter)
            };
            let best = waiting.min_by_key(key)?;
            (!self.idles || !key(&best).0).then_some(Task::Fetch { platter: best, drive })
        });
        fetch.or_else(|| released.and_then(|drive| Some(Task::Collect { drive, bay: panel.released_bay(drive)? })))
    }
}

impl Policy for Clairvoyant {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        panel.idle_shuttles().find_map(|shuttle| Some((shuttle, self.task(panel, shuttle)?)))
    }

    // A postponed platter becomes due without an event.
    fn deadline(&self, panel: &Panel) -> Option<Micros> {
        (self.idles && panel.queue().requests() > 0).then(|| panel.now() + Micros(10_000_000))
    }

    fn reads_by_track(&self) -> bool {
        true
    }
}

/// A library whose requests are known in advance.
struct Known {
    scenario: Scenario,
    future: Future,
    _folder: tempfile::TempDir,
}

impl Known {
    /// `requests` are seconds and platters.
    fn new(shuttles: u16, drives: [u8; 2], platters: u32, mut requests: Vec<(f64, u32)>) -> Self {
        requests.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut trace = String::from("arrival,file,bytes,platter,track\n");
        let mut future: Future = vec![Vec::new(); platters as usize];
        for (file, (at_s, platter)) in requests.iter().enumerate() {
            writeln!(trace, "{at_s:.6},{file},1000000,{platter},{}", file * 37 % 90_000).unwrap();
            future[*platter as usize].push(*at_s);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reads.csv");
        std::fs::write(&path, trace).unwrap();
        let mut scenario = Scenario {
            layout: Layout { storage_racks: 2, shuttles, drives, ..Layout::default() },
            platters,
            verification: fulgurite_library::Verification::Off,
            workload: Workload { trace: Some(path), ..Workload::preset(WorkloadKind::Trace) },
            ..Scenario::default()
        };
        scenario.sets.shape = SetShape { information: 1, redundancy: 0 };
        (scenario.run.warm_up, scenario.run.measured) = (Micros::ZERO, Micros(2 * Micros::HOUR.0));
        Self { scenario, future, _folder: folder }
    }

    fn clairvoyant(&self, patience_s: f64, idles: bool) -> Run {
        let policy = |layout: &Layout| -> Box<dyn Policy> {
            Box::new(Clairvoyant { rectangles: rectangles(layout), future: self.future.clone(), patience_s, idles })
        };
        run_with_policy(&self.scenario, 1, policy).unwrap_or_else(|error| panic!("{error}"))
    }

    fn ordinary(&self, name: PolicyName) -> Run {
        let scenario = Scenario { policy: PolicyChoice { name, ..PolicyChoice::default() }, ..self.scenario.clone() };
        run(&scenario, 1).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The bounds on the tail and on the longest completion time, each as a share of what a run took.
fn shares(run: &mut Run) -> [f64; 2] {
    let bound = run.bound.expect("few requests");
    [bound.tail.seconds() / run.percentile_s(TAIL_QUANTILE), bound.longest.seconds() / run.longest_s()]
}

/// Requests of a quarter of an hour: a burst at its beginning and others that follow it, on
/// platters of which the first are the most popular if `skew` is more than 1.
fn requests(seed: u64, platters: u32, burst: u32, others: u32, skew: f64) -> Vec<(f64, u32)> {
    let mut stream = Stream::new(seed, "known requests");
    let request = |index| {
        let at_s = if index < burst { stream.between(10.0, 11.0) } else { stream.between(10.0, 910.0) };
        (at_s, (stream.unit().powf(skew) * f64::from(platters)) as u32)
    };
    (0..burst + others).map(request).collect()
}

#[test]
fn no_clairvoyant_policy_beats_the_bound() {
    let mut found = Vec::new();
    for (shuttles, drives) in [(1, [1, 0]), (1, [2, 2]), (3, [2, 2]), (8, [5, 5]), (20, [10, 10])] {
        for (burst, others, skew) in [(200, 0, 1.0), (100, 300, 1.0), (0, 400, 3.0), (600, 600, 2.0)] {
            for seed in 0..6 {
                let known = Known::new(shuttles, drives, 200, requests(seed, 200, burst, others, skew));
                for (patience_s, idles) in [(0.0, false), (300.0, false), (900.0, true)] {
                    let run = &mut known.clairvoyant(patience_s, idles);
                    let [tail, longest] = shares(run);
                    assert!(
                        tail <= 1.0 && longest <= 1.0,
                        "{shuttles} shuttles, {drives:?} drives, {burst} + {others} requests, skew {skew}, seed {seed}, patience \
                         {patience_s} s: the tail is bounded by {tail} of itself, and the longest request by {longest}"
                    );
                    found.extend([tail, longest]);
                }
            }
        }
    }
    found.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| found[(part * (found.len() - 1) as f64) as usize];
    println!("bound / run: quartiles {:.3} {:.3} {:.3}, most {:.3}", at(0.25), at(0.5), at(0.75), at(1.0));
    assert!(at(1.0) > 0.6, "the best bound is only {} of a run", at(1.0));
}

/// All platters are requested at once. Before the burst is over, the platters that an ordinary
/// policy fetched first are requested again.
fn repeated_burst(shuttles: u16, drives: [u8; 2], again_s: f64) -> Known {
    let first = (0..200).map(|platter| (1.0 + f64::from(platter) * 1e-3, platter));
    let again = (0..100).map(|platter| (again_s + f64::from(platter) * 1e-3, platter));
    Known::new(shuttles, drives, 200, first.chain(again).collect())
}

#[test]
fn foresight_pays_where_platters_are_requested_again_but_not_beyond_the_bound() {
    let known = repeated_burst(1, [1, 0], 3_500.0);
    let run = &mut known.clairvoyant(5_000.0, false);
    let ordinary = [PolicyName::Partitioned, PolicyName::Balanced].map(|name| known.ordinary(name).longest_s());
    let (longest, [tail_share, longest_share]) = (run.longest_s(), shares(run));
    println!("longest: {longest} s with foresight, ordinary policies {ordinary:?}; bounds {tail_share:.3}, {longest_share:.3}");
    // `balanced` loses less on the way to the only drive, and so is nearer.
    let [partitioned, balanced] = ordinary;
    assert!(longest < 0.85 * partitioned && longest < 0.98 * balanced, "{longest} s with foresight, {ordinary:?} without");
    assert!(tail_share <= 1.0 && longest_share <= 1.0, "bounds: {tail_share} and {longest_share} of the run");
}

#[test]
fn a_bound_for_machines_twice_as_slow_is_noticed() {
    let mut known = repeated_burst(1, [1, 0], 3_500.0);
    let longest_s = known.clairvoyant(5_000.0, false).longest_s();
    let motion = &mut known.scenario.mechanics.motion;
    for time_s in [&mut motion.positioning_s, &mut motion.crab_s, &mut motion.pick_s, &mut motion.place_s] {
        *time_s *= 2.0;
    }
    (motion.speed_m_s, motion.acceleration_m_s2) = (motion.speed_m_s / 2.0, motion.acceleration_m_s2 / 4.0);
    let bound = known.clairvoyant(5_000.0, false).bound.expect("few requests");
    assert!(bound.longest.seconds() > longest_s, "{} s is not above {longest_s} s", bound.longest.seconds());
}
