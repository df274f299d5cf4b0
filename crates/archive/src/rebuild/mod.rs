//! Rebuilding the catalogue from platters and staging alone, with the key store for what is sealed (I4).
//!
//! ```text
//! headers of all platters -> sets         tables of all information platters -> versions, tombstones
//! staging segments        -> staged versions, tombstones
//! ```
//!
//! A platter that is gone has its table rebuilt like any content. Where a version is both staged and on platters, the staged one counts: that is
//! how it is right after a crash, when nobody has said yet that the platters were verified.

mod database;
mod earlier;
mod platters;
mod staging;
mod strangers;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fulgurite_domain::{ObjectName, ObjectRecord, SetId, VersionId};
use fulgurite_format::{Frames, Header, decode_record, stored_bytes};

use self::database::{copy_database, remove_database, replace_database, with_suffix};
use self::platters::FoundSet;
pub use self::strangers::UnknownPlatter;
use crate::archive::{Archive, ArchiveError, CATALOGUE_FILE, Parts, Readers, folder_stores, open_keys, read_master_key, read_settings};
use crate::catalogue::{
    Catalogue, CatalogueError, Extent, FoundVersion, SegmentEnd, SqliteCatalogue, StagedTombstone, Unlisted, UnlistedVersion,
};
use crate::clock::now_s;
use crate::lock::Lock;
use crate::set_reader::SetReader;
use crate::tables::{TableTrouble, read_table};
use crate::unread::{AwayStore, Hindrance};
use crate::volume::FolderVolume;
use crate::watch::{Trouble, Watcher};

/// What staging is called among the stores that a rebuild could not look into.
const STAGING: &str = "staging";
/// Versions handed to the catalogue in one transaction.
const BATCH: usize = 1_000;

/// What a rebuild found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RebuildReport {
    /// Platters found.
    pub platters: u64,
    /// Sets they belong to.
    pub sets: u64,
    /// Platters of those sets that were not found.
    pub missing: u64,
    /// Versions on platters.
    pub archived: u64,
    /// Versions in staging.
    pub staged: u64,
    /// Versions that were removed, as their tombstones say.
    pub deleted: u64,
    /// Tables that could not be read; the versions on those platters are unknown.
    pub lost_tables: u64,
    /// Versions of which only a part was found, or whose record can't be read.
    pub incomplete: u64,
    /// Versions whose key is not in the key store, and that no tombstone says were removed.
    pub no_key: u64,
    /// Versions that only the earlier catalogue knew and that were taken from it.
    pub carried_over: u64,
    /// Versions that only the earlier catalogue knew and of which nothing was found.
    pub gone: u64,
    /// Stores that could not be looked into.
    pub unseen: Vec<AwayStore>,
    /// Where the earlier catalogue is kept, because it could not be read to its end.
    pub kept: Option<PathBuf>,
}

impl RebuildReport {
    /// Whether something is lost, or can't be read with the keys that are there.
    #[must_use]
    pub fn has_losses(&self) -> bool {
        self.lost_tables > 0 || self.incomplete > 0 || self.no_key > 0 || self.gone > 0
    }
}

/// What a rebuild does when a store of the settings can't be looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnseenStores {
    /// It refuses, and the catalogue stays as it is.
    Refuse,
    /// It goes on with the others. What is on the store is known as far as the earlier catalogue knew it.
    GoOn,
}

