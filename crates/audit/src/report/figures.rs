//! The figures of a page, as inline SVG.

use fulgurite_plot::{Axis, Figure, Panel, PlotError};

use super::escape;
use super::summary::{AGE_LIMITS_D, NodeSummary, Summary};
use crate::node::DAY_S;
use crate::series::Series;
use crate::service_level::Projection;

/// Nodes that figures show; tables have all nodes.
pub(super) const SHOWN_NODES: usize = 12;
/// Characters of a node's name in figures.
const SHOWN_NAME: usize = 24;
/// Incidents marked in a figure, the latest ones.
const MARKED: usize = 4;
const WIDTH: f64 = 504.0;
/// The days of a timeline.
const DAYS: f64 = 14.0;
/// Ratios below this are drawn here: a logarithmic axis has no 0.
const LEAST_RATIO: f64 = 0.01;
/// Ratios above this are drawn here.
const LARGEST_RATIO: f64 = 1e6;

/// Ratios of measured to expected time of a node, by hour, with its slowdowns. `None` if no ratio
/// is known.
pub(super) fn timeline(node: &NodeSummary, now: u64, number: usize) -> Option<String> {
    let before = |seconds: u64| (seconds as f64 - now as f64) / DAY_S as f64;
    let mut lines = Vec::new();
    // Less would show the noise of an even node as large as a slowdown.
    let (mut low, mut high) = (0.5, 2.0);
    for series in Series::ALL {
        let ratios = node.ratios.iter().filter(|ratios| ratios.series == series).flat_map(|ratios| &ratios.hours);
        // The middle of the hour; that of the present one may be in the future.
        let place = |hour: u64| before(hour.saturating_mul(3_600).saturating_add(1_800)).clamp(-DAYS, 0.0);
        let points: Vec<(f64, f64)> = ratios.map(|(hour, ratio)| (place(*hour), ratio.clamp(LEAST_RATIO, LARGEST_RATIO))).collect();
        (low, high) = points.iter().fold((low, high), |(low, high): (f64, f64), (_, ratio)| (low.min(ratio / 1.2), high.max(ratio * 1.2)));
        if !points.is_empty() {
            lines.push((series, points));
        }
    }
    if lines.is_empty() {
        return None;
    }
    let (x, y) = (Axis::new("Days before the report", ""), Axis::new("Measured / expected time", ""));
    let mut panel = Panel::new(x.from(-DAYS).to(0.0), y.log().from(low).to(high));
    for (series, points) in lines {
        panel = panel.steps(series.name(), points);
    }
    panel = panel.level(1.0, "as expected");
    for slowdown in node.slowdowns.iter().rev().take(MARKED) {
        let ends = [(slowdown.since, "slow"), (slowdown.end.map_or(now, |end| end.at()), "ended")];
        let marked = ends.into_iter().take(if slowdown.end.is_some() { 2 } else { 1 });
        for (at, label) in marked.filter(|(at, _)| (-DAYS..=0.0).contains(&before(*at))) {
            panel = panel.mark(before(at), label);
        }
    }
    Some(inline(&Figure::new(&format!("Times of {}", name(node))).width(WIDTH).plot_height(110.0).panel(panel), number))
}

/// Projected days of each node's cycle, of the nodes whose projection is known.
pub(super) fn cycles(summary: &Summary, number: usize) -> Option<String> {
    let shown = summary.nodes.iter().take(SHOWN_NODES);
    let known: Vec<(&NodeSummary, f64)> = shown.filter_map(|node| node.cycle.days().map(|days| (node, days.min(1e6)))).collect();
    // A figure of bars without height shows nothing.
    if known.iter().all(|(_, days)| *days == 0.0) {
        return None;
    }
    let heights = known.iter().map(|(node, days)| {
        let within = match node.cycle {
            Projection::Days { within: Some((low, high)), .. } if high.is_finite() => Some((low.min(1e6), high.min(1e6))),
            _ => None,
        };
        fulgurite_plot::Point { x: 0.0, y: *days, within }
    });
    let axis = Axis::categories("", known.iter().map(|(node, _)| name(node)));
    let mut panel = Panel::new(axis, Axis::new("Cycle over all copies", "days").from(0.0)).bars("projected", heights);
    let interval = known[0].0.interval_days();
    if known.iter().all(|(node, _)| node.interval_days() == interval) {
        panel = panel.level(interval, "interval");
    }
    Some(inline(&Figure::new("Projected length of the cycle").width(WIDTH).plot_height(110.0).panel(panel), number))
}

/// Copies by the age of their verification, stacked by node.
pub(super) fn ages(summary: &Summary, number: usize) -> Option<String> {
    if summary.nodes.iter().take(SHOWN_NODES).all(|node| node.total.copies == 0) {
        return None;
    }
    let mut names: Vec<String> = AGE_LIMITS_D.iter().map(|limit| format!("< {limit} d")).collect();
    names.push("older".into());
    names.push("never".into());
    let mut panel = Panel::new(Axis::categories("Last verified", names), Axis::new("Copies", ""));
    for node in summary.nodes.iter().take(SHOWN_NODES) {
        let heights = node.ages.iter().chain([&node.never.copies]).map(|copies| *copies as f64);
        panel = panel.stack(&name(node), heights);
    }
    Some(inline(&Figure::new("Age of verifications").width(WIDTH).plot_height(130.0).panel(panel), number))
}

fn name(node: &NodeSummary) -> String {
    let name = escape::line(&node.node.name);
    if name.chars().count() <= SHOWN_NAME { name } else { name.chars().take(SHOWN_NAME).chain(['…']).collect() }
}

/// A figure as part of a page. Its clip paths get the figure's number, as all figures of a page
/// share one space of names.
fn inline(figure: &Figure, number: usize) -> String {
    match figure.svg() {
        Ok(svg) => svg.replace("id=\"clip", &format!("id=\"f{number}-clip")).replace("url(#clip", &format!("url(#f{number}-clip")),
        Err(error) => failed(&error),
    }
}

fn failed(error: &PlotError) -> String {
    format!("<p>A figure could not be drawn: {}.</p>", escape::html(&error.to_string()))
}
