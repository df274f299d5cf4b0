//! What can be wrong with a journal.

use std::io;

use fulgurite_domain::Micros;

/// A journal can't be read. Lines count from 1.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file itself can't be read.
    #[error("the journal can't be read behind line {line}: {source}")]
    Io {
        /// The last line that could.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// It is something else, or of another version.
    #[error("line 1: found `{found}`, but `fulgurite journal 1` is expected: no journal, or one of another version")]
    NoJournal {
        /// The first line.
        found: String,
    },
    /// A line says something that no journal says.
    #[error("line {line}: found {found}, but {expected} is expected")]
    Line {
        /// Which.
        line: u64,
        /// The word that is wrong.
        found: String,
        /// What should have been there.
        expected: &'static str,
    },
    /// A line, or one above it that nothing else checks, is not what was written.
    #[error("line {line}: found check {found:08x}, but {expected:08x} is expected: the line was changed, or lines before it are missing")]
    Damaged {
        /// Which.
        line: u64,
        /// The check behind it.
        found: u32,
        /// The check of what is there.
        expected: u32,
    },
    /// Time goes back.
    #[error("line {line}: found an instant of {found}, but {expected} or later is expected")]
    Backwards {
        /// Which.
        line: u64,
        /// Its instant.
        found: Micros,
        /// That of the input before it.
        expected: Micros,
    },
    /// It ends too soon.
    #[error("the journal ends behind line {line}, but {expected} is expected: it was cut off, or the run that wrote it was")]
    Truncated {
        /// The last line.
        line: u64,
        /// What should follow.
        expected: &'static str,
    },
    /// The last line counts otherwise.
    #[error("line {line}: found an end behind {found} inputs, but {expected} came before it")]
    Count {
        /// The last line.
        line: u64,
        /// What it says.
        found: u64,
        /// How many inputs there are.
        expected: u64,
    },
}
