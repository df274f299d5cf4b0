//! Room in staging: decides which puts fit, and when a set must be written to make room.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fulgurite_archive::staging::Free;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Free space on the staging disk that puts must not use: the databases' logs need it, and so do
/// removals, the way out of a full disk.
const DISK_RESERVE_BYTES: u64 = 256 << 20;
/// A set written only to make room holds at least 1/64 of a full one. Smaller sets cost more
/// redundancy than they free.
const SMALL_SET_DIVISOR: u64 = 64;
/// After this time an even smaller set may be written: better than refusing puts for a day.
const SMALL_SETS_PERIOD: Duration = Duration::from_secs(600);

/// Clocks are set back by less than this in normal operation. Dates further in the future were made
/// by a clock that was wrong.
const CLOCK_STEP_MAX_MS: u64 = 60_000;

/// Time between two reports of refused puts.
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// The service's own limit of staging, and whether puts need more room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Maximum bytes that may be staged, if the settings limit them.
    pub(super) limit: Option<u64>,
    /// True if a put was refused for lack of room since the last set was begun.
    refused: AtomicBool,
    /// Puts that were refused since the start.
    refused_puts: AtomicU64,
    reported: Mutex<Reported>,
    /// Size of the smallest refused put that may still not fit.
    least_refused: Mutex<Option<u64>>,
    /// Wakes the writer of sets.
    pub(crate) wanted: Notify,
}

/// Refused puts that the log hasn't reported. Clients retry, so a line for each would be thousands
/// a second.
#[derive(Debug, Default)]
struct Reported {
    last: Option<Instant>,
    /// Puts refused since the last report.
    refused: u64,
}

/// Why a set is written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// There is enough for a full set.
    Full,
    /// Something has been staged for as long as the settings allow.
    Old,
    /// Staging is running out of room.
    Pressed,
}

/// What decides whether a set is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StagingStatus {
    /// Number of staged versions.
    pub(crate) versions: u64,
    /// Their stored bytes.
    pub(crate) bytes: u64,
    /// Number of staged removals that are on no platter and may be old.
    pub(crate) removals: u64,
    /// Age of the oldest staged version or removal.
    pub(crate) age: Duration,
    /// Bytes that can still be staged, if known.
    pub(crate) room_bytes: Option<u64>,
    /// Whether a put was refused since the last set.
    pub(crate) refused: bool,
    /// Content of a full set.
    pub(crate) full_set_bytes: u64,
    /// Time since the last set that was written to make room; `None` if there was none.
    pub(crate) since_pressed: Option<Duration>,
    /// Time since the last set that was written because something was old; `None` if there was
    /// none.
    pub(crate) since_old: Option<Duration>,
}

impl StagingStatus {
    /// Whether a set is due, and why.
    pub(crate) fn due(&self, flush_after: Duration) -> Option<Due> {
        if self.versions > 0 && self.bytes >= self.full_set_bytes {
            return Some(Due::Full);
        }
        // A set written for age takes everything along. Old versions that are still staged after it
        // are unreadable, and must not turn each new object into a set of its own.
        let is_something_staged = self.versions > 0 || self.removals > 0;
        if is_something_staged && self.age >= flush_after && self.since_old.is_none_or(|since| since >= flush_after) {
            return Some(Due::Old);
        }
        // A put was refused, or staging is three quarters full. The last quarter takes puts while
        // the set is written.
        let is_short = self.refused || self.room_bytes.is_some_and(|room| room <= self.bytes / 3);
        let is_worthwhile =
            self.bytes >= self.full_set_bytes / SMALL_SET_DIVISOR || self.since_pressed.is_none_or(|since| since >= SMALL_SETS_PERIOD);
        (self.versions > 0 && is_short && is_worthwhile).then_some(Due::Pressed)
    }
}

/// Age of a staged version, from the time at which it was put. A time in the future is wrong and
/// says nothing about the age, so the version counts as old: it would otherwise stay on one disk
/// for as long as the clock was ahead.
pub(crate) fn staged_age(put_ms: u64, now_ms: u64) -> Duration {
    if put_ms > now_ms.saturating_add(CLOCK_STEP_MAX_MS) {
        return Duration::MAX;
    }
    Duration::from_millis(now_ms.saturating_sub(put_ms))
}

