//! `migrate plan`: simulates a migration, several variants of one, or searches the cheapest that
//! ends in time.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fulgurite_migration::layout::Stage;
use fulgurite_migration::plan::{self, Found, Outcome as Planned, Range, Scenario};
use fulgurite_settings::{Override, Sweep};
use fulgurite_table::{Column, Table, Value};
use serde_json::json;

use crate::{Outcome, Session, tables, text};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum number of combinations; more are a mistake.
const POINTS_MAX: usize = 10_000;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// A scenario file
    scenario: PathBuf,
    /// Change a setting, such as stations.inputs=3; the option may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// A setting with the values it takes: stations.inputs=1,2,3; repeat the option to simulate all
    /// combinations
    #[arg(long = "vary", value_name = "NAME=VALUES", conflicts_with = "search")]
    vary: Vec<String>,
    /// Search for the cheapest numbers of stations, instances and streams that end in time; the
    /// scenario's sections search and costs set the limits and the costs
    #[arg(long)]
    search: bool,
    /// Write tables, a figure and the complete scenario to this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub(super) fn plan(session: &Session, asked: &Plan) -> Result<Outcome> {
    let overrides: Vec<Override> = asked.set.iter().map(|text| Override::parse("--set", text)).collect::<Result<_, _>>()?;
    let scenario = Scenario::read(&asked.scenario, &overrides)?;
    if let Some(folder) = &asked.out {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for name in ["streams.csv", "variants.csv"] {
            let path = folder.join(name);
            ensure!(!path.exists(), "{} already exists, and is not replaced: name another folder", text::path(&path));
        }
    }
    session.say(&format!("{}, fulgurite {VERSION}", scenario.name));
    if !scenario.title.is_empty() {
        session.say(&scenario.title);
    }
    session.say("");
    if asked.search {
        return search(session, &scenario, asked.out.as_deref());
    }
    if !asked.vary.is_empty() {
        return vary(session, asked, &overrides);
    }
    let planned = plan::simulate(&scenario);
    let range = plan::range(&scenario);
    session.answer(|| one_json(&planned, range));
    session.say(&statement(&planned, range));
    session.say(&planned.table().to_string());
    write(session, asked.out.as_deref(), &planned, range)?;
    Ok(Outcome::Good)
}

fn search(session: &Session, scenario: &Scenario, out: Option<&Path>) -> Result<Outcome> {
    let Found { cheapest, fastest, tried } = plan::search(scenario);
    let within = scenario.reach.within.seconds() / 86_400.0;
    if let Some((candidate, planned)) = cheapest {
        let of = &planned.scenario.stations;
        let range = plan::range(&planned.scenario);
        session.answer(|| {
            let mut answer = one_json(&planned, range);
            answer["cost"] = candidate.cost.into();
            answer["tried"] = tried.into();
            answer["configuration"] = json!({
                "stations": of.count, "instances": of.instances, "inputs": of.inputs, "outputs": of.outputs, "scans": of.scans
            });
            answer
        });
        let named = configuration(&planned.scenario);
        session.say(&format!("Cheapest of {tried} tried that ends within {within:.1} d: {named}; cost {}.\n", candidate.cost));
        session.say(&statement(&planned, range));
        session.say(&planned.table().to_string());
        write(session, out, &planned, range)?;
        return Ok(Outcome::Good);
    }
    session.answer(
        || json!({ "version": VERSION, "tried": tried, "configuration": null, "fastest_s": fastest.as_ref().map(|of| of.projected_s) }),
    );
    let fastest = fastest.map_or_else(
        || "even without any pause, none could".to_owned(),
        |fastest| {
            format!("the fastest of {tried} tried takes {:.1} d: {}", fastest.projected_s / 86_400.0, configuration(&fastest.scenario))
        },
    );
    session.warn(&format!("No configuration within the reach of [search] ends within {within:.1} d: {fastest}."));
    Ok(Outcome::Troubled)
}

/// Such as "8 stations of 2 inputs and 1 output".
fn configuration(scenario: &Scenario) -> String {
    let of = &scenario.stations;
    let counted = |count: u16, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let instances = if of.instances > 1 { format!("{} of ", counted(of.instances, "instance")) } else { String::new() };
    let scans = if of.scans > 0 { format!(" and {}", counted(of.scans, "scan")) } else { String::new() };
    let streams = format!("{} and {}{scans}", counted(of.inputs, "input"), counted(of.outputs, "output"));
    format!("{} of {instances}{streams}", counted(of.count, "station"))
}

