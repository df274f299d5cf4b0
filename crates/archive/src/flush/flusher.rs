//! The flusher: writes set after set. The last step of a set reads back its redundancy, and needs a
//! disk to read from; the first step of the next set needs one to write to. So the two overlap.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use fulgurite_domain::{PlatterId, SetId, VersionId};
use fulgurite_format::{Header, RECORD_BYTES_MAX};

use super::planning::{Gathered, bounds, choose_stores, gather, versions_memory_max};
use super::writing::SetJob;
use super::{FlushReport, Kept, PAGE, Staged, WrittenPart};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{ArchivedExtent, Extent, PlatterPlace, SetDescription, StagedTombstone, VersionRow, VersionRowId};
use crate::clock::unix_s;
use crate::entropy::random;
use crate::packing::{PlacedShard, plan_set};
use crate::paging::Pager;
use crate::remove::finish_removals;
use crate::segments::release_segments;
use crate::set_reader::OpenSet;
use crate::staging::StagingError;
use crate::store::StoreError;
use crate::watch::{Trouble, Unwatched, Watcher};

/// All rows have higher numbers, or lower ones.
const NOTHING: VersionRowId = VersionRowId(0);
const EVERYTHING: VersionRowId = VersionRowId(i64::MAX);

/// Characters of a name that a message about its length shows.
const SHOWN_CHARS: usize = 100;

/// Extents that one transaction records. 2,000 take some 30 ms, in which puts wait.
const EXTENTS_MAX: usize = 2_000;
/// Pause between such transactions.
const CATALOGUE_PAUSE: Duration = Duration::from_millis(1);

/// A set whose platters are written, but which is not yet complete.
pub(super) struct WrittenSet<'a> {
    pub(super) job: SetJob<'a>,
    pub(super) header: Header,
    /// All tombstones staged when the set was planned. The first of them are on the set.
    pub(super) staged_tombstones: Vec<StagedTombstone>,
    /// How many of these are on no earlier set.
    pub(super) unwritten: u64,
}

impl WrittenSet<'_> {
    fn shards(&self) -> impl Iterator<Item = &PlacedShard> {
        self.job.plan.platters.iter().flat_map(|platter| &platter.shards)
    }

    /// The part of each version that is on this set and earlier ones.
    fn written_parts(&self) -> HashMap<VersionRowId, WrittenPart> {
        let mut written_parts: HashMap<VersionRowId, WrittenPart> = HashMap::new();
        for shard in self.shards() {
            let now = WrittenPart { end: shard.object_offset + shard.bytes, shards: shard.shard + 1 };
            written_parts
                .entry(self.job.items[shard.item].row_id)
                .and_modify(|before| *before = WrittenPart { end: before.end.max(now.end), shards: before.shards.max(now.shards) })
                .or_insert(now);
        }
        written_parts
    }

    /// Reads back the rest of the set, completes it, and releases its staged copies.
    ///
    /// # Errors
    /// Whatever failed. If verification failed, the set is given up, and everything on it stays
    /// staged.
    fn finish(self, watcher: &dyn Watcher) -> Result<FlushReport, ArchiveError> {
        let Self { job, header, .. } = &self;
        let archive = job.archive;
        let open = OpenSet::for_verification(archive, &job.set);
        if let Err(error) = job.verify_rest(&open, header, watcher) {
            job.abandon();
            return Err(error);
        }
        let mut extents = job.plan.platters.iter().zip(&job.set.platters).flat_map(|(platter, place)| {
            platter.shards.iter().map(|shard| ArchivedExtent {
                version: job.items[shard.item].row_id,
                extent: Extent {
                    shard: shard.shard,
                    object_offset: shard.object_offset,
                    platter: place.platter,
                    offset: shard.offset,
                    bytes: shard.bytes,
                },
            })
        });
        complete(archive, job.set.id, &mut extents)?;
        release_segments(archive)?;
        self.archive_tombstones()?;
        let finished = |shard: &&PlacedShard| shard.object_offset + shard.bytes == job.items[shard.item].object_bytes;
        Ok(FlushReport {
            sets: 1,
            platters: job.set.platters.len() as u64,
            versions: self.shards().filter(finished).count() as u64,
            removals: self.unwritten,
            stored_bytes: self.shards().map(|shard| shard.bytes).sum(),
            platter_bytes: job.set.platters.len() as u64 * job.set.platter_bytes(),
            ..FlushReport::default()
        })
    }

    /// Records the tombstones that are now on platters. Staging forgets them, except those whose
    /// versions may still be in a remaining segment, which go onto the next set again.
    fn archive_tombstones(&self) -> Result<(), ArchiveError> {
        let (archive, set, tombstones) = (self.job.archive, self.job.set.id, &self.staged_tombstones);
        // Segments of tombstones contain nothing else, and have higher numbers than the segments of
        // the versions that they remove.
        let of_tombstones: HashSet<u64> = tombstones.iter().map(|tombstone| tombstone.segment).collect();
        let oldest = archive.staging().segments()?.into_iter().find(|segment| !of_tombstones.contains(segment));
        let written = &tombstones[..self.job.tombstones.len()];
        let (done, left): (Vec<&StagedTombstone>, Vec<&StagedTombstone>) =
            written.iter().partition(|tombstone| oldest.is_none_or(|oldest| tombstone.segment < oldest));
        if !left.is_empty() {
            let left: Vec<_> = left.iter().map(|tombstone| (tombstone.id, set)).collect();
            archive.catalogue().adopt_archived_tombstones(&left)?;
        }
        if done.is_empty() {
            return Ok(());
        }
        let done: Vec<VersionId> = done.iter().map(|tombstone| tombstone.id).collect();
        archive.catalogue().archive_tombstones(&done, set)?;
        release_segments(archive)
    }
}

