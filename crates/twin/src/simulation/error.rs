//! Runs that could not be completed.

use std::path::PathBuf;

use fulgurite_domain::Micros;
use fulgurite_library::RequestId;
use fulgurite_workload::TraceError;

use crate::scenario::ScenarioError;

/// A run that could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario can't be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The trace can't be opened.
    #[error("the trace {} can't be opened: {source}", path.display())]
    TraceFile {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The trace is invalid.
    #[error("the trace {}: {source}", path.display())]
    Trace {
        /// Its path.
        path: PathBuf,
        /// The error in it.
        source: TraceError,
    },
    /// The Parquet file of a trace can't be read.
    #[error("the trace {}: {source}", path.display())]
    TraceRows {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: crate::table::RowsError,
    },
    /// No read of the trace falls into the measured interval, so the run has no results.
    #[error("the trace {}: no read arrives in the measured interval from {from} to {until} (run.warm_up, run.measured)", path.display())]
    NothingMeasured {
        /// Its path.
        path: PathBuf,
        /// The end of the warm-up.
        from: Micros,
        /// The end of the measured interval.
        until: Micros,
    },
    /// Measured requests did not end (I6).
    #[error(
        "{requests} requests of the measured interval had not ended at {at}, {why}; the first of them, request {}, arrived at {arrived}",
        first.0
    )]
    Unfinished {
        /// Number of unfinished requests.
        requests: u64,
        /// The first unfinished request.
        first: RequestId,
        /// When it arrived.
        arrived: Micros,
        /// When the run gave up.
        at: Micros,
        /// The reason.
        why: GaveUp,
    },
}

/// Why a run gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaveUp {
    /// No events were left.
    Idle,
    /// The cool-down had passed.
    Late,
}

impl std::fmt::Display for GaveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Idle => "and no events were left",
            Self::Late => "when the cool-down was over",
        })
    }
}
