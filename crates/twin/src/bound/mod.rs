//! A lower bound on completion times that no policy can beat on the same hardware, computed from
//! the arrivals alone.
//!
//! Assume that no request takes longer than T. Then all work that arrives between a and c is done
//! within (a, c + T], and the servers can do only so much work in that interval.
//!
//! ```text
//!         a          c                c + T
//!   ------|-|-||-|-|-|------------------|------> time
//!         arrivals                      latest end
//!
//!   work that arrives in [a, c]  <=  servers x (c - a + T)
//! ```
//!
//! There are three kinds of servers:
//! - *Shuttles.* Each visit of a platter to a drive costs a shuttle a pick, a carry to a drive and
//!   a place, and the same again on the way home. No carry is shorter than the one to the nearest
//!   drive. Requests for one platter can share a visit only if their intervals (arrival, arrival +
//!   T] have a common instant, so a platter needs as many visits as the least number of instants
//!   that hit all of these intervals. The greedy count gives it: an instant is the end of the first
//!   interval that it hits, and a request that arrives at or after that instant starts a new one.
//! - *Drives.* A visit costs a drive a mount and an unmount. Each request costs the reading of its
//!   tracks, plus a seek unless some other request of the run ends where it begins, for the same
//!   platter or for an unavailable one of its set.
//! - *The platter itself.* It is in one drive at a time, so its requests are read one after
//!   another.
//!
//! Everything that could reduce the work is subtracted:
//! - *Edges.* At a and at c + T, as many platters may be on their way as drives and shuttles can
//!   hold. A fetch before a (with the seek for the next read), or a return after c + T, falls
//!   outside the window.
//! - *Holding on.* A platter kept in a drive or on a shuttle from the last instant of one visit to
//!   the first request of the next saves a visit, but occupies a place meanwhile. The number of
//!   places is limited; the shortest gaps are saved first.
//! - *The tail.* A percentile excludes some requests. Each excluded request saves at most one visit
//!   for each of its platters and the reading of its tracks. Those that save most are excluded
//!   first, and a request excluded from one window is not excluded from another.
//!
//! If some window has too much work for a given T, no policy achieves that T; the bound is the
//! largest such T found. The choice of windows affects only how tight the bound is, not whether it
//! holds. The windows are the busy periods of the servers if work could be shared out without loss:
//! once with one visit per platter and period, and once with as many visits as T requires. Random
//! times are replaced by their means, which is accurate for the number of visits that make up a
//! tail. It isn't exact if one platter or drive decides: in bursts of reads of one platter, the
//! longest request took up to 0.7 % less than its bound with default seeks (3,000 reads and more),
//! and 8 % less with exponential reading times (300 and more). All hardware is assumed to work all
//! the time: while a fault makes a platter unreachable, reads of the rest of its set replace it,
//! and they may cost less. Requests for unavailable platters are ignored.

mod servers;
mod windows;
mod without_foresight;

use fulgurite_domain::Micros;
use fulgurite_library::{Library, RegionPlatter, Tracks};

use crate::scenario::{Scenario, Stock};
use servers::Servers;

/// Bounds on what a policy can achieve, and two figures to compare with: `one_sweep` and
/// `platters_per_second`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bound {
    /// The 99.9th percentile of completion times is at least this.
    pub tail: Micros,
    /// The longest completion time is at least this.
    pub longest: Micros,
    /// Lower bound on the expected tail, from shuttles alone, for policies without knowledge of
    /// future requests. Only set if requests fall on platters evenly and independently.
    pub unforeseen: Option<Micros>,
    /// Time that a library's shuttles take to fetch every requested platter and return it once,
    /// including the empty trip from the nearest platter or drive. If all platters are requested
    /// over and over, the last in each round waits this long. 0 without shuttles.
    pub one_sweep: Micros,
    /// The bound on the tail from each kind of server alone.
    pub tails: ByServer<Micros>,
    /// Most platters a second that each kind can handle in the long run: for shuttles, with the
    /// mean distance from platters to their nearest drives; for drives, with one track read at each
    /// visit.
    /// Infinite for a kind without a limit.
    pub platters_per_second: ByServer<f64>,
}

/// A figure for each kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ByServer<T> {
    /// Shuttles; irrelevant for policies that use none.
    pub shuttles: T,
    /// Drives.
    pub drives: T,
    /// The platter itself, in one drive at a time.
    pub platter: T,
}

/// The bounded tail begins above this share of requests.
pub const TAIL_QUANTILE: f64 = 0.999;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Micros,
    pub(crate) request: u64,
    pub(crate) platter: RegionPlatter,
    pub(crate) tracks: Tracks,
    /// True if the request has other shards.
    pub(crate) has_other_shards: bool,
    /// True if it arrived in the measured interval.
    pub(crate) is_measured: bool,
}

