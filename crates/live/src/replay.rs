//! Replays the journal of a live library.

use std::io::BufRead;

use fulgurite_journal::{Fact, JournalReader, ReplayError, Replayed, Watcher};
use fulgurite_library::Region;

use crate::plan::{DescriptionError, Plan};

/// The journal can't be replayed, or the outputs differ.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened")]
pub enum LiveReplayError {
    #[error(transparent)]
    Journal(#[from] ReplayError),
    #[error("the library in the journal's header: {0}")]
    Description(#[from] DescriptionError),
}

/// Replays the journal of a live library: builds its region from the header, gives it the inputs,
/// and compares the outputs.
///
/// # Errors
/// [`LiveReplayError::Journal`] with [`ReplayError::Differs`] for the first difference; others if
/// the journal can't be replayed.
pub fn replay<R: BufRead>(journal: JournalReader<R>) -> Result<Replayed, LiveReplayError> {
    replay_watched(journal, |_, _| |_: &Fact, _: &Region| ())
}

/// Like [`replay`], and shows each input and output to a watcher. `watcher` makes it from the plan
/// and the region before the first input.
///
/// # Errors
/// As for [`replay`].
pub fn replay_watched<R: BufRead, W: Watcher>(
    journal: JournalReader<R>,
    watcher: impl FnOnce(&Plan, &Region) -> W,
) -> Result<Replayed, LiveReplayError> {
    let (plan, stock) = Plan::read(&journal.header().description)?;
    let mut region = plan.region(&stock);
    let mut watcher = watcher(&plan, &region);
    Ok(fulgurite_journal::replay_seen(journal, &mut region, &mut watcher)?)
}
