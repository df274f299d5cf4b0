//! `migrate init` and `migrate inventory`: where a migration begins.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use fulgurite_audit::inventory::Checksums;
use fulgurite_digest::Digest;
use fulgurite_migration::run::database::{AddedDigests, State};
use fulgurite_migration::run::inventory::{Inventoried, family_of};
use fulgurite_migration::run::settings::new_file;
use fulgurite_places::{Cause, LeftOut};
use fulgurite_service::control::is_served;

use super::apart::{self, Probed};
use super::folder::{self, Migration};
use super::lock::Holder;
use crate::archive_place::ArchivePlace;
use crate::outcome::Misuse;
use crate::places::Use;
use crate::{Outcome, Session, places, tape_place, text};

/// Rows of a list that are added in one transaction.
const BATCH: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The folder to make
    folder: PathBuf,
    /// The source
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// The destination
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// An option of the source, such as region=eu-1; repeat it for several
    #[arg(long = "from-option", value_name = "KEY=VALUE")]
    from_options: Vec<String>,
    /// An option of the destination; repeat it for several
    #[arg(long = "to-option", value_name = "KEY=VALUE")]
    to_options: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Inventory {
    /// The migration's folder
    folder: PathBuf,
    /// A list of digests, as `sha256sum`, `md5sum` or `rclone hashsum` write one, made inside the
    /// source's folder. Each file is compared with its digest when it is read
    #[arg(long, value_name = "FILE")]
    checksums: Option<PathBuf>,
}

pub(super) fn init(session: &Session, asked: &Init) -> Result<Outcome> {
    let place = |given: &str, options: &[String], used| places::stored(given, &folder::options(options)?, &|_| true, used);
    let (from, from_options) = place(&asked.from, &asked.from_options, Use::Read).context("--from")?;
    let (to, to_options) = place(&asked.to, &asked.to_options, Use::Written).context("--to")?;
    if tape_place::folder_of(&to).is_some() {
        return Err(Misuse("a tape library is only read, and can't be the destination: give --to another place".to_owned()).into());
    }
    check_apart(asked, &from, &to, from_options == to_options)?;
    let (source, destination) = (places::open(&from, &from_options)?, places::open(&to, &to_options)?);
    for (what, place) in [("source", &source), ("destination", &destination)] {
        place.connect().map_err(|refusal| {
            let may_be_new = what == "destination" && to.starts_with("folder:") && refusal.cause == Cause::Absent;
            let advice = if may_be_new { " Or make the folder, if it is new." } else { "" };
            anyhow!("can't use the {what}, {}: {refusal}{advice}", place.describe())
        })?;
    }
    // Archives are compared by their folders.
    if ArchivePlace::home_of(&to).is_none() {
        match apart::probe(&*destination, &*source, ["destination", "source"]) {
            Probed::Apart => {}
            Probed::Same => {
                let same = "the source and the destination are the same place: a file written to one appears at the other";
                return Err(Misuse(same.to_owned()).into());
            }
            Probed::Unknown(error) => return Err(error),
        }
    }
    let mut given = [place_settings("source", &from, &from_options), place_settings("destination", &to, &to_options)].concat();
    if let Some(library) = tape_place::open(&from) {
        given.push(("streams.inputs".to_owned(), library?.settings().drives.to_string()));
    }
    let given: Vec<(&str, String)> = given.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let settings = new_file(&given);
    let migration = Migration::make(&asked.folder, &settings)?;
    let in_use = ArchivePlace::home_of(&to).filter(|home| fulgurite_archive::is_in_use(home));
    let (from, to) = (folder::shown(&migration.settings.source)?, folder::shown(&migration.settings.destination)?);
    session.answer(|| serde_json::json!({ "folder": migration.folder, "from": from, "to": to, "destination_in_use": in_use.is_some() }));
    session.say(&format!("A migration from {from} to {to} is set up in {}.", text::path(&migration.folder)));
    session.say("`fulgurite migrate run` begins it; migration.toml has its settings.");
    if let Some(home) = in_use {
        let by = match is_served(home) {
            true => "`fulgurite serve` is using the destination now: stop the server before a run, or migrate to it over S3",
            false => "another command is using the destination now: a run can begin once that has ended",
        };
        session.warn(&format!("Note: {by}. Only one process at a time can write to an archive."));
    }
    Ok(Outcome::Good)
}

/// The settings of a place, by their full names, as TOML.
fn place_settings(section: &str, place: &str, options: &[(String, String)]) -> Vec<(String, String)> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let options: Vec<String> = options.iter().map(|(key, value)| quoted(&format!("{key}={value}"))).collect();
    let mut settings = vec![(format!("{section}.place"), quoted(place))];
    if !options.is_empty() {
        settings.push((format!("{section}.options"), format!("[{}]", options.join(", "))));
    }
    settings
}

/// Says what the source has that isn't migrated.
pub(super) fn say_left_out(session: &Session, left_out: LeftOut) {
    if left_out != LeftOut::default() {
        session.say(&format!("Left out, since only files are migrated: {}.", left_out.text()));
    }
}

