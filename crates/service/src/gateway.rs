//! The gateway between S3 and the archive: the state that all operations share.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::{Acknowledge, Archive, ArchiveError, Intake, IntakeError};
use fulgurite_domain::{ObjectName, VersionId};
use s3s::{S3Error, S3Request, S3Result, s3_error};
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::auth::caller::Caller;
use crate::health::liveness::{self, Liveness};
use crate::health::readiness::Readiness;
use crate::health::scrubbed::Scrubbed;
use crate::health::stores::Looked;
use crate::memory::{Budget, Memory};
use crate::s3::errors::{catalogue_failed, detailed, no_such_bucket, state_failed};
use crate::s3::key_locks::{Buckets, Names, object_name};
use crate::s3::version::Version;
use crate::state::{Account, Bucket, Quota, State, now_ms};
use crate::transfer::buffers::Buffers;
use crate::transfer::md5::Md5s;
use crate::transfer::parts::Parts;
use crate::transfer::staging_room::Room;
use crate::turns::Turns;

/// Maximum number of objects and uploads that are read at once to be put again (copies, completed
/// uploads). Each occupies a thread, which blocks while its data is written.
const REREADS: usize = 16;
/// Maximum number of objects that are read for clients at once, not counting small ones.
const OUTGOING: usize = 64;
/// Default memory of the whole server in MiB, and default number of connections.
const DEFAULTS: (u64, usize) = (1_664, 1_024);

/// An archive, the service's state and everything that operations on them share.
pub struct Gateway {
    pub(crate) archive: Arc<Archive>,
    pub(crate) state: Arc<State>,
    pub(crate) intake: Intake,
    /// Serializes changes of a name.
    pub(crate) names: Names,
    /// Keeps a bucket from being removed while an object is put into it.
    pub(crate) buckets: Buckets,
    /// Memory for content on its way to staging.
    pub(crate) incoming: Memory,
    /// Memory for bodies and chunks that are buffered whole.
    pub(crate) gathered: Memory,
    /// Memory for responses that are buffered whole.
    pub(crate) answers: Memory,
    pub(crate) outgoing: Arc<Semaphore>,
    pub(crate) outgoing_records: Arc<Semaphore>,
    /// KiB that lists of batches may take.
    pub(crate) batches: Arc<Semaphore>,
    /// Limits operations that read objects to put them again. Without a limit, the readers could
    /// take all threads and leave none to write what they read.
    pub(crate) rereads: Arc<Semaphore>,
    pub(crate) parts: Parts,
    pub(crate) md5s: Md5s,
    pub(crate) buffers: Buffers,
    /// Held while a backup of the state is put.
    pub(crate) copying: tokio::sync::Mutex<()>,
    /// When the gateway was created, in milliseconds since 1970.
    pub(crate) started_ms: i64,
    /// Wakes the background jobs.
    pub(crate) work: Notify,
    /// Whether the process can go on.
    pub(crate) liveness: Liveness,
    pub(crate) region: String,
    /// Default restore quota of an account.
    pub(crate) restores: Quota,
    /// The account whose restore was carried out last.
    pub(crate) turn: Mutex<String>,
    /// Why the server isn't ready, if it isn't.
    pub(crate) readiness: Readiness,
    /// Limit on staged content.
    pub(crate) room: Room,
    /// Result of the last look at the stores.
    pub(crate) looked: Looked,
    /// Held while sets are written: two writers would write the same objects twice.
    pub(crate) flushing: Mutex<()>,
    /// Queues commands from the command line, one at a time.
    pub(crate) turns: Turns,
    /// Progress of the server's own scrub.
    pub(crate) scrubbed: Scrubbed,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("archive", &self.archive.home()).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Opens a gateway to an archive that has no other writer. `restores` is the quota of accounts
    /// without one of their own.
    ///
    /// # Errors
    /// [`ArchiveError`] if a thread can't be started.
    pub fn new(state: Arc<State>, region: String, restores: Quota) -> Result<Self, ArchiveError> {
        let budget = Budget::new(DEFAULTS.0, 0, DEFAULTS.1).expect("the defaults are enough");
        Self::within(state, region, restores, &budget)
    }

    /// Like [`Self::new`], with another memory budget.
    ///
    /// # Errors
    /// [`ArchiveError`] if a thread can't be started.
    pub(crate) fn within(state: Arc<State>, region: String, restores: Quota, budget: &Budget) -> Result<Self, ArchiveError> {
        let archive = state.archive().clone();
        let incoming = Memory::new(budget.incoming);
        Ok(Self {
            intake: Intake::open(archive.clone())?,
            archive,
            parts: Parts::open(state.archive().clone(), incoming.clone())
                .map_err(|source| ArchiveError::Io { path: state.archive().home().to_owned(), source })?,
            state,
            rereads: Arc::new(Semaphore::new(REREADS)),
            md5s: Md5s::default(),
            buffers: Buffers::default(),
            copying: tokio::sync::Mutex::default(),
            started_ms: now_ms(),
            work: Notify::new(),
            liveness: Liveness::default(),
            names: Names::default(),
            buckets: Buckets::default(),
            incoming,
            gathered: Memory::new(budget.gathered),
            answers: Memory::new(budget.answers),
            outgoing: Arc::new(Semaphore::new(OUTGOING)),
            outgoing_records: Arc::new(Semaphore::new(budget.outgoing_records)),
            batches: Arc::new(Semaphore::new(budget.batches_kib)),
            region,
            restores,
            turn: Mutex::default(),
            readiness: Readiness::default(),
            room: Room::default(),
            looked: Looked::default(),
            flushing: Mutex::new(()),
            turns: Turns::default(),
            scrubbed: Scrubbed::default(),
        })
    }

