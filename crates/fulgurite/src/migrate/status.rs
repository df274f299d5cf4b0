//! `migrate status`, `pause`, `resume` and `report`.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_migration::journal;
use fulgurite_migration::layout::Stage;
use fulgurite_migration::quantities::{grouped, percent, rate, short_time, time};
use fulgurite_migration::run::database::State;
use serde_json::{Value, json};

use super::folder::Migration;
use super::progress::RunProgress;
use super::run::totals_json;
use super::scenario;
use crate::{Outcome, Session, text};

/// Failed files that a report lists.
const FAILED_MAX: usize = 10_000;

pub(super) fn status(session: &Session, folder: &Path) -> Result<Outcome> {
    let migration = Migration::look(folder)?;
    let totals = migration.database.totals()?;
    let (is_running, is_paused) = (is_locked(&migration), migration.is_paused());
    // The figures of an earlier run say nothing of the one that is going on.
    let progress = RunProgress::read(&migration).filter(|progress| is_running && progress.ended_at.is_none());
    session.answer(|| {
        json!({
            "source": migration.settings.source.place, "destination": migration.settings.destination.place,
            "running": is_running, "paused": is_paused, "totals": totals_json(&totals),
            "left_s": progress.as_ref().map(|progress| progress.left_s),
            "left_interval_s": progress.as_ref().map(|progress| progress.left_interval_s),
        })
    });
    session.say(&format!("From {} to {}", migration.settings.source.place, migration.settings.destination.place));
    if !migration.has_inventory()? {
        session.say("No inventory was taken yet: `fulgurite migrate run` takes it.");
    }
    for state in State::ALL {
        let (files, bytes) = totals.of(state);
        if files > 0 || matches!(state, State::Waiting | State::Migrated) {
            session.say(&format!("  {:<9} {:>14}  {}", state.name(), text::count(files, "file"), text::bytes(bytes)));
        }
    }
    let state = match (is_running, is_paused) {
        (true, true) => "A run is going on, and paused.".to_owned(),
        (true, false) => progress.as_ref().and_then(|progress| progress.left_s).map_or("A run is going on.".to_owned(), |left| {
            let bounds = progress.as_ref().and_then(|progress| progress.left_interval_s);
            let bounds = bounds.map_or_else(String::new, |(low, high)| format!(" (95 %: {} to {})", time(low), time(high)));
            format!("A run is going on; at this pace it ends in {}{bounds}.", time(left))
        }),
        (false, true) => "No run is going on; the migration is paused.".to_owned(),
        (false, false) => "No run is going on.".to_owned(),
    };
    session.say(&state);
    Ok(Outcome::Good)
}

pub(super) fn pause(session: &Session, folder: &Path, pauses: bool) -> Result<Outcome> {
    let migration = Migration::look(folder)?;
    let path = migration.path("paused");
    let was_paused = migration.is_paused();
    if pauses {
        File::create(&path).with_context(|| text::path(&path))?;
    } else if was_paused {
        fs::remove_file(&path).with_context(|| text::path(&path))?;
    }
    session.answer(|| json!({ "paused": pauses, "running": is_locked(&migration) }));
    session.say(match (pauses, was_paused) {
        (true, _) => "Paused: files on their way arrive, and no others begin.",
        (false, true) => "Resumed.",
        (false, false) => "It was not paused.",
    });
    Ok(Outcome::Good)
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The migration's folder
    folder: PathBuf,
    /// Write a scenario for `migrate plan` to this file: what is left, with the rates and gaps of
    /// the last run
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
}

pub(super) fn report(session: &Session, asked: &Report) -> Result<Outcome> {
    let migration = Migration::look(&asked.folder)?;
    let totals = migration.database.totals()?;
    let failed = migration.database.in_state(State::Failed, 0, FAILED_MAX)?;
    let progress = RunProgress::read(&migration);
    if let Some(path) = &asked.scenario {
        let text = scenario::of(&migration, progress.as_ref(), &totals)?;
        fs::write(path, text).with_context(|| text::path(path))?;
    }
    session.answer(|| {
        let failed: Vec<Value> = failed
            .iter()
            .map(|row| json!({ "name": row.name, "bytes": row.bytes, "attempts": row.attempts, "reason": row.reason }))
            .collect();
        json!({ "totals": totals_json(&totals), "failed": failed, "last_run": progress })
    });
    if let Some(progress) = &progress {
        let which = if is_locked(&migration) { "The last run so far" } else { "Last run that moved files" };
        session.say(&format!("{which}, {}:\n{}", time(progress.elapsed_s), stages(progress)));
    }
    let (count, bytes) = totals.of(State::Failed);
    if count == 0 {
        session.say("No file failed.");
    } else {
        session.warn(&format!("{}, {}, failed:", text::count(count, "file"), text::bytes(bytes)));
        for row in &failed {
            let reason = row.reason.as_deref().unwrap_or("unknown");
            session.warn(&format!("  {}: {}", text::harmless(&row.name), text::harmless(reason)));
        }
        if count > failed.len() as u64 {
            session.warn(&format!("  and {} more", count - failed.len() as u64));
        }
    }
    Ok(Outcome::troubled_if(count > 0))
}

pub(super) fn replay(session: &Session, folder: &Path) -> Result<Outcome> {
    let path = Migration::look(folder)?.path("journal");
    let file = File::open(&path).with_context(|| format!("{}: no run has written it", text::path(&path)))?;
    let replayed = journal::replay(BufReader::new(file))?;
    session.answer(|| json!({ "steps": replayed.steps, "ended": replayed.has_ended }));
    let end = if replayed.has_ended { "" } else { "; the run has not ended, or was killed" };
    session.say(&format!("{} gave the same commands{end}.", text::count(replayed.steps, "step")));
    Ok(Outcome::Good)
}

/// A line for each stage: rates, gaps, duty factors, and what its streams waited for.
fn stages(progress: &RunProgress) -> String {
    let line = |stage: Stage| {
        let of = progress.stage(stage);
        let waits = of.wait_shares().into_iter().filter(|(_, share)| *share >= 0.01);
        let waits: Vec<String> = waits.map(|(wait, share)| format!("{} {}", wait.name(), percent(share))).collect();
        format!(
            "  {} {}{}: {} files, {} each while moving, gap {}, duty {:.2} of {}, busy {}{}\n",
            of.streams,
            stage.name(),
            if of.streams == 1 { "" } else { "s" },
            grouped(of.files),
            rate(of.rate()),
            short_time(of.gap_s()),
            of.duty(),
            of.streams,
            percent(of.busy_share()),
            if waits.is_empty() { String::new() } else { format!("; waiting for {}", waits.join(", ")) },
        )
    };
    Stage::ALL.map(line).concat()
}

/// True while a command changes the migration.
fn is_locked(migration: &Migration) -> bool {
    File::open(migration.path("lock")).is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}
