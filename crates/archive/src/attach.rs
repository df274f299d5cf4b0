//! Attaching: restores an archive whose folder was lost, from its stores and a copy of its keys.
//!
//! ```text
//! marks of the stores    -> identifier of the archive, names of its stores
//! headers of platters    -> shape and size of sets, what is missing of them
//! copies of the keys     -> master.key, keys.db
//! file tables, staging   -> catalogue.db
//! ```
//!
//! The stores and the copies of the keys are checked before the first file is written, and the
//! settings are written last: a folder without settings is not an archive. A failed attempt removes
//! its own files; the files of a killed attempt are used by the next one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_domain::{ArchiveId, Medium, SetId, SetShape};
use fulgurite_format::MasterKey;

use crate::archive::{
    Archive, ArchiveError, CATALOGUE_FILE, KEYS_FILE, Parts, check_master_key, check_places, folder_stores, write_master_key, write_new,
};
use crate::catalogue::{CatalogueError, SqliteCatalogue};
use crate::database::{SUFFIXES, check_whole, remove_database, with_suffix};
use crate::entropy::random;
use crate::inventory::{Inventory, Mention, inventory_staging};
use crate::keyring::{KeyCopies, KeyringError, KeyringReport, Mode, merge_copies, own_master_key};
use crate::lock::{LOCK_FILE, Lock};
use crate::packing::glass_geometry;
use crate::rebuild::{RebuildReport, Unseen, UnseenPlace};
use crate::settings::{
    self, ArchiveSettings, DecodeSettings, GlassPreset, GlassSettings, Limits, MediumSettings, SetSettings, Settings, StagingSettings,
    StoreSettings,
};
use crate::staging::{STAGING_MARK, Staging};
use crate::store::{BadMark, FolderStore, GlassDrives, Mark, MediumStore, PlatterStore, STORE_MARK, StoreError};
use crate::store_changes::is_same_folder;
use crate::tables::read_header;
use crate::unread::Hindrance;
use crate::volume::{FolderVolume, sync_folder};
use crate::watch::Watcher;

/// The sources from which an archive is restored.
#[derive(Debug, Clone, Default)]
pub struct Remains {
    /// Folders of stores, with names for stores that lost their marks.
    pub stores: Vec<(Option<String>, PathBuf)>,
    /// Copies of the keys.
    pub keys: Vec<PathBuf>,
    /// Passphrases to try on the copies.
    pub passphrases: Vec<Vec<u8>>,
    /// Shape of sets; overrides the one derived from existing sets.
    pub shape: Option<SetShape>,
    /// Content limit of a platter, MiB; `None` for what is usual on the medium.
    pub platter_mib: Option<u64>,
}

