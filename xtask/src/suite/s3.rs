//! The tests of the S3 service. They are Python because what they test is what today's clients see, and boto3 is one of them.
//!
//! ```text
//! a Python of 3.11 or later -> target/xtask-s3-venv -- pip install -r tests/s3/requirements.txt -> pytest, against target/debug/fulgurite
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
const REQUIREMENTS: &str = "tests/s3/requirements.txt";

pub(super) fn tests(session: &Session) -> Outcome {
    let target = match Workspace::read_members(&session.root) {
        Ok(workspace) => workspace.target_directory,
        Err(error) => return unreadable(error.to_string()),
    };
    let program = target.join(format!("debug/fulgurite{EXE_SUFFIX}"));
    if !program.is_file() {
        return unreadable(format!("{} isn't built; the step `tests` does that", program.display()));
    }
    let requirements = match fs::read_to_string(session.root.join(REQUIREMENTS)) {
        Ok(requirements) => requirements,
        Err(error) => return unreadable(format!("{REQUIREMENTS} can't be read: {error}")),
    };
    let python = match python::recent().and_then(|system| environment(&system, &target.join("xtask-s3-venv"), &requirements)) {
        Ok(python) => python,
        Err(lack) => return Outcome::Skipped(lack),
    };
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "--color=no", FOLDER]).current_dir(&session.root);
    command.env("FULGURITE_BIN", program).env("PYTHONDONTWRITEBYTECODE", "1");
    // What somebody has set for a server elsewhere, or for pytest, is not meant for this run.
    command.env_remove("S3_ENDPOINT").env_remove("PYTEST_ADDOPTS");
    python::strict(program::judge_tests(command, Channel::Output, Tally::read_pytest), session.ci)
}

fn unreadable(why: String) -> Outcome {
    Outcome::Failed(Tally::FAILED, Failure::Unreadable { why })
}

/// The interpreter of the virtual environment in `folder`, which is made anew unless it was made for these requirements.
fn environment(system: &Path, folder: &Path, requirements: &str) -> Result<PathBuf, Lack> {
    let python = python::inside(folder);
    // Written last, so that what was interrupted isn't taken for whole.
    let made_for = folder.join("made-for.txt");
    if python.is_file() && fs::read_to_string(&made_for).is_ok_and(|found| found == requirements) {
        return Ok(python);
    }
    println!("the packages of {REQUIREMENTS} go into {}", folder.display());
    python::make(system, folder)?;
    if !python::install(&python, &["-r".as_ref(), REQUIREMENTS.as_ref()]) {
        return Err(Lack::Requirements { path: REQUIREMENTS });
    }
    // If it can't be written, the next run makes the environment once more.
    let _ = fs::write(made_for, requirements);
    Ok(python)
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
        fs::write(folder.join("made-for.txt"), "boto3==1").unwrap();
        let system = Path::new("no-such-python-anywhere");
        assert_eq!(environment(system, &folder, "boto3==1"), Ok(python));
        // Making it takes a Python, and there is none of that name.
        assert!(environment(system, &folder, "boto3==2").is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
