//! Adds stores to an archive, replaces their disks, and restores lost marks.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_domain::{ArchiveId, PlatterId};

use crate::archive::{ArchiveError, CATALOGUE_FILE, check_places, folder_store, folder_stores, read_settings};
use crate::catalogue::{Catalogue as _, SetState, SqliteCatalogue, UNKNOWN_STORE};
use crate::folder_mark::part_of_mark;
use crate::lock::Lock;
use crate::settings::{self, Settings};
use crate::store::{BadMark, FolderStore, Mark, PlatterStore, STORE_MARK, StoreError, check_all};
use crate::tables::read_header;
use crate::volume::{FolderVolume, sync_folder};

/// Adds a store to the archive in `home`: creates and marks its folder, and adds it to the
/// settings. A folder that is already a store of this archive, by its mark or by its platters,
/// joins under the name in its mark, if it has one, and replaces the entry of a store that was
/// absent when the archive was attached. Returns the store's settings.
///
/// # Errors
/// [`ArchiveError`]; the settings are unchanged then.
pub fn add_store(home: &Path, store: &settings::StoreSettings) -> Result<settings::StoreSettings, ArchiveError> {
    let file = home.join(settings::FILE);
    let known = read_settings(home)?;
    let archive = known.archive.id;
    let _lock = Lock::take(home)?;
    let mut store = store.clone();
    let folder = home.join(&store.path);
    let stores = folder_stores(home, &known);
    if let Some(index) = known.stores.iter().position(|store| is_same_folder(&home.join(&store.path), &folder)) {
        let trouble = check_all(&stores).swap_remove(index).err().map(Box::new);
        return Err(ArchiveError::Configured { store: known.stores[index].name.clone(), path: folder, trouble });
    }
    let found = FolderStore::mark_in(Arc::new(FolderVolume::new(folder.clone())))?;
    let mark = found.as_deref().and_then(Mark::parse).filter(|mark| mark.archive == archive);
    let joins = mark.is_some() || (found.is_none() && has_own_platters(home, &known, &stores, &store)?);
    if let Some(mark) = mark {
        if let Some(configured) = known.stores.iter().find(|store| store.name == mark.name) {
            return Err(ArchiveError::Moved { store: mark.name, place: home.join(&configured.path), found: folder });
        }
        store.name = mark.name;
    }
    let mut text = std::fs::read_to_string(&file).map_err(ArchiveError::io(&file))?;
    if !joins || !crate::attach::take_absent_place(&mut text, &store) {
        text.truncate(text.trim_end().len());
        text.push_str("\n\n");
        text.push_str(&store.to_toml());
    }
    let settings = Settings::parse(&text, &file)?;
    std::fs::create_dir_all(&folder).map_err(ArchiveError::io(&folder))?;
    check_places(home, &settings)?;
    folder_store(home, &settings, &store).mark().map_err(StoreError::or_taken)?;
    let fresh = home.join(format!("{}.new", settings::FILE));
    let write = || {
        let mut written = File::options().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        written.write_all(text.as_bytes())?;
        written.set_permissions(std::fs::metadata(&file)?.permissions())?;
        written.sync_all()?;
        std::fs::rename(&fresh, &file)?;
        sync_folder(home)
    };
    write().map_err(ArchiveError::io(&file))?;
    Ok(store)
}