/// Why an archive can't be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The folder already contains an archive.
    #[error(
        "{0} holds an archive already, and has its own settings. If its stores have moved, change their paths in {file}; \
         if its keys are lost, use `fulgurite keys import`; if its catalogue is lost, `fulgurite catalogue rebuild`",
        file = settings::FILE
    )]
    Exists(PathBuf),
    /// A folder is not a store.
    #[error(
        "{0} is not a store: it has neither a mark nor platters. Is the disk mounted? If it is a new disk in place of one that is gone, \
         attach the archive without it; `fulgurite status` then says how the new disk takes the place of the absent store. \
         Nothing was changed"
    )]
    NotAStore(PathBuf),
    /// A folder does not exist.
    #[error("{0} does not exist. Is the disk mounted? Nothing was changed")]
    NoFolder(PathBuf),
    /// A folder can't be listed.
    #[error("can't list the platters in {path}: {source}. Nothing was changed")]
    Unlisted {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The same folder is given twice.
    #[error("{0} is given twice; give each store once. Nothing was changed")]
    GivenTwice(PathBuf),
    /// Two folders are the same store.
    #[error(
        "{} and {} are both store {name}: one is a copy of the other, or the names given are the same. Give one of them, or other names. \
         Nothing was changed", .paths[0].display(), .paths[1].display()
    )]
    SameStore {
        /// The name of both.
        name: String,
        /// The folders.
        paths: [PathBuf; 2],
    },
    /// A mark can't be read.
    #[error("{path}: can't tell which archive this store belongs to: {mark}. {}", match mark {
        BadMark::Newer(_) => "Use that version of fulgurite or a newer one",
        _ => "If it is a store of this archive, remove the mark; attach then identifies it by its platters",
    })]
    BadMark {
        /// The folder.
        path: PathBuf,
        /// What is wrong with the mark.
        mark: BadMark,
    },
    /// No header of a store without a mark can be read.
    #[error("{0} has no mark, and none of its platters has a readable header, so its archive can't be determined")]
    Unknown(PathBuf),
    /// The stores belong to several archives.
    #[error("these are stores of different archives; attach them one by one: {}. Nothing was changed", by_archive(.0))]
    SeveralArchives(BTreeMap<ArchiveId, Vec<PathBuf>>),
    /// Sealed versions exist, but no keys were given.
    #[error(
        "archive {archive} holds at least {sealed} encrypted versions, which can't be read without their keys; give a copy of the keys \
         with --keys FILE. Nothing was changed"
    )]
    NoKeys {
        /// The archive.
        archive: ArchiveId,
        /// Number of sealed versions.
        sealed: u64,
    },
    /// The folder contains a catalogue that can't be used.
    #[error("can't use the existing {path}: {source}. Move it away, and it will be rebuilt. Nothing was changed")]
    Catalogue {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CatalogueError,
    },
    /// The keys can't be used.
    #[error(transparent)]
    Keys(#[from] KeyringError),
    /// An operation on the archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

fn by_archive(stores: &BTreeMap<ArchiveId, Vec<PathBuf>>) -> String {
    let of = |(id, paths): (&ArchiveId, &Vec<PathBuf>)| {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        format!("{} of archive {id}", paths.join(", "))
    };
    stores.iter().map(of).collect::<Vec<_>>().join("; ")
}

impl From<StoreError> for AttachError {
    fn from(error: StoreError) -> Self {
        Self::Archive(error.into())
    }
}

/// Result of attaching.
#[derive(Debug)]
pub struct AttachReport {
    /// The settings as written.
    pub settings: Settings,
    /// How the shape of sets was derived.
    pub shape_from: ShapeFrom,
    /// Names in the settings for stores that were not given.
    pub absent_stores: Vec<String>,
    /// Platters found.
    pub platters: u64,
    /// Sets of which some platters are on none of the given stores.
    pub incomplete_sets: Vec<IncompleteSet>,
    /// Result for the keys.
    pub keyring: KeyringReport,
    /// Result of rebuilding the catalogue; `None` if a good one existed and was kept.
    pub rebuild: Option<RebuildReport>,
    /// Damage found on the given stores, one sentence each.
    pub unread: Vec<String>,
}

impl AttachReport {
    /// True if stores or platters of the archive are missing.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.absent_stores.is_empty() || !self.incomplete_sets.is_empty()
    }

    /// True if removals may be unknown, because their tombstones may be on platters that were not
    /// read, as `verify` sees it. Then a version without a key may simply have been removed.
    #[must_use]
    pub fn may_miss_tombstones(&self) -> bool {
        let unseen = self.rebuild.as_ref().is_some_and(|rebuild| !rebuild.unseen.is_empty());
        unseen || self.keyring.unread_tables > 0 || self.absent_stores.len() > usize::from(self.settings.set.redundancy)
    }
}

/// A set of which some platters are on none of the given stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncompleteSet {
    /// The set.
    pub set: SetId,
    /// Number of its platters.
    pub platters: u64,
    /// Number of platters not found.
    pub missing: u64,
    /// Number of platters that can be missing without loss.
    pub redundancy: u64,
}

/// How the shape of sets was derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeFrom {
    /// The caller gave it.
    Caller,
    /// From a set large enough to show it.
    Sets,
    /// From the number of stores, because no set shows it.
    Stores,
}

struct GivenStore {
    path: PathBuf,
    name: Option<String>,
    archive: ArchiveId,
    marked: bool,
}

