//! The command `attach`: recreates an archive whose folder is lost.

use std::path::PathBuf;

use anyhow::{Context, Result};
use fulgurite_archive::{AttachReport, RebuildReport, Remains, ShapeFrom, UnseenPlace};
use fulgurite_domain::SetShape;
use serde_json::{Value, json};

use crate::args::Attach;
use crate::diagnostics::{note, trouble};
use crate::keys::{read_passphrases, report_json, tell};
use crate::progress::Progress;
use crate::setup::{default_shape, store};
use crate::text::{count, path};
use crate::{Outcome, Session};

pub(crate) fn attach(session: &Session, attach: &Attach) -> Result<Outcome> {
    let home = match attach.folder.clone().or_else(|| session.archive.clone()) {
        Some(home) => std::path::absolute(&home).with_context(|| home.display().to_string())?,
        None => std::env::current_dir().context("can't determine the current folder")?,
    };
    let stores = attach.stores.iter().map(|text| {
        let named = text.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.contains('/'));
        store(0, text).map(|store| (named.then_some(store.name), store.path))
    });
    let remains = Remains {
        stores: stores.collect::<Result<Vec<(Option<String>, PathBuf)>>>()?,
        keys: attach.keys.clone(),
        passphrases: read_passphrases(&attach.passphrase_file)?,
        shape: attach.set.map(|(information, redundancy)| SetShape { information, redundancy }),
        platter_mib: attach.platter_mib,
    };
    let guess = |stores| {
        let (information, redundancy) = default_shape(stores);
        SetShape { information, redundancy }
    };
    let progress = Progress::new(session.quiet);
    let report = fulgurite_archive::attach(&home, &remains, &guess, &progress)?;
    progress.finish();
    if session.json {
        session.answer(&answer(&home, &report));
    }
    say(session, &home, &report);
    Ok(outcome(&report))
}

fn outcome(report: &AttachReport) -> Outcome {
    // While platters are absent, unreadable versions are not known to be lost, and versions without
    // a key may have been removed.
    let incomplete = report.rebuild.as_ref().is_some_and(RebuildReport::has_losses);
    let no_key = report.keyring.without_key.count() > 0 && !report.may_miss_tombstones();
    let damaged_copy = report.keyring.copies.iter().any(|copy| copy.damage.is_some());
    if no_key || damaged_copy || (incomplete && !report.is_partial()) || !report.unread.is_empty() {
        return Outcome::Troubled;
    }
    let unseen = report.rebuild.as_ref().is_some_and(|rebuild| !rebuild.unseen.is_empty());
    if report.is_partial() || report.platters == 0 || unseen { Outcome::Absent } else { Outcome::Good }
}

fn say(session: &Session, home: &std::path::Path, report: &AttachReport) {
    tell(session, &report.keyring);
    for why in &report.unread {
        trouble(&format!("damaged: {why}"));
    }
    match &report.rebuild {
        Some(rebuild) => session.say(&format!(
            "Found {} on {}.",
            count(rebuild.archived + rebuild.staged, "version", "versions"),
            count(report.platters, "platter", "platters")
        )),
        None => session.say("The catalogue in that folder is kept; `fulgurite catalogue rebuild` rebuilds it."),
    }
    if let Some(rebuild) = report.rebuild.as_ref().filter(|rebuild| rebuild.surplus_keys > 0) {
        rebuild
            .unseen
            .iter()
            .filter(|unseen| unseen.place == UnseenPlace::Others)
            .for_each(|others| trouble(&format!("absent: {}", others.why)));
    }
    if report.platters == 0 {
        trouble(
            "absent: all platters. The given stores don't show how many stores the archive has; if it has others, add each with \
             `fulgurite store add FOLDER`, then run `fulgurite catalogue rebuild`",
        );
    }
    for set in &report.incomplete_sets {
        trouble(&format!(
            "absent: {} of the {} platters of set {} {} on none of the given stores; {}",
            set.missing,
            set.platters,
            set.set,
            if set.missing == 1 { "is" } else { "are" },
            match set.missing > set.redundancy {
                true => "too many are missing: not everything on the set can be read until their stores are back",
                false => "the others make up for them",
            }
        ));
    }
    for name in &report.absent_stores {
        trouble(&format!("absent: a store that sets need; the settings call it {name}. When it turns up: `fulgurite store add FOLDER`"));
    }
    if report.keyring.without_key.count() > 0 && report.may_miss_tombstones() {
        note("versions without a key may have been removed; this is known once the absent platters are back");
    }
    let shape = report.settings.shape();
    session.say(&format!(
        "New sets have {shape} platters, {}.",
        match report.shape_from {
            ShapeFrom::Caller => "as given by --set",
            ShapeFrom::Sets => "as in the newest set",
            ShapeFrom::Stores => "chosen by the number of stores, because no set shows the previous shape; the settings can change it",
        }
    ));
    session.say(&format!("Attached archive {} in {}.", report.settings.archive.id, path(home)));
}

fn answer(home: &std::path::Path, report: &AttachReport) -> Value {
    let sets: Vec<Value> = report
        .incomplete_sets
        .iter()
        .map(|set| json!({ "set": set.set.to_string(), "platters": set.platters, "absent": set.missing, "redundancy": set.redundancy }))
        .collect();
    let stores: Vec<Value> = report
        .settings
        .stores
        .iter()
        .map(|store| json!({ "store": store.name, "folder": store.path.to_string_lossy(), "absent": report.absent_stores.contains(&store.name) }))
        .collect();
    json!({
        "archive": report.settings.archive.id.to_string(), "folder": home.to_string_lossy(), "set": report.settings.shape().to_string(),
        "encrypt": report.settings.archive.encrypt, "stores": stores, "platters": report.platters, "incomplete_sets": sets,
        "versions": report.rebuild.as_ref().map(|rebuild| rebuild.archived + rebuild.staged), "keys": report_json(&report.keyring),
        "surplus_keys": report.rebuild.as_ref().map(|rebuild| rebuild.surplus_keys),
        "unread": report.unread,
    })
}
