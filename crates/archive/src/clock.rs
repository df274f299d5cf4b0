//! The current time: for time stamps, identifiers of versions, and numbers of segments.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    unix_ms() / 1_000
}
