//! Reconciles stores and staging with the catalogue after a crash.

use std::collections::{HashMap, HashSet};

use fulgurite_domain::{ObjectRecord, VersionId};
use fulgurite_format::HEAD_BYTES;

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{
    Change, FoundVersion, NULL, NewVersion, SegmentEnd, SetDescription, SetState, StagedTombstone, Unlisted, VersionRowId, Versions,
};
use crate::paging::Pager;
use crate::rebuild::{Scanned, scan_staging, was_staging_unseen};
use crate::remove::{finish_removals, with_tombstones};
use crate::segments::release_segments;
use crate::staging::{check_staging, mark_staging};
use crate::watch::Unwatched;

const BATCH: usize = 1_000;

impl Archive {
    /// Reconciles stores and staging with the catalogue after a crash. It gives up sets that were
    /// being written, since all of their content is still staged; completes removals; acknowledges
    /// puts that were durable in all but the catalogue; and removes segments that are no longer
    /// needed. Work on a store that is absent waits for the next call.
    ///
    /// # Errors
    /// [`StagingError::Absent`](crate::staging::StagingError::Absent) if the staging folder has no
    /// mark, [`ArchiveError::SegmentMissing`] if the catalogue refers to missing bytes,
    /// [`ArchiveError::StagingUnseen`] if staging was absent in the last rebuild, and
    /// [`ArchiveError::ForeignSegment`] if staging belongs to another archive. In these cases
    /// nothing is changed.
    pub fn reconcile(&self) -> Result<(), ArchiveError> {
        check_staging(self)?;
        let mut existing = self.staging().segments()?;
        let used = self.catalogue().segments_in_use()?;
        self.staging().number_behind(self.catalogue().last_released()?);
        // A released segment reappears if an old copy of staging was restored. It is removed again
        // below.
        let old = self.catalogue().old_segments(&existing, &used)?;
        existing.retain(|segment| old.binary_search(segment).is_err());
        if let Some(&segment) = used.iter().find(|segment| existing.binary_search(segment).is_err()) {
            return Err(ArchiveError::SegmentMissing(segment));
        }
        if existing.iter().any(|segment| used.binary_search(segment).is_err()) && was_staging_unseen(self)? {
            return Err(ArchiveError::StagingUnseen);
        }
        // Before anything is removed: the catalogue may be an old copy that does not list what is
        // staged now.
        adopt_staged(self, &existing, &used)?;
        mark_staging(self)?;
        let sets = self.catalogue().sets()?;
        for set in sets.iter().filter(|set| set.state == SetState::Writing) {
            if drop_platters(self, &set.description) {
                self.catalogue().abandon_set(set.description.id)?;
            }
        }
        for store in self.stores() {
            if store.check().is_ok() {
                // What can't be removed now, as on a disk that has become read-only, is removed by
                // a later call. One failing disk must not keep the others from being written.
                let _ = store.sweep();
            }
        }
        let deleted: Vec<_> = self.catalogue().staged_tombstones()?.into_iter().map(|tombstone| tombstone.id).collect();
        finish_removals(self, &deleted)?;
        release_segments(self)
    }
}

/// Removes the platters of a set that is given up. Returns `false` if a store that can't be
/// used now may still hold one. Then the set must not be forgotten: the platter would belong to
/// no known set, and a rebuild would trust it.
fn drop_platters(archive: &Archive, set: &SetDescription) -> bool {
    let mut all = true;
    for place in &set.platters {
        // A store that is no longer in the settings is gone for good.
        let Some(store) = archive.store(&place.store) else { continue };
        // A disk that has become read-only, or fails, may work again later.
        if store.check().is_err() || store.remove(place.platter).is_err() {
            all = false;
        }
    }
    all
}

