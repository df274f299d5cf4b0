//! Stores that join an archive, and disks that are replaced.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use crate::archive::{ArchiveError, check_places, folder_store, folder_stores, read_settings};
use crate::lock::Lock;
use crate::settings::{self, Settings};
use crate::store::{FolderStore, Mark, StoreError};
use crate::volume::FolderVolume;

/// Gives the archive in `home` one more store: its folder is made and marked, and the settings name it from then on. A folder that is marked as a store
/// of this archive joins it under the name in its mark, and in the place of one that was absent when the archive was attached. Returns what the settings
/// say of it.
///
/// # Errors
/// [`ArchiveError`]; the settings are as they were then.
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
        let there = known.stores.iter().find(|store| store.name == mark.name).map(|store| home.join(&store.path));
        if let Some(place) = there.filter(|place| place.canonicalize().ok() != folder.canonicalize().ok()) {
            return Err(ArchiveError::Moved { store: mark.name, place, found: folder });
        }
        // Another name than that of a store in the same place, which is an error of its own.
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
        File::open(home)?.sync_all()
    };
    write().map_err(ArchiveError::io(&file))?;
    Ok(store)
}

/// Marks the folder of a store anew, after its disk was replaced by an empty one. A scrub then writes its platters there.
///
/// # Errors
/// [`ArchiveError::NotEmpty`] if there is something in it, [`StoreError`] if it is another store.
pub fn replace_store(home: &Path, name: &str) -> Result<(), ArchiveError> {
    let settings = read_settings(home)?;
    let _lock = Lock::take(home)?;
    let index = settings.stores.iter().position(|store| store.name == name);
    let index = index.ok_or_else(|| ArchiveError::UnknownStore { store: name.to_owned() })?;
    let store = folder_stores(home, &settings).swap_remove(index);
    match store.check() {
        Err(StoreError::Unmarked { .. }) => {}
        // It is what it should be and nothing has to be done, or it is not to be touched.
        checked => return Ok(checked?),
    }
    let place = home.join(&settings.stores[index].path);
    // The folder is made by hand, not here: it may be missing because a disk isn't mounted.
    for entry in std::fs::read_dir(&place).map_err(ArchiveError::io(&place))? {
        if entry.map_err(ArchiveError::io(&place))?.file_name() != "lost+found" {
            return Err(ArchiveError::NotEmpty { place });
        }
    }
    Ok(store.mark()?)
}
