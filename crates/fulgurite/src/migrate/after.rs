//! `migrate scan` and `migrate forget`: after files were migrated.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use clap::Args;
use fulgurite_migration::run::again::{self, Finding, Findings, Shared};
use fulgurite_migration::run::database::{FileRow, State, Totals};
use fulgurite_migration::run::folded;
use serde_json::{Value, json};

use super::apart::{self, Unproven};
use super::folder::{Migration, now_s};
use super::lock::Holder;
use crate::archive_place::ArchivePlace;
use crate::{Outcome, Session, diagnostics, signals, tape_place, text};

#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// The migration's folder
    folder: PathBuf,
    /// Remove the files; without it, they are only counted
    #[arg(long)]
    yes: bool,
}

pub(super) fn scan(session: &Session, folder: &Path) -> Result<Outcome> {
    let mut migration = Migration::change(folder, Holder::Scan)?;
    apart::check(&migration, Unproven::Unasked)?;
    let destination = migration.destination()?;
    let threads = threads(&migration);
    let stop = stop()?;
    let tell = &mut |row: &FileRow, finding: &Finding| {
        name(row, finding, "at the destination");
        !stop.load(Ordering::Relaxed)
    };
    let before = migration.database.totals()?;
    let findings = again::scan(&mut migration.database, &*destination, threads, now_s(), tell)?;
    if findings.wrong > 0 && !findings.is_absent {
        migration.remove_certificate()?;
    }
    let is_stopped = stop.load(Ordering::Relaxed);
    let totals = migration.database.totals()?;
    let released = totals.of(State::Released).0;
    let compared = findings.good.0 + findings.wrong + findings.unknown;
    session.answer(|| {
        let mut answer = findings_json(&findings, is_stopped);
        answer["compared"] = compared.into();
        answer
    });
    if compared == 0 {
        session.warn(&nothing_compared(migration.has_inventory()?, before));
        return Ok(Outcome::Troubled);
    }
    let good = text::phrase(findings.good.0, "file", "files");
    let are = if findings.good.0 == 1 { "is" } else { "are" };
    session.say(&format!("{good}, {}, {are} at the destination as migrated.", text::bytes(findings.good.1)));
    let left = before.of(State::Waiting).0 + before.of(State::Written).0;
    if left > 0 {
        session.say(&format!("{} not migrated yet, and not compared.", text::phrase(left, "file is", "files are")));
    }
    if findings.wrong > 0 {
        let next = match (findings.is_absent, released > 0) {
            (true, _) => "No file is there any more, so these are not recorded: is the destination mounted?",
            (false, true) => "Those that the source still has wait to be migrated again; `report` names the others.",
            (false, false) => "They wait to be migrated again.",
        };
        session.warn(&format!("{} wrong or missing. {next}", text::phrase(findings.wrong, "file is", "files are")));
    }
    if findings.unknown > 0 {
        session.warn(&format!("{} not be read.", text::phrase(findings.unknown, "file could", "files could")));
    }
    if is_stopped {
        session.warn("Stopped: the rest was not read.");
    }
    Ok(Outcome::troubled_if(is_stopped || findings.wrong + findings.unknown > 0))
}

/// Says that a scan had no file to compare, why, and what to do.
fn nothing_compared(has_inventory: bool, totals: Totals) -> String {
    let left = totals.of(State::Waiting).0 + totals.of(State::Written).0;
    let failed = totals.of(State::Failed).0;
    let why = match (has_inventory, left, failed) {
        (false, ..) => "`fulgurite migrate run` lists the source and migrates its files.".to_owned(),
        (true, 0, failed) => format!("{} failed: `fulgurite migrate report` says why.", text::count(failed, "file")),
        (true, left, _) => format!("{}; `fulgurite migrate run` migrates them.", text::phrase(left, "file waits", "files wait")),
    };
    format!("Nothing was compared, because no file is migrated yet. {why}")
}