/// Bytes that can still be staged, within both limits and above the reserve on disk. `None` if
/// nothing limits them.
pub(super) fn room(limit: Option<u64>, staged: u64, free: Free) -> Option<u64> {
    let below_limit = limit.map(|limit| limit.saturating_sub(staged));
    let on_disk = free.on_disk.map(|free| free.saturating_sub(DISK_RESERVE_BYTES));
    [below_limit, free.within_limit, on_disk].into_iter().flatten().min()
}

/// Whether `bytes` more fit. The service's limit doesn't apply to empty staging: a larger object
/// would be refused forever.
pub(super) fn fits(bytes: u64, limit: Option<u64>, staged: u64, free: Free) -> bool {
    let limit = limit.filter(|_| staged > 0);
    room(limit, staged, free).is_none_or(|room| bytes <= room)
}

impl Room {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Notes a refused put, for which a set should make room. `would_fit`: `bytes` would fit if
    /// nothing were staged. Returns how many were refused since the last report, if it is time for
    /// another one.
    pub(super) fn refuse(&self, bytes: u64, would_fit: bool) -> Option<u64> {
        self.refused.store(true, Ordering::Relaxed);
        self.refused_puts.fetch_add(1, Ordering::Relaxed);
        self.wanted.notify_one();
        if would_fit {
            let mut least = self.least_refused.lock().expect("nothing panics while it holds this lock");
            *least = Some(least.map_or(bytes, |least| least.min(bytes)));
        }
        let mut reported = self.reported.lock().expect("nothing panics while it holds this lock");
        reported.refused += 1;
        let now = Instant::now();
        if reported.last.is_some_and(|last| now < last + REPORT_PERIOD) {
            return None;
        }
        reported.last = Some(now);
        Some(std::mem::take(&mut reported.refused))
    }

    /// Forgets refused puts, since the set that begins now makes room for them.
    pub(crate) fn begin_set(&self) {
        self.refused.store(false, Ordering::Relaxed);
        let refused = std::mem::take(&mut self.reported.lock().expect("nothing panics while it holds this lock").refused);
        if refused > 0 {
            tracing::warn!(refused, "more puts were refused before this set because staging had too little room");
        }
    }

