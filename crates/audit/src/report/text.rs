//! A report as plain text, for mails.

use super::escape::line;
use super::quantities::{bytes, copies, count, day, days, factor, time};
use super::summary::{Concern, NodeSummary, Summary};
use super::{End, Slowdown};
use crate::copy::State;
use crate::database::{Benchmark, UnfinishedImport};
use crate::service_level::{DayVerdict, Projection};

/// Columns of a mail. Names of files may be longer.
const COLUMNS: usize = 76;
/// Problems shown; the other forms have more.
const SHOWN_PROBLEMS: usize = 20;
/// Benchmarks shown; the other forms have all.
const SHOWN_BENCHMARKS: usize = 40;

/// The report as text in lines of at most 76 columns, except for long names. The first line says
/// whether all is well.
#[must_use]
pub fn text(summary: &Summary) -> String {
    let mut out = Vec::new();
    wrap(&mut out, "", &headline(summary));
    wrap(&mut out, "", &format!("Fixity audit, {} UTC.", time(summary.now)));
    for import in &summary.unfinished_imports {
        out.push(String::new());
        wrap(&mut out, "", &format!("Inventory: {}.", unfinished_import(import)));
    }
    for node in &summary.nodes {
        out.push(String::new());
        of_node(&mut out, node);
    }
    if !summary.problems.is_empty() {
        out.push(String::new());
        let (total, shown) = (summary.problem_count(), summary.problems.len().min(SHOWN_PROBLEMS));
        let first = if total > shown as u64 { format!(", the first {shown}") } else { String::new() };
        out.push(format!("Problems: {}{first}", copies(total)));
        for named in summary.problems.iter().take(SHOWN_PROBLEMS) {
            let problem = &named.problem;
            // A name is never wrapped, so that it can be copied.
            out.push(format!("  {}  {}  {}", problem.state, line(&named.node), line(&problem.name)));
            let verified = problem.verified_at.map_or_else(|| "never verified".into(), |at| format!("last verified {}", time(at)));
            let detail = problem.last.as_ref().map_or("", |event| &event.detail);
            wrap(&mut out, "    ", &if detail.is_empty() { verified } else { format!("{}; {verified}", line(detail)) });
        }
    }
    if !summary.benchmarks.is_empty() {
        out.push(String::new());
        let (total, shown) = (summary.benchmarks.len(), summary.benchmarks.len().min(SHOWN_BENCHMARKS));
        let first = if total > shown { format!(" (the first {shown} of {})", count(total as u64)) } else { String::new() };
        out.push(format!("Known files, last readings{first}:"));
        for named in summary.benchmarks.iter().take(SHOWN_BENCHMARKS) {
            out.push(format!(
                "  {}  {}  {}  {}",
                line(&named.node),
                named.benchmark.probe,
                reading(&named.benchmark),
                line(&named.benchmark.name)
            ));
        }
    }
    if summary.is_large() && !summary.days.is_empty() {
        out.push(String::new());
        out.push("Audited on each day, all nodes (rule of the CDL, for large archives):".into());
        for judged in &summary.days {
            let audited = judged.audited;
            out.push(format!(
                "  {}  {:>12} copies  {:>9}  {}",
                day(judged.day),
                count(audited.copies),
                bytes(audited.bytes),
                verdict(judged.verdict)
            ));
        }
    }
    out.join("\n") + "\n"
}

/// The last reading of a known file, in a few words.
pub(super) fn reading(benchmark: &Benchmark) -> String {
    let Some(last) = &benchmark.last else { return "not read yet".into() };
    match (last.verdict, last.ratio()) {
        (Some(verdict), Some(ratio)) => format!("{} ({} times the expected time)", verdict.name(), factor(ratio)),
        (Some(verdict), None) => verdict.name().into(),
        (None, _) => "learning".into(),
    }
}

/// One sentence that says whether all is well.
pub(super) fn headline(summary: &Summary) -> String {
    let total = summary.total();
    if summary.nodes.is_empty() {
        return "Not well: the audit has no nodes, so nothing is checked.".into();
    }
    if summary.is_well() {
        let verified = summary.count(State::Verified).copies;
        let looked_at = match total.copies - verified.min(total.copies) {
            0 => String::new(),
            others => format!(", {} looked at", count(others)),
        };
        return format!("All is well: {} of {} verified{looked_at}, none overdue.", count(verified), copies(total.copies));
    }
    let nodes = summary.nodes.iter().filter(|node| !node.concerns().is_empty());
    let names: Vec<String> = nodes.clone().take(5).map(|node| line(&node.node.name)).collect();
    let others = nodes.clone().count() - names.len();
    let others = if others > 0 { format!(" and {others} more") } else { String::new() };
    let bad: u64 = summary.nodes.iter().map(|node| node.bad().copies).fold(0, u64::saturating_add);
    let bad = if bad > 0 { format!("{} lost or wrong; ", copies(bad)) } else { String::new() };
    let unfinished = if summary.unfinished_imports.is_empty() { "" } else { "an inventory isn't imported completely; " };
    if names.is_empty() {
        return format!("Not well: {}.", unfinished.trim_end_matches("; "));
    }
    format!("Not well: {bad}{unfinished}see {}{others}.", names.join(", "))
}

/// What is wrong with an import that wasn't completed, and what to do.
#[must_use]
pub fn unfinished_import(import: &UnfinishedImport) -> String {
    format!("the import of {} that began {} UTC isn't complete: {}", line(&import.source), time(import.began_at), remedy(import))
}

