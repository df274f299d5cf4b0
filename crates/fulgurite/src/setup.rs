//! Making archives and catalogues.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_archive::archive::read_settings;
use fulgurite_archive::settings::{ArchiveSettings, Limits, SetSettings, Settings, StagingSettings, StoreSettings};
use fulgurite_archive::{Access, Archive, rebuild_catalogue};
use serde_json::json;

use crate::args::{Init, StoreAdd, StoreReplace};
use crate::progress::Progress;
use crate::text::count;
use crate::{Outcome, Session};

pub(crate) fn init(session: &Session, init: &Init) -> Result<Outcome> {
    let home = match init.folder.clone().or_else(|| session.archive.clone()) {
        Some(home) => home,
        None => std::env::current_dir().context("the current folder")?,
    };
    std::fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let home = home.canonicalize().with_context(|| home.display().to_string())?;
    let stores: Vec<StoreSettings> = init.stores.iter().enumerate().map(|(i, text)| store(i, text)).collect::<Result<_>>()?;
    let (information, redundancy) = match init.set {
        Some(shape) => shape,
        None => default_shape(stores.len()),
    };
    let settings = Settings {
        archive: ArchiveSettings { id: fulgurite_archive::new_archive_id(), encrypt: !init.clear_text, master_key: "master.key".into() },
        limits: Limits::default(),
        staging: StagingSettings::default(),
        set: SetSettings { information, redundancy, platter_mib: init.platter_mib },
        stores,
    };
    Archive::init(&home, &settings)?;
    if session.json {
        session.answer(&json!({ "archive": settings.archive.id.to_string(), "folder": home, "set": settings.shape().to_string() }));
    }
    session.say(&format!("Made archive {} in {}.", settings.archive.id, home.display()));
    session.say(&format!(
        "A set has {} platters on as many stores; {} may be lost.",
        settings.shape(),
        match redundancy {
            0 => "none".to_owned(),
            n => count(n.into(), "of them", "of them"),
        }
    ));
    if redundancy == 0 {
        eprintln!("note: with this set no store may be lost. Give more stores for safety.");
    }
    for names in on_one_device(&settings.stores) {
        eprintln!("note: stores {} are on one file system; what takes that takes all of them.", names.join(", "));
    }
    if settings.archive.encrypt {
        session.say("Objects are encrypted. Without the keys nobody can read them: keep a copy elsewhere (`fulgurite keys export`).");
    }
    Ok(Outcome::Good)
}

/// `FOLDER` or `NAME=FOLDER`. Folders are kept as absolute paths, so that it doesn't matter where commands are given.
pub(crate) fn store(index: usize, text: &str) -> Result<StoreSettings> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') => (name.to_owned(), path),
        _ => (format!("d{}", index + 1), text),
    };
    if path.is_empty() {
        bail!("--store {text}: a folder is expected");
    }
    let path = std::path::absolute(PathBuf::from(path)).with_context(|| path.to_owned())?;
    if path.to_str().is_none() {
        bail!("{}: the settings file can only name folders whose names are UTF-8", path.display());
    }
    Ok(StoreSettings { name, path })
}

/// As many stores as possible in a set, up to the 16+3 of Project Silica; of up to three stores one may be lost, of up to nine two.
pub(crate) fn default_shape(stores: usize) -> (u16, u16) {
    let stores = stores.min(19) as u16;
    let redundancy = match stores {
        0 | 1 => 0,
        2 | 3 => 1,
        4..=9 => 2,
        _ => 3,
    };
    (stores.max(1) - redundancy, redundancy)
}

/// The names of stores that share a file system, by file system.
fn on_one_device(stores: &[StoreSettings]) -> Vec<Vec<&str>> {
    use std::os::unix::fs::MetadataExt;
    let mut devices: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for store in stores {
        if let Ok(metadata) = std::fs::metadata(&store.path) {
            devices.entry(metadata.dev()).or_default().push(&store.name);
        }
    }
    devices.into_values().filter(|names| names.len() > 1).collect()
}

pub(crate) fn add_store(session: &Session, add: &StoreAdd) -> Result<Outcome> {
    let home = session.home()?;
    let known = read_settings(&home)?.stores;
    // The first name of its kind that is free.
    let number = (known.len()..).find(|number| known.iter().all(|store| store.name != format!("d{}", number + 1)));
    let added = store(number.expect("numbers don't end"), &add.store)?;
    fulgurite_archive::archive::add_store(&home, &added)?;
    if session.json {
        session.answer(&json!({ "store": added.name, "folder": added.path }));
    }
    session.say(&format!("Set up store {} in {}. New sets, and platters written anew, may go there.", added.name, added.path.display()));
    Ok(Outcome::Good)
}

pub(crate) fn replace_store(session: &Session, replace: &StoreReplace) -> Result<Outcome> {
    fulgurite_archive::archive::replace_store(&session.home()?, &replace.name)?;
    if session.json {
        session.answer(&json!({ "store": replace.name }));
    }
    session.say(&format!("Store {} is set up. `fulgurite scrub` writes the platters anew that should be on it.", replace.name));
    Ok(Outcome::Good)
}

pub(crate) fn rebuild(session: &Session) -> Result<Outcome> {
    let home = session.home()?;
    let progress = Progress::new(session.quiet);
    let report = rebuild_catalogue(&home, &progress)?;
    progress.finish();
    if session.json {
        session.answer(&json!({
            "platters": report.platters, "sets": report.sets, "missing_platters": report.missing, "archived": report.archived,
            "staged": report.staged, "deleted": report.deleted, "lost_tables": report.lost_tables, "incomplete": report.incomplete,
        }));
    }
    session.say(&format!(
        "Read {} of {}; {} not found.",
        count(report.platters, "platter", "platters"),
        count(report.sets, "set", "sets"),
        count(report.missing, "platter was", "platters were"),
    ));
    session.say(&format!("Found {} on platters and {} in staging.", count(report.archived, "version", "versions"), report.staged));
    if report.deleted > 0 {
        session.say(&format!("{} deleted, by tombstone or for want of a key.", count(report.deleted, "version is", "versions are")));
    }
    Ok(Outcome::troubled_if(report.lost_tables > 0 || report.incomplete > 0))
}

pub(crate) fn check(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    archive.catalogue().check()?;
    session.say("The catalogue is sound.");
    Ok(Outcome::Good)
}

/// The folder that a path stands for, if it exists.
pub(crate) fn canonical(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_set_uses_every_store_and_survives_the_loss_of_some() {
        let shapes: Vec<_> = [1, 2, 3, 4, 6, 9, 10, 19, 30].map(default_shape).into();
        assert_eq!(shapes, [(1, 0), (1, 1), (2, 1), (2, 2), (4, 2), (7, 2), (7, 3), (16, 3), (16, 3)]);
    }
}
