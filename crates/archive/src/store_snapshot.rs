//! A snapshot of the stores: which of them can be read at one moment, and which platters they hold.
//!
//! Finds a platter on whichever store has it, or gives the reason why it can't be read. Opens all
//! platters of a set for the [`SetReader`](crate::set_reader::SetReader).

use std::sync::Arc;

use crate::archive::Archive;
use crate::catalogue::{PlatterPlace, SetDescription, UNKNOWN_STORE};
use crate::rebuild::has_unknown_places;
use crate::set_reader::OpenSet;
use crate::store::{PlatterFile, PlatterStore, StoreError, check_all};
use crate::unread::{Hindrance, Loaded, NoPlatter, Presence, UnavailableStore};

pub(crate) struct FoundPlatter {
    /// The store whose disk holds it.
    pub(crate) store: String,
    pub(crate) file: Arc<dyn PlatterFile>,
}

type NamedStore = (String, Arc<dyn PlatterStore>);

/// The archive's stores, as found at one moment: those that can be read, under the store names in
/// their marks, and the others.
pub(crate) struct StoreSnapshot {
    readable: Arc<[NamedStore]>,
    pub(crate) unavailable: Vec<UnavailableStore>,
    /// True if platters without a known store may be on stores that are not in the settings.
    pub(crate) has_unknown: bool,
}

impl StoreSnapshot {
    pub(crate) fn take(archive: &Archive) -> Self {
        let mut readable: Vec<NamedStore> = Vec::new();
        let mut unavailable = Vec::new();
        for (store, checked) in archive.stores().iter().zip(check_all(archive.stores())) {
            let Err(error) = checked else {
                readable.push((store.name().to_owned(), store.clone()));
                continue;
            };
            // Swapped disks still belong to this archive, and their marks show which store each is.
            if let Some(name) = error.is_disk_of() {
                readable.push((name.to_owned(), store.clone()));
            }
            let hindrance = error.hindrance();
            let why = match error {
                StoreError::Io { source, .. } => source.to_string(),
                error => error.to_string(),
            };
            unavailable.push(UnavailableStore { store: store.name().to_owned(), hindrance, why });
        }
        // A store whose disk is mounted in place of another can be read.
        unavailable.retain(|store| readable.iter().all(|(name, _)| *name != store.store));
        Self { readable: readable.into(), unavailable, has_unknown: has_unknown_places(archive) }
    }

    /// Why a store can't be used, unless it can, or the settings don't name it.
    pub(crate) fn hindrance(&self, store: &str) -> Option<Hindrance> {
        self.unavailable.iter().find(|unavailable| unavailable.store == store).map(|unavailable| unavailable.hindrance)
    }

    pub(crate) fn readable(&self) -> impl Iterator<Item = (&str, &Arc<dyn PlatterStore>)> {
        self.readable.iter().map(|(name, store)| (name.as_str(), store))
    }

    /// Finds a platter on its store or else on another: users copy disks, and files between disks.
    pub(crate) fn find(&self, place: &PlatterPlace) -> Result<FoundPlatter, NoPlatter> {
        self.open_platter(place).map_err(|open_error| self.why_not_found(place, open_error, |_| true))
    }

    /// All copies of a platter that can be opened, with the one that [`find`](Self::find) returns
    /// first. One is usual.
    pub(crate) fn find_all(&self, place: &PlatterPlace) -> Vec<FoundPlatter> {
        let Ok(first) = self.open_platter(place) else { return Vec::new() };
        let others: Vec<_> = others(&self.readable, place, &first.store).collect();
        std::iter::once(first).chain(others).collect()
    }

    /// Opens a platter. If no store has it, returns the first store that could not open it.
    fn open_platter(&self, place: &PlatterPlace) -> Result<FoundPlatter, Option<UnavailableStore>> {
        let is_own = |entry: &&NamedStore| entry.0 == place.store;
        let (own, others) = (self.readable.iter().filter(is_own), self.readable.iter().filter(|entry| !is_own(entry)));
        let mut open_error = None;
        for (name, store) in own.chain(others) {
            match store.open(place.platter) {
                Ok(Some(file)) => return Ok(FoundPlatter { store: name.clone(), file }),
                Ok(None) => {}
                Err(error) => {
                    let why = error.to_string();
                    open_error.get_or_insert(UnavailableStore { store: name.clone(), hindrance: Hindrance::Unreadable, why });
                }
            }
        }
        Err(open_error)
    }

