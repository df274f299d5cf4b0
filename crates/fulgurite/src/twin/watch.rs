//! `twin watch`, `twin record --html` and `twin run --watch`: a page that shows a library in
//! motion.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_domain::Micros;
use fulgurite_journal::{Fact, Subject};
use fulgurite_library::{Command, Event, Library, Region};
use fulgurite_new_file::NewFile;
use fulgurite_twin::journal::replay_watched;
use fulgurite_twin::scenario::{PolicyName, Scenario};
use fulgurite_twin::simulation::{Ended, Observer, Request, Sample};
use fulgurite_viewer::{Recorder, Recording, page};
use serde_json::json;

use super::journal::{open, refuse, refuse_live};
use crate::outcome::Misuse;
use crate::{Outcome, Session, text};

/// Permissions of a page, less those that the process masks.
const MODE: u32 = 0o666;

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
    let page = NewPage::new(&watch.page)?;
    let name = watch.journal.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let recording = recording_of(session, &watch.journal, Library(watch.library), &name)?;
    page.write(session, &recording)?;
    session.answer(|| json!({ "page": watch.page }));
    Ok(Outcome::Good)
}

/// A page to be written. That this is possible is checked before anything runs, so that no run is
/// in vain; a run that is stopped leaves nothing.
pub(super) struct NewPage {
    path: PathBuf,
    folder: File,
    name: OsString,
}

impl NewPage {
    pub(super) fn new(path: &Path) -> Result<Self> {
        let cannot_create = || format!("can't create the page {}", text::harmless(&path.display().to_string()));
        let (folder, name) = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => (if folder.as_os_str().is_empty() { Path::new(".") } else { folder }, name),
            _ => return Err(Misuse(format!("{}: not the name of a file", cannot_create())).into()),
        };
        let checked = || {
            if path.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let folder = File::open(folder)?;
            NewFile::create(folder.as_fd(), MODE)?;
            Ok::<_, io::Error>(folder)
        };
        Ok(Self { folder: checked().with_context(cannot_create)?, path: path.to_owned(), name: name.to_owned() })
    }

    /// Writes the page of a recording.
    pub(super) fn write(self, session: &Session, recording: &Recording) -> Result<()> {
        let path = text::harmless(&self.path.display().to_string());
        let written = || {
            let new = NewFile::create(self.folder.as_fd(), MODE)?;
            let mut file = new.file();
            file.write_all(page(recording).as_bytes())?;
            Ok::<_, io::Error>(new.publish_durably(self.name.as_bytes(), false)?)
        };
        written().with_context(|| format!("can't write the page {path}"))?;
        session.say(&format!("{path}: open it in a browser"));
        Ok(())
    }
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
