//! How an operation tells what it is doing, to whoever shows progress.

use std::path::Path;

use fulgurite_domain::ObjectName;

/// What long operations report. All methods may be called from several threads.
pub trait Watcher: Sync {
    /// A new stage begins; `bytes` of work are expected, where that is known.
    fn stage(&self, what: &str, bytes: Option<u64>) {
        let _ = (what, bytes);
    }
    /// More work is expected in this stage.
    fn expect(&self, objects: u64, bytes: u64) {
        let _ = (objects, bytes);
    }
    /// So much more was done.
    fn done(&self, objects: u64, bytes: u64) {
        let _ = (objects, bytes);
    }
    /// Something failed that concerns one thing only; the operation goes on.
    fn trouble(&self, trouble: Trouble<'_>) {
        let _ = trouble;
    }
}

/// What failed for one thing.
#[derive(Debug)]
pub enum Trouble<'a> {
    /// A file could not be read and was not stored.
    Unreadable {
        /// The file.
        path: &'a Path,
        /// Why.
        why: &'a str,
    },
    /// A file changed while it was read; what was read is stored.
    Changed {
        /// The file.
        path: &'a Path,
    },
    /// An object could not be given back.
    Lost {
        /// Its name.
        name: &'a ObjectName,
        /// Number of the version.
        version: u64,
        /// Why.
        why: &'a str,
    },
    /// Something that a person should know.
    Note {
        /// A sentence.
        text: &'a str,
    },
}

/// Watches nothing.
pub struct Unwatched;

impl Watcher for Unwatched {}
