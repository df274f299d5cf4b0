//! The search for the longest infeasible time, window by window.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fulgurite_domain::Micros;

use super::servers::Servers;
use super::{ByServer, Job};

/// The work of one library, and the windows that don't depend on the tested time.
pub(super) struct Work<'a> {
    shuttles: Option<PooledServers<'a>>,
    drives: PooledServers<'a>,
    platter_periods: Vec<PlatterPeriod>,
}

impl<'a> Work<'a> {
    /// `jobs` are in time order.
    pub(super) fn new(servers: &'a Servers, jobs: &'a [Job]) -> Self {
        let shuttles = servers.shuttles.map(|shuttles| PooledServers::new(servers, jobs, shuttles, ServerKind::Shuttles));
        Self {
            shuttles,
            drives: PooledServers::new(servers, jobs, servers.drives, ServerKind::Drives),
            platter_periods: platter_periods(jobs),
        }
    }

    /// The bound of each kind of server if `excluded` requests are excluded.
    pub(super) fn lower_bounds(&self, excluded: u64) -> ByServer<Micros> {
        let pooled = |work: &PooledServers<'_>| longest_infeasible(work.wait_max_s, |time_s| work.is_infeasible(time_s, excluded));
        let platter_wait_max_s = self.platter_periods.iter().map(|period| period.waiting_s).fold(0.0, f64::max);
        ByServer {
            shuttles: self.shuttles.as_ref().map_or(Micros::ZERO, pooled),
            drives: pooled(&self.drives),
            platter: longest_infeasible(platter_wait_max_s, |time_s| {
                self.platter_periods.iter().map(|period| period.exclusions_needed(time_s)).sum::<u64>() > excluded
            }),
        }
    }
}

/// The largest time found to be infeasible, to a thousandth; 0 if no time of a second or more is.
/// All times above `wait_max_s` are feasible.
fn longest_infeasible(wait_max_s: f64, is_infeasible: impl Fn(f64) -> bool) -> Micros {
    /// 2^27 s are four years.
    const DOUBLINGS: i32 = 27;
    // Windows depend on the time, so a longer time may be found infeasible where a shorter one is
    // not.
    let mut powers = (0..DOUBLINGS).rev().map(|exponent| f64::from(1_u32 << exponent)).filter(|power| *power <= wait_max_s);
    let Some(mut low) = powers.find(|time_s| is_infeasible(*time_s)) else { return Micros::ZERO };
    let mut high = 2.0 * low;
    while high - low > low * 1e-3 {
        let middle = (low + high) / 2.0;
        if is_infeasible(middle) { low = middle } else { high = middle }
    }
    Micros((low * 1e6) as u64)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerKind {
    Shuttles,
    Drives,
}

/// Servers that share the work of all platters.
struct PooledServers<'a> {
    servers: &'a Servers,
    jobs: &'a [Job],
    /// Number of servers: seconds of work completed per second.
    rate: f64,
    kind: ServerKind,
    /// Busy periods with one visit per platter.
    single_visit_windows: Vec<Window>,
    /// The longest wait if each request has a visit of its own.
    wait_max_s: f64,
    /// By platter, the instant or the number of the period until which a job needs no visit of its
    /// own. Kept to reuse its memory.
    hit_until: RefCell<Vec<f64>>,
}

/// Consecutive jobs, from the beginning of a busy period to the instant when most work waits.
#[derive(Debug, Clone, Copy)]
struct Window {
    first: usize,
    /// One past the last job.
    end: usize,
    /// The work that waits at the end, in seconds of a server.
    waiting_s: f64,
}

/// Finds the busy periods of servers that share out the work without loss.
struct BusyPeriods {
    rate: f64,
    waiting_s: f64,
    last_arrival_s: f64,
    open: Window,
}

impl BusyPeriods {
    fn new(rate: f64) -> Self {
        Self { rate, waiting_s: 0.0, last_arrival_s: 0.0, open: Window { first: 0, end: 0, waiting_s: 0.0 } }
    }

    /// Advances to the arrival of a job. Returns the busy period that this ends, if any.
    fn advance_to(&mut self, index: usize, at_s: f64) -> Option<Window> {
        self.waiting_s -= self.rate * (at_s - self.last_arrival_s);
        self.last_arrival_s = at_s;
        if self.waiting_s > 0.0 {
            return None;
        }
        self.waiting_s = 0.0;
        Some(std::mem::replace(&mut self.open, Window { first: index, end: index, waiting_s: 0.0 }))
    }

