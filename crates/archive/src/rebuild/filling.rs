//! Fills an empty catalogue from staging, platters and an earlier catalogue.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use fulgurite_domain::{ObjectRecord, PlatterId, SetId, VersionId};
use fulgurite_format::{Entry, Header, stored_bytes};

use super::earlier::EarlierSets;
use super::platters::FoundSet;
use super::unseen::{Unseen, UnseenPlace, unseen_places};
use super::{BATCH, OpenedRecord, RebuildReport, note_unreadable};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{
    Catalogue, CatalogueError, Extent, FoundVersion, NewVersion, SegmentEnd, StagedTombstone, Unlisted, UnlistedVersion,
};
use crate::set_reader::SetReader;
use crate::tables::{TableTrouble, read_table};
use crate::watch::{Trouble, Watcher};

/// Platters of sets that were damaged beyond repair when they were last read.
pub(crate) fn lost_platters(catalogue: &mut dyn Catalogue) -> Result<HashSet<PlatterId>, CatalogueError> {
    let mut by_set: HashMap<SetId, (u64, Vec<PlatterId>)> = HashMap::new();
    for row in catalogue.platters()? {
        let (bad, platters) = by_set.entry(row.set).or_default();
        *bad += u64::from(row.health.missing || row.health.lost_tracks > 0);
        platters.push(row.place.platter);
    }
    by_set.retain(|_, (bad, _)| *bad > 0);
    let mut lost = HashSet::new();
    for set in catalogue.sets()? {
        if let Some((bad, platters)) = by_set.remove(&set.description.id)
            && bad > u64::from(set.description.shape.redundancy)
        {
            lost.extend(platters);
        }
    }
    Ok(lost)
}

