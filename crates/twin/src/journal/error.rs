//! Errors of a journal.

use std::{fmt, io};

use fulgurite_domain::Micros;

/// A journal can't be read. Line numbers start at 1.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file can't be read.
    #[error("the journal can't be read after line {line}: {source}")]
    Io {
        /// The last line that was read.
        line: u64,
        /// The cause.
        source: io::Error,
    },
    /// Not a journal, or one of another version.
    #[error("line 1: found `{found}`, but `fulgurite journal 1` is expected: not a journal, or one of another version")]
    NoJournal {
        /// The first line.
        found: String,
    },
    /// A line contains an unexpected word.
    #[error("line {line}: found {found}, but {expected} is expected")]
    Line {
        /// The line.
        line: u64,
        /// What the line contains.
        found: LineContent,
        /// What was expected instead.
        expected: &'static str,
    },
    /// This line, or an earlier one without a check of its own, was changed.
    #[error("line {line}: found check {found:08x}, but {expected:08x} is expected: the line was changed, or lines before it are missing")]
    Damaged {
        /// The line.
        line: u64,
        /// The check at the end of the line.
        found: u32,
        /// The check of the line's content.
        expected: u32,
    },
    /// Time goes backwards.
    #[error("line {line}: found an instant of {found}, but {expected} or later is expected")]
    Backwards {
        /// The line.
        line: u64,
        /// Its instant.
        found: Micros,
        /// Instant of the input before it.
        expected: Micros,
    },
    /// The journal is truncated.
    #[error("the journal ends after line {line}, but {expected} is expected: the file was truncated, or the run was cut off")]
    Truncated {
        /// The last line.
        line: u64,
        /// What should follow.
        expected: &'static str,
    },
    /// The last line has a wrong count of inputs.
    #[error("line {line}: found an end after {found} inputs, but {expected} came before it")]
    Count {
        /// The last line.
        line: u64,
        /// The count in the line.
        found: u64,
        /// The number of inputs before it.
        expected: u64,
    },
}

/// Unexpected content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineContent {
    /// The end of the line.
    Nothing,
    /// A word or a whole line; long ones are cut.
    Text(String),
    /// A byte that is not part of any UTF-8 character.
    NotText {
        /// The byte.
        byte: u8,
        /// Its column, from 1.
        column: usize,
    },
    /// More bytes than any line has.
    TooLong,
}

impl LineContent {
    /// The first 80 characters of a text.
    pub(super) fn text(text: &str) -> Self {
        let mut short: String = text.chars().take(80).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        Self::Text(short)
    }
}

impl fmt::Display for LineContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Text(text) => write!(f, "`{text}`"),
            Self::NotText { byte, column } => write!(f, "byte {byte:02x} in column {column}"),
            Self::TooLong => f.write_str("more than 32 MiB"),
        }
    }
}
