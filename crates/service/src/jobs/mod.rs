//! What the service does besides answering requests: restores, expiry, destroying keys, copying its state, writing sets, and watching its disks.
//!
//! Each runs in a loop of its own, so that none waits for another: a restore of hours must not keep a full staging area from being written.

pub(crate) mod flushing;
pub(crate) mod scrubbing;
pub(crate) mod state_backup;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fulgurite_archive::watch::{Trouble, Watcher};
use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::settings::Background;
use crate::state::now_ms;
use crate::transfer::staging_room::{Due, Staged};

/// Interval between two looks for restores and other work that is due.
const PERIOD: Duration = Duration::from_secs(1);
/// Interval between two looks at staging and at old uploads.
const STAGING_PERIOD: Duration = Duration::from_secs(10);
/// Interval between two looks at stores and free space.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
/// A look at the stores that takes longer means a disk that hangs.
const LOOK_PATIENCE: Duration = Duration::from_secs(30);
/// The longest pause after sets that couldn't be written.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Old uploads that are given up at once.
const UPLOADS: usize = 1_000;
const DAY_MS: i64 = 86_400_000;

/// Tells the log what a flush tells people.
struct Log;

impl Watcher for Log {
    fn trouble(&self, trouble: Trouble<'_>) {
        tracing::warn!(?trouble, "writing to platters");
    }
}

/// Works until `stop` says so. A set that is being written is completed: half of it would have to be written again.
pub(crate) async fn work(gateway: Arc<Gateway>, settings: Background, stop: watch::Receiver<bool>) {
    let watching = tokio::spawn(watch_disks(gateway.clone(), stop.clone()));
    let writing = tokio::spawn(write_sets(gateway.clone(), settings.clone(), stop.clone()));
    keep_house(gateway.clone(), settings, stop).await;
    for ended in [writing.await, watching.await] {
        if let Err(error) = ended {
            gateway.ended("work in the background", error);
        }
    }
}

/// Restores, expiry, sweeping, and copies of the state.
async fn keep_house(gateway: Arc<Gateway>, settings: Background, mut stop: watch::Receiver<bool>) {
    let mut looked = None::<tokio::time::Instant>;
    while !*stop.borrow() {
        let due = looked.is_none_or(|looked| looked.elapsed() >= STAGING_PERIOD);
        let (worker, background, stopped) = (gateway.clone(), settings.clone(), stop.clone());
        // One at a time, so that requests have the disks.
        let housekeeping = tokio::task::spawn_blocking(move || worker.keep_house(&background, due, &stopped));
        if let Err(error) = housekeeping.await {
            gateway.ended("work in the background", error);
        }
        gateway.check_liveness();
        if due {
            looked = Some(tokio::time::Instant::now());
            if gateway.is_copy_due() {
                gateway.copy_state().await;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = gateway.work.notified() => {}
            _ = stop.changed() => {}
        }
    }
}

/// Writes a set whenever one is due.
async fn write_sets(gateway: Arc<Gateway>, settings: Background, mut stop: watch::Receiver<bool>) {
    let (mut pressed, mut old) = (None::<Instant>, None::<Instant>);
    let mut pause = STAGING_PERIOD;
    while !*stop.borrow() {
        let worker = gateway.clone();
        let after = settings.flush_after();
        let (since_pressed, since_old) = (pressed.map(|at| at.elapsed()), old.map(|at| at.elapsed()));
        let due = tokio::task::spawn_blocking(move || worker.due(after, since_pressed, since_old)).await.unwrap_or_else(|error| {
            gateway.ended("a look at staging", error);
            None
        });
        pause = match due {
            None => STAGING_PERIOD,
            Some(due) => {
                if due == Due::Pressed {
                    pressed = Some(Instant::now());
                }
                match write_set(gateway.clone(), due).await {
                    true => {
                        if due == Due::Old {
                            old = Some(Instant::now());
                        }
                        // There may be enough for another.
                        continue;
                    }
                    false => (pause * 2).min(RETRY_AFTER_MAX),
                }
            }
        };
        let failed = due.is_some();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // After a failure refused puts don't shorten the pause: each would make another attempt.
            () = gateway.room.wanted.notified(), if !failed => {}
            _ = stop.changed() => {}
        }
    }
}

/// Writes a set, with a copy of the state that speaks of what is in it. Without one, if it can't be made: staging has to be emptied all the same.
/// `false` if nothing could be written.
async fn write_set(gateway: Arc<Gateway>, due: Due) -> bool {
    gateway.copy_state().await;
    let worker = gateway.clone();
    let writing = tokio::task::spawn_blocking(move || worker.write_set(due));
    writing.await.unwrap_or_else(|error| {
        gateway.ended("writing a set", error);
        false
    })
}

