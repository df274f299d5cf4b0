//! Memory budget of requests (I9): one setting bounds it, and each kind of data that clients can
//! multiply has its own share.
//!
//! ```text
//! memory_mib = writing platters (the archive's limits) + SERVER + connections x PER_CONNECTION + shared
//!                                                          |                                       |
//!        the program, the allocator, database connections <'                                       |
//!        incoming: data records of uploads, on their way to staging; else frame by frame <---------|
//!        buffered_bodies: bodies and signed chunks that are buffered before they are parsed <------|
//!        buffered_responses: responses that are buffered until their clients have read them <------|
//!        download_records, bulk_kib: 1 MiB read ahead for clients; bulk gets and puts <---------'
//! ```
//!
//! A `MemoryPool` holds each of the first three shares. A reservation of its bytes belongs to a
//! `MemoryOwner`, and can't grow if its owner would then have more than twice what is left free. So
//! a single owner gets up to two thirds of the pool, the next two thirds of the rest, and so on:
//! some always remains for another.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use fulgurite_archive::databases_kib;
use http::{HeaderMap, Method, header};

use crate::auth::signatures::is_form;

/// MiB for the program itself: code, stacks, buffers that are kept, objects that are read to be put
/// again (copies, completed uploads).
const PROGRAM_MIB: u64 = 96;
/// MiB of free memory that the allocator keeps: the top of each arena.
const ALLOCATOR_MIB: u64 = (ARENAS as u64 * ARENA_TOP_BYTES as u64) >> 20;
/// MiB for connections to `service.db`: one that is always open, and one that copies the database.
const STATE_MIB: u64 = 6;
/// MiB for connections to the catalogue and the key store.
const DATABASES_MIB: u64 = databases_kib(DATABASE_READERS_MAX).div_ceil(1_024);
/// Maximum number of threads that read the databases at once: all blocking threads, and the others.
const DATABASE_READERS_MAX: u64 = BLOCKING_THREADS as u64 + OTHER_THREADS;
/// Threads that serve requests, and an allowance for the server's own.
const OTHER_THREADS: u64 = WORKER_THREADS_MAX as u64 + 8;
/// MiB that the server needs regardless of its clients.
const SERVER_MIB: u64 = PROGRAM_MIB + ALLOCATOR_MIB + STATE_MIB + DATABASES_MIB;

/// Threads that wait for disks. Each may have a connection to the catalogue and one to the key
/// store.
pub const BLOCKING_THREADS: usize = 160;
/// Maximum number of threads that serve requests.
const WORKER_THREADS_MAX: usize = 24;
/// Maximum number of allocator arenas.
pub const ARENAS: i32 = 4;
/// Bytes of free memory that the allocator may keep at the top of each arena.
pub const ARENA_TOP_BYTES: i32 = 8 << 20;
/// KiB that a connection may take in addition to the shared memory: head and read buffer, a frame
/// being sealed, content that waits to be hashed, a small body.
const PER_CONNECTION_KIB: u64 = 320;
/// The least shared memory that is enough for any client, in MiB.
const SHARED_MIB_MIN: u64 = 64;
/// Maximum KiB of a share of the memory, except that of bulk gets and puts.
const PART_KIB_MAX: u64 = 256 << 10;
/// The number of connections for which the memory must suffice.
const CONNECTIONS_MIN: u64 = 16;

/// The number of threads that serve requests: one per CPU, up to what the budget allows for.
#[must_use]
pub fn worker_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(WORKER_THREADS_MAX)
}

/// How the server's memory is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of connections.
    pub(crate) connections: usize,
    /// Bytes for content on its way to staging.
    pub(crate) incoming: usize,
    /// Bytes for bodies and chunks that are buffered whole.
    pub(crate) buffered_bodies: usize,
    /// Bytes for responses that are buffered whole.
    pub(crate) buffered_responses: usize,
    /// Number of 1 MiB data records read ahead for clients.
    pub(crate) download_records: usize,
    /// KiB for bulk gets and bulk puts.
    pub(crate) bulk_kib: usize,
}

/// The memory limit is too small for the server.
#[derive(Debug, thiserror::Error)]
#[error(
    "memory_mib = {memory_mib} in service.toml is too little: writing platters may take {archive_mib} MiB (limits.memory_mib in fulgurite.toml), \
     the server itself {SERVER_MIB}, and requests need {}; set memory_mib to {} or more, or lower the archive's limit",
    SHARED_MIB_MIN + CONNECTIONS_MIN * PER_CONNECTION_KIB / 1_024,
    archive_mib + SERVER_MIB + SHARED_MIB_MIN + CONNECTIONS_MIN * PER_CONNECTION_KIB / 1_024
)]
pub struct MemoryTooSmall {
    memory_mib: u64,
    archive_mib: u64,
}