/// Records that a set is complete, and the extents on it: few in the first transaction, and twice
/// as many in each that follows, up to [`EXTENTS_MAX`]. Puts that wait for the catalogue come in
/// between. Small sets need several transactions too, so that tests meet them.
fn complete(archive: &Archive, set: SetId, extents: &mut dyn Iterator<Item = ArchivedExtent>) -> Result<(), ArchiveError> {
    let (mut extents, mut count) = (extents.peekable(), 1);
    archive.catalogue().complete_set(set, &mut extents.by_ref().take(count), unix_s())?;
    while extents.peek().is_some() {
        // Without a pause, this thread would get the lock again before those that wait for it.
        std::thread::sleep(CATALOGUE_PAUSE);
        count = (2 * count).min(EXTENTS_MAX);
        archive.catalogue().archive_on_set(set, &mut extents.by_ref().take(count))?;
    }
    Ok(())
}

struct Finishing<'scope> {
    thread: ScopedJoinHandle<'scope, Result<FlushReport, ArchiveError>>,
    written_parts: HashMap<VersionRowId, WrittenPart>,
    stored_bytes: u64,
    bytes_to_read: u64,
    /// Bytes read, until the thread ends.
    progress: Receiver<u64>,
}

/// Passes on the read progress of a set that is being finished. It is shown when there is no other
/// progress.
struct Progress(Sender<u64>);

impl Watcher for Progress {
    fn done(&self, _objects: u64, bytes: u64) {
        // If the receiver is gone, the progress is no longer needed.
        let _ = self.0.send(bytes);
    }
}

pub(super) struct Flusher<'scope, 'env> {
    archive: &'env Archive,
    scope: &'scope Scope<'scope, 'env>,
    /// Versions that can't be written to platters. Each was reported.
    kept: HashMap<VersionRowId, Kept>,
    finishing: Option<Finishing<'scope>>,
    /// True while only full sets are to be written.
    only_full: bool,
    /// Later versions stay staged.
    up_to: VersionRowId,
    /// Stores that refused a platter. They are chosen last, and not never: the reason may pass.
    refusing: HashSet<String>,
    report: FlushReport,
}

impl<'scope, 'env> Flusher<'scope, 'env> {
    pub(super) fn new(archive: &'env Archive, scope: &'scope Scope<'scope, 'env>) -> Self {
        Self {
            archive,
            scope,
            kept: HashMap::new(),
            finishing: None,
            only_full: false,
            up_to: EVERYTHING,
            refusing: HashSet::new(),
            report: FlushReport::default(),
        }
    }

