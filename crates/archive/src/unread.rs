//! Why bytes can't be read. Each reason has one word, here and wherever it is reported:
//!
//! | word | meaning |
//! | --- | --- |
//! | absent | the store isn't there: not mounted, unmarked, or another store is in its place |
//! | unreadable | the store is there, but reading fails: no permission, an I/O error |
//! | missing | the store is there, and the platter isn't on it |
//! | damaged | what was read is wrong |
//! | lost | no combination of what can exist brings it back |
//!
//! What is absent or unreadable can come back, so it is never called lost, and nothing is concluded from it.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use fulgurite_domain::{Geometry, PhysicalTrack, PlatterId, SectorAddress, TrackIndex};
use fulgurite_glass::{PlatterSource, ReadDrive};
use serde::{Deserialize, Serialize};

/// What keeps bytes from being read that aren't known to be lost. The greater is the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Hindrance {
    /// Stores are absent.
    Absent,
    /// Something that is there can't be read.
    Unreadable,
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "absent",
            Self::Unreadable => "unreadable",
        })
    }
}

/// Why a platter gives nothing at all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error, Serialize, Deserialize)]
pub enum NoPlatter {
    /// Its store isn't there.
    #[error("{why}")]
    Absent {
        /// The store, or several where it isn't known which has the platter.
        store: String,
        /// What was found in its place.
        why: String,
    },
    /// Its store is there, and reading fails.
    #[error("{why}")]
    Unreadable {
        /// The store.
        store: String,
        /// What the system says.
        why: String,
    },
    /// Its store is there, without the platter.
    #[error("store {store} is there, and the platter is not on it")]
    Missing {
        /// The store.
        store: String,
        /// Absent and unreadable stores that may hold it: those without a platter of its set.
        may_be_on: Vec<AwayStore>,
    },
}

/// A store that nothing can be read of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AwayStore {
    /// The store.
    pub store: String,
    /// Why.
    pub hindrance: Hindrance,
    /// What was found, or what the system says.
    pub why: String,
}

impl NoPlatter {
    /// What keeps it from being read; `None` if it is missing.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Absent { .. } => Some(Hindrance::Absent),
            Self::Unreadable { .. } => Some(Hindrance::Unreadable),
            Self::Missing { .. } => None,
        }
    }

    /// Whether the platter may exist all the same, so that nothing on it is known to be lost.
    #[must_use]
    pub fn may_exist(&self) -> bool {
        !matches!(self, Self::Missing { may_be_on, .. } if may_be_on.is_empty())
    }
}

/// Sectors that no code gave back, and none ever will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("platter {platter}, track {}: {sectors} {} lost beyond what track, large group and platter-set can rebuild", track.0,
    if *.sectors == 1 { "sector is" } else { "sectors are" })]
pub struct BeyondRepair {
    /// The platter.
    pub platter: PlatterId,
    /// The information track.
    pub track: TrackIndex,
    /// Lost information sectors of that track.
    pub sectors: usize,
}

/// Content that can't be read now, and would be readable if all stores were there and could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    /// The platter that it is on.
    pub platter: PlatterId,
    /// How many platters of the set have to be readable, whichever they are.
    pub needed: u16,
    /// Platters of the set.
    pub platters: u16,
    /// Platters that no read has failed on.
    pub there: u16,
    /// What would have to come back.
    pub away: Box<AwayStores>,
}

/// The stores that keep something from being read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwayStores {
    /// Stores that are absent.
    pub absent: BTreeSet<String>,
    /// Stores of which something can't be read, and what the system says.
    pub unreadable: BTreeSet<(String, String)>,
}

impl Unreachable {
    /// The worst that keeps it from being read.
    #[must_use]
    pub fn hindrance(&self) -> Hindrance {
        if self.away.unreadable.is_empty() { Hindrance::Absent } else { Hindrance::Unreadable }
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AwayStores { absent, unreadable } = &*self.away;
        f.write_str("it can't be read now: ")?;
        if !absent.is_empty() {
            let names: Vec<&str> = absent.iter().map(String::as_str).collect();
            let (noun, verb) = if names.len() == 1 { ("store", "is") } else { ("stores", "are") };
            write!(f, "{noun} {} {verb} absent", names.join(", "))?;
        }
        for (index, (store, why)) in unreadable.iter().enumerate() {
            if index > 0 || !absent.is_empty() {
                f.write_str("; ")?;
            }
            write!(f, "store {store} is unreadable ({why})")?;
        }
        let Self { needed, platters, there, .. } = self;
        write!(f, ". {needed} of the {platters} platters of its set are needed, and {there} can be read")
    }
}

impl std::error::Error for Unreachable {}

