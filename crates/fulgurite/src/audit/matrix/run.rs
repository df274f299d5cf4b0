//! `audit matrix run`: reads what is due.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use fulgurite_audit::database::{Benchmark, BenchmarkRecord, ExpectedTime, Incident};
use fulgurite_audit::expectation::Verdict;
use fulgurite_audit::matrix::{Observer, run as run_matrix};
use fulgurite_audit::node::Node;
use fulgurite_audit::run::{Stop, SystemClock, Target, Until};
use fulgurite_places::Place;
use serde_json::json;

use super::super::run::{describe_incident, is_alarm, parse_time, stop_on_signals};
use super::super::{Opened, place, status};
use super::show::{described, judged};
use super::words;
use crate::{Outcome, Session, diagnostics, text};

#[derive(Debug, Args)]
pub(in super::super) struct Run {
    /// Read only from this node; repeat the option for several
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Read every benchmark once, also those that are not due
    #[arg(long)]
    all: bool,
    /// End after this time, such as 90m, 20h or 1d
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    /// Run until stopped, and read files as they become due
    #[arg(long, conflicts_with = "time")]
    forever: bool,
}

pub(super) fn run(session: &Session, opened: &mut Opened, asked: &Run) -> Result<Outcome> {
    let nodes = opened.chosen(&asked.nodes)?;
    let places: Vec<Box<dyn Place>> = nodes.iter().map(place).collect::<Result<_>>()?;
    let targets: Vec<Target<'_>> = nodes.iter().zip(&places).map(|(node, place)| Target { node: node.clone(), place: &**place }).collect();
    let stop = Arc::new(Stop::default());
    stop_on_signals(Arc::clone(&stop), asked.time)?;
    let until = if asked.forever || asked.time.is_some() { Until::Stopped } else { Until::AllTried };
    let mut reporter = Reporter { session, outcome: Outcome::Good, count: 0, interrupted: 0 };
    run_matrix(&mut *opened.database, &targets, until, asked.all, &stop, &SystemClock::default(), &mut reporter)?;
    let Reporter { mut outcome, count, interrupted, .. } = reporter;
    if interrupted > 0 {
        session.warn(&format!("{} interrupted; due again", text::phrase(interrupted, "reading was", "readings were")));
        outcome = outcome.worst(Outcome::Absent);
    } else if opened.database.benchmarks()?.is_empty() {
        session.say("There are no benchmarks. Add one with `fulgurite audit matrix add`.");
    } else if count == 0 {
        session.say("Nothing was due. `fulgurite audit matrix show` shows the last readings; --all reads every benchmark now.");
    }
    // A slowdown that was named earlier and goes on is still one.
    if status::open_slowdowns(&opened.database.incidents(0)?).any(|incident| nodes.iter().any(|node| node.id == incident.node)) {
        outcome = outcome.worst(Outcome::Absent);
    }
    Ok(outcome)
}

struct Reporter<'a> {
    session: &'a Session,
    outcome: Outcome,
    count: u64,
    interrupted: u64,
}

impl Observer for Reporter<'_> {
    fn recorded(&mut self, node: &Node, benchmark: &Benchmark, record: &BenchmarkRecord) {
        self.count += 1;
        let outcome = judged(record);
        self.outcome = self.outcome.worst(outcome);
        let line = format!("{}  {}  {}  {}", text::one_line(&benchmark.name), node.name, record.probe, described(record));
        if outcome == Outcome::Good {
            self.session.say(&line)
        } else {
            self.session.warn(&line)
        }
        self.session.answer(|| {
            json!({
                "file": benchmark.name,
                "node": node.name,
                "by": record.probe.name(),
                "verdict": record.verdict.map(Verdict::name),
                "measured_s": record.measured.as_secs_f64(),
                "expected_s": record.expected_s,
                "bytes": record.bytes,
                "detail": record.detail,
            })
        });
    }

    fn interrupted(&mut self, _: &Node, _: &Benchmark) {
        self.interrupted += 1;
    }

    fn learned(&mut self, node: &Node, time: &ExpectedTime) {
        diagnostics::note(&format!(
            "node {}: readings by {} are expected to take {} from now on",
            node.name,
            time.probe,
            words(time.expectation)
        ));
    }

    fn incident(&mut self, node: &Node, incident: &Incident) {
        let line = describe_incident(&node.name, incident);
        if is_alarm(incident) { diagnostics::trouble(&line) } else { diagnostics::note(&line) }
    }
}
