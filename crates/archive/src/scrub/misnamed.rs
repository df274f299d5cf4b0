//! Platter files under wrong names: restored from a backup by hand, or copied over one another.
//!
//! Such a file is read as the platter of its name, and then all of it is wrong. It may be the only
//! copy of the platter that it really is, so nothing overwrites it unless that platter is whole
//! under its own name, and nothing that it may hold is called lost.

use std::collections::HashSet;
use std::fmt;

use fulgurite_domain::{ArchiveId, PlatterId};
use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::catalogue::SetDescription;
use crate::store::PlatterFile;
use crate::store_snapshot::StoreSnapshot;
use crate::tables::{HeaderTrouble, header_in};

/// A file with the header of another platter than its name says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MisnamedPlatter {
    /// The platter that its name says.
    #[serde(with = "crate::as_text")]
    pub platter: PlatterId,
    /// The store it is on.
    pub store: String,
    /// The platter that it is.
    #[serde(with = "crate::as_text")]
    pub is: PlatterId,
    /// The archive of that platter.
    #[serde(with = "crate::as_text")]
    pub archive: ArchiveId,
    /// Whether that is another archive than this one.
    pub is_foreign: bool,
}

impl MisnamedPlatter {
    /// `None` if the file has no header, or that of `platter`.
    pub(super) fn of(file: &dyn PlatterFile, platter: PlatterId, store: &str, own: ArchiveId) -> Option<Self> {
        let Err(HeaderTrouble::Misnamed { platter: is, archive }) = header_in(file, platter) else { return None };
        Some(Self { platter, store: store.to_owned(), is, archive, is_foreign: archive != own })
    }
}

impl fmt::Display for MisnamedPlatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is, archive, .. } = *self;
        match self.is_foreign {
            true => write!(f, "it is platter {is} of archive {archive}; move it to a store of that archive"),
            false => HeaderTrouble::Misnamed { platter: is, archive }.fmt(f),
        }
    }
}

/// All misnamed files on the stores that can be listed. Reads a header of each file.
pub(super) fn find_misnamed(archive: &Archive) -> Vec<MisnamedPlatter> {
    let snapshot = StoreSnapshot::take(archive);
    let mut found = Vec::new();
    for (name, store) in snapshot.readable() {
        for platter in store.list().unwrap_or_default() {
            let Ok(Some(file)) = store.open(platter) else { continue };
            found.extend(MisnamedPlatter::of(&*file, platter, name, archive.id()));
        }
    }
    found
}

/// Whether one of these files is a platter of the set.
pub(super) fn has_one_of(misnamed: &[MisnamedPlatter], set: &SetDescription) -> bool {
    let platters: HashSet<PlatterId> = set.platters.iter().map(|place| place.platter).collect();
    misnamed.iter().any(|file| !file.is_foreign && platters.contains(&file.is))
}