/// A measured read of an available platter, in one library.
#[derive(Debug, Clone, Copy)]
struct Job {
    at_s: f64,
    request: u64,
    platter: u32,
    /// Time of a drive, including the seek that the read needs.
    drive_s: f64,
    has_other_shards: bool,
}

/// Above this many reads (64 MB) no arrivals are kept and no bound is computed.
pub(crate) const ARRIVALS_MAX: usize = 2_000_000;

impl Bound {
    /// The bound for `arrivals`, in time order, of `requests` requests in total.
    pub(crate) fn of(scenario: &Scenario, stock: &Stock, arrivals: &[Arrival], requests: u64) -> Self {
        // By nearest rank, like the percentile itself.
        let excluded = requests - ((requests as f64 * TAIL_QUANTILE).ceil() as u64).min(requests);
        let mut bound = Self::default();
        let mut ends: Vec<(RegionPlatter, u32)> = arrivals.iter().map(|arrival| (arrival.platter, arrival.tracks.end())).collect();
        ends.sort_unstable();
        let set_of = |platter: RegionPlatter| platter.0 / u32::from(stock.sets.shape.platters());
        // Each read of an unavailable platter is replaced by reads of the same tracks of others of
        // its set, and the head is then at their end.
        let is_unavailable = |platter: &RegionPlatter| stock.unavailable.binary_search(platter).is_ok();
        let replaced = arrivals.iter().filter(|arrival| is_unavailable(&arrival.platter));
        let mut recovery_ends: Vec<(u32, u32)> = replaced.map(|arrival| (set_of(arrival.platter), arrival.tracks.end())).collect();
        recovery_ends.sort_unstable();
        let needs_seek = |platter: RegionPlatter, first: u32| {
            ends.binary_search(&(platter, first)).is_err() && recovery_ends.binary_search(&(set_of(platter), first)).is_err()
        };
        let mut by_library: Vec<Vec<&Arrival>> = vec![Vec::new(); scenario.libraries.into()];
        for arrival in arrivals.iter().filter(|arrival| arrival.is_measured) {
            if !is_unavailable(&arrival.platter) {
                by_library[usize::from(stock.sets.places[arrival.platter.0 as usize].0.0)].push(arrival);
            }
        }
        let is_even = scenario.workload.trace.is_none() && scenario.workload.zipf == 0.0;
        let mut tail_without_foresight = Micros::ZERO;
        let mut capacity = ByServer { shuttles: 0.0, drives: 0.0, platter: f64::INFINITY };
        for (index, arrivals) in by_library.iter().enumerate() {
            let servers = Servers::of(scenario, stock, Library(index as u16));
            capacity.shuttles += servers.platters_by_shuttles();
            capacity.drives += servers.platters_by_drives();
            let job = |arrival: &&Arrival| Job {
                at_s: arrival.at.seconds(),
                request: arrival.request,
                platter: stock.sets.places[arrival.platter.0 as usize].1.0,
                drive_s: servers.reading_s(arrival.tracks.count)
                    + if needs_seek(arrival.platter, arrival.tracks.first) { servers.seek_s } else { 0.0 },
                has_other_shards: arrival.has_other_shards,
            };
            let jobs: Vec<Job> = arrivals.iter().map(job).collect();
            let platters = jobs.iter().map(|job| job.platter).collect();
            bound.one_sweep = bound.one_sweep.max(Micros::from_seconds(servers.sweep_s(&platters)));
            let work = windows::Work::new(&servers, &jobs);
            // The excluded requests may all belong to one library.
            tail_without_foresight = tail_without_foresight.max(without_foresight::lower_bound(&servers, &jobs, excluded));
            let (tails, longest) = (work.lower_bounds(excluded), work.lower_bounds(0));
            let largest = |of: &ByServer<Micros>| of.shuttles.max(of.drives).max(of.platter);
            bound.tails.shuttles = bound.tails.shuttles.max(tails.shuttles);
            bound.tails.drives = bound.tails.drives.max(tails.drives);
            bound.tails.platter = bound.tails.platter.max(tails.platter);
            bound.longest = bound.longest.max(largest(&longest));
            bound.tail = bound.tail.max(largest(&tails));
        }
        bound.longest = bound.longest.max(bound.tail);
        bound.unforeseen = is_even.then(|| tail_without_foresight.max(bound.tail));
        bound.platters_per_second = capacity;
        bound
    }
}

#[cfg(test)]
mod optimum;
#[cfg(test)]
mod tests;
