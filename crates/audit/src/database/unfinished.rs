//! Imports that were not completed.

/// A list that is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source<'a> {
    /// What the user asked for.
    pub name: &'a str,
    /// True if another import of this name imports the same list. False for a stream such as
    /// standard input.
    pub is_repeatable: bool,
}

impl<'a> Source<'a> {
    /// A list that can be imported again.
    #[must_use]
    pub const fn list(name: &'a str) -> Self {
        Self { name, is_repeatable: true }
    }

    /// A stream, which may be another one each time.
    #[must_use]
    pub const fn stream(name: &'a str) -> Self {
        Self { name, is_repeatable: false }
    }
}

/// An import that has begun and wasn't completed: it is under way, was interrupted, or ended with
/// an error. What is known of its files may be incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedImport {
    /// Its number. Numbers grow and are not used again.
    pub number: u64,
    /// The name of its [`Source`].
    pub source: String,
    /// When it began, in seconds since 1970.
    pub began_at: u64,
    /// True if no copy can be checked until an import is completed: files have no final numbers
    /// yet, and the next import starts over.
    pub holds_checks: bool,
}
