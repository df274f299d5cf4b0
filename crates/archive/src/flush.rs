//! Flushing: what is staged is written to platters, verified, and only then released.
//!
//! ```text
//! 1. information platters are written, one after another, from staging
//! 2. they are read back, track by track in step; what was read is compared with what was staged, and the redundancy
//!    platters are computed from it and written
//! 3. what step 2 had no use for is read back too: redundancy platters, group redundancy tracks, headers
//! 4. one catalogue transaction makes the set complete and its versions archived; then segments go (I1)
//! ```
//!
//! So redundancy protects what the medium holds, not what we believe we wrote, and each platter is read once.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use fulgurite_codec::checksum::{Crc64, combine};
use fulgurite_codec::{PooledCode, PooledEncoder};
use fulgurite_domain::{Geometry, PhysicalTrack, PlatterId, SetId, TrackIndex, VersionId};
use fulgurite_format::{Entry, Header, Member, Shard, TableWriter};
use fulgurite_glass::{BlankPlatter, Track, WriteDrive};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{After, ArchivedExtent, Extent, PlatterPlace, SetDescription, StagedData, StagedPlace, StagedTombstone, VersionKey};
use crate::chance::random;
use crate::clock::now_s;
use crate::content::OpenSet;
use crate::ingest::{PutReport, RECORD_BYTES, Source};
use crate::packing::{Bounds, Item, Placed, SetPlan, disk_geometry, plan_set};
use crate::scrub::read_exact_at;
use crate::staging::StagingError;
use crate::store::{PlatterStore, StoreError};
use crate::watch::{Trouble, Unwatched, Watcher};

/// Tracks in flight between reading and coding.
const TRACKS_AHEAD: usize = 2;
/// Rows asked of the catalogue at once.
const PAGE: usize = 1_000;
/// Memory that one staged version takes while a set is planned and written, with its name, places and plan.
const ITEM_MEMORY_BYTES: u64 = 512;

/// What a flush did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlushReport {
    /// Sets written.
    pub sets: u64,
    /// Platters written.
    pub platters: u64,
    /// Versions that are archived now.
    pub versions: u64,
    /// Stored bytes put on platters.
    pub stored_bytes: u64,
    /// Bytes of all platter files written.
    pub platter_bytes: u64,
    /// Versions whose staged bytes can't be read, and which therefore stay staged; each was reported.
    pub unreadable: u64,
}

impl FlushReport {
    fn add(&mut self, other: Self) {
        self.sets += other.sets;
        self.platters += other.platters;
        self.versions += other.versions;
        self.stored_bytes += other.stored_bytes;
        self.platter_bytes += other.platter_bytes;
        self.unreadable += other.unreadable;
    }
}

/// A staged version on its way to a platter.
struct Staged {
    sealed: bool,
    record: StagedPlace,
    data: Vec<StagedData>,
}

impl Archive {
    /// Writes everything that is staged to platters, set by set.
    ///
    /// # Errors
    /// What failed; sets that were complete before stay, and everything else stays staged.
    pub fn flush(&self, watcher: &dyn Watcher) -> Result<FlushReport, ArchiveError> {
        let mut report = FlushReport::default();
        let mut unreadable = HashSet::new();
        while let Some(set) = self.flush_readable(&mut unreadable, watcher)? {
            report.add(set);
        }
        report.unreadable = unreadable.len() as u64;
        Ok(report)
    }