    /// Writes everything that is staged now, and reports all that this flusher did. Beside clients
    /// that put small objects all the time, it would otherwise write one tiny set after another.
    pub(super) fn flush(mut self, watcher: &dyn Watcher) -> Result<FlushReport, ArchiveError> {
        // Versions kept so far were reported without a watcher.
        self.kept.clear();
        self.up_to = self.archive.catalogue().newest_row()?.unwrap_or(NOTHING);
        while self.next(watcher)? {
            if watcher.is_stopped() {
                self.await_finishing(watcher)?;
                return Err(ArchiveError::Stopped);
            }
        }
        for kept in self.kept.values() {
            match kept {
                Kept::TooLong => self.report.too_long += 1,
                Kept::Damaged => self.report.unreadable += 1,
                Kept::OutOfReach(hindrance) => {
                    self.report.unreadable += 1;
                    self.report.out_of_reach.add(*hindrance);
                }
            }
        }
        Ok(self.report)
    }

    /// Writes sets while enough is staged for full ones, without a watcher.
    pub(super) fn write_full_sets(&mut self) -> Result<(), ArchiveError> {
        loop {
            if self.finishing.as_ref().is_some_and(|finishing| finishing.thread.is_finished()) {
                self.await_finishing(&Unwatched)?;
            }
            let staged = self.archive.catalogue().staged_totals()?.stored_bytes;
            let finishing_bytes = self.finishing.as_ref().map_or(0, |finishing| finishing.stored_bytes);
            if staged.saturating_sub(finishing_bytes) < bounds(self.archive).capacity() {
                return Ok(());
            }
            // The totals count versions as a whole, even if parts of them are on platters or can't
            // be read.
            self.only_full = true;
            let next = self.next(&Unwatched);
            self.only_full = false;
            if !next? {
                return Ok(());
            }
        }
    }

    /// Writes everything that is staged and readable, without a watcher, and waits until it is
    /// released.
    pub(super) fn write_everything(&mut self) -> Result<(), ArchiveError> {
        while self.next(&Unwatched)? {}
        Ok(())
    }

    /// Writes one more set, and starts to finish it. Returns `false` if nothing readable is staged,
    /// or not enough; then all sets are complete.
    pub(super) fn next(&mut self, watcher: &dyn Watcher) -> Result<bool, ArchiveError> {
        // Otherwise the tombstones of the unfinished set would go onto the next one, too.
        if self.finishing.is_some() && !self.archive.catalogue().staged_tombstones()?.is_empty() {
            self.await_finishing(watcher)?;
        }
        let written = match self.write_readable(watcher) {
            Ok(Some(written)) => written,
            Ok(None) => {
                if self.finishing.is_some() {
                    // Freeing the cache is slow, and would happen when the segments are released.
                    // Now it costs no time, because the last set is still being finished.
                    self.archive.staging().forget_cached();
                }
                self.await_finishing(watcher)?;
                return Ok(false);
            }
            Err(error) => {
                self.await_finishing(watcher)?;
                return Err(error);
            }
        };
        // The new set may continue objects that the previous set begins. So it is valid only after
        // that one is complete.
        if let Err(error) = self.await_finishing(watcher) {
            written.job.abandon();
            return Err(error);
        }
        let (progress_in, progress) = channel();
        let written_parts = written.written_parts();
        let stored_bytes = written.shards().map(|shard| shard.bytes).sum();
        let bytes_to_read = u64::from(written.job.set.shape.redundancy) * written.job.set.geometry.file_bytes();
        let thread = self.scope.spawn(move || written.finish(&Progress(progress_in)));
        self.finishing = Some(Finishing { thread, written_parts, stored_bytes, bytes_to_read, progress });
        Ok(true)
    }

