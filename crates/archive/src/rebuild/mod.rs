//! Rebuilds the catalogue from platters and staging alone, with the key store for sealed versions
//! (I4).
//!
//! ```text
//! headers of all platters -> sets       tables of all information platters -> versions, tombstones
//! staging segments        -> staged versions, tombstones
//! ```
//!
//! The file table of a missing platter is recovered like any other content. If a version is both
//! staged and on platters, the staged one counts: a crash leaves that state when the platters are
//! written but not yet marked as verified.

mod earlier;
mod filling;
mod platters;
mod record;
mod run;
mod staging;
mod unseen;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use fulgurite_domain::{PlatterId, SetId};

use self::earlier::{Earlier, note_unreadable};
use self::run::Rebuild;
pub(crate) use self::staging::{Scanned, scan_staging};
pub use self::unseen::{GivenUp, Unseen, UnseenPlace};
use self::unseen::{find_staging, refuse_unseen_stores};
pub(crate) use self::unseen::{has_unknown_places, keys_of_later_versions, unseen_places, unseen_stores, was_staging_unseen};
use crate::archive::{Archive, ArchiveError, CATALOGUE_FILE, Parts, check_master_key, read_settings};
use crate::catalogue::{Catalogue, CatalogueError, SqliteCatalogue, UnlistedVersion};
use crate::clock::unix_s;
use crate::database::{check_whole, copy_database, remove_database, replace_database, with_suffix};
use crate::lock::Lock;
use crate::paging::Pager;
use crate::staging::mark_staging;
use crate::watch::Watcher;

const BATCH: usize = 1_000;

/// Result of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RebuildReport {
    /// Platters found.
    pub platters: u64,
    /// Sets that they belong to.
    pub sets: u64,
    /// Platters of those sets that were not found.
    pub missing: u64,
    /// Versions on platters.
    pub archived: u64,
    /// Versions in staging.
    pub staged: u64,
    /// Removed versions, according to their tombstones.
    pub deleted: u64,
    /// Sets that only the earlier catalogue knows, and of which too many platters are gone.
    pub lost_sets: u64,
    /// File tables that could not be read. The versions on those platters are unknown.
    pub lost_tables: u64,
    /// Versions that were only partly found, or whose record can't be read.
    pub incomplete: u64,
    /// Versions whose key is not in the key store and that have no tombstone.
    pub no_key: u64,
    /// Versions that only the earlier catalogue knew and that were carried over from it.
    pub carried_over: u64,
    /// Versions that only the earlier catalogue knew and of which nothing was found.
    pub gone: u64,
    /// Places that could not be read.
    pub unseen: Vec<Unseen>,
    /// Keys of versions of which nothing was found. Only counted if no earlier catalogue lists all
    /// versions.
    pub surplus_keys: u64,
    /// Path of the earlier catalogue if it was kept because it could not be read completely.
    pub kept: Option<PathBuf>,
}

impl RebuildReport {
    /// True if something is lost, or can't be read with the existing keys. While places remain
    /// unseen, a version without a key doesn't count, because it may have been removed.
    #[must_use]
    pub fn has_losses(&self) -> bool {
        self.lost_sets + self.lost_tables + self.incomplete + self.gone > 0 || (self.no_key > 0 && self.unseen.is_empty())
    }
}

/// What a rebuild does if a configured store can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnseenStores {
    /// The rebuild fails, and the catalogue stays as it is.
    Refuse,
    /// The rebuild continues with the other stores, and takes the content of the unseen store from
    /// the earlier catalogue.
    GoOn,
}

