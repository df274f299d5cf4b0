//! Writes results as files: a row per run and a row per combination, as CSV and as Parquet; a
//! description of the columns; the complete scenarios.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fulgurite_table::Table;
use fulgurite_twin::results::{summary, table};
use fulgurite_twin::sweep::PointRuns;
use fulgurite_twin::timeline::Timeline;

use super::VERSION;
use super::new_output::write_all;
use crate::{Session, tables};

/// The data of figures over time.
const TIMELINE: &str = "timeline.csv";

/// Creates the folder, and fails if it already contains results of so many points. Called before
/// anything runs, so that no run is in vain. A scenario there may be one that the user wrote.
pub(super) fn prepare(folder: &Path, points: usize) -> Result<()> {
    let tables = ["runs.csv", "runs.parquet", "runs.columns.csv", "means.csv", "means.parquet"];
    prepare_for(folder, tables.map(str::to_owned).into_iter().chain((0..points).map(|index| scenario_name(index, points))))
}

/// Like [`prepare`], for figures over time.
pub(super) fn prepare_plot(folder: &Path) -> Result<()> {
    prepare_for(folder, [TIMELINE.to_owned()])
}

fn prepare_for(folder: &Path, files: impl IntoIterator<Item = String>) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for path in files.into_iter().map(|file| folder.join(file)) {
        ensure!(!path.exists(), "{} already exists, and is not replaced: name another folder", crate::text::path(&path));
    }
    Ok(())
}

/// The file of the scenario of a point.
fn scenario_name(index: usize, points: usize) -> String {
    if points == 1 { "scenario.toml".to_owned() } else { format!("scenario-{index}.toml") }
}

/// Writes the figures of a run over time, and their data.
pub(super) fn write_plot(session: &Session, folder: &Path, scenario: &str, seed: u64, timeline: &Timeline) -> Result<()> {
    for (name, figure) in timeline.figures(&format!("{scenario}, seed {seed}")) {
        figure.write(folder, name).with_context(|| folder.join(name).display().to_string())?;
    }
    // Last: with it, the folder is taken.
    write_all(folder, &[(TIMELINE.to_owned(), tables::csv(&timeline.table())?)])?;
    session.say(&format!("Drawn in {}.", crate::text::path(folder)));
    Ok(())
}

pub(super) fn write(session: &Session, folder: &Path, points: &[PointRuns]) -> Result<()> {
    let name = &points[0].point.scenario.name;
    let noted = |table: Table| table.note("scenario", name).note("version", VERSION);
    let (runs, means) = (noted(table(points)), noted(summary(points)));
    let mut files = vec![("runs.columns.csv".to_owned(), tables::csv(&runs.dictionary())?)];
    for (name, table) in [("runs", &runs), ("means", &means)] {
        files.push((format!("{name}.csv"), tables::csv(table)?));
        files.push((format!("{name}.parquet"), tables::parquet(table)?));
    }
    for (index, point) in points.iter().enumerate() {
        let name = scenario_name(index, points.len());
        let mut scenario = point.point.scenario.clone();
        // The scenario is written to another folder than the one it was read from, so a relative
        // path would break.
        scenario.workload.trace =
            scenario.workload.trace.map(std::path::absolute).transpose().with_context(|| folder.join(&name).display().to_string())?;
        files.push((name, scenario.canonical().into_bytes()));
    }
    write_all(folder, &files)?;
    session.say(&format!("Written to {}.", crate::text::path(folder)));
    Ok(())
}
