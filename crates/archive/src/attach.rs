//! Attaching: an archive whose folder is lost comes back from its stores and a copy of its keys.
//!
//! ```text
//! marks of the stores    -> identifier of the archive, names of its stores
//! headers of platters    -> shape and size of sets, what is missing of them
//! copies of the keys     -> master.key, keys.db
//! file tables, staging   -> catalogue.db
//! ```
//!
//! Everything is looked at before the first file is written, and the settings are written last: a folder without them isn't an archive. What an attempt
//! made that failed is removed again; what one left that was killed is used by the next.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_domain::{ArchiveId, SetId, SetShape};
use fulgurite_format::MasterKey;

use crate::archive::{
    Archive, ArchiveError, CATALOGUE_FILE, KEYS_FILE, Parts, Readers, check_places, folder_stores, open_keys, read_master_key, write_new,
};
use crate::catalogue::{CatalogueError, SqliteCatalogue};
use crate::chance::random;
use crate::keyring::{Copies, KeyringError, KeyringReport, Mode, bring_together, own_master_key};
use crate::lock::{LOCK_FILE, Lock};
use crate::rebuild::{RebuildReport, Unseen, UnseenPlace};
use crate::settings::{self, ArchiveSettings, Limits, SetSettings, Settings, StagingSettings, StoreSettings};
use crate::staging::{STAGING_MARK, Staging};
use crate::store::{FolderStore, Mark, PlatterStore, StoreError};
use crate::survey::{Mention, Survey, survey_staging};
use crate::tables::read_header;
use crate::unread::Hindrance;
use crate::volume::FolderVolume;
use crate::watch::Watcher;

/// What an archive is to be brought back from.
#[derive(Debug, Clone, Default)]
pub struct Remains {
    /// Folders of stores, and the names for those that have lost their marks.
    pub stores: Vec<(Option<String>, PathBuf)>,
    /// Copies of the keys.
    pub keys: Vec<PathBuf>,
    /// Passphrases to try on them.
    pub passphrases: Vec<Vec<u8>>,
    /// The shape of sets, instead of that of the newest.
    pub shape: Option<SetShape>,
    /// Most content of a platter, MiB.
    pub platter_mib: u64,
}

/// Why an archive can't be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is an archive in that folder.
    #[error(
        "{path} holds an archive already, with settings of its own. If its stores are elsewhere now, change their paths in {}; if its keys are lost, \
         use `fulgurite keys import`; if its catalogue is lost, `fulgurite catalogue rebuild`",
        settings::FILE
    )]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A folder is no store.
    #[error("{path} is not a store: it has neither a mark nor platters. Is the disk mounted?")]
    NotAStore {
        /// The folder.
        path: PathBuf,
    },
    /// A mark can't be read, and no header says whose the platters are.
    #[error("{path}: its mark can't be read ({found:?}), nor the header of any platter")]
    Unknown {
        /// The folder.
        path: PathBuf,
        /// What the mark says.
        found: String,
    },
    /// Stores of several archives.
    #[error("these are stores of different archives, which are attached one by one: {places}. Nothing was changed")]
    SeveralArchives {
        /// Which is of which.
        places: String,
    },
    /// Sealed objects, and no keys.
    #[error(
        "archive {archive} holds at least {sealed} encrypted versions, which nobody can read without their keys; give a copy of them with \
         --keys FILE. Nothing was changed"
    )]
    NoKeys {
        /// The archive.
        archive: ArchiveId,
        /// How many.
        sealed: u64,
    },
    /// The catalogue in the folder can't be used.
    #[error("{path} is there and can't be used: {source}. Move it away; it will be made anew. Nothing was changed")]
    Catalogue {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CatalogueError,
    },
    /// The keys can't be used.
    #[error(transparent)]
    Keys(#[from] KeyringError),
    /// Something of the archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl From<StoreError> for AttachError {
    fn from(error: StoreError) -> Self {
        Self::Archive(error.into())
    }
}

/// What was attached.
#[derive(Debug)]
pub struct AttachReport {
    /// The settings as they were written.
    pub settings: Settings,
    /// Why sets have the shape in the settings.
    pub shape_from: ShapeFrom,
    /// Names that the settings have for stores that were not given.
    pub absent_stores: Vec<String>,
    /// Platters found.
    pub platters: u64,
    /// Sets with platters on no store given: how many, of how many.
    pub incomplete_sets: Vec<IncompleteSet>,
    /// What came of the keys.
    pub keyring: KeyringReport,
    /// What came of the catalogue; `None` if there was a good one, which is kept.
    pub rebuild: Option<RebuildReport>,
    /// What is damaged of the stores given, a sentence each.
    pub unread: Vec<String>,
}

