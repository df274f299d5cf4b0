//! Carries over what only the earlier catalogue knows, so that a rebuild never makes an archive
//! forget.

use std::collections::{HashMap, HashSet};

use fulgurite_domain::{SetId, VersionId};

use super::{BATCH, RebuildReport};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{
    After, Catalogue, CatalogueError, FoundVersion, NewVersion, SetState, Unlisted, UnlistedVersion, VersionRow, Versions,
};
use crate::watch::{Trouble, Watcher};

/// Why carrying over stopped: the new catalogue failed, or the earlier one did. The latter doesn't
/// end the rebuild.
enum Stopped {
    Archive(ArchiveError),
    Earlier(CatalogueError),
}

impl From<ArchiveError> for Stopped {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error)
    }
}

/// What an earlier catalogue tells before platters are read.
#[derive(Default)]
pub(super) struct EarlierSets {
    /// Sets that were complete.
    pub(super) complete: HashSet<SetId>,
    /// Sets that were being written.
    pub(super) writing: HashSet<SetId>,
    /// Versions whose tombstones are not in staging, and were not found on platters so far.
    pub(super) unplaced: HashSet<VersionId>,
}

impl Archive {
    /// Adds the removals that the earlier catalogue knew to `tombstones`, and returns what else it
    /// tells before platters are read.
    pub(super) fn removals_and_sets(
        &self,
        earlier: &mut dyn Catalogue,
        segments: &[u64],
        tombstones: &mut HashMap<VersionId, u64>,
    ) -> Result<EarlierSets, CatalogueError> {
        let mut known = EarlierSets::default();
        for tombstone in earlier.staged_tombstones()? {
            let is_there = segments.binary_search(&tombstone.segment).is_ok();
            tombstones.entry(tombstone.id).or_insert(if is_there { tombstone.segment } else { 0 });
            if !is_there {
                known.unplaced.insert(tombstone.id);
            }
        }
        let mut after = None;
        loop {
            let page = earlier.archived_tombstones(after, BATCH)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (id, _) in page {
                if *tombstones.entry(id).or_insert(0) == 0 {
                    known.unplaced.insert(id);
                }
            }
        }
        for set in earlier.sets()? {
            match set.state {
                SetState::Complete => known.complete.insert(set.description.id),
                SetState::Writing => known.writing.insert(set.description.id),
            };
        }
        Ok(known)
    }

    /// Carries over what only the earlier catalogue knows: sets without any platter found, the
    /// versions on them, and versions whose record can't be opened now. The inner error is the
    /// earlier catalogue's; entries carried over before it stay.
    pub(super) fn carry_over(
        &self,
        earlier: &mut dyn Catalogue,
        tombstones: &HashMap<VersionId, u64>,
        segments: &[u64],
        report: &mut RebuildReport,
        watcher: &dyn Watcher,
    ) -> Result<Result<(), CatalogueError>, ArchiveError> {
        match self.carry_all(earlier, tombstones, segments, report, watcher) {
            Ok(()) => Ok(Ok(())),
            Err(Stopped::Earlier(error)) => Ok(Err(error)),
            Err(Stopped::Archive(error)) => Err(error),
        }
    }

