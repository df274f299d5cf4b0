//! Background jobs: restores, expiry, lifecycle rules, destroying keys, aborting old uploads,
//! backing up the state, writing sets, scrubbing, and watching disks.
//!
//! Each group has its own loop, so that none waits for another: a restore of hours must not keep a
//! full staging area from being written.

pub(crate) mod flushing;
pub(crate) mod lifecycle;
pub(crate) mod scrubbing;
pub(crate) mod state_backup;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_domain::VersionId;
use tokio::sync::{Notify, watch};

use crate::command_lock::CommandLock;
use crate::gateway::Gateway;
use crate::health::activity;
use crate::health::scrub_progress::ScrubProgress;
use crate::settings::Background;
use crate::state::{Quota, now_ms};
use crate::transfer::staging_room::{Due, StagingStatus, staged_age};

/// Interval between two rounds of housekeeping: sweeping, restores, expiry.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(1);
/// Interval between two checks of staging, old uploads and the backup of the state.
const STAGING_PERIOD: Duration = Duration::from_secs(10);
/// Interval between two checks of stores and free space.
const DISK_CHECK_PERIOD: Duration = Duration::from_secs(2);
/// A check of the disks that takes longer means that one of them hangs.
const DISK_CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum pause after a set couldn't be written.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Maximum number of old uploads that are aborted in one round.
const ABORTED_UPLOADS_MAX: usize = 1_000;
const DAY_MS: i64 = 86_400_000;

/// What the background jobs share with requests and with commands from the command line.
pub(crate) struct Jobs {
    /// When the server was started.
    pub(crate) started: tokio::time::Instant,
    /// The same, in milliseconds since 1970.
    pub(crate) started_ms: i64,
    /// Wakes housekeeping, when a restore was requested.
    pub(crate) wake: Notify,
    /// Default restore quota of an account.
    pub(crate) restore_quota: Quota,
    /// The account whose restore was carried out last, so that accounts take turns. Empty before
    /// the first restore.
    pub(crate) last_restored: Mutex<String>,
    /// Restores that can't be carried out now.
    pub(crate) set_back: SetBack,
    /// Held while a backup of the state is put.
    pub(crate) backing_up: tokio::sync::Mutex<()>,
    /// Held while sets are written: two writers would write the same objects twice.
    pub(crate) flushing: Mutex<()>,
    /// Admits commands from the command line, one at a time.
    pub(crate) command_lock: CommandLock,
    /// Progress of the server's own scrub.
    pub(crate) scrub_progress: ScrubProgress,
    /// Lifecycle rules.
    pub(crate) lifecycle: lifecycle::Lifecycle,
    /// Set when a restore found a platter that doesn't give what it should: the scrub looks which
    /// are missing.
    pub(crate) platters_suspected: AtomicBool,
    /// Since when removals have been staged without a set that could take them along.
    removals_since: Mutex<Option<Instant>>,
}

impl Jobs {
    pub(crate) fn new(restore_quota: Quota) -> Self {
        Self {
            started: tokio::time::Instant::now(),
            started_ms: now_ms(),
            wake: Notify::new(),
            restore_quota,
            last_restored: Mutex::default(),
            set_back: SetBack::default(),
            backing_up: tokio::sync::Mutex::default(),
            flushing: Mutex::default(),
            command_lock: CommandLock::default(),
            scrub_progress: ScrubProgress::default(),
            lifecycle: lifecycle::Lifecycle::default(),
            platters_suspected: AtomicBool::new(false),
            removals_since: Mutex::default(),
        }
    }

