//! Merging keys: combines a key store that may be damaged with any number of copies.
//!
//! A damaged key store is never written to. A new one is created next to it, and replaces it in
//! these steps, each durable before the next:
//!
//! ```text
//! 1  keys.db.repairing   filled and closed
//! 2  keys.db.repaired    its name from then on
//! 3  keys.db.damaged     a second name of the damaged file, and of its log
//! 4  the log is removed  it would be read into the new store
//! 5  keys.db             the new store
//! ```
//!
//! Until the last step, the next repair starts over and uses `keys.db.repaired` as one more source.
//! So no crash loses a key.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use fulgurite_domain::{ArchiveId, ObjectName, VersionId};
use fulgurite_format::{MasterKey, WrappedKey};

use super::{CatalogueUnavailable, CopyReport, KeyCopies, KeyringError, KeyringReport, PAGE, Removed, SalvageReport, WithoutKey};
use crate::archive::{
    ArchiveError, CATALOGUE_FILE, KEYS_FILE, MasterKeyTrouble, folder_stores, read_master_key, read_settings, write_master_key,
};
use crate::catalogue::{Catalogue as _, SqliteCatalogue, Unlisted, Versions};
use crate::database::{check_whole, remove_database, remove_if_there, with_suffix};
use crate::keystore::salvage::salvage;
use crate::keystore::{KeyStore, KeyStoreError, SqliteKeyStore};
use crate::lock::Lock;
use crate::open_file::refuse_undecided;
use crate::paging::Pager;
use crate::settings::Settings;
use crate::volume::sync_folder;
use crate::watch::Watcher;

/// Imports copied keys into the archive in `home`: the master key if it is missing, and missing
/// object keys. Each sealed copy is tried with each passphrase.
///
/// # Errors
/// [`KeyringError`]; [`KeyStoreError::Damaged`] if the key store needs a [repair](repair_keys). All
/// copies are checked before anything is changed.
pub fn import_keys(home: &Path, files: &[PathBuf], passphrases: &[Vec<u8>], watcher: &dyn Watcher) -> Result<KeyringReport, KeyringError> {
    merge(home, files, passphrases, Mode::Import, watcher)
}

/// Like [`import_keys`], but also replaces a damaged key store with a new one that has every key
/// that can still be read. `files` may be empty.
///
/// # Errors
/// [`KeyringError`]. If a copy is rejected, nothing was changed. After a later error, the key store
/// may have some of the keys already; it lost none, and the repair can be repeated.
pub fn repair_keys(home: &Path, files: &[PathBuf], passphrases: &[Vec<u8>], watcher: &dyn Watcher) -> Result<KeyringReport, KeyringError> {
    merge(home, files, passphrases, Mode::Repair, watcher)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Adds the keys of copies, creates a missing store, and refuses a damaged one.
    Import,
    /// Like `Import`, and replaces a damaged store.
    Repair,
    /// Like `Repair`, and creates a missing store even without copies.
    Attach,
}

fn merge(
    home: &Path,
    files: &[PathBuf],
    passphrases: &[Vec<u8>],
    mode: Mode,
    watcher: &dyn Watcher,
) -> Result<KeyringReport, KeyringError> {
    let settings = read_settings(home)?;
    let _lock = Lock::take(home)?;
    let own = own_master_key(home, &settings)?;
    let copies = KeyCopies::read_and_check(files, passphrases, settings.archive.id, own.as_ref())?;
    merge_copies(home, &settings, copies.as_ref(), mode, watcher)
}

/// The master key in the archive's folder. `None` if there is no file, or one that is no key: then
/// copies have to bring it back.
pub(crate) fn own_master_key(home: &Path, settings: &Settings) -> Result<Option<MasterKey>, ArchiveError> {
    let file = home.join(&settings.archive.master_key);
    if !file.exists() {
        return Ok(None);
    }
    match read_master_key(&file) {
        Err(ArchiveError::MasterKey { why: MasterKeyTrouble::Text(_), .. }) => Ok(None),
        read => read.map(Some),
    }
}

