//! Repeats the evaluation of Project Silica (Anderson et al., SOSP '23, section 7) with one call:
//! every figure and table about the system, as data, as plots, and as one page of text with the
//! numbers filled in.
//!
//! ```text
//! chapters:  plan -----> jobs: one for each scenario and seed, run once even if several figures
//!                          |   show it
//!                          v   one thread pool, longest first; results don't depend on the threads
//! chapters:  report <--- samples: one for each scenario
//!              |
//!              '-------> Chapter: text, figures, tables ---> Paper: files in a folder, page
//! ```
//!
//! Nothing is cached between calls: the same settings give the same bytes.

mod aggregate;
mod chapter;
mod chapters;
mod page;
mod plan;
mod write;

pub use aggregate::{Estimate, Measured, Sample};
pub use chapter::{Chapter, Drawing, Sheet};
pub use chapters::NAMES;

use fulgurite_plot::PlotError;
use fulgurite_table::TableError;

use crate::placement_program::ProgramError;
use crate::simulation::RunError;

/// Which chapters to run, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Seeds of the points that support conclusions: the default library under each policy except
    /// shortest paths, and the ablation. With 5 or more, these points have confidence intervals.
    pub seeds: u32,
    /// Seeds of all other points, which show a trend along an axis; the deployment of 100 libraries
    /// always has one. With 5 or more they have intervals too.
    pub sweep_seeds: u32,
    /// The first seed.
    pub first_seed: u64,
    /// Names of chapters, out of [`NAMES`]; empty for all.
    pub only: Vec<String>,
    /// Measures a short interval and only the ends of each axis, to test that everything works.
    pub quick: bool,
    /// Number of threads; 0 for one per core.
    pub threads: usize,
}

impl Default for Settings {
    /// Everything, with 10 seeds where it counts and one elsewhere: a few minutes on two cores.
    fn default() -> Self {
        Self { seeds: 10, sweep_seeds: 1, first_seed: 1, only: Vec::new(), quick: false, threads: 0 }
    }
}

impl Settings {
    /// The quick version: half an hour with one or two seeds.
    #[must_use]
    pub fn quick() -> Self {
        Self { seeds: 2, sweep_seeds: 1, quick: true, ..Self::default() }
    }
}

/// The evaluation could not be completed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum PaperError {
    #[error("no chapter is named {found}; choose from {}", NAMES.join(", "))]
    UnknownChapter { found: String },
    #[error("the number of seeds is 0, but 1 or more are expected")]
    NoSeeds,
    #[error("the run of {chapter}, {scenario} with seed {seed} failed")]
    Run {
        chapter: &'static str,
        scenario: String,
        seed: u64,
        #[source]
        source: Box<RunError>,
    },
    /// The solver failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A figure couldn't be drawn or written.
    #[error("figure {figure} could not be drawn or written")]
    Plot {
        figure: String,
        #[source]
        source: PlotError,
    },
    /// A table couldn't be made.
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(
        "the docs need all parts of the evaluation, but only {} was run, and the figures of the others would be removed",
        only.join(", ")
    )]
    Incomplete { only: Vec<String> },
    #[error("{} could not be read", path.display())]
    Read {
        path: std::path::PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} could not be written", path.display())]
    Write {
        path: std::path::PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// The result of the evaluation.
#[derive(Debug, Clone)]
pub struct Paper {
    /// The settings it was made with.
    pub settings: Settings,
    /// The chapters, in the order of [`NAMES`].
    pub chapters: Vec<Chapter>,
    /// Runs of the simulation.
    pub runs: u64,
    /// Events of all runs.
    pub events: u64,
    /// Runs that stopped before all requests had ended.
    pub censored: u64,
}

/// Runs the evaluation. `progress` gets the completed share of the work, from any thread.
///
/// # Errors
/// [`PaperError`] if the settings are wrong or a run fails.
pub fn run(settings: &Settings, progress: &(dyn Fn(f64) + Sync)) -> Result<Paper, PaperError> {
    if settings.seeds == 0 || settings.sweep_seeds == 0 {
        return Err(PaperError::NoSeeds);
    }
    if let Some(found) = settings.only.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(PaperError::UnknownChapter { found: found.clone() });
    }
    let mut plan = plan::Plan::new(settings.clone());
    let reports = chapters::plan(&mut plan);
    let results = plan.run_all(progress)?;
    let chapters = reports.into_iter().map(|report| report(&results)).collect::<Result<_, _>>()?;
    Ok(Paper { settings: settings.clone(), chapters, runs: results.runs(), events: results.events(), censored: results.censored() })
}
