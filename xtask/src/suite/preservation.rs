//! The tests of bags, OCFL and PREMIS with programs of others, against the release build and
//! examples of the crates.
//!
//! The examples are those that the step `tests` has built.

use super::program;
use super::s3::{self, ReleaseBuild};
use super::{Outcome, Session, cargo};

const FOLDER: &str = "tests/preservation";
const REQUIREMENTS: &str = "tests/preservation/requirements.txt";
/// As the step `tests` builds them: with other packages or features, cargo would enable other
/// features of the dependencies and compile them again.
const BUILD: [&str; 5] = ["build", "--workspace", "--all-features", "--examples", "--locked"];

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let built = ReleaseBuild::find(session)?;
        match program::judge(cargo::cargo(session, &BUILD)) {
            Outcome::Passed(_) => {}
            other => return Err(other),
        }
        let python = s3::environment(session, &built.target.join("xtask-preservation-venv"), REQUIREMENTS)?;
        Ok(s3::run(session, &built, &python, FOLDER, |command| {
            command.env("CARGO_EXAMPLES", built.target.join("debug/examples"));
        }))
    };
    tested().unwrap_or_else(|outcome| outcome)
}
