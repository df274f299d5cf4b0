//! Removes versions: deletes them from the catalogue and destroys their keys.
//!
//! Removed content stays on platters but can't be read, neither bytes nor names, because both are
//! sealed under the destroyed key. (A copy of the keys made before still opens it, and without
//! encryption it stays readable on the platter.) A tombstone is staged so that
//! rebuilding the catalogue doesn't bring the version back.

use std::sync::atomic::Ordering;

use fulgurite_domain::{SetId, VersionId};
use fulgurite_format::RecordKind;

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{
    CatalogueError, Change, PlatterPlace, SetDescription, SetState, StagedTombstone, Unlisted, UnlistedVersion, VersionRow, VersionRowId,
};
use crate::error::SetKeptReason;
use crate::paging::Pager;
use crate::segments::release_segments;
use crate::store_snapshot::{StoreSnapshot, locate_platters};
use crate::tables::{HeaderTrouble, header_in};
use crate::unread::NoPlatter;

const PAGE: usize = 1_000;

impl Archive {
    /// Removes versions permanently.
    ///
    /// # Errors
    /// [`ArchiveError`]. Before the catalogue's transaction nothing is removed; a removal
    /// interrupted after it is completed when the archive is next opened.
    pub fn remove(&self, versions: &[VersionRow]) -> Result<(), ArchiveError> {
        if versions.is_empty() {
            return Ok(());
        }
        let ids: Vec<VersionId> = versions.iter().map(|version| version.id).collect();
        let row_ids: Vec<VersionRowId> = versions.iter().map(|version| version.row_id).collect();
        let forgotten = with_tombstones(self, &ids, |tombstones| self.catalogue().commit_delete(&row_ids, tombstones));
        let sealed: Vec<VersionId> = versions.iter().filter(|version| version.sealed).map(|version| version.id).collect();
        let removed = forgotten.and_then(|()| Ok(self.keys().destroy(&sealed)?));
        // Release segments even after a failure: a later rebuild must not find a tombstone that the
        // catalogue never committed.
        let released = release_segments(self);
        removed.and(released)
    }

    /// Permanently gives up versions that exist but can't be listed; they are removed like any
    /// other. For an unreadable file table, only its entry is dropped, until the next rebuild.
    ///
    /// # Errors
    /// [`ArchiveError`]; before the catalogue's transaction nothing is given up.
    pub fn give_up(&self, versions: &[UnlistedVersion]) -> Result<(), ArchiveError> {
        let (tables, versions): (Vec<_>, Vec<_>) = versions.iter().partition(|version| version.why == Unlisted::UnreadableTable);
        let tables: Vec<VersionId> = tables.into_iter().map(|table| table.id).collect();
        self.catalogue().forget_unlisted(&tables, &[])?;
        let ids: Vec<VersionId> =
            versions.into_iter().filter(|version| version.why != Unlisted::UnseenStore).map(|version| version.id).collect();
        with_tombstones(self, &ids, |tombstones| self.catalogue().forget_unlisted(&ids, tombstones))?;
        let removed = self.keys().destroy(&ids);
        let released = release_segments(self);
        Ok(removed?).and(released)
    }

    /// Gives up a set that can't be repaired and holds no needed content. Its remaining platters
    /// stay where they are but are no longer read.
    ///
    /// # Errors
    /// [`ArchiveError::SetKept`] if the set must be kept, with the reason.
    pub fn give_up_set(&self, set: SetId) -> Result<(), ArchiveError> {
        let kept = |why: SetKeptReason| ArchiveError::SetKept { set, why };
        let row = self.catalogue().sets()?.into_iter().find(|row| row.description.id == set && row.state == SetState::Complete);
        let description = row.ok_or_else(|| kept(SetKeptReason::Unknown))?.description;
        let found = locate_platters(self, &description.platters);
        if let Some(unread) = found.iter().find_map(|found| found.as_ref().err().filter(|why| why.hindrance().is_some())) {
            return Err(kept(SetKeptReason::Unchecked(Box::new(unread.clone()))));
        }
        let rows = self.catalogue().platters()?;
        let is_damaged = |platter| rows.iter().any(|row| row.place.platter == platter && row.health.lost_tracks > 0);
        let is_lost = |(place, found): &(&PlatterPlace, &Result<_, NoPlatter>)| {
            matches!(found, Err(NoPlatter::Missing { .. })) || is_damaged(place.platter)
        };
        let lost = description.platters.iter().zip(&found).filter(is_lost).count();
        if lost <= usize::from(description.shape.redundancy) && !has_no_header(self, &description) {
            return Err(kept(SetKeptReason::Repairable));
        }
        if self.catalogue().unlisted_count()? > 0 {
            return Err(kept(SetKeptReason::Unlisted));
        }
        if !self.catalogue().versions_on(&description.platters.iter().map(|place| place.platter).collect::<Vec<_>>(), None, 1)?.is_empty() {
            return Err(kept(SetKeptReason::InUse));
        }
        // Before the set goes, or the versions that its tombstones removed would come back one day.
        restage(self, &tombstones_on(self, set)?)?;
        match self.catalogue().forget_set(set)? {
            true => Ok(()),
            false => Err(kept(SetKeptReason::InUse)),
        }
    }

