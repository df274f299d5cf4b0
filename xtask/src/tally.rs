//! Counts passed, failed and skipped tests, and parses them from the closing lines of test runners.

use std::fmt;
use std::ops::AddAssign;

/// Numbers of passed, failed and skipped tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Tally {
    pub(crate) const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    pub(crate) const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    pub(crate) const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };

    /// True if nothing ran.
    pub(crate) fn is_empty(self) -> bool {
        self.passed + self.failed == 0
    }

    /// Adds the counts of one line of `cargo test`, if it is the closing line of a test binary:
    /// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in
    /// 0.00s`.
    pub(crate) fn read_cargo_test(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else { return };
        for (number, what) in numbered(counts, "; ") {
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }

    /// Adds the counts of one line of Python's `unittest`: first `Ran 52 tests in 2.560s`, then `OK
    /// (skipped=1)` or `FAILED (failures=1, errors=2, skipped=1)`. The first line counts all tests
    /// as passed; the second subtracts the others.
    pub(crate) fn read_unittest(&mut self, line: &str) {
        if let Some((number, _)) = line.strip_prefix("Ran ").and_then(|rest| rest.split_once(" test")) {
            self.passed += number.parse::<usize>().unwrap_or(0);
            return;
        }
        let Some(counts) = line.strip_prefix("OK (").or_else(|| line.strip_prefix("FAILED (")) else { return };
        for count in counts.trim_end_matches(')').split(", ") {
            let Some((what, number)) = count.split_once('=') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match what {
                "failures" | "errors" | "unexpected successes" => self.failed += number,
                "skipped" => self.skipped += number,
                _ => continue,
            }
            // One test can fail several times, once for each of its subtests.
            self.passed = self.passed.saturating_sub(number);
        }
    }

    /// Adds the counts of one line of pytest, if it is the closing line: `==== 2 failed, 40 passed,
    /// 1 skipped, 1 error in 8.31s ====`. An error is a test whose setup or teardown failed.
    pub(crate) fn read_pytest(&mut self, line: &str) {
        let Some((counts, _)) = line.strip_prefix('=').and_then(|rest| rest.trim_matches(['=', ' ']).rsplit_once(" in ")) else { return };
        for (number, what) in numbered(counts, ", ") {
            match what {
                "passed" => self.passed += number,
                "failed" | "error" | "errors" => self.failed += number,
                "skipped" => self.skipped += number,
                _ => {}
            }
        }
    }
}

/// Items such as `3 passed`; others are ignored.
fn numbered<'a>(counts: &'a str, separator: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    counts.split(separator).filter_map(|count| {
        let (number, what) = count.split_once(' ')?;
        Some((number.parse().ok()?, what))
    })
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tallied(read: fn(&mut Tally, &str), output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| read(&mut tally, line));
        tally
    }

    #[test]
    fn the_closing_lines_of_all_test_binaries_add_up() {
        let output = "running 4 tests\ntest a ... ok\n\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
            test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.20s\n";
        assert_eq!(tallied(Tally::read_cargo_test, output), Tally { passed: 8, failed: 2, skipped: 1 });
    }

    #[test]
    fn other_lines_of_cargo_test_count_nothing() {
        let output = "running 9 tests\ntest test_result ... ok\n3 passed; 4 failed\n";
        assert_eq!(tallied(Tally::read_cargo_test, output), Tally::default());
    }

    #[test]
    fn unittest_subtracts_failed_and_skipped_tests_from_those_that_ran() {
        assert_eq!(tallied(Tally::read_unittest, "..\nRan 52 tests in 2.560s\n\nOK\n"), Tally { passed: 52, failed: 0, skipped: 0 });
        assert_eq!(tallied(Tally::read_unittest, "Ran 1 test in 0.1s\n\nOK (skipped=1)\n"), Tally { passed: 0, failed: 0, skipped: 1 });
        let failed = "Ran 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1, expected failures=1)\n";
        assert_eq!(tallied(Tally::read_unittest, failed), Tally { passed: 5, failed: 3, skipped: 1 });
    }

    #[test]
    fn only_the_closing_line_of_pytest_counts() {
        let output = "3 passed in 1.00s\n==== short test summary info ====\nFAILED a.py::b - assert 1 passed, in\n\
            = 2 failed, 40 passed, 1 skipped, 3 deselected, 7 warnings, 2 errors in 92.31s (0:01:32) =\n";
        assert_eq!(tallied(Tally::read_pytest, output), Tally { passed: 40, failed: 4, skipped: 1 });
        assert_eq!(tallied(Tally::read_pytest, "=== 1 error in 0.1s ==="), Tally { passed: 0, failed: 1, skipped: 0 });
        assert_eq!(tallied(Tally::read_pytest, "=== no tests ran in 0.1s ==="), Tally::default());
    }

    #[test]
    fn the_last_line_has_the_documented_form() {
        assert_eq!(Tally { passed: 3, failed: 0, skipped: 1 }.to_string(), "3 passed, 0 failed, 1 skipped");
    }
}