    fn write_readable(&mut self, watcher: &dyn Watcher) -> Result<Option<WrittenSet<'env>>, ArchiveError> {
        let mut refused: Vec<StoreError> = Vec::new();
        let written = self.write_onto_willing_stores(&mut refused, watcher);
        let instead = if matches!(written, Ok(Some(_))) { ". The set was written to other stores" } else { "" };
        // An error that says that too few stores are left has those of the others.
        for error in refused {
            watcher.trouble(Trouble::Note(&format!("{error}{instead}")));
        }
        written
    }

    /// Writes a set to the stores that accept its platters. Those that didn't are in `refused`
    /// afterwards, unless the error names them.
    fn write_onto_willing_stores(
        &mut self,
        refused: &mut Vec<StoreError>,
        watcher: &dyn Watcher,
    ) -> Result<Option<WrittenSet<'env>>, ArchiveError> {
        loop {
            let error = match self.write_set(refused, watcher) {
                Err(error @ ArchiveError::Staging(StagingError::Damaged { .. } | StagingError::Read { .. })) => error,
                // All of the set is still staged, so it can be written to other stores.
                Err(ArchiveError::Store(error)) if refused.iter().all(|other| other.store() != error.store()) => {
                    self.refusing.insert(error.store().to_owned());
                    refused.push(error);
                    continue;
                }
                written => return written,
            };
            // Staged bytes of the set being finished may be released at any moment, and would then
            // look unreadable.
            self.await_finishing(watcher)?;
            let before = self.kept.len();
            self.find_unreadable(watcher)?;
            if self.kept.len() == before {
                // Everything is readable again, so report the original error.
                return Err(error);
            }
        }
    }

    /// Plans and writes one set of staged versions, skipping those that can't be written and those
    /// on the set that is still being finished. [`WrittenSet::finish`] does the rest. Stores that
    /// have `refused` a platter of this set are not asked again; if too few are left, their errors
    /// go into the error that says so.
    fn write_set(&mut self, refused: &mut Vec<StoreError>, watcher: &dyn Watcher) -> Result<Option<WrittenSet<'env>>, ArchiveError> {
        let archive = self.archive;
        let bounds = bounds(archive);
        let nothing = HashMap::new();
        let written_parts = self.finishing.as_ref().map_or(&nothing, |finishing| &finishing.written_parts);
        let Gathered { items, staged, too_long } = gather(archive, bounds.capacity(), self.up_to, &self.kept, written_parts)?;
        for (row, bytes) in too_long {
            watcher.trouble(Trouble::Note(&too_long_text(&row, bytes)));
            self.kept.insert(row.row_id, Kept::TooLong);
        }
        let is_full = || {
            let bytes: u64 = items.iter().map(|item| item.object_bytes - item.start).sum();
            bytes >= bounds.capacity() || staged.iter().map(Staged::memory_bytes).sum::<u64>() >= versions_memory_max(archive)
        };
        if self.only_full && (items.is_empty() || !is_full()) {
            return Ok(None);
        }
        let mut staged_tombstones = archive.catalogue().staged_tombstones()?;
        let unwritten: HashSet<VersionId> = archive.catalogue().unwritten_tombstones()?.into_iter().collect();
        if items.is_empty() && unwritten.is_empty() {
            return Ok(None);
        }
        staged_tombstones.sort_by_key(|tombstone| !unwritten.contains(&tombstone.id));
        // Tombstones that don't fit go onto a later set.
        let now = staged_tombstones.len().min(bounds.tombstones_max());
        let tombstones: Vec<VersionId> = staged_tombstones[..now].iter().map(|tombstone| tombstone.id).collect();
        let plan = plan_set(&items, now, bounds);
        // A removal may have been interrupted after its catalogue transaction. Once its tombstone
        // is on a platter, nothing records that any more, so complete the removal first.
        finish_removals(archive, &tombstones)?;
        let stores = choose_stores(archive.stores(), &plan, refused, &self.refusing)?;
        let set = SetDescription {
            id: SetId(random()),
            shape: plan.shape,
            medium: plan.medium,
            geometry: plan.geometry,
            written: unix_s(),
            platters: stores.iter().map(|store| PlatterPlace { platter: PlatterId(random()), store: store.name().to_owned() }).collect(),
        };
        archive.catalogue().begin_set(&set)?;
        let mut job = SetJob { archive, set, plan, items, staged, tombstones, stores };
        match job.write(watcher) {
            Ok(header) => {
                // Free the memory for the next set.
                job.staged = Vec::new();
                Ok(Some(WrittenSet { job, header, staged_tombstones, unwritten: unwritten.len().min(now) as u64 }))
            }
            Err(error) => {
                job.abandon();
                Err(error)
            }
        }
    }

    fn find_unreadable(&mut self, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
        let mut payload = Vec::new();
        let mut pages = Pager::default();
        while let Some(page) = pages.next(|after| self.archive.catalogue().staged_versions(after, PAGE))? {
            for row in page {
                if self.kept.contains_key(&row.row_id) {
                    continue;
                }
                let Some((record, data)) = self.archive.catalogue().staged(row.row_id)? else { continue };
                let mut places = std::iter::once(record).chain(data.into_iter().map(|data| data.place));
                if let Err(error) = places.try_for_each(|place| self.archive.staging().read(place, &mut payload)) {
                    watcher.trouble(Trouble::unread(&row, error.hindrance(), &error.to_string()));
                    self.kept.insert(row.row_id, error.hindrance().map_or(Kept::Damaged, Kept::OutOfReach));
                }
            }
        }
        Ok(())
    }

    /// Waits for the set that is being finished, and reports all that this flusher did.
    pub(super) fn await_finishing(&mut self, watcher: &dyn Watcher) -> Result<FlushReport, ArchiveError> {
        let Some(finishing) = self.finishing.take() else { return Ok(self.report) };
        if !finishing.thread.is_finished() {
            watcher.stage("verifying redundancy", Some(finishing.bytes_to_read));
            finishing.progress.iter().for_each(|bytes| watcher.done(0, bytes));
        }
        self.report.add(finishing.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        Ok(self.report)
    }
}

