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

/// The fuzz targets are a separate workspace. Only a nightly compiler can link them, but any can
/// check them. Their lock file isn't in git; it starts as a copy of ours, and they get our profile,
/// so that this step reuses what the others have built.
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
    let profile = target.join("xtask-fuzz-profile.toml");
    let written = fs::read_to_string(session.root.join("Cargo.toml")).and_then(|manifest| fs::write(&profile, dev_profile(&manifest)));
    if let Err(error) = written {
        return setup_error(format!("can't copy the profile of Cargo.toml to {}: {error}", profile.display()));
    }
    let (target, profile) = (target.to_string_lossy(), profile.to_string_lossy());
    let workspace = ["--manifest-path", "fuzz/Cargo.toml", "--config", &profile, "--target-dir", &target];
    let arguments = ["--no-default-features", "--", "-D", "warnings"];
    with_component("clippy", "clippy", session, &[&workspace[..], &arguments[..]].concat())
}

/// The sections of a manifest that make up the dev profile, as a configuration of cargo.
fn dev_profile(manifest: &str) -> String {
    let mut is_profile = false;
    let is_wanted = |line: &&str| {
        if line.starts_with('[') {
            is_profile = line.starts_with("[profile.dev]") || line.starts_with("[profile.dev.");
        }
        is_profile
    };
    manifest.lines().filter(is_wanted).map(|line| format!("{line}\n")).collect()
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

/// The release build, for the steps that test the program from outside. The steps before it enable
/// all features; this program has none, as users build it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dev_profile_is_all_sections_of_that_name() {
        let manifest = "[features]\na = []\n[profile.dev]\ndebug = 1\n\n[profile.dev.package]\nb = { opt-level = 0 }\n[profile.release]\nc = 2\n[profile.device]\n";
        assert_eq!(dev_profile(manifest), "[profile.dev]\ndebug = 1\n\n[profile.dev.package]\nb = { opt-level = 0 }\n");
    }
}