    /// [`put`](Self::put) and [`flush`](Self::flush) at once: whenever a full set is staged, it is written while more comes in. So staging
    /// needs room for two sets, however much is put.
    ///
    /// # Errors
    /// [`ArchiveError`] if putting fails. If flushing does, what was put stays staged, and the report says why.
    pub fn put_and_flush(
        &self,
        sources: impl Iterator<Item = Source> + Send,
        watcher: &dyn Watcher,
    ) -> Result<(PutReport, Result<FlushReport, ArchiveError>), ArchiveError> {
        let (commits_in, commits) = sync_channel(1);
        std::thread::scope(|scope| {
            let flusher = scope.spawn(move || -> Result<FlushReport, ArchiveError> {
                let mut report = FlushReport::default();
                // Reported by the flush in the end.
                let mut unreadable = HashSet::new();
                for () in commits {
                    while self.catalogue().staged_totals()?.stored_bytes >= self.bounds().capacity() {
                        match self.flush_readable(&mut unreadable, &Unwatched)? {
                            Some(set) => report.add(set),
                            None => break,
                        }
                    }
                }
                Ok(report)
            });
            // A commit that finds the flusher busy is seen with the next, or in the end.
            let put = self.put_telling(sources, watcher, &|| {
                let _ = commits_in.try_send(());
            });
            drop(commits_in);
            let flushed = flusher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let put = put?;
            let flushed = flushed.and_then(|mut report| {
                report.add(self.flush(watcher)?);
                Ok(report)
            });
            Ok((put, flushed))
        })
    }

    /// Writes one set of what is staged; `None` if nothing is. A version whose staged bytes are damaged is reported and stays staged, so that it
    /// doesn't keep all others from being archived.
    ///
    /// # Errors
    /// What failed; everything stays staged then.
    pub fn flush_set(&self, watcher: &dyn Watcher) -> Result<Option<FlushReport>, ArchiveError> {
        self.flush_readable(&mut HashSet::new(), watcher)
    }

    /// [`flush_set`](Self::flush_set), for which these can't be read, and which adds to them.
    fn flush_readable(&self, unreadable: &mut HashSet<VersionKey>, watcher: &dyn Watcher) -> Result<Option<FlushReport>, ArchiveError> {
        loop {
            let error = match self.flush_set_without(unreadable, watcher) {
                Err(error @ ArchiveError::Staging(StagingError::Damaged { .. } | StagingError::Read { .. })) => error,
                result => return result,
            };
            let before = unreadable.len();
            self.find_unreadable(unreadable, watcher)?;
            if unreadable.len() == before {
                // It can be read now.
                return Err(error);
            }
        }
    }