    fn carry_all(
        &self,
        earlier: &mut dyn Catalogue,
        tombstones: &HashMap<VersionId, u64>,
        segments: &[u64],
        report: &mut RebuildReport,
        watcher: &dyn Watcher,
    ) -> Result<(), Stopped> {
        let known: HashSet<SetId> =
            self.catalogue().sets().map_err(ArchiveError::from)?.into_iter().map(|set| set.description.id).collect();
        for set in earlier.sets().map_err(Stopped::Earlier)? {
            if set.state == SetState::Complete && !known.contains(&set.description.id) {
                report.sets += 1;
                report.missing += set.description.platters.len() as u64;
                self.catalogue().adopt_set(&set.description).map_err(ArchiveError::from)?;
            }
        }
        // What was staged in a folder that is absent comes back with it.
        let missed = if report.misses_staging() { Unlisted::OutOfSight } else { Unlisted::Gone };
        let mut after = None;
        loop {
            let page = earlier.list(b"", Versions::All, after.as_ref(), BATCH).map_err(Stopped::Earlier)?;
            let Some(last) = page.last() else { break };
            after = Some(After::row(last));
            let (mut found, mut gone, mut listed) = (Vec::new(), Vec::new(), Vec::new());
            for row in page {
                let is_known = self.catalogue().version(&row.record.name, row.id).map_err(ArchiveError::from)?.is_some();
                if is_known || tombstones.contains_key(&row.id) {
                    continue;
                }
                let id = row.id;
                let has_no_key = row.sealed && self.keys().get(id).is_ok_and(|key| key.is_none());
                if has_no_key {
                    report.no_key += 1;
                    let why = "no key: it is not in the key store. `fulgurite keys import` brings keys back from a copy";
                    watcher.trouble(Trouble::Lost { name: &row.record.name, version: row.record.version, why });
                }
                match found_version(earlier, row, segments).map_err(Stopped::Earlier)? {
                    Ok(version) => {
                        if !has_no_key && let FoundVersion::Staged(staged) = &version {
                            self.note_damaged(staged, report, watcher);
                        }
                        found.push(version);
                        listed.push(id);
                    }
                    Err(version) => gone.push(UnlistedVersion { why: missed, ..version }),
                }
            }
            report.carried_over += found.len() as u64;
            self.catalogue().adopt_versions(&found).map_err(ArchiveError::from)?;
            self.catalogue().forget_unlisted(&listed, &[]).map_err(ArchiveError::from)?;
            self.catalogue().adopt_unlisted(&gone).map_err(ArchiveError::from)?;
        }
        self.carry_unlisted(earlier, missed, tombstones, segments)
    }

    /// Reports a staged version that scanning the segments should have found but didn't: part of it
    /// is damaged.
    fn note_damaged(&self, version: &NewVersion, report: &mut RebuildReport, watcher: &dyn Watcher) {
        let mut payload = Vec::new();
        let mut places = version.data.iter().map(|data| data.place).chain([version.record_place]);
        if let Err(error) = places.try_for_each(|place| self.staging().read(place, &mut payload)) {
            report.incomplete += 1;
            let (name, version) = (&version.record.name, version.record.version);
            watcher.trouble(Trouble::Lost { name, version, why: &error.to_string() });
        }
    }

    /// Carries over versions that were already gone in the earlier catalogue and still aren't
    /// found.
    fn carry_unlisted(
        &self,
        earlier: &mut dyn Catalogue,
        missed: Unlisted,
        tombstones: &HashMap<VersionId, u64>,
        segments: &[u64],
    ) -> Result<(), Stopped> {
        let mut after = None;
        loop {
            let mut page = earlier.unlisted(after, BATCH).map_err(Stopped::Earlier)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            // Scanning finds nameless versions again if they exist. Only versions with a known name
            // can be missed.
            page.retain(|version| matches!(version.why, Unlisted::Gone | Unlisted::OutOfSight) && !tombstones.contains_key(&version.id));
            for version in &mut page {
                version.why = missed;
                version.segments.retain(|segment| segments.binary_search(segment).is_ok());
            }
            let mut still = Vec::new();
            for version in page {
                let listed = match &version.known_as {
                    Some((name, _)) => self.catalogue().version(name, version.id).map_err(ArchiveError::from)?.is_some(),
                    None => false,
                };
                if !listed {
                    still.push(version);
                }
            }
            self.catalogue().adopt_unlisted(&still).map_err(ArchiveError::from)?;
        }
    }
}

/// Builds a version from its row in the earlier catalogue. The inner error means that its staging
/// segments are gone.
fn found_version(
    earlier: &mut dyn Catalogue,
    row: VersionRow,
    segments: &[u64],
) -> Result<Result<FoundVersion, UnlistedVersion>, CatalogueError> {
    let VersionRow { key, id, record, sealed, stored_bytes, archived } = row;
    if archived {
        let extents = earlier.extents(key)?;
        return Ok(Ok(FoundVersion::Archived { id, record, sealed, stored_bytes, extents }));
    }
    if let Some((record_place, data)) = earlier.staged(key)? {
        let mut places = data.iter().map(|data| data.place).chain([record_place]);
        if places.all(|place| segments.binary_search(&place.segment).is_ok()) {
            return Ok(Ok(FoundVersion::Staged(NewVersion { id, record, sealed, stored_bytes, record_place, data })));
        }
    }
    let known_as = Some((record.name, record.version));
    Ok(Err(UnlistedVersion { id, why: Unlisted::Gone, stored_bytes, known_as, segments: Vec::new() }))
}
