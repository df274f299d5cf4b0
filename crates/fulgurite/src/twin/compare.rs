//! `twin compare`: compares two scenarios, or two settings of one, seed by seed.
//!
//! The exit status is 1 if requests had not ended when a run stopped, or if completion times are
//! compared and a run lost more requests than its scenario allows.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use fulgurite_settings::Override;
use fulgurite_table::{Column, Table, Value};
use fulgurite_twin::compare::{ComparedFigure, Comparison, compare as run_both};
use fulgurite_twin::results::names;
use fulgurite_twin::scenario::Scenario;
use serde_json::{Value as Json, json};

use super::{Chosen, RUNS, VERSION, bar, overrides, threads};
use crate::outcome::Misuse;
use crate::{Outcome, Session, text};

#[derive(Debug, Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    chosen: Chosen,
    /// The scenario file of B. Default: that of A. --set applies to both
    other: Option<PathBuf>,
    /// Change a setting of B only, such as policy.name=partitioned; the option may be repeated
    #[arg(long = "against", value_name = "NAME=VALUE")]
    against: Vec<String>,
    /// Number of seeds
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// The first seed. Default: that of scenario A
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The figure to compare: any that `twin run` prints
    #[arg(long, default_value = "tail_s", value_name = "NAME", value_parser = PossibleValuesParser::new(names()), hide_possible_values = true)]
    figure: String,
    /// Number of runs in parallel. Default: the number of cores. The results don't depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

pub(super) fn compare(session: &Session, asked: &Compare) -> Result<Outcome> {
    if asked.other.is_none() && asked.against.is_empty() {
        return Err(Misuse("B would be the same as A: name a second scenario, or a setting of B with --against".to_owned()).into());
    }
    let (mut a, mut b) = read(asked)?;
    if let Some(seed) = asked.seed {
        a.run.seed = seed;
    }
    b.run.seed = a.run.seed;
    let bar = bar(session, 2 * u64::from(asked.seeds), RUNS);
    let sides = [(&a, "A"), (&b, "B")].map(|(scenario, side)| described(scenario, side, asked));
    let comparison =
        run_both(a.clone(), b.clone(), asked.seeds, asked.threads.unwrap_or_else(threads), &|done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let comparison = comparison.map_err(|error| Misuse(error.to_string()))?;
    let figure = comparison.figure(&asked.figure).expect("the command line accepts only names of figures");
    session.answer(|| json_of(&figure, &comparison, [&a, &b]));
    session.say(&format!("{} with {}, fulgurite {VERSION}", figure.name, text::count(asked.seeds.into(), "seed")));
    session.say(&format!("{}\n{}\n{}\n", figure.about, sides[0], sides[1]));
    session.say(&table(&figure).to_string());
    if let Some(ratio) = &figure.ratio {
        let (mean, low, high) = (ratio.ratio, ratio.low, ratio.high);
        session.say(&format!("Geometric mean of A/B: {mean:.4}, 95 % interval {low:.4} to {high:.4}"));
    }
    session.say(&figure.verdict().to_string());
    if !comparison.is_paired {
        crate::diagnostics::note(
            "A and B don't get the same requests, so values of one seed don't belong together, and the interval is wider than that of paired runs",
        );
    }
    let is_lossy = figure.lossy != [0, 0];
    if is_lossy {
        report_lost(&comparison);
    }
    Ok(Outcome::troubled_if(report_unfinished(&comparison) || is_lossy))
}

/// Reads A and B.
fn read(asked: &Compare) -> Result<(Scenario, Scenario)> {
    let against = asked.against.iter().map(|text| Override::parse("--against", text));
    let against = against.collect::<Result<Vec<_>, _>>()?;
    if asked.against.iter().any(|text| text.split('=').next().is_some_and(|name| name.trim() == "run.seed")) {
        return Err(Misuse("--against run.seed: A and B run with the same seeds; set the first of both with --seed".to_owned()).into());
    }
    let of_both = overrides(&asked.chosen.set)?;
    let of_b: Vec<Override> = of_both.iter().chain(&against).cloned().collect();
    let path_of_b: &Path = asked.other.as_ref().unwrap_or(&asked.chosen.scenario);
    Ok((Scenario::read(&asked.chosen.scenario, &of_both)?, Scenario::read(path_of_b, &of_b)?))
}

/// A side, with its settings from the command line.
fn described(scenario: &Scenario, side: &str, asked: &Compare) -> String {
    let against = if side == "B" { asked.against.as_slice() } else { &[] };
    let settings: String = asked.chosen.set.iter().chain(against).map(|setting| format!(", {setting}")).collect();
    text::harmless(&format!("{side}: {}, policy {}{settings}", scenario.name, scenario.policy.name.text()))
}

/// A line for each seed.
fn table(figure: &ComparedFigure) -> Table {
    let value = |side| Column::f64(side, figure.unit, "");
    let mut table = Table::new([Column::text("seed", ""), value("A"), value("B"), Column::f64("A/B", "", "")]);
    for pair in &figure.pairs {
        let row: [Value; 4] = [pair.seed.to_string().into(), pair.a.into(), pair.b.into(), pair.ratio().into()];
        table.push(row).expect("a value for each column");
    }
    table
}

fn json_of(figure: &ComparedFigure, comparison: &Comparison, scenarios: [&Scenario; 2]) -> Json {
    let [a, b] = scenarios.map(|scenario| json!({ "scenario": scenario.name, "settings": scenario.canonical() }));
    let seeds: Vec<Json> = figure
        .pairs
        .iter()
        .zip(comparison.a.iter().zip(&comparison.b))
        .map(|(pair, (a, b))| {
            let censored = json!({ "a": a.censored(), "b": b.censored() });
            let lost = json!({ "a": a.lost(), "b": b.lost() });
            json!({ "seed": pair.seed, "a": pair.a, "b": pair.b, "ratio": pair.ratio(), "censored": censored, "lost": lost })
        })
        .collect();
    let ratio = figure.ratio.map(|ratio| json!({ "mean": ratio.ratio, "low": ratio.low, "high": ratio.high }));
    json!({
        "version": VERSION,
        "figure": figure.name,
        "unit": figure.unit,
        "a": a,
        "b": b,
        "seeds": seeds,
        "ratio": ratio,
        "paired": comparison.is_paired,
        "verdict": figure.verdict().to_string(),
    })
}

/// Prints which runs stopped before all requests had ended.
fn report_unfinished(comparison: &Comparison) -> bool {
    let mut is_censored = false;
    for (side, runs) in [("A", &comparison.a), ("B", &comparison.b)] {
        for run in runs {
            let Some(unfinished) = &run.unfinished else { continue };
            is_censored = true;
            crate::diagnostics::trouble(&format!("{side}: {}, seed {}: {unfinished}", run.scenario, run.seed));
        }
    }
    is_censored
}

/// Prints which runs lost more requests than their scenario expects.
fn report_lost(comparison: &Comparison) {
    let sides = [("A", &comparison.a), ("B", &comparison.b)].into_iter().zip(comparison.lost_at_most);
    for ((side, runs), at_most) in sides {
        for run in runs.iter().filter(|run| run.lost() > at_most) {
            let lost = run.outcomes.unavailable + run.outcomes.refused;
            crate::diagnostics::trouble(&format!(
                "{side}: {}, seed {}: {lost} of {} requests ended without their bytes, and have no completion time",
                run.scenario, run.seed, run.requests
            ));
        }
    }
}