fn vary(session: &Session, asked: &Plan, overrides: &[Override]) -> Result<Outcome> {
    let varied = Sweep::parse(asked.vary.iter().map(String::as_str), POINTS_MAX)?;
    let names = varied.axes().iter().map(|axis| Column::text(axis.name(), "varied setting"));
    let mut table = Table::new(names.chain([
        Column::f64("days", "d", "time from the beginning to the end"),
        Column::f64("days_least", "d", "the least it may be if rates were measured with other numbers of streams; else the same"),
        Column::f64("days_most", "d", "the most it may be then"),
        Column::f64("rate", "MB/s", "rate from the beginning to the end"),
        Column::f64("s_per_gb", "s/GB", "time for each gigabyte"),
        Column::f64("months_per_pb", "months/PB", "time for each petabyte"),
        Column::f64("input_duty", "1", "sum of the duty factors of all inputs"),
        Column::f64("output_duty", "1", "sum of the duty factors of all outputs"),
        Column::text("limited_by", "the stage whose streams were busiest"),
        Column::f64("cost", "1", "cost of stations and drives"),
    ]));
    for point in varied.points() {
        let all: Vec<Override> = overrides.iter().chain(point.iter().copied()).cloned().collect();
        let planned = plan::simulate(&Scenario::read(&asked.scenario, &all)?);
        let values = point.iter().map(|value| Value::Text(value.text().to_owned()));
        let range = plan::range(&planned.scenario).unwrap_or(Range { least: planned.elapsed(), most: planned.elapsed() });
        let days = [planned.elapsed(), range.least, range.most].map(|time| time.seconds() / 86_400.0);
        let figures = [planned.rate() / 1e6, planned.seconds_per_gb(), planned.months_per_pb()];
        let duties = [planned.stage(Stage::Input).duty(), planned.stage(Stage::Output).duty()];
        let stage = planned.limiting_stage().map_or("", Stage::name);
        let row = values.chain(days.into_iter().chain(figures).chain(duties).map(Value::F64));
        table.push(row.chain([Value::Text(stage.to_owned()), Value::F64(planned.scenario.cost())])).context("a row of figures")?;
    }
    session.answer(|| json!({ "version": VERSION, "variants": tables::rows_json(&table) }));
    session.say(&table.to_string());
    if let Some(folder) = &asked.out {
        tables::write_table(folder, "variants", &table)?;
        tables::write_csv(&folder.join("variants.columns.csv"), &table.dictionary())?;
        session.say(&format!("\nWritten to {}.", text::path(folder)));
    }
    Ok(Outcome::Good)
}

/// The outcome in a few sentences, and how uncertain it is.
fn statement(planned: &Planned, range: Option<Range>) -> String {
    planned.statement() + &range.map_or_else(String::new, |range| range.statement(&planned.scenario) + "\n")
}

fn one_json(planned: &Planned, range: Option<Range>) -> serde_json::Value {
    json!({
        "scenario": planned.scenario.name,
        "title": planned.scenario.title,
        "version": VERSION,
        "seconds": planned.elapsed().seconds(),
        "seconds_least": range.map(|range| range.least.seconds()),
        "seconds_most": range.map(|range| range.most.seconds()),
        "bytes_per_second": planned.rate(),
        "seconds_per_gb": planned.seconds_per_gb(),
        "months_per_pb": planned.months_per_pb(),
        "input_duty": planned.stage(Stage::Input).duty(),
        "output_duty": planned.stage(Stage::Output).duty(),
        "limited_by": planned.limiting_stage().map(Stage::name),
        "streams": tables::rows_json(&planned.table()),
    })
}

fn write(session: &Session, folder: Option<&Path>, planned: &Planned, range: Option<Range>) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    let table = planned.table();
    tables::write_table(folder, "streams", &table)?;
    tables::write_csv(&folder.join("streams.columns.csv"), &table.dictionary())?;
    planned.figure().write(folder, "rates")?;
    for (name, content) in [("plan.txt", statement(planned, range)), ("scenario.toml", planned.scenario.text.clone())] {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| path.display().to_string())?;
    }
    session.say(&format!("Written to {}.", text::path(folder)));
    Ok(())
}
