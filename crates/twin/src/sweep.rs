//! Runs sweeps: all combinations of varied settings, each with several seeds, on several threads.
//! The results depend neither on the number of threads nor on the order in which runs finish.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fulgurite_settings::{Override, SettingErrors, Sweep};

use crate::scenario::Scenario;
use crate::simulation::{Observer, Repeated, Run, RunError};

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

/// Runs each point with `seeds` seeds, or with the scenario's own number if `None`; on at least one
/// thread and one seed. After each run, the thread that executed it calls `done` with the number of
/// finished runs.
///
/// # Errors
/// The error of the first failed run, in order of points and seeds.
pub fn run_points(
    points: Vec<Point>,
    seeds: Option<u32>,
    threads: usize,
    done: &(dyn Fn(usize) + Sync),
) -> Result<Vec<PointRuns>, RunError> {
    let done = |finished, ()| {
        done(finished);
        ControlFlow::Continue(())
    };
    run_points_with(points, seeds, threads, &|_, _| (), &done)
}

/// Like [`run_points`], with an observer of each run: `observer` makes it from the point and the
/// seed, and `done` also takes it back. Once `done` breaks, no further run is started, and those
/// are missing from the results.
pub fn run_points_with<O: Observer>(
    points: Vec<Point>,
    seeds: Option<u32>,
    threads: usize,
    observer: &(dyn Fn(&Point, u64) -> O + Sync),
    done: &(dyn Fn(usize, O) -> ControlFlow<()> + Sync),
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
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(point, seed)) = jobs.get(index) else { break };
            let mut observer = observer(&points[point], seed);
            let result = repeated[point].run_with(seed, &mut observer);
            if result.is_err() {
                // The sweep fails as a whole, so no further jobs are started.
                next.store(jobs.len(), Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
            if done(finished.fetch_add(1, Ordering::Relaxed) + 1, observer).is_break() {
                next.store(jobs.len(), Ordering::Relaxed);
            }
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
        // A job that was not started comes after one that failed, or after `done` broke.
        if let Some(result) = result {
            all[*point].runs.push(result?);
        }
    }
    Ok(all)
}
