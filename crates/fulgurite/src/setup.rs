//! The commands `init`, `store` and `catalogue`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_archive::archive::read_settings;
use fulgurite_archive::catalogue::{Unlisted, UnlistedVersion};
use fulgurite_archive::settings::{ArchiveSettings, Limits, SetSettings, Settings, StagingSettings, StoreSettings};
use fulgurite_archive::{Access, Archive, RebuildReport, UnseenStores, count_shared_numbers, rebuild_catalogue};
use fulgurite_domain::SetId;
use serde_json::json;

use crate::args::{Forget, Init, Rebuild, StoreAdd, StoreReplace};
use crate::diagnostics;
use crate::list::names_of;
use crate::progress::Progress;
use crate::text::count;
use crate::{Outcome, Session, open};

pub(crate) fn init(session: &Session, init: &Init) -> Result<Outcome> {
    let home = match init.folder.clone().or_else(|| session.archive.clone()) {
        Some(home) => home,
        None => std::env::current_dir().context("can't determine the current folder")?,
    };
    let made = missing_folders(std::iter::once(home.as_path()));
    std::fs::create_dir_all(&home).with_context(|| format!("can't create the archive's folder {}", home.display()))?;
    let outcome = init_in(session, init, &home);
    if outcome.is_err() {
        // Removes the folders created above that are still empty; removing any other folder fails.
        made.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
    }
    outcome
}

/// The missing folders that creating `folders` would create, innermost first.
fn missing_folders<'a>(folders: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let missing = folders.flat_map(|folder| folder.ancestors().filter(|above| !above.as_os_str().is_empty() && !above.exists()));
    let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    missing.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    missing
}

fn init_in(session: &Session, init: &Init, home: &Path) -> Result<Outcome> {
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
    let staging = home.join(&settings.staging.path);
    let made = missing_folders(settings.stores.iter().map(|store| store.path.as_path()).chain([staging.as_path()]));
    if let Err(error) = Archive::init(&home, &settings) {
        made.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
        return Err(error.into());
    }
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
        diagnostics::note("such a set does not survive the loss of a store. For safety, use several stores, each on its own disk.");
    }
    for names in on_one_device(&settings.stores) {
        diagnostics::note(&format!("stores {} are on one file system and would be lost with it.", names.join(", ")));
    }
    if settings.archive.encrypt {
        session.say("Objects are encrypted, and can't be read without the keys: keep a copy of them elsewhere (`fulgurite keys export`).");
    }
    Ok(Outcome::Good)
}

/// Parses `FOLDER` or `NAME=FOLDER`. Paths become absolute, so that commands work from any folder.
pub(crate) fn store(index: usize, text: &str) -> Result<StoreSettings> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') => (name.to_owned(), path),
        _ => (format!("d{}", index + 1), text),
    };
    if path.is_empty() {
        bail!("--store {text}: no folder given; expected FOLDER or NAME=FOLDER");
    }
    let path = std::path::absolute(PathBuf::from(path)).with_context(|| path.to_owned())?;
    if path.to_str().is_none() {
        bail!("{}: folder names in the settings file must be UTF-8", path.display());
    }
    Ok(StoreSettings { name, path })
}

/// The default set shape: as many stores as possible, up to the 16+3 of Project Silica. Two or
/// three stores may lose one, four to nine may lose two, more may lose three.
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

/// The names of stores that share a file system, grouped by file system.
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
    // The first free name of the form dN.
    let number = (known.len()..).find(|number| known.iter().all(|store| store.name != format!("d{}", number + 1)));
    let added = store(number.expect("numbers don't end"), &add.store)?;
    let added = fulgurite_archive::add_store(&home, &added)?;
    if session.json {
        session.answer(&json!({ "store": added.name, "folder": added.path }));
    }
    session.say(&format!("Added store {} in {}. New sets and recovered platters may go there.", added.name, added.path.display()));
    Ok(Outcome::Good)
}

pub(crate) fn replace_store(session: &Session, replace: &StoreReplace) -> Result<Outcome> {
    fulgurite_archive::replace_store(&session.home()?, &replace.name)?;
    if session.json {
        session.answer(&json!({ "store": replace.name }));
    }
    session.say(&format!("Store {} is set up. `fulgurite scrub` recovers the platters that belong on it.", replace.name));
    Ok(Outcome::Good)
}

pub(crate) fn rebuild(session: &Session, rebuild: &Rebuild) -> Result<Outcome> {
    let home = session.home()?;
    let progress = Progress::keeping_lost(session.quiet, session.json);
    let unseen = if rebuild.without_unseen { UnseenStores::GoOn } else { UnseenStores::Refuse };
    let report = rebuild_catalogue(&home, unseen, &progress)?;
    let shared = count_shared_numbers(&open(&home, Access::Read)?, &progress)?;
    progress.finish();
    if session.json {
        session.answer(&json!({
            "platters": report.platters, "sets": report.sets, "missing_platters": report.missing, "archived": report.archived,
            "staged": report.staged, "deleted": report.deleted, "lost_tables": report.lost_tables, "incomplete": report.incomplete,
            "no_key": report.no_key, "carried_over": report.carried_over, "shared_numbers": shared, "gone": report.gone, "lost": progress.lost(),
            "unseen": report.unseen.iter().map(|unseen| unseen.place.to_string()).collect::<Vec<_>>(), "surplus_keys": report.surplus_keys, "old_catalogue": report.kept,
        }));
    }
    say_rebuilt(session, &report);
    if shared > 0 {
        session.say(&shared_text(shared));
    }
    let hindrance = report.unseen.iter().map(|away| away.hindrance).max();
    Ok(Outcome::troubled_if(report.has_losses()).worst(Outcome::hindered(hindrance)))
}

