//! Runs of the digital twin, as tables.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use fulgurite_domain::Micros;
use fulgurite_settings::{Override, SettingErrors, Sweep};
use fulgurite_table::{Table, Value};
use fulgurite_twin::results;
use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::simulation::{Observer, Run, RunError, Sample, run_with_policy};
use fulgurite_twin::sweep::{Point, PointRuns, points, run_points_with};
use fulgurite_twin::timeline::Timeline;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::interrupt::interruptible;
use crate::policy;

/// Maximum number of combinations of a sweep; more are a mistake.
const POINTS_MAX: usize = 100_000;

/// Ends a run once a signal came.
struct Stop<'s> {
    stop: &'s AtomicBool,
    next: Micros,
}

/// Simulated time between two looks. A run takes milliseconds for it.
const LOOK: Micros = Micros(60_000_000);

impl<'s> Stop<'s> {
    fn new(stop: &'s AtomicBool) -> Self {
        Self { stop, next: LOOK }
    }
}

impl Observer for Stop<'_> {
    fn next_sample(&self) -> Micros {
        self.next
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.next = sample.at + LOOK;
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What a run missed of the scenario's expectations: seed and text.
type Missed = Vec<(u64, String)>;

fn wrong(errors: SettingErrors) -> PyErr {
    PyValueError::new_err(errors.to_string())
}

fn failed(path: &std::path::Path, error: &RunError) -> PyErr {
    PyValueError::new_err(format!("{}: {error}", path.display()))
}

fn thread_count(wanted: Option<usize>) -> usize {
    wanted.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

fn overrides(settings: &[String]) -> PyResult<Vec<Override>> {
    settings.iter().map(|text| Override::parse("settings", text)).collect::<Result<_, _>>().map_err(wrong)
}

/// Reads a scenario with settings like `shuttles.count=8`, and returns its name, its title and all
/// of its settings as TOML.
#[pyfunction]
pub(crate) fn scenario(path: PathBuf, settings: Vec<String>) -> PyResult<(String, String, String)> {
    let scenario = Scenario::read(&path, &overrides(&settings)?).map_err(wrong)?;
    let canonical = scenario.canonical();
    Ok((scenario.name, scenario.title, canonical))
}

/// Runs a scenario with one or more seeds. Returns a table with a row for each, what they missed,
/// and, if `timeline` is true, the course of the first.
#[pyfunction]
pub(crate) fn run<'py>(
    py: Python<'py>,
    path: PathBuf,
    settings: Vec<String>,
    seed: Option<u64>,
    seeds: u32,
    threads: Option<usize>,
    timeline: bool,
) -> PyResult<(Bound<'py, PyDict>, Missed, Option<Bound<'py, PyDict>>)> {
    let mut scenario = Scenario::read(&path, &overrides(&settings)?).map_err(wrong)?;
    scenario.run.seed = seed.unwrap_or(scenario.run.seed);
    let first = scenario.run.seed;
    let drawn = Mutex::new(None);
    let runs = interruptible(py, |stop| {
        let observer = |point: &Point, seed: u64| (Stop::new(stop), (timeline && seed == first).then(|| Timeline::new(&point.scenario)));
        let done = |_, (_, observed): (Stop<'_>, Option<Timeline>)| {
            if observed.is_some() {
                *drawn.lock().expect("nothing panics while it holds this lock") = observed;
            }
            if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        run_points_with(vec![Point { varied: Vec::new(), scenario }], Some(seeds), thread_count(threads), &observer, &done)
    })?;
    let runs = runs.map_err(|error| failed(&path, &error))?;
    let course = drawn.into_inner().expect("nothing panicked while it held this lock");
    let course = course.map(|course| columns(py, &course.table())).transpose()?;
    Ok((columns(py, &results::table(&runs))?, missed(&runs), course))
}

/// Runs a scenario with a policy of Python: `make` makes one for each library.
#[pyfunction]
pub(crate) fn run_policy<'py>(
    py: Python<'py>,
    path: PathBuf,
    settings: Vec<String>,
    seed: Option<u64>,
    seeds: u32,
    make: Py<PyAny>,
) -> PyResult<(Bound<'py, PyDict>, Missed)> {
    let mut scenario = Scenario::read(&path, &overrides(&settings)?).map_err(wrong)?;
    scenario.run.seed = seed.unwrap_or(scenario.run.seed);
    let mut runs: Vec<Run> = Vec::new();
    for number in 0..seeds {
        let seed = scenario.run.seed.wrapping_add(number.into());
        let run = py.detach(|| policy::with_failures(|| run_with_policy(&scenario, seed, |_| policy::make(&make))))?;
        runs.push(run.map_err(|error| failed(&path, &error))?);
    }
    let runs = [PointRuns { point: Point { varied: Vec::new(), scenario }, runs }];
    Ok((columns(py, &results::table(&runs))?, missed(&runs)))
}

/// Runs all combinations of varied settings such as `shuttles.count=8,12`. Returns a row for each
/// run or, if `summarize` is true, for each combination.
#[pyfunction]
pub(crate) fn sweep<'py>(
    py: Python<'py>,
    path: PathBuf,
    settings: Vec<String>,
    vary: Vec<String>,
    seeds: Option<u32>,
    threads: Option<usize>,
    summarize: bool,
) -> PyResult<(Bound<'py, PyDict>, Missed)> {
    let varied = Sweep::parse(vary.iter().map(String::as_str), POINTS_MAX).map_err(wrong)?;
    let points = points(&path, &overrides(&settings)?, &varied).map_err(wrong)?;
    let runs = interruptible(py, |stop| {
        let done = |_, _: Stop<'_>| if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        run_points_with(points, seeds, thread_count(threads), &|_, _| Stop::new(stop), &done)
    })?;
    let runs = runs.map_err(|error| failed(&path, &error))?;
    let table = if summarize { results::summary(&runs) } else { results::table(&runs) };
    Ok((columns(py, &table)?, missed(&runs)))
}

fn missed(runs: &[PointRuns]) -> Missed {
    let mut all = Vec::new();
    for (point, run) in runs.iter().flat_map(|runs| runs.runs.iter().map(|run| (&runs.point, run))) {
        if let Some(unfinished) = &run.unfinished {
            all.push((run.seed, unfinished.to_string()));
        }
        all.extend(point.scenario.expect.missed(run).iter().map(|missed| (run.seed, missed.to_string())));
    }
    all
}

/// A table as a dictionary: of each column, its values, kind, unit and description.
fn columns<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (index, column) in table.columns().iter().enumerate() {
        let values = PyList::empty(py);
        for row in table.rows() {
            match &row[index] {
                Value::F64(value) => values.append(value)?,
                Value::I64(value) => values.append(value)?,
                Value::Text(value) => values.append(value)?,
                Value::Bool(value) => values.append(value)?,
                Value::Missing => values.append(py.None())?,
            }
        }
        all.set_item(column.name(), (values, column.kind().name(), column.unit(), column.description()))?;
    }
    Ok(all)
}
