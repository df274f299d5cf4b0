//! Calibrates the presets' levels against the only figures available for that: drives without
//! shuttles (SOSP '23, section 7: a drive loads its next platter as soon as it is free).
//!
//! The model is deliberately simple: 20 drives; platters in the order of their oldest request; 3 s
//! to turn to a platter, mount and unmount it; for each read a seek of 0.65 s unless it starts
//! where the last one ended; whole tracks at 60 MB/s. The twin models the full mechanics;
//! docs/paper.md has its results.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use fulgurite_workload::{Demand, Interval, Read};

const DRIVES: usize = 20;
const TURN_S: f64 = 1.0;
const MOUNT_AND_UNMOUNT_S: f64 = 2.0;
/// The mean of lognormal seeks with a median of 0.6 s.
const SEEK_S: f64 = 0.65;
const TRACK_S: f64 = 20.0 / 60.0;

struct Outcome {
    /// Share of time that drives work, excluding turns, in the second of three periods.
    utilization: f64,
    /// 99.9th percentile of completion times of the requests that arrive in it.
    tail_s: f64,
}

fn without_shuttles(interval: &Interval, seed: u64) -> Outcome {
    let mut spec = interval.spec().unwrap();
    spec.until.0 = 3 * interval.period.0;
    let mut arriving = Demand::new(&spec, seed).unwrap().peekable();
    let (begin, end) = (interval.period.seconds(), 2.0 * interval.period.seconds());
    let mut drives: BinaryHeap<Reverse<u64>> = (0..DRIVES).map(|_| Reverse(0)).collect();
    let mut order: VecDeque<u32> = VecDeque::new();
    let mut waiting: BTreeMap<u32, Vec<Read>> = BTreeMap::new();
    let mut completion_s: BTreeMap<u64, f64> = BTreeMap::new();
    let mut busy_s = 0.0;
    while let Some(Reverse(free)) = drives.pop() {
        let now = match (order.is_empty(), arriving.peek()) {
            (false, _) => free,
            (true, Some(read)) => free.max(read.at.0),
            (true, None) => break,
        };
        while let Some(read) = arriving.next_if(|read| read.at.0 <= now) {
            let of_platter = waiting.entry(read.platter).or_default();
            if of_platter.is_empty() {
                order.push_back(read.platter);
            }
            of_platter.push(read);
        }
        let platter = order.pop_front().expect("an arrived read has queued its platter");
        let mut reads = waiting.remove(&platter).expect("a queued platter has reads");
        reads.sort_by_key(|read| read.first_track);
        let start_s = now as f64 / 1e6 + TURN_S;
        let mut at_s = start_s + MOUNT_AND_UNMOUNT_S;
        let mut head = None;
        for read in reads {
            if head != Some(read.first_track) {
                at_s += SEEK_S;
            }
            at_s += f64::from(read.tracks) * TRACK_S;
            head = Some(read.first_track + read.tracks);
            if (begin..end).contains(&read.at.seconds()) {
                let completion = completion_s.entry(read.request).or_default();
                *completion = completion.max(at_s - read.at.seconds());
            }
        }
        busy_s += (at_s.min(end) - start_s.max(begin)).max(0.0);
        drives.push(Reverse((at_s * 1e6) as u64));
    }
    let mut sorted: Vec<f64> = completion_s.into_values().collect();
    sorted.sort_by(f64::total_cmp);
    Outcome { utilization: busy_s / (DRIVES as f64 * (end - begin)), tail_s: sorted[sorted.len() * 999 / 1000] }
}

#[test]
fn presets_load_drives_without_shuttles_as_published() {
    // Published: 6 %, 31 % and 26 % of the drives' time; tails of 2.6 minutes, 15 to 22 minutes and
    // 4.6 hours.
    for (name, interval, utilization, tail_s) in [
        ("typical", Interval::TYPICAL, 0.055..0.065, 100.0..180.0),
        ("iops", Interval::IOPS, 0.29..0.33, 900.0..1320.0),
        ("volume", Interval::VOLUME, 0.23..0.31, 15_900.0..17_300.0),
    ] {
        for seed in 0..2 {
            let found = without_shuttles(&interval, seed);
            println!("{name}, seed {seed}: {:.1} % of the time, tail {:.0} s", found.utilization * 100.0, found.tail_s);
            assert!(utilization.contains(&found.utilization), "{name}, seed {seed}: drives work {} of the time", found.utilization);
            assert!(tail_s.contains(&found.tail_s), "{name}, seed {seed}: a tail of {} s", found.tail_s);
        }
    }
}
