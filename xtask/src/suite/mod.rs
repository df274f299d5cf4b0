//! The test suite: all steps in order, up to the first that fails.
//!
//! A step that can't run on this machine is skipped with a reason. If `CI` is set it fails instead,
//! because reasons in a log go unread. All cargo steps share one target directory. Dependencies are
//! checked once for clippy and rustdoc, built once with the dev profile for the tests, and once
//! with the release profile for the program that the steps after `release` test from outside.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::check;
use crate::tally::Tally;
use crate::workspace::Workspace;

mod attacks;
mod audit;
mod cargo;
mod clients;
mod dashboard;
mod data;
mod debian;
mod deny;
mod gpu;
mod ingest;
mod maven;
mod npm;
mod package;
mod postgres;
mod preservation;
mod program;
mod python;
mod readme;
mod s3;

/// Where the steps run, and how strictly.
#[derive(Debug)]
pub(crate) struct Session {
    root: PathBuf,
    /// If true, nothing may be skipped.
    ci: bool,
}

impl Session {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, ci: is_ci(env::var("CI").ok().as_deref()) }
    }
}

fn is_ci(variable: Option<&str>) -> bool {
    !matches!(variable, None | Some("" | "0" | "false"))
}

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Session) -> Outcome,
}

const RELEASE: &str = "release";

const STEPS: &[Step] = &[
    Step { name: "check", what: "checks that need no compilation: `cargo xtask check`", run: quick_checks },
    Step { name: "deny", what: "cargo deny check bans licenses sources: the packages in Cargo.lock", run: deny::packages },
    Step { name: "fmt", what: "cargo fmt --all --check", run: cargo::fmt },
    Step { name: "headers", what: "the headers of OpenSSL, with which the feature `kafka` is built", run: ingest::headers },
    Step { name: "clippy", what: "cargo clippy --workspace --all-targets --all-features --locked -- -D warnings", run: cargo::clippy },
    Step { name: "fuzz", what: "cargo clippy for the fuzz targets, without libFuzzer", run: cargo::fuzz },
    Step { name: "tests", what: "cargo test --workspace --all-features --locked --no-fail-fast", run: cargo::tests },
    Step { name: "gpu", what: "the tests on graphics processors, or on a software renderer", run: gpu::tests },
    Step { name: "postgres", what: "the tests of the audit's database on a PostgreSQL server", run: postgres::tests },
    Step { name: "ingest", what: "python3 -m pytest tests/ingest: alerts from Apache Kafka, and from folders", run: ingest::tests },
    Step { name: "docs", what: "cargo doc --workspace --all-features --no-deps --locked, warnings denied", run: cargo::docs },
    Step { name: "python", what: "python3 -m unittest discover -s tools", run: python::tests },
    Step {
        name: RELEASE,
        what: "cargo build --release --locked --package fulgurite: the program for the steps below",
        run: cargo::release,
    },
    Step { name: "readme", what: "the commands of the README's section \"Five minutes\", as written", run: readme::tests },
    Step { name: "s3", what: "python3 -m pytest tests/s3", run: s3::tests },
    Step { name: "attacks", what: "python3 -m pytest tests/attacks: hostile clients together with an honest one", run: attacks::tests },
    Step { name: "clients", what: "python3 -m pytest tests/clients: common S3 clients", run: clients::tests },
    Step { name: "data", what: "python3 -m pytest tests/data: Spark, DistCp, DuckDB, pyarrow, pandas, xarray, astropy", run: data::tests },
    Step { name: "package", what: "python3 -m pytest python/tests: the Python package, and its notebooks", run: package::tests },
    Step { name: "dashboard", what: "python3 -m pytest tests/dashboard: in Chromium, and the types of its scripts", run: dashboard::tests },
    Step { name: "audit", what: "python3 -m pytest tests/audit: places of an audit at real servers", run: audit::tests },
    Step {
        name: "preservation",
        what: "python3 -m pytest tests/preservation: bags and OCFL, with programs of others",
        run: preservation::tests,
    },
];

/// The outcome of a step, with its counts.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed(Tally),
    /// Counts at least one failure.
    Failed(Tally, Failure),
    Skipped(Lack),
}

#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// The program failed, or its tests did; its output is above.
    Exit(ExitStatus),
    /// Checks have findings, printed above.
    Findings,
    /// The step can't start: an input is missing or unreadable.
    Setup { why: String },
    /// The program succeeded, but no test ran.
    NoTestRan,
    /// A step was skipped in CI.
    Skipped(Lack),
    /// Tests skipped themselves in CI.
    SkippedTests,
}