/// Makes the catalogue of the archive in `home` anew. The old one is replaced when the new one is complete. What only the old one knew is
/// carried over, as long as no tombstone says that it was removed.
///
/// # Errors
/// [`ArchiveError`]; the old catalogue is as it was then.
pub fn rebuild_catalogue(home: &Path, unseen: UnseenStores, watcher: &dyn Watcher) -> Result<RebuildReport, ArchiveError> {
    let settings = read_settings(home)?;
    let _lock = Lock::take(home)?;
    let catalogue = home.join(CATALOGUE_FILE);
    let fresh = home.join(format!("{CATALOGUE_FILE}.rebuilding"));
    remove_database(&fresh)?;
    let id = settings.archive.id;
    let staging = home.join(&settings.staging.path);
    // The fresh catalogue last: without keys there is nothing to begin.
    let parts = Parts {
        keys: Box::new(open_keys(home, id)?),
        readers: Readers::default(),
        master_key: read_master_key(&home.join(&settings.archive.master_key))?,
        catalogue: Box::new(SqliteCatalogue::create(&fresh, id)?),
        staging: Arc::new(FolderVolume::new(&staging)),
        stores: folder_stores(home, &settings),
        settings,
    };
    let archive = Archive::assemble(home, parts);
    let rebuild = || {
        archive.check_master_key()?;
        if unseen == UnseenStores::Refuse {
            archive.refuse_unseen_stores()?;
        }
        // A rebuild that was cut short while it replaced the catalogue left the earlier one under this name.
        let aside = with_suffix(&catalogue, ".old");
        let known = [&catalogue, &aside].into_iter().find(|path| path.exists());
        let mut is_damaged = false;
        let mut earlier = match known.map(|path| SqliteCatalogue::open_read_only(path, id)).transpose() {
            Ok(earlier) => earlier,
            Err(error @ CatalogueError::Damaged { .. }) => {
                note_unreadable(&error, watcher);
                is_damaged = true;
                None
            }
            Err(error) => return Err(error.into()),
        };
        let away = archive.find_staging(earlier.as_mut(), unseen, &staging, watcher)?;
        let earlier = earlier.as_mut().map(|earlier| earlier as &mut dyn Catalogue);
        let (mut report, keeps_old) = archive.rebuild_from(earlier, watcher)?;
        report.unseen.extend(away);
        archive.note_unseen(&report)?;
        archive.mark_staging()?;
        Ok((report, keeps_old || is_damaged))
    };
    let (mut report, keeps_old) = match rebuild() {
        Ok(done) => done,
        Err(error) => {
            drop(archive);
            // The next attempt would remove it too.
            let _ = remove_database(&fresh);
            return Err(error);
        }
    };
    // Closing the last connection brings everything from the write-ahead log into the file.
    drop(archive);
    if keeps_old {
        let kept = with_suffix(&catalogue, &format!(".damaged-{}", now_s()));
        copy_database(&catalogue, &kept)?;
        report.kept = Some(kept);
    }
    replace_database(home, &fresh, &catalogue)?;
    Ok(report)
}

fn note_unreadable(error: &CatalogueError, watcher: &dyn Watcher) {
    let text = format!("the earlier catalogue can't be read to its end, so what only it knows is not carried over: {error}");
    watcher.trouble(Trouble::Note { text: &text });
}

/// A version of which parts were found on several platters.
struct Parted {
    record: ObjectRecord,
    sealed: bool,
    object_bytes: u64,
    extents: Vec<Extent>,
}

/// What came of opening a record.
enum OpenedRecord {
    Record(ObjectRecord),
    /// Its key was destroyed.
    NoKey,
    /// It isn't what was written.
    Unreadable,
}

impl Archive {
    /// Fills an empty catalogue from stores and staging.
    ///
    /// # Errors
    /// [`ArchiveError`] if catalogue, keys or staging fail. What is wrong with platters is reported to `watcher`.
    pub fn rebuild(&self, watcher: &dyn Watcher) -> Result<RebuildReport, ArchiveError> {
        Ok(self.rebuild_from(None, watcher)?.0)
    }