    /// Destroys the keys of versions that an [`Intake`](crate::Intake) removed, clears their names
    /// from the catalogue's log, and removes unneeded segments. Until then, the removed content can
    /// still be read from the archive's disks. If a reader keeps the log from being cleared, the
    /// next sweep clears it.
    ///
    /// # Errors
    /// [`ArchiveError`]; the next sweep retries.
    pub fn sweep(&self) -> Result<(), ArchiveError> {
        let forgotten = std::mem::take(&mut *self.keys_to_destroy());
        if !forgotten.is_empty() {
            // Noted before anything can fail.
            self.has_log_to_clear.store(true, Ordering::SeqCst);
            if let Err(error) = self.keys().destroy(&forgotten) {
                self.keys_to_destroy().extend(forgotten);
                return Err(error.into());
            }
        }
        if self.has_log_to_clear.swap(false, Ordering::SeqCst) {
            let cleared = self.catalogue().clear_log();
            self.has_log_to_clear.fetch_or(!matches!(cleared, Ok(true)), Ordering::SeqCst);
            cleared?;
        }
        release_segments(self)
    }
}

/// True if none of the set's platters has a good header, so that no scrub can replace them. One
/// that can't be read may have one.
fn has_no_header(archive: &Archive, set: &SetDescription) -> bool {
    let snapshot = StoreSnapshot::take(archive);
    let copies = set.platters.iter().flat_map(|place| snapshot.find_all(place).into_iter().map(|found| (place.platter, found.file)));
    copies.into_iter().all(|(platter, file)| matches!(header_in(&*file, platter), Err(HeaderTrouble::Bad(_))))
}

fn tombstones_on(archive: &Archive, set: SetId) -> Result<Vec<VersionId>, ArchiveError> {
    let mut found = Vec::new();
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| archive.catalogue().archived_tombstones(after.copied(), PAGE))? {
        found.extend(page.into_iter().filter(|(_, on)| *on == set).map(|(id, _)| id));
    }
    Ok(found)
}

/// Stages tombstones again, so that the next set has them.
pub(crate) fn restage(archive: &Archive, removed: &[VersionId]) -> Result<(), ArchiveError> {
    if removed.is_empty() {
        return Ok(());
    }
    with_tombstones(archive, removed, |tombstones| {
        archive.catalogue().commit(&Change { tombstones: tombstones.to_vec(), ..Change::default() })
    })
}

/// Stages tombstones and syncs them, and then records them in the catalogue. Until that is done,
/// their segments can't be released.
pub(crate) fn with_tombstones(
    archive: &Archive,
    ids: &[VersionId],
    record: impl FnOnce(&[StagedTombstone]) -> Result<(), CatalogueError>,
) -> Result<(), ArchiveError> {
    let writing = archive.staging().begin()?;
    let mut writer = writing.writer();
    let mut tombstones = Vec::with_capacity(ids.len());
    for &id in ids {
        let place = writer.append(RecordKind::Tombstone, id, 0, false, &[])?;
        tombstones.push(StagedTombstone { id, segment: place.segment });
    }
    writer.unsynced()?.sync()?;
    Ok(record(&tombstones)?)
}

/// Completes removals that the catalogue has committed: destroys the keys and releases the
/// segments.
pub(crate) fn finish_removals(archive: &Archive, tombstones: &[VersionId]) -> Result<(), ArchiveError> {
    if tombstones.is_empty() {
        return Ok(());
    }
    archive.keys().destroy(tombstones)?;
    release_segments(archive)
}
