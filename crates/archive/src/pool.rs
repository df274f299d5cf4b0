//! Connection pool for a database: one connection for writes, and one per concurrent read.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

/// Opens a connection for reading; `None` if that is impossible now.
pub type Open<T> = Box<dyn Fn(Cache) -> Option<Box<T>> + Send + Sync>;

/// Cache size of a connection for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// The size needed for speed. The connection is kept for later reads.
    Full,
    /// A small cache, because the number of these connections is unbounded. The connection is
    /// closed after its read.
    Small,
}

/// Size of a small cache in KiB: enough for a path through a B-tree, with some to spare.
const SMALL_KIB: u64 = 64;

impl Cache {
    /// Cache size in KiB for a database whose full cache has `full_kib`.
    pub(crate) const fn kib(self, full_kib: u64) -> u64 {
        match self {
            Self::Full => full_kib,
            Self::Small => SMALL_KIB,
        }
    }
}

/// Maximum number of connections for reading that are kept, with a full cache each.
pub(crate) const CACHED_READERS_MAX: usize = 16;

/// Maximum memory of all connections to a file, in KiB: one for writes with a cache of `main_kib`,
/// and `reading` concurrent readers, the first of them with `full_kib` each. Every connection needs
/// `connection_kib` in addition to its cache, for the schema and prepared statements.
pub(crate) const fn memory_max_kib(main_kib: u64, full_kib: u64, connection_kib: u64, reading: u64) -> u64 {
    let full = if reading < CACHED_READERS_MAX as u64 { reading } else { CACHED_READERS_MAX as u64 };
    main_kib + full * full_kib + (reading - full) * SMALL_KIB + (reading + 1) * connection_kib
}

pub(crate) struct Pool<T: ?Sized> {
    // First, so that readers close first. The last connection to close checkpoints the log into the
    // file, and a read-only one can't.
    cached: Mutex<CachedReaders<T>>,
    main: Mutex<Box<T>>,
    open: Option<Open<T>>,
}

struct CachedReaders<T: ?Sized> {
    idle: Vec<Box<T>>,
    /// Connections with a full cache, idle and in use.
    full: usize,
}

impl<T: ?Sized> Pool<T> {
    pub(crate) fn new(main: Box<T>, open: Option<Open<T>>) -> Self {
        Self { cached: Mutex::new(CachedReaders { idle: Vec::new(), full: 0 }), main: Mutex::new(main), open }
    }

    pub(crate) fn main(&self) -> MutexGuard<'_, Box<T>> {
        self.main.lock().expect("nothing panics while it holds this lock")
    }

    /// Returns a separate connection, or the write connection if no other can be opened.
    pub(crate) fn reading(&self) -> Reading<'_, T> {
        let (idle, cache) = {
            let mut cached = self.cached.lock().expect("nothing panics while it holds this lock");
            match cached.idle.pop() {
                Some(idle) => (Some(idle), Cache::Full),
                None if self.open.is_some() && cached.full < CACHED_READERS_MAX => {
                    cached.full += 1;
                    (None, Cache::Full)
                }
                None => (None, Cache::Small),
            }
        };
        // Created before opening, so that the count stays right even if opening panics.
        let mut reading = PooledConnection { connection: idle, cache, cached: &self.cached };
        if reading.connection.is_none() {
            reading.connection = self.open.as_ref().and_then(|open| open(cache));
        }
        if reading.connection.is_some() { Reading(Kind::Own(reading)) } else { Reading(Kind::Main(self.main())) }
    }
}

/// A connection for one operation. Returns to the pool when dropped.
pub struct Reading<'a, T: ?Sized>(Kind<'a, T>);

enum Kind<'a, T: ?Sized> {
    Own(PooledConnection<'a, T>),
    Main(MutexGuard<'a, Box<T>>),
}

/// An exclusive connection; `None` if it could not be opened.
struct PooledConnection<'a, T: ?Sized> {
    connection: Option<Box<T>>,
    cache: Cache,
    cached: &'a Mutex<CachedReaders<T>>,
}

impl<T: ?Sized> Deref for Reading<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Kind::Own(own) => own.connection.as_ref().expect("it is there until the end"),
            Kind::Main(guard) => guard,
        }
    }
}

impl<T: ?Sized> DerefMut for Reading<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Kind::Own(own) => own.connection.as_mut().expect("it is there until the end"),
            Kind::Main(guard) => guard,
        }
    }
}

impl<T: ?Sized> Drop for PooledConnection<'_, T> {
    fn drop(&mut self) {
        if self.cache == Cache::Small {
            return;
        }
        let connection = self.connection.take();
        let mut cached = self.cached.lock().expect("nothing panics while it holds this lock");
        match connection {
            // A connection is not reused if its thread panicked.
            Some(connection) if !std::thread::panicking() => cached.idle.push(connection),
            connection => {
                cached.full -= 1;
                drop(cached);
                drop(connection);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts open connections by cache size.
    struct Connection(Cache, Arc<[AtomicUsize; 2]>);

    impl Drop for Connection {
        fn drop(&mut self) {
            self.1[self.0 as usize].fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_number_of_full_caches_is_bounded() {
        let open = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let counted = open.clone();
        let connect = move |cache: Cache| {
            counted[cache as usize].fetch_add(1, Ordering::Relaxed);
            Some(Box::new(Connection(cache, counted.clone())))
        };
        let main = connect(Cache::Small).expect("a connection");
        let pool = Pool::new(main, Some(Box::new(connect)));
        let now = || (open[0].load(Ordering::Relaxed), open[1].load(Ordering::Relaxed) - 1);
        for _ in 0..3 {
            let all: Vec<_> = (0..100).map(|_| pool.reading()).collect();
            assert_eq!(now(), (CACHED_READERS_MAX, 100 - CACHED_READERS_MAX));
            drop(all);
            assert_eq!(now(), (CACHED_READERS_MAX, 0), "connections with a small cache are closed, the others are kept");
        }
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _reading = pool.reading();
            panic!("for a test");
        }));
        assert!(panics.is_err());
        assert_eq!(now(), (CACHED_READERS_MAX - 1, 0));
        let all: Vec<_> = (0..CACHED_READERS_MAX + 1).map(|_| pool.reading()).collect();
        assert_eq!(now(), (CACHED_READERS_MAX, 1));
        drop(all);
    }

    #[test]
    fn a_connection_that_fails_to_open_is_not_counted() {
        let pool = Pool::new(Box::new(7), Some(Box::new(|_| None)));
        for _ in 0..3 * CACHED_READERS_MAX {
            assert_eq!(*pool.reading(), 7);
        }
        assert_eq!(pool.cached.lock().expect("nothing panics while it holds this lock").full, 0);
    }

    #[test]
    fn the_memory_of_all_connections_adds_up() {
        assert_eq!(memory_max_kib(1_000, 500, 10, 0), 1_000 + 10);
        assert_eq!(memory_max_kib(1_000, 500, 10, 2), 1_000 + 2 * 500 + 3 * 10);
        assert_eq!(memory_max_kib(1_000, 500, 10, 100), 1_000 + 16 * 500 + 84 * SMALL_KIB + 101 * 10);
    }
}