    /// Fills an empty catalogue from stores, staging and an earlier catalogue. Returns whether the earlier one has to be kept, because it
    /// could not be read to its end.
    ///
    /// # Errors
    /// As [`rebuild`](Self::rebuild).
    pub fn rebuild_from(
        &self,
        mut earlier: Option<&mut dyn Catalogue>,
        watcher: &dyn Watcher,
    ) -> Result<(RebuildReport, bool), ArchiveError> {
        let mut report = RebuildReport { unseen: self.unseen_stores(), ..RebuildReport::default() };
        watcher.stage("reading staging", None);
        let segments = self.staging().segments()?;
        let scanned = self.scan_staging(&segments, &|_, _| true, watcher)?;
        let mut tombstones = scanned.tombstones;
        let mut keeps_earlier = false;
        let mut complete = HashSet::new();
        if let Some(earlier) = &mut earlier {
            match self.removals_and_sets(*earlier, &segments, &mut tombstones) {
                Ok(sets) => complete = sets,
                Err(error) => {
                    note_unreadable(&error, watcher);
                    keeps_earlier = true;
                }
            }
        }
        let staged_tombstones: Vec<StagedTombstone> =
            tombstones.iter().filter(|(_, segment)| **segment > 0).map(|(&id, &segment)| StagedTombstone { id, segment }).collect();
        watcher.stage("reading headers", None);
        let sets = self.find_sets(&complete, &mut report, watcher);
        let rebuilding = Mutex::new(());
        let mut reader = SetReader::new(&rebuilding, self.threads());
        let mut tables = Vec::new();
        for found in &sets {
            if !found.is_doubtful() {
                self.adopt_set(found, &mut report)?;
            }
            reader.introduce(Arc::new(self.open_set(&found.description)));
            tables.extend((0..found.header.shape.information).map(|position| (found, found.header.for_position(position))));
        }
        watcher.stage("reading tables", Some(tables.iter().map(|(_, header)| 2 * header.member().table_bytes).sum()));
        // Tombstones first: one may be on any platter, and outweighs entries everywhere.
        let mut readable = Vec::new();
        // Versions that have been found in doubtful sets, and nowhere else so far.
        let mut wanted: HashSet<VersionId> = HashSet::new();
        for (found, header) in &tables {
            match read_table(&mut reader, header, watcher, &mut |entry| {
                if entry.tombstone {
                    tombstones.entry(entry.version).or_insert(0);
                } else if found.is_doubtful() {
                    wanted.insert(entry.version);
                }
                Ok(())
            }) {
                Ok(()) => readable.push((*found, header)),
                Err(TableTrouble::Stopped(error)) => return Err(error),
                Err(TableTrouble::Unreadable(why)) => self.note_lost_table(header, &why, &mut report, watcher)?,
            }
        }
        let mut batch = Vec::new();
        for version in scanned.versions {
            let id = version.id;
            if tombstones.contains_key(&id) {
                report.deleted += 1;
                continue;
            }
            report.staged += 1;
            wanted.remove(&id);
            batch.push(FoundVersion::Staged(version));
            self.adopt_full(&mut batch, BATCH)?;
        }
        self.adopt_full(&mut batch, 1)?;
        let mut unlisted: Vec<UnlistedVersion> =
            scanned.unlisted.into_iter().filter(|version| !tombstones.contains_key(&version.id)).collect();
        self.adopt_unlisted_full(&mut unlisted, 1)?;
        let mut parted: HashMap<VersionId, Parted> = HashMap::new();
        let mut deleted: HashSet<VersionId> = HashSet::new();
        let mut needed: HashSet<SetId> = HashSet::new();
        // Sets that can be relied upon come first, so that what is in one of them needs none of the others.
        for doubtful in [false, true] {
            for (found, header) in readable.iter().filter(|(found, _)| found.is_doubtful() == doubtful) {
                let read = read_table(&mut reader, header, watcher, &mut |entry| {
                    if entry.tombstone || (doubtful && !wanted.contains(&entry.version)) {
                        return Ok(());
                    }
                    if tombstones.contains_key(&entry.version) {
                        deleted.insert(entry.version);
                        return Ok(());
                    }
                    let (id, stored_bytes_) = (entry.version, entry.shard.object_bytes);
                    let unlisted_for =
                        |why, known_as| UnlistedVersion { id, why, stored_bytes: stored_bytes_, known_as, segments: Vec::new() };
                    let record = match self.open_record(entry.version, entry.sealed, &entry.record, watcher)? {
                        OpenedRecord::Record(record) => record,
                        OpenedRecord::NoKey => {
                            unlisted.push(unlisted_for(Unlisted::NoKey, None));
                            return self.adopt_unlisted_full(&mut unlisted, BATCH);
                        }
                        OpenedRecord::Unreadable => {
                            unlisted.push(unlisted_for(Unlisted::UnreadableRecord, None));
                            return self.adopt_unlisted_full(&mut unlisted, BATCH);
                        }
                    };
                    if stored_bytes(record.size) != entry.shard.object_bytes {
                        unlisted.push(unlisted_for(Unlisted::UnreadableRecord, Some((record.name, record.version))));
                        return self.adopt_unlisted_full(&mut unlisted, BATCH);
                    }
                    let extent = Extent {
                        shard: entry.shard.index,
                        object_offset: entry.shard.object_offset,
                        platter: header.platter,
                        offset: entry.offset,
                        bytes: entry.stored_bytes,
                    };
                    if entry.stored_bytes == entry.shard.object_bytes {
                        let (id, sealed, stored_bytes) = (entry.version, entry.sealed, entry.stored_bytes);
                        wanted.remove(&id);
                        if doubtful && needed.insert(found.description.id) {
                            self.adopt_set(found, &mut report)?;
                        }
                        batch.push(FoundVersion::Archived { id, record, sealed, stored_bytes, extents: vec![extent] });
                        report.archived += 1;
                        return self.adopt_full(&mut batch, BATCH);
                    }
                    let parts = parted.entry(entry.version).or_insert_with(|| Parted {
                        record,
                        sealed: entry.sealed,
                        object_bytes: entry.shard.object_bytes,
                        extents: Vec::new(),
                    });
                    parts.extents.push(extent);
                    Ok(())
                });
                match read {
                    Err(TableTrouble::Stopped(error)) => return Err(error),
                    Err(TableTrouble::Unreadable(why)) => self.note_lost_table(header, &why, &mut report, watcher)?,
                    Ok(()) => {}
                }
            }
            self.adopt_unlisted_full(&mut unlisted, 1)?;
            for (id, parts) in std::mem::take(&mut parted) {
                if !cover(&parts.extents, parts.object_bytes) {
                    parted.insert(id, parts);
                    continue;
                }
                for found in sets.iter().filter(|found| doubtful && found.is_doubtful() && found.has_one_of(&parts.extents)) {
                    if needed.insert(found.description.id) {
                        self.adopt_set(found, &mut report)?;
                    }
                }
                let Parted { record, sealed, object_bytes, extents } = parts;
                wanted.remove(&id);
                report.archived += 1;
                batch.push(FoundVersion::Archived { id, record, sealed, stored_bytes: object_bytes, extents });
                self.adopt_full(&mut batch, BATCH)?;
            }
            self.adopt_full(&mut batch, 1)?;
        }
        for (id, Parted { record, object_bytes, .. }) in parted {
            // All of it is in staging: a flush was cut short that had put the beginning on platters.
            if self.catalogue().version(&record.name, id)?.is_some() {
                continue;
            }
            let known_as = Some((record.name, record.version));
            unlisted.push(UnlistedVersion { id, why: Unlisted::Incomplete, stored_bytes: object_bytes, known_as, segments: Vec::new() });
        }
        self.adopt_unlisted_full(&mut unlisted, 1)?;
        self.catalogue().adopt_tombstones(&staged_tombstones)?;
        if let Some(earlier) = earlier.filter(|_| !keeps_earlier) {
            watcher.stage("comparing with the earlier catalogue", None);
            if let Err(error) = self.carry_over(earlier, &tombstones, &segments, &mut report, watcher)? {
                note_unreadable(&error, watcher);
                keeps_earlier = true;
            }
        }
        self.leave_out(sets.iter().filter(|found| found.is_doubtful() && !needed.contains(&found.description.id)), &report, watcher)?;
        self.note_unseen(&report)?;
        self.report_unlisted(&mut report, watcher)?;
        let used = self.catalogue().segments_in_use()?;
        let end = |segment: u64| Ok(SegmentEnd { segment, bytes: self.staging().length(segment)? });
        let ends: Vec<SegmentEnd> = used.into_iter().map(end).collect::<Result<_, ArchiveError>>()?;
        self.catalogue().record_segment_ends(&ends)?;
        report.deleted += scanned.removed + deleted.len() as u64;
        self.destroy_keys_of_removed(&tombstones)?;
        Ok((report, keeps_earlier))
    }