impl Archive {
    /// Fills an empty catalogue from stores, staging and an earlier catalogue. The returned flag is
    /// true if the earlier catalogue must be kept because it could not be read completely. `unseen`
    /// names a place other than a store that could not be read.
    ///
    /// # Errors
    /// As [`rebuild`](Self::rebuild).
    pub fn rebuild_from(
        &self,
        mut earlier: Option<&mut dyn Catalogue>,
        unseen: Option<Unseen>,
        watcher: &dyn Watcher,
    ) -> Result<(RebuildReport, bool), ArchiveError> {
        let mut filling = Filling {
            archive: self,
            watcher,
            report: RebuildReport {
                unseen: self.unseen_stores().into_iter().map(Unseen::from).chain(unseen).collect(),
                ..RebuildReport::default()
            },
            tombstones: HashMap::new(),
            wanted: HashSet::new(),
            needed: HashSet::new(),
            parted: HashMap::new(),
            deleted: HashSet::new(),
            unplaced: HashSet::new(),
            archived_tombstones: Vec::new(),
            batch: Vec::new(),
            unlisted: Vec::new(),
        };
        watcher.stage("reading staging", None);
        let mut is_damaged = false;
        let mut or_damaged = |error: CatalogueError| {
            note_unreadable(&error, watcher);
            is_damaged = true;
        };
        let there = self.staging().segments()?;
        let old = match &mut earlier {
            Some(earlier) => self.carry_released(*earlier, &there)?.unwrap_or_else(|error| {
                or_damaged(error);
                Vec::new()
            }),
            None => Vec::new(),
        };
        let segments: Vec<u64> = there.into_iter().filter(|segment| old.binary_search(segment).is_err()).collect();
        let mut scanned = self.scan_staging(&segments, &|_, _| true, watcher)?;
        filling.tombstones = scanned.tombstones;
        let mut known = match &mut earlier {
            Some(earlier) => self.removals_and_sets(*earlier, &segments, &mut filling.tombstones).unwrap_or_else(|error| {
                or_damaged(error);
                EarlierSets::default()
            }),
            None => EarlierSets::default(),
        };
        filling.unplaced = std::mem::take(&mut known.unplaced);
        let mut copies = OldCopies::default();
        if let Some(earlier) = &mut earlier {
            copies = filling.old_copies(&old, *earlier)?.unwrap_or_else(|error| {
                or_damaged(error);
                OldCopies::default()
            });
        }
        scanned.versions.append(&mut copies.needed);
        let staged_tombstones = filling.tombstones.iter().filter(|(_, segment)| **segment > 0);
        let staged_tombstones: Vec<_> = staged_tombstones.map(|(&id, &segment)| StagedTombstone { id, segment }).collect();
        watcher.stage("reading headers", None);
        let mut sets = self.find_sets(&known, &mut filling.report, watcher);
        if let Some(earlier) = &mut earlier {
            for found in &mut sets {
                let mut platters = found.description.platters.iter();
                let mut left_out = |platter| {
                    earlier.is_left_out(platter).unwrap_or_else(|error| {
                        or_damaged(error);
                        false
                    })
                };
                if platters.any(|place| left_out(place.platter)) {
                    found.mark_unfinished();
                }
            }
        }
        let had_others = match &mut earlier {
            Some(earlier) => unseen_places(*earlier).map_or_else(
                |error| {
                    or_damaged(error);
                    true
                },
                |places| places.contains(&UnseenPlace::Others),
            ),
            None => false,
        };
        if had_others && sets.iter().any(|found| found.missing > 0) {
            let why = "platters of some sets are on no store, as when the archive was attached".to_owned();
            filling.report.add_others(why);
        }
        filling.platters(&sets, scanned.versions, scanned.unlisted)?;
        filling.adopt_unknown(copies.spare)?;
        self.catalogue().adopt_tombstones(&staged_tombstones)?;
        // Their set, or the staging folder that had them, is gone or was not seen.
        let unplaced: Vec<VersionId> = filling.unplaced.iter().copied().collect();
        self.restage(&unplaced)?;
        let Filling { mut report, tombstones, needed, deleted, .. } = filling;
        // Keys newer than all that the earlier catalogue knew belong to what was put since.
        let newest = match &mut earlier {
            Some(earlier) if !is_damaged && !had_others => earlier.newest_id().unwrap_or_default(),
            _ => None,
        };
        if let Some(earlier) = earlier.filter(|_| !is_damaged) {
            watcher.stage("comparing with the earlier catalogue", None);
            if let Err(error) = self.carry_over(earlier, &tombstones, &segments, &mut report, watcher)? {
                note_unreadable(&error, watcher);
                is_damaged = true;
            }
        }
        self.leave_out(sets.iter().filter(|found| found.is_doubtful() && !needed.contains(&found.description.id)), &report, watcher)?;
        report.deleted += scanned.removed + deleted.len() as u64;
        self.destroy_keys_of_removed(&tombstones)?;
        report.surplus_keys = self.surplus_keys(newest.filter(|_| !is_damaged))?;
        if report.surplus_keys > 0 {
            report.add_others(surplus_text(report.surplus_keys));
        }
        self.note_unseen(&report)?;
        self.report_unlisted(&mut report, watcher)?;
        let used = self.catalogue().segments_in_use()?;
        let end = |segment: u64| Ok(SegmentEnd { segment, bytes: self.staging().length(segment)? });
        let ends: Vec<SegmentEnd> = used.into_iter().map(end).collect::<Result<_, ArchiveError>>()?;
        self.catalogue().record_segment_ends(&ends)?;
        Ok((report, is_damaged))
    }

    /// Records the earlier catalogue's list of released segments in the new one. Returns the
    /// released segments that exist again. The inner error is the earlier catalogue's.
    fn carry_released(&self, earlier: &mut dyn Catalogue, there: &[u64]) -> Result<Result<Vec<u64>, CatalogueError>, ArchiveError> {
        let mut from = 0;
        loop {
            let page = match earlier.released(from, BATCH) {
                Ok(page) => page,
                Err(error) => return Ok(Err(error)),
            };
            let Some(last) = page.last() else { break };
            from = last.end() + 1;
            self.catalogue().note_released(&page)?;
        }
        Ok(earlier.segments_in_use().and_then(|used| earlier.old_segments(there, &used)))
    }

    /// Destroys keys that were imported while the tombstones of their versions were unreadable.
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
}

/// Says what keys tell that belong to nothing that was found.
fn surplus_text(keys: u64) -> String {
    let keys = match keys {
        1 => "1 key belongs to a version".to_owned(),
        keys => format!("{keys} keys belong to versions"),
    };
    format!(
        "{keys} of which nothing was found. Are there other stores, or a staging folder? Puts that a crash cut short leave such keys, \
         too; if nothing is missing, run `fulgurite catalogue forget --unseen`"
    )
}

/// Versions in old copies of released segments that the earlier catalogue lists.
#[derive(Default)]
struct OldCopies {
    /// Versions on sets that are damaged beyond repair.
    needed: Vec<NewVersion>,
    /// The others, which count only if they are on no platter.
    spare: Vec<NewVersion>,
}

