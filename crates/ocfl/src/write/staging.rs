//! Where versions are built, and how they are published.
//!
//! ```text
//! extensions/fulgurite-staging/<SHA-256 of the id>.lock     held while a writer is at work
//! extensions/fulgurite-staging/<SHA-256 of the id>/
//!   incoming                                 content whose digest isn't known yet
//!   next/v2/...  next/inventory.json ...     the new version, or the new object
//!   before/inventory.json ...                what the object's own files were
//!   journal                                  object and version that are being published
//! ```
//!
//! A new object is published by one rename. A new version needs three: its folder, the inventory
//! and the sidecar. Between them the object is invalid, and no validator takes it for whole. The
//! journal says what to do after a crash: unless all three were done, the version is taken back.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use fulgurite_digest::Algorithm;

use super::durable::{at, create_folders, exists, remove_folder, rename, sync_folder, write_file};
use super::{StorageRoot, WriteError};
use crate::folder::read;
use crate::object::digest;
use crate::paths::check_path;
use crate::report::INVENTORY_BYTES_MAX;
use crate::spec::{EXTENSIONS, INVENTORY, SMALL_FILE_BYTES, VersionName};

const STAGING: &str = "fulgurite-staging";
const JOURNAL: &str = "journal";
/// Attempts to lock: each failure means that another writer has just finished.
const ATTEMPTS: usize = 1_000;

/// The staging folder of one object, locked.
#[derive(Debug)]
pub(super) struct Staging {
    root: PathBuf,
    pub(super) folder: PathBuf,
    lock_path: PathBuf,
    _lock: File,
    /// Left for a recovery, for it may be needed.
    is_kept: bool,
}

impl Staging {
    /// Locks an object's staging folder. An interrupted publication is taken back first.
    pub(super) fn lock(root: &StorageRoot, id: &str) -> Result<Self, WriteError> {
        let key = digest(id.as_bytes(), Algorithm::Sha256).hex();
        let staging = Self::lock_key(root.folder(), &key, id)?;
        staging.recover()?;
        create_folders(&staging.folder)?;
        Ok(staging)
    }

