//! `twin sweep`: runs all combinations of varied settings, each with several seeds, in parallel.

use anyhow::Result;
use fulgurite_table::Table;
use fulgurite_twin::results::summary;
use fulgurite_twin::sweep::{Point, points, run_points};
use serde_json::json;

use super::{Misuse, RUNS, Sweep, VERSION, bar, failed, overrides, report_missed, threads, write};
use crate::{Outcome, Session, tables};

/// Maximum number of combinations; more are a mistake.
const POINTS_MAX: usize = 100_000;
/// The figures printed for each combination; files contain all figures.
const SHOWN: [&str; 9] =
    ["seeds", "mean_s", "tail_s", "tail_s_low", "tail_s_high", "censored", "bound_tail_s", "drives_utilization", "joules_per_operation"];

pub(super) fn sweep(session: &Session, sweep: &Sweep) -> Result<Outcome> {
    let varied = fulgurite_settings::Sweep::parse(sweep.vary.iter().map(String::as_str), POINTS_MAX)?;
    let points = points(&sweep.chosen.scenario, &overrides(&sweep.chosen.set)?, &varied)?;
    let runs = points.iter().map(|point| u64::from(sweep.seeds.unwrap_or(point.scenario.run.seeds))).sum();
    if let Some(folder) = &sweep.out {
        write::prepare(folder, points.len())?;
    }
    check_placements(sweep, &points)?;
    let bar = bar(session, runs, RUNS);
    let results = run_points(points, sweep.seeds, sweep.threads.unwrap_or_else(threads), &|done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let results = results.map_err(|error| failed(&sweep.chosen.scenario, error))?;
    let table = summary(&results);
    session.answer(|| json!({ "version": VERSION, "points": tables::rows_json(&table) }));
    session.say(&format!("{}, {runs} runs, fulgurite {VERSION}", results[0].point.scenario.name));
    session.say(&shown(&table, results[0].point.varied.len()).to_string());
    if let Some(folder) = &sweep.out {
        write::write(session, folder, &results)?;
    }
    Ok(report_missed(&results))
}

/// Places the platters of each combination, if they aren't in the same places in all. Otherwise a
/// combination that doesn't fit would be noticed only after hours of other runs.
fn check_placements(sweep: &Sweep, points: &[Point]) -> Result<()> {
    let moves_platters = |name: &str| ["deployment.", "library.", "sets.", "ingest."].iter().any(|section| name.starts_with(section));
    let mut placed = std::collections::HashSet::new();
    for point in points {
        let moved: Vec<_> = point.varied.iter().filter(|(name, _)| moves_platters(name)).collect();
        if moved.is_empty() || !placed.insert(moved) {
            continue;
        }
        if let Err(error) = point.scenario.stock(point.scenario.run.seed) {
            let varied: Vec<String> = point.varied.iter().map(|(name, value)| format!("{name}={value}")).collect();
            return Err(Misuse(format!("{}, --vary {}: {error}", sweep.chosen.scenario.display(), varied.join(" "))).into());
        }
    }
    Ok(())
}

/// The columns to print: the varied settings, which follow the first column, and the figures of
/// [`SHOWN`].
fn shown(table: &Table, varied: usize) -> Table {
    let is_shown = |index: usize, name: &str| (1..=varied).contains(&index) || SHOWN.contains(&name);
    let chosen: Vec<usize> = (0..table.columns().len()).filter(|index| is_shown(*index, table.columns()[*index].name())).collect();
    let mut short = Table::new(chosen.iter().map(|index| table.columns()[*index].clone()));
    for row in table.rows() {
        short.push(chosen.iter().map(|index| row[*index].clone())).expect("values of their own columns");
    }
    short
}
