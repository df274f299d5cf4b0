//! The bound that no policy can beat with the same hardware, from the arrivals themselves.
//!
//! Say that no request takes longer than T. What arrives between a and c is then done within (a, c + T], and that is only so long.
//!
//! ```text
//!         a          c                c + T
//!   ------|-|-||-|-|-|------------------|------>     work that arrives in [a, c]  <=  servers x (c - a + T)
//!         arrivals                      latest end
//! ```
//!
//! There are three kinds of servers:
//! - *Shuttles.* Each visit of a platter to a drive costs one a pick, a carry to a drive, a place, and the same back home; no carry is shorter
//!   than that to the nearest drive. Requests for one platter can share a visit only if one instant is in all of their (arrival, arrival + T],
//!   so a platter takes as many visits as the least number of instants that hit all of these intervals: the greedy count, a new one whenever
//!   a request arrives after the last one's instant, which is the end of the first interval it hits.
//! - *Drives.* A visit costs one a mount and an unmount, and each request the reading of its tracks, with a seek unless some other request
//!   of the run ends where it begins.
//! - *The platter itself.* It is in one drive at a time, so its requests are read one after another.
//!
//! Whatever might make less of the work is taken off:
//! - *Edges.* At a and at c + T, as many platters as drives and shuttles can hold may be on their way: a fetch before a, with the seek of
//!   whoever is read next, or a return after c + T, is none of this window's.
//! - *Holding on.* A platter that is kept in a drive, or on a shuttle, from one visit's last instant to the next one's first request saves a
//!   visit, and holds a place meanwhile. There are so many places; the shortest gaps are saved first.
//! - *The tail.* A percentile leaves some requests out. Each one left out saves at most a visit for each of its platters, and the reading of its
//!   tracks; the ones that save most are left out first, and what is left out in one window isn't in another.
//!
//! A T for which some window has too much work is beaten by no policy; the largest one found is the bound. Which windows are looked at makes it
//! no less true, only less sharp: they are the busy periods of the servers, as they would be if work could be shared out without loss, once with
//! one visit of each platter in each period, and once with as many as T takes. Times that are drawn at random count with their means, which is
//! good for as many visits as make a tail. All of the hardware works all of the time; requests for platters that can't be used are left away.

mod servers;
mod unforeseen;
mod windows;

use fulgurite_domain::Micros;
use fulgurite_library::{Library, RegionPlatter, Tracks};

use crate::scenario::{PolicyName, Scenario, Stock};
use servers::Servers;

/// What no policy can beat.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bound {
    /// The 99.9th percentile of completion times is at least this.
    pub tail: Micros,
    /// The longest completion time is at least this.
    pub longest: Micros,
    /// What the expected tail is at least under a policy that doesn't know what will be asked for, by shuttles alone. Only where requests fall on
    /// platters evenly and independently.
    pub unforeseen: Option<Micros>,
    /// What the shuttles of a library take to fetch all platters that are asked for and take them home once, each with the way from its nearest
    /// neighbour. If all platters are wanted again and again, whoever is last in turn waits that long. 0 without shuttles.
    pub sweep: Micros,
    /// What each kind of server alone says of the tail.
    pub tails: ByServer<Micros>,
    /// Platters a second that each kind can do at most, in a long time: for shuttles with the mean way of all platters to their nearest
    /// drives, for drives with one track read at each visit. Infinite for those that there is no bound on.
    pub platters_per_second: ByServer<f64>,
}

/// A figure for each kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ByServer<T> {
    /// Shuttles; of no effect where a policy needs none.
    pub shuttles: T,
    /// Drives.
    pub drives: T,
    /// The platter itself, in one drive at a time.
    pub platter: T,
}

/// The part of requests that the tail is above.
pub const TAIL: f64 = 0.999;

/// A read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Micros,
    pub(crate) request: u64,
    pub(crate) platter: RegionPlatter,
    pub(crate) tracks: Tracks,
    /// Whether the request has other shards.
    pub(crate) has_more: bool,
    /// Whether it arrived in the measured interval.
    pub(crate) counts: bool,
}

/// A read that counts, in one library.
#[derive(Debug, Clone, Copy)]
struct Job {
    at_s: f64,
    request: u64,
    platter: u32,
    /// Of a drive, with the seek that it needs.
    reading_s: f64,
    has_more: bool,
}

/// More reads than these are not kept, and there is no bound then: 80 MB.
pub(crate) const ARRIVALS_MAX: usize = 2_000_000;

impl Bound {
    /// The bound for these reads, in order of time, of so many requests.
    pub(crate) fn of(scenario: &Scenario, stock: &Stock, arrivals: &[Arrival], requests: u64) -> Self {
        // By nearest rank, as the percentile itself.
        let left_out = requests - ((requests as f64 * TAIL).ceil() as u64).min(requests);
        let mut bound = Self::default();
        let mut ends: Vec<(RegionPlatter, u32)> = arrivals.iter().map(|arrival| (arrival.platter, arrival.tracks.end())).collect();
        ends.sort_unstable();
        let mut by_library: Vec<Vec<&Arrival>> = vec![Vec::new(); scenario.libraries.into()];
        for arrival in arrivals.iter().filter(|arrival| arrival.counts) {
            if stock.unavailable.binary_search(&arrival.platter).is_err() {
                by_library[usize::from(stock.sets.places[arrival.platter.0 as usize].0.0)].push(arrival);
            }
        }
        let is_even = scenario.workload.trace.is_none() && scenario.workload.zipf == 0.0;
        let mut unforeseen = Micros::ZERO;
        let mut capacity = ByServer { shuttles: 0.0, drives: 0.0, platter: f64::INFINITY };
        for (index, arrivals) in by_library.iter().enumerate() {
            let servers = Servers::of(scenario, stock, Library(index as u16));
            capacity.shuttles += servers.platters_by_shuttles();
            capacity.drives += servers.platters_by_drives();
            let job = |arrival: &&Arrival| Job {
                at_s: arrival.at.seconds(),
                request: arrival.request,
                platter: stock.sets.places[arrival.platter.0 as usize].1.0,
                reading_s: servers.reading_s(arrival.tracks.count)
                    + if ends.binary_search(&(arrival.platter, arrival.tracks.first)).is_ok() { 0.0 } else { servers.seek_s },
                has_more: arrival.has_more,
            };
            let jobs: Vec<Job> = arrivals.iter().map(job).collect();
            let platters = jobs.iter().map(|job| job.platter).collect();
            bound.sweep = bound.sweep.max(Micros::from_seconds(servers.sweep_s(&platters)));
            let work = windows::Work::new(&servers, &jobs);
            // Requests left out may all be of one library.
            unforeseen = unforeseen.max(unforeseen::least(&servers, &jobs, left_out));
            let (tails, longest) = (work.least(left_out), work.least(0));
            let largest = |of: &ByServer<Micros>| of.shuttles.max(of.drives).max(of.platter);
            bound.tails.shuttles = bound.tails.shuttles.max(tails.shuttles);
            bound.tails.drives = bound.tails.drives.max(tails.drives);
            bound.tails.platter = bound.tails.platter.max(tails.platter);
            bound.longest = bound.longest.max(largest(&longest)).max(bound.tail);
            bound.tail = bound.tail.max(largest(&tails));
        }
        if scenario.policy.name == PolicyName::NoShuttles {
            capacity.shuttles = f64::INFINITY;
        }
        bound.longest = bound.longest.max(bound.tail);
        bound.unforeseen = is_even.then(|| unforeseen.max(bound.tail));
        bound.platters_per_second = capacity;
        bound
    }
}

#[cfg(test)]
mod tests;
