//! Removing: versions are forgotten and their keys destroyed.
//!
//! What is on platters stays there, and can't be read any more by anyone: neither bytes nor names, for both are sealed under the key that
//! is gone. (In an archive that stores in the clear it stays readable to whoever has the platter.) A tombstone is staged, so that
//! a rebuild of the catalogue doesn't bring the version back.

use fulgurite_domain::{SetId, VersionId};
use fulgurite_format::RecordKind;

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{PlatterPlace, SetState, StagedTombstone, Unlisted, UnlistedVersion, VersionKey, VersionRow};
use crate::staging::{SegmentWriter, StagingError};
use crate::unread::NoPlatter;

impl Archive {
    /// Removes versions, for ever.
    ///
    /// # Errors
    /// What failed. Before the catalogue's transaction nothing is removed; a removal that is cut short behind it is completed by the next
    /// opening.
    pub fn remove(&self, versions: &[VersionRow]) -> Result<(), ArchiveError> {
        if versions.is_empty() {
            return Ok(());
        }
        let forgotten = self.forget(versions);
        let sealed: Vec<VersionId> = versions.iter().filter(|version| version.sealed).map(|version| version.id).collect();
        let removed = forgotten.and_then(|()| Ok(self.keys().destroy(&sealed)?));
        // Whether it worked or not: a tombstone without the catalogue's word for it must not be found by a rebuild one day.
        let released = self.release_segments();
        removed.and(released)
    }

    /// Gives up versions that exist and can't be listed, for ever: they are removed like any other. Of a file table that can't be read, only the
    /// mention goes, until the next rebuild.
    ///
    /// # Errors
    /// What failed; before the catalogue's transaction nothing is given up.
    pub fn give_up(&self, versions: &[UnlistedVersion]) -> Result<(), ArchiveError> {
        let (tables, versions): (Vec<_>, Vec<_>) = versions.iter().partition(|version| version.why == Unlisted::UnreadableTable);
        let tables: Vec<VersionId> = tables.into_iter().map(|table| table.id).collect();
        self.catalogue().forget_unlisted(&tables, &[])?;
        let ids: Vec<VersionId> =
            versions.into_iter().filter(|version| version.why != Unlisted::UnseenStore).map(|version| version.id).collect();
        let writing = self.staging().begin()?;
        let mut writer = writing.writer();
        let tombstones = stage_tombstones(&mut writer, &ids)?;
        self.catalogue().forget_unlisted(&ids, &tombstones)?;
        drop(writer);
        drop(writing);
        let removed = self.keys().destroy(&ids);
        let released = self.release_segments();
        Ok(removed?).and(released)
    }

    /// Gives up a set that can't be made whole again, and of which nothing is needed. What is left of its platters stays where it is, and
    /// is not read any more.
    ///
    /// # Errors
    /// [`ArchiveError::SetKept`] says why it is kept.
    pub fn give_up_set(&self, set: SetId) -> Result<(), ArchiveError> {
        let kept = |why: &str| ArchiveError::SetKept { set, hindrance: None, why: why.to_owned() };
        let row = self.catalogue().sets()?.into_iter().find(|row| row.description.id == set && row.state == SetState::Complete);
        let description = row.ok_or_else(|| kept("the catalogue does not know it, or it is being written"))?.description;
        let found = self.look_for(&description.platters);
        if let Some(away) = found.iter().find_map(|found| found.as_ref().err().filter(|why| why.hindrance().is_some())) {
            let why = format!("not all of its platters can be looked for: {away}");
            return Err(ArchiveError::SetKept { set, hindrance: away.hindrance(), why });
        }
        let rows = self.catalogue().platters()?;
        let is_damaged = |platter| rows.iter().any(|row| row.place.platter == platter && row.health.lost_sectors > 0);
        let is_gone = |(place, found): &(&PlatterPlace, &Result<_, NoPlatter>)| {
            matches!(found, Err(NoPlatter::Missing { .. })) || is_damaged(place.platter)
        };
        let gone = description.platters.iter().zip(&found).filter(is_gone).count();
        if gone <= usize::from(description.shape.redundancy) {
            return Err(kept(
                "no more of its platters are missing, or were damaged when last read, than its redundancy makes good. \
                 `fulgurite scrub` repairs it",
            ));
        }
        match self.catalogue().forget_set(set)? {
            true => Ok(()),
            false => Err(kept("versions are on it. `fulgurite verify` names those that are lost, and `fulgurite rm` removes them")),
        }
    }

    /// Stages tombstones and takes the versions out of the catalogue.
    fn forget(&self, versions: &[VersionRow]) -> Result<(), ArchiveError> {
        let writing = self.staging().begin()?;
        let mut writer = writing.writer();
        let ids: Vec<VersionId> = versions.iter().map(|version| version.id).collect();
        let tombstones = stage_tombstones(&mut writer, &ids)?;
        let keys: Vec<VersionKey> = versions.iter().map(|version| version.key).collect();
        Ok(self.catalogue().commit_delete(&keys, &tombstones)?)
    }

    /// Destroys the keys of what an [`Intake`](crate::Intake) has removed, clears their names from the catalogue's log, and removes segments that
    /// nothing needs any more. Until then, whoever has the archive's disks could still read what was removed.
    ///
    /// # Errors
    /// What failed; the next sweep tries it again.
    pub fn sweep(&self) -> Result<(), ArchiveError> {
        let forgotten = std::mem::take(&mut *self.forgotten());
        if !forgotten.is_empty() {
            if let Err(error) = self.keys().destroy(&forgotten) {
                self.forgotten().extend(forgotten);
                return Err(error.into());
            }
            self.catalogue().clear_log()?;
        }
        self.release_segments()
    }

    /// Does what is left to do for versions that the catalogue has forgotten: their keys are destroyed, and the segments they were staged in go.
    pub(crate) fn finish_removals(&self, tombstones: &[VersionId]) -> Result<(), ArchiveError> {
        if tombstones.is_empty() {
            return Ok(());
        }
        self.keys().destroy(tombstones)?;
        self.release_segments()
    }
}

/// Stages tombstones, which survive a crash when it returns.
fn stage_tombstones(writer: &mut SegmentWriter<'_>, ids: &[VersionId]) -> Result<Vec<StagedTombstone>, StagingError> {
    let mut tombstones = Vec::with_capacity(ids.len());
    for &id in ids {
        let place = writer.append(RecordKind::Tombstone, id, 0, false, &[])?;
        tombstones.push(StagedTombstone { id, segment: place.segment });
    }
    writer.unsynced()?.sync()?;
    Ok(tombstones)
}
