//! Memory budget of requests (I9): one setting bounds it, and each kind of data that clients can
//! multiply has its own share.
//!
//! ```text
//! memory_mib = writing platters (the archive's limits) + FIXED + connections x PER_CONNECTION + shared
//!                                                          |                                      |
//!        the program, the allocator, database connections <'                                      |
//!        incoming: records of uploads on their way to staging; without memory, frame by frame <---|
//!        buffered_bodies: bodies and signed chunks that are buffered before they are parsed <-----|
//!        buffered_responses: responses that are buffered until their clients have read them <-----|
//!        download_records, bulk_get_kib: 1 MiB read ahead for clients; lists of bulk gets <-------'
//! ```
//!
//! Memory is taken in the name of a `Holder`. A request for more is refused if the holder would
//! then have more than twice what is left free. So one holder alone gets up to two thirds of the
//! memory, the next two thirds of the rest, and so on: some always remains for another.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use fulgurite_archive::databases_kib;
use http::{HeaderMap, header};

/// MiB for the program itself: code, stacks, buffers that are kept, objects that are read to be put
/// again.
const PROGRAM_MIB: u64 = 96;
/// MiB of free memory that the allocator keeps: the top of each arena.
const ALLOCATOR_MIB: u64 = (ARENAS as u64 * ARENA_TOP_BYTES as u64) >> 20;
/// MiB for connections to `service.db`: one that is always open, and one that copies the database.
const STATE_MIB: u64 = 6;
/// MiB for connections to the catalogue and the key store.
const DATABASES_MIB: u64 = databases_kib(READING).div_ceil(1_024);
/// Maximum number of threads that read the databases at once: all blocking threads, those that
/// serve requests, and the server's own.
const READING: u64 = BLOCKING_THREADS as u64 + 32;
/// MiB that the server needs regardless of its clients.
const FIXED_MIB: u64 = PROGRAM_MIB + ALLOCATOR_MIB + STATE_MIB + DATABASES_MIB;

/// Threads that wait for disks. Each may have a connection to the catalogue and one to the key
/// store.
pub const BLOCKING_THREADS: usize = 160;
/// Maximum number of allocator arenas.
pub const ARENAS: i32 = 4;
/// Bytes of free memory that the allocator may keep at the top of each arena.
pub const ARENA_TOP_BYTES: i32 = 8 << 20;
/// KiB that a connection may take in addition to the shared memory: head and read buffer, a frame
/// being sealed, content that waits to be hashed, a small body.
const PER_CONNECTION_KIB: u64 = 320;
/// The least shared memory that is enough for any client, in MiB.
const SHARED_MIB_MIN: u64 = 64;
/// The least number of connections.
const CONNECTIONS_MIN: u64 = 16;

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
    /// Number of 1 MiB records read ahead for clients.
    pub(crate) download_records: usize,
    /// KiB for lists of batches.
    pub(crate) bulk_get_kib: usize,
}

/// The memory limit is too small for the server.
#[derive(Debug, thiserror::Error)]
#[error(
    "memory_mib = {memory_mib} in service.toml is too little: writing platters may take {archive_mib} MiB (limits.memory_mib in fulgurite.toml), \
     the server itself {FIXED_MIB}, and requests need {}; set memory_mib to {} or more, or lower the archive's limit",
    SHARED_MIB_MIN + CONNECTIONS_MIN * PER_CONNECTION_KIB / 1_024,
    archive_mib + FIXED_MIB + SHARED_MIB_MIN + CONNECTIONS_MIN * PER_CONNECTION_KIB / 1_024
)]
pub struct TooLittle {
    memory_mib: u64,
    archive_mib: u64,
}

impl Budget {
    /// Divides `memory_mib`, of which writing platters may take `archive_mib`, among up to
    /// `connections`. Reduces their number if they would take more than half of what remains.
    ///
    /// # Errors
    /// [`TooLittle`] if the memory doesn't suffice for the least number of connections.
    pub(crate) fn new(memory_mib: u64, archive_mib: u64, connections: usize) -> Result<Self, TooLittle> {
        let least = SHARED_MIB_MIN + CONNECTIONS_MIN * PER_CONNECTION_KIB / 1_024;
        let left_kib = memory_mib.saturating_sub(archive_mib).saturating_sub(FIXED_MIB) << 10;
        if left_kib >> 10 < least {
            return Err(TooLittle { memory_mib, archive_mib });
        }
        let most = (left_kib / 2 / PER_CONNECTION_KIB).max(CONNECTIONS_MIN);
        let connections = (connections.max(1) as u64).min(most);
        let shared_kib = left_kib - connections * PER_CONNECTION_KIB;
        // Half is for batches, whose lists are long. More than 256 MiB for each of the others has
        // no benefit.
        let part_kib = (shared_kib / 8).min(256 << 10);
        let bytes = (part_kib << 10) as usize;
        Ok(Self {
            connections: connections as usize,
            incoming: bytes,
            buffered_bodies: bytes,
            buffered_responses: bytes,
            download_records: (part_kib >> 10) as usize,
            bulk_get_kib: (4 * part_kib) as usize,
        })
    }
}

