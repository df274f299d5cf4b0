//! `audit run`: checks what is due.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use fulgurite_audit::copy::{NodeId, State};
use fulgurite_audit::database::{Checked, Incident, IncidentKind};
use fulgurite_audit::node::Node;
use fulgurite_audit::report::bytes;
use fulgurite_audit::run::{NodeSummary, Observer, Stop, SystemClock, Target, Until, run as run_audit};
use fulgurite_audit::series::Series;
use fulgurite_places::Place;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::names::List;
use super::{Opened, now, place, status};
use crate::{Outcome, Session, diagnostics, ecs, text};

mod chosen;

#[derive(Debug, Args)]
pub(super) struct Run {
    /// Check only copies of this node; repeat the option for several
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Check all copies, also those that are not due
    ///
    /// They are made due first: after an interruption, `audit run` without this option goes on with
    /// the rest.
    #[arg(long, conflicts_with_all = ["files", "files_from"])]
    all: bool,
    /// Check the copies of this file now, due or not, and no others; repeat the option for several
    #[arg(long = "file", value_name = "NAME")]
    files: Vec<String>,
    #[command(flatten)]
    list: List,
    /// End after this time, such as 90m, 20h or 1d
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    /// Run until stopped, and check copies as they become due
    #[arg(long, conflicts_with_all = ["time", "files", "files_from"])]
    forever: bool,
    /// Report each minute what was checked at each node, as a line of JSON in ECS form on standard
    /// error
    #[arg(long)]
    log_json: bool,
}

pub(super) fn parse_time(text: &str) -> Result<Duration, &'static str> {
    let wrong = "expected a number with s, m, h or d, such as 20h";
    let unit = text.chars().last().ok_or(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong)?;
    number.checked_mul(seconds).filter(|seconds| (1..=315_360_000).contains(seconds)).map(Duration::from_secs).ok_or(wrong)
}

/// How often `--log-json` reports.
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// Bad copies that are printed as they are found; all are stored.
const MOST_PRINTED: u64 = 100;

pub(super) fn run(session: &Session, opened: &mut Opened, run: &Run) -> Result<Outcome> {
    let nodes = opened.chosen(&run.nodes)?;
    if !run.files.is_empty() || run.list.files_from.is_some() {
        return chosen::run(session, opened, run, &nodes);
    }
    let places: Vec<Box<dyn Place>> = nodes.iter().map(place).collect::<Result<_>>()?;
    let targets: Vec<Target<'_>> = nodes.iter().zip(&places).map(|(node, place)| Target { node: node.clone(), place: &**place }).collect();
    let stop = Arc::new(Stop::default());
    stop_on_signals(Arc::clone(&stop), run.time)?;
    let until = if run.forever || run.time.is_some() { Until::Stopped } else { Until::AllTried };
    for import in opened.database.unfinished_imports()?.iter().filter(|import| import.holds_checks) {
        diagnostics::note(&status::unfinished_line(import));
    }
    if run.all {
        for node in &nodes {
            opened.database.make_due(node.id, now(), 0)?;
        }
    }
    let due: u64 =
        if run.all { status::copies(&mut *opened.database, &nodes)? } else { status::due(&mut *opened.database, &nodes, now())? };
    let mut reporter = Reporter::new(session, &nodes, due, run.log_json);
    let summaries = run_audit(&mut *opened.database, &targets, until, &stop, &SystemClock::default(), &mut reporter)?;
    reporter.finish();
    let mut outcome = Outcome::Good;
    for (node, summary) in nodes.iter().zip(&summaries) {
        session.say(&line(node, summary));
        session.answer(|| to_json(node, summary));
        if summary.given_up.is_some() {
            outcome = outcome.worst(Outcome::Absent);
        }
    }
    // A node may have been removed meanwhile.
    opened.read_nodes()?;
    let nodes: Vec<Node> = nodes.into_iter().filter(|node| opened.has(node.id)).collect();
    // What was found earlier and not mended is still wrong, and a mail from cron should say so.
    let imports = opened.database.unfinished_imports()?;
    let (standing, lines) = status::troubles(&mut *opened.database, &nodes, now())?;
    for line in lines {
        session.warn(&line);
    }
    Ok(outcome.worst(standing).worst(status::unfinished(session, &imports)))
}

