//! Restores that go through the library.
//!
//! A restore is one request for the shards of its object. When a drive is told to read a shard, a
//! worker reads and checks it, from that platter alone. A shard of an unreachable platter is
//! recovered when its request has ended, from the platters that drives have visited for it. What a
//! platter's own codes can't give is read like any object, from whichever stores have it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fulgurite_archive::catalogue::{Extent, SetDescription, VersionRow};
use fulgurite_archive::object::{ObjectReader, ReadError, ShardCheck};
use fulgurite_archive::{Archive, ArchiveError};
use fulgurite_domain::{PlatterId, VersionId};
use fulgurite_library::{RegionOutcome, RegionPlatter, RequestId, Shard, Tracks};
use fulgurite_live::{Ended, Read};
use tokio::sync::Notify;

use super::waiting::{Cause, Waiting};
use super::workers::{RETRY_PERIOD, SlowJob, SlowLane};
use super::{Library, RestoreEnd, lock};
use crate::gateway::Gateway;
use crate::jobs::RESTORE_RETRY_AFTER;
use crate::s3::object_names::object_name;
use crate::s3::restore::may_succeed_later;
use crate::state::{Restore, now_ms};
use crate::traces;

/// Restores that are in the library at the same time; others wait.
const FLIGHTS_MAX: usize = 10_000;

/// Restores that are brought into the library before the server looks whether it has to stop.
const TRIED_AT_ONCE: usize = 500;

/// A restore in the library.
pub(super) struct Flight {
    pub(super) id: VersionId,
    pub(super) request: RequestId,
    row: VersionRow,
    /// Whose quota it counts for.
    account: String,
    requested_ms: i64,
    /// The changes that there had been when it began.
    changes: u64,
    /// The shards, each with its platter and tracks in the library.
    shards: Vec<(Shard, Extent)>,
    /// The sets of the shards, by their number in the library.
    sets: BTreeMap<u32, SetDescription>,
    check: ShardCheck,
    /// Whether its request has ended, and its object is read in the slow lane.
    pub(super) is_slow: AtomicBool,
    /// Platters from which drives have read.
    visited: Mutex<BTreeSet<PlatterId>>,
    /// Whether a platter didn't give what it should have.
    has_failed: AtomicBool,
    /// When it was first expected to be done, in milliseconds since 1970; 0 before a forecast.
    pub(super) expected_ms: AtomicU64,
}

/// The restores in and before the library.
#[derive(Default)]
pub(super) struct Flights {
    waiting: Mutex<Waiting>,
    pub(super) by_request: Mutex<HashMap<RequestId, Arc<Flight>>>,
    requests: AtomicU64,
    /// How often restores were tried again because something had changed.
    changes: AtomicU64,
    was_repaired: AtomicBool,
    /// Whether the restores that were open at the start are known.
    has_taken_up: AtomicBool,
    pub(super) wake: Notify,
    pub(super) slow: SlowLane,
}

impl Flights {
    /// Adds a restore. Returns its request if it is in the library already.
    pub(super) fn enqueue(&self, restore: &Restore) -> Option<RequestId> {
        let is_known = lock(&self.waiting).add(restore);
        self.wake.notify_one();
        let is_it = |(request, flight): (&RequestId, &Arc<Flight>)| (flight.id == restore.id).then_some(*request);
        if is_known { lock(&self.by_request).iter().find_map(is_it) } else { None }
    }

    /// A machine was repaired.
    pub(super) fn note_repair(&self) {
        self.was_repaired.store(true, Ordering::Relaxed);
    }

    /// Tries restores again that wait for repairs, if there was one. Machines can be repaired many
    /// times a second. Returns whether there was one.
    pub(super) fn retry_if_repaired(&self) -> bool {
        let was_repaired = self.was_repaired.swap(false, Ordering::Relaxed);
        if was_repaired {
            self.retry_for(&[Cause::Machines]);
        }
        was_repaired
    }

