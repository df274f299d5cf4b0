//! Finds platters on the stores.

use std::sync::Arc;

use crate::archive::Archive;
use crate::catalogue::{NOWHERE, PlatterPlace, SetDescription};
use crate::rebuild::has_unknown_places;
use crate::set_reader::OpenSet;
use crate::store::{PlatterFile, PlatterStore, StoreError};
use crate::unread::{AwayStore, Hindrance, Loaded, NoPlatter, Presence};

pub(crate) struct FoundPlatter {
    /// The store whose disk holds it.
    pub(crate) store: String,
    pub(crate) file: Arc<dyn PlatterFile>,
}

/// Snapshot of the stores: disks that can be read, under the store names in their marks, and stores
/// that are away.
pub(crate) struct Disks {
    there: Vec<(String, Arc<dyn PlatterStore>)>,
    pub(crate) away: Vec<AwayStore>,
    /// True if platters without a known store may be on stores that are not in the settings.
    pub(crate) has_unknown: bool,
}

impl Disks {
    pub(crate) fn check(archive: &Archive) -> Self {
        let mut disks = Self { there: Vec::new(), away: Vec::new(), has_unknown: has_unknown_places(archive) };
        for store in archive.stores() {
            match store.check() {
                Ok(()) => disks.there.push((store.name().to_owned(), store.clone())),
                Err(error) => {
                    // Swapped disks still belong to this archive, and their marks show which store
                    // each is.
                    if let Some(name) = error.is_disk_of() {
                        disks.there.push((name.to_owned(), store.clone()));
                    }
                    let hindrance = error.hindrance();
                    let why = match error {
                        StoreError::Io { source, .. } => source.to_string(),
                        error => error.to_string(),
                    };
                    disks.away.push(AwayStore { store: store.name().to_owned(), hindrance, why });
                }
            }
        }
        // A store whose disk is mounted in place of another is present.
        let Self { there, away, .. } = &mut disks;
        away.retain(|away| there.iter().all(|(name, _)| *name != away.store));
        disks
    }

    pub(crate) fn has(&self, store: &str) -> bool {
        self.there.iter().any(|(name, _)| name == store)
    }

    pub(crate) fn there(&self) -> impl Iterator<Item = (&str, &Arc<dyn PlatterStore>)> {
        self.there.iter().map(|(name, store)| (name.as_str(), store))
    }

    /// Finds a platter on its store or else on another: users copy disks, and files between disks.
    pub(crate) fn find(&self, place: &PlatterPlace) -> Result<FoundPlatter, NoPlatter> {
        self.find_or(place, |_| true)
    }

    /// Like [`find`](Self::find); of the stores that are away, only some `may_have` the platter.
    fn find_or(&self, place: &PlatterPlace, may_have: impl Fn(&AwayStore) -> bool) -> Result<FoundPlatter, NoPlatter> {
        let is_own = |entry: &&(String, Arc<dyn PlatterStore>)| entry.0 == place.store;
        let (own, others) = (self.there.iter().filter(is_own), self.there.iter().filter(|entry| !is_own(entry)));
        let mut refused = None;
        for (name, store) in own.chain(others) {
            match store.open(place.platter) {
                Ok(Some(file)) => return Ok(FoundPlatter { store: name.clone(), file }),
                Ok(None) => {}
                Err(error) => {
                    let why = error.to_string();
                    refused.get_or_insert(AwayStore { store: name.clone(), hindrance: Hindrance::Unreadable, why });
                }
            }
        }
        if let Some(away) = refused.or_else(|| self.away.iter().find(|away| away.store == place.store).cloned()) {
            return Err(NoPlatter::Away(away));
        }
        let may_be_on: Vec<AwayStore> = self.away.iter().filter(|away| may_have(away)).cloned().collect();
        if place.store == NOWHERE && may_be_on.is_empty() && self.has_unknown {
            let why = "its store is not in the settings: `fulgurite store add` adds it".to_owned();
            return Err(NoPlatter::Away(AwayStore { store: NOWHERE.to_owned(), hindrance: Hindrance::Absent, why }));
        }
        Err(match place.store != NOWHERE || may_be_on.is_empty() {
            true => NoPlatter::Missing { store: place.store.clone(), may_be_on },
            // The platter's store is unknown, so any of these may hold it.
            false => NoPlatter::Away(one_of(&may_be_on)),
        })
    }

    fn open(&self, description: &SetDescription) -> OpenSet {
        // No store has two platters of a set (I3).
        let has_none = |away: &AwayStore| description.platters.iter().all(|place| place.store != away.store);
        let open = |place: &PlatterPlace| match self.find_or(place, has_none) {
            Ok(found) => Presence::There(Loaded::new(place.platter, description.geometry, found.file, &found.store)),
            Err(why) => Presence::Gone(why),
        };
        OpenSet { members: description.platters.iter().map(open).collect(), description: description.clone() }
    }
}

/// Describes stores of which any may have a platter as one.
fn one_of(stores: &[AwayStore]) -> AwayStore {
    let list = |of: fn(&AwayStore) -> &str| stores.iter().map(of).collect::<Vec<_>>();
    AwayStore {
        store: list(|away| &away.store).join(", "),
        hindrance: stores.iter().map(|away| away.hindrance).max().expect("there is at least one"),
        why: list(|away| &away.why).join("; "),
    }
}

impl OpenSet {
    /// Opens the readable platters of a set, with the reason for each of the others.
    pub(crate) fn of(archive: &Archive, description: &SetDescription) -> Self {
        Disks::check(archive).open(description)
    }
}

/// Looks for platters. Returns the store of each, or the reason why it can't be read.
pub fn look_for<'a>(archive: &Archive, places: impl IntoIterator<Item = &'a PlatterPlace>) -> Vec<Result<String, NoPlatter>> {
    let disks = Disks::check(archive);
    places.into_iter().map(|place| disks.find(place).map(|found| found.store)).collect()
}