impl Budget {
    /// Divides `memory_mib`, of which writing platters may take `archive_mib`, among up to
    /// `connections`. Reduces their number if they would take more than half of what remains, but
    /// not below 16.
    ///
    /// # Errors
    /// [`MemoryTooSmall`] if the memory doesn't suffice for 16 connections and the least shared
    /// memory.
    pub(crate) fn new(memory_mib: u64, archive_mib: u64, connections: usize) -> Result<Self, MemoryTooSmall> {
        let min_mib = SHARED_MIB_MIN + CONNECTIONS_MIN * PER_CONNECTION_KIB / 1_024;
        let left_kib = memory_mib.saturating_sub(archive_mib).saturating_sub(SERVER_MIB) << 10;
        if left_kib >> 10 < min_mib {
            return Err(MemoryTooSmall { memory_mib, archive_mib });
        }
        let connections_max = (left_kib / 2 / PER_CONNECTION_KIB).max(CONNECTIONS_MIN);
        let connections = (connections.max(1) as u64).min(connections_max);
        let shared_kib = left_kib - connections * PER_CONNECTION_KIB;
        // Half is for bulk gets and puts, whose bodies are long. More than the maximum for each of
        // the four others has no benefit.
        let part_kib = (shared_kib / 8).min(PART_KIB_MAX);
        let bytes = (part_kib << 10) as usize;
        Ok(Self {
            connections: connections as usize,
            incoming: bytes,
            buffered_bodies: bytes,
            buffered_responses: bytes,
            download_records: (part_kib >> 10) as usize,
            bulk_kib: (4 * part_kib) as usize,
        })
    }
}

/// The owner of reserved memory: the access key in a request's `Authorization`, or else the
/// client's address.
///
/// Signatures in `Authorization` are checked before a body is read, so a client can't take memory
/// in the name of another. The signature of a browser form is in its body, so its header counts for
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MemoryOwner(Arc<str>);

impl MemoryOwner {
    /// The owner of the memory that a request takes.
    pub(crate) fn of(method: &Method, headers: &HeaderMap, peer: IpAddr) -> Self {
        let key = || {
            if is_form(method, headers) {
                return None;
            }
            let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
            Some(value.split_once("Credential=")?.1.split_once('/')?.0)
        };
        Self(key().map_or_else(|| peer.to_string().into(), Into::into))
    }

    /// The server itself, for work that is limited in other ways.
    pub(crate) fn own() -> Self {
        Self("".into())
    }
}

#[derive(Debug, Default)]
struct Inner {
    free: usize,
    bytes_by_owner: HashMap<MemoryOwner, usize>,
    wakers: Vec<Waker>,
}

/// Memory that all requests share, in bytes. Clones refer to the same memory.
#[derive(Debug, Clone)]
pub(crate) struct MemoryPool(Arc<Mutex<Inner>>);

impl MemoryPool {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner { free: bytes, ..Inner::default() })))
    }

    /// A poisoned lock is usable: it guards plain numbers, which a panic can't leave half changed.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most that one owner gets of `bytes`, while no other has any.
    pub(crate) fn max_of_one_owner(bytes: usize) -> usize {
        bytes / 3 * 2
    }

    /// An empty reservation.
    pub(crate) fn reservation(&self, owner: &MemoryOwner) -> MemoryReservation {
        MemoryReservation { pool: self.clone(), owner: owner.clone(), bytes: 0 }
    }

    /// Reserves `bytes`; `None` if too little is free, or the owner would have too much.
    pub(crate) fn try_reserve(&self, owner: &MemoryOwner, bytes: usize) -> Option<MemoryReservation> {
        let mut reservation = self.reservation(owner);
        reservation.try_resize(bytes).then_some(reservation)
    }

    /// Wakes the caller when memory becomes free.
    fn wake_when_freed(&self, context: &Context<'_>) {
        let mut inner = self.lock();
        if !inner.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            inner.wakers.push(context.waker().clone());
        }
    }

    /// Bytes that an owner can still reserve. It never gets more than twice what then remains free.
    pub(crate) fn room_of(&self, owner: &MemoryOwner) -> usize {
        let inner = self.lock();
        let held = inner.bytes_by_owner.get(owner).copied().unwrap_or(0);
        (2 * inner.free).saturating_sub(held) / 3
    }

    /// Bytes that are not reserved.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.lock().free
    }
}

/// Bytes taken from a [`MemoryPool`]. Dropping the reservation returns them.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    pool: MemoryPool,
    owner: MemoryOwner,
    bytes: usize,
}

impl MemoryReservation {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Wakes the caller when memory becomes free.
    pub(crate) fn wake_when_freed(&self, context: &Context<'_>) {
        self.pool.wake_when_freed(context);
    }