/// Accounts for memory: the access key that a request names, or its address if it names none.
///
/// Signatures are checked before a body is read, so a client can't take memory in the name of
/// another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Holder(Arc<str>);

impl Holder {
    /// The holder of a request.
    pub(crate) fn of(headers: &HeaderMap, peer: IpAddr) -> Self {
        let key = || {
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
    held: HashMap<Holder, usize>,
    waiting: Vec<Waker>,
}

/// Memory that all requests share, in bytes. Clones refer to the same memory.
#[derive(Debug, Clone)]
pub(crate) struct Memory(Arc<Mutex<Inner>>);

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner { free: bytes, ..Inner::default() })))
    }

    /// A poisoned lock is usable: it guards plain numbers, which a panic can't leave half changed.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty share.
    pub(crate) fn share(&self, holder: &Holder) -> Share {
        Share { memory: self.clone(), holder: holder.clone(), bytes: 0 }
    }

    /// A share of `bytes`; `None` if too little is free, or the holder has too much already.
    pub(crate) fn take(&self, holder: &Holder, bytes: usize) -> Option<Share> {
        let mut share = self.share(holder);
        share.resize(bytes).then_some(share)
    }

    /// Wakes the caller when memory becomes free.
    fn wait(&self, context: &Context<'_>) {
        let mut inner = self.lock();
        if !inner.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            inner.waiting.push(context.waker().clone());
        }
    }

    #[cfg(test)]
    fn free(&self) -> usize {
        self.lock().free
    }
}

/// Bytes taken from a [`Memory`]. Dropping the share returns them.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Memory,
    holder: Holder,
    bytes: usize,
}

impl Share {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Wakes the caller when memory becomes free.
    pub(crate) fn wait(&self, context: &Context<'_>) {
        self.memory.wait(context);
    }

    /// Grows or shrinks the share. Returns `false` and leaves it unchanged if there is too little
    /// memory; shrinking always succeeds.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let mut inner = self.memory.lock();
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            let held = inner.held.get(&self.holder).copied().unwrap_or(0) + more;
            match inner.free.checked_sub(more) {
                Some(free) if held <= 2 * free => inner.free = free,
                _ => return false,
            }
            inner.held.insert(self.holder.clone(), held);
            self.bytes = bytes;
            return true;
        }
        let less = self.bytes - bytes;
        self.bytes = bytes;
        inner.free += less;
        if let Some(held) = inner.held.get_mut(&self.holder) {
            *held = held.saturating_sub(less);
            if *held == 0 {
                inner.held.remove(&self.holder);
            }
        }
        let waiting = if less > 0 { std::mem::take(&mut inner.waiting) } else { Vec::new() };
        drop(inner);
        waiting.into_iter().for_each(Waker::wake);
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str) -> Holder {
        Holder(name.into())
    }

    #[test]
    fn no_holder_starves_the_others() {
        let memory = Memory::new(1_200);
        let take = |name: &str| std::iter::from_fn(|| memory.take(&holder(name), 10)).collect::<Vec<_>>();
        let first = take("first");
        assert_eq!(first.len(), 80, "one alone has two thirds");
        let others: Vec<_> = (0..4).map(|other| take(&format!("other {other}"))).collect();
        assert!(others.iter().all(|shares| !shares.is_empty()), "{:?}", others.iter().map(Vec::len).collect::<Vec<_>>());
        drop((first, others));
        assert_eq!(memory.free(), 1_200);
        assert!(memory.lock().held.is_empty());
    }

    #[test]
    fn a_share_that_can_not_grow_stays_as_it_is() {
        let memory = Memory::new(900);
        let mut share = memory.share(&holder("a"));
        assert!(share.resize(600) && !share.resize(601));
        assert_eq!((share.bytes(), memory.free()), (600, 300));
        assert!(share.resize(100));
        assert_eq!(memory.free(), 800);
        drop(share);
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
                + (budget.bulk_get_kib << 10);
            let fixed = PROGRAM_MIB + ALLOCATOR_MIB + STATE_MIB + databases_kib(READING).div_ceil(1_024);
            let all = archive_mib + fixed + ((parts as u64 + budget.connections as u64 * (PER_CONNECTION_KIB << 10)) >> 20);
            assert!(all <= memory_mib && budget.connections >= 16.min(connections), "{budget:?}: {all} of {memory_mib}");
        }
        assert!(Budget::new(700, 512, 1_024).is_err());
        assert_eq!(Budget::new(1_664, 512, 1_024).expect("the defaults").connections, 1_024, "as many as the default settings say");
    }

    #[test]
    fn the_holder_is_the_access_key_or_else_the_address() {
        let peer = IpAddr::from([127, 0, 0, 1]);
        let value = "AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/s3/aws4_request, SignedHeaders=host";
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().expect("a value"))]);
        assert_eq!(Holder::of(&headers, peer), holder("KEY"));
        assert_eq!(Holder::of(&HeaderMap::new(), peer), holder("127.0.0.1"));
    }
}
