//! The command `import`: stores the files of bags and OCFL objects.
//!
//! ```text
//! bag, OCFL object -- validated as a whole --> its files -- read once more to be stored, -----> archive
//!      |                                                    against the digests listed
//!      '-- invalid: findings, nothing stored
//! ```
//!
//! Content is compared while it is stored, so a file that changes after the validation is refused
//! and not stored.

mod bagit;
mod ocfl;

pub(crate) use self::bagit::{TAG_FILES, read_profile};
pub(crate) use self::ocfl::INVENTORIES;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use fulgurite_archive::catalogue::Versions;
use fulgurite_archive::{Access, Archive, ContentCheck, FlushReport, PutReport, Skip, Source};
use fulgurite_digest::{Digest, Digester};
use fulgurite_domain::ObjectName;
use serde_json::{Value, json};

use crate::list::each_version;
use crate::premis::{Deed, Premis, Provenance, Subject};
use crate::progress::Progress;
use crate::put::flush_outcome;
use crate::text::{self, bytes, count, phrase, rate};
use crate::{Outcome, Session, diagnostics, signals};

/// Refused bags and objects that a JSON answer lists.
const REFUSED_MAX: usize = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// Store the files of BagIt bags
    ///
    /// Each bag is validated first, content included; of an invalid one nothing is stored. The
    /// payload file data/x becomes the object NAME/x. The files beside the payload, such as
    /// bag-info.txt and the manifests, go to NAME/.bag/, where `export bagit` finds them. Empty
    /// folders are not stored; warnings name them.
    Bagit(bagit::Bags),
    /// Store the files of OCFL objects
    ///
    /// Each object is validated first, content included; of an invalid one nothing is stored. The
    /// logical path x of the newest version becomes the object NAME/ID/x, where ID is the object's
    /// identifier with "/" and "%" percent-encoded. The inventory goes to NAME/ID/.ocfl/.
    Ocfl(ocfl::Objects),
}

pub(crate) fn import(session: &Session, import: &Import) -> Result<Outcome> {
    let importer = match import {
        Import::Bagit(bags) => {
            let names = bags.names()?;
            let profile = bags.read_profile()?;
            let mut importer = Importer::open(session, "bag", bags.flush, &bags.premis)?;
            let mut stored = Ok(());
            for (path, name) in names {
                importer.begin(&path);
                stored = importer.bag(&path, &name, profile.as_ref());
                if stored.is_err() {
                    break;
                }
            }
            importer.settle(stored)?;
            importer
        }
        Import::Ocfl(objects) => {
            let places = objects.places()?;
            let mut importer = Importer::open(session, "object", objects.flush, &objects.premis)?;
            let mut batch = ocfl::Batch::default();
            let mut stored = Ok(());
            for (path, name) in places {
                stored = importer.objects_of(&path, &name, objects.all_versions, &mut batch);
                if stored.is_err() {
                    break;
                }
            }
            let stored = stored.and_then(|()| importer.put_batch(&mut batch));
            importer.settle(stored)?;
            importer
        }
    };
    importer.conclude()
}

/// A signal ended an import early.
#[derive(Debug)]
struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the import was stopped. What it stored is safe, and repeating the import continues it")
    }
}

impl std::error::Error for Stopped {}

/// An import under way.
struct Importer<'a> {
    session: &'a Session,
    archive: Archive,
    progress: Progress,
    /// What is imported: "bag" or "object".
    noun: &'static str,
    flushes: bool,
    provenance: Option<Arc<Provenance>>,
    start: Instant,
    total: PutReport,
    /// Bags or objects whose files were all stored.
    imported: u64,
    /// Bags or objects of which nothing, or not everything, was stored.
    refused: u64,
    refusals: Vec<Value>,
    /// Whether all that was flushed is on platters.
    flushed: Outcome,
    /// Set by a signal: no further file is stored.
    is_stopped: Arc<AtomicBool>,
}