    /// Looks for staged versions that can't be read, and reports them. Versions that are known already are passed over.
    fn find_unreadable(&self, unreadable: &mut HashSet<VersionKey>, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let mut payload = Vec::new();
        let mut after = None;
        loop {
            let page = self.catalogue().staged_versions(after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(After::row(last));
            for row in page {
                if unreadable.contains(&row.key) {
                    continue;
                }
                let Some((record, data)) = self.catalogue().staged(row.key)? else { continue };
                let mut places = std::iter::once(record).chain(data.into_iter().map(|data| data.place));
                if let Err(error) = places.try_for_each(|place| self.staging().read(place, &mut payload)) {
                    watcher.trouble(Trouble::Lost { name: &row.record.name, version: row.record.version, why: &error.to_string() });
                    unreadable.insert(row.key);
                }
            }
        }
    }

    /// Writes one set of what is staged, but for these.
    fn flush_set_without(&self, unreadable: &HashSet<VersionKey>, watcher: &dyn Watcher) -> Result<Option<FlushReport>, ArchiveError> {
        let bounds = self.bounds();
        let (items, staged) = self.gather(bounds.capacity(), unreadable)?;
        if items.is_empty() {
            return Ok(None);
        }
        let staged_tombstones = self.catalogue().staged_tombstones()?;
        // Those that find no room go onto a set after this.
        let now = staged_tombstones.len().min(bounds.most_tombstones());
        let tombstones: Vec<VersionId> = staged_tombstones[..now].iter().map(|tombstone| tombstone.id).collect();
        let plan = plan_set(&items, now, bounds);
        // A removal may have been cut short behind the catalogue's part of it. When its tombstone is on a platter, nobody remembers that any more: so
        // what is left of it is done first.
        self.finish_removals(&tombstones)?;
        let stores = self.choose_stores(&plan)?;
        let set = SetDescription {
            id: SetId(random()),
            shape: plan.shape,
            geometry: plan.geometry,
            written: now_s(),
            platters: stores.iter().map(|store| PlatterPlace { platter: PlatterId(random()), store: store.name().to_owned() }).collect(),
        };
        self.catalogue().begin_set(&set)?;
        let job = SetJob {
            archive: self,
            set: &set,
            plan: &plan,
            items: &items,
            staged: &staged,
            tombstones: &tombstones,
            stores: &stores,
            watcher,
        };
        if let Err(error) = job.write() {
            // All of it is staged still. What can't be removed now is removed by the next opening.
            let removed = set.platters.iter().zip(&stores).all(|(place, store)| store.remove(place.platter).is_ok());
            if removed {
                let _ = self.catalogue().abandon_set(set.id);
            }
            return Err(error);
        }
        let mut extents = plan.platters.iter().zip(&set.platters).flat_map(|(platter, place)| {
            platter.shards.iter().map(|shard| ArchivedExtent {
                version: items[shard.item].key,
                extent: Extent {
                    shard: shard.shard,
                    object_offset: shard.object_offset,
                    platter: place.platter,
                    offset: shard.offset,
                    bytes: shard.bytes,
                },
            })
        });
        self.catalogue().complete_set(set.id, &mut extents, now_s())?;
        self.release_segments()?;
        self.forget_tombstones(&staged_tombstones, now)?;
        let finished = |shard: &&Placed| shard.object_offset + shard.bytes == items[shard.item].object_bytes;
        let shards = || plan.platters.iter().flat_map(|platter| &platter.shards);
        Ok(Some(FlushReport {
            sets: 1,
            platters: set.platters.len() as u64,
            versions: shards().filter(finished).count() as u64,
            stored_bytes: shards().map(|shard| shard.bytes).sum(),
            platter_bytes: set.platters.len() as u64 * plan.geometry.file_bytes(),
            unreadable: 0,
        }))
    }

    /// Takes tombstones out of staging that are on platters now, which the first `written` of them are, as far as no segment is left that their versions
    /// may be staged in. The others go onto the next set again.
    fn forget_tombstones(&self, tombstones: &[StagedTombstone], written: usize) -> Result<(), ArchiveError> {
        // Such segments hold nothing but tombstones, and come after what they remove.
        let of_tombstones: HashSet<u64> = tombstones.iter().map(|tombstone| tombstone.segment).collect();
        let oldest = self.staging().segments()?.into_iter().find(|segment| !of_tombstones.contains(segment));
        let done = tombstones[..written].iter().filter(|tombstone| oldest.is_none_or(|oldest| tombstone.segment < oldest));
        let done: Vec<VersionId> = done.map(|tombstone| tombstone.id).collect();
        if done.is_empty() {
            return Ok(());
        }
        self.catalogue().forget_tombstones(&done)?;
        self.release_segments()
    }

    /// Removes segments that hold nothing staged any more.
    pub(crate) fn release_segments(&self) -> Result<(), ArchiveError> {
        self.staging().release(|| Ok(self.catalogue().segments_in_use()?))
    }

    /// What a set may be, by settings and memory.
    pub(crate) fn bounds(&self) -> Bounds {
        let shape = self.settings().shape();
        let mut sector_bytes_max = fulgurite_domain::SECTOR_BYTES_MAX;
        // The larger the sectors the better for disks, but the codes keep thousands of them in memory.
        while sector_bytes_max > 1_024 && flush_memory_bytes(disk_geometry(sector_bytes_max, 240), shape) > self.memory_bytes() * 3 / 4 {
            sector_bytes_max /= 2;
        }
        Bounds { shape, platter_bytes: self.settings().set.platter_mib << 20, sector_bytes_max }
    }

    /// Staged versions in order of their names, until there is enough for a set.
    fn gather(&self, capacity: u64, unreadable: &HashSet<VersionKey>) -> Result<(Vec<Item>, Vec<Staged>), ArchiveError> {
        let (mut items, mut staged) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut after = None;
        let most_items = (self.memory_bytes() / 4 / ITEM_MEMORY_BYTES) as usize;
        while bytes < capacity && items.len() < most_items {
            let mut catalogue = self.catalogue();
            let page = catalogue.staged_versions(after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(After::row(last));
            for row in page.into_iter().filter(|row| !unreadable.contains(&row.key)) {
                let Some((record, data)) = catalogue.staged(row.key)? else { continue };
                // Part of a large object may be on platters of earlier sets.
                let done = catalogue.extents(row.key)?;
                let start = done.iter().map(|extent| extent.object_offset + extent.bytes).max().unwrap_or(0);
                items.push(Item {
                    key: row.key,
                    id: row.id,
                    object_bytes: row.stored_bytes,
                    start,
                    shard: done.len() as u32,
                    record_bytes: record.bytes,
                    cut_bytes: RECORD_BYTES as u64,
                });
                staged.push(Staged { sealed: row.sealed, record, data });
                bytes += row.stored_bytes - start;
                if bytes >= capacity || items.len() >= most_items {
                    break;
                }
            }
        }
        Ok((items, staged))
    }

    /// A store for each platter of a set: those with the most room.
    fn choose_stores(&self, plan: &SetPlan) -> Result<Vec<Arc<dyn PlatterStore>>, ArchiveError> {
        let needed = plan.geometry.file_bytes();
        let mut troubles = Vec::new();
        let mut usable = Vec::new();
        for store in self.stores() {
            match (store.check(), store.free_bytes()) {
                (Err(error), _) => troubles.push(error.to_string()),
                (Ok(()), Some(free)) if free < needed => {
                    troubles.push(format!("store {} ({}) has {free} bytes free and a platter takes {needed}", store.name(), store.place()));
                }
                (Ok(()), free) => usable.push((free.unwrap_or(u64::MAX), store.clone())),
            }
        }
        if usable.len() < usize::from(plan.shape.platters()) {
            return Err(ArchiveError::TooFewStores { shape: plan.shape, available: usable.len(), why: troubles.join("; ") });
        }
        // A stable sort: stores with equal room are taken in the order of the settings.
        usable.sort_by_key(|(free, _)| std::cmp::Reverse(*free));
        Ok(usable.into_iter().take(plan.shape.platters().into()).map(|(_, store)| store).collect())
    }
}

/// Memory that writing a set takes at most: the larger of writing one information platter, and of encoding the set while writing all
/// redundancy platters.
fn flush_memory_bytes(geometry: Geometry, shape: fulgurite_domain::SetShape) -> u64 {
    let tracks = Track::memory_bytes(geometry);
    let sectors = usize::from(geometry.track_information);
    let set_code = match PooledCode::new(usize::from(shape.information) * sectors, usize::from(shape.redundancy) * sectors) {
        Ok(code) => code.encoder_bytes(geometry.sector_bytes as usize) as u64,
        Err(_) => 0,
    };
    let ahead = (TRACKS_AHEAD as u64 + 2) * tracks;
    let information = WriteDrive::<io::Sink>::memory_bytes(geometry) + ahead;
    let redundancy = set_code + u64::from(shape.redundancy) * WriteDrive::<io::Sink>::memory_bytes(geometry) + ahead;
    information.max(redundancy)
}

/// One set being written.
struct SetJob<'a> {
    archive: &'a Archive,
    set: &'a SetDescription,
    plan: &'a SetPlan,
    items: &'a [Item],
    staged: &'a [Staged],
    tombstones: &'a [VersionId],
    stores: &'a [Arc<dyn PlatterStore>],
    watcher: &'a dyn Watcher,
}

impl SetJob<'_> {
    fn write(&self) -> Result<(), ArchiveError> {
        let crcs = self.shard_crcs()?;
        let header = self.header(&crcs)?;
        let geometry = self.set.geometry;
        let information = u64::from(self.set.shape.information) * geometry.content_bytes();
        self.watcher.stage("writing", Some(information));
        for position in 0..self.set.shape.information {
            self.write_information(position, &header, &crcs)?;
        }
        self.watcher.stage("verifying, coding", Some(information));
        let open = self.archive.open_set(self.set);
        self.verify_and_protect(&open, &header, &crcs)?;
        let rest = u64::from(self.set.shape.redundancy) * geometry.file_bytes();
        self.watcher.stage("verifying redundancy", Some(rest));
        let open = self.archive.open_set(self.set);
        for position in 0..self.set.shape.platters() {
            self.verify_rest(&open, position, &header)?;
        }
        Ok(())
    }

