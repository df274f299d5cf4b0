//! Prints results of loads, for people and as JSON.

use std::time::Duration;

use fulgurite_load::{Drift, Figures, Length, Load, Operation, Pace, Progress, Run, Window};
use fulgurite_table::{Column, Table, Value};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value as Json, json};

use super::Bench;
use crate::{Session, text};

/// The objects that are put before a load.
pub(super) struct Preparing(ProgressBar);

impl Preparing {
    pub(super) fn new(session: &Session, target: &str, objects: u64) -> Self {
        let is_hidden = session.quiet || session.json;
        let bar = ProgressBar::with_draw_target(
            Some(objects),
            if is_hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() },
        );
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {eta}").expect("the template is valid");
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(format!("{target}: objects that the load needs"));
        Self(bar)
    }
}

impl Progress for &Preparing {
    fn prepared(&mut self, objects: u64, _: u64) {
        self.0.set_position(objects);
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// What is done, in a line.
pub(super) fn title(asked: &Bench, load: &Load) -> String {
    let pace = match load.pace {
        Pace::Closed => text::count(load.clients as u64, "client"),
        Pace::Open(rate) => format!("{rate} requests a second, {} open at most", load.clients),
    };
    let bulk = if load.bulk > 1 { format!(", {} new objects in a request", load.bulk) } else { String::new() };
    format!("{} of {}, {pace}{bulk}", load.mix, asked.sizes.join(", "))
}

pub(super) fn begin(session: &Session, asked: &Bench, load: &Load, prefix: &str) {
    let length = match load.length {
        Length::Time(time) => format!("{} s", time.as_secs_f64()),
        Length::Operations(count) => text::count(count, "operation"),
        Length::UntilStopped => "until Ctrl-C".to_owned(),
    };
    session.say(&format!("{}, {length}; keys begin with {prefix}", title(asked, load)));
}

/// A window of a load without an end.
pub(super) fn window(session: &Session, window: &Window) {
    let memory = window.server_memory.map_or_else(String::new, |bytes| format!(", server {}", text::bytes(bytes)));
    let failed = if window.all.failed > 0 { format!(", {} failed", window.all.failed) } else { String::new() };
    let time = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e3));
    session.say(&format!(
        "{:>8.1} s  {:>9.1}/s  {:>8.1} MB/s  p50 {} ms, p99 {} ms{memory}{failed}",
        window.at_s + window.seconds,
        window.all.done as f64 / window.seconds,
        window.all.bytes as f64 / window.seconds / 1e6,
        time(window.all.p50),
        time(window.all.p99),
    ));
}

/// A round of several.
pub(super) fn round(session: &Session, target: &str, round: u32, rounds: u32, run: &Run) {
    if rounds > 1 {
        let parts: Vec<String> =
            tried(run).map(|(operation, figures)| format!("{} {:.1}/s", operation.name(), figures.done as f64 / run.seconds)).collect();
        session.say(&format!("round {round}, {target}: {}", parts.join(", ")));
    }
}

fn tried(run: &Run) -> impl Iterator<Item = (Operation, &Figures)> {
    Operation::ALL.into_iter().zip(&run.operations).filter(|(_, figures)| figures.done + figures.failures() > 0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 0 => f64::midpoint(values[count / 2 - 1], values[count / 2]),
        count => values[count / 2],
    }
}

/// The medians of all rounds, by target and operation.
fn summary(targets: &[(&str, &[Run])]) -> Table {
    let mut table = Table::new([
        Column::text("target", "The target."),
        Column::text("operation", "What was done."),
        Column::i64("done", "", "Operations that succeeded, in all rounds."),
        Column::i64("failed", "", "Operations that failed, in all rounds."),
        Column::f64("rate", "1/s", "Operations that succeeded, by time."),
        Column::f64("data", "MB/s", "Bytes of content, by time."),
        Column::f64("p50", "ms", "Time within which half of them ended."),
        Column::f64("p90", "ms", "Time within which 90 % of them ended."),
        Column::f64("p99", "ms", "Time within which 99 % of them ended."),
        Column::f64("p99.9", "ms", "Time within which 99.9 % of them ended."),
        Column::f64("max", "ms", "The longest time."),
        Column::f64("server_cpu", "cores", "Cores that the server kept busy."),
        Column::f64("memory", "MB", "The server's memory at its most."),
    ]);
    for (name, runs) in targets {
        for operation in Operation::ALL {
            let of = |run: &Run| run.operations[operation.index()].clone();
            let sum = |count: fn(&Figures) -> u64| runs.iter().map(|run| count(&of(run))).sum::<u64>();
            let (done, failed) = (sum(|figures| figures.done), sum(Figures::failures));
            if done + failed == 0 {
                continue;
            }
            let middle = |measure: &dyn Fn(&Run) -> f64| Value::F64(rounded(median(runs.iter().map(measure).collect())));
            let known = |values: Vec<f64>| if values.is_empty() { Value::Missing } else { Value::F64(rounded(median(values))) };
            let time = |share| known(runs.iter().filter_map(|run| of(run).time(share)).map(|time| time.as_secs_f64() * 1e3).collect());
            let server = |measure: fn(&Run) -> Option<f64>| known(runs.iter().filter_map(measure).collect());
            let row = [
                Value::from(*name),
                operation.name().into(),
                Value::I64(done as i64),
                Value::I64(failed as i64),
                middle(&|run| of(run).done as f64 / run.seconds),
                middle(&|run| of(run).bytes as f64 / run.seconds / 1e6),
                time(0.5),
                time(0.9),
                time(0.99),
                time(0.999),
                time(1.0),
                server(|run| run.server.map(|usage| usage.cpu_s / run.seconds)),
                server(|run| run.server.map(|usage| usage.memory as f64 / 1e6)),
            ];
            table.push(row).expect("rows have the columns of the table");
        }
    }
    table
}

