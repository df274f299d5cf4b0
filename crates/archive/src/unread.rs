//! Reasons why bytes can't be read. Each reason has one word, used here and in all reports:
//!
//! | word | meaning |
//! | --- | --- |
//! | absent | the store isn't mounted, has no mark, or a different store is in its place |
//! | unreadable | the store is present, but reads fail: no permission, an I/O error |
//! | missing | the store is present but doesn't have the platter |
//! | damaged | the bytes read are wrong |
//! | lost | no combination of what can still exist restores the bytes |
//!
//! Absent and unreadable content can come back, so it is never reported as lost, and no conclusion
//! is drawn from its absence.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use fulgurite_domain::{Geometry, PhysicalTrack, PlatterId, SectorAddress, TrackIndex};
use fulgurite_glass::{PlatterSource, ReadDrive, Track};
use serde::{Deserialize, Serialize};

use crate::catalogue::UNKNOWN_STORE;
use crate::store::PlatterFile;

/// Why bytes that aren't known to be lost can't be read. Greater is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Hindrance {
    /// Stores are absent.
    Absent,
    /// Something present can't be read.
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

/// Why nothing of a platter can be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error, Serialize, Deserialize)]
pub enum NoPlatter {
    /// Its store can't be read.
    #[error("{}", .0.why)]
    // Keeps its first name in reports, which pass between processes.
    #[serde(rename = "Away")]
    Unavailable(UnavailableStore),
    /// Its store isn't known, and any of these may have it. There are at least two.
    #[error("it is on one of these stores: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    OnOneOf(Vec<UnavailableStore>),
    /// Its store is present but doesn't have the platter.
    #[error("store {store} is present, but the platter is not on it")]
    Missing {
        /// The store.
        store: String,
        /// Absent and unreadable stores that may hold it. Where the whole set is known, stores with
        /// another of its platters are excluded (I3).
        may_be_on: Vec<UnavailableStore>,
    },
}

/// A store that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnavailableStore {
    /// The store.
    pub store: String,
    /// The kind of failure.
    pub hindrance: Hindrance,
    /// Details: a sentence about what was found in its place, or the system's error.
    pub why: String,
}

impl fmt::Display for UnavailableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hindrance {
            Hindrance::Absent => f.write_str(&self.why),
            Hindrance::Unreadable => write!(f, "store {} is unreadable ({})", self.store, self.why),
        }
    }
}

/// "store d1" or "stores d1, d2".
pub fn store_names<'a>(stores: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = stores.into_iter().collect();
    format!("{} {}", if names.len() == 1 { "store" } else { "stores" }, names.join(", "))
}

/// Stands for the stores of platters that a robotic library didn't fetch for a read.
pub(crate) const NOT_FETCHED: &str = "??";

/// Says which stores are absent, each once; `None` if none is.
pub fn absent_text<'a>(stores: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut names: BTreeSet<&str> = stores.into_iter().collect();
    let other = if names.remove(UNKNOWN_STORE) { Some("one that is not in the settings") } else { None };
    let names: Vec<&str> = names.into_iter().collect();
    Some(match (&names[..], other) {
        ([], None) => return None,
        ([], Some(_)) => "a store that is not in the settings is absent".to_owned(),
        ([name], None) => format!("store {name} is absent"),
        ([name], Some(other)) => format!("store {name} and {other} are absent"),
        (names, None) => format!("stores {} are absent", names.join(", ")),
        (names, Some(other)) => format!("stores {} and {other} are absent", names.join(", ")),
    })
}

impl NoPlatter {
    /// The stores that may have the platter and can't be read.
    #[must_use]
    pub fn unavailable_stores(&self) -> &[UnavailableStore] {
        match self {
            Self::Unavailable(store) => std::slice::from_ref(store),
            Self::OnOneOf(stores) => stores,
            Self::Missing { may_be_on, .. } => may_be_on,
        }
    }

