//! x
mod support;

use fulgurite_twin::scenario::PolicyName;

#[test]
fn probe() {
    let mut failed = 0;
    for (_, policy) in PolicyName::ALL {
        for (shuttles, rate) in [(8, 0.2), (20, 0.4), (40, 0.4), (20, 0.7)] {
            for seed in 1..11 {
                let t = std::time::Instant::now();
                let mut scenario = support::small(policy, shuttles, rate);
                if std::env::var("FAULTS").is_ok() {
                    scenario.mechanics.faults.shuttle_hours = 2.0;
                    scenario.mechanics.faults.drive_hours = 10.0;
                    scenario.mechanics.faults.repair_s = 600.0;
                }
                if std::env::var("LIBS").is_ok() {
                    scenario.libraries = 3;
                    scenario.sets.unavailable = 0.1;
                }
                let result = std::panic::catch_unwind(|| support::checked(&scenario, seed));
                failed += usize::from(result.is_err());
                println!("{policy:?} {shuttles} {seed} {:?} {}", t.elapsed(), result.map(|c| format!("{} {} guests {} {:?}", c.commands, c.requests, c.guests, c.stations[0])).unwrap_or("FAILED".into()));
            }
        }
    }
    println!("{failed} failed");
}
