//! The tests of the S3 service. They are written in Python to test what clients see: boto3 is one
//! of the common clients.
//!
//! ```text
//! Python 3.11 or later -> target/xtask-s3-venv
//!     -- pip install -r tests/s3/requirements.txt, unless already done for the same file
//!     -> pytest, in several processes, against target/release/fulgurite
//! ```

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;

use super::program::{self, Channel};
use super::python;
use super::{Lack, Outcome, Session, setup_error, target_directory};
use crate::tally::Tally;

const FOLDER: &str = "tests/s3";
pub(super) const REQUIREMENTS: &str = "tests/s3/requirements.txt";
/// Processes that run tests at once, each with a server and an archive of its own, at most.
const MOST_WORKERS: usize = 8;

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let built = ReleaseBuild::find(session)?;
        let python = environment(session, &built.target.join("xtask-s3-venv"), REQUIREMENTS)?;
        // Each test has buckets of its own. Tests wait for their server, so one more than there are
        // processors keeps those busy.
        let workers = (available_parallelism().map_or(1, NonZero::get) + 1).min(MOST_WORKERS);
        Ok(run(session, &built, &python, FOLDER, |command| {
            command.arg("--numprocesses").arg(workers.to_string());
        }))
    };
    tested().unwrap_or_else(|outcome| outcome)
}

/// The result of the step `release`: the program as released.
pub(super) struct ReleaseBuild {
    /// The target directory.
    pub(super) target: PathBuf,
    pub(super) program: PathBuf,
}

impl ReleaseBuild {
    pub(super) fn find(session: &Session) -> Result<Self, Outcome> {
        let target = target_directory(session)?;
        let program = target.join(format!("release/fulgurite{EXE_SUFFIX}"));
        if !program.is_file() {
            return Err(setup_error(format!("{} doesn't exist; the step `release` builds it", program.display())));
        }
        Ok(Self { target, program })
    }
}

/// Runs the tests of `folder` against the program; `set` may add to their environment.
pub(super) fn run(session: &Session, built: &ReleaseBuild, python: &Path, folder: &str, set: impl FnOnce(&mut Command)) -> Outcome {
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "--color=no", folder]).current_dir(&session.root);
    // Archives go next to the build, because other runs of pytest clean up the default folder.
    command.arg("--basetemp").arg(built.target.join("xtask-pytest"));
    command.env("FULGURITE_BIN", &built.program).env("PYTHONDONTWRITEBYTECODE", "1");
    // Ignore settings for another server or for other runs of pytest.
    command.env_remove("S3_ENDPOINT").env_remove("PYTEST_ADDOPTS");
    set(&mut command);
    python::strict(program::judge_tests(command, Channel::Output, Tally::read_pytest), session.ci)
}

/// The interpreter of the virtual environment in `folder`, with what the file `requirements` of the
/// repository lists.
pub(super) fn environment(session: &Session, folder: &Path, requirements: &'static str) -> Result<PathBuf, Outcome> {
    let path = session.root.join(requirements);
    let listed = fs::read_to_string(&path).map_err(|error| setup_error(format!("can't read {requirements}: {error}")))?;
    python::recent().and_then(|system| filled(&system, folder, &path, requirements, &listed)).map_err(Outcome::Skipped)
}

/// Creates the environment again, unless it was made for the requirements `listed`.
fn filled(system: &Path, folder: &Path, path: &Path, requirements: &'static str, listed: &str) -> Result<PathBuf, Lack> {
    let python = python::inside(folder);
    if python.is_file() && was_made_for(folder, listed) {
        return Ok(python);
    }
    println!("installing the packages of {requirements} into {}", folder.display());
    python::make(system, folder)?;
    if !python::install(&python, &["-r".as_ref(), path.as_ref()]) {
        return Err(Lack::Requirements { path: requirements });
    }
    note_made_for(folder, listed);
    Ok(python)
}

const MADE_FOR: &str = "made-for.txt";

/// True if the content of `folder` was completed for `wanted`.
pub(super) fn was_made_for(folder: &Path, wanted: &str) -> bool {
    fs::read_to_string(folder.join(MADE_FOR)).is_ok_and(|found| found == wanted)
}

/// Written last, so that an interrupted installation isn't taken for complete.
pub(super) fn note_made_for(folder: &Path, wanted: &str) {
    // If the note can't be written, the next run starts over.
    let _ = fs::write(folder.join(MADE_FOR), wanted);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_for_other_requirements_is_created_again() {
        let folder = std::env::temp_dir().join(format!("xtask-s3-{}", std::process::id()));
        let python = python::inside(&folder);
        fs::create_dir_all(python.parent().unwrap()).unwrap();
        fs::write(&python, "").unwrap();
        note_made_for(&folder, "boto3==1");
        let (system, path) = (Path::new("no-such-python-anywhere"), Path::new(REQUIREMENTS));
        assert_eq!(filled(system, &folder, path, REQUIREMENTS, "boto3==1"), Ok(python));
        // Creating it fails, because no Python of that name exists.
        assert!(filled(system, &folder, path, REQUIREMENTS, "boto3==2").is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