/// The state of the key store in use.
enum Found {
    Sound(SqliteKeyStore),
    /// Why it can't be used as it is.
    Damaged(String),
    Missing,
}

/// Merges the key store in `home` with the keys and the master key of copies. The copies must have
/// been checked, and the caller must hold the lock.
pub(crate) fn merge_copies(
    home: &Path,
    settings: &Settings,
    copies: Option<&KeyCopies>,
    mode: Mode,
    watcher: &dyn Watcher,
) -> Result<KeyringReport, KeyringError> {
    let archive = settings.archive.id;
    // Read the log before SQLite opens it: SQLite discards everything after a damaged place. If the
    // key store is lost and only its log is left, an import needs it too.
    let needs_log = mode != Mode::Import || !home.join(KEYS_FILE).exists();
    let log = if needs_log { salvaged_keys(&with_suffix(&home.join(KEYS_FILE), "-wal"))? } else { Vec::new() };
    let found = open_store(home, archive)?;
    match &found {
        Found::Damaged(why) if mode == Mode::Import => return Err(KeyStoreError::Damaged(why.clone()).into()),
        Found::Missing if copies.is_none() && mode != Mode::Attach => {
            return Err(KeyStoreError::Missing(home.join(KEYS_FILE)).into());
        }
        _ => {}
    }
    let own = own_master_key(home, settings)?;
    if let Some(copies) = copies {
        keep_master_key(&home.join(&settings.archive.master_key), &copies.master)?;
    }
    let master = copies.map(|copies| &copies.master).or(own.as_ref());

    let mut catalogue = open_catalogue(home, archive);
    let removed = Removed::find(home, settings, &folder_stores(home, settings), catalogue.as_mut().ok(), watcher)?;
    watcher.stage("merging keys", None);
    let mut report = KeyringReport::default();
    let mut filling = match found {
        Found::Sound(store) => Filling::new(store, master, &removed),
        found => {
            let mut filling = Filling::fresh(home, archive, master, &removed)?;
            if let Found::Damaged(damage) = found {
                report.salvaged = Some(salvage_into(&mut filling, home, damage)?);
            }
            filling
        }
    };
    filling.add_missing(&log, Source::Own)?;
    if let Some(copies) = copies {
        report.copies = keep_copies(&mut filling, copies)?;
    }
    report.removed = filling.skipped.len() as u64;
    report.conflicting = filling.conflicting.len() as u64;
    let mut store = match filling.fresh {
        false => filling.store,
        true => {
            let moved_to = filling.finish(home)?;
            if let Some(salvaged) = &mut report.salvaged {
                salvaged.moved_to = moved_to;
            }
            SqliteKeyStore::open(&home.join(KEYS_FILE), archive)?
        }
    };
    report.keys = store.len()?;
    if let Ok(catalogue) = &mut catalogue {
        report.still_listed = count_still_listed(catalogue, &mut store, &removed)?;
    }
    (report.without_key, report.listable) = count_without_key(catalogue, &mut store, &removed)?;
    report.unread = removed.unread;
    report.unread_tables = removed.unread_tables;
    Ok(report)
}

fn open_store(home: &Path, archive: ArchiveId) -> Result<Found, KeyringError> {
    let path = home.join(KEYS_FILE);
    refuse_undecided(&path).map_err(KeyStoreError::from)?;
    if !path.exists() {
        // A crash interrupted a repair.
        return Ok(match repaired(home).exists() {
            true => Found::Damaged("its repair was interrupted".into()),
            false => Found::Missing,
        });
    }
    // Opening it for writing would move its log into it, so it is checked first: a damaged file and
    // its log are what a repair has to work with.
    let checked = SqliteKeyStore::open_read_only(&path, archive).and_then(|mut store| store.check());
    let opened = checked.and_then(|()| SqliteKeyStore::open(&path, archive));
    match opened {
        Ok(_) if repaired(home).exists() => Ok(Found::Damaged("its repair was interrupted".into())),
        Ok(store) => Ok(Found::Sound(store)),
        // A log of another file says nothing about this one: the operator knows which is right.
        Err(error @ (KeyStoreError::Newer { .. } | KeyStoreError::OtherArchive { .. } | KeyStoreError::LogOfAnother(_))) => {
            Err(error.into())
        }
        Err(KeyStoreError::Damaged(found)) => Ok(Found::Damaged(found)),
        // For example, the disk can't read the file any more.
        Err(error) => Ok(Found::Damaged(error.to_string())),
    }
}

