//! The tests of bags, OCFL and PREMIS with programs of others, against the release build and
//! examples of the crates.
//!
//! The examples are small programs, so they are built with the dev profile, which the tests before
//! have built already.

use super::program;
use super::s3::{self, ReleaseBuild};
use super::{Outcome, Session, cargo};

const FOLDER: &str = "tests/preservation";
const REQUIREMENTS: &str = "tests/preservation/requirements.txt";
const BUILD: [&str; 9] =
    ["build", "--locked", "--examples", "--package", "fulgurite-bagit", "--package", "fulgurite-ocfl", "--package", "fulgurite-premis"];

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
