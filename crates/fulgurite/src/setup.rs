//! The commands `init`, `store add`, `store replace` and `catalogue`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_archive::archive::read_settings;
use fulgurite_archive::catalogue::{Unlisted, UnlistedVersion};
use fulgurite_archive::settings::{
    ArchiveSettings, GlassSettings, Limits, MediumSettings, SetSettings, Settings, StagingSettings, StoreSettings,
};
use fulgurite_archive::{
    Access, Archive, GivenUp, RebuildReport, ReplaceReport, Replaced, UnseenPlace, UnseenStores, count_shared_numbers, rebuild_catalogue,
};
use fulgurite_domain::{SetId, SetShape};
use serde_json::json;

use crate::args::{Forget, Init};
use crate::diagnostics;
use crate::list::{PAGE, names_of, places_text};
use crate::nested_stores;
use crate::own::OwnVersions;
use crate::owner;
use crate::progress::Progress;
use crate::text::{count, phrase};
use crate::{Outcome, Session};

pub(crate) fn init(session: &Session, init: &Init) -> Result<Outcome> {
    let home = session.new_home(init.folder.as_deref())?;
    let stores = parse_stores(&init.stores)?;
    nested_stores::check(&home, &[], &stores)?;
    let shape = init.set.unwrap_or_else(|| default_shape(stores.len()));
    let medium = match init.medium.as_str() {
        "glass" => MediumSettings::Glass(GlassSettings::default()),
        _ => MediumSettings::default(),
    };
    let settings = new_settings(stores, shape, medium, init.platter_mib, !init.clear_text);
    let staging = home.join(&settings.staging.path);
    let new_folders = missing_folders(settings.stores.iter().map(|store| store.path.as_path()).chain([&*home, &*staging]));
    let home = create(&home, &settings).inspect_err(|_| {
        // Removes the created folders that are still empty; removing any other folder fails.
        new_folders.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
    })?;
    session.answer(|| json!({ "archive": settings.archive.id.to_string(), "folder": home, "set": shape.to_string() }));
    session.say(&format!("Created archive {} in {}.", settings.archive.id, home.display()));
    session.say(&format!(
        "A set has {} platters on as many stores; {} may be lost.",
        shape,
        match shape.redundancy {
            0 => "none".to_owned(),
            lost => format!("{lost} of them"),
        }
    ));
    if shape.redundancy == 0 {
        diagnostics::note("such a set does not survive the loss of a store. For safety, use several stores, each on its own disk.");
    }
    for names in on_one_device(&home, &settings.stores) {
        note_one_device(&names);
    }
    if settings.archive.encrypt {
        session.say("Objects are encrypted, and can't be read without the keys: keep a copy of them elsewhere (`fulgurite keys export`).");
    }
    Ok(Outcome::Good)
}

/// The missing folders that creating `folders` would create, innermost first.
fn missing_folders<'a>(folders: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let missing = folders.flat_map(|folder| folder.ancestors().filter(|above| !above.as_os_str().is_empty() && !above.exists()));
    let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    missing.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    missing
}

fn create(home: &Path, settings: &Settings) -> Result<PathBuf> {
    let home = create_home(home)?;
    Archive::init(&home, settings)?;
    Ok(home)
}

/// Creates the folder of an archive if it doesn't exist, and returns its canonical path.
pub(crate) fn create_home(home: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(home).with_context(|| format!("can't create the archive's folder {}", home.display()))?;
    home.canonicalize().with_context(|| home.display().to_string())
}

pub(crate) fn new_settings(
    stores: Vec<StoreSettings>,
    shape: SetShape,
    medium: MediumSettings,
    platter_mib: Option<u64>,
    encrypt: bool,
) -> Settings {
    let platter_mib = platter_mib.unwrap_or_else(|| medium.default_platter_mib());
    Settings {
        archive: ArchiveSettings { id: fulgurite_archive::new_archive_id(), encrypt, master_key: "master.key".into() },
        limits: Limits::default(),
        staging: StagingSettings::default(),
        set: SetSettings { information: shape.information, redundancy: shape.redundancy, platter_mib },
        medium,
        decode: fulgurite_archive::settings::DecodeSettings::default(),
        stores,
    }
}

