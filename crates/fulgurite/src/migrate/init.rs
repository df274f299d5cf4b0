//! `migrate init` and `migrate inventory`: where a migration begins.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use fulgurite_audit::inventory::Checksums;
use fulgurite_migration::run::database::State;

use super::folder::{self, Migration};
use crate::outcome::Misuse;
use crate::{Outcome, Session, diagnostics, places, text};

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
    /// An option of the source, such as endpoint=https://s3.example.org; repeat it for several
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
    let place = |given: &str, options: &[String]| places::stored(given, &folder::options(options)?, &|_| true);
    let (from, from_options) = place(&asked.from, &asked.from_options).context("--from")?;
    let (to, to_options) = place(&asked.to, &asked.to_options).context("--to")?;
    if from == to && from_options == to_options {
        return Err(Misuse("the source and the destination are the same place".to_owned()).into());
    }
    for (what, place, options) in [("source", &from, &from_options), ("destination", &to, &to_options)] {
        let place = places::open(place, options).with_context(|| format!("the {what}"))?;
        place.connect().map_err(|refusal| {
            let advice = if what == "destination" { ". Make the folder first if it is new" } else { "" };
            anyhow!("can't use the {what}, {}: {refusal}{advice}", place.describe())
        })?;
    }
    let settings = format!("{}\n{}", section("source", &from, &from_options), section("destination", &to, &to_options));
    let migration = Migration::make(&asked.folder, &settings)?;
    session.answer(|| serde_json::json!({ "folder": migration.folder, "from": from, "to": to }));
    session.say(&format!("A migration from {from} to {to} is set up in {}.", text::path(&migration.folder)));
    session.say("`fulgurite migrate run` begins it; migration.toml has its settings.");
    Ok(Outcome::Good)
}

/// A section of the settings.
fn section(name: &str, place: &str, options: &[(String, String)]) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let options: Vec<String> = options.iter().map(|(key, value)| quoted(&format!("{key}={value}"))).collect();
    let options = if options.is_empty() { String::new() } else { format!("options = [{}]\n", options.join(", ")) };
    format!("[{name}]\nplace = {}\n{options}", quoted(place))
}

pub(super) fn inventory(session: &Session, asked: &Inventory) -> Result<Outcome> {
    let mut migration = Migration::change(&asked.folder)?;
    let (listed, added) = migration.take_inventory(&mut |_| {})?;
    let digests = asked.checksums.as_ref().map(|path| add_digests(&mut migration, path)).transpose()?;
    let missing = digests.as_ref().map_or(0, |digests| digests.missing);
    session.answer(|| {
        let (known, missing) = digests.as_ref().map_or((None, None), |digests| (Some(digests.known), Some(digests.missing)));
        serde_json::json!({ "listed": listed, "new": added.new, "changed": added.changed, "with_digest": known, "missing": missing })
    });
    session.say(&format!("The source has {}: {} new, {} with another length.", text::count(listed, "file"), added.new, added.changed));
    if let Some(digests) = digests {
        session.say(&format!("Digests of {} are known.", text::count(digests.known, "file")));
        if digests.missing > 0 {
            let missing = text::phrase(digests.missing, "file", "files");
            session.warn(&format!("The list has {missing} that the source doesn't have; `fulgurite migrate report` names them."));
        }
    }
    Ok(Outcome::troubled_if(missing > 0))
}

struct Digests {
    known: u64,
    missing: u64,
}

/// Adds the digests of a list. Files that the source doesn't have are recorded as failed.
fn add_digests(migration: &mut Migration, path: &PathBuf) -> Result<Digests> {
    let source: Box<dyn Read> = Box::new(File::open(path).with_context(|| text::path(path))?);
    let mut digests = Digests { known: 0, missing: 0 };
    let mut rows = Vec::new();
    for row in Checksums::new(path, source, None) {
        let row = row?;
        let digest = row.expected.digests.into_iter().max().with_context(|| format!("{}: no digest", row.name))?;
        rows.push((row.name, digest));
        if rows.len() == BATCH {
            add_batch(migration, &mut rows, &mut digests)?;
        }
    }
    add_batch(migration, &mut rows, &mut digests)?;
    let failed = migration.database.totals()?.of(State::Failed).0;
    if failed > 0 {
        diagnostics::note(&format!("{} failed so far", text::count(failed, "file")));
    }
    Ok(digests)
}

fn add_batch(migration: &mut Migration, rows: &mut Vec<(String, fulgurite_digest::Digest)>, digests: &mut Digests) -> Result<()> {
    let found = migration
        .database
        .add_digests(rows, &|name| fulgurite_migration::run::inventory::family_of(name, migration.settings.family_folders))?;
    digests.known += found;
    digests.missing += rows.len() as u64 - found;
    rows.clear();
    Ok(())
}