    /// Keeps disks from being checked.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> std::sync::MutexGuard<'_, Option<u64>> {
        self.least_refused.lock().expect("nothing panics while it holds this lock")
    }

    pub(crate) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Number of puts that were refused since the start.
    pub(crate) fn refused_puts(&self) -> u64 {
        self.refused_puts.load(Ordering::Relaxed)
    }

    /// Size of the smallest refused put that doesn't fit yet, unless it is to be forgotten by now.
    /// Puts that wouldn't fit in empty staging don't count.
    pub(super) fn still_refused(&self, is_over: impl Fn(u64) -> bool) -> Option<u64> {
        let mut least = self.least_refused.lock().expect("nothing panics while it holds this lock");
        *least = least.filter(|bytes| !is_over(*bytes));
        *least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const DAY: Duration = Duration::from_secs(86_400);
    const STAGED: StagingStatus = StagingStatus {
        versions: 1,
        bytes: 100 * MIB,
        removals: 0,
        age: Duration::ZERO,
        room_bytes: Some(10_000 * MIB),
        refused: false,
        full_set_bytes: 2_048 * MIB,
        since_pressed: None,
        since_old: None,
    };

    #[test]
    fn a_set_is_written_when_it_is_full_or_something_is_old() {
        assert_eq!(STAGED.due(DAY), None);
        assert_eq!(StagingStatus { bytes: 2_048 * MIB, ..STAGED }.due(DAY), Some(Due::Full));
        assert_eq!(StagingStatus { age: DAY, ..STAGED }.due(DAY), Some(Due::Old));
        let empty = StagingStatus { age: DAY, versions: 0, bytes: 0, refused: true, ..STAGED };
        assert_eq!(empty.due(DAY), None);
        assert_eq!(StagingStatus { removals: 1, ..empty }.due(DAY), Some(Due::Old));
        assert_eq!(StagingStatus { removals: 1, age: DAY / 2, ..empty }.due(DAY), None);
        assert_eq!(StagingStatus { removals: 1, since_old: Some(DAY / 2), ..empty }.due(DAY), None);
    }

    #[test]
    fn a_small_correction_of_the_clock_makes_no_version_old() {
        let put_ms = 1_000_000_000;
        assert_eq!(staged_age(put_ms, put_ms + 5), Duration::from_millis(5));
        assert_eq!(staged_age(put_ms, put_ms - CLOCK_STEP_MAX_MS), Duration::ZERO);
        assert_eq!(staged_age(put_ms, put_ms - CLOCK_STEP_MAX_MS - 1), Duration::MAX);
    }

    #[test]
    fn unreadable_old_versions_do_not_make_each_new_object_a_set() {
        let left = StagingStatus { age: 5 * DAY, since_old: Some(DAY / 2), ..STAGED };
        assert_eq!(left.due(DAY), None);
        assert_eq!(StagingStatus { since_old: Some(DAY), ..left }.due(DAY), Some(Due::Old));
        assert_eq!(StagingStatus { bytes: 2_048 * MIB, ..left }.due(DAY), Some(Due::Full));
    }

    #[test]
    fn a_smaller_set_is_written_when_room_runs_out_below_a_full_one() {
        assert_eq!(StagingStatus { room_bytes: Some(34 * MIB), ..STAGED }.due(DAY), None);
        assert_eq!(StagingStatus { room_bytes: Some(33 * MIB), ..STAGED }.due(DAY), Some(Due::Pressed));
        assert_eq!(StagingStatus { refused: true, room_bytes: None, ..STAGED }.due(DAY), Some(Due::Pressed));
    }

    #[test]
    fn tiny_sets_are_not_written_one_after_another() {
        let tiny = StagingStatus { bytes: 1_000, refused: true, since_pressed: Some(Duration::from_secs(10)), ..STAGED };
        assert_eq!(tiny.due(DAY), None);
        assert_eq!(StagingStatus { since_pressed: None, ..tiny }.due(DAY), Some(Due::Pressed));
        assert_eq!(StagingStatus { since_pressed: Some(SMALL_SETS_PERIOD), ..tiny }.due(DAY), Some(Due::Pressed));
        assert_eq!(StagingStatus { bytes: 32 * MIB, ..tiny }.due(DAY), Some(Due::Pressed));
    }

    #[tokio::test(start_paused = true)]
    async fn refused_puts_are_reported_together() {
        let room = Room::new(None);
        assert!(!room.was_refused());
        let refuse = || room.refuse(1, true);
        assert_eq!([refuse(), refuse(), refuse()], [Some(1), None, None]);
        assert!(room.was_refused());
        tokio::time::advance(REPORT_PERIOD).await;
        assert_eq!([refuse(), refuse()], [Some(3), None]);
        // The set reports the one that is left.
        room.begin_set();
        assert!(!room.was_refused());
        tokio::time::advance(REPORT_PERIOD).await;
        assert_eq!((refuse(), room.refused_puts()), (Some(1), 6));
    }

    #[test]
    fn the_smallest_refused_put_counts_until_it_fits() {
        let room = Room::new(None);
        let still_refused = |free| room.still_refused(|bytes| bytes <= free);
        assert_eq!(still_refused(0), None);
        for bytes in [300, 200, 400] {
            room.refuse(bytes, true);
        }
        // No set makes room for this one.
        room.refuse(100, false);
        room.begin_set();
        assert_eq!((still_refused(199), still_refused(200)), (Some(200), None));
        assert_eq!(still_refused(0), None, "its client would have been accepted meanwhile");
    }

    #[test]
    fn both_limits_and_the_disk_bound_what_fits() {
        let disk = |bytes| Free { on_disk: Some(bytes), ..Free::default() };
        let within = |bytes| Free { within_limit: Some(bytes), ..Free::default() };
        assert!(fits(10, Some(100), 90, Free::default()) && !fits(11, Some(100), 90, Free::default()));
        assert!(fits(1_000, Some(100), 0, Free::default()), "empty staging takes an object larger than the service's limit");
        assert!(fits(10, None, 0, disk(DISK_RESERVE_BYTES + 10)) && !fits(11, None, 0, disk(DISK_RESERVE_BYTES + 10)));
        assert!(!fits(1_000, Some(100), 0, disk(DISK_RESERVE_BYTES + 10)), "the disk limits it in any case");
        assert!(
            fits(10, None, 0, within(10)) && !fits(11, None, 0, within(10)),
            "the reserve applies to the disk, not to the archive's limit"
        );
        assert_eq!(room(Some(100), 60, disk(DISK_RESERVE_BYTES + 30)), Some(30));
        assert_eq!(room(Some(100), 60, disk(DISK_RESERVE_BYTES + 50)), Some(40));
        assert_eq!(room(Some(100), 60, Free { within_limit: Some(20), ..disk(DISK_RESERVE_BYTES + 50) }), Some(20));
        assert_eq!(room(Some(100), 160, Free::default()), Some(0));
        assert_eq!(room(None, 60, Free::default()), None);
    }
}
