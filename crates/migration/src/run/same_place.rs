//! A place that stays the same during a run.
//!
//! When a disk is unmounted, its folder is often still there, empty. A connection that is opened
//! then would miss all files of the source, or write to another disk.

use std::sync::{Arc, Mutex, PoisonError};

use fulgurite_places::{Connection, Place, Refusal};

/// Opens connections only as long as the first one says that it is the same place.
pub(super) struct SamePlace {
    place: Arc<dyn Place>,
    first: Mutex<Option<Box<dyn Connection>>>,
}

impl SamePlace {
    pub(super) fn new(place: Arc<dyn Place>) -> Self {
        Self { place, first: Mutex::new(None) }
    }
}

impl Place for SamePlace {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        // A panic in a check leaves nothing half done.
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *first {
            Some(connection) => connection.check()?,
            none => *none = Some(self.place.connect()?),
        }
        self.place.connect()
    }

    fn describe(&self) -> String {
        self.place.describe()
    }
}
