//! The gateway between S3 and the archive: what all operations share.

use std::fmt;
use std::sync::{Arc, Mutex};

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::{Acknowledge, Archive, ArchiveError, Intake, IntakeError};
use fulgurite_domain::{ObjectName, VersionId};
use s3s::{S3Request, S3Result, s3_error};
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::buffers::Buffers;
use crate::caller::Caller;
use crate::errors::more;
use crate::failures::{catalogue_failed, no_such_bucket, slow_down, state_failed};
use crate::hashing::Md5s;
use crate::names::{Buckets, Names, object_name};
use crate::parts::Parts;
use crate::state::{Account, Bucket, Quota, State, now_ms};
use crate::version::Version;

/// KiB of content on its way to staging, over all requests (I9).
const INCOMING_KIB: usize = 128 << 10;
/// Objects and uploads that are read to be put anew at once. Each has a thread, which waits while what it read is put.
const REREADS: usize = 16;
/// KiB that all batches to be retrieved may hold at once (I9).
pub(crate) const BATCHES_KIB: usize = 256 << 10;
/// Room on the staging disk that puts leave: for the databases' logs, and for removals.
const RESERVE: u64 = 256 << 20;
/// Objects that are read for clients at once, beyond small ones.
const OUTGOING: usize = 64;
/// Records of 1 MiB that were read and wait for clients, over all requests (I9).
const OUTGOING_RECORDS: usize = 128;

