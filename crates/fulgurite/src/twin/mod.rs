//! The commands of the digital twin: they read scenarios, plans and journals, run them with the
//! crate `twin`, and print the results.
//!
//! Exit status: 0 if everything is as expected; 1 if an expectation of the scenario was missed,
//! requests had not ended when a run stopped, a replay differs, or a law doesn't hold; 2 if a
//! scenario, plan, journal or argument is invalid.

mod check;
mod clock;
mod compare;
mod journal;
mod new_output;
mod paper;
mod plan;
mod run;
mod sweep;
mod watch;
mod write;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use fulgurite_settings::{Override, SettingErrors};
use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::simulation::RunError;
use fulgurite_twin::sweep::{Point, PointRuns};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::outcome::Misuse;
use crate::{Outcome, Session, text};

/// The subcommands of `fulgurite twin`.
#[derive(Debug, Subcommand)]
pub(crate) enum Twin {
    /// Run a scenario and print its results
    Run(Run),
    /// Run a scenario with all combinations of varied settings
    Sweep(Sweep),
    /// Compare two scenarios, or two settings of one, seed by seed
    Compare(compare::Compare),
    /// Repeat the evaluation of Project Silica: every figure and table about the system
    Paper(paper::Paper),
    /// Plan how many libraries, drives and shuttles the coming years need
    Plan(Plan),
    /// Run a scenario, and record all inputs and outputs of its controllers
    Record(Record),
    /// Replay the events of a journal to the controllers, and compare their commands with those in
    /// the journal
    Replay {
        /// A journal
        journal: PathBuf,
        /// Also check the laws that every run must obey: each command is answered and each request
        /// ends once, platters are conserved, sets stay out of one blast zone, no machine idles
        /// while work waits, Little's law holds
        #[arg(long)]
        check: bool,
    },
    /// Write a page that shows the library of a journal in motion
    Watch(watch::Watch),
    /// Print the reference of all settings of scenario files
    Reference,
    /// Compare the statistics of a scenario's workload with the published ones
    CheckWorkload {
        #[command(flatten)]
        chosen: Chosen,
        /// The seed. Default: the scenario's seed
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
}

/// A scenario, and settings that override it.
#[derive(Debug, Args)]
pub(crate) struct Chosen {
    /// A scenario file
    scenario: PathBuf,
    /// Change a setting, such as shuttles.count=8; the option may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    chosen: Chosen,
    /// The seed, or the first of several. Default: the scenario's seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of seeds to run; with several, prints means
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// Write the results to this folder as CSV and Parquet, with the complete scenario
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Draw the run over simulated time into this folder: completion times, queues, and what drives
    /// and shuttles do, as SVG and PNG, with the data in timeline.csv. With several seeds, draws
    /// the first
    #[arg(long, value_name = "FOLDER")]
    plot: Option<PathBuf>,
    /// Write a page that shows the first library in motion, for a browser; it must not exist. With
    /// several seeds, shows the first
    #[arg(long, value_name = "PAGE")]
    watch: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    chosen: Chosen,
    /// A setting with the values it takes: shuttles.count=8,12,20 or shuttles.count=8..40:4; repeat
    /// the option to run all combinations
    #[arg(long = "vary", required = true, value_name = "NAME=VALUES")]
    vary: Vec<String>,
    /// Number of seeds for each combination. Default: as the scenario says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// Number of runs in parallel. Default: the number of cores. The results don't depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write the results to this folder as CSV and Parquet, with the complete scenarios
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// A plan file
    plan: PathBuf,
    /// Change a setting, such as ingest.per_month="200 TB"; the option may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Write tables and a figure to this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Record {
    #[command(flatten)]
    chosen: Chosen,
    /// The journal to write; it must not exist
    journal: PathBuf,
    /// The seed. Default: the scenario's seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write one digest for every N commands instead of the commands: half the length
    #[arg(long, value_name = "N")]
    digests: Option<std::num::NonZeroU64>,
    /// Also write a page that shows the first library in motion; it must not exist
    #[arg(long, value_name = "PAGE")]
    html: Option<PathBuf>,
}

pub(crate) fn twin(session: &Session, twin: &Twin) -> Result<Outcome> {
    match twin {
        Twin::Run(run) => run::run(session, run),
        Twin::Sweep(sweep) => sweep::sweep(session, sweep),
        Twin::Compare(asked) => compare::compare(session, asked),
        Twin::Paper(options) => paper::paper(session, options),
        Twin::Plan(plan) => plan::plan(session, plan),
        Twin::Record(record) => journal::record(session, record),
        Twin::Replay { journal, check } => journal::run_again(session, journal, *check),
        Twin::Watch(asked) => watch::watch(session, asked),
        Twin::Reference => {
            session.print_reference(&fulgurite_twin::scenario::reference());
            Ok(Outcome::Good)
        }
        Twin::CheckWorkload { chosen, seed } => check::check(session, chosen, *seed),
    }
}

impl Chosen {
    fn read(&self) -> Result<Scenario, SettingErrors> {
        Scenario::read(&self.scenario, &overrides(&self.set)?)
    }
}

/// Parses the values of `--set`.
fn overrides(set: &[String]) -> Result<Vec<Override>, SettingErrors> {
    set.iter().map(|text| Override::parse("--set", text)).collect()
}

/// The error of a command whose run failed: a mistake in the scenario that only shows while it
/// runs, so it counts as misuse.
fn failed(scenario: &Path, error: RunError) -> anyhow::Error {
    Misuse(format!("{}: {error}", scenario.display())).into()
}

/// Prints which runs stopped before all requests had ended, and the expectations that runs missed.
fn report_missed(points: &[PointRuns]) -> Outcome {
    let mut is_missed = false;
    for (point, run) in points.iter().flat_map(|point| point.runs.iter().map(|run| (&point.point, run))) {
        if let Some(unfinished) = &run.unfinished {
            is_missed = true;
            crate::diagnostics::trouble(&format!("{}: {unfinished}", name_of(point, run.seed)));
        }
        for missed in point.scenario.expect.missed(run) {
            is_missed = true;
            crate::diagnostics::trouble(&format!("{}: not as expected: {missed}", name_of(point, run.seed)));
        }
    }
    Outcome::troubled_if(is_missed)
}

fn name_of(point: &Point, seed: u64) -> String {
    let varied: String = point.varied.iter().map(|(name, value)| format!(", {name}={value}")).collect();
    text::harmless(&format!("{}{varied}, seed {seed}", point.scenario.name))
}

/// A progress bar on standard error, if that is a terminal.
fn bar(session: &Session, length: u64, template: &str) -> ProgressBar {
    let is_shown = !session.quiet && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let target = if is_shown { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template(template).expect("a good template");
    ProgressBar::with_draw_target(Some(length), target).with_style(style.progress_chars("=> "))
}

/// The default number of runs in parallel.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The bar of a sweep.
const RUNS: &str = "running                [{bar:30}] {pos}/{len} runs  {eta} left";
/// The program's version, for results.
const VERSION: &str = env!("CARGO_PKG_VERSION");
