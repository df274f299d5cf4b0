//! The commands `put` and `flush`.

mod roots;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use anyhow::Result;
use fulgurite_archive::catalogue::StagedTotals;
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_archive::{Access, Archive, ArchiveError, FlushReport, PutOutcome, Skip, Source};
use fulgurite_domain::ObjectName;
use serde_json::{Value, json};

use self::roots::{Root, roots, walk, walker};
use crate::args::Put;
use crate::diagnostics;
use crate::engine::Engine;
use crate::list::name_value;
use crate::progress::Progress;
use crate::setup::canonical;
use crate::text::{self, bytes, count, rate};
use crate::{Outcome, Session};

/// Maximum number of names printed for people.
const LISTED: usize = 20;

/// Shows progress, and collects the names that were stored and those that weren't.
struct Told<'a> {
    progress: &'a Progress,
    /// Acknowledged versions, at most [`PutOutcome::NAMES`].
    stored: Mutex<Vec<Value>>,
    /// Paths that could not be stored, with the reason; at most as many.
    missed: Mutex<Vec<Value>>,
}

impl Told<'_> {
    fn stored(&self) -> MutexGuard<'_, Vec<Value>> {
        self.stored.lock().expect("no panic holds this lock")
    }

    fn missed(&self) -> MutexGuard<'_, Vec<Value>> {
        self.missed.lock().expect("no panic holds this lock")
    }

    /// Everything that wasn't stored: paths with a problem, then `unstored`, which the put didn't
    /// reach.
    fn not_stored(&self, unstored: &[ObjectName]) -> Vec<Value> {
        let mut all = std::mem::take(&mut *self.missed());
        all.extend(unstored.iter().map(|name| {
            let mut value = name_value(name);
            value["why"] = json!("the put failed before storing it");
            value
        }));
        all
    }

    /// Prints what a failed put stored, and what it didn't.
    fn list(&self, session: &Session, unstored: &[ObjectName]) {
        let stored = self.stored();
        for value in stored.iter().take(LISTED) {
            session.say(&format!("stored: {} (version {})", text::harmless(value["name"].as_str().unwrap_or_default()), value["version"]));
        }
        if stored.len() > LISTED {
            session.say(&format!("stored: {}", more(stored.len())));
        }
        for name in unstored.iter().take(LISTED) {
            diagnostics::trouble(&format!("not stored: {}", name.display()));
        }
        if unstored.len() > LISTED {
            diagnostics::trouble(&format!("not stored: {}", more(unstored.len())));
        }
    }
}

fn more(names: usize) -> String {
    let and = if names == PutOutcome::NAMES { " or more" } else { "" };
    format!("and {}{and}; --json lists them", count((names - LISTED) as u64, "other", "others"))
}

impl Watcher for Told<'_> {
    fn stage(&self, what: &str, bytes: Option<u64>) {
        self.progress.stage(what, bytes);
    }

    fn expect(&self, objects: u64, bytes: u64) {
        self.progress.expect(objects, bytes);
    }

    fn done(&self, objects: u64, bytes: u64) {
        self.progress.done(objects, bytes);
    }

    fn stored(&self, name: &ObjectName, version: u64) {
        let mut stored = Told::stored(self);
        if stored.len() < PutOutcome::NAMES {
            let mut value = name_value(name);
            value["version"] = json!(version);
            stored.push(value);
        }
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        let (path, why) = match &trouble {
            Trouble::Unreadable { path, why } => (Some(*path), (*why).to_owned()),
            Trouble::Changed { path, attempts } => (Some(*path), format!("it changed each of the {attempts} times it was read")),
            _ => (None, String::new()),
        };
        let mut missed = self.missed();
        if let Some(path) = path
            && missed.len() < PutOutcome::NAMES
        {
            missed.push(json!({ "path": text::path(path), "why": why }));
        }
        drop(missed);
        self.progress.trouble(trouble);
    }
}

pub(crate) fn put(session: &Session, put: &Put) -> Result<Outcome> {
    let roots = roots(put)?;
    let archive = session.open(Access::Write)?;
    let progress = Progress::new(session.quiet);
    let told = Told { progress: &progress, stored: Mutex::default(), missed: Mutex::default() };
    let start = Instant::now();
    let (outcome, flushed) = put_roots(&archive, roots, put, &told);
    let took = start.elapsed();
    progress.finish();
    let PutOutcome { report, failure, unstored } = outcome;
    let (flushed, flush_error) = match flushed.transpose() {
        Ok(flushed) => (flushed, None),
        Err(error) => (None, Some(error)),
    };
    let staged = archive.catalogue().staged_totals().unwrap_or_default();
    let has_failed = failure.is_some();
    let on_platters = flushed.is_some() && !has_failed;
    session.say(&format!(
        "{} {}, {} in {:.1} s ({}){}",
        if on_platters { "Stored on platters" } else { "Stored" },
        count(report.objects, "object", "objects"),
        bytes(report.bytes),
        took.as_secs_f64(),
        rate(report.bytes, took),
        if has_failed { ", and then failed." } else { "." }
    ));
    if report.unchanged > 0 {
        session.say(&format!("{} unchanged, not stored again.", count(report.unchanged, "object is", "objects are")));
    }
    let missed = report.failed + report.changed;
    if missed > 0 {
        diagnostics::trouble(&format!("{} not stored, see above.", count(missed, "path was", "paths were")));
    }
    if let Some(flushed) = flushed.filter(|flushed| flushed.sets > 0 || !has_failed) {
        session.say(&flush_text(flushed));
    }
    let errors: Vec<String> =
        failure.map(anyhow::Error::from).into_iter().chain(flush_error.map(Into::into)).map(|error| crate::sentence(&error)).collect();
    if has_failed && !session.json {
        told.list(session, &unstored);
    }
    if session.json {
        let mut value = json!({
            "objects": report.objects, "bytes": report.bytes, "unchanged": report.unchanged, "failed": report.failed,
            "changed": report.changed, "not_stored": told.not_stored(&unstored),
        });
        if let Some(flushed) = flushed {
            value["flush"] = flush_json(flushed);
        }
        if !errors.is_empty() {
            value["error"] = json!(errors.join("; "));
            value["stored"] = json!(*told.stored());
            value["staged"] = json!({ "versions": staged.versions, "stored_bytes": staged.stored_bytes });
        }
        session.answer(&value);
    } else if flushed.is_none() && report.objects > 0 && errors.is_empty() {
        session.say("It is staged, and safe on this disk; `fulgurite flush` writes it to platters.");
    }
    if !errors.is_empty() {
        diagnostics::trouble(&how_to_go_on(staged, put.flush));
        diagnostics::failure(&errors.join("; "), Outcome::Troubled);
    }
    let unreadable = flushed.is_some_and(|flushed| flushed.unreadable > 0);
    Ok(Outcome::troubled_if(!errors.is_empty() || missed > 0 || unreadable))
}