fn open_catalogue(home: &Path, archive: ArchiveId) -> Result<SqliteCatalogue, CatalogueUnavailable> {
    let path = home.join(CATALOGUE_FILE);
    if !path.exists() {
        return Err(CatalogueUnavailable::Missing(path));
    }
    Ok(SqliteCatalogue::open(&path, archive)?)
}

/// Counts the removed versions that the catalogue lists. A version with only a tombstone that the
/// catalogue doesn't know counts if its key is gone too.
fn count_still_listed(catalogue: &mut SqliteCatalogue, store: &mut SqliteKeyStore, removed: &Removed) -> Result<u64, ArchiveError> {
    let mut listed = 0;
    for &id in &removed.still_listed {
        listed += u64::from(store.get(id)?.is_none());
    }
    if removed.ids.is_empty() {
        return Ok(listed);
    }
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| catalogue.list(b"", Versions::All, after, PAGE))? {
        listed += page.iter().filter(|version| removed.ids.contains(&version.id)).count() as u64;
    }
    Ok(listed)
}

fn count_without_key(
    catalogue: Result<SqliteCatalogue, CatalogueUnavailable>,
    store: &mut SqliteKeyStore,
    removed: &Removed,
) -> Result<(WithoutKey, u64), ArchiveError> {
    match catalogue {
        Ok(mut catalogue) => {
            let (without, with) = unlisted_without_key(&mut catalogue, store)?;
            Ok((WithoutKey::Known { listed: without_key(&mut catalogue, store, removed)?, unlisted: without }, with))
        }
        Err(why) => {
            let mut versions = 0;
            for &id in &removed.sealed {
                versions += u64::from(store.get(id)?.is_none());
            }
            Ok((WithoutKey::Counted { versions, why }, 0))
        }
    }
}

/// Listed versions without a key, except those that were removed.
fn without_key(
    catalogue: &mut SqliteCatalogue,
    store: &mut SqliteKeyStore,
    removed: &Removed,
) -> Result<Vec<(ObjectName, u64)>, ArchiveError> {
    let is_removed = |id| removed.ids.contains(&id) || removed.still_listed.contains(&id);
    let mut without = Vec::new();
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| catalogue.list(b"", Versions::All, after, PAGE))? {
        for version in page.into_iter().filter(|version| version.sealed) {
            if !is_removed(version.id) && store.get(version.id)?.is_none() {
                without.push((version.record.name, version.record.version));
            }
        }
    }
    Ok(without)
}

/// Counts the unlisted versions recorded as lacking a key: those still without one, and those that
/// have one now.
fn unlisted_without_key(catalogue: &mut SqliteCatalogue, store: &mut SqliteKeyStore) -> Result<(u64, u64), ArchiveError> {
    let (mut without, mut with) = (0, 0);
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| catalogue.unlisted(after.copied(), PAGE))? {
        for version in page.iter().filter(|version| version.why == Unlisted::NoKey) {
            match store.get(version.id)? {
                None => without += 1,
                Some(_) => with += 1,
            }
        }
    }
    Ok((without, with))
}

