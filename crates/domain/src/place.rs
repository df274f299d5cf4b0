//! Addresses on a platter, and the shape of a set.

/// Index of an information track on its platter. Tracks with equal indices on the platters of a set
/// belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackIndex(pub u32);

/// Index among all tracks of a platter, including group redundancy, in the order of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalTrack(pub u32);

/// One sector of a platter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectorAddress {
    /// The track it is in.
    pub track: PhysicalTrack,
    /// Its index in the track: information sectors first, then redundancy sectors.
    pub sector: u16,
}

/// Information and redundancy platters of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetShape {
    /// Information platters, at positions `0..information`.
    pub information: u16,
    /// Redundancy platters, at the positions after them.
    pub redundancy: u16,
}

impl SetShape {
    /// Platters in the set. (The sum saturates only for shapes from files that haven't been checked
    /// yet: the check compares the exact sum with the list of platters.)
    #[must_use]
    pub fn platters(self) -> u16 {
        self.information.saturating_add(self.redundancy)
    }
}

impl std::fmt::Display for SetShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}+{}", self.information, self.redundancy)
    }
}
