//! Sizes: no file is too large for git, and no source too long to read in one go.

use super::{Report, Repository};
use crate::tree::LARGEST_FILE_BYTES;

const LONGEST_SOURCE_LINES: usize = 1_000;
const NOTED_SOURCE_LINES: usize = 900;

/// Sources that may be longer, with the reason.
const LONG_SOURCES: &[(&str, &str)] = &[("tools/read_platter.py", "the second reader is one file on purpose")];

pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    for (path, file) in repository.tree.files() {
        if file.bytes > LARGEST_FILE_BYTES {
            report.fault(path, format!("{} bytes exceed the limit of {LARGEST_FILE_BYTES} for a file in git", file.bytes));
        }
    }
    for (path, text) in repository.tree.texts().filter(|(path, _)| is_source(path) && !is_test(path)) {
        let lines = text.lines().count();
        match LONG_SOURCES.iter().find(|(long, _)| *long == path) {
            Some((_, reason)) if lines <= LONGEST_SOURCE_LINES => {
                report.note(path, format!("has {lines} lines and no longer needs an exception ({reason})"));
            }
            Some(_) => {}
            None if lines > LONGEST_SOURCE_LINES => {
                report.fault(path, format!("{lines} lines exceed the limit of {LONGEST_SOURCE_LINES}: split the file"));
            }
            None if lines > NOTED_SOURCE_LINES => report.note(path, format!("{lines} lines, close to the limit of {LONGEST_SOURCE_LINES}")),
            None => {}
        }
    }
    report
}

fn is_source(path: &str) -> bool {
    [".rs", ".py", ".ts", ".tsx"].iter().any(|suffix| path.ends_with(suffix))
}

/// Tests have no limit, because long lists of cases read well.
fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    path.split('/').any(|folder| folder == "tests")
        || stem == "tests"
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || [".test.", ".spec."].iter().any(|mark| name.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_more_than_two_megabytes_is_a_fault() {
        let large = "x".repeat(2_000_001);
        let report = check(&Repository::of_files([("docs/a.png", &large), ("docs/b.png", &large[1..])]));
        assert_eq!(report.lines(), ["docs/a.png: 2000001 bytes exceed the limit of 2000000 for a file in git"]);
    }

    #[test]
    fn a_long_source_is_a_fault_in_every_language_but_a_long_test_is_not() {
        let long = "\n".repeat(1_001);
        let repository = Repository::of_files([
            ("crates/a/src/lib.rs", &long),
            ("tools/a.py", &long),
            ("dashboard/a.tsx", &long),
            ("crates/a/src/tests.rs", &long),
            ("crates/a/tests/conformance.rs", &long),
            ("tools/test_a.py", &long),
            ("dashboard/a.test.ts", &long),
            ("docs/a.md", &long),
        ]);
        let places: Vec<String> = check(&repository).faults.into_iter().map(|fault| fault.place).collect();
        assert_eq!(places, ["crates/a/src/lib.rs", "dashboard/a.tsx", "tools/a.py"]);
    }

    #[test]
    fn a_source_that_is_nearly_too_long_is_noted() {
        let repository = Repository::of_files([("a.rs", &"\n".repeat(1_000)), ("b.rs", &"\n".repeat(900))]);
        let report = check(&repository);
        assert_eq!((report.faults.len(), report.notes.len()), (0, 1));
    }

    #[test]
    fn an_exception_that_is_no_longer_needed_is_noted() {
        let long = "\n".repeat(5_000);
        let report = check(&Repository::of_files([("tools/read_platter.py", &long)]));
        assert_eq!((report.faults.len(), report.notes.len()), (0, 0));
        assert_eq!(check(&Repository::of_files([("tools/read_platter.py", "")])).notes.len(), 1);
    }
}
