//! Content of objects in transit: uploads, parts, downloads, checksums, and the memory and staging
//! room they take.

pub(crate) mod aws_chunked;
pub(crate) mod buffers;
pub(crate) mod checksums;
pub(crate) mod digests;
pub(crate) mod download;
pub(crate) mod parts;
pub(crate) mod staging_room;
pub(crate) mod trailers;
pub(crate) mod upload;

use std::sync::Arc;

use fulgurite_archive::{Archive, ArchiveError, Intake};
use tokio::sync::Semaphore;

use crate::memory::{Budget, MemoryPool};
use crate::transfer::buffers::Buffers;
use crate::transfer::digests::DigestQueues;
use crate::transfer::parts::Parts;
use crate::transfer::staging_room::Room;

/// Maximum number of objects and uploads that are read at once to be put again (copies, completed
/// uploads). Each occupies a thread, which blocks while its data is written.
const COPIES_MAX: usize = 16;
/// Maximum number of threads that read objects for clients. A small object needs a permit only if
/// too many responses wait for slow clients; staged content in the page cache never does.
const DOWNLOADS_MAX: usize = 64;

/// What all transfers of content share: the way into staging, and limits on memory and threads.
pub(crate) struct Transfers {
    pub(crate) archive: Arc<Archive>,
    pub(crate) intake: Intake,
    /// Memory for content on its way to staging.
    pub(crate) incoming: MemoryPool,
    pub(crate) parts: Parts,
    pub(crate) digests: DigestQueues,
    pub(crate) buffers: Buffers,
    /// Limits operations that read objects to put them again. Without a limit, the readers could
    /// take all threads and leave none to write what they read.
    pub(crate) copy_permits: Arc<Semaphore>,
    /// Permits for readers of downloads.
    pub(crate) download_permits: Arc<Semaphore>,
    /// Permits for data records in memory on their way to clients.
    pub(crate) download_records: Arc<Semaphore>,
    /// Limit on staged content.
    pub(crate) room: Room,
}

impl Transfers {
    /// Starts the intake. `staging_limit` is the maximum of staged bytes that the settings allow.
    ///
    /// # Errors
    /// [`ArchiveError`] if a thread can't be started or the parts' folder can't be opened.
    pub(crate) fn open(archive: Arc<Archive>, staging_limit: Option<u64>, budget: &Budget) -> Result<Self, ArchiveError> {
        let incoming = MemoryPool::new(budget.incoming);
        let parts = Parts::open(archive.clone(), incoming.clone());
        Ok(Self {
            intake: Intake::open(archive.clone())?,
            parts: parts.map_err(|source| ArchiveError::Io { path: archive.home().to_owned(), source })?,
            incoming,
            digests: DigestQueues::default(),
            buffers: Buffers::default(),
            copy_permits: Arc::new(Semaphore::new(COPIES_MAX)),
            download_permits: Arc::new(Semaphore::new(DOWNLOADS_MAX)),
            download_records: Arc::new(Semaphore::new(budget.download_records)),
            room: Room::new(staging_limit),
            archive,
        })
    }
}