impl<'a> Importer<'a> {
    fn open(session: &'a Session, noun: &'static str, flushes: bool, premis: &Premis) -> Result<Self> {
        let provenance = premis.begin()?.map(Arc::new);
        let archive = session.open(Access::Write)?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stop = is_stopped.clone();
        signals::on_stop(None, move || {
            diagnostics::note("stopping after the file or the validation in progress; another signal ends the import at once");
            stop.store(true, Ordering::Relaxed);
        })?;
        Ok(Self {
            session,
            archive,
            flushed: Outcome::Good,
            is_stopped,
            progress: Progress::of_import(session.quiet, provenance.clone()),
            noun,
            flushes,
            provenance,
            start: Instant::now(),
            total: PutReport::default(),
            imported: 0,
            refused: 0,
            refusals: Vec::new(),
        })
    }

    /// An error if the import is to stop.
    fn go_on(&self) -> Result<()> {
        if self.is_stopped.load(Ordering::Relaxed) { Err(Stopped.into()) } else { Ok(()) }
    }

    fn begin(&self, path: &Path) {
        use fulgurite_archive::watch::Watcher;
        self.progress.stage(&format!("importing {}", path.file_name().unwrap_or_default().to_string_lossy()), None);
    }

    /// Threads for validation.
    fn threads(&self) -> usize {
        self.archive.settings().limits.threads
    }

    /// Notes that a bag or an object isn't imported, or not as a whole.
    fn refuse(&mut self, path: &Path, why: &str) {
        self.refused += 1;
        let path = text::path(path);
        let value = json!({ "kind": "not imported", "path": path, "why": why });
        diagnostics::write(&format!("not imported: {path}: {}", text::harmless(why)), &value);
        if self.refusals.len() < REFUSED_MAX {
            self.refusals.push(json!({ "path": path, "why": why }));
        }
    }

    /// Prints a finding of a validation.
    fn say_finding(&self, path: &Path, is_error: bool, finding: &str) {
        let (path, severity) = (text::path(path), if is_error { "error" } else { "warning" });
        let value = json!({ "kind": "finding", "path": path, "severity": severity, "text": finding });
        diagnostics::write(&format!("{path}: {severity}: {}", text::harmless(finding)), &value);
    }

    /// Stores files. Files with the content and mode of their object's newest version are skipped.
    ///
    /// # Errors
    /// If the archive fails. Single files that can't be stored are reported and counted.
    fn put(&mut self, files: impl Iterator<Item = Listed> + Send) -> Result<PutReport> {
        let provenance = self.provenance.clone();
        let (is_stopped, was_cut) = (self.is_stopped.clone(), AtomicBool::new(false));
        let sources = files.map_while(|file| {
            if is_stopped.load(Ordering::Relaxed) {
                was_cut.store(true, Ordering::Relaxed);
                return None;
            }
            Some(file.source(provenance.clone()))
        });
        let (outcome, flushed) = if self.flushes {
            self.archive.put_changed_and_flush(sources, Skip::SameContent, &self.progress)
        } else {
            (self.archive.put_changed(sources, Skip::SameContent, &self.progress), Ok(FlushReport::default()))
        };
        let report = outcome.report;
        self.total.objects += report.objects;
        self.total.bytes += report.bytes;
        self.total.unchanged += report.unchanged;
        self.total.failed += report.failed;
        self.total.unstable += report.unstable;
        if let Some(failure) = outcome.failure {
            return Err(failure).context(
                "the import stopped. What it stored is safe; `fulgurite flush` frees staging, and repeating the import continues it",
            );
        }
        let flushed = flushed.context("everything is staged and safe, but not all of it is on platters")?;
        self.flushed = self.flushed.worst(flush_outcome(flushed));
        if was_cut.into_inner() { Err(Stopped.into()) } else { Ok(report) }
    }

