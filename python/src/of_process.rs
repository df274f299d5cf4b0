//! What belongs to one process, and is left alone in its children after a fork: connections to
//! databases, locks, runtimes with threads.

use std::ops::Deref;

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