    fn lock_key(root: &Path, key: &str, id: &str) -> Result<Self, WriteError> {
        let parent = root.join(EXTENSIONS).join(STAGING);
        let lock_path = parent.join(format!("{key}.lock"));
        for _ in 0..ATTEMPTS {
            create_folders(&parent)?;
            // A writer that finishes removes the lock's file, and the folder if it is empty.
            let lock = match File::create(&lock_path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                result => result.map_err(at(&lock_path))?,
            };
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(WriteError::Busy { id: id.to_owned() }),
                Err(TryLockError::Error(error)) => return Err(at(&lock_path)(error)),
            }
            if is_still(&lock, &lock_path) {
                return Ok(Self { root: root.to_owned(), folder: parent.join(key), lock_path, _lock: lock, is_kept: false });
            }
        }
        Err(WriteError::Busy { id: id.to_owned() })
    }

    /// Publishes `next` as a new object at `place`.
    pub(super) fn publish_object(&mut self, place: &str) -> Result<(), WriteError> {
        let next = self.folder.join("next");
        let tree = self.folder.join("tree");
        for _ in 0..ATTEMPTS {
            let (folder, missing) = self.missing_part(place)?;
            let target = folder.join(&missing[0]);
            // Missing folders above the object come with it, so that no crash leaves empty ones.
            remove_folder(&tree)?;
            let source = if missing.len() == 1 { next.clone() } else { tree.join(&missing[0]) };
            let inner = missing[1..].iter().fold(source.clone(), |path, part| path.join(part));
            if let (true, Some(parent)) = (missing.len() > 1, inner.parent()) {
                create_folders(parent)?;
                rename(&next, &inner)?;
                super::durable::sync_folders(&source)?;
            }
            match fs::rename(&source, &target) {
                Ok(()) => return sync_folder(&folder),
                Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => {
                    // Another object's writer has just made this folder.
                    if missing.len() > 1 {
                        rename(&inner, &next)?;
                    }
                }
                Err(error) => return Err(at(&target)(error)),
            }
        }
        Err(WriteError::Exists { place: place.to_owned() })
    }

    /// The deepest existing folder on the way to a place, and the parts that are missing below it.
    fn missing_part(&self, place: &str) -> Result<(PathBuf, Vec<String>), WriteError> {
        let mut folder = self.root.clone();
        let mut parts = place.split('/').map(str::to_owned).peekable();
        while let Some(part) = parts.peek() {
            let next = folder.join(part);
            match fs::symlink_metadata(&next) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((folder, parts.collect())),
                Err(error) => return Err(at(&next)(error)),
                Ok(metadata) if !metadata.is_dir() => return Err(WriteError::Exists { place: place.to_owned() }),
                Ok(_) => {}
            }
            // An object can't contain another.
            if exists(&next.join(INVENTORY))? {
                return Err(WriteError::Exists { place: place.to_owned() });
            }
            folder = next;
            parts.next();
        }
        Err(WriteError::Exists { place: place.to_owned() })
    }

    /// Publishes `next` as a version of the object at `place`.
    pub(super) fn publish_version(&mut self, place: &str, version: VersionName, sidecar: &str) -> Result<(), WriteError> {
        let object = self.root.join(place);
        let name = version.to_string();
        if exists(&object.join(&name))? {
            return Err(WriteError::Exists { place: format!("{place}/{name}") });
        }
        let before = self.folder.join("before");
        create_folders(&before)?;
        for file in [INVENTORY, sidecar] {
            let from = object.join(file);
            let content = read(&from, INVENTORY_BYTES_MAX).map_err(|fault| WriteError::Read { path: from, fault })?;
            write_file(&before.join(file), &content)?;
        }
        sync_folder(&before)?;
        write_file(&self.folder.join("journal.new"), format!("{place}\n{name}\n{sidecar}\n").as_bytes())?;
        rename(&self.folder.join("journal.new"), &self.folder.join(JOURNAL))?;
        sync_folder(&self.folder)?;

        let next = self.folder.join("next");
        let publish = || -> Result<(), WriteError> {
            rename(&next.join(&name), &object.join(&name))?;
            sync_folder(&object)?;
            rename(&next.join(INVENTORY), &object.join(INVENTORY))?;
            rename(&next.join(sidecar), &object.join(sidecar))?;
            sync_folder(&object)
        };
        self.is_kept = true;
        publish().inspect_err(|_| self.is_kept = self.recover().is_err())?;
        self.finish()
    }

    /// The publication is complete: the journal must not take it back.
    fn finish(&mut self) -> Result<(), WriteError> {
        let journal = self.folder.join(JOURNAL);
        fs::remove_file(&journal).map_err(at(&journal))?;
        sync_folder(&self.folder)?;
        self.is_kept = false;
        Ok(())
    }

    /// Takes back a publication that was interrupted, and empties the folder.
    fn recover(&self) -> Result<(), WriteError> {
        let journal = self.folder.join(JOURNAL);
        if !exists(&journal)? {
            return remove_folder(&self.folder);
        }
        let unclear = || WriteError::Unclear { folder: self.folder.clone() };
        let text = read(&journal, SMALL_FILE_BYTES).map_err(|fault| WriteError::Read { path: journal.clone(), fault })?;
        let text = String::from_utf8(text).map_err(|_| unclear())?;
        let lines: Vec<&str> = text.lines().collect();
        let [place, name, sidecar] = lines[..] else { return Err(unclear()) };
        if check_path(place).is_err() || VersionName::parse(name).is_none() || sidecar.contains('/') {
            return Err(unclear());
        }
        let object = self.root.join(place);
        let before = self.folder.join("before");
        let content = |path: PathBuf| read(&path, INVENTORY_BYTES_MAX).map_err(|fault| WriteError::Read { path, fault });
        let published = object.join(name);
        if exists(&published)? {
            let of_version = (content(published.join(INVENTORY))?, content(published.join(sidecar))?);
            let now = (content(object.join(INVENTORY))?, content(object.join(sidecar))?);
            let earlier = (content(before.join(INVENTORY))?, content(before.join(sidecar))?);
            if now != of_version {
                // Something else has changed the object if its files are neither old nor new.
                if !((now.0 == earlier.0 || now.0 == of_version.0) && (now.1 == earlier.1 || now.1 == of_version.1)) {
                    return Err(unclear());
                }
                for (file, bytes) in [(INVENTORY, &earlier.0), (sidecar, &earlier.1)] {
                    write_file(&self.folder.join("restored"), bytes)?;
                    rename(&self.folder.join("restored"), &object.join(file))?;
                }
                sync_folder(&object)?;
                let withdrawn = self.folder.join("withdrawn");
                remove_folder(&withdrawn)?;
                rename(&published, &withdrawn)?;
                sync_folder(&object)?;
            }
        }
        fs::remove_file(&journal).map_err(at(&journal))?;
        sync_folder(&self.folder)?;
        remove_folder(&self.folder)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What can't be removed is removed by the next writer of this object.
        if !self.is_kept {
            let _ = remove_folder(&self.folder);
        }
        let _ = fs::remove_file(&self.lock_path);
        if let Some(parent) = self.lock_path.parent() {
            // Only if they are empty.
            let _ = fs::remove_dir(parent);
            let _ = fs::remove_dir(self.root.join(EXTENSIONS));
        }
    }
}

/// Takes back what writers left behind in a storage root. Returns how many objects were concerned.
pub(super) fn recover_all(root: &StorageRoot) -> Result<u64, WriteError> {
    let parent = root.folder().join(EXTENSIONS).join(STAGING);
    let entries = match fs::read_dir(&parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        result => result.map_err(at(&parent))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(at(&parent))?.file_name());
    }
    let mut recovered = 0;
    for name in names.iter().filter_map(|name| name.to_str()).filter(|name| !name.ends_with(".lock")) {
        match Staging::lock_key(root.folder(), name, name) {
            // Its writer is at work.
            Err(WriteError::Busy { .. }) => {}
            Err(error) => return Err(error),
            Ok(mut staging) => {
                staging.recover().inspect_err(|_| staging.is_kept = true)?;
                recovered += 1;
            }
        }
    }
    Ok(recovered)
}

/// True if the lock's file still has its name.
fn is_still(lock: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let number = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        lock.metadata().ok().map(number) == fs::symlink_metadata(path).ok().map(number)
    }
    #[cfg(not(unix))]
    {
        let _ = lock;
        path.exists()
    }
}
