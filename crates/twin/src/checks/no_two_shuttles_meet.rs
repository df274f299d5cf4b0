//! No two shuttles come nearer to each other than their spacing, at any instant, on any shelf. The legs of all shuttles are compared as
//! functions of time by [`fulgurite_mechanics::NoTwoShuttlesMeet`], which each library's machines are given as their motion log.

use fulgurite_domain::Micros;
use fulgurite_library::Library;
use fulgurite_mechanics::{Meeting, NoTwoShuttlesMeet};

/// Two shuttles of a library met.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("in library {}, {meeting}; {count} times in all", .library.0)]
pub struct Met {
    /// In which library.
    pub library: Library,
    /// The first time.
    pub meeting: Meeting,
    /// How often.
    pub count: u64,
}

/// Looks at what the log of a library saw, up to `now`.
///
/// # Errors
/// [`Met`] with the first meeting.
pub fn no_two_shuttles_met(library: Library, log: &mut NoTwoShuttlesMeet, now: Micros) -> Result<(), Met> {
    log.check(now).map_err(|meeting| Met { library, meeting, count: log.meetings() })
}
