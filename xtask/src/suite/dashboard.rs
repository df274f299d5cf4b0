//! The tests of the dashboard in Chromium, and the types of its scripts.
//!
//! Debian's Chromium is installed if the step runs as root and apt is there. Playwright, which
//! drives it, goes into a virtual environment below the target directory, the TypeScript compiler
//! into a folder of Node packages there.

use super::s3::{self, ReleaseBuild};
use super::{Outcome, Session, clients, debian, npm, program};

const FOLDER: &str = "tests/dashboard";
const REQUIREMENTS: &str = "tests/dashboard/requirements.txt";
const CHROMIUM: &str = "chromium";
const TSC: &str = "node_modules/typescript/bin/tsc";

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let built = ReleaseBuild::find(session)?;
        if !program::is_on_path(CHROMIUM) {
            // If that fails, the tests skip themselves, which in CI is a failure.
            let _ = debian::install(&[CHROMIUM]);
        }
        let python = s3::environment(session, &built.target.join("xtask-dashboard-venv"), REQUIREMENTS)?;
        let tsc = built.target.join("xtask-tsc");
        clients::report_setup("the TypeScript compiler", npm::install(&session.root.join(FOLDER).join("package.json"), &tsc, TSC));
        Ok(s3::run(session, &built, &python, FOLDER, |command| {
            command.env("FULGURITE_TSC", tsc.join(TSC));
        }))
    };
    tested().unwrap_or_else(|outcome| outcome)
}
