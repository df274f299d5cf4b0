//! `twin record` and `twin replay`: record a run in a journal, and check that its events produce
//! the same commands again.

use std::fs::File;
use std::io::BufReader;

use anyhow::{Context, Result};
use fulgurite_twin::journal::{Detail, Header, JournalReader, JournalWriter, ReplayError, replay};
use fulgurite_twin::simulation::run_with;
use serde_json::json;

use super::{Record, Replay, misused};
use crate::{Outcome, Session, text};

pub(super) fn record(session: &Session, record: &Record) -> Result<Outcome> {
    let scenario = match record.chosen.read() {
        Ok(scenario) => scenario,
        Err(errors) => return Ok(misused(&errors)),
    };
    let seed = record.seed.unwrap_or(scenario.run.seed);
    let detail = record.digests.map_or(Detail::Commands, Detail::Digests);
    let path = || text::harmless(&record.journal.display().to_string());
    let file = File::create_new(&record.journal).with_context(|| format!("can't create the journal {}", path()))?;
    let mut journal = JournalWriter::new(file, &Header::of(&scenario, seed, detail)).with_context(path)?;
    let finished = run_with(&scenario, seed, &mut journal, |_| ())?;
    let file = journal.finish(finished.at).with_context(|| format!("can't write the journal {}", path()))?;
    file.sync_all().with_context(|| format!("can't write the journal {}", path()))?;
    let run = &finished.run;
    if session.json {
        session.answer(&json!({ "journal": record.journal, "seed": seed, "requests": run.requests, "until_us": finished.at.0 }));
    } else {
        session.say(&format!("{}: {}, seed {seed}, until {}", path(), text::harmless(&scenario.name), finished.at));
    }
    Ok(Outcome::Good)
}

pub(super) fn run_again(session: &Session, asked: &Replay) -> Result<Outcome> {
    let path = || text::harmless(&asked.journal.display().to_string());
    let file = File::open(&asked.journal).with_context(|| format!("can't open the journal {}", path()))?;
    let again = JournalReader::new(BufReader::new(file)).map_err(ReplayError::from).and_then(replay);
    match again {
        Ok(report) => {
            if session.json {
                session.answer(&json!({
                    "same": true,
                    "requests": report.requests,
                    "events": report.events,
                    "commands": report.commands,
                    "ended": report.ended,
                    "until_us": report.until.0,
                }));
            } else {
                let (inputs, commands) = (report.requests + report.events, report.commands);
                session.say(&format!("{}: the same {commands} commands from {inputs} requests and events, until {}", path(), report.until));
            }
            Ok(Outcome::Good)
        }
        Err(ReplayError::Differs(difference)) => {
            if session.json {
                session.answer(&json!({
                    "same": false,
                    "line": difference.line,
                    "journal": difference.journal.to_string(),
                    "replay": difference.replay.as_ref().map(ToString::to_string),
                }));
            }
            crate::diagnostics::failure(&format!("{}: not the same: {difference}", path()), Outcome::Troubled);
            Ok(Outcome::Troubled)
        }
        Err(error) => {
            crate::diagnostics::failure(&format!("{}: {error}", path()), Outcome::Misused);
            Ok(Outcome::Misused)
        }
    }
}
