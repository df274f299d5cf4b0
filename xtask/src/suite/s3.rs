//! The tests of the S3 service. They are Python because what they test is what today's clients see, and boto3 is one of them.
//!
//! ```text
//! a Python of 3.11 or later -> target/xtask-s3-venv -- pip install -r tests/s3/requirements.txt -> pytest, against target/release/fulgurite
//!                                    \- as it was made for the same requirements, it is used again -/
//! ```

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::{self, Channel};
use super::python;
use super::{Failure, Lack, Outcome, Session};
use crate::tally::Tally;
use crate::workspace::Workspace;

const FOLDER: &str = "tests/s3";
pub(super) const REQUIREMENTS: &str = "tests/s3/requirements.txt";

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let built = Built::find(session)?;
        let python = environment(session, &built.target.join("xtask-s3-venv"), REQUIREMENTS)?;
        Ok(run(session, &built, &python, FOLDER, |_| {}))
    };
    tested().unwrap_or_else(|outcome| outcome)
}

/// What the step `release` has built: the program as users get it.
pub(super) struct Built {
    /// The target directory.
    pub(super) target: PathBuf,
    pub(super) program: PathBuf,
}

impl Built {
    pub(super) fn find(session: &Session) -> Result<Self, Outcome> {
        let workspace = Workspace::read_members(&session.root).map_err(|error| unreadable(error.to_string()))?;
        let target = workspace.target_directory;
        let program = target.join(format!("release/fulgurite{EXE_SUFFIX}"));
        if !program.is_file() {
            return Err(unreadable(format!("{} isn't built; the step `release` does that", program.display())));
        }
        Ok(Self { target, program })
    }
}

/// Runs the tests of `folder` against the program; `set` may add to their environment.
pub(super) fn run(session: &Session, built: &Built, python: &Path, folder: &str, set: impl FnOnce(&mut Command)) -> Outcome {
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "--color=no", folder]).current_dir(&session.root);
    // Archives beside the build, and not where other runs of pytest tidy up.
    command.arg("--basetemp").arg(built.target.join("xtask-pytest"));
    command.env("FULGURITE_BIN", &built.program).env("PYTHONDONTWRITEBYTECODE", "1");
    // What somebody has set for a server elsewhere, or for pytest, is not meant for this run.
    command.env_remove("S3_ENDPOINT").env_remove("PYTEST_ADDOPTS");
    set(&mut command);
    python::strict(program::judge_tests(command, Channel::Output, Tally::read_pytest), session.ci)
}

pub(super) fn unreadable(why: String) -> Outcome {
    Outcome::Failed(Tally::FAILED, Failure::Unreadable { why })
}

/// The interpreter of the virtual environment in `folder`, with what the file `requirements` of the repository lists.
pub(super) fn environment(session: &Session, folder: &Path, requirements: &'static str) -> Result<PathBuf, Outcome> {
    let path = session.root.join(requirements);
    let listed = fs::read_to_string(&path).map_err(|error| unreadable(format!("{requirements} can't be read: {error}")))?;
    python::recent().and_then(|system| filled(&system, folder, &path, requirements, &listed)).map_err(Outcome::Skipped)
}

/// The environment is made anew unless it was made for what is `listed`.
fn filled(system: &Path, folder: &Path, path: &Path, requirements: &'static str, listed: &str) -> Result<PathBuf, Lack> {
    let python = python::inside(folder);
    if python.is_file() && was_made_for(folder, listed) {
        return Ok(python);
    }
    println!("the packages of {requirements} go into {}", folder.display());
    python::make(system, folder)?;
    if !python::install(&python, &["-r".as_ref(), path.as_ref()]) {
        return Err(Lack::Requirements { path: requirements });
    }
    note_made_for(folder, listed);
    Ok(python)
}

const MADE_FOR: &str = "made-for.txt";

/// Whether what is in `folder` was made for this, to its end.
pub(super) fn was_made_for(folder: &Path, wanted: &str) -> bool {
    fs::read_to_string(folder.join(MADE_FOR)).is_ok_and(|found| found == wanted)
}

/// Written last, so that what was interrupted isn't taken for whole.
pub(super) fn note_made_for(folder: &Path, wanted: &str) {
    // If it can't be written, the next run makes it all once more.
    let _ = fs::write(folder.join(MADE_FOR), wanted);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_for_other_requirements_is_made_anew() {
        let folder = std::env::temp_dir().join(format!("xtask-s3-{}", std::process::id()));
        let python = python::inside(&folder);
        fs::create_dir_all(python.parent().unwrap()).unwrap();
        fs::write(&python, "").unwrap();
        note_made_for(&folder, "boto3==1");
        let (system, path) = (Path::new("no-such-python-anywhere"), Path::new(REQUIREMENTS));
        assert_eq!(filled(system, &folder, path, REQUIREMENTS, "boto3==1"), Ok(python));
        // Making it takes a Python, and there is none of that name.
        assert!(filled(system, &folder, path, REQUIREMENTS, "boto3==2").is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
