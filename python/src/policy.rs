//! Policies written in Python, for experiments in the twin.
//!
//! A policy sees copies of what it needs, in plain units: it can't hold on to the panel of the
//! controller. What it asks for is checked before the controller gets it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fulgurite_library::{Drive, Pace, Panel, Platter, Policy, Position, Shuttle, Task};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A place on the panel: the shelf, and metres from the left end.
type Place = (u8, f64);

fn place(position: Position) -> Place {
    (position.shelf, position.x_um as f64 / 1e6)
}

/// A shuttle without a task.
#[pyclass(frozen, get_all, module = "fulgurite._native")]
#[derive(Clone)]
pub(crate) struct IdleShuttle {
    /// Its number, from 0.
    number: u16,
    /// Where it is: the shelf, and metres from the left end.
    at: Place,
}

/// A read drive.
#[pyclass(frozen, get_all, module = "fulgurite._native")]
#[derive(Clone)]
pub(crate) struct ReadDrive {
    /// Its number, from 0.
    number: u16,
    /// Where shuttles reach it: the shelf, and metres from the left end.
    at: Place,
    /// Whether a platter may be brought to it: it works, can be reached and has a bay for it.
    can_take: bool,
    /// Whether it also has no platter of a customer, and expects none.
    is_free: bool,
    /// Customers' platters in it, and those on their way to it.
    customers: u32,
    /// The bay of a platter that is done and may be taken home, or None.
    released_bay: Option<u8>,
}

/// A platter in its slot that has requests.
#[pyclass(frozen, get_all, module = "fulgurite._native")]
#[derive(Clone)]
pub(crate) struct WaitingPlatter {
    /// Its number, from 0.
    number: u32,
    /// Where it is: the shelf, and metres from the left end.
    at: Place,
    /// How long its most urgent request has waited, in seconds.
    age_s: f64,
    /// Its requests.
    requests: u32,
    /// Tracks that they want.
    tracks: u32,
}

/// What a policy sees.
#[pyclass(frozen, module = "fulgurite._native")]
pub(crate) struct View {
    /// The time, in seconds.
    #[pyo3(get)]
    now_s: f64,
    /// Shuttles without a task.
    #[pyo3(get)]
    shuttles: Py<PyTuple>,
    /// All drives.
    #[pyo3(get)]
    drives: Py<PyTuple>,
    /// Platters in slots that have requests, the most urgent of each half of a shelf first.
    #[pyo3(get)]
    waiting: Py<PyTuple>,
    pace: Pace,
}

#[pymethods]
impl View {
    /// Seconds that a shuttle needs between two places, without traffic.
    #[pyo3(signature = (origin, destination, /))]
    fn travel_s(&self, origin: &Bound<'_, PyAny>, destination: &Bound<'_, PyAny>) -> PyResult<f64> {
        Ok(self.pace.travel(position_of(origin)?, position_of(destination)?).seconds())
    }
}

/// Bound of a place's distance from the left end, in metres.
const X_MAX: f64 = 1e6;

fn position_of(given: &Bound<'_, PyAny>) -> PyResult<Position> {
    let (shelf, x_m): Place = in_range(given)?;
    if x_m.is_nan() || x_m.abs() > X_MAX {
        return Err(PyValueError::new_err(format!("the place {} is out of range", given.repr()?)));
    }
    Ok(Position { shelf, x_um: (x_m * 1e6).round() as i64 })
}

/// Converts a Python value. Out-of-range numbers raise `ValueError` instead of `OverflowError`.
fn in_range<'py, T>(given: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    given.extract::<T>().map_err(|error| {
        let is_out_of_range = error.is_instance_of::<PyOverflowError>(given.py());
        let shown = given.repr().map(|shown| shown.to_string()).unwrap_or_default();
        if is_out_of_range { PyValueError::new_err(format!("{shown} is out of range")) } else { error }
    })
}

/// The task to bring a platter to a drive.
#[pyclass(frozen, get_all, module = "fulgurite._native")]
#[derive(Clone)]
pub(crate) struct Fetch {
    shuttle: u16,
    platter: u32,
    drive: u16,
}

/// The task to take a released platter home.
#[pyclass(frozen, get_all, module = "fulgurite._native")]
#[derive(Clone)]
pub(crate) struct Collect {
    shuttle: u16,
    drive: u16,
}

#[pymethods]
impl Fetch {
    #[new]
    fn new(shuttle: &Bound<'_, PyAny>, platter: &Bound<'_, PyAny>, drive: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { shuttle: in_range(shuttle)?, platter: in_range(platter)?, drive: in_range(drive)? })
    }
}

#[pymethods]
impl Collect {
    #[new]
    fn new(shuttle: &Bound<'_, PyAny>, drive: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { shuttle: in_range(shuttle)?, drive: in_range(drive)? })
    }
}