    /// Why [`open_platter`](Self::open_platter) found nothing. `may_have` excludes unavailable
    /// stores that can't have the platter.
    fn why_not_found(
        &self,
        place: &PlatterPlace,
        open_error: Option<UnavailableStore>,
        may_have: impl Fn(&UnavailableStore) -> bool,
    ) -> NoPlatter {
        if let Some(store) = open_error.or_else(|| self.unavailable.iter().find(|store| store.store == place.store).cloned()) {
            return NoPlatter::Unavailable(store);
        }
        let may_be_on: Vec<UnavailableStore> = self.unavailable.iter().filter(|store| may_have(store)).cloned().collect();
        if place.store != UNKNOWN_STORE {
            return NoPlatter::Missing { store: place.store.clone(), may_be_on };
        }
        match &may_be_on[..] {
            [] => {}
            [store] => return NoPlatter::Unavailable(store.clone()),
            _ => return NoPlatter::OnOneOf(may_be_on),
        }
        if self.has_unknown {
            let why = "its store is not in the settings: `fulgurite store add` adds it".to_owned();
            return NoPlatter::Unavailable(UnavailableStore { store: UNKNOWN_STORE.to_owned(), hindrance: Hindrance::Absent, why });
        }
        NoPlatter::Missing { store: place.store.clone(), may_be_on }
    }

    fn open_set(&self, description: &SetDescription, is_verification: bool) -> OpenSet {
        // No store has two platters of a set (I3).
        let may_have = |store: &UnavailableStore| description.platters.iter().all(|place| place.store != store.store);
        let geometry = description.geometry;
        let load = move |platter, FoundPlatter { store, file }| match file.for_verification().filter(|_| is_verification) {
            Some(file) => Loaded::for_verification(platter, geometry, file, &store),
            None => Loaded::new(platter, geometry, file, &store),
        };
        let open = |place: &PlatterPlace| match self.open_platter(place) {
            Ok(found) => {
                let (readable, place, store) = (self.readable.clone(), place.clone(), found.store.clone());
                let loaded = load(place.platter, found);
                let find = move || others(&readable, &place, &store).map(|found| load(place.platter, found)).collect();
                Presence::Loaded(loaded.with_copies(find))
            }
            Err(open_error) => Presence::Unavailable(self.why_not_found(place, open_error, may_have)),
        };
        OpenSet { members: description.platters.iter().map(open).collect(), description: description.clone() }
    }
}

/// Copies of a platter on other stores than `first`.
fn others(readable: &[NamedStore], place: &PlatterPlace, first: &str) -> impl Iterator<Item = FoundPlatter> {
    readable.iter().filter(move |(name, _)| name != first).filter_map(move |(name, store)| {
        let file = store.open(place.platter).ok().flatten()?;
        Some(FoundPlatter { store: name.clone(), file })
    })
}

impl OpenSet {
    /// Opens the readable platters of a set, with the reason for each of the others.
    pub(crate) fn of(archive: &Archive, description: &SetDescription) -> Self {
        StoreSnapshot::take(archive).open_set(description, false)
    }

    /// Opens them for a verification that begins now.
    pub(crate) fn for_verification(archive: &Archive, description: &SetDescription) -> Self {
        StoreSnapshot::take(archive).open_set(description, true)
    }
}

/// The stores of an archive that can't be used, and why. One whose disk is in the place of another
/// can be used.
#[must_use]
pub fn unavailable_stores(archive: &Archive) -> Vec<UnavailableStore> {
    StoreSnapshot::take(archive).unavailable
}

/// Returns the store on which each platter was found, or the reason why it can't be read.
pub fn locate_platters<'a>(archive: &Archive, places: impl IntoIterator<Item = &'a PlatterPlace>) -> Vec<Result<String, NoPlatter>> {
    let snapshot = StoreSnapshot::take(archive);
    places.into_iter().map(|place| snapshot.find(place).map(|found| found.store)).collect()
}