    /// Grows or shrinks the reservation. Returns `false` and leaves it unchanged if too little
    /// memory is free, or the owner would have too much; shrinking always succeeds.
    pub(crate) fn try_resize(&mut self, bytes: usize) -> bool {
        let mut inner = self.pool.lock();
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            let held = inner.bytes_by_owner.get(&self.owner).copied().unwrap_or(0) + more;
            match inner.free.checked_sub(more) {
                Some(free) if held <= 2 * free => inner.free = free,
                _ => return false,
            }
            inner.bytes_by_owner.insert(self.owner.clone(), held);
            self.bytes = bytes;
            return true;
        }
        let less = self.bytes - bytes;
        self.bytes = bytes;
        inner.free += less;
        if let Some(held) = inner.bytes_by_owner.get_mut(&self.owner) {
            *held = held.saturating_sub(less);
            if *held == 0 {
                inner.bytes_by_owner.remove(&self.owner);
            }
        }
        let wakers = if less > 0 { std::mem::take(&mut inner.wakers) } else { Vec::new() };
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        true
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.try_resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory_owner(name: &str) -> MemoryOwner {
        MemoryOwner(name.into())
    }

    #[test]
    fn no_owner_starves_the_others() {
        let memory = MemoryPool::new(1_200);
        let take = |name: &str| std::iter::from_fn(|| memory.try_reserve(&memory_owner(name), 10)).collect::<Vec<_>>();
        let first = take("first");
        assert_eq!(first.len(), 80, "one alone has two thirds");
        let others: Vec<_> = (0..4).map(|other| take(&format!("other {other}"))).collect();
        assert!(others.iter().all(|shares| !shares.is_empty()), "{:?}", others.iter().map(Vec::len).collect::<Vec<_>>());
        drop((first, others));
        assert_eq!(memory.free(), 1_200);
        assert!(memory.lock().bytes_by_owner.is_empty());
    }

    #[test]
    fn a_reservation_that_can_not_grow_stays_as_it_is() {
        let memory = MemoryPool::new(900);
        let mut reservation = memory.reservation(&memory_owner("a"));
        assert!(reservation.try_resize(600) && !reservation.try_resize(601));
        assert_eq!((reservation.bytes(), memory.free()), (600, 300));
        assert!(reservation.try_resize(100));
        assert_eq!(memory.free(), 800);
        drop(reservation);
        assert_eq!(memory.free(), 900);
    }

    #[test]
    fn the_parts_of_a_budget_add_up_to_at_most_the_setting() {
        for (memory_mib, archive_mib, connections) in [(1_664, 512, 1_024), (1_000, 512, 1_024), (500, 64, 20), (1 << 20, 512, 100_000)] {
            let budget = Budget::new(memory_mib, archive_mib, connections).expect("enough");
            let parts = budget.incoming
                + budget.buffered_bodies
                + budget.buffered_responses
                + (budget.download_records << 20)
                + (budget.bulk_kib << 10);
            let fixed = PROGRAM_MIB + ALLOCATOR_MIB + STATE_MIB + databases_kib(DATABASE_READERS_MAX).div_ceil(1_024);
            let all = archive_mib + fixed + ((parts as u64 + budget.connections as u64 * (PER_CONNECTION_KIB << 10)) >> 20);
            assert!(all <= memory_mib && budget.connections >= 16.min(connections), "{budget:?}: {all} of {memory_mib}");
        }
        assert!(Budget::new(700, 512, 1_024).is_err());
        assert_eq!(Budget::new(1_664, 512, 1_024).expect("the defaults").connections, 1_024, "as many as the default settings say");
    }

    #[test]
    fn the_owner_is_the_access_key_or_else_the_address() {
        let peer = IpAddr::from([127, 0, 0, 1]);
        let value = "AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/s3/aws4_request, SignedHeaders=host";
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().expect("a value"))]);
        assert_eq!(MemoryOwner::of(&Method::PUT, &headers, peer), memory_owner("KEY"));
        assert_eq!(MemoryOwner::of(&Method::PUT, &HeaderMap::new(), peer), memory_owner("127.0.0.1"));
    }

    #[test]
    fn a_form_takes_no_memory_in_the_name_of_a_key_that_nothing_proves() {
        let peer = IpAddr::from([127, 0, 0, 1]);
        let value = "AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/s3/aws4_request, SignedHeaders=host";
        let headers = HeaderMap::from_iter([
            (header::AUTHORIZATION, value.parse().expect("a value")),
            (header::CONTENT_TYPE, "multipart/form-data; boundary=x".parse().expect("a value")),
        ]);
        assert_eq!(MemoryOwner::of(&Method::POST, &headers, peer), memory_owner("127.0.0.1"));
    }
}