/// What is missing on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lack {
    Component { name: &'static str },
    Program { name: String, why: String },
    Python,
    Venv { why: String },
    Headers,
    Maven,
    Package { name: &'static str },
    VulkanDriver { package: &'static str },
    Postgres { package: &'static str },
    Requirements { path: &'static str },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "{status}"),
            Self::Findings => write!(f, "see the findings above"),
            Self::Setup { why } => f.write_str(why),
            Self::NoTestRan => write!(f, "no test ran"),
            Self::Skipped(lack) => write!(f, "{lack}; in CI nothing is skipped"),
            Self::SkippedTests => write!(f, "tests were skipped, which in CI is a failure"),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Component { name } => write!(f, "the toolchain has no {name}: rustup component add {name}"),
            Self::Program { name, why } => write!(f, "can't start {name}: {why}"),
            Self::Python => write!(f, "no Python 3.11 or later on the path"),
            Self::Venv { why } => write!(f, "Python can't create a virtual environment ({why}); on Debian, install python3-venv"),
            Self::VulkanDriver { package } => write!(f, "no Vulkan driver, and apt can't install the package {package}"),
            Self::Postgres { package } => write!(f, "no PostgreSQL server, and apt can't install the package {package}"),
            Self::Headers => write!(f, "no OpenSSL headers, make or pkg-config, and apt can't install libssl-dev, make and pkg-config"),
            Self::Maven => write!(f, "no Maven or Java compiler, and apt can't install maven and default-jdk-headless"),
            Self::Package { name } => write!(f, "pip can't install the package `{name}`"),
            Self::Requirements { path } => write!(f, "pip can't install what {path} lists"),
        }
    }
}

impl Outcome {
    /// Turns a skipped step into a failure if `ci` is set.
    fn settle(self, ci: bool) -> Self {
        match self {
            Self::Skipped(lack) if ci => Self::Failed(Tally::FAILED, Failure::Skipped(lack)),
            other => other,
        }
    }

    fn tally(&self) -> Tally {
        match self {
            Self::Passed(tally) | Self::Failed(tally, _) => *tally,
            Self::Skipped(_) => Tally::SKIPPED,
        }
    }
}

pub(crate) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

pub(crate) fn list() {
    for Step { name, what, .. } in STEPS {
        println!("{name:12}  {what}");
    }
}

/// Runs the steps named in `only`, or all if it is empty. Returns true if none failed; outside of
/// CI, some may have been skipped. The last line printed counts tests and checks.
pub(crate) fn run(session: &Session, only: &[String]) -> bool {
    let steps = selected(only);
    let ended = run_steps(&steps, session);
    let summary = Summary { steps: &steps, ended: &ended };
    println!("\n{summary}");
    summary.tally().failed == 0
}

/// The steps named in `only`, or all if it is empty. The steps after `release` test its build, so
/// any of them includes it: an earlier build could be of another commit.
fn selected(only: &[String]) -> Vec<&'static Step> {
    let is_named = |step: &Step| only.is_empty() || only.iter().any(|wanted| wanted == step.name);
    let needs_release = STEPS.iter().skip_while(|step| step.name != RELEASE).any(is_named);
    STEPS.iter().filter(|step| is_named(step) || needs_release && step.name == RELEASE).collect()
}

fn run_steps(steps: &[&Step], session: &Session) -> Vec<(Outcome, Duration)> {
    let mut ended = Vec::new();
    for step in steps {
        println!("\n=== {}: {}", step.name, step.what);
        let start = Instant::now();
        let outcome = (step.run)(session).settle(session.ci);
        let failed = matches!(outcome, Outcome::Failed(..));
        let took = start.elapsed();
        // A run that is stopped for taking too long has no table at its end.
        println!("=== {} took {:.1} s", step.name, took.as_secs_f64());
        ended.push((outcome, took));
        if failed {
            break;
        }
    }
    ended
}

/// The table after all output, and the closing line.
struct Summary<'a> {
    steps: &'a [&'a Step],
    /// One entry per step, up to the first that failed.
    ended: &'a [(Outcome, Duration)],
}

