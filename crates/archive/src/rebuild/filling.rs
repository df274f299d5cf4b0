//! Reads file tables, and hands the versions on platters and in staging to the catalogue.

use std::sync::{Arc, Mutex};

use fulgurite_domain::{PlatterId, VersionId};
use fulgurite_format::{Entry, Header, stored_bytes};

use super::BATCH;
use super::platters::FoundSet;
use super::record::open_record;
use super::run::Rebuild;
use crate::archive::ArchiveError;
use crate::catalogue::{ArchivedVersion, Extent, FoundVersion, NewVersion, Unlisted, UnlistedVersion, Versions};
use crate::paging::Pager;
use crate::set_reader::{OpenSet, SetReader};
use crate::tables::{TableTrouble, read_table};
use crate::watch::Trouble;

impl Rebuild<'_> {
    /// Reads the file tables of all sets, and records the versions on platters and in staging.
    pub(super) fn read_platters(&mut self, sets: &[FoundSet], unlisted: Vec<UnlistedVersion>) -> Result<(), ArchiveError> {
        let rebuilding = Mutex::new(());
        let mut reader = SetReader::new(&rebuilding, self.archive.threads());
        let mut tables = Vec::new();
        for found in sets {
            if !found.is_doubtful() {
                self.adopt_set(found)?;
            }
            reader.open(Arc::new(OpenSet::for_verification(self.archive, &found.description)));
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
        self.settle_staged(unlisted)?;
        let staged = self.archive.catalogue().totals()?.versions;
        // Reliable sets come first, so that a doubtful set is only needed for versions found
        // nowhere else.
        for doubtful in [false, true] {
            for (found, header) in readable.iter().filter(|(found, _)| found.is_doubtful() == doubtful) {
                self.read_entries(&mut reader, found, header)?;
            }
            self.adopt_unlisted_batch_of(1)?;
            self.adopt_completed(sets, doubtful)?;
        }
        // Of versions that are in staging too, that copy counts, and was counted.
        self.report.archived = self.archive.catalogue().totals()?.versions - staged;
        self.unlist_partial()
    }

    /// Reads the tombstones of a file table, and the versions of a doubtful set. Returns `false` if
    /// the table can't be read.
    fn read_tombstones(&mut self, reader: &mut SetReader<'_>, found: &FoundSet, header: &Header) -> Result<bool, ArchiveError> {
        let (archive, set) = (self.archive, found.description.id);
        let Self { tombstones, only_in_doubtful, unlocated, archived_tombstones, .. } = self;
        let read = read_table(reader, header, self.watcher, &mut |entry| {
            if entry.tombstone {
                tombstones.entry(entry.version).or_insert(0);
                if !found.is_doubtful() {
                    unlocated.remove(&entry.version);
                    archived_tombstones.push((entry.version, set));
                    if archived_tombstones.len() >= BATCH {
                        archive.catalogue().adopt_archived_tombstones(&std::mem::take(archived_tombstones))?;
                    }
                }
            } else if found.is_doubtful() {
                only_in_doubtful.insert(entry.version);
            }
            Ok(())
        });
        self.note_if_lost(found, header, read)
    }

    /// Returns true if the file table was read, and records the table as lost if it is unreadable.
    fn note_if_lost(
        &mut self,
        found: &FoundSet,
        header: &Header,
        read: Result<(), TableTrouble<ArchiveError>>,
    ) -> Result<bool, ArchiveError> {
        match read {
            Ok(()) => Ok(true),
            Err(TableTrouble::Stopped(error)) => Err(error),
            Err(TableTrouble::Unreadable(why)) => {
                self.note_lost_table(found, header, &why)?;
                Ok(false)
            }
        }
    }

    /// Records that the file table of a platter can't be read, even if the set looks unfinished,
    /// since it may have lost its platters. While places remain unseen, the table of such a set
    /// doesn't count as lost; nor does it if an earlier catalogue lists all that is on the set.
    fn note_lost_table(&mut self, found: &FoundSet, header: &Header, why: &str) -> Result<(), ArchiveError> {
        let table = UnlistedVersion::new(VersionId(header.platter.0), Unlisted::UnreadableTable);
        let is_listed = found.was_staged || (found.was_left_out && !self.unreadable_tables.contains(&header.platter));
        if found.is_doubtful() && is_listed && self.lists_all {
            self.known_tables.push(table);
            return Ok(());
        }
        if found.misses_too_many() && !self.report.unseen.is_empty() {
            let text =
                format!("the contents of platter {} are unknown: {} platters of its set were not found", header.platter, found.missing);
            self.watcher.trouble(Trouble::Note(&text));
            return Ok(());
        }
        let mut text = format!("can't read the file table of platter {0}, so its contents are unknown: {why}", header.platter);
        if found.is_doubtful() {
            text.push_str(&format!(
                ". If a flush was cut short while it wrote set {}, nothing is missing, and `fulgurite catalogue forget {}` says so",
                found.description.id, header.platter,
            ));
        }
        self.watcher.trouble(Trouble::Note(&text));
        self.report.lost_tables += 1;
        Ok(self.archive.catalogue().adopt_unlisted(&[table])?)
    }

    /// Hands a version in staging to the catalogue. [`settle_staged`](Self::settle_staged) takes it
    /// back if it was removed.
    pub(super) fn adopt_staged(&mut self, version: NewVersion) -> Result<(), ArchiveError> {
        self.batch.push(FoundVersion::Staged(version));
        self.adopt_batch_of(BATCH)
    }

    /// Takes removed versions back from the catalogue, when all tombstones are known and it has
    /// only the versions in staging.
    fn settle_staged(&mut self, mut unlisted: Vec<UnlistedVersion>) -> Result<(), ArchiveError> {
        self.adopt_batch_of(1)?;
        let archive = self.archive;
        if !(self.tombstones.is_empty() && self.only_in_doubtful.is_empty()) {
            let mut pages = Pager::default();
            while let Some(page) = pages.next(|after| archive.catalogue().list(b"", Versions::All, after, BATCH))? {
                let mut removed = Vec::new();
                for row in page {
                    self.only_in_doubtful.remove(&row.id);
                    if self.tombstones.contains_key(&row.id) {
                        self.deleted.insert(row.id);
                        removed.push(row.row_id);
                    }
                }
                if !removed.is_empty() {
                    archive.catalogue().commit_delete(&removed, &[])?;
                }
            }
        }
        self.report.staged = archive.catalogue().staged_totals()?.versions;
        let removed = unlisted.extract_if(.., |version| self.tombstones.contains_key(&version.id));
        self.deleted.extend(removed.map(|version| version.id));
        self.unlisted.extend(unlisted);
        self.adopt_unlisted_batch_of(1)
    }

    /// Records staged versions that were found nowhere else.
    pub(super) fn adopt_unknown(&mut self, versions: Vec<NewVersion>) -> Result<(), ArchiveError> {
        for version in versions {
            if self.archive.catalogue().version(&version.record.name, version.id)?.is_none() {
                self.report.staged += 1;
                self.batch.push(FoundVersion::Staged(version));
                self.adopt_batch_of(BATCH)?;
            }
        }
        self.adopt_batch_of(1)
    }

    fn read_entries(&mut self, reader: &mut SetReader<'_>, found: &FoundSet, header: &Header) -> Result<(), ArchiveError> {
        let watcher = self.watcher;
        let read = read_table(reader, header, watcher, &mut |entry| match entry.tombstone {
            true => Ok(()),
            false => self.adopt_entry(found, header.platter, entry),
        });
        self.note_if_lost(found, header, read)?;
        Ok(())
    }

    fn adopt_entry(&mut self, found: &FoundSet, platter: PlatterId, entry: Entry) -> Result<(), ArchiveError> {
        let (id, sealed, object_bytes) = (entry.version, entry.sealed, entry.shard.object_bytes);
        if found.is_doubtful() && !self.only_in_doubtful.contains(&id) {
            return Ok(());
        }
        if self.tombstones.contains_key(&id) {
            self.deleted.insert(id);
            return Ok(());
        }
        let record = match open_record(self.archive, id, sealed, &entry.record, self.watcher)? {
            Ok(record) if stored_bytes(record.size) == object_bytes => record,
            unfit => {
                let (why, known_as) = match unfit {
                    Ok(record) => (Unlisted::UnreadableRecord, Some((record.name, record.version))),
                    Err(why) => (why, None),
                };
                self.unlisted.push(UnlistedVersion { stored_bytes: object_bytes, known_as, ..UnlistedVersion::new(id, why) });
                return self.adopt_unlisted_batch_of(BATCH);
            }
        };
        let extent = Extent {
            shard: entry.shard.index,
            object_offset: entry.shard.object_offset,
            platter,
            offset: entry.offset,
            bytes: entry.stored_bytes,
        };
        let mut version = ArchivedVersion { id, record, sealed, stored_bytes: object_bytes, extents: Vec::new() };
        if entry.stored_bytes != object_bytes {
            self.partial.entry(id).or_insert(version).extents.push(extent);
            return Ok(());
        }
        if found.is_doubtful() {
            self.need(found)?;
        }
        version.extents.push(extent);
        self.adopt_archived(version)
    }

    /// Records the versions of which all parts were found by now.
    fn adopt_completed(&mut self, sets: &[FoundSet], doubtful: bool) -> Result<(), ArchiveError> {
        for (id, version) in std::mem::take(&mut self.partial) {
            if !cover(&version.extents, version.stored_bytes) {
                self.partial.insert(id, version);
                continue;
            }
            for found in sets.iter().filter(|found| doubtful && found.is_doubtful() && found.has_one_of(&version.extents)) {
                self.need(found)?;
            }
            self.adopt_archived(version)?;
        }
        self.adopt_batch_of(1)
    }

    fn adopt_archived(&mut self, version: ArchivedVersion) -> Result<(), ArchiveError> {
        self.only_in_doubtful.remove(&version.id);
        self.batch.push(FoundVersion::Archived(version));
        self.adopt_batch_of(BATCH)
    }

    /// Records the versions of which only parts were found.
    fn unlist_partial(&mut self) -> Result<(), ArchiveError> {
        let why = if self.report.unseen.is_empty() { Unlisted::Incomplete } else { Unlisted::OutOfSight };
        for (id, ArchivedVersion { record, stored_bytes, .. }) in std::mem::take(&mut self.partial) {
            // Staging contains all of it: a flush was interrupted after it had written the first
            // part to platters.
            if self.archive.catalogue().version(&record.name, id)?.is_some() {
                continue;
            }
            let known_as = Some((record.name, record.version));
            self.unlisted.push(UnlistedVersion { stored_bytes, known_as, ..UnlistedVersion::new(id, why) });
        }
        self.adopt_unlisted_batch_of(1)
    }

    /// Records a doubtful set after all, because it contains something found nowhere else.
    fn need(&mut self, found: &FoundSet) -> Result<(), ArchiveError> {
        match self.needed_sets.insert(found.description.id) {
            true => self.adopt_set(found),
            false => Ok(()),
        }
    }

    fn adopt_set(&mut self, found: &FoundSet) -> Result<(), ArchiveError> {
        self.report.sets += 1;
        self.report.missing += found.missing as u64;
        Ok(self.archive.catalogue().adopt_set(&found.description)?)
    }

    /// Hands the unlisted versions to the catalogue if there are at least `rows_min`.
    fn adopt_unlisted_batch_of(&mut self, rows_min: usize) -> Result<(), ArchiveError> {
        if self.unlisted.len() >= rows_min {
            self.archive.catalogue().adopt_unlisted(&self.unlisted)?;
            self.unlisted.clear();
        }
        Ok(())
    }

    /// Hands the batch to the catalogue if it has at least `rows_min` versions.
    fn adopt_batch_of(&mut self, rows_min: usize) -> Result<(), ArchiveError> {
        if self.batch.len() < rows_min {
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
fn cover(extents: &[Extent], bytes: u64) -> bool {
    let mut sorted: Vec<&Extent> = extents.iter().collect();
    sorted.sort_by_key(|extent| extent.object_offset);
    let covered_end =
        |end: u64, extent: &&Extent| (extent.object_offset <= end).then(|| end.max(extent.object_offset.saturating_add(extent.bytes)));
    sorted.iter().try_fold(0, covered_end) == Some(bytes)
}
