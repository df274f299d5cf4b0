//! `twin watch`, `twin record --html` and `twin run --watch`: a page that shows a library in
//! motion.

use std::cell::RefCell;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_domain::Micros;
use fulgurite_journal::{Fact, Subject};
use fulgurite_library::{Command, Event, Library, Region};
use fulgurite_twin::journal::replay_watched;
use fulgurite_twin::scenario::{PolicyName, Scenario};
use fulgurite_twin::simulation::{Ended, Observer, Request, Sample};
use fulgurite_viewer::{Recorder, Recording, page};
use serde_json::json;

use super::journal::{open, refuse, refuse_live};
use super::new_output::NewOutput;
use crate::outcome::Misuse;
use crate::{Outcome, Session};

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// A journal
    journal: PathBuf,
    /// The page to write; it must not exist
    page: PathBuf,
    /// Which library of the region to show, from 0
    #[arg(long, default_value_t = 0, value_name = "N")]
    library: u16,
}

pub(super) fn watch(session: &Session, watch: &Watch) -> Result<Outcome> {
    let page = new_page(&watch.page)?;
    let name = watch.journal.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let recording = recording_of(session, &watch.journal, Library(watch.library), &name)?;
    write_page(session, page, &recording)?;
    session.answer(|| json!({ "page": watch.page }));
    Ok(Outcome::Good)
}

/// A page to be written; it must not exist.
pub(super) fn new_page(path: &Path) -> Result<NewOutput> {
    NewOutput::new(path, "the page")
}

/// Writes the page of a recording.
pub(super) fn write_page(session: &Session, new: NewOutput, recording: &Recording) -> Result<()> {
    let (path, cannot_write) = (new.shown(), new.cannot_write());
    new.write(|mut file| file.write_all(page(recording).as_bytes()).context(cannot_write))?;
    session.say(&format!("{path}: open it in a browser"));
    Ok(())
}

/// Replays a journal, and records what a library did.
pub(super) fn recording_of(session: &Session, journal: &Path, library: Library, name: &str) -> Result<Recording> {
    let (path, reader) = open(journal)?;
    let recorder = RefCell::new(None);
    let begin = |title: String, region: &Region| {
        if usize::from(library.0) < region.controllers().len() {
            *recorder.borrow_mut() = Some(Recorder::new(title, region, library));
        }
        |fact: &Fact, region: &Region| {
            if let Some(recorder) = &mut *recorder.borrow_mut() {
                recorder.see(fact, region);
            }
        }
    };
    let replayed = match reader.header().subject {
        Subject::Scenario => replay_watched(reader, |scenario, region| begin(title(name, scenario.policy.name), region))
            .map_err(|error| refuse(session, &path, error)),
        Subject::Library => fulgurite_live::replay_watched(reader, |plan, region| begin(title(name, plan.settings().policy.name), region))
            .map_err(|error| refuse_live(session, &path, error)),
    };
    let until = replayed?.until;
    let Some(recorder) = recorder.into_inner() else {
        return Err(Misuse(format!("{path}: the region has no library {}", library.0)).into());
    };
    Ok(recorder.finish(until))
}

fn title(name: &str, policy: PolicyName) -> String {
    format!("{name}, policy {}", policy.text())
}

/// What the page of a run is called.
pub(super) fn name_of_run(scenario: &Scenario, seed: u64) -> String {
    format!("{}, seed {seed}", scenario.name)
}

/// Records a run while it is simulated.
pub(super) struct Watching {
    title: String,
    recorder: Option<Recorder>,
    /// What has happened since the region last settled.
    facts: Vec<Fact>,
    until: Micros,
}

impl Watching {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        Self { title: title(&name_of_run(scenario, seed), scenario.policy.name), recorder: None, facts: Vec::new(), until: Micros::ZERO }
    }

    /// The recording of the region's first library.
    pub(super) fn finish(self) -> Option<Recording> {
        Some(self.recorder?.finish(self.until))
    }
}

impl Observer for Watching {
    fn begin(&mut self, region: &Region) {
        self.recorder = Some(Recorder::new(std::mem::take(&mut self.title), region, Library(0)));
    }

    fn request(&mut self, request: &Request<'_>) {
        self.facts.push(Fact::Requested { now: request.at, request: request.id, deadline: request.deadline, shards: Vec::new() });
    }

    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        self.facts.push(Fact::Happened { now, library, event: *event });
    }

    fn command(&mut self, _: Micros, library: Library, command: &Command) {
        self.facts.push(Fact::Commanded { library, command: *command });
    }

    fn ended(&mut self, ended: &Ended) {
        self.facts.push(Fact::Ended { request: ended.id, outcome: ended.outcome });
    }

    fn settled(&mut self, _: Micros, region: &Region) {
        if let Some(recorder) = &mut self.recorder {
            self.facts.drain(..).for_each(|fact| recorder.see(&fact, region));
        }
    }

    fn end(&mut self, sample: &Sample<'_>) {
        self.until = sample.at;
    }
}