/// A policy in Python: an object with a method `assign`.
struct Scripted(Py<PyAny>);

/// The panic that ends a run whose policy failed.
struct Failed(PyErr);

/// Runs `work`, and returns the exception of a policy that failed in it.
pub(crate) fn with_failures<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| match panic.downcast::<Failed>() {
        Ok(failed) => failed.0,
        Err(panic) => resume_unwind(panic),
    })
}

/// Ends the run: a policy can't return errors.
fn or_end<T>(result: PyResult<T>) -> T {
    // Unlike a panic, this prints nothing.
    result.unwrap_or_else(|error| resume_unwind(Box::new(Failed(error))))
}

/// The policy that `make` makes.
pub(crate) fn make(make: &Py<PyAny>) -> Box<dyn Policy> {
    Box::new(Scripted(or_end(Python::attach(|py| make.call0(py)))))
}

impl Policy for Scripted {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        panel.idle_shuttles().next()?;
        let has_released = || panel.drives().any(|drive| panel.released_bay(drive).is_some());
        if panel.queue().platters() == 0 && !has_released() {
            return None;
        }
        or_end(Python::attach(|py| {
            let answer = self.0.call_method1(py, "assign", (view(py, panel)?,))?;
            task(panel, answer.bind(py))
        }))
    }
}

fn view(py: Python<'_>, panel: &Panel) -> PyResult<View> {
    let now = panel.now();
    let drive = |drive: Drive| ReadDrive {
        number: drive.0,
        at: place(panel.door(drive)),
        can_take: panel.is_reachable(drive) && panel.bay_to_fill(drive).is_some(),
        is_free: panel.is_free(drive),
        customers: panel.customers(drive),
        released_bay: panel.released_bay(drive).filter(|_| panel.is_reachable(drive)).map(|bay| bay.0),
    };
    let platter = |platter: Platter| WaitingPlatter {
        number: platter.0,
        at: place(panel.platter_position(platter)),
        age_s: panel.queue().age(platter, now).seconds(),
        requests: panel.queue().requests_for(platter),
        tracks: panel.queue().tracks_for(platter),
    };
    let shuttle = |shuttle: Shuttle| IdleShuttle { number: shuttle.0, at: place(panel.position(shuttle)) };
    let waiting: Vec<WaitingPlatter> = panel.lanes().flat_map(|lane| panel.queue().line(lane)).map(platter).collect();
    Ok(View {
        now_s: now.seconds(),
        shuttles: PyTuple::new(py, panel.idle_shuttles().map(shuttle).collect::<Vec<_>>())?.unbind(),
        drives: PyTuple::new(py, panel.drives().map(drive).collect::<Vec<_>>())?.unbind(),
        waiting: PyTuple::new(py, waiting)?.unbind(),
        pace: *panel.pace(),
    })
}

/// What a policy answered, once it was checked.
fn task(panel: &Panel, answer: &Bound<'_, PyAny>) -> PyResult<Option<(Shuttle, Task)>> {
    if answer.is_none() {
        return Ok(None);
    }
    let fault = |what: String| Err(PyValueError::new_err(format!("the policy asked for what can't be done: {what}")));
    let (shuttle, drive) = match (answer.cast::<Fetch>(), answer.cast::<Collect>()) {
        (Ok(fetch), _) => (fetch.get().shuttle, fetch.get().drive),
        (_, Ok(collect)) => (collect.get().shuttle, collect.get().drive),
        _ => return Err(PyTypeError::new_err("`assign` returns a Fetch, a Collect or None")),
    };
    let (shuttle, drive) = (Shuttle(shuttle), Drive(drive));
    if !panel.idle_shuttles().any(|idle| idle == shuttle) {
        return fault(format!("shuttle {} isn't idle", shuttle.0));
    }
    if !panel.drives().any(|known| known == drive) || !panel.is_reachable(drive) {
        return fault(format!("there is no drive {} that works and can be reached", drive.0));
    }
    let Ok(fetch) = answer.cast::<Fetch>() else {
        return match panel.released_bay(drive) {
            Some(bay) => Ok(Some((shuttle, Task::Collect { drive, bay }))),
            None => fault(format!("drive {} has no released platter", drive.0)),
        };
    };
    let platter = Platter(fetch.get().platter);
    if platter.0 >= panel.platter_count() || panel.queue().lane_of(platter).is_none() {
        return fault(format!("platter {} doesn't wait in a slot", platter.0));
    }
    if panel.bay_to_fill(drive).is_none() {
        return fault(format!("drive {} can't take another platter", drive.0));
    }
    Ok(Some((shuttle, Task::Fetch { platter, drive })))
}
