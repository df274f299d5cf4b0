//! What the service does beside requests: restores, expiry, destroying keys, copying its state, and writing what is staged to platters.

use std::sync::Arc;
use std::time::Duration;

use fulgurite_archive::watch::{Trouble, Watcher};
use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::settings::Background;
use crate::state::now_ms;

/// How often it is looked whether something is due.
const PERIOD: Duration = Duration::from_secs(1);
/// How often staging is looked at.
const STAGING_PERIOD: Duration = Duration::from_secs(10);
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

/// Works until `stop` says so.
pub(crate) async fn work(gateway: Arc<Gateway>, settings: Background, mut stop: watch::Receiver<bool>) {
    let mut looked = None::<tokio::time::Instant>;
    let mut flushing: Option<tokio::task::JoinHandle<()>> = None;
    while !*stop.borrow() {
        let due = looked.is_none_or(|looked| looked.elapsed() >= STAGING_PERIOD);
        let (worker, background, stopped) = (gateway.clone(), settings.clone(), stop.clone());
        // One at a time, so that requests have the disks.
        let housekeeping = tokio::task::spawn_blocking(move || worker.keep_house(&background, due, &stopped));
        if let Err(error) = housekeeping.await {
            tracing::error!(%error, "work in the background failed");
        }
        if due {
            looked = Some(tokio::time::Instant::now());
            if gateway.is_copy_due() {
                gateway.copy_state().await;
            }
            if flushing.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) && gateway.is_flush_due(&settings) {
                flushing = Some(tokio::spawn(write_set(gateway.clone())));
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = gateway.work.notified() => {}
            _ = stop.changed() => {}
        }
    }
    if let Some(flushing) = flushing {
        // A set that is being written is completed: half of it would have to be written again.
        let _ = flushing.await;
    }
}

/// Writes a set, with a copy of the state that speaks of what is in it. Without one, if it can't be made: staging has to be emptied all the same.
async fn write_set(gateway: Arc<Gateway>) {
    gateway.copy_state().await;
    if let Err(error) = tokio::task::spawn_blocking(move || gateway.flush()).await {
        tracing::error!(%error, "writing a set failed");
    }
}

impl Gateway {
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

    /// Whether enough is staged for a set, or something has waited long enough.
    fn is_flush_due(&self, settings: &Background) -> bool {
        let staged = match self.archive.reading().staged_totals() {
            Ok(staged) => staged,
            Err(error) => {
                tracing::error!(%error, "staging can't be looked at");
                return false;
            }
        };
        let set = &self.archive.settings().set;
        let full = u64::from(set.information) * (set.platter_mib << 20);
        let oldest = staged.oldest_ms.map_or(0, |oldest| (now_ms() as u64).saturating_sub(oldest));
        staged.stored_bytes >= full || (staged.versions > 0 && u128::from(oldest) >= settings.flush_after().as_millis())
    }

    fn flush(&self) {
        match self.archive.flush_set(&Log) {
            Ok(Some(report)) => tracing::info!(?report, "a set was written"),
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "what is staged can't be written to platters; it stays staged"),
        }
    }
}
