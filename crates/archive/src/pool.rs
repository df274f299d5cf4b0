//! Connections to one engine: one that changes, and as many that read as read at once.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

/// Opens a connection for reading; `None` if there can't be one now.
pub type Open<T> = Box<dyn Fn() -> Option<Box<T>> + Send + Sync>;

/// Connections for reading that are kept when nobody uses them.
const KEPT: usize = 16;

pub(crate) struct Pool<T: ?Sized> {
    // First, so that these are closed first: whoever is last brings everything from the log into the file, and can't if it only reads.
    idle: Mutex<Vec<Box<T>>>,
    main: Mutex<Box<T>>,
    open: Option<Open<T>>,
}

impl<T: ?Sized> Pool<T> {
    pub(crate) fn new(main: Box<T>, open: Option<Open<T>>) -> Self {
        Self { idle: Mutex::new(Vec::new()), main: Mutex::new(main), open }
    }

    pub(crate) fn main(&self) -> MutexGuard<'_, Box<T>> {
        self.main.lock().expect("no panic holds this lock")
    }

    /// A connection of one's own, or the one that changes where there is no other.
    pub(crate) fn reading(&self) -> Reading<'_, T> {
        let idle = self.idle.lock().expect("no panic holds this lock").pop();
        match idle.or_else(|| self.open.as_ref()?()) {
            Some(connection) => Reading(Kind::Own(Some(connection), &self.idle)),
            None => Reading(Kind::Main(self.main())),
        }
    }
}

/// A connection for one operation. It goes back when it is dropped.
pub struct Reading<'a, T: ?Sized>(Kind<'a, T>);

enum Kind<'a, T: ?Sized> {
    Own(Option<Box<T>>, &'a Mutex<Vec<Box<T>>>),
    Main(MutexGuard<'a, Box<T>>),
}

impl<T: ?Sized> Deref for Reading<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Kind::Own(connection, _) => connection.as_ref().expect("it is there until the end"),
            Kind::Main(guard) => guard,
        }
    }
}

impl<T: ?Sized> DerefMut for Reading<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Kind::Own(connection, _) => connection.as_mut().expect("it is there until the end"),
            Kind::Main(guard) => guard,
        }
    }
}

impl<T: ?Sized> Drop for Reading<'_, T> {
    fn drop(&mut self) {
        if let Kind::Own(connection, idle) = &mut self.0
            && let Some(connection) = connection.take()
        {
            let mut idle = idle.lock().expect("no panic holds this lock");
            if idle.len() < KEPT {
                idle.push(connection);
            }
        }
    }
}