impl AttachReport {
    /// Whether stores or platters are missing of what the archive had.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.absent_stores.is_empty() || !self.incomplete_sets.is_empty()
    }

    /// Whether removals may be unknown, because the tombstones could be on platters that were not read: then a version without a key need not
    /// have lost it.
    #[must_use]
    pub fn may_miss_tombstones(&self) -> bool {
        self.keyring.unread_tables > 0 || self.absent_stores.len() > usize::from(self.settings.set.redundancy)
    }
}

/// A set with platters on no store given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncompleteSet {
    /// The set.
    pub set: SetId,
    /// Its platters.
    pub platters: u64,
    /// Those that were not found.
    pub missing: u64,
    /// How many may be missing without a loss.
    pub redundancy: u64,
}

/// Where the shape of sets comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeFrom {
    /// It was given.
    Caller,
    /// From a set that is large enough to show it.
    Sets,
    /// From how many stores there are: no set shows it.
    Stores,
}

/// A store that was given.
struct Given {
    path: PathBuf,
    name: Option<String>,
    archive: ArchiveId,
    marked: bool,
}

/// Brings back the archive whose stores these are, in the folder `home`.
///
/// # Errors
/// [`AttachError`]. Nothing that was there before was changed then, and nothing is left that a next try would trip over.
pub fn attach(
    home: &Path,
    remains: &Remains,
    default_shape: &dyn Fn(usize) -> SetShape,
    watcher: &dyn Watcher,
) -> Result<AttachReport, AttachError> {
    if home.join(settings::FILE).exists() {
        return Err(AttachError::Exists { path: home.to_owned() });
    }
    let given = look_at_stores(&remains.stores)?;
    let archive = given.first().map_or(ArchiveId([0; 16]), |store| store.archive);
    let copies = Copies::check(&remains.keys, &remains.passphrases, None)?;
    if let Some(copies) = &copies {
        copies.check_archive(archive)?;
    }
    let opened: Vec<Arc<dyn PlatterStore>> = given.iter().map(|store| store.open()).collect();
    let survey = Survey::of_unchecked(archive, &opened, watcher);
    let mut settings = Settings {
        archive: ArchiveSettings { id: archive, encrypt: copies.is_some(), master_key: "master.key".into() },
        limits: Limits::default(),
        staging: StagingSettings::default(),
        set: SetSettings { information: 1, redundancy: 0, platter_mib: remains.platter_mib },
        stores: name_stores(&given),
    };
    let (shape, shape_from) = match remains.shape {
        Some(shape) => (shape, ShapeFrom::Caller),
        None => shape_of_sets(&survey, given.len(), default_shape),
    };
    (settings.set.information, settings.set.redundancy) = (shape.information, shape.redundancy);
    let absent_stores = add_absent(&mut settings);
    let mut text = settings.to_file();
    for name in &absent_stores {
        let entry = format!("[[store]]\nname = \"{name}\"\n");
        text = text.replace(&entry, &format!("{ABSENT_COMMENT}{entry}"));
    }
    let settings = Settings::parse(&text, &home.join(settings::FILE)).map_err(ArchiveError::from)?;

    let (newest, sealed) = newest_and_sealed(home, &settings, &survey, watcher)?;
    let mut settings = settings;
    if let Some(newest_is_sealed) = newest
        && newest_is_sealed != settings.archive.encrypt
    {
        settings.archive.encrypt = newest_is_sealed;
        text = text.replacen(&format!("\nencrypt = {}\n", !newest_is_sealed), &format!("\nencrypt = {newest_is_sealed}\n"), 1);
    }
    let own_keys = home.join(&settings.archive.master_key).exists() && home.join(KEYS_FILE).exists();
    if sealed > 0 && copies.is_none() && !own_keys {
        return Err(AttachError::NoKeys { archive, sealed });
    }
    let mut attempt = Attempt { made: Vec::new(), complete: false };
    let report = Making { home, settings: &settings, text: &text, copies: copies.as_ref(), given: &given, unseen: others(&survey) }
        .make(&mut attempt, watcher)?;
    attempt.complete = true;
    let (mut keyring, rebuild) = report;
    // Of the stores that were not given, and told as that.
    keyring.unread.clear();
    let incomplete_sets = survey.sets.iter().filter(|set| set.missing() > 0).map(|set| IncompleteSet {
        set: set.header.set,
        platters: set.header.members.len() as u64,
        missing: set.missing() as u64,
        redundancy: set.header.shape.redundancy.into(),
    });
    Ok(AttachReport {
        incomplete_sets: incomplete_sets.collect(),
        shape_from,
        absent_stores,
        platters: survey.platters,
        keyring,
        rebuild,
        unread: survey.unread,
        settings,
    })
}

