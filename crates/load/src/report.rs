//! Results as a table.

use std::time::Duration;

use fulgurite_table::{Column, Table, Value};

use crate::{Figures, Operation, Run};

/// A column of results: name, unit, meaning.
pub const COLUMNS: [(&str, &str, &str); 19] = [
    ("target", "", "The endpoint or folder."),
    ("round", "", "The round, counted from 1."),
    ("operation", "", "What was done."),
    ("seconds", "s", "From the start of the load to the end of its last operation."),
    ("done", "", "Operations that succeeded."),
    ("failed", "", "Operations that failed."),
    ("rate", "1/s", "Operations that succeeded, by time."),
    ("mb_s", "MB/s", "Bytes of content, by time."),
    ("mean_ms", "ms", "Mean time of operations that succeeded."),
    ("p50_ms", "ms", "Time within which half of them ended."),
    ("p90_ms", "ms", "Time within which 90 % of them ended."),
    ("p99_ms", "ms", "Time within which 99 % of them ended."),
    ("p999_ms", "ms", "Time within which 99.9 % of them ended."),
    ("max_ms", "ms", "The longest time."),
    ("bytes", "B", "Bytes of content."),
    ("errors", "", "Failures by kind, with their numbers."),
    ("server_cpu", "", "Cores that the server kept busy, if it can be measured."),
    ("server_memory", "B", "The server's memory at its most, if it can be measured."),
    ("own_cpu", "", "Cores that the load generator kept busy."),
];

/// Rows of results: one for each operation that was tried.
#[must_use]
pub fn rows(target: &str, round: u32, run: &Run) -> Vec<Vec<Value>> {
    let row = |operation: Operation, figures: &Figures| {
        let milliseconds = |time: Option<Duration>| Value::from(time.map(|time| time.as_secs_f64() * 1e3));
        let by_time = |count: u64| Value::F64(count as f64 / run.seconds.max(1e-9));
        let errors: Vec<String> = figures.errors.iter().map(|(kind, count)| format!("{count} x {kind}")).collect();
        vec![
            Value::Text(target.to_owned()),
            Value::I64(round.into()),
            Value::Text(operation.name().to_owned()),
            Value::F64(run.seconds),
            Value::I64(figures.done as i64),
            Value::I64(figures.failures() as i64),
            by_time(figures.done),
            Value::F64(figures.bytes as f64 / run.seconds.max(1e-9) / 1e6),
            milliseconds(figures.mean()),
            milliseconds(figures.time(0.5)),
            milliseconds(figures.time(0.9)),
            milliseconds(figures.time(0.99)),
            milliseconds(figures.time(0.999)),
            milliseconds(figures.time(1.0)),
            Value::I64(figures.bytes as i64),
            Value::Text(errors.join(", ")),
            run.server.map(|usage| usage.cpu_s / run.seconds.max(1e-9)).into(),
            run.server.map(|usage| usage.memory as i64).into(),
            Value::F64(run.own.cpu_s / run.seconds.max(1e-9)),
        ]
    };
    let tried = Operation::ALL.iter().zip(&run.operations).filter(|(_, figures)| figures.done + figures.failures() > 0);
    tried.map(|(operation, figures)| row(*operation, figures)).collect()
}

/// An empty table of results.
#[must_use]
pub fn table() -> Table {
    Table::new(COLUMNS.iter().map(|(name, unit, about)| match *name {
        "target" | "operation" | "errors" => Column::text(name, about),
        "round" | "done" | "failed" | "bytes" | "server_memory" => Column::i64(name, unit, about),
        _ => Column::f64(name, unit, about),
    }))
}
