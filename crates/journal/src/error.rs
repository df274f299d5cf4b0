//! Errors of a journal.

use std::{fmt, io};

use fulgurite_domain::Micros;

use crate::read::LINE_BYTES_MAX;

/// Longest part of a line that an error quotes, in characters.
pub(crate) const EXCERPT_CHARS_MAX: usize = 80;

/// A journal can't be read. Line numbers start at 1.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum JournalError {
    #[error("the journal can't be read after line {line}: {source}")]
    Io { line: u64, source: io::Error },
    #[error("line 1: found `{found}`, but `fulgurite journal 1` is expected: not a journal, or one of another version")]
    NoJournal { found: String },
    #[error("line {line}: found {found}, but {expected} is expected")]
    Line { line: u64, found: LineContent, expected: &'static str },
    /// This line, or an earlier one without a check of its own, was changed.
    #[error("line {line}: found check {found:08x}, but {expected:08x} is expected: the line was changed, or lines before it are missing")]
    Damaged { line: u64, found: u32, expected: u32 },
    #[error("line {line}: found an instant of {found}, but {expected} or later is expected")]
    Backwards { line: u64, found: Micros, expected: Micros },
    #[error("the journal ends after line {line}, but {expected} is expected: the file was truncated, or the run was cut off")]
    Truncated { line: u64, expected: &'static str },
    #[error("line {line}: found an end after {found} inputs, but {expected} came before it")]
    Count { line: u64, found: u64, expected: u64 },
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
    /// The beginning of a text.
    pub(crate) fn text(text: &str) -> Self {
        let mut short: String = text.chars().take(EXCERPT_CHARS_MAX).collect();
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
            Self::TooLong => write!(f, "more than {} MiB", LINE_BYTES_MAX >> 20),
        }
    }
}