/// To four digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

pub(super) fn end(session: &Session, asked: &Bench, load: &Load, prefix: &str, targets: &[(&str, &[Run])]) {
    session.say(&format!("\n{}", summary(targets)));
    for (name, runs) in targets {
        let mut errors: std::collections::BTreeMap<(Operation, &str), u64> = std::collections::BTreeMap::new();
        for (operation, figures) in runs.iter().flat_map(tried) {
            figures.errors.iter().for_each(|(kind, count)| *errors.entry((operation, kind)).or_default() += count);
        }
        for ((operation, kind), count) in errors {
            session.warn(&format!(
                "{name}: {} failed: {}",
                text::count(count, &format!("{} operation", operation.name())),
                text::one_line(kind)
            ));
        }
        if runs.iter().any(|run| run.ran_out) {
            session.warn(&format!("{name}: no object was left before the load was over: give more with --objects"));
        }
        for run in *runs {
            if load.length == Length::UntilStopped {
                session.say(&match Drift::of(&run.windows) {
                    Ok(drift) => format!("{name}: {}", drift_text(&drift)),
                    Err(why) => format!("{name}: the drift of this run isn't known: {why}"),
                });
            }
            if run.unsent > 0 {
                let requests = text::phrase(run.unsent, "request was due and had", "requests were due and had");
                session.say(&format!("{name}: {requests} not been sent when the load was stopped; they count nowhere"));
            }
        }
        if runs.len() < asked.rounds as usize || runs.iter().any(|run| run.was_stopped) {
            session.warn(&format!("{name}: stopped before its end"));
        }
    }
    session.answer(|| json_of(load, prefix, targets));
}

fn drift_text(drift: &Drift) -> String {
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let memory = drift.memory.map_or_else(String::new, |memory| format!(", the server's memory {}", percent(memory)));
    format!(
        "from the first third to the last: rate {}, median time {}, 99th percentile {}{memory}",
        percent(drift.rate),
        percent(drift.p50),
        percent(drift.p99)
    )
}

fn json_of(load: &Load, prefix: &str, targets: &[(&str, &[Run])]) -> Json {
    let milliseconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    let operation = |run: &Run, figures: &Figures| {
        json!({
            "done": figures.done,
            "failed": figures.failures(),
            "errors": figures.errors,
            "bytes": figures.bytes,
            "rate": figures.done as f64 / run.seconds,
            "mb_s": figures.bytes as f64 / run.seconds / 1e6,
            "mean_ms": milliseconds(figures.mean()),
            "p50_ms": milliseconds(figures.time(0.5)),
            "p90_ms": milliseconds(figures.time(0.9)),
            "p99_ms": milliseconds(figures.time(0.99)),
            "p999_ms": milliseconds(figures.time(0.999)),
            "max_ms": milliseconds(figures.time(1.0)),
        })
    };
    let window = |window: &Window| {
        json!({
            "at_s": window.at_s,
            "seconds": window.seconds,
            "done": window.all.done,
            "failed": window.all.failed,
            "bytes": window.all.bytes,
            "p50_ms": milliseconds(window.all.p50),
            "p99_ms": milliseconds(window.all.p99),
            "server_memory": window.server_memory,
        })
    };
    let run = |run: &Run| {
        let operations: serde_json::Map<String, Json> =
            tried(run).map(|(name, figures)| (name.name().to_owned(), operation(run, figures))).collect();
        let drift = Drift::of(&run.windows);
        let no_drift = drift.err().map(|why| why.to_string());
        let drift = drift.ok().map(|drift| json!({ "rate": drift.rate, "p50": drift.p50, "p99": drift.p99, "memory": drift.memory }));
        json!({
            "seconds": run.seconds,
            "operations": operations,
            "server_cpu": run.server.map(|usage| usage.cpu_s / run.seconds),
            "server_memory": run.server.map(|usage| usage.memory),
            "own_cpu": run.own.cpu_s / run.seconds,
            "stopped": run.was_stopped,
            "ran_out": run.ran_out,
            "unsent": run.unsent,
            "drift": drift,
            "no_drift": no_drift,
            "windows": run.windows.iter().map(window).collect::<Vec<_>>(),
        })
    };
    let targets: Vec<Json> =
        targets.iter().map(|(name, runs)| json!({ "name": name, "rounds": runs.iter().map(run).collect::<Vec<_>>() })).collect();
    let rate = if let Pace::Open(rate) = load.pace { Some(rate) } else { None };
    json!({
        "workload": load.mix.to_string(), "clients": load.clients, "bulk": load.bulk, "rate": rate, "seed": load.seed, "prefix": prefix,
        "targets": targets,
    })
}
