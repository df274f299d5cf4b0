//! Checks that no two shuttles on a shelf come closer than their spacing at any instant.
//! [`fulgurite_mechanics::NoTwoShuttlesMeet`], the motion log of each library's machines, compares
//! the legs of all shuttles as functions of time.

use fulgurite_domain::Micros;
use fulgurite_library::Library;
use fulgurite_mechanics::{Meeting, NoTwoShuttlesMeet};

/// Two shuttles of a library met.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("in library {}, {meeting}; {count} times in all", .library.0)]
pub struct Met {
    /// The library.
    pub library: Library,
    /// The first meeting.
    pub meeting: Meeting,
    /// Number of meetings.
    pub count: u64,
}

/// Reports the meetings that a library's log recorded up to `now`.
///
/// # Errors
/// [`Met`] with the first meeting.
pub fn no_two_shuttles_met(library: Library, log: &mut NoTwoShuttlesMeet, now: Micros) -> Result<(), Met> {
    log.check(now).map_err(|meeting| Met { library, meeting, count: log.meetings() })
}