pub(super) fn forget(session: &Session, asked: &Forget) -> Result<Outcome> {
    let mut migration = if asked.yes { Migration::change(&asked.folder, Holder::Forget)? } else { Migration::look(&asked.folder)? };
    let until = now_s().saturating_sub(migration.settings.hold.as_secs());
    if ArchivePlace::home_of(&migration.settings.source.place).is_some() {
        bail!(
            "the source is an archive, whose files are not removed one by one: remove its stores once you no longer need it. \
             Only the newest version of each file was migrated"
        );
    }
    if tape_place::folder_of(&migration.settings.source.place).is_some() {
        bail!("the source is a tape library, whose files are not removed one by one: withdraw its tapes once you no longer need them");
    }
    if !asked.yes {
        return say_forgettable(session, &migration, until);
    }
    apart::check(&migration, Unproven::Fails).context("no file was removed")?;
    let (source, destination) = (migration.source()?, migration.destination()?);
    let threads = threads(&migration);
    let stop = stop()?;
    let tell = &mut |row: &FileRow, finding: &Finding| {
        name(row, finding, "stays at the source");
        !stop.load(Ordering::Relaxed)
    };
    // A run that began before the destination was found to fold names may have counted some twice.
    let folding =
        destination.folding().context("no file was removed, because the destination can't be asked which names it distinguishes")?;
    let refused = folded::refuse(&mut migration.database, &*source, folding, &mut |file, reason| {
        diagnostics::write(
            &format!("{} stays at the source: {}", text::harmless(file), text::harmless(reason)),
            &json!({ "kind": "wrong", "name": file, "reason": reason }),
        );
    })?;
    if refused > 0 {
        migration.remove_certificate()?;
    }
    let findings = again::release(&mut migration.database, &*source, &*destination, threads, until, tell)?;
    if let Some(Shared { name, is_back }) = &findings.shared {
        let name = text::harmless(name);
        let end = if *is_back { "It was put back" } else { "It is LOST, unless a trash or a backup has it" };
        bail!(
            "removing {name} from the source removed it from the destination, too: they are the same place. {end}; nothing else was removed after it"
        );
    }
    let is_stopped = stop.load(Ordering::Relaxed);
    let held = releasable(&migration, until)?.held;
    session.answer(|| {
        let mut answer = findings_json(&findings, is_stopped);
        answer["held"] = held.into();
        answer["staged"] = findings.buffered.into();
        answer
    });
    session.say(&format!("Removed {}, {}, from the source.", text::count(findings.good.0, "file"), text::bytes(findings.good.1)));
    say_held(session, &migration, held);
    if findings.gone > 0 {
        let gone = text::phrase(findings.gone, "file was", "files were");
        session.warn(&format!("{gone} not there any more."));
        if findings.good.0 == 0 {
            session.warn("None was there, so nothing is recorded: is the source mounted?");
        }
    }
    if findings.buffered > 0 {
        let stays = text::phrase(findings.buffered, "file stays", "files stay");
        session.warn(&format!("{stays}: the archive has only staged what was migrated. Run `fulgurite flush`, then this again."));
    }
    if findings.wrong + findings.unknown > 0 {
        let stayed = findings.wrong + findings.unknown;
        let stays = text::phrase(stayed, "file stays", "files stay");
        session.warn(&format!("{stays}: a place has other content than was migrated, or can't be read."));
    }
    let nothing_there = findings.gone > 0 && findings.good.0 == 0;
    let stayed = findings.buffered + findings.wrong + findings.unknown + refused;
    Ok(Outcome::troubled_if(is_stopped || nothing_there || stayed > 0))
}

/// Files that the source still has: how many may be removed, their bytes, and how many are held.
struct Releasable {
    files: u64,
    bytes: u64,
    held: u64,
}

fn releasable(migration: &Migration, until: u64) -> Result<Releasable> {
    let (mut files, mut bytes, mut after) = (0_u64, 0, 0);
    loop {
        let rows = migration.database.migrated_until(until, after, 1_000)?;
        let Some(last) = rows.last() else { break };
        after = last.id;
        files += rows.len() as u64;
        bytes += rows.iter().map(|row| row.bytes).sum::<u64>();
    }
    // Another command may be changing the migration.
    let held = migration.database.totals()?.of(State::Migrated).0.saturating_sub(files);
    Ok(Releasable { files, bytes, held })
}

fn say_held(session: &Session, migration: &Migration, held: u64) {
    if held > 0 {
        let days = migration.settings.hold.as_secs_f64() / 86_400.0;
        let held = text::phrase(held, "file is", "files are");
        session.say(&format!("{held} held: rules.hold keeps a file for {days:.1} days after it was migrated."));
    }
}

/// Says what would be removed.
fn say_forgettable(session: &Session, migration: &Migration, until: u64) -> Result<Outcome> {
    let Releasable { files, bytes, held } = releasable(migration, until)?;
    session.answer(|| json!({ "would_remove": files, "bytes": bytes, "held": held }));
    session.say(&format!(
        "{}, {}, would be removed from {}; each is read once more before. --yes removes them.",
        text::count(files, "file"),
        text::bytes(bytes),
        migration.settings.source.place
    ));
    say_held(session, migration, held);
    say_staged(session, migration.staged_versions());
    Ok(Outcome::Good)
}

/// Says that the destination, an archive, has staged files that are not on platters.
pub(super) fn say_staged(session: &Session, staged: Option<u64>) {
    if let Some(staged @ 1..) = staged {
        let versions = text::phrase(staged, "version is", "versions are");
        session.warn(&format!(
            "{versions} only in the staging of the destination, and not on platters: `fulgurite flush` writes them. Until then \
             `fulgurite migrate forget` keeps these files at the source."
        ));
    }
}

fn threads(migration: &Migration) -> u16 {
    migration.settings.layout.stations.iter().map(|station| station.scans).sum()
}

fn stop() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    signals::on_stop(None, move || stopped.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

fn name(row: &FileRow, finding: &Finding, place: &str) {
    let reason = match finding {
        Finding::Good | Finding::Gone | Finding::Buffered | Finding::Shared { .. } => return,
        Finding::Wrong(reason) | Finding::Missing(reason) | Finding::Unknown(reason) => reason,
    };
    let value =
        json!({ "kind": if matches!(finding, Finding::Unknown(_)) { "unknown" } else { "wrong" }, "name": row.name, "reason": reason });
    diagnostics::write(&format!("{} {place}: {}", text::harmless(&row.name), text::harmless(reason)), &value);
}

fn findings_json(findings: &Findings, is_stopped: bool) -> Value {
    json!({
        "good": findings.good.0, "bytes": findings.good.1, "gone": findings.gone, "wrong": findings.wrong,
        "unknown": findings.unknown, "stopped": is_stopped,
    })
}