    /// Why the platter can't be read; `None` if it is missing.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Unavailable(store) => Some(store.hindrance),
            Self::OnOneOf(stores) => stores.iter().map(|store| store.hindrance).max(),
            Self::Missing { .. } => None,
        }
    }

    /// True if the platter may still exist, so that its content isn't known to be lost.
    #[must_use]
    pub fn may_exist(&self) -> bool {
        !matches!(self, Self::Missing { may_be_on, .. } if may_be_on.is_empty())
    }
}

/// Sectors that no code can rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("platter {platter}, track {}: {sectors} {} lost, and neither track, large group nor platter-set can rebuild them", track.0,
    if *.sectors == 1 { "sector is" } else { "sectors are" })]
pub struct BeyondRepair {
    /// The platter.
    pub platter: PlatterId,
    /// The information track.
    pub track: TrackIndex,
    /// Lost information sectors of that track.
    pub sectors: usize,
}

/// Content that can't be read now, but could be if all stores were present and readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    /// The platter that holds it.
    pub platter: PlatterId,
    /// Number of platters of the set that must be readable; any will do.
    pub needed: u16,
    /// Number of platters in the set.
    pub platters: u16,
    /// Number of platters without a failed read.
    pub readable: u16,
    /// Stores that must come back.
    pub unavailable: BTreeSet<UnavailableStore>,
}

impl Unreachable {
    /// The worst reason.
    #[must_use]
    pub fn hindrance(&self) -> Hindrance {
        self.unavailable.iter().map(|store| store.hindrance).max().unwrap_or(Hindrance::Absent)
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (absent, unreadable): (Vec<_>, Vec<_>) = self.unavailable.iter().partition(|store| store.hindrance == Hindrance::Absent);
        let (not_fetched, absent): (Vec<_>, Vec<_>) = absent.into_iter().partition(|store| store.store == NOT_FETCHED);
        let absent = absent_text(absent.iter().map(|absent| absent.store.as_str()));
        let not_fetched = not_fetched.first().map(|_| "others of its platters were not fetched".to_owned());
        let unreadable = unreadable.iter().map(ToString::to_string);
        let reasons: Vec<String> = absent.into_iter().chain(unreadable).chain(not_fetched).collect();
        let Self { needed, platters, readable, .. } = self;
        write!(f, "it can't be read now: {}", reasons.join("; "))?;
        write!(f, ". {needed} of the {platters} platters of its set are needed, and {readable} can be read")
    }
}

impl std::error::Error for Unreachable {}

/// Why content of a set can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// It is lost.
    #[error(transparent)]
    Lost(#[from] BeyondRepair),
    /// It can't be read now.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
}

impl Unread {
    /// Why it can't be read now; `None` if it is lost.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Lost(_) => None,
            Self::Unreachable(unreachable) => Some(unreachable.hindrance()),
        }
    }
}

/// A platter of a set: loaded in a drive, or unavailable.
#[derive(Clone)]
pub enum Presence {
    /// The platter can be read.
    Loaded(Loaded),
    /// The platter is unavailable.
    Unavailable(NoPlatter),
}

impl Presence {
    /// A platter that is on no store.
    #[must_use]
    pub fn missing(store: &str) -> Self {
        Self::Unavailable(NoPlatter::Missing { store: store.to_owned(), may_be_on: Vec::new() })
    }

    /// The platter, if it is loaded.
    pub(crate) fn loaded(self) -> Option<Loaded> {
        match self {
            Self::Loaded(loaded) => Some(loaded),
            Self::Unavailable(_) => None,
        }
    }

    /// Like [`loaded`](Self::loaded), by reference.
    pub(crate) fn as_loaded(&self) -> Option<&Loaded> {
        match self {
            Self::Loaded(loaded) => Some(loaded),
            Self::Unavailable(_) => None,
        }
    }