pub(super) fn inventory(session: &Session, asked: &Inventory) -> Result<Outcome> {
    let mut migration = Migration::change(&asked.folder, Holder::Inventory)?;
    let before = migration.database.totals()?;
    let Inventoried { files: listed, added, left_out } = migration.take_inventory(&mut |_| {})?;
    let digests = asked.checksums.as_ref().map(|path| add_digests(&mut migration, path)).transpose()?;
    if migration.database.totals()? != before || added.changed > 0 {
        migration.remove_certificate()?;
    }
    let (missing, wrong) = digests.map_or((0, 0), |digests| (digests.missing, digests.wrong));
    let (again, unchecked) = digests.map_or((0, 0), |digests| (digests.again, digests.unchecked));
    let corrected = digests.map_or(0, |digests| digests.corrected);
    session.answer(|| {
        serde_json::json!({
            "listed": listed, "new": added.new, "changed": added.changed, "reappeared": added.reappeared,
            "left_out": folder::left_out_json(left_out), "with_digest": digests.map(|digests| digests.known), "missing": missing, "wrong": wrong,
            "again": again, "unchecked": unchecked, "corrected": corrected,
        })
    });
    session.say(&format!("The source has {}: {} new, {} changed.", text::count(listed, "file"), added.new, added.changed));
    say_left_out(session, left_out);
    if let Some(digests) = digests {
        session.say(&format!("Digests of {} are known.", text::count(digests.known, "file")));
        if corrected > 0 {
            let failed = text::phrase(
                corrected,
                "failed file is tried again by the next run: its digest",
                "failed files are tried again by the next run: their digests",
            );
            let differ = if corrected == 1 { "differs" } else { "differ" };
            session.say(&format!("{failed} {differ} from those of earlier lists."));
        }
        if again > 0 {
            let wait = text::phrase(again, "file that was migrated waits", "files that were migrated wait");
            session.warn(&format!(
                "{wait} again: the list states a digest of another kind than SHA-256, which the migration has not computed. The next run reads them from the \
                 source, compares them with the list, and writes them again."
            ));
        }
        if unchecked > 0 {
            let released = text::phrase(unchecked, "released file is", "released files are");
            session.warn(&format!("{released} not compared: the list has no SHA-256 of them, and the source no longer has the files."));
        }
        if digests.missing > 0 {
            let missing = text::phrase(digests.missing, "file", "files");
            session.warn(&format!("The list has {missing} that the source doesn't have; `fulgurite migrate report` names them."));
        }
        if digests.wrong > 0 {
            let wrong = text::phrase(digests.wrong, "file was", "files were");
            session.warn(&format!("{wrong} migrated with another SHA-256; `fulgurite migrate report` names them."));
        }
    }
    let unlisted = (before.all().0 - before.of(State::Released).0).saturating_sub(listed - added.new - added.reappeared);
    if unlisted > 0 {
        let unlisted = text::phrase(unlisted, "known file", "known files");
        session.warn(&format!("The source no longer lists {unlisted}; those still waiting will fail, unless they are spooled."));
    }
    if added.reappeared > 0 {
        let again = text::phrase(added.reappeared, "file that was released", "files that were released");
        session.warn(&format!("The source has {again} again. They are not migrated over those at the destination: use another migration."));
    }
    Ok(Outcome::troubled_if(missing + wrong + added.reappeared > 0))
}

/// Adds the digests of a list. Files that the source doesn't have are recorded as failed.
fn add_digests(migration: &mut Migration, path: &PathBuf) -> Result<AddedDigests> {
    let source: Box<dyn Read> = Box::new(File::open(path).with_context(|| text::path(path))?);
    let mut all = AddedDigests::default();
    let mut rows = Vec::new();
    let mut add = |rows: &mut Vec<(String, Digest)>| -> Result<()> {
        let folders = migration.settings.family_folders;
        let added = migration.database.add_digests(rows, &|name| family_of(name, folders))?;
        all += added;
        rows.clear();
        Ok(())
    };
    for row in Checksums::new(path, source, None) {
        let row = row?;
        let digest = row.expected.digests.into_iter().max().with_context(|| format!("{}: no digest", row.name))?;
        rows.push((row.name, digest));
        if rows.len() == BATCH {
            add(&mut rows)?;
        }
    }
    add(&mut rows)?;
    Ok(all)
}

/// Refuses places that are, or contain, one another, and a migration inside one of them: files
/// would be migrated onto themselves, and releasing the source would remove the destination. Also
/// refuses a destination among the files of an archive.
fn check_apart(asked: &Init, from: &str, to: &str, same_options: bool) -> Result<()> {
    let refuse = |why: &str| Err(Misuse(why.to_owned()).into());
    let (source, destination) = (apart::folder_of(from), apart::folder_of(to));
    let archive = |path: &PathBuf| path.ancestors().find(|above| above.join(fulgurite_archive::settings::FILE).is_file()).map(text::path);
    if ArchivePlace::home_of(to).is_none()
        && let Some(archive) = destination.as_ref().and_then(archive)
    {
        return refuse(&format!("files would be written into the folder of an archive: to migrate into it, say --to archive:{archive}"));
    }
    // The folder of the migration needn't exist yet.
    let own = std::path::absolute(&asked.folder)?;
    let own =
        own.ancestors().find_map(|above| std::fs::canonicalize(above).ok().map(|real| real.join(own.strip_prefix(above).unwrap_or(&own))));
    if let (Some(source), Some(destination)) = (&source, &destination)
        && let Some(why) = apart::overlap(source, destination)
    {
        return refuse(why);
    }
    for (what, place) in [("source", &source), ("destination", &destination)] {
        if let (Some(place), Some(own)) = (place, &own)
            && own.starts_with(place)
        {
            return refuse(&format!("the migration's folder would be inside the {what}: name another folder"));
        }
    }
    let (from, to) = (format!("{}/", from.trim_end_matches('/')), format!("{}/", to.trim_end_matches('/')));
    if same_options && source.is_none() && (from.starts_with(&to) || to.starts_with(&from)) {
        return refuse("the source and the destination are the same place, or one is inside the other");
    }
    Ok(())
}