/// Looks at stores and free space, for [`Readiness`](crate::health::readiness::Readiness) and metrics.
async fn watch_disks(gateway: Arc<Gateway>, mut stop: watch::Receiver<bool>) {
    let mut looking: Option<tokio::task::JoinHandle<()>> = None;
    while !*stop.borrow() {
        if looking.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) {
            let worker = gateway.clone();
            looking = Some(tokio::task::spawn_blocking(move || worker.look_at_disks()));
        }
        let hangs = gateway.looked.begun().is_some_and(|begun| begun.elapsed() >= LOOK_PATIENCE);
        let reason = || format!("a store hasn't answered for more than {} s", LOOK_PATIENCE.as_secs());
        gateway.readiness.report("hanging stores", hangs.then(reason));
        tokio::select! {
            () = tokio::time::sleep(LOOK_PERIOD) => {}
            _ = stop.changed() => {}
        }
    }
}

impl Gateway {
    /// Notes how work in the background ended that should have gone on.
    pub(crate) fn ended(&self, what: &str, error: tokio::task::JoinError) {
        if error.is_panic() {
            self.panicked(what, &*error.into_panic());
        }
    }

    fn keep_house(&self, settings: &Background, sweeps: bool, stop: &watch::Receiver<bool>) {
        // Those that are open when the server stops are done when it has started again.
        while !*stop.borrow() && self.restore_next() {}
        match self.state.expire_restores(now_ms()) {
            Ok(expired) if !expired.is_empty() => tracing::info!(count = expired.len(), "restores expired"),
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "restores can't be expired"),
        }
        if let Err(error) = self.archive.sweep() {
            tracing::error!(%error, "what was removed can't be swept yet");
        }
        if sweeps {
            let before = now_ms().saturating_sub((settings.abandon_uploads_after_days as i64).saturating_mul(DAY_MS));
            match self.state.uploads_before(before, UPLOADS) {
                Ok(old) => old.iter().for_each(|id| drop(self.end_upload(id))),
                Err(error) => tracing::error!(%error, "old uploads can't be looked for"),
            }
        }
    }

    /// Whether a set is due: enough is staged for one, something has waited long enough, or staging runs out of room.
    fn due(&self, flush_after: Duration, since_pressed: Option<Duration>, since_old: Option<Duration>) -> Option<Due> {
        let totals = match self.archive.reading().staged_totals() {
            Ok(totals) => totals,
            Err(error) => {
                tracing::error!(%error, "staging can't be looked at");
                return None;
            }
        };
        let set = &self.archive.settings().set;
        let age_ms = totals.oldest_ms.map_or(0, |oldest| (now_ms() as u64).saturating_sub(oldest));
        let staged = Staged {
            versions: totals.versions,
            bytes: totals.stored_bytes,
            age: Duration::from_millis(age_ms),
            room: self.room_left(&totals),
            refused: self.room.was_refused(),
            full: u64::from(set.information) * (set.platter_mib << 20),
            since_pressed,
            since_old,
        };
        staged.due(flush_after)
    }

    /// Writes a set, and tells the log what came of it. `false` if nothing was written.
    fn write_set(&self, due: Due) -> bool {
        match self.write_sets(|archive| archive.flush_set(&Log)) {
            Ok(Some(report)) => {
                tracing::info!(?due, ?report, "a set was written");
                true
            }
            // Another flush may have been quicker. What stays behind can't be read, and was reported.
            Ok(None) => false,
            Err(error) => {
                tracing::error!(%error, ?due, "what is staged can't be written to platters; it stays staged");
                false
            }
        }
    }

    /// Looks at stores and staging, and reports what was found.
    pub(crate) fn look_at_disks(&self) {
        self.look_at_stores();
        self.look_at_staging();
    }

    /// Reports whether staging takes puts.
    fn look_at_staging(&self) {
        let reason = match self.archive.reading().staged_totals() {
            Ok(staged) if self.room_left(&staged) == Some(0) => {
                Some("staging is full, so puts are refused until a set is written".to_owned())
            }
            Ok(_) if !matches!(self.archive.staging().is_marked(), Ok(true)) => {
                Some("staging is absent: its folder has no mark of this archive. Is the disk mounted?".to_owned())
            }
            Ok(_) => None,
            Err(_) => Some("the catalogue can't be read; the log has the reason".to_owned()),
        };
        self.readiness.report("staging", reason);
    }
}
