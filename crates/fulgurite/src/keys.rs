//! The commands `keys export`, `keys import` and `keys repair`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_archive::Access;
use fulgurite_archive::keyring::{CatalogueUnavailable, KeyringReport, WithoutKey, export_keys, import_keys, repair_keys};
use fulgurite_domain::ObjectName;
use serde_json::{Value, json};

use crate::args::KeysExport;
use crate::diagnostics::{note, trouble};
use crate::list::name_json;
use crate::progress::Progress;
use crate::text::{bytes, count, path, phrase};
use crate::{Outcome, Session};

pub(crate) fn export(session: &Session, export: &KeysExport) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let passphrase = export.passphrase_file.as_deref().map(read_passphrase).transpose()?;
    let keys = export_keys(&archive, &export.file, passphrase.as_deref())?;
    session.answer(|| json!({ "keys": keys, "sealed": passphrase.is_some() }));
    session.say(&format!("Wrote the master key and {} to {}.", count(keys, "object key"), export.file.display()));
    if passphrase.is_none() {
        note("the file is not protected: anyone who has it and the platters can read the archive.");
    }
    Ok(Outcome::Good)
}

pub(crate) fn import(session: &Session, files: &[PathBuf], passphrase_files: &[PathBuf]) -> Result<Outcome> {
    let passphrases = read_passphrases(passphrase_files)?;
    let progress = Progress::new(session.quiet);
    let report = import_keys(&session.home()?, files, &passphrases, &progress)?;
    progress.finish();
    session.answer(|| report_json(&report));
    print_report(session, &report);
    session.say(&format!("The archive has the master key and {}.", count(report.keys, "object key")));
    Ok(Outcome::troubled_if(!report.is_complete()))
}

pub(crate) fn repair(session: &Session, files: &[PathBuf], passphrase_files: &[PathBuf]) -> Result<Outcome> {
    let passphrases = read_passphrases(passphrase_files)?;
    let progress = Progress::new(session.quiet);
    let report = repair_keys(&session.home()?, files, &passphrases, &progress)?;
    progress.finish();
    session.answer(|| report_json(&report));
    if report.salvaged.is_none() {
        session.say("The key store is sound.");
    }
    print_report(session, &report);
    session.say(&format!("The key store has {}.", count(report.keys, "key")));
    match &report.without_key {
        WithoutKey::Known { .. } if report.without_key.count() == 0 => {
            session.say("Every encrypted version in the catalogue has its key.");
        }
        WithoutKey::Counted { versions: 0, why } => {
            note(&format!(
                "the catalogue can't be read ({why}); every encrypted version that was found on platters and in staging has its key"
            ));
        }
        _ => {}
    }
    Ok(Outcome::troubled_if(!report.is_complete()))
}

/// Prints the result of importing or repairing keys, or of merging them in `attach`.
pub(crate) fn print_report(session: &Session, report: &KeyringReport) {
    if let Some(salvaged) = &report.salvaged {
        session.say(&format!("The key store was damaged: {}.", salvaged.damage));
        session.say(&format!("{} saved from it.", phrase(salvaged.keys, "key was", "keys were")));
        if salvaged.unreadable > 0 {
            note(&format!("{} of it could not be read; check the disk", bytes(salvaged.unreadable)));
        }
        if let Some(moved_to) = &salvaged.moved_to {
            session.say(&format!("The damaged file is kept as {}; remove it when nothing is missing.", path(moved_to)));
        }
    }
    for copy in &report.copies {
        let file = path(&copy.path);
        session.say(&format!("{file}: {}, {} of them new.", count(copy.keys, "key"), copy.added));
        if copy.corrected > 0 {
            note(&format!(
                "{file} is damaged: {} corrected. Its keys are intact, but make a new copy with `fulgurite keys export`",
                phrase(copy.corrected, "block had to be", "blocks had to be")
            ));
        }
        if let Some(damage) = &copy.damage {
            note(&format!("{file} is damaged: {damage}. Only lines whose key opens with the master key were taken"));
        }
    }
    if report.removed > 0 {
        let left_out = phrase(
            report.removed,
            "key was left out, because its version was removed",
            "keys were left out, because their versions were removed",
        );
        session.say(&format!("{left_out}."));
    }
    if report.conflicting > 0 {
        note(&format!(
            "{} several keys in these sources; the one that opens with the master key was taken",
            phrase(report.conflicting, "version has", "versions have")
        ));
    }
    for why in &report.unread {
        note(&format!("{why}; keys of versions that were removed there may have come back"));
    }
    if report.still_listed > 0 {
        trouble(&format!(
            "the catalogue is an old copy: it lists {} removed; run `fulgurite catalogue rebuild` now, before other commands",
            phrase(report.still_listed, "version that was", "versions that were")
        ));
    }
    print_missing_keys(report);
}