/// Stops the run on Ctrl-C, SIGTERM or SIGHUP, or after a time.
pub(super) fn stop_on_signals(stop: Arc<Stop>, time: Option<Duration>) -> Result<()> {
    crate::signals::on_stop(time, move || stop.stop())
}

/// Shows progress, and prints what is found.
struct Reporter<'a> {
    session: &'a Session,
    names: BTreeMap<NodeId, String>,
    bar: ProgressBar,
    printed: u64,
    log_json: bool,
    logged: Instant,
    batch: BTreeMap<NodeId, Batch>,
}

/// Checks of a node since the last line of the log.
#[derive(Default)]
struct Batch {
    count: u64,
    bytes: u64,
    time: Duration,
    stream: Duration,
    unverified: u64,
}

impl<'a> Reporter<'a> {
    fn new(session: &'a Session, nodes: &[Node], due: u64, log_json: bool) -> Self {
        let bar = if session.quiet || session.json || log_json { ProgressBar::hidden() } else { ProgressBar::new(due) };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} copies, {per_sec}, {eta} left  {msg}") {
            bar.set_style(style);
        }
        Self {
            session,
            names: nodes.iter().map(|node| (node.id, node.name.clone())).collect(),
            bar,
            printed: 0,
            log_json,
            logged: Instant::now(),
            batch: BTreeMap::new(),
        }
    }

    fn print(&mut self, line: &str) {
        self.bar.suspend(|| self.session.warn(line));
    }

    fn log(&mut self) {
        let nodes: serde_json::Map<String, Value> = std::mem::take(&mut self.batch)
            .into_iter()
            .map(|(node, batch)| {
                let value = json!({
                    "bytes": batch.bytes,
                    "count": batch.count,
                    "timeMs": batch.time.as_millis() as u64,
                    "streamMs": batch.stream.as_millis() as u64,
                    "notVerified": batch.unverified,
                });
                (self.names[&node].clone(), value)
            })
            .collect();
        let elapsed = self.logged.elapsed();
        self.logged = Instant::now();
        if nodes.is_empty() {
            return;
        }
        let line = json!({
            "@timestamp": ecs::timestamp(time::OffsetDateTime::now_utc()),
            "ecs.version": ecs::VERSION,
            "log.level": "info",
            "event.dataset": "fulgurite.audit",
            "event.duration": elapsed.as_nanos() as u64,
            "message": "checked copies",
            "batchStat": { "nodeInfo": nodes },
        });
        // If standard error is closed, as after SIGHUP, the run goes on.
        let _ = writeln!(io::stderr(), "{line}");
    }

    fn finish(&mut self) {
        if self.log_json {
            self.log();
        }
        self.bar.finish_and_clear();
    }
}

impl Observer for Reporter<'_> {
    fn recorded(&mut self, results: &[Checked], whole: &[Duration]) {
        self.bar.inc(results.len() as u64);
        for (result, whole) in results.iter().zip(whole) {
            let state = result.finding.state();
            if self.log_json {
                let batch = self.batch.entry(result.claim.node).or_default();
                batch.count += 1;
                batch.bytes += result.bytes;
                batch.stream += result.stream;
                batch.time += *whole;
                batch.unverified += u64::from(state != State::Verified);
            }
            if state.is_bad() {
                self.printed += 1;
                if self.printed <= MOST_PRINTED {
                    let node = self.names[&result.claim.node].clone();
                    self.print(&format!("{node}: {}: {state}", text::one_line(&result.claim.location)));
                } else if self.printed == MOST_PRINTED + 1 {
                    self.print("more copies are lost or wrong; `fulgurite audit problems` lists all of them");
                }
            }
        }
        if self.log_json && self.logged.elapsed() >= LOG_PERIOD {
            self.log();
        }
    }

    fn incident(&mut self, node: &Node, incident: &Incident) {
        let line = describe_incident(&node.name, incident);
        self.bar.suspend(|| if is_alarm(incident) { diagnostics::trouble(&line) } else { diagnostics::note(&line) });
    }

    fn paused(&mut self, node: &Node, pause: Duration, why: &str) {
        let line = format!("node {} is left alone for {} s: {}", node.name, pause.as_secs(), text::one_line(why));
        self.bar.suspend(|| diagnostics::note(&line));
    }

    fn given_up(&mut self, node: &Node, why: &str) {
        let line = format!("node {} is given up for this run: {}", node.name, text::one_line(why));
        self.bar.suspend(|| diagnostics::trouble(&line));
    }

    fn clock_jumped(&mut self, by: Option<i64>, copies_due_again: u64) {
        let jumped = by.map_or_else(String::new, |by| format!("the clock jumped by {by} s; "));
        let again = text::phrase(copies_due_again, "copy has a date in the future and is", "copies have dates in the future and are");
        self.bar.suspend(|| diagnostics::trouble(&format!("{jumped}{again} checked again")));
    }
}

