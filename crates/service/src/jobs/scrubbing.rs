//! The server's own scrub: verifies platter after platter, those verified longest ago first, at a
//! limited rate.
//!
//! The catalogue records when each platter was verified, so a restarted server continues where it
//! was. If the settings allow it, a platter that is damaged, or missing from a store that is
//! present, is rewritten from its set. Platters of absent or failing stores are left alone: their
//! bytes may be intact.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulgurite_archive::catalogue::{Health, PlatterRow, SetState};
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_archive::{ArchiveError, UNKNOWN_STORE};
use fulgurite_domain::PlatterId;
use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::settings::Scrub;
use crate::state::now_ms;

/// Interval between two checks for platters that are due.
const DUE_CHECK_PERIOD: Duration = Duration::from_secs(60);
/// Interval at which the scrub checks whether a command from the command line has ended.
const COMMAND_CHECK_PERIOD: Duration = Duration::from_secs(1);
const DAY_S: u64 = 86_400;
/// A platter that is damaged or unreadable is checked again after this time.
const RETRY_AFTER_S: u64 = DAY_S;
/// Pauses are split into pieces of this length, so that a stop is noticed.
const PAUSE_SLICE: Duration = Duration::from_millis(100);

/// Limits the read rate. The caller passes the time, so that tests need no clock.
#[derive(Debug)]
struct RateLimiter {
    bytes_per_s: u64,
    /// When the bytes read so far would have been read at the permitted rate.
    due: Duration,
}

impl RateLimiter {
    fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), due: Duration::ZERO }
    }

    /// How long to pause at `now`, after `bytes` more were read. The rate is halved while clients
    /// are active.
    fn pause(&mut self, now: Duration, bytes: u64, is_busy: bool) -> Duration {
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        // Idle time isn't made up for by reading faster, except for one second.
        self.due = self.due.max(now.saturating_sub(Duration::from_secs(1))) + if is_busy { cost * 2 } else { cost };
        self.due.saturating_sub(now)
    }
}

/// The platters that are due, those verified longest ago first.
fn due(
    platters: &[PlatterRow],
    now_s: u64,
    every_s: u64,
    retry_at_s: &HashMap<PlatterId, u64>,
    is_usable: impl Fn(&str) -> bool,
) -> Vec<PlatterId> {
    let period = |health: &Health| {
        if health.missing || health.lost_sectors > 0 { every_s.min(RETRY_AFTER_S) } else { every_s }
    };
    let is_due = |row: &&PlatterRow| {
        row.state == SetState::Complete
            && row.health.verified.is_none_or(|verified| now_s.saturating_sub(verified) >= period(&row.health))
            && retry_at_s.get(&row.place.platter).is_none_or(|at| now_s >= *at)
            && is_usable(&row.place.store)
    };
    let mut due: Vec<&PlatterRow> = platters.iter().filter(is_due).collect();
    due.sort_by_key(|row| row.health.verified);
    due.into_iter().map(|row| row.place.platter).collect()
}

/// Logs findings, and pauses the scrub to limit its rate.
struct ScrubWatcher<'a> {
    gateway: &'a Gateway,
    stop: &'a watch::Receiver<bool>,
    started: Instant,
    rate_limiter: &'a Mutex<RateLimiter>,
}

impl Watcher for ScrubWatcher<'_> {
    fn done(&self, _objects: u64, bytes: u64) {
        let scrub_progress = &self.gateway.jobs.scrub_progress;
        scrub_progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_busy = scrub_progress.is_busy();
        let pause = self.rate_limiter.lock().unwrap_or_else(PoisonError::into_inner).pause(self.started.elapsed(), bytes, is_busy);
        let until = Instant::now() + pause;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.is_stopped() {
                return;
            }
            std::thread::sleep(left.min(PAUSE_SLICE));
        }
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        match trouble {
            Trouble::Lost { name, version, why } => {
                tracing::error!(name = name.display(), version, why, "the scrub found a version that is lost");
            }
            trouble => tracing::warn!(?trouble, "scrubbing"),
        }
    }

    // Not the lock that the scrub itself takes, which commands that read platters wait for.
    fn is_stopped(&self) -> bool {
        *self.stop.borrow() || self.gateway.jobs.command_lock.is_locked()
    }
}

