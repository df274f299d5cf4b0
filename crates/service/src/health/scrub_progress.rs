//! Progress of the server's own scrub, and whether it should leave the disks to clients.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::state::now_ms;

/// Clients count as active for this long after a request.
const ACTIVE_MS: i64 = 1_000;

/// Progress of the scrub since the server started.
#[derive(Debug, Default)]
pub(crate) struct ScrubProgress {
    pub(crate) platters: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Platters found damaged or missing.
    pub(crate) unsound: AtomicU64,
    pub(crate) repaired: AtomicU64,
    pub(crate) lost_versions: AtomicU64,
    /// Time of the last request, in milliseconds since 1970.
    last_request_ms: AtomicI64,
}

impl ScrubProgress {
    /// Records a client's request.
    pub(crate) fn record_request(&self) {
        self.last_request_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// Whether clients sent requests recently.
    pub(crate) fn is_busy(&self) -> bool {
        now_ms() - self.last_request_ms.load(Ordering::Relaxed) < ACTIVE_MS
    }
}