/// Parses `FOLDER` or `NAME=FOLDER` into the name, if given, and the absolute path, so that
/// commands work from any folder.
pub(crate) fn parse_store(text: &str) -> Result<(Option<String>, PathBuf)> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') => (Some(name.to_owned()), path),
        _ => (None, text),
    };
    if path.is_empty() {
        bail!("invalid store {text:?}: no folder given; expected FOLDER or NAME=FOLDER");
    }
    let path = std::path::absolute(path).with_context(|| path.to_owned())?;
    if path.to_str().is_none() {
        bail!("{}: folder names in the settings file must be UTF-8", path.display());
    }
    Ok((name, path))
}

/// Parses the stores of a new archive. Those without a name are called d1, d2 and so on.
pub(crate) fn parse_stores(texts: &[String]) -> Result<Vec<StoreSettings>> {
    let store = |(number, text): (u64, &String)| {
        let (name, path) = parse_store(text)?;
        Ok(StoreSettings { name: name.unwrap_or_else(|| format!("d{number}")), path })
    };
    (1..).zip(texts).map(store).collect()
}

/// The default set shape: as many stores as possible, up to the 16+3 of Project Silica. Two or
/// three stores may lose one, four to nine may lose two, more may lose three.
pub(crate) fn default_shape(stores: usize) -> SetShape {
    let stores = stores.min(19) as u16;
    let redundancy = match stores {
        0 | 1 => 0,
        2 | 3 => 1,
        4..=9 => 2,
        _ => 3,
    };
    SetShape { information: stores.max(1) - redundancy, redundancy }
}

/// The names of stores that share a file system, grouped by file system.
fn on_one_device<'a>(home: &Path, stores: &'a [StoreSettings]) -> Vec<Vec<&'a str>> {
    use std::os::unix::fs::MetadataExt;
    let mut devices: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for store in stores {
        if let Ok(metadata) = std::fs::metadata(home.join(&store.path)) {
            devices.entry(metadata.dev()).or_default().push(&store.name);
        }
    }
    devices.into_values().filter(|names| names.len() > 1).collect()
}

fn note_one_device(names: &[&str]) {
    diagnostics::note(&format!("stores {} are on one file system and would be lost with it.", names.join(", ")));
}

pub(crate) fn add_store(session: &Session, text: &str) -> Result<Outcome> {
    let home = session.home()?;
    let known = read_settings(&home)?.stores;
    let (name, path) = parse_store(text)?;
    let mut free = (known.len() + 1..).map(|number| format!("d{number}")).filter(|name| known.iter().all(|store| store.name != *name));
    let name = name.or_else(|| free.next()).expect("numbers don't end");
    let store = StoreSettings { name, path };
    nested_stores::check(&home, &known, std::slice::from_ref(&store))?;
    owner::note_if_root_changes(&home);
    let added = fulgurite_archive::add_store(&home, &store)?;
    session.answer(|| json!({ "store": added.name, "folder": added.path }));
    session.say(&format!("Added store {} in {}. New sets and recovered platters may go there.", added.name, added.path.display()));
    let stores = read_settings(&home)?.stores;
    for names in on_one_device(&home, &stores).iter().filter(|names| names.contains(&&*added.name)) {
        note_one_device(names);
    }
    Ok(Outcome::Good)
}

pub(crate) fn replace_store(session: &Session, name: &str) -> Result<Outcome> {
    let home = session.home()?;
    owner::note_if_root_changes(&home);
    let ReplaceReport { replaced, platters, missing } = fulgurite_archive::replace_store(&home, name)?;
    let done = match replaced {
        Replaced::InPlace => "nothing",
        Replaced::SetUp => "set up",
        Replaced::MarkWritten => "mark written",
    };
    session.answer(|| json!({ "store": name, "done": done, "platters": platters, "missing": missing }));
    match replaced {
        Replaced::InPlace => session.say(&format!("Store {name} is in place and has its mark, so nothing was changed.")),
        Replaced::SetUp => session.say(&format!("Store {name} is set up. `fulgurite scrub` recovers the platters that belong on it.")),
        Replaced::MarkWritten => session.say(&format!(
            "Wrote the mark of store {name} again, and kept the {} in its folder. `fulgurite verify` reads them.",
            count(platters, "platter")
        )),
    }
    if let Some(missing @ 1..) = missing.filter(|_| replaced != Replaced::SetUp) {
        let missing = phrase(missing, "platter that belongs on it is", "platters that belong on it are");
        session.say(&format!("{missing} not there; `fulgurite scrub` recovers what is missing."));
    }
    Ok(Outcome::Good)
}

