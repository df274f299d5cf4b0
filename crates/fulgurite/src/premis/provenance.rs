//! `--premis FILE` of imports and exports: what they did, as a PREMIS document.
//!
//! ```text
//! steps, after each happened ──> spool, a line each ──> first pass: objects ──> FILE
//!                                                  '──> second pass: events ──'
//! ```
//!
//! The document gets its name when it is whole.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::VersionRow;
use fulgurite_digest::{Algorithm, Digest};
use fulgurite_domain::ObjectName;
use fulgurite_premis::{Event, EventType, FileObject, Identifier, Link, ObjectRole, Outcome, Timestamp, original_name};
use serde::{Deserialize, Serialize};

use super::{Document, Form, fixity, program, uuid};
use crate::outcome::Misuse;
use crate::text;

#[derive(Debug, Args)]
pub(crate) struct Premis {
    /// Also write what was done as a PREMIS 3 document: JSON-LD if the file's name ends with .json
    /// or .jsonld, and XML otherwise. The file must not exist
    #[arg(long, value_name = "FILE")]
    premis: Option<PathBuf>,
}

/// A file that something was done to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Subject {
    /// A file outside of the archive.
    File { path: Vec<u8>, bytes: Option<u64>, digests: Vec<(String, String)> },
    /// A version of an object, whose identifier the catalogue knows.
    Stored { name: Vec<u8>, version: u64 },
    /// A version of an object.
    Version { id: String, name: Vec<u8>, bytes: u64, sha256: String },
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Deed {
    FixityCheck,
    Ingestion,
    Dissemination,
}

#[derive(Debug, Serialize, Deserialize)]
struct Step {
    /// Number within the document.
    number: u64,
    subject: Subject,
    deed: Deed,
    since_1970: Duration,
    succeeded: bool,
    detail: String,
}

/// Steps of a command that is under way.
#[derive(Debug)]
pub(crate) struct Provenance {
    path: PathBuf,
    /// Differs for each run, so that its events differ from those of all others.
    run: String,
    spool: Mutex<Spool>,
}

#[derive(Debug)]
struct Spool {
    file: BufWriter<File>,
    steps: u64,
    failure: Option<std::io::Error>,
    /// When the objects that were read were passed on, and where to.
    passed_on: Option<(Duration, String)>,
}

