//! A report as a page that needs nothing else: no script, no font, no request.

use std::fmt::Write;

use super::escape::html as escaped;
use super::figures::{SHOWN_NODES, ages, cycles, timeline};
use super::quantities::{bytes, count, day, days, factor, time};
use super::summary::Summary;
use super::text::{concern, headline, projection, reading, remedy, slowdown, verdict};
use crate::copy::State;
use crate::expectation::Verdict;
use crate::service_level::{DayVerdict, Projection};

/// Colours by the system's preference; tables scroll by themselves on narrow screens.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c1c1c;--paper:#fff;--rule:#d5d5d5;--soft:#666;--good:#00664a;--bad:#a33c00}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e4e4;--paper:#161616;--rule:#3d3d3d;--soft:#a2a2a2;--good:#3fc79a;--bad:#ff9a5c}\
figure svg{filter:invert(.91) hue-rotate(180deg)}}\
body{margin:0 auto;max-width:68rem;padding:1rem;font:1rem/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper)}\
h1{font-size:1.4rem;margin:.5rem 0}h2{font-size:1.1rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.2rem 0 .3rem}\
.headline{font-size:1.15rem;font-weight:600;padding:.6rem .8rem;border-left:.35rem solid}\
.good{color:var(--good)}.bad{color:var(--bad)}.soft{color:var(--soft)}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}\
th,td{padding:.3rem .7rem .3rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}\
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
td.name{overflow-wrap:anywhere;min-width:9rem}td.words{min-width:13rem}figure{margin:1rem 0}figure svg{width:100%;max-width:54rem;height:auto}ul{padding-left:1.2rem;margin:.3rem 0}";

/// The report as one self-contained page.
#[must_use]
pub fn html(summary: &Summary) -> String {
    let well = if summary.is_well() { "good" } else { "bad" };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Fixity audit, {}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Fixity audit</h1>\n<p class=\"headline {well}\">{}</p>\n\
         <p class=\"soft\">As of {} UTC. All times are in UTC.</p>\n",
        time(summary.now),
        escaped(&headline(summary)),
        time(summary.now)
    );
    for import in &summary.unfinished_imports {
        let (source, remedy) = (escaped(&import.source), escaped(&remedy(import)));
        let _ = writeln!(
            out,
            "<p class=\"bad\">Inventory: the import of {source} that began {} UTC isn't complete: {remedy}.</p>",
            time(import.began_at)
        );
    }
    if !summary.nodes.is_empty() {
        nodes(&mut out, summary);
        states(&mut out, summary);
        figures(&mut out, summary);
        incidents(&mut out, summary);
        if summary.is_large() {
            judged_days(&mut out, summary);
        }
        benchmarks(&mut out, summary);
    }
    problems(&mut out, summary);
    out += "</body>\n</html>\n";
    out
}

fn nodes(out: &mut String, summary: &Summary) {
    table(
        out,
        "Nodes",
        &[
            "Node",
            "Verdict",
            "#Copies",
            "#Verified",
            "#Overdue",
            "Oldest verification",
            "#In 24 h",
            "#In 7 days",
            "#Time / expected",
            "Cycle",
        ],
    );
    for node in &summary.nodes {
        let concerns = node.concerns();
        let verdict = if concerns.is_empty() {
            "<span class=\"good\">well</span>".into()
        } else {
            let items: String = concerns.into_iter().map(|found| format!("<li>{}</li>", escaped(&concern(found, node)))).collect();
            format!("<ul class=\"bad\">{items}</ul>")
        };
        let ratios = node.ratios.iter().filter_map(|ratios| ratios.last_day.map(|ratio| format!("{} ({})", factor(ratio), ratios.series)));
        let ratios: Vec<String> = ratios.collect();
        let (last_day, week) = (node.last_day, node.last_week);
        // Writing to a string can't fail.
        let _ = writeln!(
            out,
            "<tr><td class=\"name\">{}<br><span class=\"soft\">{}, {}, every {}</span></td><td class=\"words\">{verdict}</td>{}{}{}<td>{}</td>{}{}{}<td class=\"words\">{}</td></tr>",
            escaped(&node.node.name),
            node.node.medium.name(),
            node.node.rules.method,
            days(node.interval_days()),
            number(node.total.copies, Some(node.total.bytes)),
            number(node.verified().copies, Some(node.verified().bytes)),
            number(node.overdue.copies, None),
            node.oldest_day.map_or_else(|| "none".into(), day),
            number(last_day.copies, Some(last_day.bytes)),
            number(week.copies, Some(week.bytes)),
            format_args!("<td class=\"number\">{}</td>", if ratios.is_empty() { "unknown".into() } else { ratios.join("<br>") }),
            escaped(&projection(node)),
        );
    }
    end(out);
}

fn states(out: &mut String, summary: &Summary) {
    // States without any copy would only make the table wide.
    let held: Vec<State> = State::ALL.into_iter().filter(|state| summary.count(*state).copies > 0).collect();
    if held.is_empty() {
        return;
    }
    let titles: Vec<String> = std::iter::once("Node".to_owned()).chain(held.iter().map(|state| format!("#{state}"))).collect();
    table(out, "Copies by state", &titles.iter().map(String::as_str).collect::<Vec<_>>());
    for node in &summary.nodes {
        let cells: String = held.iter().map(|state| node.count(*state)).map(|tally| number(tally.copies, Some(tally.bytes))).collect();
        let _ = writeln!(out, "<tr><td class=\"name\">{}</td>{cells}</tr>", escaped(&node.node.name));
    }
    end(out);
}