impl Summary<'_> {
    fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        self.ended.iter().for_each(|(outcome, _)| sum += outcome.tally());
        sum
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "step         result       time")?;
        for (step, ended) in self.steps.iter().zip(self.ended.iter().map(Some).chain(std::iter::repeat(None))) {
            let Some((outcome, duration)) = ended else {
                writeln!(f, "{:12} not run", step.name)?;
                continue;
            };
            let seconds = duration.as_secs_f64();
            match outcome {
                Outcome::Passed(tally) => writeln!(f, "{:12} passed  {seconds:7.1} s  {tally}", step.name)?,
                Outcome::Failed(tally, failure) => writeln!(f, "{:12} FAILED  {seconds:7.1} s  {tally}: {failure}", step.name)?,
                Outcome::Skipped(lack) => writeln!(f, "{:12} skipped {seconds:7.1} s  {lack}", step.name)?,
            }
        }
        if let (Some((Outcome::Failed(..), _)), Some(step)) = (self.ended.last(), self.steps.get(self.ended.len() - 1)) {
            writeln!(f, "step `{0}` failed; run it alone: cargo xtask test --only {0}", step.name)?;
        }
        write!(f, "\n{}", self.tally())
    }
}

fn quick_checks(session: &Session) -> Outcome {
    match check::run(&session.root, &[]) {
        Ok(tally) if tally.failed == 0 => Outcome::Passed(tally),
        Ok(tally) => Outcome::Failed(tally, Failure::Findings),
        Err(error) => setup_error(error),
    }
}

fn setup_error(why: impl ToString) -> Outcome {
    Outcome::Failed(Tally::FAILED, Failure::Setup { why: why.to_string() })
}

/// Cargo's target directory.
fn target_directory(session: &Session) -> Result<PathBuf, Outcome> {
    Workspace::read(&session.root).map(|workspace| workspace.target_directory).map_err(setup_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSES: Step = Step { name: "good", what: "", run: |_| Outcome::Passed(Tally { passed: 3, failed: 0, skipped: 1 }) };
    const FAILS: Step =
        Step { name: "bad", what: "", run: |_| Outcome::Failed(Tally { passed: 2, failed: 1, skipped: 0 }, Failure::NoTestRan) };
    const SKIPS: Step = Step { name: "idle", what: "", run: |_| Outcome::Skipped(Lack::Python) };

    fn summary(steps: &[&Step], ci: bool) -> String {
        let ended = run_steps(steps, &Session { root: PathBuf::new(), ci });
        Summary { steps, ended: &ended }.to_string()
    }

    #[test]
    fn the_last_line_is_the_sum_of_all_steps() {
        let summary = summary(&[&PASSES, &SKIPS, &PASSES], false);
        assert_eq!(summary.lines().last(), Some("6 passed, 0 failed, 3 skipped"));
    }

    #[test]
    fn nothing_runs_after_the_first_failure_which_is_named() {
        let summary = summary(&[&PASSES, &FAILS, &PASSES], false);
        assert_eq!(summary.lines().last(), Some("5 passed, 1 failed, 1 skipped"));
        assert!(summary.contains("good         not run") && summary.contains("step `bad` failed"), "{summary}");
    }

    #[test]
    fn in_ci_a_skipped_step_is_a_failure() {
        let summary = summary(&[&SKIPS], true);
        assert!(summary.ends_with("\n0 passed, 1 failed, 0 skipped") && summary.contains("nothing is skipped"), "{summary}");
    }

    #[test]
    fn a_step_that_tests_the_release_build_has_it_built_first() {
        let selected = |only: &[&str]| {
            selected(&only.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).iter().map(|step| step.name).collect::<Vec<_>>()
        };
        for step in ["readme", "s3", "attacks", "clients", "dashboard", "audit", "preservation"] {
            assert_eq!(selected(&[step]), ["release", step]);
        }
        assert_eq!(selected(&["s3", "fmt", "release"]), ["fmt", "release", "s3"]);
        assert_eq!(selected(&["tests"]), ["tests"]);
        assert_eq!(selected(&[]), names());
    }

    #[test]
    fn ci_is_any_value_except_empty_0_and_false() {
        assert!(is_ci(Some("true")) && is_ci(Some("1")));
        assert!(!is_ci(None) && !is_ci(Some("")) && !is_ci(Some("false")) && !is_ci(Some("0")));
    }

    #[test]
    fn the_table_has_a_line_for_each_step_with_its_reason() {
        let summary = summary(&[&PASSES, &SKIPS], false);
        assert!(summary.contains("good         passed"), "{summary}");
        assert!(summary.contains("idle         skipped") && summary.contains("3.11"), "{summary}");
    }
}
