//! Runs sweeps: all combinations of varied settings, each with several seeds, on several threads.
//! The results depend neither on the number of threads nor on the order in which runs finish.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Figure, figures};
use crate::scenario::Scenario;
use crate::settings::{Override, SettingErrors, Sweep};
use crate::simulation::{Repeated, Run, RunError};
use crate::statistics::confidence;
use crate::table::{Column, Kind, Table, Value};

/// A combination of settings.
#[derive(Debug, Clone)]
pub struct Point {
    /// The varied settings, with their values as given.
    pub varied: Vec<(String, String)>,
    /// The scenario with these settings.
    pub scenario: Scenario,
}

/// A combination and its runs, one per seed.
#[derive(Debug)]
pub struct PointRuns {
    /// The combination.
    pub point: Point,
    /// The runs, in order of seeds.
    pub runs: Vec<Run>,
}

const CONFIDENCE_LEVEL: f64 = 0.95;

/// Reads the scenario for each combination of a sweep. Varied settings override those of the
/// command line.
///
/// # Errors
/// All problems of the first combination that can't be run.
pub fn points(path: &Path, settings: &[Override], sweep: &Sweep) -> Result<Vec<Point>, SettingErrors> {
    let point = |values: Vec<&Override>| {
        let all: Vec<Override> = settings.iter().chain(values.iter().copied()).cloned().collect();
        let varied = values.iter().map(|value| (value.name(), value.text().to_owned())).collect();
        Ok(Point { varied, scenario: Scenario::read(path, &all)? })
    };
    sweep.points().map(point).collect()
}

/// Runs each point with `seeds` seeds, or with the scenario's own number if `None`. After each run,
/// the thread that executed it calls `done` with the number of finished runs.
///
/// # Errors
/// The error of the first failed run, in order of points and seeds.
pub fn run_points(
    points: Vec<Point>,
    seeds: Option<u32>,
    threads: usize,
    done: &(dyn Fn(usize) + Sync),
) -> Result<Vec<PointRuns>, RunError> {
    let seeds_of = |point: &Point| seeds.unwrap_or(point.scenario.run.seeds).max(1);
    let jobs: Vec<(usize, u64)> = points
        .iter()
        .enumerate()
        .flat_map(|(index, point)| (0..seeds_of(point)).map(move |seed| (index, point.scenario.run.seed.wrapping_add(seed.into()))))
        .collect();
    let results: Mutex<Vec<Option<Result<Run, RunError>>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let repeated: Vec<Repeated> = points.iter().map(|point| Repeated::new(point.scenario.clone())).collect();
    let work = || {
        while let Some((index, (point, seed))) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, *jobs.get(at)?))) {
            let result = repeated[point].run(seed);
            if result.is_err() {
                // The sweep fails as a whole, so no further jobs are started.
                next.store(jobs.len(), Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
            done(finished.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let mut all: Vec<PointRuns> = points.into_iter().map(|point| PointRuns { point, runs: Vec::new() }).collect();
    for ((point, _), result) in jobs.iter().zip(results.into_inner().unwrap_or_else(PoisonError::into_inner)) {
        // A job that was not started comes after one that failed.
        if let Some(result) = result {
            all[*point].runs.push(result?);
        }
    }
    Ok(all)
}

/// One row per run: the varied settings, the seed and all figures.
///
/// # Panics
/// If the points don't vary the same number of settings. They must be the same settings, in the
/// same order.
#[must_use]
pub fn table(points: &[PointRuns]) -> Table {
    let Some(first) = points.iter().find_map(|point| point.runs.first()) else { return Table::new([Column::text("scenario", "")]) };
    let mut columns = varied_columns(points);
    columns.push(Column::i64("seed", "", "The seed."));
    columns.extend(figures(first).iter().map(|figure| Column::new(figure.name, kind_of(figure), figure.unit, figure.about)));
    let mut table = Table::new(columns);
    for point in points {
        for run in &point.runs {
            let mut row = varied_values(point);
            row.push(Value::I64(run.seed as i64));
            row.extend(figures(run).into_iter().map(|figure| figure.value));
            table.push(row).expect("every run has the same figures");
        }
    }
    table
}

/// One row per point: means over the seeds, with 95 % intervals for the mean and tail completion
/// times.
///
/// # Panics
/// If the points don't vary the same number of settings. They must be the same settings, in the
/// same order.
#[must_use]
pub fn summary(points: &[PointRuns]) -> Table {
    const WITH_INTERVAL: [&str; 2] = ["tail_s", "mean_s"];
    let Some(first) = points.iter().find_map(|point| point.runs.first()) else { return Table::new([Column::text("scenario", "")]) };
    let mut columns = varied_columns(points);
    columns.push(Column::i64("seeds", "", "Number of runs."));
    for figure in figures(first) {
        columns.push(Column::f64(figure.name, figure.unit, figure.about));
        if WITH_INTERVAL.contains(&figure.name) {
            columns.push(Column::f64(&format!("{}_low", figure.name), figure.unit, "Lower end of the mean's 95 % interval."));
            columns.push(Column::f64(&format!("{}_high", figure.name), figure.unit, "Upper end of the mean's 95 % interval."));
        }
    }
    let mut table = Table::new(columns);
    for point in points {
        let mut row = varied_values(point);
        row.push(Value::I64(point.runs.len() as i64));
        let by_run: Vec<Vec<Figure>> = point.runs.iter().map(figures).collect();
        for index in 0..by_run.first().map_or(0, Vec::len) {
            let values: Vec<f64> = by_run.iter().filter_map(|figures| number(&figures[index].value)).collect();
            let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
            row.push(mean.into());
            if WITH_INTERVAL.contains(&by_run[0][index].name) {
                let interval = confidence(&values, CONFIDENCE_LEVEL);
                row.push(interval.map(|interval| interval.low()).into());
                row.push(interval.map(|interval| interval.high()).into());
            }
        }
        table.push(row).expect("every point has the same columns");
    }
    table
}

fn varied_columns(points: &[PointRuns]) -> Vec<Column> {
    let mut columns = vec![Column::text("scenario", "The scenario's name.")];
    let names = points.first().map(|point| point.point.varied.as_slice()).unwrap_or_default();
    columns.extend(names.iter().map(|(name, _)| Column::text(name, "A varied setting.")));
    columns
}

fn varied_values(point: &PointRuns) -> Vec<Value> {
    let mut row = vec![Value::Text(point.point.scenario.name.clone())];
    row.extend(point.point.varied.iter().map(|(_, value)| Value::Text(value.clone())));
    row
}

fn kind_of(figure: &Figure) -> Kind {
    figure.value.kind().unwrap_or(Kind::F64)
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::F64(value) => Some(*value),
        Value::I64(value) => Some(*value as f64),
        _ => None,
    }
}