/// The message for a version whose record is too long. Its name is long, too, so the message has
/// only the beginning.
fn too_long_text(row: &VersionRow, record_bytes: u32) -> String {
    let name: String = row.record.name.display().chars().take(SHOWN_CHARS).collect();
    format!(
        "not written to platters: {name}… (version {}, {}): its name has {} bytes and its record {record_bytes}, but at most \
         {RECORD_BYTES_MAX} are possible. It stays staged and can be read. `fulgurite rm --recursive` of a folder above it removes it; \
         store its content under a shorter name first",
        row.record.version,
        row.id,
        row.record.name.0.len(),
    )
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::{ArchiveId, ObjectName};

    use super::*;
    use crate::settings::{ArchiveSettings, DecodeSettings, Limits, MediumSettings, SetSettings, Settings, StagingSettings, StoreSettings};
    use crate::{Access, Source};

    /// An archive of small sets of one platter, with an object of `sets` sets in staging.
    fn staged(home: &std::path::Path, sets: f64) -> Archive {
        let settings = Settings {
            archive: ArchiveSettings { id: ArchiveId([1; 16]), encrypt: false, master_key: "master.key".into() },
            limits: Limits { memory_mib: 512, threads: 2 },
            staging: StagingSettings { segment_mib: 1, ..StagingSettings::default() },
            set: SetSettings { information: 1, redundancy: 0, platter_mib: 8 },
            medium: MediumSettings::default(),
            decode: DecodeSettings::default(),
            stores: vec![StoreSettings { name: "d1".into(), path: home.join("d1") }],
        };
        Archive::init(home, &settings).expect("an archive");
        let archive = Archive::open(home, Access::Write).expect("it opens");
        let bytes = (bounds(&archive).capacity() as f64 * sets) as usize;
        let reader = Box::new(std::io::Cursor::new(vec![7; bytes]));
        let source = Source::Stream { reader, name: ObjectName(b"large".to_vec()) };
        archive.put(std::iter::once(source), &Unwatched).expect("put");
        archive
    }

    fn full_sets(archive: &Archive) -> u64 {
        std::thread::scope(|scope| {
            let mut flusher = Flusher::new(archive, scope);
            flusher.write_full_sets().expect("written");
            // As after each commit.
            flusher.write_full_sets().expect("written");
            flusher.await_finishing(&Unwatched).expect("finished").sets
        })
    }

    #[test]
    fn the_rest_of_a_partly_written_version_waits_for_a_full_set() {
        let home = tempfile::tempdir().expect("a folder");
        let archive = staged(home.path(), 2.4);
        assert_eq!(full_sets(&archive), 2);
        // What is written does not count in a later flush either.
        assert_eq!(full_sets(&archive), 0);
        assert_eq!(archive.flush(&Unwatched).expect("flushed").sets, 1);
    }

    /// A client that puts one object whenever the flush has done some work. Their names come first.
    struct Client<'a> {
        archive: &'a Archive,
        puts: std::sync::atomic::AtomicU64,
    }

    impl Watcher for Client<'_> {
        fn done(&self, _objects: u64, _bytes: u64) {
            let number = self.puts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let reader = Box::new(std::io::Cursor::new(vec![3; 100]));
            let source = Source::Stream { reader, name: ObjectName(format!("a{number}").into()) };
            // Not for ever, or a flush that doesn't end would hang the test.
            if number < 100 {
                self.archive.put(std::iter::once(source), &Unwatched).expect("put");
            }
        }
    }

    #[test]
    fn a_flush_ends_although_clients_go_on() {
        let home = tempfile::tempdir().expect("a folder");
        let archive = staged(home.path(), 0.1);
        let client = Client { archive: &archive, puts: Default::default() };
        let report = archive.flush(&client).expect("flushed");
        assert_eq!((report.sets, report.versions), (1, 1));
        let puts = client.puts.into_inner().min(100);
        let left = archive.catalogue().staged_totals().expect("totals").versions;
        assert!(puts > 0 && left == puts, "{left} of {puts} versions are staged");
        assert_eq!(archive.flush(&Unwatched).expect("flushed").versions, puts);
    }

    #[test]
    fn unreadable_versions_do_not_make_a_set_full() {
        let home = tempfile::tempdir().expect("a folder");
        let archive = staged(home.path(), 1.4);
        for segment in archive.staging().segments().expect("listed") {
            let path = home.path().join(format!("staging/{segment:016x}.segment"));
            let mut bytes = std::fs::read(&path).expect("read");
            bytes.iter_mut().skip(64).step_by(1_000).for_each(|byte| *byte ^= 1);
            std::fs::write(&path, bytes).expect("written");
        }
        let source = |name: &str| Source::Stream { reader: Box::new(std::io::Cursor::new(vec![1; 1000])), name: ObjectName(name.into()) };
        archive.put(["small", "smaller"].into_iter().map(source), &Unwatched).expect("put");
        assert_eq!(full_sets(&archive), 0);
        let report = archive.flush(&Unwatched).expect("flushed");
        assert_eq!((report.sets, report.versions, report.unreadable, report.damaged()), (1, 2, 1, 1));
    }

    #[test]
    fn staged_bytes_that_the_system_refuses_to_read_are_not_lost() {
        #[derive(Default)]
        struct Lost(std::sync::atomic::AtomicU64);

        impl Watcher for Lost {
            fn trouble(&self, trouble: Trouble<'_>) {
                self.0.fetch_add(matches!(trouble, Trouble::Lost { .. }).into(), std::sync::atomic::Ordering::SeqCst);
            }
        }

        let home = tempfile::tempdir().expect("a folder");
        let archive = staged(home.path(), 0.4);
        let segment = archive.staging().segments().expect("listed")[0];
        drop(archive);
        let path = home.path().join(format!("staging/{segment:016x}.segment"));
        std::fs::rename(&path, home.path().join("away")).expect("renamed");
        // A folder can be opened, and every read of it fails.
        std::fs::create_dir(&path).expect("a folder");
        let archive = Archive::open(home.path(), Access::Write).expect("it opens");
        let lost = Lost::default();
        let report = archive.flush(&lost).expect("flushed");
        assert_eq!((report.sets, report.unreadable, report.damaged(), report.out_of_reach.unreadable), (0, 1, 0, 1));
        assert_eq!(lost.0.into_inner(), 0);
        drop(archive);
        std::fs::remove_dir(&path).expect("removed");
        std::fs::rename(home.path().join("away"), &path).expect("renamed");
        let archive = Archive::open(home.path(), Access::Write).expect("it opens");
        assert_eq!(archive.flush(&Unwatched).expect("flushed").versions, 1);
    }
}
