//! The commands `put` and `flush`.

mod roots;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Result;
use fulgurite_archive::catalogue::StagedTotals;
use fulgurite_archive::watch::Watcher;
use fulgurite_archive::{Access, Archive, ArchiveError, FlushReport, PutOutcome, Skip, Source};
use fulgurite_domain::ObjectName;
use serde_json::{Value, json};

use self::roots::{Root, roots, walk, walker};
pub(crate) use self::roots::{is_leaf, storable_name};
use crate::args::Put;
use crate::diagnostics;
use crate::list::name_value;
use crate::progress::Progress;
use crate::text::{self, bytes, count, phrase, rate};
use crate::{Outcome, Session};

/// Maximum number of names printed for people.
const NAMES_SHOWN_MAX: usize = 20;

/// Everything that wasn't stored, as JSON: paths with a problem, then `unstored`, the names that
/// the put didn't reach.
fn not_stored(progress: &Progress, unstored: &[ObjectName]) -> Vec<Value> {
    let mut all = progress.take_not_stored();
    all.extend(unstored.iter().map(|name| {
        let mut value = name_value(name);
        value["why"] = json!("the put failed before storing it");
        value
    }));
    all
}

/// Tells people which names a failed put has stored and which it hasn't.
fn say_names(session: &Session, stored: &[Value], unstored: &[ObjectName]) {
    for value in stored.iter().take(NAMES_SHOWN_MAX) {
        session.say(&format!("stored: {} (version {})", text::harmless(value["name"].as_str().unwrap_or_default()), value["version"]));
    }
    if stored.len() > NAMES_SHOWN_MAX {
        session.say(&format!("stored: {}", more(stored.len())));
    }
    for name in unstored.iter().take(NAMES_SHOWN_MAX) {
        diagnostics::trouble(&format!("not stored: {}", name.display()));
    }
    if unstored.len() > NAMES_SHOWN_MAX {
        diagnostics::trouble(&format!("not stored: {}", more(unstored.len())));
    }
}

fn more(names: usize) -> String {
    let and = if names == PutOutcome::UNSTORED_MAX { " or more" } else { "" };
    format!("and {}{and}; --json lists them", count((names - NAMES_SHOWN_MAX) as u64, "other"))
}

pub(crate) fn put(session: &Session, put: &Put) -> Result<Outcome> {
    let roots = roots(put)?;
    let archive = session.open(Access::Write)?;
    let progress = Progress::new(session.quiet);
    let start = Instant::now();
    let (PutOutcome { report, failure, unstored }, flushed) = put_roots(&archive, roots, put, &progress);
    let took = start.elapsed();
    progress.finish();
    let (flushed, flush_error) = match flushed.transpose() {
        Ok(flushed) => (flushed, None),
        Err(error) => (None, Some(error)),
    };
    let has_failed = failure.is_some();
    let (stored, end) = match has_failed {
        true => ("Stored", ", and then failed."),
        // What stays staged may be of this put.
        false => (if flushed.is_some_and(|flushed| flushed.unreadable == 0) { "Stored on platters" } else { "Stored" }, "."),
    };
    let (objects, seconds) = (count(report.objects, "object"), took.as_secs_f64());
    session.say(&format!("{stored} {objects}, {} in {seconds:.1} s ({}){end}", bytes(report.bytes), rate(report.bytes, took)));
    if report.unchanged > 0 {
        session.say(&format!("{} unchanged, not stored again.", phrase(report.unchanged, "object is", "objects are")));
    }
    let missed = report.failed + report.unstable;
    if missed > 0 {
        diagnostics::trouble(&format!("{} not stored, see above.", phrase(missed, "path was", "paths were")));
    }
    if let Some(flushed) = flushed {
        if flushed.sets > 0 || (flushed.unreadable == 0 && !has_failed) {
            session.say(&flush_text(flushed));
        }
        say_kept(flushed);
    }
    let errors = failure.into_iter().chain(flush_error).map(|error| crate::sentence(&error.into())).collect::<Vec<_>>().join("; ");
    let stored = progress.take_stored();
    if has_failed && !session.json {
        say_names(session, &stored, &unstored);
    }
    let staged = archive.catalogue().staged_totals().ok();
    session.answer(|| {
        let mut value = json!({
            "objects": report.objects, "bytes": report.bytes, "unchanged": report.unchanged, "failed": report.failed,
            "changed": report.unstable, "not_stored": not_stored(&progress, &unstored),
        });
        if let Some(flushed) = flushed {
            value["flush"] = json!(flushed);
        }
        if !errors.is_empty() {
            value["error"] = json!(errors);
            value["stored"] = json!(stored);
            value["staged"] = json!(staged.map(|staged| json!({ "versions": staged.versions, "stored_bytes": staged.stored_bytes })));
        }
        value
    });
    if flushed.is_none() && report.objects > 0 && errors.is_empty() {
        session.say("All of it is staged, and safe on this disk; `fulgurite flush` writes it to platters.");
    }
    if !errors.is_empty() {
        diagnostics::trouble(&recovery_advice(staged, put.flush));
        diagnostics::failure(&errors, Outcome::Troubled);
    }
    Ok(Outcome::troubled_if(!errors.is_empty() || missed > 0).worst(flushed.map_or(Outcome::Good, flush_outcome)))
}

