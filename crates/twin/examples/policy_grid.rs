//! Prints how policies compare with the bound and with each other over a grid of scenarios:
//!
//! `cargo run --release -p fulgurite-twin --example policy_grid -- [iops|volume|typical ...]
//! [partitioned|...] [--seeds N] [--set NAME=VALUE] [--vary NAME=VALUES]`

use std::path::Path;
use std::time::Instant;

use fulgurite_settings::{Override, Sweep};
use fulgurite_twin::bound::TAIL_QUANTILE;
use fulgurite_twin::scenario::{PolicyName, Scenario};
use fulgurite_twin::simulation::{Repeated, Run};

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
    println!("{HEADING}");
    for trace in traces {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{trace}.toml"));
        for values in sweep.points() {
            let overrides: Vec<Override> = fixed.iter().chain(values.iter().copied()).cloned().collect();
            let label = values.iter().map(|value| format!("{}={}", value.name(), value.text())).collect::<Vec<_>>().join(" ");
            for (text, name) in &policies {
                let mut scenario = Scenario::read(&path, &overrides).unwrap_or_else(|errors| panic!("{errors}"));
                scenario.policy.name = *name;
                let measured_s = scenario.run.measured.seconds();
                let repeated = Repeated::new(scenario);
                for seed in 1..=seeds {
                    let begin = Instant::now();
                    let mut run = repeated.run(seed).unwrap_or_else(|error| panic!("{trace} {label}, {text}, seed {seed}: {error}"));
                    let events_s = run.events as f64 / begin.elapsed().as_secs_f64();
                    let censored = if run.censored() > 0 { ">=" } else { "" };
                    println!("{trace:<8} {label:<28} {text:<15} {censored:>2}{}", figures(&mut run, measured_s, events_s));
                }
            }
        }
    }
}

/// What the columns mean: the tail and the median in seconds; the tail over the unforeseen bound
/// and over one sweep; joules and crabs per operation; congestion, idle shuttles, verifying and
/// reading drives in percent; busy seconds of a shuttle per platter; million events per second.
const HEADING: &str =
    "trace    settings                     policy               tail  /unf  /swp  median  J/op crabs cong. idle verif read  s/pl Mev/s";

fn figures(run: &mut Run, measured_s: f64, events_s: f64) -> String {
    let bound = run.bound.unwrap_or_default();
    let (tail, median) = (run.percentile_s(TAIL_QUANTILE), run.percentile_s(0.5));
    let unforeseen_s = bound.unforeseen.unwrap_or(bound.tail).seconds();
    let (shuttles, drives) = (&run.shuttles, &run.drives);
    let operations = shuttles.operations.max(1) as f64;
    let busy_s = (1.0 - shuttles.idle) * f64::from(shuttles.shuttles) * measured_s;
    let times = format!("{tail:>7.0} {:>5.2} {:>5.2} {median:>7.0}", tail / unforeseen_s, tail / bound.one_sweep.seconds());
    let motion = format!("{:>5.1} {:>5.2}", shuttles.joules_per_operation(), shuttles.crabs as f64 / operations);
    let shares =
        [shuttles.congestion_overhead(), shuttles.idle, drives.verifying, drives.reading].map(|share| format!("{:>4.0}", 100.0 * share));
    format!("{times} {motion} {} {:>6.1} {:>5.2}", shares.join(" "), 2.0 * busy_s / operations, events_s / 1e6)
}
