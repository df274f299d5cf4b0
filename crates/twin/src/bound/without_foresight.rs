//! The bound for policies without knowledge of future requests, where requests fall on platters
//! evenly and independently.
//!
//! Let W be the waiting work of the shuttles: for each platter that is waited for, its least
//! handling and the least empty way to it. Shuttles that never stop complete `servers` seconds of
//! it per second, whichever platters they choose. A platter of work h that isn't waited for adds h
//! when it is requested, and each is requested at the same rate r. So W grows by r times the work
//! of all platters not waited for, which is r x (all work - W): the mean course of W depends on W
//! alone, and on no choice of the policy. The work that waits at its height takes W / servers from
//! then on, and the last request waits that long. Only a policy that knows which platters will be
//! requested again soon can postpone those, and so have fewer waiting.
//!
//! ```text
//!   W |        .:.              height: what was requested up to here
//!     |      .:   ':.           takes  W / servers  from here on
//!     |    .:        ':.
//!     +---:-------------':----> time
//! ```
//!
//! W is followed along the arrivals of the run, with shuttles that lose no time and take the oldest
//! platter first. A platter under way may be requested again until it is done; the shuttle that has
//! just put it back could then fetch it without an empty way, but this is left out. Another order
//! gives a height that differs only by chance, by a few platters among thousands.

use std::collections::VecDeque;

use fulgurite_domain::Micros;

use super::Job;
use super::servers::Servers;

/// The least expected longest completion time after `excluded` requests are excluded; 0 if shuttles
/// are no limit.
pub(super) fn lower_bound(servers: &Servers, jobs: &[Job], excluded: u64) -> Micros {
    let Some(shuttles) = servers.shuttles else { return Micros::ZERO };
    // The excluded requests may be the only ones for the platters that take longest, and what is
    // under way at the height may be half done or need no return.
    let saved_s = (excluded as f64 + servers.places) * servers.visiting_most_s;
    Micros::from_seconds(((highest_work_s(servers, shuttles, jobs) - saved_s) / shuttles).max(0.0))
}

/// The most work that waits at once, in seconds of a shuttle.
fn highest_work_s(servers: &Servers, shuttles: f64, jobs: &[Job]) -> f64 {
    let mut is_waiting = vec![false; servers.visiting_s.len()];
    let mut line: VecDeque<(usize, f64)> = VecDeque::new();
    let (mut waiting_s, mut highest_s, mut now_s) = (0.0, 0.0_f64, 0.0);
    for job in jobs {
        let mut done_s = (job.at_s - now_s) * shuttles;
        now_s = job.at_s;
        while let Some((platter, left_s)) = line.front_mut() {
            let part_s = left_s.min(done_s);
            (done_s, waiting_s) = (done_s - part_s, waiting_s - part_s);
            *left_s -= part_s;
            if *left_s > 0.0 {
                break;
            }
            is_waiting[*platter] = false;
            line.pop_front();
        }
        let platter = job.platter as usize;
        if !std::mem::replace(&mut is_waiting[platter], true) {
            line.push_back((platter, servers.visiting_s[platter]));
            waiting_s += servers.visiting_s[platter];
            highest_s = highest_s.max(waiting_s);
        }
    }
    highest_s
}
