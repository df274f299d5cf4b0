//! Adds stores to an archive, and replaces their disks.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use crate::archive::{ArchiveError, check_places, folder_store, folder_stores, read_settings};
use crate::lock::Lock;
use crate::settings::{self, Settings};
use crate::store::{FolderStore, Mark, StoreError};
use crate::volume::{FolderVolume, sync_folder};

/// Adds a store to the archive in `home`: creates and marks its folder, and adds it to the
/// settings. A folder that is already marked as a store of this archive joins under the name in its
/// mark, and replaces the entry of a store that was absent when the archive was attached. Returns
/// the store's settings.
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
    let mark = FolderStore::mark_in(Arc::new(FolderVolume::new(folder.clone())))?;
    let mark = mark.as_deref().and_then(Mark::parse).filter(|mark| mark.archive == archive);
    let mut text = std::fs::read_to_string(&file).map_err(ArchiveError::io(&file))?;
    let joins = mark.is_some();
    if let Some(mark) = mark {
        let configured = known.stores.iter().find(|store| store.name == mark.name).map(|store| home.join(&store.path));
        if let Some(place) = configured.filter(|place| place.canonicalize().ok() != folder.canonicalize().ok()) {
            return Err(ArchiveError::Moved { store: mark.name, place, found: folder });
        }
        // Keep the name if the mark's is already configured, so that the conflict of two stores in
        // one place is reported as such.
        if known.stores.iter().all(|store| store.name != mark.name) {
            store.name = mark.name;
        }
    }
    if !joins || !crate::attach::take_absent_place(&mut text, &store) {
        text.truncate(text.trim_end().len());
        text.push_str("\n\n");
        text.push_str(&store.to_toml());
    }
    let settings = Settings::parse(&text, &file)?;
    std::fs::create_dir_all(&folder).map_err(ArchiveError::io(&folder))?;
    check_places(home, &settings)?;
    match folder_store(home, archive, &store).mark() {
        Err(StoreError::Foreign { store, place, found, .. }) => return Err(StoreError::Taken { store, place, found }.into()),
        marked => marked?,
    }
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

/// Marks the folder of a store anew after its disk was replaced with an empty one. A scrub then
/// writes the store's platters to it.
///
/// # Errors
/// [`ArchiveError::NotEmpty`] if the folder isn't empty, [`StoreError`] if it belongs to another
/// store.
pub fn replace_store(home: &Path, name: &str) -> Result<(), ArchiveError> {
    let settings = read_settings(home)?;
    let _lock = Lock::take(home)?;
    let index = settings.stores.iter().position(|store| store.name == name);
    let index = index.ok_or_else(|| ArchiveError::UnknownStore(name.to_owned()))?;
    let store = folder_stores(home, &settings).swap_remove(index);
    match store.check() {
        Err(StoreError::Unmarked { .. }) => {}
        // The store is already as it should be, or must not be touched.
        checked => return Ok(checked?),
    }
    let place = home.join(&settings.stores[index].path);
    // The operator must create the folder; it may be missing because a disk isn't mounted.
    for entry in std::fs::read_dir(&place).map_err(ArchiveError::io(&place))? {
        if entry.map_err(ArchiveError::io(&place))?.file_name() != "lost+found" {
            return Err(ArchiveError::NotEmpty(place));
        }
    }
    Ok(store.mark()?)
}
