//! The state of an archive, as far as it is known without reading content.

use std::collections::HashSet;

use fulgurite_domain::PlatterId;

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::Unlisted;
use crate::rebuild::{UnseenPlace, each_unlisted};
use crate::staging::{StagingError, check_staging};
use crate::uncatalogued::{StoreComparison, compare_stores};

/// Problems of an archive other than the state of its stores and platters.
#[derive(Debug, Default)]
pub struct ArchiveStatus {
    /// Versions and file tables that exist but can't be listed.
    pub unlisted: u64,
    /// Places that the last rebuild of the catalogue could not read.
    pub unseen: Vec<UnseenPlace>,
    /// Platters on the stores that the catalogue doesn't know. If not 0, the catalogue is an old
    /// copy.
    pub unknown_platters: u64,
    /// Platters missing from stores that are present.
    pub missing_platters: HashSet<PlatterId>,
    /// Missing staging segments that the catalogue needs.
    pub missing_segments: u64,
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
        let mut status = Self { unknown_platters: uncatalogued.len() as u64, missing_platters: missing, ..Self::default() };
        let mut without_key = 0;
        each_unlisted(archive, &mut |version| match version.why {
            Unlisted::UnseenStore => status.unseen.extend(UnseenPlace::of(version)),
            Unlisted::OutOfSight | Unlisted::NoKey => without_key += 1,
            _ => status.unlisted += 1,
        })?;
        // While places remain unseen, these versions may be intact or removed.
        if status.unseen.is_empty() {
            status.unlisted += without_key;
        }
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

/// Lists the segments in staging, or returns why it can't be used.
fn staging_segments(archive: &Archive) -> Result<Result<Vec<u64>, StagingError>, ArchiveError> {
    match check_staging(archive) {
        Ok(()) => Ok(archive.staging().segments()),
        Err(ArchiveError::Staging(error)) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}
