//! x
mod support;

use fulgurite_twin::scenario::PolicyName;

#[test]
fn probe() {
    for (_, policy) in PolicyName::ALL {
        for shuttles in [8, 20, 40] {
            for seed in 1..4 {
                let t = std::time::Instant::now();
                let scenario = support::small(policy, shuttles, 0.5);
                eprintln!("{policy:?} {shuttles} {seed}");
                let result = std::panic::catch_unwind(|| support::checked(&scenario, seed));
                println!(
                    "{policy:?} {shuttles} {seed} {:?} {}",
                    t.elapsed(),
                    result.map(|c| format!("{} {} {:?}", c.commands, c.requests, c.stations[0])).unwrap_or("FAILED".into())
                );
            }
        }
    }
}