    /// An object below `folder` that isn't among those to be imported. A later export would mix
    /// them.
    ///
    /// # Errors
    /// If the catalogue fails, or the import is to stop: after a validation and before storing is
    /// the time for it.
    fn stranger(&self, folder: &[u8], is_imported: &dyn Fn(&[u8]) -> bool) -> Result<Option<ObjectName>> {
        self.go_on()?;
        let mut found = None;
        each_version(&self.archive, folder, Versions::Newest, &mut |row| {
            // The object with the folder's own name isn't below it.
            let Some(below) = row.record.name.0.strip_prefix(folder).and_then(|rest| rest.strip_prefix(b"/")) else { return Ok(()) };
            if found.is_none() && !is_imported(below) {
                found = Some(row.record.name);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Why a folder with other objects can't be used.
    fn refuse_stranger(&mut self, path: &Path, folder: &[u8], stranger: &ObjectName) {
        let folder = ObjectName(folder.to_vec()).display();
        let why = format!(
            "{folder} already contains {}, which is not in this {}; choose another name with --to, or remove {folder} first",
            stranger.display(),
            self.noun
        );
        self.refuse(path, &why);
    }

    /// Reports what was stored before an error ends the import.
    fn settle(&mut self, stored: Result<()>) -> Result<()> {
        self.progress.finish();
        if let Some(provenance) = &self.provenance {
            let written = provenance.finish(&self.archive);
            match written {
                // The error that ended the import is the one to return.
                Err(error) if stored.is_err() => diagnostics::trouble(&format!("{error:#}")),
                written => written?,
            }
        }
        if let Err(error) = &stored
            && self.total.objects > 0
        {
            let then = if error.is::<Stopped>() { "stopped" } else { "failed" };
            self.session.say(&format!("Stored {}, and then {then}.", count(self.total.objects, "object")));
        }
        stored
    }

    fn conclude(self) -> Result<Outcome> {
        self.progress.finish();
        let total = self.total;
        let took = self.start.elapsed();
        let missed = total.failed + total.unstable;
        self.session.say(&format!(
            "Imported {}: stored {}, {} in {:.1} s ({}){}.",
            count(self.imported, self.noun),
            count(total.objects, "file"),
            bytes(total.bytes),
            took.as_secs_f64(),
            rate(total.bytes, took),
            if total.unchanged > 0 { format!("; {} stored already", phrase(total.unchanged, "was", "were")) } else { String::new() },
        ));
        if self.refused > 0 {
            diagnostics::trouble(&format!(
                "{} not imported, see above.",
                phrase(self.refused, &format!("{} was", self.noun), &format!("{}s were", self.noun))
            ));
        }
        let staged = total.objects > 0 && !self.flushes;
        if staged {
            self.session.say("All of it is staged, and safe on this disk; `fulgurite flush` writes it to platters.");
        }
        self.session.answer(|| {
            json!({
                "imported": self.imported, "refused": self.refused, "refusals": self.refusals, "objects": total.objects,
                "bytes": total.bytes, "unchanged": total.unchanged, "failed": total.failed, "changed": total.unstable,
                "not_stored": self.progress.take_not_stored(),
            })
        });
        Ok(Outcome::troubled_if(self.refused > 0 || missed > 0).worst(self.flushed))
    }
}

/// The last part of a folder's path, also of `.` and the like.
fn folder_name(path: &Path) -> Result<Vec<u8>> {
    let full = path.canonicalize().with_context(|| text::path(path))?;
    match full.file_name() {
        Some(name) => Ok(name.as_bytes().to_vec()),
        None => bail!("{} has no name: choose one with --to", text::path(path)),
    }
}

/// A file to be stored, with the digests that a manifest or an inventory lists for it.
struct Listed {
    path: PathBuf,
    name: ObjectName,
    digests: Vec<Digest>,
}

impl Listed {
    fn new(path: PathBuf, name: Vec<u8>, digests: Vec<Digest>) -> Self {
        Self { path, name: ObjectName(name), digests }
    }

    fn source(self, provenance: Option<Arc<Provenance>>) -> Source {
        let Self { path, name, digests } = self;
        // A file without digests is compared with nothing.
        let provenance = provenance.filter(|_| !digests.is_empty()).map(|provenance| (provenance, path.clone()));
        let mut check = KnownDigests::new(digests);
        check.provenance = provenance;
        Source::Checked { path, name, check: Box::new(check) }
    }
}

/// Compares a file with its digests, while it is read to be stored.
struct KnownDigests {
    expected: Vec<Digest>,
    digester: Digester,
    /// Where the result of the last attempt goes, and the file's path.
    provenance: Option<(Arc<Provenance>, PathBuf)>,
    last: Option<(u64, Result<(), String>)>,
}

impl KnownDigests {
    fn new(expected: Vec<Digest>) -> Self {
        let digester = Self::digester(&expected);
        Self { expected, digester, provenance: None, last: None }
    }

    fn digester(expected: &[Digest]) -> Digester {
        Digester::new(&expected.iter().map(Digest::algorithm).collect::<Vec<_>>())
    }

    fn compare(&self, found: &[Digest]) -> Result<(), String> {
        for expected in &self.expected {
            let found = found.iter().find(|found| found.algorithm() == expected.algorithm());
            if found != Some(expected) {
                let found = found.map_or_else(String::new, Digest::hex);
                return Err(format!(
                    "it was changed after the validation: its {} is {found}, but {} is listed",
                    expected.algorithm(),
                    expected.hex()
                ));
            }
        }
        Ok(())
    }
}

impl Drop for KnownDigests {
    /// The file is stored, or given up: only the last attempt to read it counts.
    fn drop(&mut self) {
        let (Some((provenance, path)), Some((bytes, result))) = (&self.provenance, self.last.take()) else { return };
        let digests = self.expected.iter().map(|digest| (digest.algorithm().name().to_owned(), digest.hex())).collect();
        let subject = Subject::File { path: path.as_os_str().as_bytes().to_vec(), bytes: Some(bytes), digests };
        let (succeeded, detail) = match result {
            Ok(()) => (true, "its bytes have the digests that are listed".to_owned()),
            Err(why) => (false, why),
        };
        provenance.note(subject, Deed::FixityCheck, succeeded, detail);
    }
}

impl ContentCheck for KnownDigests {
    fn restart(&mut self) {
        self.digester = Self::digester(&self.expected);
        self.last = None;
    }

    fn update(&mut self, bytes: &[u8]) {
        self.digester.update(bytes);
    }

    fn finish(&mut self) -> Result<(), String> {
        let digester = std::mem::replace(&mut self.digester, Self::digester(&self.expected));
        let bytes = digester.bytes();
        let result = self.compare(&digester.finish());
        self.last = Some((bytes, result.clone()));
        result
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_digest::Algorithm;

    use super::*;

    #[test]
    fn content_must_have_every_digest_that_is_listed() {
        let digests = |content: &[u8]| {
            let mut digester = Digester::new(&[Algorithm::Md5, Algorithm::Sha512]);
            digester.update(content);
            digester.finish()
        };
        let mut check = KnownDigests::new(digests(b"content"));
        check.update(b"other");
        assert!(check.finish().is_err_and(|why| why.contains("md5")));
        // An earlier attempt leaves nothing behind.
        check.update(b"con");
        check.restart();
        for piece in [&b"con"[..], b"tent"] {
            check.update(piece);
        }
        assert_eq!(check.finish(), Ok(()));
        let mixed = vec![digests(b"content")[0].clone(), digests(b"other")[1].clone()];
        let mut check = KnownDigests::new(mixed);
        check.update(b"content");
        assert!(check.finish().is_err_and(|why| why.contains("sha512")));
    }
}
