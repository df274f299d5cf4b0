//! Prints how policies compare with the bound and with each other over a grid of scenarios:
//!
//! `cargo run --release -p fulgurite-twin --example policy_grid -- [iops|volume|typical ...]
//! [partitioned|...] [--seeds N] [--set NAME=VALUE] [--vary NAME=VALUES]`

use std::path::Path;
use std::time::Instant;

use fulgurite_settings::{Override, Sweep};
use fulgurite_twin::scenario::{PolicyName, Scenario};
use fulgurite_twin::simulation::Repeated;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let all_after = |name: &str| -> Vec<String> { arguments.windows(2).filter(|two| two[0] == name).map(|two| two[1].clone()).collect() };
    let seeds: u64 = all_after("--seeds").first().map_or(1, |text| text.parse().expect("a number of seeds"));
    let named = |text: &str| arguments.iter().any(|argument| argument == text);
    let traces: Vec<&str> = ["typical", "iops", "volume"].into_iter().filter(|trace| named(trace)).collect();
    let traces = if traces.is_empty() { vec!["typical", "iops", "volume"] } else { traces };
    let policies: Vec<_> = PolicyName::ALL.into_iter().filter(|(text, _)| named(text)).collect();
    let policies = if policies.is_empty() { PolicyName::ALL[2..].to_vec() } else { policies };
    let fixed: Vec<Override> = all_after("--set").iter().map(|text| Override::parse("--set", text).unwrap()).collect();
    let varied = all_after("--vary");
    let sweep = Sweep::parse(varied.iter().map(String::as_str), 10_000).unwrap();
    println!(
        "{:<8} {:<28} {:<15} {:>8} {:>8} {:>6} {:>6} {:>8} {:>7} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>7}",
        "trace",
        "settings",
        "policy",
        "tail",
        "longest",
        "/unf",
        "/swp",
        "p50",
        "J/op",
        "cong",
        "idle",
        "crabs",
        "verif",
        "read",
        "s/pl",
        "swp",
        "Mev/s",
        "s"
    );
    for trace in traces {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{trace}.toml"));
        for values in sweep.points() {
            let overrides: Vec<Override> = fixed.iter().chain(values.iter().copied()).cloned().collect();
            let label = values.iter().map(|value| format!("{}={}", value.name(), value.text())).collect::<Vec<_>>().join(" ");
            for (text, name) in &policies {
                let mut scenario = Scenario::read(&path, &overrides).unwrap_or_else(|errors| panic!("{errors}"));
                scenario.policy.name = *name;
                let repeated = Repeated::new(scenario);
                for seed in 1..=seeds {
                    let begin = Instant::now();
                    match repeated.run(seed) {
                        Ok(mut run) => {
                            let took = begin.elapsed().as_secs_f64();
                            let bound = run.bound.unwrap_or_default();
                            let tail = run.percentile_s(0.999);
                            let unforeseen = bound.unforeseen.unwrap_or(bound.tail).seconds();
                            println!(
                                "{trace:<8} {label:<28} {text:<15} {:>8.0} {:>8.0} {:>6.3} {:>6.3} {:>8.0} {:>7.1} {:>6.1} {:>6.1} {:>6.2} {:>6.1} {:>6.1} {:>6.2} {:>6.2} {:>6.2} {:>7.2}",
                                tail,
                                run.longest_s(),
                                tail / unforeseen,
                                tail / bound.one_sweep.seconds().max(1e-9),
                                run.percentile_s(0.5),
                                run.shuttles.joules_per_operation(),
                                100.0 * run.shuttles.congestion_overhead(),
                                100.0 * run.shuttles.idle,
                                run.shuttles.crabs as f64 / run.shuttles.operations.max(1) as f64,
                                100.0 * run.drives.verifying,
                                100.0 * run.drives.reading,
                                (1.0 - run.shuttles.idle) * f64::from(run.shuttles.shuttles) * 43_200.0
                                    / (run.shuttles.operations as f64 / 2.0),
                                bound.one_sweep.seconds() * f64::from(run.shuttles.shuttles) / 5900.0,
                                run.events as f64 / took / 1e6,
                                took
                            );
                        }
                        Err(error) => println!("{trace:<8} {label:<28} {text:<15} seed {seed}: {error}"),
                    }
                }
            }
        }
    }
}
