//! Progress of the server's own scrub, when it will have read everything, and whether it should
//! leave the disks to clients.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use fulgurite_archive::catalogue::{PlatterRow, SetRow, SetState};
use fulgurite_domain::SetId;
use serde::{Deserialize, Serialize};

use crate::settings::Scrub;
use crate::state::now_ms;

/// Clients count as active for this long after a request.
const ACTIVE_MS: i64 = 1_000;
/// Reading time after which the rate is measured anew.
const MEASURED: Duration = Duration::from_secs(600);
const DAY_S: u64 = 86_400;

/// A date that is later than `now_s`, by more than clocks may differ, was made by a wrong clock:
/// nothing is known of when it was.
pub(crate) fn believable(at: Option<u64>, now_s: u64) -> Option<u64> {
    at.filter(|at| *at <= now_s.saturating_add(DAY_S))
}

/// Progress of the scrub since the server started.
#[derive(Debug, Default)]
pub(crate) struct ScrubProgress {
    pub(crate) platters: AtomicU64,
    /// Staged versions read.
    pub(crate) staged_versions: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Platters found damaged or missing.
    pub(crate) unsound: AtomicU64,
    pub(crate) repaired: AtomicU64,
    /// Time spent on reading, pauses to limit the rate included.
    reading_ms: AtomicU64,
    meter: Mutex<RateMeter>,
    /// The settings of the running scrub; not set if it is turned off.
    settings: OnceLock<Scrub>,
    /// Time of the last request, in milliseconds since 1970.
    last_request_ms: AtomicI64,
}

/// Measures the rate of the last ten to twenty minutes of reading.
#[derive(Debug, Default)]
struct RateMeter {
    previous: (u64, Duration),
    current: (u64, Duration),
}

impl RateMeter {
    fn add(&mut self, bytes: u64, took: Duration) {
        if self.current.1 >= MEASURED {
            self.previous = std::mem::take(&mut self.current);
        }
        self.current.0 += bytes;
        self.current.1 += took;
    }

    fn bytes_per_s(&self) -> Option<f64> {
        let took = self.previous.1 + self.current.1;
        (took >= Duration::from_secs(1)).then(|| (self.previous.0 + self.current.0) as f64 / took.as_secs_f64())
    }
}

/// How far the server's scrub is, and when it will have read what is due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// Days in which each platter is read once.
    pub every_days: u64,
    /// Maximum read rate, in bytes a second.
    pub bytes_per_s_max: u64,
    /// Rate of the last minutes of reading, in bytes a second; `None` if too little was read since
    /// the server started.
    pub bytes_per_s: Option<f64>,
    /// Platters that were verified within `every_days`.
    pub verified: u64,
    /// Platters that were not, and can be read.
    pub due: u64,
    /// Bytes of those platters.
    pub due_bytes: u64,
    /// Platters that were not verified in time because their stores are absent or unreadable.
    pub out_of_reach: u64,
    /// When all that is due will have been read, at that rate or else at the maximum, in seconds
    /// since 1970.
    pub due_end: u64,
    /// Seconds that it takes to read all platters once at that rate, or else at the maximum.
    pub cycle_s: u64,
}

impl ScrubStatus {
    /// True if all platters can't be read in time at this rate.
    #[must_use]
    pub fn is_too_slow(&self) -> bool {
        self.cycle_s > self.every_days.saturating_mul(DAY_S)
    }
}

impl ScrubProgress {
    /// Records that the scrub has started.
    pub(crate) fn start(&self, settings: &Scrub) {
        let _ = self.settings.set(settings.clone());
    }

    /// Records that reading bytes took this long, pauses included.
    pub(crate) fn measure(&self, bytes: u64, took: Duration) {
        self.reading_ms.fetch_add(took.as_millis() as u64, Ordering::Relaxed);
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).add(bytes, took);
    }

    /// Seconds spent on reading since the server started.
    pub(crate) fn reading_s(&self) -> f64 {
        self.reading_ms.load(Ordering::Relaxed) as f64 / 1e3
    }

    /// The status at `now_s`, by the platters in the catalogue; `None` if the scrub is turned off.
    pub(crate) fn status<'a>(
        &self,
        now_s: u64,
        sets: &[SetRow],
        platters: impl Iterator<Item = &'a PlatterRow>,
        is_usable: impl Fn(&str) -> bool,
    ) -> Option<ScrubStatus> {
        let settings = self.settings.get()?;
        let measured = self.meter.lock().unwrap_or_else(PoisonError::into_inner).bytes_per_s();
        Some(status(settings, measured, now_s, sets, platters, is_usable))
    }

    /// Records a client's request.
    pub(crate) fn record_request(&self) {
        self.last_request_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// Whether clients sent requests recently.
    pub(crate) fn is_busy(&self) -> bool {
        now_ms() - self.last_request_ms.load(Ordering::Relaxed) < ACTIVE_MS
    }
}

