//! The server's own scrubbing: platter after platter, the longest unverified first, within a budget.
//!
//! What was verified when is in the catalogue, so a server that was stopped goes on where it was. A platter that is damaged, or missing from a
//! store that is there, is written anew from its set. Platters of stores that are absent or fail are left alone: their bytes may be fine.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulgurite_archive::catalogue::{Health, PlatterRow, SetState};
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_archive::{ArchiveError, NOWHERE};
use fulgurite_domain::PlatterId;
use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::settings::Scrub;
use crate::state::now_ms;

/// Interval between two looks for platters that are due.
const LOOK_PERIOD: Duration = Duration::from_secs(60);
/// Interval between two looks whether a command is done that has the disks.
const TURN_PERIOD: Duration = Duration::from_secs(1);
/// Platters that were found damaged, or that couldn't be read, are looked at again after this time.
const DAY_S: u64 = 86_400;
/// Pauses are cut into pieces, so that a stop is noticed.
const PIECE: Duration = Duration::from_millis(100);
/// A request in this time means that clients want the disks.
const BUSY_MS: i64 = 1_000;

/// What scrubbing has done since the server started.
#[derive(Debug, Default)]
pub(crate) struct Scrubbed {
    pub(crate) platters: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Platters found damaged or missing.
    pub(crate) unsound: AtomicU64,
    pub(crate) repaired: AtomicU64,
    pub(crate) lost_versions: AtomicU64,
    /// When the last request came, milliseconds since 1970.
    requested_ms: AtomicI64,
}

impl Scrubbed {
    /// Takes note of a client's request.
    pub(crate) fn request(&self) {
        self.requested_ms.store(now_ms(), Ordering::Relaxed);
    }
}

/// Keeps reading to a rate. Time is given to it, so that tests need none.
#[derive(Debug)]
struct Pace {
    bytes_per_s: u64,
    /// When what was read so far should have been read.
    due: Duration,
}

impl Pace {
    fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), due: Duration::ZERO }
    }

    /// How long to pause at `now`, after `bytes` more were read. While clients are busy, the rate is half.
    fn pause(&mut self, now: Duration, bytes: u64, is_busy: bool) -> Duration {
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        // Time in which nothing was read isn't made up for by reading faster.
        self.due = self.due.max(now.saturating_sub(Duration::from_secs(1))) + if is_busy { cost * 2 } else { cost };
        self.due.saturating_sub(now)
    }
}

/// The platters that are due, the longest unverified first.
fn due(
    platters: &[PlatterRow],
    now_s: u64,
    every_s: u64,
    retry: &HashMap<PlatterId, u64>,
    is_usable: impl Fn(&str) -> bool,
) -> Vec<PlatterId> {
    let period = |health: &Health| {
        if health.missing || health.lost_sectors > 0 { every_s.min(DAY_S) } else { every_s }
    };
    let is_due = |row: &&PlatterRow| {
        row.state == SetState::Complete
            && row.health.verified.is_none_or(|verified| now_s.saturating_sub(verified) >= period(&row.health))
            && retry.get(&row.place.platter).is_none_or(|at| now_s >= *at)
            && is_usable(&row.place.store)
    };
    let mut due: Vec<&PlatterRow> = platters.iter().filter(is_due).collect();
    due.sort_by_key(|row| row.health.verified);
    due.into_iter().map(|row| row.place.platter).collect()
}

/// Tells the log what is found, and pauses.
struct Paced<'a> {
    gateway: &'a Gateway,
    stop: &'a watch::Receiver<bool>,
    begun: Instant,
    pace: &'a Mutex<Pace>,
}

impl Watcher for Paced<'_> {
    fn done(&self, _objects: u64, bytes: u64) {
        let scrubbed = &self.gateway.scrubbed;
        scrubbed.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_busy = self.gateway.is_busy();
        let pause = self.pace.lock().unwrap_or_else(PoisonError::into_inner).pause(self.begun.elapsed(), bytes, is_busy);
        let until = Instant::now() + pause;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.is_stopped() {
                return;
            }
            std::thread::sleep(left.min(PIECE));
        }
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        match trouble {
            Trouble::Lost { name, version, why } => {
                tracing::error!(name = name.display(), version, why, "scrubbing found a version that is lost");
            }
            trouble => tracing::warn!(?trouble, "scrubbing"),
        }
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow() || self.gateway.turns.is_taken()
    }
}