/// Describes version numbers that several versions of a name share.
pub(crate) fn shared_text(numbers: u64) -> String {
    let shared = count(
        numbers,
        "version number is shared by several versions of a name",
        "version numbers are shared by several versions of a name",
    );
    format!("{shared}: `get` and `rm` require --id for these.")
}

fn say_rebuilt(session: &Session, report: &RebuildReport) {
    let versions = |number| count(number, "version", "versions");
    session.say(&format!(
        "Read {} of {}; {} not found.",
        count(report.platters, "platter", "platters"),
        count(report.sets, "set", "sets"),
        count(report.missing, "platter was", "platters were"),
    ));
    session.say(&format!("Found {} on platters and {} in staging.", versions(report.archived), report.staged));
    if report.deleted > 0 {
        session.say(&format!("Left out {} removed according to tombstones.", versions(report.deleted)));
    }
    if report.carried_over > 0 {
        session.say(&format!("Carried over {} that only the old catalogue knew.", versions(report.carried_over)));
    }
    if report.no_key > 0 {
        session.say(&format!(
            "No key: {} in the key store. All bytes are kept. `fulgurite keys import` a newer copy of the keys, then rebuild again.",
            count(report.no_key, "version has no key", "versions have no keys")
        ));
    }
    if report.incomplete + report.gone > 0 {
        session.say(&format!("Lost: {}, named above.", versions(report.incomplete + report.gone)));
    }
    if report.lost_tables > 0 {
        session
            .say(&format!("Unknown: the content of {} whose file table can't be read.", count(report.lost_tables, "platter", "platters")));
    }
    for unseen in &report.unseen {
        session.say(&format!("Not read: {}", unseen.why));
    }
    if let Some(kept) = &report.kept {
        session.say(&format!("The old catalogue could not be read completely; it is kept as {}.", kept.display()));
    }
}

pub(crate) fn forget(session: &Session, forget: &Forget) -> Result<Outcome> {
    let archive = session.open(Access::Write)?;
    if forget.unseen {
        return forget_unseen(session, &archive);
    }
    if !forget.sets.is_empty() {
        return forget_sets(session, &archive, &forget.sets);
    }
    let mut chosen = Vec::new();
    for id in &forget.ids {
        let mut after = None;
        let found = loop {
            let page = archive.catalogue().unlisted(after, 1_000)?;
            let Some(last) = page.last() else { break None };
            after = Some(last.id);
            if let Some(version) = page.into_iter().find(|version| version.id.to_string() == id.to_lowercase()) {
                break Some(version);
            }
        };
        match found {
            Some(UnlistedVersion { why: Unlisted::UnseenStore, .. }) => {
                bail!("{id} is not a version; `fulgurite catalogue rebuild` looks again. Nothing was given up")
            }
            Some(UnlistedVersion { id: version, why: Unlisted::NoKey, .. }) if archive.keys().get(version)?.is_some() => {
                bail!("the key of version {id} is back; `fulgurite catalogue rebuild` lists it again. Nothing was given up")
            }
            Some(version) => chosen.push(version),
            None => bail!("no unlisted version has the identifier {id}; `fulgurite verify` names them. Nothing was given up"),
        }
    }
    archive.give_up(&chosen)?;
    if session.json {
        session.answer(&json!({ "forgotten": chosen.len() }));
    }
    session.say(&format!("Gave up {} permanently.", count(chosen.len() as u64, "version", "versions")));
    Ok(Outcome::Good)
}

fn forget_unseen(session: &Session, archive: &Archive) -> Result<Outcome> {
    let places = names_of(&archive.give_up_unseen()?);
    if session.json {
        session.answer(&json!({ "forgotten_unseen": places }));
    }
    session.say(&match places.is_empty() {
        true => "The last rebuild saw everything, so nothing was given up.".to_owned(),
        false => format!("Gave up what the last rebuild did not see: {}.", places.join(", ")),
    });
    Ok(Outcome::Good)
}

fn forget_sets(session: &Session, archive: &Archive, named: &[String]) -> Result<Outcome> {
    let sets: Vec<SetId> = archive.catalogue().sets()?.iter().map(|set| set.description.id).collect();
    let mut given_up = 0;
    for name in named {
        let mut matching = sets.iter().filter(|set| set.to_string().starts_with(&name.to_lowercase()));
        match (matching.next(), matching.next()) {
            (Some(set), None) => archive.give_up_set(*set)?,
            (Some(_), Some(_)) => bail!("the identifiers of several sets begin with {name}; give more of it"),
            (None, _) => bail!("no set's identifier begins with {name}; `fulgurite platters` lists them"),
        }
        given_up += 1;
    }
    if session.json {
        session.answer(&json!({ "forgotten_sets": given_up }));
    }
    session.say(&format!("Gave up {} permanently.", count(given_up, "set", "sets")));
    Ok(Outcome::Good)
}

pub(crate) fn check(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    archive.catalogue().check()?;
    session.say("The catalogue is sound.");
    Ok(Outcome::Good)
}

/// The canonical form of a path, if it exists.
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
