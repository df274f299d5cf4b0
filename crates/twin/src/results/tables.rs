//! Results as tables: one row per run, or one row per combination of a sweep.

use fulgurite_table::{Column, Kind, Table, Value};

use super::{Figure, figures};
use crate::simulation::Run;
use crate::statistics::confidence;
use crate::sweep::PointRuns;

const CONFIDENCE_LEVEL: f64 = 0.95;

/// One row per run: the varied settings, the seed and all figures.
///
/// # Panics
/// If the points don't vary the same number of settings. They must be the same settings, in the
/// same order.
#[must_use]
pub fn table(points: &[PointRuns]) -> Table {
    let Some(first) = points.iter().find_map(|point| point.runs.first()) else { return Table::new([Column::text("scenario", "")]) };
    let mut columns = varied_columns(points);
    // Seeds of 64 bits don't fit into a column of numbers, which have a sign.
    let seed = |run: &Run| i64::try_from(run.seed);
    let are_numbers = points.iter().flat_map(|point| &point.runs).all(|run| seed(run).is_ok());
    columns.push(if are_numbers { Column::i64("seed", "", "The seed.") } else { Column::text("seed", "The seed.") });
    columns.extend(figures(first).iter().map(|figure| Column::new(figure.name, kind_of(figure), figure.unit, figure.about)));
    let mut table = Table::new(columns);
    for point in points {
        for run in &point.runs {
            let mut row = varied_values(point);
            row.push(seed(run).ok().filter(|_| are_numbers).map_or_else(|| Value::Text(run.seed.to_string()), Value::I64));
            row.extend(figures(run).into_iter().map(|figure| figure.value));
            table.push(row).expect("every run has the same figures");
        }
    }
    table
}

/// One row per point: means over the seeds, with 95 % intervals for the mean and tail completion
/// times unless requests of a run were unfinished.
/// A figure that was not measured in every run has no mean.
///
/// # Panics
/// If the points don't vary the same number of settings. They must be the same settings, in the
/// same order.
#[must_use]
pub fn summary(points: &[PointRuns]) -> Table {
    const LOW: &str = "Lower end of the mean's 95 % interval; 0 if few and different runs would put it below.";
    const WITH_INTERVAL: [&str; 2] = ["tail_s", "mean_s"];
    let Some(first) = points.iter().find_map(|point| point.runs.first()) else { return Table::new([Column::text("scenario", "")]) };
    let mut columns = varied_columns(points);
    columns.push(Column::i64("seeds", "", "Number of runs."));
    for figure in figures(first) {
        columns.push(Column::f64(figure.name, figure.unit, figure.about));
        if WITH_INTERVAL.contains(&figure.name) {
            columns.push(Column::f64(&format!("{}_low", figure.name), figure.unit, LOW));
            columns.push(Column::f64(&format!("{}_high", figure.name), figure.unit, "Upper end of the mean's 95 % interval."));
        }
    }
    let mut table = Table::new(columns);
    for point in points {
        let mut row = varied_values(point);
        row.push(Value::I64(point.runs.len() as i64));
        let by_run: Vec<Vec<Figure>> = point.runs.iter().map(figures).collect();
        for index in 0..by_run.first().map_or(0, Vec::len) {
            // A mean of some of the runs could not be compared with means of all.
            let values: Option<Vec<f64>> = by_run.iter().map(|figures| number(&figures[index].value)).collect();
            row.push(values.as_ref().map(|values| values.iter().sum::<f64>() / values.len() as f64).into());
            if WITH_INTERVAL.contains(&by_run[0][index].name) {
                // An interval around lower bounds says nothing about the mean.
                let values = values.filter(|_| point.runs.iter().all(|run| run.unfinished.is_none()));
                let interval = values.and_then(|values| confidence(&values, CONFIDENCE_LEVEL));
                // Times are positive, so the part of the interval below 0 can't contain the mean.
                row.push(interval.map(|interval| interval.low().max(0.0)).into());
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