fn status<'a>(
    settings: &Scrub,
    measured: Option<f64>,
    now_s: u64,
    sets: &[SetRow],
    platters: impl Iterator<Item = &'a PlatterRow>,
    is_usable: impl Fn(&str) -> bool,
) -> ScrubStatus {
    let every_s = settings.every_days.saturating_mul(DAY_S);
    // In bytes as the scrub counts them, whatever the medium.
    let bytes_of: HashMap<SetId, u64> = sets.iter().map(|set| (set.description.id, set.description.geometry.file_bytes())).collect();
    let bytes_per_s_max = settings.mib_per_s.saturating_mul(1 << 20).max(1);
    let mut status = ScrubStatus {
        every_days: settings.every_days,
        bytes_per_s_max,
        bytes_per_s: measured,
        verified: 0,
        due: 0,
        due_bytes: 0,
        out_of_reach: 0,
        due_end: now_s,
        cycle_s: 0,
    };
    let mut cycle_bytes = 0_u64;
    for row in platters.filter(|row| row.state == SetState::Complete) {
        let bytes = bytes_of.get(&row.set).copied().unwrap_or(0);
        cycle_bytes = cycle_bytes.saturating_add(bytes);
        if believable(row.health.verified(), now_s).is_some_and(|verified| now_s.saturating_sub(verified) < every_s) {
            status.verified += 1;
        } else if is_usable(&row.place.store) {
            status.due += 1;
            status.due_bytes = status.due_bytes.saturating_add(bytes);
        } else {
            status.out_of_reach += 1;
        }
    }
    let rate = measured.filter(|rate| *rate > 0.0).unwrap_or(bytes_per_s_max as f64);
    let seconds = |bytes: u64| (bytes as f64 / rate).ceil() as u64;
    status.due_end = now_s.saturating_add(seconds(status.due_bytes));
    status.cycle_s = seconds(cycle_bytes);
    status
}

#[cfg(test)]
mod tests {
    use fulgurite_archive::catalogue::{Health, PlatterPlace, SetDescription};
    use fulgurite_domain::{Geometry, Medium, PlatterId, SetShape};

    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_minutes() {
        let mut meter = RateMeter::default();
        assert_eq!(meter.bytes_per_s(), None);
        (0..2_000).for_each(|_| meter.add(10, Duration::from_secs(1)));
        assert_eq!(meter.bytes_per_s(), Some(10.0));
        (0..2_000).for_each(|_| meter.add(30, Duration::from_secs(1)));
        assert_eq!(meter.bytes_per_s(), Some(30.0), "the slower rate before is forgotten");
    }

    #[test]
    fn the_status_counts_what_is_due_and_projects_its_end() {
        let geometry = Geometry {
            sector_bytes: 4_096,
            track_information: 100,
            track_redundancy: 8,
            group_information: 50,
            group_redundancy: 2,
            information_tracks: 50,
        };
        let now = 1_000 * DAY_S;
        let place = |number: u8, store: &str| PlatterPlace { platter: PlatterId([number; 16]), store: store.to_owned() };
        let row = |number: u8, store: &str, health| PlatterRow {
            place: place(number, store),
            set: SetId([1; 16]),
            position: number.into(),
            state: SetState::Complete,
            health,
        };
        let long_ago = Health::intact_at(now - 30 * DAY_S);
        let damaged = Health { lost_sectors: 1, last_intact: Some(now - 31 * DAY_S), ..Health::intact_at(now - 1) };
        let rows = [
            row(0, "d0", Health::intact_at(now - 1)),
            row(1, "d1", long_ago),
            row(2, "d2", Health::default()),
            row(3, "d3", damaged),
            row(4, "away", long_ago),
            row(5, "away", Health::intact_at(now - 29 * DAY_S)),
            PlatterRow { state: SetState::Writing, ..row(6, "d1", Health::default()) },
        ];
        let set = SetRow {
            description: SetDescription {
                id: SetId([1; 16]),
                shape: SetShape { information: 4, redundancy: 2 },
                medium: Medium::Disk,
                geometry,
                written: 0,
                platters: Vec::new(),
            },
            state: SetState::Complete,
        };
        let settings = Scrub { every_days: 30, mib_per_s: 1, repair: true };
        let is_usable = |store: &str| store != "away";
        let found = status(&settings, None, now, std::slice::from_ref(&set), rows.iter(), is_usable);
        let bytes = geometry.file_bytes();
        assert_eq!((found.verified, found.due, found.out_of_reach, found.due_bytes), (2, 3, 1, 3 * bytes));
        assert_eq!(found.due_end, now + (3 * bytes).div_ceil(1 << 20), "at the maximum rate");
        assert_eq!(found.cycle_s, (6 * bytes).div_ceil(1 << 20));
        assert!(!found.is_too_slow());

        let slow = bytes as f64 / (6.0 * DAY_S as f64);
        let found = status(&settings, Some(slow), now, &[set], rows.iter(), is_usable);
        assert!((found.due_end - now).abs_diff(18 * DAY_S) <= 1, "{found:?}");
        assert!(found.is_too_slow(), "{found:?}");
    }
}
