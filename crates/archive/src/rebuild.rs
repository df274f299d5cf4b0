//! Rebuilding the catalogue from platters and staging alone, with the key store for what is sealed (I4).
//!
//! ```text
//! headers of all platters -> sets         tables of all information platters -> versions, tombstones
//! staging segments        -> staged versions, tombstones
//! ```
//!
//! A platter that is gone has its table rebuilt like any content. Where a version is both staged and on platters, the staged one counts: that is
//! how it is right after a crash, when nobody has said yet that the platters were verified.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex};

use fulgurite_domain::{ObjectRecord, PlatterId, SetId, VersionId};
use fulgurite_format::{
    Entry, FindHeaderError, Frames, Header, RecordHead, RecordKind, SegmentError, SegmentHead, TableReader, decode_record, find_header,
    scan_segment, stored_bytes,
};

use crate::archive::{
    Archive, ArchiveError, CATALOGUE_FILE, Parts, Readers, folder_stores, lock, open_keys, read_master_key, read_settings,
};
use crate::catalogue::{
    Extent, FoundVersion, NewVersion, PlatterPlace, SetDescription, SqliteCatalogue, StagedData, StagedPlace, StagedTombstone,
};
use crate::scrub::read_exact_at;
use crate::set_reader::SetReader;
use crate::staging::StagingError;
use crate::volume::FolderVolume;
use crate::watch::{Trouble, Unwatched, Watcher};

/// Versions handed to the catalogue in one transaction.
const BATCH: usize = 1_000;
/// Store of a platter that was found nowhere.
pub const NOWHERE: &str = "?";

/// What a rebuild found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    /// Versions that were deleted, by tombstone or for want of their key.
    pub deleted: u64,
    /// Tables that could not be read; the versions on those platters are unknown.
    pub lost_tables: u64,
    /// Versions of which only a part was found, or whose record can't be read.
    pub incomplete: u64,
}

/// Makes the catalogue of the archive in `home` anew. The old one is replaced when the new one is complete.
///
/// # Errors
/// [`ArchiveError`]; the old catalogue is as it was then.
pub fn rebuild_catalogue(home: &Path, watcher: &dyn Watcher) -> Result<RebuildReport, ArchiveError> {
    let settings = read_settings(home)?;
    let _lock = lock(home)?;
    let fresh = home.join(format!("{CATALOGUE_FILE}.rebuilding"));
    remove_database(&fresh)?;
    // The fresh catalogue last: without keys there is nothing to begin.
    let parts = Parts {
        keys: Box::new(open_keys(home, settings.archive.id)?),
        readers: Readers::default(),
        master_key: read_master_key(&home.join(&settings.archive.master_key))?,
        catalogue: Box::new(SqliteCatalogue::create(&fresh, settings.archive.id)?),
        staging: Arc::new(FolderVolume::new(home.join(&settings.staging.path))),
        stores: folder_stores(home, &settings),
        settings,
    };
    let archive = Archive::assemble(home, parts);
    let report = match archive.check_master_key().and_then(|()| archive.rebuild(watcher)) {
        Ok(report) => report,
        Err(error) => {
            drop(archive);
            // The next attempt would remove it too.
            let _ = remove_database(&fresh);
            return Err(error);
        }
    };
    // Closing the last connection brings everything from the write-ahead log into the file.
    drop(archive);
    replace_database(home, &fresh, &home.join(CATALOGUE_FILE))?;
    Ok(report)
}

/// Puts a database in the place of another, so that a crash at any instant leaves one of them, or none and its absence is told.
///
/// A database without its log is an old state that looks like a good one, and a log beside another database would be read into it. So first of all the
/// old one has its name taken, log and all.
fn replace_database(home: &Path, fresh: &Path, old: &Path) -> Result<(), ArchiveError> {
    let sync = || std::fs::File::open(home).and_then(|home| home.sync_all()).map_err(ArchiveError::io(home));
    let aside = with_suffix(old, ".old");
    remove_database(&aside)?;
    if old.exists() {
        std::fs::rename(old, &aside).map_err(ArchiveError::io(old))?;
    }
    sync()?;
    remove_database(old)?;
    sync()?;
    std::fs::rename(fresh, old).map_err(ArchiveError::io(old))?;
    sync()?;
    remove_database(&aside)
}

