//! Reserves room in staging for the objects of a put.
//!
//! A worker reserves room for an object before reading it, so that a put that doesn't fit stops
//! between objects, and every object that was started is stored. (An object of unknown size
//! reserves room for each piece as it comes, and can fail in the middle.) If there is too little
//! room, the worker waits until no other object is open, and then asks the put to make room. A put
//! that flushes does so by writing everything staged to platters; other puts can't.
//!
//! A reservation ends when [`Staging::room`] counts its bytes: for the content of an object when
//! all of it is appended (until then, its staged bytes count twice), for its record when the batch
//! of the object is taken. So staging stays within its limit.

use std::sync::{Condvar, Mutex, MutexGuard};

use fulgurite_format::{HEAD_BYTES, stored_bytes};

use super::RECORD_BYTES;
use crate::staging::Staging;

/// Space of an object in addition to its content: its record with head and padding, and its rows in
/// catalogue and key store, which are usually on the same disk.
const OBJECT_BYTES: u64 = 16 << 10;

pub(super) struct Room<'a> {
    staging: &'a Staging,
    state: Mutex<State>,
    state_changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Bytes of all reservations.
    reserved: u64,
    /// The part of `reserved` for records that the writer appends with its next batch.
    record_bytes: u64,
    /// Number of reservations for objects.
    open: u64,
    /// Number of reservations for pieces on their way to the writer.
    pieces: u64,
    /// True while a worker waits for the reservations of all objects to end. Further objects must
    /// wait meanwhile, or it might wait for ever.
    draining: bool,
}

/// Room for an object, until it is staged or given up; or for a piece of an object of unknown size,
/// until it is appended.
pub(super) struct Reservation<'a> {
    room: &'a Room<'a>,
    bytes: u64,
    is_piece: bool,
}

/// Staging has no room for an object or a piece, and waiting for others would not help.
pub(super) struct NoRoom {
    /// Bytes of staging that it needs.
    pub(super) needed: u64,
    /// Bytes that are reserved for others.
    pub(super) reserved: u64,
}

impl<'a> Room<'a> {
    pub(super) fn new(staging: &'a Staging) -> Self {
        Self { staging, state: Mutex::default(), state_changed: Condvar::new() }
    }

    /// Reserves room for an object with this many content bytes. `make` is called while no object
    /// is open; at most the records of complete objects are still reserved. It returns whether it
    /// may have made room.
    pub(super) fn reserve(&'a self, content: u64, make: &mut dyn FnMut() -> bool) -> Result<Reservation<'a>, NoRoom> {
        let stored = stored_bytes(content);
        // Each data record costs a head and less than a head of padding.
        let needed = stored + stored.div_ceil(RECORD_BYTES as u64) * 2 * HEAD_BYTES as u64 + OBJECT_BYTES;
        let mut state = self.wait_while(self.lock(), |state| state.draining);
        if !self.fits(&state, needed) {
            state.draining = true;
            state = self.wait_while(state, |state| state.open > 0);
            if !self.fits(&state, needed) {
                drop(state);
                let made = make();
                state = self.lock();
                if !made || !self.fits(&state, needed) {
                    state.draining = false;
                    self.state_changed.notify_all();
                    return Err(NoRoom { needed, reserved: state.reserved });
                }
            }
            state.draining = false;
            self.state_changed.notify_all();
        }
        state.reserved += needed;
        state.open += 1;
        Ok(Reservation { room: self, bytes: needed, is_piece: false })
    }

    /// Reserves room for a piece of an object that has a reservation for itself. If there is too
    /// little, it waits only for pieces on their way. It doesn't wait for other objects to end: two
    /// objects of unknown size could wait for each other for ever.
    pub(super) fn reserve_piece(&'a self, bytes: u64) -> Result<Reservation<'a>, NoRoom> {
        // The piece with its head and padding, and the head of a segment that it may have to begin.
        let needed = bytes.next_multiple_of(HEAD_BYTES as u64) + 2 * HEAD_BYTES as u64;
        let mut state = self.wait_while(self.lock(), |state| state.pieces > 0 && !self.fits(state, needed));
        if !self.fits(&state, needed) {
            return Err(NoRoom { needed, reserved: state.reserved });
        }
        state.reserved += needed;
        state.pieces += 1;
        Ok(Reservation { room: self, bytes: needed, is_piece: true })
    }

    /// Call this when the records that objects reserved room for are appended.
    pub(super) fn release_records(&self) {
        let mut state = self.lock();
        state.reserved -= std::mem::take(&mut state.record_bytes);
        drop(state);
        self.state_changed.notify_all();
    }

    /// Whether this many bytes fit in addition to the reservations. Reserved bytes that are already
    /// staged count twice, so the answer is exact only with no reservations.
    fn fits(&self, state: &State, bytes: u64) -> bool {
        state.reserved.saturating_add(bytes) <= self.staging.room()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }

    fn wait_while<'s>(&self, state: MutexGuard<'s, State>, condition: impl Fn(&State) -> bool) -> MutexGuard<'s, State> {
        self.state_changed.wait_while(state, |state| condition(state)).expect("nothing panics while it holds this lock")
    }
}

impl Reservation<'_> {
    /// Call this when all content is appended. Ends this reservation, but keeps `record` bytes
    /// reserved until [`release_records`](Room::release_records).
    pub(super) fn content_appended(self, record: u64) {
        let mut state = self.room.lock();
        state.reserved += record;
        state.record_bytes += record;
        drop(state);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.room.lock();
        state.reserved -= self.bytes;
        *(if self.is_piece { &mut state.pieces } else { &mut state.open }) -= 1;
        drop(state);
        self.room.state_changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use fulgurite_domain::ArchiveId;

    use super::*;
    use crate::volume::FolderVolume;

    const MIB: u64 = 1 << 20;

    fn with_room(bytes: u64, test: impl FnOnce(&Room<'_>)) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let volume = Arc::new(FolderVolume::new(folder.path()));
        let staging = Staging::new(volume, ArchiveId([1; 16]), MIB).limited(Some(bytes));
        test(&Room::new(&staging));
    }

    #[test]
    fn a_reservation_without_room_waits_for_the_others() {
        with_room(16 * MIB, |room| {
            let made = AtomicBool::new(false);
            let reserve = |bytes| {
                room.reserve(bytes, &mut || {
                    made.store(true, Ordering::Relaxed);
                    false
                })
            };
            let first = reserve(10 * MIB).ok().expect("room");
            let second = reserve(5 * MIB).ok().expect("room for a second");
            std::thread::scope(|scope| {
                let third = scope.spawn(|| reserve(10 * MIB).is_ok());
                // The third waits: it can't be admitted before the others end.
                while !room.lock().draining {
                    assert!(!third.is_finished(), "there is no room for a third");
                    std::thread::yield_now();
                }
                drop(first);
                drop(second);
                assert!(third.join().expect("no panic"));
            });
            assert!(!made.load(Ordering::Relaxed), "no room had to be made");
        });
    }

    #[test]
    fn an_object_that_never_fits_is_rejected_after_one_attempt_to_make_room() {
        with_room(16 * MIB, |room| {
            for makes in [false, true] {
                let mut asked = 0;
                let refused = room.reserve(17 * MIB, &mut || {
                    asked += 1;
                    makes
                });
                assert!(refused.is_err_and(|none| none.needed > 17 * MIB));
                assert_eq!(asked, 1);
                assert!(room.reserve(MIB, &mut || false).is_ok(), "other objects still fit");
            }
        });
    }
}