impl Premis {
    /// Begins to note what is done, if a document is wanted.
    ///
    /// # Errors
    /// If the file exists, or its folder can't be written to.
    pub(crate) fn begin(&self) -> Result<Option<Provenance>> {
        let Some(path) = self.premis.clone() else { return Ok(None) };
        if path.symlink_metadata().is_ok() {
            return Err(Misuse(format!("{} exists, and a PREMIS document replaces nothing: choose another name", text::path(&path))).into());
        }
        let file = tempfile::tempfile_in(folder(&path)).with_context(|| format!("can't write to the folder of {}", text::path(&path)))?;
        let now = since_1970();
        let run = format!("{} {} {}", now.as_nanos(), std::process::id(), path.display());
        let spool = Spool { file: BufWriter::new(file), steps: 0, failure: None, passed_on: None };
        Ok(Some(Provenance { path, run, spool: Mutex::new(spool) }))
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Provenance {
    /// Notes a step that has happened, each with a subject of its own. An output that fails is
    /// reported at the end: the command itself goes on.
    pub(crate) fn note(&self, subject: Subject, deed: Deed, succeeded: bool, detail: impl Into<String>) {
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        let step = Step { number: spool.steps, subject, deed, since_1970: since_1970(), succeeded, detail: detail.into() };
        let written =
            serde_json::to_writer(&mut spool.file, &step).map_err(std::io::Error::from).and_then(|()| spool.file.write_all(b"\n"));
        spool.steps += 1;
        if let Err(failure) = written {
            spool.failure.get_or_insert(failure);
        }
    }

    /// Notes that all objects that were read are now also elsewhere.
    pub(crate) fn disseminated(&self, detail: &str) {
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        spool.passed_on = Some((since_1970(), detail.to_owned()));
    }

    /// Writes the document. Without any step, there is none.
    ///
    /// # Errors
    /// If the document can't be written, or its file exists meanwhile.
    pub(crate) fn finish(&self, archive: &Archive) -> Result<()> {
        let shown = || format!("can't write the PREMIS document {}; what it should describe was done", text::path(&self.path));
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = spool.failure.take() {
            return Err(failure).with_context(shown);
        }
        if spool.steps == 0 {
            crate::diagnostics::note(&format!("{} was not written: nothing was done that it could describe", text::path(&self.path)));
            return Ok(());
        }
        spool.file.flush().with_context(shown)?;
        let is_json = self.path.extension().is_some_and(|extension| extension == "json" || extension == "jsonld");
        let out = tempfile::NamedTempFile::new_in(folder(&self.path)).with_context(shown)?;
        let mut document = Document::begin(if is_json { Form::JsonLd } else { Form::Xml }, BufWriter::new(out)).with_context(shown)?;
        let passed_on = spool.passed_on.take();
        let file = spool.file.get_mut();
        each(file, &mut |step| {
            document.object(&object(archive, &step.subject)?)?;
            Ok(())
        })
        .with_context(shown)?;
        each(file, &mut |step| Ok(document.event(&self.event(archive, &step)?)?)).with_context(shown)?;
        if let Some((since_1970, detail)) = passed_on {
            each(file, &mut |step| {
                let step = Step { deed: Deed::Dissemination, since_1970, detail: detail.clone(), ..step };
                Ok(document.event(&self.event(archive, &step)?)?)
            })
            .with_context(shown)?;
        }
        let out =
            document.finish(None).with_context(shown)?.into_inner().map_err(std::io::IntoInnerError::into_error).with_context(shown)?;
        out.as_file().sync_all().with_context(shown)?;
        out.persist_noclobber(&self.path).map_err(|error| error.error).with_context(shown)?;
        Ok(())
    }

    fn event(&self, archive: &Archive, step: &Step) -> Result<Event> {
        let (kind, role) = match step.deed {
            Deed::FixityCheck => (EventType::FixityCheck, ObjectRole::Source),
            Deed::Ingestion => (EventType::Ingestion, ObjectRole::Outcome),
            Deed::Dissemination => (EventType::Dissemination, ObjectRole::Source),
        };
        let seconds = i64::try_from(step.since_1970.as_secs()).unwrap_or(i64::MAX);
        Ok(Event {
            identifier: uuid(&[&self.run, &step.number.to_string(), kind.label()]),
            kind,
            time: Timestamp { seconds, nanos: step.since_1970.subsec_nanos() },
            detail: None,
            outcome: if step.succeeded { Outcome::Success } else { Outcome::Fail },
            outcome_detail: Some(step.detail.clone()),
            agents: vec![program()],
            objects: vec![Link { object: object(archive, &step.subject)?.identifier, role }],
        })
    }
}

fn each(file: &mut File, take: &mut dyn FnMut(Step) -> Result<()>) -> Result<()> {
    file.rewind()?;
    for line in BufReader::new(file).lines() {
        take(serde_json::from_str(&line?)?)?;
    }
    Ok(())
}

impl Subject {
    pub(crate) fn version(row: &VersionRow) -> Self {
        let sha256 = Digest::new(Algorithm::Sha256, &row.record.sha256.0).as_ref().map(Digest::hex).unwrap_or_default();
        Self::Version { id: row.id.to_string(), name: row.record.name.0.clone(), bytes: row.record.size, sha256 }
    }
}

/// The object that a step is about. Its identifier and its name are the name itself, not the form
/// for people, in which two names can be equal.
fn object(archive: &Archive, subject: &Subject) -> Result<FileObject> {
    let plain = |identifier: Identifier, name: &[u8]| FileObject {
        identifier,
        fixity: Vec::new(),
        bytes: None,
        format: None,
        original_name: Some(original_name(name)),
        location: None,
    };
    Ok(match subject {
        Subject::File { path, bytes, digests } => {
            let known = |(name, hex): &(String, String)| Some(fixity(name.parse().ok()?, hex.clone()));
            let fixity = digests.iter().filter_map(known).collect();
            FileObject { bytes: *bytes, fixity, ..plain(Identifier::of_name("file", path), path) }
        }
        Subject::Stored { name, version } => {
            let name = ObjectName(name.clone());
            match archive.catalogue().newest(&name)?.filter(|row| row.record.version == *version) {
                Some(row) => return object(archive, &Subject::version(&row)),
                // A later version was stored meanwhile.
                None => {
                    let identifier = [&name.0[..], version.to_string().as_bytes()].join(&b' ');
                    plain(Identifier::of_name("object and version", &identifier), &name.0)
                }
            }
        }
        Subject::Version { id, name, bytes, sha256 } => {
            let digests = vec![fixity(Algorithm::Sha256, sha256.clone())];
            FileObject { bytes: Some(*bytes), fixity: digests, ..plain(Identifier::new("version", id.clone()), name) }
        }
    })
}