fn with_suffix(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove_database(path: &Path) -> Result<(), ArchiveError> {
    ["", "-wal", "-shm", "-journal"].iter().try_for_each(|suffix| remove_if_there(&with_suffix(path, suffix)))
}

fn remove_if_there(path: &Path) -> Result<(), ArchiveError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ArchiveError::io(path)(error)),
        _ => Ok(()),
    }
}

/// A set of which platters were found.
struct FoundSet {
    /// Of any of its platters.
    header: Header,
    description: SetDescription,
    /// How many of its platters were not found.
    missing: usize,
}

impl FoundSet {
    /// Whether more is missing than its redundancy makes good. Then it was never finished, most likely, and what is on it was put on another set later.
    fn is_doubtful(&self) -> bool {
        self.missing > usize::from(self.header.shape.redundancy)
    }

    fn has_one_of(&self, extents: &[Extent]) -> bool {
        self.description.platters.iter().any(|place| extents.iter().any(|extent| extent.platter == place.platter))
    }
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

/// What staging holds of a version.
#[derive(Default)]
struct StagedParts {
    record: Option<(RecordHead, u64)>,
    data: Vec<StagedData>,
}

impl Archive {
    /// Fills an empty catalogue from stores and staging.
    ///
    /// # Errors
    /// [`ArchiveError`] if catalogue, keys or staging fail. What is wrong with platters is reported to `watcher`.
    pub fn rebuild(&self, watcher: &dyn Watcher) -> Result<RebuildReport, ArchiveError> {
        let mut report = RebuildReport::default();
        watcher.stage("reading staging", None);
        let (staged, mut tombstones) = self.scan_staging(&self.staging().segments()?, &mut report, watcher)?;
        let staged_tombstones: Vec<StagedTombstone> = tombstones.iter().map(|(&id, &segment)| StagedTombstone { id, segment }).collect();
        watcher.stage("reading headers", None);
        let sets = self.find_sets(&mut report, watcher);
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
                Err(TableTrouble::Archive(error)) => return Err(error),
                Err(TableTrouble::Unreadable(why)) => {
                    report.lost_tables += 1;
                    let text = format!("the file table of platter {} can't be read, and nothing on it is known: {why}", header.platter);
                    watcher.trouble(Trouble::Note { text: &text });
                }
            }
        }
        let mut batch = Vec::new();
        for (id, version) in staged {
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
                    let record = match self.open_record(entry.version, entry.sealed, &entry.record, watcher)? {
                        OpenedRecord::Record(record) => record,
                        OpenedRecord::NoKey => {
                            deleted.insert(entry.version);
                            return Ok(());
                        }
                        OpenedRecord::Unreadable => {
                            report.incomplete += 1;
                            return Ok(());
                        }
                    };
                    if stored_bytes(record.size) != entry.shard.object_bytes {
                        report.incomplete += 1;
                        let why = "its record says another length than its entry";
                        watcher.trouble(Trouble::Lost { name: &record.name, version: record.version, why });
                        return Ok(());
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
                    Err(TableTrouble::Archive(error)) => return Err(error),
                    Err(TableTrouble::Unreadable(why)) => {
                        watcher.trouble(Trouble::Note { text: &format!("the file table of platter {}: {why}", header.platter) });
                        report.lost_tables += 1;
                    }
                    Ok(()) => {}
                }
            }
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
        for (id, Parted { record, .. }) in &parted {
            // All of it is in staging: a flush was cut short that had put the beginning on platters.
            if self.catalogue().versions_of(&record.name)?.iter().any(|row| row.id == *id) {
                continue;
            }
            report.incomplete += 1;
            let why = "only some of its shards are on the platters that were found";
            watcher.trouble(Trouble::Lost { name: &record.name, version: record.version, why });
        }
        for found in sets.iter().filter(|found| found.is_doubtful() && !needed.contains(&found.description.id)) {
            let text = format!(
                "set {} has {} of its {} platters, and nothing needs it: it was never finished, or all on it was removed. It is left out of the catalogue",
                found.description.id,
                found.header.members.len() - found.missing,
                found.header.members.len(),
            );
            watcher.trouble(Trouble::Note { text: &text });
        }
        self.catalogue().adopt_tombstones(&staged_tombstones)?;
        report.deleted += deleted.len() as u64;
        Ok(report)
    }

    /// Acknowledges what is wholly staged in segments that the catalogue has no use for, and unknown to it: a put that a crash cut short between its last
    /// sync and the catalogue, or, when the catalogue is an old copy, all that was put since. What was removed has its tombstone in the catalogue
    /// for as long as its segment may be there, and no key. A tombstone that the catalogue doesn't know is of a removal that never was acknowledged.
    pub(crate) fn adopt_staged(&self, unused: &[u64], there: &[u64]) -> Result<(), ArchiveError> {
        let mut report = RebuildReport::default();
        let (mut staged, mut tombstones) = self.scan_staging(unused, &mut report, &Unwatched)?;
        if report.incomplete > 0 {
            // The rest may be in segments that are in use for something else.
            (staged, tombstones) = self.scan_staging(there, &mut RebuildReport::default(), &Unwatched)?;
        }
        tombstones.extend(self.catalogue().staged_tombstones()?.into_iter().map(|tombstone| (tombstone.id, tombstone.segment)));
        let mut batch = Vec::new();
        for (id, version) in staged {
            if !tombstones.contains_key(&id) {
                batch.push(FoundVersion::Staged(version));
                self.adopt_full(&mut batch, BATCH)?;
            }
        }
        self.adopt_full(&mut batch, 1)
    }

    fn adopt_set(&self, found: &FoundSet, report: &mut RebuildReport) -> Result<(), ArchiveError> {
        report.sets += 1;
        report.missing += found.missing as u64;
        Ok(self.catalogue().adopt_set(&found.description)?)
    }

    /// Hands over a batch that has at least `full` versions.
    fn adopt_full(&self, batch: &mut Vec<FoundVersion>, full: usize) -> Result<(), ArchiveError> {
        if batch.len() >= full {
            self.catalogue().adopt_versions(batch)?;
            batch.clear();
        }
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

    /// The sets that platters were found of, with a header and the description of each.
    fn find_sets(&self, report: &mut RebuildReport, watcher: &dyn Watcher) -> Vec<FoundSet> {
        let note = |text: String| watcher.trouble(Trouble::Note { text: &text });
        let mut sets: BTreeMap<SetId, Header> = BTreeMap::new();
        let mut places: HashMap<PlatterId, String> = HashMap::new();
        for store in self.stores() {
            let platters =
                match store.check().map_err(|error| error.to_string()).and_then(|()| store.list().map_err(|error| error.to_string())) {
                    Ok(platters) => platters,
                    Err(why) => {
                        note(why);
                        continue;
                    }
                };
            for platter in platters {
                let header = store.open(platter).map_err(|error| error.to_string()).and_then(|file| {
                    let file = file.ok_or("it is gone")?;
                    let length = file.length().map_err(|error| error.to_string())?;
                    let found = find_header(length, |offset, buffer| read_exact_at(&*file, offset, buffer));
                    found.map_err(|error: FindHeaderError| error.to_string())
                });
                // A platter may have lost its headers and still hold its sectors; its set knows it.
                places.insert(platter, store.name().to_owned());
                report.platters += 1;
                match header {
                    Ok(found) if found.header.archive != self.id() => {
                        note(format!("platter {platter} on store {} is of archive {}", store.name(), found.header.archive));
                    }
                    Ok(found) => {
                        sets.entry(found.header.set).or_insert(found.header);
                    }
                    Err(why) => note(format!("platter {platter} on store {}: {why}", store.name())),
                }
            }
        }
        let describe = |header: Header| {
            let place = |platter: PlatterId| {
                let store = places.get(&platter).cloned().unwrap_or_else(|| NOWHERE.to_owned());
                PlatterPlace { platter, store }
            };
            let description = SetDescription {
                id: header.set,
                shape: header.shape,
                geometry: header.geometry,
                written: header.written,
                platters: header.members.iter().map(|member| place(member.platter)).collect(),
            };
            let missing = description.platters.iter().filter(|place| place.store == NOWHERE).count();
            FoundSet { header, description, missing }
        };
        let mut sets: Vec<_> = sets.into_values().map(describe).collect();
        sets.sort_by_key(|found| found.header.written);
        sets
    }

    /// The versions that are completely staged, and the tombstones with the segments they are in.
    #[allow(clippy::type_complexity)]
    fn scan_staging(
        &self,
        segments: &[u64],
        report: &mut RebuildReport,
        watcher: &dyn Watcher,
    ) -> Result<(Vec<(VersionId, NewVersion)>, HashMap<VersionId, u64>), ArchiveError> {
        let mut parts: BTreeMap<VersionId, StagedParts> = BTreeMap::new();
        let mut tombstones = HashMap::new();
        for &segment in segments {
            let file = self.staging().open(segment)?;
            let read_error = |source| StagingError::Read { place: self.staging().place(), segment, source };
            let length = file.length().map_err(read_error)?;
            let read_at = |offset: u64, buffer: &mut [u8]| {
                let mut read = 0;
                while read < buffer.len() {
                    match file.read_at(offset + read as u64, &mut buffer[read..])? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        bytes => read += bytes,
                    }
                }
                Ok(())
            };
            let head = SegmentHead { archive: self.id(), number: segment };
            let scanned = scan_segment(head, length, read_at, true, |record| {
                let place = StagedPlace { segment, offset: record.payload_position(), bytes: record.payload_bytes, crc64: record.crc64 };
                match record.kind {
                    RecordKind::Data => {
                        parts.entry(record.version).or_default().data.push(StagedData { stored_offset: record.offset, place });
                    }
                    RecordKind::Object => parts.entry(record.version).or_default().record = Some((record, segment)),
                    RecordKind::Tombstone => {
                        tombstones.insert(record.version, segment);
                    }
                }
            });
            match scanned {
                Ok(scan) if !scan.damaged.is_empty() => {
                    let text = format!("staging segment {segment:016x} has {} damaged places", scan.damaged.len());
                    watcher.trouble(Trouble::Note { text: &text });
                }
                Ok(_) => {}
                Err(SegmentError::OtherArchive { found, .. }) => return Err(ArchiveError::ForeignSegment { segment, found }),
                Err(error) => watcher.trouble(Trouble::Note { text: &format!("staging segment {segment:016x}: {error}") }),
            }
        }
        let mut versions = Vec::new();
        let mut payload = Vec::new();
        for (id, StagedParts { record, mut data }) in parts {
            // Without its object record, a put never came to its end.
            let Some((head, segment)) = record else { continue };
            data.sort_by_key(|data| data.stored_offset);
            let end = data.iter().try_fold(0, |end, data| (data.stored_offset == end).then_some(end + u64::from(data.place.bytes)));
            let record_place = StagedPlace { segment, offset: head.payload_position(), bytes: head.payload_bytes, crc64: head.crc64 };
            self.staging().read(record_place, &mut payload)?;
            let record = match self.open_record(id, head.sealed, &payload, watcher)? {
                OpenedRecord::Record(record) => record,
                OpenedRecord::NoKey => {
                    report.deleted += 1;
                    continue;
                }
                OpenedRecord::Unreadable => {
                    report.incomplete += 1;
                    continue;
                }
            };
            if end != Some(head.offset) || stored_bytes(record.size) != head.offset {
                report.incomplete += 1;
                let why = "some of its staged bytes are damaged or gone";
                watcher.trouble(Trouble::Lost { name: &record.name, version: record.version, why });
                continue;
            }
            versions.push((id, NewVersion { id, record, sealed: head.sealed, stored_bytes: head.offset, record_place, data }));
        }
        Ok((versions, tombstones))
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

enum TableTrouble {
    Archive(ArchiveError),
    Unreadable(String),
}

/// Reads the file table of a platter, entry by entry.
fn read_table(
    reader: &mut SetReader<'_>,
    header: &Header,
    watcher: &dyn Watcher,
    on_entry: &mut dyn FnMut(Entry) -> Result<(), ArchiveError>,
) -> Result<(), TableTrouble> {
    let member = header.member();
    let content = TableContent { reader, platter: header.platter, at: member.table_offset, watcher };
    let unreadable = |error: fulgurite_format::TableError| TableTrouble::Unreadable(error.to_string());
    let mut table = TableReader::new(content, member.table_bytes).map_err(unreadable)?;
    for entry in &mut table {
        on_entry(entry.map_err(unreadable)?).map_err(TableTrouble::Archive)?;
    }
    let crc64 = table.finish().map_err(unreadable)?;
    if crc64 != member.table_crc64 {
        return Err(TableTrouble::Unreadable("its checksum is wrong".into()));
    }
    Ok(())
}

/// The content of a platter from some byte on.
struct TableContent<'a, 'r> {
    reader: &'a mut SetReader<'r>,
    platter: PlatterId,
    at: u64,
    watcher: &'a dyn Watcher,
}

impl Read for TableContent<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(self.platter, self.at, buffer).map_err(|error| io::Error::other(error.to_string()))?;
        self.at += buffer.len() as u64;
        self.watcher.done(0, buffer.len() as u64);
        Ok(buffer.len())
    }
}