    /// Tries restores again that wait for one of these causes, which may be gone.
    pub(super) fn retry_for(&self, causes: &[Cause]) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        lock(&self.waiting).retry_for(causes);
        self.wake.notify_one();
    }

    /// Restores that wait to be tried again, because they couldn't be carried out.
    pub(super) fn set_back(&self) -> HashMap<VersionId, Cause> {
        lock(&self.waiting).all_set_back()
    }

    /// The numbers of restores that will be brought into the library next, and of those that wait
    /// to be tried again.
    pub(super) fn count_waiting(&self) -> (usize, usize) {
        lock(&self.waiting).count()
    }

    /// A number for a request that no other has.
    pub(super) fn next_request(&self) -> RequestId {
        RequestId(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn note_failure(&self, request: RequestId) {
        if let Some(flight) = lock(&self.by_request).get(&request) {
            flight.has_failed.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.by_request).len()
    }

    pub(super) fn count_of(&self, account: &str) -> u64 {
        lock(&self.by_request).values().filter(|flight| flight.account == account).count() as u64
    }

    /// Lets a restore wait that couldn't be carried out. Returns true if that should be told.
    pub(super) fn later(&self, id: VersionId, cause: Cause) -> bool {
        lock(&self.waiting).set_back(id, cause, Instant::now() + RESTORE_RETRY_AFTER)
    }

    /// The same for a restore that began after so many changes. If there was one since, it is tried
    /// again soon.
    fn later_than(&self, id: VersionId, cause: Cause, changes: u64) -> bool {
        let has_changed = self.changes.load(Ordering::Relaxed) != changes || self.was_repaired.load(Ordering::Relaxed);
        let after = if has_changed { RETRY_PERIOD } else { RESTORE_RETRY_AFTER };
        lock(&self.waiting).set_back(id, cause, Instant::now() + after)
    }

    /// The next restore to bring into the library, if it has room.
    fn next(&self, now: Instant) -> Option<VersionId> {
        if self.count() >= FLIGHTS_MAX { None } else { lock(&self.waiting).next(now) }
    }
}

/// How a restore is to be carried out.
enum Route {
    Library(Box<Flight>, Vec<Shard>),
    /// The object is staged, or its set has no place in the library.
    Direct,
}

impl Gateway {
    /// Gives up a request after a panic, and lets its restore wait.
    pub(super) fn give_up(&self, library: &Library, request: RequestId) {
        if let Some(traces) = &self.traces {
            traces.left(request, "given up");
        }
        let flight = lock(&library.flights.by_request).remove(&request);
        if let Some(flight) = flight {
            library.flights.later(flight.id, Cause::Error);
        }
    }

    /// Takes up the restores that were open when the server started, unless that was done.
    fn enqueue_open_restores(&self, library: &Library) {
        if library.flights.has_taken_up.load(Ordering::Relaxed) {
            return;
        }
        match self.state.open_restores(usize::MAX) {
            Ok(open) => {
                open.iter().for_each(|restore| library.enqueue(restore));
                library.flights.has_taken_up.store(true, Ordering::Relaxed);
            }
            Err(error) => tracing::error!(%error, "can't look for restores; it is tried again"),
        }
    }

    /// Brings waiting restores into the library.
    pub(super) fn submit_restores(&self) {
        let Some(library) = &self.library else { return };
        self.enqueue_open_restores(library);
        let now = Instant::now();
        for tried in 0.. {
            if tried == TRIED_AT_ONCE {
                // The server may have to stop.
                library.flights.wake.notify_one();
                return;
            }
            let Some(id) = library.flights.next(now) else { return };
            match catch_unwind(AssertUnwindSafe(|| self.submit(library, id))) {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => tracing::error!(%error, version = %id, "can't begin a restore now; it is tried again"),
                Err(panic) => self.panicked("the beginning of a restore", &*panic),
            }
            library.flights.later(id, Cause::Error);
        }
    }

    fn submit(&self, library: &Library, id: VersionId) -> Result<(), Box<dyn std::error::Error>> {
        let Some(restore) = self.state.restore(id)?.filter(|restore| restore.done_ms.is_none()) else {
            if let Some(traces) = &self.traces {
                traces.end(id, "removed", None);
            }
            self.forget(library, id);
            return Ok(());
        };
        let row = self.archive.reading().version(&object_name(&restore.bucket, &restore.key), id)?;
        let Some(row) = row else {
            // The object was removed meanwhile.
            self.end_restore(library, id, None);
            return Ok(());
        };
        if let Some(traces) = &self.traces {
            traces.begin(&restore, row.record.size);
        }
        match self.route(library, &restore, &row) {
            Ok(Route::Direct) => {
                let _ = library.flights.slow.jobs.send(SlowJob::Direct(Box::new(restore), Box::new(row)));
            }
            Ok(Route::Library(flight, shards)) => {
                let request = flight.request;
                if let Some(traces) = &self.traces {
                    traces.requested(id, request, shards.iter().map(|shard| shard.platter).collect());
                }
                lock(&library.flights.by_request).insert(request, Arc::new(*flight));
                library.runner.request(request, shards, Some(due_in(&restore)));
                // A faster tier may have been requested before it could be found in the library.
                match self.state.restore(id) {
                    Ok(Some(now)) if now.due_ms < restore.due_ms => library.runner.hasten(request, due_in(&now)),
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%error, version = %id, "can't look whether a restore is due sooner now"),
                }
            }
            Err(ReadError::Archive(error)) => return Err(error.into()),
            Err(error) => self.end_restore(library, id, Some((RestoreEnd::Failed, Err(error)))),
        }
        Ok(())
    }

    /// Finds the shards of a version in the library.
    fn route(&self, library: &Library, restore: &Restore, row: &VersionRow) -> Result<Route, ReadError> {
        let of_catalogue = |error| ReadError::Archive(ArchiveError::from(error));
        let extents = self.archive.reading().extents(row.row_id).map_err(of_catalogue)?;
        if !row.archived || extents.is_empty() {
            return Ok(Route::Direct);
        }
        let (mut shards, mut sets) = (Vec::new(), BTreeMap::new());
        for extent in extents {
            let set = self.archive.reading().set_of(extent.platter).map_err(of_catalogue)?;
            let description = set.ok_or(ArchiveError::UnknownPlatter(extent.platter))?.description;
            let places = library.places.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            let number = places.number(description.id);
            let position = description.platters.iter().position(|place| place.platter == extent.platter);
            let (Some(number), Some(position)) = (number, position) else { return Ok(Route::Direct) };
            let Some(platter) = places.platters_of(number).nth(position) else { return Ok(Route::Direct) };
            let first = description.geometry.locate(extent.offset).0.0;
            let last = description.geometry.locate(extent.offset + extent.bytes.saturating_sub(1)).0.0;
            if extent.bytes == 0 || last >= library.plan.tracks() {
                return Ok(Route::Direct);
            }
            shards.push((Shard { platter, tracks: Tracks { first, count: last - first + 1 } }, extent));
            sets.insert(number, description);
        }
        let flight = Flight {
            id: row.id,
            request: library.flights.next_request(),
            changes: library.flights.changes.load(Ordering::Relaxed),
            account: restore.account.clone(),
            requested_ms: restore.requested_ms,
            check: ShardCheck::begin(&self.archive, row)?,
            is_slow: AtomicBool::new(false),
            row: row.clone(),
            sets,
            visited: Mutex::default(),
            has_failed: AtomicBool::new(false),
            expected_ms: AtomicU64::new(0),
            shards: shards.clone(),
        };
        Ok(Route::Library(Box::new(flight), shards.into_iter().map(|(shard, _)| shard).collect()))
    }

    /// A drive was told to read: reads what was wanted of these tracks, and lets the drive go on.
    pub(super) fn read_for_drive(&self, library: &Library, read: &Read) {
        let flight = lock(&library.flights.by_request).get(&read.request).cloned();
        if let Some(flight) = flight {
            let start = traces::Instant::now();
            if !flight.read(&self.archive, library, read) {
                self.jobs.platters_suspected.store(true, Ordering::Relaxed);
            }
            if let Some(traces) = self.traces.as_ref().filter(|_| !read.is_recovery) {
                traces.add(flight.id, "check bytes", start, vec![("fulgurite.platter", read.platter.0.into())]);
            }
        }
        library.runner.bytes_read(read.command);
    }

    /// A request has ended: completes its restore, or leaves that to the slow lane.
    pub(super) fn end_request(&self, library: &Library, ended: Ended) {
        if let Some(traces) = &self.traces {
            traces.left(ended.request, outcome_word(ended.outcome));
        }
        let Some(flight) = lock(&library.flights.by_request).get(&ended.request).cloned() else { return };
        if ended.outcome == RegionOutcome::Unavailable {
            lock(&library.flights.by_request).remove(&ended.request);
            if library.flights.later_than(flight.id, Cause::Machines, flight.changes) {
                let name = flight.row.record.name.display();
                tracing::warn!(name, version = %flight.id, "a restore waits: too many platters of a set are out of the library's reach");
            }
            return;
        }
        let is_checked = ended.outcome == RegionOutcome::Read && !flight.has_failed.load(Ordering::Relaxed) && flight.check.is_complete();
        if is_checked {
            self.complete_restore(library, &flight, RestoreEnd::Read, Ok(()));
        } else {
            flight.is_slow.store(true, Ordering::Relaxed);
            let _ = library.flights.slow.jobs.send(SlowJob::Finish(flight, ended));
        }
    }

    /// Reads an object whose request has ended without all of its shards: from the platters that
    /// were visited if they suffice.
    pub(super) fn finish_slowly(&self, library: &Library, flight: &Arc<Flight>, ended: &Ended) {
        let read = |what, mut reader: ObjectReader<'_>| self.traced(flight.id, what, || reader.read(&flight.row, &mut |_| Ok(())));
        if ended.outcome == RegionOutcome::Recovered {
            let visited = lock(&flight.visited).clone();
            match read("read visited platters", ObjectReader::new(&self.archive).with_only(visited)) {
                Ok(()) => {
                    self.complete_restore(library, flight, RestoreEnd::Recovered, Ok(()));
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "the platters that the library fetched don't suffice for a restore; others are read too")
                }
            }
        }
        let result = read("read from stores", ObjectReader::new(&self.archive));
        lock(&library.flights.by_request).remove(&flight.request);
        if self.waits(library, flight.id, flight.changes, &result) {
            return;
        }
        let end = if result.is_ok() { RestoreEnd::WithoutLibrary } else { RestoreEnd::Failed };
        self.complete_restore(library, flight, end, result);
    }

    /// Restores an object that is staged or has no place in the library.
    pub(super) fn restore_directly(&self, library: &Library, restore: &Restore, row: &VersionRow) {
        let changes = library.flights.changes.load(Ordering::Relaxed);
        let read = || ObjectReader::new(&self.archive).read(row, &mut |_| Ok(()));
        let result = self.traced(restore.id, "read from stores", read);
        if self.waits(library, restore.id, changes, &result) {
            return;
        }
        let end = if result.is_ok() { RestoreEnd::WithoutLibrary } else { RestoreEnd::Failed };
        self.end_restore(library, restore.id, Some((end, result)));
    }

    /// Whether a restore waits for stores that are absent, or for another try: nothing is known to
    /// be lost.
    fn waits(&self, library: &Library, id: VersionId, changes: u64, result: &Result<(), ReadError>) -> bool {
        let Err(error) = result else { return false };
        let waits = may_succeed_later(error);
        if waits && library.flights.later_than(id, Cause::Stores, changes) {
            tracing::warn!(%error, version = %id, "a restore waits");
        }
        waits
    }

    fn complete_restore(&self, library: &Library, flight: &Flight, end: RestoreEnd, result: Result<(), ReadError>) {
        let expected_ms = flight.expected_ms.load(Ordering::Relaxed);
        if expected_ms > 0 && result.is_ok() {
            library.estimates.note(flight.requested_ms, expected_ms as i64, now_ms());
        }
        lock(&library.flights.by_request).remove(&flight.request);
        self.end_restore(library, flight.id, Some((end, result)));
    }

    /// Records the end of a restore; without a result, of an object that was removed.
    fn end_restore(&self, library: &Library, id: VersionId, result: Option<(RestoreEnd, Result<(), ReadError>)>) {
        let (end, result) = result.map_or((None, None), |(end, result)| (Some(end), Some(result)));
        let error = result.as_ref().and_then(|result| result.as_ref().err()).map(ToString::to_string);
        match self.record_restore_end(id, result) {
            Ok(()) => {
                if let Some(end) = end {
                    library.count(end);
                }
                if let Some(traces) = &self.traces {
                    traces.end(id, end.map_or("removed", RestoreEnd::word), error.as_deref());
                }
                self.forget(library, id);
            }
            Err(error) => {
                tracing::error!(%error, "can't record the result of a restore; it is carried out again");
                library.flights.later(id, Cause::Error);
            }
        }
    }
}