/// Why content of a set can't be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// It is lost.
    #[error(transparent)]
    Lost(#[from] BeyondRepair),
    /// It can't be read now.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
}

/// A platter of a set, as far as it can be read.
#[derive(Clone)]
pub enum Presence {
    /// It can be read.
    There(Loaded),
    /// It can't.
    Gone(NoPlatter),
}

impl Presence {
    /// A platter that is there, on `store`.
    #[must_use]
    pub fn load(platter: PlatterId, geometry: Geometry, source: Arc<dyn PlatterSource>, store: &str) -> Self {
        let faults = Arc::new(Faults { sector_bytes: geometry.sector_stride(), ..Faults::default() });
        let source = Arc::new(Watched { source, faults: faults.clone() });
        Self::There(Loaded { drive: ReadDrive::load(platter, geometry, source), store: store.to_owned(), faults })
    }

    /// One that is nowhere.
    #[must_use]
    pub fn missing(store: &str) -> Self {
        Self::Gone(NoPlatter::Missing { store: store.to_owned(), may_be_on: Vec::new() })
    }

    /// The drive that it is in.
    #[must_use]
    pub fn drive(&self) -> Option<&ReadDrive> {
        match self {
            Self::There(loaded) => Some(&loaded.drive),
            Self::Gone(_) => None,
        }
    }

    /// Whether a sector that was not read may be fine.
    pub(crate) fn may_have(&self, physical: PhysicalTrack, sector: u16) -> bool {
        match self {
            Self::There(loaded) => loaded.is_unreadable(physical, sector),
            Self::Gone(why) => why.may_exist(),
        }
    }
}

/// A platter in a drive.
#[derive(Clone)]
pub struct Loaded {
    /// The drive.
    pub drive: ReadDrive,
    /// The store that it was found on.
    pub store: String,
    faults: Arc<Faults>,
}

impl Loaded {
    /// Whether the system refused to read a sector when it was last wanted.
    #[must_use]
    pub fn is_unreadable(&self, physical: PhysicalTrack, sector: u16) -> bool {
        let at = self.drive.geometry().sector_offset(SectorAddress { track: physical, sector });
        self.faults.sectors().range(at..at + self.faults.sector_bytes as u64).next().is_some()
    }

    /// Sectors of a track that the system refused to read.
    #[must_use]
    pub fn unreadable_sectors(&self, physical: PhysicalTrack) -> u64 {
        let sectors = 0..self.drive.geometry().track_sectors();
        match self.why_unreadable() {
            None => 0,
            Some(_) => sectors.filter(|&sector| self.is_unreadable(physical, sector)).count() as u64,
        }
    }

    /// What the system said when it first refused.
    #[must_use]
    pub fn why_unreadable(&self) -> Option<&str> {
        self.faults.first.get().map(String::as_str)
    }
}

/// Reads of a platter that the system refused. Drives take such sectors for lost, which is right for the codes; only here is it known that they may
/// be fine.
#[derive(Default)]
struct Faults {
    sector_bytes: usize,
    /// Where single sectors, or parts of them, could not be read.
    sectors: Mutex<BTreeSet<u64>>,
    first: OnceLock<String>,
}

impl Faults {
    fn sectors(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        self.sectors.lock().expect("no panic holds this lock")
    }
}

/// A source that remembers what could not be read of it.
struct Watched {
    source: Arc<dyn PlatterSource>,
    faults: Arc<Faults>,
}

impl PlatterSource for Watched {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read_at(offset, buffer);
        if let Err(error) = &read
            && error.kind() != io::ErrorKind::Interrupted
            // After a longer read that failed, drives ask for each sector.
            && buffer.len() <= self.faults.sector_bytes
        {
            self.faults.sectors().insert(offset);
            let _ = self.faults.first.set(error.to_string());
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cant_be_read_now_is_told_with_what_is_needed() {
        let mut unreachable = Unreachable {
            platter: PlatterId([1; 16]),
            needed: 4,
            platters: 6,
            there: 3,
            away: Box::new(AwayStores { absent: ["d1".to_owned()].into(), unreadable: BTreeSet::new() }),
        };
        assert_eq!(
            unreachable.to_string(),
            "it can't be read now: store d1 is absent. 4 of the 6 platters of its set are needed, and 3 can be read"
        );
        assert_eq!(unreachable.hindrance(), Hindrance::Absent);
        unreachable.away.absent.insert("d4".to_owned());
        unreachable.away.unreadable.insert(("d2".to_owned(), "Permission denied".to_owned()));
        let said = unreachable.to_string();
        assert!(said.contains("stores d1, d4 are absent; store d2 is unreadable (Permission denied)."), "{said}");
        assert_eq!(unreachable.hindrance(), Hindrance::Unreadable);
    }
}
