//! `twin run`: runs one scenario with one or more seeds.

use std::ops::ControlFlow;
use std::sync::Mutex;

use anyhow::Result;
use fulgurite_table::{Column, Table, Value};
use fulgurite_twin::results::{self, Figure, LOWER_BOUNDS_IF_CENSORED, figures};
use fulgurite_twin::simulation::Run;
use fulgurite_twin::sweep::{Point, PointRuns, run_points_with};
use fulgurite_twin::timeline::Timeline;
use serde_json::{Map, json};

use super::clock::{self, Clock};
use super::watch::{Watching, new_page, write_page};
use super::{VERSION, bar, failed, report_missed, threads, write};
use crate::{Outcome, Session, tables, text};

pub(super) fn run(session: &Session, run: &super::Run) -> Result<Outcome> {
    let mut scenario = run.chosen.read()?;
    if let Some(seed) = run.seed {
        scenario.run.seed = seed;
    }
    scenario.run.seeds = run.seeds;
    if let Some(folder) = &run.out {
        write::prepare(folder, 1)?;
    }
    if let Some(folder) = &run.plot {
        write::prepare_plot(folder)?;
    }
    let page = run.watch.as_deref().map(new_page).transpose()?;
    let bar = bar(session, u64::from(run.seeds) * clock::STEPS, clock::TEMPLATE);
    let (timeline, recording) = (Mutex::new(None), Mutex::new(None));
    let first = scenario.run.seed;
    let observer = |point: &Point, seed: u64| {
        let drawn = (run.plot.is_some() && seed == first).then(|| Timeline::new(&point.scenario));
        let watched = (run.watch.is_some() && seed == first).then(|| Watching::new(&point.scenario, seed));
        (Clock::new(&bar, &point.scenario), (drawn, watched))
    };
    let points = run_points_with(vec![Point { varied: Vec::new(), scenario }], None, threads(), &observer, &|_, (_, (drawn, watched))| {
        if drawn.is_some() {
            *timeline.lock().expect("nothing panics while it holds this lock") = drawn;
        }
        if let Some(watched) = watched {
            *recording.lock().expect("nothing panics while it holds this lock") = watched.finish();
        }
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    let points = points.map_err(|error| failed(&run.chosen.scenario, error))?;
    let point = &points[0];
    session.answer(|| {
        let mut answer = json_of(point);
        if let Some(page) = &run.watch {
            answer["page"] = json!(page);
        }
        answer
    });
    session.say(&heading(point));
    session.say(&text::harmless(&point.point.scenario.title));
    session.say(&shown(point).to_string());
    if let Some(folder) = &run.out {
        write::write(session, folder, &points)?;
    }
    if let (Some(folder), Some(timeline)) = (&run.plot, timeline.into_inner().expect("nothing panicked while it held this lock")) {
        write::write_plot(session, folder, &points[0].point.scenario.name, first, &timeline)?;
    }
    if let (Some(page), Some(recording)) = (page, recording.into_inner().expect("nothing panicked while it held this lock")) {
        write_page(session, page, &recording)?;
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

/// A table with a line for each figure: the values of a single run, or means over several.
fn shown(point: &PointRuns) -> Table {
    let (heading, rows): (_, Vec<[Value; 4]>) = if let [run] = point.runs.as_slice() {
        let row = |figure: Figure| [figure.name.into(), figure.value, figure.unit.into(), figure.about.into()];
        ("figure", figures(run).into_iter().map(row).collect())
    } else {
        let summary = results::summary(std::slice::from_ref(point));
        let row =
            |(column, value): (&Column, &Value)| [column.name().into(), value.clone(), column.unit().into(), column.description().into()];
        let figures = summary.columns().iter().zip(&summary.rows()[0]).filter(|(column, _)| column.name() != "scenario");
        ("mean of", figures.map(row).collect())
    };
    let columns = [Column::text(heading, ""), Column::f64("value", "", ""), Column::text("unit", ""), Column::text("meaning", "")];
    let mut table = Table::new(columns);
    let censored: u64 = point.runs.iter().map(Run::censored).sum();
    for [name, value, unit, meaning] in rows {
        let meaning = match (&name, meaning) {
            (Value::Text(name), Value::Text(meaning)) if censored > 0 && LOWER_BOUNDS_IF_CENSORED.contains(&name.as_str()) => {
                format!("{meaning} A lower bound, censored: {}.", text::count(censored, "request")).into()
            }
            (_, meaning) => meaning,
        };
        let value = if let Value::I64(whole) = value { Value::F64(whole as f64) } else { value };
        table.push([name, value, unit, meaning]).expect("four values");
    }
    table
}

fn json_of(point: &PointRuns) -> serde_json::Value {
    let scenario = &point.point.scenario;
    let runs: Vec<serde_json::Value> = point
        .runs
        .iter()
        .map(|run| {
            let figures: Map<String, serde_json::Value> =
                figures(run).into_iter().map(|figure| (figure.name.to_owned(), tables::json_value(&figure.value))).collect();
            let missed: Vec<String> = scenario.expect.missed(run).iter().map(ToString::to_string).collect();
            json!({ "seed": run.seed, "figures": figures, "missed": missed })
        })
        .collect();
    json!({ "scenario": scenario.name, "title": scenario.title, "version": VERSION, "settings": scenario.canonical(), "runs": runs })
}
