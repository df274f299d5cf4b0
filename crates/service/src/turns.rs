//! Runs one command at a time: verifying and scrubbing read every disk, and two at once would only
//! compete for seeks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::state::now_ms;

/// A command that the server is carrying out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Working {
    /// The command.
    pub what: String,
    /// Its start, in seconds since 1970.
    pub since: u64,
}

/// Tracks which command may read all platters. The server's own scrub gives way to commands.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    current: Mutex<Option<Working>>,
    /// Held while the server's own scrub reads a platter.
    scrubbing: Mutex<()>,
}

/// The right to run a command. Dropping it ends the turn.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Takes the turn for a command.
    ///
    /// # Errors
    /// The command that has the turn now.
    pub(crate) fn take(&self, what: &str) -> Result<Turn<'_>, Working> {
        let mut current = self.lock();
        if let Some(working) = &*current {
            return Err(working.clone());
        }
        *current = Some(Working { what: what.to_owned(), since: now_ms().div_euclid(1_000) as u64 });
        Ok(Turn(self))
    }

    /// The command that has the turn now.
    pub(crate) fn current(&self) -> Option<Working> {
        self.lock().clone()
    }

    /// Whether the server's own scrub has to stop.
    pub(crate) fn is_taken(&self) -> bool {
        self.lock().is_some()
    }

    /// Waits until the server's own scrub pauses, and keeps it paused.
    pub(crate) fn scrubbing(&self) -> MutexGuard<'_, ()> {
        // A poisoned lock is usable: it guards no data.
        self.scrubbing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Working>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_command_has_the_turn() {
        let turns = Turns::default();
        assert_eq!(turns.current(), None);
        let first = turns.take("verify").expect("free");
        let busy = turns.take("scrub").expect_err("taken");
        assert!(busy.what == "verify" && busy.since > 1_500_000_000, "{busy:?}");
        assert!(turns.is_taken());
        drop(first);
        assert!(turns.take("scrub").is_ok());
    }
}
