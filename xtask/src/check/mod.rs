//! The quick checks. Each reads the files and cargo's metadata, and reports violations of a house
//! rule.

use std::error::Error;
use std::fmt;
use std::path::Path;

use crate::tally::Tally;
use crate::tree::Tree;
use crate::workspace::Workspace;

mod arrows;
mod leftovers;
mod links;
mod names;
mod prose;
mod sizes;
mod toolchain;
mod unsafe_code;

/// The input of a check.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    tree: Tree,
    workspace: Workspace,
}

/// The findings of a check.
#[derive(Debug, Default)]
struct Report {
    faults: Vec<Finding>,
    /// Worth knowing, but no reason to fail.
    notes: Vec<Finding>,
}

#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// A path, with the line if there is one, or the name of a package.
    place: String,
    message: String,
}

impl Report {
    fn fault(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.faults.push(Finding { place: place.into(), message: message.into() });
    }

    fn note(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.notes.push(Finding { place: place.into(), message: message.into() });
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

struct Check {
    name: &'static str,
    rule: &'static str,
    run: fn(&Repository) -> Report,
}

const CHECKS: &[Check] = &[
    Check { name: "arrows", rule: "a crate uses only what its row in ARCHITECTURE.md says", run: arrows::check },
    Check { name: "names", rule: "no module has a catch-all name such as `util`", run: names::check },
    Check { name: "sizes", rule: "no file is too large for git or too long to read", run: sizes::check },
    Check { name: "links", rule: "links between documents have valid targets", run: links::check },
    Check { name: "toolchain", rule: "the pinned toolchain is the one that the crates require", run: toolchain::check },
    Check { name: "prose", rule: "comments and documents wrap at 100 columns, in plain English", run: prose::check },
    Check { name: "unsafe", rule: "a crate without unsafe code forbids it", run: unsafe_code::check },
    Check { name: "leftovers", rule: "no paths of a particular machine, no unfinished work", run: leftovers::check },
];

pub(crate) fn names() -> Vec<&'static str> {
    CHECKS.iter().map(|check| check.name).collect()
}

pub(crate) fn list() {
    for Check { name, rule, .. } in CHECKS {
        println!("{name:10}  {rule}");
    }
}

/// Runs the checks named in `only`, or all if it is empty, and prints their findings. Each check
/// counts as passed or failed.
pub(crate) fn run(root: &Path, only: &[String]) -> Result<Tally, Box<dyn Error>> {
    let repository = Repository { tree: Tree::read(root)?, workspace: Workspace::read(root)? };
    let mut tally = Tally::default();
    for Check { name, rule, run } in CHECKS {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        let report = run(&repository);
        let passed = report.faults.is_empty();
        println!("check {name:10} {:6}  {rule}", if passed { "ok" } else { "FAILED" });
        report.faults.iter().for_each(|fault| println!("    {fault}"));
        report.notes.iter().for_each(|note| println!("    note: {note}"));
        tally += if passed { Tally::PASSED } else { Tally::FAILED };
    }
    Ok(tally)
}

#[cfg(test)]
impl Repository {
    fn of_files<const N: usize>(files: [(&str, &str); N]) -> Self {
        Self { tree: Tree::of(files), ..Self::default() }
    }
}

#[cfg(test)]
impl Report {
    fn lines(&self) -> Vec<String> {
        self.faults.iter().map(Finding::to_string).collect()
    }
}
