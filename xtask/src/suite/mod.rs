//! Everything the project checks, step after step, up to the first that fails.
//!
//! A step that can't run on this machine is skipped, with its reason. Where `CI` is set nobody reads reasons, so there it fails.
//! All cargo steps share one target directory. Dependencies are checked once for clippy and rustdoc, built once with the dev profile for the
//! tests, and once with the release profile for the program that the steps behind `release` test from outside.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::check;
use crate::tally::Tally;

mod attacks;
mod cargo;
mod clients;
mod program;
mod python;
mod readme;
mod s3;

/// Where the steps run, and how strict.
#[derive(Debug)]
pub(crate) struct Session {
    root: PathBuf,
    /// Nothing may be skipped.
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

const STEPS: &[Step] = &[
    Step { name: "check", what: "what can be told without compiling: `cargo xtask check`", run: quick_checks },
    Step { name: "fmt", what: "cargo fmt --all --check", run: cargo::fmt },
    Step { name: "clippy", what: "cargo clippy --workspace --all-targets --all-features --locked -- -D warnings", run: cargo::clippy },
    Step { name: "plain", what: "cargo check --locked: the command line as it is built, without features", run: cargo::plain },
    Step { name: "fuzz", what: "cargo clippy for the fuzz targets, without libFuzzer", run: cargo::fuzz },
    Step { name: "tests", what: "cargo test --workspace --all-features --locked --no-fail-fast", run: cargo::tests },
    Step { name: "docs", what: "cargo doc --workspace --all-features --no-deps --locked, warnings denied", run: cargo::docs },
    Step { name: "python", what: "python3 -m unittest discover -s tools", run: python::tests },
    Step {
        name: "release",
        what: "cargo build --release --locked --package fulgurite: the program for the steps below",
        run: cargo::release,
    },
    Step { name: "readme", what: "the commands of the README's five minutes, as they are written", run: readme::tests },
    Step { name: "s3", what: "python3 -m pytest tests/s3", run: s3::tests },
    Step { name: "attacks", what: "python3 -m pytest tests/attacks: hostile clients beside an honest one", run: attacks::tests },
    Step { name: "clients", what: "python3 -m pytest tests/clients: the clients that people have", run: clients::tests },
];

/// How a step ended, and what it counted.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed(Tally),
    /// Counts at least one failure.
    Failed(Tally, Failure),
    Skipped(Lack),
}

#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// The program said so; what it said stands above.
    Exit(ExitStatus),
    /// Checks have findings; they stand above.
    Findings,
    /// What the step works on can't be read.
    Unreadable { why: String },
    /// Green, and nothing was tested.
    NoTestRan,
    /// Skipping isn't allowed here.
    Skipped(Lack),
    /// Tests skipped themselves, which isn't allowed here.
    SkippedTests,
}

/// What this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lack {
    Component { name: &'static str },
    Program { name: String, why: String },
    Python,
    Venv { why: String },
    Package { name: &'static str },
    Requirements { path: &'static str },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "{status}"),
            Self::Findings => write!(f, "the findings stand above"),
            Self::Unreadable { why } => f.write_str(why),
            Self::NoTestRan => write!(f, "no test ran"),
            Self::Skipped(lack) => write!(f, "{lack}; in CI nothing is skipped"),
            Self::SkippedTests => write!(f, "tests were skipped; in CI none is"),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Component { name } => write!(f, "the toolchain has no {name}: rustup component add {name}"),
            Self::Program { name, why } => write!(f, "{name} can't be started: {why}"),
            Self::Python => write!(f, "there is no Python of version 3.11 or later on the path"),
            Self::Venv { why } => write!(f, "Python can't make a virtual environment ({why}); Debian has that in python3-venv"),
            Self::Package { name } => write!(f, "pip can't install the package `{name}`"),
            Self::Requirements { path } => write!(f, "pip can't install what {path} lists"),
        }
    }
}

impl Outcome {
    /// What is skipped is a failure where `ci` is set.
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
        println!("{name:7}  {what}");
    }
}

/// Runs the steps named in `only`, or all if none is, and says whether they passed. The last line counts tests and checks.
pub(crate) fn run(session: &Session, only: &[String]) -> bool {
    let steps: Vec<&Step> = STEPS.iter().filter(|step| only.is_empty() || only.iter().any(|wanted| wanted == step.name)).collect();
    let ended = run_steps(&steps, session);
    let summary = Summary { steps: &steps, ended: &ended };
    println!("\n{summary}");
    summary.tally().failed == 0
}

fn run_steps(steps: &[&Step], session: &Session) -> Vec<(Outcome, Duration)> {
    let mut ended = Vec::new();
    for step in steps {
        println!("\n=== {}: {}", step.name, step.what);
        let start = Instant::now();
        let outcome = (step.run)(session).settle(session.ci);
        let failed = matches!(outcome, Outcome::Failed(..));
        ended.push((outcome, start.elapsed()));
        if failed {
            break;
        }
    }
    ended
}

/// The table below all output, and the closing line.
struct Summary<'a> {
    steps: &'a [&'a Step],
    /// One for each step up to the first that failed.
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
        writeln!(f, "step     result       time")?;
        for (step, ended) in self.steps.iter().zip(self.ended.iter().map(Some).chain(std::iter::repeat(None))) {
            let Some((outcome, duration)) = ended else {
                writeln!(f, "{:8} not run", step.name)?;
                continue;
            };
            let seconds = duration.as_secs_f64();
            match outcome {
                Outcome::Passed(tally) => writeln!(f, "{:8} passed  {seconds:7.1} s  {tally}", step.name)?,
                Outcome::Failed(tally, failure) => writeln!(f, "{:8} FAILED  {seconds:7.1} s  {tally}: {failure}", step.name)?,
                Outcome::Skipped(lack) => writeln!(f, "{:8} skipped {seconds:7.1} s  {lack}", step.name)?,
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
        Err(error) => Outcome::Failed(Tally::FAILED, Failure::Unreadable { why: error.to_string() }),
    }
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
    fn the_last_line_sums_all_steps() {
        let summary = summary(&[&PASSES, &SKIPS, &PASSES], false);
        assert_eq!(summary.lines().last(), Some("6 passed, 0 failed, 3 skipped"));
    }

    #[test]
    fn nothing_runs_after_the_first_failure_and_it_is_named() {
        let summary = summary(&[&PASSES, &FAILS, &PASSES], false);
        assert_eq!(summary.lines().last(), Some("5 passed, 1 failed, 1 skipped"));
        assert!(summary.contains("good     not run") && summary.contains("step `bad` failed"), "{summary}");
    }

    #[test]
    fn in_ci_a_skipped_step_is_a_failure() {
        let summary = summary(&[&SKIPS], true);
        assert!(summary.ends_with("\n0 passed, 1 failed, 0 skipped") && summary.contains("nothing is skipped"), "{summary}");
    }

    #[test]
    fn ci_is_whatever_is_set_and_not_false() {
        assert!(is_ci(Some("true")) && is_ci(Some("1")));
        assert!(!is_ci(None) && !is_ci(Some("")) && !is_ci(Some("false")) && !is_ci(Some("0")));
    }

    #[test]
    fn the_table_has_a_line_for_each_step_with_its_reason() {
        let summary = summary(&[&PASSES, &SKIPS], false);
        assert!(summary.contains("good     passed"), "{summary}");
        assert!(summary.contains("idle     skipped") && summary.contains("3.11"), "{summary}");
    }
}
