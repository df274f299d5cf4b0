//! `twin watch`, `twin record --html` and `twin run --watch`: a page that shows a library in
//! motion.

use std::fs::File;
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fulgurite_domain::Micros;
use fulgurite_journal::Fact;
use fulgurite_library::{Command, Event, Library, Region};
use fulgurite_twin::journal::replay_watched;
use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::simulation::{Ended, Observer, Request, Sample};
use fulgurite_viewer::{Recorder, Recording, page};
use serde_json::json;

use super::journal::refuse;
use crate::outcome::Misuse;
use crate::{Outcome, Session, text};

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
    prepare(&watch.page)?;
    let name = watch.journal.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    write_page_of(session, &watch.journal, &watch.page, Library(watch.library), name)?;
    session.answer(|| json!({ "page": watch.page }));
    Ok(Outcome::Good)
}

/// Fails if the page exists. Called before anything runs, so that no run is in vain.
pub(super) fn prepare(page: &Path) -> Result<()> {
    ensure!(!page.try_exists()?, "the page {} already exists", text::harmless(&page.display().to_string()));
    Ok(())
}

/// Replays a journal and writes the page that shows it under this name.
pub(super) fn write_page_of(session: &Session, journal: &Path, page: &Path, library: Library, name: String) -> Result<()> {
    let path = text::harmless(&journal.display().to_string());
    let file = File::open(journal).with_context(|| format!("can't open the journal {path}"))?;
    let mut recorder = None;
    let replayed = replay_watched(BufReader::new(file), |scenario, region| {
        if usize::from(library.0) < region.controllers().len() {
            recorder = Some(Recorder::new(title(&name, scenario), region, library));
        }
        |fact: &Fact, region: &Region| {
            if let Some(recorder) = &mut recorder {
                recorder.see(fact, region);
            }
        }
    });
    let until = match replayed {
        Ok((replayed, _)) => replayed.until,
        Err(error) => return Err(refuse(session, &path, error)),
    };
    let Some(recorder) = recorder else {
        return Err(Misuse(format!("{path}: the region has no library {}", library.0)).into());
    };
    write(session, page, &recorder.finish(until))
}

/// Writes the page of a recording.
pub(super) fn write(session: &Session, page_path: &Path, recording: &Recording) -> Result<()> {
    let path = text::harmless(&page_path.display().to_string());
    let written = File::create_new(page_path).and_then(|mut file| {
        file.write_all(page(recording).as_bytes())?;
        file.sync_all()
    });
    written.with_context(|| format!("can't write the page {path}"))?;
    session.say(&format!("{path}: open it in a browser"));
    Ok(())
}

fn title(name: &str, scenario: &Scenario) -> String {
    format!("{name}, policy {}", scenario.policy.name.text())
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
        let title = title(&scenario.name, scenario);
        Self { title: format!("{title}, seed {seed}"), recorder: None, facts: Vec::new(), until: Micros::ZERO }
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
