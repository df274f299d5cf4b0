//! Findings of a validation, as many as are worth keeping.

use std::fmt;

use crate::problem::{Code, Problem};

/// A problem and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file or folder, relative to the object or the storage root, with `/`. Empty for the
    /// object or the storage root itself. Bytes that aren't UTF-8 are replaced.
    pub place: String,
    /// What is wrong.
    pub problem: Problem,
}

impl Finding {
    /// The code of the problem.
    #[must_use]
    pub fn code(&self) -> Code {
        self.problem.code()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => write!(f, "{} {}", self.code(), self.problem),
            // With escapes, for names of files are from outside too.
            place => write!(f, "{} {}: {}", self.code(), place.escape_debug(), self.problem),
        }
    }
}

/// Findings, in the order of discovery. Counts all of them but keeps a limited number, so that a
/// hostile object can't fill the memory.
#[derive(Debug, Clone)]
pub struct Findings {
    kept: Vec<Finding>,
    keep: usize,
    errors: u64,
    warnings: u64,
}

impl Default for Findings {
    fn default() -> Self {
        Self::keeping(Self::KEPT)
    }
}

impl Findings {
    /// How many are kept unless said otherwise: more than an operator reads.
    pub const KEPT: usize = 1_000;

    /// No findings yet; up to `keep` errors and as many warnings will be kept.
    #[must_use]
    pub fn keeping(keep: usize) -> Self {
        Self { kept: Vec::new(), keep, errors: 0, warnings: 0 }
    }

    pub(crate) fn add(&mut self, place: &str, problem: Problem) {
        // Errors must not be crowded out by warnings, so each has a share of its own.
        let count = if problem.code().is_error() { &mut self.errors } else { &mut self.warnings };
        *count += 1;
        if *count <= self.keep as u64 {
            self.kept.push(Finding { place: place.to_owned(), problem });
        }
    }

    /// The findings that were kept.
    #[must_use]
    pub fn kept(&self) -> &[Finding] {
        &self.kept
    }

    /// How many findings were only counted.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.errors + self.warnings - self.kept.len() as u64
    }

    /// How many errors there are, kept or not.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// How many warnings there are, kept or not.
    #[must_use]
    pub fn warnings(&self) -> u64 {
        self.warnings
    }

    /// True if a kept finding has this code.
    #[must_use]
    pub fn has(&self, code: Code) -> bool {
        self.kept.iter().any(|finding| finding.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_findings_are_counted_and_some_are_kept() {
        let mut findings = Findings::keeping(2);
        for _ in 0..5 {
            findings.add("v1", Problem::NoVersionInventory);
        }
        findings.add("", Problem::NoInventory);
        assert_eq!((findings.errors(), findings.warnings(), findings.omitted()), (1, 5, 3));
        assert!(findings.has(Code::E(63)));
        assert_eq!(findings.kept()[0].to_string(), "W010 v1: the version has no inventory of its own");
        assert_eq!(findings.kept()[2].to_string(), "E063 the object has no inventory.json");
    }
}
