//! The evaluation of Project Silica (Anderson et al., SOSP '23, section 7), run again by one call: every figure and table that is about the
//! system, as data, as plots, and as one page of text with the numbers filled in.
//!
//! ```text
//! chapters:  plan -----> jobs: one for each scenario and seed, each once, however many figures show it
//!                          |
//!                          v   one pool of threads, the longest first; what comes out doesn't depend on their number
//! chapters:  report <--- samples: one for each scenario
//!              |
//!              '-------> Chapter: text, figures, tables ---> Paper: files in a folder, page
//! ```
//!
//! Nothing is kept between calls: the same settings give the same bytes.

mod aggregate;
mod chapter;
mod chapters;
mod jobs;
mod page;
mod plan;
mod write;

pub use aggregate::{Estimate, Measured, Sample};
pub use chapter::{Chapter, Drawing, Sheet};
pub use chapters::NAMES;

use crate::placement_program::ProgramError;
use crate::plot::PlotError;
use crate::simulation::RunError;
use crate::table::TableError;

/// What to run, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Seeds of the points that conclusions are drawn from: the default library under each policy, and the ablation. They are given with
    /// confidence intervals.
    pub seeds: u32,
    /// Seeds of all other points, which are there to show how something goes on along an axis; with 5 or more they are given with intervals too.
    pub sweep_seeds: u32,
    /// The first seed.
    pub first_seed: u64,
    /// Names of chapters, of [`NAMES`]; all of them if empty.
    pub only: Vec<String>,
    /// A short interval, and only the ends of each axis: to see that all of it works.
    pub quick: bool,
    /// Threads; 0 for as many as there are cores.
    pub threads: usize,
}

impl Default for Settings {
    /// All of it, with 10 seeds where it counts and one elsewhere: what two cores do in two minutes.
    fn default() -> Self {
        Self { seeds: 10, sweep_seeds: 1, first_seed: 1, only: Vec::new(), quick: false, threads: 0 }
    }
}

impl Settings {
    /// The quick version: half an hour of one or two seeds.
    #[must_use]
    pub fn quick() -> Self {
        Self { seeds: 2, sweep_seeds: 1, quick: true, ..Self::default() }
    }
}

/// Why there is no paper.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// No chapter has this name.
    #[error("no figure or table is named {found}; there are {}", NAMES.join(", "))]
    UnknownChapter {
        /// The name.
        found: String,
    },
    /// There are to be no seeds.
    #[error("0 seeds, but 1 or more are expected")]
    NoSeeds,
    /// A run failed.
    #[error("the run of {chapter}, {scenario} with seed {seed} failed")]
    Run {
        /// The chapter that asked for it first.
        chapter: &'static str,
        /// Policy and workload.
        scenario: String,
        /// The seed.
        seed: u64,
        /// Why.
        #[source]
        source: Box<RunError>,
    },
    /// The solver failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A figure couldn't be drawn or written.
    #[error("figure {figure}")]
    Plot {
        /// Its name.
        figure: String,
        /// Why.
        #[source]
        source: PlotError,
    },
    /// A table couldn't be made.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A file couldn't be written.
    #[error("{} could not be written", path.display())]
    Write {
        /// The file.
        path: std::path::PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
}

/// What came out.
#[derive(Debug, Clone)]
pub struct Paper {
    /// What it was made with.
    pub settings: Settings,
    /// In the order of [`NAMES`].
    pub chapters: Vec<Chapter>,
    /// Runs of the simulation.
    pub runs: u64,
    /// Events of all runs.
    pub events: u64,
}

/// Runs the evaluation. `progress` is told how much of the work is done, as a share, from whatever thread.
///
/// # Errors
/// [`PaperError`], if the settings are wrong or a run fails.
pub fn run(settings: &Settings, progress: &(dyn Fn(f64) + Sync)) -> Result<Paper, PaperError> {
    if settings.seeds == 0 || settings.sweep_seeds == 0 {
        return Err(PaperError::NoSeeds);
    }
    if let Some(found) = settings.only.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(PaperError::UnknownChapter { found: found.clone() });
    }
    let mut plan = plan::Plan::new(settings.clone());
    let reports = chapters::plan(&mut plan);
    let results = plan.carry_out(progress)?;
    let chapters = reports.into_iter().map(|report| report(&results)).collect::<Result<_, _>>()?;
    Ok(Paper { settings: settings.clone(), chapters, runs: results.runs(), events: results.events() })
}

/// A point of a figure, with its interval if there are seeds enough for one.
fn plot_point(x: f64, estimate: &Estimate) -> crate::plot::Point {
    crate::plot::Point { x, y: estimate.mean, within: estimate.shown().map(|interval| (interval.low(), interval.high())) }
}
