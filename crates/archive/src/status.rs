//! The state of an archive, as far as it is known without reading content.

use std::collections::HashSet;

use fulgurite_domain::{ObjectName, PlatterId};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::Unlisted;
use crate::keystore::Exported;
use crate::rebuild::{UnseenPlace, each_unlisted};
use crate::staging::{StagingError, check_staging};
use crate::uncatalogued::{StoreComparison, compare_stores, count_unknown_staged};

/// Problems of an archive, except the state of each store and damage that only reading finds.
#[derive(Debug, Default)]
pub struct ArchiveStatus {
    /// Versions and file tables that exist but can't be listed.
    pub unlisted: u64,
    /// Places that the last rebuild of the catalogue could not read.
    pub unseen: Vec<UnseenPlace>,
    /// Platters on the stores that the catalogue doesn't know. If not 0, the catalogue is an old
    /// copy, or a rebuild did not see the rest of their sets.
    pub unknown_platters: u64,
    /// Versions and removals in staging that the catalogue doesn't know; see
    /// [`count_unknown_staged`].
    pub unknown_staged: u64,
    /// Platters missing from stores that are present.
    pub missing_platters: HashSet<PlatterId>,
    /// Missing staging segments that the catalogue needs.
    pub missing_segments: u64,
    /// What copies of the keys cover, if the key store records that.
    pub exported: Option<Exported>,
    /// Why staging can't be used.
    pub staging: Option<StagingError>,
}

impl ArchiveStatus {
    /// Collects the problems recorded in an archive's catalogue, and compares the catalogue with
    /// staging and stores.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn of(archive: &Archive) -> Result<Self, ArchiveError> {
        let StoreComparison { uncatalogued, missing } = compare_stores(archive)?;
        let CatalogueGaps { unseen, unlisted, .. } = CatalogueGaps::find(archive, &|_, _| true)?;
        let mut status =
            Self { unlisted, unseen, unknown_platters: uncatalogued.len() as u64, missing_platters: missing, ..Self::default() };
        status.unknown_staged = count_unknown_staged(archive)?;
        // The status of the rest doesn't depend on the keys.
        status.exported = archive.reading_keys().exported().unwrap_or_default();
        let used = archive.catalogue().segments_in_use()?;
        match staging_segments(archive)? {
            Err(error) => status.staging = Some(error),
            Ok(existing) => {
                let is_missing = |segment: &u64| existing.binary_search(segment).is_err();
                if used.iter().any(is_missing) {
                    // Another process may have released some since they were listed.
                    let still_used = archive.catalogue().segments_in_use()?;
                    let is_needed = |segment: &&u64| is_missing(segment) && still_used.binary_search(segment).is_ok();
                    status.missing_segments = used.iter().filter(is_needed).count() as u64;
                }
            }
        }
        Ok(status)
    }
}

/// What a catalogue doesn't list, though it exists or may exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogueGaps {
    /// Places that the last rebuild of the catalogue could not read.
    pub unseen: Vec<UnseenPlace>,
    /// Versions and file tables that exist but can't be listed.
    pub unlisted: u64,
    /// Versions that can't be listed, but may be intact or removed: places remain unseen.
    pub out_of_sight: u64,
}

impl CatalogueGaps {
    /// Finds the gaps that may concern certain versions: an unlisted version whose name and number
    /// are known counts only if `concerns` is true for them.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn find(archive: &Archive, concerns: &dyn Fn(&ObjectName, u64) -> bool) -> Result<Self, ArchiveError> {
        let mut gaps = Self::default();
        each_unlisted(archive, &mut |version| {
            let is_concerned = version.known_as.as_ref().is_none_or(|(name, number)| concerns(name, *number));
            match version.why {
                Unlisted::UnseenStore => gaps.unseen.extend(UnseenPlace::of(version)),
                _ if !is_concerned => {}
                Unlisted::OutOfSight | Unlisted::NoKey => gaps.out_of_sight += 1,
                _ => gaps.unlisted += 1,
            }
        })?;
        if gaps.unseen.is_empty() {
            gaps.unlisted += std::mem::take(&mut gaps.out_of_sight);
        }
        Ok(gaps)
    }

    /// True if the catalogue has no gaps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Lists the segments in staging, or returns why it can't be used.
fn staging_segments(archive: &Archive) -> Result<Result<Vec<u64>, StagingError>, ArchiveError> {
    match check_staging(archive) {
        Ok(()) => Ok(archive.staging().segments()),
        Err(ArchiveError::Staging(error)) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}