fn figures(out: &mut String, summary: &Summary) {
    *out += "<h2>Figures</h2>\n";
    if summary.nodes.len() > SHOWN_NODES {
        let _ = writeln!(out, "<p class=\"soft\">Figures show the first {SHOWN_NODES} of {} nodes.</p>", count(summary.nodes.len() as u64));
    }
    let shown = summary.nodes.iter().take(SHOWN_NODES);
    let timelines = shown.clone().enumerate().filter_map(|(at, node)| timeline(node, summary.now, at));
    let others = [cycles(summary, SHOWN_NODES), ages(summary, SHOWN_NODES + 1)].into_iter().flatten();
    for figure in timelines.chain(others) {
        let _ = writeln!(out, "<figure>{figure}</figure>");
    }
    for node in shown.filter(|node| node.cycle == Projection::Unknown) {
        let _ = writeln!(out, "<p>{}: the length of the cycle is unknown.</p>", escaped(&node.node.name));
    }
}

fn incidents(out: &mut String, summary: &Summary) {
    let mut found = summary.nodes.iter().flat_map(|node| node.slowdowns.iter().map(move |found| (node, found))).peekable();
    *out += "<h2>Slowdowns</h2>\n";
    if found.peek().is_none() {
        *out += "<p>None is open, and none ended in the last 30 days.</p>\n";
        return;
    }
    *out += "<ul>\n";
    for (node, found) in found {
        let class = if found.end.is_none() { " class=\"bad\"" } else { "" };
        let _ = writeln!(out, "<li{class}>{}: {}</li>", escaped(&node.node.name), escaped(&slowdown(found)));
    }
    *out += "</ul>\n";
}

fn judged_days(out: &mut String, summary: &Summary) {
    table(out, "Audited on each day, all nodes", &["Day (UTC)", "#Copies", "#Bytes", "Verdict"]);
    for judged in summary.days.iter().rev() {
        let class = if judged.verdict == DayVerdict::Pass { "good" } else { "soft" };
        let _ = writeln!(
            out,
            "<tr><td>{}</td>{}<td class=\"number\">{}</td><td class=\"{class}\">{}</td></tr>",
            day(judged.day),
            number(judged.audited.copies, None),
            bytes(judged.audited.bytes),
            verdict(judged.verdict)
        );
    }
    end(out);
    *out += "<p class=\"soft\">By the rule of the California Digital Library, for archives of hundreds of millions of copies: \
             PASS above 2.3 million copies and 12 TB, INFO above 1.55 million and 8 TB, WARN if only one is above, else FAIL.</p>\n";
}

fn benchmarks(out: &mut String, summary: &Summary) {
    if summary.benchmarks.is_empty() {
        return;
    }
    table(
        out,
        "Benchmark matrix: last readings of known files",
        &["File", "Node", "By", "Verdict", "#Time", "#Expected", "Read at", "Remark"],
    );
    for named in &summary.benchmarks {
        let benchmark = &named.benchmark;
        let last = benchmark.last.as_ref();
        let class = match last.and_then(|last| last.verdict) {
            Some(Verdict::Pass | Verdict::Info) => "good",
            None => "soft",
            Some(_) => "bad",
        };
        let seconds = |seconds: Option<f64>| seconds.map_or_else(String::new, |seconds| format!("{seconds:.3} s"));
        let _ = writeln!(
            out,
            "<tr><td class=\"name\">{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td><td class=\"name\">{}</td></tr>",
            escaped(&benchmark.name),
            escaped(&named.node),
            benchmark.probe,
            escaped(&reading(benchmark)),
            seconds(last.map(|last| last.measured.as_secs_f64())),
            seconds(last.and_then(|last| last.expected_s)),
            last.map_or_else(String::new, |last| time(last.at)),
            escaped(last.map_or("", |last| &last.detail))
        );
    }
    end(out);
}

fn problems(out: &mut String, summary: &Summary) {
    let total = summary.problem_count();
    if total == 0 && summary.problems.is_empty() {
        return;
    }
    table(
        out,
        &format!("Problems: {}, of which {} are named", count(total), summary.problems.len()),
        &["State", "Node", "Name", "Found", "Last verified"],
    );
    for named in &summary.problems {
        let problem = &named.problem;
        let found = problem.last.as_ref().map_or_else(String::new, |event| format!("{} {}", time(event.at), event.detail));
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"name\">{}</td><td class=\"name\">{}</td><td>{}</td></tr>",
            problem.state,
            escaped(&named.node),
            escaped(&problem.name),
            escaped(&found),
            problem.verified_at.map_or_else(|| "never".into(), time)
        );
    }
    end(out);
}

/// Begins a table. Titles of columns of numbers begin with "#".
fn table(out: &mut String, title: &str, columns: &[&str]) {
    let _ = write!(out, "<h2>{title}</h2>\n<div class=\"wide\"><table>\n<tr>");
    for column in columns {
        match column.strip_prefix('#') {
            Some(column) => *out += &format!("<th class=\"number\">{column}</th>"),
            None => *out += &format!("<th>{column}</th>"),
        }
    }
    *out += "</tr>\n";
}

fn end(out: &mut String) {
    *out += "</table></div>\n";
}

fn number(number: u64, of_bytes: Option<u64>) -> String {
    let of_bytes = of_bytes.map_or_else(String::new, |total| format!("<br><span class=\"soft\">{}</span>", bytes(total)));
    format!("<td class=\"number\">{}{of_bytes}</td>", count(number))
}
