//! Reading content by platter and place: the sets that the catalogue knows, opened on the stores that have them.

use std::collections::VecDeque;
use std::sync::Arc;

use fulgurite_domain::{PlatterId, SetId};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{CatalogueError, NOWHERE, PlatterPlace, SetDescription, SetRow};
use crate::set_reader::{OpenSet, Repairs, SetReadError, SetReader};
use crate::store::{PlatterFile, PlatterStore, StoreError};
use crate::unread::{AwayStore, BeyondRepair, Hindrance, NoPlatter, Presence, Unreachable, Unread};

/// Sets whose platters one reader keeps open: files are few, and a reader may go through all sets of an archive.
const SETS_OPEN: usize = 8;

/// Why content could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// It is lost.
    #[error(transparent)]
    Lost(#[from] BeyondRepair),
    /// It can't be read now.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// The catalogue failed, or does not know the platter.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl From<SetReadError> for ContentError {
    fn from(error: SetReadError) -> Self {
        match error {
            SetReadError::Unread(Unread::Lost(lost)) => Self::Lost(lost),
            SetReadError::Unread(Unread::Unreachable(unreachable)) => Self::Unreachable(unreachable),
            SetReadError::NoSuchPlace { platter, offset } => {
                let found = format!("a file at byte {offset} of platter {platter}, beyond its content");
                Self::Archive(CatalogueError::Damaged { found }.into())
            }
        }
    }
}

/// A platter that was found.
pub(crate) struct FoundPlatter {
    /// The store whose disk it is on.
    pub(crate) store: String,
    pub(crate) file: Arc<dyn PlatterFile>,
}

/// The stores as they are now: those whose disks can be read, by the names that are on them, and those that are away.
pub(crate) struct Disks {
    there: Vec<(String, Arc<dyn PlatterStore>)>,
    away: Vec<AwayStore>,
}

impl Disks {
    /// Whether the disk of a store can be read.
    pub(crate) fn has(&self, store: &str) -> bool {
        self.there.iter().any(|(name, _)| name == store)
    }

    /// The disks that can be read, by the names of the stores that they are.
    pub(crate) fn there(&self) -> impl Iterator<Item = (&str, &Arc<dyn PlatterStore>)> {
        self.there.iter().map(|(name, store)| (name.as_str(), store))
    }

    /// The stores whose disks can't be read.
    pub(crate) fn all_away(&self) -> &[AwayStore] {
        &self.away
    }

    fn away(&self, store: &str) -> Option<&AwayStore> {
        self.away.iter().find(|away| away.store == store)
    }

    /// A platter on its store, or else on another one: people copy disks, and files between them.
    pub(crate) fn find(&self, place: &PlatterPlace) -> Result<FoundPlatter, NoPlatter> {
        self.find_or(place, |_| true)
    }

