//! Tests of settings, with a small library as the example.

mod errors;
mod hostile;
mod layers;
mod output;
mod quantities;
mod sweeps;

use std::path::PathBuf;

use fulgurite_domain::Micros;

use super::setting_type::{bytes, choice, count, duration, file, flag, length, list, number, per_hour, rate, share, text};
use super::{Document, Reader, Section, SettingErrors};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Policy {
    ShortestPaths,
    Partitioned,
}

const POLICIES: [(&str, Policy); 2] = [("shortest-paths", Policy::ShortestPaths), ("partitioned", Policy::Partitioned)];

#[derive(Debug, Clone, PartialEq)]
struct Fault {
    at: Micros,
    shuttle: Option<u16>,
    repaired_after: Micros,
}

#[derive(Debug, Clone, PartialEq)]
struct Example {
    title: String,
    seed: u64,
    policy: Policy,
    throughput: f64,
    drive_count: u16,
    seek_median: Micros,
    seek_sigma: f64,
    spacing_um: i64,
    crossing: bool,
    sizes: Vec<u64>,
    by_hour: [f64; 24],
    trace: Option<PathBuf>,
    faults: Vec<Fault>,
}

fn fault(fault: &mut Section<'_>) -> Fault {
    Fault {
        at: fault.required("at", duration(..), "Instant, from the start."),
        shuttle: fault.optional("shuttle", count(0..=39), "Number of the shuttle."),
        repaired_after: fault.section("repair", "").setting("after", duration("1 min"..), "4 h", "Time until it is repaired."),
    }
}

fn example(reader: &mut Reader) -> Example {
    let mut top = reader.top();
    let title = top.setting_or("title", text(), "A small library".to_owned(), "Title of reports.");
    let seed = top.setting("seed", count(0..=u64::MAX), "1", "Seed of all random draws.");
    let mut drives = reader.section("drives", "The read drives.");
    let throughput = drives.setting("throughput", rate("1 MB/s"..="1 GB/s"), "60 MB/s", "Throughput of a drive.");
    let drive_count = drives.setting("count", count(2..=20), "20", "Drives | of both ends.");
    if drive_count % 2 == 1 {
        drives.reject("count", "an even number");
    }
    let mut seek = drives.section("seek", "Seek time between tracks.");
    let seek_median = seek.setting_or("median", duration(..="2 s"), Micros(600_000), "Median seek time.");
    let seek_sigma = seek.setting("sigma", number(0.0..2.0), "0.4", "Deviation of its logarithm.");
    let mut shuttles = reader.section("shuttles", "The shuttles.");
    Example {
        title,
        seed,
        throughput,
        drive_count,
        seek_median,
        seek_sigma,
        policy: shuttles.setting("policy", choice(&POLICIES), "partitioned", "Policy of the controller."),
        spacing_um: shuttles.setting("spacing", length("1 mm"..="10 m"), "350 mm", "Least distance of two shuttles."),
        crossing: shuttles.setting("crossing", flag(), "true", "Whether shuttles leave their lane."),
        sizes: reader.section("reads", "Reads.").setting(
            "sizes",
            list(bytes("1 B"..), 1..=4),
            r#"["4 MiB", "100 MB"]"#,
            "Equally likely sizes.",
        ),
        by_hour: reader.section("reads", "Reads.").setting_or("by_hour", per_hour(share(..="100 %")), [0.5; 24], "Share of peak."),
        trace: reader.section("reads", "Reads.").optional("trace", file(), "Replaces all of these."),
        faults: reader.tables("faults", "Planned faults.", fault),
    }
}

fn read(document: Document) -> Result<(Example, String), SettingErrors> {
    let mut reader = Reader::new(document);
    let value = example(&mut reader);
    reader.finish().map(|complete| (value, complete))
}

/// The errors of a file, one per line.
fn errors(text: &str) -> String {
    Document::parse("a.toml", text).and_then(read).map_or_else(|errors| errors.to_string(), |_| "none".to_owned())
}