/// The real time until a restore is due.
pub(super) fn due_in(restore: &Restore) -> Duration {
    Duration::from_millis(u64::try_from(restore.due_ms - now_ms()).unwrap_or(0))
}

fn outcome_word(outcome: RegionOutcome) -> &'static str {
    match outcome {
        RegionOutcome::Read => "read",
        RegionOutcome::Recovered => "recovered",
        RegionOutcome::Unavailable => "unavailable",
        RegionOutcome::Refused => "refused",
    }
}

impl Gateway {
    /// Reads for a restore, as a part of its trace.
    pub(crate) fn traced<T>(&self, id: VersionId, what: &'static str, read: impl FnOnce() -> T) -> T {
        let start = traces::Instant::now();
        let result = read();
        if let Some(traces) = &self.traces {
            traces.add(id, what, start, Vec::new());
        }
        result
    }

    /// Forgets a restore that is no longer open.
    fn forget(&self, library: &Library, id: VersionId) {
        let wish = lock(&library.flights.waiting).forget(id);
        // It may have been requested again since its end was recorded, and was still known then.
        match self.state.restore(id) {
            Ok(Some(restore)) if restore.done_ms.is_none() => library.enqueue(&restore),
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, version = %id, "can't look for a restore; it is tried again");
                if let Some(wish) = wish {
                    lock(&library.flights.waiting).remember(id, wish);
                }
                library.flights.later(id, Cause::Error);
            }
        }
    }
}

impl Flight {
    /// Reads what was wanted of these tracks. Returns false if the platter doesn't give it.
    fn read(&self, archive: &Archive, library: &Library, read: &Read) -> bool {
        if read.is_recovery {
            let places = library.places.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (number, position) = places.position_of(read.platter);
            if let Some(place) = self.sets.get(&number).and_then(|set| set.platters.get(usize::from(position))) {
                lock(&self.visited).insert(place.platter);
            }
            return true;
        }
        let mut is_given = true;
        for (_, extent) in self.shards.iter().filter(|(shard, _)| (shard.platter, shard.tracks) == (read.platter, read.tracks)) {
            match self.check.read(archive, extent) {
                Ok(()) => {
                    lock(&self.visited).insert(extent.platter);
                }
                Err(error) => {
                    tracing::warn!(%error, platter = %extent.platter, "a platter in a drive doesn't give a shard");
                    self.has_failed.store(true, Ordering::Relaxed);
                    is_given = false;
                }
            }
        }
        is_given
    }

    /// The shards that are wanted from platters of the library.
    pub(super) fn platters(&self) -> impl Iterator<Item = (RegionPlatter, PlatterId)> + '_ {
        self.shards.iter().map(|(shard, extent)| (shard.platter, extent.platter))
    }
}
