//! `audit matrix show` and `audit matrix records`.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use fulgurite_audit::copy::NodeId;
use fulgurite_audit::database::BenchmarkRecord;
use fulgurite_audit::expectation::Verdict;
use fulgurite_audit::report::bytes;
use fulgurite_audit::series::Probe;
use fulgurite_digest::Digest;
use serde_json::{Value, json};

use super::super::export::quoted;
use super::super::run::describe_incident;
use super::super::status::open_slowdowns;
use super::super::{Opened, date, now};
use super::{command, words};
use crate::standard_output::standard_output;
use crate::{Outcome, Session, text};

pub(super) fn show(session: &Session, opened: &mut Opened) -> Result<Outcome> {
    let benchmarks = opened.database.benchmarks()?;
    let now = now();
    let mut outcome = Outcome::Good;
    for benchmark in &benchmarks {
        let node = opened.name(benchmark.node);
        let late = benchmark.is_late(now);
        outcome = outcome.worst(benchmark.last.as_ref().map_or(Outcome::Absent, judged)).worst(if late {
            Outcome::Absent
        } else {
            Outcome::Good
        });
        session.say(&format!(
            "{}  {node}  {}  {}{}",
            text::one_line(&benchmark.name),
            benchmark.probe,
            benchmark.last.as_ref().map_or_else(|| "not read yet".to_owned(), described),
            if late && benchmark.last.is_some() { "; readings since then are missing" } else { "" }
        ));
        session.answer(|| {
            json!({
                "file": benchmark.name,
                "node": node,
                "by": benchmark.probe.name(),
                "every_s": benchmark.every.as_secs(),
                "due_at": benchmark.due_at,
                "last": benchmark.last.as_ref().map(to_json),
            })
        });
    }
    if benchmarks.is_empty() {
        session.say("There are no benchmarks. Add one with `fulgurite audit matrix add`.");
    }
    for incident in open_slowdowns(&opened.database.incidents(0)?).filter(|incident| opened.has(incident.node)) {
        session.warn(&describe_incident(opened.name(incident.node), incident));
        outcome = outcome.worst(Outcome::Absent);
    }
    for time in opened.database.expected_times()? {
        let how = if time.is_learned { "learned" } else { "stated" };
        session.say(&format!("{} by {}: {} expected, as {how}", opened.name(time.node), time.probe, words(time.expectation)));
    }
    Ok(outcome)
}

/// The outcome of a reading. A single slow one says little, but FAIL is worth a look.
pub(super) fn judged(record: &BenchmarkRecord) -> Outcome {
    match record.verdict {
        Some(Verdict::Error) => Outcome::Troubled,
        Some(Verdict::Unanswered) => Outcome::Unreadable,
        Some(Verdict::Fail) => Outcome::Absent,
        None | Some(Verdict::Pass | Verdict::Info | Verdict::Warn) => Outcome::Good,
    }
}

/// A reading in words.
pub(super) fn described(record: &BenchmarkRecord) -> String {
    let seconds = record.measured.as_secs_f64();
    let verdict = record.verdict.map_or("learning", Verdict::name);
    let expected = match (record.expected_s, record.ratio()) {
        (Some(expected), Some(ratio)) => format!(" of {} expected ({ratio:.2})", time(expected)),
        _ => String::new(),
    };
    let detail = if record.detail.is_empty() { String::new() } else { format!(": {}", text::one_line(&record.detail)) };
    format!("{verdict}  {}{expected}, {}, {}{detail}", time(seconds), bytes(record.bytes), date(record.at))
}

/// Seconds for people.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 0.001 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

fn to_json(record: &BenchmarkRecord) -> Value {
    json!({
        "record": record.record,
        "at": record.at,
        "bytes": record.bytes,
        "measured_s": record.measured.as_secs_f64(),
        "expected_s": record.expected_s,
        "ratio": record.ratio(),
        "verdict": record.verdict.map(Verdict::name),
        "detail": record.detail,
    })
}

/// Commands by node, kind and file. A record's benchmark may be gone, but its file isn't.
struct Commands<'a> {
    database: &'a Path,
    known: BTreeMap<(NodeId, Probe, String), String>,
}

impl Commands<'_> {
    fn of(&mut self, opened: &mut Opened, record: &BenchmarkRecord, name: &str) -> Result<String> {
        let key = (record.node, record.probe, name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let node = opened.nodes.iter().find(|node| node.id == record.node).cloned();
        let command = match (node, record.probe) {
            (None, _) => String::new(),
            (Some(node), Probe::Access) => command::access(self.database, &node, name),
            (Some(node), Probe::Audit) => {
                let file = opened.database.history(name)?;
                let strongest = file.as_ref().and_then(|file| file.expected.digests.iter().map(Digest::algorithm).max());
                let copy = file.and_then(|file| file.copies.into_iter().find(|copy| copy.node == node.id));
                copy.map_or_else(String::new, |copy| command::audit(self.database, &node, name, &copy.location, strongest))
            }
        };
        self.known.insert(key, command.clone());
        Ok(command)
    }
}

pub(super) fn records(session: &Session, opened: &mut Opened, database: &Path, after: u64) -> Result<Outcome> {
    const PAGE: usize = 10_000;
    let mut out = BufWriter::new(standard_output());
    if !session.json {
        writeln!(out, "record,time,node,file,by,bytes,expected_s,measured_s,ratio,verdict,detail,command")?;
    }
    let mut commands = Commands { database, known: BTreeMap::new() };
    let mut after = after;
    loop {
        let page = opened.database.benchmark_records(after, PAGE)?;
        let Some((last, _)) = page.last() else { break };
        after = last.record;
        for (record, name) in &page {
            let command = commands.of(opened, record, name)?;
            let node = opened.name(record.node);
            if session.json {
                let mut value = to_json(record);
                value["node"] = json!(node);
                value["file"] = json!(name);
                value["by"] = json!(record.probe.name());
                value["command"] = json!(command);
                writeln!(out, "{value}")?;
            } else {
                let measured = record.measured.as_secs_f64();
                let known = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
                writeln!(
                    out,
                    "{},{}Z,{node},{},{},{},{},{measured},{},{},{},{}",
                    record.record,
                    date(record.at).replace(' ', "T"),
                    quoted(name),
                    record.probe,
                    record.bytes,
                    known(record.expected_s),
                    known(record.ratio()),
                    record.verdict.map_or("", Verdict::name),
                    quoted(&record.detail),
                    quoted(&command)
                )?;
            }
        }
    }
    out.flush()?;
    Ok(Outcome::Good)
}