    fn add(&mut self, index: usize, work_s: f64) {
        self.waiting_s += work_s;
        if self.waiting_s > self.open.waiting_s {
            self.open.waiting_s = self.waiting_s;
            self.open.end = index + 1;
        }
    }
}

impl<'a> PooledServers<'a> {
    fn new(servers: &'a Servers, jobs: &'a [Job], rate: f64, kind: ServerKind) -> Self {
        let hit_until = RefCell::new(vec![f64::NEG_INFINITY; servers.handling_s.len()]);
        let mut pooled = Self { servers, jobs, rate, kind, single_visit_windows: Vec::new(), wait_max_s: 0.0, hit_until };
        pooled.single_visit_windows = pooled.windows(None);
        pooled.wait_max_s = pooled.windows(Some(0.0)).iter().map(|window| window.waiting_s / rate).fold(0.0, f64::max);
        pooled
    }

    fn visit_s(&self, platter: u32) -> f64 {
        match self.kind {
            ServerKind::Shuttles => self.servers.handling_s[platter as usize],
            ServerKind::Drives => self.servers.visit_s,
        }
    }

    fn visit_most_s(&self) -> f64 {
        match self.kind {
            ServerKind::Shuttles => self.servers.handling_most_s,
            ServerKind::Drives => self.servers.visit_s,
        }
    }

    fn time_s(&self, job: &Job) -> f64 {
        match self.kind {
            ServerKind::Shuttles => 0.0,
            ServerKind::Drives => job.drive_s,
        }
    }

    /// Busy periods with more waiting work than fits into `time_s`. Without a time: all busy
    /// periods, with one visit per platter and period.
    fn windows(&self, time_s: Option<f64>) -> Vec<Window> {
        let mut hit_until = self.hit_until.borrow_mut();
        hit_until.fill(f64::NEG_INFINITY);
        let mut busy = BusyPeriods::new(self.rate);
        let mut windows = Vec::new();
        let least_s = self.rate * time_s.unwrap_or(0.0);
        let mut period = 0.0;
        for (index, job) in self.jobs.iter().enumerate() {
            if let Some(window) = busy.advance_to(index, job.at_s) {
                windows.extend((window.waiting_s > least_s).then_some(window));
                period += 1.0;
            }
            let hit_until = &mut hit_until[job.platter as usize];
            // With no time given, a hit lasts for the rest of the period; otherwise for `time_s`.
            let (now, until) = time_s.map_or((period, period + 1.0), |time_s| (job.at_s, job.at_s + time_s));
            let is_visit = now >= *hit_until;
            if is_visit {
                *hit_until = until;
            }
            let visit_s = if is_visit { self.visit_s(job.platter) } else { 0.0 };
            busy.add(index, visit_s + self.time_s(job));
        }
        windows.extend((busy.open.waiting_s > least_s).then_some(busy.open));
        windows
    }

    /// True if more than `excluded` requests must take longer than `time_s`.
    fn is_infeasible(&self, time_s: f64, excluded: u64) -> bool {
        self.is_overloaded(&self.single_visit_windows, time_s, excluded)
            || self.is_overloaded(&self.windows(Some(time_s)), time_s, excluded)
    }

    fn is_overloaded(&self, windows: &[Window], time_s: f64, excluded: u64) -> bool {
        let mut needed = 0;
        let mut overloaded = windows.iter().filter(|window| window.waiting_s > self.rate * time_s);
        overloaded.any(|window| {
            needed += self.exclusions_in(window, time_s);
            needed > excluded
        })
    }

