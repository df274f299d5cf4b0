//! The project's own checks. `cargo xtask test` runs everything that a change must pass; `cargo
//! xtask check` runs only the quick checks, which compile nothing.
//!
//! ```text
//! cargo xtask test     [check] -> [deny] -> [fmt] -> [clippy] -> [fuzz] -> [tests] -> [gpu]
//!                         |       -> [postgres] -> [docs] -> [python] -> [release] -> [readme]
//!                         |       -> [s3] -> [attacks] -> [clients] -> [dashboard] -> [audit]
//!                         |       -> [preservation]
//!                         |       stops at the first step that fails
//!                         |
//! cargo xtask check    arrows, names, sizes, links, toolchain, prose, unsafe, leftovers
//!                         |       runs all, then prints the verdict
//!                         |
//!                      [Tree: the files of the repository]  [Workspace: cargo's metadata]
//! ```
//!
//! A *check* reads files and metadata and reports findings. A *step* runs all checks, or a program
//! whose tests it counts; a program without tests counts as one.

#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

mod check;
mod markdown;
mod suite;
mod tally;
mod tree;
mod workspace;

const USAGE: &str = "\
usage: cargo xtask check [--only CHECK]... [--list]    checks that need no compilation
       cargo xtask test  [--only STEP]...  [--list]    everything, in order, up to the first failure
       cargo xtask help";

const EXIT_FAILED: u8 = 1;
const EXIT_MISUSED: u8 = 2;

fn main() -> ExitCode {
    let request = match parse(env::args().skip(1)) {
        Ok(request) => request,
        Err(misuse) => {
            eprintln!("xtask: {misuse}\n{USAGE}");
            return ExitCode::from(EXIT_MISUSED);
        }
    };
    match carry_out(&request) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_FAILED),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Runs the request. Returns true if nothing failed.
fn carry_out(request: &Request) -> Result<bool, Box<dyn Error>> {
    match request {
        Request::Help => println!("{USAGE}"),
        Request::Check(Choice { list: true, .. }) => check::list(),
        Request::Test(Choice { list: true, .. }) => suite::list(),
        Request::Check(choice) => {
            let tally = check::run(&root()?, &choice.only)?;
            println!("{tally}");
            return Ok(tally.failed == 0);
        }
        Request::Test(choice) => return Ok(suite::run(&suite::Session::new(root()?), &choice.only)),
    }
    Ok(true)
}

/// The root of the repository, from the package's path that cargo sets at run time. The path at
/// compile time may differ.
fn root() -> Result<PathBuf, Misuse> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(Misuse::OutsideCargo)?);
    package.parent().map(PathBuf::from).ok_or(Misuse::OutsideCargo)
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Help,
    Check(Choice),
    Test(Choice),
}

/// The checks or steps to run: those named in `only`, or all if it is empty.
#[derive(Debug, Default, PartialEq, Eq)]
struct Choice {
    only: Vec<String>,
    list: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Misuse {
    NoCommand,
    UnknownCommand { given: String },
    UnknownArgument { given: String },
    NoName,
    UnknownName { given: String, known: Vec<&'static str> },
    OutsideCargo,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCommand => write!(f, "no command given"),
            Self::UnknownCommand { given } => write!(f, "unknown command `{given}`"),
            Self::UnknownArgument { given } => write!(f, "unknown argument `{given}`"),
            Self::NoName => write!(f, "`--only` requires a name; `--list` shows the names"),
            Self::UnknownName { given, known } => write!(f, "`--only {given}`: unknown name; the names are {}", known.join(", ")),
            Self::OutsideCargo => write!(f, "can't find the repository: start this program as `cargo xtask`"),
        }
    }
}

impl Error for Misuse {}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Request, Misuse> {
    let command = arguments.next().ok_or(Misuse::NoCommand)?;
    match command.as_str() {
        "check" => Ok(Request::Check(parse_choice(arguments, check::names())?)),
        "test" => Ok(Request::Test(parse_choice(arguments, suite::names())?)),
        "help" | "--help" | "-h" => Ok(Request::Help),
        _ => Err(Misuse::UnknownCommand { given: command }),
    }
}

fn parse_choice(mut arguments: impl Iterator<Item = String>, known: Vec<&'static str>) -> Result<Choice, Misuse> {
    let mut choice = Choice::default();
    while let Some(argument) = arguments.next() {
        let name = match argument.as_str() {
            "--list" => {
                choice.list = true;
                continue;
            }
            "--only" => arguments.next().ok_or(Misuse::NoName)?,
            other => other.strip_prefix("--only=").map(String::from).ok_or(Misuse::UnknownArgument { given: argument.clone() })?,
        };
        if !known.contains(&name.as_str()) {
            return Err(Misuse::UnknownName { given: name, known });
        }
        choice.only.push(name);
    }
    Ok(choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, Misuse> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn a_command_without_arguments_selects_everything() {
        assert_eq!(parsed("check"), Ok(Request::Check(Choice::default())));
        assert_eq!(parsed("test"), Ok(Request::Test(Choice::default())));
    }

    #[test]
    fn only_accepts_both_notations_and_can_be_repeated() {
        let only = vec!["fmt".to_owned(), "clippy".to_owned()];
        assert_eq!(parsed("test --only fmt --only=clippy"), Ok(Request::Test(Choice { only, list: false })));
    }

    #[test]
    fn an_unknown_argument_is_named() {
        assert_eq!(parsed("test --fast"), Err(Misuse::UnknownArgument { given: "--fast".into() }));
        assert_eq!(parsed("tset"), Err(Misuse::UnknownCommand { given: "tset".into() }));
        assert_eq!(parsed(""), Err(Misuse::NoCommand));
        assert_eq!(parsed("check --only"), Err(Misuse::NoName));
    }

    #[test]
    fn the_error_for_an_unknown_step_lists_the_known_ones() {
        let misuse = parsed("test --only fnt").unwrap_err();
        assert!(misuse.to_string().contains("clippy, fuzz"), "{misuse}");
    }
}