/// Result of a step of the scrub.
enum Step {
    Done,
    /// No platter is due.
    Idle,
    /// A command from the command line is running.
    Waiting,
}

/// The server's own scrub, from start to stop.
struct Scrubber {
    gateway: Arc<Gateway>,
    settings: Scrub,
    stop: watch::Receiver<bool>,
    started: Instant,
    rate_limiter: Mutex<RateLimiter>,
    queue: VecDeque<PlatterId>,
    /// Platters that couldn't be read, with the time of the next attempt.
    retry_at_s: HashMap<PlatterId, u64>,
}

/// Scrubs until `stop` is set.
pub(crate) async fn scrub(gateway: Arc<Gateway>, settings: Scrub, mut stop: watch::Receiver<bool>) {
    if settings.every_days == 0 {
        return;
    }
    let watched = gateway.clone();
    let mut scrubber = Scrubber {
        gateway,
        stop: stop.clone(),
        started: Instant::now(),
        rate_limiter: Mutex::new(RateLimiter::new(settings.mib_per_s.saturating_mul(1 << 20))),
        settings,
        queue: VecDeque::new(),
        retry_at_s: HashMap::new(),
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
                tracing::error!("the scrub ended; restart the server to continue it");
                watched.log_panic("scrubbing", error);
                return;
            }
        };
        let pause = match step {
            Step::Done => continue,
            Step::Idle => DUE_CHECK_PERIOD,
            Step::Waiting => COMMAND_CHECK_PERIOD,
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
        if self.gateway.jobs.command_lock.is_locked() {
            // The command may verify platters of the queue, which then need no second check.
            self.queue.clear();
            return Step::Waiting;
        }
        if self.queue.is_empty() {
            self.queue = self.find_due_platters();
        }
        let Some(platter) = self.queue.pop_front() else { return Step::Idle };
        let gateway = self.gateway.clone();
        let _scrub_guard = gateway.jobs.command_lock.lock_scrub();
        let watcher = ScrubWatcher { gateway: &gateway, stop: &self.stop, started: self.started, rate_limiter: &self.rate_limiter };
        match self.verify_and_repair(platter, &watcher) {
            Ok(false) => {
                self.retry_at_s.insert(platter, now_s() + RETRY_AFTER_S);
            }
            Ok(true) => {
                gateway.jobs.scrub_progress.platters.fetch_add(1, Ordering::Relaxed);
            }
            // If reading the platter was interrupted, it is still the one verified longest ago, and
            // comes next. The check of a set is made up for when the platter is verified again.
            Err(ArchiveError::Stopped) => self.queue.clear(),
            Err(error) => {
                tracing::error!(%platter, %error, "can't verify a platter");
                self.retry_at_s.insert(platter, now_s() + RETRY_AFTER_S);
            }
        }
        Step::Done
    }

    fn find_due_platters(&self) -> VecDeque<PlatterId> {
        let rows = match self.gateway.archive.reading().platters() {
            Ok(rows) => rows,
            Err(error) => {
                tracing::error!(%error, "can't read the platters to verify from the catalogue");
                return VecDeque::new();
            }
        };
        let is_usable = |name: &str| self.gateway.is_usable(name);
        due(&rows, now_s(), self.settings.every_days.saturating_mul(DAY_S), &self.retry_at_s, is_usable).into()
    }

    /// Verifies a platter. If it is damaged or missing, rewrites it if the settings allow that.
    /// Returns `false` if it can't be read now.
    fn verify_and_repair(&self, platter: PlatterId, watcher: &dyn Watcher) -> Result<bool, ArchiveError> {
        let archive = &self.gateway.archive;
        let finding = archive.verify_platter(platter, watcher)?;
        if finding.is_sound() {
            return Ok(true);
        }
        // An absent or unreadable platter may come back intact. It is checked again tomorrow.
        if let Some(hindrance) = finding.state().hindrance() {
            tracing::warn!(%platter, store = finding.store, %hindrance, "can't verify a platter now");
            return Ok(false);
        }
        // A disk that is removed during a read makes its platters look damaged.
        if !self.gateway.is_usable(&finding.store) {
            tracing::warn!(%platter, store = finding.store, "a store disappeared while a platter was verified");
            return Ok(false);
        }
        self.gateway.jobs.scrub_progress.unsound.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            %platter,
            store = finding.store,
            state = finding.state().word(),
            elsewhere = finding.elsewhere,
            lost_sectors = finding.lost_sectors,
            lost_tracks = finding.lost_tracks,
            bad_headers = finding.bad_headers,
            "the scrub found a damaged or missing platter"
        );
        if self.settings.repair {
            let own = (finding.store != UNKNOWN_STORE).then_some(finding.store.as_str());
            match archive.recover(platter, own, watcher) {
                Ok(store) => {
                    self.gateway.jobs.scrub_progress.repaired.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%platter, store, "the platter was rewritten");
                    return Ok(true);
                }
                Err(ArchiveError::Stopped) => return Err(ArchiveError::Stopped),
                Err(error) => tracing::error!(%platter, %error, "can't rewrite the platter"),
            }
        }
        // It was not repaired: find out which versions are lost.
        let report = archive.verify_set_of(platter, watcher)?;
        self.gateway.jobs.scrub_progress.lost_versions.fetch_add(report.lost_versions, Ordering::Relaxed);
        Ok(true)
    }
}

