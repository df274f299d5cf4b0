//! Runs one command from the command line at a time: most read every disk, and two at once would
//! only compete for seeks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::state::now_ms;

/// A command from the command line that the server is carrying out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningCommand {
    /// The command's name, such as `verify`.
    pub what: String,
    /// Its start, in seconds since 1970.
    pub since: u64,
}

/// An exclusive lock for commands from the command line. The server's own scrub pauses for them.
#[derive(Debug, Default)]
pub(crate) struct CommandLock {
    current: Mutex<Option<RunningCommand>>,
    /// Held while the server's own scrub reads a platter.
    scrub: Mutex<()>,
}

/// Allows one command to run. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct CommandGuard<'a>(&'a CommandLock);

impl CommandLock {
    /// Locks for a command.
    ///
    /// # Errors
    /// The command that holds the lock.
    pub(crate) fn try_lock(&self, what: &str) -> Result<CommandGuard<'_>, RunningCommand> {
        let mut current = self.lock();
        if let Some(running) = &*current {
            return Err(running.clone());
        }
        *current = Some(RunningCommand { what: what.to_owned(), since: now_ms().div_euclid(1_000) as u64 });
        Ok(CommandGuard(self))
    }

    /// The command that holds the lock.
    pub(crate) fn current(&self) -> Option<RunningCommand> {
        self.lock().clone()
    }

    /// Whether the server's own scrub has to stop.
    pub(crate) fn is_locked(&self) -> bool {
        self.lock().is_some()
    }

    /// Waits until no platter is being scrubbed by the server itself, and keeps it from the next
    /// one. The scrub holds this lock, too, while it reads a platter.
    pub(crate) fn lock_scrub(&self) -> MutexGuard<'_, ()> {
        // A poisoned lock is usable: it guards no data.
        self.scrub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<RunningCommand>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CommandGuard<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_command_holds_the_lock() {
        let command_lock = CommandLock::default();
        assert_eq!(command_lock.current(), None);
        let first = command_lock.try_lock("verify").expect("free");
        let busy = command_lock.try_lock("scrub").expect_err("taken");
        assert!(busy.what == "verify" && busy.since > 1_500_000_000, "{busy:?}");
        assert!(command_lock.is_locked());
        drop(first);
        assert!(command_lock.try_lock("scrub").is_ok());
    }
}
