//! Which sets the library holds, and the numbers of their platters in it.

use std::collections::{BTreeMap, HashMap};

use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::{SetRow, SetState};
use fulgurite_domain::{SetId, SetShape};
use fulgurite_journal::Stock;
use fulgurite_library::{Found, Platter, RegionPlatter, Whereabouts};
use fulgurite_live::Plan;

use crate::gateway::Gateway;

/// Content of a track of a platter whose sectors have 64 KiB, as those of large platters have.
const LARGE_TRACK_BYTES: u64 = 200 << 16;
/// Fewest tracks for which a library is made: small platters have up to twice as many as the 40
/// that they have at least.
const TRACKS_MIN: u32 = 80;

/// The sets of a library.
pub(super) struct Places {
    shape: SetShape,
    room: u32,
    /// By number.
    sets: Vec<SetId>,
    numbers: HashMap<SetId, u32>,
    /// The number of platters of sets that have fewer than the shape.
    small: BTreeMap<u32, u16>,
    /// Sets that have no place: of another shape, or there was no room.
    outside: u64,
}

/// Most tracks of a platter of the archive, and most bytes of a track.
pub(super) fn largest_platter(archive: &Archive, sets: &[SetRow]) -> (u32, u64) {
    let of_settings = (archive.settings().set.platter_mib << 20).div_ceil(LARGE_TRACK_BYTES) as u32 + 1;
    let geometries = sets.iter().map(|set| set.description.geometry);
    let tracks = geometries.clone().map(|geometry| geometry.information_tracks).max().unwrap_or(0);
    let bytes = geometries.map(fulgurite_domain::Geometry::track_bytes).max().unwrap_or(0);
    (tracks.max(of_settings).max(TRACKS_MIN), bytes.max(LARGE_TRACK_BYTES))
}

impl Places {
    /// The sets of a library that was kept. Those that are complete and have no number yet are
    /// added by [`Gateway::take_in_sets`].
    pub(super) fn new(plan: &Plan, sets: Vec<SetId>, rows: &[SetRow]) -> Self {
        let numbers = sets.iter().copied().zip(0..).collect();
        let mut places = Self { shape: plan.shape(), room: plan.sets(), sets, numbers, small: BTreeMap::new(), outside: 0 };
        for row in rows {
            if let Some(number) = places.numbers.get(&row.description.id).copied() {
                places.note_size(number, row);
            }
        }
        places
    }

    /// A library that has all complete sets that fit.
    pub(super) fn all_of(plan: &Plan, rows: &[SetRow]) -> Self {
        let mut places = Self::new(plan, Vec::new(), rows);
        for row in rows {
            if places.has_place(row) {
                places.add(row);
            }
        }
        places
    }

    /// Every platter is in its slot.
    pub(super) fn stock(&self) -> Stock {
        let members = u32::from(self.shape.platters());
        let missing = self.small.iter().flat_map(|(set, platters)| set * members + u32::from(*platters)..(set + 1) * members);
        let unwritten = |platter| Found { platter: Platter(platter), at: Whereabouts::Unwritten, verified: 0 };
        Stock { written: self.sets.len() as u32 * members, found: missing.map(unwritten).collect(), ..Stock::default() }
    }

    pub(super) fn sets(&self) -> &[SetId] {
        &self.sets
    }

    pub(super) fn outside(&self) -> u64 {
        self.outside
    }

    pub(super) fn number(&self, set: SetId) -> Option<u32> {
        self.numbers.get(&set).copied()
    }

    /// The platters of a set, by position.
    pub(super) fn platters_of(&self, number: u32) -> impl Iterator<Item = RegionPlatter> + use<> {
        let first = number * u32::from(self.shape.platters());
        let count = self.small.get(&number).copied().unwrap_or(self.shape.platters());
        (first..first + u32::from(count)).map(RegionPlatter)
    }

    pub(super) fn all_platters(&self) -> Vec<RegionPlatter> {
        (0..self.sets.len() as u32).flat_map(|number| self.platters_of(number)).collect()
    }

    /// The number of the set of a platter, and its position there.
    pub(super) fn position_of(&self, platter: RegionPlatter) -> (u32, u16) {
        let members = u32::from(self.shape.platters());
        (platter.0 / members, (platter.0 % members) as u16)
    }

    /// Whether a set is complete, has no number yet, and can have one.
    fn has_place(&self, row: &SetRow) -> bool {
        let shape = row.description.shape;
        row.state == SetState::Complete
            && !self.numbers.contains_key(&row.description.id)
            && shape.redundancy == self.shape.redundancy
            && shape.information <= self.shape.information
            && (self.sets.len() as u32) < self.room
    }

    fn add(&mut self, row: &SetRow) -> u32 {
        let number = self.sets.len() as u32;
        self.sets.push(row.description.id);
        self.numbers.insert(row.description.id, number);
        self.note_size(number, row);
        number
    }

    fn note_size(&mut self, number: u32, row: &SetRow) {
        let platters = row.description.shape.platters();
        if platters < self.shape.platters() {
            self.small.insert(number, platters);
        }
    }
}

impl Gateway {
    /// Brings the platters of new sets into the library, if there is one.
    pub(crate) fn take_in_sets(&self) {
        let Some(library) = &self.library else { return };
        let rows = match self.archive.reading().sets() {
            Ok(rows) => rows,
            Err(error) => {
                tracing::error!(%error, "can't look for new sets; the library takes them in later");
                return;
            }
        };
        let mut places = library.places.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        for row in &rows {
            if !places.has_place(row) {
                continue;
            }
            let number = places.sets.len() as u32;
            if let Err(error) = self.state.add_library_set(number, row.description.id) {
                tracing::error!(%error, "can't record a new set; the library takes it in later");
                break;
            }
            places.add(row);
            library.runner.take_in(places.platters_of(number).collect());
        }
        let complete = rows.iter().filter(|row| row.state == SetState::Complete);
        let outside = complete.filter(|row| places.number(row.description.id).is_none()).count() as u64;
        if outside > places.outside {
            tracing::warn!(
                sets = outside,
                "sets have no place in the library: it is full, or they have more information platters than new sets, or another redundancy; their objects are restored without it"
            );
        }
        places.outside = outside;
    }
}