    /// [`find`](Self::find), where only some stores that are away `may_have` the platter.
    fn find_or(&self, place: &PlatterPlace, may_have: impl Fn(&AwayStore) -> bool) -> Result<FoundPlatter, NoPlatter> {
        let is_own = |entry: &&(String, Arc<dyn PlatterStore>)| entry.0 == place.store;
        let (own, others) = (self.there.iter().filter(is_own), self.there.iter().filter(|entry| !is_own(entry)));
        let mut refused = None;
        for (name, store) in own.chain(others) {
            match store.open(place.platter) {
                Ok(Some(file)) => return Ok(FoundPlatter { store: name.clone(), file }),
                Ok(None) => {}
                Err(error) => drop(refused.get_or_insert(NoPlatter::Unreadable { store: name.clone(), why: error.to_string() })),
            }
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        match self.away(&place.store) {
            Some(AwayStore { store, hindrance: Hindrance::Absent, why }) => {
                Err(NoPlatter::Absent { store: store.clone(), why: why.clone() })
            }
            Some(AwayStore { store, hindrance: Hindrance::Unreadable, why }) => {
                Err(NoPlatter::Unreadable { store: store.clone(), why: why.clone() })
            }
            None => {
                let may_be_on: Vec<AwayStore> = self.away.iter().filter(|away| may_have(away)).cloned().collect();
                Err(match place.store != NOWHERE || may_be_on.is_empty() {
                    true => NoPlatter::Missing { store: place.store.clone(), may_be_on },
                    // Its store is not known, so it is on one of them as far as anyone can tell.
                    false => on_one_of(&may_be_on),
                })
            }
        }
    }

    /// Opens the platters of a set that can be read, and says of the others why not.
    fn open(&self, description: &SetDescription) -> OpenSet {
        // No store has two platters of a set (I3).
        let has_none = |away: &AwayStore| description.platters.iter().all(|place| place.store != away.store);
        let open = |place: &PlatterPlace| match self.find_or(place, has_none) {
            Ok(found) => Presence::load(place.platter, description.geometry, found.file, &found.store),
            Err(why) => Presence::Gone(why),
        };
        OpenSet { members: description.platters.iter().map(open).collect(), description: description.clone() }
    }
}

/// Why a platter can't be read that is on one of these stores.
fn on_one_of(stores: &[AwayStore]) -> NoPlatter {
    let list = |of: fn(&AwayStore) -> &str| stores.iter().map(of).collect::<Vec<_>>();
    let (store, why) = (list(|away| &away.store).join(", "), list(|away| &away.why).join("; "));
    match stores.iter().all(|away| away.hindrance == Hindrance::Absent) {
        true => NoPlatter::Absent { store, why },
        false => NoPlatter::Unreadable { store, why },
    }
}

impl Archive {
    /// Looks at every store.
    pub(crate) fn disks(&self) -> Disks {
        let mut disks = Disks { there: Vec::new(), away: Vec::new() };
        for store in self.stores() {
            match store.check() {
                Ok(()) => disks.there.push((store.name().to_owned(), store.clone())),
                Err(error) => {
                    // Disks that changed places are still this archive's, and what is on them is marked as what it is.
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
        // A store whose disk is in the place of another is there.
        let Disks { there, away } = &mut disks;
        away.retain(|away| there.iter().all(|(name, _)| *name != away.store));
        disks
    }

    /// Opens the platters of a set that can be read, and says of the others why not.
    #[must_use]
    pub fn open_set(&self, description: &SetDescription) -> OpenSet {
        self.disks().open(description)
    }

    /// Opens platters, and says which store each is on, or why it can't be read.
    pub fn look_for<'a>(&self, places: impl IntoIterator<Item = &'a PlatterPlace>) -> Vec<Result<String, NoPlatter>> {
        let disks = self.disks();
        places.into_iter().map(|place| disks.find(place).map(|found| found.store)).collect()
    }
}

/// Reads the content of platters of an archive. One for each thread.
pub struct ContentReader<'a> {
    archive: &'a Archive,
    sets: SetReader<'a>,
    /// Sets that are open, the one that was opened last at the end.
    open: VecDeque<SetId>,
}

impl<'a> ContentReader<'a> {
    /// A reader of an archive's platters.
    #[must_use]
    pub fn new(archive: &'a Archive) -> Self {
        Self { archive, sets: SetReader::new(archive.rebuilding(), archive.threads()), open: VecDeque::new() }
    }

    /// What it took so far.
    #[must_use]
    pub fn repairs(&self) -> Repairs {
        self.sets.repairs()
    }

    /// Says up to which byte of a platter's content reading is going to go on: see [`SetReader::read_ahead`].
    pub fn read_ahead(&mut self, platter: PlatterId, end: u64) {
        self.sets.read_ahead(platter, end);
    }

    /// Fills `out` with the content of a platter from byte `offset` on.
    ///
    /// # Errors
    /// [`ContentError::Lost`] if any of it is beyond repair; [`ContentError::Unreachable`] if it can't be read now; [`ContentError::Archive`] if the catalogue doesn't know the platter, or speaks of a
    /// place that the platter doesn't have.
    pub fn read(&mut self, platter: PlatterId, offset: u64, out: &mut [u8]) -> Result<(), ContentError> {
        if !self.sets.knows(platter) {
            let row: Option<SetRow> = self.archive.reading().set_of(platter).map_err(ArchiveError::from)?;
            let row = row.ok_or(ArchiveError::UnknownPlatter { platter })?;
            if self.open.len() == SETS_OPEN
                && let Some(oldest) = self.open.pop_front()
            {
                self.sets.forget(oldest);
            }
            self.sets.introduce(Arc::new(self.archive.open_set(&row.description)));
            self.open.push_back(row.description.id);
        }
        Ok(self.sets.read(platter, offset, out)?)
    }
}