    /// Destroys keys that were imported while the tombstones of their versions were out of sight.
    fn destroy_keys_of_removed(&self, tombstones: &HashMap<VersionId, u64>) -> Result<(), ArchiveError> {
        let mut back = Vec::new();
        for &id in tombstones.keys() {
            if self.keys().get(id)?.is_some() {
                back.push(id);
            }
        }
        if !back.is_empty() {
            self.keys().destroy(&back)?;
        }
        Ok(())
    }

    /// Makes sure that the folder of staging is there, or that the operator gave it up. A folder without
    /// a mark is taken for staging if it has segments, or if the earlier catalogue knows of none.
    fn find_staging(
        &self,
        earlier: Option<&mut SqliteCatalogue>,
        unseen: UnseenStores,
        folder: &Path,
        watcher: &dyn Watcher,
    ) -> Result<Option<AwayStore>, ArchiveError> {
        let staging = self.staging();
        if staging.has_some_mark()? || staging.segments().is_ok_and(|segments| !segments.is_empty()) {
            return Ok(None);
        }
        let mut away = None;
        let had_none = match earlier {
            Some(earlier) => !earlier.is_staging_marked()? && earlier.segments_in_use()?.is_empty(),
            None => false,
        };
        if !had_none {
            let absent = staging.absent();
            if unseen == UnseenStores::Refuse {
                return Err(absent.into());
            }
            let why = absent.to_string();
            watcher.trouble(Trouble::Note { text: &why });
            away = Some(AwayStore { store: STAGING.to_owned(), hindrance: Hindrance::Absent, why });
        }
        std::fs::create_dir_all(folder).map_err(ArchiveError::io(folder))?;
        Ok(away)
    }