    /// The drive with the platter, if it is loaded.
    #[must_use]
    pub fn drive(&self) -> Option<&ReadDrive> {
        match self {
            Self::Loaded(loaded) => Some(&loaded.drive),
            Self::Unavailable(_) => None,
        }
    }

    /// True if a sector that could not be read may be fine.
    pub(crate) fn may_have(&self, physical: PhysicalTrack, sector: u16) -> bool {
        match self {
            Self::Loaded(loaded) => loaded.with_known_copies().any(|copy| copy.is_unreadable(physical, sector)),
            Self::Unavailable(why) => why.may_exist(),
        }
    }
}

/// A platter loaded in a drive.
#[derive(Clone)]
pub struct Loaded {
    /// The drive.
    pub drive: ReadDrive,
    /// The store on which it was found.
    pub store: String,
    faults: Arc<Faults>,
    /// Set if the platter is loaded to verify it, which may have to wait for a cheaper hour.
    to_verify: Option<Arc<dyn PlatterFile>>,
    copies: Option<Arc<Copies>>,
}

/// Copies of a platter on other stores, which a user made or an interrupted replacement left.
/// Almost every platter has none, so they are looked for only when a track can't be read.
struct Copies {
    find: Box<dyn Fn() -> Vec<Loaded> + Send + Sync>,
    found: OnceLock<Vec<Loaded>>,
}

impl Loaded {
    /// Loads a platter that is present on `store`.
    #[must_use]
    pub fn new(platter: PlatterId, geometry: Geometry, source: Arc<dyn PlatterSource>, store: &str) -> Self {
        let faults = Arc::new(Faults { sector_bytes: geometry.sector_stride(), ..Faults::default() });
        let source = Arc::new(Watched { source, faults: faults.clone() });
        Self { drive: ReadDrive::load(platter, geometry, source), store: store.to_owned(), faults, to_verify: None, copies: None }
    }

    /// Loads a platter to verify it.
    pub(crate) fn for_verification(platter: PlatterId, geometry: Geometry, file: Arc<dyn PlatterFile>, store: &str) -> Self {
        Self { to_verify: Some(file.clone()), ..Self::new(platter, geometry, file, store) }
    }

    /// Lets [`restore_from_copies`](Self::restore_from_copies) use what `find` returns.
    pub(crate) fn with_copies(self, find: impl Fn() -> Vec<Loaded> + Send + Sync + 'static) -> Self {
        Self { copies: Some(Arc::new(Copies { find: Box::new(find), found: OnceLock::new() })), ..self }
    }

    /// Restores lost information sectors of a track from copies of the platter. Returns true if
    /// none is lost then.
    pub(crate) fn restore_from_copies(&self, physical: PhysicalTrack, track: &mut Track) -> bool {
        let Some(copies) = &self.copies else { return false };
        for copy in copies.found.get_or_init(|| (copies.find)()) {
            let mut other = Track::new(track.geometry());
            // Even a track that can't be rebuilt has good sectors.
            let _ = copy.drive.read(physical, &mut other);
            for sector in 0..track.geometry().track_information {
                if track.is_lost(sector) && !other.is_lost(sector) {
                    track.restore(sector, other.payload(sector));
                }
            }
            if !track.misses_information() {
                return true;
            }
        }
        false
    }

    /// The platter, then its copies that were looked for.
    pub(crate) fn with_known_copies(&self) -> impl Iterator<Item = &Self> {
        let copies = self.copies.as_ref().and_then(|copies| copies.found.get());
        std::iter::once(self).chain(copies.into_iter().flatten())
    }

    /// Waits until a track may be decoded for a verification. Asks `goes_on` again and again while
    /// it waits, and returns once that is false.
    pub(crate) fn wait_until_cheap(&self, goes_on: &dyn Fn() -> bool) {
        if let Some(file) = &self.to_verify {
            file.wait_until_cheap(self.drive.geometry().track_sectors().into(), goes_on);
        }
    }

