//! The folder of a migration.
//!
//! ```text
//! migration.toml        settings
//! state.db              what is known of each file
//! lock                  held by the command that changes it, and its name
//! paused                while it exists, runs begin nothing
//! progress.json         what the last run did, or does
//! metrics.prom          the same, and more, for Prometheus
//! journal               events and commands of the last run that moved files
//! journal.new           the same of a run that hasn't moved any yet
//! migrated.sha256       the list of migrated files
//! certificate.json      counts, and the digest of that list
//! spool/                files on their way that are not in memory
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use fulgurite_migration::run::database::Database;
use fulgurite_migration::run::destination::{Destination, PlaceDestination};
use fulgurite_migration::run::inventory::{self, Inventoried};
use fulgurite_migration::run::settings::{FILE, MigrationSettings, PlaceSettings};
use fulgurite_places::{LeftOut, Place};
use serde_json::{Value, json};

use super::archive::{ArchiveDestination, ReadOnlyArchive};
use super::lock::{self, Holder};
use crate::archive_place::{ArchiveFolder, ArchivePlace};
use crate::outcome::Misuse;
use crate::{places, tape_place, text};

/// The fact that a listing of the source has completed.
const INVENTORY: &str = "inventory";
/// The fact that says what the last listing left out.
const LEFT_OUT: &str = "left out";

/// What a listing of the source left out.
pub(super) fn left_out_json(of: LeftOut) -> Value {
    let LeftOut { links, empty_folders, special, parts, older_versions } = of;
    json!({
        "symbolic_links": links, "empty_folders": empty_folders, "special_files": special, "unfinished_writes": parts,
        "older_versions": older_versions,
    })
}

/// A migration.
pub(super) struct Migration {
    pub(super) folder: PathBuf,
    pub(super) settings: MigrationSettings,
    pub(super) database: Database,
    /// Held as long as this command may change the migration.
    _lock: Option<File>,
}

impl Migration {
    /// Opens a migration to look at it.
    pub(super) fn look(folder: &Path) -> Result<Self> {
        let file = folder.join(FILE);
        if !file.is_file() {
            let path = text::path(folder);
            bail!("{path} is not the folder of a migration: it has no {FILE}. `fulgurite migrate init` makes one");
        }
        let settings = MigrationSettings::read(folder)?;
        let path = folder.join("state.db");
        if !path.is_file() {
            bail!("{} is missing: without it, nothing is known of the migration's files", text::path(&path));
        }
        let migration = Self { folder: folder.to_owned(), settings, database: Database::open(&path)?, _lock: None };
        migration.check_places()?;
        Ok(migration)
    }

    /// Opens a migration to change it. Only one command may at a time.
    pub(super) fn change(folder: &Path, command: Holder) -> Result<Self> {
        let mut migration = Self::look(folder)?;
        migration._lock = Some(lock::take(folder, command)?);
        Ok(migration)
    }

