//! The command `attach`: recreates an archive whose folder is lost.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fulgurite_archive::settings::StoreSettings;
use fulgurite_archive::{Access, Archive, AttachReport, RebuildReport, Remains, ShapeFrom, UnseenPlace};
use serde_json::{Value, json};

use crate::args::Attach;
use crate::diagnostics::{note, trouble};
use crate::keys::{print_report, read_passphrases, report_json};
use crate::nested_stores;
use crate::own::OwnVersions;
use crate::progress::Progress;
use crate::setup::{default_shape, parse_store};
use crate::text::{count, path};
use crate::{Outcome, Session};

pub(crate) fn attach(session: &Session, attach: &Attach) -> Result<Outcome> {
    let home = session.new_home(attach.folder.as_deref())?;
    let home = std::path::absolute(&home).with_context(|| home.display().to_string())?;
    let stores: Vec<_> = attach.stores.iter().map(|text| parse_store(text)).collect::<Result<_>>()?;
    check_nesting(&home, &stores)?;
    let remains = Remains {
        stores,
        keys: attach.keys.clone(),
        passphrases: read_passphrases(&attach.passphrase_file)?,
        shape: attach.set,
        platter_mib: attach.platter_mib,
    };
    let progress = Progress::new(session.quiet);
    let report = fulgurite_archive::attach(&home, &remains, &default_shape, &progress)?;
    progress.finish();
    // Attaching has succeeded, even if the archive's own versions can't be counted.
    let own = Archive::open(&home, Access::Read).ok().and_then(|archive| OwnVersions::count(&archive).ok()).unwrap_or_default();
    session.answer(|| answer(&home, &report, own));
    say(session, &home, &report, own);
    Ok(outcome(&report))
}

fn check_nesting(home: &Path, stores: &[(Option<String>, PathBuf)]) -> Result<()> {
    let settings = |(name, folder): &(Option<String>, PathBuf)| StoreSettings {
        name: name.clone().unwrap_or_else(|| path(folder)),
        path: folder.clone(),
    };
    nested_stores::check(home, &[], &stores.iter().map(settings).collect::<Vec<_>>())
}

fn outcome(report: &AttachReport) -> Outcome {
    // While platters are absent, unreadable versions are not known to be lost, and versions without
    // a key may have been removed.
    let has_losses = report.rebuild.as_ref().is_some_and(RebuildReport::has_losses);
    let no_key = report.keyring.without_key.count() > 0 && !report.may_miss_tombstones();
    let damaged_copy = report.keyring.copies.iter().any(|copy| copy.damage.is_some());
    if no_key || damaged_copy || (has_losses && !report.is_partial()) || !report.unread.is_empty() {
        return Outcome::Troubled;
    }
    let unseen = report.rebuild.as_ref().is_some_and(|rebuild| !rebuild.unseen.is_empty());
    if report.is_partial() || report.platters == 0 || unseen { Outcome::Absent } else { Outcome::Good }
}

fn say(session: &Session, home: &Path, report: &AttachReport, own: OwnVersions) {
    print_report(session, &report.keyring);
    for why in &report.unread {
        trouble(&format!("damaged: {why}"));
    }
    match &report.rebuild {
        Some(rebuild) => {
            session.say(&format!(
                "Found {} on {}.",
                count(rebuild.archived + rebuild.staged, "version"),
                count(report.platters, "platter")
            ));
            own.included().inspect(|text| session.say(text));
        }
        None => session.say("The catalogue in that folder is kept; `fulgurite catalogue rebuild` rebuilds it."),
    }
    if let Some(rebuild) = report.rebuild.as_ref().filter(|rebuild| rebuild.surplus_keys > 0) {
        for others in rebuild.unseen.iter().filter(|unseen| unseen.place == UnseenPlace::Others) {
            trouble(&format!("absent: {}", others.why));
        }
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

fn answer(home: &Path, report: &AttachReport, own: OwnVersions) -> Value {
    let AttachReport { settings, rebuild, .. } = report;
    let sets: Vec<Value> = report
        .incomplete_sets
        .iter()
        .map(|set| json!({ "set": set.set.to_string(), "platters": set.platters, "absent": set.missing, "redundancy": set.redundancy }))
        .collect();
    let store = |StoreSettings { name, path }: &StoreSettings| json!({ "store": name, "folder": path.to_string_lossy(), "absent": report.absent_stores.contains(name) });
    let stores: Vec<Value> = settings.stores.iter().map(store).collect();
    json!({
        "archive": settings.archive.id.to_string(), "folder": home.to_string_lossy(), "set": settings.shape().to_string(),
        "encrypt": settings.archive.encrypt, "stores": stores, "platters": report.platters, "incomplete_sets": sets,
        "versions": rebuild.as_ref().map(|rebuild| rebuild.archived + rebuild.staged), "keys": report_json(&report.keyring),
        "own_versions": own.versions,
        "surplus_keys": rebuild.as_ref().map(|rebuild| rebuild.surplus_keys), "unread": report.unread,
    })
}
