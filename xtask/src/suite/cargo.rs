//! The steps that run cargo.

use std::env;
use std::fs;
use std::process::{Command, Stdio};

use super::program::{self, Channel};
use super::python;
use super::{Lack, Outcome, Session, setup_error, target_directory};
use crate::tally::Tally;
use crate::workspace;

pub(super) fn fmt(session: &Session) -> Outcome {
    with_component("rustfmt", "fmt", session, &["--all", "--check"])
}

pub(super) fn clippy(session: &Session) -> Outcome {
    with_component("clippy", "clippy", session, &["--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"])
}

/// The steps that lint and test enable all features, but the released program has none.
pub(super) fn plain(session: &Session) -> Outcome {
    program::judge(cargo(session, &["check", "--locked"]))
}

/// The fuzz targets are a separate workspace. Only a nightly compiler can link them, but any can
/// check them. Their lock file isn't in git; it starts as a copy of ours, so that this step reuses
/// the dependencies that the others checked.
pub(super) fn fuzz(session: &Session) -> Outcome {
    let lock = session.root.join("fuzz/Cargo.lock");
    if !lock.exists()
        && let Err(error) = fs::copy(session.root.join("Cargo.lock"), &lock)
    {
        return setup_error(format!("can't create {}: {error}", lock.display()));
    }
    let target = match target_directory(session) {
        Ok(target) => target,
        Err(outcome) => return outcome,
    };
    let target = target.to_string_lossy();
    let arguments = ["--manifest-path", "fuzz/Cargo.toml", "--no-default-features", "--target-dir", &target, "--", "-D", "warnings"];
    with_component("clippy", "clippy", session, &arguments)
}

/// A single invocation runs all unit, integration and doc tests with all features, so that nothing
/// is compiled twice. It continues after a failed test, because a run in CI should report all
/// failures.
pub(super) fn tests(session: &Session) -> Outcome {
    let mut command = cargo(session, &["test", "--workspace", "--all-features", "--locked", "--no-fail-fast"]);
    // Without the variable, the tests that run the second reader try `python3`, and say what is
    // missing.
    if let Ok(python) = python::interpreter(session) {
        command.env(python::VARIABLE, python);
    }
    program::judge_tests(command, Channel::Output, Tally::read_cargo_test)
}

/// The release build, for the steps that test the program from outside.
pub(super) fn release(session: &Session) -> Outcome {
    program::judge(cargo(session, &["build", "--release", "--locked", "--package", "fulgurite"]))
}

pub(super) fn docs(session: &Session) -> Outcome {
    let mut command = cargo(session, &["doc", "--workspace", "--all-features", "--no-deps", "--locked"]);
    let given = env::var("RUSTDOCFLAGS").unwrap_or_default();
    command.env("RUSTDOCFLAGS", format!("{given} -D warnings").trim_start());
    program::judge(command)
}

pub(super) fn cargo(session: &Session, arguments: &[&str]) -> Command {
    let mut command = workspace::cargo();
    command.args(arguments).current_dir(&session.root);
    command
}

/// With rustup, rust-toolchain.toml installs the components; without rustup they may be missing.
fn with_component(component: &'static str, subcommand: &str, session: &Session, arguments: &[&str]) -> Outcome {
    let probe = cargo(session, &[subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return Outcome::Skipped(Lack::Component { name: component });
    }
    let mut command = cargo(session, &[subcommand]);
    command.args(arguments);
    program::judge(command)
}