/// Restores the archive of the given stores in the folder `home`.
///
/// # Errors
/// [`AttachError`]. Nothing that existed before was changed then, except that the key store of an
/// earlier attempt may have gained keys or been repaired. Nothing is left that would block the next
/// attempt.
pub fn attach(
    home: &Path,
    remains: &Remains,
    default_shape: &dyn Fn(usize) -> SetShape,
    watcher: &dyn Watcher,
) -> Result<AttachReport, AttachError> {
    if home.join(settings::FILE).exists() {
        return Err(AttachError::Exists(home.to_owned()));
    }
    let given = inspect_stores(&remains.stores)?;
    let archive = given.first().map_or(ArchiveId([0; 16]), |store| store.archive);
    let copies = KeyCopies::read_and_check(&remains.keys, &remains.passphrases, archive, None)?;
    let opened: Vec<Arc<dyn PlatterStore>> = given.iter().map(|store| store.open()).collect();
    let inventory = Inventory::of_unchecked(archive, &opened, watcher);
    let medium = medium_of_sets(&inventory);
    let platter_mib = remains.platter_mib.unwrap_or_else(|| medium.default_platter_mib());
    let mut settings = Settings {
        archive: ArchiveSettings { id: archive, encrypt: copies.is_some(), master_key: "master.key".into() },
        limits: Limits::default(),
        staging: StagingSettings::default(),
        set: SetSettings { information: 1, redundancy: 0, platter_mib },
        medium,
        decode: DecodeSettings::default(),
        stores: name_stores(&given),
    };
    let (newest, sealed) = newest_and_sealed(home, &settings, &inventory, watcher)?;
    settings.archive.encrypt = newest.unwrap_or(copies.is_some());
    let (shape, shape_from) = match remains.shape {
        Some(shape) => (shape, ShapeFrom::Caller),
        None => shape_of_sets(&inventory, given.len(), default_shape),
    };
    (settings.set.information, settings.set.redundancy) = (shape.information, shape.redundancy);
    let absent_stores = add_absent(&mut settings);
    let mut text = settings.to_file();
    for name in &absent_stores {
        let entry = format!("[[store]]\nname = \"{name}\"\n");
        text = text.replace(&entry, &format!("{ABSENT_COMMENT}{entry}"));
    }
    let settings = Settings::parse(&text, &home.join(settings::FILE)).map_err(ArchiveError::from)?;
    let own_keys = home.join(&settings.archive.master_key).exists() && home.join(KEYS_FILE).exists();
    if sealed > 0 && copies.is_none() && !own_keys {
        return Err(AttachError::NoKeys { archive, sealed });
    }
    let mut attempt = Attempt { made: Vec::new(), complete: false };
    let report = NewArchive { home, settings: &settings, text: &text, copies: copies.as_ref(), given: &given, unseen: others(&inventory) }
        .make(&mut attempt, watcher)?;
    attempt.complete = true;
    let (mut keyring, rebuild) = report;
    // Absent stores and unreadable platters are in the report already, and the rebuild reported
    // unreadable tables and damaged segments.
    keyring.unread.clear();
    Ok(AttachReport {
        incomplete_sets: incomplete_sets(&inventory),
        shape_from,
        absent_stores,
        platters: inventory.platters,
        keyring,
        rebuild,
        unread: inventory.unread,
        settings,
    })
}

/// The medium of the newest set, so that new sets are like it.
fn medium_of_sets(inventory: &Inventory<'_>) -> MediumSettings {
    let newest = inventory.sets.last().map(|set| &set.header).filter(|header| header.medium == Medium::Glass);
    let Some(header) = newest else { return MediumSettings::default() };
    let has_its_sectors = |preset: &GlassPreset| glass_geometry(*preset, 1).sector_bytes == header.geometry.sector_bytes;
    let preset = GlassPreset::ALL.into_iter().find(has_its_sectors).unwrap_or(GlassPreset::Desk);
    MediumSettings::Glass(GlassSettings { preset, ..GlassSettings::default() })
}

