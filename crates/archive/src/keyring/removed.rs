//! Removed versions, whose keys must not come back.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use fulgurite_domain::VersionId;

use super::PAGE;
use crate::archive::ArchiveError;
use crate::catalogue::{Catalogue, SqliteCatalogue, Versions};
use crate::inventory::{Inventory, Mention, inventory_staging};
use crate::paging::Pager;
use crate::settings::Settings;
use crate::staging::Staging;
use crate::store::PlatterStore;
use crate::watch::Watcher;

/// The tombstones of an archive, from all sources.
#[derive(Default)]
pub(crate) struct Removed {
    pub(crate) ids: HashSet<VersionId>,
    /// Versions that the catalogue lists although staging has tombstones of them that it doesn't
    /// know: it is an old copy, or a crash interrupted the removal.
    pub(crate) still_listed: HashSet<VersionId>,
    /// Sealed versions on platters and in staging that were not removed, collected only if the
    /// catalogue can't be read.
    pub(crate) sealed: HashSet<VersionId>,
    /// Places where tombstones could not be read, one sentence each.
    pub(crate) unread: Vec<String>,
    /// Number of file tables in `unread`.
    pub(crate) unread_tables: u64,
}

impl Removed {
    /// Collects the tombstones of an archive: those that the catalogue lists, those in staging, and
    /// those in the file tables of all platters that can be read.
    pub(crate) fn find(
        home: &Path,
        settings: &Settings,
        stores: &[Arc<dyn PlatterStore>],
        catalogue: Option<&mut SqliteCatalogue>,
        watcher: &dyn Watcher,
    ) -> Result<Self, ArchiveError> {
        let mut removed = Self::default();
        let mut staged = HashSet::new();
        let by_catalogue = catalogue.is_some();
        let folder = home.join(&settings.staging.path);
        if folder.exists() {
            removed.unread = inventory_staging(&Staging::in_folder(&folder, settings), &mut |mention| match mention {
                Mention::Tombstone { id } => _ = staged.insert(id),
                Mention::Version { id, sealed: true } if !by_catalogue => _ = removed.sealed.insert(id),
                Mention::Version { .. } => {}
            })?;
        }
        if let Some(catalogue) = catalogue {
            removed.ids.extend(catalogue.staged_tombstones()?.into_iter().map(|tombstone| tombstone.id));
            // Their platters may be absent now.
            let mut pages = Pager::default();
            while let Some(page) = pages.next(|after| catalogue.archived_tombstones(after.copied(), PAGE))? {
                removed.ids.extend(page.iter().map(|(id, _)| *id));
            }
            if !staged.is_empty() {
                let mut pages = Pager::default();
                while let Some(page) = pages.next(|after| catalogue.list(b"", Versions::All, after, PAGE))? {
                    removed.still_listed.extend(page.iter().filter_map(|version| staged.take(&version.id)));
                }
            }
        }
        removed.ids.extend(staged);
        let inventory = Inventory::new(settings.archive.id, stores, watcher);
        let unread = inventory.read_tables(settings.limits.threads, watcher, &mut |mention| match mention {
            Mention::Tombstone { id } => _ = removed.ids.insert(id),
            Mention::Version { id, sealed: true } if !by_catalogue => _ = removed.sealed.insert(id),
            Mention::Version { .. } => {}
        });
        removed.unread_tables = unread.len() as u64;
        removed.unread.extend(inventory.unread);
        removed.unread.extend(unread);
        removed.sealed.retain(|id| !removed.ids.contains(id));
        removed.still_listed.retain(|id| !removed.ids.contains(id));
        Ok(removed)
    }
}
