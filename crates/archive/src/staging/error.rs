//! Errors of staging.

use std::fmt;
use std::io;

use crate::unread::Hindrance;

/// Errors of staging.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// A write failed. Everything acknowledged before it is safe.
    #[error("can't write to staging ({place}): {source}")]
    Write {
        /// Path of the staging folder.
        place: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The disk or the configured limit is exhausted. Everything acknowledged before is safe.
    #[error(
        "staging in {place} is full: {needed} more bytes are needed and {free} are available, because {bound}. \
         `fulgurite flush` writes what is staged to platters and frees the space"
    )]
    Full {
        /// Path of the staging folder.
        place: String,
        /// Bytes that the operation needs.
        needed: u64,
        /// Bytes available.
        free: u64,
        /// The limit that was reached.
        bound: Bound,
    },
    /// The folder carries no mark.
    #[error(
        "staging ({0}) is absent: no mark of this archive is in it. Is the disk mounted? If it is gone for good, \
         `fulgurite catalogue rebuild --without-unseen` continues with an empty folder and lists what was staged"
    )]
    Absent(String),
    /// The folder carries a different mark.
    #[error(
        "staging ({place}) is absent: its folder is marked \"{found}\", expected \"{expected}\". \
         Two archives share one folder, or the settings name the wrong one"
    )]
    Foreign {
        /// Expected path of the staging folder.
        place: String,
        /// Text of the mark found.
        found: String,
        /// Text of the mark expected.
        expected: String,
    },
    /// The folder can't be read.
    #[error("can't read staging ({place}): {source}")]
    Unreadable {
        /// Path of the staging folder.
        place: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A segment can't be read.
    #[error("can't read staging segment {segment:016x} in {place}: {source}")]
    Read {
        /// Path of the staging folder.
        place: String,
        /// Number of the segment.
        segment: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The bytes of a segment differ from those written.
    #[error("staging segment {segment:016x} in {place} is damaged at byte {offset}")]
    Damaged {
        /// Path of the staging folder.
        place: String,
        /// Number of the segment.
        segment: u64,
        /// Where the damaged payload starts.
        offset: u64,
    },
}

impl StagingError {
    /// Why staged bytes can't be read now, if they may still exist; `None` if they are lost, or if
    /// the error is one of writing.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Absent { .. } | Self::Foreign { .. } => Some(Hindrance::Absent),
            Self::Unreadable { .. } => Some(Hindrance::Unreadable),
            Self::Read { source, .. } if source.kind() != io::ErrorKind::NotFound => Some(Hindrance::Unreadable),
            Self::Read { .. } | Self::Damaged { .. } | Self::Write { .. } | Self::Full { .. } => None,
        }
    }
}

/// The limit that bounds free space in staging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The limit in the settings, MiB.
    Limit(u64),
    /// The disk, or a quota on it.
    Disk,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(mib) => write!(f, "the settings limit staging to {mib} MiB (staging.limit_mib)"),
            Self::Disk => f.write_str("its disk has no more room"),
        }
    }
}