    /// Logs a caught panic and fails the liveness check if the process can't go on after it.
    pub(crate) fn panicked(&self, what: &str, panic: &(dyn Any + Send)) {
        let message = liveness::message(panic);
        tracing::error!(message, "{what} panicked");
        // After a panic that poisoned a lock, the data it guards is in an unknown state, and each
        // later use panics too.
        if message.contains("PoisonError") {
            self.liveness.fail(format!("a lock is poisoned: {message}"));
        }
        self.check_liveness();
    }

    /// Checks for damage that a panic may have left: a poisoned database lock or an intake that
    /// ended.
    pub(crate) fn check_liveness(&self) {
        if self.state.is_poisoned() {
            self.liveness.fail("the lock of the service's database is poisoned: a panic left it in an unknown state");
        }
        if !self.intake.is_running() {
            self.liveness.fail("the intake has ended: puts and removals are impossible");
        }
    }

    /// Limits staged content, as the settings ask.
    #[must_use]
    pub fn with_staging_limit(mut self, bytes: Option<u64>) -> Self {
        self.room = Room::new(bytes);
        self
    }

    /// The bucket of this name, or `NoSuchBucket`.
    pub(crate) fn bucket(&self, name: &str) -> S3Result<Arc<Bucket>> {
        self.state.bucket(name).map_err(state_failed)?.ok_or_else(no_such_bucket)
    }

    /// The account that sent the request, or `AccessDenied` for anonymous requests.
    pub(crate) fn account<T>(&self, request: &S3Request<T>) -> S3Result<Arc<Account>> {
        match request.extensions.get::<Caller>() {
            Some(Caller { account: Some(account), .. }) => Ok(account.clone()),
            _ => Err(s3_error!(AccessDenied)),
        }
    }

    /// The newest version of an object, which may be a deletion marker. `None` if the name was
    /// never put.
    pub(crate) fn newest(&self, bucket: &str, key: &str) -> S3Result<Option<Version>> {
        let row = self.archive.reading().newest(&object_name(bucket, key)).map_err(catalogue_failed)?;
        Ok(row.map(Version::new))
    }

    /// The version with this S3 version ID; `null` names the one without an ID.
    pub(crate) fn by_id(&self, bucket: &str, key: &str, id: &str) -> S3Result<Option<Version>> {
        let name = object_name(bucket, key);
        if id == "null" {
            let row = self.archive.reading().null_version(&name).map_err(catalogue_failed)?;
            return Ok(row.map(Version::new));
        }
        let id: VersionId = id.parse().map_err(|_| s3_error!(InvalidArgument, "Invalid version id specified"))?;
        let row = self.archive.reading().version(&name, id).map_err(catalogue_failed)?;
        Ok(row.map(Version::new).filter(|version| !version.is_null()))
    }

    /// All versions of a name, newest first.
    pub(crate) fn versions(&self, name: &ObjectName) -> S3Result<Vec<VersionRow>> {
        self.archive.reading().versions_of(name).map_err(catalogue_failed)
    }

    /// The version that a request reads: the newest, or the one with the given ID. A missing
    /// version or a deletion marker is returned as the S3 error.
    pub(crate) fn find(&self, bucket: &str, key: &str, id: Option<&str>) -> S3Result<Version> {
        match id {
            None => match self.newest(bucket, key)? {
                Some(version) if version.is_marker() => {
                    let mut error = no_such_key(key);
                    error.set_headers(marker_headers(&version));
                    Err(error)
                }
                Some(version) => Ok(version),
                None => Err(no_such_key(key)),
            },
            Some(id) => match self.by_id(bucket, key, id)? {
                Some(version) if version.is_marker() => {
                    let mut error = s3_error!(MethodNotAllowed, "The specified method is not allowed against this resource.");
                    let mut headers = marker_headers(&version);
                    headers.insert("allow", http::HeaderValue::from_static("DELETE"));
                    error.set_headers(headers);
                    Err(error)
                }
                Some(version) => Ok(version),
                None => {
                    let error = s3_error!(NoSuchVersion, "The specified version does not exist.");
                    Err(detailed(error, &[("Key", key), ("VersionId", id)]))
                }
            },
        }
    }
}

fn no_such_key(key: &str) -> S3Error {
    detailed(s3_error!(NoSuchKey, "The specified key does not exist."), &[("Key", key)])
}

fn marker_headers(version: &Version) -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    headers.insert("x-amz-delete-marker", http::HeaderValue::from_static("true"));
    if let Ok(id) = http::HeaderValue::from_str(&version.id()) {
        headers.insert("x-amz-version-id", id);
    }
    if let Some(modified) = crate::s3::version::http_date(&version.modified()) {
        headers.insert("last-modified", modified);
    }
    headers
}

/// A callback and a receiver that report that a change survives a crash. `held` (such as the lock
/// on the name) is dropped only then, even if the client disconnects earlier: the next request must
/// see what was put.
pub(crate) fn acknowledgement(held: impl Send + 'static) -> (Acknowledge, oneshot::Receiver<Result<(), IntakeError>>) {
    let (tell, told) = oneshot::channel();
    let acknowledge = move |result| {
        drop(held);
        drop(tell.send(result));
    };
    (Box::new(acknowledge), told)
}