    /// CRC-64 of every shard, by platter, from those of the staged records it is made of.
    fn shard_crcs(&self) -> Result<Vec<Vec<u64>>, ArchiveError> {
        let crc = |shard: &Placed| {
            let records = records_of(&self.staged[shard.item].data, shard.object_offset, shard.bytes);
            records.iter().fold(Crc64::new().value(), |crc, data| combine(crc, data.place.crc64, data.place.bytes.into()))
        };
        Ok(self.plan.platters.iter().map(|platter| platter.shards.iter().map(crc).collect()).collect())
    }

    /// The header of the first platter; the others' follow from it.
    fn header(&self, crcs: &[Vec<u64>]) -> Result<Header, ArchiveError> {
        let mut members: Vec<Member> = self
            .set
            .platters
            .iter()
            .map(|place| Member { platter: place.platter, table_offset: 0, table_bytes: 0, table_crc64: 0 })
            .collect();
        for (position, platter) in self.plan.platters.iter().enumerate() {
            let end = self.write_table(position, &crcs[position], &mut io::sink())?;
            members[position].table_offset = platter.table_offset;
            members[position].table_bytes = end.bytes;
            members[position].table_crc64 = end.crc64;
        }
        Ok(Header {
            archive: self.archive.id(),
            platter: self.set.platters[0].platter,
            set: self.set.id,
            geometry: self.set.geometry,
            position: 0,
            shape: self.set.shape,
            members,
            written: self.set.written,
            writer: concat!("fulgurite ", env!("CARGO_PKG_VERSION")).to_owned(),
        })
    }

