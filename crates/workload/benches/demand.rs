//! Reads generated per second on one core, and rows of a trace parsed per second.
//!
//! `cargo bench -p fulgurite-workload --bench demand [-- CASE]` prints a line for each case whose
//! name contains `CASE`: the median over 7 rounds, by the wall clock. Each round takes millions of
//! reads (shards of requests; requests are counted too) from its own [`Demand`] and adds them up.
//! The alias tables of Zipf laws are built before the clock starts.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench measures time")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use fulgurite_domain::Micros;
use fulgurite_workload::{
    AccountLayout, Arrivals, Demand, Platters, Popularity, Preset, SHARD_BYTES, Sizes, Source, Spec, Trace, TraceSettings,
};

const ROUNDS: usize = 7;
const READS: usize = 2_000_000;

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let poisson = Arrivals::Poisson { per_second: 1000.0 };
    let fixed = Sizes::Fixed { bytes: 1_000_000 };
    let zipf = Popularity::Zipf { exponent: 0.9 };
    let plain = Source::plain(poisson, fixed);
    let cases = [
        ("constant, fixed size", plain_spec(Source::plain(Arrivals::Constant { per_second: 1000.0 }, fixed))),
        ("Poisson, fixed size", plain_spec(plain)),
        ("Poisson, exponential sizes", plain_spec(Source::plain(poisson, Sizes::Exponential { mean_bytes: 1e6 }))),
        ("Poisson, mixture of sizes, mean 20 MB", plain_spec(Source::plain(poisson, mixture(2e7)))),
        ("Poisson, mixture of sizes, published", plain_spec(Source::plain(poisson, Sizes::PUBLISHED))),
        ("Zipf over 700,000 platters, fixed size", plain_spec(Source { popularity: zipf, ..plain })),
        ("accounts of 16 files, together", plain_spec(Source { account_files: 16, ..plain })),
        ("accounts of 16 files, scattered", plain_spec(Source { account_files: 16, layout: AccountLayout::Scattered, ..plain })),
        ("preset typical", Preset::Typical.spec().expect("the preset's numbers are in range")),
        ("preset iops", Preset::Iops.spec().expect("the preset's numbers are in range")),
        ("preset volume", Preset::Volume.spec().expect("the preset's numbers are in range")),
        ("preset full-library", Preset::FullLibrary.spec().expect("the preset's numbers are in range")),
    ];
    println!("{:<42} {:>14} {:>14}", "case", "M reads/s", "M requests/s");
    for (name, spec) in cases.iter().filter(|(name, _)| name.contains(&filter)) {
        measure(name, || {
            let demand = Demand::new(spec, 1).expect("the case's numbers are in range");
            let begin = Instant::now();
            let (mut bytes, mut requests) = (0_u64, 0);
            for read in demand.take(READS) {
                bytes = bytes.wrapping_add(read.bytes);
                requests = read.request;
            }
            black_box(bytes);
            (begin.elapsed().as_secs_f64(), READS as f64, requests as f64)
        });
    }
    if "CSV trace".contains(&filter) {
        trace();
    }
}

fn mixture(mean_bytes: f64) -> Sizes {
    Sizes::Mixture { mean_bytes, largest_bytes: 1_000_000_000_000 }
}

/// A hundred full libraries.
fn plain_spec(source: Source) -> Spec {
    Spec { platters: Platters::new(700_000), shard_bytes: SHARD_BYTES, until: Micros::NEVER, sources: vec![source] }
}

fn trace() {
    let mut text = String::from("arrival,file,account,bytes,platter,track\n");
    for row in 0..500_000_u64 {
        writeln!(text, "{}.{:06},{row},user-{},{},{},{}", row / 10, row % 10 * 100_000, row % 977, 1 + row * 7, row % 1000, row % 90_000)
            .expect("a string takes any text");
    }
    let settings = TraceSettings { platters: Platters::new(1000), shard_bytes: SHARD_BYTES, seed: 1 };
    measure("CSV trace, 6 columns", || {
        let begin = Instant::now();
        let mut count = 0;
        for read in Trace::new(text.as_bytes(), &settings).expect("the header is right") {
            black_box(read.expect("the rows are right"));
            count += 1;
        }
        (begin.elapsed().as_secs_f64(), f64::from(count), f64::from(count))
    });
}

fn measure(name: &str, mut round: impl FnMut() -> (f64, f64, f64)) {
    let mut rounds: Vec<(f64, f64, f64)> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (seconds, reads, requests) = rounds[ROUNDS / 2];
    println!("{name:<42} {:>14.2} {:>14.2}", reads / seconds / 1e6, requests / seconds / 1e6);
}