/// Writes the master key file, or checks that it has this key. A file that is no key is kept under
/// another name.
fn keep_master_key(path: &Path, master: &MasterKey) -> Result<(), KeyringError> {
    if !path.exists() {
        return Ok(write_master_key(path, master)?);
    }
    match read_master_key(path) {
        Err(ArchiveError::MasterKey { why: MasterKeyTrouble::Text(_), .. }) => {
            let kept = (1..).map(|number| with_suffix(path, &format!(".damaged-{number}"))).find(|kept| !kept.exists());
            std::fs::rename(path, kept.expect("there are more numbers than files")).map_err(ArchiveError::io(path))?;
            Ok(write_master_key(path, master)?)
        }
        read => match read?.expose() == master.expose() {
            true => Ok(()),
            false => Err(KeyringError::OtherMasterKey(path.to_owned())),
        },
    }
}

/// Where keys come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The archive's own key store, which may be damaged.
    Own,
    /// A copy.
    Copy,
}

/// The key store being filled with keys, and what was left out of it.
struct Filling<'a> {
    store: SqliteKeyStore,
    /// True if it is a new store next to the one in use.
    fresh: bool,
    master: Option<&'a MasterKey>,
    removed: &'a Removed,
    /// Removed versions, whose keys were skipped.
    skipped: HashSet<VersionId>,
    /// Versions with different keys in two sources.
    conflicting: HashSet<VersionId>,
}

impl<'a> Filling<'a> {
    fn new(store: SqliteKeyStore, master: Option<&'a MasterKey>, removed: &'a Removed) -> Self {
        Self { store, fresh: false, master, removed, skipped: HashSet::new(), conflicting: HashSet::new() }
    }

    /// Creates a new key store next to the one in use. [`finish`](Self::finish) puts it in place.
    fn fresh(home: &Path, archive: ArchiveId, master: Option<&'a MasterKey>, removed: &'a Removed) -> Result<Self, KeyringError> {
        let path = repairing(home);
        remove_database(&path)?;
        Ok(Self { fresh: true, ..Self::new(SqliteKeyStore::create(&path, archive)?, master, removed) })
    }

    /// Stores keys that are missing, except those of removed versions, and replaces those that the
    /// master key doesn't open by ones that it does. Returns the number of keys stored.
    ///
    /// Acknowledging a removal ends with destroying the key. So while a removal may have been
    /// interrupted before that, the archive's own key store has the key, and no copy is needed.
    fn add_missing(&mut self, keys: &[(VersionId, WrappedKey)], source: Source) -> Result<u64, KeyStoreError> {
        let mut new: BTreeMap<VersionId, WrappedKey> = BTreeMap::new();
        let ids: Vec<VersionId> = keys.iter().map(|(id, _)| *id).collect();
        for (&(id, key), known) in keys.iter().zip(self.store.get_many(&ids)?) {
            let lacks_own = source == Source::Copy && known.is_none();
            if self.removed.ids.contains(&id) || (lacks_own && self.removed.still_listed.contains(&id)) {
                self.skipped.insert(id);
                continue;
            }
            match new.get(&id).copied().or(known) {
                None => _ = new.insert(id, key),
                Some(known) if known == key => {}
                Some(other) => {
                    self.conflicting.insert(id);
                    if !self.opens(&other) && self.opens(&key) {
                        self.store.destroy(&[id])?;
                        new.insert(id, key);
                    }
                }
            }
        }
        self.store.insert(&new.iter().map(|(&id, &key)| (id, key)).collect::<Vec<_>>())?;
        Ok(new.len() as u64)
    }

    fn opens(&self, key: &WrappedKey) -> bool {
        self.master.is_some_and(|master| master.unwrap(key).is_ok())
    }

    /// Puts a new key store in place. Returns the path of the former one, if any.
    fn finish(self, home: &Path) -> Result<Option<PathBuf>, KeyringError> {
        // Closing checkpoints the log into the file.
        drop(self.store);
        let (fresh, repaired, place) = (repairing(home), repaired(home), home.join(KEYS_FILE));
        // Torn, it must not replace what the damaged one still has. The next attempt removes it.
        check_whole(&fresh)?;
        let sync = || sync_folder(home).map_err(ArchiveError::io(home));
        File::open(&fresh).and_then(|file| file.sync_all()).map_err(ArchiveError::io(&fresh))?;
        replace_repaired(&fresh, &repaired)?;
        sync()?;
        let moved_to = link_as_damaged(&place)?;
        sync()?;
        remove_logs(&place)?;
        sync()?;
        std::fs::rename(&repaired, &place).map_err(ArchiveError::io(&repaired))?;
        sync()?;
        Ok(moved_to)
    }
}

