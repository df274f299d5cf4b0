//! A report as metrics, for the textfile collector of Prometheus's node_exporter.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use super::escape::label;
use super::summary::{NodeSummary, Summary};
use crate::expectation::Verdict;
use crate::node::DAY_S;
use crate::service_level::Projection;

/// The report in the text format of Prometheus, version 0.0.4. Labels are nodes, states and
/// methods, and never names of files, so the number of series is small and stays the same. A value
/// that is unknown is left out. The last metric is the time of the report.
#[must_use]
pub fn prometheus(summary: &Summary) -> String {
    let mut out = Metrics(String::new());
    let nodes = &summary.nodes;
    let by_state = |value: fn(crate::service_level::Tally) -> u64| {
        move |node: &NodeSummary| -> Vec<(String, u64)> {
            node.by_state.iter().map(|(state, tally)| (format!(",state=\"{state}\""), value(*tally))).collect()
        }
    };
    out.family("copies", "Copies by what their last check found.", nodes, by_state(|tally| tally.copies));
    out.family("copies_bytes", "Bytes of copies by what their last check found.", nodes, by_state(|tally| tally.bytes));
    out.each("never_verified_copies", "Copies whose bytes were never read and found right.", nodes, |node| Some(node.never.copies));
    out.each(
        "overdue_copies",
        "Copies last verified, or looked at, longer ago than the interval; counted to 1000000 where bytes are not read.",
        nodes,
        |node| Some(node.overdue.copies),
    );
    out.each("future_dated_copies", "Copies last verified after today: a clock is wrong.", nodes, |node| Some(node.future.copies));
    out.each("waiting_copies", "Copies that were never verified or are overdue, without bad ones.", nodes, |node| {
        Some(node.waiting.copies)
    });
    out.each("oldest_verification_timestamp_seconds", "Start of the day of the oldest verification.", nodes, |node| {
        node.oldest_day.map(|day| day.saturating_mul(DAY_S))
    });
    out.each("interval_seconds", "Time from one check of a copy to the next.", nodes, |node| Some(node.node.rules.interval.as_secs()));
    out.each("last_day_audited_copies", "Copies audited in the last 24 hours.", nodes, |node| Some(node.last_day.copies));
    out.each("last_day_audited_bytes", "Bytes audited in the last 24 hours.", nodes, |node| Some(node.last_day.bytes));
    out.each("last_week_audited_copies", "Copies audited in the last 7 days.", nodes, |node| Some(node.last_week.copies));
    out.each("last_week_audited_bytes", "Bytes audited in the last 7 days.", nodes, |node| Some(node.last_week.bytes));
    let seconds = |projection: Projection| projection.days().map(|days| days * DAY_S as f64);
    out.each("remaining_seconds", "Projected time until no copy waits; absent if unknown.", nodes, |node| seconds(node.remaining));
    out.each("cycle_seconds", "Projected time of a cycle over all copies; 0 while none waits, absent if unknown.", nodes, |node| {
        seconds(node.cycle)
    });
    out.each("keeps_up", "1 if the projected cycle is known and within the interval.", nodes, |node| Some(u8::from(node.keeps_up())));
    out.family("time_ratio", "Measured time divided by expected time, of the last 24 hours.", nodes, |node| {
        let known = node.ratios.iter().filter_map(|ratios| ratios.last_day.map(|ratio| (ratios.series, ratio)));
        known.map(|(series, ratio)| (format!(",method=\"{series}\""), ratio)).collect()
    });
    out.family("slowdown_open", "1 while the node is slower than usual.", nodes, |node| {
        let open = |series| u8::from(node.open_slowdowns().any(|slowdown| slowdown.series == series));
        crate::series::Series::ALL.into_iter().map(|series| (format!(",method=\"{series}\""), open(series))).collect()
    });
    out.family("slowdown_factor", "Measured time divided by usual time, of open slowdowns.", nodes, |node| {
        let open = node.open_slowdowns().filter_map(|slowdown| slowdown.factor.map(|factor| (slowdown.series, factor)));
        open.map(|(series, factor)| (format!(",method=\"{series}\""), factor)).collect()
    });
    out.head("benchmarks", "Known files that are read on schedule, by the verdict on the last reading.");
    for node in nodes {
        let of_node = summary.benchmarks.iter().filter(|named| named.benchmark.node == node.node.id);
        let mut verdicts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for named in of_node {
            let last = named.benchmark.last.as_ref();
            let verdict = last.map_or("unread", |last| last.verdict.map_or("learning", Verdict::name));
            *verdicts.entry((named.benchmark.probe.name(), verdict)).or_default() += 1;
        }
        for ((method, verdict), count) in verdicts {
            let verdict = verdict.to_ascii_lowercase();
            out.line("benchmarks", &format!("{{node=\"{}\",method=\"{method}\",verdict=\"{verdict}\"}}", label(&node.node.name)), count);
        }
    }
    out.head("unfinished_imports", "Imports of inventories that are under way, were interrupted, or failed.");
    out.line("unfinished_imports", "", summary.unfinished_imports.len());
    out.head("well", "1 if all copies are verified and none is overdue, each node keeps up, none is slow, and no import is unfinished.");
    out.line("well", "", u8::from(summary.is_well()));
    out.head("report_timestamp_seconds", "Time of this report.");
    out.line("report_timestamp_seconds", "", summary.now);
    out.0
}

/// Metrics as text.
struct Metrics(String);

impl Metrics {
    fn head(&mut self, name: &str, help: &str) {
        // Writing to a string can't fail.
        let _ = write!(self.0, "# HELP fulgurite_audit_{name} {help}\n# TYPE fulgurite_audit_{name} gauge\n");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.0, "fulgurite_audit_{name}{labels} {value}");
    }

    /// A gauge with one value for each node that has one.
    fn each<V: Display>(&mut self, name: &str, help: &str, nodes: &[NodeSummary], value: impl Fn(&NodeSummary) -> Option<V>) {
        self.family(name, help, nodes, |node| value(node).map(|value| (String::new(), value)).into_iter().collect());
    }

    /// A gauge with values by further labels.
    fn family<V: Display>(&mut self, name: &str, help: &str, nodes: &[NodeSummary], values: impl Fn(&NodeSummary) -> Vec<(String, V)>) {
        self.head(name, help);
        for node in nodes {
            for (labels, value) in values(node) {
                self.line(name, &format!("{{node=\"{}\"{labels}}}", label(&node.node.name)), value);
            }
        }
    }
}
