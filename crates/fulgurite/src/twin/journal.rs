//! `twin record` and `twin replay`: record a run in a journal, and check that its events produce
//! the same commands again.

use std::cell::RefCell;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, anyhow};
use fulgurite_checks::Checks;
use fulgurite_journal::{Detail, Difference, Fact, JournalReader, JournalWriter, Replayed, Subject, Watcher};
use fulgurite_library::{Library, Region};
use fulgurite_live::LiveReplayError;
use fulgurite_twin::journal::{ReplayError, header, replay_watched};
use fulgurite_twin::simulation::run_with;
use serde_json::json;

use super::Record;
use super::new_output::NewOutput;
use super::watch;
use crate::outcome::Misuse;
use crate::{Outcome, Session, text};

pub(super) fn record(session: &Session, record: &Record) -> Result<Outcome> {
    let scenario = record.chosen.read()?;
    let seed = record.seed.unwrap_or(scenario.run.seed);
    let detail = record.digests.map_or(Detail::Commands, Detail::Digests);
    let page = record.html.as_deref().map(watch::new_page).transpose()?;
    let journal = NewOutput::new(&record.journal, "the journal")?;
    let (path, cannot_write) = (journal.shown(), journal.cannot_write());
    let finished = journal.write(|file| {
        let mut journal = JournalWriter::new(file, &header(&scenario, seed, detail)).with_context(|| cannot_write.clone())?;
        let finished = run_with(&scenario, seed, &mut journal, |_| ())?;
        journal.finish(finished.at).context(cannot_write)?;
        Ok(finished)
    })?;
    if let Some(page) = page {
        let recording = watch::recording_of(session, &record.journal, Library(0), &watch::name_of_run(&scenario, seed))?;
        watch::write_page(session, page, &recording)?;
    }
    let (requests, censored) = (finished.run.requests, finished.run.censored());
    session.answer(
        || json!({ "journal": record.journal, "page": record.html, "seed": seed, "requests": requests, "censored": censored, "until_us": finished.at.0 }),
    );
    session.say(&format!("{path}: {}, seed {seed}, until {}", text::harmless(&scenario.name), finished.at));
    if let Some(unfinished) = &finished.run.unfinished {
        crate::diagnostics::trouble(&format!("{}, seed {seed}: {unfinished}", text::harmless(&scenario.name)));
    }
    Ok(Outcome::troubled_if(censored > 0))
}

/// Checks of a replay, and the way back from the replay that has them.
#[derive(Clone, Default)]
struct Laws(Rc<RefCell<Option<Checks>>>);

impl Laws {
    fn begin(&self, is_wanted: bool, mut checks: Checks, region: &Region) -> Self {
        if is_wanted {
            checks.begin(region);
            *self.0.borrow_mut() = Some(checks);
        }
        self.clone()
    }
}

impl Watcher for Laws {
    fn fact(&mut self, fact: &Fact, _: &Region) {
        if let Some(checks) = &mut *self.0.borrow_mut() {
            checks.observe(fact);
        }
    }

    fn settled(&mut self, region: &Region) {
        if let Some(checks) = &mut *self.0.borrow_mut() {
            checks.settled(region);
        }
    }
}

pub(super) fn run_again(session: &Session, journal: &Path, checks_laws: bool) -> Result<Outcome> {
    let (path, reader) = open(journal)?;
    let laws = Laws::default();
    let replayed = match reader.header().subject {
        Subject::Scenario => replay_watched(reader, |scenario, region| {
            let checks = Checks::new(scenario.sets.zones.clone(), scenario.tracks, scenario.policy.name);
            laws.begin(checks_laws, checks, region)
        })
        .map_err(|error| refuse(session, &path, error)),
        Subject::Library => fulgurite_live::replay_watched(reader, |plan, region| {
            let checks = Checks::new(plan.settings().zones.clone(), plan.tracks(), plan.settings().policy.name);
            laws.begin(checks_laws, checks, region)
        })
        .map_err(|error| refuse_live(session, &path, error)),
    };
    let Replayed { requests, events, commands, ended, until, is_complete } = replayed?;
    let checks = laws.0.take();
    let violation = checks.and_then(|checks| checks.finish_journal(until).err());
    session.answer(|| {
        let laws = checks_laws.then(|| violation.map_or_else(|| "hold".to_owned(), |violation| violation.to_string()));
        json!({
            "same": true, "requests": requests, "events": events, "commands": commands, "ended": ended, "until_us": until.0,
            "complete": is_complete, "laws": laws,
        })
    });
    session.say(&format!("{path}: the same {commands} commands from {} requests and events, until {until}", requests + events));
    if !is_complete {
        session.say("The journal has no end: the server was killed, or still writes it.");
    }
    match violation {
        Some(violation) => crate::diagnostics::trouble(&format!("{path}: a law doesn't hold: {violation}")),
        None if checks_laws => session.say("The laws hold."),
        None => {}
    }
    Ok(Outcome::troubled_if(violation.is_some()))
}

/// Opens a journal and reads its header. Returns its path for messages.
pub(super) fn open(journal: &Path) -> Result<(String, JournalReader<BufReader<File>>)> {
    let path = text::harmless(&journal.display().to_string());
    let file = File::open(journal).with_context(|| format!("can't open the journal {path}"))?;
    let reader = JournalReader::new(BufReader::new(file)).map_err(|error| Misuse(format!("{path}: {error}")))?;
    Ok((path, reader))
}

/// The error for a journal that can't be replayed, or whose replay differs.
pub(super) fn refuse(session: &Session, path: &str, error: ReplayError) -> anyhow::Error {
    match error {
        ReplayError::Journal(fulgurite_journal::ReplayError::Differs(difference)) => differs(session, path, &difference),
        error => Misuse(format!("{path}: {error}")).into(),
    }
}

/// The same for the journal of a live library.
pub(super) fn refuse_live(session: &Session, path: &str, error: LiveReplayError) -> anyhow::Error {
    match error {
        LiveReplayError::Journal(fulgurite_journal::ReplayError::Differs(difference)) => differs(session, path, &difference),
        error => Misuse(format!("{path}: {error}")).into(),
    }
}

fn differs(session: &Session, path: &str, difference: &Difference) -> anyhow::Error {
    session.answer(|| {
        let replay = difference.replay.as_ref().map(ToString::to_string);
        json!({ "same": false, "line": difference.line, "journal": difference.journal.to_string(), "replay": replay })
    });
    anyhow!("{path}: not the same: {difference}")
}