pub(crate) fn rebuild(session: &Session, without_unseen: bool) -> Result<Outcome> {
    let home = session.home()?;
    let progress = Progress::keeping_lost(session.quiet, session.json);
    let unseen = if without_unseen { UnseenStores::GoOn } else { UnseenStores::Refuse };
    let report = rebuild_catalogue(&home, unseen, &progress)?;
    let archive = Archive::open(&home, Access::Read)?;
    let shared = count_shared_numbers(&archive, &progress)?;
    let own = OwnVersions::count(&archive)?;
    progress.finish();
    session.answer(|| json!({
        "platters": report.platters, "sets": report.sets, "missing_platters": report.missing, "archived": report.archived,
        "staged": report.staged, "deleted": report.deleted, "lost_sets": report.lost_sets, "lost_tables": report.lost_tables, "incomplete": report.incomplete,
        "no_key": report.no_key, "carried_over": report.carried_over, "shared_numbers": shared, "own_versions": own.versions, "gone": report.gone, "lost": progress.take_lost(),
        "unseen": report.unseen.iter().map(|unseen| unseen.place.to_string()).collect::<Vec<_>>(), "surplus_keys": report.surplus_keys, "old_catalogue": report.kept,
    }));
    say_rebuilt(session, &report, own);
    if shared > 0 {
        session.say(&shared_text(shared));
    }
    let hindrance = report.unseen.iter().map(|away| away.hindrance).max();
    Ok(Outcome::troubled_if(report.has_losses()).worst(Outcome::hindered(hindrance)))
}

/// Describes version numbers that several versions of a name share.
pub(crate) fn shared_text(numbers: u64) -> String {
    let shared = phrase(
        numbers,
        "version number is shared by several versions of a name",
        "version numbers are shared by several versions of a name",
    );
    format!("{shared}: `get` and `rm` require --id for these.")
}

fn say_rebuilt(session: &Session, report: &RebuildReport, own: OwnVersions) {
    let versions = |number| count(number, "version");
    session.say(&format!(
        "Read {} of {}; {} not found.",
        count(report.platters, "platter"),
        count(report.sets, "set"),
        phrase(report.missing, "platter was", "platters were"),
    ));
    session.say(&format!("Found {} on platters and {}.", versions(report.archived), phrase(report.staged, "in staging", "in staging")));
    own.included().inspect(|text| session.say(text));
    if report.deleted > 0 {
        session.say(&format!("Left out {} removed according to tombstones.", versions(report.deleted)));
    }
    if report.carried_over > 0 {
        session.say(&format!("Carried over {} that only the old catalogue knew.", versions(report.carried_over)));
    }
    if report.no_key > 0 {
        session.say(&format!(
            "No key: {} in the key store. All bytes are kept. `fulgurite keys import` a newer copy of the keys, then rebuild again.",
            phrase(report.no_key, "version has no key", "versions have no keys")
        ));
    }
    if report.incomplete + report.gone > 0 {
        session.say(&format!("Lost: {}, named above.", versions(report.incomplete + report.gone)));
    }
    if report.lost_sets > 0 {
        session.say(&format!("Lost: what is on {}, named above.", count(report.lost_sets, "set")));
    }
    if report.lost_tables > 0 {
        session.say(&format!("Unknown: the content of {} whose file table can't be read.", count(report.lost_tables, "platter")));
    }
    let others = report.unseen.iter().find(|unseen| unseen.place == UnseenPlace::Others);
    let not_read: Vec<UnseenPlace> =
        report.unseen.iter().map(|unseen| unseen.place.clone()).filter(|place| *place != UnseenPlace::Others).collect();
    if !not_read.is_empty() {
        session.say(&format!("Not read: {}, see above.", places_text(&not_read)));
    }
    if let Some(others) = others {
        session.say(&format!("Not found: {}", others.why));
    }
    if let Some(kept) = &report.kept {
        session.say(&format!("The old catalogue could not be read completely; it is kept as {}.", kept.display()));
    }
}