/// Acknowledges versions that are complete in staging but unknown to the catalogue, and
/// truncates each segment after its acknowledged records.
///
/// A crash between the last sync and the catalogue's transaction leaves such versions. With an
/// old copy of the catalogue, they are all versions put since the copy was made. They are
/// acknowledged before anything new is put, so that each keeps its number.
///
/// A version without a key is never dropped: keys are stored before records, so its key was
/// lost. The tombstone of a removed version stays in the catalogue as long as the version's
/// segment may exist. A tombstone that the catalogue doesn't know counts only if the key of its
/// version is gone, because keys are destroyed after the catalogue has acknowledged the
/// removal. Otherwise the removal was never acknowledged.
fn adopt_staged(archive: &Archive, existing: &[u64], used: &[u64]) -> Result<(), ArchiveError> {
    let ends: HashMap<u64, u64> = archive.catalogue().segment_ends()?.into_iter().map(|end| (end.segment, end.bytes)).collect();
    let mut tails = Vec::new();
    for &segment in used {
        if let Some(&end) = ends.get(&segment)
            && archive.staging().length(segment)? > end
        {
            tails.push(SegmentEnd { segment, bytes: end });
        }
    }
    let unknown = existing.iter().copied().filter(|segment| used.binary_search(segment).is_err());
    let mut new: Vec<u64> = unknown.chain(tails.iter().map(|tail| tail.segment)).collect();
    new.sort_unstable();
    if new.is_empty() {
        return Ok(());
    }
    let is_new = |segment: u64, position: u64| match ends.get(&segment) {
        Some(&end) => position >= end,
        None => used.binary_search(&segment).is_err(),
    };
    let (mut versions, mut scanned) = scan(archive, &new, &is_new)?;
    if scanned.unlisted.iter().any(|version| version.why == Unlisted::Incomplete) {
        // The missing parts may be in other segments.
        (versions, scanned) = scan(archive, existing, &is_new)?;
    }
    drop_removed(archive, &mut versions, &mut scanned)?;
    let completed = completed_removals(archive, &scanned.tombstones)?;
    let kept = acknowledged(&versions, &scanned, &completed, tails);
    if !completed.is_empty() {
        let removed = rows_of(archive, &completed)?;
        archive.catalogue().commit_delete(&removed, &completed)?;
    }
    if !versions.is_empty() {
        // They count as acknowledged from now on, and the crash may have come before their sync.
        archive.staging().sync(&new)?;
        remove_replaced(archive, &versions)?;
    }
    let found: Vec<FoundVersion> = versions.into_iter().map(FoundVersion::Staged).collect();
    for batch in found.chunks(BATCH) {
        archive.catalogue().adopt_versions(batch)?;
    }
    for batch in scanned.unlisted.chunks(BATCH) {
        archive.catalogue().adopt_unlisted(batch)?;
    }
    kept.iter().try_for_each(|&end| archive.staging().cut(end))?;
    Ok(archive.catalogue().commit(&Change { ends: kept, ..Change::default() })?)
}

/// Scans segments. Versions with a tombstone in them are dropped.
fn scan(archive: &Archive, segments: &[u64], is_new: &dyn Fn(u64, u64) -> bool) -> Result<(Vec<NewVersion>, Scanned), ArchiveError> {
    let mut versions = Vec::new();
    let mut scanned = scan_staging(archive, segments, is_new, &Unwatched, &mut |version| {
        versions.push(version);
        Ok(())
    })?;
    let Scanned { tombstones, unlisted, .. } = &mut scanned;
    versions.retain(|version| !tombstones.contains_key(&version.id));
    unlisted.retain(|version| !tombstones.contains_key(&version.id));
    Ok((versions, scanned))
}

