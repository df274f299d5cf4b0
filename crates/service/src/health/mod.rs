//! Health of the server: liveness, readiness, usable stores, progress of the scrub, metrics for
//! Prometheus, what clients did lately, and the last events of the log.

pub(crate) mod activity;
pub(crate) mod events;
pub(crate) mod liveness;
pub(crate) mod metrics;
pub(crate) mod readiness;
pub(crate) mod scrub_progress;
pub(crate) mod set_states;
pub(crate) mod stores;

use std::sync::{Arc, Mutex, PoisonError};

use crate::http::tls::Certificate;

/// What the server knows about its own health.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// What clients did in the last hour.
    pub(crate) activity: activity::Activity,
    /// The last events of the log.
    pub(crate) events: Arc<events::EventLog>,
    /// Whether the process can go on.
    pub(crate) liveness: liveness::Liveness,
    /// Why the server isn't ready, if it isn't.
    pub(crate) readiness: readiness::Readiness,
    /// How many lost versions the last `verify` or `scrub` from the command line found; `None` if
    /// none ended since the start.
    command_lost_versions: Mutex<Option<u64>>,
    /// The certificate that connections see, if they are encrypted.
    pub(crate) certificate: Option<Arc<Certificate>>,
    /// Result of the last check of the stores.
    pub(crate) stores: stores::StoreChecks,
}

impl Health {
    /// Whether `/-/ready` answers 200.
    pub(crate) fn is_ready(&self) -> bool {
        self.liveness.reason().is_none() && self.readiness.reasons().is_empty()
    }

    /// Notes how many lost versions a command that read all platters found.
    pub(crate) fn note_command_lost(&self, versions: u64) {
        *self.command_lost_versions.lock().unwrap_or_else(PoisonError::into_inner) = Some(versions);
    }

    /// How many lost versions the last such command found; `None` if none ended since the start.
    pub(crate) fn command_lost(&self) -> Option<u64> {
        *self.command_lost_versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
