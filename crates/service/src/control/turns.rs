//! One command at a time: verifying and scrubbing read every disk, and two of them would only take turns seeking.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Working;
use crate::state::now_ms;

/// Who may read all platters now. The server's own scrubbing gives way to commands.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    current: Mutex<Option<Working>>,
    /// Held while the server scrubs by itself, a platter at a time.
    scrubbing: Mutex<()>,
}

/// A turn. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Gives a turn to a command.
    ///
    /// # Errors
    /// What has the turn now.
    pub(crate) fn take(&self, what: &str) -> Result<Turn<'_>, Working> {
        let mut current = self.lock();
        if let Some(working) = &*current {
            return Err(working.clone());
        }
        *current = Some(Working { what: what.to_owned(), since: now_ms().div_euclid(1_000) as u64 });
        Ok(Turn(self))
    }

    /// What has the turn now.
    pub(crate) fn current(&self) -> Option<Working> {
        self.lock().clone()
    }

    /// Whether the server's own scrubbing has to stop.
    pub(crate) fn is_taken(&self) -> bool {
        self.lock().is_some()
    }

    /// Holds off the server's own scrubbing, or waits until it has stopped.
    pub(crate) fn scrubbing(&self) -> MutexGuard<'_, ()> {
        // It guards no data.
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
    fn a_turn_is_taken_by_one_and_given_back() {
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
