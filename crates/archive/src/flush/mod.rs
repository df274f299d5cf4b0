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
//! Because redundancy is computed from what was read back, it protects what the medium actually
//! holds, not what the writer believes it wrote; and each track is read only once.
//!
//! Steps 3 and 4 of a set overlap with steps 1 and 2 of the next one, which is never completed
//! before it.

mod flusher;
mod planning;
mod verifying;
mod writing;

use std::sync::mpsc::{SyncSender, sync_channel};

use self::flusher::Flusher;
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{StagedData, StagedPlace};
use crate::ingest::{FlushHooks, PutOutcome, Skip, Source, put_flushing};
use crate::unread::Hindrance;
use crate::watch::{OutOfReach, Watcher};

/// Filled tracks that may wait for the write drive.
const TRACKS_AHEAD: usize = 2;
const PAGE: usize = 1_000;

/// Result of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct FlushReport {
    /// Sets written.
    pub sets: u64,
    /// Platters written.
    pub platters: u64,
    /// Versions that became archived.
    pub versions: u64,
    /// Removals that are on platters now and were not before.
    #[serde(default)]
    pub removals: u64,
    /// Stored bytes written to platters.
    pub stored_bytes: u64,
    /// Size of all platter files written.
    pub platter_bytes: u64,
    /// Versions that stay staged because their staged bytes can't be read. Each was reported.
    /// [`flush_set`](Archive::flush_set) doesn't count them.
    pub unreadable: u64,
    /// Of these, versions that aren't known to be lost.
    #[serde(default)]
    pub out_of_reach: OutOfReach,
    /// Versions that stay staged because no platter can hold a record as long as theirs. Each was
    /// reported. [`flush_set`](Archive::flush_set) doesn't count them.
    #[serde(default)]
    pub too_long: u64,
}

impl FlushReport {
    fn add(&mut self, other: Self) {
        self.sets += other.sets;
        self.platters += other.platters;
        self.versions += other.versions;
        self.removals += other.removals;
        self.stored_bytes += other.stored_bytes;
        self.platter_bytes += other.platter_bytes;
        self.unreadable += other.unreadable;
        self.out_of_reach.absent += other.out_of_reach.absent;
        self.out_of_reach.unreadable += other.out_of_reach.unreadable;
        self.too_long += other.too_long;
    }

    /// Versions that stay staged although their staged bytes are damaged or missing.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.unreadable - self.out_of_reach.total()
    }
}

/// The part of a staged version that is on platters or on its way there.
#[derive(Debug, Clone, Copy)]
struct WrittenPart {
    /// Length of the part, from the start of the stored bytes.
    end: u64,
    /// Number of shards that it consists of.
    shards: u32,
}

/// Why a version stays staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Its staged bytes are damaged or missing.
    Damaged,
    /// Its staged bytes can't be read now.
    OutOfReach(Hindrance),
    /// Its record is longer than the format allows. An earlier version of the program stored such
    /// objects.
    TooLong,
}

/// Where the record and the stored bytes of a version are in staging.
struct Staged {
    sealed: bool,
    record: StagedPlace,
    data: Vec<StagedData>,
}

/// What the flusher does next, while a put goes on.
enum FlushRequest {
    /// Write sets while enough is staged for full ones.
    FullSets,
    /// Write everything, then reply.
    Everything(SyncSender<()>),
}

impl Archive {
    /// Writes all staged objects and removals to platters, set by set.
    ///
    /// # Errors
    /// Whatever failed. Sets completed before are kept, and everything else stays staged.
    pub fn flush(&self, watcher: &dyn Watcher) -> Result<FlushReport, ArchiveError> {
        std::thread::scope(|scope| Flusher::new(self, scope).flush(watcher))
    }

    /// Runs [`put_changed`](Self::put_changed) and [`flush`](Self::flush) concurrently: whenever a
    /// full set is staged, it is written while more objects arrive. So staging should have room for
    /// three sets. With less room, the put pauses whenever staging is full, until everything staged
    /// is written: any number of objects can be put, as long as each one fits staging by itself.
    ///
    /// If the put fails, the objects staged so far stay staged.
    pub fn put_changed_and_flush(
        &self,
        sources: impl Iterator<Item = Source> + Send,
        skip: Skip,
        watcher: &dyn Watcher,
    ) -> (PutOutcome, Result<FlushReport, ArchiveError>) {
        let (flush_tx, flush_rx) = sync_channel(1);
        std::thread::scope(|scope| {
            let flusher_thread = scope.spawn(move || {
                let mut flusher = Flusher::new(self, scope);
                let flushed = flush_rx.into_iter().try_for_each(|request| match request {
                    FlushRequest::FullSets => flusher.write_full_sets(),
                    FlushRequest::Everything(reply) => {
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
                let committed = || drop(flush_tx.try_send(FlushRequest::FullSets));
                let flush = || {
                    let (reply_tx, reply_rx) = sync_channel(1);
                    flush_tx.send(FlushRequest::Everything(reply_tx)).is_ok() && reply_rx.recv().is_ok()
                };
                put_flushing(self, sources, skip, watcher, Some(&FlushHooks { committed: &committed, flush: &flush }))
            };
            drop(flush_tx);
            let (mut flusher, flushed) = flusher_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let flushed = match (flushed, &put.failure) {
                (Err(error), _) => Err(error),
                (Ok(()), Some(_)) => flusher.await_finishing(watcher),
                (Ok(()), None) => flusher.flush(watcher),
            };
            (put, flushed)
        })
    }

    /// Writes one set of what is staged. `None` if nothing readable is staged. Versions with
    /// damaged staged bytes are reported and stay staged, so that they don't keep others from being
    /// archived.
    ///
    /// # Errors
    /// Whatever failed. Until the catalogue has completed the set, everything stays staged.
    pub fn flush_set(&self, watcher: &dyn Watcher) -> Result<Option<FlushReport>, ArchiveError> {
        std::thread::scope(|scope| {
            let mut flusher = Flusher::new(self, scope);
            flusher.next(watcher)?;
            let report = flusher.await_finishing(watcher)?;
            Ok((report.sets > 0).then_some(report))
        })
    }
}