/// Gives a filled store its second name. A store of that name, from a repair that was interrupted,
/// may have keys that nothing else has, so the rename replaces it.
fn replace_repaired(fresh: &Path, repaired: &Path) -> Result<(), KeyringError> {
    remove_logs(repaired)?;
    Ok(std::fs::rename(fresh, repaired).map_err(ArchiveError::io(fresh))?)
}

fn remove_logs(database: &Path) -> Result<(), KeyringError> {
    for log in ["-wal", "-shm", "-journal"] {
        remove_if_there(&with_suffix(database, log))?;
    }
    Ok(())
}

fn keep_copies(filling: &mut Filling<'_>, copies: &KeyCopies) -> Result<Vec<CopyReport>, KeyringError> {
    let mut reports = Vec::with_capacity(copies.copies.len());
    for copy in &copies.copies {
        let mut added = 0;
        copy.read(copies.archive, &copies.master, &mut |keys| {
            added += filling.add_missing(keys, Source::Copy)?;
            Ok(())
        })?;
        let damage = copy.damage.as_ref().map(ToString::to_string);
        reports.push(CopyReport { path: copy.path.clone(), keys: copy.keys, added, corrected: copy.corrected, damage });
    }
    Ok(reports)
}

fn salvaged_keys(file: &Path) -> Result<Vec<(VersionId, WrappedKey)>, KeyringError> {
    let mut keys = Vec::new();
    salvage(file, |version, key| {
        keys.push((version, key));
        Ok::<_, KeyringError>(())
    })?;
    Ok(keys)
}

fn salvage_into(filling: &mut Filling<'_>, home: &Path, damage: String) -> Result<SalvageReport, KeyringError> {
    let mut report = SalvageReport { damage, ..SalvageReport::default() };
    let place = home.join(KEYS_FILE);
    let mut page: Vec<(VersionId, WrappedKey)> = Vec::with_capacity(PAGE);
    for file in [place, repaired(home)] {
        let salvaged = salvage(&file, |version, key| {
            page.push((version, key));
            if page.len() >= PAGE {
                report.keys += filling.add_missing(&page, Source::Own)?;
                page.clear();
            }
            Ok::<_, KeyringError>(())
        });
        report.unreadable += salvaged?.unreadable;
    }
    report.keys += filling.add_missing(&page, Source::Own)?;
    Ok(report)
}

fn repairing(home: &Path) -> PathBuf {
    home.join(format!("{KEYS_FILE}.repairing"))
}

fn repaired(home: &Path) -> PathBuf {
    home.join(format!("{KEYS_FILE}.repaired"))
}

