//! Collects the runs that chapters ask for, runs each once per seed, and returns the results.

use std::any::Any;
use std::marker::PhantomData;

use super::aggregate::{Measured, Sample};
use super::{PaperError, Settings};
use crate::jobs::{self, Job};
use crate::scenario::{PolicyName, Scenario};
use crate::simulation::{Repeated, RunError};

/// Handle of a planned scenario: its sample, of one run per seed, is in the [`Results`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point(usize);

/// Handle of a job other than a run; `T` is the type of its result.
#[derive(Debug)]
pub(super) struct Task<T>(usize, PhantomData<fn() -> T>);

impl<T> Clone for Task<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Task<T> {}

type Answer = Result<Box<dyn Any + Send>, PaperError>;

struct Planned {
    chapter: &'static str,
    scenario: Repeated,
    seeds: u32,
}

pub(super) struct Plan {
    settings: Settings,
    pub(super) chapter: &'static str,
    points: Vec<Planned>,
    tasks: Vec<Job<'static, Answer>>,
}

impl Plan {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, chapter: "", points: Vec::new(), tasks: Vec::new() }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The places to run along an axis: all of them, or the ends for a quick look.
    pub(super) fn along<T: Copy>(&self, places: &[T]) -> Vec<T> {
        match places {
            [first, .., last] if self.settings.quick => vec![*first, *last],
            _ => places.to_vec(),
        }
    }

    /// Plans a scenario with the seeds of a sweep. A scenario that is already planned is not
    /// repeated.
    pub(super) fn point(&mut self, scenario: &Scenario) -> Point {
        self.point_with(scenario, self.settings.sweep_seeds)
    }

    /// Plans a scenario that supports conclusions, with all seeds.
    pub(super) fn headline(&mut self, scenario: &Scenario) -> Point {
        self.point_with(scenario, self.settings.seeds)
    }

    pub(super) fn point_with(&mut self, scenario: &Scenario, seeds: u32) -> Point {
        if let Some(index) = self.points.iter().position(|point| *point.scenario.scenario() == *scenario) {
            self.points[index].seeds = self.points[index].seeds.max(seeds);
            return Point(index);
        }
        // Most points have the same platters, and placing them takes as long as many a run.
        let planned = Repeated::among(self.points.iter().map(|point| &point.scenario), scenario.clone());
        self.points.push(Planned { chapter: self.chapter, scenario: planned, seeds });
        Point(self.points.len() - 1)
    }

    /// Plans a job of another kind; `cost` is in millions of events.
    pub(super) fn task<T: Send + 'static>(
        &mut self,
        cost: f64,
        work: impl Fn() -> Result<T, PaperError> + Send + Sync + 'static,
    ) -> Task<T> {
        self.tasks.push(Job { cost, work: Box::new(move || Ok(Box::new(work()?))) });
        Task(self.tasks.len() - 1, PhantomData)
    }

    pub(super) fn failed(chapter: &'static str, scenario: &Scenario, seed: u64, source: RunError) -> PaperError {
        let scenario = format!("{} under {}", scenario.name, scenario.policy.name.text());
        PaperError::Run { chapter, scenario, seed, source: Box::new(source) }
    }

    pub(super) fn run_all(self, progress: &(dyn Fn(f64) + Sync)) -> Result<Results, PaperError> {
        let Self { settings, points, tasks, .. } = self;
        let mut all = tasks;
        let task_count = all.len();
        for point in &points {
            for seed in settings.first_seed..settings.first_seed + u64::from(point.seeds) {
                let (chapter, scenario) = (point.chapter, point.scenario.clone());
                let cost = cost(scenario.scenario());
                let work = move || -> Answer {
                    let run = scenario.run(seed).map_err(|source| Self::failed(chapter, scenario.scenario(), seed, source))?;
                    Ok(Box::new(Measured::of(run)))
                };
                all.push(Job { cost, work: Box::new(work) });
            }
        }
        let mut answers = jobs::run_all(&all, settings.threads, progress).into_iter();
        let tasks = answers.by_ref().take(task_count).map(|answer| answer.map(Some)).collect::<Result<_, _>>()?;
        let mut samples = Vec::with_capacity(points.len());
        for point in &points {
            let runs = answers.by_ref().take(point.seeds as usize);
            let runs = runs.map(|run| Ok(*run?.downcast::<Measured>().expect("a run gives what it measured")));
            samples.push(Sample::new(runs.collect::<Result<_, PaperError>>()?));
        }
        let scenarios = points.into_iter().map(|point| point.scenario).collect();
        Ok(Results { tasks, samples, scenarios })
    }
}

/// Estimated cost of a run, in millions of events: arrivals and what follows, times the cost of the
/// policy's decisions and paths. The factors are rough: the cost affects only the order of runs and
/// the progress shown.
fn cost(scenario: &Scenario) -> f64 {
    const EVENTS_PER_READ: f64 = 8.0;
    /// A read of an unavailable platter becomes reads of 16 others in its set.
    const EXTRA_READS_IF_UNAVAILABLE: f64 = 15.0;
    const DRIVES_PER_LIBRARY: f64 = 20.0;
    const EVENTS_PER_DRIVE_HOUR: f64 = 100.0;
    let hours = (scenario.run.measured_until().seconds() / 3600.0).max(0.01);
    let requests = scenario.workload.rate * hours * 3600.0;
    let reads = requests * (1.0 + EXTRA_READS_IF_UNAVAILABLE * scenario.sets.unavailable);
    let drive_hours = DRIVES_PER_LIBRARY * hours * f64::from(scenario.libraries);
    // Cost of an event relative to that under `partitioned`.
    let relative_cost = match scenario.policy.name {
        PolicyName::NoShuttles => 0.2,
        PolicyName::Partitioned => 1.0,
        PolicyName::Balanced => 3.0,
        PolicyName::ShortestPaths => 12.0 * f64::from(scenario.layout.shuttles) / 20.0,
    };
    (reads * EVENTS_PER_READ + drive_hours * EVENTS_PER_DRIVE_HOUR) * relative_cost / 1e6
}

pub(super) struct Results {
    tasks: Vec<Option<Box<dyn Any + Send>>>,
    samples: Vec<Sample>,
    scenarios: Vec<Repeated>,
}

impl Results {
    pub(super) fn sample(&self, point: Point) -> &Sample {
        &self.samples[point.0]
    }

    pub(super) fn scenario(&self, point: Point) -> &Scenario {
        self.scenarios[point.0].scenario()
    }

    pub(super) fn task<T: 'static>(&self, task: Task<T>) -> &T {
        let answer = self.tasks[task.0].as_ref().expect("every task is done");
        answer.downcast_ref().expect("a task's type is that of its answer")
    }

    pub(super) fn runs(&self) -> u64 {
        self.samples.iter().map(|sample| sample.runs().len() as u64).sum()
    }

    pub(super) fn events(&self) -> u64 {
        self.samples.iter().flat_map(|sample| sample.runs()).map(|run| run.events).sum()
    }

    /// Number of runs that stopped before all requests had ended.
    pub(super) fn censored(&self) -> u64 {
        self.samples.iter().flat_map(|sample| sample.runs()).filter(|run| run.censored > 0).count() as u64
    }
}
