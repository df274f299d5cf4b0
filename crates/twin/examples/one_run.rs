//! Runs a scenario and prints the results.
//!
//! ```sh
//! cargo run --release -p fulgurite-twin --example one_run -- scenarios/iops.toml policy.name=partitioned
//! ```

use std::path::Path;
use std::time::Instant;

use fulgurite_settings::Override;
use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::simulation;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let settings: Vec<Override> =
        arguments.iter().skip(1).map(|argument| Override::parse("argument", argument).unwrap_or_else(|e| panic!("{e}"))).collect();
    let scenario = Scenario::read(Path::new(&arguments[0]), &settings).unwrap_or_else(|e| panic!("{e}"));
    let started = Instant::now();
    let mut run = simulation::run(&scenario, scenario.run.seed).unwrap_or_else(|e| panic!("{e}"));
    let took = started.elapsed().as_secs_f64();
    for part in [0.5, 0.9, 0.99, 0.999] {
        println!("{part}: {:.1} s", run.percentile_s(part));
    }
    println!("{run:?}", run = (run.requests, run.outcomes, run.drives, run.shuttles, run.system, run.bound));
    println!("{} events in {took:.2} s: {:.2} million a second; ended at {}", run.events, run.events as f64 / took / 1e6, run.ended_at);
}