pub(crate) fn forget(session: &Session, forget: &Forget) -> Result<Outcome> {
    if forget.unseen {
        // `Access::Repair`: uncatalogued platters of incompletely seen sets must not block this.
        return forget_unseen(session, &session.open(Access::Repair)?);
    }
    let archive = session.open(Access::Write)?;
    if !forget.sets.is_empty() {
        return forget_sets(session, &archive, &forget.sets);
    }
    let mut chosen = Vec::new();
    for id in &forget.ids {
        match find_unlisted(&archive, &id.to_lowercase())? {
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
    session.answer(|| json!({ "forgotten": chosen.len() }));
    session.say(&format!("Gave up {} permanently.", count(chosen.len() as u64, "version")));
    Ok(Outcome::Good)
}

/// The version with this identifier, if it can't be listed.
fn find_unlisted(archive: &Archive, id: &str) -> Result<Option<UnlistedVersion>> {
    let mut after = None;
    loop {
        let page = archive.catalogue().unlisted(after, PAGE)?;
        let Some(last) = page.last() else { return Ok(None) };
        after = Some(last.id);
        if let found @ Some(_) = page.into_iter().find(|version| version.id.to_string() == id) {
            return Ok(found);
        }
    }
}

fn forget_unseen(session: &Session, archive: &Archive) -> Result<Outcome> {
    let GivenUp { places, platters } = archive.give_up_unseen()?;
    let left_out: Vec<String> = platters.iter().map(ToString::to_string).collect();
    session.answer(|| json!({ "forgotten_unseen": names_of(&places), "left_out": left_out }));
    session.say(&match places.is_empty() {
        true => "The last rebuild saw everything, so nothing was given up.".to_owned(),
        false => format!("Gave up what the last rebuild did not see: {}.", places_text(&places)),
    });
    if !left_out.is_empty() {
        session.say(&format!(
            "Left out {}, of which too little can be read: {}. If the rest turns up, `fulgurite catalogue rebuild` finds them again.",
            count(left_out.len() as u64, "platter"),
            left_out.join(", ")
        ));
    }
    Ok(Outcome::Good)
}

fn forget_sets(session: &Session, archive: &Archive, named: &[String]) -> Result<Outcome> {
    let sets: Vec<SetId> = archive.catalogue().sets()?.iter().map(|set| set.description.id).collect();
    let mut chosen = Vec::new();
    for name in named {
        let mut matching = sets.iter().filter(|set| set.to_string().starts_with(&name.to_lowercase()));
        match (matching.next(), matching.next()) {
            (Some(set), None) if chosen.contains(set) => {}
            (Some(set), None) => chosen.push(*set),
            (Some(_), Some(_)) => bail!("the identifiers of several sets begin with {name}; give more of it. Nothing was given up"),
            (None, _) => bail!("no set's identifier begins with {name}; `fulgurite platters` lists them. Nothing was given up"),
        }
    }
    for (before, set) in (0..).zip(&chosen) {
        let given_up = archive.give_up_set(*set);
        match before {
            0 => given_up?,
            _ => {
                given_up.with_context(|| format!("{} given up", phrase(before, "set named before it was", "sets named before it were")))?
            }
        }
    }
    let given_up = chosen.len() as u64;
    session.answer(|| json!({ "forgotten_sets": given_up }));
    session.say(&format!("Gave up {} permanently.", count(given_up, "set")));
    Ok(Outcome::Good)
}

pub(crate) fn check(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    archive.catalogue().check()?;
    session.answer(|| json!({ "sound": true }));
    session.say("The catalogue is sound.");
    Ok(Outcome::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_set_uses_every_store_and_survives_the_loss_of_some() {
        let shapes = [1, 2, 3, 4, 6, 9, 10, 19, 30].map(|stores| default_shape(stores).to_string());
        assert_eq!(shapes, ["1+0", "1+1", "2+1", "2+2", "4+2", "7+2", "7+3", "16+3", "16+3"]);
    }
}
