//! Journals of simulated runs, with the crate `journal`: the header names the scenario and the
//! seed, from which a replay builds the region again.

use std::io::{BufRead, Write};

use fulgurite_domain::Micros;
use fulgurite_journal::{Detail, Fact, Header, JournalReader, JournalWriter, Replayed, Subject, Watcher};
use fulgurite_library::{Command, Event, Library, Region};
use fulgurite_settings::SettingErrors;

use crate::scenario::{Scenario, ScenarioError};
use crate::simulation::{Ended, Observer, Request};

/// The journal of a run can't be replayed, or the outputs differ.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened")]
pub enum ReplayError {
    #[error(transparent)]
    Journal(#[from] fulgurite_journal::ReplayError),
    #[error("the journal is that of a live library, not of a scenario")]
    NoScenario,
    #[error("the scenario in the journal's header can't be read: {0}")]
    Settings(#[from] SettingErrors),
    #[error("the scenario in the journal's header can't be run: {0}")]
    Scenario(#[from] ScenarioError),
}

/// The header for a run of a scenario by this program.
#[must_use]
pub fn header(scenario: &Scenario, seed: u64, detail: Detail) -> Header {
    Header::new(Subject::Scenario, scenario.canonical(), seed, detail)
}

/// Replays the journal of a run: builds the region of its scenario and seed as the simulation did,
/// gives it the inputs, and compares the outputs.
///
/// # Errors
/// [`ReplayError::Journal`] with [`Differs`](fulgurite_journal::ReplayError::Differs) for the first
/// difference; others if the journal can't be replayed.
pub fn replay<R: BufRead>(journal: JournalReader<R>) -> Result<Replayed, ReplayError> {
    replay_watched(journal, |_, _| |_: &Fact, _: &Region| ())
}

/// Like [`replay`], and shows each input and output to a watcher. `watcher` makes it from the
/// scenario and the region before the first input.
///
/// # Errors
/// As for [`replay`].
pub fn replay_watched<R: BufRead, W: Watcher>(
    journal: JournalReader<R>,
    watcher: impl FnOnce(&Scenario, &Region) -> W,
) -> Result<Replayed, ReplayError> {
    let header = journal.header();
    if header.subject != Subject::Scenario {
        return Err(ReplayError::NoScenario);
    }
    let scenario = Scenario::parse("the journal's scenario", &header.description, &[])?;
    let stock = scenario.stock(header.seed)?;
    let mut region = scenario.region(&stock);
    let mut watcher = watcher(&scenario, &region);
    Ok(fulgurite_journal::replay_seen(journal, &mut region, &mut watcher)?)
}

impl<W: Write> Observer for JournalWriter<W> {
    fn request(&mut self, request: &Request<'_>) {
        let Request { id, at, shards, deadline, .. } = *request;
        self.add(&Fact::Requested { now: at, request: id, deadline, shards: shards.to_vec() });
    }

    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        self.add(&Fact::Happened { now, library, event: *event });
    }

    fn command(&mut self, _: Micros, library: Library, command: &Command) {
        self.add(&Fact::Commanded { library, command: *command });
    }

    fn ended(&mut self, ended: &Ended) {
        self.add(&Fact::Ended { request: ended.id, outcome: ended.outcome });
    }
}