    /// Writes the file table of an information platter. Tombstones go onto the first.
    fn write_table(&self, position: usize, crcs: &[u64], sink: &mut dyn io::Write) -> Result<fulgurite_format::TableEnd, ArchiveError> {
        let shards = &self.plan.platters[position].shards;
        let tombstones = if position == 0 { self.tombstones } else { &[] };
        let wrong = |error: fulgurite_format::TableError| match error {
            fulgurite_format::TableError::Io(error) => ArchiveError::Io { path: "file table".into(), source: error },
            error => unreachable!("staged records are short enough: {error}"),
        };
        let mut table = TableWriter::new(sink, (shards.len() + tombstones.len()) as u64).map_err(|error| wrong(error.into()))?;
        let mut record = Vec::new();
        for (shard, &crc64) in shards.iter().zip(crcs) {
            let (item, staged) = (&self.items[shard.item], &self.staged[shard.item]);
            self.archive.staging().read(staged.record, &mut record)?;
            let entry = Entry {
                version: item.id,
                sealed: staged.sealed,
                tombstone: false,
                shard: Shard { index: shard.shard, object_bytes: item.object_bytes, object_offset: shard.object_offset },
                offset: shard.offset,
                stored_bytes: shard.bytes,
                crc64,
                record: std::mem::take(&mut record),
            };
            table.push(&entry).map_err(wrong)?;
            record = entry.record;
        }
        for &version in tombstones {
            table.push(&Entry::tombstone(version)).map_err(wrong)?;
        }
        Ok(table.finish())
    }