/// Rebuilds the catalogue of the archive in `home`, and replaces the old catalogue when the new one
/// is complete. Versions that only the old catalogue knows are carried over unless a tombstone says
/// that they were removed.
///
/// # Errors
/// [`ArchiveError`]; the old catalogue is unchanged then. If the error comes while the files are
/// being replaced, the old catalogue may have `.old` added to its name, and the next rebuild reads
/// it there.
pub fn rebuild_catalogue(home: &Path, unseen: UnseenStores, watcher: &dyn Watcher) -> Result<RebuildReport, ArchiveError> {
    let settings = read_settings(home)?;
    let _lock = Lock::take(home)?;
    let catalogue = home.join(CATALOGUE_FILE);
    let fresh = home.join(format!("{CATALOGUE_FILE}.rebuilding"));
    remove_database(&fresh)?;
    let id = settings.archive.id;
    let staging = home.join(&settings.staging.path);
    let archive = Archive::assemble(home, Parts::with_new_catalogue(home, settings, &fresh)?);
    let rebuild = || {
        check_master_key(&archive)?;
        if unseen == UnseenStores::Refuse {
            refuse_unseen_stores(&archive)?;
        }
        // A rebuild that was interrupted while replacing the catalogue left the earlier one under
        // this name.
        let interrupted = with_suffix(&catalogue, ".old");
        let known = [&catalogue, &interrupted].into_iter().find(|path| path.exists()).cloned();
        let mut is_damaged = false;
        let mut earlier = match known.as_deref().map(|path| SqliteCatalogue::open_read_only(path, id)).transpose() {
            Ok(earlier) => earlier,
            Err(error @ CatalogueError::Damaged { .. }) => {
                note_unreadable(&error, watcher);
                is_damaged = true;
                None
            }
            Err(error) => return Err(error.into()),
        };
        let unseen_staging = find_staging(archive.staging(), earlier.as_mut(), unseen, &staging, watcher)?;
        let earlier = earlier.as_mut().map(|earlier| earlier as &mut dyn Catalogue);
        let (report, keeps_old) = archive.rebuild_from(earlier, unseen_staging, watcher)?;
        mark_staging(&archive)?;
        Ok((report, known.filter(|_| keeps_old || is_damaged)))
    };
    let (mut report, kept) = match rebuild() {
        Ok(done) => done,
        Err(error) => {
            drop(archive);
            // The next attempt would remove it too.
            let _ = remove_database(&fresh);
            return Err(error);
        }
    };
    // Closing the last connection checkpoints the write-ahead log into the file.
    drop(archive);
    if let Err(torn) = check_whole(&fresh) {
        let _ = remove_database(&fresh);
        return Err(torn);
    }
    if let Some(earlier) = kept {
        let kept = with_suffix(&catalogue, &format!(".damaged-{}", unix_s()));
        copy_database(&earlier, &kept)?;
        report.kept = Some(kept);
    }
    replace_database(home, &fresh, &catalogue)?;
    Ok(report)
}

impl Archive {
    /// Fills an empty catalogue from stores, staging and an earlier catalogue. The returned flag is
    /// true if the earlier catalogue must be kept because it could not be read completely. `unseen`
    /// names a place other than a store that could not be read.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue, the key store or staging fails. Damage on platters is
    /// reported to `watcher`.
    pub fn rebuild_from<'a>(
        &self,
        earlier: Option<&'a mut dyn Catalogue>,
        unseen: Option<Unseen>,
        watcher: &'a dyn Watcher,
    ) -> Result<(RebuildReport, bool), ArchiveError> {
        let mut earlier = Earlier::new(earlier, watcher);
        let report = Rebuild::new(self, unseen, watcher).run(&mut earlier)?;
        Ok((report, earlier.is_damaged))
    }
}

pub(crate) fn each_unlisted(archive: &Archive, on_version: &mut dyn FnMut(&UnlistedVersion)) -> Result<(), ArchiveError> {
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| archive.catalogue().unlisted(after.copied(), BATCH))? {
        page.iter().for_each(&mut *on_version);
    }
    Ok(())
}

/// Platters of sets that were damaged beyond repair when they were last read.
pub(crate) fn lost_platters(catalogue: &mut dyn Catalogue) -> Result<HashSet<PlatterId>, CatalogueError> {
    let mut by_set: HashMap<SetId, (u64, Vec<PlatterId>)> = HashMap::new();
    for row in catalogue.platters()? {
        let (bad, platters) = by_set.entry(row.set).or_default();
        *bad += u64::from(row.health.missing || row.health.lost_tracks > 0);
        platters.push(row.place.platter);
    }
    by_set.retain(|_, (bad, _)| *bad > 0);
    let mut lost = HashSet::new();
    for set in catalogue.sets()? {
        if let Some((bad, platters)) = by_set.remove(&set.description.id)
            && bad > u64::from(set.description.shape.redundancy)
        {
            lost.extend(platters);
        }
    }
    Ok(lost)
}
