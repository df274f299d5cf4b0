//! Filling an empty catalogue: what staging, platters and an earlier catalogue tell, brought together.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use fulgurite_domain::{ObjectRecord, PlatterId, SetId, VersionId};
use fulgurite_format::{Entry, Header, stored_bytes};

use super::platters::FoundSet;
use super::unseen::{Unseen, UnseenPlace, unseen_places};
use super::{BATCH, OpenedRecord, RebuildReport, note_unreadable};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{
    Catalogue, CatalogueError, Extent, FoundVersion, NewVersion, SegmentEnd, StagedTombstone, Unlisted, UnlistedVersion,
};
use crate::set_reader::SetReader;
use crate::tables::{TableTrouble, read_table};
use crate::unread::Hindrance;
use crate::watch::Watcher;

impl Archive {
    /// Fills an empty catalogue from stores, staging and an earlier catalogue. Returns whether the earlier one has to be kept, because it
    /// could not be read to its end. `unseen` is what could not be looked into beside stores.
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
        let scanned = self.scan_staging(&segments, &|_, _| true, watcher)?;
        filling.tombstones = scanned.tombstones;
        let complete = match &mut earlier {
            Some(earlier) => self.removals_and_sets(*earlier, &segments, &mut filling.tombstones).unwrap_or_else(|error| {
                or_damaged(error);
                HashSet::new()
            }),
            None => HashSet::new(),
        };
        let staged_tombstones = filling.tombstones.iter().filter(|(_, segment)| **segment > 0);
        let staged_tombstones: Vec<_> = staged_tombstones.map(|(&id, &segment)| StagedTombstone { id, segment }).collect();
        watcher.stage("reading headers", None);
        let sets = self.find_sets(&complete, &mut filling.report, watcher);
        filling.platters(&sets, scanned.versions, scanned.unlisted)?;
        if let Some(earlier) = &mut earlier {
            filling.old_copies(&old, *earlier)?.unwrap_or_else(&mut or_damaged);
        }
        self.catalogue().adopt_tombstones(&staged_tombstones)?;
        let Filling { mut report, tombstones, needed, deleted, .. } = filling;
        let knows_all = match &mut earlier {
            Some(earlier) if !is_damaged => !unseen_places(*earlier).is_ok_and(|places| places.contains(&UnseenPlace::Others)),
            _ => false,
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
        if !knows_all || is_damaged {
            report.surplus_keys = self.surplus_keys()?;
            report.unseen.extend(other_places(report.surplus_keys));
        }
        self.note_unseen(&report)?;
        self.report_unlisted(&mut report, watcher)?;
        let used = self.catalogue().segments_in_use()?;
        let end = |segment: u64| Ok(SegmentEnd { segment, bytes: self.staging().length(segment)? });
        let ends: Vec<SegmentEnd> = used.into_iter().map(end).collect::<Result<_, ArchiveError>>()?;
        self.catalogue().record_segment_ends(&ends)?;
        Ok((report, is_damaged))
    }

    /// Has the new catalogue remember which segments were released, and returns those that are there again. The inner error is the earlier
    /// catalogue's.
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
}

/// What keys tell that belong to nothing that was found.
fn other_places(surplus_keys: u64) -> Option<Unseen> {
    let keys = match surplus_keys {
        0 => return None,
        1 => "1 key belongs to a version".to_owned(),
        keys => format!("{keys} keys belong to versions"),
    };
    let why = format!(
        "{keys} of which nothing was found. Are there other stores, or a staging folder? Puts that a crash cut short leave such keys as \
         well; if nothing is missing, `fulgurite catalogue forget --unseen`"
    );
    Some(Unseen { place: UnseenPlace::Others, hindrance: Hindrance::Absent, why })
}

/// A version of which parts were found on several platters.
struct Parted {
    record: ObjectRecord,
    sealed: bool,
    object_bytes: u64,
    extents: Vec<Extent>,
}

/// A rebuild that is under way.
struct Filling<'a> {
    archive: &'a Archive,
    watcher: &'a dyn Watcher,
    report: RebuildReport,
    /// Versions that were removed, with the segments that say so; segment 0 if it isn't there any more.
    tombstones: HashMap<VersionId, u64>,
    /// Versions that have been found in doubtful sets, and nowhere else so far.
    wanted: HashSet<VersionId>,
    /// Doubtful sets that hold something that is nowhere else.
    needed: HashSet<SetId>,
    parted: HashMap<VersionId, Parted>,
    /// Removed versions that are on platters.
    deleted: HashSet<VersionId>,
    /// Versions to be handed to the catalogue.
    batch: Vec<FoundVersion>,
    /// Unlisted versions to be handed to the catalogue.
    unlisted: Vec<UnlistedVersion>,
}