    fn write_information(&self, position: u16, header: &Header, crcs: &[Vec<u64>]) -> Result<(), ArchiveError> {
        let geometry = self.set.geometry;
        let store = &self.stores[usize::from(position)];
        let store_error = |source| StoreError::Io { store: store.name().to_owned(), place: store.place(), source };
        let sink = store.create(self.set.platters[usize::from(position)].platter, geometry.file_bytes()).map_err(store_error)?;
        let blank = self.blank(header, position);
        let mut drive = WriteDrive::load(blank, sink, self.archive.threads()).map_err(store_error)?;
        std::thread::scope(|scope| {
            let (filled_in, filled) = sync_channel::<Track>(TRACKS_AHEAD);
            let (empty_in, empty) = sync_channel::<Track>(TRACKS_AHEAD + 2);
            for _ in 0..TRACKS_AHEAD + 1 {
                empty_in.send(Track::new(geometry)).expect("the other end is held here");
            }
            let filler = scope.spawn(move || {
                let mut content = TrackFiller { geometry, filled: filled_in, empty, track: None, at: 0 };
                let filled = self.fill(usize::from(position), &crcs[usize::from(position)], &mut content);
                filled.and_then(|()| content.finish().map_err(|error| ArchiveError::Io { path: "track".into(), source: error }))
            });
            let mut written = Ok(());
            for mut track in filled {
                written = drive.write(&mut track).map_err(store_error);
                if written.is_err() {
                    break;
                }
                self.watcher.done(0, geometry.track_bytes());
                let _ = empty_in.send(track);
            }
            drop(empty_in);
            let filled = filler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // If writing failed, filling did for want of a taker, and writing is the reason.
            written?;
            filled
        })?;
        let written = drive.finish().map_err(store_error)?;
        written.sink.commit().map_err(store_error)?;
        Ok(())
    }

    /// Writes the content of an information platter: shards, then the table.
    fn fill(&self, position: usize, crcs: &[u64], content: &mut TrackFiller) -> Result<(), ArchiveError> {
        let mut payload = Vec::new();
        for shard in &self.plan.platters[position].shards {
            for data in records_of(&self.staged[shard.item].data, shard.object_offset, shard.bytes) {
                self.archive.staging().read(data.place, &mut payload)?;
                io::Write::write_all(content, &payload).map_err(ArchiveError::io("track".as_ref()))?;
            }
        }
        self.write_table(position, crcs, content)?;
        Ok(())
    }