/// True if a detector reported that a node is slow.
pub(super) fn is_alarm(incident: &Incident) -> bool {
    matches!(incident.kind, IncidentKind::Slower | IncidentKind::Worse)
}

/// What a detector reported, in a sentence.
pub(super) fn describe_incident(node: &str, incident: &Incident) -> String {
    let since = super::date(incident.since);
    let (what, node) = match incident.series {
        Series::Checks(_) => ("checks", node.to_owned()),
        Series::Benchmarks(probe) => ("readings", format!("{node} (known files, by {probe})")),
    };
    let times = |factor: Option<f64>| {
        factor.map_or_else(|| format!("most {what} had no answer"), |factor| format!("{what} take {factor:.1} times the usual time"))
    };
    let rests = format!(
        "{}, {} without an answer",
        text::phrase(incident.checks, what, what),
        text::phrase(incident.unanswered, "of them", "of them")
    );
    match incident.kind {
        IncidentKind::Learned => match incident.factor {
            Some(factor) => format!("node {node}: its usual times are known now: {factor:.2} times the expected ones"),
            None => format!("node {node}: its usual times are known now"),
        },
        IncidentKind::Slower => format!("node {node} is slow since about {since}: {} ({rests})", times(incident.factor)),
        IncidentKind::Worse => format!("node {node} got slower still at about {since}: {} ({rests})", times(incident.factor)),
        IncidentKind::Faster => format!("node {node} is faster than usual since about {since}: {}", times(incident.factor)),
        IncidentKind::Ended => format!("node {node} is back at its usual times since about {since}"),
    }
}

fn line(node: &Node, summary: &NodeSummary) -> String {
    let found: Vec<String> = summary.found.iter().map(|(state, count)| text::phrase(*count, state.name(), state.name())).collect();
    let found = if found.is_empty() { "nothing was due".to_owned() } else { found.join(", ") };
    let mut line = format!("{}: {found}", node.name);
    if summary.bytes > 0 {
        line += &format!("; {} read, {} while reading", bytes(summary.bytes), rate(summary.bytes, summary.stream));
    }
    if summary.found.iter().any(|(state, count)| *state == State::Unavailable && *count > 0) {
        line += "; `fulgurite audit problems` says why copies are unavailable";
    }
    if let Some(why) = &summary.given_up {
        line += &format!("; given up: {}", text::one_line(why));
    }
    line
}

fn rate(amount: u64, time: Duration) -> String {
    format!("{}/s", bytes((amount as f64 / time.as_secs_f64().max(1e-6)) as u64))
}

fn to_json(node: &Node, summary: &NodeSummary) -> Value {
    json!({
        "node": node.name,
        "found": summary.found.iter().map(|(state, count)| (state.name(), *count)).collect::<BTreeMap<_, _>>(),
        "bytes": summary.bytes,
        "stream_ms": summary.stream.as_millis() as u64,
        "time_ms": summary.whole.as_millis() as u64,
        "given_up": summary.given_up,
    })
}
