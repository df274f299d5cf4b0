//! The tests of the Python package, as users install it.
//!
//! ```text
//! target/xtask-package/
//!     venv/   pip install -r python/tests/requirements.txt, then pip install ./python
//! ```
//!
//! The package is built with the release profile: its tests read thousands of objects, and run the
//! twin.

use std::process::Command;

use super::s3::{self, ReleaseBuild};
use super::{Outcome, Session, program, setup_error};

const FOLDER: &str = "python/tests";
const REQUIREMENTS: &str = "python/tests/requirements.txt";
const PACKAGE: &str = "./python";

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let built = ReleaseBuild::find(session)?;
        let python = s3::environment(session, &built.target.join("xtask-package/venv"), REQUIREMENTS)?;
        let mut pip = Command::new(&python);
        // With the maturin of the requirements.
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-build-isolation"]);
        pip.args(["--no-deps", "--force-reinstall", PACKAGE]).current_dir(&session.root).env("MATURIN_PEP517_ARGS", "--locked");
        // Build backends are programs beside the interpreter.
        if let Some(programs) = python.parent() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let all = [programs.to_owned()].into_iter().chain(std::env::split_paths(&path));
            pip.env("PATH", std::env::join_paths(all).map_err(|error| setup_error(error.to_string()))?);
        }
        match program::judge(pip) {
            Outcome::Passed(_) => Ok(s3::run(session, &built, &python, FOLDER, |_| {})),
            failed => Err(failed),
        }
    };
    tested().unwrap_or_else(|outcome| outcome)
}
