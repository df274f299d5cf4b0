//! Nodes: where copies are, and the rules for checking them.

use std::time::Duration;

use crate::copy::{Method, NodeId, State};

/// What a node's copies are kept on. It decides the rules that the operator doesn't set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Medium {
    /// Disks of one's own, local or mounted.
    Disk,
    /// A provider's online storage.
    Cloud,
    /// A provider's cold storage, where reading costs money or hours.
    Cold,
    /// Tape.
    Tape,
    /// Platters of an archive.
    Platter,
}

impl Medium {
    /// All media, in the order of their stored numbers.
    pub const ALL: [Self; 5] = [Self::Disk, Self::Cloud, Self::Cold, Self::Tape, Self::Platter];

    /// Its name in settings and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Cloud => "cloud",
            Self::Cold => "cold",
            Self::Tape => "tape",
            Self::Platter => "platter",
        }
    }

    /// The rules for a node of this medium, unless the operator sets others.
    ///
    /// Source: online copies within 90 days, as at CDL Merritt; tape once in two years, as asked
    /// for in archivematica/Issues#1204. Cold copies are only looked at, since reading them costs
    /// a restore each.
    #[must_use]
    pub fn rules(self) -> Rules {
        let (days, method, workers) = match self {
            Self::Disk => (90, Method::Stream, 4),
            Self::Cloud => (90, Method::Stream, 8),
            Self::Cold => (90, Method::Header, 4),
            Self::Tape => (730, Method::Stream, 1),
            Self::Platter => (90, Method::Stream, 4),
        };
        Rules {
            interval: Duration::from_secs(days * DAY_S),
            method,
            workers,
            bytes_per_second: None,
            files_per_second: None,
            all_digests: false,
        }
    }

    /// The number that stands for it in databases.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The medium of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Seconds of a day.
pub const DAY_S: u64 = 86_400;

/// How the copies of a node are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// From one check of a copy to the next.
    pub interval: Duration,
    /// What a check does.
    pub method: Method,
    /// Copies checked at a time.
    pub workers: u16,
    /// Bytes read in a second, at most.
    pub bytes_per_second: Option<u64>,
    /// Checks begun in a second, at most.
    pub files_per_second: Option<u64>,
    /// Compare every known digest of a file, not only the strongest.
    pub all_digests: bool,
}

/// After its first check, new content is checked again after this time. Faults of the way in show
/// up early.
pub const SECOND_CHECK_AFTER: Duration = Duration::from_secs(DAY_S);
/// A copy that couldn't be read is tried again after this time.
pub const RETRY_AFTER: Duration = Duration::from_secs(15 * 60);
/// A copy that is lost or wrong is looked at again after this time: it may have been replaced.
pub const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(DAY_S);

impl Rules {
    /// When a copy is due again, in seconds since 1970. `first` is true if it had never been
    /// verified, or looked at by the node's method, before.
    #[must_use]
    pub fn next_due(&self, now: u64, found: State, first: bool) -> u64 {
        let wait = match found {
            State::Verified | State::HeaderChecked | State::ProviderAttested if first => self.interval.min(SECOND_CHECK_AFTER),
            State::Verified | State::HeaderChecked | State::ProviderAttested => self.interval,
            // The digest was recorded; the next reading is the first that can verify it.
            State::Unverified => self.interval.min(SECOND_CHECK_AFTER),
            State::Unavailable => self.interval.min(RETRY_AFTER),
            State::SizeMismatch | State::DigestMismatch | State::Missing => self.interval.min(LOOK_AGAIN_AFTER),
        };
        now.saturating_add(wait.as_secs().max(1))
    }
}

/// A node as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// Its name, unique in an audit.
    pub name: String,
    /// Its place, as a URL without secrets.
    pub place: String,
    /// Further options of the place, without secrets.
    pub options: Vec<(String, String)>,
    /// What its copies are kept on.
    pub medium: Medium,
    /// How they are checked.
    pub rules: Rules,
    /// The expected time of a check: seconds, and nanoseconds for each byte. `None` if it is
    /// learned from the node's own checks.
    pub expected_time: Option<(f64, f64)>,
}

/// A node's name is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 64 letters, digits, \".\", \"-\" or \"_\" for the name of a node")]
pub struct InvalidName;

/// Checks the name of a node.
///
/// # Errors
/// If it is empty, too long, or has characters that need quoting in file names and metrics.
pub fn check_name(name: &str) -> Result<(), InvalidName> {
    let valid = (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    if valid { Ok(()) } else { Err(InvalidName) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_content_is_due_again_after_a_day_and_then_by_the_interval() {
        let rules = Medium::Disk.rules();
        let now = 1_800_000_000;
        assert_eq!(rules.next_due(now, State::Verified, true), now + DAY_S);
        assert_eq!(rules.next_due(now, State::Verified, false), now + 90 * DAY_S);
        assert_eq!(rules.next_due(now, State::Unverified, true), now + DAY_S);
        assert_eq!(rules.next_due(now, State::Unavailable, false), now + 900);
        assert_eq!(rules.next_due(now, State::Missing, false), now + DAY_S);
        let hourly = Rules { interval: Duration::from_secs(3_600), ..rules };
        for state in State::ALL {
            assert!((now + 1..=now + 3_600).contains(&hourly.next_due(now, state, true)), "{state}");
        }
        assert_eq!(hourly.next_due(u64::MAX, State::Verified, false), u64::MAX);
    }

    #[test]
    fn names_that_need_quoting_are_refused() {
        assert!(check_name("provider-1.eu_west").is_ok());
        for name in ["", "a b", "a/b", "a\"b", "ä", &"x".repeat(65)] {
            assert_eq!(check_name(name), Err(InvalidName), "{name}");
        }
    }
}