    /// Reads the information platters back in step, compares them with what was staged, and writes the redundancy platters.
    fn verify_and_protect(&self, open: &OpenSet, header: &Header, crcs: &[Vec<u64>]) -> Result<(), ArchiveError> {
        let geometry = self.set.geometry;
        let shape = self.set.shape;
        let sectors = usize::from(geometry.track_information);
        let code = PooledCode::new(usize::from(shape.information) * sectors, usize::from(shape.redundancy) * sectors).ok();
        let mut encoder = code.map(|code| {
            PooledEncoder::new(&code, geometry.sector_bytes as usize)
                .expect("sectors are blocks of 64 bytes")
                .with_threads(self.archive.threads())
        });
        let mut drives = Vec::new();
        for position in shape.information..shape.platters() {
            let store = &self.stores[usize::from(position)];
            let store_error = |source| StoreError::Io { store: store.name().to_owned(), place: store.place(), source };
            let sink = store.create(self.set.platters[usize::from(position)].platter, geometry.file_bytes()).map_err(store_error)?;
            drives.push(WriteDrive::load(self.blank(header, position), sink, self.archive.threads()).map_err(store_error)?);
        }
        std::thread::scope(|scope| {
            let (read_in, read) = sync_channel::<Track>(TRACKS_AHEAD);
            let (empty_in, empty) = sync_channel::<Track>(TRACKS_AHEAD + 2);
            for _ in 0..TRACKS_AHEAD + 1 {
                empty_in.send(Track::new(geometry)).expect("the other end is held here");
            }
            let reader = scope.spawn(move || -> Result<(), ArchiveError> {
                let mut checks: Vec<ContentCheck<'_>> = (0..usize::from(shape.information))
                    .map(|position| ContentCheck::new(&self.plan.platters[position].shards, &crcs[position], header.members[position]))
                    .collect();
                for index in (0..geometry.information_tracks).map(TrackIndex) {
                    for position in 0..shape.information {
                        // Nobody takes tracks any more: writing failed, and says why.
                        let Ok(mut track) = empty.recv() else { return Ok(()) };
                        self.read_back(open, position, geometry.physical(index), &mut track)?;
                        checks[usize::from(position)].feed(&track).map_err(|what| self.wrong(position, what))?;
                        if read_in.send(track).is_err() {
                            return Ok(());
                        }
                    }
                }
                for (position, check) in checks.into_iter().enumerate() {
                    check.finish().map_err(|what| self.wrong(position as u16, what))?;
                }
                Ok(())
            });
            let mut redundancy = Track::new(geometry);
            let mut protect = || {
                for (count, track) in read.iter().enumerate() {
                    if let Some(encoder) = &mut encoder {
                        encoder.push(&track.information().collect::<Vec<_>>());
                    }
                    self.watcher.done(0, geometry.track_bytes());
                    let _ = empty_in.send(track);
                    if (count + 1) % usize::from(shape.information) != 0 {
                        continue;
                    }
                    let Some(encoder) = &mut encoder else { continue };
                    let rows = encoder.finish();
                    for (index, drive) in drives.iter_mut().enumerate() {
                        for sector in 0..geometry.track_information {
                            redundancy.payload_mut(sector).copy_from_slice(rows.row(index * sectors + usize::from(sector)));
                        }
                        let store = &self.stores[usize::from(shape.information) + index];
                        let store_error = |source| StoreError::Io { store: store.name().to_owned(), place: store.place(), source };
                        drive.write(&mut redundancy).map_err(store_error)?;
                    }
                    encoder.reset();
                }
                Ok::<(), ArchiveError>(())
            };
            let protected = protect();
            drop((read, empty_in));
            let verified = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            protected?;
            verified
        })?;
        for (drive, store) in drives.into_iter().zip(&self.stores[usize::from(shape.information)..]) {
            let store_error = |source| StoreError::Io { store: store.name().to_owned(), place: store.place(), source };
            drive.finish().map_err(store_error)?.sink.commit().map_err(store_error)?;
        }
        Ok(())
    }

    /// Reads what [`verify_and_protect`](Self::verify_and_protect) did not.
    fn verify_rest(&self, open: &OpenSet, position: u16, header: &Header) -> Result<(), ArchiveError> {
        let geometry = self.set.geometry;
        let mut track = Track::new(geometry);
        for index in 0..geometry.groups() {
            let group = geometry.group(index);
            if position >= self.set.shape.information {
                for physical in group.information_tracks() {
                    self.read_back(open, position, physical, &mut track)?;
                    self.watcher.done(0, geometry.track_stride() as u64);
                }
            }
            for physical in group.redundancy_tracks() {
                self.read_back(open, position, physical, &mut track)?;
            }
        }
        let place = &self.set.platters[usize::from(position)];
        let store = &self.stores[usize::from(position)];
        let store_error = |source| StoreError::Io { store: store.name().to_owned(), place: store.place(), source };
        let file = store.open(place.platter).map_err(store_error)?.ok_or_else(|| self.wrong(position, "it is gone".into()))?;
        let expected = self.blank(header, position).header;
        for offset in geometry.header_offsets() {
            let mut copy = vec![0; expected.len()];
            let read = read_exact_at(&*file, offset, &mut copy);
            if let Err(error) = read
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                return Err(store_error(error).into());
            }
            if copy != expected {
                return Err(self.wrong(position, format!("the header at byte {offset} is not what was written")));
            }
        }
        Ok(())
    }

    /// Reads a track of a platter that was just written. Nothing may be lost of it.
    fn read_back(&self, open: &OpenSet, position: u16, physical: PhysicalTrack, track: &mut Track) -> Result<(), ArchiveError> {
        let drive = open.drives[usize::from(position)].as_ref().ok_or_else(|| self.wrong(position, "it is gone".into()))?;
        drive.scan(physical, track);
        match track.lost_sectors() {
            0 => Ok(()),
            lost => Err(self.wrong(position, format!("{lost} sectors of track {} are bad", physical.0))),
        }
    }

    fn blank(&self, header: &Header, position: u16) -> BlankPlatter {
        let header = header.for_position(position);
        let block = header.to_block().expect("a set has at most 160 platters, whose entries fit the header");
        BlankPlatter { platter: header.platter, geometry: header.geometry, header: block }
    }

    fn wrong(&self, position: u16, what: String) -> ArchiveError {
        let place = &self.set.platters[usize::from(position)];
        ArchiveError::Verification { platter: place.platter, store: place.store.clone(), what }
    }
}

