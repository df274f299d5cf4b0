//! `twin record` and `twin replay`: record a run in a journal, and check that its events produce
//! the same commands again.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use fulgurite_journal::{Detail, JournalWriter, Replayed};
use fulgurite_library::Library;
use fulgurite_twin::journal::{ReplayError, header, replay};
use fulgurite_twin::simulation::run_with;
use serde_json::json;

use super::Record;
use super::watch::{self, NewPage};
use crate::outcome::Misuse;
use crate::{Outcome, Session, text};

pub(super) fn record(session: &Session, record: &Record) -> Result<Outcome> {
    let scenario = record.chosen.read()?;
    let seed = record.seed.unwrap_or(scenario.run.seed);
    let detail = record.digests.map_or(Detail::Commands, Detail::Digests);
    let path = text::harmless(&record.journal.display().to_string());
    let page = record.html.as_deref().map(NewPage::create).transpose()?;
    let file = File::create_new(&record.journal).with_context(|| format!("can't create the journal {path}"))?;
    let mut journal = JournalWriter::new(file, &header(&scenario, seed, detail)).with_context(|| path.clone())?;
    let finished = run_with(&scenario, seed, &mut journal, |_| ())?;
    let file = journal.finish(finished.at).with_context(|| format!("can't write the journal {path}"))?;
    file.sync_all().with_context(|| format!("can't write the journal {path}"))?;
    if let Some(page) = page {
        page.write(session, &watch::recording_of(session, &record.journal, Library(0), |_| watch::title_of_run(&scenario, seed))?)?;
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

pub(super) fn run_again(session: &Session, journal: &Path) -> Result<Outcome> {
    let path = text::harmless(&journal.display().to_string());
    let file = File::open(journal).with_context(|| format!("can't open the journal {path}"))?;
    let report = match replay(BufReader::new(file)) {
        Ok(report) => report,
        Err(error) => return Err(refuse(session, &path, error)),
    };
    let Replayed { requests, events, commands, ended, until, .. } = report;
    session.answer(
        || json!({ "same": true, "requests": requests, "events": events, "commands": commands, "ended": ended, "until_us": until.0 }),
    );
    session.say(&format!("{path}: the same {commands} commands from {} requests and events, until {until}", requests + events));
    Ok(Outcome::Good)
}

/// The error for a journal that can't be replayed, or whose replay differs.
pub(super) fn refuse(session: &Session, path: &str, error: ReplayError) -> anyhow::Error {
    let ReplayError::Journal(fulgurite_journal::ReplayError::Differs(difference)) = error else {
        return Misuse(format!("{path}: {error}")).into();
    };
    session.answer(|| {
        let replay = difference.replay.as_ref().map(ToString::to_string);
        json!({ "same": false, "line": difference.line, "journal": difference.journal.to_string(), "replay": replay })
    });
    anyhow!("{path}: not the same: {difference}")
}