/// A version of which parts were found on several platters.
struct Parted {
    record: ObjectRecord,
    sealed: bool,
    object_bytes: u64,
    extents: Vec<Extent>,
}

/// State of a rebuild in progress.
struct Filling<'a> {
    archive: &'a Archive,
    watcher: &'a dyn Watcher,
    report: RebuildReport,
    /// Removed versions, with the segment of their tombstone; 0 if that segment no longer exists.
    tombstones: HashMap<VersionId, u64>,
    /// Versions found only in doubtful sets so far.
    wanted: HashSet<VersionId>,
    /// Doubtful sets that contain versions found nowhere else.
    needed: HashSet<SetId>,
    parted: HashMap<VersionId, Parted>,
    /// Removed versions that are on platters.
    deleted: HashSet<VersionId>,
    /// Removed versions whose tombstone is in no segment and, so far, on no platter.
    unplaced: HashSet<VersionId>,
    /// Tombstones on platters, to be handed to the catalogue.
    archived_tombstones: Vec<(VersionId, SetId)>,
    /// Versions to hand to the catalogue.
    batch: Vec<FoundVersion>,
    /// Unlisted versions to hand to the catalogue.
    unlisted: Vec<UnlistedVersion>,
}

impl Filling<'_> {
    /// Reads the file tables of all sets, and records the versions on platters and in staging.
    fn platters(&mut self, sets: &[FoundSet], staged: Vec<NewVersion>, unlisted: Vec<UnlistedVersion>) -> Result<(), ArchiveError> {
        let rebuilding = Mutex::new(());
        let mut reader = SetReader::new(&rebuilding, self.archive.threads());
        let mut tables = Vec::new();
        for found in sets {
            if !found.is_doubtful() {
                self.adopt_set(found)?;
            }
            reader.introduce(Arc::new(self.archive.open_set(&found.description)));
            tables.extend((0..found.header.shape.information).map(|position| (found, found.header.for_position(position))));
        }
        self.watcher.stage("reading tables", Some(tables.iter().map(|(_, header)| 2 * header.member().table_bytes).sum()));
        // Tombstones come first: a tombstone on any platter overrides the version's entries on all
        // platters.
        let mut readable = Vec::new();
        for (found, header) in &tables {
            if self.read_tombstones(&mut reader, found, header)? {
                readable.push((*found, header));
            }
        }
        self.archive.catalogue().adopt_archived_tombstones(&std::mem::take(&mut self.archived_tombstones))?;
        self.adopt_staged(staged, unlisted)?;
        // Reliable sets come first, so that a doubtful set is only needed for versions found
        // nowhere else.
        for doubtful in [false, true] {
            for (found, header) in readable.iter().filter(|(found, _)| found.is_doubtful() == doubtful) {
                self.read_entries(&mut reader, found, header)?;
            }
            self.adopt_unlisted_full(1)?;
            self.adopt_parted(sets, doubtful)?;
        }
        self.unlist_parted()
    }

    /// Reads the tombstones of a file table, and the versions of a doubtful set. Returns `false` if
    /// the table can't be read.
    fn read_tombstones(&mut self, reader: &mut SetReader<'_>, found: &FoundSet, header: &Header) -> Result<bool, ArchiveError> {
        let (archive, set) = (self.archive, found.description.id);
        let Self { tombstones, wanted, unplaced, archived_tombstones, .. } = self;
        let read = read_table(reader, header, self.watcher, &mut |entry| {
            if entry.tombstone {
                tombstones.entry(entry.version).or_insert(0);
                if !found.is_doubtful() {
                    unplaced.remove(&entry.version);
                    archived_tombstones.push((entry.version, set));
                    if archived_tombstones.len() >= BATCH {
                        archive.catalogue().adopt_archived_tombstones(&std::mem::take(archived_tombstones))?;
                    }
                }
            } else if found.is_doubtful() {
                wanted.insert(entry.version);
            }
            Ok(())
        });
        self.or_lost(found, header, read)
    }

    /// Returns true if the file table was read, and records the table as lost if it is unreadable.
    fn or_lost(&mut self, found: &FoundSet, header: &Header, read: Result<(), TableTrouble<ArchiveError>>) -> Result<bool, ArchiveError> {
        match read {
            Ok(()) => Ok(true),
            Err(TableTrouble::Stopped(error)) => Err(error),
            Err(TableTrouble::Unreadable(why)) => {
                self.archive.note_lost_table(found, header, &why, &mut self.report, self.watcher)?;
                Ok(false)
            }
        }
    }

    fn adopt_staged(&mut self, staged: Vec<NewVersion>, unlisted: Vec<UnlistedVersion>) -> Result<(), ArchiveError> {
        for version in staged {
            let id = version.id;
            if self.tombstones.contains_key(&id) {
                self.report.deleted += 1;
                continue;
            }
            self.report.staged += 1;
            self.wanted.remove(&id);
            self.batch.push(FoundVersion::Staged(version));
            self.adopt_full(BATCH)?;
        }
        self.adopt_full(1)?;
        self.unlisted.extend(unlisted.into_iter().filter(|version| !self.tombstones.contains_key(&version.id)));
        self.adopt_unlisted_full(1)
    }

    /// Reads old copies of released segments. The inner error is the earlier catalogue's.
    fn old_copies(&self, segments: &[u64], earlier: &mut dyn Catalogue) -> Result<Result<OldCopies, CatalogueError>, ArchiveError> {
        let mut copies = OldCopies::default();
        if segments.is_empty() {
            return Ok(Ok(copies));
        }
        let text = format!("{} in staging were released before: only what is on no platter is taken from them", count_of(segments.len()));
        self.watcher.trouble(Trouble::Note { text: &text });
        let lost = match lost_platters(earlier) {
            Ok(lost) => lost,
            Err(error) => return Ok(Err(error)),
        };
        for version in self.archive.scan_staging(segments, &|_, _| true, self.watcher)?.versions {
            if self.tombstones.contains_key(&version.id) {
                continue;
            }
            let extents = match earlier.version(&version.record.name, version.id) {
                Ok(Some(row)) => earlier.extents(row.key),
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            match extents {
                Ok(extents) if extents.iter().any(|extent| lost.contains(&extent.platter)) => copies.needed.push(version),
                Ok(_) => copies.spare.push(version),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(copies))
    }

    /// Records staged versions that were found nowhere else.
    fn adopt_unknown(&mut self, versions: Vec<NewVersion>) -> Result<(), ArchiveError> {
        for version in versions {
            if self.archive.catalogue().version(&version.record.name, version.id)?.is_none() {
                self.report.staged += 1;
                self.batch.push(FoundVersion::Staged(version));
                self.adopt_full(BATCH)?;
            }
        }
        self.adopt_full(1)
    }

    /// Records the versions in a file table.
    fn read_entries(&mut self, reader: &mut SetReader<'_>, found: &FoundSet, header: &Header) -> Result<(), ArchiveError> {
        let watcher = self.watcher;
        let read = read_table(reader, header, watcher, &mut |entry| match entry.tombstone {
            true => Ok(()),
            false => self.adopt_entry(found, header.platter, entry),
        });
        self.or_lost(found, header, read)?;
        Ok(())
    }

    fn adopt_entry(&mut self, found: &FoundSet, platter: PlatterId, entry: Entry) -> Result<(), ArchiveError> {
        let (id, sealed, object_bytes) = (entry.version, entry.sealed, entry.shard.object_bytes);
        if found.is_doubtful() && !self.wanted.contains(&id) {
            return Ok(());
        }
        if self.tombstones.contains_key(&id) {
            self.deleted.insert(id);
            return Ok(());
        }
        let mut unlist = |why, known_as| {
            self.unlisted.push(UnlistedVersion { id, why, stored_bytes: object_bytes, known_as, segments: Vec::new() });
        };
        let record = match self.archive.open_record(id, sealed, &entry.record, self.watcher)? {
            OpenedRecord::Record(record) if stored_bytes(record.size) == object_bytes => record,
            OpenedRecord::Record(record) => {
                unlist(Unlisted::UnreadableRecord, Some((record.name, record.version)));
                return self.adopt_unlisted_full(BATCH);
            }
            OpenedRecord::NoKey => {
                unlist(Unlisted::NoKey, None);
                return self.adopt_unlisted_full(BATCH);
            }
            OpenedRecord::Unreadable => {
                unlist(Unlisted::UnreadableRecord, None);
                return self.adopt_unlisted_full(BATCH);
            }
        };
        let extent = Extent {
            shard: entry.shard.index,
            object_offset: entry.shard.object_offset,
            platter,
            offset: entry.offset,
            bytes: entry.stored_bytes,
        };
        if entry.stored_bytes != object_bytes {
            let parts = self.parted.entry(id).or_insert_with(|| Parted { record, sealed, object_bytes, extents: Vec::new() });
            parts.extents.push(extent);
            return Ok(());
        }
        if found.is_doubtful() {
            self.need(found)?;
        }
        self.adopt_archived(id, Parted { record, sealed, object_bytes, extents: vec![extent] })
    }

    /// Records the versions that are complete by now.
    fn adopt_parted(&mut self, sets: &[FoundSet], doubtful: bool) -> Result<(), ArchiveError> {
        for (id, parts) in std::mem::take(&mut self.parted) {
            if !cover(&parts.extents, parts.object_bytes) {
                self.parted.insert(id, parts);
                continue;
            }
            for found in sets.iter().filter(|found| doubtful && found.is_doubtful() && found.has_one_of(&parts.extents)) {
                self.need(found)?;
            }
            self.adopt_archived(id, parts)?;
        }
        self.adopt_full(1)
    }

    fn adopt_archived(&mut self, id: VersionId, parts: Parted) -> Result<(), ArchiveError> {
        let Parted { record, sealed, object_bytes, extents } = parts;
        self.wanted.remove(&id);
        self.report.archived += 1;
        self.batch.push(FoundVersion::Archived { id, record, sealed, stored_bytes: object_bytes, extents });
        self.adopt_full(BATCH)
    }

    /// Records the versions of which only parts were found.
    fn unlist_parted(&mut self) -> Result<(), ArchiveError> {
        let why = if self.report.unseen.is_empty() { Unlisted::Incomplete } else { Unlisted::OutOfSight };
        for (id, Parted { record, object_bytes, .. }) in std::mem::take(&mut self.parted) {
            // Staging contains all of it: a flush was interrupted after it had written the first
            // part to platters.
            if self.archive.catalogue().version(&record.name, id)?.is_some() {
                continue;
            }
            let known_as = Some((record.name, record.version));
            self.unlisted.push(UnlistedVersion { id, why, stored_bytes: object_bytes, known_as, segments: Vec::new() });
        }
        self.adopt_unlisted_full(1)
    }

    /// Records a doubtful set after all, because it contains something found nowhere else.
    fn need(&mut self, found: &FoundSet) -> Result<(), ArchiveError> {
        match self.needed.insert(found.description.id) {
            true => self.adopt_set(found),
            false => Ok(()),
        }
    }

    fn adopt_set(&mut self, found: &FoundSet) -> Result<(), ArchiveError> {
        self.report.sets += 1;
        self.report.missing += found.missing as u64;
        Ok(self.archive.catalogue().adopt_set(&found.description)?)
    }

    fn adopt_unlisted_full(&mut self, full: usize) -> Result<(), ArchiveError> {
        if self.unlisted.len() >= full {
            self.archive.catalogue().adopt_unlisted(&self.unlisted)?;
            self.unlisted.clear();
        }
        Ok(())
    }

    /// Hands the batch to the catalogue if it has at least `full` versions.
    fn adopt_full(&mut self, full: usize) -> Result<(), ArchiveError> {
        if self.batch.len() < full {
            return Ok(());
        }
        self.archive.catalogue().adopt_versions(&self.batch)?;
        // A version on platters may also be in staging in part, in segments that were being
        // released.
        if !self.archive.catalogue().unlisted(None, 1)?.is_empty() {
            let ids: Vec<VersionId> = self.batch.iter().map(FoundVersion::id).collect();
            self.archive.catalogue().forget_unlisted(&ids, &[])?;
        }
        self.batch.clear();
        Ok(())
    }
}

/// True if the extents, which may overlap, cover an object of `bytes` completely.
fn count_of(segments: usize) -> String {
    if segments == 1 { "1 segment".to_owned() } else { format!("{segments} segments") }
}

fn cover(extents: &[Extent], bytes: u64) -> bool {
    let mut sorted: Vec<&Extent> = extents.iter().collect();
    sorted.sort_by_key(|extent| extent.object_offset);
    let reach =
        |end: u64, extent: &&Extent| (extent.object_offset <= end).then(|| end.max(extent.object_offset.saturating_add(extent.bytes)));
    sorted.iter().try_fold(0, reach) == Some(bytes)
}