/// The staged records that make up a shard: packing cuts between them only.
fn records_of(data: &[StagedData], object_offset: u64, bytes: u64) -> &[StagedData] {
    let start = data.partition_point(|record| record.stored_offset < object_offset);
    let end = data.partition_point(|record| record.stored_offset < object_offset + bytes);
    &data[start..end]
}

/// Takes the content of a platter as it comes, and hands on full tracks.
struct TrackFiller {
    geometry: Geometry,
    filled: std::sync::mpsc::SyncSender<Track>,
    empty: std::sync::mpsc::Receiver<Track>,
    track: Option<Track>,
    at: u64,
}

impl TrackFiller {
    fn gone() -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, "the write drive stopped")
    }

    /// Fills up with zeros to the last track.
    fn finish(mut self) -> io::Result<()> {
        while self.at < self.geometry.content_bytes() {
            let mut track = match self.track.take() {
                Some(track) => track,
                None => self.empty.recv().map_err(|_| Self::gone())?,
            };
            track.zero_content_from(self.at % self.geometry.track_bytes());
            self.at += self.geometry.track_bytes() - self.at % self.geometry.track_bytes();
            self.filled.send(track).map_err(|_| Self::gone())?;
        }
        Ok(())
    }
}

impl io::Write for TrackFiller {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(self.at < self.geometry.content_bytes(), "the plan fits the platter");
        let track = match &mut self.track {
            Some(track) => track,
            None => self.track.insert(self.empty.recv().map_err(|_| Self::gone())?),
        };
        let within = self.at % self.geometry.track_bytes();
        let bytes = &bytes[..bytes.len().min((self.geometry.track_bytes() - within) as usize)];
        track.put_content(within, bytes);
        self.at += bytes.len() as u64;
        if self.at.is_multiple_of(self.geometry.track_bytes()) {
            self.filled.send(self.track.take().expect("just used")).map_err(|_| Self::gone())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compares the content that a platter gives back with what was staged, piece by piece: shards and table one after another.
struct ContentCheck<'a> {
    pieces: Box<dyn Iterator<Item = (u64, u64)> + Send + 'a>,
    /// Bytes left of the current piece, and its checksum as expected.
    current: Option<(u64, u64)>,
    crc: Crc64,
}

impl<'a> ContentCheck<'a> {
    fn new(shards: &'a [Placed], crcs: &'a [u64], member: Member) -> Self {
        let shards = shards.iter().zip(crcs).map(|(shard, &crc)| (shard.bytes, crc)).filter(|(bytes, _)| *bytes > 0);
        let mut pieces = Box::new(shards.chain(std::iter::once((member.table_bytes, member.table_crc64))));
        let current = pieces.next();
        Self { pieces, current, crc: Crc64::new() }
    }

    fn feed(&mut self, track: &Track) -> Result<(), String> {
        for sector in track.information() {
            let mut sector = sector;
            while let Some((left, expected)) = &mut self.current {
                let (now, later) = sector.split_at(sector.len().min(usize::try_from(*left).unwrap_or(usize::MAX)));
                self.crc.update(now);
                *left -= now.len() as u64;
                sector = later;
                if *left > 0 {
                    break;
                }
                if std::mem::take(&mut self.crc).value() != *expected {
                    return Err("a file differs from what was staged".into());
                }
                self.current = self.pieces.next();
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), String> {
        self.current.map_or(Ok(()), |_| Err("its content ends early".into()))
    }
}
