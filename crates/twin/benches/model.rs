//! Events per second of a whole library, on one core:
//!
//! `cargo bench -p fulgurite-twin --bench model`
//!
//! The scenario is `scenarios/iops.toml`: 12 hours of the interval with the most reads, after 6 of
//! warm-up, one library with 20 shuttles, 20 drives of 60 MB/s and endless verification. Events are
//! those of [`Run::events`](fulgurite_twin::simulation::Run) over the whole run: arrivals and
//! everything that fell due, mostly answers of machines. Each round runs every policy once, so that
//! other load on the machine affects all alike; the median of the CPU time is shown.
//!
//! `-- partitioned` selects a policy, `-- --rounds 3` the number of rounds.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Instant;

use fulgurite_twin::scenario::{PolicyName, Scenario};
use fulgurite_twin::simulation::Repeated;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let after = |name: &str| arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1));
    let rounds: usize = after("--rounds").map_or(7, |count| count.parse().expect("--rounds takes a number"));
    let chosen: Vec<_> = PolicyName::ALL.into_iter().filter(|(text, _)| arguments.iter().any(|argument| argument == text)).collect();
    let policies = if chosen.is_empty() { PolicyName::ALL.to_vec() } else { chosen };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/iops.toml");
    let scenario = Scenario::read(&path, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    let mut seconds = vec![Vec::new(); policies.len()];
    let mut events = vec![0; policies.len()];
    for _ in 0..rounds {
        for (index, (_, name)) in policies.iter().enumerate() {
            let mut scenario = scenario.clone();
            scenario.policy.name = *name;
            // Platters are placed in advance, since runs usually share the placement.
            let repeated = Repeated::new(scenario);
            repeated.run(1).unwrap_or_else(|error| panic!("{error}"));
            let begin = cpu_seconds();
            let run = repeated.run(1).unwrap_or_else(|error| panic!("{error}"));
            seconds[index].push(cpu_seconds() - begin);
            events[index] = run.events;
        }
    }
    println!("policy           events    median of {rounds}   fastest   million events/s");
    for (index, (text, _)) in policies.iter().enumerate() {
        let times = &mut seconds[index];
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        println!("{text:<15} {:>8} {median:>10.2} s {:>9.2} s {:>14.2}", events[index], times[0], events[index] as f64 / median / 1e6);
    }
}

/// CPU seconds of this thread so far, or elapsed seconds if the system doesn't report them.
fn cpu_seconds() -> f64 {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let begin = *BEGIN;
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| begin.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}