    /// Whether the catalogue was rebuilt while staging was absent, and no rebuild has seen it since.
    pub(crate) fn was_staging_unseen(&self) -> Result<bool, ArchiveError> {
        let mut was_unseen = false;
        self.each_unlisted(&mut |version| {
            let name = version.known_as.as_ref().map(|(name, _)| name.0.as_slice());
            was_unseen |= version.why == Unlisted::UnseenStore && name == Some(STAGING.as_bytes());
        })?;
        Ok(was_unseen)
    }

    /// The stores that can't be looked into.
    fn unseen_stores(&self) -> Vec<AwayStore> {
        let disks = self.disks();
        let unlisted = disks.there().filter_map(|(name, store)| {
            let why = store.list().err()?.to_string();
            Some(AwayStore { store: name.to_owned(), hindrance: Hindrance::Unreadable, why })
        });
        disks.all_away().iter().cloned().chain(unlisted).collect()
    }

    fn refuse_unseen_stores(&self) -> Result<(), ArchiveError> {
        let unseen = self.unseen_stores();
        match unseen.is_empty() {
            true => Ok(()),
            false => Err(ArchiveError::StoresUnseen { stores: unseen }),
        }
    }

    /// Records that the file table of a platter can't be read. Even a set that looks as if it was never finished may have lost its platters.
    fn note_lost_table(&self, header: &Header, why: &str, report: &mut RebuildReport, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let text = format!("the file table of platter {} can't be read, and nothing on it is known: {why}", header.platter);
        watcher.trouble(Trouble::Note { text: &text });
        report.lost_tables += 1;
        let table = UnlistedVersion {
            id: VersionId(header.platter.0),
            why: Unlisted::UnreadableTable,
            stored_bytes: 0,
            known_as: None,
            segments: Vec::new(),
        };
        Ok(self.catalogue().adopt_unlisted(&[table])?)
    }

