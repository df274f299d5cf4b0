//! `migrate status`, `pause`, `resume` and `replay`.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use fulgurite_migration::journal;
use fulgurite_migration::quantities::time;
use fulgurite_migration::run::database::{Retries, State, Totals};
use serde_json::json;

use super::after::say_staged;
use super::folder::{Migration, now_s, shown};
use super::lock::Holder;
use super::progress::RunProgress;
use super::run::totals_json;
use crate::{Outcome, Session, text};

pub(super) fn status(session: &Session, folder: &Path) -> Result<Outcome> {
    let migration = Migration::look(folder)?;
    let totals = migration.database.totals()?;
    let recalled = migration.database.recalled_files()?;
    let retries = migration.database.retries_after(now_s())?;
    let (holder, is_paused) = (migration.holder(), migration.is_paused());
    let is_running = holder == Some(Holder::Run);
    let (has_inventory, has_run) = (migration.has_inventory()?, migration.database.has_run()?);
    let last = RunProgress::read(&migration);
    // The figures of an earlier run say nothing of the one that is going on.
    let progress = last.as_ref().filter(|progress| is_running && progress.ended_at.is_none());
    let (source, destination) = (shown(&migration.settings.source)?, shown(&migration.settings.destination)?);
    // A run writes to the archive, and flushes it at its end.
    let staged = if is_running { None } else { migration.staged_versions() };
    session.answer(|| {
        json!({
            "source": source, "destination": destination,
            "running": is_running, "command": holder.map(Holder::name), "paused": is_paused, "totals": totals_json(&totals),
            "has_inventory": has_inventory, "has_run": has_run, "recalled": recalled,
            "retries": retries.map(|of| json!({ "files": of.files, "first_at": of.first, "last_at": of.last })),
            "left_s": progress.map(|progress| progress.left_s),
            "left_interval_s": progress.map(|progress| progress.left_interval_s),
            "staged_versions": staged,
            "set_aside": last.as_ref().map_or(&[][..], |last| &last.set_aside),
        })
    });
    session.say(&format!("From {source} to {destination}"));
    if let Some(sentence) = not_begun(&migration, &totals, holder)? {
        session.say(&sentence);
    }
    for state in State::ALL {
        let (files, bytes) = totals.of(state);
        if files > 0 || matches!(state, State::Waiting | State::Migrated) {
            session.say(&format!("  {:<9} {:>14}  {}", state.name(), text::count(files, "file"), text::bytes(bytes)));
        }
    }
    if recalled > 0 {
        session.say(&format!("{} waiting; they are migrated first.", text::phrase(recalled, "recalled file is", "recalled files are")));
    }
    if let Some(retries) = retries {
        session.say(&retried(retries));
    }
    say_staged(session, staged);
    session.say(&state(progress, holder, is_paused));
    last.iter().flat_map(|last| last.set_aside_lines(is_running)).for_each(|line| session.warn(&line));
    Ok(Outcome::Good)
}

/// Says that no run has begun, and what would begin one. `None` once one has.
pub(super) fn not_begun(migration: &Migration, totals: &Totals, holder: Option<Holder>) -> Result<Option<String>> {
    if migration.database.has_run()? {
        return Ok(None);
    }
    if holder == Some(Holder::Run) && !migration.has_inventory()? {
        return Ok(Some("The first run is listing the source.".to_owned()));
    }
    let (state, next) = match migration.has_inventory()? {
        false => ("no inventory was taken, and no file is migrated".to_owned(), "lists the source and migrates its files"),
        true => {
            let waiting = text::phrase(totals.of(State::Waiting).0, "file waits", "files wait");
            (format!("{waiting}, and none is migrated"), "migrates them")
        }
    };
    // Another command may be about to change that.
    let next = if holder.is_none() { format!(" `fulgurite migrate run` {next}.") } else { String::new() };
    Ok(Some(format!("Nothing has run yet: {state}.{next}")))
}

/// Says how many files wait for another attempt, and until when.
fn retried(retries: Retries) -> String {
    let [first, last] = [retries.first, retries.last].map(|at| text::time(at.cast_signed()));
    let at = if first == last { format!("at {first}") } else { format!("between {first} and {last}") };
    let failed = text::phrase(retries.files, "waiting file failed before; it is", "waiting files failed before; they are");
    format!(
        "{failed} tried again {at} UTC, but within rules.retry_after of a run's start. `fulgurite migrate recall` or `migrate run \
         --retry-failed` tries at once."
    )
}

/// What is going on, and when a run ends.
pub(super) fn state(progress: Option<&RunProgress>, holder: Option<Holder>, is_paused: bool) -> String {
    match (holder, is_paused) {
        (Some(Holder::Run), true) => "A run is going on, and paused.".to_owned(),
        (Some(Holder::Run), false) => progress.and_then(|progress| progress.left_s).map_or("A run is going on.".to_owned(), |left| {
            let bounds = progress.and_then(|progress| progress.left_interval_s);
            let bounds = bounds.map_or_else(String::new, |(low, high)| format!(" (95 %: {} to {})", time(low), time(high)));
            format!("A run is going on; at this pace it ends in {}{bounds}.", time(left))
        }),
        (Some(other), true) => format!("{}; the migration is paused.", other.phrase()),
        (Some(other), false) => format!("{}.", other.phrase()),
        (None, true) => "No run is going on; the migration is paused.".to_owned(),
        (None, false) => "No run is going on.".to_owned(),
    }
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
    let holder = migration.holder();
    session.answer(|| json!({ "paused": pauses, "running": holder == Some(Holder::Run), "command": holder.map(Holder::name) }));
    session.say(match (pauses, was_paused) {
        (true, _) => "Paused: files on their way arrive, and no others begin.",
        (false, true) => "Resumed.",
        (false, false) => "It was not paused.",
    });
    Ok(Outcome::Good)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_another_attempt_is_told_with_the_time() {
        let said = |files, first, last| retried(Retries { files, first, last });
        let one = said(1, 1_000_000_000, 1_000_000_000);
        assert!(one.starts_with("1 waiting file failed before; it is tried again at 2001-09-09 01:46:40 UTC,"), "{one}");
        let two = said(2, 1_000_000_000, 1_000_000_001);
        assert!(
            two.starts_with("2 waiting files failed before; they are ")
                && two.contains("between 2001-09-09 01:46:40 and 2001-09-09 01:46:41 UTC"),
            "{two}"
        );
    }
}
