//! The tests of the second reader. It is Python so that it shares nothing with the archive, and its tests need `cryptography`.
//!
//! ```text
//! a Python of 3.11 or later: $FULGURITE_PYTHON, or on the path -- has the package -----------------------------> run
//!                                                              \- has not -> target/xtask-venv -- pip install -> run
//! ```
//!
//! Tests of the archive that run the second reader get the same Python, in `FULGURITE_PYTHON`.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::program::{self, Channel};
use super::{Failure, Lack, Outcome, Session};
use crate::tally::Tally;
use crate::workspace::Workspace;

/// The plain name first: it is what somebody chose for this machine.
const INTERPRETERS: [&str; 6] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"];
const IS_RECENT: &str = "import sys; sys.exit(sys.version_info < (3, 11))";
const PACKAGE: &str = "cryptography";
/// AES-GCM and key wrap have been where the tests import them from since long before.
const REQUIREMENT: &str = "cryptography>=42";

/// Names the interpreter, to xtask and to the tests of the archive.
pub(super) const VARIABLE: &str = "FULGURITE_PYTHON";

pub(super) fn tests(session: &Session) -> Outcome {
    let python = match interpreter(session) {
        Ok(python) => python,
        Err(outcome) => return outcome,
    };
    let mut command = Command::new(python);
    command.args(["-m", "unittest", "discover", "-s", "tools"]).current_dir(&session.root);
    // `unittest` counts on the error channel.
    strict(program::judge_tests(command, Channel::Error, Tally::read_unittest), session.ci)
}

/// A Python that is recent and has the package; otherwise what is to be said of a step that needs one.
pub(super) fn interpreter(session: &Session) -> Result<PathBuf, Outcome> {
    let system = recent().map_err(Outcome::Skipped)?;
    if has_package(&system) {
        return Ok(system);
    }
    let workspace = Workspace::read_members(&session.root)
        .map_err(|error| Outcome::Failed(Tally::FAILED, Failure::Unreadable { why: error.to_string() }))?;
    environment(&system, &workspace.target_directory.join("xtask-venv")).map_err(Outcome::Skipped)
}

/// A Python that is recent.
pub(super) fn recent() -> Result<PathBuf, Lack> {
    let named = env::var_os(VARIABLE).map(PathBuf::from);
    let mut candidates = named.into_iter().chain(INTERPRETERS.map(PathBuf::from));
    candidates.find(|python| succeeds(python, &["-c", IS_RECENT])).ok_or(Lack::Python)
}

/// A Python test that skips itself does so for something that is missing, and in CI nothing may be.
pub(super) fn strict(outcome: Outcome, ci: bool) -> Outcome {
    match outcome {
        Outcome::Passed(tally) if ci && tally.skipped > 0 => {
            Outcome::Failed(Tally { failed: tally.skipped, skipped: 0, ..tally }, Failure::SkippedTests)
        }
        other => other,
    }
}

/// The interpreter of the virtual environment in `folder`, which is made and filled as far as it isn't yet.
fn environment(system: &Path, folder: &Path) -> Result<PathBuf, Lack> {
    let python = inside(folder);
    if has_package(&python) {
        return Ok(python);
    }
    println!("the package `{PACKAGE}` is missing here; it goes into {}", folder.display());
    make(system, folder)?;
    if install(&python, &[REQUIREMENT.as_ref()]) && has_package(&python) { Ok(python) } else { Err(Lack::Package { name: PACKAGE }) }
}

/// The interpreter of a virtual environment.
pub(super) fn inside(folder: &Path) -> PathBuf {
    if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") }
}

/// Makes an empty virtual environment in `folder`, in place of what may be there.
pub(super) fn make(system: &Path, folder: &Path) -> Result<(), Lack> {
    let mut venv = Command::new(system);
    venv.args(["-m", "venv", "--clear"]).arg(folder);
    match program::judge(venv) {
        Outcome::Failed(_, why) => Err(Lack::Venv { why: why.to_string() }),
        _ => Ok(()),
    }
}

/// Whether pip has installed what the arguments name.
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
    fn a_python_that_isnt_there_has_no_package() {
        assert!(!has_package(Path::new("no-such-python-anywhere")));
    }
}