/// `staged` is `None` if the catalogue can't be read.
fn recovery_advice(staged: Option<StagedTotals>, flushes: bool) -> String {
    let safe = match staged {
        None => "How much is staged is unknown, because the catalogue can't be read; `fulgurite status` looks again.".to_owned(),
        Some(StagedTotals { versions: 0, .. }) => "Nothing is staged.".to_owned(),
        Some(staged @ StagedTotals { versions, .. }) => {
            let (objects, stored) = (phrase(versions, "object is", "objects are"), bytes(staged.stored_bytes));
            format!("{objects} staged and safe ({stored}); `fulgurite flush` writes what is staged to platters and frees the space.")
        }
    };
    let flush = if flushes { "" } else { ", and with --flush it writes to platters whenever staging is full" };
    format!("{safe} Repeat the put to continue: it skips what is stored and unchanged{flush}.")
}

pub(crate) fn flush(session: &Session) -> Result<Outcome> {
    let executor = session.executor("flush", Access::Write)?;
    let progress = Progress::new(session.quiet);
    let start = Instant::now();
    let report = executor.flush(&progress)?;
    let took = start.elapsed();
    progress.finish();
    if report == FlushReport::default() {
        session.say("Nothing is staged.");
    } else if report.sets > 0 {
        session.say(&flush_text(report));
        let rate = if report.stored_bytes > 0 { format!(" ({})", rate(report.stored_bytes, took)) } else { String::new() };
        session.say(&format!("It took {:.1} s{rate}.", took.as_secs_f64()));
    }
    say_kept(report);
    session.answer(|| json!(report));
    Ok(flush_outcome(report))
}

/// Says how many staged objects a flush could not write, if any. Each was named.
fn say_kept(report: FlushReport) {
    if report.unreadable > 0 {
        let objects = phrase(report.unreadable, "staged object was", "staged objects were");
        diagnostics::trouble(&format!("{objects} not written to platters, see above: reading staging failed."));
    }
    if report.too_long > 0 {
        let objects = phrase(report.too_long, "staged object was", "staged objects were");
        diagnostics::trouble(&format!("{objects} not written to platters, see above: no platter can hold names of this length."));
    }
}

/// Staged bytes that can't be read now may be intact.
pub(crate) fn flush_outcome(report: FlushReport) -> Outcome {
    Outcome::troubled_if(report.damaged() > 0 || report.too_long > 0).worst(Outcome::hindered(report.out_of_reach.hindrance()))
}

fn flush_text(report: FlushReport) -> String {
    let objects = (report.stored_bytes > 0 || report.versions > 0 || report.removals == 0)
        .then(|| format!("{} with {}", count(report.versions, "object"), bytes(report.stored_bytes)));
    let removals = (report.removals > 0).then(|| count(report.removals, "removal"));
    let content: Vec<String> = objects.into_iter().chain(removals).collect();
    format!(
        "Wrote and verified {} in {}: {} ({} on disk).",
        count(report.platters, "platter"),
        count(report.sets, "set"),
        content.join(", "),
        bytes(report.platter_bytes)
    )
}

fn put_roots(
    archive: &Archive,
    roots: Vec<Root>,
    put: &Put,
    progress: &Progress,
) -> (PutOutcome, Option<Result<FlushReport, ArchiveError>>) {
    // An archive that stores itself would never finish.
    let (home, settings) = (archive.home(), archive.settings());
    let folders = settings.stores.iter().map(|store| &store.path).chain([&settings.staging.path]).chain(&settings.decode.folder);
    let own: HashSet<PathBuf> =
        std::iter::once(home.to_owned()).chain(folders.map(|path| home.join(path))).filter_map(|path| path.canonicalize().ok()).collect();
    let failed = AtomicU64::new(0);
    let sources = |root: Root| -> Box<dyn Iterator<Item = Source> + Send + '_> {
        match root {
            Root::StandardInput(name) => Box::new(std::iter::once(Source::Stream { reader: Box::new(std::io::stdin()), name })),
            Root::Path(path, name) => Box::new(walk(walker(&path, put), path, name, &own, progress, &failed)),
        }
    };
    let skip = match (put.again, put.checksum) {
        (true, _) => Skip::Nothing,
        (false, true) => Skip::SameContent,
        (false, false) => Skip::Unchanged,
    };
    progress.stage("storing", Some(0));
    let paths: Vec<PathBuf> =
        roots.iter().filter_map(|root| if let Root::Path(path, _) = root { Some(path.clone()) } else { None }).collect();
    let (mut outcome, flushed) = std::thread::scope(|scope| {
        // Counting the work ahead reads every folder a second time, so do it only if progress is
        // shown.
        if progress.is_shown() {
            scope.spawn(|| count_ahead(&paths, put, progress));
        }
        let sources = roots.into_iter().flat_map(sources);
        if put.flush {
            let (outcome, flushed) = archive.put_changed_and_flush(sources, skip, progress);
            return (outcome, Some(flushed));
        }
        (archive.put_changed(sources, skip, progress), None)
    });
    outcome.report.failed += failed.load(Ordering::Relaxed);
    (outcome, flushed)
}

/// Tells `progress` how much there is to store.
fn count_ahead(paths: &[PathBuf], put: &Put, progress: &Progress) {
    for entry in paths.iter().flat_map(|path| walker(path, put).into_iter().flatten()) {
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            progress.expect(1, metadata.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_after_a_failed_put_claims_only_what_is_known() {
        assert!(recovery_advice(Some(StagedTotals::default()), false).starts_with("Nothing is staged."));
        let staged = StagedTotals { versions: 2, ..StagedTotals::default() };
        assert!(recovery_advice(Some(staged), false).starts_with("2 objects are staged and safe"));
        let unknown = recovery_advice(None, false);
        assert!(unknown.contains("unknown") && !unknown.contains("Nothing is staged"), "{unknown}");
    }
}