    /// The least number of requests of a window that must take longer than `time_s`.
    fn exclusions_in(&self, window: &Window, time_s: f64) -> u64 {
        let jobs = &self.jobs[window.first..window.end];
        let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return 0 };
        let length_s = last.at_s - first.at_s + time_s;
        let mut hit_until = self.hit_until.borrow_mut();
        hit_until.fill(f64::NEG_INFINITY);
        let (mut work_s, mut repeat_visits_s) = (0.0, 0.0);
        let mut gaps_s = Vec::new();
        for job in jobs {
            let hit_until = &mut hit_until[job.platter as usize];
            if job.at_s >= *hit_until {
                let visit_s = self.visit_s(job.platter);
                if hit_until.is_finite() {
                    gaps_s.push(job.at_s - *hit_until);
                    repeat_visits_s += visit_s;
                } else {
                    work_s += visit_s;
                }
                *hit_until = job.at_s + time_s;
            }
            work_s += self.time_s(job);
        }
        work_s += (repeat_visits_s - self.saved_by_holding_s(gaps_s, length_s)).max(0.0);
        let excess_s = work_s - self.rate * length_s - self.edges_s();
        if excess_s > 0.0 { self.exclusions_to_save(excess_s, jobs) } else { 0 }
    }

    /// Work that may be done before or after a window.
    fn edges_s(&self) -> f64 {
        match self.kind {
            ServerKind::Shuttles => self.servers.places * self.servers.handling_most_s,
            ServerKind::Drives => 2.0 * self.servers.drives * (self.servers.visit_s + self.servers.seek_s),
        }
    }

    /// Work saved by platters that are held from one visit to the next.
    fn saved_by_holding_s(&self, mut gaps_s: Vec<f64>, length_s: f64) -> f64 {
        gaps_s.sort_unstable_by(f64::total_cmp);
        let room_s = self.servers.places * length_s;
        let mut held_s = 0.0;
        let saved = gaps_s.iter().take_while(|gap_s| {
            held_s += **gap_s;
            held_s <= room_s
        });
        saved.count() as f64 * self.visit_most_s()
    }

    /// The number of requests to exclude to save `excess_s` of work, those that save most first.
    fn exclusions_to_save(&self, excess_s: f64, jobs: &[Job]) -> u64 {
        let mut savings: Vec<(u64, f64)> = Vec::with_capacity(jobs.len());
        for job in jobs {
            let saved_s = self.visit_s(job.platter) + self.time_s(job);
            match savings.last_mut() {
                // The shards of a request follow one another.
                Some((request, sum_s)) if *request == job.request => *sum_s += saved_s,
                _ => savings.push((job.request, saved_s)),
            }
        }
        savings.sort_unstable_by(|(_, a), (_, b)| b.total_cmp(a));
        let mut saved_s = 0.0;
        let too_few = savings.iter().take_while(|(_, saving_s)| {
            saved_s += saving_s;
            saved_s < excess_s
        });
        too_few.count() as u64 + 1
    }
}

/// The reads of one platter in a busy period of its own: its drive reads for one request at a time.
#[derive(Debug)]
struct PlatterPeriod {
    /// The most reading that waits at once, in seconds.
    waiting_s: f64,
    /// Cumulative sums of the reads up to then, longest first.
    sums_s: Vec<f64>,
}

impl PlatterPeriod {
    fn exclusions_needed(&self, time_s: f64) -> u64 {
        let excess_s = self.waiting_s - time_s;
        if excess_s > 0.0 { self.sums_s.partition_point(|sum_s| *sum_s < excess_s) as u64 + 1 } else { 0 }
    }
}

/// The busy periods of all platters. Requests with several shards are ignored, so that no request
/// counts for two platters.
fn platter_periods(jobs: &[Job]) -> Vec<PlatterPeriod> {
    let mut by_platter: BTreeMap<u32, Vec<&Job>> = BTreeMap::new();
    for job in jobs.iter().filter(|job| !job.has_other_shards) {
        by_platter.entry(job.platter).or_default().push(job);
    }
    let mut platter_periods = Vec::new();
    for jobs in by_platter.values() {
        let mut busy = BusyPeriods::new(1.0);
        let mut close = |window: Window| {
            // A single read makes no other wait; its seek may cost nothing if the head is already
            // there.
            if window.end - window.first > 1 {
                let mut sums_s: Vec<f64> = jobs[window.first..window.end].iter().map(|job| job.drive_s).collect();
                sums_s.sort_unstable_by(|a, b| b.total_cmp(a));
                let mut sum_s = 0.0;
                for part_s in &mut sums_s {
                    sum_s += *part_s;
                    *part_s = sum_s;
                }
                platter_periods.push(PlatterPeriod { waiting_s: window.waiting_s, sums_s });
            }
        };
        for (index, job) in jobs.iter().enumerate() {
            if let Some(window) = busy.advance_to(index, job.at_s) {
                close(window);
            }
            busy.add(index, job.drive_s);
        }
        close(busy.open);
    }
    platter_periods
}
