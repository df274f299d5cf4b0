//! Reading content by platter and place: the sets that the catalogue knows, opened on the stores that have them.

use std::collections::VecDeque;
use std::sync::Arc;

use fulgurite_domain::{PlatterId, SetId};
use fulgurite_glass::ReadDrive;

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{CatalogueError, PlatterPlace, SetDescription, SetRow};
use crate::set_reader::{BeyondRepair, OpenSet, Repairs, SetReadError, SetReader, Source};
use crate::store::{PlatterFile, PlatterStore};

/// Sets whose platters one reader keeps open: files are few, and a reader may go through all sets of an archive.
const SETS_OPEN: usize = 8;

/// Why content could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// It is lost.
    #[error(transparent)]
    Lost(#[from] BeyondRepair),
    /// The catalogue failed, or does not know the platter.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl From<SetReadError> for ContentError {
    fn from(error: SetReadError) -> Self {
        match error {
            SetReadError::Lost(lost) => Self::Lost(lost),
            SetReadError::NoSuchPlace { platter, offset } => {
                let found = format!("a file at byte {offset} of platter {platter}, beyond its content");
                Self::Archive(CatalogueError::Damaged { found }.into())
            }
        }
    }
}

impl Archive {
    /// Opens the platters of a set that are there. A platter that no store has, as far as they can be used, is a platter that isn't there.
    #[must_use]
    pub fn open_set(&self, description: &SetDescription) -> OpenSet {
        let open = |place: &PlatterPlace| {
            let (_, file) = self.find_platter(place)?;
            Some(ReadDrive::load(place.platter, description.geometry, Arc::new(Source(file))))
        };
        OpenSet { drives: description.platters.iter().map(open).collect(), description: description.clone() }
    }

    /// A platter on its store, or else on another one: people copy disks, and files between them.
    pub(crate) fn find_platter(&self, place: &PlatterPlace) -> Option<(Arc<dyn PlatterStore>, Arc<dyn PlatterFile>)> {
        let own = self.store(&place.store).into_iter();
        own.chain(self.stores().iter().filter(|store| store.name() != place.store)).find_map(|store| {
            store.check().ok()?;
            let file = store.open(place.platter).ok()??;
            Some((store.clone(), file))
        })
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
    /// [`ContentError::Lost`] if any of it is beyond repair; [`ContentError::Archive`] if the catalogue doesn't know the platter, or speaks of a
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
