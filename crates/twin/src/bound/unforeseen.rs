//! The bound for policies that don't know what will be asked for, where requests fall on platters evenly and independently.
//!
//! Let W be the work of shuttles that waits: the least handling of each platter that is waited for, and the least empty way to it. Shuttles that
//! never stop take `servers` seconds of it a second, whichever platters they choose. A platter of work h that isn't waited for adds h when it is
//! asked for, and each is at the same rate r. So W grows by r times the work of all platters not waited for, which is r x (all work - W): how W
//! goes on, in the mean, depends on W and on nothing that a policy chooses. What waits at its height takes W / servers from then on, and so does whoever
//! is last. Only who knows which platters will be asked for again soon can leave those for later, and have fewer wait.
//!
//! ```text
//!   W |        .:.              height: what was asked for up to here
//!     |      .:   ':.           takes  W / servers  from here on
//!     |    .:        ':.
//!     +---:-------------':----> time
//! ```
//!
//! W is followed along the arrivals of the run, with shuttles that lose no time, and the oldest platter first. A platter that is under way may be
//! asked for again until it is done; that it could then be fetched without an empty way, by the shuttle that has just put it back, is left out. Another order gives a height that differs by chance alone, a few platters among thousands.

use std::collections::VecDeque;

use fulgurite_domain::Micros;

use super::Job;
use super::servers::Servers;

/// The least that the expected longest completion time can be, apart from so many requests; 0 if shuttles are no limit.
pub(super) fn least(servers: &Servers, jobs: &[Job], left_out: u64) -> Micros {
    let Some(shuttles) = servers.shuttles else { return Micros::ZERO };
    // Those left out were the only ones for platters that take longest; and what is under way at the height may be half done or need no return.
    let saved_s = (left_out as f64 + servers.places) * servers.visiting_most_s;
    Micros::from_seconds(((highest(servers, shuttles, jobs) - saved_s) / shuttles).max(0.0))
}

/// The most work that waits at once, in seconds of a shuttle.
fn highest(servers: &Servers, shuttles: f64, jobs: &[Job]) -> f64 {
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