fn print_missing_keys(report: &KeyringReport) {
    match &report.without_key {
        WithoutKey::Known { listed, unlisted } => {
            for (name, version) in listed {
                trouble(&format!("no key: {} (version {version})", name.display()));
            }
            if *unlisted > 0 {
                trouble(&format!("no key: {} that can't be listed without it", count(*unlisted, "version")));
            }
            let without = report.without_key.count();
            if without > 0 {
                trouble(&format!(
                    "{} no key; an older or newer copy of the keys may have it",
                    phrase(without, "version has", "versions have")
                ));
            }
            if report.listable > 0 {
                let versions =
                    phrase(report.listable, "version that could not be listed has its", "versions that could not be listed have their");
                note(&format!("{versions} key now; `fulgurite catalogue rebuild` lists what was missing"));
            }
        }
        WithoutKey::Counted { versions: 0, .. } => {}
        WithoutKey::Counted { versions, why } => {
            let why = match why {
                // `attach` merges the keys before it builds the catalogue.
                CatalogueUnavailable::Missing(_) => String::new(),
                why => format!(" The catalogue can't be read ({why})."),
            };
            trouble(&format!(
                "{}.{why} An older or newer copy of the keys may have what is missing",
                phrase(*versions, "version has no key, so its name is not known", "versions have no key, so their names are not known")
            ));
        }
    }
}

pub(crate) fn report_json(report: &KeyringReport) -> Value {
    let copies: Vec<Value> = report
        .copies
        .iter()
        .map(|copy| {
            let file = copy.path.to_string_lossy();
            json!({ "file": file, "keys": copy.keys, "added": copy.added, "corrected_blocks": copy.corrected, "damage": copy.damage })
        })
        .collect();
    let salvaged = report.salvaged.as_ref().map(|salvaged| {
        json!({
            "damage": salvaged.damage, "keys": salvaged.keys, "unreadable_bytes": salvaged.unreadable,
            "kept_as": salvaged.moved_to.as_ref().map(|moved_to| moved_to.to_string_lossy()),
        })
    });
    let named = match &report.without_key {
        WithoutKey::Known { listed, .. } => {
            let version = |(name, version): &(ObjectName, u64)| json!({ "name": name_json(name), "version": version });
            Value::from(listed.iter().map(version).collect::<Vec<_>>())
        }
        WithoutKey::Counted { .. } => Value::Null,
    };
    json!({
        "keys": report.keys, "salvaged": salvaged, "copies": copies, "removed": report.removed,
        "still_listed": report.still_listed, "disputed": report.conflicting,
        "without_key": report.without_key.count(), "without_key_names": named, "listable": report.listable, "unread": report.unread,
    })
}

pub(crate) fn read_passphrases(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>> {
    paths.iter().map(|path| read_passphrase(path)).collect()
}

/// The single line of a passphrase file, without its line ending.
fn read_passphrase(path: &Path) -> Result<Vec<u8>> {
    let content = std::fs::read(path).with_context(|| format!("can't read the passphrase file {}", path.display()))?;
    let line = content.strip_suffix(b"\n").unwrap_or(&content);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.contains(&b'\n') {
        bail!("the passphrase file {} must contain exactly one line, the passphrase", path.display());
    }
    Ok(line.to_vec())
}
