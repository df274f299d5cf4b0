//! Reading content by platter and place: the sets that the catalogue knows, opened on the stores that have them.

use std::sync::Arc;

use fulgurite_domain::PlatterId;
use fulgurite_glass::ReadDrive;

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{CatalogueError, PlatterPlace, SetDescription, SetRow};
use crate::set_reader::{BeyondRepair, OpenSet, Repairs, SetReadError, SetReader, Source};
use crate::store::{PlatterFile, PlatterStore};

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
}

impl<'a> ContentReader<'a> {
    /// A reader of an archive's platters.
    #[must_use]
    pub fn new(archive: &'a Archive) -> Self {
        Self { archive, sets: SetReader::new(archive.rebuilding(), archive.threads()) }
    }

    /// What it took so far.
    #[must_use]
    pub fn repairs(&self) -> Repairs {
        self.sets.repairs()
    }

    /// Fills `out` with the content of a platter from byte `offset` on.
    ///
    /// # Errors
    /// [`ContentError::Lost`] if any of it is beyond repair; [`ContentError::Archive`] if the catalogue doesn't know the platter, or speaks of a
    /// place that the platter doesn't have.
    pub fn read(&mut self, platter: PlatterId, offset: u64, out: &mut [u8]) -> Result<(), ContentError> {
        if !self.sets.knows(platter) {
            let row: Option<SetRow> = self.archive.catalogue().set_of(platter).map_err(ArchiveError::from)?;
            let row = row.ok_or(ArchiveError::UnknownPlatter { platter })?;
            self.sets.introduce(Arc::new(self.archive.open_set(&row.description)));
        }
        Ok(self.sets.read(platter, offset, out)?)
    }
}
