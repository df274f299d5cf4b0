//! Errors of settings, each with its position, setting, expected value and found value;
//! all reported at once, in file order.

use std::fmt;

use super::place::SourceSpan;

/// One error. Its message starts with the position: `a.toml:3:9: ...`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct SettingError {
    /// Position of the error.
    pub place: SourceSpan,
    /// The problem.
    pub problem: Problem,
}

/// A problem at a position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum Problem {
    /// Invalid TOML.
    #[error("{0}")]
    Syntax(String),
    #[error("{what} cannot be read: {reason}")]
    Unreadable { what: String, reason: String },
    /// A file larger than any written by hand or by this program. How large is unknown: only the
    /// allowed bytes and one more are read.
    #[error("expected a file of at most {} KiB; found a longer one", .allowed / 1024)]
    TooLong { allowed: usize },
    #[error("`base`: a file cannot be based on itself: {}", .0.join(" -> "))]
    Circle(Vec<String>),
    /// A chain of bases longer than anyone can follow.
    #[error("`base`: expected at most {0} files, each based on the next")]
    TooManyBases(usize),
    #[error("unknown {what} `{name}`{}", end(.hint))]
    Unknown {
        what: EntryKind,
        /// The full name, such as `drives.throughput`.
        name: String,
        /// A similar name or the valid names; empty if none is known.
        hint: String,
    },
    #[error("`{setting}`: expected {expected}; found {found}{}", end(.hint))]
    Invalid {
        /// The full name, such as `drives.throughput`.
        setting: String,
        expected: String,
        found: String,
        /// The reason, or a suggestion; may be empty.
        hint: String,
    },
    /// A required setting is missing. The position is that of its section.
    #[error("`{setting}` is missing: expected {expected}")]
    Missing { setting: String, expected: String },
    #[error("expected {expected}{}", end(.hint))]
    Argument {
        expected: String,
        /// More details; may be empty.
        hint: String,
    },
}

/// What a name in a file stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A setting.
    Setting,
    /// A section.
    Section,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Setting => "setting",
            Self::Section => "section",
        })
    }
}

/// The optional end of a message.
fn end(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("; {hint}") }
}

/// All errors of the settings, sorted by file and line; contains at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingErrors(Vec<SettingError>);

/// Maximum number of errors shown: a longer list means the wrong file was given.
const SHOWN_MAX: usize = 30;

impl SettingErrors {
    pub(super) fn new(mut errors: Vec<SettingError>) -> Self {
        assert!(!errors.is_empty(), "without an error there is nothing to report");
        errors.sort_by_key(|error| error.place.sort_key());
        // A section that isn't a table is reported again each time it is asked for.
        errors.dedup();
        Self(errors)
    }

    pub(super) fn one(place: SourceSpan, problem: Problem) -> Self {
        Self(vec![SettingError { place, problem }])
    }

    /// All errors, in file order.
    #[must_use]
    pub fn all(&self) -> &[SettingError] {
        &self.0
    }
}

impl fmt::Display for SettingErrors {
    /// One line per error.
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
