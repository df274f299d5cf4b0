//! Years without a slowdown, and slowdowns that begin on days of such a year.

use fulgurite_audit::slowdown::{Check, Detector, Direction, Event, Parameters, Status};

use super::peers::{Kind, Peer};
use super::world::{DAY, HOUR, Rate, START, Slowdown, World};

/// A slowdown that isn't named in this time counts as missed.
pub(crate) const PATIENCE: f64 = 60.0 * DAY;
/// Learning and some days more: no slowdown begins before.
const FIRST_DAY: f64 = 40.0 * DAY;

/// What a run is watched by.
#[derive(Clone)]
pub(crate) enum Watcher {
    Ours(Box<Detector>),
    Peer(Peer),
}

impl Watcher {
    pub(crate) fn ours(world: &World, parameters: Parameters) -> Self {
        Self::Ours(Box::new(Detector::new(world.expectation, parameters).expect("the study's parameters are valid")))
    }

    pub(crate) fn peer(kind: Kind) -> Self {
        Self::Peer(Peer::new(kind))
    }

    /// The time of an alarm, if there is one, after this check and until the next one.
    pub(crate) fn observe(&mut self, world: &World, check: Check) -> Option<f64> {
        match self {
            Self::Peer(peer) => peer.observe(world.expectation, check).then_some(check.at_s as f64),
            Self::Ours(detector) => {
                let mut alarm = None;
                for event in step(detector, check, world.now()) {
                    if let Event::Began(episode) = event
                        && episode.direction == Direction::Slower
                    {
                        alarm = Some(episode.named_s as f64);
                    }
                }
                alarm
            }
        }
    }

    fn is_quiet(&self) -> bool {
        match self {
            Self::Ours(detector) => matches!(detector.status(), Status::Usual { .. }),
            Self::Peer(_) => true,
        }
    }
}

/// Adds a check, and does what a timer would do until the next one.
pub(crate) fn step(detector: &mut Detector, check: Check, next: f64) -> impl Iterator<Item = Event> {
    let first = detector.observe(check);
    let end = detector.closes_at_s().filter(|end| (*end as f64) < next);
    first.into_iter().chain(end.and_then(|end| detector.advance(end)))
}

/// A year of a node, after learning.
#[derive(Debug, Clone, Default)]
pub(crate) struct Year {
    /// Slowdowns that the detector named, or days on which a peer alarmed. A peer that alarms
    /// all the time would have few alarms otherwise.
    pub(crate) alarms: Vec<u32>,
    /// For each watcher and each case, the delays of the slowdowns.
    pub(crate) delays: Vec<Vec<Vec<Option<Delay>>>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Delay {
    pub(crate) checks: u64,
    pub(crate) hours: f64,
}

/// A slowdown to try: its factor and the length of its ramp in seconds.
pub(crate) type Case = (f64, f64);

/// Runs a node for a year, and tries each case on the days of `starts`, each time from the state
/// that the watchers have on that day.
pub(crate) fn year(mut world: World, mut watchers: Vec<Watcher>, cases: &[Case], starts: &[f64]) -> Year {
    let mut alarms = vec![0; watchers.len()];
    let mut last = vec![f64::NEG_INFINITY; watchers.len()];
    let mut delays = vec![vec![Vec::new(); cases.len()]; watchers.len()];
    let end = START + 28.0 * DAY + 365.0 * DAY;
    let mut starts = starts.iter().map(|day| START + FIRST_DAY + day * DAY).peekable();
    while world.now() < end {
        if let Some(from) = starts.next_if(|start| *start <= world.now()) {
            for (watcher, delays) in watchers.iter().zip(&mut delays) {
                // An alarm that is on already would hide the slowdown.
                if watcher.is_quiet() {
                    for (case, delays) in cases.iter().zip(delays) {
                        delays.push(delay(world.clone(), watcher.clone(), *case, from));
                    }
                }
            }
        }
        let check = world.check(&[]);
        for (index, watcher) in watchers.iter_mut().enumerate() {
            if let Some(at) = watcher.observe(&world, check) {
                alarms[index] += u32::from(matches!(watcher, Watcher::Ours(_)) || last[index] != (at / DAY).floor());
                last[index] = (at / DAY).floor();
            }
        }
    }
    Year { alarms, delays }
}

fn delay(mut world: World, mut watcher: Watcher, (factor, ramp): Case, from: f64) -> Option<Delay> {
    let slowdown = [Slowdown { from, until: f64::INFINITY, ramp, factor }];
    let mut checks = 0;
    while world.now() < from + PATIENCE {
        let check = world.check(&slowdown);
        checks += 1;
        if let Some(at) = watcher.observe(&world, check) {
            return Some(Delay { checks, hours: (at - from) / HOUR });
        }
    }
    None
}

/// Median, 95th percentile and the share that was missed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) trials: usize,
    pub(crate) missed: f64,
    pub(crate) checks: (f64, f64),
    pub(crate) hours: (f64, f64),
}

impl Summary {
    /// Missed slowdowns count as infinite delays; without trials, all is missed.
    pub(crate) fn of(delays: &[Option<Delay>]) -> Self {
        let quantile = |value: fn(&Delay) -> f64, share: f64| {
            let mut values: Vec<f64> = delays.iter().map(|delay| delay.as_ref().map_or(f64::INFINITY, value)).collect();
            values.sort_unstable_by(f64::total_cmp);
            let index = (share * values.len() as f64).ceil() as usize;
            values.get(index.max(1) - 1).copied().unwrap_or(f64::INFINITY)
        };
        let both = |value: fn(&Delay) -> f64| (quantile(value, 0.5), quantile(value, 0.95));
        let missed = delays.iter().filter(|delay| delay.is_none()).count() as f64 / (delays.len().max(1)) as f64;
        Self { trials: delays.len(), missed, checks: both(|delay| delay.checks as f64), hours: both(|delay| delay.hours) }
    }
}

/// Rates and noise levels of the study.
pub(crate) fn settings() -> impl Iterator<Item = (Rate, f64)> {
    Rate::ALL.into_iter().flat_map(|rate| [(rate, 0.15), (rate, 0.5)])
}

/// Runs years with seeds from 0 on all cores. The order of the results is that of the seeds.
pub(crate) fn years_of<T: Send>(years: u32, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicU32::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if seed >= years {
                return done;
            }
            done.push((seed, run(u64::from(seed))));
        }
    };
    let mut results: Vec<(u32, T)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a run of the study must not panic")).collect()
    });
    results.sort_by_key(|(seed, _)| *seed);
    results.into_iter().map(|(_, result)| result).collect()
}