const ABSENT_COMMENT: &str = "# Not at hand when the archive was attached. When it turns up, `fulgurite store add FOLDER` gives this place to it; when it is\n\
    # lost, make the folder of a new disk's path here and use `fulgurite store replace`.\n";

/// Beginning of the names of stores that were not given.
const ABSENT: &str = "absent-";

impl Given {
    /// The store, for reading: its mark is not looked at.
    fn open(&self) -> Arc<dyn PlatterStore> {
        let name = self.name.clone().unwrap_or_else(|| self.path.display().to_string());
        Arc::new(FolderStore::new(name, self.archive, Arc::new(FolderVolume::new(self.path.clone()))))
    }
}

/// Reads marks, and headers where there is no mark.
fn look_at_stores(stores: &[(Option<String>, PathBuf)]) -> Result<Vec<Given>, AttachError> {
    let mut given = Vec::with_capacity(stores.len());
    for (name, path) in stores {
        let volume = Arc::new(FolderVolume::new(path.clone()));
        let text = FolderStore::mark_in(volume)?;
        if let Some(Mark { archive, name }) = text.as_deref().and_then(Mark::parse) {
            given.push(Given { path: path.clone(), name: Some(name), archive, marked: true });
            continue;
        }
        let store = Given { path: path.clone(), name: name.clone(), archive: ArchiveId([0; 16]), marked: false };
        let opened = store.open();
        let platters = opened.list().unwrap_or_default();
        match (platters.iter().find_map(|platter| read_header(&*opened, *platter).ok()), text) {
            (Some(header), None) => given.push(Given { archive: header.archive, ..store }),
            (None, None) => return Err(AttachError::NotAStore { path: path.clone() }),
            // A mark is never overwritten.
            (_, Some(found)) => return Err(AttachError::Unknown { path: path.clone(), found: found.chars().take(200).collect() }),
        }
    }
    let mut archives: BTreeMap<[u8; 16], Vec<String>> = BTreeMap::new();
    for store in &given {
        archives.entry(store.archive.0).or_default().push(store.path.display().to_string());
    }
    if archives.len() > 1 {
        let of = |(id, paths): (&[u8; 16], &Vec<String>)| format!("{} of archive {}", paths.join(", "), ArchiveId(*id));
        return Err(AttachError::SeveralArchives { places: archives.iter().map(of).collect::<Vec<_>>().join("; ") });
    }
    Ok(given)
}

/// What the stores given tell of others.
fn others(survey: &Survey<'_>) -> Option<Unseen> {
    let why = if survey.platters == 0 {
        "no platter is on the stores given"
    } else if survey.sets.iter().any(|set| set.missing() > 0) {
        "platters of some sets are on none of the stores given"
    } else {
        return None;
    };
    Some(Unseen { place: UnseenPlace::Others, hindrance: Hindrance::Absent, why: why.to_owned() })
}

/// The stores for the settings. A store without a mark has the name given, or the first `d1`, `d2` … that is free.
fn name_stores(given: &[Given]) -> Vec<StoreSettings> {
    let mut taken: Vec<String> = given.iter().filter_map(|store| store.name.clone()).collect();
    let mut name = |store: &Given| match &store.name {
        Some(name) => name.clone(),
        None => {
            let free = (1..).map(|number| format!("d{number}")).find(|name| !taken.contains(name)).expect("numbers don't end");
            taken.push(free.clone());
            free
        }
    };
    given.iter().map(|store| StoreSettings { name: name(store), path: store.path.clone() }).collect()
}

/// A set of more than a track on each platter has the shape that the settings had, and a smaller one its redundancy.
fn shape_of_sets(survey: &Survey<'_>, stores: usize, default_shape: &dyn Fn(usize) -> SetShape) -> (SetShape, ShapeFrom) {
    let shown = survey.sets.iter().rev().find(|set| set.header.shape.information > 1 && set.header.geometry.information_tracks > 1);
    if let Some(set) = shown {
        return (set.header.shape, ShapeFrom::Sets);
    }
    let widest = survey.sets.iter().map(|set| usize::from(set.header.shape.platters())).max().unwrap_or(0);
    let guess = default_shape(stores.max(widest));
    match survey.sets.last() {
        None => (guess, ShapeFrom::Stores),
        Some(set) => {
            let redundancy = set.header.shape.redundancy;
            let information = guess.platters().saturating_sub(redundancy).max(set.header.shape.information);
            (SetShape { information, redundancy }, ShapeFrom::Stores)
        }
    }
}

/// Sets take one store for each platter: those that were not given get a name and a folder that isn't there.
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

