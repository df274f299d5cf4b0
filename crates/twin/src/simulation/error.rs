//! Runs that could not be completed, and those that stopped before all requests had ended.

use std::path::PathBuf;

use fulgurite_domain::Micros;
use fulgurite_library::RequestId;
use fulgurite_workload::TraceError;

use crate::scenario::ScenarioError;

/// A run that could not be completed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum RunError {
    /// The scenario can't be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error("the trace {} can't be opened: {source}", path.display())]
    TraceFile { path: PathBuf, source: std::io::Error },
    #[error("the trace {}: {source}", path.display())]
    Trace { path: PathBuf, source: TraceError },
    /// The Parquet file of a trace can't be read.
    #[error("the trace {}: {source}", path.display())]
    TraceRows { path: PathBuf, source: fulgurite_table::RowsError },
    #[error("the trace {}: no read arrives in the measured interval from {from} to {until} (run.warm_up, run.measured)", path.display())]
    NothingMeasured { path: PathBuf, from: Micros, until: Micros },
}

/// Measured requests that had not ended when a run stopped (I6). Their completion times are
/// censored: they are recorded as the time from arrival to the stop, which is a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{requests} requests of the measured interval had not ended at {at}, {reason}; the first of them, request {}, arrived at {arrived}",
    first.0
)]
pub struct Unfinished {
    /// Number of these requests.
    pub requests: u64,
    /// The one that arrived first.
    pub first: RequestId,
    /// When it arrived.
    pub arrived: Micros,
    /// When the run stopped.
    pub at: Micros,
    /// Why it stopped.
    pub reason: StopReason,
}

/// Why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// No events were left.
    Idle,
    /// The measured interval and its requests had ended, or the cool-down.
    Over,
    /// An observer stopped it.
    Stopped,
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Idle => "and no events were left",
            Self::Over => "when the cool-down was over",
            Self::Stopped => "when it was stopped",
        })
    }
}
