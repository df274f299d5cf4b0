//! A report as JSON.

use serde_json::{Map, Value, json};

use super::quantities::day;
use super::summary::{AGE_LIMITS_D, NamedBenchmark, NodeSummary, Summary};
use super::text::{concern, headline, verdict};
use super::{End, Slowdown};
use crate::database::UnfinishedImport;
use crate::expectation::Verdict;
use crate::node::DAY_S;
use crate::service_level::{Projection, Tally};

/// The whole report as JSON. Times are seconds since 1970, sizes are bytes, and what is unknown is
/// null.
#[must_use]
pub fn json(summary: &Summary) -> Value {
    let days = summary
        .days
        .iter()
        .map(|judged| json!({ "day": day(judged.day), "audited": tally(judged.audited), "verdict": verdict(judged.verdict) }));
    let problems = summary.problems.iter().map(|named| {
        let last = named.problem.last.as_ref();
        json!({
            "node": named.node,
            "name": named.problem.name,
            "state": named.problem.state.name(),
            "verified_at": named.problem.verified_at,
            "found_at": last.map(|event| event.at),
            "detail": last.map_or("", |event| &event.detail),
        })
    });
    json!({
        "at": summary.now,
        "well": summary.is_well(),
        "headline": headline(summary),
        "nodes": summary.nodes.iter().map(of_node).collect::<Vec<_>>(),
        "days": days.collect::<Vec<_>>(),
        "problem_count": summary.problem_count(),
        "problems": problems.collect::<Vec<_>>(),
        "unfinished_imports": summary.unfinished_imports.iter().map(unfinished_import).collect::<Vec<_>>(),
        "benchmarks": summary.benchmarks.iter().map(benchmark).collect::<Vec<_>>(),
    })
}

fn of_node(node: &NodeSummary) -> Value {
    let states: Map<String, Value> = node.by_state.iter().map(|(state, held)| (state.name().to_owned(), tally(*held))).collect();
    let ratios = node.ratios.iter().map(|ratios| {
        let hours = ratios.hours.iter().map(|(hour, ratio)| json!({ "from": hour.saturating_mul(3_600), "ratio": ratio }));
        json!({
            "method": ratios.series.name(),
            "expected_base_seconds": ratios.expectation.base_s(),
            "expected_nanoseconds_per_byte": ratios.expectation.slope_ns(),
            "last_24_hours": ratios.last_day,
            "hours": hours.collect::<Vec<_>>(),
        })
    });
    let ages = node.ages.iter().enumerate().map(|(class, copies)| json!({ "below_days": AGE_LIMITS_D.get(class), "copies": copies }));
    json!({
        "node": node.node.name,
        "medium": node.node.medium.name(),
        "method": node.node.rules.method.name(),
        "interval_seconds": node.node.rules.interval.as_secs(),
        "well": node.concerns().is_empty(),
        "concerns": node.concerns().into_iter().map(|found| concern(found, node)).collect::<Vec<_>>(),
        "total": tally(node.total),
        "states": states,
        "never_verified": tally(node.never),
        "overdue": tally(node.overdue),
        "more_overdue": node.more_overdue,
        "future_dated": tally(node.future),
        "oldest_verified_at": node.oldest_day.map(|day| day.saturating_mul(DAY_S)),
        "ages": ages.collect::<Vec<_>>(),
        "audited_24_hours": tally(node.last_day),
        "audited_7_days": tally(node.last_week),
        "waiting": tally(node.waiting),
        "remaining": projection(node.remaining),
        "cycle": projection(node.cycle),
        "keeps_up": node.keeps_up(),
        "ratios": ratios.collect::<Vec<_>>(),
        "slowdowns": node.slowdowns.iter().map(slowdown).collect::<Vec<_>>(),
    })
}

fn unfinished_import(import: &UnfinishedImport) -> Value {
    json!({ "number": import.number, "source": import.source, "began_at": import.began_at, "holds_checks": import.holds_checks })
}

fn tally(tally: Tally) -> Value {
    json!({ "copies": tally.copies, "bytes": tally.bytes })
}

/// An infinite end of an interval is null.
fn projection(projection: Projection) -> Value {
    match projection {
        Projection::Complete => json!({ "state": "complete", "days": 0.0 }),
        Projection::Unknown => json!({ "state": "unknown", "days": null }),
        Projection::Days { days, by_copies, by_bytes, within } => json!({
            "state": "days",
            "days": days,
            "by_copies": by_copies,
            "by_bytes": by_bytes,
            "within": within.map(|(low, high)| [low, high]),
        }),
    }
}

fn benchmark(named: &NamedBenchmark) -> Value {
    let benchmark = &named.benchmark;
    let last = benchmark.last.as_ref().map(|record| {
        json!({
            "at": record.at,
            "bytes": record.bytes,
            "measured_seconds": record.measured.as_secs_f64(),
            "expected_seconds": record.expected_s,
            "ratio": record.ratio(),
            "verdict": record.verdict.map(Verdict::name),
            "detail": record.detail,
        })
    });
    json!({
        "file": benchmark.name,
        "node": named.node,
        "by": benchmark.probe.name(),
        "every_seconds": benchmark.every.as_secs(),
        "due_at": benchmark.due_at,
        "last": last,
    })
}

fn slowdown(slowdown: &Slowdown) -> Value {
    let end = slowdown.end.map(|end| {
        let how = if matches!(end, End::Recovered(_)) { "recovered" } else { "relearned" };
        json!({ "at": end.at(), "how": how })
    });
    json!({
        "method": slowdown.series.name(),
        "since": slowdown.since,
        "named_at": slowdown.named_at,
        "factor": slowdown.factor,
        "checks": slowdown.checks,
        "unanswered": slowdown.unanswered,
        "end": end,
    })
}
