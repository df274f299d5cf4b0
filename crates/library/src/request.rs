//! Requests: tracks of a platter, wanted by a deadline.

use fulgurite_domain::Micros;

use crate::Platter;

/// A run of consecutive tracks on a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tracks {
    /// First track.
    pub first: u32,
    /// Number of tracks, 1 or more.
    pub count: u32,
}

impl Tracks {
    /// The track after the last one.
    #[must_use]
    pub fn end(self) -> u32 {
        self.first.saturating_add(self.count)
    }
}

/// Identifies a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request for tracks of a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadRequest {
    /// Repeated when the request ends.
    pub id: RequestId,
    /// The platter.
    pub platter: Platter,
    /// The tracks; a drive reads whole tracks.
    pub tracks: Tracks,
    /// When the last byte is due; [`Micros::NEVER`] if there is no deadline.
    pub deadline: Micros,
}
