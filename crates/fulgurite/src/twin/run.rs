//! `twin run`: runs one scenario with one or more seeds.

use anyhow::Result;
use fulgurite_twin::results::{self, Point, PointRuns, figures, run_points};
use fulgurite_twin::table::{Column, Table, Value};
use serde_json::{Map, json};

use super::{Run, VERSION, bar, failed, misused, report_missed, threads, write};
use crate::{Outcome, Session, text};

pub(super) fn run(session: &Session, run: &Run) -> Result<Outcome> {
    let mut scenario = match run.chosen.read() {
        Ok(scenario) => scenario,
        Err(errors) => return Ok(misused(&errors)),
    };
    if let Some(seed) = run.seed {
        scenario.run.seed = seed;
    }
    scenario.run.seeds = run.seeds;
    if let Some(folder) = &run.out {
        write::prepare(folder)?;
    }
    let bar = bar(session, run.seeds as usize);
    let points = run_points(vec![Point { varied: Vec::new(), scenario }], None, threads(), &|done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let points = match points {
        Ok(points) => points,
        Err(error) => return failed(&run.chosen.scenario, error),
    };
    let point = &points[0];
    if session.json {
        session.answer(&json_of(point));
    } else {
        let scenario = &point.point.scenario;
        session.say(&heading(point));
        session.say(&text::harmless(&scenario.title));
        session.say(&shown(point).to_string());
    }
    if let Some(folder) = &run.out {
        write::write(session, folder, &points)?;
    }
    Ok(report_missed(&points))
}

fn heading(point: &PointRuns) -> String {
    let (scenario, first) = (&point.point.scenario, point.point.scenario.run.seed);
    let seeds = match point.runs.len() {
        1 => format!("seed {first}"),
        count => format!("seeds {first} to {}", first.wrapping_add(count as u64 - 1)),
    };
    format!("{}, {seeds}, policy {}, fulgurite {VERSION}", scenario.name, scenario.policy.name.text())
}

/// One line per figure: the values of a single run, or means over several.
fn shown(point: &PointRuns) -> Table {
    if let [run] = point.runs.as_slice() {
        let columns = [Column::text("figure", ""), Column::f64("value", "", ""), Column::text("unit", ""), Column::text("meaning", "")];
        let mut table = Table::new(columns);
        for figure in figures(run) {
            let value = match figure.value {
                Value::I64(value) => Value::F64(value as f64),
                value => value,
            };
            table.push([figure.name.into(), value, figure.unit.into(), figure.about.into()]).expect("four values");
        }
        return table;
    }
    let summary = results::summary(std::slice::from_ref(point));
    let mut table =
        Table::new([Column::text("mean of", ""), Column::f64("value", "", ""), Column::text("unit", ""), Column::text("meaning", "")]);
    for (column, value) in summary.columns().iter().zip(&summary.rows()[0]).filter(|(column, _)| column.name() != "scenario") {
        let value = match value {
            Value::I64(value) => Value::F64(*value as f64),
            value => value.clone(),
        };
        table.push([column.name().into(), value, column.unit().into(), column.description().into()]).expect("four values");
    }
    table
}

/// One or more runs as JSON.
fn json_of(point: &PointRuns) -> serde_json::Value {
    let scenario = &point.point.scenario;
    let runs: Vec<serde_json::Value> = point
        .runs
        .iter()
        .map(|run| {
            let figures: Map<String, serde_json::Value> =
                figures(run).into_iter().map(|figure| (figure.name.to_owned(), write::json_value(&figure.value))).collect();
            let missed: Vec<String> = scenario.expect.missed(run).iter().map(ToString::to_string).collect();
            json!({ "seed": run.seed, "figures": figures, "missed": missed })
        })
        .collect();
    json!({ "scenario": scenario.name, "title": scenario.title, "version": VERSION, "settings": scenario.canonical(), "runs": runs })
}