/// Links a key store and its log, or the one that exists, under a second, unused name. Returns the
/// second name of the key store, even if only its log exists; `None` if neither does.
fn link_as_damaged(place: &Path) -> Result<Option<PathBuf>, KeyringError> {
    let log = with_suffix(place, "-wal");
    if !place.exists() && !log.exists() {
        return Ok(None);
    }
    let name = |number: u32| match number {
        1 => with_suffix(place, ".damaged"),
        number => with_suffix(place, &format!(".damaged-{number}")),
    };
    let second_name = (1..).map(name).find(|name| !name.exists() && !with_suffix(name, "-wal").exists()).expect("numbers don't end");
    if place.exists() {
        std::fs::hard_link(place, &second_name).map_err(ArchiveError::io(&second_name))?;
    }
    if log.exists() {
        let second_log = with_suffix(&second_name, "-wal");
        std::fs::hard_link(&log, &second_log).map_err(ArchiveError::io(&second_log))?;
    }
    Ok(Some(second_name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keystore::conformance::key;

    const ARCHIVE: ArchiveId = ArchiveId([0xa5; 16]);

    /// A key store with 3,000 keys in its file and five more in its log, as a killed process leaves
    /// it.
    fn killed(home: &Path) -> (PathBuf, PathBuf) {
        let path = home.join(KEYS_FILE);
        let mut store = SqliteKeyStore::create(&path, ARCHIVE).expect("made");
        store.insert(&(0..3000).map(key).collect::<Vec<_>>()).expect("kept");
        drop(store);
        let mut store = SqliteKeyStore::open(&path, ARCHIVE).expect("opened");
        store.insert(&(3000..3005).map(key).collect::<Vec<_>>()).expect("kept");
        std::mem::forget(store);
        let log = with_suffix(&path, "-wal");
        assert!(std::fs::metadata(&log).expect("a log").len() > 0);
        (path, log)
    }

    #[test]
    fn a_key_store_whose_log_is_left_replaces_nothing() {
        let home = tempfile::tempdir().expect("a folder");
        let (path, _) = killed(home.path());
        let removed = Removed::default();
        let mut filling = Filling::fresh(home.path(), ARCHIVE, None, &removed).expect("made");
        filling.store.insert(&(0..3005).map(key).collect::<Vec<_>>()).expect("kept");
        // Instead of a full disk: closing can't empty a log that another connection reads.
        let reader = rusqlite::Connection::open(repairing(home.path())).expect("opened");
        reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").expect("reads");
        let error = filling.finish(home.path()).expect_err("the file lacks what is in its log");
        assert!(error.to_string().contains("is the disk full?"), "{error}");
        assert!(!repaired(home.path()).exists());
        assert_eq!(SqliteKeyStore::open(&path, ARCHIVE).expect("opened").len().expect("counted"), 3005);
    }

    #[test]
    fn looking_for_damage_changes_neither_a_damaged_key_store_nor_its_log() {
        let home = tempfile::tempdir().expect("a folder");
        let (path, log) = killed(home.path());
        let mut bytes = std::fs::read(&path).expect("read");
        // More pages than the log can replace.
        bytes[3 * 4_096..][..10 * 4_096].fill(0x5A);
        std::fs::write(&path, &bytes).expect("written");
        let before = [&path, &log].map(|file| std::fs::read(file).expect("read"));
        assert!(matches!(open_store(home.path(), ARCHIVE), Ok(Found::Damaged(_))));
        assert!([&path, &log].map(|file| std::fs::read(file).expect("read")) == before);
    }

    #[test]
    fn the_result_of_an_interrupted_repair_stays_until_its_successor_has_its_name() {
        let home = tempfile::tempdir().expect("a folder");
        let repaired = repaired(home.path());
        std::fs::write(&repaired, "the only copy of some keys").expect("written");
        // The rename fails, as if a crash had come before it.
        assert!(replace_repaired(&repairing(home.path()), &repaired).is_err());
        assert_eq!(std::fs::read(&repaired).expect("kept"), b"the only copy of some keys");
        std::fs::write(repairing(home.path()), "all keys").expect("written");
        replace_repaired(&repairing(home.path()), &repaired).expect("replaced");
        assert_eq!(std::fs::read(&repaired).expect("there"), b"all keys");
    }

    #[test]
    fn a_log_without_its_key_store_is_read_and_kept() {
        let home = tempfile::tempdir().expect("a folder");
        let (path, log) = killed(home.path());
        std::fs::remove_file(&path).expect("removed");
        assert!(matches!(open_store(home.path(), ARCHIVE), Ok(Found::Missing)));
        let found: BTreeMap<VersionId, WrappedKey> = salvaged_keys(&log).expect("readable").into_iter().collect();
        assert!((3000..3005).map(key).all(|(version, key)| found.get(&version) == Some(&key)));
        let kept = link_as_damaged(&path).expect("linked").expect("there is a log");
        assert!(!kept.exists());
        assert_eq!(std::fs::read(with_suffix(&kept, "-wal")).expect("kept"), std::fs::read(&log).expect("read"));
    }
}
