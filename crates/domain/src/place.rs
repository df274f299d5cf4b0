//! Where things are on a platter and in a set.

/// Counts the information tracks of a platter. Tracks of equal index on the platters of a set belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackIndex(pub u32);

/// Counts all tracks of a platter, group redundancy tracks included, in the order in which they are written.
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

/// How many platters of a set carry information, and how many redundancy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetShape {
    /// Information platters, at positions `0..information`.
    pub information: u16,
    /// Redundancy platters, at the positions behind.
    pub redundancy: u16,
}

impl SetShape {
    /// Platters in the set. (A shape that comes from a file is held against the list of its platters, so this does not overflow.)
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