/// What to do about an import that wasn't completed.
pub(super) fn remedy(import: &UnfinishedImport) -> String {
    let held = if import.holds_checks { ". Until an import is complete, no copy is checked" } else { "" };
    format!(
        "it is under way, was interrupted, or failed. If it isn't under way, repeat it, or dismiss it with `fulgurite audit inventory \
         dismiss {}`{held}",
        import.number
    )
}

/// A concern in words.
pub(super) fn concern(concern: Concern, node: &NodeSummary) -> String {
    let are = |number: u64| format!("{} {}", copies(number), if number == 1 { "is" } else { "are" });
    match concern {
        Concern::Bad(number) => format!("{} lost or wrong", are(number)),
        Concern::Unavailable(number) => format!("{} could not be read", copies(number)),
        Concern::Unverified(number) => format!("{} not verified yet", are(number)),
        Concern::Overdue(number) => format!("{} overdue", are(number)),
        Concern::ManyOverdue(number) => format!("more than {} have been due for over a day", copies(number)),
        Concern::Future(number) => format!("{} dated in the future: check the clock", are(number)),
        Concern::Slow(cycle) => format!("a cycle takes {}, longer than the interval of {}", days(cycle), days(node.interval_days())),
        Concern::Unknown => "the end of the cycle is unknown: no recent progress".into(),
        Concern::Slowdowns(1) => "a slowdown is open".into(),
        Concern::Slowdowns(number) => format!("{} slowdowns are open", count(number)),
        Concern::WrongReadings(1) => "a known file was read wrong; its copy is due to be read".into(),
        Concern::WrongReadings(number) => {
            format!("{} readings of known files got wrong bytes; their copies are due to be read", count(number))
        }
        Concern::Empty => "no copies are known: import an inventory".into(),
    }
}

/// What is projected, in words.
pub(super) fn projection(node: &NodeSummary) -> String {
    match (node.remaining, node.cycle) {
        (Projection::Complete, _) => "complete: no copy waits for its check".into(),
        (Projection::Days { days: left, .. }, Projection::Days { days: cycle, within, .. }) => {
            let within = match within {
                Some((low, high)) if high.is_finite() => format!(" (95 % interval {} to {})", days(low), days(high)),
                Some((low, _)) => format!(" (at least {})", days(low)),
                None => String::new(),
            };
            format!("{} until no copy waits; {} for all copies{within}", days(left), days(cycle))
        }
        _ => "unknown: copies wait, and none was audited in the last 7 days".into(),
    }
}

/// A slowdown in words.
pub(super) fn slowdown(slowdown: &Slowdown) -> String {
    let much = slowdown.factor.map_or_else(|| "mostly without answers".into(), |times| format!("{} times its usual time", factor(times)));
    let end = match slowdown.end {
        None => "still open".into(),
        Some(End::Recovered(at)) => format!("ended {} UTC", time(at)),
        Some(End::Relearned(at)) => format!("usual times learned anew {} UTC", time(at)),
    };
    let unanswered = format!("{} of {} checks", count(slowdown.unanswered), count(slowdown.checks));
    format!("slowdown ({}) since {} UTC: {much}, {unanswered} without an answer; {end}", slowdown.series, time(slowdown.since))
}

/// The verdict on a day.
pub(super) fn verdict(verdict: DayVerdict) -> &'static str {
    match verdict {
        DayVerdict::Pass => "PASS",
        DayVerdict::Info => "INFO",
        DayVerdict::Warn => "WARN",
        DayVerdict::Fail => "FAIL",
    }
}

fn of_node(out: &mut Vec<String>, node: &NodeSummary) {
    let concerns: Vec<String> = node.concerns().into_iter().map(|found| concern(found, node)).collect();
    let verdict = if concerns.is_empty() { "well".to_owned() } else { concerns.join("; ") };
    wrap(out, "", &format!("{}: {verdict}", line(&node.node.name)));
    if node.total.copies == 0 {
        return;
    }
    let held = node.by_state.iter().filter(|(_, tally)| tally.copies > 0);
    let states: Vec<String> = held.map(|(state, tally)| format!("{} {state} ({})", count(tally.copies), bytes(tally.bytes))).collect();
    wrap(out, "  ", &format!("Copies: {}", states.join(", ")));
    let oldest = node.oldest_day.map_or_else(|| "none".into(), day);
    wrap(
        out,
        "  ",
        &format!(
            "Oldest verification: {oldest}; never verified: {}; overdue: {}{}",
            count(node.never.copies),
            if node.more_overdue { "over " } else { "" },
            count(node.overdue.copies)
        ),
    );
    let (last_day, week) = (node.last_day, node.last_week);
    wrap(
        out,
        "  ",
        &format!(
            "Audited: {} ({}) in 24 hours, {} ({}) in 7 days",
            copies(last_day.copies),
            bytes(last_day.bytes),
            copies(week.copies),
            bytes(week.bytes)
        ),
    );
    wrap(out, "  ", &format!("Cycle: {}", projection(node)));
    for ratios in &node.ratios {
        if let Some(ratio) = ratios.last_day {
            wrap(out, "  ", &format!("Time ({}): {} times the expected time in 24 hours", ratios.series, factor(ratio)));
        }
    }
    for found in &node.slowdowns {
        wrap(out, "  ", &slowdown(found));
    }
}

/// Appends lines of words, indented, and further where one continues.
fn wrap(out: &mut Vec<String>, indent: &str, text: &str) {
    let mut current = indent.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && current.chars().count() + 1 + word.chars().count() > COLUMNS {
            out.push(std::mem::replace(&mut current, format!("{indent}    ")));
            is_empty = true;
        }
        if !is_empty {
            current.push(' ');
        }
        current.push_str(word);
        is_empty = false;
    }
    out.push(current);
}