/// Puts a store in the place of an absent one in the text of the settings. `false` if the settings name none.
pub(crate) fn take_absent_place(text: &mut String, store: &StoreSettings) -> bool {
    let place = |number: u32| {
        let name = format!("{ABSENT}{number}");
        StoreSettings { path: name.clone().into(), name }.to_toml()
    };
    // Entries that were edited are no places any more.
    let Some(entry) = (1..100).map(place).find(|entry| text.contains(entry.as_str())) else { return false };
    let commented = format!("{ABSENT_COMMENT}{entry}");
    let found = if text.contains(&commented) { commented } else { entry };
    *text = text.replacen(&found, &store.to_toml(), 1);
    true
}

/// Whether the newest version is sealed, and how many are that were not removed.
fn newest_and_sealed(
    home: &Path,
    settings: &Settings,
    survey: &Survey<'_>,
    watcher: &dyn Watcher,
) -> Result<(Option<bool>, u64), ArchiveError> {
    let mut versions = BTreeMap::new();
    let mut on_mention = |mention| match mention {
        Mention::Version { id, sealed } => _ = versions.entry(id).or_insert(Some(sealed)),
        Mention::Tombstone { id } => _ = versions.insert(id, None),
    };
    survey.read_tables(settings.limits.threads, watcher, &mut on_mention);
    let staging = home.join(&settings.staging.path);
    if staging.exists() {
        let staging = Staging::in_folder(&staging, settings);
        survey_staging(&staging, &mut on_mention)?;
    }
    // Identifiers are in order of time.
    let newest = versions.values().rev().find_map(|sealed| *sealed);
    Ok((newest, versions.values().filter(|sealed| **sealed == Some(true)).count() as u64))
}

/// Files and folders that an attempt made; they go if it fails.
struct Attempt {
    made: Vec<PathBuf>,
    complete: bool,
}

impl Attempt {
    /// Notes what isn't there yet.
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
            // A folder with something in it stays.
            let _ = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        }
    }
}

struct Making<'a> {
    home: &'a Path,
    settings: &'a Settings,
    text: &'a str,
    copies: Option<&'a Copies>,
    given: &'a [Given],
    /// What the stores tell of places that were not given.
    unseen: Option<Unseen>,
}

impl Making<'_> {
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
            write_new(&master_key, format!("{}\n", MasterKey::new(random()).to_hex().as_str()).as_bytes())?;
        }
        // Stores of which only the mark is lost get it again: without it they can't be used.
        for (store, given) in folder_stores(home, settings).iter().zip(self.given) {
            if !given.marked {
                store.mark()?;
            }
        }
        attempt.will_make(home.join(KEYS_FILE));
        let keyring = bring_together(home, settings, self.copies, Mode::Attach, watcher)?;
        let rebuild = self.catalogue(attempt, watcher)?;
        write_new(&home.join(settings::FILE), self.text.as_bytes())?;
        Ok((keyring, rebuild))
    }

    /// Makes the catalogue, unless there is one.
    fn catalogue(&self, attempt: &mut Attempt, watcher: &dyn Watcher) -> Result<Option<RebuildReport>, AttachError> {
        let Self { home, settings, .. } = *self;
        let (archive, place) = (settings.archive.id, home.join(CATALOGUE_FILE));
        if place.exists() {
            return match SqliteCatalogue::open(&place, archive) {
                Ok(_) => Ok(None),
                Err(source) => Err(AttachError::Catalogue { path: place, source }),
            };
        }
        let fresh = home.join(format!("{CATALOGUE_FILE}.attaching"));
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let mut left = fresh.as_os_str().to_owned();
            left.push(suffix);
            attempt.made.push(PathBuf::from(left.clone()));
            let _ = std::fs::remove_file(left);
        }
        let parts = Parts {
            keys: Box::new(open_keys(home, archive).map_err(ArchiveError::from)?),
            readers: Readers::default(),
            master_key: read_master_key(&home.join(&settings.archive.master_key))?,
            catalogue: Box::new(SqliteCatalogue::create(&fresh, archive).map_err(ArchiveError::from)?),
            staging: Arc::new(FolderVolume::new(home.join(&settings.staging.path))),
            stores: folder_stores(home, settings),
            settings: settings.clone(),
        };
        let archive = Archive::assemble(home, parts);
        archive.check_master_key()?;
        let (report, _) = archive.rebuild_from(None, self.unseen.clone(), watcher)?;
        archive.catalogue().note_staging_mark().map_err(ArchiveError::from)?;
        // Closing it brings everything from its log into the file.
        drop(archive);
        attempt.will_make(place.clone());
        std::fs::rename(&fresh, &place).map_err(ArchiveError::io(&place))?;
        std::fs::File::open(home).and_then(|home| home.sync_all()).map_err(ArchiveError::io(home))?;
        Ok(Some(report))
    }
}
