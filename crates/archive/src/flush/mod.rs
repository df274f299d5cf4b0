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
//! Steps 3 and 4 of a set go on while the next is at its steps 1 and 2. It is not completed before them.
//!
//! So redundancy protects what the medium holds, not what we believe we wrote, and each platter is read once.

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
use crate::chance::random;
use crate::clock::now_s;
use crate::ingest::{Flushing, PutOutcome, PutReport, RECORD_BYTES, Skip, Source};
use crate::packing::{Bounds, Item, SetPlan, disk_geometry, plan_set};
use crate::store::PlatterStore;
use crate::watch::{Trouble, Watcher};

/// Tracks in flight between reading and coding.
const TRACKS_AHEAD: usize = 2;
/// Rows asked of the catalogue at once.
const PAGE: usize = 1_000;
/// Memory that one staged version takes while a set is planned and written, with its name, places and plan.
const ITEM_MEMORY_BYTES: u64 = 512;

/// What a flush did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
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

/// How much of a staged version is on platters, or on its way there.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// Stored bytes from its start on.
    end: u64,
    /// Shards they are cut into.
    shards: u32,
}

/// A staged version on its way to a platter.
struct Staged {
    sealed: bool,
    record: StagedPlace,
    data: Vec<StagedData>,
}

/// What a flusher has to do while a put goes on.
enum Due {
    /// Write full sets, if there are any.
    FullSets,
    /// Write everything, and tell.
    Everything(SyncSender<()>),
}

impl Archive {
    /// Writes everything that is staged to platters, set by set.
    ///
    /// # Errors
    /// What failed; sets that were complete before stay, and everything else stays staged.
    pub fn flush(&self, watcher: &dyn Watcher) -> Result<FlushReport, ArchiveError> {
        std::thread::scope(|scope| Flusher::new(self, scope).flush(watcher))
    }

    /// [`put`](Self::put) and [`flush`](Self::flush) at once, see
    /// [`put_changed_and_flush`](Self::put_changed_and_flush).
    ///
    /// # Errors
    /// [`ArchiveError`] if putting fails. If flushing does, what was put stays staged, and the report says why.
    pub fn put_and_flush(
        &self,
        sources: impl Iterator<Item = Source> + Send,
        watcher: &dyn Watcher,
    ) -> Result<(PutReport, Result<FlushReport, ArchiveError>), ArchiveError> {
        let (put, flushed) = self.put_changed_and_flush(sources, Skip::Nothing, watcher);
        put.failure.map_or(Ok((put.report, flushed)), Err)
    }

    /// [`put_changed`](Self::put_changed) and [`flush`](Self::flush) at once: whenever a full set
    /// is staged, it is written while more comes in. So staging should have room for three sets.
    /// Where it has less, the put pauses whenever it is full, and all that is staged is written: so
    /// any number of objects goes through it, as long as each has room by itself.
    ///
    /// Where the put fails, what was staged stays so.
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
                        // The put waits for it.
                        let _ = reply.send(());
                        Ok(())
                    }
                });
                (flusher, flushed)
            });
            let put = {
                // A commit that finds the flusher busy is seen with the next, or in the end.
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

    /// Writes one set of what is staged; `None` if nothing is. A version whose staged bytes are damaged is reported and stays staged, so that it
    /// doesn't keep all others from being archived.
    ///
    /// # Errors
    /// What failed; everything stays staged then.
    pub fn flush_set(&self, watcher: &dyn Watcher) -> Result<Option<FlushReport>, ArchiveError> {
        std::thread::scope(|scope| {
            let mut flusher = Flusher::new(self, scope);
            flusher.next(watcher)?;
            let report = flusher.settle(watcher)?;
            Ok((report.sets > 0).then_some(report))
        })
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

    /// Plans and writes one set of what is staged, but for what can't be read and what a set holds that is not complete yet. What is left to do with it
    /// is [`WrittenSet::finish`].
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
        let mut job = SetJob { archive: self, set, plan, items, staged, tombstones, stores };
        match job.write(watcher) {
            Ok(header) => {
                // The next set needs the memory.
                job.staged = Vec::new();
                Ok(Some(WrittenSet { job, header, staged_tombstones }))
            }
            Err(error) => {
                job.abandon();
                Err(error)
            }
        }
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
        let note = |released: &[u64]| {
            let released: Vec<_> = released.iter().map(|&segment| segment..=segment).collect();
            Ok(self.catalogue().note_released(&released)?)
        };
        self.staging().release(|| Ok(self.catalogue().segments_in_use()?), note)
    }

    /// What a set may be, by settings and memory.
    pub(crate) fn bounds(&self) -> Bounds {
        let shape = self.settings().shape();
        let mut sector_bytes_max = fulgurite_domain::SECTOR_BYTES_MAX;
        // The larger the sectors the better for disks, but the codes keep thousands of them in memory.
        while sector_bytes_max > 1_024
            && flush_memory_bytes(disk_geometry(sector_bytes_max, 240), shape, self.threads()) > self.memory_bytes() * 3 / 4
        {
            sector_bytes_max /= 2;
        }
        Bounds { shape, platter_bytes: self.settings().set.platter_mib << 20, sector_bytes_max }
    }

    /// Staged versions in order of their names, until there is enough for a set.
    fn gather(
        &self,
        capacity: u64,
        unreadable: &HashSet<VersionKey>,
        held: &HashMap<VersionKey, Held>,
    ) -> Result<(Vec<Item>, Vec<Staged>), ArchiveError> {
        let (mut items, mut staged) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut after = None;
        // Two sets may be under way.
        let most_items = (self.memory_bytes() / 8 / ITEM_MEMORY_BYTES) as usize;
        while bytes < capacity && items.len() < most_items {
            let mut catalogue = self.catalogue();
            let page = catalogue.staged_versions(after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(After::row(last));
            for row in page.into_iter().filter(|row| !unreadable.contains(&row.key)) {
                // Part of a large object may be on platters of earlier sets.
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

/// Memory that flushing takes at most: the larger of writing one information platter, and of encoding the set while writing all
/// redundancy platters; and reading the rest of the set before back meanwhile.
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
    // The set before may still be read back meanwhile.
    information.max(redundancy) + verifying::readers(threads, shape) as u64 * tracks
}
