//! Flushing: writes staged objects to platters, verifies them, and only then releases the staged
//! copies.
//!
//! ```text
//! 1. write the information platters from staging, one after another
//! 2. read them back, track by track in step; compare with what was staged;
//!    compute and write the redundancy platters
//! 3. read back the rest: redundancy platters, group redundancy tracks, headers
//! 4. one catalogue transaction completes the set and archives its versions;
//!    then segments are released (I1)
//! ```
//!
//! Steps 3 and 4 of a set overlap with steps 1 and 2 of the next one, which is never completed
//! before it.
//!
//! So redundancy protects what the medium actually holds, not what the writer believes it wrote,
//! and each platter is read only once.

mod flusher;
mod verifying;
mod writing;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use fulgurite_codec::PooledCode;
use fulgurite_domain::{Geometry, PlatterId, SetId, SetShape, VersionId};
use fulgurite_glass::{Track, WriteDrive};

use self::flusher::{Flusher, WrittenSet};
use self::writing::SetJob;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{After, PlatterPlace, SetDescription, StagedData, StagedPlace, StagedTombstone, VersionKey};
use crate::clock::now_s;
use crate::entropy::random;
use crate::ingest::{Flushing, PutOutcome, PutReport, RECORD_BYTES, Skip, Source};
use crate::packing::{Bounds, Item, SetPlan, disk_geometry, plan_set};
use crate::rebuild::lost_platters;
use crate::store::PlatterStore;
use crate::watch::{Trouble, Watcher};

/// Tracks buffered between reading and coding.
const TRACKS_AHEAD: usize = 2;
/// Rows read from the catalogue at once.
const PAGE: usize = 1_000;
/// Memory per staged version while a set is planned and written: its name, locations and plan.
const ITEM_MEMORY_BYTES: u64 = 512;

/// Result of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct FlushReport {
    /// Sets written.
    pub sets: u64,
    /// Platters written.
    pub platters: u64,
    /// Versions that became archived.
    pub versions: u64,
    /// Stored bytes written to platters.
    pub stored_bytes: u64,
    /// Size of all platter files written.
    pub platter_bytes: u64,
    /// Versions that stay staged because their staged bytes can't be read. Each was reported.
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

/// The part of a staged version that is on platters or on its way there.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// Length of the part, from the start of the stored bytes.
    end: u64,
    /// Number of its shards.
    shards: u32,
}

/// A staged version on its way to a platter.
struct Staged {
    sealed: bool,
    record: StagedPlace,
    data: Vec<StagedData>,
}

/// A task of the flusher while a put is running.
enum Due {
    /// Write full sets, if any.
    FullSets,
    /// Write everything, then reply.
    Everything(SyncSender<()>),
}

impl Archive {
    /// Writes all staged objects to platters, set by set.
    ///
    /// # Errors
    /// Whatever failed. Sets completed before are kept, and everything else stays staged.
    pub fn flush(&self, watcher: &dyn Watcher) -> Result<FlushReport, ArchiveError> {
        std::thread::scope(|scope| Flusher::new(self, scope).flush(watcher))
    }

    /// Runs [`put`](Self::put) and [`flush`](Self::flush) concurrently, see
    /// [`put_changed_and_flush`](Self::put_changed_and_flush).
    ///
    /// # Errors
    /// [`ArchiveError`] if the put fails. If the flush fails, the objects stay staged, and the
    /// inner result says why.
    pub fn put_and_flush(
        &self,
        sources: impl Iterator<Item = Source> + Send,
        watcher: &dyn Watcher,
    ) -> Result<(PutReport, Result<FlushReport, ArchiveError>), ArchiveError> {
        let (put, flushed) = self.put_changed_and_flush(sources, Skip::Nothing, watcher);
        put.failure.map_or(Ok((put.report, flushed)), Err)
    }

    /// Runs [`put_changed`](Self::put_changed) and [`flush`](Self::flush) concurrently: whenever a
    /// full set is staged, it is written while more objects arrive. So staging should have room for
    /// three sets. With less room, the put pauses whenever staging is full, and everything staged
    /// is written. So any number of objects can be put, as long as each one fits staging by itself.
    ///
    /// If the put fails, the objects staged so far stay staged.
    pub fn put_changed_and_flush(
        &self,
        sources: impl Iterator<Item = Source> + Send,
        skip: Skip,
        watcher: &dyn Watcher,
    ) -> (PutOutcome, Result<FlushReport, ArchiveError>) {
        let (due_in, due) = sync_channel(1);
        std::thread::scope(|scope| {
            let flushing = scope.spawn(move || {
                let mut flusher = Flusher::new(self, scope);
                let flushed = due.into_iter().try_for_each(|due| match due {
                    Due::FullSets => flusher.write_full_sets(),
                    Due::Everything(reply) => {
                        flusher.write_everything()?;
                        // The put waits for this reply.
                        let _ = reply.send(());
                        Ok(())
                    }
                });
                (flusher, flushed)
            });
            let put = {
                // If the flusher is busy, it sees this commit together with the next one, or at the
                // end.
                let committed = || drop(due_in.try_send(Due::FullSets));
                let flush = || {
                    let (reply, replied) = sync_channel(1);
                    due_in.send(Due::Everything(reply)).is_ok() && replied.recv().is_ok()
                };
                self.put_flushing(sources, skip, watcher, Some(&Flushing { committed: &committed, flush: &flush }))
            };
            drop(due_in);
            let (mut flusher, flushed) = flushing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let flushed = match (flushed, &put.failure) {
                (Err(error), _) => Err(error),
                (Ok(()), Some(_)) => flusher.settle(watcher),
                (Ok(()), None) => flusher.flush(watcher),
            };
            (put, flushed)
        })
    }