/// How it went on with the next platter.
enum Step {
    Done,
    /// Nothing is due.
    Idle,
    /// A command of the command line has its turn.
    Waiting,
}

/// The server's own scrubbing, from start to stop.
struct Scrubber {
    gateway: Arc<Gateway>,
    settings: Scrub,
    stop: watch::Receiver<bool>,
    begun: Instant,
    pace: Mutex<Pace>,
    queue: VecDeque<PlatterId>,
    /// Platters that couldn't be read, and when they are tried again.
    retry: HashMap<PlatterId, u64>,
}

/// Scrubs until `stop` says so.
pub(crate) async fn scrub(gateway: Arc<Gateway>, settings: Scrub, mut stop: watch::Receiver<bool>) {
    if settings.every_days == 0 {
        return;
    }
    let watched = gateway.clone();
    let mut scrubber = Scrubber {
        gateway,
        stop: stop.clone(),
        begun: Instant::now(),
        pace: Mutex::new(Pace::new(settings.mib_per_s.saturating_mul(1 << 20))),
        settings,
        queue: VecDeque::new(),
        retry: HashMap::new(),
    };
    while !*stop.borrow() {
        let stepped = tokio::task::spawn_blocking(move || {
            let step = scrubber.step();
            (scrubber, step)
        });
        let step = match stepped.await {
            Ok((same, step)) => {
                scrubber = same;
                step
            }
            Err(error) => {
                tracing::error!("scrubbing goes on when the server is started again");
                watched.ended("scrubbing", error);
                return;
            }
        };
        let pause = match step {
            Step::Done => continue,
            Step::Idle => LOOK_PERIOD,
            Step::Waiting => TURN_PERIOD,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.changed() => {}
        }
    }
}

impl Scrubber {
    /// Scrubs the next platter.
    fn step(&mut self) -> Step {
        if self.gateway.turns.is_taken() {
            // What it verifies need not be verified again.
            self.queue.clear();
            return Step::Waiting;
        }
        if self.queue.is_empty() {
            self.queue = self.look();
        }
        let Some(platter) = self.queue.pop_front() else { return Step::Idle };
        let gateway = self.gateway.clone();
        let _alone = gateway.turns.scrubbing();
        let watcher = Paced { gateway: &gateway, stop: &self.stop, begun: self.begun, pace: &self.pace };
        match self.settle(platter, &watcher) {
            Ok(false) => {
                self.retry.insert(platter, now_s() + DAY_S);
            }
            Ok(true) => {
                gateway.scrubbed.platters.fetch_add(1, Ordering::Relaxed);
            }
            // It is still the longest unverified, and comes next.
            Err(ArchiveError::Stopped) => self.queue.clear(),
            Err(error) => {
                tracing::error!(%platter, %error, "a platter can't be verified");
                self.retry.insert(platter, now_s() + DAY_S);
            }
        }
        Step::Done
    }

    fn look(&self) -> VecDeque<PlatterId> {
        let rows = match self.gateway.archive.reading().platters() {
            Ok(rows) => rows,
            Err(error) => {
                tracing::error!(%error, "the catalogue doesn't say which platters are to be verified");
                return VecDeque::new();
            }
        };
        let is_usable = |name: &str| self.gateway.is_usable(name);
        due(&rows, now_s(), self.settings.every_days.saturating_mul(DAY_S), &self.retry, is_usable).into()
    }

    /// Verifies a platter, and writes it anew if it is damaged or missing. `false` if it can't be read now.
    fn settle(&self, platter: PlatterId, watcher: &dyn Watcher) -> Result<bool, ArchiveError> {
        let archive = &self.gateway.archive;
        let finding = archive.verify_platter(platter, watcher)?;
        if finding.is_sound() {
            return Ok(true);
        }
        // What is absent or unreadable may come back whole. It is looked at again tomorrow.
        if let Some(hindrance) = finding.state().hindrance() {
            tracing::warn!(%platter, store = finding.store, %hindrance, "a platter can't be verified now");
            return Ok(false);
        }
        // A disk that went away while it was read makes its platters look damaged.
        if !self.gateway.is_usable(&finding.store) {
            tracing::warn!(%platter, store = finding.store, "a store went away while a platter was verified");
            return Ok(true);
        }
        self.gateway.scrubbed.unsound.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            %platter,
            store = finding.store,
            state = finding.state().word(),
            elsewhere = finding.elsewhere,
            lost_sectors = finding.lost_sectors,
            lost_tracks = finding.lost_tracks,
            bad_headers = finding.bad_headers,
            "scrubbing found a platter that is not as it should be"
        );
        if self.settings.repair {
            let own = (finding.store != NOWHERE).then_some(finding.store.as_str());
            match archive.recover(platter, own, watcher) {
                Ok(store) => {
                    self.gateway.scrubbed.repaired.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%platter, store, "the platter was written anew");
                    return Ok(true);
                }
                Err(error) => tracing::error!(%platter, %error, "the platter can't be written anew"),
            }
        }
        let report = archive.verify_set_of(platter, watcher)?;
        self.gateway.scrubbed.lost_versions.fetch_add(report.lost_versions, Ordering::Relaxed);
        Ok(true)
    }
}

