//! `migrate run`: carries a migration out.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_archive::FlushReport;
use fulgurite_archive::watch::Unwatched;
use fulgurite_migration::quantities::grouped;
use fulgurite_migration::run::certificate;
use fulgurite_migration::run::database::{State, Totals};
use fulgurite_migration::run::destination::Destination;
use fulgurite_migration::run::{self, Setup, folded};
use fulgurite_places::Place;
use serde_json::{Value, json};

use super::apart::{self, Unproven};
use super::folder::{Migration, now_s, shown, write_json};
use super::init::say_left_out;
use super::lock::Holder;
use super::progress::RunProgress;
use super::watching::Watching;
use crate::{Outcome, Session, diagnostics, signals, text};

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The migration's folder
    folder: PathBuf,
    /// Try failed files again
    #[arg(long)]
    retry_failed: bool,
    /// Leave what an archive has staged to a later `fulgurite flush`
    #[arg(long)]
    no_flush: bool,
}

pub(super) fn run(session: &Session, asked: &Run) -> Result<Outcome> {
    let mut migration = Migration::change(&asked.folder, Holder::Run)?;
    // First: while this run holds the lock, `status` takes unfinished progress for its own.
    let earlier = RunProgress::of_earlier(&migration)?;
    apart::check(&migration, Unproven::GoesOn)?;
    if !migration.has_inventory()? {
        let found = migration.take_inventory(&mut |_| {})?;
        session.say(&format!("The source has {}.", text::count(found.files, "file")));
        say_left_out(session, found.left_out);
    }
    if asked.retry_failed {
        let files = migration.database.retry_failed()?;
        session.say(&format!("{} to be tried again.", text::phrase(files, "failed file is", "failed files are")));
    }
    if migration.is_paused() {
        session.warn("The migration is paused, and the run waits: `fulgurite migrate resume` lets it go on.");
    }
    let before = migration.database.totals()?;
    if before.of(State::Waiting).0 + before.of(State::Written).0 > 0 {
        migration.remove_certificate()?;
    }
    let source = migration.source()?;
    let archive = migration.archive()?.map(Arc::new);
    let destination: Arc<dyn Destination> = match &archive {
        Some(archive) => archive.clone(),
        None => migration.destination()?,
    };
    let settings = &migration.settings;
    let setup = Setup {
        layout: settings.layout.clone(),
        volumes: settings.volumes.clone(),
        lot_files: settings.lot_files,
        lot_bytes: settings.lot_bytes,
        tries: settings.tries,
        retry_after: settings.retry_after,
        source,
        destination,
    };
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = is_stopped.clone();
    signals::on_stop(None, move || stop.store(true, Ordering::Relaxed))?;
    let began = Instant::now();
    let mut watching = Watching::new(session, &migration, earlier, before, is_stopped.clone())?;
    let result = run::run(&setup, &mut migration.database, &mut watching);
    let (metrics, noted) = watching.end(&migration);
    // An archive distinguishes all names.
    let distinguishing = archive.is_none().then(|| (setup.source.clone(), setup.destination.clone()));
    drop(setup);
    let mut flushed = FlushReport::default();
    let flush = || match archive.filter(|_| !asked.no_flush) {
        Some(archive) => archive.archive().flush(&Unwatched).map(|report| flushed = report),
        None => Ok(()),
    };
    let done = result.map(drop).context("the run is incomplete; the next one continues from there").and(noted);
    let done = done.and_then(|()| {
        flush().context(
            "the files that were migrated are safe in the archive's staging, but not all of them are on platters: run `fulgurite flush`",
        )
    });
    // Metrics say that the run is going on until the archive has written its platters.
    let written = metrics.end().context("metrics.prom");
    done?;
    written?;
    let is_as_before = migration.database.totals()? == before && migration.path("certificate.json").exists();
    let are_names_checked = match distinguishing.filter(|_| !is_as_before) {
        Some((source, destination)) => check_names(&mut migration, &*source, &*destination)?,
        None => true,
    };
    let run = Ended {
        time: began.elapsed(),
        is_stopped: is_stopped.load(Ordering::Relaxed),
        unwritten: flushed.unreadable + flushed.too_long,
        are_names_checked,
    };
    let outcome = conclude(session, &mut migration, before, &run)?;
    let versions = |count| text::phrase(count, "version", "versions");
    if flushed.damaged() > 0 {
        session.warn(&format!(
            "{} could not be read from the archive's staging, and not written to platters. `fulgurite verify` names them, and \
             `fulgurite migrate scan` finds those of this migration, so that they are written again; then remove the lost versions.",
            versions(flushed.damaged())
        ));
    } else if flushed.unreadable > 0 {
        session.warn(&format!(
            "the system can't read {} in the archive's staging now, so they were not written to platters; `fulgurite flush` tries again.",
            versions(flushed.unreadable)
        ));
    }
    if flushed.too_long > 0 {
        session.warn(&format!(
            "the names and attributes of {} in the archive's staging are too long for platters; `fulgurite flush` names them.",
            versions(flushed.too_long)
        ));
    }
    let hindered = Outcome::hindered(flushed.out_of_reach.hindrance());
    Ok(outcome.worst(Outcome::troubled_if(flushed.damaged() > 0 || flushed.too_long > 0)).worst(hindered))
}