    /// How long removals have been staged, if any are. A start begins anew: the archive doesn't
    /// record when something was removed.
    fn removals_age(&self, are_staged: bool) -> Duration {
        let mut since = self.removals_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = are_staged.then(|| since.unwrap_or_else(Instant::now));
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// A set was written, which took along the removals that were staged.
    fn forget_removals(&self) {
        *self.removals_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// How long a restore waits that can't be carried out now.
pub(crate) const RESTORE_RETRY_AFTER: Duration = Duration::from_secs(60);

/// When a restore that was due to be tried again, and was not, is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Restores that can't be carried out now, for example because their stores are absent, and when
/// each is tried again.
#[derive(Default)]
pub(crate) struct SetBack(Mutex<HashMap<VersionId, Instant>>);

impl SetBack {
    fn lock(&self) -> MutexGuard<'_, HashMap<VersionId, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a restore wait. Returns false if it has waited before.
    pub(crate) fn add(&self, id: VersionId) -> bool {
        let now = Instant::now();
        let mut waiting = self.lock();
        // Those that were not tried again for long have been removed with their objects.
        waiting.retain(|_, until| *until + FORGOTTEN_AFTER > now);
        waiting.insert(id, now + RESTORE_RETRY_AFTER).is_none()
    }

    /// Whether a restore has to wait.
    pub(crate) fn waits(&self, id: VersionId) -> bool {
        self.lock().get(&id).is_some_and(|until| *until > Instant::now())
    }

    pub(crate) fn remove(&self, id: VersionId) {
        self.lock().remove(&id);
    }

    /// All that were tried in vain.
    pub(crate) fn all(&self) -> HashSet<VersionId> {
        self.lock().keys().copied().collect()
    }

    /// Tries all again.
    fn retry_all(&self) {
        let now = Instant::now();
        self.lock().values_mut().for_each(|until| *until = now);
    }
}

/// Logs the problems that a flush reports.
struct LogWatcher;

impl Watcher for LogWatcher {
    fn trouble(&self, trouble: Trouble<'_>) {
        tracing::warn!(?trouble, "writing to platters");
    }
}

/// Runs all jobs except [`scrubbing`] until `stop` is set. A set in progress is completed:
/// otherwise it would have to be written again from the start.
pub(crate) async fn run(gateway: Arc<Gateway>, settings: Background, stop: watch::Receiver<bool>) {
    let watching = tokio::spawn(watch_disks(gateway.clone(), stop.clone()));
    let sampling = tokio::spawn(activity::watch(gateway.clone(), stop.clone()));
    let applying_rules = tokio::spawn(lifecycle::run(gateway.clone(), stop.clone()));
    let writing = tokio::spawn(write_sets_when_due(gateway.clone(), settings.clone(), stop.clone()));
    run_housekeeping(gateway.clone(), settings, stop).await;
    for result in [writing.await, watching.await, sampling.await, applying_rules.await] {
        if let Err(error) = result {
            gateway.log_panic("a background job", error);
        }
    }
}

/// Sweeping, restores, expiry, old uploads, and backups of the state.
async fn run_housekeeping(gateway: Arc<Gateway>, settings: Background, mut stop: watch::Receiver<bool>) {
    let mut last_checked = None::<tokio::time::Instant>;
    while !*stop.borrow() {
        let due = last_checked.is_none_or(|last_checked| last_checked.elapsed() >= STAGING_PERIOD);
        let (worker, background, stopped) = (gateway.clone(), settings.clone(), stop.clone());
        // One job at a time, to leave disk time to requests.
        let housekeeping = tokio::task::spawn_blocking(move || worker.run_housekeeping_once(&background, due, &stopped));
        if let Err(error) = housekeeping.await {
            gateway.log_panic("a background job", error);
        }
        gateway.check_liveness();
        if due {
            last_checked = Some(tokio::time::Instant::now());
            if gateway.is_backup_due(now_ms()) {
                gateway.back_up_state().await;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(HOUSEKEEPING_PERIOD) => {}
            () = gateway.jobs.wake.notified() => {}
            _ = stop.changed() => {}
        }
    }
}

/// When sets of two kinds were last written, and how long to pause after a failure.
#[derive(Debug)]
struct LastSets {
    /// The last set written to make room.
    pressed: Option<Instant>,
    /// The last set written because something was old.
    old: Option<Instant>,
    /// The pause before the next attempt; it doubles with each failure.
    pause: Duration,
}

impl Default for LastSets {
    fn default() -> Self {
        Self { pressed: None, old: None, pause: STAGING_PERIOD }
    }
}

impl LastSets {
    /// Records the result of an attempt. A failed one doesn't count: the next attempt may follow
    /// after the usual pause.
    fn record(&mut self, due: Due, is_written: bool, now: Instant) {
        self.pause = if is_written { STAGING_PERIOD } else { (self.pause * 2).min(RETRY_AFTER_MAX) };
        match due {
            Due::Pressed if is_written => self.pressed = Some(now),
            Due::Old if is_written => self.old = Some(now),
            _ => {}
        }
    }
}

/// Writes a set whenever one is due.
async fn write_sets_when_due(gateway: Arc<Gateway>, settings: Background, mut stop: watch::Receiver<bool>) {
    let mut last_sets = LastSets::default();
    while !*stop.borrow() {
        let worker = gateway.clone();
        let after = settings.flush_after();
        let (since_pressed, since_old) = (last_sets.pressed.map(|at| at.elapsed()), last_sets.old.map(|at| at.elapsed()));
        let due =
            tokio::task::spawn_blocking(move || worker.due(after, since_pressed, since_old, now_ms())).await.unwrap_or_else(|error| {
                gateway.log_panic("the check of staging", error);
                None
            });
        match due {
            None => last_sets.pause = STAGING_PERIOD,
            Some(due) => {
                let is_written = back_up_and_write_set(gateway.clone(), due).await;
                last_sets.record(due, is_written, Instant::now());
                if is_written {
                    // Staging may already hold enough for another set.
                    continue;
                }
            }
        }
        let failed = due.is_some();
        tokio::select! {
            () = tokio::time::sleep(last_sets.pause) => {}
            // After a failure, refused puts don't end the pause: each would cause another attempt.
            () = gateway.transfers.room.wanted.notified(), if !failed => {}
            _ = stop.changed() => {}
        }
    }
}

/// Writes a set, with a backup of the state that describes it. If the backup fails, the set is
/// written without it, since staging must be emptied in any case. Returns `false` if no set was
/// written.
async fn back_up_and_write_set(gateway: Arc<Gateway>, due: Due) -> bool {
    gateway.back_up_state().await;
    let worker = gateway.clone();
    let writing = tokio::task::spawn_blocking(move || worker.write_due_set(due));
    writing.await.unwrap_or_else(|error| {
        gateway.log_panic("writing a set", error);
        false
    })
}

/// Checks stores and free space, for [`Readiness`](crate::health::readiness::Readiness) and
/// metrics.
async fn watch_disks(gateway: Arc<Gateway>, mut stop: watch::Receiver<bool>) {
    let begin_check = || {
        let worker = gateway.clone();
        (tokio::time::Instant::now(), tokio::task::spawn_blocking(move || worker.check_disks()))
    };
    let (mut started, mut running_check) = begin_check();
    while !*stop.borrow() {
        if running_check.is_finished() {
            (started, running_check) = begin_check();
        }
        // Until the check ends, the other topics show what the last one found.
        let hangs = started.elapsed() >= DISK_CHECK_TIMEOUT;
        let reason =
            || format!("a disk hangs: the check of service.db, stores and staging has taken more than {} s", DISK_CHECK_TIMEOUT.as_secs());
        gateway.health.readiness.report("hanging disk", hangs.then(reason));
        tokio::select! {
            () = tokio::time::sleep(DISK_CHECK_PERIOD) => {}
            _ = stop.changed() => {}
        }
    }
}

impl Gateway {
    /// Logs the panic of a job, and fails the liveness check if the process can't go on after it.
    pub(crate) fn log_panic(&self, what: &str, error: tokio::task::JoinError) {
        if error.is_panic() {
            self.panicked(what, &*error.into_panic());
        }
    }

    /// One round of housekeeping. Blocks.
    fn run_housekeeping_once(&self, settings: &Background, aborts_old_uploads: bool, stop: &watch::Receiver<bool>) {
        if let Err(error) = self.archive.sweep() {
            tracing::error!(%error, "can't sweep removed versions yet");
        }
        // Everything below changes the state, which is refused while service.db is displaced.
        if self.state.is_displaced() {
            return;
        }
        // Restores that are open when the server stops are done after the next start.
        while self.library.is_none() && !*stop.borrow() && self.restore_next() {}
        match self.state.expire_restores(now_ms()) {
            Ok(expired) if !expired.is_empty() => tracing::info!(count = expired.len(), "restores expired"),
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "can't expire restores"),
        }
        if aborts_old_uploads {
            let before = now_ms().saturating_sub((settings.abandon_uploads_after_days as i64).saturating_mul(DAY_MS));
            match self.state.uploads_before(before, ABORTED_UPLOADS_MAX) {
                Ok(ids) => ids.iter().for_each(|id| drop(self.end_upload(id))),
                Err(error) => tracing::error!(%error, "can't look for old uploads"),
            }
        }
    }

    /// Whether a set is due: staging has enough for one, its oldest object has waited long enough,
    /// or it is running out of room.
    fn due(&self, flush_after: Duration, since_pressed: Option<Duration>, since_old: Option<Duration>, now_ms: i64) -> Option<Due> {
        let totals = match self.archive.reading().staged_totals() {
            Ok(totals) => totals,
            Err(error) => {
                tracing::error!(%error, "can't check staging");
                return None;
            }
        };
        let removals_age = self.jobs.removals_age(totals.tombstones > 0);
        // Some of them may be on platters, and stay staged for another reason.
        let removals = if removals_age < flush_after { Ok(Vec::new()) } else { self.archive.reading().unwritten_tombstones() };
        let removals = match removals {
            Ok(removals) => removals.len() as u64,
            Err(error) => {
                tracing::error!(%error, "can't check staged removals");
                0
            }
        };
        let set = &self.archive.settings().set;
        let versions_age = totals.oldest_ms.map_or(Duration::ZERO, |oldest| staged_age(oldest, now_ms as u64));
        let status = StagingStatus {
            versions: totals.versions,
            bytes: totals.stored_bytes,
            removals,
            age: if removals > 0 { versions_age.max(removals_age) } else { versions_age },
            room_bytes: self.transfers.room_left(&totals),
            // A put may have been refused before the last set, which others have filled up since.
            refused: self.transfers.room.was_refused() || self.transfers.still_refused(&totals).is_some(),
            full_set_bytes: u64::from(set.information) * (set.platter_mib << 20),
            since_pressed,
            since_old,
        };
        status.due(flush_after)
    }

    /// Writes a set and logs the result. Returns `false` if nothing was written.
    fn write_due_set(&self, due: Due) -> bool {
        match self.write_sets(|archive| archive.flush_set(&LogWatcher)) {
            Ok(Some(report)) => {
                self.jobs.forget_removals();
                tracing::info!(?due, ?report, "a set was written");
                true
            }
            // Another flush may have been faster. Objects that remain are unreadable and were
            // reported.
            Ok(None) => false,
            Err(error) => {
                tracing::error!(%error, ?due, "can't write staged objects to platters; they stay staged");
                false
            }
        }
    }

    /// Checks databases, stores and staging, and reports the results.
    pub(crate) fn check_disks(&self) {
        // Open platters would keep a disk from being unmounted.
        self.archive.close_platters();
        self.health.readiness.report("service.db", self.state.check_file().map(str::to_owned));
        self.health.readiness.report("key store and catalogue", self.archive.check_in_place().err().map(|error| error.to_string()));
        let needed = usize::from(self.archive.settings().shape().platters());
        let before = self.health.stores.last_result();
        let stores = self.health.stores.check_all(&self.archive);
        self.health.readiness.report("stores", stores.shortage(needed));
        if stores.usable.iter().any(|store| !before.usable.contains(store)) {
            // What waited for it can be restored.
            self.jobs.set_back.retry_all();
            self.jobs.wake.notify_one();
            if let Some(library) = &self.library {
                library.store_is_back();
            }
        }
        self.check_staging();
    }

    /// Reports whether staging takes puts.
    fn check_staging(&self) {
        let reason = match self.archive.reading().staged_totals() {
            Ok(staged) if self.transfers.room_left(&staged) == Some(0) => {
                Some("staging is full, so puts are refused until a set is written".to_owned())
            }
            Ok(_) if !matches!(self.archive.staging().is_marked(), Ok(true)) => {
                Some("staging is absent: its folder has no mark of this archive. Is the disk mounted?".to_owned())
            }
            Ok(staged) => self.transfers.still_refused(&staged).map(|bytes| {
                format!("staging has too little room: a put of {bytes} bytes was refused, and doesn't fit until a set is written")
            }),
            Err(_) => Some("the catalogue can't be read; see the log for the reason".to_owned()),
        };
        self.health.readiness.report("staging", reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::{TestGateway, soon};

    #[test]
    fn an_attempt_that_wrote_no_set_does_not_delay_the_next() {
        let mut last_sets = LastSets::default();
        let now = Instant::now();
        for due in [Due::Pressed, Due::Old, Due::Full] {
            last_sets.record(due, false, now);
        }
        assert_eq!((last_sets.pressed, last_sets.old), (None, None));
        last_sets.record(Due::Pressed, true, now);
        last_sets.record(Due::Full, true, now);
        assert_eq!((last_sets.pressed, last_sets.old), (Some(now), None));
        last_sets.record(Due::Old, true, now);
        assert_eq!(last_sets.old, Some(now));
    }

    #[test]
    fn the_pause_after_failures_starts_anew_after_a_set_was_written() {
        let (mut last_sets, now) = (LastSets::default(), Instant::now());
        for _ in 0..3 {
            last_sets.record(Due::Full, false, now);
        }
        assert_eq!(last_sets.pause, STAGING_PERIOD * 8);
        last_sets.record(Due::Full, true, now);
        last_sets.record(Due::Full, false, now);
        assert_eq!(last_sets.pause, STAGING_PERIOD * 2);
        (0..10).for_each(|_| last_sets.record(Due::Full, false, now));
        assert_eq!(last_sets.pause, RETRY_AFTER_MAX);
    }

    #[tokio::test]
    async fn what_was_put_while_the_clock_was_ahead_is_old_enough_for_a_set() {
        let test = TestGateway::new();
        test.put("moon.tif", b"moon").await;
        let day = Duration::from_secs(86_400);
        let due = |now_ms| test.gateway.due(day, None, None, now_ms);
        let now = now_ms();
        assert_eq!(due(now), None);
        assert_eq!(due(now + DAY_MS), Some(Due::Old));
        assert_eq!(due(now - 40 * DAY_MS), Some(Due::Old));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn removals_alone_are_written_to_platters_when_they_have_waited() {
        let test = TestGateway::new();
        let gateway = &test.gateway;
        test.put("moon.tif", b"moon").await;
        gateway.write_sets(|archive| archive.flush(&LogWatcher)).expect("a set");
        let due = |after| gateway.due(after, None, None, now_ms());
        assert_eq!(due(Duration::ZERO), None);
        test.delete("moon.tif").await;
        assert_eq!(due(Duration::from_secs(86_400)), None);
        assert_eq!(due(Duration::ZERO), Some(Due::Old));
        assert!(gateway.write_due_set(Due::Old));
        assert_eq!(due(Duration::ZERO), None);
    }

    #[tokio::test]
    async fn a_key_store_that_is_removed_makes_the_server_unready_and_is_written_back() {
        let test = TestGateway::new();
        test.put("moon.tif", b"moon").await;
        test.gateway.check_disks();
        let is_reported = || test.gateway.health.readiness.reasons().iter().any(|reason| reason.contains("keys.db was removed"));
        assert!(!is_reported());
        let keys = test.gateway.archive.home().join("keys.db");
        std::fs::remove_file(&keys).expect("removed");
        test.gateway.check_disks();
        assert!(is_reported() && keys.exists());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_refuses_puts_is_not_ready_until_they_fit_although_some_bytes_are_free() {
        let test = TestGateway::with_staging_limit(1);
        let gateway = &test.gateway;
        let not_ready = || {
            gateway.check_staging();
            gateway.health.readiness.reasons()
        };
        test.put("moon", &vec![1; 600 << 10]).await;
        assert_eq!(not_ready(), Vec::<String>::new());
        assert!(gateway.transfers.check_room(600 << 10).is_err());
        assert!(not_ready().concat().contains("a put of 614400 bytes was refused"), "{:?}", not_ready());
        // A smaller one is accepted, which helps the client of the other no more than a set that
        // fails.
        gateway.transfers.check_room(100 << 10).expect("it fits");
        gateway.write_sets(|_| Err::<(), _>(fulgurite_archive::ArchiveError::Stopped)).expect_err("stopped");
        assert_eq!(not_ready().len(), 1);
        gateway.write_sets(|archive| archive.flush(&LogWatcher)).expect("a set");
        assert_eq!(not_ready(), Vec::<String>::new());
        assert_eq!(gateway.transfers.room.refused_puts(), 1);
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::await_holding_lock, reason = "the lock stands for a disk that hangs")]
    async fn a_disk_that_hangs_is_reported() {
        let test = TestGateway::new();
        let gateway = &test.gateway;
        // The check needs the lock, as it needs the disks.
        let held = gateway.transfers.room.hold();
        let (stop_tx, stop_rx) = watch::channel(false);
        let watching = tokio::spawn(watch_disks(gateway.clone(), stop_rx));
        let reported = async || {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            gateway.health.readiness.reasons().iter().any(|reason| reason.contains("hangs"))
        };
        let at_first = reported().await;
        tokio::time::advance(DISK_CHECK_TIMEOUT).await;
        let later = reported().await;
        // The check must end, or the runtime would wait for it.
        drop(held);
        stop_tx.send(true).expect("the job runs");
        soon(watching).await.expect("no panic");
        assert_eq!((at_first, later), (false, true));
    }
}
