//! Connections to one engine: one that changes, and as many that read as read at once.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

/// Opens a connection for reading; `None` if there can't be one now.
pub type Open<T> = Box<dyn Fn(Cache) -> Option<Box<T>> + Send + Sync>;

/// What a connection for reading keeps of its file in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// What makes it fast. The connection is kept for later reads.
    Full,
    /// Little, because there may be any number of these. The connection is closed after its read.
    Small,
}

/// The small one, KiB: a path through a tree, and then some.
const SMALL_KIB: u64 = 64;

impl Cache {
    /// Its size for an engine whose full cache has so many KiB.
    pub(crate) const fn kib(self, full_kib: u64) -> u64 {
        match self {
            Self::Full => full_kib,
            Self::Small => SMALL_KIB,
        }
    }
}

/// Connections for reading with a full cache.
pub(crate) const KEPT: usize = 16;

/// What the connections to one file may take, KiB: the one that changes it, with a cache of `main_kib`, and so many that read at once, the first of
/// them with `full_kib`. Each takes `beside_kib` beside its cache, for the schema and prepared statements.
pub(crate) const fn most_kib(main_kib: u64, full_kib: u64, beside_kib: u64, reading: u64) -> u64 {
    let full = if reading < KEPT as u64 { reading } else { KEPT as u64 };
    main_kib + full * full_kib + (reading - full) * SMALL_KIB + (reading + 1) * beside_kib
}

pub(crate) struct Pool<T: ?Sized> {
    // First, so that these are closed first: whoever is last brings everything from the log into the file, and can't if it only reads.
    kept: Mutex<Kept<T>>,
    main: Mutex<Box<T>>,
    open: Option<Open<T>>,
}

struct Kept<T: ?Sized> {
    idle: Vec<Box<T>>,
    /// Those with a full cache, idle and in use.
    full: usize,
}

impl<T: ?Sized> Pool<T> {
    pub(crate) fn new(main: Box<T>, open: Option<Open<T>>) -> Self {
        Self { kept: Mutex::new(Kept { idle: Vec::new(), full: 0 }), main: Mutex::new(main), open }
    }

    pub(crate) fn main(&self) -> MutexGuard<'_, Box<T>> {
        self.main.lock().expect("no panic holds this lock")
    }

    /// A connection of one's own, or the one that changes where there is no other.
    pub(crate) fn reading(&self) -> Reading<'_, T> {
        let (idle, cache) = {
            let mut kept = self.kept.lock().expect("no panic holds this lock");
            match kept.idle.pop() {
                Some(idle) => (Some(idle), Cache::Full),
                None if self.open.is_some() && kept.full < KEPT => {
                    kept.full += 1;
                    (None, Cache::Full)
                }
                None => (None, Cache::Small),
            }
        };
        // Before it is opened, so that the count is right even if that panics.
        let mut reading = Own { connection: idle, cache, kept: &self.kept };
        if reading.connection.is_none() {
            reading.connection = self.open.as_ref().and_then(|open| open(cache));
        }
        if reading.connection.is_some() { Reading(Kind::Own(reading)) } else { Reading(Kind::Main(self.main())) }
    }
}

/// A connection for one operation. It goes back when it is dropped.
pub struct Reading<'a, T: ?Sized>(Kind<'a, T>);

enum Kind<'a, T: ?Sized> {
    Own(Own<'a, T>),
    Main(MutexGuard<'a, Box<T>>),
}

/// A connection that nobody else uses; none if it could not be opened.
struct Own<'a, T: ?Sized> {
    connection: Option<Box<T>>,
    cache: Cache,
    kept: &'a Mutex<Kept<T>>,
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

impl<T: ?Sized> Drop for Own<'_, T> {
    fn drop(&mut self) {
        if self.cache == Cache::Small {
            return;
        }
        let connection = self.connection.take();
        let mut kept = self.kept.lock().expect("no panic holds this lock");
        match connection {
            // One that was in use when its thread panicked isn't used again.
            Some(connection) if !std::thread::panicking() => kept.idle.push(connection),
            connection => {
                kept.full -= 1;
                drop(kept);
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

    /// Counts those that are open, by their caches.
    struct Connection(Cache, Arc<[AtomicUsize; 2]>);

    impl Drop for Connection {
        fn drop(&mut self) {
            self.1[self.0 as usize].fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn few_connections_have_full_caches_however_many_read_at_once() {
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
            assert_eq!(now(), (KEPT, 100 - KEPT));
            drop(all);
            assert_eq!(now(), (KEPT, 0), "those with little cache are closed, the others kept");
        }
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _reading = pool.reading();
            panic!("for a test");
        }));
        assert!(panics.is_err());
        assert_eq!(now(), (KEPT - 1, 0));
        let all: Vec<_> = (0..KEPT + 1).map(|_| pool.reading()).collect();
        assert_eq!(now(), (KEPT, 1));
        drop(all);
    }

    #[test]
    fn a_connection_that_can_not_be_opened_takes_no_place() {
        let pool = Pool::new(Box::new(7), Some(Box::new(|_| None)));
        for _ in 0..3 * KEPT {
            assert_eq!(*pool.reading(), 7);
        }
        assert_eq!(pool.kept.lock().expect("no panic").full, 0);
    }

    #[test]
    fn what_all_connections_may_take_is_counted() {
        assert_eq!(most_kib(1_000, 500, 10, 0), 1_000 + 10);
        assert_eq!(most_kib(1_000, 500, 10, 2), 1_000 + 2 * 500 + 3 * 10);
        assert_eq!(most_kib(1_000, 500, 10, 100), 1_000 + 16 * 500 + 84 * SMALL_KIB + 101 * 10);
    }
}