/// How a run ended.
struct Ended {
    time: Duration,
    is_stopped: bool,
    /// Versions that the archive could not write to platters.
    unwritten: u64,
    /// Whether the destination was asked which names it distinguishes.
    are_names_checked: bool,
}

/// Gives files up whose names the destination doesn't distinguish, also those of earlier runs:
/// when this run began, the destination may not have answered. Returns whether it does now.
fn check_names(migration: &mut Migration, source: &dyn Place, destination: &dyn Destination) -> Result<bool> {
    let Ok(folding) = destination.folding() else { return Ok(false) };
    folded::refuse(&mut migration.database, source, folding, &mut |name, reason| {
        let (name, reason) = (text::harmless(name), text::harmless(reason));
        diagnostics::write(&format!("{name}: {reason}"), &json!({ "kind": "failed", "name": name, "reason": reason }));
    })?;
    Ok(true)
}

/// Says what was done, and writes the certificate if nothing is left.
fn conclude(session: &Session, migration: &mut Migration, before: Totals, run: &Ended) -> Result<Outcome> {
    let Ended { time, is_stopped, unwritten, are_names_checked } = *run;
    let totals = migration.database.totals()?;
    let (files, bytes) = totals.of(State::Migrated);
    let (files_before, bytes_before) = before.of(State::Migrated);
    let (files_now, bytes_now) = (files.saturating_sub(files_before), bytes.saturating_sub(bytes_before));
    let left = totals.of(State::Waiting).0 + totals.of(State::Written).0;
    let failed = totals.of(State::Failed).0;
    let (certificate, still_applies) = match left == 0 && unwritten == 0 && are_names_checked {
        true => {
            let (certificate, still_applies) = certify(migration, totals)?;
            (Some(certificate), still_applies)
        }
        false => {
            migration.remove_certificate()?;
            (None, false)
        }
    };
    session.answer(|| {
        json!({
            "migrated": files_now, "bytes": bytes_now, "seconds": time.as_secs_f64(), "stopped": is_stopped,
            "totals": totals_json(&totals), "certificate": certificate,
        })
    });
    let done = match files_now {
        0 => "Nothing was migrated.".to_owned(),
        _ => format!(
            "Migrated {}, {} in {:.1} s ({}); each was read back.",
            text::count(files_now, "file"),
            text::bytes(bytes_now),
            time.as_secs_f64(),
            text::rate(bytes_now, time)
        ),
    };
    session.say(&done);
    if !are_names_checked {
        session.warn("there is no certificate, because the destination can't be asked which names it distinguishes: run it again.");
    }
    if left > 0 {
        session.warn(&format!("{} left: run it again.", text::phrase(left, "file is", "files are")));
    }
    if failed > 0 {
        session.warn(&format!("{} failed: `fulgurite migrate report` says why.", text::count(failed, "file")));
    }
    if let Some(certificate) = certificate.as_ref().filter(|_| still_applies) {
        let date = certificate["made_at"].as_str().unwrap_or_default();
        session.say(&format!("certificate.json of {date} still applies: nothing was migrated since, and no file was read again."));
    } else if certificate.is_some() {
        let path = text::path(&migration.path("certificate.json"));
        let (all, arrived) = (totals.all().0, files + totals.of(State::Released).0);
        let arrived = grouped(arrived);
        session.say(&format!("{path} certifies {arrived} of {}; migrated.sha256 lists them.", text::count(all, "file")));
    }
    Ok(Outcome::troubled_if(left > 0 || failed > 0 || !are_names_checked))
}

/// Writes the list of migrated files, and the certificate with its digest. A certificate that
/// states the same already keeps its date, because nothing was read since; then the second value is
/// true.
pub(super) fn certify(migration: &Migration, totals: Totals) -> Result<(Value, bool)> {
    let list = migration.path("migrated.sha256");
    let certificate = certificate::write_list(&migration.database, &list)?;
    let mut value = json!({
        "program": format!("fulgurite {}", env!("CARGO_PKG_VERSION")),
        "made_at": format!("{} UTC", text::time(now_s().cast_signed())),
        "source": shown(&migration.settings.source)?,
        "destination": shown(&migration.settings.destination)?,
        "migrated": { "files": certificate.files, "bytes": certificate.bytes },
        "failed": { "files": totals.of(State::Failed).0, "bytes": totals.of(State::Failed).1 },
        "left_out": migration.left_out()?,
        "list": { "file": "migrated.sha256", "sha256": certificate.list_sha256.hex() },
    });
    let path = migration.path("certificate.json");
    if let Some(earlier) = fs::read(&path).ok().and_then(|json| serde_json::from_slice::<Value>(&json).ok()) {
        let of_now = ["program", "made_at"].map(|name| std::mem::replace(&mut value[name], earlier[name].clone()));
        if value == earlier {
            return Ok((value, true));
        }
        for (name, now) in ["program", "made_at"].into_iter().zip(of_now) {
            value[name] = now;
        }
    }
    write_json(&path, &value).context("certificate.json")?;
    Ok((value, false))
}

/// Totals by the names of states.
pub(super) fn totals_json(totals: &Totals) -> Value {
    let of = |state: State| (state.name().to_owned(), json!({ "files": totals.of(state).0, "bytes": totals.of(state).1 }));
    Value::Object(State::ALL.into_iter().map(of).collect())
}