/// The archive as S3 has it.
pub struct Gateway {
    pub(crate) archive: Arc<Archive>,
    pub(crate) state: Arc<State>,
    pub(crate) intake: Intake,
    /// One change of a name at a time.
    pub(crate) names: Names,
    /// A bucket is removed when nothing is being put into it.
    pub(crate) buckets: Buckets,
    pub(crate) incoming: Arc<Semaphore>,
    pub(crate) outgoing: Arc<Semaphore>,
    pub(crate) outgoing_records: Arc<Semaphore>,
    /// KiB that batches may hold.
    pub(crate) batches: Arc<Semaphore>,
    /// For who reads what is here to put it anew. Without a bound, readers would take all threads, and nobody could write what they read.
    pub(crate) rereads: Arc<Semaphore>,
    pub(crate) parts: Parts,
    pub(crate) md5s: Md5s,
    pub(crate) buffers: Buffers,
    /// Held by whoever puts a copy of the state.
    pub(crate) copying: tokio::sync::Mutex<()>,
    /// When it was made, milliseconds since 1970.
    pub(crate) started_ms: i64,
    /// There is something to do in the background.
    pub(crate) work: Notify,
    pub(crate) region: String,
    /// What an account may ask to be restored, unless it has a quota of its own.
    pub(crate) restores: Quota,
    /// The account whose restore was done last.
    pub(crate) turn: Mutex<String>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("archive", &self.archive.home()).finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway to an archive that nobody else changes, of a region, in which accounts without a quota of their own have `restores`.
    ///
    /// # Errors
    /// [`ArchiveError`] if the system gives no thread.
    pub fn new(state: Arc<State>, region: String, restores: Quota) -> Result<Self, ArchiveError> {
        let archive = state.archive().clone();
        let incoming = Arc::new(Semaphore::new(INCOMING_KIB));
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
            names: Names::default(),
            buckets: Buckets::default(),
            incoming,
            outgoing: Arc::new(Semaphore::new(OUTGOING)),
            outgoing_records: Arc::new(Semaphore::new(OUTGOING_RECORDS)),
            batches: Arc::new(Semaphore::new(BATCHES_KIB)),
            region,
            restores,
            turn: Mutex::default(),
        })
    }

    /// The bucket of this name.
    pub(crate) fn bucket(&self, name: &str) -> S3Result<Arc<Bucket>> {
        self.state.bucket(name).map_err(state_failed)?.ok_or_else(no_such_bucket)
    }

    /// The account that a request is of.
    pub(crate) fn account<T>(&self, request: &S3Request<T>) -> S3Result<Arc<Account>> {
        match request.extensions.get::<Caller>() {
            Some(Caller { account: Some(account), .. }) => Ok(account.clone()),
            _ => Err(s3_error!(AccessDenied)),
        }
    }

    /// The newest version of an object; none if it was never put, or the newest is a deletion marker (which is given as the error).
    pub(crate) fn newest(&self, bucket: &str, key: &str) -> S3Result<Option<Version>> {
        let row = self.archive.reading().newest(&object_name(bucket, key)).map_err(catalogue_failed)?;
        Ok(row.map(Version::new))
    }

    /// A version by S3's name of it.
    pub(crate) fn by_id(&self, bucket: &str, key: &str, id: &str) -> S3Result<Option<Version>> {
        let name = object_name(bucket, key);
        if id == "null" {
            let versions = self.versions(&name)?;
            return Ok(versions.into_iter().map(Version::new).find(Version::is_null));
        }
        let id: VersionId = id.parse().map_err(|_| s3_error!(InvalidArgument, "Invalid version id specified"))?;
        let row = self.archive.reading().version(&name, id).map_err(catalogue_failed)?;
        Ok(row.map(Version::new).filter(|version| !version.is_null()))
    }

    /// All versions of a name, newest first.
    pub(crate) fn versions(&self, name: &ObjectName) -> S3Result<Vec<VersionRow>> {
        self.archive.reading().versions_of(name).map_err(catalogue_failed)
    }

    /// The version that a request reads: the newest, or the one it names. What there isn't is S3's error.
    pub(crate) fn find(&self, bucket: &str, key: &str, id: Option<&str>) -> S3Result<Version> {
        match id {
            None => match self.newest(bucket, key)? {
                Some(version) if version.is_marker() => {
                    let mut headers = more(&[("Key", key)]);
                    headers.extend(marker_headers(&version));
                    let mut error = s3_error!(NoSuchKey, "The specified key does not exist.");
                    error.set_headers(headers);
                    Err(error)
                }
                Some(version) => Ok(version),
                None => {
                    let mut error = s3_error!(NoSuchKey, "The specified key does not exist.");
                    error.set_headers(more(&[("Key", key)]));
                    Err(error)
                }
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
                    let mut error = s3_error!(NoSuchVersion, "The specified version does not exist.");
                    error.set_headers(more(&[("Key", key), ("VersionId", id)]));
                    Err(error)
                }
            },
        }
    }
}

fn marker_headers(version: &Version) -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    headers.insert("x-amz-delete-marker", http::HeaderValue::from_static("true"));
    if let Ok(id) = http::HeaderValue::from_str(&version.id()) {
        headers.insert("x-amz-version-id", id);
    }
    if let Some(modified) = crate::version::http_date(&version.modified()) {
        headers.insert("last-modified", modified);
    }
    headers
}

impl Gateway {
    /// Whether there is room for so much content, with some left: a disk that is full to the last byte helps nobody to empty it.
    pub(crate) fn check_room(&self, bytes: u64) -> S3Result<()> {
        match self.archive.staging().free_bytes() {
            Some(free) if free < bytes.saturating_add(RESERVE) => {
                tracing::warn!(free, bytes, "staging has too little room");
                Err(slow_down())
            }
            _ => Ok(()),
        }
    }
}

/// What tells a request that its change survives a crash. The name, or what else is given, is held until then, also where the client goes away before:
/// whoever comes next has to see what was put.
pub(crate) fn acknowledgement(held: impl Send + 'static) -> (Acknowledge, oneshot::Receiver<Result<(), IntakeError>>) {
    let (tell, told) = oneshot::channel();
    let acknowledge = move |result| {
        drop(held);
        drop(tell.send(result));
    };
    (Box::new(acknowledge), told)
}