fn incomplete_sets(inventory: &Inventory<'_>) -> Vec<IncompleteSet> {
    let incomplete = inventory.sets.iter().filter(|set| set.missing() > 0).map(|set| IncompleteSet {
        set: set.header.set,
        platters: set.header.members.len() as u64,
        missing: set.missing() as u64,
        redundancy: set.header.shape.redundancy.into(),
    });
    incomplete.collect()
}

const ABSENT_COMMENT: &str = "# Absent when the archive was attached. If it turns up, `fulgurite store add FOLDER` puts it here.\n\
    # If it is lost, set the path to an empty folder on a new disk and run `fulgurite store replace`.\n";

/// Prefix for names of stores that were not given.
pub(crate) const ABSENT: &str = "absent-";

impl GivenStore {
    /// Opens the store for reading, without checking its mark.
    fn open(&self) -> Arc<dyn PlatterStore> {
        let name = self.name.clone().unwrap_or_else(|| self.path.display().to_string());
        let files = FolderStore::new(name, self.archive, Arc::new(FolderVolume::new(self.path.clone())));
        let drives = GlassDrives::new(GlassSettings::default(), Limits::default().threads);
        Arc::new(MediumStore::new(Arc::new(files), drives))
    }
}

/// Reads the marks, or headers of platters if a store has no mark.
fn inspect_stores(stores: &[(Option<String>, PathBuf)]) -> Result<Vec<GivenStore>, AttachError> {
    let mut given = Vec::with_capacity(stores.len());
    for (name, path) in stores {
        let volume = Arc::new(FolderVolume::new(path.clone()));
        let text = FolderStore::mark_in(volume)?;
        if let Some(Mark { archive, name }) = text.as_deref().and_then(Mark::parse) {
            given.push(GivenStore { path: path.clone(), name: Some(name), archive, marked: true });
            continue;
        }
        let store = GivenStore { path: path.clone(), name: name.clone(), archive: ArchiveId([0; 16]), marked: false };
        let opened = store.open();
        let platters = match opened.list() {
            Ok(platters) => platters,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(AttachError::Unlisted { path: path.clone(), source }),
        };
        match (platters.iter().find_map(|platter| read_header(&*opened, *platter).ok()), text) {
            (Some(header), None) => given.push(GivenStore { archive: header.archive, ..store }),
            (None, None) if platters.is_empty() && !path.exists() => return Err(AttachError::NoFolder(path.clone())),
            (None, None) if platters.is_empty() => return Err(AttachError::NotAStore(path.clone())),
            (None, None) => return Err(AttachError::Unknown(path.clone())),
            // A mark is never overwritten.
            (_, Some(found)) => return Err(AttachError::BadMark { path: path.clone(), mark: BadMark::of(&found) }),
        }
    }
    check_distinct(&given)?;
    let mut stores: BTreeMap<ArchiveId, Vec<PathBuf>> = BTreeMap::new();
    for store in &given {
        stores.entry(store.archive).or_default().push(store.path.clone());
    }
    if stores.len() > 1 {
        return Err(AttachError::SeveralArchives(stores));
    }
    Ok(given)
}

/// Checks that no store is given twice.
fn check_distinct(given: &[GivenStore]) -> Result<(), AttachError> {
    for (index, store) in given.iter().enumerate() {
        for other in &given[..index] {
            if is_same_folder(&store.path, &other.path) {
                return Err(AttachError::GivenTwice(store.path.clone()));
            }
            if let Some(name) = store.name.as_ref().filter(|name| store.archive == other.archive && other.name.as_ref() == Some(name)) {
                return Err(AttachError::SameStore { name: name.clone(), paths: [other.path.clone(), store.path.clone()] });
            }
        }
    }
    Ok(())
}

/// What the given stores say about others.
fn others(inventory: &Inventory<'_>) -> Option<Unseen> {
    let why = if inventory.platters == 0 {
        "the given stores contain no platters"
    } else if inventory.sets.iter().any(|set| set.missing() > 0) {
        "some sets have platters on none of the given stores"
    } else {
        return None;
    };
    Some(Unseen { place: UnseenPlace::Others, hindrance: Hindrance::Absent, why: why.to_owned() })
}