/// True if two paths lead to one folder, however they are written.
pub(crate) fn is_same_folder(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// True if a folder without a mark has platters, all of this archive.
fn has_own_platters(
    home: &Path,
    settings: &Settings,
    stores: &[Arc<dyn PlatterStore>],
    added: &settings::StoreSettings,
) -> Result<bool, ArchiveError> {
    let archive = settings.archive.id;
    let store = folder_store(home, settings, added);
    let platters = store.list().map_err(StoreError::io(&*store))?;
    if platters.is_empty() {
        return Ok(false);
    }
    let taken = |found: String, archive: Option<ArchiveId>| {
        ArchiveError::from(StoreError::Taken { store: added.name.clone(), place: store.place(), found, archive })
    };
    let mut has_header = false;
    for header in platters.iter().filter_map(|platter| read_header(&*store, *platter).ok()) {
        has_header = true;
        if header.archive != archive {
            let found = format!("the folder has platters of another archive, {}", header.archive);
            return Err(taken(found, Some(header.archive)));
        }
    }
    if !has_header {
        let found = "none of the platters in the folder has a readable header, so their archive can't be checked";
        return Err(taken(found.to_owned(), None));
    }
    let checked = check_all(stores);
    let is_away = |name: &str| stores.iter().zip(&checked).any(|(store, checked)| store.name() == name && checked.is_err());
    let places = platter_places(home, archive).unwrap_or_default();
    match platters.iter().filter_map(|platter| places.get(platter)).find(|name| is_away(name)) {
        Some(name) => Err(ArchiveError::PlattersOf { store: name.clone(), found: home.join(&added.path) }),
        None => Ok(true),
    }
}

/// What [`replace_store`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// Nothing: the store is in place and has its mark.
    InPlace,
    /// It set up an empty folder.
    SetUp,
    /// It wrote a lost or damaged mark again. The folder has the store's platters.
    MarkWritten,
}

/// Result of [`replace_store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplaceReport {
    /// What was done.
    pub replaced: Replaced,
    /// Platters in the store's folder.
    pub platters: u64,
    /// Platters that the catalogue expects there and that aren't there; `None` if the catalogue
    /// can't be read.
    pub missing: Option<u64>,
}

/// Marks the folder of a store anew after its disk was replaced with an empty one; a scrub then
/// writes the store's platters to it. If only the mark is lost or damaged and the platters in the
/// folder prove to be the store's, writes the mark again and keeps the platters.
///
/// # Errors
/// [`ArchiveError::NotEmpty`] if the folder has files but no platters, [`ArchiveError::NotProven`]
/// if its platters may be those of another store, [`StoreError::Foreign`] if it has the mark
/// of another store; otherwise whatever failed.
pub fn replace_store(home: &Path, name: &str) -> Result<ReplaceReport, ArchiveError> {
    let settings = read_settings(home)?;
    let _lock = Lock::take(home)?;
    let index = settings.stores.iter().position(|store| store.name == name);
    let index = index.ok_or_else(|| ArchiveError::UnknownStore(name.to_owned()))?;
    let stores = folder_stores(home, &settings);
    let store = &*stores[index];
    let places = platter_places(home, settings.archive.id);
    let is_in_place = match check_all(&stores).swap_remove(index) {
        Ok(()) => true,
        Err(StoreError::Unmarked { .. } | StoreError::BadMark { mark: BadMark::Empty | BadMark::Damaged(_), .. }) => false,
        Err(error) => return Err(error.into()),
    };
    let place = home.join(&settings.stores[index].path);
    let is_empty = is_in_place || is_empty_but_for_mark(name, &place)?;
    let found = store.list().map_err(StoreError::io(store))?;
    let replaced = match (is_in_place, found.is_empty()) {
        (true, _) => Replaced::InPlace,
        (false, false) => {
            let places = places.as_ref().map_err(|why| not_proven(name, format!("can't check whose platters are in its folder: {why}")))?;
            prove(&stores, index, &found, places, settings.archive.id)?;
            Replaced::MarkWritten
        }
        (false, true) if is_empty => Replaced::SetUp,
        (false, true) => return Err(ArchiveError::NotEmpty(place)),
    };
    if !is_in_place {
        store.restore_mark()?;
    }
    let missing = |places: HashMap<PlatterId, String>| {
        places.iter().filter(|(platter, store)| *store == name && !found.contains(platter)).count() as u64
    };
    Ok(ReplaceReport { replaced, platters: found.len() as u64, missing: places.ok().map(missing) })
}

