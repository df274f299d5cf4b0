//! What belongs to one process, and is left alone in its children after a fork: connections to
//! databases, locks, runtimes with threads.

use std::ops::Deref;
use std::sync::Mutex;

/// A value of the process that made it. In a child process it is neither used nor dropped: SQLite
/// forbids to close a parent's connection, and a runtime would wait for threads that don't exist.
pub(crate) struct OfProcess<T> {
    process: u32,
    /// `Some` until it is dropped.
    value: Option<T>,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: Some(value) }
    }

    /// Whether this is the process that made it.
    pub(crate) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until the end")
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.is_own() {
            std::mem::forget(self.value.take());
        }
    }
}

/// Counts what this process has open in SQLite. SQLite keeps a list of open files and their locks
/// per process; a child inherits that list, but not the locks. Its connections to the same files
/// would then take no locks at all, read what was replaced long ago, and wait for threads that
/// don't exist. So a child of a process with open archives opens none.
pub(crate) struct InUse(());

/// The process that opened something last, and how much is open there.
static OPEN: Mutex<(u32, usize)> = Mutex::new((0, 0));

impl InUse {
    /// Notes that a database is about to be opened. `None` if this process was forked from one that
    /// had some open.
    pub(crate) fn begin() -> Option<Self> {
        let mut open = OPEN.lock().expect("nothing panics while it holds this lock");
        let process = std::process::id();
        if open.0 != process && open.1 > 0 {
            return None;
        }
        *open = (process, open.1 + 1);
        Some(Self(()))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        OPEN.lock().expect("nothing panics while it holds this lock").1 -= 1;
    }
}
