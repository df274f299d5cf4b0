//! The digital twin's commands: each in a module of its own, which reads scenarios, runs them with the crate `twin`, and prints.
//!
//! Exit status: 0 if all is as expected, 1 if an expectation of the scenario was missed, a run came to no end or a replay differs, 2 if a
//! scenario, a journal or an argument is wrong.

mod check;
mod journal;
mod paper;
mod plan;
mod run;
mod sweep;
mod write;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use fulgurite_twin::results::Point;
use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::settings::{Override, SettingErrors};
use fulgurite_twin::simulation::RunError;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{Outcome, Session, text};

/// What can be asked of the twin.
#[derive(Debug, Subcommand)]
pub(crate) enum Twin {
    /// Run a scenario and say what came out
    Run(Run),
    /// Run a scenario with all combinations of settings that vary
    Sweep(Sweep),
    /// Run the evaluation of Project Silica again: every figure and table about the system
    Paper(paper::Paper),
    /// Find out how many libraries, drives and shuttles the coming years need
    Plan(Plan),
    /// Run a scenario, and write down all that went into its controllers and came out of them
    Record(Record),
    /// Give the events of a journal to the controllers again, and compare their commands with those in the journal
    Replay(Replay),
    /// Print the page of all settings of scenario files
    Reference,
    /// Print what a scenario's workload is like, beside what is published
    CheckWorkload(CheckWorkload),
}

/// A scenario, and settings on top of it.
#[derive(Debug, Args)]
pub(crate) struct Chosen {
    /// A scenario file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Change a setting, such as shuttles.count=8; give it several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    chosen: Chosen,
    /// The seed, or the first of several; without it, the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run so many seeds, and print means
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// Write the results there as CSV and Parquet, with the complete scenario
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    chosen: Chosen,
    /// A setting with the values it takes: shuttles.count=8,12,20 or shuttles.count=8..40:4; give it several times for all combinations
    #[arg(long = "vary", required = true, value_name = "NAME=VALUES")]
    vary: Vec<String>,
    /// Run so many seeds of each combination; without it, as many as the scenario says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// Run so many at once; without it, as many as there are cores. The results are the same
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write the results there as CSV and Parquet, with the complete scenarios
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// A plan file
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Change a setting, such as ingest.per_month="200 TB"; give it several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Write tables and a figure there
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Record {
    #[command(flatten)]
    chosen: Chosen,
    /// Where the journal goes; nothing may be there
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// The seed; without it, the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Instead of all commands, write digests of so many each: half the length
    #[arg(long, value_name = "N")]
    digests: Option<std::num::NonZeroU64>,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// A journal
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CheckWorkload {
    #[command(flatten)]
    chosen: Chosen,
    /// The seed; without it, the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub(crate) fn twin(session: &Session, twin: &Twin) -> Result<Outcome> {
    match twin {
        Twin::Run(run) => run::run(session, run),
        Twin::Sweep(sweep) => sweep::sweep(session, sweep),
        Twin::Paper(options) => paper::paper(session, options),
        Twin::Plan(plan) => plan::plan(session, plan),
        Twin::Record(record) => journal::record(session, record),
        Twin::Replay(replay) => journal::run_again(session, replay),
        Twin::Reference => {
            session.print(format_args!("{}", fulgurite_twin::scenario::reference().trim_end()));
            Ok(Outcome::Good)
        }
        Twin::CheckWorkload(check) => check::check(session, check),
    }
}

impl Chosen {
    fn settings(&self) -> Result<Vec<Override>, SettingErrors> {
        self.set.iter().map(|text| Override::parse("--set", text)).collect()
    }

    fn read(&self) -> Result<Scenario, SettingErrors> {
        Scenario::read(&self.scenario, &self.settings()?)
    }
}

/// Says what is wrong with a scenario or a setting.
fn misused(errors: &SettingErrors) -> Outcome {
    crate::diagnostics::failure(&errors.to_string(), Outcome::Misused);
    Outcome::Misused
}

/// What is wrong with a scenario is found while it runs too; that a run comes to no end is no misuse.
fn failed(scenario: &Path, error: RunError) -> Result<Outcome> {
    match error {
        RunError::Unfinished { .. } => Err(error.into()),
        RunError::Scenario(_)
        | RunError::TraceFile { .. }
        | RunError::TraceRows { .. }
        | RunError::Trace { .. }
        | RunError::NothingMeasured { .. } => {
            crate::diagnostics::failure(&format!("{}: {error}", scenario.display()), Outcome::Misused);
            Ok(Outcome::Misused)
        }
    }
}

/// Says which expectations of their scenarios runs have missed.
fn report_missed(points: &[fulgurite_twin::results::PointRuns]) -> Outcome {
    let mut is_missed = false;
    for point in points {
        for run in &point.runs {
            for missed in point.point.scenario.expect.missed(run) {
                is_missed = true;
                crate::diagnostics::trouble(&format!("{}: not as expected: {missed}", name_of(&point.point, run.seed)));
            }
        }
    }
    Outcome::troubled_if(is_missed)
}

/// A run, as messages call it.
fn name_of(point: &Point, seed: u64) -> String {
    let varied: String = point.varied.iter().map(|(name, value)| format!(", {name}={value}")).collect();
    text::harmless(&format!("{}{varied}, seed {seed}", point.scenario.name))
}

/// A bar that counts runs.
fn bar(session: &Session, runs: usize) -> ProgressBar {
    let is_shown = !session.quiet && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let target = if is_shown { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{msg:22} [{bar:30}] {pos}/{len} runs  {eta} left").expect("a good template");
    ProgressBar::with_draw_target(Some(runs as u64), target).with_style(style.progress_chars("=> ")).with_message("running")
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The program's version, for results.
const VERSION: &str = env!("CARGO_PKG_VERSION");