    /// Records the platters of sets that were never finished, unless they may only look so because a store could not be looked into.
    fn leave_out<'f>(
        &self,
        sets: impl Iterator<Item = &'f FoundSet>,
        report: &RebuildReport,
        watcher: &dyn Watcher,
    ) -> Result<(), ArchiveError> {
        for found in sets {
            let members = found.header.members.len();
            let text = format!(
                "set {} has {} of its {members} platters, and nothing needs it: it was never finished, or all on it was removed. It is left out of the catalogue",
                found.description.id,
                members - found.missing,
            );
            watcher.trouble(Trouble::Note { text: &text });
            if report.unseen.is_empty() {
                let platters: Vec<_> = found.description.platters.iter().map(|place| place.platter).collect();
                self.catalogue().leave_out(&platters)?;
            }
        }
        Ok(())
    }

    /// Records which stores could not be looked into, so that nobody takes the catalogue for complete.
    fn note_unseen(&self, report: &RebuildReport) -> Result<(), ArchiveError> {
        let store = |(index, away): (usize, &AwayStore)| UnlistedVersion {
            id: VersionId([index as u8; 16]),
            why: Unlisted::UnseenStore,
            stored_bytes: 0,
            known_as: Some((ObjectName(away.store.clone().into_bytes()), 0)),
            segments: Vec::new(),
        };
        let stores: Vec<_> = report.unseen.iter().enumerate().map(store).collect();
        Ok(self.catalogue().adopt_unlisted(&stores)?)
    }

    /// Counts and reports what can't be listed.
    fn report_unlisted(&self, report: &mut RebuildReport, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        self.each_unlisted(&mut |version| {
            match version.why {
                Unlisted::NoKey => report.no_key += 1,
                Unlisted::UnreadableRecord | Unlisted::Incomplete => report.incomplete += 1,
                Unlisted::Gone => report.gone += 1,
                Unlisted::UnreadableTable | Unlisted::UnseenStore => return,
            }
            watcher.trouble(Trouble::Unlisted { version, key_is_back: false });
        })
    }

    /// Hands over every unlisted version.
    pub(crate) fn each_unlisted(&self, on_version: &mut dyn FnMut(&UnlistedVersion)) -> Result<(), ArchiveError> {
        let mut after = None;
        loop {
            let page = self.catalogue().unlisted(after, BATCH)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            page.iter().for_each(&mut *on_version);
        }
    }

    fn adopt_unlisted_full(&self, batch: &mut Vec<UnlistedVersion>, full: usize) -> Result<(), ArchiveError> {
        if batch.len() >= full {
            self.catalogue().adopt_unlisted(batch)?;
            batch.clear();
        }
        Ok(())
    }

    fn adopt_set(&self, found: &FoundSet, report: &mut RebuildReport) -> Result<(), ArchiveError> {
        report.sets += 1;
        report.missing += found.missing as u64;
        Ok(self.catalogue().adopt_set(&found.description)?)
    }

    /// Hands over a batch that has at least `full` versions.
    fn adopt_full(&self, batch: &mut Vec<FoundVersion>, full: usize) -> Result<(), ArchiveError> {
        if batch.len() < full {
            return Ok(());
        }
        self.catalogue().adopt_versions(batch)?;
        // What is on platters may be there in part in staging, whose segments were just being released.
        if !self.catalogue().unlisted(None, 1)?.is_empty() {
            let ids: Vec<VersionId> = batch.iter().map(FoundVersion::id).collect();
            self.catalogue().forget_unlisted(&ids, &[])?;
        }
        batch.clear();
        Ok(())
    }

    /// Opens the record of a version. What can't be read of it is reported.
    fn open_record(&self, id: VersionId, sealed: bool, record: &[u8], watcher: &dyn Watcher) -> Result<OpenedRecord, ArchiveError> {
        let frames = if sealed {
            let Some(wrapped) = self.keys().get(id)? else { return Ok(OpenedRecord::NoKey) };
            let Ok(key) = self.master_key().unwrap(&wrapped) else {
                let text = format!("the key of version {id} is not wrapped by the master key: it was put under another, or is damaged");
                watcher.trouble(Trouble::Note { text: &text });
                return Ok(OpenedRecord::Unreadable);
            };
            Frames::new(id, Some(&key))
        } else {
            Frames::new(id, None)
        };
        let opened = frames.open_record(record).map_err(|error| error.to_string());
        match opened.and_then(|record| decode_record(&record).map_err(|error| error.to_string())) {
            Ok(record) => Ok(OpenedRecord::Record(record)),
            Err(why) => {
                watcher.trouble(Trouble::Note { text: &format!("the record of version {id} can't be read: {why}") });
                Ok(OpenedRecord::Unreadable)
            }
        }
    }
}

/// Whether extents, which may overlap, are all of an object of `bytes`.
fn cover(extents: &[Extent], bytes: u64) -> bool {
    let mut sorted: Vec<&Extent> = extents.iter().collect();
    sorted.sort_by_key(|extent| extent.object_offset);
    let reach =
        |end: u64, extent: &&Extent| (extent.object_offset <= end).then(|| end.max(extent.object_offset.saturating_add(extent.bytes)));
    sorted.iter().try_fold(0, reach) == Some(bytes)
}