    /// Makes the folder of a migration.
    pub(super) fn make(folder: &Path, settings: &str) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| text::path(folder))?;
        for name in [FILE, "state.db"] {
            let path = folder.join(name);
            if path.exists() {
                return Err(Misuse(format!("{} already exists: name another folder", text::path(&path))).into());
            }
        }
        let mut database = Database::open(&folder.join("state.db"))?;
        let path = folder.join(FILE);
        fs::write(&path, settings).with_context(|| text::path(&path))?;
        let settings = MigrationSettings::read(folder)?;
        for (name, place) in [("source", &settings.source), ("destination", &settings.destination)] {
            database.set_fact(name, &shown(place)?)?;
        }
        Self::change(folder, Holder::Init)
    }

    /// A migration goes on between the places between which it began.
    fn check_places(&self) -> Result<()> {
        for (name, place) in [("source", &self.settings.source), ("destination", &self.settings.destination)] {
            let began = self.database.fact(name)?.context("the migration's database doesn't name its places")?;
            let now = shown(place)?;
            if began != now {
                bail!("the {name} of this migration was {began}, and {FILE} names {now}: begin another migration for another place");
            }
        }
        Ok(())
    }

    /// The source. Each input stream uses a drive of a tape library.
    pub(super) fn source(&self) -> Result<Arc<dyn Place>> {
        if let Some(library) = tape_place::open(&self.settings.source.place) {
            let library = library.context("the source")?;
            let (drives, inputs) = (library.settings().drives, usize::from(self.settings.layout.stations[0].inputs));
            if inputs > drives {
                let drives = text::count(drives as u64, "drive");
                return Err(Misuse(format!("streams.inputs is {inputs}, but the tape library has {drives}: lower it in {FILE}")).into());
            }
            return Ok(Arc::new(library));
        }
        Ok(open(&self.settings.source).context("the source")?.into())
    }

    /// The destination. A server or another command may be changing it, unless it is an archive
    /// that is being written to: [`archive`](Self::archive).
    pub(super) fn destination(&self) -> Result<Arc<dyn Destination>> {
        let settings = &self.settings.destination;
        Ok(match ArchivePlace::of(&settings.place, &options(&settings.options)?)? {
            Some(archive) => Arc::new(ReadOnlyArchive(archive)),
            None => Arc::new(PlaceDestination::new(self.destination_place()?.into())),
        })
    }

    /// The destination as a place. Files can't be written to an archive this way.
    pub(super) fn destination_place(&self) -> Result<Box<dyn Place>> {
        open(&self.settings.destination).context("the destination")
    }

    /// The archive that is the destination, to write to it; `None` if the destination is another
    /// place.
    pub(super) fn archive(&self) -> Result<Option<ArchiveDestination>> {
        let destination = &self.settings.destination;
        let Some(home) = ArchivePlace::home_of(&destination.place) else { return Ok(None) };
        Ok(Some(ArchiveDestination::open(home, ArchiveFolder::of(&options(&destination.options)?)?)?))
    }

    /// Versions in the staging of the destination, if that is an archive that can be read. Other
    /// programs may have put some of them there.
    pub(super) fn staged_versions(&self) -> Option<u64> {
        let home = ArchivePlace::home_of(&self.settings.destination.place)?;
        ArchivePlace::staged_versions(home).ok()
    }

    pub(super) fn has_inventory(&self) -> Result<bool> {
        Ok(self.database.fact(INVENTORY)?.is_some())
    }

    /// Lists the source. Returns the number of its files, and what the listing brought.
    pub(super) fn take_inventory(&mut self, listed: &mut dyn FnMut(u64)) -> Result<Inventoried> {
        let source = self.source()?;
        let folders = self.settings.family_folders;
        let found = inventory::list(&mut self.database, &*source, &|name| inventory::family_of(name, folders), listed)?;
        if found.files == 0 {
            bail!("the source has no files: {}. Is it mounted, and is the path right?", source.describe());
        }
        self.database.set_fact(LEFT_OUT, &left_out_json(found.left_out).to_string())?;
        self.database.set_fact(INVENTORY, "complete")?;
        Ok(found)
    }

    /// What the last inventory left out. `None` if no inventory was taken, or only by a version of
    /// the program that didn't count this.
    pub(super) fn left_out(&self) -> Result<Option<Value>> {
        let fact = self.database.fact(LEFT_OUT)?;
        Ok(fact.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Removes a certificate that is out of date.
    pub(super) fn remove_certificate(&self) -> Result<()> {
        for name in ["certificate.json", "migrated.sha256"] {
            match fs::remove_file(self.path(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).context(name),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The command that is changing the migration.
    pub(super) fn holder(&self) -> Option<Holder> {
        lock::holder(&self.folder)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.path("paused").exists()
    }

    /// What the last run did, or does.
    pub(super) fn progress(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.path("progress.json")).ok()?).ok()
    }
}

/// Writes a JSON file so that readers see the old or the new one.
pub(super) fn write_json(path: &Path, value: &Value) -> std::io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, format!("{value:#}\n"))?;
    fs::rename(&new, path)
}

fn open(place: &PlaceSettings) -> Result<Box<dyn Place>> {
    places::open(&place.place, &options(&place.options)?)
}

/// The address of a place, as a migration names it. The folder of an archive belongs to it; other
/// options say how a place is reached.
pub(super) fn shown(place: &PlaceSettings) -> Result<String> {
    let folder = match ArchivePlace::home_of(&place.place) {
        Some(_) => ArchiveFolder::of(&options(&place.options)?).with_context(|| format!("{}, in {FILE}", place.place))?.suffix(),
        None => String::new(),
    };
    Ok(format!("{}{folder}", place.place))
}

/// Options as keys and values.
pub(super) fn options(given: &[String]) -> Result<Vec<(String, String)>> {
    let split = |option: &String| option.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    given.iter().map(|option| split(option).ok_or_else(|| Misuse(format!("expected KEY=VALUE, not {option:?}")).into())).collect()
}

/// Seconds since 1970.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
