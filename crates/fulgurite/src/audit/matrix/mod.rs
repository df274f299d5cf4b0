//! `audit matrix`: known files, read from each node on schedule.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use fulgurite_audit::copy::{FileId, NodeId};
use fulgurite_audit::database::{Benchmark, ExpectedTime};
use fulgurite_audit::expectation::{Expectation, Fit};
use fulgurite_audit::node::Node;
use fulgurite_audit::series::Probe;
use serde_json::json;

use super::{Opened, now, place};
use crate::channel::one_of;
use crate::outcome::Misuse;
use crate::{Outcome, Session, text};

pub(super) mod command;
mod run;
mod show;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Read files of the inventory on schedule, to see how long that takes
    ///
    /// A benchmark is a file at a node, read in one of two ways: `access` downloads it by a
    /// presigned URL, as a user would, and `audit` reads it as an audit does. Choose files that
    /// stay, of the sizes that matter; their length and a digest must be known.
    Add {
        /// Names of the files, as in the inventory
        #[arg(required = true)]
        files: Vec<String>,
        #[command(flatten)]
        which: Which,
        /// From one reading to the next, such as 30m, 6h or 1d
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = super::run::parse_time)]
        every: Duration,
    },
    /// End benchmarks; their records stay
    Remove {
        /// Names of the files
        #[arg(required = true)]
        files: Vec<String>,
        #[command(flatten)]
        which: Which,
    },
    /// State how long readings should take at a node
    ///
    /// Without a statement, the time of the node's checks counts (`node set --expect`). If there is
    /// none either, it is learned from 30 readings: their typical time, and half of it in addition.
    Expect {
        /// Name of the node
        node: String,
        /// The kind of reading
        #[arg(value_parser = one_of(Probe::ALL, Probe::name))]
        probe: Probe,
        /// Seconds, and nanoseconds for each byte, as in 0.6+24; or `learn`, to learn it from the
        /// latest readings
        #[arg(value_parser = parse_expected)]
        time: Given,
    },
    /// Read what is due, one file after another at each node
    ///
    /// Reports the ratio of measured to expected time: PASS up to 1, INFO up to 2, WARN up to 3,
    /// else FAIL; ERROR for wrong bytes, UNANSWERED if there was no whole answer. Wrong bytes
    /// change no copy's state: its regular check is due at once.
    Run(run::Run),
    /// Show all benchmarks with their last readings
    Show,
    /// Write the records of all readings, as CSV or JSON lines
    ///
    /// Each has the command by which a person can repeat the reading.
    Records {
        /// Write only records after the one with this number
        #[arg(long, value_name = "RECORD", default_value_t = 0)]
        after: u64,
    },
}

