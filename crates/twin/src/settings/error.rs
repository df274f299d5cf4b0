//! What is wrong with a scenario: where, in which setting, what was expected and what was found; all of it at once, in the order
//! of the file.

use std::fmt;

use super::place::Place;

/// One thing that is wrong. Its sentence begins with the place: `a.toml:3:9: ...`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct SettingError {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: Problem,
}

/// What is wrong at a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// A file can't be read.
    #[error("{path} cannot be read: {reason}")]
    Unreadable {
        /// The file, as it was looked for.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// A scenario is larger than any written by hand or by this program.
    #[error("expected a scenario of at most {} KiB; found {} KiB", .allowed / 1024, .bytes / 1024)]
    TooLong {
        /// Its length.
        bytes: usize,
        /// What is read at most.
        allowed: usize,
    },
    /// Files are based on each other in a circle.
    #[error("`base`: a scenario cannot be based on itself: {}", .0.join(" -> "))]
    Circle(Vec<String>),
    /// There are more files in a row than anyone can follow.
    #[error("`base`: expected at most {0} files, each based on the next")]
    TooManyBases(usize),
    /// A name that nobody asked for.
    #[error("unknown {what} `{name}`{}", Hint(.hint))]
    Unknown {
        /// "setting" or "section".
        what: &'static str,
        /// The whole name, such as `drives.throughput`.
        name: String,
        /// What it may be, or what there is; empty if nothing is known.
        hint: String,
    },
    /// A value that a setting does not take.
    #[error("`{setting}`: expected {expected}; found {found}{}", Hint(.hint))]
    Refused {
        /// The whole name, such as `drives.throughput`.
        setting: String,
        /// What it takes.
        expected: String,
        /// What stands there.
        found: String,
        /// Why not, or what may be meant; may be empty.
        hint: String,
    },
    /// A setting without default is not there. The place is that of its section.
    #[error("`{setting}` is missing: expected {expected}")]
    Missing {
        /// The whole name.
        setting: String,
        /// What it takes.
        expected: String,
    },
    /// An argument of the command line that is not built as it should be.
    #[error("expected {expected}{}", Hint(.hint))]
    Argument {
        /// What it should be.
        expected: String,
        /// More on it; may be empty.
        hint: String,
    },
}

/// The part of a sentence behind its facts.
struct Hint<'a>(&'a str);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; {}", self.0) }
    }
}

/// All that is wrong with a scenario, sorted by file and line; at least one error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingErrors(Vec<SettingError>);

/// More are not shown: whoever sees so many has given the wrong file.
const SHOWN_MAX: usize = 30;

impl SettingErrors {
    pub(super) fn new(mut errors: Vec<SettingError>) -> Self {
        assert!(!errors.is_empty(), "without an error there is nothing to report");
        errors.sort_by_key(|error| error.place.sort_key());
        // A section that is none is found again each time it is asked for.
        errors.dedup();
        Self(errors)
    }

    pub(super) fn one(place: Place, problem: Problem) -> Self {
        Self(vec![SettingError { place, problem }])
    }

    /// The errors.
    #[must_use]
    pub fn all(&self) -> &[SettingError] {
        &self.0
    }
}

impl fmt::Display for SettingErrors {
    /// A line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().take(SHOWN_MAX).enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "\n" })?;
        }
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for SettingErrors {}
