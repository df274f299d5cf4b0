//! The gateway between S3 and the archive: the state that all operations share.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use fulgurite_archive::{Acknowledge, Archive, ArchiveError, IntakeError};
use tokio::sync::oneshot;

use crate::health::{Health, liveness};
use crate::jobs::Jobs;
use crate::library::Library;
use crate::memory::{Budget, MemoryPool};
use crate::s3::key_locks::{BucketLocks, KeyLocks};
use crate::s3::listings::listings_at_once;
use crate::s3::namespace::Namespace;
use crate::s3::page_positions::PagePositions;
use crate::settings::Settings;
use crate::state::State;
use crate::traces::Traces;
use crate::transfer::Transfers;
use crate::turns::Turns;

/// An archive, the service's state and everything that operations on them share.
pub(crate) struct Gateway {
    pub(crate) archive: Arc<Archive>,
    pub(crate) state: Arc<State>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) transfers: Transfers,
    pub(crate) jobs: Jobs,
    pub(crate) health: Health,
    /// The robotic library, if the settings want one.
    pub(crate) library: Option<Library>,
    /// Traces of restores, if the settings want them.
    pub(crate) traces: Option<Arc<Traces>>,
    /// Serializes changes of a key.
    pub(crate) key_locks: KeyLocks,
    /// Keeps a bucket from being removed while an object is put into it.
    pub(crate) bucket_locks: BucketLocks,
    /// For requests that list objects, versions or uploads.
    pub(crate) listing_turns: Turns,
    /// Memory for bodies and chunks that are buffered whole.
    pub(crate) buffered_bodies: MemoryPool,
    /// Memory for responses that are buffered whole.
    pub(crate) buffered_responses: MemoryPool,
    /// Memory for bulk gets and bulk puts.
    pub(crate) bulk_memory: MemoryPool,
    /// Bytes of it that one access key gets at most.
    pub(crate) bulk_bytes_max: usize,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("archive", &self.archive.home()).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Opens a gateway to an archive that has no other writer.
    ///
    /// # Errors
    /// [`ArchiveError`] if a thread can't be started.
    pub(crate) fn new(state: Arc<State>, settings: &Settings, budget: &Budget, library: Option<Library>) -> Result<Self, ArchiveError> {
        let archive = state.archive().clone();
        Ok(Self {
            namespace: Arc::new(Namespace {
                archive: archive.clone(),
                state: state.clone(),
                region: settings.region.clone(),
                page_positions: PagePositions::default(),
            }),
            transfers: Transfers::open(archive.clone(), settings.staging.limit_bytes(), budget)?,
            jobs: Jobs::new(settings.restores.quota()),
            health: Health::default(),
            library,
            traces: None,
            key_locks: KeyLocks::default(),
            bucket_locks: BucketLocks::default(),
            listing_turns: Turns::new(listings_at_once()),
            buffered_bodies: MemoryPool::new(budget.buffered_bodies),
            buffered_responses: MemoryPool::new(budget.buffered_responses),
            bulk_memory: MemoryPool::new(budget.bulk_kib << 10),
            bulk_bytes_max: MemoryPool::max_of_one_owner(budget.bulk_kib << 10),
            archive,
            state,
        })
    }

    /// Logs a caught panic and fails the liveness check if the process can't go on after it.
    pub(crate) fn panicked(&self, what: &str, panic: &(dyn Any + Send)) {
        let message = liveness::message(panic);
        tracing::error!(panic = message, "{what} panicked");
        // An earlier panic poisoned a lock: the data it guards is in an unknown state, and each use
        // of it panics too.
        if message.contains("PoisonError") {
            self.health.liveness.fail(format!("a lock is poisoned: {message}"));
        }
        self.check_liveness();
    }

    /// Checks for damage that a panic may have left: a poisoned database lock or an intake that
    /// ended.
    pub(crate) fn check_liveness(&self) {
        if self.state.is_poisoned() {
            self.health.liveness.fail("the lock of the service's database is poisoned: a panic left it in an unknown state");
        }
        if !self.transfers.intake.is_running() {
            self.health.liveness.fail("the intake has ended: puts and removals are impossible");
        }
    }
}

/// A callback and a receiver that report that a change survives a crash. `guard` (such as the lock
/// on the name) is dropped only then, even if the client disconnects earlier: the next request must
/// see what was put.
pub(crate) fn acknowledgement(guard: impl Send + 'static) -> (Acknowledge, oneshot::Receiver<Result<(), IntakeError>>) {
    let (sender, receiver) = oneshot::channel();
    let acknowledge = move |result| {
        drop(guard);
        drop(sender.send(result));
    };
    (Box::new(acknowledge), receiver)
}
