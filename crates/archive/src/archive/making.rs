//! Creates an archive.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use fulgurite_format::MasterKey;

use super::{Archive, ArchiveError, CATALOGUE_FILE, KEYS_FILE, folder_stores};
use crate::catalogue::{Catalogue as _, SqliteCatalogue};
use crate::database::{remove_database, with_suffix};
use crate::entropy::random;
use crate::keystore::SqliteKeyStore;
use crate::settings::{self, Settings, SettingsError};
use crate::staging::Staging;
use crate::store::StoreError;
use crate::volume::sync_folder_of;

impl Archive {
    /// Creates an archive in `home`: settings, keys, catalogue, staging, and a mark on every store.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`] if `home` contains an archive, [`ArchiveError::Leftover`] if it
    /// contains a catalogue or keys without settings; otherwise whatever failed. A call that failed
    /// can be repeated with the same settings. The settings file is written last, so a crash leaves
    /// either an archive or none; remove the catalogue and the key store before the next attempt.
    pub fn init(home: &Path, settings: &Settings) -> Result<(), ArchiveError> {
        let file = home.join(settings::FILE);
        if file.exists() {
            return Err(ArchiveError::Exists(home.to_owned()));
        }
        // An archive that lost its settings still matters: its keys exist nowhere else.
        let (catalogue, keys) = (home.join(CATALOGUE_FILE), home.join(KEYS_FILE));
        for database in [&catalogue, &keys] {
            if database.metadata().is_ok_and(|metadata| metadata.len() > 0) {
                return Err(ArchiveError::Leftover(database.clone()));
            }
        }
        // The settings must survive a round trip through the file.
        let text = settings.to_file();
        let settings = Settings::parse(&text, &file)?;
        std::fs::create_dir_all(home).map_err(ArchiveError::io(home))?;
        let staging = home.join(&settings.staging.path);
        std::fs::create_dir_all(&staging).map_err(ArchiveError::io(&staging))?;
        for store in &settings.stores {
            let path = home.join(&store.path);
            std::fs::create_dir_all(&path).map_err(ArchiveError::io(&path))?;
        }
        check_places(home, &settings)?;
        // Check all stores before marking the first: a leftover mark would block the next attempt.
        for store in folder_stores(home, &settings) {
            match store.check() {
                Ok(()) | Err(StoreError::Unmarked { platters: 0, .. }) => {}
                Err(error) => return Err(error.or_taken().into()),
            }
        }
        for store in folder_stores(home, &settings) {
            store.mark()?;
        }
        let master_key = home.join(&settings.archive.master_key);
        if !master_key.exists() {
            write_master_key(&master_key, &MasterKey::new(random()))?;
        }
        // An interrupted `init` can leave either file empty.
        for database in [&catalogue, &keys] {
            if database.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                std::fs::remove_file(database).map_err(ArchiveError::io(database))?;
            }
        }
        Staging::in_folder(&staging, &settings).mark()?;
        let mut made = Vec::new();
        let mut make = || {
            let mut created = SqliteCatalogue::create(&catalogue, settings.archive.id)?;
            made.push(&catalogue);
            created.note_staging_mark()?;
            SqliteKeyStore::create(&keys, settings.archive.id)?;
            made.push(&keys);
            write_new(&file, text.as_bytes())
        };
        let result = make();
        if result.is_err() {
            // They contain nothing, but would block the next attempt. Files that another process
            // has created meanwhile stay.
            for database in made {
                let _ = remove_database(database);
            }
        }
        result
    }
}

/// Rejects two stores in the same folder, however its path is written. Folders that don't exist are
/// not compared.
pub(crate) fn check_places(home: &Path, settings: &Settings) -> Result<(), ArchiveError> {
    for (i, store) in settings.stores.iter().enumerate() {
        let place = |store: &settings::StoreSettings| home.join(&store.path).canonicalize().ok();
        if settings.stores[..i].iter().any(|other| place(other).is_some_and(|path| Some(path) == place(store))) {
            let path = home.join(settings::FILE);
            return Err(SettingsError::StoreTwice { path, what: "path", value: store.path.display().to_string() }.into());
        }
    }
    Ok(())
}

pub(crate) fn write_master_key(path: &Path, key: &MasterKey) -> Result<(), ArchiveError> {
    write_new(path, format!("{}\n", key.to_hex().as_str()).as_bytes())
}

/// Creates a file, readable only by its owner. After a crash it is either complete or absent.
///
/// # Errors
/// [`ArchiveError::Io`].
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), ArchiveError> {
    let write = || {
        let part = with_suffix(path, ".part");
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        // Unlike a rename, a hard link never replaces an existing file.
        let linked = std::fs::hard_link(&part, path);
        std::fs::remove_file(&part)?;
        linked?;
        sync_folder_of(path)
    };
    write().map_err(ArchiveError::io(path))
}