/// The store sections of the settings. A store without a mark gets the given name, or the first
/// free one of `d1`, `d2` …
fn name_stores(given: &[GivenStore]) -> Vec<StoreSettings> {
    let mut taken: Vec<String> = given.iter().filter_map(|store| store.name.clone()).collect();
    let mut name = |store: &GivenStore| match &store.name {
        Some(name) => name.clone(),
        None => {
            let free = (1..).map(|number| format!("d{number}")).find(|name| !taken.contains(name)).expect("numbers don't end");
            taken.push(free.clone());
            free
        }
    };
    given.iter().map(|store| StoreSettings { name: name(store), path: store.path.clone() }).collect()
}

/// Derives the shape from the sets. A set with several information platters and more than one track
/// on each has the shape of the former settings; a smaller one may have fewer information platters,
/// but has their redundancy.
fn shape_of_sets(inventory: &Inventory<'_>, stores: usize, default_shape: &dyn Fn(usize) -> SetShape) -> (SetShape, ShapeFrom) {
    let shown = inventory.sets.iter().rev().find(|set| set.header.shape.information > 1 && set.header.geometry.information_tracks > 1);
    if let Some(set) = shown {
        return (set.header.shape, ShapeFrom::Sets);
    }
    let widest = inventory.sets.iter().map(|set| usize::from(set.header.shape.platters())).max().unwrap_or(0);
    let guess = default_shape(stores.max(widest));
    match inventory.sets.last() {
        None => (guess, ShapeFrom::Stores),
        Some(set) => {
            let redundancy = set.header.shape.redundancy;
            let information = guess.platters().saturating_sub(redundancy).max(set.header.shape.information);
            (SetShape { information, redundancy }, ShapeFrom::Stores)
        }
    }
}

/// A set needs one store for each platter. Stores that were not given get a name and a folder that
/// does not exist.
fn add_absent(settings: &mut Settings) -> Vec<String> {
    let needed = usize::from(settings.shape().platters());
    let mut names = Vec::new();
    for number in 1.. {
        if settings.stores.len() >= needed {
            break;
        }
        let name = format!("{ABSENT}{number}");
        if settings.stores.iter().all(|store| store.name != name) {
            settings.stores.push(StoreSettings { name: name.clone(), path: name.clone().into() });
            names.push(name);
        }
    }
    names
}

/// Puts a store in place of an absent one in the text of the settings. `false` if no store is
/// absent.
pub(crate) fn take_absent_place(text: &mut String, store: &StoreSettings) -> bool {
    let place = |number: u32| {
        let name = format!("{ABSENT}{number}");
        StoreSettings { path: name.clone().into(), name }.to_toml()
    };
    // An entry that was edited no longer counts as absent.
    let Some(entry) = (1..1_000).map(place).find(|entry| text.contains(entry.as_str())) else { return false };
    let commented = format!("{ABSENT_COMMENT}{entry}");
    let found = if text.contains(&commented) { commented } else { entry };
    *text = text.replacen(&found, &store.to_toml(), 1);
    true
}

/// Whether the newest version is sealed, and the number of sealed versions that were not removed.
fn newest_and_sealed(
    home: &Path,
    settings: &Settings,
    inventory: &Inventory<'_>,
    watcher: &dyn Watcher,
) -> Result<(Option<bool>, u64), ArchiveError> {
    let mut versions = BTreeMap::new();
    let mut on_mention = |mention| match mention {
        Mention::Version { id, sealed } => _ = versions.entry(id).or_insert(Some(sealed)),
        Mention::Tombstone { id } => _ = versions.insert(id, None),
    };
    inventory.read_tables(settings.limits.threads, watcher, &mut on_mention);
    let staging = home.join(&settings.staging.path);
    if staging.exists() {
        let staging = Staging::in_folder(&staging, settings);
        inventory_staging(&staging, &mut on_mention)?;
    }
    // Identifiers sort by time.
    let newest = versions.values().rev().find_map(|sealed| *sealed);
    Ok((newest, versions.values().filter(|sealed| **sealed == Some(true)).count() as u64))
}

