//! A report as CSV, one row for each node.

use std::fmt::Write;

use super::Summary;
use super::escape;
use super::quantities::day;
use crate::copy::State;
use crate::service_level::Projection;

/// The report as CSV: a line of names, and a row for each node. What is unknown is empty.
#[must_use]
pub fn csv(summary: &Summary) -> String {
    let mut out = "node,method,interval_days,copies,bytes".to_owned();
    for state in State::ALL {
        let name = state.name().replace('-', "_");
        // Writing to a string can't fail.
        let _ = write!(out, ",{name}_copies,{name}_bytes");
    }
    out += ",never_verified_copies,overdue_copies,future_dated_copies,oldest_verified_day,audited_copies_24h,audited_bytes_24h,\
            audited_copies_7d,audited_bytes_7d,waiting_copies,remaining_days,cycle_days,keeps_up,open_slowdowns,well\n";
    let known = |projection: Projection| projection.days().map_or_else(String::new, |days| format!("{days:.3}"));
    for node in &summary.nodes {
        let rules = &node.node.rules;
        let _ = write!(
            out,
            "{},{},{:.3},{},{}",
            escape::csv(&node.node.name),
            rules.method,
            node.interval_days(),
            node.total.copies,
            node.total.bytes
        );
        for state in State::ALL {
            let tally = node.count(state);
            let _ = write!(out, ",{},{}", tally.copies, tally.bytes);
        }
        let _ = writeln!(
            out,
            ",{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            node.never.copies,
            node.overdue.copies,
            node.future.copies,
            node.oldest_day.map_or_else(String::new, day),
            node.last_day.copies,
            node.last_day.bytes,
            node.last_week.copies,
            node.last_week.bytes,
            node.waiting.copies,
            known(node.remaining),
            known(node.cycle),
            node.keeps_up(),
            node.open_slowdowns().count(),
            node.concerns().is_empty()
        );
    }
    out
}