impl Gateway {
    /// Whether a platter of this store must be there if it exists. One that a rebuild of the catalogue found nowhere may be on any store.
    fn is_usable(&self, name: &str) -> bool {
        match name {
            NOWHERE => self.archive.stores().iter().all(|store| store.check().is_ok()),
            name => self.archive.store(name).is_some_and(|store| store.check().is_ok()),
        }
    }

    /// Whether clients want the disks now.
    fn is_busy(&self) -> bool {
        now_ms() - self.scrubbed.requested_ms.load(Ordering::Relaxed) < BUSY_MS
    }
}

fn now_s() -> u64 {
    now_ms().div_euclid(1_000) as u64
}

#[cfg(test)]
mod tests {
    use fulgurite_archive::catalogue::PlatterPlace;
    use fulgurite_domain::SetId;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// How long reading takes in all, by a clock that only pauses move on.
    fn reading(mib: u64, is_busy: bool) -> Duration {
        let (mut pace, mut now) = (Pace::new(20 * MIB), Duration::from_secs(1_000));
        let begun = now;
        for _ in 0..mib {
            now += pace.pause(now, MIB, is_busy);
        }
        now - begun
    }

    #[test]
    fn reading_keeps_to_the_budget_and_to_half_of_it_beside_clients() {
        // A second's worth may come first.
        assert!((9.0..=10.1).contains(&reading(200, false).as_secs_f64()), "{:?}", reading(200, false));
        assert!((19.0..=20.1).contains(&reading(200, true).as_secs_f64()), "{:?}", reading(200, true));
    }

    #[test]
    fn a_disk_slower_than_the_budget_is_not_paused_and_not_made_up_for() {
        let mut pace = Pace::new(20 * MIB);
        let mut now = Duration::ZERO;
        for _ in 0..100 {
            now += Duration::from_millis(100);
            assert_eq!(pace.pause(now, MIB, false), Duration::ZERO);
        }
        // Of the time that was not used, one second counts.
        let burst = (0..40).take_while(|_| pace.pause(now, MIB, false).is_zero()).count();
        assert!((19..=21).contains(&burst), "{burst}");
    }

    fn row(number: u8, store: &str, verified: Option<u64>, lost_sectors: u64) -> PlatterRow {
        PlatterRow {
            place: PlatterPlace { platter: PlatterId([number; 16]), store: store.to_owned() },
            set: SetId([9; 16]),
            position: 0,
            state: SetState::Complete,
            health: Health { verified, missing: false, lost_sectors, lost_tracks: 0 },
        }
    }

    #[test]
    fn the_longest_unverified_comes_first_and_what_was_verified_lately_waits() {
        let now = 100 * DAY_S;
        let rows = [
            row(1, "d1", Some(now - 40 * DAY_S), 0),
            row(2, "d2", Some(now - 10 * DAY_S), 0),
            row(3, "d1", None, 0),
            row(4, "d2", Some(now - 50 * DAY_S), 0),
            row(5, "away", None, 0),
            row(6, "d1", Some(now - 2 * DAY_S), 7),
            PlatterRow { state: SetState::Writing, ..row(7, "d1", None, 0) },
            row(8, "d1", None, 0),
        ];
        let retry = HashMap::from([(PlatterId([8; 16]), now + 1)]);
        let due = due(&rows, now, 30 * DAY_S, &retry, |store| store != "away");
        let numbers: Vec<u8> = due.iter().map(|platter| platter.0[0]).collect();
        assert_eq!(numbers, [3, 4, 1, 6]);
    }
}