/// Files and folders that an attempt created. They are removed if it fails.
struct Attempt {
    made: Vec<PathBuf>,
    complete: bool,
}

impl Attempt {
    fn will_make(&mut self, path: PathBuf) {
        if !path.exists() {
            self.made.push(path);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.complete {
            return;
        }
        for path in self.made.iter().rev() {
            // Folders that are not empty stay.
            let _ = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        }
    }
}

struct NewArchive<'a> {
    home: &'a Path,
    settings: &'a Settings,
    text: &'a str,
    copies: Option<&'a KeyCopies>,
    given: &'a [GivenStore],
    unseen: Option<Unseen>,
}

impl NewArchive<'_> {
    fn make(&self, attempt: &mut Attempt, watcher: &dyn Watcher) -> Result<(KeyringReport, Option<RebuildReport>), AttachError> {
        let Self { home, settings, .. } = *self;
        attempt.will_make(home.to_owned());
        std::fs::create_dir_all(home).map_err(ArchiveError::io(home))?;
        attempt.will_make(home.join(LOCK_FILE));
        let _lock = Lock::take(home)?;
        check_places(home, settings)?;
        let staging = home.join(&settings.staging.path);
        attempt.will_make(staging.clone());
        std::fs::create_dir_all(&staging).map_err(ArchiveError::io(&staging))?;
        attempt.will_make(staging.join(STAGING_MARK));
        Staging::in_folder(&staging, settings).mark().map_err(ArchiveError::from)?;
        let master_key = home.join(&settings.archive.master_key);
        attempt.will_make(master_key.clone());
        if self.copies.is_none() && own_master_key(home, settings)?.is_none() {
            write_master_key(&master_key, &MasterKey::new(random()))?;
        }
        let has_catalogue = self.has_catalogue()?;
        // Stores that only lost their mark get a new one: they can't be used without it.
        for (store, given) in folder_stores(home, settings).iter().zip(self.given) {
            if !given.marked {
                attempt.will_make(home.join(&given.path).join(STORE_MARK));
                store.mark()?;
            }
        }
        attempt.will_make(home.join(KEYS_FILE));
        let keyring = merge_copies(home, settings, self.copies, Mode::Attach, watcher)?;
        let rebuild = if has_catalogue { None } else { Some(self.build_catalogue(attempt, watcher)?) };
        write_new(&home.join(settings::FILE), self.text.as_bytes())?;
        Ok((keyring, rebuild))
    }

    /// True if the folder has a catalogue. Fails if that catalogue can't be used.
    fn has_catalogue(&self) -> Result<bool, AttachError> {
        let path = self.home.join(CATALOGUE_FILE);
        if !path.exists() {
            return Ok(false);
        }
        match SqliteCatalogue::open(&path, self.settings.archive.id) {
            Ok(_) => Ok(true),
            Err(source) => Err(AttachError::Catalogue { path, source }),
        }
    }

    fn build_catalogue(&self, attempt: &mut Attempt, watcher: &dyn Watcher) -> Result<RebuildReport, AttachError> {
        let Self { home, settings, .. } = *self;
        let path = home.join(CATALOGUE_FILE);
        let fresh = home.join(format!("{CATALOGUE_FILE}.attaching"));
        attempt.made.extend(SUFFIXES.map(|suffix| with_suffix(&fresh, suffix)));
        let _ = remove_database(&fresh);
        let archive = Archive::assemble(home, Parts::with_new_catalogue(home, settings.clone(), &fresh)?);
        check_master_key(&archive)?;
        let (report, _) = archive.rebuild_from(None, self.unseen.clone(), watcher)?;
        archive.catalogue().note_staging_mark().map_err(ArchiveError::from)?;
        // Closing checkpoints the log into the file.
        drop(archive);
        check_whole(&fresh)?;
        attempt.will_make(path.clone());
        std::fs::rename(&fresh, &path).map_err(ArchiveError::io(&path))?;
        sync_folder(home).map_err(ArchiveError::io(home))?;
        Ok(report)
    }
}