impl Filling<'_> {
    /// Reads the file tables of all sets, and records what they and staging have.
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
        // Tombstones first: one may be on any platter, and outweighs entries everywhere.
        let mut readable = Vec::new();
        for (found, header) in &tables {
            if self.read_tombstones(&mut reader, found, header)? {
                readable.push((*found, header));
            }
        }
        self.adopt_staged(staged, unlisted)?;
        // Sets that can be relied upon come first, so that what is in one of them needs none of the others.
        for doubtful in [false, true] {
            for (found, header) in readable.iter().filter(|(found, _)| found.is_doubtful() == doubtful) {
                self.read_entries(&mut reader, found, header)?;
            }
            self.adopt_unlisted_full(1)?;
            self.adopt_parted(sets, doubtful)?;
        }
        self.unlist_parted()
    }

    /// Reads the tombstones in a file table, and what a doubtful set has. `false` if the table can't be read.
    fn read_tombstones(&mut self, reader: &mut SetReader<'_>, found: &FoundSet, header: &Header) -> Result<bool, ArchiveError> {
        let (tombstones, wanted) = (&mut self.tombstones, &mut self.wanted);
        let read = read_table(reader, header, self.watcher, &mut |entry| {
            if entry.tombstone {
                tombstones.entry(entry.version).or_insert(0);
            } else if found.is_doubtful() {
                wanted.insert(entry.version);
            }
            Ok(())
        });
        self.or_lost(found, header, read)
    }

    /// Whether a file table was read; one that can't be is recorded.
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

    /// Records what is in old copies of released segments, listed in the earlier catalogue, and on no
    /// platter any more. The inner error is the earlier catalogue's.
    fn old_copies(&mut self, segments: &[u64], earlier: &mut dyn Catalogue) -> Result<Result<(), CatalogueError>, ArchiveError> {
        let scanned = self.archive.scan_staging(segments, &|_, _| true, self.watcher)?;
        for version in scanned.versions {
            let (name, id) = (&version.record.name, version.id);
            match earlier.version(name, id) {
                Err(error) => return Ok(Err(error)),
                Ok(None) => continue,
                Ok(Some(_)) if self.tombstones.contains_key(&id) => continue,
                Ok(Some(_)) => {}
            }
            if self.archive.catalogue().version(name, id)?.is_none() {
                self.report.staged += 1;
                self.batch.push(FoundVersion::Staged(version));
                self.adopt_full(BATCH)?;
            }
        }
        self.adopt_full(1)?;
        Ok(Ok(()))
    }

    /// Records the versions that a file table has.
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

    /// Records the versions whose parts are all there by now.
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

    /// Records the versions of which only a part was found.
    fn unlist_parted(&mut self) -> Result<(), ArchiveError> {
        let why = if self.report.unseen.is_empty() { Unlisted::Incomplete } else { Unlisted::OutOfSight };
        for (id, Parted { record, object_bytes, .. }) in std::mem::take(&mut self.parted) {
            // All of it is in staging: a flush was cut short that had put the beginning on platters.
            if self.archive.catalogue().version(&record.name, id)?.is_some() {
                continue;
            }
            let known_as = Some((record.name, record.version));
            self.unlisted.push(UnlistedVersion { id, why, stored_bytes: object_bytes, known_as, segments: Vec::new() });
        }
        self.adopt_unlisted_full(1)
    }

    /// Records a doubtful set after all, because something is on it that is nowhere else.
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

    /// Hands the batch over if it has at least `full` versions.
    fn adopt_full(&mut self, full: usize) -> Result<(), ArchiveError> {
        if self.batch.len() < full {
            return Ok(());
        }
        self.archive.catalogue().adopt_versions(&self.batch)?;
        // What is on platters may be there in part in staging, whose segments were just being released.
        if !self.archive.catalogue().unlisted(None, 1)?.is_empty() {
            let ids: Vec<VersionId> = self.batch.iter().map(FoundVersion::id).collect();
            self.archive.catalogue().forget_unlisted(&ids, &[])?;
        }
        self.batch.clear();
        Ok(())
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