/// True if a store's folder is as good as empty: an invalid or unfinished mark, `lost+found` and an
/// empty folder for platters don't count.
fn is_empty_but_for_mark(store: &str, place: &Path) -> Result<bool, ArchiveError> {
    // The operator must create the folder; it may be missing because a disk isn't mounted.
    let no_folder = |is_file| ArchiveError::NoFolder { store: store.to_owned(), path: place.to_owned(), is_file };
    let entries = std::fs::read_dir(place).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => no_folder(false),
        io::ErrorKind::NotADirectory => no_folder(true),
        _ => ArchiveError::io(place)(error),
    })?;
    for entry in entries {
        let entry = entry.map_err(ArchiveError::io(place))?;
        let name = entry.file_name();
        // A folder of platters without any file is what a store begins with.
        let is_empty_folder = || std::fs::read_dir(entry.path()).is_ok_and(|mut inside| inside.next().is_none());
        // An unfinished mark counts as a lost one.
        let is_mark = name == STORE_MARK || name == part_of_mark(STORE_MARK).as_str();
        let is_expected = name == "lost+found" || is_mark || (name == "platters" && is_empty_folder());
        if !is_expected {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The store of every platter of a complete set, according to the catalogue; or why the catalogue
/// can't be read.
fn platter_places(home: &Path, archive: ArchiveId) -> Result<HashMap<PlatterId, String>, String> {
    let path: PathBuf = home.join(CATALOGUE_FILE);
    if !path.exists() {
        return Err(format!("the catalogue {} does not exist", path.display()));
    }
    let rows = SqliteCatalogue::open_read_only(&path, archive).and_then(|mut catalogue| catalogue.platters());
    let complete = rows.map_err(|error| error.to_string())?.into_iter().filter(|row| row.state == SetState::Complete);
    Ok(complete.map(|row| (row.place.platter, row.place.store)).collect())
}

fn not_proven(store: &str, why: String) -> ArchiveError {
    ArchiveError::NotProven { store: store.to_owned(), why }
}

/// Checks that the platters in the folder of a store are the store's. The catalogue must expect one
/// of them there, or expect none on this store while the folder holds platters of this archive
/// whose store it doesn't know. None may belong to another store that lacks it. Of the platters
/// without a known store, those that another store has as well prove nothing: they may be copies.
fn prove(
    stores: &[Arc<dyn PlatterStore>],
    index: usize,
    found: &[PlatterId],
    places: &HashMap<PlatterId, String>,
    archive: ArchiveId,
) -> Result<(), ArchiveError> {
    let store = &*stores[index];
    let name = store.name();
    let others: Vec<_> = stores.iter().enumerate().filter(|&(other, store)| other != index && store.check().is_ok()).collect();
    let has = |store: &Arc<dyn PlatterStore>, platter| matches!(store.open(platter), Ok(Some(file)) if file.not_a_file().is_none());
    let is_on = |name: &str, platter| others.iter().any(|(_, other)| other.name() == name && has(other, platter));
    let is_copy = |platter| others.iter().any(|(_, other)| has(other, platter));
    let (mut own, mut without_store) = (0_u64, 0_u64);
    let mut of_others: BTreeMap<&str, u64> = BTreeMap::new();
    for &platter in found {
        match places.get(&platter).map(String::as_str) {
            Some(place) if place == name => own += 1,
            None | Some(UNKNOWN_STORE) => match read_header(store, platter) {
                Ok(header) if header.archive != archive => {
                    return Err(not_proven(name, format!("platter {platter} in its folder is of archive {}", header.archive)));
                }
                Ok(_) if !is_copy(platter) => without_store += 1,
                Ok(_) => {}
                Err(_) => {}
            },
            Some(place) if is_on(place, platter) => {}
            Some(place) => *of_others.entry(place).or_default() += 1,
        }
    }
    if let Some((other, platters)) = of_others.first_key_value() {
        let why = format!("its folder has {platters} of the platters of store {other}, so it may be that store's disk");
        return Err(not_proven(name, why));
    }
    let expects_none = places.values().all(|place| place != name);
    if own > 0 || (expects_none && without_store > 0) {
        return Ok(());
    }
    Err(not_proven(name, format!("the catalogue expects none of the {} platters in its folder there", found.len())))
}