#[derive(Debug, Args)]
pub(super) struct Which {
    /// Node to read from; repeat the option for several. Default: all nodes that have the file
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Kind of reading. Default: both, or only `audit` where a node signs no URLs
    #[arg(long = "by", value_parser = one_of(Probe::ALL, Probe::name))]
    probe: Option<Probe>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Given {
    Time(Expectation),
    Learn,
}

fn parse_expected(text: &str) -> Result<Given, String> {
    if text == "learn" {
        return Ok(Given::Learn);
    }
    let (base, slope) = super::nodes::parse_expected(text)?;
    Expectation::new(base, slope).map(Given::Time).map_err(|error| error.to_string())
}

pub(super) fn matrix(session: &Session, opened: &mut Opened, database: &Path, command: &Command) -> Result<Outcome> {
    match command {
        Command::Add { files, which, every } => add(session, opened, files, which, *every),
        Command::Remove { files, which } => remove(session, opened, files, which),
        Command::Expect { node, probe, time } => expect(session, opened, node, *probe, *time),
        Command::Run(asked) => run::run(session, opened, asked),
        Command::Show => show::show(session, opened),
        Command::Records { after } => show::records(session, opened, database, *after),
    }
}

/// A known file at a node.
struct Known {
    node: Node,
    file: FileId,
    location: String,
    bytes: u64,
}

/// The copies of a file at the chosen nodes.
fn known(opened: &mut Opened, name: &str, chosen: &[String]) -> Result<Vec<Known>> {
    let shown = text::one_line(name);
    let found = opened.database.history(name)?;
    let file = found.ok_or_else(|| Misuse(format!("no inventory has listed {shown}: import it first (fulgurite audit inventory)")))?;
    let (Some(bytes), false) = (file.expected.bytes, file.expected.digests.is_empty()) else {
        let why = "its length or digest is unknown, so nothing tells right bytes from wrong ones";
        return Err(Misuse(format!("{shown} can't be a benchmark yet: {why}. A check by `fulgurite audit run` records them")).into());
    };
    let nodes = opened.chosen(chosen)?;
    let mut known = Vec::new();
    for node in nodes {
        match file.copies.iter().find(|copy| copy.node == node.id) {
            Some(copy) => known.push(Known { node, file: file.file, location: copy.location.clone(), bytes }),
            None if chosen.is_empty() => {}
            None => return Err(Misuse(format!("by the inventory, node {} has no copy of {shown}", node.name)).into()),
        }
    }
    Ok(known)
}

fn add(session: &Session, opened: &mut Opened, files: &[String], which: &Which, every: Duration) -> Result<Outcome> {
    let mut known_files = Vec::new();
    for name in files {
        known_files.push((name, known(opened, name, &which.nodes)?));
    }
    // Nodes are asked before anything is stored.
    let mut benchmarks = Vec::new();
    for (name, copies) in known_files {
        for copy in copies {
            for probe in probes(&copy, which.probe)? {
                benchmarks.push((name, copy.node.clone(), copy.file, probe, copy.bytes));
            }
        }
    }
    for (name, node, file, probe, bytes) in &benchmarks {
        opened.database.set_benchmark(node.id, *file, *probe, every, now())?;
        let daily = (*bytes as f64 * 86_400.0 / every.as_secs_f64()) as u64;
        session.say(&format!(
            "{} at {} by {probe}, every {}: reads {} a day",
            text::one_line(name),
            node.name,
            interval(every),
            fulgurite_audit::report::bytes(daily)
        ));
        session.answer(|| json!({ "file": name, "node": node.name, "by": probe.name(), "every_s": every.as_secs(), "bytes_a_day": daily }));
    }
    Ok(Outcome::Good)
}

/// An interval as the option `--every` takes it.
fn interval(every: Duration) -> String {
    let seconds = every.as_secs();
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let fitting = units.into_iter().find(|(_, length)| seconds >= *length && seconds.is_multiple_of(*length));
    fitting.map_or_else(|| format!("{seconds}s"), |(unit, length)| format!("{}{unit}", seconds / length))
}

/// The kinds of reading that a node offers.
fn probes(copy: &Known, asked: Option<Probe>) -> Result<Vec<Probe>> {
    if asked == Some(Probe::Audit) {
        return Ok(vec![Probe::Audit]);
    }
    let place = place(&copy.node)?;
    let url = place.connect().and_then(|mut connection| connection.presigned_url(&copy.location, Duration::from_secs(60)));
    let url = url.with_context(|| format!("node {} can't be asked whether it signs URLs; --by audit adds it without", copy.node.name))?;
    match (asked, url) {
        (Some(probe), Some(_)) => Ok(vec![probe]),
        (None, Some(_)) => Ok(Probe::ALL.to_vec()),
        (None, None) => Ok(vec![Probe::Audit]),
        (Some(_), None) => Err(Misuse(format!("node {} signs no URLs, so its files can be read by `audit` only", copy.node.name)).into()),
    }
}

fn remove(session: &Session, opened: &mut Opened, files: &[String], which: &Which) -> Result<Outcome> {
    let nodes: BTreeSet<NodeId> = opened.chosen(&which.nodes)?.iter().map(|node| node.id).collect();
    let all = opened.database.benchmarks()?;
    let of_file = |name: &String| -> Vec<&Benchmark> {
        let is_meant = |benchmark: &&Benchmark| {
            benchmark.name == *name && nodes.contains(&benchmark.node) && which.probe.is_none_or(|probe| probe == benchmark.probe)
        };
        all.iter().filter(is_meant).collect()
    };
    if let Some(unknown) = files.iter().find(|name| of_file(name).is_empty()) {
        let why = "no such benchmark, and nothing was removed; `fulgurite audit matrix show` lists all";
        return Err(Misuse(format!("{}: {why}", text::one_line(unknown))).into());
    }
    for name in files {
        let mut removed = 0;
        for benchmark in of_file(name) {
            removed += u64::from(opened.database.remove_benchmark(benchmark.node, benchmark.file, benchmark.probe)?);
        }
        session.say(&format!("{}: ended {}", text::one_line(name), text::count(removed, "benchmark")));
        session.answer(|| json!({ "file": name, "removed": removed }));
    }
    Ok(Outcome::Good)
}

fn expect(session: &Session, opened: &mut Opened, name: &str, probe: Probe, given: Given) -> Result<Outcome> {
    let node = opened.node(name)?.id;
    match given {
        Given::Time(expectation) => {
            opened.database.set_expected_time(&ExpectedTime { node, probe, expectation, is_learned: false })?;
            session.say(&format!("Readings of {name} by {probe} should take {}.", words(expectation)));
        }
        Given::Learn => {
            opened.database.forget_expected_time(node, probe)?;
            let from = if opened.node(name)?.expected_time.is_some() {
                "is that of the node's checks (`node set --expect`)".to_owned()
            } else {
                format!("is learned once there are {} right readings", Fit::LEAST_SAMPLES)
            };
            session.say(&format!("The expected time of readings of {name} by {probe} {from}."));
        }
    }
    session.answer(|| {
        let time = match given {
            Given::Time(time) => json!({ "base_s": time.base_s(), "ns_per_byte": time.slope_ns() }),
            Given::Learn => json!(null),
        };
        json!({ "node": name, "by": probe.name(), "expected": time })
    });
    Ok(Outcome::Good)
}

/// An expected time for people, with three significant digits: learned ones have many more.
fn words(expectation: Expectation) -> String {
    let brief = |number: f64| {
        let decimals = if number > 0.0 { (2.0 - number.log10().floor()).clamp(0.0, 9.0) as usize } else { 0 };
        format!("{number:.decimals$}")
    };
    format!("{} s + {} ns/B", brief(expectation.base_s()), brief(expectation.slope_ns()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_times_are_brief() {
        for (base, slope, expected) in
            [(0.6, 24.0, "0.600 s + 24.0 ns/B"), (0.001_693_4, 0.0, "0.00169 s + 0 ns/B"), (125.4, 1_000.0, "125 s + 1000 ns/B")]
        {
            assert_eq!(words(Expectation::new(base, slope).expect("usable")), expected);
        }
        assert!(matches!(parse_expected("learn"), Ok(Given::Learn)));
        assert!(matches!(parse_expected("0.6+24"), Ok(Given::Time(time)) if time == Expectation::SDSC));
        assert!(parse_expected("0+24").is_err_and(|why| why.contains("the base must be at least")));
        assert!(parse_expected("soon").is_err());
        let intervals = [90, 60, 3_600, 5_400, 172_800].map(|seconds| interval(Duration::from_secs(seconds)));
        assert_eq!(intervals, ["90s", "1m", "1h", "90m", "2d"]);
    }
}
