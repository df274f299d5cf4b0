//! Why a workload can't be made from what was asked for.

/// What is wrong with the numbers of a [`Spec`](crate::Spec), [`Sizes`](crate::Sizes) or [`IngestSpec`](crate::IngestSpec).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// A number outside its range.
    #[error("{setting} is {found}: {expected} is expected")]
    Range {
        /// The field.
        setting: &'static str,
        /// Its value.
        found: f64,
        /// What it should be, in words.
        expected: &'static str,
    },
    /// Without a source there is no demand; the first byte of a file's number has room for 256 of them.
    #[error("the workload has {found} sources: 1 to 256 are expected")]
    Sources {
        /// How many there are.
        found: usize,
    },
    /// No weighting of the size classes has this mean.
    #[error(
        "a mean read of {found} bytes can't be had by weighting the size classes: more than {least:.0} and less than {most:.0} is expected"
    )]
    Mean {
        /// The mean asked for, in bytes.
        found: f64,
        /// Mean of the smallest class, in bytes.
        least: f64,
        /// Mean of the largest class, in bytes.
        most: f64,
    },
    /// The largest file is larger than all platters together.
    #[error("files of up to {largest} bytes don't fit on platters that hold {capacity} bytes together")]
    File {
        /// The largest file, in bytes.
        largest: u64,
        /// Bytes of all platters.
        capacity: u64,
    },
    /// An account's files lie on one platter.
    #[error("an account of {files} files doesn't fit on a platter, which holds {fit} files of the mean size")]
    Account {
        /// Files of an account.
        files: u32,
        /// Files of mean size on a platter.
        fit: u64,
    },
    /// Bursts of one period would overlap.
    #[error("{count} bursts of {over_s} s don't fit into a period of {period_s} s one after another")]
    Bursts {
        /// Bursts a period.
        count: u32,
        /// Seconds a burst takes.
        over_s: f64,
        /// Seconds of the period.
        period_s: f64,
    },
}

/// `found` if it is a number above 0 that is not infinite.
pub(crate) fn positive(setting: &'static str, found: f64) -> Result<f64, SpecError> {
    let fits = found > 0.0 && found.is_finite();
    if fits { Ok(found) } else { Err(SpecError::Range { setting, found, expected: "a finite number above 0" }) }
}

/// `found` if it is 1 or more.
pub(crate) fn counted(setting: &'static str, found: u64) -> Result<u64, SpecError> {
    if found > 0 { Ok(found) } else { Err(SpecError::Range { setting, found: 0.0, expected: "1 or more" }) }
}