    /// Writes one set of staged objects. `None` if nothing is staged. Versions with damaged staged
    /// bytes are reported and stay staged, so that they don't keep others from being archived.
    ///
    /// # Errors
    /// Whatever failed; then everything stays staged.
    pub fn flush_set(&self, watcher: &dyn Watcher) -> Result<Option<FlushReport>, ArchiveError> {
        std::thread::scope(|scope| {
            let mut flusher = Flusher::new(self, scope);
            flusher.next(watcher)?;
            let report = flusher.settle(watcher)?;
            Ok((report.sets > 0).then_some(report))
        })
    }

    /// Finds and reports staged versions that can't be read. Versions already in `unreadable` are
    /// skipped.
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

    /// Plans and writes one set of staged versions, skipping unreadable ones and those on the set
    /// that is still being finished. [`WrittenSet::finish`] does the rest.
    fn write_set<'a>(
        &'a self,
        unreadable: &HashSet<VersionKey>,
        held: &HashMap<VersionKey, Held>,
        watcher: &dyn Watcher,
    ) -> Result<Option<WrittenSet<'a>>, ArchiveError> {
        let bounds = self.bounds();
        let (items, staged) = self.gather(bounds.capacity(), unreadable, held)?;
        if items.is_empty() {
            return Ok(None);
        }
        let staged_tombstones = self.catalogue().staged_tombstones()?;
        // Tombstones that don't fit go onto a later set.
        let now = staged_tombstones.len().min(bounds.most_tombstones());
        let tombstones: Vec<VersionId> = staged_tombstones[..now].iter().map(|tombstone| tombstone.id).collect();
        let plan = plan_set(&items, now, bounds);
        // A removal may have been interrupted after its catalogue transaction. Once its tombstone
        // is on a platter, nothing records that any more, so complete the removal first.
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
        let mut job = SetJob { archive: self, set, plan, items, staged, tombstones, stores };
        match job.write(watcher) {
            Ok(header) => {
                // Free the memory for the next set.
                job.staged = Vec::new();
                Ok(Some(WrittenSet { job, header, staged_tombstones }))
            }
            Err(error) => {
                job.abandon();
                Err(error)
            }
        }
    }

    /// Forgets staged tombstones that are now on platters: the first `written` ones, except those
    /// whose versions may still be in a remaining segment. The rest go onto the next set again.
    fn archive_tombstones(&self, tombstones: &[StagedTombstone], written: usize, set: SetId) -> Result<(), ArchiveError> {
        // The segments of tombstones may contain nothing else, and are newer than what they remove.
        let of_tombstones: HashSet<u64> = tombstones.iter().map(|tombstone| tombstone.segment).collect();
        let oldest = self.staging().segments()?.into_iter().find(|segment| !of_tombstones.contains(segment));
        let done = tombstones[..written].iter().filter(|tombstone| oldest.is_none_or(|oldest| tombstone.segment < oldest));
        let done: Vec<VersionId> = done.map(|tombstone| tombstone.id).collect();
        if done.is_empty() {
            return Ok(());
        }
        self.catalogue().archive_tombstones(&done, set)?;
        self.release_segments()
    }

    /// Segments that must stay: those in use, and old copies of released ones while a set is
    /// damaged beyond repair. A rebuild takes from them what the set has lost.
    fn segments_to_keep(&self) -> Result<Vec<u64>, ArchiveError> {
        let mut keep = self.catalogue().segments_in_use()?;
        let there = self.staging().segments()?;
        let old = self.catalogue().old_segments(&there, &keep)?;
        if !old.is_empty() && !lost_platters(&mut **self.catalogue())?.is_empty() {
            keep.extend(old);
            keep.sort_unstable();
        }
        Ok(keep)
    }

    /// Removes segments that hold nothing staged.
    pub(crate) fn release_segments(&self) -> Result<(), ArchiveError> {
        let note = |released: &[u64]| {
            let released: Vec<_> = released.iter().map(|&segment| segment..=segment).collect();
            Ok(self.catalogue().note_released(&released)?)
        };
        self.staging().release(|| self.segments_to_keep(), note)
    }

    /// The limits of a set, from settings and memory.
    pub(crate) fn bounds(&self) -> Bounds {
        let shape = self.settings().shape();
        let mut sector_bytes_max = fulgurite_domain::SECTOR_BYTES_MAX;
        // Larger sectors suit disks better, but the codes keep thousands of them in memory.
        while sector_bytes_max > 1_024
            && flush_memory_bytes(disk_geometry(sector_bytes_max, 240), shape, self.threads()) > self.memory_bytes() * 3 / 4
        {
            sector_bytes_max /= 2;
        }
        Bounds { shape, platter_bytes: self.settings().set.platter_mib << 20, sector_bytes_max }
    }

    /// Collects staged versions in the order of their names, until they fill a set.
    fn gather(
        &self,
        capacity: u64,
        unreadable: &HashSet<VersionKey>,
        held: &HashMap<VersionKey, Held>,
    ) -> Result<(Vec<Item>, Vec<Staged>), ArchiveError> {
        let (mut items, mut staged) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut after = None;
        // An eighth of the memory, because two sets may be in progress.
        let most_items = (self.memory_bytes() / 8 / ITEM_MEMORY_BYTES) as usize;
        while bytes < capacity && items.len() < most_items {
            let mut catalogue = self.catalogue();
            let page = catalogue.staged_versions(after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(After::row(last));
            for row in page.into_iter().filter(|row| !unreadable.contains(&row.key)) {
                // A part of a large object may be on platters of earlier sets.
                let done = match held.get(&row.key) {
                    Some(held) if held.end == row.stored_bytes => continue,
                    Some(held) => *held,
                    None => {
                        let extents = catalogue.extents(row.key)?;
                        let end = extents.iter().map(|extent| extent.object_offset + extent.bytes).max().unwrap_or(0);
                        Held { end, shards: extents.len() as u32 }
                    }
                };
                let Some((record, data)) = catalogue.staged(row.key)? else { continue };
                items.push(Item {
                    key: row.key,
                    id: row.id,
                    object_bytes: row.stored_bytes,
                    start: done.end,
                    shard: done.shards,
                    record_bytes: record.bytes,
                    cut_bytes: RECORD_BYTES as u64,
                });
                staged.push(Staged { sealed: row.sealed, record, data });
                bytes += row.stored_bytes - done.end;
                if bytes >= capacity || items.len() >= most_items {
                    break;
                }
            }
        }
        Ok((items, staged))
    }

    /// Chooses a store for each platter of a set: those with the most free space.
    fn choose_stores(&self, plan: &SetPlan) -> Result<Vec<Arc<dyn PlatterStore>>, ArchiveError> {
        let needed = plan.geometry.file_bytes();
        let mut troubles = Vec::new();
        let mut usable = Vec::new();
        for store in self.stores() {
            match (store.check(), store.free_bytes()) {
                (Err(error), _) => troubles.push(error.to_string()),
                (Ok(()), Some(free)) if free < needed => {
                    troubles.push(format!("store {} ({}) has {free} bytes free, a platter needs {needed}", store.name(), store.place()));
                }
                (Ok(()), free) => usable.push((free.unwrap_or(u64::MAX), store.clone())),
            }
        }
        if usable.len() < usize::from(plan.shape.platters()) {
            return Err(ArchiveError::TooFewStores { shape: plan.shape, available: usable.len(), why: troubles.join("; ") });
        }
        // The sort is stable: stores with equal free space keep the order of the settings.
        usable.sort_by_key(|(free, _)| std::cmp::Reverse(*free));
        Ok(usable.into_iter().take(plan.shape.platters().into()).map(|(_, store)| store).collect())
    }
}

/// Peak memory of a flush: the larger of writing one information platter, and encoding the set
/// while writing all redundancy platters; plus reading back the rest of the previous set.
fn flush_memory_bytes(geometry: Geometry, shape: SetShape, threads: usize) -> u64 {
    let tracks = Track::memory_bytes(geometry);
    let sectors = usize::from(geometry.track_information);
    let set_code = match PooledCode::new(usize::from(shape.information) * sectors, usize::from(shape.redundancy) * sectors) {
        Ok(code) => code.encoder_bytes(geometry.sector_bytes as usize) as u64,
        Err(_) => 0,
    };
    let ahead = (TRACKS_AHEAD as u64 + 2) * tracks;
    let information = WriteDrive::<io::Sink>::memory_bytes(geometry) + ahead;
    let read = (verifying::readers(threads, shape) * verifying::TRACKS_EACH + 1) as u64 * tracks;
    let redundancy = set_code + u64::from(shape.redundancy) * WriteDrive::<io::Sink>::memory_bytes(geometry) + read;
    // The previous set may still be read back.
    information.max(redundancy) + verifying::readers(threads, shape) as u64 * tracks
}