/// Advice after a failed put.
fn how_to_go_on(staged: StagedTotals, flushes: bool) -> String {
    let safe = match staged.versions {
        0 => "Nothing is staged.".to_owned(),
        versions => {
            let (objects, stored) = (count(versions, "object is", "objects are"), bytes(staged.stored_bytes));
            format!("{objects} staged and safe ({stored}); `fulgurite flush` writes what is staged to platters and frees the space.")
        }
    };
    let flush = if flushes { "" } else { ", and with --flush it writes to platters whenever staging is full" };
    format!("{safe} Repeat the put to continue: it skips what is stored and unchanged{flush}.")
}

pub(crate) fn flush(session: &Session) -> Result<Outcome> {
    let engine = session.engine("flush", Access::Write)?;
    let report = flush_all(session, &engine)?;
    if session.json {
        session.answer(&flush_json(report));
    }
    Ok(Outcome::troubled_if(report.unreadable > 0))
}

fn flush_all(session: &Session, engine: &Engine) -> Result<FlushReport> {
    let progress = Progress::new(session.quiet);
    let start = Instant::now();
    let report = engine.flush(&progress)?;
    let took = start.elapsed();
    progress.finish();
    if report.sets == 0 {
        session.say("Nothing is staged.");
    } else {
        session.say(&flush_text(report));
        session.say(&format!("It took {:.1} s ({}).", took.as_secs_f64(), rate(report.stored_bytes, took)));
    }
    Ok(report)
}

fn flush_text(report: FlushReport) -> String {
    format!(
        "Wrote and verified {} in {}: {} with {} ({} on disk).",
        count(report.platters, "platter", "platters"),
        count(report.sets, "set", "sets"),
        count(report.versions, "object", "objects"),
        bytes(report.stored_bytes),
        bytes(report.platter_bytes)
    )
}

fn flush_json(report: FlushReport) -> serde_json::Value {
    json!({
        "sets": report.sets, "platters": report.platters, "versions": report.versions,
        "stored_bytes": report.stored_bytes, "platter_bytes": report.platter_bytes, "unreadable": report.unreadable,
    })
}

/// Puts files and folders recursively, and writes them to platters with `--flush`.
fn put_roots(archive: &Archive, roots: Vec<Root>, put: &Put, told: &Told<'_>) -> (PutOutcome, Option<Result<FlushReport, ArchiveError>>) {
    // An archive that stores itself would never finish.
    let own: HashSet<PathBuf> = std::iter::once(archive.home().to_owned())
        .chain(archive.settings().stores.iter().map(|store| archive.home().join(&store.path)))
        .filter_map(|path| canonical(&path))
        .collect();
    let failed = AtomicU64::new(0);
    let sources = |root: Root| -> Box<dyn Iterator<Item = Source> + Send + '_> {
        match root {
            Root::Input(name) => Box::new(std::iter::once(Source::Stream { reader: Box::new(std::io::stdin()), name })),
            Root::Path(path, name) => Box::new(walk(walker(&path, put), path, name, &own, told, &failed)),
        }
    };
    let skip = match (put.again, put.checksum) {
        (true, _) => Skip::Nothing,
        (false, true) => Skip::SameContent,
        (false, false) => Skip::Unchanged,
    };
    told.stage("storing", if told.progress.is_shown() { Some(0) } else { None });
    let paths: Vec<PathBuf> =
        roots.iter().filter_map(|root| if let Root::Path(path, _) = root { Some(path.clone()) } else { None }).collect();
    let (mut outcome, flushed) = std::thread::scope(|scope| {
        // Counting the work ahead reads every folder a second time, so do it only if progress is
        // shown.
        if told.progress.is_shown() {
            scope.spawn(|| expect(&paths, put, told.progress));
        }
        let sources = roots.into_iter().flat_map(sources);
        if put.flush {
            let (outcome, flushed) = archive.put_changed_and_flush(sources, skip, told);
            return (outcome, Some(flushed));
        }
        (archive.put_changed(sources, skip, told), None)
    });
    outcome.report.failed += failed.load(Ordering::Relaxed);
    (outcome, flushed)
}

fn expect(paths: &[PathBuf], put: &Put, progress: &Progress) {
    for entry in paths.iter().flat_map(|path| walker(path, put).into_iter().flatten()) {
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            progress.expect(1, metadata.len());
        }
    }
}
