//! The tests of the second reader. The reader is written in Python so that it shares no code with
//! the archive. Its tests need the package `cryptography`.
//!
//! ```text
//! Python 3.11 or later: $FULGURITE_PYTHON, or on the path
//!     -- has the package -----------------------------------> run
//!     -- lacks it -> target/xtask-venv -- pip install ------> run
//! ```
//!
//! Tests of the archive that run the second reader use the same Python, from `FULGURITE_PYTHON`.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::program::{self, Channel};
use super::{Failure, Lack, Outcome, Session, target_directory};
use crate::tally::Tally;

/// The plain name comes first, because it is the machine's chosen default.
const INTERPRETERS: [&str; 6] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"];
const IS_RECENT: &str = "import sys; sys.exit(sys.version_info < (3, 11))";
const PACKAGE: &str = "cryptography";
/// Older releases would work too: the tests need only AES-GCM and key wrap.
const REQUIREMENT: &str = "cryptography>=42";

/// Names the interpreter for xtask and for the tests of the archive.
pub(super) const VARIABLE: &str = "FULGURITE_PYTHON";

pub(super) fn tests(session: &Session) -> Outcome {
    let python = match interpreter(session) {
        Ok(python) => python,
        Err(outcome) => return outcome,
    };
    let mut command = Command::new(python);
    command.args(["-m", "unittest", "discover", "-s", "tools"]).current_dir(&session.root);
    // `unittest` prints its counts to standard error.
    strict(program::judge_tests(command, Channel::Error, Tally::read_unittest), session.ci)
}

/// A recent Python with the package; otherwise the outcome of a step that needs one.
pub(super) fn interpreter(session: &Session) -> Result<PathBuf, Outcome> {
    let system = recent().map_err(Outcome::Skipped)?;
    if has_package(&system) {
        return Ok(system);
    }
    environment(&system, &target_directory(session)?.join("xtask-venv")).map_err(Outcome::Skipped)
}

/// A Python that is recent enough.
pub(super) fn recent() -> Result<PathBuf, Lack> {
    let named = env::var_os(VARIABLE).map(PathBuf::from);
    let mut candidates = named.into_iter().chain(INTERPRETERS.map(PathBuf::from));
    candidates.find(|python| succeeds(python, &["-c", IS_RECENT])).ok_or(Lack::Python)
}

/// A Python test skips itself if something is missing, which in CI is a failure.
pub(super) fn strict(outcome: Outcome, ci: bool) -> Outcome {
    match outcome {
        Outcome::Passed(tally) if ci && tally.skipped > 0 => {
            Outcome::Failed(Tally { failed: tally.skipped, skipped: 0, ..tally }, Failure::SkippedTests)
        }
        other => other,
    }
}

/// The interpreter of the virtual environment in `folder`. Creates the environment and installs the
/// package if needed.
fn environment(system: &Path, folder: &Path) -> Result<PathBuf, Lack> {
    let python = inside(folder);
    if has_package(&python) {
        return Ok(python);
    }
    println!("the package `{PACKAGE}` is missing; installing it into {}", folder.display());
    make(system, folder)?;
    if install(&python, &[REQUIREMENT.as_ref()]) && has_package(&python) { Ok(python) } else { Err(Lack::Package { name: PACKAGE }) }
}

/// The interpreter of a virtual environment.
pub(super) fn inside(folder: &Path) -> PathBuf {
    if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") }
}

/// Creates an empty virtual environment in `folder`, replacing its content.
pub(super) fn make(system: &Path, folder: &Path) -> Result<(), Lack> {
    let mut venv = Command::new(system);
    venv.args(["-m", "venv", "--clear"]).arg(folder);
    match program::judge(venv) {
        Outcome::Failed(_, why) => Err(Lack::Venv { why: why.to_string() }),
        _ => Ok(()),
    }
}

/// Installs the given requirements with pip. Returns true on success.
pub(super) fn install(python: &Path, what: &[&OsStr]) -> bool {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]).args(what).stdin(Stdio::null());
    matches!(program::judge(pip), Outcome::Passed(_))
}

fn has_package(python: &Path) -> bool {
    succeeds(python, &["-c", &format!("import {PACKAGE}")])
}

fn succeeds(python: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new(python);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_skips_itself_fails_in_ci_only() {
        let skipping = || Outcome::Passed(Tally { passed: 4, failed: 0, skipped: 2 });
        assert_eq!(strict(skipping(), false), skipping());
        assert_eq!(strict(skipping(), true).tally(), Tally { passed: 4, failed: 2, skipped: 0 });
        let whole = || Outcome::Passed(Tally { passed: 4, failed: 0, skipped: 0 });
        assert_eq!(strict(whole(), true), whole());
    }

    #[test]
    fn a_missing_python_has_no_package() {
        assert!(!has_package(Path::new("no-such-python-anywhere")));
    }
}
