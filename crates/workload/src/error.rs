//! Errors in the numbers of a workload.

/// An invalid number in a [`Spec`](crate::Spec), [`Sizes`](crate::Sizes) or
/// [`IngestSpec`](crate::IngestSpec).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum SpecError {
    #[error("{setting} is {found}: {expected} is expected")]
    Range { setting: &'static str, found: f64, expected: &'static str },
    /// Demand needs a source; the first byte of a file's number can distinguish 256 of them.
    #[error("the workload has {found} sources: it must have 1 to 256")]
    Sources { found: usize },
    #[error("no weighting of the size classes gives a mean read of {found} bytes: it must be more than {least:.0} and less than {most:.0}")]
    Mean {
        /// The requested mean, in bytes.
        found: f64,
        /// Mean of the smallest class, in bytes.
        least: f64,
        /// Mean of the largest class, in bytes.
        most: f64,
    },
    #[error("files of up to {largest} bytes are too large: the number of platters and the size of shards allow {capacity} bytes")]
    File {
        /// The largest file, in bytes.
        largest: u64,
        /// Bytes of all platters, or of as many shards as a file can have.
        capacity: u64,
    },
    #[error("an account of {files} files doesn't fit on a platter, which has room for {fit} files of the mean size")]
    Account { files: u32, fit: u64 },
    #[error("{count} bursts of {over_s} s don't fit into a period of {period_s} s one after another")]
    Bursts {
        count: u32,
        /// Seconds per burst.
        over_s: f64,
        /// Seconds per period.
        period_s: f64,
    },
}

/// Returns `found` if it `fits` what is expected.
pub(crate) fn check_range(setting: &'static str, found: f64, fits: bool, expected: &'static str) -> Result<f64, SpecError> {
    if fits { Ok(found) } else { Err(SpecError::Range { setting, found, expected }) }
}

/// Returns `found` if it is positive and finite.
pub(crate) fn check_positive(setting: &'static str, found: f64) -> Result<f64, SpecError> {
    check_range(setting, found, found > 0.0 && found.is_finite(), "a finite number above 0")
}

/// Returns `found` if it is at least 1.
pub(crate) fn check_count(setting: &'static str, found: u64) -> Result<u64, SpecError> {
    check_range(setting, found as f64, found > 0, "1 or more").map(|_| found)
}