/// Removes the null versions that these versions replaced: a name has one at most. A put commits
/// both together. Afterwards, a later put or removal would find only the newest of them.
fn remove_replaced(archive: &Archive, versions: &[NewVersion]) -> Result<(), ArchiveError> {
    let is_null = |record: &ObjectRecord| record.attributes.get(NULL).is_some_and(<[u8]>::is_empty);
    for new in versions.iter().filter(|new| is_null(&new.record)) {
        let mut replaced = archive.catalogue().versions_of(&new.record.name)?;
        replaced.retain(|row| row.id != new.id && row.record.version < new.record.version && is_null(&row.record));
        let (rows, ids): (Vec<_>, Vec<_>) = replaced.into_iter().map(|row| (row.row_id, row.id)).unzip();
        if !ids.is_empty() {
            with_tombstones(archive, &ids, |tombstones| archive.catalogue().commit_delete(&rows, tombstones))?;
        }
    }
    Ok(())
}

/// Drops versions that were removed, and those whose put was cut short.
fn drop_removed(archive: &Archive, versions: &mut Vec<NewVersion>, scanned: &mut Scanned) -> Result<(), ArchiveError> {
    // By a tombstone in staging or on platters: a rebuild drops such versions, and their segments
    // may still exist.
    let mut removed: HashSet<VersionId> = HashSet::new();
    for id in versions.iter().map(|version| version.id).chain(scanned.unlisted.iter().map(|version| version.id)) {
        if archive.catalogue().is_removed(id)? {
            removed.insert(id);
        }
    }
    let mut unlisted = std::mem::take(&mut scanned.unlisted);
    unlisted.retain(|version| {
        let is_torn = version.why == Unlisted::Incomplete && !scanned.was_acknowledged(version.id);
        !is_torn && !removed.contains(&version.id)
    });
    scanned.unlisted = unlisted;
    versions.retain(|version| !removed.contains(&version.id));
    Ok(())
}

/// The ends of the records to keep, for those `tails` in which everything else can be cut off.
fn acknowledged(versions: &[NewVersion], scanned: &Scanned, completed: &[StagedTombstone], tails: Vec<SegmentEnd>) -> Vec<SegmentEnd> {
    let mut kept: HashMap<u64, u64> = tails.into_iter().map(|tail| (tail.segment, tail.bytes)).collect();
    for version in versions {
        for place in version.data.iter().map(|data| data.place).chain([version.record_place]) {
            if let Some(end) = kept.get_mut(&place.segment) {
                let after = place.offset + u64::from(place.bytes).next_multiple_of(HEAD_BYTES as u64);
                *end = after.max(*end);
            }
        }
    }
    let of_unlisted = scanned.unlisted.iter().flat_map(|version| &version.segments);
    for segment in of_unlisted.chain(completed.iter().map(|tombstone| &tombstone.segment)) {
        kept.remove(segment);
    }
    kept.into_iter().map(|(segment, bytes)| SegmentEnd { segment, bytes }).collect()
}

/// Tombstones that the catalogue doesn't know although their removals were acknowledged.
fn completed_removals(archive: &Archive, found: &HashMap<VersionId, u64>) -> Result<Vec<StagedTombstone>, ArchiveError> {
    let known: Vec<VersionId> = archive.catalogue().staged_tombstones()?.into_iter().map(|tombstone| tombstone.id).collect();
    let mut completed = Vec::new();
    // In an archive without keys, an acknowledged removal can't be told from an unacknowledged one.
    if archive.settings().archive.encrypt {
        for (&id, &segment) in found {
            if known.binary_search(&id).is_err() && matches!(archive.keys().get(id), Ok(None)) {
                completed.push(StagedTombstone { id, segment });
            }
        }
    }
    Ok(completed)
}

/// The sealed versions in the catalogue that these tombstones remove. Scans the whole
/// catalogue, which is fine because old copies of a catalogue are rare.
fn rows_of(archive: &Archive, tombstones: &[StagedTombstone]) -> Result<Vec<VersionRowId>, ArchiveError> {
    let ids: HashSet<VersionId> = tombstones.iter().map(|tombstone| tombstone.id).collect();
    let mut found = Vec::new();
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| archive.catalogue().list(b"", Versions::All, after, BATCH))? {
        found.extend(page.iter().filter(|row| row.sealed && ids.contains(&row.id)).map(|row| row.row_id));
    }
    Ok(found)
}