impl Gateway {
    /// Whether the store is present, so that a platter which isn't found on it is really missing. A
    /// platter of the unknown store, which a rebuild of the catalogue found nowhere, could be on
    /// any store, so all must be present.
    fn is_usable(&self, name: &str) -> bool {
        match name {
            UNKNOWN_STORE => self.archive.stores().iter().all(|store| store.check().is_ok()),
            name => self.archive.store(name).is_some_and(|store| store.check().is_ok()),
        }
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

    /// Total read time, by a clock that only pauses advance.
    fn reading(mib: u64, is_busy: bool) -> Duration {
        let (mut rate_limiter, mut now) = (RateLimiter::new(20 * MIB), Duration::from_secs(1_000));
        let started = now;
        for _ in 0..mib {
            now += rate_limiter.pause(now, MIB, is_busy);
        }
        now - started
    }

    #[test]
    fn the_rate_is_limited_and_halved_while_clients_are_active() {
        // The first second may be unpaced.
        assert!((9.0..=10.1).contains(&reading(200, false).as_secs_f64()), "{:?}", reading(200, false));
        assert!((19.0..=20.1).contains(&reading(200, true).as_secs_f64()), "{:?}", reading(200, true));
    }

    #[test]
    fn a_disk_below_the_rate_is_neither_paused_nor_caught_up() {
        let mut rate_limiter = RateLimiter::new(20 * MIB);
        let mut now = Duration::ZERO;
        for _ in 0..100 {
            now += Duration::from_millis(100);
            assert_eq!(rate_limiter.pause(now, MIB, false), Duration::ZERO);
        }
        // Of the unused time, one second counts.
        let burst = (0..40).take_while(|_| rate_limiter.pause(now, MIB, false).is_zero()).count();
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
    fn the_longest_unverified_platter_comes_first() {
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
        let retry_at_s = HashMap::from([(PlatterId([8; 16]), now + 1)]);
        let due = due(&rows, now, 30 * DAY_S, &retry_at_s, |store| store != "away");
        let numbers: Vec<u8> = due.iter().map(|platter| platter.0[0]).collect();
        assert_eq!(numbers, [3, 4, 1, 6]);
    }
}