    /// True if the system has refused a read of this sector alone.
    #[must_use]
    pub fn is_unreadable(&self, physical: PhysicalTrack, sector: u16) -> bool {
        let at = self.drive.geometry().sector_offset(SectorAddress { track: physical, sector });
        self.faults.sectors().range(at..at + self.faults.sector_bytes as u64).next().is_some()
    }

    /// Number of sectors of a track that the system refused to read.
    #[must_use]
    pub fn unreadable_sectors(&self, physical: PhysicalTrack) -> u64 {
        let sectors = 0..self.drive.geometry().track_sectors();
        match self.why_unreadable() {
            None => 0,
            Some(_) => sectors.filter(|&sector| self.is_unreadable(physical, sector)).count() as u64,
        }
    }

    /// The system's error of the first refused read.
    #[must_use]
    pub fn why_unreadable(&self) -> Option<&str> {
        self.faults.first.get().map(String::as_str)
    }
}

/// Reads of a platter that the system refused. Drives treat these sectors as lost, which is right
/// for the codes; only this record shows that they may be fine.
#[derive(Default)]
struct Faults {
    sector_bytes: usize,
    /// Offsets of refused reads of single sectors, or of parts of them.
    sectors: Mutex<BTreeSet<u64>>,
    first: OnceLock<String>,
}

impl Faults {
    fn sectors(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        self.sectors.lock().expect("nothing panics while it holds this lock")
    }
}

struct Watched {
    source: Arc<dyn PlatterSource>,
    faults: Arc<Faults>,
}

impl PlatterSource for Watched {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read_at(offset, buffer);
        if let Err(error) = &read
            && error.kind() != io::ErrorKind::Interrupted
            // After a longer read fails, drives read each sector on its own.
            && buffer.len() <= self.faults.sector_bytes
        {
            self.faults.sectors().insert(offset);
            let _ = self.faults.first.set(error.to_string());
        }
        read
    }

    fn read_cached_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
        self.source.read_cached_at(offset, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_for_unreachable_content_names_the_stores_and_the_platters_needed() {
        let unavailable = |store: &str, hindrance, why: &str| UnavailableStore { store: store.to_owned(), hindrance, why: why.to_owned() };
        let mut unreachable = Unreachable {
            platter: PlatterId([1; 16]),
            needed: 4,
            platters: 6,
            readable: 3,
            unavailable: [unavailable("d1", Hindrance::Absent, "no mark")].into(),
        };
        assert_eq!(
            unreachable.to_string(),
            "it can't be read now: store d1 is absent. 4 of the 6 platters of its set are needed, and 3 can be read"
        );
        assert_eq!(unreachable.hindrance(), Hindrance::Absent);
        unreachable.unavailable.insert(unavailable("d4", Hindrance::Absent, "no mark"));
        unreachable.unavailable.insert(unavailable("d2", Hindrance::Unreadable, "Permission denied"));
        let message = unreachable.to_string();
        assert!(message.contains("stores d1, d4 are absent; store d2 is unreadable (Permission denied)."), "{message}");
        assert_eq!(unreachable.hindrance(), Hindrance::Unreadable);
        unreachable.unavailable = [unavailable("d1", Hindrance::Absent, "no mark"), unavailable(NOT_FETCHED, Hindrance::Absent, "")].into();
        let message = unreachable.to_string();
        assert!(message.contains(": store d1 is absent; others of its platters were not fetched. 4 of"), "{message}");
    }

    #[test]
    fn absent_stores_are_named_once_each() {
        let text = |names: &[&str]| absent_text(names.iter().copied()).unwrap_or_default();
        assert_eq!(text(&[]), "");
        assert_eq!(text(&["d2", "d2"]), "store d2 is absent");
        assert_eq!(text(&["d2", "d1", "d2"]), "stores d1, d2 are absent");
        assert_eq!(text(&["?"]), "a store that is not in the settings is absent");
        assert_eq!(text(&["?", "d1", "d2"]), "stores d1, d2 and one that is not in the settings are absent");
    }
}
